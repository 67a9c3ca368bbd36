// SPDX-License-Identifier: Apache-2.0
// Lines on standard output, unbuffered: scripts and tests wait for them.

internal import AccessoryModel

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

/// What our programs write for people and scripts.
public enum StandardOutput {
    /// Writes a line at once.
    public static func line(_ text: String) { write(text + "\n") }

    /// Writes text as it is, at once, or in ASCII where the locale has no more. A program that cannot
    /// write ends with status 1, so that a script does not take a part for the whole. (A pipe without a reader is no
    /// failure.)
    public static func write(_ text: String) { write(data: inLocale(text)) }

    /// Text as `write` writes it, for callers that measure it first.
    public static func inLocale(_ text: String) -> String { isASCII ? ascii(text) : text }

    /// Writes text that is UTF-8 in every locale, such as JSON.
    public static func write(data text: String) {
        let reason = put(text, 1)
        guard reason != 0, reason != EPIPE else { return }
        errorLine("cannot write to standard output: \(String(cString: strerror(reason)))")
        exit(1)
    }

    /// A line on standard error.
    public static func errorLine(_ text: String) { _ = put(inLocale(text) + "\n", 2) }

    /// Whether the locale asks for ASCII: `C` or `POSIX`. Without a locale it is UTF-8, as everywhere on systemd's
    /// machines.
    private static var isASCII: Bool {
        let values = ["LC_ALL", "LC_CTYPE", "LANG"].compactMap { (name: String) in getenv(name).map { String(cString: $0) } }
        return values.first { !$0.isEmpty }.map { ["C", "POSIX"].contains($0) } ?? false
    }

    /// Replaces our own signs by ASCII, and any other character by “?”.
    static func ascii(_ text: String) -> String {
        let signs: [UnicodeScalar: String] = [
            "“": "\"", "”": "\"", "’": "'", "…": "...", "–": "-", "−": "-", "→": "->", "↑": "^", "↓": "v", "▮": "#", "▯": ".",
            "▀": " ",
            "×": "x",
        ]
        return text.unicodeScalars.reduce(into: "") { result, scalar in
            if scalar.isASCII { result.unicodeScalars.append(scalar) } else { result += signs[scalar] ?? "?" }
        }
    }

    /// - Returns: errno(3)'s number if a part was not written; 0 otherwise.
    private static func put(_ text: String, _ descriptor: Int32) -> Int32 {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { writeOnce(descriptor, $0) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return count < 0 ? errno : EIO }
            bytes = bytes.dropFirst(count)
        }
        return 0
    }

    private static func writeOnce(_ descriptor: Int32, _ buffer: UnsafeRawBufferPointer) -> Int {
        #if canImport(Glibc)
            Glibc.write(descriptor, buffer.baseAddress!, buffer.count)
        #else
            Musl.write(descriptor, buffer.baseAddress!, buffer.count)
        #endif
    }

    /// Text from strangers (an accessory's name) as a terminal may have it, which obeys control characters; see
    /// `ShownName.marked`.
    public static func printable(_ text: String) -> String { ShownName.marked(text) }
}

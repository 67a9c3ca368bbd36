// SPDX-License-Identifier: Apache-2.0
// Lines on standard output, unbuffered: scripts and tests wait for them.

internal import AccessoryModel
internal import Glibc

/// The programs' output for people and scripts.
public enum StandardOutput {
    /// Writes a line at once.
    public static func line(_ text: String) { write(text + "\n") }

    /// Writes text at once, in ASCII if the locale demands that. A program that cannot write exits with status 1, so
    /// that a script never takes incomplete output for complete. (A pipe without a reader is not a failure.)
    public static func write(_ text: String) { write(data: inLocale(text)) }

    /// Text as `write` writes it, for callers that measure it.
    public static func inLocale(_ text: String) -> String { isASCII ? ascii(text) : text }

    /// Writes text that is UTF-8 in every locale, such as JSON.
    public static func write(data text: String) {
        let reason = put(Array(text.utf8)[...], 1)
        guard reason != 0, reason != EPIPE else { return }
        errorLine("cannot write to standard output: \(String(cString: strerror(reason)))")
        exit(1)
    }

    /// False for a pipe whose reader has gone; a command without an end of its own ends then. SIGPIPE is no substitute:
    /// its default action also ends a program that writes to a socket of a dead server.
    public static var hasReader: Bool {
        var output = pollfd(fd: 1, events: 0, revents: 0)
        return poll(&output, 1, 0) <= 0 || output.revents & Int16(POLLERR) == 0
    }

    /// A line on standard error.
    public static func errorLine(_ text: String) { put(Array((inLocale(text) + "\n").utf8)[...], 2) }

    /// Whether the locale is `C` or `POSIX`. Without a locale the output is UTF-8, systemd's default.
    private static var isASCII: Bool {
        let values = ["LC_ALL", "LC_CTYPE", "LANG"].compactMap { (name: String) in getenv(name).map { String(cString: $0) } }
        return values.first { !$0.isEmpty }.map { ["C", "POSIX"].contains($0) } ?? false
    }

    /// Replaces the programs' symbols by ASCII, and any other character by “?”.
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

    /// Writes bytes to a descriptor.
    ///
    /// - Returns: errno(3)'s number on failure; else 0.
    @discardableResult
    public static func put(_ bytes: ArraySlice<UInt8>, _ descriptor: Int32) -> Int32 {
        var bytes = bytes
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { writeOnce(descriptor, $0) }
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN {
                // Another program has made the terminal non-blocking.
                var terminal = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&terminal, 1, -1)
                continue
            }
            guard count > 0 else { return count < 0 ? errno : EIO }
            bytes = bytes.dropFirst(count)
        }
        return 0
    }

    private static func writeOnce(_ descriptor: Int32, _ buffer: UnsafeRawBufferPointer) -> Int {
        Glibc.write(descriptor, buffer.baseAddress!, buffer.count)
    }

    /// Untrusted text (an accessory's name) without control characters, which a terminal would obey; see
    /// `ShownName.marked`.
    public static func printable(_ text: String) -> String { ShownName.marked(text) }
}

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

    /// Writes text as it is, at once. Nothing is said of a failure: whoever closed the pipe does not read.
    public static func write(_ text: String) { put(text, 1) }

    /// A line on standard error.
    public static func errorLine(_ text: String) { put(text + "\n", 2) }

    private static func put(_ text: String, _ descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { writeOnce(descriptor, $0) }
            guard count > 0 else { return }
            bytes = bytes.dropFirst(count)
        }
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

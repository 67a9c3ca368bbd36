// SPDX-License-Identifier: Apache-2.0
// The programs' log: to the journal with fields if standard error is the journal, else to standard error with a
// priority prefix, which systemd understands.

internal import Glibc
public import Logging

/// A swift-log handler for daemons and their tools.
public struct LogOutput: LogHandler {
    /// Lines below this level are not written.
    public var logLevel: Logger.Level
    /// Fields of every line.
    public var metadata: Logger.Metadata = [:]
    private let label: String
    private let journal: JournalSocket?

    /// - Parameter label: the name of the program or its part.
    public init(label: String, level: Logger.Level) {
        self.label = label
        logLevel = level
        journal = JournalSocket.shared
    }

    /// One of `metadata`.
    public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Writes one line with the fields of the handler and the event, whose fields override the handler's.
    public func log(event: LogEvent) {
        let fields = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
        var message = "\(event.message)"
        for (key, value) in fields { message += " \(key)=\(quoted("\(value)"))" }
        if let journal {
            // Fields are in the text for people, and separate for programs.
            journal.send(priority: event.level.priority, message: message, label: label, fields: fields)
            return
        }
        var line = (isatty(2) == 1 ? "\(label): \(event.level): " : "<\(event.level.priority)>\(label): ") + message
        // One write per line, so that lines of several programs do not mix.
        line += "\n"
        _ = line.withCString { write(2, $0, strlen($0)) }
    }

    private func quoted(_ text: String) -> String {
        text.contains(where: { $0.isWhitespace || $0 == "\"" }) ? text.debugDescription : text
    }
}

extension Logger.Level {
    /// The journal's priority (sd-daemon(3)).
    fileprivate var priority: Int {
        switch self {
        case .critical: 2
        case .error: 3
        case .warning: 4
        case .notice: 5
        case .info: 6
        case .debug, .trace: 7
        }
    }
}

/// The journal's own socket (systemd's "Native Journal Protocol").
private final class JournalSocket: Sendable {
    static let shared = JournalSocket()
    private let descriptor: Int32

    /// Nil unless standard error is the journal: a redirected log must not go there.
    private init?() {
        guard let stream = getenv("JOURNAL_STREAM") else { return nil }
        var status = stat()
        guard fstat(2, &status) == 0, String(cString: stream) == "\(status.st_dev):\(status.st_ino)" else { return nil }
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        guard UnixDatagram.connect(descriptor, to: "/run/systemd/journal/socket") else {
            close(descriptor)
            return nil
        }
        self.descriptor = descriptor
    }

    func send(priority: Int, message: String, label: String, fields: [(key: String, value: Logger.MetadataValue)]) {
        var text: [UInt8] = []
        func field(_ name: String, _ value: String) {
            text += Array(name.utf8)
            if value.utf8.contains(UInt8(ascii: "\n")) {
                // A value with line breaks: its length in 64 bits, little endian, then its bytes.
                text.append(UInt8(ascii: "\n"))
                withUnsafeBytes(of: UInt64(value.utf8.count).littleEndian) { text += Array($0) }
            } else {
                text.append(UInt8(ascii: "="))
            }
            text += Array(value.utf8)
            text.append(UInt8(ascii: "\n"))
        }
        field("PRIORITY", "\(priority)")
        field("SYSLOG_IDENTIFIER", label)
        field("MESSAGE", message)
        for (key, value) in fields {
            field("ACCESSORY_" + key.uppercased().map { $0.isLetter || $0.isNumber ? String($0) : "_" }.joined(), "\(value)")
        }
        _ = text.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress!, $0.count, Int32(MSG_NOSIGNAL)) }
    }
}

/// Datagrams to a Unix socket with a name.
enum UnixDatagram {
    /// - Parameter path: a file, or an abstract name after `@`.
    static func connect(_ descriptor: Int32, to path: String) -> Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(path.utf8)
        guard !bytes.isEmpty, bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return false }
        if bytes[0] == UInt8(ascii: "@") { bytes[0] = 0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, length) == 0 }
        }
    }
}

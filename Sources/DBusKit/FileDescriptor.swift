// A file descriptor with one owner: it arrived in a message or is about to leave in one, and is closed when nobody needs it.

internal import CSystem

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

/// Owns a file descriptor and closes it at the end of its life.
public final class FileDescriptor: Sendable, Equatable {
    /// Valid as long as the object lives.
    public let rawValue: Int32

    /// Takes ownership of `rawValue`.
    public init(owning rawValue: Int32) {
        self.rawValue = rawValue
    }

    deinit {
        close(rawValue)
    }

    public static func == (a: FileDescriptor, b: FileDescriptor) -> Bool { a === b }

    /// Two connected sockets that keep packets apart (`SOCK_SEQPACKET`), as bluetoothd hands them out; nil when there are no more.
    public static func packetPair() -> (FileDescriptor, FileDescriptor)? {
        var pair: [Int32] = [-1, -1]
        let type = Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard socketpair(AF_UNIX, type, 0, &pair) == 0 else { return nil }
        return (FileDescriptor(owning: pair[0]), FileDescriptor(owning: pair[1]))
    }

    /// Reads from the descriptor's offset 0, whatever the sender left as its position, up to `limit` bytes.
    ///
    /// - Returns: nil when the descriptor is not a regular file or sealed memory (a pipe could keep the reader waiting), cannot be
    ///   read, or holds more than `limit` bytes.
    public func readFile(limit: Int) -> [UInt8]? {
        var status = stat()
        guard fstat(rawValue, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= limit else { return nil }
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        var filled = 0
        while filled < bytes.count {
            let count = bytes.withUnsafeMutableBytes { buffer in
                pread(rawValue, buffer.baseAddress! + filled, buffer.count - filled, off_t(filled))
            }
            if count < 0 { return nil }
            if count == 0 { break }
            filled += count
        }
        guard filled <= limit else { return nil }
        bytes.removeSubrange(filled...)
        return bytes
    }

    /// A sealed, anonymous file with these bytes; nil when the system refuses.
    public static func sealed(_ bytes: [UInt8], name: String) -> FileDescriptor? {
        let descriptor = csystem_memfd(name)
        guard descriptor >= 0 else { return nil }
        let owner = FileDescriptor(owning: descriptor)
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress! + written, $0.count - written) }
            guard count > 0 else { return nil }
            written += count
        }
        lseek(descriptor, 0, SEEK_SET)
        _ = csystem_seal(descriptor)
        return owner
    }
}

// SPDX-License-Identifier: Apache-2.0
// A file descriptor with one owner: it arrived in a message or is about to leave in one, and is closed with its
// last reference.

internal import CSystem
internal import Glibc

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

    /// Whether they are one owner: two of the same file, or of the same number, are not equal.
    public static func == (a: FileDescriptor, b: FileDescriptor) -> Bool { a === b }

    /// Two connected sockets that keep packets apart (`SOCK_SEQPACKET`), as bluetoothd hands them out; nil when there
    /// are no more.
    public static func packetPair() -> (FileDescriptor, FileDescriptor)? {
        var pair: [Int32] = [-1, -1]
        let type = Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard socketpair(AF_UNIX, type, 0, &pair) == 0 else { return nil }
        return (FileDescriptor(owning: pair[0]), FileDescriptor(owning: pair[1]))
    }

    /// The outcome of sending a packet.
    public enum Sending: Sendable {
        case sent
        /// There is no room now; the descriptor becomes writable when there is.
        case full
        /// The other end is closed, or the packet is too long.
        case failed
    }

    /// Sends a packet on a socket, without waiting.
    public func sendPacket(_ bytes: UnsafeRawBufferPointer) -> Sending {
        if send(rawValue, bytes.baseAddress, bytes.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL)) >= 0 { return .sent }
        return errno == EAGAIN || errno == ENOBUFS || errno == EINTR ? .full : .failed
    }

    /// The number of the file behind it (`st_ino`): the same for each descriptor of one socket, in each process.
    public var fileNumber: UInt64 {
        var status = stat()
        return fstat(rawValue, &status) == 0 ? UInt64(status.st_ino) : 0
    }

    /// Ends a socket's connection both ways: the other end sees that at once, even while other processes hold this one.
    public func endConnection() {
        shutdown(rawValue, Int32(SHUT_RDWR))
    }

    /// Reads from the descriptor's offset 0, whatever the sender left as its position, up to `limit` bytes.
    ///
    /// - Returns: nil when the descriptor is not sealed memory or a regular file on a local file system (a pipe, or a
    ///   file system that another process plays, could keep the reader waiting for ever), cannot be read, or holds more
    ///   than `limit` bytes.
    public func readFile(limit: Int) -> [UInt8]? {
        var status = stat()
        guard isReadWithoutWaiting, fstat(rawValue, &status) == 0,
            status.st_mode & S_IFMT == S_IFREG, status.st_size <= limit
        else { return nil }
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

    /// Whether reading waits for a disk at most: memory, or a file on a file system that this process sees mounted
    /// and knows. One that is not mounted here (on btrfs each subvolume is such a one) is not trusted.
    private var isReadWithoutWaiting: Bool {
        if csystem_is_memory(rawValue) != 0 { return true }
        var (major, minor): (UInt32, UInt32) = (0, 0)
        guard csystem_device(rawValue, &major, &minor) == 0 else { return false }
        return Self.mountedFileSystem("\(major):\(minor)").map(Self.localFileSystems.contains) ?? false
    }

    private static let localFileSystems: Set<String> = [
        "bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "jffs2", "overlay", "ramfs", "squashfs", "tmpfs", "ubifs",
        "vfat",
        "xfs", "zfs",
    ]

    /// The type of a mounted file system by its device's numbers (proc_pid_mountinfo(5): the third field, and the first
    /// after the dash).
    private static func mountedFileSystem(_ device: String) -> String? {
        let descriptor = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var text: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            guard count > 0 else { break }
            text += buffer[..<count]
        }
        for line in String(decoding: text, as: UTF8.self).split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields.count > 3, fields[2] == device, let dash = fields.firstIndex(of: "-"), dash + 1 < fields.count else {
                continue
            }
            return String(fields[dash + 1])
        }
        return nil
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

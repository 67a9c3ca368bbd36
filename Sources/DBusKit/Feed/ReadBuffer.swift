// SPDX-License-Identifier: Apache-2.0
// The bytes that a feed has read and not handled yet: one buffer, in which messages are walked in place.

internal import Glibc

final class ReadBuffer {
    /// The result of a read.
    enum Filling {
        /// Bytes were read; whether the socket has no more.
        case read(isAll: Bool)
        case nothing
        case failed(String)
    }

    private var storage: UnsafeMutableRawBufferPointer
    private var begin = 0
    private var end = 0

    private static let initialSize = 64 << 10

    init() {
        storage = .allocate(byteCount: Self.initialSize, alignment: 16)
    }

    deinit {
        storage.deallocate()
    }

    /// Reads as much as fits, without waiting. Messages and lines returned before are not valid afterwards.
    func fill(from socket: FileDescriptor) -> Filling {
        makeRoom()
        let space = UnsafeMutableRawBufferPointer(rebasing: storage[end...])
        let count = recv(socket.rawValue, space.baseAddress!, space.count, Int32(MSG_DONTWAIT))
        if count == 0 { return .failed("the bus closed the connection") }
        if count < 0 {
            return errno == EAGAIN || errno == EINTR ? .nothing : .failed(String(cString: strerror(errno)))
        }
        end += count
        // A short read has emptied the socket.
        return .read(isAll: count < space.count)
    }

    /// Moves a partial message to the buffer's beginning, and grows for one that is longer.
    private func makeRoom() {
        let rest = UnsafeRawBufferPointer(rebasing: storage[begin..<end])
        let size = rest.count == storage.count ? storage.count * 2 : rest.isEmpty ? Self.initialSize : storage.count
        if size == storage.count {
            if begin > 0, !rest.isEmpty { memmove(storage.baseAddress!, rest.baseAddress!, rest.count) }
        } else {
            let new = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
            new.copyMemory(from: rest)
            storage.deallocate()
            storage = new
        }
        (begin, end) = (0, rest.count)
    }

    /// The next whole message; nil while it is not complete.
    func nextMessage() throws(WireMessage.Problem) -> UnsafeRawBufferPointer? {
        let bytes = UnsafeRawBufferPointer(rebasing: storage[begin..<end])
        guard let length = try WireMessage.length(of: bytes), length <= bytes.count else { return nil }
        begin += length
        return UnsafeRawBufferPointer(rebasing: bytes[..<length])
    }

    /// The next line, without its end; nil while it is not complete.
    ///
    /// - Throws: for a line that is too long to be of the D-Bus protocol.
    func nextLine() throws(WireMessage.Problem) -> UnsafeRawBufferPointer? {
        let bytes = UnsafeRawBufferPointer(rebasing: storage[begin..<end])
        guard let newline = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
            if bytes.count > 1024 { throw WireMessage.Problem("the bus does not speak D-Bus") }
            return nil
        }
        begin += newline + 1
        return UnsafeRawBufferPointer(rebasing: bytes[..<newline])
    }
}

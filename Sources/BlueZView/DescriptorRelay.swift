// SPDX-License-Identifier: Apache-2.0
// Between a descriptor of org.bluez (AcquireWrite, AcquireNotify) and the one that the app holds: packets go through here, so that
// revoking can end it, and closing the app's end ends the other too.

internal import DBusKit
internal import Glibc

/// Passes packets between two sockets, both ways, until one side closes or `close()`.
final class DescriptorRelay {
    /// Called once, when a side closes.
    private var onClosed: (() -> Void)?
    private let loop: MainLoop
    /// The radio service's, and the inner one of the pair whose outer one the app holds.
    private let sockets: [FileDescriptor]
    private var sources: [LoopSource?] = [nil, nil]
    /// A packet that the other side had no room for; until it has, nothing more is read: whoever sends feels it.
    private var held: [[UInt8]?] = [nil, nil]
    private var buffer = [UInt8](repeating: 0, count: DescriptorRelay.longestPacket)

    /// Far above the longest attribute (512 bytes).
    private static let longestPacket = 4096
    /// Packets passed on in one turn of the loop.
    private static let burst = 64

    /// - Returns: the relay and the app's socket; nil when `descriptor` is no socket that keeps packets apart, or there are no descriptors
    ///   left.
    static func make(for descriptor: FileDescriptor, loop: MainLoop) -> (relay: DescriptorRelay, outer: FileDescriptor)? {
        var type: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(descriptor.rawValue, SOL_SOCKET, SO_TYPE, &type, &length) == 0 else { return nil }
        guard type == Int32(SOCK_SEQPACKET.rawValue) || type == Int32(SOCK_DGRAM.rawValue) else { return nil }
        guard let (inner, outer) = FileDescriptor.packetPair() else { return nil }
        return (DescriptorRelay([descriptor, inner], loop), outer)
    }

    private init(_ sockets: [FileDescriptor], _ loop: MainLoop) {
        self.sockets = sockets
        self.loop = loop
        for side in 0...1 { listen(side) }
    }

    deinit {
        close()
    }

    /// Has `body` called when a side closes, but not after `close()`.
    func whenClosed(_ body: @escaping () -> Void) {
        onClosed = body
    }

    /// Both sides see the end of the file.
    func close() {
        onClosed = nil
        for source in sources { source?.cancel() }
        sources = [nil, nil]
        // The sockets may have other holders.
        for socket in sockets { shutdown(socket.rawValue, Int32(SHUT_RDWR)) }
    }

    private func listen(_ side: Int) {
        sources[side]?.cancel()
        sources[side] = loop.onReadable(sockets[side].rawValue) { [weak self] in self?.pass(from: side) ?? false }
    }

    /// True to go on listening.
    private func pass(from side: Int) -> Bool {
        for _ in 0..<Self.burst {
            let count = recv(sockets[side].rawValue, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            if count < 0 { return errno == EAGAIN || errno == EINTR ? true : sideClosed() }
            // An empty packet, or the end.
            if count == 0, isClosed(side) { return sideClosed() }
            guard send(1 - side, buffer[..<count]) else { return false }
        }
        return true
    }

    /// A side has closed: false, because nothing is listened to any more.
    private func sideClosed() -> Bool {
        let onClosed = onClosed
        close()
        onClosed?()
        return false
    }

    private func isClosed(_ side: Int) -> Bool {
        var entry = pollfd(fd: sockets[side].rawValue, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, 0) > 0 && Int32(entry.revents) & (POLLHUP | POLLERR) != 0
    }

    /// False when reading is to stop: there is no room, or nobody any more.
    private func send(_ side: Int, _ packet: ArraySlice<UInt8>) -> Bool {
        let sent = packet.withUnsafeBytes {
            Glibc.send(sockets[side].rawValue, $0.baseAddress, $0.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
        }
        if sent >= 0 { return true }
        guard errno == EAGAIN || errno == ENOBUFS || errno == EINTR else { return sideClosed() }
        held[side] = Array(packet)
        sources[1 - side]?.cancel()
        sources[1 - side] = nil
        // Meanwhile only whether there is room; the end of this side is seen when that comes.
        sources[side]?.cancel()
        sources[side] = loop.onWritable(sockets[side].rawValue) { [weak self] in self?.resume(side) ?? false }
        return false
    }

    private func resume(_ side: Int) -> Bool {
        guard let packet = held[side] else { return false }
        held[side] = nil
        sources[side]?.cancel()
        sources[side] = nil
        guard send(side, packet[...]) else { return false }
        for side in 0...1 { listen(side) }
        return false
    }
}

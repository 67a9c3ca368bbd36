// SPDX-License-Identifier: Apache-2.0
// Between a descriptor of org.bluez (AcquireWrite, AcquireNotify) and the one that the app holds: packets go through
// here, so that revoking can end it, and closing the app's end ends the other too.

internal import CSystem
internal import DBusKit
internal import Glibc

/// Passes packets between two sockets, both ways, until one side closes or `close()`.
final class DescriptorRelay {
    /// Whose end of a socket pair is the other one.
    enum Side: Int {
        case service, app
    }

    /// Asked before packets from a side are passed on; with false both sides see the end of the file.
    var mayPass: (Side) -> Bool = { _ in true }
    /// Called once, when a side closes.
    private var onClosed: (() -> Void)?
    private let loop: MainLoop
    /// The radio service's, and the inner one of the pair whose outer one the app holds.
    private let sockets: [FileDescriptor]
    private var sources: [LoopSource?] = [nil, nil]
    /// Of reading from each side; in one, its source is nil.
    private var pauses: [ReadingPauses] = []
    /// Packets that a side has no room for; until it has, nothing more is read for it, so the sender blocks.
    private var held: [[[UInt8]]] = [[], []]

    /// The sockets are for a later process.
    private var isLeft = false

    /// Far above the longest attribute (512 bytes).
    private static let maxPacket = 4096
    /// Packets that one call receives, or sends.
    private static let packetsPerCall = 8
    /// Such calls in one turn of the loop.
    private static let callsPerTurn = 8

    /// - Parameter pace: when a stream is read.
    /// - Returns: the relay and the app's socket; nil when `descriptor` is no socket that keeps packets apart, or there
    ///   are no descriptors left.
    static func make(
        for descriptor: FileDescriptor, loop: MainLoop, pace: StreamPace = StreamPace()
    ) -> (relay: DescriptorRelay, outer: FileDescriptor)? {
        var type: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(descriptor.rawValue, SOL_SOCKET, SO_TYPE, &type, &length) == 0 else { return nil }
        guard type == Int32(SOCK_SEQPACKET.rawValue) || type == Int32(SOCK_DGRAM.rawValue) else { return nil }
        guard let (inner, outer) = FileDescriptor.packetPair() else { return nil }
        return (DescriptorRelay([descriptor, inner], loop, pace), outer)
    }

    /// A relay that an earlier process has left.
    convenience init(resuming service: FileDescriptor, _ app: FileDescriptor, loop: MainLoop) {
        self.init([service, app], loop, StreamPace())
    }

    /// Leaves both sockets to a later process: the service's and the app's.
    ///
    /// - Returns: nil while packets are held that a side has no room for.
    func leave() -> (service: FileDescriptor, app: FileDescriptor)? {
        guard held.allSatisfy(\.isEmpty) else { return nil }
        onClosed = nil
        for side in 0...1 { stopReading(side) }
        isLeft = true
        return (sockets[0], sockets[1])
    }

    private init(_ sockets: [FileDescriptor], _ loop: MainLoop, _ pace: StreamPace) {
        self.sockets = sockets
        self.loop = loop
        pauses = (0...1).map { side in
            ReadingPauses(
                on: loop, pace, read: { [weak self] in self?.pass(from: side) ?? 0 }, listen: { [weak self] in self?.listen(side) })
        }
        for side in 0...1 { listen(side) }
    }

    deinit {
        close()
    }

    /// Has `body` called when a side closes, but not after `close()`.
    func whenClosed(_ body: @escaping () -> Void) {
        onClosed = body
    }

    /// Whether a stream waits out a pause.
    var isPausing: Bool { pauses.contains { $0.isPausing } }

    /// Passes on packets of one side that wait in a pause.
    func catchUp(_ side: Side) {
        if pauses[side.rawValue].isPausing { _ = pass(from: side.rawValue) }
    }

    /// Both sides see the end of the file. Packets that wait in a pause are dropped.
    func close() {
        guard !isLeft else { return }
        onClosed = nil
        for side in 0...1 { stopReading(side) }
        // The sockets may have other holders.
        for socket in sockets { socket.endConnection() }
    }

    private func listen(_ side: Int) {
        sources[side]?.cancel()
        sources[side] = loop.onReadable(sockets[side].rawValue) { [weak self] in self?.becameReadable(side) ?? false }
    }

    private func stopReading(_ side: Int) {
        pauses[side].end()
        sources[side]?.cancel()
        sources[side] = nil
    }

    /// True to go on listening.
    private func becameReadable(_ side: Int) -> Bool {
        guard let taken = pass(from: side) else { return false }
        guard pauses[side].begin(after: taken) else { return true }
        sources[side] = nil
        return false
    }

    /// How many packets were passed on; nil when nothing is to be read any more.
    private func pass(from side: Int) -> Int? {
        guard isAllowed(from: side) else { return nil }
        return withUnsafeTemporaryAllocation(byteCount: Self.packetsPerCall * Self.maxPacket, alignment: 16) { space in
            let bytes = space.baseAddress!.assumingMemoryBound(to: UInt8.self)
            var packets = csystem_packets()
            packets.bytes = bytes
            packets.size = UInt32(Self.maxPacket)
            var taken = 0
            for _ in 0..<Self.callsPerTurn {
                let count = Int(csystem_receive(sockets[side].rawValue, &packets))
                if count < 0 {
                    if errno == EAGAIN || errno == EINTR { return taken }
                    sideClosed()
                    return nil
                }
                // An empty packet, or the end.
                let end = (0..<count).first { length(of: $0, in: packets) == 0 && isClosed(side) } ?? count
                guard send(1 - side, packets, end) else { return nil }
                if end < count {
                    sideClosed()
                    return nil
                }
                taken += count
                // Nothing was left.
                if count < Self.packetsPerCall { break }
            }
            return taken
        }
    }

    /// Whether packets from a side may be passed on now; when not, the relay ends.
    private func isAllowed(from side: Int) -> Bool {
        if mayPass(side == 0 ? .service : .app) { return true }
        sideClosed()
        return false
    }

    private func length(of index: Int, in packets: csystem_packets) -> Int {
        withUnsafeBytes(of: packets.lengths) { Int($0.loadUnaligned(fromByteOffset: index * 4, as: UInt32.self)) }
    }

    /// A side has closed: nothing is read any more.
    private func sideClosed() {
        let onClosed = onClosed
        close()
        onClosed?()
    }

    private func isClosed(_ side: Int) -> Bool {
        var entry = pollfd(fd: sockets[side].rawValue, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, 0) > 0 && Int32(entry.revents) & (POLLHUP | POLLERR) != 0
    }

    /// False when reading must stop: the side has no room, or is closed.
    private func send(_ side: Int, _ packets: csystem_packets, _ end: Int) -> Bool {
        var sent = 0
        var packets = packets
        while sent < end {
            let count = Int(csystem_send(sockets[side].rawValue, &packets, Int32(sent), Int32(end)))
            if count > 0 {
                sent += count
            } else if errno == EAGAIN || errno == ENOBUFS || errno == EINTR {
                let left = (sent..<end).map { index in
                    Array(
                        UnsafeBufferPointer(
                            start: packets.bytes + index * Self.maxPacket, count: length(of: index, in: packets))
                    )
                }
                hold(left, for: side)
                return false
            } else {
                sideClosed()
                return false
            }
        }
        return true
    }

    private func hold(_ packets: [[UInt8]], for side: Int) {
        held[side] = packets
        // Meanwhile only whether there is room; the end of this side is seen when that comes.
        for side in 0...1 { stopReading(side) }
        sources[side] = loop.onWritable(sockets[side].rawValue) { [weak self] in self?.resume(side) ?? false }
    }

    private func resume(_ side: Int) -> Bool {
        guard isAllowed(from: 1 - side) else { return false }
        var left = held[side][...]
        while let packet = left.first {
            switch packet.withUnsafeBytes(sockets[side].sendPacket) {
            case .sent: left.removeFirst()
            case .full:
                held[side] = Array(left)
                return true
            case .failed:
                sideClosed()
                return false
            }
        }
        held[side] = []
        sources[side]?.cancel()
        sources[side] = nil
        for side in 0...1 { listen(side) }
        return false
    }
}

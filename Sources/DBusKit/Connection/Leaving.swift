// SPDX-License-Identifier: Apache-2.0
// A connection that outlives its process: one process leaves it, its socket is kept elsewhere (the service manager's
// descriptor store), and the next process takes it up. Neither a bus nor a peer at the other end notices.

internal import CDBus
internal import Glibc

/// A connection without a process, as far as its socket does not say.
public struct LeftConnection: Hashable, Sendable {
    /// Ours on a bus; a peer's, on a socket of our own.
    public let uniqueName: String
    /// Whether a peer has agreed to descriptors.
    public let takesDescriptors: Bool
    /// The number of the last message that was sent; the next process counts on.
    public let lastSerial: UInt32

    /// Stores its arguments.
    public init(uniqueName: String, takesDescriptors: Bool, lastSerial: UInt32) {
        self.uniqueName = uniqueName
        self.takesDescriptors = takesDescriptors
        self.lastSerial = lastSerial
    }
}

extension Connection {
    /// Leaves the connection to a later process. A peer's calls that are not answered get `error`; nothing may be sent
    /// on this connection afterwards.
    ///
    /// - Returns: the socket; nil for a connection that cannot be left: it is closed, has not begun to send messages,
    ///   or does not read all that it was sent.
    public func leave(answering error: BusError) -> (socket: FileDescriptor, left: LeftConnection)? {
        guard isConnected, isGreeted else { return nil }
        catchUp()
        transport.dispatchAll()
        for serial in unanswered.sorted() { Message.error(error, answering: serial).map(send) }
        transport.writeOut()
        guard isConnected, outgoingBytes == 0, let socket, case let own = fcntl(socket, F_DUPFD_CLOEXEC, 3), own >= 0 else {
            return nil
        }
        let left = LeftConnection(uniqueName: uniqueName, takesDescriptors: peer?.takesDescriptors ?? true, lastSerial: lastSerial)
        return (FileDescriptor(owning: own), left)
    }

    /// Takes up a connection that an earlier process has left.
    ///
    /// - Parameter limits: of a peer on a socket of our own; nil for a connection to a bus.
    /// - Throws: when there is no descriptor for it, or the earlier process has ended in the middle of a message.
    public convenience init(
        resuming socket: FileDescriptor, _ left: LeftConnection, peer limits: PeerLimits?, reading: Reading = .immediate,
        loop: MainLoop
    ) throws(BusError) {
        guard Self.isBetweenMessages(socket.rawValue) else { throw .failed("a part of a message is missing") }
        self.init(resuming: try PeerTransport.open(socket.rawValue), left, peer: limits, reading: reading, loop: loop)
    }

    /// Whether the bytes that wait at a socket, if any, begin a message. libdbus does not say when it has read half a
    /// message. (D-Bus Specification, "Message Format")
    private static func isBetweenMessages(_ socket: Int32) -> Bool {
        var header = [UInt8](repeating: 0, count: 4)
        guard recv(socket, &header, header.count, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) == header.count else { return true }
        return [UInt8(ascii: "l"), UInt8(ascii: "B")].contains(header[0]) && (1...4).contains(header[1]) && header[3] == 1
    }
}

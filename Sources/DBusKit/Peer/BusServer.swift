// SPDX-License-Identifier: Apache-2.0
// A socket of our own that D-Bus clients connect to. The owner of the connections decides their view of the bus.

internal import CSystem
internal import Glibc

/// How much one peer may send at once.
public struct PeerLimits: Hashable, Sendable {
    /// Bytes of one message, and of all that were received and not taken yet; `Connection.limitMessages` changes it.
    public var messageBytes = 64 << 10
    /// Descriptors of one message.
    public var messageDescriptors = 16

    /// 64 KiB and 16 descriptors.
    public init() {}
}

/// Listens for D-Bus clients, on the thread of its `MainLoop` only.
public final class BusServer {
    /// Where to listen.
    public enum Address: Sendable {
        /// A socket at this path, which any local user may connect to. An old socket there is replaced.
        case path(String)
        /// Sockets that listen already.
        case listening([FileDescriptor])
    }

    /// Takes a new connection, of which nothing was read yet.
    public var onConnection: ((Connection) -> Void)?
    /// The server's own identifier, 32 hexadecimal digits.
    public let identifier: String

    private let address: Address
    private let loop: MainLoop
    private let limits: PeerLimits
    private let nameNext: () -> String
    private var sockets: [FileDescriptor] = []
    private var sources: [Int32: LoopSource] = [:]
    /// Until a client that could not be accepted is tried again: no descriptor was free, and the socket stays readable.
    private static let pause = Duration.milliseconds(500)

    /// - Parameter naming: the unique name of the next connection.
    /// - Throws: when the socket cannot be made.
    public init(
        _ address: Address, loop: MainLoop, limits: PeerLimits = PeerLimits(), naming nameNext: @escaping () -> String
    ) throws(BusError) {
        self.address = address
        self.loop = loop
        self.limits = limits
        self.nameNext = nameNext
        identifier = (0..<16).map { _ in Self.hexadecimal(.random(in: .min ... .max)) }.joined()
        switch address {
        case .path(let path):
            let socket = csystem_listen(path, 0o666)
            guard socket >= 0 else { throw .failed("cannot listen at \(path): \(String(cString: strerror(errno)))") }
            sockets = [FileDescriptor(owning: socket)]
        case .listening(let given): sockets = given
        }
        for socket in sockets { listen(socket.rawValue) }
    }

    deinit {
        for source in sources.values { source.cancel() }
        if case .path(let path) = address { unlink(path) }
    }

    private static func hexadecimal(_ byte: UInt8) -> String {
        let digits = String(byte, radix: 16)
        return digits.count < 2 ? "0" + digits : digits
    }

    private func listen(_ socket: Int32) {
        sources[socket] = loop.onReadable(socket) { [weak self] in
            guard let self else { return false }
            if self.accept(socket) { return true }
            self.sources[socket] = self.loop.after(Self.pause) { [weak self] in self?.listen(socket) }
            return false
        }
    }

    /// - Returns: false when a client waits that could not be accepted.
    private func accept(_ socket: Int32) -> Bool {
        let descriptor = csystem_accept(socket)
        guard descriptor >= 0 else { return [EAGAIN, ECONNABORTED, EINTR].contains(errno) }
        let client = FileDescriptor(owning: descriptor)
        guard let onConnection else { return true }
        guard let raw = try? PeerTransport.open(client.rawValue) else { return false }
        onConnection(
            Connection(peer: raw, named: nameNext(), handshake: Handshake(identifier), limits: limits, loop: loop))
        return true
    }
}

// SPDX-License-Identifier: Apache-2.0
// One client's socket: bytes in and out, without waiting for either side. Until the handshake is over it costs a buffer
// of 128 bytes and a few seconds; afterwards it has a connection of its own to the app's socket (`ProxyConnection`).

internal import DBusKit
internal import InternetAddresses
internal import ESPHomeAPI
internal import Glibc
internal import Logging

/// A client of the door.
final class DoorClient {
    private enum Phase {
        /// The handshake must be over when the time is.
        case greeting(LoopSource)
        /// The key is known; the first message proves that it is no replay.
        case greeted(KeyID, LoopSource)
        case proxied(KeyID, ProxyConnection)
        case ended

        var key: KeyID? {
            switch self {
            case .greeted(let key, _), .proxied(let key, _): key
            case .greeting, .ended: nil
            }
        }
    }

    /// Bytes that a client has not read: adverts wait beyond the first, and the connection ends beyond the second.
    private static let congestion = 64 << 10
    private static let maxUnread = 1 << 20
    static let handshakeTime = Duration.seconds(5)

    let address: InternetAddress
    private let socket: FileDescriptor
    private unowned let server: DoorServer
    private var phase: Phase
    private var channel: SecureChannel
    private var unread: [UInt8] = []
    private var reading: LoopSource?
    private var writing: LoopSource?

    init(_ socket: FileDescriptor, _ address: InternetAddress, _ server: DoorServer) {
        self.socket = socket
        self.address = address
        self.server = server
        channel = SecureChannel(name: server.gateway.info.name, address: server.gateway.info.address)
        phase = .ended
        phase = .greeting(
            server.loop.after(Self.handshakeTime) { [weak self] in self?.end("it did not finish the handshake in time") })
        reading = server.loop.onReadable(socket.rawValue) { [weak self] in
            self?.read()
            return self != nil
        }
    }

    /// The client's key; nil before the handshake is over.
    var key: KeyID? { phase.key }

    var isProxied: Bool { if case .proxied = phase { true } else { false } }
    var isCongested: Bool { unread.count > Self.congestion }

    /// Whether the client holds, or wants, a link to a device.
    func holds(_ path: ObjectPath) -> Bool {
        if case .proxied(_, let connection) = phase { connection.holds(path) } else { false }
    }

    // MARK: Reading

    private func read() {
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        let count = recv(socket.rawValue, &buffer, buffer.count, 0)
        guard count > 0 else {
            if count < 0, errno == EAGAIN || errno == EINTR { return }
            return end(count == 0 ? nil : String(cString: strerror(errno)))
        }
        for output in channel.receive(buffer[..<count], keys: { server.apps.keys(for: address) }) { perform(output) }
    }

    private func perform(_ output: SecureChannel.Output) {
        switch output {
        case .send(let bytes): write(bytes)
        case .greeted(let key):
            guard case .greeting(let timer) = phase else { return }
            phase = .greeted(key, timer)
        case .request(let request):
            if case .greeted(let key, let timer) = phase {
                timer.cancel()
                begin(key)
            }
            if case .proxied(_, let connection) = phase { connection.take(request) }
        case .end(let reason): end(reason)
        }
    }

    private func begin(_ key: KeyID) {
        guard let app = server.apps[key.app], app.keyID == key else { return end("its key was revoked") }
        guard server.admits(app) else { return end("too many connections with this key") }
        do throws(BusError) {
            let connection = try ProxyConnection(self, app, key, server)
            phase = .proxied(key, connection)
            app.clients.append(self)
            server.log.notice(
                "client connected", metadata: ["app": "\(key.app)", "key": "\(key.fingerprint)", "address": "\(address)"])
        } catch {
            end("the app's socket: \(error.message)")
        }
    }

    // MARK: Writing

    func send(_ message: ServerMessage) {
        if case .ended = phase { return }
        write(channel.bytes(of: message))
    }

    private func write(_ bytes: [UInt8]) {
        unread += bytes
        guard unread.count <= Self.maxUnread else { return end("it does not read its messages") }
        flush()
    }

    private func flush() {
        while !unread.isEmpty {
            let count = Glibc.send(socket.rawValue, unread, unread.count, Int32(MSG_NOSIGNAL))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                if errno == EAGAIN { return waitForSpace() }
                // The reading side hears why.
                unread = []
                return
            }
            unread.removeFirst(count)
        }
        writing?.cancel()
        writing = nil
    }

    private func waitForSpace() {
        guard writing == nil else { return }
        writing = server.loop.onWritable(socket.rawValue) { [weak self] in
            self?.flush()
            return self?.writing != nil
        }
    }

    // MARK: End

    /// Ends the connection, once the waiting bytes are written as far as the socket takes them.
    ///
    /// - Parameter reason: for the log; nil for a client that has closed it.
    func end(_ reason: String?) {
        let former = phase
        phase = .ended
        switch former {
        case .ended: return
        case .greeting(let timer): timer.cancel()
        case .greeted(_, let timer): timer.cancel()
        case .proxied(_, let connection): connection.end()
        }
        reading?.cancel()
        writing?.cancel()
        socket.endConnection()
        server.ended(self, former.key, reason)
    }
}

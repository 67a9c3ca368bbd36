// SPDX-License-Identifier: Apache-2.0
// A socket in place of a bus, which sends the test's own bytes to each client that connects.

public import DBusKit
internal import Glibc

/// Listens on a Unix socket; input from clients is read and dropped.
public final class PlayedBus {
    private let directory: TemporaryDirectory
    private let loop: MainLoop
    private let listening: Int32
    private var clients: [Int32] = []
    private var words: [[UInt8]] = []
    /// Where it listens.
    public let address: Connection.Address

    public init(on loop: MainLoop) throws {
        self.loop = loop
        directory = try TemporaryDirectory()
        let path = directory.path + "/bus"
        self.address = .server("unix:path=\(path)")
        listening = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let bound = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listening, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        precondition(bound == 0 && listen(listening, 8) == 0)
        loop.onReadable(listening) { [weak self] in
            guard let self else { return false }
            let client = accept(self.listening, nil, nil)
            guard client >= 0 else { return true }
            self.clients.append(client)
            for word in self.words { Self.send(word, client) }
            return true
        }
    }

    deinit {
        for client in clients { close(client) }
        close(listening)
    }

    /// Says it to all who have connected, and to those who will.
    public func say(_ words: String) { say(Array(words.utf8)) }

    /// Says it to all who have connected, and to those who will.
    public func say(_ bytes: [UInt8]) {
        words.append(bytes)
        for client in clients { Self.send(bytes, client) }
    }

    /// Ends all connections.
    public func hangUp() {
        for client in clients { close(client) }
        clients = []
    }

    /// The bytes that the clients have sent since the last call.
    public func heard() -> [UInt8] {
        var all: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        for client in clients {
            while case let count = recv(client, &buffer, buffer.count, Int32(MSG_DONTWAIT)), count > 0 {
                all += buffer.prefix(count)
            }
        }
        return all
    }

    private static func send(_ bytes: [UInt8], _ client: Int32) {
        _ = bytes.withUnsafeBytes { Glibc.send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Connections of a socket of our own, apart from their messages: their end at every stage.

import DBusKit
import Glibc
import TestSupport
import Testing

@Suite struct PeerTests {
    private let directory: TemporaryDirectory
    private let loop = MainLoop()

    init() throws {
        directory = try TemporaryDirectory()
    }

    /// libdbus ends a process that takes back more than it gave.
    @Test(arguments: ["", "\0AUTH EXTERNAL 30\r\n", "\0AUTH EXTERNAL 30\r\nBEGIN\r\n"])
    func onePeerIsLetGoAtEachStage(_ words: String) throws {
        let path = directory.path + "/peers"
        let server = try BusServer(.path(path), loop: loop) { ":peer.1" }
        weak var former: Connection?
        for closes in [true, false] {
            var peer: Connection?
            server.onConnection = { peer = $0 }
            let socket = try self.socket(to: path)
            defer { close(socket) }
            #expect(send(socket, words, words.utf8.count, Int32(MSG_NOSIGNAL)) == words.utf8.count)
            #expect(loop.run(until: { peer != nil }, timeout: .hang))
            for _ in 0..<8 { loop.iterate(mayBlock: false) }
            former = peer
            if closes { peer?.close() }
            peer = nil
            #expect(former == nil)
        }
        // Not even kept.
        server.onConnection = { former = $0 }
        let socket = try self.socket(to: path)
        defer { close(socket) }
        for _ in 0..<8 { loop.iterate(mayBlock: false) }
        #expect(former == nil)
        withExtendedLifetime(server) {}
    }

    private func socket(to path: String) throws -> Int32 {
        let socket = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let connected = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(connected == 0)
        return socket
    }
}

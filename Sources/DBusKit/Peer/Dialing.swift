// SPDX-License-Identifier: Apache-2.0
// The client's side of a connection without a bus: to a socket that another program listens on. Nothing here waits for
// that program.

internal import CSystem
internal import Glibc

extension Connection {
    /// Connects to a listening socket; messages may be sent at once. A peer that refuses the authentication is
    /// disconnected.
    ///
    /// - Throws: when the socket is absent, or takes no connection now.
    public convenience init(toPeerAt path: String, limits: PeerLimits, loop: MainLoop) throws(BusError) {
        let socket = try Self.dial(path)
        guard Greeting.say(ClientHandshake.words, on: socket.rawValue) else {
            throw .failed("\(path): \(String(cString: strerror(errno)))")
        }
        self.init(
            peer: try PeerTransport.open(socket.rawValue), named: "", handshake: ClientHandshake(), limits: limits, loop: loop)
    }

    /// Connects to a listening socket, says nothing, and closes the connection: a service manager starts the program
    /// that the socket belongs to.
    ///
    /// - Throws: when the socket is absent, or takes no connection now.
    public static func knock(at path: String) throws(BusError) { _ = try dial(path) }

    private static func dial(_ path: String) throws(BusError) -> FileDescriptor {
        let descriptor = csystem_connect(path)
        guard descriptor >= 0 else { throw .failed("\(path): \(String(cString: strerror(errno)))") }
        return FileDescriptor(owning: descriptor)
    }
}

/// Reads a server's answers. The client has said everything before the first answer, as the specification allows.
struct ClientHandshake: PeerHandshake {
    /// Our uid, in the digits of its text.
    static var words: String {
        let user = String(geteuid()).utf8.map { "3\($0 - 0x30)" }.joined()
        return "\0AUTH EXTERNAL \(user)\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n"
    }

    private var isAccepted = false
    private var line: [UInt8] = []
    private(set) var isDone = false
    private(set) var hasFailed = false
    private(set) var takesDescriptors = false

    mutating func receive(_ bytes: some Collection<UInt8>) -> (taken: Int, answer: String) {
        var taken = 0
        for byte in bytes {
            if isDone || hasFailed { break }
            taken += 1
            line.append(byte)
            if line.count > Handshake.maxLineBytes { hasFailed = true }
            guard line.suffix(2) == [0x0D, 0x0A] else { continue }
            let word = String(decoding: line.dropLast(2).prefix { $0 != 0x20 }, as: UTF8.self)
            line = []
            switch (word, isAccepted) {
            case ("OK", false): isAccepted = true
            case ("AGREE_UNIX_FD", true), ("ERROR", true): (isDone, takesDescriptors) = (true, word == "AGREE_UNIX_FD")
            default: hasFailed = true
            }
        }
        return (taken, "")
    }
}

// SPDX-License-Identifier: Apache-2.0
// Authentication on a socket, on either side: reads the peer's lines on the loop, without a byte of the messages that
// follow, and answers as the handshake decides.

internal import Glibc

final class Greeting {
    enum End {
        /// Messages follow; whether the peer takes descriptors.
        case begins(takesDescriptors: Bool)
        /// The peer is to be disconnected.
        case failed
    }

    private let socket: Int32
    private var handshake: any PeerHandshake
    private let onEnd: (End) -> Void
    private var source: LoopSource?

    /// - Parameters:
    ///   - socket: connected; the owner closes it.
    ///   - onEnd: called once, from the loop.
    init(on socket: Int32, _ handshake: any PeerHandshake, loop: MainLoop, onEnd: @escaping (End) -> Void) {
        self.socket = socket
        self.onEnd = onEnd
        self.handshake = handshake
        source = loop.onReadable(socket) { [weak self] in self?.read() ?? false }
    }

    deinit {
        source?.cancel()
    }

    /// - Returns: whether there is more to come.
    private func read() -> Bool {
        guard exchange() else {
            onEnd(.failed)
            return false
        }
        guard handshake.isDone else { return true }
        onEnd(.begins(takesDescriptors: handshake.takesDescriptors))
        return false
    }

    /// - Returns: false when the peer is to be disconnected.
    private func exchange() -> Bool {
        var buffer = [UInt8](repeating: 0, count: Handshake.maxLineBytes)
        let there = recv(socket, &buffer, buffer.count, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT))
        if there < 0, errno == EAGAIN || errno == EINTR { return true }
        guard there > 0 else { return false }
        let (taken, answer) = handshake.receive(buffer.prefix(there))
        guard recv(socket, &buffer, taken, Int32(MSG_DONTWAIT)) == taken, !handshake.hasFailed else { return false }
        // The answers are short: a peer that has left no room for one has asked too often.
        return answer.isEmpty || Self.say(answer, on: socket)
    }

    /// - Returns: false when the socket does not take the entire text.
    static func say(_ text: String, on socket: Int32) -> Bool {
        let flags = Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL)
        return send(socket, text, text.utf8.count, flags) == text.utf8.count
    }
}

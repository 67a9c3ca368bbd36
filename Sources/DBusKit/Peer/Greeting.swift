// SPDX-License-Identifier: Apache-2.0
// A client's authentication on its socket: reads its lines on the loop, without a byte of the messages that follow, and
// answers as `Handshake` decides.

internal import Glibc

final class Greeting {
    enum End {
        /// Messages follow; whether the client takes descriptors.
        case begins(takesDescriptors: Bool)
        /// The client is to be disconnected.
        case failed
    }

    private let socket: Int32
    private var handshake: Handshake
    private let onEnd: (End) -> Void
    private var source: LoopSource?

    /// - Parameters:
    ///   - socket: connected; the owner closes it.
    ///   - identifier: the server's, 32 hexadecimal digits.
    ///   - onEnd: called once, from the loop.
    init(on socket: Int32, _ identifier: String, loop: MainLoop, onEnd: @escaping (End) -> Void) {
        self.socket = socket
        self.onEnd = onEnd
        handshake = Handshake(identifier)
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
        guard handshake.step == .done else { return true }
        onEnd(.begins(takesDescriptors: handshake.takesDescriptors))
        return false
    }

    /// - Returns: false when the client is to be disconnected.
    private func exchange() -> Bool {
        var buffer = [UInt8](repeating: 0, count: Handshake.maxLineBytes)
        let there = recv(socket, &buffer, buffer.count, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT))
        if there < 0, errno == EAGAIN || errno == EINTR { return true }
        guard there > 0 else { return false }
        let (taken, answer) = handshake.receive(buffer.prefix(there))
        guard recv(socket, &buffer, taken, Int32(MSG_DONTWAIT)) == taken, handshake.step != .failed else { return false }
        // The answers are short: a client that has left no room for one has asked too often.
        let flags = Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL)
        return answer.isEmpty || send(socket, answer, answer.utf8.count, flags) == answer.utf8.count
    }
}

// SPDX-License-Identifier: Apache-2.0
// A client's bytes before they are messages: the hello, the handshake that finds the client's key, and decryption. A
// value: bytes in, answers and messages out. (ESPHome's native API, “Noise”)

internal import ESPHomeAPI
internal import NoiseProtocol

/// One client's connection as bytes.
struct SecureChannel {
    /// The consequences of bytes.
    enum Output: Equatable {
        case send([UInt8])
        /// The client has proved that it has this key; its first message is still to come.
        case greeted(KeyID)
        case request(ClientRequest)
        /// Nothing more follows. The reason is for the log; a client that should know has been sent one before.
        case end(reason: String)
    }

    private enum State {
        case hello
        /// The prologue contains the client's hello.
        case handshake(prologue: [UInt8])
        case open(receiving: CipherState, sending: CipherState)
        case ended
    }

    private var state = State.hello
    private var frames = FrameReader()
    /// The gateway in the hello, which anyone may read.
    private let name: String
    private let address: String

    init(name: String, address: String) {
        self.name = name
        self.address = address
    }

    /// Takes the client's bytes.
    ///
    /// - Parameter keys: the keys that the client may have, asked for at the handshake.
    mutating func receive(_ bytes: some Sequence<UInt8>, keys: () -> [(KeyID, PreSharedKey)]) -> [Output] {
        frames.receive(bytes)
        var outputs: [Output] = []
        while true {
            if case .ended = state { return outputs }
            do throws(FrameReader.Fault) {
                guard let frame = try frames.next() else { return outputs }
                outputs += handle(frame, keys)
            } catch {
                outputs += refuse("Bad indicator byte", "\(error)")
            }
        }
    }

    private mutating func handle(_ frame: [UInt8], _ keys: () -> [(KeyID, PreSharedKey)]) -> [Output] {
        switch state {
        case .hello:
            state = .handshake(
                prologue: Array("NoiseAPIInit".utf8) + [UInt8(frame.count >> 8), UInt8(frame.count & 0xFF)] + frame)
            return [.send(FrameReader.frame([1] + Array(name.utf8) + [0] + Array(address.utf8) + [0]))]
        case .handshake(let prologue): return handshake(frame, prologue, keys)
        case .open(var receiving, let sending):
            // The state must not hold a second reference while the count grows.
            guard let message = receiving.decrypt(frame) else { return end("a message that is not encrypted with the key") }
            state = .open(receiving: receiving, sending: sending)
            guard message.count >= 4 else { return end("a message of \(message.count) bytes") }
            // The length in the message is that of the frame, less the header: ESPHome's clients ignore it, too.
            let type = UInt16(message[0]) << 8 | UInt16(message[1])
            guard let request = ClientRequest(type: type, message[4...]) else { return end("a malformed message of type \(type)") }
            return [.request(request)]
        case .ended: return []
        }
    }

    private mutating func handshake(
        _ frame: [UInt8], _ prologue: [UInt8], _ keys: () -> [(KeyID, PreSharedKey)]
    ) -> [Output] {
        guard frame.count == Responder.messageBytes + 1, frame[0] == 0 else {
            return refuse("Handshake error", "a handshake of \(frame.count) bytes")
        }
        let message = Array(frame[1...])
        for (id, key) in keys() {
            guard let outcome = Responder.answer(message, key: key, prologue: prologue) else { continue }
            state = .open(receiving: outcome.receiving, sending: outcome.sending)
            frames.limit = FrameReader.maxBytes
            return [.send(FrameReader.frame([0] + outcome.answer)), .greeted(id)]
        }
        // The words by which clients know that the key is wrong.
        return refuse("Handshake MAC failure", "no such key")
    }

    private mutating func refuse(_ words: String, _ reason: String) -> [Output] {
        if case .open = state { return end(reason) }
        return [.send(FrameReader.frame([1] + Array(words.utf8)))] + end(reason)
    }

    private mutating func end(_ reason: String) -> [Output] {
        state = .ended
        return [.end(reason: reason)]
    }

    /// The bytes of a message, encrypted; empty before the handshake is over, and for a message too long for a frame.
    mutating func bytes(of message: ServerMessage) -> [UInt8] {
        guard case .open(let receiving, var sending) = state else { return [] }
        let body = message.body
        guard body.count <= ServerMessage.maxBytes else { return [] }
        let header = [message.type, UInt16(truncatingIfNeeded: body.count)].flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }
        let frame = FrameReader.frame(sending.encrypt(header + body))
        state = .open(receiving: receiving, sending: sending)
        return frame
    }
}

/// Which key a client has: the app that it speaks for, and the key's fingerprint.
struct KeyID: Hashable, Sendable {
    let app: String
    let fingerprint: String
}

// SPDX-License-Identifier: Apache-2.0
// The server's side of Noise_NNpsk0_25519_ChaChaPoly_SHA256: one message from the client, one answer, and both have
// the keys. A client proves with its first message that it has the pre-shared key.

internal import CSodium

/// Answers a client's handshake.
public enum Responder {
    /// Bytes of the client's message: its ephemeral key, and the tag of an empty payload.
    public static let messageBytes = 48
    private static let name = "Noise_NNpsk0_25519_ChaChaPoly_SHA256"

    /// A handshake that has worked.
    public struct Outcome: Sendable {
        /// The message to send.
        public let answer: [UInt8]
        /// Decrypts the client's messages.
        public let receiving: CipherState
        /// Encrypts ours.
        public let sending: CipherState
    }

    /// - Parameters:
    ///   - message: the client's.
    ///   - prologue: bytes that both sides must have seen alike before.
    /// - Returns: nil when the client does not have this key.
    public static func answer(_ message: [UInt8], key: PreSharedKey, prologue: [UInt8]) -> Outcome? {
        var secret = [UInt8](repeating: 0, count: 32)
        randombytes_buf(&secret, 32)
        return answer(message, key: key, prologue: prologue, ephemeral: secret)
    }

    /// With an ephemeral key of the test's.
    static func answer(_ message: [UInt8], key: PreSharedKey, prologue: [UInt8], ephemeral: consuming [UInt8]) -> Outcome? {
        var secret = ephemeral
        defer { sodium_memzero(&secret, secret.count) }
        guard message.count == messageBytes else { return nil }
        let theirs = Array(message[..<32])
        var state = SymmetricState(protocolName: name)
        state.mixHash(prologue)
        // → psk, e
        state.mixKeyAndHash(key.bytes)
        state.mixHash(theirs)
        state.mixKey(theirs)
        guard state.decryptAndHash(Array(message[32...])) != nil else { return nil }
        // ← e, ee
        var ours = [UInt8](repeating: 0, count: 32)
        var shared = [UInt8](repeating: 0, count: 32)
        defer { sodium_memzero(&shared, shared.count) }
        // Fails for a key of the client's that gives the same secret with every key of ours.
        guard crypto_scalarmult_base(&ours, secret) == 0, crypto_scalarmult(&shared, secret, theirs) == 0 else { return nil }
        state.mixHash(ours)
        state.mixKey(ours)
        state.mixKey(shared)
        let answer = ours + state.encryptAndHash([])
        let (receiving, sending) = state.split()
        return Outcome(answer: answer, receiving: receiving, sending: sending)
    }
}

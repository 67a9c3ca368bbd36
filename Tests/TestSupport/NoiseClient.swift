// SPDX-License-Identifier: Apache-2.0
// The client's side of the door's encryption, from libsodium alone: it shares no code with the server's, so that a
// common mistake would show. (Noise_NNpsk0_25519_ChaChaPoly_SHA256; ESPHome's native API, “Noise”)

internal import CSodium

/// A client of the door.
public struct NoiseClient {
    private var hash: [UInt8]
    private var chain: [UInt8]
    private let secret: [UInt8]
    private var sending: [UInt8] = []
    private var receiving: [UInt8] = []
    private var sent: UInt64 = 0
    private var received: UInt64 = 0

    /// The first message of the handshake.
    public let handshake: [UInt8]

    /// - Parameters:
    ///   - key: 32 bytes.
    ///   - hello: the contents of the client's hello.
    ///   - secret: of the ephemeral key; always the same unless it is given.
    public init(key: [UInt8], hello: [UInt8] = [], secret: [UInt8] = [UInt8](repeating: 42, count: 32)) {
        self.secret = secret
        let prologue = Array("NoiseAPIInit".utf8) + [UInt8(hello.count >> 8), UInt8(hello.count & 0xFF)] + hello
        // The name is longer than a hash.
        chain = Self.sha256(Array("Noise_NNpsk0_25519_ChaChaPoly_SHA256".utf8))
        hash = Self.sha256(chain + prologue)
        var point = [UInt8](repeating: 0, count: 32)
        _ = crypto_scalarmult_base(&point, secret)
        let psk = Self.derive(chain, key, 3)
        hash = Self.sha256(hash + psk[1])
        hash = Self.sha256(hash + point)
        let ephemeral = Self.derive(psk[0], point, 2)
        chain = ephemeral[0]
        let tag = Self.seal([], ephemeral[1], 0, hash)
        hash = Self.sha256(hash + tag)
        handshake = point + tag
    }

    /// - Parameter answer: the server's message of the handshake.
    /// - Returns: whether the server has the key.
    public mutating func finish(_ answer: [UInt8]) -> Bool {
        guard answer.count == 48 else { return false }
        let point = Array(answer[..<32])
        var shared = [UInt8](repeating: 0, count: 32)
        guard crypto_scalarmult(&shared, secret, point) == 0 else { return false }
        hash = Self.sha256(hash + point)
        let ephemeral = Self.derive(chain, point, 2)
        let common = Self.derive(ephemeral[0], shared, 2)
        guard Self.open(Array(answer[32...]), common[1], 0, hash) == [] else { return false }
        let keys = Self.derive(common[0], [], 2)
        (sending, receiving) = (keys[0], keys[1])
        return true
    }

    /// The next message, encrypted.
    public mutating func encrypt(_ message: [UInt8]) -> [UInt8] {
        defer { sent += 1 }
        return Self.seal(message, sending, sent, [])
    }

    /// The server's next message; nil for another one.
    public mutating func decrypt(_ message: [UInt8]) -> [UInt8]? {
        guard let text = Self.open(message, receiving, received, []) else { return nil }
        received += 1
        return text
    }

    // MARK: Primitives

    private static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 32)
        crypto_hash_sha256(&output, bytes, UInt64(bytes.count))
        return output
    }

    private static func hmac(_ key: [UInt8], _ bytes: [UInt8]) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 32)
        crypto_auth_hmacsha256(&output, bytes, UInt64(bytes.count), key)
        return output
    }

    /// HKDF (RFC 5869).
    private static func derive(_ chain: [UInt8], _ input: [UInt8], _ count: Int) -> [[UInt8]] {
        let key = hmac(chain, input)
        var outputs: [[UInt8]] = []
        for index in 1...count { outputs.append(hmac(key, (outputs.last ?? []) + [UInt8(index)])) }
        return outputs
    }

    private static func nonce(_ count: UInt64) -> [UInt8] {
        [0, 0, 0, 0] + withUnsafeBytes(of: count.littleEndian) { Array($0) }
    }

    private static func seal(_ message: [UInt8], _ key: [UInt8], _ count: UInt64, _ authenticated: [UInt8]) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: message.count + 16)
        crypto_aead_chacha20poly1305_ietf_encrypt(
            &output, nil, message, UInt64(message.count), authenticated, UInt64(authenticated.count), nil, nonce(count), key)
        return output
    }

    private static func open(_ message: [UInt8], _ key: [UInt8], _ count: UInt64, _ authenticated: [UInt8]) -> [UInt8]? {
        guard message.count >= 16, key.count == 32 else { return nil }
        var output = [UInt8](repeating: 0, count: message.count - 16)
        guard
            crypto_aead_chacha20poly1305_ietf_decrypt(
                &output, nil, nil, message, UInt64(message.count), authenticated, UInt64(authenticated.count), nonce(count), key)
                == 0
        else { return nil }
        return output
    }
}

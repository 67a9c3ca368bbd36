// SPDX-License-Identifier: Apache-2.0
// A key that encrypts one direction of a connection, with its count of messages. (Noise Protocol Framework, revision
// 34, 5.1; RFC 8439)

internal import CSodium

/// One direction of an encrypted connection.
public struct CipherState: Sendable {
    /// Bytes that encryption adds to a message.
    public static let overhead = 16

    private let key: [UInt8]
    private var nonce: UInt64 = 0

    init(key: [UInt8]) {
        precondition(key.count == 32)
        self.key = key
    }

    /// Encrypts the next message.
    ///
    /// - Parameter authenticated: bytes that are authenticated, not sent.
    public mutating func encrypt(_ message: [UInt8], authenticating authenticated: [UInt8] = []) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: message.count + Self.overhead)
        let place = nextNonce
        // Always 0; the length follows from the message's.
        crypto_aead_chacha20poly1305_ietf_encrypt(
            &output, nil, message, UInt64(message.count), authenticated, UInt64(authenticated.count), nil, place, key)
        nonce += 1
        return output
    }

    /// Decrypts the next message.
    ///
    /// - Returns: nil when it was not encrypted with this key at this place; the connection must end then.
    public mutating func decrypt(_ message: [UInt8], authenticating authenticated: [UInt8] = []) -> [UInt8]? {
        guard message.count >= Self.overhead else { return nil }
        var output = [UInt8](repeating: 0, count: message.count - Self.overhead)
        let place = nextNonce
        guard
            crypto_aead_chacha20poly1305_ietf_decrypt(
                &output, nil, nil, message, UInt64(message.count), authenticated, UInt64(authenticated.count), place, key) == 0
        else { return nil }
        nonce += 1
        return output
    }

    /// 32 zero bits and the count, least significant byte first. (Noise, 12.3)
    private var nextNonce: [UInt8] {
        // 2^64 − 1 messages take longer than a machine lasts.
        [0, 0, 0, 0] + (0..<8).map { UInt8(truncatingIfNeeded: nonce >> UInt64(8 * $0)) }
    }
}

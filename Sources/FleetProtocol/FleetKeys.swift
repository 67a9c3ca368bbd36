// SPDX-License-Identifier: Apache-2.0
// Ed25519 keys: the operator's, which sign, and for which secrets are encrypted; and a gateway's, for which the
// operator's secrets are. (RFC 8032; libsodium, crypto_sign and crypto_box_seal)

internal import CSodium

/// The public half of a key.
public struct PublicKey: Hashable, Sendable {
    let bytes: [UInt8]

    /// 32 bytes in base64; nil for another text.
    public init?(base64 text: String) {
        guard let bytes = Base64.decode(text, Base64.plain), bytes.count == 32 else { return nil }
        self.bytes = bytes
    }

    /// The same from a file, where a line may end.
    public init?(file text: String) { self.init(base64: Base64.withoutLineEnd(text)) }

    fileprivate init(bytes: [UInt8]) { self.bytes = bytes }

    /// 44 characters.
    public var base64: String { Base64.encode(bytes, Base64.plain) }
    /// Names the key: eight hexadecimal digits of its SHA-256.
    public var id: String { String(Digest.text(bytes).prefix(8)) }

    /// Whether the owner of the key has signed these bytes.
    public func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        signature.count == 64 && crypto_sign_verify_detached(signature, message, UInt64(message.count), bytes) == 0
    }

    /// Encrypts a secret that only the owner can read. Nothing says who has encrypted it.
    ///
    /// - Returns: base64; nil for a key that is none.
    public func seal(_ secret: [UInt8]) -> String? {
        var key = [UInt8](repeating: 0, count: 32)
        var sealed = [UInt8](repeating: 0, count: secret.count + 48)
        guard crypto_sign_ed25519_pk_to_curve25519(&key, bytes) == 0,
            crypto_box_seal(&sealed, secret, UInt64(secret.count), key) == 0
        else { return nil }
        return Base64.encode(sealed, Base64.plain)
    }
}

/// A key with its private half.
public struct PrivateKey: Sendable {
    private let seed: [UInt8]
    private let secret: [UInt8]
    /// The half that others know.
    public let publicKey: PublicKey

    /// The seed, 32 bytes in base64, as a file has it; nil for another text.
    public init?(base64 text: String) {
        guard let seed = Base64.decode(text, Base64.plain), seed.count == 32 else { return nil }
        self.init(seed: seed)
    }

    /// The same from a file, where a line may end.
    public init?(file text: String) { self.init(base64: Base64.withoutLineEnd(text)) }

    private init(seed: [UInt8]) {
        var secret = [UInt8](repeating: 0, count: 64)
        var bytes = [UInt8](repeating: 0, count: 32)
        crypto_sign_seed_keypair(&bytes, &secret, seed)
        self.seed = seed
        self.secret = secret
        publicKey = PublicKey(bytes: bytes)
    }

    /// A new key, from the kernel's random numbers.
    public static func random() -> PrivateKey {
        var seed = [UInt8](repeating: 0, count: 32)
        randombytes_buf(&seed, 32)
        return PrivateKey(seed: seed)
    }

    /// The seed, which is the whole secret.
    public var base64: String { Base64.encode(seed, Base64.plain) }

    func signature(of message: [UInt8]) -> [UInt8] {
        var signature = [UInt8](repeating: 0, count: 64)
        crypto_sign_detached(&signature, nil, message, UInt64(message.count), secret)
        return signature
    }

    /// Decrypts a secret that was encrypted for this key; nil for any other text.
    public func open(_ sealed: String) -> [UInt8]? {
        guard let sealed = Base64.decode(sealed, Base64.plain), sealed.count >= 48 else { return nil }
        var (key, own) = ([UInt8](repeating: 0, count: 32), [UInt8](repeating: 0, count: 32))
        var secret = [UInt8](repeating: 0, count: sealed.count - 48)
        guard crypto_sign_ed25519_pk_to_curve25519(&key, publicKey.bytes) == 0,
            crypto_sign_ed25519_sk_to_curve25519(&own, self.secret) == 0,
            crypto_box_seal_open(&secret, sealed, UInt64(sealed.count), key, own) == 0
        else { return nil }
        return secret
    }
}

/// SHA-256 in hexadecimal digits.
public enum Digest {
    /// 64 lower-case digits.
    public static func text(_ bytes: [UInt8]) -> String {
        var hash = [UInt8](repeating: 0, count: 32)
        crypto_hash_sha256(&hash, bytes, UInt64(bytes.count))
        var text = [CChar](repeating: 0, count: 65)
        sodium_bin2hex(&text, text.count, hash, hash.count)
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// A new identifier, 32 hexadecimal digits.
    public static func newIdentifier() -> String {
        var bytes = [UInt8](repeating: 0, count: 16)
        randombytes_buf(&bytes, 16)
        return String(text(bytes).prefix(32))
    }
}

enum Base64 {
    static let plain = sodium_base64_VARIANT_ORIGINAL
    /// RFC 7515: for addresses, without padding.
    static let url = sodium_base64_VARIANT_URLSAFE_NO_PADDING

    static func withoutLineEnd(_ text: String) -> String {
        var text = text[...]
        while let last = text.last, last.isWhitespace { text.removeLast() }
        return String(text)
    }

    static func encode(_ bytes: [UInt8], _ variant: Int32) -> String {
        var text = [CChar](repeating: 0, count: sodium_base64_encoded_len(bytes.count, variant))
        sodium_bin2base64(&text, text.count, bytes, bytes.count, variant)
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Nil for any text that is not exactly the encoding of some bytes.
    static func decode(_ text: some StringProtocol, _ variant: Int32) -> [UInt8]? {
        let text = String(text)
        // libsodium takes bytes beyond ASCII for digits.
        guard text.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        var bytes = [UInt8](repeating: 0, count: text.utf8.count)
        var count = 0
        guard sodium_base642bin(&bytes, bytes.count, text, text.utf8.count, nil, &count, nil, variant) == 0 else { return nil }
        return Array(bytes.prefix(count))
    }
}

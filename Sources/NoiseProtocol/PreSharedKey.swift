// SPDX-License-Identifier: Apache-2.0
// The secret that a client shares with the door: 32 bytes, in base64 in files and in other programs' settings.

internal import CSodium

/// A pre-shared key.
public struct PreSharedKey: Hashable, Sendable {
    let bytes: [UInt8]

    /// The key in base64; nil for a text that is not 32 bytes in base64.
    public init?(base64 text: some StringProtocol) {
        let text = String(text)
        var bytes = [UInt8](repeating: 0, count: 32)
        var count = 0
        guard
            // libsodium takes bytes beyond ASCII for digits.
            text.utf8.allSatisfy({ $0 < 0x80 }),
            sodium_base642bin(
                &bytes, bytes.count, text, text.utf8.count, nil, &count, nil, sodium_base64_VARIANT_ORIGINAL) == 0, count == 32
        else { return nil }
        self.bytes = bytes
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    /// A new key, from the kernel's random numbers.
    public static func random() -> PreSharedKey {
        var bytes = [UInt8](repeating: 0, count: 32)
        randombytes_buf(&bytes, 32)
        return PreSharedKey(bytes: bytes)
    }

    /// The key in base64, 44 characters.
    public var base64: String {
        var text = [CChar](repeating: 0, count: 45)
        sodium_bin2base64(&text, text.count, bytes, bytes.count, sodium_base64_VARIANT_ORIGINAL)
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Names the key without disclosing it: eight hexadecimal digits of its SHA-256.
    public var fingerprint: String {
        let digits = Array("0123456789abcdef")
        return SymmetricState.sha256(bytes).prefix(4).reduce(into: "") { text, byte in
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
    }
}

/// SHA-256 for names that must not disclose their origin.
public enum Digest {
    /// 32 bytes.
    public static func sha256(_ bytes: [UInt8]) -> [UInt8] { SymmetricState.sha256(bytes) }
}

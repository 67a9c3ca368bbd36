// SPDX-License-Identifier: Apache-2.0
// Internet addresses in ranges, by which a manifest restricts where its remote app may connect from.

internal import Glibc

/// An Internet address: 4 bytes, or 16. An IPv4 address within IPv6 is one of 4 bytes.
public struct InternetAddress: Hashable, Sendable, CustomStringConvertible {
    /// Most significant first.
    public let bytes: [UInt8]

    /// - Parameter bytes: 4 or 16.
    public init?(bytes: [UInt8]) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        let mapped: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]
        self.bytes = bytes.count == 16 && bytes.starts(with: mapped) ? Array(bytes[12...]) : bytes
    }

    /// As inet_pton(3) reads it: `192.0.2.1`, `2001:db8::1`.
    public init?(_ text: String) {
        // inet_pton would end there.
        guard !text.utf8.contains(0) else { return nil }
        for (family, size) in [(AF_INET, 4), (AF_INET6, 16)] {
            var bytes = [UInt8](repeating: 0, count: size)
            if inet_pton(family, text, &bytes) == 1 {
                self.init(bytes: bytes)
                return
            }
        }
        return nil
    }

    public var description: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        inet_ntop(bytes.count == 4 ? AF_INET : AF_INET6, bytes, &text, socklen_t(text.count))
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// A range of Internet addresses, as `192.0.2.0/24` (RFC 4632, RFC 4291).
public struct AddressRange: Hashable, Sendable, CustomStringConvertible {
    /// The first address; the bits after the prefix are zero.
    public let base: InternetAddress
    /// Leading bits that an address must share: 0–32, or 0–128.
    public let prefix: Int

    /// An address with its prefix, or an address alone; nil for another text, and for one with bits after its prefix.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count <= 2, let base = parts.first.flatMap({ InternetAddress(String($0)) }) else { return nil }
        // An IPv4 address within IPv6 has 4 bytes, of which the prefix would not count.
        guard parts.count == 1 || base.bytes.count == 16 || !parts[0].utf8.contains(UInt8(ascii: ":")) else { return nil }
        let bits = base.bytes.count * 8
        guard let prefix = parts.count == 1 ? bits : Self.number(parts[1]), (0...bits).contains(prefix) else { return nil }
        self.base = base
        self.prefix = prefix
        guard (prefix..<bits).allSatisfy({ !Self.bit($0, base) }) else { return nil }
    }

    /// Digits alone: `Int` takes a sign, too.
    private static func number(_ text: Substring) -> Int? {
        text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(text) : nil
    }

    private static func bit(_ index: Int, _ address: InternetAddress) -> Bool {
        address.bytes[index / 8] & (0x80 >> UInt8(index % 8)) != 0
    }

    /// Whether an address lies within the range.
    public func contains(_ address: InternetAddress) -> Bool {
        address.bytes.count == base.bytes.count && (0..<prefix).allSatisfy { Self.bit($0, address) == Self.bit($0, base) }
    }

    public var description: String { "\(base)/\(prefix)" }
}

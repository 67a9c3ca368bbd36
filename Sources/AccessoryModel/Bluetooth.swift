// SPDX-License-Identifier: Apache-2.0
// Bluetooth's own words: UUIDs, device addresses, company identifiers.

/// A 128-bit Bluetooth UUID; 16 and 32-bit forms are expanded with the Bluetooth base UUID (Core 5.4, Vol 3, Part B,
/// 2.5.1).
public struct BluetoothUUID: Hashable, Sendable, CustomStringConvertible, Comparable {
    /// The first 64 of the 128 bits, as it is written.
    public let high: UInt64
    /// The last 64 bits.
    public let low: UInt64

    /// - Parameters:
    ///   - high: the first 64 bits, as it is written.
    ///   - low: the last 64 bits.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// A 16 or 32-bit UUID.
    public init(short: UInt32) {
        self.init(high: UInt64(short) << 32 | 0x0000_1000, low: 0x8000_0080_5F9B_34FB)
    }

    /// 4 or 8 hexadecimal digits (optionally after `0x`), or the 8-4-4-4-12 form in any case. Nil otherwise.
    public init?(_ text: some StringProtocol) {
        var digits = Array(text.utf8)
        if digits.count == 36 {
            for (index, byte) in digits.enumerated() where [8, 13, 18, 23].contains(index) != (byte == UInt8(ascii: "-")) {
                return nil
            }
            digits.removeAll { $0 == UInt8(ascii: "-") }
            guard let high = Hex.number(digits[0..<16]), let low = Hex.number(digits[16..<32]) else { return nil }
            self.init(high: high, low: low)
            return
        }
        if digits.count > 2, digits[0] == UInt8(ascii: "0"), digits[1] | 0x20 == UInt8(ascii: "x") { digits.removeFirst(2) }
        guard digits.count == 4 || digits.count == 8, let short = Hex.number(digits[...]) else { return nil }
        self.init(short: UInt32(short))
    }

    /// Lower case, 8-4-4-4-12, as BlueZ prints it.
    public var description: String {
        let text = Hex.text(high, digits: 16) + Hex.text(low, digits: 16)
        var result = ""
        for (index, character) in text.enumerated() {
            if [8, 12, 16, 20].contains(index) { result += "-" }
            result.append(character)
        }
        return result
    }

    /// Upper case: 4 or 8 digits where the UUID has a short form, else all.
    public var shortest: String {
        guard low == 0x8000_0080_5F9B_34FB, high & 0xFFFF_FFFF == 0x1000 else { return description.uppercased() }
        return Hex.text(high >> 32, digits: high >> 48 == 0 ? 4 : 8).uppercased()
    }

    /// As numbers of 128 bits, which is the order of their text too.
    public static func < (a: Self, b: Self) -> Bool { (a.high, a.low) < (b.high, b.low) }
}

/// A device address, 48 bits, with its kind.
public struct BluetoothAddress: Hashable, Sendable, CustomStringConvertible, Comparable {
    /// The kinds of BlueZ's `AddressType` (org.bluez.Device), with its words.
    public enum Kind: String, Hashable, Sendable {
        case `public`
        case random
    }

    /// 48 bits; the byte that is written first is the most significant.
    public let value: UInt64
    /// Whether it was assigned by the IEEE, or the device made it up (Core 5.4, Vol 6, Part B, 1.3).
    public let kind: Kind

    /// - Parameter value: 48 bits; higher bits are dropped.
    public init(value: UInt64, kind: Kind) {
        self.value = value & 0xFFFF_FFFF_FFFF
        self.kind = kind
    }

    /// Six pairs of hexadecimal digits between colons. Nil otherwise.
    public init?(_ text: some StringProtocol, kind: Kind) {
        let bytes = Array(text.utf8)
        guard bytes.count == 17 else { return nil }
        var value: UInt64 = 0
        for index in 0..<6 {
            let start = index * 3
            if index > 0, bytes[start - 1] != UInt8(ascii: ":") { return nil }
            guard let byte = Hex.number(bytes[start..<start + 2]) else { return nil }
            value = value << 8 | byte
        }
        self.init(value: value, kind: kind)
    }

    /// Six bytes, the most significant first: as it is written. Nil for another number of bytes.
    public init?(bytes: [UInt8], kind: Kind) {
        guard bytes.count == 6 else { return nil }
        self.init(value: bytes.reduce(0) { $0 << 8 | UInt64($1) }, kind: kind)
    }

    /// Six bytes, the most significant first.
    public var bytes: [UInt8] { (0..<6).map { UInt8(truncatingIfNeeded: value >> UInt64(40 - $0 * 8)) } }

    /// Upper case with colons, as BlueZ prints it.
    public var description: String {
        // Pickers show many addresses twice a second.
        String(unsafeUninitializedCapacity: 17) { text in
            for (index, byte) in bytes.enumerated() {
                if index > 0 { text[index * 3 - 1] = UInt8(ascii: ":") }
                (text[index * 3], text[index * 3 + 1]) = (Hex.digit(byte >> 4), Hex.digit(byte & 0xF))
            }
            return 17
        }
    }

    /// 00:00:00:00:00:00, which no device has.
    public static let none = BluetoothAddress(value: 0, kind: .public)

    /// Whether this is a resolvable private address, which changes every quarter of an hour (Core 5.4, Vol 6, Part B,
    /// 1.3.2.2).
    public var isResolvablePrivate: Bool { kind == .random && value >> 46 == 0b01 }

    /// By value alone: of a public and a random address with the same value, neither is the lesser.
    public static func < (a: Self, b: Self) -> Bool { a.value < b.value }
}

/// A company identifier of Bluetooth's assigned numbers, 0x0000–0xFFFF.
public struct CompanyIdentifier: Hashable, Sendable, CustomStringConvertible, Comparable {
    /// The number, as the assigned numbers have it.
    public let value: UInt16

    /// - Parameter value: the number, as the assigned numbers have it.
    public init(_ value: UInt16) {
        self.value = value
    }

    /// 1–4 hexadecimal digits, optionally after `0x`. Nil otherwise.
    public init?(hexadecimal text: some StringProtocol) {
        var digits = Array(text.utf8)
        if digits.count > 2, digits[0] == UInt8(ascii: "0"), digits[1] | 0x20 == UInt8(ascii: "x") { digits.removeFirst(2) }
        guard (1...4).contains(digits.count), let value = Hex.number(digits[...]) else { return nil }
        self.value = UInt16(value)
    }

    /// Four upper-case hexadecimal digits.
    public var description: String { Hex.text(UInt64(value), digits: 4).uppercased() }

    /// As numbers.
    public static func < (a: Self, b: Self) -> Bool { a.value < b.value }
}

/// Hexadecimal text, without Foundation.
public enum Hex {
    /// Bytes of an even number of digits; nil otherwise.
    public static func bytes(_ text: some StringProtocol) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count.isMultiple(of: 2) else { return nil }
        var result: [UInt8] = []
        result.reserveCapacity(digits.count / 2)
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let byte = number(digits[index..<index + 2]) else { return nil }
            result.append(UInt8(byte))
        }
        return result
    }

    /// Two lower-case digits for each byte.
    public static func text(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { text(UInt64($0), digits: 2) }.joined()
    }

    /// The upper-case digit of a number below 16.
    static func digit(_ number: UInt8) -> UInt8 { number < 10 ? UInt8(ascii: "0") + number : UInt8(ascii: "A") + number - 10 }

    static func text(_ value: UInt64, digits: Int) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
    }

    static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
        var value: UInt64 = 0
        for digit in digits {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = value << 4 | UInt64(digit - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = value << 4 | UInt64(digit - UInt8(ascii: "a") + 10)
            case UInt8(ascii: "A")...UInt8(ascii: "F"): value = value << 4 | UInt64(digit - UInt8(ascii: "A") + 10)
            default: return nil
            }
        }
        return digits.isEmpty ? nil : value
    }
}

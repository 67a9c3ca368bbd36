// SPDX-License-Identifier: Apache-2.0
// Type signatures: one complete type, parsed once, so that encoding and checks never walk strings of unknown content.

internal import CDBus

/// One complete D-Bus type, for example `s`, `a{sv}` or `(oa{sv})`.
@frozen public struct Signature: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringLiteral {
    /// The type's code.
    public let rawValue: String

    /// Nil unless `rawValue` is exactly one complete type.
    public init?(_ rawValue: String) {
        guard !rawValue.utf8.contains(0), dbus_signature_validate_single(rawValue, nil) != 0 else { return nil }
        self.rawValue = rawValue
    }

    init(validated rawValue: String) {
        self.rawValue = rawValue
    }

    /// A literal that is not one complete type is a programming error. Literals are made for every value that is
    /// written, so that only debug builds look.
    public init(stringLiteral value: String) {
        assert(Signature(value) != nil, "not a type: \(value)")
        rawValue = value
    }

    /// The same as `rawValue`.
    public var description: String { rawValue }

    /// Splits a signature of any number of types; nil when it is not valid.
    public static func split(_ list: String) -> [Signature]? {
        guard !list.utf8.contains(0), dbus_signature_validate(list, nil) != 0 else { return nil }
        var rest = Substring(list)
        var types: [Signature] = []
        while !rest.isEmpty {
            let length = Self.lengthOfFirstType(rest.utf8)
            types.append(Signature(validated: String(rest.prefix(length))))
            rest = rest.dropFirst(length)
        }
        return types
    }

    /// The length of the first complete type of a valid signature.
    private static func lengthOfFirstType(_ text: Substring.UTF8View) -> Int {
        var depth = 0
        var length = 0
        for byte in text {
            length += 1
            switch byte {
            case UInt8(ascii: "("), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: ")"), UInt8(ascii: "}"): depth -= 1
            case UInt8(ascii: "a"): continue
            default: break
            }
            if depth == 0 { return length }
        }
        return length
    }
}

/// The type codes of the D-Bus specification. (libdbus' own macros are casts, which Swift does not import.)
enum TypeCode {
    static let invalid: Int32 = 0
    static let byte = code("y")
    static let boolean = code("b")
    static let int16 = code("n")
    static let uint16 = code("q")
    static let int32 = code("i")
    static let uint32 = code("u")
    static let int64 = code("x")
    static let uint64 = code("t")
    static let double = code("d")
    static let string = code("s")
    static let objectPath = code("o")
    static let signature = code("g")
    static let unixFD = code("h")
    static let array = code("a")
    static let variant = code("v")
    static let structure = code("r")
    static let dictEntry = code("e")

    private static func code(_ scalar: Unicode.Scalar) -> Int32 { Int32(scalar.value) }
}

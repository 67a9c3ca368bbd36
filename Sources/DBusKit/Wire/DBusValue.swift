// SPDX-License-Identifier: Apache-2.0
// Values on the bus, typed, in both directions. A value always knows its signature, also when it is an empty array.

/// A D-Bus value.
@frozen public indirect enum DBusValue: Equatable, Sendable {
    case byte(UInt8)
    case boolean(Bool)
    case int16(Int16)
    case uint16(UInt16)
    case int32(Int32)
    case uint32(UInt32)
    case int64(Int64)
    case uint64(UInt64)
    case double(Double)
    case string(String)
    case objectPath(ObjectPath)
    case signature(String)
    case fileDescriptor(FileDescriptor)
    /// `ay`, kept apart from other arrays because payloads are bytes.
    case bytes([UInt8])
    case array(of: Signature, [DBusValue])
    case dictionary(key: Signature, value: Signature, [Entry])
    case structure([DBusValue])
    case variant(DBusValue)

    /// One entry of a dictionary, in the order of the wire.
    @frozen public struct Entry: Equatable, Sendable {
        /// Of a basic type: the specification allows no container as a key.
        public let key: DBusValue
        /// Of any type; a variant in an `a{sv}`.
        public let value: DBusValue

        /// An entry; the types must be the dictionary's.
        public init(_ key: DBusValue, _ value: DBusValue) {
            self.key = key
            self.value = value
        }
    }

    /// The value's type; for an empty container too.
    public var signature: Signature {
        switch self {
        case .byte: "y"
        case .boolean: "b"
        case .int16: "n"
        case .uint16: "q"
        case .int32: "i"
        case .uint32: "u"
        case .int64: "x"
        case .uint64: "t"
        case .double: "d"
        case .string: "s"
        case .objectPath: "o"
        case .signature: "g"
        case .fileDescriptor: "h"
        case .bytes: "ay"
        case .array(let element, _): Signature(validated: "a" + element.rawValue)
        case .dictionary(let key, let value, _): Signature(validated: "a{" + key.rawValue + value.rawValue + "}")
        case .structure(let fields): Signature(validated: "(" + fields.map(\.signature.rawValue).joined() + ")")
        case .variant: "v"
        }
    }

    /// The type of a value that is no array and no structure: most are none.
    private var letter: UInt8? {
        switch self {
        case .byte: UInt8(ascii: "y")
        case .boolean: UInt8(ascii: "b")
        case .int16: UInt8(ascii: "n")
        case .uint16: UInt8(ascii: "q")
        case .int32: UInt8(ascii: "i")
        case .uint32: UInt8(ascii: "u")
        case .int64: UInt8(ascii: "x")
        case .uint64: UInt8(ascii: "t")
        case .double: UInt8(ascii: "d")
        case .string: UInt8(ascii: "s")
        case .objectPath: UInt8(ascii: "o")
        case .signature: UInt8(ascii: "g")
        case .fileDescriptor: UInt8(ascii: "h")
        case .variant: UInt8(ascii: "v")
        case .bytes, .array, .dictionary, .structure: nil
        }
    }

    /// Whether the value is of this type; cheaper than to make the value's own signature and compare.
    func isOf(_ type: Signature) -> Bool {
        if let letter { return type.rawValue.utf8.count == 1 && type.rawValue.utf8.first == letter }
        var rest = type.rawValue.utf8[...]
        return isNext(in: &rest) && rest.isEmpty
    }

    /// Whether `types` begins with the value's type, which is then taken away.
    private func isNext(in types: inout Substring.UTF8View) -> Bool {
        func skip(_ text: String) -> Bool {
            guard types.starts(with: text.utf8) else { return false }
            types = types.dropFirst(text.utf8.count)
            return true
        }
        switch self {
        case .array(let element, _): return skip("a") && skip(element.rawValue)
        case .dictionary(let key, let value, _): return skip("a{") && skip(key.rawValue) && skip(value.rawValue) && skip("}")
        case .structure(let fields):
            guard skip("(") else { return false }
            for field in fields {
                guard field.isNext(in: &types) else { return false }
            }
            return skip(")")
        default: return skip(signature.rawValue)
        }
    }
}

// MARK: - Building

extension DBusValue {
    /// `as`.
    public static func strings(_ values: [String]) -> DBusValue { .array(of: "s", values.map { .string($0) }) }

    /// `ao`.
    public static func objectPaths(_ values: [ObjectPath]) -> DBusValue { .array(of: "o", values.map { .objectPath($0) }) }

    /// `a{sv}`, keys in alphabetical order, so that output can be compared.
    public static func vardict(_ values: [String: DBusValue]) -> DBusValue {
        .dictionary(
            key: "s", value: "v", values.sorted { $0.key < $1.key }.map { Entry(.string($0.key), .variant($0.value)) })
    }
}

// MARK: - Reading

extension DBusValue {
    /// The text of an `s`, also in variants; nil for another type.
    public var stringValue: String? { if case .string(let value) = unwrapped { value } else { nil } }
    /// The value of a `b`, also in variants; nil for another type.
    public var booleanValue: Bool? { if case .boolean(let value) = unwrapped { value } else { nil } }
    /// The path of an `o`, also in variants; nil for another type.
    public var objectPathValue: ObjectPath? { if case .objectPath(let value) = unwrapped { value } else { nil } }
    /// The bytes of an `ay`, also in variants; nil for another type.
    public var bytesValue: [UInt8]? { if case .bytes(let value) = unwrapped { value } else { nil } }
    /// The value of a `d`, also in variants; nil for another type, integers too.
    public var doubleValue: Double? { if case .double(let value) = unwrapped { value } else { nil } }
    /// The descriptor of an `h`, also in variants; nil for another type. It is closed with its last owner.
    public var fileDescriptorValue: FileDescriptor? {
        if case .fileDescriptor(let value) = unwrapped { value } else { nil }
    }

    /// Any integer type, by value.
    public var integerValue: Int? {
        switch unwrapped {
        case .byte(let value): Int(value)
        case .int16(let value): Int(value)
        case .uint16(let value): Int(value)
        case .int32(let value): Int(value)
        case .uint32(let value): Int(value)
        case .int64(let value): Int(exactly: value)
        case .uint64(let value): Int(exactly: value)
        default: nil
        }
    }

    /// The elements of an array, also in variants, bytes too; nil for another type, dictionaries too.
    public var arrayValue: [DBusValue]? {
        switch unwrapped {
        case .array(_, let values): values
        case .bytes(let bytes): bytes.map { .byte($0) }
        default: nil
        }
    }

    /// The texts of an `as`, also in variants; nil for another type.
    public var stringsValue: [String]? {
        guard case .array(let element, let values) = unwrapped, element == "s" else { return nil }
        return values.compactMap(\.stringValue)
    }

    /// The fields of a structure, also in variants; nil for another type.
    public var structureValue: [DBusValue]? { if case .structure(let fields) = unwrapped { fields } else { nil } }

    /// The entries of a dictionary, also in variants, in the order of the wire; nil for another type.
    public var entries: [Entry]? { if case .dictionary(_, _, let entries) = unwrapped { entries } else { nil } }

    /// `a{sv}` (or any dictionary with string keys) without the variants around its values. A key that comes twice
    /// counts once, with its last value.
    public var vardictValue: [String: DBusValue]? {
        guard case .dictionary(let key, _, let entries) = unwrapped, key == "s" || entries.isEmpty else { return nil }
        var result: [String: DBusValue] = [:]
        for entry in entries {
            guard let key = entry.key.stringValue else { return nil }
            result[key] = entry.value.unwrapped
        }
        return result
    }

    /// The value inside variants.
    public var unwrapped: DBusValue {
        var value = self
        while case .variant(let inner) = value { value = inner }
        return value
    }
}

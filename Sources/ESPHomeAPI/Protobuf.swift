// SPDX-License-Identifier: Apache-2.0
// The parts of Protocol Buffers that the native API uses, without a library: fields of numbers, bytes and messages,
// read with bounds from strangers' bytes. (protobuf.dev, “Encoding”; Docs/Decisions/0048)

/// Writes the fields of one message. Values that are zero or empty are left out, as proto3 does.
struct ProtobufWriter {
    private(set) var bytes: [UInt8] = []

    private mutating func varint(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    private mutating func tag(_ field: Int, _ wireType: UInt64) { varint(UInt64(field) << 3 | wireType) }

    mutating func number(_ field: Int, _ value: UInt64) {
        guard value != 0 else { return }
        tag(field, 0)
        varint(value)
    }

    /// `int32`, of which a negative number has ten bytes.
    mutating func signed(_ field: Int, _ value: Int) { number(field, UInt64(bitPattern: Int64(value))) }

    /// `sint32`.
    mutating func zigzag(_ field: Int, _ value: Int) { number(field, UInt64(bitPattern: Int64(value << 1 ^ value >> 63))) }

    mutating func flag(_ field: Int, _ value: Bool) { number(field, value ? 1 : 0) }

    mutating func bytes(_ field: Int, _ value: [UInt8]) {
        guard !value.isEmpty else { return }
        element(field, value)
    }

    mutating func text(_ field: Int, _ value: String) { bytes(field, Array(value.utf8)) }

    /// An element of a repeated field, which is written also if it is empty.
    mutating func element(_ field: Int, _ value: [UInt8]) {
        tag(field, 2)
        varint(UInt64(value.count))
        bytes += value
    }

    /// A repeated field of numbers, packed.
    mutating func numbers(_ field: Int, _ values: [UInt64]) {
        guard !values.isEmpty else { return }
        var packed = ProtobufWriter()
        for value in values { packed.varint(value) }
        element(field, packed.bytes)
    }

    /// A message within this one.
    mutating func message(_ field: Int, _ write: (inout ProtobufWriter) -> Void) {
        var inner = ProtobufWriter()
        write(&inner)
        element(field, inner.bytes)
    }
}

/// A message that is none.
struct MalformedMessage: Error {}

/// The fields of one message, the last value of each. Fields with other numbers and of other types are skipped.
struct ProtobufReader {
    private var numbers: [Int: UInt64] = [:]
    private var texts: [Int: ArraySlice<UInt8>] = [:]

    /// - Throws: when the bytes end within a field, or are no fields.
    init(_ bytes: ArraySlice<UInt8>) throws(MalformedMessage) {
        var rest = bytes
        while !rest.isEmpty {
            let tag = try Self.varint(&rest)
            guard case let field = Int(tag >> 3), (1...0x1FFF_FFFF).contains(field) else { throw MalformedMessage() }
            switch tag & 7 {
            case 0: numbers[field] = try Self.varint(&rest)
            case 1: _ = try Self.take(8, &rest)
            case 2: texts[field] = try Self.take(try Self.varint(&rest), &rest)
            case 5: _ = try Self.take(4, &rest)
            default: throw MalformedMessage()
            }
        }
    }

    private static func varint(_ rest: inout ArraySlice<UInt8>) throws(MalformedMessage) -> UInt64 {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 70, by: 7) {
            guard let byte = rest.popFirst(), shift < 63 || byte < 2 else { throw MalformedMessage() }
            value |= UInt64(byte & 0x7F) << shift
            if byte & 0x80 == 0 { return value }
        }
        throw MalformedMessage()
    }

    private static func take(_ count: UInt64, _ rest: inout ArraySlice<UInt8>) throws(MalformedMessage) -> ArraySlice<UInt8> {
        guard count <= UInt64(rest.count) else { throw MalformedMessage() }
        defer { rest = rest.dropFirst(Int(count)) }
        return rest.prefix(Int(count))
    }

    func number(_ field: Int) -> UInt64 { numbers[field] ?? 0 }
    func number32(_ field: Int) -> UInt32 { UInt32(truncatingIfNeeded: number(field)) }
    func flag(_ field: Int) -> Bool { number(field) != 0 }
    func bytes(_ field: Int) -> [UInt8] { Array(texts[field] ?? []) }
    func text(_ field: Int) -> String { String(decoding: texts[field] ?? [], as: UTF8.self) }
}

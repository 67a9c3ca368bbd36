// SPDX-License-Identifier: Apache-2.0
// A message as it stands in a buffer: where it ends, and where its header fields stand. (D-Bus Specification, "Message
// Format".)

/// A message's header fields, as places in the buffer that it stands in.
struct WireMessage {
    /// The fault of bytes that should be a message.
    struct Problem: Error, Hashable, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    static let signal: UInt8 = 4
    /// More than any bus passes on by default; the specification allows four times as much.
    static let maxBytes = 1 << 25
    /// The bytes before the header fields, whose length is among them.
    static let prefix = 16

    let type: UInt8
    let serial: UInt32
    /// 0 in a message that is no answer.
    private(set) var replySerial: UInt32 = 0
    let bodyOffset: Int
    let length: Int
    /// Empty for a field that is not there.
    private(set) var path = 0..<0
    private(set) var interface = 0..<0
    private(set) var member = 0..<0
    private(set) var sender = 0..<0
    private(set) var signature = 0..<0
    private(set) var errorName = 0..<0

    /// Bytes of the message that begins with these; nil while they are too few.
    ///
    /// - Throws: for bytes that are no message in this machine's byte order, and for one that is too long.
    static func length(of bytes: UnsafeRawBufferPointer) throws(Problem) -> Int? {
        guard bytes.count >= prefix else { return nil }
        guard bytes[0] == order else { throw Problem("a message in another byte order") }
        guard bytes[3] == 1 else { throw Problem("a message of protocol version \(bytes[3])") }
        let body = Int(bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
        let fields = Int(bytes.loadUnaligned(fromByteOffset: 12, as: UInt32.self))
        guard body <= maxBytes, fields <= maxBytes, prefix + fields + 7 + body <= maxBytes else {
            throw Problem("a message of \(fields) and \(body) bytes")
        }
        return bodyOffset(fields) + body
    }

    private static func bodyOffset(_ fields: Int) -> Int { (prefix + fields + 7) & ~7 }

    /// Where the arguments of a whole valid message begin; nil when it is in another byte order.
    static func bodyOffset(of bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.count >= prefix, bytes[0] == order else { return nil }
        let offset = bodyOffset(Int(bytes.loadUnaligned(fromByteOffset: 12, as: UInt32.self)))
        return offset <= bytes.count ? offset : nil
    }

    /// The letter of this machine's byte order.
    static var order: UInt8 { 1.littleEndian == 1 ? UInt8(ascii: "l") : UInt8(ascii: "B") }

    /// Reads the header of a whole message, by `length(of:)`.
    ///
    /// - Throws: for each header that libdbus refuses.
    init(_ bytes: UnsafeRawBufferPointer) throws(Problem) {
        type = bytes[1]
        serial = bytes.loadUnaligned(fromByteOffset: 8, as: UInt32.self)
        let fieldsEnd = Self.prefix + Int(bytes.loadUnaligned(fromByteOffset: 12, as: UInt32.self))
        bodyOffset = (fieldsEnd + 7) & ~7
        length = bytes.count
        guard type != 0, serial != 0, bodyOffset <= bytes.count else { throw Problem("a message without type or number") }
        var reader = WireValidator(bytes, from: Self.prefix, to: fieldsEnd)
        var seen: UInt32 = 0
        while !reader.isAtEnd {
            guard try field(&reader, bytes, &seen) else { throw Problem("a bad header field at byte \(reader.position)") }
        }
        var padding = WireValidator(bytes, from: fieldsEnd, to: bodyOffset)
        guard padding.align(8) else { throw Problem("padding that is not zero") }
        // A signal has path, interface and member (D-Bus Specification, "Header Fields"); of other messages libdbus is
        // asked.
        guard type != Self.signal || !path.isEmpty && !interface.isEmpty && !member.isEmpty else {
            throw Problem("a signal without path, interface or member")
        }
    }

    private mutating func field(
        _ reader: inout WireValidator, _ bytes: UnsafeRawBufferPointer, _ seen: inout UInt32
    ) throws(Problem) -> Bool {
        guard reader.align(8), !reader.isAtEnd else { return false }
        let code = bytes[reader.position]
        reader.position += 1
        guard let type = reader.signature(), type.count > 0 else { return false }
        let letters = UnsafeRawBufferPointer(rebasing: bytes[type])
        guard WireValidator.length(of: letters, at: 0) == letters.count, code != 0 else { return false }
        let expected: StaticString
        switch code {
        // 10: the container that it comes from, which libdbus knows and the specification not yet.
        case 1, 10: expected = "o"
        case 2, 3, 4, 6, 7: expected = "s"
        case 5, 9: expected = "u"
        case 8: expected = "g"
        default:
            // A field of a later version of the protocol.
            guard reader.values(letters, depth: 2) else { return false }
            return true
        }
        guard seen & 1 << UInt32(code) == 0, letters.count == 1, letters[0] == expected.utf8Start[0] else { return false }
        seen |= 1 << UInt32(code)
        switch expected.utf8Start[0] {
        case UInt8(ascii: "u"):
            guard let number = reader.uint32() else { return false }
            guard code == 5 else { return true }
            replySerial = number
            return number != 0
        case UInt8(ascii: "g"):
            guard let range = reader.signature() else { return false }
            signature = range
            return true
        default:
            return name(code, &reader, bytes)
        }
    }

    /// Whether a message may be about this path: the specification keeps one for libraries themselves.
    static func isObject(_ path: UnsafeRawBufferPointer) -> Bool {
        WireValidator.isPath(path) && !path.isEqual(to: "/org/freedesktop/DBus/Local")
    }

    private mutating func name(_ code: UInt8, _ reader: inout WireValidator, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let range = reader.terminated() else { return false }
        let text = UnsafeRawBufferPointer(rebasing: bytes[range])
        switch code {
        case 1:
            path = range
            return Self.isObject(text)
        case 2:
            interface = range
            return WireValidator.isInterface(text) && !text.isEqual(to: "org.freedesktop.DBus.Local")
        case 3:
            member = range
            return WireValidator.isMember(text)
        case 4:
            errorName = range
            return WireValidator.isInterface(text)
        case 7:
            sender = range
            return WireValidator.isBusName(text)
        case 10:
            return WireValidator.isPath(text)
        default:
            return WireValidator.isBusName(text)
        }
    }
}

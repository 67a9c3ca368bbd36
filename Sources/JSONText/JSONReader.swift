// SPDX-License-Identifier: Apache-2.0
// Reads JSON from other machines: strict, and bounded in depth, so that two readers cannot understand one text
// differently.

extension JSON {
    /// A text that is not JSON.
    public struct Mistake: Error, Hashable, Sendable, CustomStringConvertible {
        /// The number of the byte, from 0.
        public let offset: Int
        public let reason: String
        public var description: String { "byte \(offset): \(reason)" }
    }

    /// Levels of arrays and objects.
    public static let maxDepth = 16

    /// The value of a text (RFC 8259).
    ///
    /// - Throws: for a text that is not JSON, is not UTF-8, is nested more deeply than `maxDepth`, has a key twice, or
    ///   has an integer beyond 64 bits.
    public init(parsing text: some Collection<UInt8>) throws(Mistake) {
        var reader = JSONReader(bytes: Array(text))
        self = try reader.document()
    }

    /// The members of an object; nil for another value.
    public var members: [String: JSON]? { if case .object(let members) = self { members } else { nil } }
    /// The elements of an array; nil for another value.
    public var elements: [JSON]? { if case .array(let elements) = self { elements } else { nil } }
    /// A text; nil for another value.
    public var string: String? { if case .text(let text) = self { text } else { nil } }
    /// An integer; nil for another value.
    public var int: Int? { if case .integer(let number) = self { number } else { nil } }
    /// `true` or `false`; nil for another value.
    public var bool: Bool? { if case .boolean(let truth) = self { truth } else { nil } }
    /// A member of an object; nil without it, and for another value.
    public subscript(_ key: String) -> JSON? { members?[key] }
}

private struct JSONReader {
    let bytes: [UInt8]
    var at = 0

    mutating func document() throws(JSON.Mistake) -> JSON {
        let value = try value(depth: 0)
        skipSpace()
        guard at == bytes.count else { throw mistake("text after the end") }
        return value
    }

    private func mistake(_ reason: String) -> JSON.Mistake { JSON.Mistake(offset: at, reason: reason) }

    private mutating func skipSpace() {
        while at < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[at]) { at += 1 }
    }

    private mutating func skip(_ byte: Character) -> Bool {
        skipSpace()
        guard at < bytes.count, bytes[at] == byte.asciiValue else { return false }
        at += 1
        return true
    }

    private mutating func expect(_ byte: Character) throws(JSON.Mistake) {
        guard skip(byte) else { throw mistake("“\(byte)” is missing") }
    }

    private mutating func value(depth: Int) throws(JSON.Mistake) -> JSON {
        skipSpace()
        guard at < bytes.count else { throw mistake("a value is missing") }
        switch bytes[at] {
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            guard depth < JSON.maxDepth else { throw mistake("more than \(JSON.maxDepth) levels") }
            return bytes[at] == UInt8(ascii: "{") ? try object(depth: depth + 1) : try array(depth: depth + 1)
        case UInt8(ascii: "\""): return .text(try string())
        case UInt8(ascii: "t"): return try word("true", .boolean(true))
        case UInt8(ascii: "f"): return try word("false", .boolean(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    private mutating func word(_ word: String, _ value: JSON) throws(JSON.Mistake) -> JSON {
        guard bytes[at...].starts(with: word.utf8) else { throw mistake("not a value") }
        at += word.utf8.count
        return value
    }

    private mutating func object(depth: Int) throws(JSON.Mistake) -> JSON {
        try expect("{")
        var members: [String: JSON] = [:]
        if skip("}") { return .object(members) }
        repeat {
            skipSpace()
            let key = try string()
            try expect(":")
            guard members.updateValue(try value(depth: depth), forKey: key) == nil else {
                throw mistake("the key “\(key)” occurs twice")
            }
        } while skip(",")
        try expect("}")
        return .object(members)
    }

    private mutating func array(depth: Int) throws(JSON.Mistake) -> JSON {
        try expect("[")
        var elements: [JSON] = []
        if skip("]") { return .array(elements) }
        repeat { elements.append(try value(depth: depth)) } while skip(",")
        try expect("]")
        return .array(elements)
    }

    private mutating func number() throws(JSON.Mistake) -> JSON {
        let start = at
        func digits(_ reader: inout JSONReader) -> Int {
            let first = reader.at
            while reader.at < reader.bytes.count, (0x30...0x39).contains(reader.bytes[reader.at]) { reader.at += 1 }
            return reader.at - first
        }
        func take(_ allowed: [Character]) -> Bool { at < bytes.count && allowed.contains { $0.asciiValue == bytes[at] } }
        if take(["-"]) { at += 1 }
        let first = at
        let count = digits(&self)
        guard count > 0, count == 1 || bytes[first] != UInt8(ascii: "0") else { throw mistake("not a value") }
        var isInteger = true
        if take(["."]) {
            at += 1
            isInteger = false
            guard digits(&self) > 0 else { throw mistake("digits are missing") }
        }
        if take(["e", "E"]) {
            at += 1
            isInteger = false
            if take(["+", "-"]) { at += 1 }
            guard digits(&self) > 0 else { throw mistake("digits are missing") }
        }
        let text = String(decoding: bytes[start..<at], as: UTF8.self)
        if isInteger {
            guard let number = Int(text) else { throw mistake("a number beyond 64 bits") }
            return .integer(number)
        }
        guard let number = Double(text), number.isFinite else { throw mistake("a number that is too large") }
        return .number(number)
    }

    private mutating func string() throws(JSON.Mistake) -> String {
        guard at < bytes.count, bytes[at] == UInt8(ascii: "\"") else { throw mistake("“\"” is missing") }
        at += 1
        var content: [UInt8] = []
        while true {
            guard at < bytes.count else { throw mistake("a string without an end") }
            let byte = bytes[at]
            at += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let text = String(validating: content, as: UTF8.self) else { throw mistake("a string that is not UTF-8") }
                return text
            case UInt8(ascii: "\\"): try escape(into: &content)
            case 0..<0x20: throw mistake("a control character in a string")
            default: content.append(byte)
            }
        }
    }

    private mutating func escape(into content: inout [UInt8]) throws(JSON.Mistake) {
        guard at < bytes.count else { throw mistake("a string without an end") }
        let letter = bytes[at]
        at += 1
        let plain: [UInt8: UInt8] = [
            0x22: 0x22, 0x5C: 0x5C, 0x2F: 0x2F, UInt8(ascii: "b"): 8, UInt8(ascii: "f"): 12, UInt8(ascii: "n"): 10,
            UInt8(ascii: "r"): 13, UInt8(ascii: "t"): 9,
        ]
        if let byte = plain[letter] { return content.append(byte) }
        guard letter == UInt8(ascii: "u") else { throw mistake("an unknown escape") }
        var code = try codeUnit()
        if (0xD800..<0xDC00).contains(code) {
            guard bytes[at...].starts(with: "\\u".utf8) else { throw mistake("half of a surrogate pair") }
            at += 2
            let low = try codeUnit()
            guard (0xDC00..<0xE000).contains(low) else { throw mistake("half of a surrogate pair") }
            code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
        }
        guard let scalar = Unicode.Scalar(code) else { throw mistake("half of a surrogate pair") }
        content += Array(String(Character(scalar)).utf8)
    }

    private mutating func codeUnit() throws(JSON.Mistake) -> UInt32 {
        guard at + 4 <= bytes.count, let code = UInt32(String(decoding: bytes[at..<(at + 4)], as: UTF8.self), radix: 16),
            bytes[at] != UInt8(ascii: "+")
        else { throw mistake("four hexadecimal digits are missing") }
        at += 4
        return code
    }
}

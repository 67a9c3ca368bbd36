// SPDX-License-Identifier: Apache-2.0
// Whether bytes are what the D-Bus specification calls a message, as strictly as libdbus and dbus-daemon see it:
// lengths, nesting, alignment, padding, names and UTF-8. Nothing here believes what stands in the bytes; whoever walks
// through them afterwards may. (D-Bus Specification, "Marshalling" and "Valid Object Paths", "Valid Names", "Valid
// Signatures".)

internal import CGLib
internal import Glibc

/// Walks through a message's values and stops at the first that is not valid. Positions count from the message's first
/// byte, which is what alignment goes by.
struct WireValidator {
    let bytes: UnsafeRawBufferPointer
    var position: Int
    private let end: Int

    /// Arrays and structures in each other, as the specification bounds them, and both together.
    static let deepestArray = 32
    static let deepestStructure = 32
    static let deepest = 64
    static let longestArray = 1 << 26

    init(_ bytes: UnsafeRawBufferPointer, from position: Int, to end: Int) {
        self.bytes = bytes
        self.position = position
        self.end = end
    }

    var isAtEnd: Bool { position == end }

    // MARK: Values

    /// Values of these types, one after the other. The signature is valid itself.
    mutating func values(_ signature: UnsafeRawBufferPointer, depth: Int) -> Bool {
        var index = 0
        while index < signature.count {
            guard value(signature, &index, depth: depth) else { return false }
        }
        return true
    }

    /// The value whose type stands at `index`, which moves behind that type.
    private mutating func value(_ signature: UnsafeRawBufferPointer, _ index: inout Int, depth: Int) -> Bool {
        let code = signature[index]
        switch code {
        case UInt8(ascii: "s"):
            index += 1
            return text()
        case UInt8(ascii: "o"):
            index += 1
            return objectPath()
        case UInt8(ascii: "g"):
            index += 1
            return self.signature() != nil
        case UInt8(ascii: "v"):
            index += 1
            return variant(depth: depth)
        case UInt8(ascii: "a"):
            return array(signature, &index, depth: depth)
        case UInt8(ascii: "("), UInt8(ascii: "{"):
            guard depth < Self.deepest, align(8) else { return false }
            let close = code == UInt8(ascii: "(") ? UInt8(ascii: ")") : UInt8(ascii: "}")
            index += 1
            while signature[index] != close {
                guard value(signature, &index, depth: depth + 1) else { return false }
            }
            index += 1
            return true
        case UInt8(ascii: "b"):
            index += 1
            guard let number = uint32() else { return false }
            return number <= 1
        default:
            index += 1
            let size = Self.size(of: code)
            guard align(size), end - position >= size else { return false }
            position += size
            return true
        }
    }

    private mutating func variant(depth: Int) -> Bool {
        guard let range = signature(), range.count > 0 else { return false }
        let contained = UnsafeRawBufferPointer(rebasing: bytes[range])
        // One complete type.
        guard Self.length(of: contained, at: 0) == contained.count, depth < Self.deepest else { return false }
        var index = 0
        return value(contained, &index, depth: depth + 1)
    }

    private mutating func array(_ signature: UnsafeRawBufferPointer, _ index: inout Int, depth: Int) -> Bool {
        index += 1
        let element = index
        let elementEnd = element + Self.length(of: signature, at: element)
        guard let count = uint32().map(Int.init), count <= Self.longestArray, depth < Self.deepest else { return false }
        let code = signature[element]
        guard align(Self.alignment(of: code)), end - position >= count else { return false }
        let arrayEnd = position + count
        index = elementEnd
        let size = Self.size(of: code)
        if size > 0, code != UInt8(ascii: "b") {
            // Nothing in them can be wrong.
            guard count % size == 0 else { return false }
            position = arrayEnd
            return true
        }
        while position < arrayEnd {
            var inside = element
            guard value(signature, &inside, depth: depth + 1), position <= arrayEnd else { return false }
        }
        return position == arrayEnd
    }

    mutating func text() -> Bool {
        guard let range = terminated() else { return false }
        return Self.isUTF8(UnsafeRawBufferPointer(rebasing: bytes[range]))
    }

    mutating func objectPath() -> Bool {
        guard let range = terminated() else { return false }
        return Self.isPath(UnsafeRawBufferPointer(rebasing: bytes[range]))
    }

    /// Where a text stands whose length comes before it and a NUL behind it.
    mutating func terminated() -> Range<Int>? {
        guard let count = uint32().map(Int.init), end - position > count, bytes[position + count] == 0 else { return nil }
        defer { position += count + 1 }
        return position..<position + count
    }

    /// Where a signature stands, which is valid.
    mutating func signature() -> Range<Int>? {
        guard position < end else { return nil }
        let count = Int(bytes[position])
        guard end - position > count + 1, bytes[position + 1 + count] == 0 else { return nil }
        let range = position + 1..<position + 1 + count
        guard Self.isSignature(UnsafeRawBufferPointer(rebasing: bytes[range])) else { return nil }
        position += count + 2
        return range
    }

    mutating func uint32() -> UInt32? {
        guard align(4), end - position >= 4 else { return nil }
        defer { position += 4 }
        return bytes.loadUnaligned(fromByteOffset: position, as: UInt32.self)
    }

    /// Goes to the next multiple; what is skipped must be zero.
    mutating func align(_ alignment: Int) -> Bool {
        let aligned = (position + alignment - 1) & ~(alignment - 1)
        guard aligned <= end else { return false }
        while position < aligned {
            guard bytes[position] == 0 else { return false }
            position += 1
        }
        return true
    }

    // MARK: Types

    /// Bytes of a type whose values all have as many; 0 for others.
    static func size(of code: UInt8) -> Int {
        switch code {
        case UInt8(ascii: "y"): 1
        case UInt8(ascii: "n"), UInt8(ascii: "q"): 2
        case UInt8(ascii: "b"), UInt8(ascii: "i"), UInt8(ascii: "u"), UInt8(ascii: "h"): 4
        case UInt8(ascii: "x"), UInt8(ascii: "t"), UInt8(ascii: "d"): 8
        default: 0
        }
    }

    static func alignment(of code: UInt8) -> Int {
        switch code {
        case UInt8(ascii: "s"), UInt8(ascii: "o"), UInt8(ascii: "a"): 4
        case UInt8(ascii: "g"), UInt8(ascii: "v"): 1
        case UInt8(ascii: "("), UInt8(ascii: "{"): 8
        default: size(of: code)
        }
    }

    /// Letters of the complete type at `index` of a valid signature.
    static func length(of signature: UnsafeRawBufferPointer, at index: Int) -> Int {
        var position = index
        while signature[position] == UInt8(ascii: "a") { position += 1 }
        var open = 0
        repeat {
            switch signature[position] {
            case UInt8(ascii: "("), UInt8(ascii: "{"): open += 1
            case UInt8(ascii: ")"), UInt8(ascii: "}"): open -= 1
            default: break
            }
            position += 1
        } while open > 0
        return position - index
    }

    /// Whether these letters are a signature: complete types, none nested too deep.
    static func isSignature(_ letters: UnsafeRawBufferPointer) -> Bool {
        guard letters.count <= 255 else { return false }
        var index = 0
        while index < letters.count {
            guard isType(letters, &index, arrays: 0, structures: 0) else { return false }
        }
        return true
    }

    private static func isType(
        _ letters: UnsafeRawBufferPointer, _ index: inout Int, arrays: Int, structures: Int
    ) -> Bool {
        guard index < letters.count else { return false }
        let code = letters[index]
        index += 1
        switch code {
        case UInt8(ascii: "a"):
            guard arrays < deepestArray, index < letters.count else { return false }
            guard letters[index] == UInt8(ascii: "{") else {
                return isType(letters, &index, arrays: arrays + 1, structures: structures)
            }
            // A dictionary: a basic key, one value.
            guard structures < deepestStructure else { return false }
            index += 1
            guard index < letters.count, isBasic(letters[index]) else { return false }
            index += 1
            guard isType(letters, &index, arrays: arrays + 1, structures: structures + 1) else { return false }
            guard index < letters.count, letters[index] == UInt8(ascii: "}") else { return false }
            index += 1
            return true
        case UInt8(ascii: "("):
            guard structures < deepestStructure, index < letters.count, letters[index] != UInt8(ascii: ")") else { return false }
            while index < letters.count, letters[index] != UInt8(ascii: ")") {
                guard isType(letters, &index, arrays: arrays, structures: structures + 1) else { return false }
            }
            guard index < letters.count else { return false }
            index += 1
            return true
        default:
            return isBasic(code) || code == UInt8(ascii: "v")
        }
    }

    private static func isBasic(_ code: UInt8) -> Bool {
        size(of: code) > 0 || code == UInt8(ascii: "s") || code == UInt8(ascii: "o") || code == UInt8(ascii: "g")
    }

    // MARK: Names

    static func isUTF8(_ text: UnsafeRawBufferPointer) -> Bool {
        // Nearly all is ASCII.
        guard !text.allSatisfy({ $0 != 0 && $0 < 0x80 }), let start = text.baseAddress else { return true }
        return g_utf8_validate(start.assumingMemoryBound(to: gchar.self), gssize(text.count), nil) != 0
    }

    static func isPath(_ text: UnsafeRawBufferPointer) -> Bool {
        guard text.first == UInt8(ascii: "/") else { return false }
        if text.count == 1 { return true }
        var wasSlash = true
        for byte in text.dropFirst() {
            if byte == UInt8(ascii: "/") {
                guard !wasSlash else { return false }
                wasSlash = true
            } else {
                guard isLetter(byte) || isDigit(byte) else { return false }
                wasSlash = false
            }
        }
        return !wasSlash
    }

    /// An interface's or an error's name: two elements at least.
    static func isInterface(_ text: UnsafeRawBufferPointer) -> Bool {
        guard (1...255).contains(text.count) else { return false }
        var elements = 0
        var length = 0
        for byte in text {
            if byte == UInt8(ascii: ".") {
                guard length > 0 else { return false }
                elements += 1
                length = 0
            } else {
                guard isLetter(byte) || length > 0 && isDigit(byte) else { return false }
                length += 1
            }
        }
        return elements > 0 && length > 0
    }

    static func isMember(_ text: UnsafeRawBufferPointer) -> Bool {
        guard (1...255).contains(text.count), !isDigit(text[0]) else { return false }
        return text.allSatisfy { isLetter($0) || isDigit($0) }
    }

    /// A unique or a well-known name. Of unique ones libdbus asks less than the specification: that no element but the
    /// first is empty.
    static func isBusName(_ text: UnsafeRawBufferPointer) -> Bool {
        guard (1...255).contains(text.count) else { return false }
        let isUnique = text[0] == UInt8(ascii: ":")
        var elements = 0
        var length = isUnique ? 1 : 0
        for byte in text.dropFirst(isUnique ? 1 : 0) {
            if byte == UInt8(ascii: ".") {
                guard length > 0 else { return false }
                elements += 1
                length = 0
            } else {
                guard isLetter(byte) || byte == UInt8(ascii: "-") || isDigit(byte) && (isUnique || length > 0) else { return false }
                length += 1
            }
        }
        return isUnique ? length > 0 : elements > 0 && length > 0
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        byte | 0x20 >= UInt8(ascii: "a") && byte | 0x20 <= UInt8(ascii: "z") || byte == UInt8(ascii: "_")
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }
}

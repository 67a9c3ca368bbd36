// SPDX-License-Identifier: Apache-2.0
// Whether bytes are a message by the D-Bus specification, as strictly as libdbus and dbus-daemon see it: lengths,
// nesting, alignment, padding, names and UTF-8. Nothing in the bytes is trusted here; a walk through them afterwards
// may trust all. (D-Bus Specification, "Marshalling" and "Valid Object Paths", "Valid Names", "Valid Signatures".)

internal import CDBus
internal import CGLib
internal import Glibc

/// Walks through a message's values and stops at the first that is not valid. Positions count from the message's first
/// byte, from which alignment counts.
struct WireValidator {
    let bytes: UnsafeRawBufferPointer
    var position: Int
    private let end: Int

    /// Arrays and structures in each other, as the specification bounds them.
    static let maxDepth = 64
    static let maxArrayBytes = 1 << 26

    init(_ bytes: UnsafeRawBufferPointer, from position: Int, to end: Int) {
        self.bytes = bytes
        self.position = position
        self.end = end
    }

    var isAtEnd: Bool { position == end }

    // MARK: Values

    /// Values of these types, one after the other. The signature has been validated.
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
            guard depth < Self.maxDepth, align(8) else { return false }
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
        guard Self.length(of: contained, at: 0) == contained.count, depth < Self.maxDepth else { return false }
        var index = 0
        return value(contained, &index, depth: depth + 1)
    }

    private mutating func array(_ signature: UnsafeRawBufferPointer, _ index: inout Int, depth: Int) -> Bool {
        index += 1
        let element = index
        let elementEnd = element + Self.length(of: signature, at: element)
        guard let count = uint32().map(Int.init), count <= Self.maxArrayBytes, depth < Self.maxDepth else { return false }
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

    /// Goes to the next multiple; skipped bytes must be zero.
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

    /// Bytes of a type of fixed size; 0 for other types.
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
        // libdbus allocates for each question, and adverts have these types only.
        if letters.count == 1, size(of: letters[0]) > 0 || letters[0] == UInt8(ascii: "s") { return true }
        return letters.isEqual(to: "ay") || letters.isEqual(to: "a{qv}") || letters.isEqual(to: "a{sv}")
            || isValid(letters) { dbus_signature_validate($0, nil) }
    }

    // MARK: Names

    static func isUTF8(_ text: UnsafeRawBufferPointer) -> Bool {
        // Nearly all is ASCII.
        guard !text.allSatisfy({ $0 != 0 && $0 < 0x80 }), let start = text.baseAddress else { return true }
        return g_utf8_validate(start.assumingMemoryBound(to: gchar.self), gssize(text.count), nil) != 0
    }

    /// Whether it is an object's path: `/`, or elements of ASCII letters, digits and `_`, each behind one `/`. Each
    /// advert has one.
    static func isPath(_ text: UnsafeRawBufferPointer) -> Bool {
        let slash = UInt8(ascii: "/")
        guard text.first == slash, text.count == 1 || text.last != slash else { return false }
        var previous: UInt8 = 0
        for byte in text {
            switch byte {
            case slash where previous != slash, UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                previous = byte
            default: return false
            }
        }
        return true
    }

    /// An interface's or an error's name.
    static func isInterface(_ text: UnsafeRawBufferPointer) -> Bool { isValid(text) { dbus_validate_interface($0, nil) } }

    static func isMember(_ text: UnsafeRawBufferPointer) -> Bool { isValid(text) { dbus_validate_member($0, nil) } }

    /// A unique or a well-known name.
    static func isBusName(_ text: UnsafeRawBufferPointer) -> Bool { isValid(text) { dbus_validate_bus_name($0, nil) } }

    /// Whether libdbus finds a text valid. NUL follows each text of a message, and must not be in it.
    private static func isValid(_ text: UnsafeRawBufferPointer, _ validate: (UnsafePointer<CChar>) -> dbus_bool_t) -> Bool {
        guard let start = text.baseAddress?.assumingMemoryBound(to: CChar.self) else { return false }
        return strlen(start) == text.count && validate(start) != 0
    }
}

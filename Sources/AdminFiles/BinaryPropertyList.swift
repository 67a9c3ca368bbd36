// SPDX-License-Identifier: Apache-2.0
// A property list in Apple's binary form (`bplist00`; CFBinaryPList.c of CoreFoundation), which Xcode writes into
// bundles. The file is untrusted: every offset, count and depth is checked.

/// A reader for one list.
struct BinaryPropertyList {
    static let magic = Array("bplist00".utf8)

    private let bytes: [UInt8]
    private let references: Int
    private let offsetSize: Int
    private let table: Int
    private let count: Int
    /// Objects may be part of several others: bounds the total number of values.
    private var budget: Int

    private static let trailer = 32

    /// The list's root.
    static func read(_ bytes: [UInt8]) throws(PropertyListProblem) -> PropertyList {
        var (list, top) = try begin(bytes)
        return try list.object(top, depth: 0)
    }

    private static func begin(_ bytes: [UInt8]) throws(PropertyListProblem) -> (BinaryPropertyList, Int) {
        guard bytes.count >= magic.count + trailer else { throw PropertyListProblem("the binary list is truncated") }
        let trailer = bytes[(bytes.count - trailer)...]
        let at = trailer.startIndex
        let list = BinaryPropertyList(
            bytes: bytes, references: Int(trailer[at + 7]), offsetSize: Int(trailer[at + 6]),
            table: try number(trailer[(at + 24)..<(at + 32)]), count: try number(trailer[(at + 8)..<(at + 16)]),
            budget: bytes.count)
        guard (1...8).contains(list.references), (1...8).contains(list.offsetSize), list.count <= bytes.count,
            list.table <= bytes.count - Self.trailer - list.count * list.offsetSize
        else { throw PropertyListProblem("the binary list's trailer is invalid") }
        return (list, try number(trailer[(at + 16)..<(at + 24)]))
    }

    private static func number(_ digits: ArraySlice<UInt8>) throws(PropertyListProblem) -> Int {
        guard let number = Int(exactly: digits.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }) else {
            throw PropertyListProblem("a number of the binary list is too large")
        }
        return number
    }

    private func slice(_ start: Int, _ length: Int) throws(PropertyListProblem) -> ArraySlice<UInt8> {
        guard start >= 0, length >= 0, start <= bytes.count, length <= bytes.count - start else {
            throw PropertyListProblem("the binary list points past its end")
        }
        return bytes[start..<(start + length)]
    }

    private mutating func object(_ index: Int, depth: Int) throws(PropertyListProblem) -> PropertyList {
        budget -= 1
        guard depth < PropertyList.maxDepth, budget > 0 else { throw PropertyListProblem("the binary list is nested too deeply") }
        guard index < count else { throw PropertyListProblem("the binary list refers to a missing object") }
        var at = try Self.number(slice(table + index * offsetSize, offsetSize))
        let marker = try slice(at, 1).first ?? 0
        at += 1
        var length = Int(marker & 0xF)
        if marker >> 4 >= 4, marker >> 4 != 8, length == 0xF {
            // The count follows, as an integer.
            let size = 1 << Int(try (slice(at, 1).first ?? 0) & 0xF)
            length = try Self.number(slice(at + 1, min(size, 8)))
            at += 1 + size
        }
        switch marker >> 4 {
        case 0x1:
            let digits = try slice(at, 1 << length)
            // Eight bytes are signed; sixteen are for unsigned numbers, which no supported key has.
            guard digits.count <= 8 else { return .other("a number of more than 63 bits") }
            return .integer(Int(truncatingIfNeeded: digits.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }))
        case 0x5: return .text(String(decoding: try slice(at, length), as: UTF8.self))
        case 0x6:
            let units = Array(try slice(at, try times(length, 2)))
            return .text(PropertyList.text(utf16: units, isBigEndian: true))
        case 0xA: return .array(try objects(at, length, depth))
        case 0xD:
            let keys = try objects(at, length, depth)
            let values = try objects(at + length * references, length, depth)
            var dictionary: [String: PropertyList] = [:]
            for (key, value) in zip(keys, values) {
                guard case .text(let name) = key else { throw PropertyListProblem("a key of the binary list is not text") }
                dictionary[name] = value
            }
            return .dictionary(dictionary)
        case 0x0: return .other(marker == 9 ? "true" : marker == 8 ? "false" : "null")
        default: return .other("a value of another type")
        }
    }

    private mutating func objects(_ at: Int, _ length: Int, _ depth: Int) throws(PropertyListProblem) -> [PropertyList] {
        let found = try slice(at, try times(length, references))
        var objects: [PropertyList] = []
        for start in stride(from: found.startIndex, to: found.endIndex, by: references) {
            let index = try Self.number(found[start..<(start + references)])
            objects.append(try object(index, depth: depth + 1))
        }
        return objects
    }

    private func times(_ length: Int, _ size: Int) throws(PropertyListProblem) -> Int {
        guard length <= bytes.count else { throw PropertyListProblem("the binary list points past its end") }
        return length * size
    }
}

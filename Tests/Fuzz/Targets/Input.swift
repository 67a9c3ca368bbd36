// SPDX-License-Identifier: Apache-2.0
// An input of libFuzzer's as a row of choices: numbers, texts, and values of the bus that are mostly of the types that
// the code wants. So the fuzzer changes the meaning of a message, and not only its spelling. At the end of the input
// every choice is the first.

import DBusKit
import Glibc

/// The choices that are left.
struct Input {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: UnsafeRawBufferPointer) { rest = Array(bytes)[...] }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

    /// 0…n − 1; n is 1…65,536.
    mutating func number(below n: Int) -> Int {
        n <= 256 ? Int(byte()) % n : (Int(byte()) << 8 | Int(byte())) % n
    }

    /// Whether something happens that does in one of so many cases; not at the end of the input.
    mutating func oneIn(_ n: Int) -> Bool { Int(byte()) % n == n - 1 }

    mutating func pick<Element>(_ list: [Element]) -> Element { list[number(below: list.count)] }

    mutating func uint64() -> UInt64 {
        switch byte() % 4 {
        case 0: UInt64(byte())
        case 1: [UInt64.max, 1 << 63, 1 << 63 - 1, 1 << 32, 1 << 31, 1 << 16, 0xFFFF_FFFF, 0x7FFF_FFFF][number(below: 8)]
        default: (0..<8).reduce(0) { value, _ in value << 8 | UInt64(byte()) }
        }
    }

    mutating func bytes() -> [UInt8] { bytes(Int(byte())) }

    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    mutating func everything() -> [UInt8] { bytes(rest.count) }

    /// Text that can travel.
    mutating func text() -> String { String(decoding: bytes().map { $0 == 0 ? 0x20 : $0 }, as: UTF8.self) }
}

/// The words of one place of the system.
struct Vocabulary {
    var texts: [String] = []
    var paths: [ObjectPath] = ["/"]
    var interfaces: [String] = []
    /// Keys of dictionaries, and the types of their values.
    var keys: [(name: String, type: Signature)] = []

    static func + (a: Self, b: Self) -> Self {
        Vocabulary(
            texts: a.texts + b.texts, paths: a.paths + b.paths, interfaces: a.interfaces + b.interfaces, keys: a.keys + b.keys)
    }
}

extension Input {
    mutating func text(_ words: Vocabulary) -> String {
        words.texts.isEmpty || oneIn(4) ? text() : pick(words.texts)
    }

    mutating func path(_ words: Vocabulary) -> ObjectPath {
        oneIn(8) ? ObjectPath("/" + text()) ?? "/" : pick(words.paths)
    }

    /// A value of this type.
    mutating func value(_ type: Signature, _ words: Vocabulary, depth: Int = 0) -> DBusValue {
        let text = type.rawValue
        switch text.utf8.first {
        case UInt8(ascii: "y"): return .byte(byte())
        case UInt8(ascii: "b"): return .boolean(!byte().isMultiple(of: 2))
        case UInt8(ascii: "n"): return .int16(Int16(truncatingIfNeeded: uint64()))
        case UInt8(ascii: "q"): return .uint16(UInt16(truncatingIfNeeded: uint64()))
        case UInt8(ascii: "i"): return .int32(Int32(truncatingIfNeeded: uint64()))
        case UInt8(ascii: "u"): return .uint32(UInt32(truncatingIfNeeded: uint64()))
        case UInt8(ascii: "x"): return .int64(Int64(bitPattern: uint64()))
        case UInt8(ascii: "t"): return .uint64(uint64())
        case UInt8(ascii: "d"):
            return .double(
                oneIn(2)
                    ? Double(bitPattern: uint64()) : [30, 0, -1, .infinity, -.infinity, .nan, 1e300, 2.5e-308][number(below: 8)])
        case UInt8(ascii: "o"): return .objectPath(path(words))
        case UInt8(ascii: "g"): return .signature(["s", "", "a{sv}", "(ii)"][number(below: 4)])
        case UInt8(ascii: "h"): return .fileDescriptor(FileDescriptor(owning: open("/dev/null", O_RDONLY | O_CLOEXEC)))
        case UInt8(ascii: "v"): return .variant(anyValue(words, depth: depth + 1))
        case UInt8(ascii: "("):
            let fields = Signature.split(String(text.dropFirst().dropLast())) ?? []
            return .structure(fields.map { value($0, words, depth: depth + 1) })
        case UInt8(ascii: "a") where text == "ay": return .bytes(bytes())
        case UInt8(ascii: "a") where text.hasPrefix("a{"): return dictionary(text, words, depth)
        case UInt8(ascii: "a"):
            let element = Signature(String(text.dropFirst())) ?? "s"
            return .array(of: element, (0..<count(depth)).map { _ in value(element, words, depth: depth + 1) })
        default: return .string(self.text(words))
        }
    }

    private mutating func count(_ depth: Int) -> Int { depth > 5 ? 0 : number(below: depth > 2 ? 4 : 8) }

    private mutating func dictionary(_ text: String, _ words: Vocabulary, _ depth: Int) -> DBusValue {
        let parts = Signature.split(String(text.dropFirst(2).dropLast())) ?? ["s", "v"]
        var entries: [DBusValue.Entry] = []
        for _ in 0..<count(depth) {
            var type = parts[1]
            let key: DBusValue
            if parts[0] == "s", type.rawValue.hasPrefix("a{"), !words.interfaces.isEmpty, !oneIn(8) {
                key = .string(pick(words.interfaces))
            } else if parts[0] == "s", type == "v", !words.keys.isEmpty, !oneIn(8) {
                let word = pick(words.keys)
                key = .string(word.name)
                type = word.type
            } else {
                key = value(parts[0], words, depth: depth + 1)
            }
            guard type == parts[1] || !oneIn(8) else {
                entries.append(DBusValue.Entry(key, .variant(anyValue(words, depth: depth + 1))))
                continue
            }
            let inner = value(type, words, depth: depth + 1)
            entries.append(DBusValue.Entry(key, type == parts[1] ? inner : .variant(inner)))
        }
        return .dictionary(key: parts[0], value: parts[1], entries)
    }

    /// A value of any type.
    mutating func anyValue(_ words: Vocabulary, depth: Int = 0) -> DBusValue {
        let simple: [Signature] = ["s", "b", "i", "u", "ay", "o", "n", "q", "y", "x", "t", "d", "as", "a{sv}", "g", "h"]
        let deep: [Signature] = ["v", "av", "(sv)", "ao", "a{qv}", "aas", "a(sos)", "a{oa{sa{sv}}}", "(sas)", "aa{sv}", "a{ss}"]
        return value(depth > 4 || !oneIn(3) ? pick(depth > 4 ? Array(simple.prefix(8)) : simple) : pick(deep), words, depth: depth)
    }

    /// Arguments, mostly of the given types.
    mutating func arguments(_ types: String, _ words: Vocabulary) -> [DBusValue] {
        if oneIn(12) { return (0..<number(below: 4)).map { _ in anyValue(words) } }
        return (Signature.split(types) ?? []).map { value($0, words) }
    }
}

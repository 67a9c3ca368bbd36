// SPDX-License-Identifier: Apache-2.0
// Values in both directions, and hostile bytes: messages that libdbus lets through are decoded, limited or refused, and
// never crash us.

import DBusKit
import TestSupport
import Testing

private func message(_ values: [DBusValue]) throws -> Message {
    try Message.call(to: "a.b", path: "/x", interface: "a.b", member: "C", values)
}

/// Through the wire format and back.
private func roundTrip(_ values: [DBusValue]) throws -> [DBusValue] {
    let bytes = try #require(try message(values).wireFormat)
    return try #require(Message.demarshal(bytes)).arguments()
}

@Suite struct ValueTests {
    static let samples: [DBusValue] = [
        .byte(255), .boolean(true), .boolean(false), .int16(-5), .uint16(65535), .int32(-7), .uint32(.max), .int64(.min),
        .uint64(.max),
        .double(-0.5), .string("Grüße 🎲"), .string(""), .objectPath("/a/b"), .signature("a{sv}"), .bytes([]), .bytes([0, 1, 255]),
        .array(of: "s", []), .strings(["a", "b"]), .array(of: "ay", [.bytes([1]), .bytes([])]),
        .dictionary(key: "s", value: "v", []), .vardict(["k": .uint16(7), "l": .vardict(["m": .strings([])])]),
        .dictionary(key: "q", value: "v", [.init(.uint16(1), .variant(.bytes([1, 2])))]),
        .dictionary(key: "o", value: "a{sa{sv}}", [.init(.objectPath("/"), .dictionary(key: "s", value: "a{sv}", []))]),
        .structure([.string("x"), .strings(["y"])]), .variant(.variant(.int32(1))),
        .array(of: "(sb)", [.structure([.string("s"), .boolean(true)])]),
    ]

    @Test(arguments: samples)
    func everyTypeSurvivesTheWire(value: DBusValue) throws {
        #expect(try roundTrip([value]) == [value])
        #expect(try roundTrip([.variant(value), value]) == [.variant(value), value])
    }

    @Test func randomValuesSurviveTheWire() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(state: seed)
        for _ in 0..<500 {
            let value = generator.value(depth: 0)
            #expect(try roundTrip([value]) == [value], "seed \(seed)")
        }
    }

    @Test(arguments: [
        DBusValue.string("a\0b"), .array(of: "s", [.int32(1)]),
        .dictionary(key: "s", value: "v", [.init(.int32(1), .variant(.byte(1)))]),
        .structure([]), .signature("a{"), .variant(.string("\0")),
    ])
    func whatCannotTravelIsRefusedNotAborted(value: DBusValue) {
        #expect(throws: BusError.self) { try message([value]) }
    }

    @Test(arguments: ["", "a", "a b", ".a", "a.", "a..b", "a.b\0", "ä.b"])
    func badNamesAreRefusedNotAborted(name: String) {
        #expect(throws: BusError.self) { try Message.call(to: name, path: "/", interface: "a.b", member: "M") }
        #expect(throws: BusError.self) { try Message.call(to: "a.b", path: "/", interface: name, member: "M") }
        #expect(ObjectPath(name) == nil)
    }

    @Test func limitsHold() throws {
        func nested(_ depth: Int) -> DBusValue { depth == 0 ? .byte(1) : .variant(nested(depth - 1)) }
        #expect(throws: BusError.self) { try message([nested(20)]).arguments(limits: .init(depth: 16, values: 100, bytes: 100)) }
        #expect(throws: BusError.self) {
            try message([.strings(Array(repeating: "", count: 101))]).arguments(limits: .init(depth: 4, values: 100, bytes: 100))
        }
        #expect(throws: BusError.self) {
            try message([.bytes(Array(repeating: 0, count: 101))]).arguments(limits: .init(depth: 4, values: 100, bytes: 100))
        }
        #expect(throws: BusError.self) {
            try message([.string(String(repeating: "x", count: 101))]).arguments(limits: .init(depth: 4, values: 100, bytes: 100))
        }
        #expect(throws: BusError.self) { try message([nested(40)]) }
    }

    @Test func signaturesSplit() {
        #expect(Signature.split("sa{sv}(oay)aa{sv}v")?.map(\.rawValue) == ["s", "a{sv}", "(oay)", "aa{sv}", "v"])
        #expect(Signature.split("") == [])
        for bad in ["a", "{sv}", "(", "z", "a{vs}"] { #expect(Signature.split(bad) == nil) }
        #expect(Signature(["s", "s"].joined()) == nil)
    }

    // MARK: Reading in place

    /// A cursor's reading of a message's first argument.
    private func reading<Result>(_ value: DBusValue, _ body: (inout ValueCursor) -> Result) throws -> Result {
        var result: Result?
        try message([value]).withArguments { result = body(&$0) }
        return try #require(result)
    }

    /// The entries that `forEachEntry(among:)` hands out, as values; nil when it says that this is no such dictionary.
    private func entries(_ value: DBusValue, among keys: [StaticString]) throws -> [(Int, DBusValue?)]? {
        try reading(value) { cursor in
            var found: [(Int, DBusValue?)] = []
            return cursor.forEachEntry(among: keys) { found.append(($0, $1.value())) } ? found : nil
        }
    }

    @Test func wantedEntriesAreRead() throws {
        let dictionary = DBusValue.dictionary(
            key: "s", value: "v",
            [
                ("b", DBusValue.uint16(1)), ("", .string("x")), ("ab", .vardict(["a": .byte(9)])),
                ("a", .variant(.variant(.bytes([1, 2])))),
                ("b", .strings(["y"])),
            ].map { .init(.string($0.0), .variant($0.1)) })
        let found = try #require(try entries(dictionary, among: ["a", "b", "c"]))
        // In the order of the wire, without their variants, repeated keys twice; a key that merely begins alike is
        // another key.
        #expect(found.map(\.0) == [1, 0, 1])
        #expect(found.map(\.1) == [.uint16(1), .bytes([1, 2]), .strings(["y"])])
        #expect(try entries(dictionary, among: [""])?.map(\.1) == [.string("x")])
        #expect(try entries(dictionary, among: [])?.isEmpty == true)
        // Also in another dictionary with texts as keys.
        let plain = DBusValue.dictionary(key: "s", value: "u", [.init(.string("a"), .uint32(7))])
        #expect(try entries(plain, among: ["a"])?.map(\.1) == [.uint32(7)])
    }

    @Test(arguments: [
        DBusValue.string("a"), .byte(1), .strings(["a"]), .bytes([97]), .array(of: "v", []), .structure([.string("a")]),
        .variant(.vardict(["a": .byte(1)])), .dictionary(key: "q", value: "v", [.init(.uint16(97), .variant(.byte(1)))]),
        .dictionary(key: "o", value: "s", [.init(.objectPath("/a"), .string("a"))]),
    ])
    func whatIsNoDictionaryOfTextsIsSaid(value: DBusValue) throws {
        #expect(try entries(value, among: ["a"]) == nil)
    }

    @Test func anEmptyDictionaryHasKeysOfAnyType() throws {
        #expect(try entries(.dictionary(key: "q", value: "v", []), among: ["a"])?.isEmpty == true)
        #expect(try entries(.vardict([:]), among: ["a"])?.isEmpty == true)
    }

    /// Reading in place and reading everything give the same result.
    @Test func bothWaysOfReadingAgree() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(state: seed)
        let keys: [StaticString] = ["k", "l", "text", "none"]
        for _ in 0..<2000 {
            let values = (0..<Int.random(in: 0...5, using: &generator)).map { _ in
                (["k", "l", "m", "text"].randomElement(using: &generator)!, generator.value(depth: 1))
            }
            let dictionary = DBusValue.dictionary(key: "s", value: "v", values.map { .init(.string($0.0), .variant($0.1)) })
            let all = try #require(dictionary.vardictValue)
            let complaint: Comment = "seed \(seed)"
            var found: [String: DBusValue] = [:]
            try message([dictionary]).withArguments { cursor in
                cursor.forEachEntry(among: keys) { key, cursor in
                    let value = cursor.value()
                    found["\(keys[key])"] = value
                    #expect(cursor.integer == value?.integerValue && cursor.boolean == value?.booleanValue, complaint)
                    #expect(cursor.bytes == value?.bytesValue && cursor.objectPath == value?.objectPathValue, complaint)
                    #expect(cursor.objectPaths == value?.arrayValue?.compactMap(\.objectPathValue), complaint)
                    #expect((cursor.type == .string ? cursor.string : nil) == value?.stringValue, complaint)
                    #expect(cursor.contains("need") == (value?.stringValue?.contains("need") == true), complaint)
                }
            }
            #expect(found == all.filter { $0.key != "m" }, complaint)
        }
    }

    @Test func numbersOfAnyWidth() throws {
        let numbers: [(DBusValue, Int?)] = [
            (.byte(255), 255), (.int16(-1), -1), (.uint16(65535), 65535), (.int32(.min), -2_147_483_648),
            (.uint32(.max), 4_294_967_295),
            (.int64(.min), .min), (.uint64(7), 7), (.uint64(.max), nil), (.boolean(true), nil), (.double(1), nil),
            (.string("1"), nil),
        ]
        for (value, number) in numbers { #expect(try reading(value) { $0.integer } == number) }
    }

    @Test func fieldsAndPaths() throws {
        let row = DBusValue.structure([.objectPath("/a"), .int16(-5)])
        try message([row]).withArguments { cursor in
            cursor.withStructure { field in
                #expect(field.objectPath == "/a" && field.next() && field.integer == -5 && !field.next())
            }
        }
        let mixed = DBusValue.array(
            of: "v", [.variant(.objectPath("/a")), .variant(.string("/b")), .variant(.variant(.objectPath("/c")))])
        #expect(try reading(mixed) { $0.objectPaths } == ["/a", "/c"])
        #expect(try reading(.objectPaths([])) { $0.objectPaths } == [])
        #expect(try reading(.bytes([1])) { $0.objectPaths } == [])
        for value in [DBusValue.objectPath("/a"), row, .vardict([:])] { #expect(try reading(value) { $0.objectPaths } == nil) }
        try message([.byte(1)]).withArguments { cursor in cursor.withStructure { _ in Issue.record("no structure") } }
    }

    /// A message that is cut off, anywhere, reaches no cursor.
    @Test func aTruncatedMessageIsNone() throws {
        let bytes = try #require(try message([.vardict(["a": .strings(["x", "y"]), "b": .variant(.uint64(1))])]).wireFormat)
        for length in 0..<bytes.count { #expect(Message.demarshal(Array(bytes[..<length])) == nil) }
    }

    // MARK: Hostile bytes

    /// Bytes of real messages, broken at random: decoding answers or throws.
    @Test func fuzzedMessagesNeverCrash() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SeededGenerator(state: seed)
        var decoded = 0
        for round in 0..<20_000 {
            let values = (0..<Int.random(in: 1...3, using: &generator)).map { _ in generator.value(depth: 0) }
            var bytes = try #require(try message(values).wireFormat)
            for _ in 0...Int.random(in: 0...6, using: &generator) {
                switch Int.random(in: 0...3, using: &generator) {
                case 0: bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
                case 1: bytes[Int.random(in: 0..<bytes.count, using: &generator)] ^= 1 << UInt8.random(in: 0...7, using: &generator)
                case 2: bytes.removeLast(Int.random(in: 0..<min(8, bytes.count), using: &generator))
                default: break
                }
                if bytes.count < 20 { break }
            }
            guard let broken = Message.demarshal(bytes) else { continue }
            decoded += 1
            _ = try? broken.arguments(limits: .init(depth: 8, values: 200, bytes: 4096))
            _ = (broken.member, broken.path, broken.sender, broken.signature, broken.error)
            broken.withArguments { cursor in
                repeat {
                    _ = cursor.string
                    _ = cursor.fingerprint
                    _ = cursor.isBytes([1])
                    cursor.forEachElement { _ = $0.string }
                    cursor.forEachEntry { entry in
                        _ = entry.uint16
                        entry.next()
                        entry.withVariant { _ = $0.value() }
                    }
                    cursor.withStructure { _ = $0.string }
                    _ = cursor.objectPaths
                    cursor.forEachEntry(among: ["k", "l"]) { _, value in
                        #expect(value.type != .end && value.type != .variant)
                        _ = (value.integer, value.contains("long"), value.objectPath, value.value())
                    }
                } while cursor.next()
            }
            #expect(round >= 0, "seed \(seed)")
        }
        // Messages that libdbus throws away at once would prove nothing about our decoding.
        #expect(decoded > 1000, "seed \(seed)")
    }
}

@Suite struct ObjectPathTests {
    @Test(
        arguments: [
            ("/a/b", "/a", true), ("/a", "/a", false), ("/ab", "/a", false), ("/a", "/a/b", false), ("/a/b/c", "/a", true),
            ("/a", "/", true), ("/", "/", false), ("/b/b", "/a", false),
        ] as [(String, String, Bool)])
    func isBelow(path: String, ancestor: String, isBelow: Bool) throws {
        #expect(try #require(ObjectPath(path)).isBelow(try #require(ObjectPath(ancestor))) == isBelow)
    }
}

extension SeededGenerator {
    mutating func value(depth: Int) -> DBusValue {
        let kind = Int.random(in: 0...(depth < 4 ? 15 : 10), using: &self)
        switch kind {
        case 0: return .byte(.random(in: 0...255, using: &self))
        case 1: return .boolean(.random(using: &self))
        case 2: return .int16(.random(in: .min ... .max, using: &self))
        case 3: return .uint16(.random(in: .min ... .max, using: &self))
        case 4: return .int32(.random(in: .min ... .max, using: &self))
        case 5: return .uint64(.random(in: .min ... .max, using: &self))
        case 6: return .double(.random(in: -1e9...1e9, using: &self))
        case 7: return .string(["", "é", "long enough to need padding", "🎲"].randomElement(using: &self)!)
        case 8: return .objectPath(["/", "/a", "/a/b_1"].randomElement(using: &self)!)
        case 9: return .bytes((0..<Int.random(in: 0...9, using: &self)).map { _ in .random(in: 0...255, using: &self) })
        case 10: return .strings((0..<Int.random(in: 0...3, using: &self)).map { "s\($0)" })
        case 11: return .variant(value(depth: depth + 1))
        case 12: return .structure((0..<Int.random(in: 1...3, using: &self)).map { _ in value(depth: depth + 1) })
        case 13: return .vardict(["k": value(depth: depth + 1), "l": value(depth: depth + 1)])
        case 14:
            let element = value(depth: depth + 1)
            if case .byte = element { return .bytes([1]) }
            return .array(of: element.signature, [element, element])
        default: return .dictionary(key: "q", value: "v", [.init(.uint16(1), .variant(value(depth: depth + 1)))])
        }
    }
}

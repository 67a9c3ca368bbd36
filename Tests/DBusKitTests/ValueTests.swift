// SPDX-License-Identifier: Apache-2.0
// Values in both directions, and hostile bytes: what libdbus lets through is decoded, limited or refused, and never crashes us.

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
                } while cursor.next()
            }
            #expect(round >= 0, "seed \(seed)")
        }
        // Messages that libdbus throws away at once would prove nothing about our decoding.
        #expect(decoded > 1000, "seed \(seed)")
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

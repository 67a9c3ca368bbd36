// SPDX-License-Identifier: Apache-2.0
// Our own reader of messages against libdbus: both accept the same messages, whatever is in the bytes, and ours reads
// the values that libdbus has written. The fuzzer (Tests/Fuzz) plays the same with inputs that it finds itself.

import Foundation
import TestSupport
import Testing

@testable import DBusKit

@Suite struct WireTests {
    /// Messages of all types in all nestings, whole and damaged: accepted by both or by neither.
    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func whatLibdbusRefusesIsRefused(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        var accepted = 0
        var refused = 0
        for _ in 0..<4000 {
            var bytes = try Self.message(&random)
            for _ in 0..<Int.random(in: 0...3, using: &random) { Self.damage(&bytes, &random) }
            // Bytes behind it belong to the next message.
            if let length = try? bytes.withUnsafeBytes({ try WireMessage.length(of: $0) }), length < bytes.count {
                bytes.removeLast(bytes.count - length)
            }
            let verdict = Self.accepts(bytes)
            if verdict { accepted += 1 } else { refused += 1 }
            #expect(verdict == (Message.demarshal(bytes)?.kind == .signal), "\(Hex.dump(bytes))")
        }
        #expect(accepted > 1000 && refused > 1000)
    }

    /// Whether our reader would walk through the message: header and all values are valid.
    static func accepts(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { bytes in
            guard let length = try? WireMessage.length(of: bytes), length == bytes.count, let message = try? WireMessage(bytes),
                message.type == WireMessage.signal
            else { return false }
            var body = WireValidator(bytes, from: message.bodyOffset, to: bytes.count)
            return body.values(UnsafeRawBufferPointer(rebasing: bytes[message.signature]), depth: 0) && body.isAtEnd
        }
    }

    private static func message(_ random: inout SeededGenerator) throws -> [UInt8] {
        let values = (0..<Int.random(in: 0...3, using: &random)).map { _ in value(&random, depth: 0) }
        let message = try Message.signal(
            path: ["/", "/org/bluez", "/org/bluez/hci0/dev_C0_FF_EE_00_00_01"].randomElement(using: &random)!,
            interface: "org.freedesktop.DBus.Properties", member: "PropertiesChanged",
            to: Bool.random(using: &random) ? ":1.42" : nil, values)
        if Bool.random(using: &random) { message.setSender(":1.7") }
        return try #require(message.wireFormat)
    }

    static func value(_ random: inout SeededGenerator, depth: Int) -> DBusValue {
        switch Int.random(in: 0...(depth < 3 ? 15 : 11), using: &random) {
        case 0: return .byte(.random(in: .min ... .max, using: &random))
        case 1: return .boolean(.random(using: &random))
        case 2: return .int16(.random(in: .min ... .max, using: &random))
        case 3: return .uint16(.random(in: .min ... .max, using: &random))
        case 4: return .uint32(.random(in: .min ... .max, using: &random))
        case 5: return .int64(.random(in: .min ... .max, using: &random))
        case 6: return .double(.random(in: -1...1, using: &random))
        case 7, 8: return .string(["", "RSSI", "Würfel 🎲", String(repeating: "x", count: 70)].randomElement(using: &random)!)
        case 9: return .objectPath("/a/b_c/1")
        case 10: return .signature(["", "a{sv}", "(iay)"].randomElement(using: &random)!)
        case 11: return .bytes((0..<Int.random(in: 0...9, using: &random)).map { UInt8($0) })
        case 12: return .variant(value(&random, depth: depth + 1))
        case 13: return .structure((0...Int.random(in: 0...2, using: &random)).map { _ in value(&random, depth: depth + 1) })
        case 14:
            return .array(
                of: "v", (0..<Int.random(in: 0...3, using: &random)).map { _ in .variant(value(&random, depth: depth + 1)) })
        default:
            return .dictionary(
                key: "q", value: "v",
                (0..<Int.random(in: 0...3, using: &random)).map {
                    .init(.uint16(UInt16($0)), .variant(value(&random, depth: depth + 1)))
                })
        }
    }

    static func damage(_ bytes: inout [UInt8], _ random: inout SeededGenerator) {
        guard !bytes.isEmpty else { return }
        let place = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0...6, using: &random) {
        case 0: bytes[place] ^= 1 << UInt8.random(in: 0...7, using: &random)
        case 1: bytes[place] = .random(in: .min ... .max, using: &random)
        case 2: bytes.removeLast(Int.random(in: 0...min(9, bytes.count - 1), using: &random))
        case 3: bytes.append(contentsOf: repeatElement(0, count: Int.random(in: 1...9, using: &random)))
        case 4: bytes[place] = [0, 1, 2, 4, 8, 0x61, 0x7B, 0x7D, 0x28, 0x76, 0x80, 0xC0, 0xFF].randomElement(using: &random)!
        case 5 where bytes.count >= 16:
            // The lengths of body and fields, as they would be by mistake.
            bytes[[4, 12].randomElement(using: &random)!] &+= [1, 4, 8, 0xFF].randomElement(using: &random)!
        default: if place + 1 < bytes.count { bytes.swapAt(place, place + 1) }
        }
    }

    @Test(arguments: [
        ("", true), ("s", true), ("a{sv}", true), ("sa{sv}as", true), ("a{vs}", false), ("{sv}", false), ("()", false),
        ("(", false),
        ("a", false), ("a{s}", false), ("a{svs}", false), ("z", false), ("r", false), ("(a)", false), (")", false), ("a{sv", false),
        (String(repeating: "a", count: 32) + "y", true), (String(repeating: "a", count: 33) + "y", false),
        (String(repeating: "(", count: 32) + "y" + String(repeating: ")", count: 32), true),
        (String(repeating: "(", count: 33) + "y" + String(repeating: ")", count: 33), false),
        (String(repeating: "y", count: 255), true), (String(repeating: "y", count: 256), false),
    ])
    func signaturesAreThoseOfTheSpecification(signature: String, isValid: Bool) {
        #expect(Self.inMessage(signature, WireValidator.isSignature) == isValid)
    }

    @Test(arguments: [
        "", ".", "a", ".a", "a.", "a..b", "a.b", "a.1b", "1a.b", "a.b-c", ":1.2", ":a", ":1.", "a.b_c", "ä.b", "a-b.c", ":.1",
        ":..1", ":", ":1..2", ":-.-", ":a b", "a.b\0", "a\0.b",
    ])
    func namesAreThoseOfTheSpecification(name: String) {
        #expect(Self.inMessage(name, WireValidator.isBusName) == BusNames.isBusName(name), "bus name")
        #expect(Self.inMessage(name, WireValidator.isInterface) == BusNames.isInterface(name), "interface")
        #expect(Self.inMessage(name, WireValidator.isMember) == BusNames.isMember(name), "member")
        #expect(Self.inMessage(name, WireValidator.isPath) == (ObjectPath(name) != nil), "path")
    }

    /// A text as it stands in a message: NUL follows.
    private static func inMessage(_ text: String, _ check: (UnsafeRawBufferPointer) -> Bool) -> Bool {
        (Array(text.utf8) + [0]).withUnsafeBytes { check(UnsafeRawBufferPointer(rebasing: $0.dropLast())) }
    }

    @Test(arguments: ["/", "//", "/a", "/a/", "/a//b", "/a/b", "a", "/ä", "/a-b", "/a_1"])
    func pathsAreThoseOfTheSpecification(path: String) {
        #expect(Self.inMessage(path, WireValidator.isPath) == (ObjectPath(path) != nil))
    }

    /// Values as libdbus writes them, read back all at once and one by one.
    @Test(arguments: [1, 2, 3] as [UInt64]) func valuesOfLibdbusAreReadBack(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        for _ in 0..<500 {
            let values = (0..<Int.random(in: 0...5, using: &random)).map { _ in Self.value(&random, depth: 0) }
            let bytes = try #require(try Message.signal(path: "/a", interface: "a.b", member: "C", values).wireFormat)
            #expect(try Message.demarshal(bytes)?.arguments() == values)
            var found: [DBusValue?] = []
            try bytes.withUnsafeBytes { bytes in
                let read = try WireMessage(bytes)
                var cursor = ValueCursor(
                    bytes, at: read.bodyOffset, types: UnsafeRawBufferPointer(rebasing: bytes[read.signature]))
                for _ in values {
                    found.append(cursor.value())
                    cursor.next()
                }
                let isAtEnd = cursor.type == .end
                #expect(isAtEnd)
            }
            #expect(found == values)
        }
    }
}

private enum Hex {
    static func dump(_ bytes: [UInt8]) -> String { bytes.map { String(format: "%02x", $0) }.joined() }
}

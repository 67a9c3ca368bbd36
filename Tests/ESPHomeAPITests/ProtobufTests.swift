// SPDX-License-Identifier: Apache-2.0
// Fields of messages as strangers may write them, within their bounds and beyond, and as they are written here.

@testable import ESPHomeAPI
import TestSupport
import Testing

@Suite struct ProtobufReaderTests {
    private func fields(_ bytes: [UInt8]) -> ProtobufReader? { try? ProtobufReader(bytes[...]) }

    @Test func fieldsOfBothTypes() throws {
        let reader = try #require(fields([0x08, 0x96, 0x01, 0x12, 0x03, 0x41, 0x42, 0x43, 0x18, 0x01]))
        #expect(reader.number(1) == 150 && reader.number32(1) == 150 && reader.text(2) == "ABC" && reader.bytes(2) == [65, 66, 67])
        #expect(reader.flag(3) && !reader.flag(4) && reader.number(4) == 0 && reader.text(4) == "" && reader.bytes(4) == [])
        // Of the other type.
        #expect(reader.bytes(1) == [] && reader.number(2) == 0)
    }

    @Test func nothingIsAMessage() throws {
        let reader = try #require(fields([]))
        #expect(reader.number(1) == 0 && reader.text(1) == "")
    }

    @Test func theLastOfSeveralValuesCounts() throws {
        let reader = try #require(fields([0x08, 0x01, 0x12, 0x01, 0x61, 0x08, 0x02, 0x12, 0x00, 0x08, 0x03]))
        #expect(reader.number(1) == 3 && reader.bytes(2) == [])
    }

    @Test func fieldsThatNoneKnowsAreSkipped() throws {
        let reader = try #require(
            fields(
                [0x09, 1, 2, 3, 4, 5, 6, 7, 8]  // 64 bits in field 1, where a number is wanted
                    + [0x15, 1, 2, 3, 4]  // 32 bits
                    + [0xFA, 0x7F, 0x02, 9, 9]  // field 2047
                    + [0xF8, 0xFF, 0xFF, 0xFF, 0x0F, 0x01]  // the highest number of a field
                    + [0x18, 0x2A]))
        #expect(reader.number(1) == 0 && reader.number(2) == 0 && reader.number(3) == 42)
        #expect(reader.bytes(2047) == [9, 9] && reader.number(0x1FFF_FFFF) == 1)
    }

    @Test(
        arguments: [
            [0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
            [0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
            // Longer than need be.
            [0x08, 0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], [0x88, 0x00, 0x07],
        ] as [[UInt8]])
    func numbersOfTenBytes(_ bytes: [UInt8]) throws {
        let expected: [UInt8: UInt64] = [0x80: 1 << 63, 0xFF: .max, 0x85: 5, 0x00: 7]
        #expect(try #require(fields(bytes)).number(1) == expected[bytes[1]])
    }

    @Test func aNumberOf32BitsIsTheLowerHalf() throws {
        let reader = try #require(fields([0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]))
        #expect(reader.number32(2) == .max && reader.number(2) == .max)
    }

    @Test(
        arguments: [
            // Cut off: in the tag, in the number, before the length, in the bytes, in the fixed numbers.
            [0x88], [0x08], [0x08, 0x80], [0x08, 0xFF, 0xFF], [0x12], [0x12, 0x80], [0x12, 0x01], [0x12, 0x05, 1, 2, 3, 4],
            [0x09, 1, 2, 3, 4, 5, 6, 7], [0x0D, 1, 2, 3],
            // Eleven bytes, and more than 64 bits in ten.
            [0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
            [0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02],
            // Lengths beyond the end, up to 2^64 − 1.
            [0x12, 0x7F], [0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0],
            [0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0],
            [0x12, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
            // Field 0, fields beyond the highest number, and a tag of 64 bits.
            [0x00, 0x01], [0x02, 0x00], [0x80, 0x80, 0x80, 0x80, 0x10, 0x01],
            [0xF8, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0x01],
            // Groups, and types that there are none of.
            [0x0B], [0x0C], [0x0B, 0x0C], [0x0E, 0x00], [0x0F, 0x00],
            // Good ones before.
            [0x08, 0x01, 0x12, 0x03, 0x41, 0x42, 0x43, 0x12],
        ] as [[UInt8]])
    func malformedMessages(_ bytes: [UInt8]) { #expect(fields(bytes) == nil) }

    @Test func textThatIsNoUTF8IsRepaired() throws {
        let text = try #require(fields([0x0A, 0x03, 0x41, 0xFF, 0x42])).text(1)
        #expect(text == "A\u{FFFD}B")
    }

    /// No bytes do harm, and those of a part of a larger buffer are read within it.
    @Test func randomBytes() {
        var random = SeededGenerator(state: 48)
        var accepted = 0
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0...24, using: &random)).map { _ in
                Bool.random(using: &random)
                    ? UInt8.random(in: 0...255, using: &random) : [0x08, 0x12, 0x01, 0x80].randomElement(using: &random)!
            }
            let alone = fields(bytes)
            let within = try? ProtobufReader(([0xFF, 0xFF] + bytes + [0x01, 0x01]).dropFirst(2).dropLast(2))
            #expect((alone == nil) == (within == nil))
            guard let alone, let within else { continue }
            accepted += 1
            for field in 1...4 { #expect(alone.number(field) == within.number(field) && alone.bytes(field) == within.bytes(field)) }
        }
        #expect((1000..<19_000).contains(accepted), "\(accepted)")
    }
}

@Suite struct ProtobufWriterTests {
    private func bytes(_ write: (inout ProtobufWriter) -> Void) -> [UInt8] {
        var writer = ProtobufWriter()
        write(&writer)
        return writer.bytes
    }

    @Test func zeroIsLeftOut() {
        #expect(
            bytes {
                $0.number(1, 0)
                $0.signed(2, 0)
                $0.zigzag(3, 0)
                $0.flag(4, false)
                $0.bytes(5, [])
                $0.text(6, "")
                $0.numbers(7, [])
            } == [])
        // An element stands for itself, however empty.
        #expect(bytes { $0.element(1, []) } == [0x0A, 0x00])
        #expect(bytes { $0.message(1) { _ in } } == [0x0A, 0x00])
        #expect(bytes { $0.numbers(1, [0]) } == [0x0A, 0x01, 0x00])
    }

    @Test func numbers() {
        #expect(bytes { $0.number(1, 127) } == [0x08, 0x7F])
        #expect(bytes { $0.number(1, 128) } == [0x08, 0x80, 0x01])
        #expect(bytes { $0.number(16, .max) } == [0x80, 0x01] + [UInt8](repeating: 0xFF, count: 9) + [0x01])
        #expect(bytes { $0.signed(1, -1) } == [0x08] + [UInt8](repeating: 0xFF, count: 9) + [0x01])
        for (value, written) in [(-1, 1), (1, 2), (-64, 127), (63, 126), (-128, 255)] as [(Int, UInt64)] {
            #expect(bytes { $0.zigzag(1, value) } == bytes { $0.number(1, written) })
        }
        #expect(bytes { $0.numbers(2, [3, 270, 86_942]) } == [0x12, 0x06, 0x03, 0x8E, 0x02, 0x9E, 0xA7, 0x05])
    }

    @Test func whatIsWrittenIsRead() throws {
        var random = SeededGenerator(state: 7)
        for _ in 0..<2000 {
            let number = UInt64.random(in: 0...(.max), using: &random) >> UInt64.random(in: 0...63, using: &random)
            let field = Int.random(in: 1...0x1FFF_FFFE, using: &random)
            let value = (0..<Int.random(in: 0...300, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
            let written = bytes {
                $0.number(field, number)
                $0.bytes(field + 1, value)
            }
            let reader = try ProtobufReader(written[...])
            #expect(reader.number(field) == number && reader.bytes(field + 1) == value)
        }
    }
}

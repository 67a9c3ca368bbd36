// SPDX-License-Identifier: Apache-2.0
// The reader of foreign JSON: each text that is valid is read as the writer writes it, and no other is.

import JSONText
import Testing

struct JSONReaderTests {
    static let texts: [(String, JSON)] = [
        ("null", JSON.null), ("true", .boolean(true)), (" [ ] ", []), ("{}", [:]), ("-0", .integer(0)), ("12", .integer(12)),
        ("-9223372036854775808", .integer(.min)), ("1.5e3", .number(1500)), ("0.25", .number(0.25)),
        (#""a\"\\\/\b\f\n\r\té\uD83C\uDFB2""#, "a\"\\/\u{8}\u{C}\n\r\té🎲"),
        (#"{"a":[1,{"b":null}]}"#, ["a": [.integer(1), ["b": .null]]]),
        ("\"é\"", "é"),
    ]

    @Test(arguments: texts)
    func valid(text: String, value: JSON) throws {
        #expect(try JSON(parsing: Array(text.utf8)) == value)
    }

    @Test(arguments: [
        "", " ", "nul", "tru", "01", "-", "+1", ".5", "1.", "1e", "1e+", "9223372036854775808", "1e999", "\"", "\"\\x\"",
        "\"\\u12\"",
        "\"\\uD83C\"", "\"\\uD83C\\u0041\"", "\"\\uDFB2\"", "\"\\u+123\"", "\"\n\"", "[", "[1", "[1,]", "[,1]", "{", "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}", "{a:1}", "{\"a\":1 \"b\":2}", "{\"a\":1,\"a\":2}", "1 2", "[] []", "NaN", "'a'",
    ])
    func invalid(text: String) {
        #expect(throws: JSON.Mistake.self) { try JSON(parsing: Array(text.utf8)) }
    }

    @Test func bytesThatAreNotText() {
        #expect(throws: JSON.Mistake.self) { try JSON(parsing: [0x22, 0xFF, 0x22]) }
        #expect(throws: JSON.Mistake.self) { try JSON(parsing: [0x22, 0xED, 0xA0, 0x80, 0x22]) }
        #expect(throws: JSON.Mistake.self) { try JSON(parsing: [0xEF, 0xBB, 0xBF, 0x31]) }
    }

    @Test func depthIsBounded() throws {
        let deepest = String(repeating: "[", count: JSON.maxDepth) + String(repeating: "]", count: JSON.maxDepth)
        #expect(throws: Never.self) { try JSON(parsing: Array(deepest.utf8)) }
        #expect(throws: JSON.Mistake.self) { try JSON(parsing: Array("[\(deepest)]".utf8)) }
        #expect(throws: JSON.Mistake.self) { try JSON(parsing: Array(repeating: UInt8(ascii: "["), count: 1 << 20)) }
    }

    @Test func mistakesHaveTheirPlace() {
        let mistake = #expect(throws: JSON.Mistake.self) { try JSON(parsing: Array("[1, x]".utf8)) }
        #expect(mistake?.offset == 4)
    }

    @Test func whatIsWrittenIsRead() throws {
        let value: JSON = [
            "text": "\u{0}\u{7F}\"\\\n🎲", "list": [.integer(.max), .number(-1.25), .boolean(false), .null], "object": ["": "x"],
        ]
        #expect(try JSON(parsing: Array(value.written.utf8)) == value)
        #expect(try JSON(parsing: Array(value.writtenInOneLine.utf8)) == value)
    }
}

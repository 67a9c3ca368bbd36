// SPDX-License-Identifier: Apache-2.0
// Match rules as a bus reads them: the text, and the messages that it matches.

import DBusKit
import TestSupport
import Testing

@Suite struct MatchRuleTests {
    private func signal(_ arguments: DBusValue...) throws -> Message {
        try .signal(path: "/org/bluez/hci0/dev_1", interface: "a.b.C", member: "Changed", arguments)
    }

    @Test(arguments: [
        ("", true), ("type='signal'", true), ("type='method_call'", false), ("sender='org.bluez'", true), ("sender=':1.1'", false),
        ("interface='a.b.C',member='Changed'", true), ("interface=a.b.C", true), ("member='Other'", false),
        ("path='/org/bluez/hci0/dev_1'", true), ("path='/org/bluez/hci0'", false), ("path_namespace='/org/bluez/hci0'", true),
        ("path_namespace='/org/bluez/hci0/dev_1'", true), ("path_namespace='/org/bluez/hci0/dev'", false),
        ("path_namespace='/'", true),
        ("arg0='one'", true), ("arg0='two'", false), ("arg1='/a/b'", false), ("arg1path='/a/b'", true), ("arg1path='/a/'", true),
        ("arg1path='/a'", false), ("arg1path='/a/b/'", false), ("arg2='x'", false), ("arg63='x'", false),
        ("arg0namespace='one'", true),
        ("arg0namespace='on'", false), ("destination=':1.5'", false), (" type='signal', member=Changed", true),
        ("eavesdrop='true'", true),
        // Quotes anywhere, and an apostrophe outside quotes.
        ("arg0=o'n'e", true), ("arg0='o''ne'", true),
    ]) func matching(text: String, expected: Bool) throws {
        let rule = try MatchRule(text)
        #expect(
            rule.matches(try signal(.string("one"), .objectPath("/a/b"), .uint32(1)), from: ["org.bluez", ":bluez.1"]) == expected)
    }

    @Test func anApostropheIsWrittenOutsideTheQuotes() throws {
        #expect(try MatchRule(#"arg0='it'\''s'"#).matches(try signal(.string("it's")), from: []))
        #expect(try MatchRule(#"arg0='a\b'"#).matches(try signal(.string(#"a\b"#)), from: []))
    }

    @Test(arguments: [
        "type", "type=", "type='x'", "sender='1'", "sender=''", "interface='a'", "member='a.b'", "path='a'", "path='/a/'",
        "path='/',path_namespace='/'", "arg64='x'", "arg-1='x'", "argpath='x'", "arg='x'", "unknown='x'",
        "type='signal',type='signal'",
        "arg0='x", "arg0=x\0,member=\0", String(repeating: "a", count: 2000),
    ]) func refusing(text: String) {
        #expect { try MatchRule(text) } throws: { ($0 as? BusError)?.name == "org.freedesktop.DBus.Error.MatchRuleInvalid" }
    }

    /// Whatever the text is, reading it ends, and the resulting rule can be used.
    @Test func fuzz() throws {
        var generator = SeededGenerator(state: 11)
        let alphabet = Array("',=\\/.a0:*arg path type signal sender interface é\u{0}\u{1F4A9}")
        let message = try signal(.string("one"))
        for _ in 0..<20_000 {
            let text = String(
                (0..<Int.random(in: 0...40, using: &generator)).map { _ in alphabet.randomElement(using: &generator)! })
            if let rule = try? MatchRule(text) { _ = rule.matches(message, from: ["a.b"]) }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Names are compared as Foundation compares them: both get the same questions here, with all options, about names in
// several scripts. Regular expressions are PCRE2's; the patterns that ICU reads alike are held against ICU.

import AccessoryModel
import Foundation
import TestSupport
import Testing

@testable import AccessoryCore

private func rule(_ needle: String, _ options: CompareOptions) throws -> NameRule {
    try #require(NameRule(substring: needle, options: options))
}

/// Foundation's answer.
private func foundation(_ needle: String, in name: String, _ options: CompareOptions) -> Bool {
    let options = NSString.CompareOptions(rawValue: UInt(options.rawValue))
    return (name as NSString).range(of: needle, options: options).location != NSNotFound
}

private func shown(_ text: String) -> String {
    text.unicodeScalars.map { String($0.value, radix: 16) }.joined(separator: " ")
}

/// The options that do not make it a regular expression, one for each bit.
private let bits = CompareOptions.names.map(\.1).filter { $0 != .regularExpression }

private func options(_ number: Int) -> CompareOptions {
    CompareOptions(bits.indices.filter { number >> $0 & 1 == 1 }.map { bits[$0] })
}

@Suite struct NameRuleTests {
    /// Texts that are alike in some way; within a group each is looked for in each.
    private static let groups: [[String]] = [
        ["", "a", "Dice 12", "dice 12", "Dice", "12", "2", "Dice 12 and more than that"],
        ["ß", "ss", "SS", "ẞ", "straße", "STRASSE", "s"],
        ["İ", "i", "I", "ı", "i\u{307}"],
        ["ﬁ", "fi", "FI", "f", "ﬀ", "Fish"],
        ["σ", "ς", "Σ", "ΟΔΟΣ", "οδος", "ά", "Α\u{301}"],
        ["é", "e\u{301}", "É", "e", "cafés", "Cafe\u{301}"],
        ["ệ", "e\u{323}\u{302}", "ê\u{323}", "e"],
        ["й", "и\u{306}", "Й", "и", "Чайник", "чай"],
        ["각", "가", "\u{1100}\u{1161}\u{11A8}", "\u{1100}\u{1161}"],
        ["ガ", "カ\u{3099}", "カ", "テレビ", "レ"],
        ["Ａ", "A", "ａ", "ＡＢＣ", "abc"],
        ["中文 灯 2", "灯", "灯 2"],
        ["👍", "👍🏽", "👩‍👩‍👧", "❤️", "❤"],
    ]

    @Test("all options over texts that are alike", arguments: 0..<256) func table(number: Int) throws {
        let options = options(number)
        for (index, group) in Self.groups.enumerated() {
            // Foundation decomposes no syllables in literal comparisons, and without diacritics compares marks of other
            // scripts in one of both texts only.
            if options.contains(.diacriticInsensitive), !group.contains(where: { $0.unicodeScalars.contains { $0 < "\u{510}" } }) {
                continue
            }
            for needle in group {
                for name in group where try rule(needle, options).matches(name) != foundation(needle, in: name, options) {
                    Issue.record("group \(index): [\(shown(needle))] in [\(shown(name))] with \(options.rawValue)")
                }
            }
        }
    }

    /// A match begins and ends between characters as a reader sees them; Foundation finds some others.
    @Test(
        "no part of a character",
        arguments: [
            ("e", "e\u{301}"), ("\u{301}", "e\u{301}"), ("🇩", "🇩🇪"), ("👍", "👍🏽"), ("\u{1100}", "가"), ("s", "ß"), ("\n", "\r\n"),
            ("f", "ﬁ"),
        ]) func boundaries(needle: String, name: String) throws
    {
        #expect(try !rule(needle, .caseInsensitive).matches(name))
        #expect(try rule(needle, .literal).matches(name) == name.unicodeScalars.contains(needle.unicodeScalars.first!))
    }

    @Test func widthsAndDiacritics() throws {
        #expect(try rule("ガ", .widthInsensitive).matches("ｶﾞ"))
        #expect(try rule("！", .widthInsensitive).matches("Dice!"))
        // Marks make other letters in scripts such as these.
        #expect(try !rule("カ", .diacriticInsensitive).matches("ガ"))
        #expect(try rule("u", .diacriticInsensitive).matches("ǖ"))
    }

    /// Every character that has another case or a decomposition, against these. (Beyond U+FFFF, Foundation compares
    /// halves of characters, with their case.)
    @Test func characters() throws {
        for value in UInt32(0x80)...0xFFFF where !(0xAC00...0xD7FF ~= value) {
            guard let scalar = Unicode.Scalar(value), !scalar.properties.isGraphemeExtend else { continue }
            let text = String(scalar)
            // Foundation's tables are older than these letters' case folding (Unicode 9) and than Unicode 16; GLib
            // folds each case of Cherokee to the other.
            let isNew = { (scalar: Unicode.Scalar) in scalar.properties.age.map { $0.major >= 16 } ?? true }
            guard !(0x1C80...0x1C88 ~= value), !(0x13A0...0x13FF ~= value), !(0xAB70...0xABBF ~= value), !isNew(scalar) else {
                continue
            }
            let properties = scalar.properties
            let decomposed = text.decomposedStringWithCanonicalMapping
            var others = [decomposed: CompareOptions()]
            // A subscript iota is a letter in upper case: one character is two, and found as such by one of both only.
            if properties.isCased, !decomposed.unicodeScalars.contains("\u{345}") {
                others[properties.lowercaseMapping] = .caseInsensitive
                others[properties.uppercaseMapping] = .caseInsensitive
            }
            for (other, options) in others where !other.unicodeScalars.contains(where: isNew) {
                for (needle, name) in [(text, other), (other, text)]
                where try rule(needle, options).matches(name) != foundation(needle, in: name, options) {
                    Issue.record("[\(shown(needle))] in [\(shown(name))] with \(options.rawValue)")
                }
            }
        }
    }

    /// Names that a stranger chooses to take long: the longest ones, of characters that take the most steps.
    @Test func hostile() throws {
        let marks = String(repeating: "\u{301}\u{323}", count: 62)
        for (needle, name) in [
            ("a" + marks + "x", "a" + marks + "y"), (marks + "x", marks), (String(repeating: "ßs\u{301}", count: 50), marks),
            (String(repeating: "s\u{301}ss", count: 60), String(repeating: "ß\u{301}", count: 60)),
            (String(repeating: "\0", count: 248), "a"),
            (String(repeating: "각", count: 82), String(repeating: "\u{1100}", count: 82)),
        ] {
            for number in 0..<64 {
                let rule = try rule(needle, options(number))
                #expect(ContinuousClock().measure { _ = rule.matches(name) } < .seconds(1))
            }
        }
    }

    // MARK: Regular expressions

    /// Whether ICU finds it; nil for a pattern that it refuses. Its reports of progress are of no use here: it reports
    /// each beginning that it tries, and has no end.
    private func icu(_ pattern: String, in name: String, _ options: CompareOptions) -> Bool? {
        guard
            let expression = try? NSRegularExpression(
                pattern: pattern, options: options.contains(.caseInsensitive) ? .caseInsensitive : [])
        else { return nil }
        return expression.firstMatch(
            in: name, options: options.contains(.anchored) ? .anchored : [],
            range: NSRange(location: 0, length: (name as NSString).length)) != nil
    }

    private static let names = [
        "", "Dice", "dice 12", "Smart Dice-12AB", "aab", "a", "-", "_x", "ab\n", "a\u{2028}b", "a\u{85}", "\0", "a\0b", "é", "É",
        "Σ",
        "ς", "ΟΔΟΣ", "👍🏽", "ガ", "ｶﾞ", "가", "\u{A0}", "K", "ſ", "x-y", "[", "]", "#", "ab c", "中文 灯 2",
    ]

    private static let patterns = [
        "Dice", "^Dice$", "^dice [0-9]+$", "-[0-9A-F]{4}$", "a*", "a+?b", "a{2}b", "a{2,}", "a{0,1}?b", "a++b", "(a|b)+", "(?:a)",
        "(?>a+)b", "a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", "(a)\\1", "(a)\\11", "\\1(a)", "(?<n>a)\\k<n>", "(?i)DICE",
        "(?i:d)ice",
        "(?-i)dice", "a(?i)B", "(?s)a.b", "(?s-i:a.)b", "(?m)^b", "(?m)a$", "a$", "a\\Z", "a\\z", "\\Aa", "\\Ga",
        "(?x) a # one\n b",
        "(?x: a )b", "(?x)a # one", "(?#c)a", ".", "a.b", "^.$", "^..$", "\\d", "\\D", "\\w", "\\W", "^\\w+$", "\\s", "\\S", "\\h",
        "\\H",
        "\\v", "\\V", "\\b", "\\B", "\\b\\w", "\\bb", "\\By", "\\R", "a\\R", "^\\X$", "[a-c]", "[^a-c]", "[]a]", "[^]a]", "[a-]",
        "[-a]",
        "[\\w-]", "[\\W]", "[^\\W]", "[^\\W\\d]", "[\\D\\s]", "[é]", "[^é]", "\\x00", "[A-Z]", "[[:alpha:]]",
        "[[:^alpha:]]", "[^[:alpha:][:space:]]", "[[:punct:]]", "[[:digit:]x]", "[[:xdigit:]]", "[[:word:]]", "[[:blank:]]",
        "[[:cntrl:]]", "\\p{L}", "\\P{L}", "\\p{Greek}", "\\p{script=Han}", "\\p{M}", "[\\p{L}\\p{Nd}]", "[^\\p{L}]", "\\x41",
        "\\x{e9}", "\\cJ", "\\t", "\\n", "\\e", "\\Qa.\\E", "\\Q[\\E", "\\Qa", "\\.", "\\-", "\\[", "\\#", "]", "é", "Σ", "σ", "k",
        "s", "[k]",
        "[σ]", "(a?)*", "(a|)+b", "()", "|a", "a|", "ガ", "👍", "👍.", "[ a]", "\\ ",
    ]

    /// Only patterns and names that both read alike: they differ about marks and invisible characters within words.
    @Test("patterns", arguments: [[], .caseInsensitive, .anchored, [.caseInsensitive, .anchored]] as [CompareOptions])
    func patterns(options: CompareOptions) throws {
        for pattern in Self.patterns {
            guard let rule = NameRule(substring: pattern, options: options.union(.regularExpression)) else {
                Issue.record("\(pattern) does not compile")
                continue
            }
            for name in Self.names where rule.verdict(on: name) != icu(pattern, in: name, options) {
                Issue.record("\(pattern) in [\(shown(name))] with \(options.rawValue)")
            }
        }
    }

    @Test(
        "refused",
        arguments: [
            "", "(", ")", "a)", "a)|(b", "[", "[]", "[^]", "*", "+a", "a{2,1}", "a|*", "\\", "\\1", "(a)\\2", "\\k<n>",
            "\\u00e9", "\\U00110000", "\\p{Foo}", "[z-a]", "[a-\\d]", "[[:foo:]]", "(?1)", "(?(1)a)", "(?#c",
            // Settings of the matcher, which hold at the beginning of a pattern only.
            "(*UCP)a", "(*LIMIT_MATCH=9999999)a", "(*LIMIT_HEAP=9)a", "(*NO_START_OPT)a", "(*NO_JIT)a",
            // PCRE2 would read these in another way than ICU does.
            "\\C", "[a\\]\\C", "[a-z&&[aeiou]]", "[a[b]]", "[a&&b]", "[[:alpha:]&&b]", "[][a]", "(?w)a",
            "\\N{LATIN SMALL LETTER A}",
            "a{65536}", "a\0b",
        ])
    func refused(pattern: String) {
        #expect(NameRule(substring: pattern, options: .regularExpression) == nil)
    }

    @Test func classesAreRead() throws {
        for (pattern, name) in [("[[:alpha:]]&&", "a&&"), ("\\\\C", "\\C"), ("\\[a[b]", "[ab"), ("[a\\[]", "["), ("[]a][b]", "]b")]
        {
            #expect(try rule(pattern, .regularExpression).matches(name), "\(pattern)")
        }
    }

    /// PCRE2 looks behind at several lengths since 10.43 (Debian 13 has 10.46), and then means the same as ICU; before
    /// that it refuses (Debian 12).
    @Test func lookBehindOfSeveralLengths() throws {
        let pattern = "(?<=a{1,3})b"
        var version = [UInt8](repeating: 0, count: 64)
        let library = try #require(dlopen("libpcre2-8.so.0", RTLD_NOW))
        let ask = try #require(dlsym(library, "pcre2_config_8"))
        _ = unsafeBitCast(ask, to: (@convention(c) (UInt32, UnsafeMutableRawPointer?) -> Int32).self)(11, &version)
        let text = String(decoding: version.prefix { $0 != 0 }, as: UTF8.self)
        let minor = try #require(text.split { !$0.isNumber }.dropFirst().first.flatMap { Int($0) })
        guard minor >= 43 else {
            #expect(NameRule(substring: pattern, options: .regularExpression) == nil)
            return
        }
        for name in ["b", "ab", "aab", "aaaab", "ba", "cb"] {
            #expect(try rule(pattern, .regularExpression).verdict(on: name) == icu(pattern, in: name, []))
        }
    }

    /// The one remaining difference between patterns that compile: ICU folds one letter to several, PCRE2 does not.
    @Test func oneLetterForSeveral() throws {
        for (pattern, name) in [("ß", "ss"), ("ss", "ß"), ("fi", "ﬁ")] {
            #expect(icu(pattern, in: name, .caseInsensitive) == true)
            #expect(try rule(pattern, [.regularExpression, .caseInsensitive]).verdict(on: name) == false)
        }
    }

    /// Endless backtracking is cut off, and counts as no match.
    @Test(
        "bounded", arguments: ["(a+)+$", "(a|aa)+$", "(.*)*(.*)*(.*)*[0-9]", "(?:\\w*+!|a)*[0-9]", "(?:(?=\\w*)(?=\\w*)a|a)*[0-9]"])
    func bounded(pattern: String) throws {
        let rule = try rule(pattern, .regularExpression)
        for name in [String(repeating: "a", count: 27) + "!", String(repeating: "a", count: 247) + "!"] {
            #expect(rule.matches(name) == false)
            #expect(ContinuousClock().measure { _ = rule.matches(name) } < .seconds(1))
        }
    }

    @Test func tooLongIsNoVerdict() throws {
        #expect(try rule("(a+)+$", .regularExpression).verdict(on: String(repeating: "a", count: 27) + "!") == nil)
        // A match behind a long beginning is no long search.
        #expect(try rule("b$", .regularExpression).verdict(on: String(repeating: "a", count: 247) + "b") == true)
    }

    @Test func equalWhereTheyAskTheSame() throws {
        #expect(try rule("a", []) == rule("a", []))
        #expect(try rule("a", .regularExpression) == rule("a", .regularExpression))
        #expect(try rule("a", []) != rule("a", .literal))
        // To Swift these are one text, and literally they are two.
        #expect(try rule("é", .literal) != rule("e\u{301}", .literal))
        #expect(try Set([rule("a", []), rule("a", []), rule("b", [])]).count == 2)
    }
}

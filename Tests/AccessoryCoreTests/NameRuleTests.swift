// SPDX-License-Identifier: Apache-2.0
// Names are compared as Foundation compares them: both are asked the same here, with all options, about what is
// difficult. Where Foundation itself is wrong, it says so beside the case.

import AccessoryModel
import Foundation
import TestSupport
import Testing

@testable import AccessoryCore

private func rule(_ needle: String, _ options: CompareOptions) throws -> NameRule {
    try #require(NameRule(substring: needle, options: options))
}

/// What Foundation says.
private func foundation(_ needle: String, in name: String, _ options: CompareOptions) -> Bool {
    let options = NSString.CompareOptions(rawValue: UInt(options.rawValue))
    return (name as NSString).range(of: needle, options: options).location != NSNotFound
}

/// What Foundation says when each beginning is tried by itself. While it goes on from one to the next it keeps what
/// it folded last, and takes that up again with the wrong length: backwards, "e" with two marks is not found where
/// the marks stand in another order.
private func foundationFromEach(_ needle: String, in name: String, _ options: CompareOptions) -> Bool {
    let (name, length) = (name as NSString, (needle as NSString).length)
    let isFixed = options.isDisjoint(with: [.caseInsensitive, .diacriticInsensitive]) && options.contains(.literal)
    let anchored = options.subtracting(.backwards).union(.anchored)
    let endsName = options.isSuperset(of: [.anchored, .backwards])
    let starts = options.contains(.anchored) && !endsName ? 0..<min(1, name.length) : 0..<name.length
    return starts.contains { start in
        guard !isFixed || length <= name.length - start else { return false }
        let found = name.range(
            of: needle, options: NSString.CompareOptions(rawValue: UInt(anchored.rawValue)),
            range: NSRange(location: start, length: name.length - start))
        return found.location != NSNotFound && (!endsName || NSMaxRange(found) == name.length)
    }
}

/// Whether the rule says what Foundation says.
private func agrees(_ needle: String, _ name: String, _ options: CompareOptions) throws -> Bool {
    let verdict = try rule(needle, options).matches(name)
    return verdict == foundation(needle, in: name, options) || verdict == foundationFromEach(needle, in: name, options)
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
        ["İ", "i", "I", "ı", "i\u{307}", "\u{307}"],
        ["ﬁ", "fi", "FI", "f", "ﬀ", "Fish"],
        ["σ", "ς", "Σ", "ΟΔΟΣ", "οδος", "ά", "Α\u{301}"],
        ["é", "e\u{301}", "É", "e", "cafés", "Cafe\u{301}"],
        ["ệ", "e\u{323}\u{302}", "e\u{302}\u{323}", "ê\u{323}", "ẹ\u{302}", "e", "\u{323}"],
        ["각", "\u{1100}\u{1161}\u{11A8}", "가", "\u{1100}\u{1161}", "\u{1100}"],
        ["ガ", "カ\u{3099}", "カ", "ｶﾞ", "ｶ", "ﾞ", "Ａ", "A", "ａ"],
        ["👍", "👍🏽", "🏽", "👩‍👩‍👧", "👩", "👩\u{200D}", "❤️", "❤"],
        ["🇩🇪", "🇪🇩", "🇩", "🇪", "🇫🇷🇩🇪"],
        ["\r\n", "\r", "\n", "a\r\nb", "a", "\0", "a\0", "\0b", "a\0b", "é\0", "é"],
        ["क", "क्", "क्ष", "ष", "ड़", "ड\u{93C}", "\u{34F}", "k\u{34F}k"],
    ]

    @Test("all options over what is alike", arguments: 0..<256) func table(number: Int) throws {
        let options = options(number)
        for group in Self.groups {
            for needle in group {
                for name in group where try !agrees(needle, name, options) {
                    Issue.record("[\(shown(needle))] in [\(shown(name))] with \(options.rawValue)")
                }
            }
        }
    }

    private static let pieces =
        groups.joined().filter { !$0.isEmpty }
        + ["å", "A\u{30A}", "\u{301}", "\u{308}", "ǖ", "ΐ", "ᾳ", "й", "и\u{306}", "\u{345}", "ŉ", "ǆ", "K", "ſ", "パ", "ﾊﾟ"]
        + [
            "！", "￣", "￦", "\u{200D}", "\u{FE0F}", "שׁ", "ש\u{5C1}", "لا", "\u{64B}", "\u{94D}", "𐐀",
            "𐐨", "ﷺ", "½", "ก", "\u{E33}", "豈",
        ]

    private static func text(_ pieces: Int, _ generator: inout SeededGenerator) -> String {
        (0..<Int.random(in: 0...pieces, using: &generator)).map { _ in Self.pieces.randomElement(using: &generator)! }.joined()
    }

    /// A part of the name, often, in another form.
    private static func needle(for name: String, _ generator: inout SeededGenerator) -> String {
        let scalars = Array(name.unicodeScalars)
        guard !scalars.isEmpty, Int.random(in: 0..<3, using: &generator) > 0 else { return text(4, &generator) }
        let first = Int.random(in: scalars.indices, using: &generator)
        var part = String.UnicodeScalarView()
        part.append(contentsOf: scalars[first...Int.random(in: first..<scalars.count, using: &generator)])
        let text = String(part)
        switch Int.random(in: 0..<6, using: &generator) {
        case 0: return text.decomposedStringWithCanonicalMapping
        case 1: return text.precomposedStringWithCanonicalMapping
        case 2: return text.uppercased()
        case 3: return text.lowercased()
        case 4: return text.folding(options: .diacriticInsensitive, locale: nil)
        default: return text
        }
    }

    @Test("random texts", arguments: 0..<25 as Range<UInt64>) func random(seed: UInt64) throws {
        var generator = SeededGenerator(state: seed)
        for _ in 0..<2000 {
            let name = Self.text(8, &generator)
            let needle = Self.needle(for: name, &generator)
            let options = options(Int.random(in: 0..<256, using: &generator))
            let agrees = try agrees(needle, name, options)
            if !agrees { Issue.record("seed \(seed): [\(shown(needle))] in [\(shown(name))] with \(options.rawValue)") }
        }
    }

    /// Every character that has another case or a decomposition, against these.
    @Test func characters() throws {
        for value in UInt32(0x80)...0x1FFFF where !(0xAC00...0xD7FF ~= value) {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let text = String(scalar)
            // Foundation's tables are older than these letters' case folding (Unicode 9).
            guard !(0x1C80...0x1C88 ~= value) else { continue }
            let properties = scalar.properties
            // What Unicode 16 added, GLib 2.84 folds (Debian 13); GLib 2.74 and Foundation do not know it.
            let isNew = { (scalar: Unicode.Scalar) in scalar.properties.age.map { $0.major >= 16 } ?? true }
            guard !isNew(scalar) else { continue }
            var others: Set<[Unicode.Scalar]> = []
            if properties.isCased {
                others = [Array(properties.lowercaseMapping.unicodeScalars), Array(properties.uppercaseMapping.unicodeScalars)]
            }
            others.insert(Array(text.decomposedStringWithCanonicalMapping.unicodeScalars))
            others.remove([scalar])
            for scalars in others where !scalars.contains(where: isNew) {
                var other = String.UnicodeScalarView()
                other.append(contentsOf: scalars)
                for options in [.caseInsensitive, [.caseInsensitive, .diacriticInsensitive], .literal] as [CompareOptions] {
                    if try !agrees(text, String(other), options) || !agrees(String(other), text, options) {
                        Issue.record("\(shown(text)) and \(shown(String(other))) with \(options.rawValue)")
                    }
                }
            }
        }
    }

    /// What nobody sends but who means harm: the longest name, of what takes longest.
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

    /// Whether ICU finds it; nil for what it refuses. Its reports of progress are of no use here: it reports each
    /// beginning that it tries, and has no end.
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
        "", "Dice", "dice 12", "Smart Dice-12AB", "aab", "a", "-", "_x", "ab\n", "a\r\nb", "a\u{2028}b", "a\u{85}", "\0", "a\0b",
        "é",
        "e\u{301}", "É", "Σ", "ς", "ΟΔΟΣ", "٣", "Ⅷ", "ⓐ", "‿", "\u{200D}", "👍🏽", "👩‍👩‍👧", "ガ", "カ\u{3099}", "ｶﾞ", "가", "\u{A0}",
        "\u{180E}",
        "K", "ſ", "İ", "ı", "x-\u{301}y", "a\u{301}-b", "[", "]", "#", "a b", "中文 灯 2",
    ]

    private static let patterns = [
        "Dice", "^Dice$", "^dice [0-9]+$", "-[0-9A-F]{4}$", "a*", "a+?b", "a{2}b", "a{2,}", "a{0,1}?b", "a++b", "(a|b)+", "(?:a)",
        "(?>a+)b",
        "a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", "(a)\\1", "(a)\\11", "\\1(a)", "(?<n>a)\\k<n>", "(?i)DICE", "(?i:d)ice",
        "(?-i)dice", "a(?i)B",
        "(?s)a.b", "(?s-i:a.)b", "(?m)^b", "(?m)a$", "a$", "a\\Z", "a\\z", "\\Aa", "\\Ga", "(?x) a # one\n b", "(?x: a )b",
        "(?#c)a", ".", "a.b",
        "^.$", "^..$", "\\d", "\\D", "\\w", "\\W", "^\\w+$", "\\s", "\\S", "\\h", "\\H", "\\v", "\\V", "\\b", "\\B", "\\b\\w",
        "\\bb", "\\By",
        "\\R", "a\\R", "^\\X$", "[a-c]", "[^a-c]", "[]a]", "[^]a]", "[a-]", "[-a]", "[\\w-]", "[\\W]", "[^\\W]", "[^\\W\\d]",
        "[\\D\\s]", "[é]",
        "[^é]", "[\\u00e9]", "[\0]", "a\0b", "\\x00", "[A-Z]", "[[:alpha:]]", "[[:^alpha:]]", "[^[:alpha:][:space:]]", "[:upper:]",
        "[[:lower:]]",
        "[[:punct:]]", "[[:digit:]x]", "[[:xdigit:]]", "[[:word:]]", "[[:blank:]]", "[[:cntrl:]]", "\\p{L}", "\\P{L}", "\\p{Lu}",
        "\\p{Letter}",
        "\\p{gc=Nd}", "\\p{Greek}", "\\p{script=Han}", "\\p{Alphabetic}", "\\p{M}", "[\\p{L}\\p{Nd}]", "[^\\p{L}]", "\\x41",
        "\\x{e9}", "\\u00e9",
        "\\U0001F44D", "\\uD83D\\uDC4D", "\\0101", "\\cJ", "\\t", "\\n", "\\e", "\\Qa.\\E", "\\Q[\\E", "\\.", "\\-", "\\[", "\\#",
        "\\y", "]", "é", "Σ",
        "σ", "k", "s", "İ", "ı", "[k]", "[σ]", "(a?)*", "(a|)+b", "()", "|a", "a|", "ガ", "👍", "👍.", "^*a", "a$?", "[ a]",
        "(?x)[ a]", "\\ ",
    ]

    @Test("patterns", arguments: [[], .caseInsensitive, .anchored, [.caseInsensitive, .anchored]] as [CompareOptions])
    func patterns(options: CompareOptions) throws {
        for pattern in Self.patterns {
            let rule = try #require(NameRule(substring: pattern, options: options.union(.regularExpression)), "\(pattern)")
            // To ICU these two letters have no other case, and are no capital and no small letter of anything then.
            let isCase = options.contains(.caseInsensitive) && ["\\p{Lu}", "[:upper:]", "[[:lower:]]"].contains(pattern)
            for name in Self.names where rule.verdict(on: name) != icu(pattern, in: name, options) {
                if isCase, name == "İ" || name == "ı" { continue }
                Issue.record("\(pattern) in [\(shown(name))] with \(options.rawValue)")
            }
        }
    }

    @Test(
        "refused by ICU too",
        arguments: [
            "", "(", ")", "a)", "[", "[]", "[^]", "a**", "*", "+a", "a{", "a{,3}", "a{2,1}", "{", "}", "a|*", "\\", "\\1", "(a)\\2",
            "\\k<n>", "\\x", "\\u41",
            "\\U00110000", "\\08", "\\p{Foo}", "\\pL", "[z-a]", "[a-\\d]", "[[:foo:]]", "(?C)", "(?C1)", "(*ACCEPT)", "(*UCP)a",
            "(*LIMIT_MATCH=9999999)a",
            "(*NO_START_OPT)a", "(?R)", "(?1)", "(?|a)", "(?P<n>a)", "(?'n'a)", "(?(1)a)", "(?J)a", "(?U)a", "(?n)a", "(?<n_>a)",
            "(?#c", "(?x)[#a]", "\\b+", "(?=a)*",
        ])
    func refused(pattern: String) {
        #expect(NameRule(substring: pattern, options: .regularExpression) == nil)
        #expect(icu(pattern, in: "a", []) == nil)
    }

    /// What PCRE2 cannot do, or would read in another way: an error for the app is better than another meaning.
    @Test(
        "refused, though ICU takes it",
        arguments: [
            "[a-z&&[aeiou]]", "[a[b]]", "[a--b]", "[a&&b]", "(?w)a", "(?d)a", "\\N{LATIN SMALL LETTER A}",
            "\\p{InGreek}", "a{65536}",
            "[[:graph:]]", "[\\Qa\\E]",
        ])
    func notTranslated(pattern: String) {
        #expect(NameRule(substring: pattern, options: .regularExpression) == nil)
        #expect(icu(pattern, in: "a", []) != nil)
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

    /// The difference that is left of those that compile: ICU folds one letter to several, PCRE2 does not.
    @Test func oneLetterForSeveral() throws {
        for (pattern, name) in [("ß", "ss"), ("ss", "ß"), ("fi", "ﬁ")] {
            #expect(icu(pattern, in: name, .caseInsensitive) == true)
            #expect(try rule(pattern, [.regularExpression, .caseInsensitive]).verdict(on: name) == false)
        }
    }

    /// What goes back again and again has an end, and is no match.
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

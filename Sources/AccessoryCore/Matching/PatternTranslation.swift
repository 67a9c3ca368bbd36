// SPDX-License-Identifier: Apache-2.0
// Regular expressions from ICU's syntax, by which the API defines them, into PCRE2's. Only what both are known to
// read alike, or what can be said in the other's words, comes through; all else is refused, rather than matched in
// another way than its author meant.

/// Reads a pattern once, from left to right.
struct PatternTranslation {
    /// What PCRE2 is to be given; nil for what ICU would refuse, and for what PCRE2 would read in another way.
    static func pcre(_ pattern: String, ignoresCase: Bool) -> String? {
        guard !pattern.isEmpty else { return nil }
        var translation = PatternTranslation(pattern, Flags(ignoresCase: ignoresCase))
        do throws(Refusal) {
            try translation.read()
        } catch {
            return nil
        }
        return translation.output
    }

    private struct Refusal: Error {}

    /// What holds up to the end of a group.
    private struct Flags {
        /// `(?i)`.
        var ignoresCase: Bool
        /// `(?s)`: a dot is any character, and the end of a line is one.
        var dotIsAll = false
        /// `(?x)`: white space and comments do not count.
        var isSpaced = false
    }

    private let input: [Unicode.Scalar]
    private var index = 0
    private var output = ""
    /// Whether what was read last can be repeated.
    private var isRepeatable = false
    /// The groups that are open, the innermost last.
    private var open: [(outside: Flags, isRepeatable: Bool)] = []
    private var flags: Flags
    private var groups = 0
    private var names: Set<String> = []
    /// The highest group that is referred to.
    private var reference = 0

    private init(_ pattern: String, _ flags: Flags) {
        input = Array(pattern.unicodeScalars)
        self.flags = flags
    }

    // MARK: Reading

    private var next: Unicode.Scalar? { index < input.count ? input[index] : nil }

    private mutating func take() throws(Refusal) -> Unicode.Scalar {
        guard let next else { throw Refusal() }
        index += 1
        return next
    }

    /// Takes these characters, if they come next.
    private mutating func take(_ text: String) -> Bool {
        guard input[index...].starts(with: text.unicodeScalars) else { return false }
        index += text.unicodeScalars.count
        return true
    }

    private mutating func take(while isWanted: (Unicode.Scalar) -> Bool, atMost most: Int = .max) -> String {
        var text = ""
        while let next, text.unicodeScalars.count < most, isWanted(next) {
            text.unicodeScalars.append(next)
            index += 1
        }
        return text
    }

    private mutating func skipSpace() {
        while flags.isSpaced, let next {
            if next == "#" {
                _ = take { !Self.isLineEnd($0) }
            } else if next.properties.isPatternWhitespace {
                index += 1
            } else {
                return
            }
        }
    }

    private static func isLineEnd(_ scalar: Unicode.Scalar) -> Bool {
        "\n"..."\r" ~= scalar || ["\u{85}", "\u{2028}", "\u{2029}"].contains(scalar)
    }

    // MARK: The grammar

    private mutating func read() throws(Refusal) {
        while true {
            skipSpace()
            guard let next else { break }
            index += 1
            switch next {
            case "(": try readGroup()
            case ")":
                guard let group = open.popLast() else { throw Refusal() }
                flags = group.outside
                write(")", isRepeatable: group.isRepeatable)
            case "|": write("|", isRepeatable: false)
            case "^", "$": write("(?:\(next))", isRepeatable: true)
            case ".": write(flags.dotIsAll ? "(?>\\r\\n|.)" : ".", isRepeatable: true)
            case "[":
                index -= 1
                write(try readClass(), isRepeatable: true)
            case "*", "+", "?", "{": try readRepetition(next)
            case "}": throw Refusal()
            case "\\": try readEscape()
            default: write(Self.literal(next), isRepeatable: true)
            }
        }
        guard open.isEmpty, reference <= groups else { throw Refusal() }
    }

    private mutating func write(_ text: String, isRepeatable: Bool) {
        output += text
        self.isRepeatable = isRepeatable
    }

    /// A character that stands for itself: by number, unless it cannot be taken for anything else.
    private static func literal(_ scalar: Unicode.Scalar) -> String {
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9": String(scalar)
        default: "\\x{\(String(scalar.value, radix: 16))}"
        }
    }

    private mutating func readRepetition(_ sign: Unicode.Scalar) throws(Refusal) {
        guard isRepeatable else { throw Refusal() }
        var text = String(sign)
        if sign == "{" {
            let least = take(while: Self.isDigit)
            guard !least.isEmpty else { throw Refusal() }
            text += least
            if take(",") { text += "," + take(while: Self.isDigit) }
            guard take("}") else { throw Refusal() }
            text += "}"
        }
        skipSpace()
        if take("?") { text += "?" } else if take("+") { text += "+" }
        write(text, isRepeatable: false)
    }

    private mutating func readGroup() throws(Refusal) {
        let outside = flags
        var onlyLooks = false
        if !take("?") {
            groups += 1
            write("(", isRepeatable: false)
        } else if take("#") {
            while try take() != ")" {}
            return
        } else if let kind = [":", ">", "=", "!", "<=", "<!"].first(where: { take($0) }) {
            onlyLooks = kind.hasSuffix("=") || kind.hasSuffix("!")
            write("(?" + kind, isRepeatable: false)
        } else if take("<") {
            let name = try readName()
            guard names.insert(name).inserted else { throw Refusal() }
            groups += 1
            write("(?<\(name)>", isRepeatable: false)
        } else {
            guard try readFlags() else { return }
        }
        open.append((outside, !onlyLooks))
    }

    /// Whether a group begins behind the flags.
    private mutating func readFlags() throws(Refusal) -> Bool {
        var text = ""
        var isOn = true
        while true {
            switch try take() {
            case "i":
                text += "i"
                flags.ignoresCase = isOn
            case "m": text += "m"
            case "s":
                text += "s"
                flags.dotIsAll = isOn
            case "x": flags.isSpaced = isOn
            case "-" where isOn:
                isOn = false
                text += "-"
            case let end where end == ":" || end == ")":
                if text.hasSuffix("-") { text.removeLast() }
                write(end == ":" || !text.isEmpty ? "(?\(text)\(end)" : "", isRepeatable: false)
                return end == ":"
            default: throw Refusal()
            }
        }
    }

    private mutating func readName() throws(Refusal) -> String {
        let name = take { $0.isASCII && ($0.properties.isAlphabetic || Self.isDigit($0)) }
        guard let first = name.unicodeScalars.first, !Self.isDigit(first), take(">") else { throw Refusal() }
        return name
    }

    private static func isDigit(_ scalar: Unicode.Scalar) -> Bool { "0"..."9" ~= scalar }

    // MARK: Escapes

    private mutating func readEscape() throws(Refusal) {
        if let scalar = try readCharacter() { return write(Self.literal(scalar), isRepeatable: true) }
        if let set = try readSet() { return write(set.text(isNegated: false), isRepeatable: true) }
        let sign = try take()
        switch sign {
        case "A", "Z", "z", "G": write("\\" + String(sign), isRepeatable: false)
        case "b": write(Self.wordBoundary, isRepeatable: false)
        case "B": write("(?!\(Self.wordBoundary))", isRepeatable: false)
        case "X": write("\\X", isRepeatable: true)
        case "R": write("(?>\\r\\n|[\(Self.lineEnds)])", isRepeatable: true)
        case "Q":
            while !take("\\E"), index < input.count { write(Self.literal(try take()), isRepeatable: true) }
        case "k":
            guard take("<") else { throw Refusal() }
            let name = try readName()
            guard names.contains(name) else { throw Refusal() }
            write("\\k<\(name)>", isRepeatable: true)
        case "1"..."9":
            var number = Int(sign.value) - 0x30
            while let next, Self.isDigit(next), number * 10 + Int(next.value) - 0x30 <= groups {
                number = number * 10 + Int(next.value) - 0x30
                index += 1
            }
            reference = max(reference, number)
            write("\\g{\(number)}", isRepeatable: true)
        case "N": throw Refusal()
        default: write(Self.literal(sign), isRepeatable: true)
        }
    }

    /// One character, behind a backslash; nil when it is none, and nothing is taken then.
    private mutating func readCharacter() throws(Refusal) -> Unicode.Scalar? {
        guard let sign = next else { throw Refusal() }
        let signs: [Unicode.Scalar: UInt32] = ["a": 7, "e": 0x1B, "f": 0xC, "n": 0xA, "r": 0xD, "t": 9]
        if let value = signs[sign] {
            index += 1
            return Unicode.Scalar(value)
        }
        guard ["c", "0", "x", "u", "U"].contains(sign) else { return nil }
        index += 1
        var value: UInt32
        switch sign {
        case "c":
            let letter = try take()
            guard "@"..."~" ~= letter else { throw Refusal() }
            value = letter.value & 0x1F
        case "0":
            var digits = take(while: { "0"..."7" ~= $0 }, atMost: 3)
            if digits.count == 3, digits > "377" {
                digits.removeLast()
                index -= 1
            }
            guard let number = UInt32(digits, radix: 8) else { throw Refusal() }
            value = number
        case "x":
            if take("{") {
                value = try readNumber(1...8)
                guard take("}") else { throw Refusal() }
            } else {
                value = try readNumber(1...2)
            }
        case "u":
            value = try readNumber(4...4)
            // Half of a character, and its other half.
            if 0xD800...0xDBFF ~= value, take("\\u") {
                let low = try readNumber(4...4)
                guard 0xDC00...0xDFFF ~= low else { throw Refusal() }
                value = 0x10000 + (value - 0xD800) << 10 + (low - 0xDC00)
            }
        default: value = try readNumber(8...8)
        }
        guard let scalar = Unicode.Scalar(value) else { throw Refusal() }
        return scalar
    }

    private mutating func readNumber(_ digits: ClosedRange<Int>) throws(Refusal) -> UInt32 {
        let text = take(while: { $0.properties.isASCIIHexDigit }, atMost: digits.upperBound)
        guard text.count >= digits.lowerBound, let value = UInt32(text, radix: 16) else { throw Refusal() }
        return value
    }

    // MARK: Sets of characters

    /// Characters, as what stands between brackets.
    private struct CharacterSet {
        var items = ""
        /// Sets of which it has what they have not.
        var complements: [String] = []

        static func of(_ items: String, isNegated: Bool) -> CharacterSet {
            isNegated ? CharacterSet(complements: [items]) : CharacterSet(items: items)
        }

        func text(isNegated: Bool) -> String {
            if complements.isEmpty { return isNegated ? "[^\(items)]" : "[\(items)]" }
            if isNegated {
                let excluded = items.isEmpty ? "" : "(?![\(items)])"
                return "(?:" + excluded + complements.dropLast().map { "(?=[\($0)])" }.joined()
                    + "[\(complements[complements.count - 1])])"
            }
            return "(?:" + ((items.isEmpty ? [] : ["[\(items)]"]) + complements.map { "[^\($0)]" }).joined(separator: "|") + ")"
        }
    }

    // PCRE2 has other ideas of these than ICU. Letters in circles are alphabetic without being letters.
    private static let bases =
        "\\p{L}\\p{Mc}\\p{Nd}\\p{Nl}\\p{Pc}"
        + "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
    private static let word = bases + "\\p{Mn}\\p{Me}\\x{200c}\\x{200d}"
    private static let space = "\\t-\\r\\x{85}\\p{Z}"
    private static let blank = "\\t\\p{Zs}"
    private static let lineEnds = "\\n-\\r\\x{85}\\x{2028}\\x{2029}"
    /// Between a character of words and another. Marks and what is invisible belong to what they follow; ICU looks
    /// past all of them, this past two.
    private static let wordBoundary: String = {
        let mark = "[\\p{Mn}\\p{Me}\\p{Cf}]"
        let before = "[\(bases)]|[\(bases)]\(mark)|[\(bases)]\(mark)\(mark)"
        return "(?:(?!\(mark))(?:(?<=\(before))(?![\(bases)])|(?<!\(before))(?=[\(bases)])))"
    }()

    /// A set behind a backslash; nil when it is none, and nothing is taken then.
    private mutating func readSet() throws(Refusal) -> CharacterSet? {
        guard let sign = next else { throw Refusal() }
        let isNegated = sign.properties.isUppercase
        switch sign {
        case "d", "D": index += 1; return .of("\\p{Nd}", isNegated: isNegated)
        case "w", "W": index += 1; return .of(Self.word, isNegated: isNegated)
        case "s", "S": index += 1; return .of(Self.space, isNegated: isNegated)
        case "h", "H": index += 1; return .of(Self.blank, isNegated: isNegated)
        case "v", "V": index += 1; return .of(Self.lineEnds, isNegated: isNegated)
        case "p", "P":
            index += 1
            guard take("{") else { throw Refusal() }
            let name = take { $0 != "}" }
            guard take("}"), let items = UnicodeProperty.items(name, flags.ignoresCase) else { throw Refusal() }
            return .of(items, isNegated: isNegated)
        default: return nil
        }
    }

    /// `[:name:]`.
    private mutating func readNamedSet() throws(Refusal) -> CharacterSet {
        let isNegated = take("^")
        let name = take { $0.properties.isAlphabetic }
        guard take(":]") else { throw Refusal() }
        let items =
            switch name {
            case "alpha": "\\p{Alphabetic}"
            case "alnum": "\\p{Alphabetic}\\p{Nd}"
            case "lower" where !flags.ignoresCase: "\\p{Lowercase}"
            case "upper" where !flags.ignoresCase: "\\p{Uppercase}"
            case "lower", "upper": "\\p{Lowercase}\\p{Uppercase}"
            case "digit": "\\p{Nd}"
            case "xdigit": "\\p{Nd}\\p{Hex_Digit}"
            case "punct": "\\p{P}"
            case "space": Self.space
            case "blank": Self.blank
            case "cntrl": "\\p{Cc}"
            case "word": Self.word
            default: throw Refusal()
            }
        return .of(items, isNegated: isNegated)
    }

    /// `[…]`, without sets in it and operations between them.
    private mutating func readClass() throws(Refusal) -> String {
        if take("[:") { return try readNamedSet().text(isNegated: false) }
        _ = try take()
        let isNegated = take("^")
        var set = CharacterSet()
        // What a dash behind it would make a range of.
        var low: Unicode.Scalar?
        var isBeginning = true
        while true {
            skipSpace()
            if take("--") || take("&&") { throw Refusal() }
            if !isBeginning, take("]") { return set.text(isNegated: isNegated) }
            isBeginning = false
            if let first = low, next == "-", index + 1 < input.count, input[index + 1] != "]" {
                index += 1
                skipSpace()
                guard case .character(let last) = try readMember(), first <= last else { throw Refusal() }
                set.items += "-" + Self.literal(last)
                low = nil
                continue
            }
            switch try readMember() {
            case .character(let character):
                set.items += Self.literal(character)
                low = character
            case .set(let more):
                set.items += more.items
                set.complements += more.complements
                low = nil
            }
        }
    }

    private enum Member {
        case character(Unicode.Scalar)
        case set(CharacterSet)
    }

    private mutating func readMember() throws(Refusal) -> Member {
        if take("[:") { return .set(try readNamedSet()) }
        guard take("\\") else {
            let character = try take()
            guard character != "[" else { throw Refusal() }
            return .character(character)
        }
        if let character = try readCharacter() { return .character(character) }
        if let set = try readSet() { return .set(set) }
        let character = try take()
        guard !["Q", "N", "k"].contains(character) else { throw Refusal() }
        return .character(character)
    }
}

/// What `\p{…}` may name.
private enum UnicodeProperty {
    /// What stands between PCRE2's brackets for a general category, a property or a script; nil where it may mean
    /// something else there. A script that PCRE2 does not know does not compile.
    static func items(_ name: String, _ ignoresCase: Bool) -> String? {
        let name = String(name.unicodeScalars.filter { !" _-".unicodeScalars.contains($0) }).lowercased()
        let parts = name.split(separator: "=", omittingEmptySubsequences: false)
        guard parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy { $0.isASCII && $0.isLetter } }) else { return nil }
        var property: String?
        switch (parts[0], parts.count) {
        case (_, 1): property = category(name) ?? properties[name] ?? "sc:" + name
        case ("gc", 2), ("generalcategory", 2): property = category(String(parts[1]))
        case ("sc", 2), ("script", 2): property = "sc:" + parts[1]
        default: property = nil
        }
        guard let property else { return nil }
        if ignoresCase {
            // To PCRE2 these stay what they are, to ICU they are all cases.
            if ["Lu", "Ll", "Lt"].contains(property) { return "\\p{L&}" }
            if ["Uppercase", "Lowercase"].contains(property) { return "\\p{Uppercase}\\p{Lowercase}" }
        }
        return "\\p{\(property)}"
    }

    private static func category(_ name: String) -> String? {
        if let short = categories[name] { return short }
        return categories.values.first { $0.lowercased() == name }
    }

    private static let properties = [
        "alphabetic": "Alphabetic", "alpha": "Alphabetic", "uppercase": "Uppercase", "lowercase": "Lowercase",
        "whitespace": "White_Space", "hexdigit": "Hex_Digit", "ideographic": "Ideographic", "any": "Any",
    ]

    private static let categories = [
        "letter": "L", "uppercaseletter": "Lu", "lowercaseletter": "Ll", "titlecaseletter": "Lt", "modifierletter": "Lm",
        "otherletter": "Lo", "casedletter": "L&", "mark": "M", "nonspacingmark": "Mn", "spacingmark": "Mc",
        "enclosingmark": "Me", "number": "N", "decimalnumber": "Nd", "letternumber": "Nl", "othernumber": "No",
        "punctuation": "P", "connectorpunctuation": "Pc", "dashpunctuation": "Pd", "openpunctuation": "Ps",
        "closepunctuation": "Pe", "initialpunctuation": "Pi", "finalpunctuation": "Pf", "otherpunctuation": "Po",
        "symbol": "S", "mathsymbol": "Sm", "currencysymbol": "Sc", "modifiersymbol": "Sk", "othersymbol": "So",
        "separator": "Z", "spaceseparator": "Zs", "lineseparator": "Zl", "paragraphseparator": "Zp", "other": "C",
        "control": "Cc", "format": "Cf", "privateuse": "Co", "unassigned": "Cn",
    ]
}

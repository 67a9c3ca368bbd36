// SPDX-License-Identifier: Apache-2.0
// Whether a name contains a text, as Foundation's strings answer it (`NSString.range(of:options:)`): equivalent
// characters are equal unless they are to be compared literally, and what is found does not end inside a character.
// Apps know these answers from Apple's platforms, so its peculiarities are kept; NameRuleTests holds both beside each
// other.

internal import AccessoryModel

/// A text to be found in names, folded once.
struct SubstringSearch: Sendable {
    private let text: FoldedText
    private let options: CompareOptions
    /// The text as ASCII, in lower case if case does not count; nil when it is not ASCII, or has a NUL: Foundation
    /// takes the end of a name for one.
    private let plain: [UInt8]?

    init(_ text: String, _ options: CompareOptions) {
        self.options = options
        plain = Self.ascii(text, options)
        self.text = FoldedText(text, options)
    }

    /// An empty text is found nowhere.
    func isFound(in name: String) -> Bool {
        guard !text.units.isEmpty, !name.isEmpty else { return false }
        if let plain, let name = Self.ascii(name, options) { return isFound(plain, in: name) }
        let folded = FoldedText(name, options)
        let endsName = options.isSuperset(of: [.anchored, .backwards])
        return starts(folded.units.count, text.units.count).contains { start in
            var attempt = Attempt(text, in: folded, from: start, options)
            guard let end = attempt.end() else { return false }
            return !endsName || end == folded.units.count
        }
    }

    /// Where a match may begin in a name of so many units. What is found may have another length, except where units
    /// are compared one by one.
    private func starts(_ name: Int, _ text: Int) -> Range<Int> {
        let fixed = options.isDisjoint(with: [.caseInsensitive, .diacriticInsensitive]) && options.contains(.literal)
        guard !fixed || text <= name else { return 0..<0 }
        let last = fixed ? name - text : name - 1
        guard options.contains(.anchored) else { return 0..<last + 1 }
        if options.contains(.backwards) { return (fixed ? last : 0)..<last + 1 }
        return 0..<1
    }

    // MARK: ASCII

    private static func ascii(_ text: String, _ options: CompareOptions) -> [UInt8]? {
        let bytes = Array(text.utf8)
        guard bytes.allSatisfy({ 0x01...0x7F ~= $0 }) else { return nil }
        guard options.contains(.caseInsensitive) else { return bytes }
        return bytes.map { 0x41...0x5A ~= $0 ? $0 + 0x20 : $0 }
    }

    private func isFound(_ text: [UInt8], in name: [UInt8]) -> Bool {
        guard text.count <= name.count else { return false }
        guard options.contains(.anchored) else {
            return (0...name.count - text.count).contains { name[$0...].starts(with: text) }
        }
        return options.contains(.backwards) ? name.suffix(text.count) == text[...] : name.starts(with: text)
    }
}

/// A place in a text: at a unit, or within what its character folds to.
private struct Place {
    let text: FoldedText
    var index: Int
    /// How many units what is read stands for.
    var length = 1
    /// What the character folds to, and how much of it is read; empty at a unit.
    private(set) var folded: [UInt32] = []
    private(set) var position = 0

    init(_ text: FoldedText, _ index: Int) {
        self.text = text
        self.index = index
    }

    mutating func next() -> UInt32 {
        if !folded.isEmpty {
            position += 1
            return folded[position - 1]
        }
        length = 1
        return text.lowered(text.unit(index))
    }

    /// The character that a unit is one half of.
    mutating func whole(_ unit: UInt32) -> UInt32 {
        guard folded.isEmpty, 0xD800...0xDBFF ~= unit else { return unit }
        let character = text.character(index)
        length = character > 0xFFFF ? 2 : 1
        return character
    }

    /// Goes into what the character folds to; nil where it stands for itself.
    mutating func fold() -> UInt32? {
        guard text.clusters.indices.contains(index), let first = text.clusters[index].characters.first else { return nil }
        folded = text.clusters[index].characters
        length = text.clusters[index].length
        position = 1
        return first
    }

    /// What is left of what the character folds to.
    var rest: ArraySlice<UInt32> { folded[position...] }

    mutating func skip(_ count: Int) { position += count }

    /// Goes on behind what was read.
    mutating func advance() {
        if position == folded.count {
            folded = []
            position = 0
        }
        if folded.isEmpty { index += length }
    }
}

/// The search for a text at one place of a name.
private struct Attempt {
    private let start: Int
    private let options: CompareOptions
    private var here: Place
    private var wanted: Place

    init(_ text: FoldedText, in name: FoldedText, from start: Int, _ options: CompareOptions) {
        self.start = start
        self.options = options
        here = Place(name, start)
        wanted = Place(text, 0)
    }

    private var ignoresDiacritics: Bool { options.contains(.diacriticInsensitive) }
    private var decomposes: Bool { ignoresDiacritics || !options.contains(.literal) }
    /// More than any text takes; Foundation has no bound.
    private static let steps = 10_000

    /// Where a match ends; nil when there is none.
    mutating func end() -> Int? {
        let end = wanted.text.units.count
        var steps = 0
        while wanted.index < end {
            steps += 1
            guard steps < Self.steps else { return nil }
            let (x, y) = (here.next(), wanted.next())
            if x != y {
                guard x >= 0x80 || y >= 0x80, isEqual(here.whole(x), wanted.whole(y)) else { return nil }
            }
            here.advance()
            wanted.advance()
        }
        return wanted.index == end ? endOfCharacter() : nil
    }

    /// Whether two characters are equal by what they fold to. Foundation folds only where they differ as they are,
    /// and it shows.
    private mutating func isEqual(_ x: UInt32, _ y: UInt32) -> Bool {
        if ignoresDiacritics, here.index > start, skipsMark(x, y) { return true }
        guard x != y else { return true }
        var x = x
        if here.folded.isEmpty { x = here.fold() ?? x }
        if here.folded.isEmpty, !wanted.folded.isEmpty { return false }
        if wanted.folded.isEmpty, here.folded.isEmpty || x != y {
            guard wanted.fold() == x else { return false }
        }
        // Where the text was in the middle of a folded character already, its next one is not compared: so "ß" is
        // found in "sÄ".
        let common = min(here.rest.count, wanted.rest.count)
        guard here.rest.prefix(common) == wanted.rest.prefix(common) else { return false }
        here.skip(here.folded.isEmpty ? 0 : common)
        wanted.skip(wanted.folded.isEmpty ? 0 : common)
        return true
    }

    /// Passes over a mark on either side, or one on both.
    private mutating func skipsMark(_ x: UInt32, _ y: UInt32) -> Bool {
        let skipsHere = here.folded.isEmpty && Characters.isExtender(x)
        let skipsWanted = wanted.folded.isEmpty && Characters.isExtender(y)
        // The other side stays: it will go on by its length.
        if skipsHere, !skipsWanted { wanted.index -= wanted.length }
        if skipsWanted, !skipsHere { here.index -= here.length }
        return skipsHere || skipsWanted
    }

    /// The end of the match, unless it lies inside a character.
    private func endOfCharacter() -> Int? {
        var index = here.index
        let name = here.text
        if !here.folded.isEmpty {
            guard ignoresDiacritics, here.folded[0] < FoldedText.firstWithDiacritics,
                here.rest.allSatisfy(Characters.isExtender)
            else { return nil }
            index += here.length
        }
        guard decomposes, index < name.units.count else { return index }
        let next = name.character(index)
        if Characters.isExtender(next) {
            guard ignoresDiacritics else { return nil }
            // Foundation looks at the script of the first character of all.
            if next < 0x10000, name.unit(0) < FoldedText.firstWithDiacritics {
                repeat { index += 1 } while index < name.units.count && Characters.isExtender(name.unit(index))
            }
            return index
        }
        return !ignoresDiacritics && splits(name, index) ? nil : index
    }

    /// Whether a character that is made of several goes on at `index`, where no mark is.
    private func splits(_ name: FoldedText, _ index: Int) -> Bool {
        let next = name.character(index)
        let isHangul = 0x1100...0x11F9 ~= name.unit(index - 1)
        let joiner = name.unit(index - 1) == Self.joiner ? index - 1 : index
        let conjoins = Self.conjoins(name.unit(joiner - 1))
        guard isHangul || conjoins || joiner < index else { return false }
        if next == Self.joiner { return true }
        // Back to what the marks and the joiner stand on.
        var base = joiner
        repeat {
            base -= 1
            if 0xDC00...0xDFFF ~= name.unit(base) { base -= 1 }
        } while base > 0 && Characters.isExtender(name.character(base))
        guard base >= 0 else { return false }
        let first = name.character(base)
        if conjoins, base < joiner - 1, Characters.isLetter(first) || first == Self.joiner, Characters.isLetter(next) {
            return true
        }
        // Syllables of Hangul, and emoji of several, which the standard library knows; not what joins any letter.
        guard isHangul || joiner < index && !Characters.isLetter(first) else { return false }
        let end = index + (next > 0xFFFF ? 2 : 1)
        return String(decoding: name.units[base..<end], as: UTF16.self).count == 1
            && String(decoding: [0x61] + name.units[index..<end], as: UTF16.self).count == 2
    }

    /// ZERO WIDTH JOINER.
    private static let joiner: UInt32 = 0x200D
    /// Whether a sign ties the letters before and behind it together: a virama, and the joiner made for it.
    private static func conjoins(_ sign: UInt32) -> Bool { sign == 0x034F || Characters.combiningClass(sign) == 9 }
}

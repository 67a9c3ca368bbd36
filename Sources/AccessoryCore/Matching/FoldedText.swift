// SPDX-License-Identifier: Apache-2.0
// A text as Foundation compares it: UTF-16 code units, and for each of them the characters that it and the marks
// behind it stand for under the compare options. The tables of Unicode are GLib's and the standard library's.

internal import AccessoryModel

/// A text with what it folds to.
struct FoldedText: Sendable {
    /// What one character and the marks behind it stand for.
    struct Cluster: Sendable {
        /// The characters in canonical order; empty when the character stands for itself.
        var characters: [UInt32] = []
        /// The code units that they stand for.
        var length = 1
    }

    let units: [UInt16]
    /// For each unit what begins there.
    private(set) var clusters: [Cluster] = []
    private let options: CompareOptions

    init(_ text: String, _ options: CompareOptions) {
        units = Array(text.utf16)
        self.options = options
        clusters = units.indices.map(fold)
    }

    /// The unit there, and 0 past either end, as Foundation reads it.
    func unit(_ index: Int) -> UInt32 { units.indices.contains(index) ? UInt32(units[index]) : 0 }

    /// The character that begins there; half of one stands for itself.
    func character(_ index: Int) -> UInt32 {
        let (high, low) = (unit(index), unit(index + 1))
        guard UTF16.isLeadSurrogate(UInt16(high)), UTF16.isTrailSurrogate(UInt16(low)) else { return high }
        return 0x10000 + (high - 0xD800) << 10 + (low - 0xDC00)
    }

    /// In lower case, if it is an ASCII letter and case does not count.
    func lowered(_ unit: UInt32) -> UInt32 {
        options.contains(.caseInsensitive) && 0x41...0x5A ~= unit ? unit + 0x20 : unit
    }

    /// Foundation takes the marks off Latin, Greek and Cyrillic letters only: those below this.
    static let firstWithDiacritics: UInt32 = 0x510
    /// Foundation folds no more of one character's marks.
    private static let longestCluster = 64

    private func fold(_ index: Int) -> Cluster {
        var character = character(index)
        guard character != 0 else { return Cluster() }
        let ignoresDiacritics = options.contains(.diacriticInsensitive)
        let decomposes = ignoresDiacritics || !options.contains(.literal)
        let width = character > 0xFFFF ? 2 : 1
        var end = index + width
        var folded: [UInt32] = []

        if character < 0x80 {
            character = lowered(character)
        } else {
            if options.contains(.widthInsensitive), 0xFF00...0xFFEF ~= character {
                character = Characters.usualWidth(of: character)
                folded = [character]
            }
            if decomposes, let parts = Characters.decomposition(of: character) {
                if ignoresDiacritics, parts[0] < Self.firstWithDiacritics {
                    character = parts[0]
                    folded = [character]
                } else if !options.contains(.literal) {
                    character = parts[0]
                    folded = parts
                }
            }
            if options.contains(.caseInsensitive), let lower = Characters.caseFolding(of: character) {
                let bare = ignoresDiacritics && character < Self.firstWithDiacritics
                folded = (bare ? lower.filter { !Characters.isExtender($0) } : lower) + folded.dropFirst()
                character = lower[lower.count - 1]
            }
        }

        if decomposes {
            let keepsMarks = !ignoresDiacritics || character >= Self.firstWithDiacritics
            // Foundation leaves out the mark right behind a character that stands for itself, if it is one of these
            // scripts.
            var leavesOut = ignoresDiacritics && folded.isEmpty
            while folded.count < Self.longestCluster {
                let mark = self.character(end)
                guard Characters.isExtender(mark) else { break }
                if folded.isEmpty { folded = [character] }
                if keepsMarks, !leavesOut || mark >= Self.firstWithDiacritics {
                    folded += Characters.decomposition(of: mark) ?? [mark]
                }
                leavesOut = false
                end += mark > 0xFFFF ? 2 : 1
            }
            Self.order(&folded)
        }
        return Cluster(characters: folded, length: folded.isEmpty ? width : end - index)
    }

    /// Puts the marks at the end into canonical order.
    private static func order(_ characters: inout [UInt32]) {
        guard characters.count > 1 else { return }
        let base = characters.lastIndex { !Characters.isExtender($0) } ?? 0
        let marks = characters[base...].map { ($0, Characters.combiningClass($0)) }
        // The sort of the standard library is stable.
        characters.replaceSubrange(base..., with: marks.sorted { $0.1 < $1.1 }.map(\.0))
    }
}

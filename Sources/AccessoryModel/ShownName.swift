// SPDX-License-Identifier: Apache-2.0
// The one check for shown text, whether an app, an admin, a picker program, the air or a file supplies it: it must not
// look like other text, or like nothing. Names that are set are refused; other text is shown with marks for the
// characters in question.

/// The rule for text that a person is shown.
public enum ShownName {
    /// The problem with a name; nil for one that may be shown: at most `Limits.nameBytes` bytes, something visible, and
    /// nothing that controls, hides or reverses its surroundings.
    public static func problem(with name: String) -> String? {
        guard name.utf8.count <= Limits.nameBytes else { return "longer than \(Limits.nameBytes) bytes" }
        for (_, fault) in Judged(name) {
            switch fault {
            case .control: return "has control characters"
            case .hidden: return "has characters that are invisible or change the direction of text"
            case .lines: return "has more than one line"
            case .meaningless: return "has characters without a known glyph"
            case .stacked: return "has more than \(mostMarks) marks on one character"
            case nil: break
            }
        }
        return name.unicodeScalars.contains(where: isVisible) ? nil : "is empty"
    }

    /// The text with U+FFFD in the place of each scalar that may not be shown.
    public static func marked(_ text: String) -> String {
        // Most text is ASCII, where this is cheap to see.
        guard !text.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) else { return text }
        var shown = String.UnicodeScalarView()
        for (scalar, fault) in Judged(text) { shown.append(fault == nil ? scalar : mark) }
        return String(shown)
    }

    private static let mark: Unicode.Scalar = "\u{FFFD}"

    /// Why a scalar may not be shown.
    private enum Fault {
        case control
        /// Invisible, or reverses its surroundings.
        case hidden
        case lines
        /// Without a known glyph.
        case meaningless
        /// Marks that pile up cover the lines above and below.
        case stacked
    }

    /// Marks on one character: Vietnamese and Tibetan words have two to four.
    private static let mostMarks = 6

    /// Each scalar of a text, and why it may not be shown where it stands; nil where it may.
    private struct Judged: Sequence, IteratorProtocol {
        private var rest: Substring.UnicodeScalarView
        private var neighbours = Neighbours()

        init(_ text: String) { rest = text[...].unicodeScalars }

        mutating func next() -> (scalar: Unicode.Scalar, fault: Fault?)? {
            guard let scalar = rest.popFirst() else { return nil }
            let fault = ShownName.fault(of: scalar, neighbours, next: rest.first)
            // A joiner joins nothing with a mark, so a marked text needs no more marks.
            neighbours.pass(fault == nil ? scalar : mark)
            return (scalar, fault)
        }
    }

    /// The context before a scalar.
    private struct Neighbours {
        /// The scalar right before it.
        var previous: Unicode.Scalar?
        /// The same without the modifiers of an emoji.
        var base: Unicode.Scalar?
        /// The marks in a row that end with it.
        var marks = 0

        mutating func pass(_ scalar: Unicode.Scalar) {
            previous = scalar
            marks = ShownName.isMark(scalar) ? marks + 1 : 0
            if scalar.value != 0xFE0F, !(0x1F3FB...0x1F3FF).contains(scalar.value) { base = scalar }
        }
    }

    /// The one predicate.
    private static func fault(of scalar: Unicode.Scalar, _ neighbours: Neighbours, next: Unicode.Scalar?) -> Fault? {
        switch scalar.properties.generalCategory {
        case .control: return .control
        case .lineSeparator, .paragraphSeparator: return .lines
        case .surrogate, .privateUse, .unassigned: return .meaningless
        case .format: return isJoining(scalar, neighbours, next) ? nil : .hidden
        default: break
        }
        if blanks.contains(scalar.value) { return .hidden }
        guard scalar.properties.isDefaultIgnorableCodePoint else {
            return isMark(scalar) && neighbours.marks >= mostMarks ? .stacked : nil
        }
        return isSelecting(scalar, neighbours, next) ? nil : .hidden
    }

    /// Whether a joiner does something: between two letters of a script that knows it, or between two emoji. Anywhere
    /// else it is hidden text.
    private static func isJoining(_ scalar: Unicode.Scalar, _ neighbours: Neighbours, _ next: Unicode.Scalar?) -> Bool {
        guard scalar.value == 0x200C || scalar.value == 0x200D, let next, let previous = neighbours.previous else { return false }
        if knowsJoiners(previous), knowsJoiners(next) { return true }
        return scalar.value == 0x200D && isEmoji(next) && neighbours.base.map(isEmoji) == true
    }

    /// Whether a variation selector does something: after an emoji (of ASCII only the keycaps are), or after an
    /// ideograph.
    private static func isSelecting(_ scalar: Unicode.Scalar, _ neighbours: Neighbours, _ next: Unicode.Scalar?) -> Bool {
        guard let previous = neighbours.previous else { return false }
        switch scalar.value {
        case 0xFE0E, 0xFE0F: return isEmoji(previous) || previous.properties.isEmoji && next?.value == 0x20E3
        case 0xE0100...0xE01EF: return previous.properties.isIdeographic
        default: return false
        }
    }

    private static func isEmoji(_ scalar: Unicode.Scalar) -> Bool { !scalar.isASCII && scalar.properties.isEmoji }

    /// Letters and marks of the scripts in which joiners choose the form of a letter.
    private static func knowsJoiners(_ scalar: Unicode.Scalar) -> Bool {
        guard scriptsWithJoiners.contains(where: { $0.contains(scalar.value) }) else { return false }
        switch scalar.properties.generalCategory {
        case .otherLetter, .modifierLetter, .nonspacingMark, .spacingMark:
            return !scalar.properties.isDefaultIgnorableCodePoint
        default: return false
        }
    }

    /// Hebrew to Myanmar, the Philippines to Lepcha, the Vedic signs, and the later blocks of the same scripts. The
    /// blocks between (Georgian, Hangul, Cherokee, more Latin and Greek) have no use for joiners.
    private static let scriptsWithJoiners: [Range<UInt32>] = [
        0x0590..<0x10A0, 0x1700..<0x1C80, 0x1CD0..<0x1D00, 0xA800..<0xA960, 0xA980..<0xAB00, 0xABC0..<0xAC00,
    ]

    /// A null notehead and Khitan's filler: nothing by their glyphs, and something by their properties.
    private static let blanks: Set<UInt32> = [0x1D159, 0x16FE4]

    /// A mark is drawn on the character before it.
    private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        [.nonspacingMark, .enclosingMark].contains(scalar.properties.generalCategory)
    }

    private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
        // A blank pattern of Braille is a letter by its category, and a mark needs a letter.
        !scalar.properties.isWhitespace && !scalar.properties.isDefaultIgnorableCodePoint && scalar.value != 0x2800
            && !isMark(scalar)
    }
}

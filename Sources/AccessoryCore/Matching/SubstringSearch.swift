// SPDX-License-Identifier: Apache-2.0
// Whether a name contains a text, with the compare options of Foundation's strings: canonically equivalent characters
// are equal unless the comparison is literal, and a match begins and ends between characters as a reader sees them.

internal import AccessoryModel
internal import CGLib

/// A text to find in names, folded once.
struct SubstringSearch: Sendable {
    private let text: [Unicode.Scalar]
    private let options: CompareOptions

    init(_ text: String, _ options: CompareOptions) {
        self.text = Self.fold(text, options).scalars
        self.options = options
    }

    /// Whether the name contains the text. An empty text is found nowhere.
    func isFound(in name: String) -> Bool {
        let (name, boundaries) = Self.fold(name, options)
        guard !text.isEmpty, text.count <= name.count else { return false }
        let isAnchored = options.contains(.anchored)
        let starts =
            switch (isAnchored, options.contains(.backwards)) {
            case (true, true): name.count - text.count...name.count - text.count
            case (true, false): 0...0
            case (false, _): 0...name.count - text.count
            }
        return starts.contains { start in
            boundaries[start] && boundaries[start + text.count] && name[start...].starts(with: text)
        }
    }

    /// The characters to compare, and for the place before each and the end whether a character of the text ends there.
    private static func fold(_ text: String, _ options: CompareOptions) -> (scalars: [Unicode.Scalar], boundaries: [Bool]) {
        var scalars: [Unicode.Scalar] = []
        var boundaries = [true]
        func append(_ folded: some Sequence<Unicode.Scalar>) {
            scalars += folded
            boundaries += repeatElement(false, count: scalars.count + 1 - boundaries.count)
            boundaries[boundaries.count - 1] = true
        }
        if options.decompose {
            for character in text { append(fold(String(character), options)) }
        } else {
            for scalar in text.unicodeScalars { append(fold(String(scalar), options)) }
        }
        return (scalars, boundaries)
    }

    private static func fold(_ character: String, _ options: CompareOptions) -> [Unicode.Scalar] {
        if let byte = character.utf8.first, byte < 0x80, character.utf8.count == 1 {
            let isCapital = options.contains(.caseInsensitive) && 0x41...0x5A ~= byte
            return [Unicode.Scalar(isCapital ? byte + 0x20 : byte)]
        }
        var text = character
        if options.contains(.widthInsensitive) {
            text = text.unicodeScalars.map { halfAndFullWidth ~= $0 ? Unicode.normalize(String($0), G_NORMALIZE_NFKC) : String($0) }
                .joined()
        }
        if options.decompose { text = Unicode.normalize(text, G_NORMALIZE_NFD) }
        if options.contains(.caseInsensitive) { text = Unicode.foldCase(text) }
        guard options.contains(.diacriticInsensitive) else { return Array(text.unicodeScalars) }
        var hasDiacritics = false
        return text.unicodeScalars.filter { scalar in
            guard scalar.properties.isGraphemeExtend else {
                hasDiacritics = scalar < firstWithoutDiacritics
                return true
            }
            return !hasDiacritics
        }
    }

    private static let halfAndFullWidth: ClosedRange<Unicode.Scalar> = "\u{FF00}"..."\u{FFEF}"
    /// Foundation removes diacritics from Latin, Greek and Cyrillic letters only: elsewhere marks make other letters,
    /// such as ガ of カ.
    private static let firstWithoutDiacritics: Unicode.Scalar = "\u{510}"
}

extension CompareOptions {
    /// Whether canonically equivalent characters are equal.
    fileprivate var decompose: Bool { contains(.diacriticInsensitive) || !contains(.literal) }
}

extension Unicode {
    /// The text in a normalization form.
    static func normalize(_ text: String, _ form: GNormalizeMode) -> String {
        guard let normalized = g_utf8_normalize(text, -1, form) else { return text }
        defer { g_free(normalized) }
        return String(cString: normalized)
    }

    /// The text without case, to be compared only.
    static func foldCase(_ text: String) -> String {
        guard let folded = g_utf8_casefold(text, -1) else { return text }
        defer { g_free(folded) }
        return String(cString: folded)
    }
}

// SPDX-License-Identifier: Apache-2.0
// What comparing names asks of Unicode about one character: its decompositions and case folding from GLib, its
// properties from the standard library.

internal import CGLib

/// Properties of characters, by their code points; what is none (half of a surrogate pair) has no properties.
enum Characters {
    /// The canonical decomposition; nil for a character that has none.
    static func decomposition(of character: UInt32) -> [UInt32]? {
        let parts = decompose(character, compatible: false)
        return parts == [character] ? nil : parts
    }

    /// The full case folding; nil for a character that is folded.
    static func caseFolding(of character: UInt32) -> [UInt32]? {
        guard let scalar = Unicode.Scalar(character), scalar.properties.isCased || scalar.properties.changesWhenCaseFolded,
            let folded = g_utf8_casefold(String(scalar), -1)
        else { return nil }
        defer { g_free(folded) }
        let characters = String(cString: folded).unicodeScalars.map(\.value)
        return characters == [character] ? nil : characters
    }

    /// The character of usual width that a half-width or full-width form is one of; others are themselves.
    static func usualWidth(of character: UInt32) -> UInt32 {
        let parts = decompose(character, compatible: true)
        return parts.count == 1 ? parts[0] : character
    }

    /// Whether it belongs to the character before it: a mark, or the colour of an emoji's skin.
    static func isExtender(_ character: UInt32) -> Bool {
        guard character >= 0x300, let scalar = Unicode.Scalar(character) else { return false }
        return scalar.properties.isGraphemeExtend || 0x1F3FB...0x1F3FF ~= character
    }

    /// Its place among the marks of a character.
    static func combiningClass(_ character: UInt32) -> UInt8 {
        Unicode.Scalar(character)?.properties.canonicalCombiningClass.rawValue ?? 0
    }

    /// Whether it is a letter or a mark.
    static func isLetter(_ character: UInt32) -> Bool {
        switch Unicode.Scalar(character)?.properties.generalCategory {
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter: true
        case .nonspacingMark, .spacingMark, .enclosingMark: true
        default: false
        }
    }

    private static func decompose(_ character: UInt32, compatible: Bool) -> [UInt32] {
        guard Unicode.Scalar(character) != nil else { return [character] }
        return Array(unsafeUninitializedCapacity: Int(G_UNICHAR_MAX_DECOMPOSITION_LENGTH)) { buffer, count in
            count = Int(g_unichar_fully_decompose(character, compatible ? 1 : 0, buffer.baseAddress, gsize(buffer.count)))
        }
    }
}

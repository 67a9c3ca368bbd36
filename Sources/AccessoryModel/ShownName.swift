// SPDX-License-Identifier: Apache-2.0
// Names that are shown to a person, checked in one place: by whomever they come over the bus (an app, an admin, a
// picker program), a name must not be able to look like another, or like nothing.

/// The check of names that a person is shown.
public enum ShownName {
    /// What is wrong with a name; nil for one that may be shown: at most `Limits.nameBytes` bytes, something to see in
    /// it, and nothing that controls, hides or turns around what stands beside it.
    public static func problem(with name: String) -> String? {
        guard name.utf8.count <= Limits.nameBytes else { return "longer than \(Limits.nameBytes) bytes" }
        for scalar in name.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control: return "has control characters"
            // Joiners are part of many scripts, and of emoji.
            case .format where scalar.value != 0x200C && scalar.value != 0x200D:
                return "has characters that are invisible or change the direction of text"
            case .lineSeparator, .paragraphSeparator: return "has more than one line"
            case .surrogate, .privateUse, .unassigned: return "has characters without a meaning"
            default: break
            }
        }
        return name.unicodeScalars.contains(where: isVisible) ? nil : "is empty"
    }

    private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
        // A blank pattern of Braille is a letter by its category.
        !scalar.properties.isWhitespace && !scalar.properties.isDefaultIgnorableCodePoint && scalar.value != 0x2800
    }
}

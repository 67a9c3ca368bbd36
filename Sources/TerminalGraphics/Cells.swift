// SPDX-License-Identifier: Apache-2.0
// Text in a terminal's cells: wide characters take two, combining marks none. By GLib's tables, which do not depend on
// the locale.

internal import CGLib

/// Measures and cuts text by the cells that a terminal gives it.
public enum Cells {
    /// The cells of a text without control characters. A sequence that a terminal may draw as one picture counts for
    /// its parts, so a text that fits by this count fits in any terminal.
    public static func width(of text: some StringProtocol) -> Int {
        text.unicodeScalars.reduce(0) { $0 + width(of: $1) }
    }

    private static func width(of scalar: UnicodeScalar) -> Int {
        if g_unichar_iszerowidth(scalar.value) != 0 { return 0 }
        return g_unichar_iswide(scalar.value) != 0 ? 2 : 1
    }

    /// The beginning of a text that fits, with a mark where it was cut. Sequences that are drawn as one sign may be
    /// cut, too: a name may be a single sequence that is wider than any terminal.
    ///
    /// - Parameters:
    ///   - columns: cells; nothing fits in none.
    ///   - mark: stands for the rest.
    public static func cut(_ text: String, to columns: Int, mark: String = "…") -> String {
        guard width(of: text) > columns else { return text }
        var used = width(of: mark)
        guard used <= columns else { return "" }
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            used += width(of: scalar)
            guard used <= columns else { break }
            result.append(scalar)
        }
        return String(result) + mark
    }

    /// A text in lines of so many cells, between words where that is possible.
    ///
    /// - Parameters:
    ///   - columns: cells of a line, two at least.
    ///   - indentation: the beginning of each line.
    public static func wrap(_ text: String, to columns: Int, indentation: String = "") -> [String] {
        let available = max(2, columns - width(of: indentation))
        var lines: [String] = []
        var line = ""
        for word in text.split(separator: " ", omittingEmptySubsequences: false) {
            if !line.isEmpty, width(of: line) + 1 + width(of: word) <= available {
                line += " " + word
                continue
            }
            if !line.isEmpty { lines.append(line) }
            var rest = word.unicodeScalars
            var left = width(of: word)
            while left > available {
                var part = String.UnicodeScalarView()
                var used = 0
                while let next = rest.first, part.isEmpty || used + width(of: next) <= available {
                    part.append(rest.removeFirst())
                    used += width(of: next)
                }
                lines.append(String(part))
                left -= used
            }
            line = String(Substring(rest))
        }
        return (lines + [line]).map { indentation + $0 }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Text that a person is shown: which names may be set, and which characters are marked in text from elsewhere.

import AccessoryModel
import Testing

@Suite struct ShownNameTests {
    /// Shown as they are, and allowed as names.
    private static let good = [
        "Dice", "Würfel", "🎲", "a b", "C++ <b>", "サイコロ", "Кубик", "\u{FFFD}",
        // Joiners where they do something: Persian, Devanagari, Sinhala, Khmer, Meetei Mayek.
        "می\u{200C}خواهم", "क\u{94D}\u{200D}ष", "ශ\u{DCA}\u{200D}රී", "ក\u{200C}ខ", "ꯀ\u{200C}ꯁ",
        "👩\u{200D}🔧", "👩🏽\u{200D}🔧", "🏳\u{FE0F}\u{200D}🌈", "👩\u{200D}❤\u{FE0F}\u{200D}👩", "🧔🏽\u{200D}♂\u{FE0F}",
        // Selectors after the characters whose form they select.
        "❤\u{FE0F}", "☎\u{FE0E}", "1\u{FE0F}\u{20E3}", "葛\u{E0100}",
        // Marks on letters: Vietnamese in parts, Hebrew, Thai, Tibetan.
        "e\u{302}\u{301}", "שׁ\u{5B8}\u{5BD}", "น\u{E49}\u{E33}", "བ\u{F99}\u{FB1}\u{F72}\u{F7E}",
    ]

    /// Refused as names, with these words, and shown with a mark in the place of each scalar that is hidden here by
    /// •.
    private static let bad: [(name: String, says: String, shown: String)] = [
        ("a\tb", "control", "a•b"), ("a\u{7F}", "control", "a•"), ("a\nb", "control", "a•b"), ("a\u{9B}2J", "control", "a•2J"),
        ("a\u{202E}b", "invisible", "a•b"), ("a\u{2066}b", "invisible", "a•b"), ("a\u{FEFF}", "invisible", "a•"),
        ("a\u{200B}b", "invisible", "a•b"), ("a\u{AD}b", "invisible", "a•b"), ("a\u{2060}b", "invisible", "a•b"),
        ("a\u{2028}b", "more than one line", "a•b"), ("\u{E000}", "without a known glyph", "•"),
        ("a\u{378}", "without a known glyph", "a•"),
        // Joiners that do nothing.
        ("\u{200D}", "invisible", "•"), ("Pi\u{200D}nk Dice", "invisible", "Pi•nk Dice"), ("ni\u{200C}m", "invisible", "ni•m"),
        ("Dice\u{200D}", "invisible", "Dice•"), ("\u{200C}می", "invisible", "•می"), ("می\u{200D} خ", "invisible", "می• خ"),
        ("می\u{200C}\u{200C}خ", "invisible", "می••خ"), ("Кy\u{200C}бик", "invisible", "Кy•бик"),
        ("ệ\u{200D}ễ", "invisible", "ệ•ễ"), ("ა\u{200C}ბ", "invisible", "ა•ბ"), ("가\u{200D}나", "invisible", "가•나"),
        ("١\u{200D}٢", "invisible", "١•٢"), ("م\u{200D}a", "invisible", "م•a"),
        ("👩\u{200C}🔧", "invisible", "👩•🔧"), ("👩\u{200D}", "invisible", "👩•"), ("\u{200D}🔧", "invisible", "•🔧"),
        ("1\u{200D}2", "invisible", "1•2"), ("👩\u{200D}2", "invisible", "👩•2"), ("🏽a\u{200D}🔧", "invisible", "🏽a•🔧"),
        ("👩\u{200D}\u{200D}🔧", "invisible", "👩••🔧"),
        // Other characters that show nothing.
        ("\u{3164}", "invisible", "•"), ("a\u{115F}", "invisible", "a•"), ("a\u{1160}", "invisible", "a•"),
        ("a\u{34F}b", "invisible", "a•b"), ("a\u{FE00}", "invisible", "a•"), ("a\u{FE0F}", "invisible", "a•"),
        ("1\u{FE0F}", "invisible", "1•"), ("葛\u{FE00}", "invisible", "葛•"), ("a\u{E0100}", "invisible", "a•"),
        ("🎲\u{FE0F}\u{FE0F}", "invisible", "🎲\u{FE0F}•"), ("🎲\u{FE0F}\u{FE0F}\u{200D}🎲", "invisible", "🎲\u{FE0F}••🎲"),
        ("a\u{E0041}", "invisible", "a•"), ("a\u{180B}", "invisible", "a•"), ("ក\u{17B4}", "invisible", "ក•"),
        ("ក\u{200C}\u{17B4}", "invisible", "ក••"), ("\u{1D159}", "invisible", "•"), ("a\u{16FE4}", "invisible", "a•"),
        // Marks that pile up.
        ("a\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}", "marks on one", "a\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}•"),
        ("a" + String(repeating: "\u{489}", count: 7), "marks on one", "a" + String(repeating: "\u{489}", count: 6) + "•"),
    ]

    @Test(arguments: good)
    func whatMayBeShown(name: String) {
        #expect(ShownName.problem(with: name) == nil)
        #expect(scalars(ShownName.marked(name)) == scalars(name))
    }

    @Test(arguments: bad)
    func whatMayNot(name: String, says: String, shown: String) {
        #expect(ShownName.problem(with: name)?.contains(says) == true)
        let marked = ShownName.marked(name)
        #expect(scalars(marked) == scalars(shown.replacing("•", with: "\u{FFFD}")))
        // A marked text has nothing more to mark.
        #expect(scalars(ShownName.marked(marked)) == scalars(marked))
        #expect(ShownName.problem(with: marked) == nil)
    }

    @Test func lengths() {
        #expect(ShownName.problem(with: String(repeating: "a", count: 256)) == nil)
        #expect(ShownName.problem(with: String(repeating: "ä", count: 129)) == "longer than 256 bytes")
        for name in ["", " ", " \u{A0}", "\u{2800}", "\u{301}", " \u{301}\u{20DD}"] {
            #expect(ShownName.problem(with: name) == "is empty")
        }
        // How long a text is, and whether it says anything, is no reason to mark it.
        for text in ["", " ", "\u{2800}", String(repeating: "ä", count: 129)] { #expect(ShownName.marked(text) == text) }
    }

    /// Texts are equal in Swift that are not the same to the letter.
    private func scalars(_ text: String) -> [UInt32] { text.unicodeScalars.map(\.value) }
}

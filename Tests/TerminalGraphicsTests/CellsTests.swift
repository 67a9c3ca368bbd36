// SPDX-License-Identifier: Apache-2.0
// Text in cells: cutting and wrapping.

import Testing

@testable import TerminalGraphics

struct CellsTests {
    @Test(arguments: [
        ("", 0), ("die", 3), ("温度", 4), ("Wu\u{308}rfel", 6), ("e\u{301}\u{302}", 1), ("🎲", 2), ("a\u{200B}b", 2),
    ]) func widths(text: String, cells: Int) {
        #expect(Cells.width(of: text) == cells)
    }

    @Test func cutTextFits() {
        #expect(Cells.cut("die", to: 3) == "die")
        #expect(Cells.cut("dice", to: 3) == "di…")
        // Half of a wide character is none.
        #expect(Cells.cut("温度計", to: 4) == "温…")
        #expect(Cells.cut("Wu\u{308}rfel", to: 3) == "Wu\u{308}…")
        #expect(Cells.cut("die", to: 1) == "…")
        #expect(Cells.cut("die", to: 0) == "")
        #expect(Cells.cut("dice", to: 3, mark: "...") == "...")
        // One sequence that is wider than the terminal.
        #expect(Cells.cut(String(repeating: "\u{1100}", count: 60), to: 5) == "\u{1100}\u{1100}…")
    }

    @Test func linesBreakBetweenWordsAndFit() {
        #expect(Cells.wrap("a die to set up", to: 6) == ["a die", "to set", "up"])
        #expect(Cells.wrap("a die", to: 8, indentation: "  ") == ["  a die"])
        #expect(Cells.wrap("abcdefgh ij", to: 3) == ["abc", "def", "gh", "ij"])
        #expect(Cells.wrap("温度計", to: 3) == ["温", "度", "計"])
        let jamo = String(repeating: "\u{1100}", count: 60)
        #expect(jamo.count == 1 && Cells.wrap(jamo, to: 40).map { Cells.width(of: $0) } == [40, 40, 40])
        #expect(Cells.wrap(jamo, to: 1).count == 60)
        for width in 2...20 {
            for line in Cells.wrap("Which number does the accessory 温度センサー show?", to: width) {
                #expect(Cells.width(of: line) <= width)
            }
        }
    }
}

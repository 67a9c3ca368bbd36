// SPDX-License-Identifier: Apache-2.0
// Images for terminals: each protocol's output for a few pixels, read back by a reader written from its specification.

import TerminalGraphics
import Testing

private let red: [UInt8] = [255, 0, 0, 255]
private let blue: [UInt8] = [0, 0, 255, 255]
private let nothing: [UInt8] = [9, 9, 9, 0]

private func bitmap(_ width: Int, _ pixels: [[UInt8]]) throws -> Bitmap {
    try #require(Bitmap(width: width, height: pixels.count / width, rgba: pixels.flatMap(\.self)))
}

/// Reads sixels back: which colour each pixel has, nil where none was painted.
private func readSixels(_ text: String, width: Int, height: Int) -> [[Int?]] {
    var pixels = Array(repeating: [Int?](repeating: nil, count: width), count: height)
    let body = Array(text[text.firstIndex(of: "q")!...].dropFirst().prefix { $0 != "\u{1B}" }.utf8)
    var (index, x, top, color) = (0, 0, 0, 0)
    func number() -> Int {
        var value = 0
        while index < body.count, (48...57).contains(body[index]) {
            value = value * 10 + Int(body[index] - 48)
            index += 1
        }
        return value
    }
    while index < body.count {
        let byte = body[index]
        index += 1
        var count = 1
        var sixel = byte
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: ";"):
            _ = number()
            continue
        case UInt8(ascii: "#"):
            color = number()
            if index < body.count, body[index] == UInt8(ascii: ";") {
                for _ in 0..<4 where body[index] == UInt8(ascii: ";") {
                    index += 1
                    _ = number()
                }
            }
            continue
        case UInt8(ascii: "$"):
            x = 0
            continue
        case UInt8(ascii: "-"):
            (x, top) = (0, top + 6)
            continue
        case UInt8(ascii: "!"):
            count = number()
            sixel = body[index]
            index += 1
        default: break
        }
        guard (63...126).contains(sixel) else { continue }
        for _ in 0..<count {
            for row in 0..<6 where (sixel - 63) >> row & 1 == 1 { pixels[top + row][x] = color }
            x += 1
        }
    }
    return pixels
}

@Suite struct TerminalGraphicsTests {
    @Test func aBitmapHasAllItsPixels() {
        #expect(Bitmap(width: 2, height: 1, rgba: red + blue) != nil)
        #expect(Bitmap(width: 2, height: 1, rgba: red) == nil)
        #expect(Bitmap(width: 0, height: 0, rgba: []) == nil)
    }

    @Test func whatATerminalSaysDecides() {
        func choose(_ variables: [String: String], _ attributes: [Int] = []) -> GraphicsProtocol {
            GraphicsProtocol(environment: { variables[$0] }, attributes: attributes)
        }
        #expect(choose(["TERM": "xterm-kitty"]) == .kitty)
        #expect(choose(["TERM_PROGRAM": "ghostty"], [62, 4]) == .kitty)
        #expect(choose(["KITTY_WINDOW_ID": "1", "TMUX": "/tmp/x"]) == .halfBlocks(trueColor: false))
        #expect(choose(["TERM": "foot"], [62, 4, 22]) == .sixel)
        #expect(choose(["TERM": "xterm-256color", "COLORTERM": "truecolor"], [62]) == .halfBlocks(trueColor: true))
        #expect(choose([:]) == .halfBlocks(trueColor: false))
    }

    @Test func halfBlocksKeepTransparency() throws {
        let image = TerminalImage(
            try bitmap(3, [red, nothing, nothing, blue, blue, nothing]), as: .halfBlocks(trueColor: true), id: 1)
        let lines = image.drawing.split(separator: "\n")
        #expect(lines.count == TerminalImage.rows && image.preparation.isEmpty)
        #expect(
            lines[0] == "   \u{1B}[0;38;2;255;0;0;48;2;0;0;255m▀\u{1B}[0;38;2;0;0;255m▄\u{1B}[0m \u{1B}[0m")
        let few = TerminalImage(try bitmap(1, [red, blue]), as: .halfBlocks(trueColor: false), id: 1)
        #expect(few.drawing.hasPrefix("   \u{1B}[0;38;5;196;48;5;21m▀"))
    }

    @Test func sixelsComeBack() throws {
        let pixels = (0..<70).map { $0 % 7 == 3 ? nothing : $0 % 3 == 0 ? red : blue }
        let image = TerminalImage(try bitmap(7, pixels), as: .sixel, id: 1)
        #expect(image.drawing.hasPrefix("\u{1B}7\u{1B}P0;1;0q\"1;1;7;10") && image.drawing.contains("\u{1B}\\\u{1B}8\n"))
        let back = readSixels(image.drawing, width: 7, height: 12)
        for (index, pixel) in pixels.enumerated() {
            let expected: Int? = pixel == nothing ? nil : pixel == red ? 5 * 36 : 5
            #expect(back[index / 7][index % 7] == expected, "pixel \(index)")
        }
        #expect(image.drawing.contains("#180;2;100;0;0") && image.drawing.contains("#5;2;0;0;100"))
    }

    @Test func kittyGetsThePixelsInPieces() throws {
        let image = TerminalImage(try bitmap(50, Array(repeating: red, count: 50 * 40)), as: .kitty, id: 7)
        let pieces = image.preparation.split(separator: "\u{1B}\\")
        #expect(pieces.count == 3 && pieces.allSatisfy { $0.hasPrefix("\u{1B}_G") && $0.utf8.count <= 4096 + 60 })
        #expect(pieces[0].contains("a=t,f=32,s=50,v=40,i=7,q=2,m=1;") && pieces[2].contains("\u{1B}_Gm=0;"))
        // 255 0 0 255 again and again: every three pixels are sixteen characters.
        let payload = pieces.map { $0.split(separator: ";").last! }.joined()
        #expect(
            payload.hasPrefix("/wAA//8AAP//AAD//wAA") && payload.utf8.count == (50 * 40 * 4 + 2) / 3 * 4 && payload.hasSuffix("="))
        #expect(image.drawing.hasPrefix("\u{1B}_Ga=p,i=7,p=1,r=8,C=1,q=2\u{1B}\\\n"))
    }
}

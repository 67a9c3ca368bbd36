// SPDX-License-Identifier: Apache-2.0
// Images as terminals take them: kitty's graphics protocol, sixels, or half blocks, which every terminal with colours
// can show.

internal import Glibc

/// How a terminal shows images.
public enum GraphicsProtocol: Hashable, Sendable {
    /// kitty's protocol (sw.kovidgoyal.net/kitty/graphics-protocol): the terminal scales and blends.
    case kitty
    /// DEC sixels, in the six levels of each colour of the usual palette.
    case sixel
    /// `▀` with two colours: 24 bits each, or the 216 of the usual palette.
    case halfBlocks(trueColor: Bool)

    /// The abilities of a terminal, by its environment.
    ///
    /// - Parameters:
    ///   - environment: `TERM`, `TERM_PROGRAM`, `KITTY_WINDOW_ID`, `COLORTERM`.
    ///   - attributes: the parameters of its answer to "primary device attributes" (`ESC [ c`); 4 is sixel graphics.
    public init(environment: (String) -> String?, attributes: [Int]) {
        let isKitty =
            environment("KITTY_WINDOW_ID") != nil || environment("TERM").map { strstr($0, "kitty") != nil } == true
            || ["ghostty", "WezTerm"].contains(environment("TERM_PROGRAM") ?? "")
        // Between us and a terminal inside tmux or screen stands another one.
        if isKitty, environment("TMUX") == nil, environment("STY") == nil {
            self = .kitty
        } else if attributes.contains(4) {
            self = .sixel
        } else {
            self = .halfBlocks(trueColor: ["truecolor", "24bit"].contains(environment("COLORTERM") ?? ""))
        }
    }

    /// Pixels that an image of 180 × 120 points should have here. (A cell is taken to be 7.5 × 15 points.)
    public var box: (width: Int, height: Int) {
        switch self {
        case .kitty: (360, 240)
        case .sixel: (180, 120)
        case .halfBlocks: (24, 16)
        }
    }
}

/// An image made ready for a terminal.
public struct TerminalImage: Sendable {
    /// Text rows that it takes.
    public static let rows = 8

    /// Sent once, before the image is drawn for the first time; empty where that is not needed.
    public let preparation: String
    /// Draws it below the cursor, which ends at the start of the row after it.
    public let drawing: String

    /// - Parameter id: 1…2³²−1, another one for every image.
    public init(_ bitmap: Bitmap, as graphics: GraphicsProtocol, id: Int) {
        switch graphics {
        case .kitty:
            preparation = Self.kitty(bitmap, id: id)
            // Placed again under the same number it moves; C=1 leaves the cursor where it is.
            drawing = "\u{1B}_Ga=p,i=\(id),p=1,r=\(Self.rows),C=1,q=2\u{1B}\\" + String(repeating: "\n", count: Self.rows)
        case .sixel:
            preparation = ""
            drawing = "\u{1B}7" + Self.sixel(bitmap) + "\u{1B}8" + String(repeating: "\n", count: Self.rows)
        case .halfBlocks(let trueColor):
            preparation = ""
            drawing = Self.halfBlocks(bitmap, trueColor: trueColor)
        }
    }

    // MARK: kitty

    /// Transmits 32-bit pixels, at most 4,096 characters at a time.
    private static func kitty(_ bitmap: Bitmap, id: Int) -> String {
        let payload = Array(base64(bitmap.rgba).utf8)
        var text = ""
        var start = 0
        while start < payload.count {
            let end = min(start + 4096, payload.count)
            let more = end < payload.count ? 1 : 0
            let keys = start == 0 ? "a=t,f=32,s=\(bitmap.width),v=\(bitmap.height),i=\(id),q=2,m=\(more)" : "m=\(more)"
            text += "\u{1B}_G\(keys);" + String(decoding: payload[start..<end], as: UTF8.self) + "\u{1B}\\"
            start = end
        }
        return text
    }

    private static func base64(_ bytes: [UInt8]) -> String {
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var result: [UInt8] = []
        result.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let count = min(3, bytes.count - start)
            var group = UInt32(bytes[start]) << 16
            if count > 1 { group |= UInt32(bytes[start + 1]) << 8 }
            if count > 2 { group |= UInt32(bytes[start + 2]) }
            for index in 0..<4 {
                result.append(index <= count ? letters[Int(group >> UInt32(18 - index * 6) & 63)] : UInt8(ascii: "="))
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    // MARK: Sixels

    /// Six rows at a time: for each colour in them, a row of characters whose six bits select the pixels that have
    /// it. Transparent pixels are left as they are (second parameter 1).
    private static func sixel(_ bitmap: Bitmap) -> String {
        var text = "\u{1B}P0;1;0q\"1;1;\(bitmap.width);\(bitmap.height)"
        var defined: Set<Int> = []
        for top in stride(from: 0, to: bitmap.height, by: 6) {
            let rows = min(6, bitmap.height - top)
            var columns: [Int: [UInt8]] = [:]
            for x in 0..<bitmap.width {
                for row in 0..<rows {
                    let pixel = bitmap[x, top + row]
                    guard pixel.isVisible else { continue }
                    columns[cube(pixel), default: Array(repeating: 0, count: bitmap.width)][x] |= 1 << row
                }
            }
            for (color, bits) in columns.sorted(by: { $0.key < $1.key }) {
                if defined.insert(color).inserted {
                    text += "#\(color);2;\(color / 36 * 20);\(color / 6 % 6 * 20);\(color % 6 * 20)"
                }
                text += "#\(color)" + runs(bits) + "$"
            }
            text += "-"
        }
        return text + "\u{1B}\\"
    }

    private static func runs(_ bits: [UInt8]) -> String {
        var text = ""
        var index = 0
        while index < bits.count {
            var end = index
            while end < bits.count, bits[end] == bits[index] { end += 1 }
            let character = String(UnicodeScalar(bits[index] + 63))
            text += end - index > 3 ? "!\(end - index)\(character)" : String(repeating: character, count: end - index)
            index = end
        }
        return text
    }

    /// The nearest of 216 colours, as a number: six levels of red, green and blue.
    private static func cube(_ pixel: Bitmap.Pixel) -> Int {
        [pixel.red, pixel.green, pixel.blue].reduce(0) { $0 * 6 + (Int($1) * 5 + 127) / 255 }
    }

    // MARK: Half blocks

    private static func halfBlocks(_ bitmap: Bitmap, trueColor: Bool) -> String {
        var text = ""
        for row in 0..<rows {
            text += "   "
            for x in 0..<bitmap.width {
                let upper = row * 2 < bitmap.height ? bitmap[x, row * 2] : nil
                let lower = row * 2 + 1 < bitmap.height ? bitmap[x, row * 2 + 1] : nil
                text += cell(upper.flatMap { $0.isVisible ? $0 : nil }, lower.flatMap { $0.isVisible ? $0 : nil }, trueColor)
            }
            text += "\u{1B}[0m\n"
        }
        return text
    }

    /// One character: its upper half and its lower half. A transparent half shows the terminal's own background.
    private static func cell(_ upper: Bitmap.Pixel?, _ lower: Bitmap.Pixel?, _ trueColor: Bool) -> String {
        func color(_ pixel: Bitmap.Pixel, _ layer: Int) -> String {
            trueColor
                ? "\(layer);2;\(pixel.red);\(pixel.green);\(pixel.blue)" : "\(layer);5;\(16 + cube(pixel))"
        }
        switch (upper, lower) {
        case (let upper?, let lower?): return "\u{1B}[0;\(color(upper, 38));\(color(lower, 48))m▀"
        case (let upper?, nil): return "\u{1B}[0;\(color(upper, 38))m▀"
        case (nil, let lower?): return "\u{1B}[0;\(color(lower, 38))m▄"
        case (nil, nil): return "\u{1B}[0m "
        }
    }
}

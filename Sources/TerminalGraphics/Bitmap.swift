// SPDX-License-Identifier: Apache-2.0
// An image in memory, as small as a terminal shows it.

/// Pixels, row by row from the top left; four bytes each: red, green, blue, alpha (not premultiplied).
public struct Bitmap: Hashable, Sendable {
    /// Pixels of a row, 1 or more.
    public let width: Int
    /// Rows, 1 or more.
    public let height: Int
    /// All pixels, `width` × `height` × 4 bytes.
    public let rgba: [UInt8]

    /// Nil unless there are exactly four bytes for every pixel, and at least one pixel.
    public init?(width: Int, height: Int, rgba: [UInt8]) {
        guard width > 0, height > 0, rgba.count == width * height * 4 else { return nil }
        self.width = width
        self.height = height
        self.rgba = rgba
    }

    struct Pixel: Hashable {
        var red: UInt8
        var green: UInt8
        var blue: UInt8
        var alpha: UInt8

        /// A terminal has no half transparency: a pixel that is mostly opaque is opaque.
        var isVisible: Bool { alpha >= 128 }
    }

    subscript(x: Int, y: Int) -> Pixel {
        let at = (y * width + x) * 4
        return Pixel(red: rgba[at], green: rgba[at + 1], blue: rgba[at + 2], alpha: rgba[at + 3])
    }
}

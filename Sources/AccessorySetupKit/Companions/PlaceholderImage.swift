// SPDX-License-Identifier: Apache-2.0
// The image that stands for one of Apple's symbols: Linux has no SF Symbols, and an
// app that asks for one by name gets a drawing that is the same for the same name. A PNG, as every picker program reads
// it; five by five cells, mirrored, in a colour of the name's own.

enum PlaceholderImage {
    /// Pixels of a side.
    private static let side = 120
    private static let cells = 5
    /// Pixels of a cell; half a cell is left free on each side.
    private static let cell = side / (cells + 1)

    /// The bytes of the file.
    static func png(for name: String) -> [UInt8] {
        let hash = fingerprint(of: name)
        var header = bigEndian(UInt32(side)) + bigEndian(UInt32(side))
        // One bit for a pixel, which is a number in the palette; the usual compression and filter, not interlaced.
        header += [1, 3, 0, 0, 0]
        var file: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        file += chunk("IHDR", header)
        file += chunk("PLTE", [0xFF, 0xFF, 0xFF] + colour(of: hash))
        // The first colour, the background, is transparent.
        file += chunk("tRNS", [0])
        file += chunk("IDAT", stored(rows(of: hash)))
        file += chunk("IEND", [])
        return file
    }

    /// FNV-1a: the same in every process, which Swift's own hashes are not.
    private static func fingerprint(of name: String) -> UInt64 {
        name.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }

    /// Not too bright for a light background, not too dark for a dark one.
    private static func colour(of hash: UInt64) -> [UInt8] {
        (5..<8).map { 64 + UInt8(truncatingIfNeeded: hash >> UInt64(8 * $0)) % 144 }
    }

    /// Whether a cell is drawn. The middle one always is, so that no image is empty.
    private static func isDrawn(_ hash: UInt64, _ column: Int, _ row: Int) -> Bool {
        let mirrored = min(column, cells - 1 - column)
        return (column, row) == (cells / 2, cells / 2) || hash >> UInt64(row * 3 + mirrored) & 1 == 1
    }

    /// All rows, each after the number of its filter.
    private static func rows(of hash: UInt64) -> [UInt8] {
        (0..<side).flatMap { y -> [UInt8] in
            var row = [UInt8](repeating: 0, count: 1 + side / 8)
            for x in 0..<side {
                let (column, line) = ((x + cell / 2) / cell - 1, (y + cell / 2) / cell - 1)
                guard (0..<cells).contains(column), (0..<cells).contains(line), isDrawn(hash, column, line) else { continue }
                row[1 + x / 8] |= 0x80 >> UInt8(x % 8)
            }
            return row
        }
    }

    /// A zlib stream of one block that is not compressed: 2 KB are not worth a compressor.
    private static func stored(_ bytes: [UInt8]) -> [UInt8] {
        let count = UInt16(bytes.count)
        var (low, high): (UInt32, UInt32) = (1, 0)
        for byte in bytes {
            low = (low + UInt32(byte)) % 65521
            high = (high + low) % 65521
        }
        let header: [UInt8] = [0x78, 0x01, 0x01]
        return header + littleEndian(count) + littleEndian(~count) + bytes + bigEndian((high << 16) | low)
    }

    private static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        let body = Array(type.utf8) + data
        return bigEndian(UInt32(data.count)) + body + bigEndian(checksum(of: body))
    }

    /// CRC-32, as PNG has it.
    private static func checksum(of bytes: [UInt8]) -> UInt32 {
        var sum = ~UInt32(0)
        for byte in bytes {
            sum ^= UInt32(byte)
            for _ in 0..<8 { sum = sum & 1 == 1 ? (sum >> 1) ^ 0xEDB8_8320 : sum >> 1 }
        }
        return ~sum
    }

    private static func bigEndian(_ number: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: number >> UInt32(24 - 8 * $0)) }
    }

    private static func littleEndian(_ number: UInt16) -> [UInt8] {
        [UInt8(truncatingIfNeeded: number), UInt8(truncatingIfNeeded: number >> 8)]
    }
}

// SPDX-License-Identifier: Apache-2.0
// Tables for people, JSON for programs.

internal import Glibc
internal import JSONText
internal import ProgramSupport
internal import TerminalGraphics

enum Output {
    /// Columns as wide as their contents; text from strangers without control characters.
    ///
    /// - Returns: the columns' widths, for `row`.
    @discardableResult static func table(_ header: [String], _ rows: [[String]]) -> [Int] {
        let lines = ([header] + rows).map(shown)
        let widths = header.indices.map { column in lines.map { Cells.width(of: $0[column]) }.max() ?? 0 }
        for line in lines { write(line, widths) }
        return widths
    }

    /// One more row of a table, as far as it fits.
    static func row(_ row: [String], _ widths: [Int]) { write(shown(row), widths) }

    /// Text from strangers without control characters, in the locale's characters.
    private static func shown(_ row: [String]) -> [String] {
        row.map { StandardOutput.inLocale(StandardOutput.printable($0)) }
    }

    private static func write(_ cells: [String], _ widths: [Int]) {
        let padded = cells.enumerated().map { index, cell in
            index == cells.count - 1 ? cell : cell + String(repeating: " ", count: max(0, widths[index] - Cells.width(of: cell)))
        }
        StandardOutput.line(padded.joined(separator: "  "))
    }

    /// One JSON document, keys sorted.
    static func json(_ value: JSON) { StandardOutput.write(data: value.written + "\n") }

    /// Local time for people; "never" for 0.
    static func time(_ seconds: Int) -> String {
        guard seconds > 0 else { return "never" }
        var time = time_t(seconds)
        var parts = tm()
        localtime_r(&time, &parts)
        var text = [CChar](repeating: 0, count: 32)
        let count = strftime(&text, text.count, "%Y-%m-%d %H:%M", &parts)
        return String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

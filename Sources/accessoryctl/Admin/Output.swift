// SPDX-License-Identifier: Apache-2.0
// Tables for people, JSON for programs.

internal import ArgumentParser
internal import Glibc
internal import JSONText
internal import ProgramSupport
internal import TerminalGraphics

/// How a table is shown.
struct TableOptions: ParsableArguments {
    @OptionGroup var output: JSONOption
    @Option(help: "Show only these columns, in this order: table headings, separated by commas.") var columns: String?
    @Flag(help: "Do not use a pager, even on a terminal.") var noPager = false
    var json: Bool { output.json }

    func validate() throws {
        if json, columns != nil { throw ValidationError("--columns cannot be combined with --json: an object has all its keys") }
    }

    /// Shows the output of `body`, in a pager if one is wanted.
    func paged(_ body: () throws -> Void) rethrows { noPager ? try body() : try Pager.around(body) }

    /// The columns of a table that are to be shown.
    ///
    /// - Throws: `ValidationError` for one that the table has not.
    func chosen(of header: [String]) throws -> [Int] {
        guard let columns else { return Array(header.indices) }
        return try columns.split(separator: ",", omittingEmptySubsequences: false).map { name in
            guard let index = header.firstIndex(of: name.uppercased()) else {
                let shown = StandardOutput.printable(String(name))
                throw ValidationError("--columns: no column “\(shown)”; the columns are \(header.joined(separator: ","))")
            }
            return index
        }
    }
}

/// Columns as wide as their contents; text from strangers without control characters.
struct Table {
    private let columns: [Int]
    private let lines: [[String]]
    private let widths: [Int]

    init(_ header: [String], _ rows: [[String]], _ options: TableOptions) throws {
        let columns = try options.chosen(of: header)
        let lines = ([header] + rows).map { Self.shown($0, columns) }
        widths = columns.indices.map { column in lines.map { Cells.width(of: $0[column]) }.max() ?? 0 }
        self.columns = columns
        self.lines = lines
    }

    func write() { for line in lines { write(line) } }

    /// Writes one more row, in columns as far as it fits.
    func write(row: [String]) { write(Self.shown(row, columns)) }

    /// In the locale's characters.
    private static func shown(_ row: [String], _ columns: [Int]) -> [String] {
        columns.map { StandardOutput.inLocale(StandardOutput.printable(row[$0])) }
    }

    private func write(_ cells: [String]) {
        let padded = cells.enumerated().map { index, cell in
            index == cells.count - 1 ? cell : cell + String(repeating: " ", count: max(0, widths[index] - Cells.width(of: cell)))
        }
        StandardOutput.line(padded.joined(separator: "  "))
    }
}

enum Output {
    /// One JSON document, keys sorted.
    static func json(_ value: JSON) { StandardOutput.write(data: value.written + "\n") }

    /// The presence of an observed accessory, for people.
    static func presence(_ isInRange: Bool) -> String { isInRange ? "in range" : "not in range" }

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

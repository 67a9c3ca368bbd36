// SPDX-License-Identifier: Apache-2.0
// Tables for people, JSON for programs.

internal import Foundation
internal import ProgramSupport

enum Output {
    /// Columns as wide as their contents; text from strangers without control characters.
    static func table(_ header: [String], _ rows: [[String]]) {
        let rows = rows.map { $0.map { StandardOutput.printable($0) } }
        let widths = header.indices.map { column in ([header] + rows).map { $0[column].count }.max() ?? 0 }
        for row in [header] + rows {
            let cells = row.enumerated().map { index, cell in
                index == row.count - 1 ? cell : cell + String(repeating: " ", count: widths[index] - cell.count)
            }
            StandardOutput.line(cells.joined(separator: "  "))
        }
    }

    /// One JSON document, keys sorted.
    static func json(_ value: Any) throws {
        let data = try JSONSerialization.data(
            withJSONObject: value, options: [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes])
        StandardOutput.line(String(decoding: data, as: UTF8.self))
    }

    /// Local time for people; "never" for 0.
    static func time(_ seconds: Int) -> String {
        guard seconds > 0 else { return "never" }
        return minutes.string(from: Date(timeIntervalSince1970: Double(seconds)))
    }

    /// Made once: making one takes longer than a hundred uses.
    private static let minutes = {
        let format = DateFormatter()
        format.dateFormat = "yyyy-MM-dd HH:mm"
        return format
    }()
}

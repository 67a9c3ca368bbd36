// SPDX-License-Identifier: Apache-2.0
// A claim list: a key file whose last section is a table, as spreadsheets export it (Docs/Policy.md).

internal import AccessoryCore
internal import AccessoryModel
internal import CGLib
internal import KeyFiles

struct ClaimListReader {
    private static let header = "Claims"
    private static let table = "[Entries]"
    private static let places = ["SerialInName", "SerialInManufacturerData", "SerialInServiceData"]
    /// The columns that identify an accessory; a table has exactly one.
    private static let identities = ["address", "serial", "hex"]
    private static let columns = identities + ["passkey", "pin", "name"]

    private let path: String
    private let file: KeyFile
    /// The lines of the table, with their numbers.
    private let lines: [(number: Int, text: String)]
    private var problems: [KeyFileProblem] = []

    /// Reads one file.
    ///
    /// - Returns: the list, or the file's problems.
    static func read(path: String, _ files: inout RememberedFiles) -> (list: ClaimList?, problems: [KeyFileProblem]) {
        do throws(KeyFileProblem) {
            var reader = try Self(path, try KeyFile.contents(path, &files))
            let list = try reader.list()
            return reader.problems.isEmpty ? (list, []) : (nil, reader.problems)
        } catch {
            return (nil, [error])
        }
    }

    private init(_ path: String, _ contents: [UInt8]) throws(KeyFileProblem) {
        self.path = path
        let lines = contents.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated().map {
            index, line in
            (index + 1, String(decoding: line.last == UInt8(ascii: "\r") ? line.dropLast() : line, as: UTF8.self))
        }
        guard let end = lines.firstIndex(where: { $0.1 == Self.table }) else {
            throw KeyFileProblem(file: path, line: 0, key: Self.table, reason: "is missing")
        }
        file = try KeyFile(contents: lines[..<end].map(\.1).joined(separator: "\n"), path: path)
        self.lines = lines[(end + 1)...].filter { !$0.1.isEmpty && !$0.1.hasPrefix("#") }
    }

    private mutating func report(_ key: String, _ reason: String) { problems.append(file.problem(Self.header, key, reason)) }

    private mutating func report(_ line: Int, _ column: String, _ reason: String) {
        problems.append(KeyFileProblem(file: path, line: line, key: column, reason: reason))
    }

    private mutating func list() throws(KeyFileProblem) -> ClaimList? {
        problems = file.unknown(besides: [Self.header: Set(["Id", "App", "From", "Until", "Count"] + Self.places)])
        let id = try required("Id", "not 1 to 64 letters, digits, “.”, “-” and “_”") { text in
            (1...64).contains(text.utf8.count) && text.utf8.allSatisfy(Self.isPlain) ? text : nil
        }
        let app = try required("App", "not an app's identifier") { AppID($0) }
        let from = try required("From", "not a time (2026-12-01T08:00:00Z)", Self.time)
        let until = try required("Until", "not a time (2026-12-01T08:00:00Z)", Self.time)
        if let from, let until, until <= from { report("Until", "is not after From=") }
        let count = try file.integer(Self.header, "Count")
        if let count, !(1...Limits.entriesPerClaimList).contains(count) {
            report("Count", "\(count): must be 1 to \(Limits.entriesPerClaimList)")
        }
        guard let (identity, rows) = rows(), let place = try place(identity) else { return nil }
        let entries = entries(rows, identity, place)
        guard problems.isEmpty, let id, let app, let from, let until else { return nil }
        return ClaimList(
            id: id, source: path, app: app, window: from..<until, count: count ?? entries.count, place: place, entries: entries)
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    private mutating func required<Value>(
        _ key: String, _ mistake: String, _ read: (String) -> Value?
    ) throws(KeyFileProblem) -> Value? {
        guard let text = try file.string(Self.header, key) else {
            report(key, "is missing")
            return nil
        }
        let value = read(text)
        if value == nil { report(key, "\(text): \(mistake)") }
        return value
    }

    /// A time without its zone would depend on the machine's.
    private static func time(_ text: String) -> Int64? {
        guard let date = g_date_time_new_from_iso8601(text, nil) else { return nil }
        defer { g_date_time_unref(date) }
        return Int64(g_date_time_to_unix(date))
    }

    // MARK: The place of serial numbers

    private mutating func place(_ identity: String) throws(KeyFileProblem) -> ClaimList.Place? {
        let given = Self.places.filter { file.has(Self.header, $0) }
        guard identity != "address" else {
            for key in given { report(key, "needs the column serial or hex") }
            return given.isEmpty ? .address : nil
        }
        guard given.count == 1, let key = given.first, let text = try file.string(Self.header, key) else {
            report(given.last ?? "SerialInName", given.isEmpty ? "is missing" : "cannot be combined with \(given[0])")
            return nil
        }
        guard key != "SerialInName" else {
            let parts = text.split(separator: "*", omittingEmptySubsequences: false).map(String.init)
            guard identity == "serial", parts.count == 2 else {
                report(key, identity == "serial" ? "\(text): must have one * for the serial number" : "needs the column serial")
                return nil
            }
            return .name(prefix: parts[0], suffix: parts[1])
        }
        let words = try file.list(Self.header, key)
        guard words.count == 2, let offset = Int(words[1]), (0...Limits.dataBytes).contains(offset) else {
            report(key, "\(text): must be two parts, such as FFFE;2: whose data, and the offset in bytes")
            return nil
        }
        if key == "SerialInServiceData" {
            if let service = BluetoothUUID(words[0]) {
                return .serviceData(service, offset: offset, isText: identity == "serial")
            }
            report(key, "\(words[0]): not a UUID")
        } else {
            if let company = CompanyIdentifier(hexadecimal: words[0]) {
                return .manufacturerData(company, offset: offset, isText: identity == "serial")
            }
            report(key, "\(words[0]): not four hexadecimal digits")
        }
        return nil
    }

    // MARK: The table

    private typealias Row = (line: Int, cells: [String: String])

    /// The rows by the names of the first line, and the column that identifies an accessory.
    private mutating func rows() -> (identity: String, rows: [Row])? {
        guard let head = lines.first else {
            report(0, Self.table, "is empty")
            return nil
        }
        let separator = [",", ";", "\t"].first { head.text.utf8.contains($0.utf8.first ?? 0) } ?? ","
        let names = Self.cells(head.text, separator).map { $0.lowercased() }
        for name in names where !Self.columns.contains(name) || names.count(where: { $0 == name }) > 1 {
            let reason =
                name == "oob"
                ? "BlueZ takes no out-of-band data for low energy: use passkey" : "unknown column, or one that occurs twice"
            report(head.number, name, reason)
        }
        let identity = names.filter(Self.identities.contains)
        if identity.count != 1 { report(head.number, Self.table, "needs one of the columns address, serial and hex") }
        if Set(names).isSuperset(of: ["passkey", "pin"]) { report(head.number, "pin", "cannot be combined with passkey") }
        if lines.count > Limits.entriesPerClaimList + 1 {
            report(0, Self.table, "more than \(Limits.entriesPerClaimList) entries")
        }
        guard problems.isEmpty, let identity = identity.first else { return nil }
        var rows: [Row] = []
        for line in lines.dropFirst() {
            let cells = Self.cells(line.text, separator)
            // Spreadsheets export the empty rows below a table.
            if cells.allSatisfy(\.isEmpty) { continue }
            if cells.count == names.count {
                rows.append((line.number, Dictionary(zip(names, cells)) { first, _ in first }))
            } else {
                report(line.number, Self.table, "\(cells.count) cells, but \(names.count) columns")
            }
        }
        return (identity, rows)
    }

    /// A row of RFC 4180, without line breaks in cells.
    private static func cells(_ line: String, _ separator: String) -> [String] {
        var cells: [String] = [""]
        var isQuoted = false
        var rest = line.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            if scalar == "\"", isQuoted, rest.first == "\"" {
                cells[cells.count - 1].unicodeScalars.append("\"")
                rest = rest.dropFirst()
            } else if scalar == "\"" {
                isQuoted.toggle()
            } else if !isQuoted, String(scalar) == separator {
                cells.append("")
            } else {
                cells[cells.count - 1].unicodeScalars.append(scalar)
            }
        }
        return cells.map { cell in
            var text = cell[...]
            while text.last == " " { text.removeLast() }
            return String(text.drop { $0 == " " })
        }
    }

    private mutating func entries(_ rows: [Row], _ identity: String, _ place: ClaimList.Place) -> [ClaimList.Entry] {
        var seen: [String: Int] = [:]
        let isName = if case .name = place { true } else { false }
        var length: Int?
        let entries = rows.compactMap { row -> ClaimList.Entry? in
            guard let key = key(row, identity) else { return nil }
            if let earlier = seen.updateValue(row.line, forKey: key) {
                report(row.line, identity, "\(key): is in line \(earlier) already")
            }
            // Else one serial number could be the beginning of another.
            if !isName, identity != "address", key.utf8.count != length ?? key.utf8.count {
                report(row.line, identity, "\(key): another length than those before")
            }
            length = length ?? key.utf8.count
            let name = row.cells["name", default: ""]
            if !name.isEmpty, let problem = ShownName.problem(with: name) { report(row.line, "name", problem) }
            return ClaimList.Entry(key: key, answer: answer(row), name: name.isEmpty ? nil : name)
        }
        if rows.isEmpty { report(0, Self.table, "is empty") }
        return entries
    }

    private mutating func key(_ row: Row, _ identity: String) -> String? {
        let text = row.cells[identity, default: ""]
        let key: String? =
            switch identity {
            case "address": BluetoothAddress(text, kind: .public)?.description
            case "hex": Hex.bytes(text).map { Hex.text($0) }
            default: text
            }
        if let key, (1...Limits.nameBytes).contains(key.utf8.count), !key.utf8.contains(0) { return key }
        let mistake =
            switch identity {
            case "address": "not an address (C0:FF:EE:00:00:01)"
            case "hex": "not hexadecimal digits"
            default: "not a serial number"
            }
        report(row.line, identity, "\(text): \(mistake)")
        return nil
    }

    private mutating func answer(_ row: Row) -> PromptAnswer? {
        if let text = row.cells["passkey"], !text.isEmpty {
            if let passkey = UInt32(text), Limits.passkey.contains(passkey) { return .passkey(passkey) }
            report(row.line, "passkey", "not 0 to 999999")
        }
        if let text = row.cells["pin"], !text.isEmpty {
            if Limits.pinBytes.contains(text.utf8.count), !text.utf8.contains(0) { return .pin(text) }
            report(row.line, "pin", "not 1 to 16 bytes")
        }
        return nil
    }
}

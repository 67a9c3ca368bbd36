// SPDX-License-Identifier: Apache-2.0
// The JSON in some columns, read and written by SQLite's own functions (sqlite.org/json1.html): readable with any
// SQLite shell, and open for keys to come.

/// A JSON value as the store's columns hold them.
indirect enum JSONValue: Hashable {
    case null
    case boolean(Bool)
    case integer(Int64)
    case real(Double)
    case text(String)
    case array([JSONValue])
    case object([String: JSONValue])
}

/// An object of a column while it is read. Keys that nobody asks for are left alone: a newer daemon wrote them.
struct JSONColumn {
    private let values: [String: JSONValue]
    /// In bytes: several times what there is to say of one accessory.
    private static let longest = 256 << 10

    private init(_ value: JSONValue, _ what: String) throws(Rows.Nonsense) {
        guard case .object(let values) = value else { throw Rows.Nonsense("\(what): not an object") }
        self.values = values
    }

    /// - Throws: `Nonsense` for what is no JSON object.
    init(_ text: String, _ what: String, in database: Database) throws(Rows.Nonsense) {
        guard text.utf8.count <= Self.longest else { throw Rows.Nonsense("\(what): longer than \(Self.longest) bytes") }
        let rows: [SQLRow]
        do {
            // Each value comes after the one that it is in.
            rows = try database.rows("SELECT id, parent, key, type, atom FROM json_tree(?1)", .text(text))
        } catch {
            throw Rows.Nonsense("\(what): \(error.message)")
        }
        try self.init(Self.tree(rows), what)
    }

    private static func tree(_ rows: [SQLRow]) -> JSONValue {
        var children: [Int64: [(key: SQLValue, id: Int64, value: JSONValue)]] = [:]
        // From the last to the first: what is inside is there before what it is in.
        for row in rows.reversed() {
            guard case .integer(let id) = row.values[0], case .text(let type) = row.values[3] else { continue }
            let inside = (children.removeValue(forKey: id) ?? []).reversed()
            let value: JSONValue =
                switch (type, row.values[4]) {
                case ("object", _):
                    .object(
                        Dictionary(
                            inside.compactMap { child in
                                if case .text(let key) = child.key { (key, child.value) } else { nil }
                            }, uniquingKeysWith: { first, _ in first }))
                case ("array", _): .array(inside.map(\.value))
                case ("true", _): .boolean(true)
                case ("false", _): .boolean(false)
                case (_, .integer(let number)): .integer(number)
                case (_, .real(let number)): .real(number)
                case (_, .text(let text)): .text(text)
                default: .null
                }
            guard case .integer(let parent) = row.values[1] else { return value }
            children[parent, default: []].append((row.values[2], id, value))
        }
        return .null
    }

    private func value<Value>(_ key: String, _ what: String, _ read: (JSONValue) -> Value?) throws(Rows.Nonsense) -> Value? {
        guard let value = values[key], value != .null else { return nil }
        guard let result = read(value) else { throw Rows.Nonsense("\(key): not \(what)") }
        return result
    }

    func text(_ key: String) throws(Rows.Nonsense) -> String? {
        try value(key, "a text", Self.text)
    }

    /// A text that must be there.
    func needed(_ key: String) throws(Rows.Nonsense) -> String {
        guard let text = try text(key) else { throw Rows.Nonsense("\(key): is missing") }
        return text
    }

    func texts(_ key: String) throws(Rows.Nonsense) -> [String]? {
        try list(key, "a list of texts", Self.text)
    }

    func number<Number: FixedWidthInteger & SendableMetatype>(_ key: String, _ type: Number.Type) throws(Rows.Nonsense) -> Number? {
        try value(key, "a number of its range") { Self.number($0) }
    }

    func numbers<Number: FixedWidthInteger & SendableMetatype>(_ key: String, _ type: Number.Type) throws(Rows.Nonsense)
        -> [Number]?
    {
        try list(key, "a list of numbers of their range") { Self.number($0) }
    }

    func object(_ key: String) throws(Rows.Nonsense) -> JSONColumn? {
        guard let value = values[key], value != .null else { return nil }
        return try JSONColumn(value, key)
    }

    private static func text(_ value: JSONValue) -> String? {
        if case .text(let text) = value, Rows.isText(text) { text } else { nil }
    }

    private static func number<Number: FixedWidthInteger>(_ value: JSONValue) -> Number? {
        if case .integer(let number) = value { Number(exactly: number) } else { nil }
    }

    private func list<Element>(
        _ key: String, _ what: String, _ read: (JSONValue) -> Element?
    ) throws(Rows.Nonsense) -> [Element]? {
        try value(key, what) { value in
            guard case .array(let elements) = value else { return nil }
            let list = elements.compactMap(read)
            return list.count == elements.count ? list : nil
        }
    }
}

extension JSONValue {
    init(_ text: String?) { self = text.map { .text($0) } ?? .null }
    init(_ number: (some FixedWidthInteger)?) { self = number.map { .integer(Int64($0)) } ?? .null }
    init(_ texts: [String]?) { self = texts.map { .array($0.map { .text($0) }) } ?? .null }
    init(_ numbers: [some FixedWidthInteger]?) { self = numbers.map { .array($0.map { .integer(Int64($0)) }) } ?? .null }

    /// As it stands in a column; keys without a value are left out.
    ///
    /// - Throws: what SQLite says, which quotes the texts.
    func written(by database: Database) throws(DatabaseError) -> String {
        switch self {
        case .null: return "null"
        case .boolean(let truth): return truth ? "true" : "false"
        case .integer(let number): return "\(number)"
        case .real(let number): return "\(number)"
        case .text(let text):
            guard case .text(let quoted) = try database.value("SELECT json_quote(?1)", .text(text)) else { return "null" }
            return quoted
        case .array(let elements):
            var parts: [String] = []
            for element in elements { parts.append(try element.written(by: database)) }
            return "[\(parts.joined(separator: ","))]"
        case .object(let values):
            var parts: [String] = []
            for (key, value) in values.sorted(by: { $0.key < $1.key }) where value != .null {
                parts.append("\(try JSONValue.text(key).written(by: database)):\(try value.written(by: database))")
            }
            return "{\(parts.joined(separator: ","))}"
        }
    }
}

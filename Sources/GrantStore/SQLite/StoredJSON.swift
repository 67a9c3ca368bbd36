// SPDX-License-Identifier: Apache-2.0
// The JSON in some columns: written here, and read by SQLite's own functions (sqlite.org/json1.html), without
// Foundation (Docs/Decisions/0017-without-foundation.md).

/// A JSON value to be stored.
struct StoredJSON {
    /// Nil for null.
    let text: String?

    init(_ text: String?) { self.text = text.map(Self.quoted) }
    init(_ number: (some FixedWidthInteger)?) { text = number.map { "\($0)" } }
    init(_ texts: [String]?) { text = texts.map { Self.list($0.map(Self.quoted)) } }
    init(_ numbers: [some FixedWidthInteger]?) { text = numbers.map { Self.list($0.map { "\($0)" }) } }

    /// - Parameter members: those of null are left out.
    init(_ members: KeyValuePairs<String, StoredJSON>) {
        let present = members.compactMap { key, value in value.text.map { "\(Self.quoted(key)):\($0)" } }
        text = "{\(present.joined(separator: ","))}"
    }

    private static func list(_ elements: [String]) -> String { "[\(elements.joined(separator: ","))]" }

    private static func quoted(_ text: String) -> String {
        let scalars = text.unicodeScalars.map { scalar in
            switch scalar {
            case "\"", "\\": "\\\(scalar)"
            case ..<" ": (scalar.value < 16 ? "\\u000" : "\\u00") + String(scalar.value, radix: 16)
            default: String(scalar)
            }
        }
        return "\"\(scalars.joined())\""
    }
}

extension Database {
    /// In bytes, of a JSON text: several times the longest descriptor.
    private static let maxJSONLength = 256 << 10
    /// Arrays and objects as blobs, so that they cannot pass for texts.
    private static let children =
        "SELECT key, CASE WHEN type IN ('array', 'object') THEN CAST(value AS BLOB) ELSE value END FROM json_each(?1)"

    /// The members of an object; nil for any other value.
    func members(of json: SQLValue) throws -> SQLRow? {
        let children = try children(of: json)
        let keys = children.compactMap { if case .text(let key) = $0.values[0] { key } else { nil } }
        return keys.count == children.count ? SQLRow(columns: keys, values: children.map { $0.values[1] }) : nil
    }

    /// The elements of an array; nil for any other value.
    func elements(of json: SQLValue) throws -> [SQLValue]? {
        let children = try children(of: json)
        let isArray = children.allSatisfy { if case .integer = $0.values[0] { true } else { false } }
        return isArray ? children.map { $0.values[1] } : nil
    }

    private func children(of json: SQLValue) throws -> [SQLRow] {
        let text: String
        switch json {
        case .text(let json): text = json
        case .blob(let json): text = String(decoding: json, as: UTF8.self)
        default: throw InvalidRow("not JSON")
        }
        guard text.utf8.count <= Self.maxJSONLength else { throw InvalidRow("JSON longer than \(Self.maxJSONLength) bytes") }
        do throws(DatabaseError) {
            return try rows(Self.children, .text(text))
        } catch {
            throw InvalidRow(error.message)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// JSON as a value, and its text. Without Foundation, so that the daemon can use it, too. Scenarios are parsed in
// RadioSimulator; the store's columns by SQLite.

/// A JSON value (RFC 8259).
public indirect enum JSON: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case boolean(Bool)
    /// A number without a fraction that fits 64 bits.
    case integer(Int)
    /// Any other number; must be finite.
    case number(Double)
    /// A text.
    case text(String)
    /// A list.
    case array([JSON])
    /// An object; its keys have no order.
    case object([String: JSON])

    /// For people and programs: a line for each value, keys in order.
    public var written: String { written(indentation: "") }
    /// For programs that read line by line: all in one line, keys in order.
    public var writtenInOneLine: String { written(indentation: nil) }

    private func written(indentation: String?) -> String {
        let inner = indentation.map { $0 + "  " }
        func list(_ open: String, _ elements: [String], _ close: String) -> String {
            guard let indentation, let inner, !elements.isEmpty else { return open + elements.joined(separator: ",") + close }
            return "\(open)\n\(inner)" + elements.joined(separator: ",\n\(inner)") + "\n\(indentation)\(close)"
        }
        switch self {
        case .null: return "null"
        case .boolean(let truth): return "\(truth)"
        case .integer(let number): return "\(number)"
        case .number(let number): return number.isFinite ? "\(number)" : "null"
        case .text(let text): return Self.quoted(text)
        case .array(let elements): return list("[", elements.map { $0.written(indentation: inner) }, "]")
        case .object(let values):
            let colon = indentation == nil ? ":" : ": "
            let members = values.sorted { $0.key < $1.key }
            return list("{", members.map { Self.quoted($0.key) + colon + $0.value.written(indentation: inner) }, "}")
        }
    }

    private static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": result += "\\\(scalar)"
            case "\n": result += "\\n"
            case "\u{0}"..<" ", "\u{7F}":
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}

extension JSON {
    /// A text.
    public init(_ text: String) { self = .text(text) }
    /// A number.
    public init(_ number: Int) { self = .integer(number) }
    /// `true` or `false`.
    public init(_ truth: Bool) { self = .boolean(truth) }
    /// A list of texts.
    public init(_ texts: [String]) { self = .array(texts.map { .text($0) }) }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral {
    /// A text.
    public init(stringLiteral text: String) { self = .text(text) }
    /// A list.
    public init(arrayLiteral elements: JSON...) { self = .array(elements) }
    /// An object; a key that comes again replaces the earlier one.
    public init(dictionaryLiteral elements: (String, JSON)...) { self = .object(Dictionary(elements) { _, last in last }) }
}

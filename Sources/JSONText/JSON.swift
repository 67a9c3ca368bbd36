// SPDX-License-Identifier: Apache-2.0
// JSON for the tools: reads scenarios, writes lists for programs. FoundationEssentials has the parser; the tools have
// it with swift-argument-parser already.

internal import FoundationEssentials

/// A JSON value (RFC 8259).
public indirect enum JSON: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case boolean(Bool)
    /// A number without a fraction that fits 64 bits.
    case integer(Int)
    /// Any other number.
    case number(Double)
    /// A text.
    case text(String)
    /// A list.
    case array([JSON])
    /// An object; its keys have no order.
    case object([String: JSON])

    /// A text that is not JSON.
    public struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
        /// The parser's message, with the line where it has one.
        public let description: String
    }

    /// - Parameter text: UTF-8.
    /// - Throws: for a text that is not JSON.
    public init(parsing text: [UInt8]) throws(Problem) {
        do {
            self = try JSONDecoder().decode(JSON.self, from: Data(text))
        } catch DecodingError.dataCorrupted(let context) {
            throw Problem(description: context.underlyingError.map { "\($0)" } ?? context.debugDescription)
        } catch {
            throw Problem(description: "\(error)")
        }
    }

    /// For people and programs: a line for each value, keys in order.
    public var written: String { written([.prettyPrinted]) }
    /// For programs that read line by line: all in one line, keys in order.
    public var writtenInOneLine: String { written([]) }

    private func written(_ formatting: JSONEncoder.OutputFormatting) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = formatting.union([.sortedKeys, .withoutEscapingSlashes])
        // Only numbers that are not finite cannot be encoded, and none is made here.
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "null"
    }
}

extension JSON: Codable {
    /// - Throws: for a value that JSON does not have.
    public init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if value.decodeNil() {
            self = .null
        } else if let truth = try? value.decode(Bool.self) {
            self = .boolean(truth)
        } else if let number = try? value.decode(Int.self) {
            self = .integer(number)
        } else if let number = try? value.decode(Double.self) {
            self = .number(number)
        } else if let text = try? value.decode(String.self) {
            self = .text(text)
        } else if let list = try? value.decode([JSON].self) {
            self = .array(list)
        } else {
            self = .object(try value.decode([String: JSON].self))
        }
    }

    /// - Throws: for numbers that are not finite.
    public func encode(to encoder: any Encoder) throws {
        var value = encoder.singleValueContainer()
        switch self {
        case .null: try value.encodeNil()
        case .boolean(let truth): try value.encode(truth)
        case .integer(let number): try value.encode(number)
        case .number(let number): try value.encode(number)
        case .text(let text): try value.encode(text)
        case .array(let list): try value.encode(list)
        case .object(let values): try value.encode(values)
        }
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

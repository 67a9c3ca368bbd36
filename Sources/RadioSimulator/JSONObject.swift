// SPDX-License-Identifier: Apache-2.0
// JSON for the scenario reader: every access is typed, and every problem names its place.

internal import AccessoryModel
internal import FoundationEssentials
internal import JSONText

/// A JSON object while it is read: a key that is not read is an error; keys that start with `#` are comments.
final class JSONObject {
    private let values: [String: JSON]
    private let place: String
    private var asked: Set<String> = []

    private init(_ values: [String: JSON], _ place: String) {
        self.values = values
        self.place = place
    }

    @discardableResult
    static func read<Value>(_ value: JSON, _ place: String, _ body: (JSONObject) throws -> Value) throws -> Value {
        guard case .object(let values) = value else { throw ScenarioProblem(place: place, reason: "must be an object") }
        let object = JSONObject(values, place)
        let result = try body(object)
        if let key = values.keys.sorted().first(where: { !$0.hasPrefix("#") && !object.asked.contains($0) }) {
            throw object.problem(key, "unknown key")
        }
        return result
    }

    func has(_ key: String) -> Bool { values[key] != nil }

    func checkID(_ id: String) throws {
        guard !id.isEmpty, id.utf8.allSatisfy({ $0 == 0x2D || (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) }) else {
            throw problem("id", "\(id): only a–z, 0–9 and - are allowed")
        }
    }

    func problem(_ key: String, _ reason: String) -> ScenarioProblem {
        ScenarioProblem(place: place.isEmpty ? key : "\(place).\(key)", reason: reason)
    }

    private func value<Value>(_ key: String, _ kind: String, _ read: (JSON) -> Value?) throws -> Value? {
        asked.insert(key)
        guard let value = values[key], value != .null else { return nil }
        guard let result = read(value) else { throw problem(key, "must be \(kind)") }
        return result
    }

    func isNull(_ key: String) -> Bool {
        asked.insert(key)
        return values[key] == .null
    }

    func string(_ key: String) throws -> String? { try value(key, "text") { $0.text } }
    func boolean(_ key: String) throws -> Bool? {
        try value(key, "true or false") { if case .boolean(let truth) = $0 { truth } else { nil } }
    }
    func strings(_ key: String) throws -> [String]? {
        try value(key, "a list of strings") { value in
            guard case .array(let list) = value else { return nil }
            let texts = list.compactMap(\.text)
            return texts.count == list.count ? texts : nil
        }
    }
    func texts(_ key: String) throws -> [String: String]? {
        try value(key, "an object of strings") { value in
            guard case .object(let values) = value else { return nil }
            let texts = values.compactMapValues(\.text)
            return texts.count == values.count ? texts : nil
        }
    }

    func number(_ key: String, _ range: ClosedRange<Double>) throws -> Double? {
        guard let number = try value(key, "a number", \.double) else { return nil }
        guard range.contains(number) else { throw problem(key, "\(number): must be \(range.lowerBound) to \(range.upperBound)") }
        return number
    }

    func word<Word: RawRepresentable & CaseIterable>(_ key: String, _ type: Word.Type) throws -> Word?
    where Word.RawValue == String {
        guard let text = try string(key) else { return nil }
        guard let word = Word(rawValue: text) else {
            throw problem(key, "\(text): must be one of \(Word.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return word
    }

    func object<Value>(_ key: String, _ body: (JSONObject) throws -> Value) throws -> Value? {
        let value: JSON? = try value(key, "an object") { $0 }
        guard let value else { return nil }
        return try Self.read(value, place.isEmpty ? key : "\(place).\(key)", body)
    }

    func objects<Value>(_ key: String, _ body: (JSONObject) throws -> Value) throws -> [Value]? {
        guard let list = try value(key, "a list", \.list) else { return nil }
        return try list.enumerated().map { index, value in
            try Self.read(value, (place.isEmpty ? key : "\(place).\(key)") + "[\(index)]", body)
        }
    }

    func address(_ key: String, _ text: String, _ kind: BluetoothAddress.Kind) throws -> BluetoothAddress {
        guard let address = BluetoothAddress(text, kind: kind) else { throw problem(key, "\(text): not an address") }
        return address
    }

    func uuid(_ key: String, _ text: String) throws -> BluetoothUUID {
        guard let uuid = BluetoothUUID(text) else { throw problem(key, "\(text): not a UUID") }
        return uuid
    }

    func hex(_ key: String, _ text: String) throws -> [UInt8] {
        guard let bytes = Hex.bytes(text) else { throw problem(key, "\(text): not hexadecimal bytes") }
        return bytes
    }
}

extension JSON {
    fileprivate var text: String? { if case .text(let text) = self { text } else { nil } }
    fileprivate var list: [JSON]? { if case .array(let list) = self { list } else { nil } }
    fileprivate var double: Double? {
        switch self {
        case .integer(let number): Double(number)
        case .number(let number): number
        default: nil
        }
    }
}

extension JSON: Decodable {
    /// - Throws: `ScenarioProblem` for a text that is not JSON.
    init(parsing text: [UInt8]) throws(ScenarioProblem) {
        do {
            self = try JSONDecoder().decode(JSON.self, from: Data(text))
        } catch DecodingError.dataCorrupted(let context) {
            let problem = context.underlyingError.map { "\($0)" } ?? context.debugDescription
            throw ScenarioProblem(place: "", reason: "not JSON: \(problem)")
        } catch {
            throw ScenarioProblem(place: "", reason: "not JSON: \(error)")
        }
    }

    init(from decoder: any Decoder) throws {
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
}

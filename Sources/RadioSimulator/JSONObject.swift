// SPDX-License-Identifier: Apache-2.0
// JSON as the scenario reader wants it: every question is typed, every answer that cannot be given names its place.

internal import AccessoryModel
internal import Foundation

/// A JSON object while it is read: every key that nobody asks for is an error; keys that start with `#` are comments.
final class JSONObject {
    private let values: [String: Any]
    private let place: String
    private var asked: Set<String> = []

    private init(_ values: [String: Any], _ place: String) {
        self.values = values
        self.place = place
    }

    @discardableResult
    static func read<Value>(_ value: Any, _ place: String, _ body: (JSONObject) throws -> Value) throws -> Value {
        guard let values = value as? [String: Any] else { throw ScenarioProblem(place: place, reason: "must be an object") }
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

    private func value<Value>(_ key: String, _ what: String, _ type: Value.Type) throws -> Value? {
        asked.insert(key)
        guard let value = values[key], !(value is NSNull) else { return nil }
        guard let typed = value as? Value else { throw problem(key, "must be \(what)") }
        return typed
    }

    func isNull(_ key: String) -> Bool {
        asked.insert(key)
        return values[key] is NSNull
    }

    func string(_ key: String) throws -> String? { try value(key, "text", String.self) }
    func boolean(_ key: String) throws -> Bool? { try value(key, "true or false", Bool.self) }
    func strings(_ key: String) throws -> [String]? { try value(key, "a list of texts", [String].self) }
    func texts(_ key: String) throws -> [String: String]? { try value(key, "an object of texts", [String: String].self) }

    func number(_ key: String, _ range: ClosedRange<Double>) throws -> Double? {
        guard let number = try value(key, "a number", Double.self) else { return nil }
        guard range.contains(number) else { throw problem(key, "\(number): must be \(range.lowerBound) to \(range.upperBound)") }
        return number
    }

    func word<Word: RawRepresentable & CaseIterable>(_ key: String, _ type: Word.Type) throws -> Word?
    where Word.RawValue == String {
        guard let text = try string(key) else { return nil }
        guard let word = Word(rawValue: text) else {
            throw problem(key, "\(text): is none of \(Word.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return word
    }

    func object<Value>(_ key: String, _ body: (JSONObject) throws -> Value) throws -> Value? {
        guard let value = try value(key, "an object", Any.self) else { return nil }
        return try Self.read(value, place.isEmpty ? key : "\(place).\(key)", body)
    }

    func objects<Value>(_ key: String, _ body: (JSONObject) throws -> Value) throws -> [Value]? {
        guard let list = try value(key, "a list", [Any].self) else { return nil }
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

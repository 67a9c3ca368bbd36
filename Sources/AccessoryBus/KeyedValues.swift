// SPDX-License-Identifier: Apache-2.0
// One dictionary of the session API while it is read: keys are taken out, with the right type and within the limits,
// and keys that remain at the end are unknown.

internal import AccessoryModel
internal import DBusKit

/// One dictionary while it is read: keys are taken out, and the remaining ones are unknown.
struct KeyedValues {
    private var rest: [String: DBusValue]
    private let context: String

    /// - Parameter context: where the dictionary stands, for messages: `items[0].descriptor`.
    init(_ value: DBusValue, _ context: String) throws(BusError) {
        guard value.signature == "a{sv}" || value.entries?.isEmpty == true, let values = value.vardictValue else {
            throw .invalid(context, "type \(value.signature)", "must be a dictionary (a{sv})")
        }
        guard values.count <= Limits.dictionaryEntries else {
            throw .invalid(context, "\(values.count) entries", "more than \(Limits.dictionaryEntries)")
        }
        rest = values
        self.context = context
    }

    func name(_ key: String) -> String { context.isEmpty ? key : "\(context).\(key)" }

    mutating func take(_ key: String) -> DBusValue? { rest.removeValue(forKey: key) }

    mutating func string(_ key: String) throws(BusError) -> String? {
        guard let value = take(key) else { return nil }
        guard let text = value.stringValue else { throw wrongType(key, value, "s") }
        // By its length alone: a text that is too long is neither examined nor quoted.
        guard text.utf8.count <= Limits.textBytes else {
            let beginning = String(decoding: text.utf8.prefix(40), as: UTF8.self)
            throw .invalid(name(key), "\(beginning)…", "\(text.utf8.count) bytes, more than \(Limits.textBytes)")
        }
        return text
    }

    mutating func bytes(_ key: String) throws(BusError) -> [UInt8]? {
        guard let value = take(key) else { return nil }
        guard let bytes = value.bytesValue else { throw wrongType(key, value, "ay") }
        guard bytes.count <= Limits.dataBytes else {
            throw .invalid(name(key), "\(bytes.count) bytes", "longer than \(Limits.dataBytes) bytes")
        }
        return bytes
    }

    /// Seconds within a range, or infinity, as `d` or any integer.
    mutating func takeSeconds(_ key: String, within range: ClosedRange<Double>) throws(BusError) -> Double? {
        guard let value = take(key) else { return nil }
        guard let seconds = value.doubleValue ?? value.integerValue.map(Double.init) else { throw wrongType(key, value, "d") }
        guard seconds == .infinity || range.contains(seconds) else {
            throw .invalid(name(key), seconds, "must be \(range.lowerBound) to \(range.upperBound) seconds, or infinity")
        }
        return seconds
    }

    /// A number without a sign. Many languages have one type of integer only: any that holds the number is taken.
    mutating func number<Number: FixedWidthInteger & UnsignedInteger>(
        _ key: String, _ type: Number.Type, _ code: Character
    ) throws(BusError) -> Number? {
        guard let value = take(key) else { return nil }
        if case .uint64(let number) = value, let exact = Number(exactly: number) { return exact }
        guard let number = value.integerValue else {
            if case .uint64(let number) = value { throw .invalid(name(key), number, "must be 0 to \(Number.max)") }
            throw wrongType(key, value, "\(code), or another integer")
        }
        guard let exact = Number(exactly: number) else { throw .invalid(name(key), number, "must be 0 to \(Number.max)") }
        return exact
    }

    /// Bytes, or text as its UTF-8 bytes.
    mutating func bytesOrText(_ key: String) throws(BusError) -> [UInt8]? {
        guard let value = take(key) else { return nil }
        guard let bytes = value.stringValue.map({ Array($0.utf8) }) ?? value.bytesValue else {
            throw wrongType(key, value, "ay or s")
        }
        guard bytes.count <= Limits.textBytes else {
            throw .invalid(name(key), "\(bytes.count) bytes", "longer than \(Limits.textBytes) bytes")
        }
        return bytes
    }

    /// A set of options by name.
    mutating func options<Options: OptionSet>(_ key: String, _ names: [(String, Options)]) throws(BusError) -> Options {
        guard let value = take(key) else { return [] }
        guard let words = value.stringsValue else { throw wrongType(key, value, "as") }
        var options = Options()
        for word in words {
            guard let option = names.first(where: { $0.0 == word }) else {
                throw .invalid(name(key), word, "must be one of \(names.map(\.0).joined(separator: ", "))")
            }
            options.formUnion(option.1)
        }
        return options
    }

    /// One word of an enumeration.
    mutating func word<Word: RawRepresentable>(_ key: String, _ words: [Word]) throws(BusError) -> Word?
    where Word.RawValue == String {
        guard let text = try string(key) else { return nil }
        guard let word = words.first(where: { $0.rawValue == text }) else {
            throw .invalid(name(key), text, "must be one of \(words.map(\.rawValue).joined(separator: ", "))")
        }
        return word
    }

    func wrongType(_ key: String, _ value: DBusValue, _ wanted: String) -> BusError {
        .invalid(name(key), "type \(value.signature)", "must be of type \(wanted)")
    }

    /// A key that was not taken is not part of the API.
    func finish() throws(BusError) {
        guard let key = rest.keys.min() else { return }
        throw .invalid(name(key), rest[key].map { "type \($0.signature)" } ?? "", "unknown key")
    }
}

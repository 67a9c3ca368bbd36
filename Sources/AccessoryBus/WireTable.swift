// SPDX-License-Identifier: Apache-2.0
// The face of the daemon as tables: one row for each property of an interface, and for each key of a dictionary, with
// its type, its readers and its field in a Swift value. The daemon encodes by these rows and compares by them, clients
// decode by them, and the page for Cockpit is made from them. Requests go the other way by the same rows: clients
// encode, the daemon decodes and refuses. `FaceTests` holds the rows against the XML.

internal import AccessoryModel
public import DBusKit

/// A type of D-Bus and the Swift value that stands for it.
public struct WireType<Value: Equatable & Sendable>: Sendable {
    let signature: Signature
    let shape: WireShape
    /// nil: the value is left out of its dictionary.
    let encode: @Sendable (Value) -> DBusValue?
    /// nil: the value is of another type.
    let decode: @Sendable (DBusValue) -> Value?
    /// The types that a request may use, for its error.
    let wanted: String
    /// The problem of a value that no request may have, of the right type or not; nil without one.
    let refuse: @Sendable (DBusValue) -> WireProblem?

    init(
        _ signature: Signature, _ shape: WireShape, _ encode: @escaping @Sendable (Value) -> DBusValue?,
        _ decode: @escaping @Sendable (DBusValue) -> Value?, wanted: String? = nil,
        refuse: @escaping @Sendable (DBusValue) -> WireProblem? = { _ in nil }
    ) {
        self.signature = signature
        self.shape = shape
        self.encode = encode
        self.decode = decode
        self.wanted = wanted ?? "\(signature)"
        self.refuse = refuse
    }

    /// A value of a request.
    func read(_ value: DBusValue) throws(WireProblem) -> Value {
        if let problem = refuse(value) { throw problem }
        guard let result = decode(value) else {
            throw WireProblem("type \(value.signature)", "must be of type \(wanted)")
        }
        return result
    }
}

/// The reason why a request is refused.
public struct WireProblem: Error {
    /// From the dictionary to the value, `descriptor.ssid`; empty for the dictionary itself.
    let path: String
    /// Nil where the problem is that several keys do not go together.
    let value: String?
    let reason: String

    init(_ value: (some CustomStringConvertible)?, _ reason: String, at path: String = "") {
        self.path = path
        self.value = value?.description
        self.reason = reason
    }

    init(noneOf words: [String], _ word: String) { self.init(word, "must be one of \(words.joined(separator: ", "))") }

    func within(_ key: String) -> Self { Self(value, reason, at: path.isEmpty ? key : "\(key).\(path)") }
}

/// The form of a value for a reader without types, such as the page for Cockpit.
public enum WireShape: Hashable, Sendable {
    case text, truth, number, texts, bytes, dictionary, textsByName
    /// Seconds since 1970.
    case seconds
    /// A dictionary of the rows of this name, or a list of such dictionaries.
    case record(String)
    case records(String)
}

/// The callers for which a member exists, among those that see its object.
public enum WireReader: Hashable, Sendable {
    case whoeverSeesIt, admins, pickerPrograms
    /// Admins, and the persons who manage the object.
    case persons
}

/// When `PropertiesChanged` carries a property (`EmitsChangedSignal` of the XML).
public enum WireSignal: String, Hashable, Sendable {
    case whenChanged = "true"
    case never = "false"
    case constant = "const"
}

/// A row without its Swift field, for walks over all tables.
public struct WireRow: Equatable, Sendable {
    /// The property's name, or the dictionary's key.
    public let name: String
    /// Its type on the bus.
    public let signature: Signature
    /// Its form for a reader without types.
    public let shape: WireShape
    /// The callers for which it exists.
    public let reader: WireReader
    /// When it is signalled.
    public let signal: WireSignal
    /// The value that counts where the sender leaves it out; nil for a key that may be missing.
    public let standIn: DBusValue?

    /// Whether a dictionary may be without it.
    public var isOptional: Bool { standIn == nil }
}

/// A value with a table of its fields.
public protocol WireRecord: Equatable, Sendable {
    /// Every field has the value that counts where the sender leaves it out.
    init()
    /// The name of an interface, without the daemon's prefix, or of a kind of dictionary.
    static var recordName: String { get }
    /// The rows, a static constant.
    static var table: WireTable<Self> { get }
}

/// All rows of a value.
public struct WireTable<Record: WireRecord>: Sendable {
    /// A row with its field.
    public struct Field: Sendable {
        let row: WireRow
        let encode: @Sendable (Record) -> DBusValue?
        let decode: @Sendable (inout Record, DBusValue) -> Void
        let read: @Sendable (inout Record, DBusValue) throws(WireProblem) -> Void
        let differs: @Sendable (Record, Record) -> Bool

        /// - Parameters:
        ///   - name: the property's name, or the dictionary's key.
        ///   - path: the field of the Swift value.
        // Inlined into each row of each table, it would be a fifth of a megabyte in every program.
        @inline(never)
        public init<Value>(
            _ name: String, _ path: any WritableKeyPath<Record, Value> & Sendable, _ type: WireType<Value>,
            for reader: WireReader = .whoeverSeesIt, _ signal: WireSignal = .whenChanged
        ) {
            row = WireRow(
                name: name, signature: type.signature, shape: type.shape, reader: reader, signal: signal,
                standIn: type.encode(Record()[keyPath: path]))
            let value = Self.reader(of: path)
            encode = { type.encode(value($0)) }
            decode = { if let value = type.decode($1) { $0[keyPath: path] = value } }
            read = { record, value throws(WireProblem) in record[keyPath: path] = try type.read(value) }
            differs = { value($0) != value($1) }
        }

        /// Reads a stored property in place: through its key path it takes ten times as long, and a picker's offers are
        /// encoded twice a second.
        private static func reader<Value>(of path: any WritableKeyPath<Record, Value> & Sendable) -> @Sendable (Record) -> Value {
            guard let offset = MemoryLayout<Record>.offset(of: path) else { return { $0[keyPath: path] } }
            // Within the record, and of the property's type: both are the key path's.
            return { record in
                withUnsafePointer(to: record) {
                    (UnsafeRawPointer($0) + offset).assumingMemoryBound(to: Value.self).pointee
                }
            }
        }

        /// A key that may be missing, with a field that is nil then.
        @inline(never)
        public init<Value>(_ name: String, _ path: any WritableKeyPath<Record, Value?> & Sendable, _ type: WireType<Value>) {
            self.init(
                name, path,
                WireType<Value?>(
                    type.signature, type.shape, { $0.flatMap(type.encode) }, { type.decode($0).map(Optional.some) },
                    wanted: type.wanted, refuse: type.refuse))
        }
    }

    /// In the order of their names, as the bus carries them.
    let fields: [Field]
    /// The keys and encoders of the rows for all readers.
    fileprivate let open: [(key: DBusValue, encode: @Sendable (Record) -> DBusValue?)]

    /// - Parameter fields: in any order, each name once.
    public init(_ fields: [Field]) {
        self.fields = fields.sorted { $0.row.name < $1.row.name }
        open = self.fields.filter { $0.row.reader == .whoeverSeesIt }.map { (.string($0.row.name), $0.encode) }
    }

    /// The rows in the order of their names.
    public var rows: [WireRow] { fields.map(\.row) }

    /// The names of the signalled rows in which two values differ.
    public func changes(from old: Record, to new: Record) -> [String] {
        fields.compactMap { $0.row.signal == .whenChanged && $0.differs(old, new) ? $0.row.name : nil }
    }

    /// One property of a value; nil for a name without a row.
    public func encode(_ name: String, of record: Record) -> DBusValue? {
        fields.first { $0.row.name == name }?.encode(record)
    }
}

extension WireRecord {
    /// The value as a dictionary `a{sv}`, without the rows that only some callers may read.
    public var wire: DBusValue {
        .dictionary(
            key: "s", value: "v", Self.table.open.compactMap { key, encode in encode(self).map { .init(key, .variant($0)) } })
    }

    /// A value from its dictionary. A key that is missing, or of another type, leaves its field as `init()` has it;
    /// keys of a newer sender do not count.
    public init(wire values: [String: DBusValue]) {
        self.init()
        update(wire: values)
    }

    /// Takes over the keys that a signal carries.
    public mutating func update(wire values: [String: DBusValue]) {
        for field in Self.table.fields {
            if let value = values[field.row.name] { field.decode(&self, value) }
        }
    }

    /// A value from a request's dictionary: every key known, every type right, every limit held.
    init(request value: DBusValue) throws(WireProblem) {
        guard value.signature == "a{sv}" || value.entries?.isEmpty == true, var rest = value.vardictValue else {
            throw WireProblem("type \(value.signature)", "must be a dictionary (a{sv})")
        }
        guard rest.count <= Limits.dictionaryEntries else {
            throw WireProblem("\(rest.count) entries", "more than \(Limits.dictionaryEntries)")
        }
        self.init()
        for field in Self.table.fields {
            guard let value = rest.removeValue(forKey: field.row.name) else { continue }
            do { try field.read(&self, value) } catch { throw error.within(field.row.name) }
        }
        guard let (key, value) = rest.min(by: { $0.key < $1.key }) else { return }
        throw WireProblem("type \(value.signature)", "unknown key", at: key)
    }

    /// Values from a list of dictionaries; an element of another type is left out.
    public static func list(wire value: DBusValue?) -> [Self] {
        (value?.arrayValue ?? []).compactMap(\.vardictValue).map { Self(wire: $0) }
    }

    /// A list of dictionaries, `aa{sv}`.
    public static func wire(_ records: [Self]) -> DBusValue { .array(of: "a{sv}", records.map(\.wire)) }
}

// MARK: - Types

extension WireType<String> {
    /// `s`.
    static var text: Self {
        Self(
            "s", .text, { .string($0) }, \.stringValue,
            refuse: { value in
                // By its length alone: a text that is too long is neither examined nor quoted.
                guard let text = value.stringValue?.utf8, text.count > Limits.textBytes else { return nil }
                let beginning = String(decoding: text.prefix(40), as: UTF8.self)
                return WireProblem("\(beginning)…", "\(text.count) bytes, more than \(Limits.textBytes)")
            })
    }
}

extension WireType where Value: RawRepresentable<String> {
    /// `s`, one word of an enumeration; an unknown one is of another type.
    static var word: Self { Self("s", .text, { .string($0.rawValue) }, { $0.stringValue.flatMap { Value(rawValue: $0) } }) }
}

extension WireType<Bool> {
    /// `b`.
    static var truth: Self { Self("b", .truth, { .boolean($0) }, \.booleanValue) }
    /// `b`, left out where it is false.
    static var flag: Self { truth.leftOut(where: false) }
}

extension WireType<ObjectPath> {
    /// `o`.
    static var path: Self { Self("o", .text, { .objectPath($0) }, \.objectPathValue) }
}

extension WireType<[ObjectPath]> {
    /// `ao`.
    static var paths: Self { Self("ao", .texts, { .objectPaths($0) }, { $0.arrayValue?.compactMap(\.objectPathValue) }) }
}

extension WireType<[UInt8]> {
    /// `ay`.
    static var bytes: Self { Self("ay", .bytes, { .bytes($0) }, \.bytesValue).limited(to: Limits.dataBytes) }
    /// `ay`; a request may have text for its UTF-8 bytes.
    static var bytesOrText: Self {
        let decode = { @Sendable (value: DBusValue) in value.stringValue.map { Array($0.utf8) } ?? value.bytesValue }
        return Self("ay", .text, { .bytes($0) }, decode, wanted: "ay or s").limited(to: Limits.textBytes)
    }

    private func limited(to count: Int) -> Self {
        refusing { $0.count <= count ? nil : WireProblem("\($0.count) bytes", "longer than \(count) bytes") }
    }
}

extension WireType<Int> {
    /// `n`, as near as it comes.
    static var int16: Self { Self("n", .number, { .int16(Int16(clamping: $0)) }, \.integerValue) }
    /// `u`, as near as it comes.
    static var uint32: Self { Self("u", .number, { .uint32(UInt32(clamping: $0)) }, \.integerValue) }
    /// `q`, as near as it comes.
    static var uint16: Self { Self("q", .number, { .uint16(UInt16(clamping: $0)) }, \.integerValue) }
    /// `x`.
    static var int64: Self { Self("x", .number, { .int64(Int64($0)) }, \.integerValue) }
    /// `t`, seconds since 1970; 0 for none.
    static var seconds: Self { Self("t", .seconds, { .uint64(UInt64(clamping: $0)) }, \.integerValue) }
}

extension WireType where Value: FixedWidthInteger & UnsignedInteger {
    /// A number without a sign. Many languages have one type of integer only: any that holds the number is taken.
    static func unsigned(_ signature: Signature, _ encode: @escaping @Sendable (Value) -> DBusValue) -> Self {
        let decode = { @Sendable (value: DBusValue) -> Value? in
            if case .uint64(let number) = value.unwrapped { return Value(exactly: number) }
            return value.integerValue.flatMap { Value(exactly: $0) }
        }
        return Self(
            signature, .number, encode, decode, wanted: "\(signature), or another integer",
            refuse: { value in
                let number = if case .uint64(let large) = value.unwrapped { "\(large)" } else { value.integerValue?.description }
                return decode(value) == nil ? number.map { WireProblem($0, "must be 0 to \(Value.max)") } : nil
            })
    }
}

extension WireType<UInt64> {
    /// `t`.
    static var uint64: Self { unsigned("t", DBusValue.uint64) }
}

extension WireType<Double> {
    /// `d`, or any integer: seconds within a range, or infinity.
    static func duration(within range: ClosedRange<Double>) -> Self {
        Self("d", .number, { .double($0) }, { $0.doubleValue ?? $0.integerValue.map(Double.init) }).refusing { seconds in
            guard seconds != .infinity, !range.contains(seconds) else { return nil }
            return WireProblem(seconds, "must be \(range.lowerBound) to \(range.upperBound) seconds, or infinity")
        }
    }
}

extension WireType where Value: RawRepresentable<String> & CaseIterable {
    /// `s`, one word of an enumeration; a request may have no other.
    static var choice: Self {
        Self(
            word.signature, word.shape, word.encode, word.decode,
            refuse: { value in
                let words = Value.allCases.map(\.rawValue)
                let strange = value.stringValue.flatMap { words.contains($0) ? nil : $0 }
                return WireType<String>.text.refuse(value) ?? strange.map { WireProblem(noneOf: words, $0) }
            })
    }
}

extension WireType where Value: NamedOptions {
    /// `as`, left out where no option is set. A bit without a name goes as its number, so that it is refused rather
    /// than lost.
    static var words: Self { someWords.leftOut(where: []) }

    fileprivate static var someWords: Self {
        Self(
            "as", .texts,
            { options in
                let known = Value.names.filter { options.contains($0.1) }
                let strange = options.subtracting(Value(known.map(\.1)))
                return .strings(known.map(\.0) + (strange.isEmpty ? [] : ["\(UInt(bitPattern: strange.rawValue))"]))
            },
            { $0.stringsValue.map { words in Value(Value.names.filter { words.contains($0.0) }.map(\.1)) } },
            refuse: { value in
                let words = Value.names.map(\.0)
                return value.stringsValue?.first { !words.contains($0) }.map { WireProblem(noneOf: words, $0) }
            })
    }
}

extension WireType<WiFiAware.Match> {
    /// `(sas)`, a text and the options of its comparison.
    static var match: Self {
        let options = WireType<CompareOptions>.someWords
        @Sendable func fields(_ value: DBusValue) -> (text: String, options: DBusValue)? {
            guard let fields = value.structureValue, fields.count == 2 else { return nil }
            return fields[0].stringValue.map { ($0, fields[1]) }
        }
        return Self(
            "(sas)", .texts, { match in options.encode(match.options).map { .structure([.string(match.string), $0]) } },
            { value in
                guard let fields = fields(value), let options = options.decode(fields.options) else { return nil }
                return WiFiAware.Match(string: fields.text, options: options)
            },
            refuse: { value in
                guard let fields = fields(value) else { return nil }
                do throws(WireProblem) { _ = try options.read(fields.options) } catch { return error.within("options") }
                return nil
            })
    }
}

extension WireType {
    /// The same, without one value.
    func leftOut(where empty: Value) -> Self {
        Self(signature, shape, { $0 == empty ? nil : encode($0) }, decode, wanted: wanted, refuse: refuse)
    }

    /// The same, with more values that a request may not have.
    func refusing(_ problem: @escaping @Sendable (Value) -> WireProblem?) -> Self {
        Self(signature, shape, encode, decode, wanted: wanted, refuse: { refuse($0) ?? decode($0).flatMap(problem) })
    }

    /// The same for another Swift type.
    func converted<Other>(
        _ decoded: @escaping @Sendable (Value) -> Other?, _ encoded: @escaping @Sendable (Other) -> Value
    ) -> WireType<Other> {
        WireType<Other>(
            signature, shape, { encode(encoded($0)) }, { decode($0).flatMap(decoded) }, wanted: wanted, refuse: refuse)
    }
}

extension WireType<[String]> {
    /// `as`.
    static var texts: Self { Self("as", .texts, { .strings($0) }, \.stringsValue) }
    /// `as`, left out where it is empty.
    static var someTexts: Self { texts.leftOut(where: []) }
}

extension WireType<[String: DBusValue]> {
    /// `a{sv}`, with keys that have a table elsewhere, or none.
    static var dictionary: Self { Self("a{sv}", .dictionary, { .vardict($0) }, \.vardictValue) }
}

extension WireType<[String: [String]]> {
    /// `a{sas}`.
    static var textsByName: Self {
        .byKey("s", "as", .textsByName, DBusValue.string, \.stringValue, DBusValue.strings, \.stringsValue)
    }
}

extension WireType<[String: [UInt8]]> {
    /// `a{say}`, left out where it is empty.
    static var bytesByText: Self {
        byKey("s", "ay", .dictionary, DBusValue.string, \.stringValue, DBusValue.bytes, \.bytesValue).leftOut(where: [:])
    }
}

extension WireType<[UInt16: [UInt8]]> {
    /// `a{qay}`, left out where it is empty.
    static var bytesByNumber: Self {
        byKey(
            "q", "ay", .dictionary, DBusValue.uint16, { $0.integerValue.flatMap { UInt16(exactly: $0) } }, DBusValue.bytes,
            \.bytesValue
        ).leftOut(where: [:])
    }
}

extension WireType {
    /// A dictionary with other keys or values than `a{sv}`, in the order of its keys. An entry of another type does not
    /// count.
    private static func byKey<Key: Comparable & Sendable, Element: Equatable & Sendable>(
        _ key: Signature, _ element: Signature, _ shape: WireShape, _ encodeKey: @escaping @Sendable (Key) -> DBusValue,
        _ decodeKey: @escaping @Sendable (DBusValue) -> Key?, _ encode: @escaping @Sendable (Element) -> DBusValue,
        _ decode: @escaping @Sendable (DBusValue) -> Element?
    ) -> Self where Value == [Key: Element] {
        Self(
            Signature("a{\(key)\(element)}")!, shape,
            { values in
                .dictionary(
                    key: key, value: element,
                    values.sorted { $0.key < $1.key }.map { .init(encodeKey($0.key), encode($0.value)) })
            },
            { value in
                value.entries.map { entries in
                    let pairs = entries.compactMap { entry -> (Key, Element)? in
                        guard let key = decodeKey(entry.key), let element = decode(entry.value) else { return nil }
                        return (key, element)
                    }
                    return Dictionary(pairs) { first, _ in first }
                }
            })
    }
}

extension WireType where Value: WireRecord {
    /// `a{sv}` with the rows of another table.
    static var record: Self {
        Self(
            "a{sv}", .record(Value.recordName), { $0.wire }, { $0.vardictValue.map { Value(wire: $0) } },
            refuse: { value in
                do throws(WireProblem) { _ = try Value(request: value) } catch { return error }
                return nil
            })
    }
}

extension WireType {
    /// `aa{sv}` with the rows of another table.
    static func records<Element: WireRecord>() -> Self where Value == [Element] {
        Self(
            "aa{sv}", .records(Element.recordName), { Element.wire($0) }, { $0.arrayValue == nil ? nil : Element.list(wire: $0) })
    }
}

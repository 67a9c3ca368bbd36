// SPDX-License-Identifier: Apache-2.0
// The face of the daemon as tables: one row for each property of an interface, and for each key of a dictionary, with
// its type, its readers and its field in a Swift value. The daemon encodes by these rows and compares by them, clients
// decode by them, and the page for Cockpit is made from them. `FaceTests` holds the rows against the XML.

public import DBusKit

/// A type of D-Bus and the Swift value that stands for it.
public struct WireType<Value: Equatable & Sendable>: Sendable {
    let signature: Signature
    let shape: WireShape
    /// nil: the value is left out of its dictionary.
    let encode: @Sendable (Value) -> DBusValue?
    /// nil: the value is of another type.
    let decode: @Sendable (DBusValue) -> Value?

    init(
        _ signature: Signature, _ shape: WireShape, _ encode: @escaping @Sendable (Value) -> DBusValue?,
        _ decode: @escaping @Sendable (DBusValue) -> Value?
    ) {
        self.signature = signature
        self.shape = shape
        self.encode = encode
        self.decode = decode
    }
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
        let differs: @Sendable (Record, Record) -> Bool

        /// - Parameters:
        ///   - name: the property's name, or the dictionary's key.
        ///   - path: the field of the Swift value.
        public init<Value>(
            _ name: String, _ path: any WritableKeyPath<Record, Value> & Sendable, _ type: WireType<Value>,
            for reader: WireReader = .whoeverSeesIt, _ signal: WireSignal = .whenChanged
        ) {
            row = WireRow(
                name: name, signature: type.signature, shape: type.shape, reader: reader, signal: signal,
                standIn: type.encode(Record()[keyPath: path]))
            encode = { type.encode($0[keyPath: path]) }
            decode = { if let value = type.decode($1) { $0[keyPath: path] = value } }
            differs = { $0[keyPath: path] != $1[keyPath: path] }
        }

        /// A key that may be missing, with a field that is nil then.
        public init<Value>(_ name: String, _ path: any WritableKeyPath<Record, Value?> & Sendable, _ type: WireType<Value>) {
            self.init(
                name, path,
                WireType<Value?>(type.signature, type.shape, { $0.flatMap(type.encode) }, { type.decode($0).map(Optional.some) }))
        }
    }

    /// In the order of their names, as the bus carries them.
    let fields: [Field]

    /// - Parameter fields: in any order, each name once.
    public init(_ fields: [Field]) {
        self.fields = fields.sorted { $0.row.name < $1.row.name }
    }

    /// The rows in the order of their names.
    public var rows: [WireRow] { fields.map(\.row) }

    /// The names of the signalled rows in which two values differ.
    public func changes(from old: Record, to new: Record) -> [String] {
        fields.filter { $0.row.signal == .whenChanged && $0.differs(old, new) }.map(\.row.name)
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
            key: "s", value: "v",
            Self.table.fields.compactMap { field in
                guard field.row.reader == .whoeverSeesIt, let value = field.encode(self) else { return nil }
                return .init(.string(field.row.name), .variant(value))
            })
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
    static var text: Self { Self("s", .text, { .string($0) }, \.stringValue) }
}

extension WireType where Value: RawRepresentable<String> {
    /// `s`, one word of an enumeration; an unknown one is of another type.
    static var word: Self { Self("s", .text, { .string($0.rawValue) }, { $0.stringValue.flatMap { Value(rawValue: $0) } }) }
}

extension WireType<Bool> {
    /// `b`.
    static var truth: Self { Self("b", .truth, { .boolean($0) }, \.booleanValue) }
    /// `b`, left out where it is false.
    static var flag: Self { Self("b", .truth, { $0 ? .boolean(true) : nil }, \.booleanValue) }
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
    static var bytes: Self { Self("ay", .bytes, { .bytes($0) }, \.bytesValue) }
}

extension WireType<Int> {
    /// `n`, as near as it comes.
    static var int16: Self { Self("n", .number, { .int16(Int16(clamping: $0)) }, \.integerValue) }
    /// `u`, as near as it comes.
    static var uint32: Self { Self("u", .number, { .uint32(UInt32(clamping: $0)) }, \.integerValue) }
    /// `q`, as near as it comes.
    static var uint16: Self { Self("q", .number, { .uint16(UInt16(clamping: $0)) }, \.integerValue) }
    /// `t`, seconds since 1970; 0 for none.
    static var seconds: Self { Self("t", .seconds, { .uint64(UInt64(clamping: $0)) }, \.integerValue) }
}

extension WireType<UInt64> {
    /// `t`.
    static var uint64: Self {
        Self("t", .number, { .uint64($0) }, { if case .uint64(let number) = $0.unwrapped { number } else { nil } })
    }
}

extension WireType<[String]> {
    /// `as`.
    static var texts: Self { Self("as", .texts, { .strings($0) }, \.stringsValue) }
    /// `as`, left out where it is empty.
    static var someTexts: Self { texts.leftOutWhereEmpty }
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
        byKey("s", "ay", .dictionary, DBusValue.string, \.stringValue, DBusValue.bytes, \.bytesValue).leftOutWhereEmpty
    }
}

extension WireType<[UInt16: [UInt8]]> {
    /// `a{qay}`, left out where it is empty.
    static var bytesByNumber: Self {
        byKey(
            "q", "ay", .dictionary, DBusValue.uint16, { $0.integerValue.flatMap { UInt16(exactly: $0) } }, DBusValue.bytes,
            \.bytesValue
        ).leftOutWhereEmpty
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

extension WireType where Value: Collection {
    /// The same, without a value that is empty.
    fileprivate var leftOutWhereEmpty: Self { Self(signature, shape, { $0.isEmpty ? nil : encode($0) }, decode) }
}

extension WireType where Value: WireRecord {
    /// `a{sv}` with the rows of another table.
    static var record: Self {
        Self("a{sv}", .record(Value.recordName), { $0.wire }, { $0.vardictValue.map { Value(wire: $0) } })
    }
}

extension WireType {
    /// `aa{sv}` with the rows of another table.
    static func records<Element: WireRecord>() -> Self where Value == [Element] {
        Self(
            "aa{sv}", .records(Element.recordName), { Element.wire($0) }, { $0.arrayValue == nil ? nil : Element.list(wire: $0) })
    }
}

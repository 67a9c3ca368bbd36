// SPDX-License-Identifier: Apache-2.0
// From the wire to values. libdbus has checked the message against the specification; what remains is how much of it a
// peer may make us hold (`ValueDecoder`), and a way to look at a message without holding any of it (`ValueCursor`).

internal import CDBus

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

/// How much of a message is turned into values.
public struct DecodingLimits: Sendable {
    /// Containers inside containers, 1…64.
    public var depth: Int
    /// Values in all, containers included.
    public var values: Int
    /// Bytes of text and of byte arrays in all.
    public var bytes: Int

    /// - Parameters:
    ///   - depth: containers inside containers, 1…64.
    ///   - values: in all, containers included.
    ///   - bytes: of text and byte arrays, in all.
    public init(depth: Int, values: Int, bytes: Int) {
        self.depth = depth
        self.values = values
        self.bytes = bytes
    }

    /// For replies of services that are trusted with more, such as BlueZ' `GetManagedObjects`.
    public static let generous = DecodingLimits(depth: 32, values: 1_000_000, bytes: 64 << 20)
    /// For what any peer may send: 16 levels, 65,536 values, 16 MiB.
    public static let standard = DecodingLimits(depth: 16, values: 65_536, bytes: 16 << 20)
}

struct ValueDecoder {
    private let limits: DecodingLimits
    private var values = 0
    private var bytes = 0

    init(limits: DecodingLimits) {
        self.limits = limits
    }

    mutating func decodeAll(_ iterator: inout DBusMessageIter, depth: Int) throws(BusError) -> [DBusValue] {
        var result: [DBusValue] = []
        while dbus_message_iter_get_arg_type(&iterator) != TypeCode.invalid {
            result.append(try decode(&iterator, depth: depth))
            dbus_message_iter_next(&iterator)
        }
        return result
    }

    private mutating func decode(_ iterator: inout DBusMessageIter, depth: Int) throws(BusError) -> DBusValue {
        guard depth < limits.depth else { throw .limitsExceeded("nested more than \(limits.depth) deep") }
        values += 1
        guard values <= limits.values else { throw .limitsExceeded("more than \(limits.values) values") }
        switch dbus_message_iter_get_arg_type(&iterator) {
        case TypeCode.byte: return .byte(basic(&iterator, 0))
        case TypeCode.boolean: return .boolean(basic(&iterator, dbus_bool_t(0)) != 0)
        case TypeCode.int16: return .int16(basic(&iterator, 0))
        case TypeCode.uint16: return .uint16(basic(&iterator, 0))
        case TypeCode.int32: return .int32(basic(&iterator, 0))
        case TypeCode.uint32: return .uint32(basic(&iterator, 0))
        case TypeCode.int64: return .int64(basic(&iterator, 0))
        case TypeCode.uint64: return .uint64(basic(&iterator, 0))
        case TypeCode.double: return .double(basic(&iterator, 0))
        case TypeCode.string: return .string(try text(&iterator))
        case TypeCode.objectPath: return .objectPath(ObjectPath(validated: try text(&iterator)))
        case TypeCode.signature: return .signature(try text(&iterator))
        case TypeCode.unixFD: return .fileDescriptor(FileDescriptor(owning: basic(&iterator, Int32(-1))))
        case TypeCode.array: return try array(&iterator, depth: depth)
        case TypeCode.structure:
            var inner = DBusMessageIter()
            dbus_message_iter_recurse(&iterator, &inner)
            return .structure(try decodeAll(&inner, depth: depth + 1))
        case TypeCode.variant:
            var inner = DBusMessageIter()
            dbus_message_iter_recurse(&iterator, &inner)
            return .variant(try decode(&inner, depth: depth + 1))
        case let code:
            throw .invalidArguments("unknown type code \(code)")
        }
    }

    private mutating func array(_ iterator: inout DBusMessageIter, depth: Int) throws(BusError) -> DBusValue {
        var inner = DBusMessageIter()
        let element = dbus_message_iter_get_element_type(&iterator)
        dbus_message_iter_recurse(&iterator, &inner)
        if element == TypeCode.byte {
            let payload = byteArray(&inner)
            try count(bytes: payload.count)
            return .bytes(payload)
        }
        guard let text = dbus_message_iter_get_signature(&inner) else { throw .failed("out of memory") }
        defer { dbus_free(text) }
        let elementType = String(cString: text)
        guard element == TypeCode.dictEntry else {
            return .array(of: Signature(validated: elementType), try decodeAll(&inner, depth: depth + 1))
        }
        var entries: [DBusValue.Entry] = []
        while dbus_message_iter_get_arg_type(&inner) != TypeCode.invalid {
            var pair = DBusMessageIter()
            dbus_message_iter_recurse(&inner, &pair)
            let key = try decode(&pair, depth: depth + 1)
            dbus_message_iter_next(&pair)
            entries.append(.init(key, try decode(&pair, depth: depth + 1)))
            dbus_message_iter_next(&inner)
        }
        // "{sv}": one letter of key, the rest is the value's type.
        let types = elementType.dropFirst().dropLast()
        return .dictionary(
            key: Signature(validated: String(types.prefix(1))), value: Signature(validated: String(types.dropFirst())),
            entries)
    }

    private mutating func text(_ iterator: inout DBusMessageIter) throws(BusError) -> String {
        let text = cString(&iterator).map { String(cString: $0) } ?? ""
        try count(bytes: text.utf8.count)
        return text
    }

    private mutating func count(bytes more: Int) throws(BusError) {
        bytes += more
        guard bytes <= limits.bytes else { throw .limitsExceeded("more than \(limits.bytes) bytes") }
    }
}

private func basic<T: BitwiseCopyable>(_ iterator: inout DBusMessageIter, _ start: T) -> T {
    var value = start
    dbus_message_iter_get_basic(&iterator, &value)
    return value
}

private func cString(_ iterator: inout DBusMessageIter) -> UnsafePointer<CChar>? {
    var pointer: UnsafePointer<CChar>?
    dbus_message_iter_get_basic(&iterator, &pointer)
    return pointer
}

private func byteArray(_ inner: inout DBusMessageIter) -> [UInt8] {
    var start: UnsafeRawPointer?
    var count: Int32 = 0
    dbus_message_iter_get_fixed_array(&inner, &start, &count)
    guard let start, count > 0 else { return [] }
    return Array(UnsafeRawBufferPointer(start: start, count: Int(count)))
}

/// The fingerprint of a C string's bytes.
func fingerprint(of pointer: UnsafePointer<CChar>) -> UInt64 {
    UnsafeRawBufferPointer(start: pointer, count: strlen(pointer)).fingerprint
}

/// Compares a C string with a String, without the copy that passing it to C would make.
func equals(_ pointer: UnsafePointer<CChar>, _ text: String) -> Bool {
    let length = strlen(pointer)
    var text = text
    return text.withUTF8 { $0.count == length && ($0.isEmpty || memcmp($0.baseAddress!, pointer, length) == 0) }
}

/// Which of `words` a C string is. Most differ in their first byte.
private func place(of pointer: UnsafePointer<CChar>, among words: [StaticString]) -> Int? {
    let first = UInt8(bitPattern: pointer[0])
    for index in words.indices {
        let start = words[index].utf8Start
        if start.pointee == first, strcmp(pointer, start) == 0 { return index }
    }
    return nil
}

/// A place in a message's arguments. It is valid inside the closure that received it and cannot leave it.
public struct ValueCursor: ~Copyable {
    /// The types that a cursor tells apart; `end` is behind the last value.
    public enum Kind: Sendable { case end, string, objectPath, int16, uint16, byte, boolean, bytes, array, variant, other }

    var iterator: DBusMessageIter

    /// The type of the value here.
    public var type: Kind {
        mutating get {
            switch dbus_message_iter_get_arg_type(&iterator) {
            case TypeCode.invalid: .end
            case TypeCode.string: .string
            case TypeCode.objectPath: .objectPath
            case TypeCode.int16: .int16
            case TypeCode.uint16: .uint16
            case TypeCode.byte: .byte
            case TypeCode.boolean: .boolean
            case TypeCode.variant: .variant
            case TypeCode.array:
                dbus_message_iter_get_element_type(&iterator) == TypeCode.byte ? .bytes : .array
            default: .other
            }
        }
    }

    /// Goes to the next value; false at the end.
    @discardableResult
    public mutating func next() -> Bool {
        dbus_message_iter_next(&iterator) != 0
    }

    /// The text here; nil when this is no text.
    public var string: String? {
        mutating get {
            guard type == .string || type == .objectPath else { return nil }
            return cString(&iterator).map { String(cString: $0) }
        }
    }

    /// Whether the text here is `other`, without making a String of it.
    public mutating func isString(_ other: StaticString) -> Bool {
        guard type == .string, let pointer = cString(&iterator) else { return false }
        return strcmp(pointer, other.utf8Start) == 0
    }

    /// Whether the text here is `other`, without making a String of it.
    public mutating func isString(equalTo other: String) -> Bool {
        guard type == .string, let pointer = cString(&iterator) else { return false }
        return equals(pointer, other)
    }

    /// Which of `words` the text here is; nil when none.
    public mutating func word(among words: [StaticString]) -> Int? {
        guard type == .string, let pointer = cString(&iterator) else { return nil }
        return place(of: pointer, among: words)
    }

    /// Whether `part` is somewhere in the text here, compared byte by byte; false when this is no text.
    public mutating func contains(_ part: StaticString) -> Bool {
        guard type == .string, let pointer = cString(&iterator) else { return false }
        return part.utf8Start.withMemoryRebound(to: CChar.self, capacity: part.utf8CodeUnitCount) { strstr(pointer, $0) != nil }
    }

    /// The path here; nil when this is no `o`.
    public var objectPath: ObjectPath? {
        mutating get {
            guard type == .objectPath else { return nil }
            return cString(&iterator).map { ObjectPath(validated: String(cString: $0)) }
        }
    }

    /// A number that changes with the text here, to see cheaply whether it is the same as last time.
    public var fingerprint: UInt64 {
        mutating get {
            guard type == .string, let pointer = cString(&iterator) else { return 0 }
            return DBusKit.fingerprint(of: pointer)
        }
    }

    /// Whether the bytes here are `other`, without copying them.
    public mutating func isBytes(_ other: [UInt8]) -> Bool {
        guard type == .bytes else { return false }
        var inner = DBusMessageIter()
        dbus_message_iter_recurse(&iterator, &inner)
        var start: UnsafeRawPointer?
        var count: Int32 = 0
        dbus_message_iter_get_fixed_array(&inner, &start, &count)
        guard Int(count) == other.count else { return false }
        guard let start, count > 0 else { return true }
        return other.withUnsafeBytes { memcmp($0.baseAddress!, start, other.count) == 0 }
    }

    /// The number here; nil when this is no `y`.
    public var byte: UInt8? { mutating get { type == .byte ? basic(&iterator, 0) : nil } }
    /// The number here; nil when this is no `n`.
    public var int16: Int16? { mutating get { type == .int16 ? basic(&iterator, 0) : nil } }
    /// The number here; nil when this is no `q`.
    public var uint16: UInt16? { mutating get { type == .uint16 ? basic(&iterator, 0) : nil } }
    /// The number here, of any integer type; nil when this is none, or one that `Int` cannot hold.
    public var integer: Int? {
        mutating get {
            switch dbus_message_iter_get_arg_type(&iterator) {
            case TypeCode.byte: Int(basic(&iterator, UInt8(0)))
            case TypeCode.int16: Int(basic(&iterator, Int16(0)))
            case TypeCode.uint16: Int(basic(&iterator, UInt16(0)))
            case TypeCode.int32: Int(basic(&iterator, Int32(0)))
            case TypeCode.uint32: Int(basic(&iterator, UInt32(0)))
            case TypeCode.int64: Int(exactly: basic(&iterator, Int64(0)))
            case TypeCode.uint64: Int(exactly: basic(&iterator, UInt64(0)))
            default: nil
            }
        }
    }
    /// The value here; nil when this is no `b`.
    public var boolean: Bool? { mutating get { type == .boolean ? basic(&iterator, dbus_bool_t(0)) != 0 : nil } }

    /// The bytes here; nil when this is no array of bytes.
    public var bytes: [UInt8]? {
        mutating get {
            guard type == .bytes else { return nil }
            var inner = DBusMessageIter()
            dbus_message_iter_recurse(&iterator, &inner)
            return byteArray(&inner)
        }
    }

    /// The paths in the array here, in or out of variants, without what is no path; nil when this is no array.
    public var objectPaths: [ObjectPath]? {
        mutating get {
            switch type {
            case .bytes: return []
            case .array where dbus_message_iter_get_element_type(&iterator) != TypeCode.dictEntry: break
            default: return nil
            }
            var paths: [ObjectPath] = []
            forEachElement { element in
                var value = ValueCursor(iterator: element.iterator)
                value.enterVariants()
                if let path = value.objectPath { paths.append(path) }
            }
            return paths
        }
    }

    /// False, and nothing is remembered: libdbus does not show the bytes.
    public mutating func isUnchanged(since memory: inout ValueMemory) -> Bool {
        memory.forget()
        return false
    }

    /// The contents of the variant here.
    public mutating func withVariant(_ body: (inout ValueCursor) -> Void) {
        guard type == .variant else { return }
        var inner = ValueCursor(iterator: DBusMessageIter())
        dbus_message_iter_recurse(&iterator, &inner.iterator)
        body(&inner)
    }

    /// The fields of the structure here: the cursor stands on the first.
    public mutating func withStructure(_ body: (inout ValueCursor) -> Void) {
        guard dbus_message_iter_get_arg_type(&iterator) == TypeCode.structure else { return }
        var inner = ValueCursor(iterator: DBusMessageIter())
        dbus_message_iter_recurse(&iterator, &inner.iterator)
        body(&inner)
    }

    /// Every element of the array here. For a dictionary use `forEachEntry`.
    public mutating func forEachElement(_ body: (inout ValueCursor) -> Void) {
        guard type == .array else { return }
        var inner = ValueCursor(iterator: DBusMessageIter())
        dbus_message_iter_recurse(&iterator, &inner.iterator)
        while dbus_message_iter_get_arg_type(&inner.iterator) != TypeCode.invalid {
            body(&inner)
            inner.next()
        }
    }

    /// Every entry of the dictionary here: the cursor stands on the key; `next()` moves it to the value.
    public mutating func forEachEntry(_ body: (inout ValueCursor) -> Void) {
        guard dbus_message_iter_get_arg_type(&iterator) == TypeCode.array,
            dbus_message_iter_get_element_type(&iterator) == TypeCode.dictEntry
        else { return }
        var inner = DBusMessageIter()
        dbus_message_iter_recurse(&iterator, &inner)
        while dbus_message_iter_get_arg_type(&inner) != TypeCode.invalid {
            var pair = ValueCursor(iterator: DBusMessageIter())
            dbus_message_iter_recurse(&inner, &pair.iterator)
            body(&pair)
            dbus_message_iter_next(&inner)
        }
    }

    /// Reads an `a{sv}`, or another dictionary with texts as keys: `body` gets the entries whose key is one of `keys`,
    /// in the order of the wire, a key that comes twice twice. Of the others only the key is read.
    ///
    /// - Parameter body: is told which key it is, by its place in `keys`; the cursor stands on the value, inside all
    ///   variants around it.
    /// - Returns: false when this is no such dictionary; `body` was not called then. An empty dictionary may have keys
    ///   of any type.
    @discardableResult
    public mutating func forEachEntry(among keys: [StaticString], _ body: (Int, inout ValueCursor) -> Void) -> Bool {
        guard dbus_message_iter_get_arg_type(&iterator) == TypeCode.array,
            dbus_message_iter_get_element_type(&iterator) == TypeCode.dictEntry
        else { return false }
        var inner = DBusMessageIter()
        dbus_message_iter_recurse(&iterator, &inner)
        guard dbus_message_iter_get_arg_type(&inner) != TypeCode.invalid else { return true }
        repeat {
            var pair = ValueCursor(iterator: DBusMessageIter())
            dbus_message_iter_recurse(&inner, &pair.iterator)
            // All keys are of one type: what is no text is none from the first on.
            guard dbus_message_iter_get_arg_type(&pair.iterator) == TypeCode.string, let key = cString(&pair.iterator) else {
                return false
            }
            guard let index = place(of: key, among: keys) else { continue }
            pair.next()
            pair.enterVariants()
            body(index, &pair)
        } while dbus_message_iter_next(&inner) != 0
        return true
    }

    /// Goes into the variant here, and into the one in it, up to what is none. What comes after the variant is out of
    /// reach then.
    public mutating func enterVariants() {
        while dbus_message_iter_get_arg_type(&iterator) == TypeCode.variant {
            var inner = DBusMessageIter()
            dbus_message_iter_recurse(&iterator, &inner)
            iterator = inner
        }
    }

    /// The value here, with everything in it. Nil at the end, and when it and the values after it pass the limits.
    public mutating func value(limits: DecodingLimits = .standard) -> DBusValue? {
        guard type != .end else { return nil }
        var copy = iterator
        var decoder = ValueDecoder(limits: limits)
        return try? decoder.decodeAll(&copy, depth: 0).first
    }
}

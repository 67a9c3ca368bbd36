// SPDX-License-Identifier: Apache-2.0
// From values to the wire. Everything is checked before libdbus sees it, because libdbus aborts on a programming
// error.

internal import CDBus
internal import Glibc

struct ValueWriter {
    private var iterator = DBusMessageIter()
    private let raw: OpaquePointer
    private let isLenient: Bool

    /// - Parameter isLenient: whether NUL in a text is replaced (by U+FFFD) rather than refused.
    init(appendingTo raw: OpaquePointer, isLenient: Bool) {
        self.raw = raw
        self.isLenient = isLenient
        dbus_message_iter_init_append(raw, &iterator)
    }

    mutating func write(_ value: DBusValue) throws(BusError) {
        // Checked first: a container that was opened and then fails would leave the message half written.
        try Self.check(value, depth: 0, isLenient)
        Self.append(value, to: &iterator)
    }

    /// Throws for a value that cannot travel: text with NUL, elements that are not of the container's type, nesting
    /// beyond the specification's 32 levels.
    fileprivate static func check(_ value: DBusValue, depth: Int, _ isLenient: Bool) throws(BusError) {
        guard depth < 32 else { throw .invalidArguments("nested too deeply") }
        switch value {
        case .string(let text):
            guard isLenient || !text.hasNUL else { throw .invalidArguments("text with NUL: \(text.debugDescription)") }
        case .signature(let text):
            guard Signature.split(text) != nil else { throw .invalidArguments("not a signature: \(text.debugDescription)") }
        case .array(let element, let values):
            for value in values {
                guard value.isOf(element) else {
                    throw .invalidArguments("an element of type \(value.signature) in an array of \(element)")
                }
                try check(value, depth: depth + 1, isLenient)
            }
        case .dictionary(let key, let valueType, let entries):
            for entry in entries {
                guard entry.key.isOf(key), entry.value.isOf(valueType) else {
                    throw .invalidArguments(
                        "an entry {\(entry.key.signature)\(entry.value.signature)} in a{\(key)\(valueType)}")
                }
                try check(entry.key, depth: depth + 1, isLenient)
                try check(entry.value, depth: depth + 1, isLenient)
            }
        case .structure(let fields):
            guard !fields.isEmpty else { throw .invalidArguments("an empty structure") }
            for field in fields { try check(field, depth: depth + 1, isLenient) }
        case .variant(let inner):
            try check(inner, depth: depth + 1, isLenient)
        default:
            break
        }
    }

    fileprivate static func append(_ value: DBusValue, to iterator: inout DBusMessageIter) {
        switch value {
        case .byte(let value): basic(TypeCode.byte, value, &iterator)
        case .boolean(let value): basic(TypeCode.boolean, dbus_bool_t(value ? 1 : 0), &iterator)
        case .int16(let value): basic(TypeCode.int16, value, &iterator)
        case .uint16(let value): basic(TypeCode.uint16, value, &iterator)
        case .int32(let value): basic(TypeCode.int32, value, &iterator)
        case .uint32(let value): basic(TypeCode.uint32, value, &iterator)
        case .int64(let value): basic(TypeCode.int64, value, &iterator)
        case .uint64(let value): basic(TypeCode.uint64, value, &iterator)
        case .double(let value): basic(TypeCode.double, value, &iterator)
        case .string(let text): self.text(TypeCode.string, text, &iterator)
        case .objectPath(let path): text(TypeCode.objectPath, path.rawValue, &iterator)
        case .signature(let text): self.text(TypeCode.signature, text, &iterator)
        case .fileDescriptor(let descriptor): basic(TypeCode.unixFD, descriptor.rawValue, &iterator)
        case .bytes(let bytes):
            container(TypeCode.array, "y", &iterator) { inner in
                bytes.withUnsafeBytes { buffer in
                    // An array of length 0 may have no address; libdbus wants one all the same.
                    var start: UnsafeRawPointer? = buffer.baseAddress ?? UnsafeRawPointer(bitPattern: 1)
                    _ = dbus_message_iter_append_fixed_array(&inner, TypeCode.byte, &start, Int32(buffer.count))
                }
            }
        case .array(let element, let values):
            container(TypeCode.array, element.rawValue, &iterator) { inner in
                for value in values { append(value, to: &inner) }
            }
        case .dictionary(let key, let valueType, let entries):
            container(TypeCode.array, "{" + key.rawValue + valueType.rawValue + "}", &iterator) { inner in
                for entry in entries {
                    container(TypeCode.dictEntry, nil, &inner) { pair in
                        append(entry.key, to: &pair)
                        append(entry.value, to: &pair)
                    }
                }
            }
        case .structure(let fields):
            container(TypeCode.structure, nil, &iterator) { inner in
                for field in fields { append(field, to: &inner) }
            }
        case .variant(let value):
            container(TypeCode.variant, value.signature.rawValue, &iterator) { append(value, to: &$0) }
        }
    }

    private static func basic<T: BitwiseCopyable>(_ code: Int32, _ value: T, _ iterator: inout DBusMessageIter) {
        withUnsafePointer(to: value) { _ = dbus_message_iter_append_basic(&iterator, code, $0) }
    }

    private static func text(_ code: Int32, _ text: String, _ iterator: inout DBusMessageIter) {
        text.withoutNUL.withCString { pointer in
            var pointer: UnsafePointer<CChar>? = pointer
            _ = dbus_message_iter_append_basic(&iterator, code, &pointer)
        }
    }

    fileprivate static func container(
        _ code: Int32, _ contents: String?, _ iterator: inout DBusMessageIter, _ body: (inout DBusMessageIter) -> Void
    ) {
        var inner = DBusMessageIter()
        // As an argument a String would be copied to the heap.
        _ =
            contents?.withCString { dbus_message_iter_open_container(&iterator, code, $0, &inner) }
            ?? dbus_message_iter_open_container(&iterator, code, nil, &inner)
        body(&inner)
        _ = dbus_message_iter_close_container(&iterator, &inner)
    }
}

/// An answer with one array, written element by element: it can be made in parts.
final class ArrayAnswer {
    private let message: Message
    /// The type of the elements, or of the entries' keys and values.
    private let element: Signature
    private let entry: (key: Signature, value: Signature)?
    /// libdbus' iterators, at an address of their own while the array is open.
    private let outer = UnsafeMutablePointer<DBusMessageIter>.allocate(capacity: 1)
    private let array = UnsafeMutablePointer<DBusMessageIter>.allocate(capacity: 1)
    private var isOpen = true

    /// An array of values of a type.
    convenience init(to call: Message, of element: Signature) throws(BusError) {
        try self.init(to: call, element, nil, element.rawValue)
    }

    /// A dictionary.
    convenience init(to call: Message, key: Signature, value: Signature) throws(BusError) {
        try self.init(to: call, key, (key, value), "{\(key)\(value)}")
    }

    private init(
        to call: Message, _ element: Signature, _ entry: (key: Signature, value: Signature)?, _ contents: String
    ) throws(BusError) {
        message = try call.reply()
        self.element = element
        self.entry = entry
        outer.initialize(to: DBusMessageIter())
        array.initialize(to: DBusMessageIter())
        dbus_message_iter_init_append(message.raw, outer)
        _ = dbus_message_iter_open_container(outer, TypeCode.array, contents, array)
    }

    deinit {
        if isOpen { dbus_message_iter_abandon_container(outer, array) }
        outer.deallocate()
        array.deallocate()
    }

    /// - Throws: `InvalidArgs` for a value of another type, or one that cannot travel.
    func append(_ value: DBusValue) throws(BusError) {
        guard entry == nil, value.isOf(element) else {
            throw .invalidArguments("an element of type \(value.signature) in an array of \(element)")
        }
        try ValueWriter.check(value, depth: 1, true)
        ValueWriter.append(value, to: &array.pointee)
    }

    /// - Throws: `InvalidArgs` for an entry of another type, or one that cannot travel.
    func append(_ entry: DBusValue.Entry) throws(BusError) {
        guard let type = self.entry, entry.key.isOf(type.key), entry.value.isOf(type.value) else {
            throw .invalidArguments("an entry {\(entry.key.signature)\(entry.value.signature)} that does not belong here")
        }
        try ValueWriter.check(entry.key, depth: 1, true)
        try ValueWriter.check(entry.value, depth: 1, true)
        ValueWriter.container(TypeCode.dictEntry, nil, &array.pointee) { pair in
            ValueWriter.append(entry.key, to: &pair)
            ValueWriter.append(entry.value, to: &pair)
        }
    }

    /// The answer; nothing can be appended after this.
    func finished() throws(BusError) -> Message {
        isOpen = false
        guard dbus_message_iter_close_container(outer, array) != 0 else { throw .failed("out of memory") }
        return message
    }
}

extension String {
    fileprivate var hasNUL: Bool {
        utf8.withContiguousStorageIfAvailable { !$0.isEmpty && memchr($0.baseAddress!, 0, $0.count) != nil } ?? utf8.contains(0)
    }

    /// With U+FFFD for NUL, which no text on the bus may have.
    var withoutNUL: String {
        guard hasNUL else { return self }
        var scalars = UnicodeScalarView()
        for scalar in unicodeScalars { scalars.append(scalar == "\0" ? "\u{FFFD}" : scalar) }
        return String(scalars)
    }
}

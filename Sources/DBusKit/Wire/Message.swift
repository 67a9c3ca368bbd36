// SPDX-License-Identifier: Apache-2.0
// One message on the bus: made here or received, its header fields, its arguments as values.

internal import CDBus

/// A message. Received ones are immutable; ones made here are filled before they are sent.
public final class Message {
    /// The message types of the D-Bus specification; `other` for one that it does not know.
    @frozen public enum Kind: Sendable { case call, reply, error, signal, other }

    let raw: OpaquePointer
    /// Whether NUL in a text, which cannot travel, is replaced: in signals and answers, so that one value from a
    /// stranger does not cost all others. In a call it is refused.
    private let isLenient: Bool

    init(adopting raw: OpaquePointer, isLenient: Bool = false) {
        self.raw = raw
        self.isLenient = isLenient
    }

    init(retaining raw: OpaquePointer) {
        isLenient = false
        self.raw = dbus_message_ref(raw)
    }

    deinit {
        dbus_message_unref(raw)
    }

    // MARK: Making

    /// A method call.
    ///
    /// - Parameter destination: nil for the peer of a connection without a bus.
    /// - Throws: `InvalidArgs` for a bad name or a value that cannot travel (a string with NUL).
    public static func call(
        to destination: String?, path: ObjectPath, interface: String, member: String, _ arguments: [DBusValue] = []
    ) throws(BusError) -> Message {
        try check(destination, interface, member)
        guard let raw = dbus_message_new_method_call(destination, path.rawValue, interface, member) else {
            throw .failed("out of memory")
        }
        let message = Message(adopting: raw)
        try message.append(arguments)
        return message
    }

    /// A method call without its object, of which `copy(to:)` makes calls: their common part is checked and written
    /// once. Throws as `call` does.
    static func question(
        to destination: String, interface: String, member: String, _ arguments: [DBusValue]
    ) throws(BusError) -> Message {
        try check(destination, interface, member)
        guard let raw = dbus_message_new(1) else { throw .failed("out of memory") }
        let message = Message(adopting: raw)
        guard dbus_message_set_destination(raw, destination) != 0, dbus_message_set_interface(raw, interface) != 0,
            dbus_message_set_member(raw, member) != 0
        else { throw .failed("out of memory") }
        try message.append(arguments)
        return message
    }

    /// A question as the call to this object. Nil when memory is short.
    func copy(to path: ObjectPath) -> Message? {
        guard let copy = copy(), dbus_message_set_path(copy.raw, path.rawValue) != 0 else { return nil }
        return copy
    }

    private static func check(_ destination: String?, _ interface: String, _ member: String) throws(BusError) {
        if let destination, !BusNames.isBusName(destination) { throw .invalidArguments("not a bus name: \(destination)") }
        guard BusNames.isInterface(interface) else { throw .invalidArguments("not an interface: \(interface)") }
        guard BusNames.isMember(member) else { throw .invalidArguments("not a method: \(member)") }
    }

    /// A signal, for one connection or (without `destination`) for all with a matching rule.
    public static func signal(
        path: ObjectPath, interface: String, member: String, to destination: String? = nil, _ arguments: [DBusValue] = []
    ) throws(BusError) -> Message {
        guard BusNames.isInterface(interface) else { throw .invalidArguments("not an interface: \(interface)") }
        guard BusNames.isMember(member) else { throw .invalidArguments("not a signal: \(member)") }
        guard let raw = dbus_message_new_signal(path.rawValue, interface, member) else { throw .failed("out of memory") }
        let message = Message(adopting: raw, isLenient: true)
        if let destination {
            guard BusNames.isBusName(destination) else { throw .invalidArguments("not a bus name: \(destination)") }
            dbus_message_set_destination(raw, destination)
        }
        try message.append(arguments)
        return message
    }

    /// The same message, to be sent on another connection: it gets a serial of its own there. Nil when memory is short.
    public func copy() -> Message? {
        dbus_message_copy(raw).map { Message(adopting: $0) }
    }

    /// Interface and member, for lists of calls.
    var calledMethod: String {
        let interface = dbus_message_get_interface(raw).map { String(cString: $0) } ?? ""
        return interface + "." + (dbus_message_get_member(raw).map { String(cString: $0) } ?? "")
    }

    /// An answer of another service, as the answer to `call`.
    public func copy(answering call: Message) -> Message? {
        guard let copy = copy() else { return nil }
        dbus_message_set_reply_serial(copy.raw, dbus_message_get_serial(call.raw))
        return copy
    }

    /// Sets the sender, as a bus does. Nothing happens for an invalid bus name.
    public func setSender(_ name: String) {
        guard BusNames.isBusName(name) else { return }
        dbus_message_set_sender(raw, name)
    }

    /// Sets the receiver. Nothing happens for an invalid bus name.
    public func setDestination(_ name: String) {
        // Setting a header field moves all that come after it.
        guard dbus_message_has_destination(raw, name) == 0, BusNames.isBusName(name) else { return }
        dbus_message_set_destination(raw, name)
    }

    /// The answer to a call.
    public func reply(_ arguments: [DBusValue] = []) throws(BusError) -> Message {
        guard let raw = dbus_message_new_method_return(raw) else { throw .failed("out of memory") }
        let message = Message(adopting: raw, isLenient: true)
        try message.append(arguments)
        return message
    }

    /// The error answer to a call. A name or text that cannot travel is replaced rather than refused: an answer must go
    /// out.
    public func errorReply(_ error: BusError) -> Message? {
        let name = BusNames.isErrorName(error.name) ? error.name : "org.freedesktop.DBus.Error.Failed"
        let message =
            error.message.utf8.count <= Self.maxErrorCharacters
            ? error.message : String(error.message.prefix(Self.maxErrorCharacters)) + "…"
        let text = message.withoutNUL
        return dbus_message_new_error(raw, name, text).map { Message(adopting: $0) }
    }

    /// The error answer to a call that is known by its number alone, from the bus.
    static func error(_ error: BusError, answering serial: UInt32) -> Message? {
        guard let raw = dbus_message_new(DBUS_MESSAGE_TYPE_ERROR) else { return nil }
        let message = Message(adopting: raw)
        dbus_message_set_error_name(raw, error.name)
        dbus_message_set_reply_serial(raw, serial)
        message.setSender(Bus.name)
        try? message.append([.string(error.message)])
        return message
    }

    /// The error that a receiver gets in place of an answer that may not leave; nil for another type of message.
    func errorInPlace(_ why: BusError) -> Message? {
        guard dbus_message_get_type(raw) == DBUS_MESSAGE_TYPE_METHOD_RETURN,
            let refusal = Self.error(why, answering: dbus_message_get_reply_serial(raw))
        else { return nil }
        dbus_message_set_sender(refusal.raw, dbus_message_get_sender(raw))
        dbus_message_set_destination(refusal.raw, dbus_message_get_destination(raw))
        return refusal
    }

    /// Characters of an error's text: some quote a peer's message.
    private static let maxErrorCharacters = 4096

    private func append(_ arguments: [DBusValue]) throws(BusError) {
        var writer = ValueWriter(appendingTo: raw, isLenient: isLenient)
        for argument in arguments { try writer.write(argument) }
    }

    /// Says that no answer is wanted.
    public func expectNoReply() {
        dbus_message_set_no_reply(raw, 1)
    }

    /// Says that an answer is wanted, for a call that is passed on and whose sender wants none.
    public func expectReply() {
        dbus_message_set_no_reply(raw, 0)
    }

    // MARK: Header

    /// The message's type.
    public var kind: Kind {
        switch dbus_message_get_type(raw) {
        case 1: .call
        case 2: .reply
        case 3: .error
        case 4: .signal
        default: .other
        }
    }

    /// The object that a call is for or that a signal is from; nil for answers.
    public var path: ObjectPath? { dbus_message_get_path(raw).map { ObjectPath(validated: String(cString: $0)) } }
    /// A number that stands for the path, for look-ups that cannot afford to make a String; compare with `hasPath`
    /// afterwards.
    public var pathFingerprint: UInt64 { dbus_message_get_path(raw).map { UnsafeRawBufferPointer(of: $0).fingerprint } ?? 0 }

    /// Whether the path is this one, without making a String.
    public func hasPath(_ path: ObjectPath) -> Bool { isPath(path.rawValue) }

    func isPath(_ path: String) -> Bool { dbus_message_get_path(raw).map { equals($0, path) } ?? false }

    /// Whether the path lies below this one, which is not the root.
    func isPath(below path: String) -> Bool {
        guard let pointer = dbus_message_get_path(raw) else { return false }
        var path = path
        return path.withUTF8 { UnsafeRawBufferPointer(of: pointer).isPath(below: UnsafeRawBufferPointer($0)) }
    }

    /// Whether the member is this interface's, without making a String.
    public func hasInterface(_ name: String) -> Bool { dbus_message_get_interface(raw).map { equals($0, name) } ?? false }

    /// Whether the method or the signal has this name, without making a String.
    public func hasMember(_ name: String) -> Bool { dbus_message_get_member(raw).map { equals($0, name) } ?? false }

    /// Whether this name is the sender's, without making a String.
    func hasSender(_ name: String) -> Bool { dbus_message_get_sender(raw).map { equals($0, name) } ?? false }

    /// Whether this name is its receiver, without making a String.
    public func hasDestination(_ name: String) -> Bool { dbus_message_get_destination(raw).map { equals($0, name) } ?? false }

    /// Whether it has an interface: a call need not name one.
    public var namesInterface: Bool { dbus_message_get_interface(raw) != nil }

    /// Whether descriptors came with it, or go with it, also where no argument refers to one.
    public var hasDescriptors: Bool { dbus_message_contains_unix_fds(raw) != 0 }

    /// The member's interface; nil for answers, and for a call that names none.
    public var interface: String? { dbus_message_get_interface(raw).map { String(cString: $0) } }
    /// The method's or the signal's name; nil for answers.
    public var member: String? { dbus_message_get_member(raw).map { String(cString: $0) } }
    /// The unique name of the sender, or the bus's own name; nil for a message that was made here and not sent.
    public var sender: String? { dbus_message_get_sender(raw).map { String(cString: $0) } }
    /// The receiver: a unique or a well-known name; nil for a broadcast signal.
    public var destination: String? { dbus_message_get_destination(raw).map { String(cString: $0) } }
    /// The types of all arguments in a row; empty for none.
    public var signature: String { String(cString: dbus_message_get_signature(raw)) }
    /// Whether the types of all arguments in a row are these, without making a String.
    public func hasSignature(_ signature: String) -> Bool { dbus_message_has_signature(raw, signature) != 0 }
    /// Whether the caller is prepared to wait for a person (a password, say).
    public var allowsInteraction: Bool {
        get { dbus_message_get_allow_interactive_authorization(raw) != 0 }
        set { dbus_message_set_allow_interactive_authorization(raw, newValue ? 1 : 0) }
    }
    /// Whether the caller waits for an answer.
    public var wantsReply: Bool { dbus_message_get_no_reply(raw) == 0 }

    /// The error that an error message carries.
    public var error: BusError? {
        guard kind == .error else { return nil }
        let name = dbus_message_get_error_name(raw).map { String(cString: $0) } ?? "org.freedesktop.DBus.Error.Failed"
        return BusError(name: name, message: firstText ?? "")
    }

    // MARK: Arguments

    /// All arguments as values.
    ///
    /// - Throws: `LimitsExceeded` when the peer sent more than `limits` allow.
    public func arguments(limits: DecodingLimits = .standard) throws(BusError) -> [DBusValue] {
        var decoding = Decoding(limits: limits, descriptors: hasDescriptors ? descriptors(limits.values) : [])
        return try withCursor { cursor throws(BusError) in try cursor.decodeAll(&decoding, depth: 0) } ?? []
    }

    /// Walks the arguments in place, without making values: for messages that arrive a thousand times a second. `body`
    /// is not called for a message without arguments.
    public func withArguments(_ body: (inout ValueCursor) -> Void) {
        _ = try? withCursor { body(&$0) }
    }

    private func withCursor<Result>(_ body: (inout ValueCursor) throws(BusError) -> Result) throws(BusError) -> Result? {
        var iterator = DBusMessageIter()
        // Brings the message into this machine's byte order, too.
        guard dbus_message_iter_init(raw, &iterator) != 0, let types = dbus_message_get_signature(raw) else { return nil }
        var start: UnsafeMutablePointer<CChar>?
        var length: Int32 = 0
        guard dbus_message_marshal(raw, &start, &length) != 0, let start else { throw .failed("out of memory") }
        defer { dbus_free(start) }
        let bytes = UnsafeRawBufferPointer(start: start, count: Int(length))
        guard let offset = WireMessage.bodyOffset(of: bytes) else { return nil }
        var cursor = ValueCursor(bytes, at: offset, types: UnsafeRawBufferPointer(of: types))
        return try body(&cursor)
    }

    /// The descriptors of the arguments, in their order, which libdbus alone can hand out.
    private func descriptors(_ limit: Int) -> [FileDescriptor] {
        var found: [FileDescriptor] = []
        func search(_ iterator: inout DBusMessageIter) {
            while case let code = dbus_message_iter_get_arg_type(&iterator), code != TypeCode.invalid, found.count < limit {
                switch code {
                case TypeCode.unixFD:
                    var descriptor: Int32 = -1
                    dbus_message_iter_get_basic(&iterator, &descriptor)
                    found.append(FileDescriptor(owning: descriptor))
                case TypeCode.array, TypeCode.variant, TypeCode.structure, TypeCode.dictEntry:
                    var inside = DBusMessageIter()
                    dbus_message_iter_recurse(&iterator, &inside)
                    search(&inside)
                default: break
                }
                dbus_message_iter_next(&iterator)
            }
        }
        var iterator = DBusMessageIter()
        if dbus_message_iter_init(raw, &iterator) != 0 { search(&iterator) }
        return found
    }

    // MARK: The wire

    /// The message as bytes, for tests and fuzzing.
    public var wireFormat: [UInt8]? {
        // A message gets its serial when it is sent; without one it cannot be marshalled.
        if dbus_message_get_serial(raw) == 0 { dbus_message_set_serial(raw, 1) }
        var buffer: UnsafeMutablePointer<CChar>?
        var length: Int32 = 0
        guard dbus_message_marshal(raw, &buffer, &length) != 0, let buffer else { return nil }
        defer { dbus_free(buffer) }
        return buffer.withMemoryRebound(to: UInt8.self, capacity: Int(length)) {
            Array(UnsafeBufferPointer(start: $0, count: Int(length)))
        }
    }

    /// The message as bytes, to be sent with this number.
    func wireFormat(serial: UInt32) -> [UInt8]? {
        dbus_message_set_serial(raw, serial)
        return wireFormat
    }

    /// A message from bytes; nil when libdbus finds them invalid.
    public static func demarshal(_ bytes: [UInt8]) -> Message? { bytes.withUnsafeBytes { demarshal($0) } }

    static func demarshal(_ bytes: UnsafeRawBufferPointer) -> Message? {
        guard let start = bytes.baseAddress else { return nil }
        return dbus_message_demarshal(start.assumingMemoryBound(to: CChar.self), Int32(bytes.count), nil)
            .map { Message(adopting: $0) }
    }
}

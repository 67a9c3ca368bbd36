// SPDX-License-Identifier: Apache-2.0
// What somebody else said, said on to others: with the same arguments, and a header of its own that is written once.
// libdbus would copy the message, and move the whole header for each name in it that becomes another one. What cannot
// go out at once by a single write goes that way.

internal import CDBus
internal import Effects

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

extension Connection {
    /// Passes an answer, or an error, on as the answer to a call that came on this connection.
    ///
    /// - Parameters:
    ///   - call: which is answered.
    ///   - sender: whom the answer is from; a bus name.
    ///   - destination: whom it is for; a bus name.
    public func pass(_ answer: Message, answering call: Message, from sender: String, to destination: String) {
        let names = PassedNames(sender: sender, destination: destination, replySerial: dbus_message_get_serial(call.raw))
        if let why = whyNot(answer) {
            if let error = call.errorReply(why) { send(error) }
            return
        }
        guard writeOn(answer, names) == nil else { return noteAnswer(to: names.replySerial) }
        guard let copy = answer.copy(answering: call) else { return }
        copy.setSender(sender)
        copy.setDestination(destination)
        send(copy)
    }

    /// Passes a signal on, to a client that has asked for it.
    ///
    /// - Parameter sender: whom the signal is from; a bus name.
    public func pass(signal: Message, from sender: String) {
        guard whyNot(signal) == nil, writeOn(signal, PassedNames(sender: sender)) == nil, let copy = signal.copy() else { return }
        copy.setSender(sender)
        send(copy)
    }

    /// Passes a call on: `completion` gets the answer as it came, an error too, or nil when the bus has gone. There is
    /// no time-out; `forget` ends the wait. An answer is asked for even if the caller wants none.
    ///
    /// - Parameter destination: whom it is for; a bus name.
    /// - Returns: the number that `forget` takes.
    public func pass(_ call: Message, to destination: String, completion: @escaping (Message?) -> Void) -> UInt32 {
        let effect = Effect(.call, "passed " + call.calledMethod)
        if isConnected, let serial = writeOn(call, PassedNames(destination: destination, wantsReply: true)) {
            effect.done()
            expectAnswer(serial, effect.answering(completion))
            return serial
        }
        guard let copy = call.copy() else {
            loop.soon { completion(nil) }
            return 0
        }
        copy.setDestination(destination)
        copy.expectReply()
        return forward(copy, completion: completion)
    }

    /// Writes a message at once, past libdbus' queue, which must be empty.
    ///
    /// - Returns: its number here; nil when it was not written.
    private func writeOn(_ message: Message, _ names: PassedNames) -> UInt32? {
        guard dbus_message_contains_unix_fds(message.raw) == 0, dbus_message_get_serial(message.raw) != 0,
            dbus_connection_has_messages_to_send(raw) == 0, let socket
        else { return nil }
        var start: UnsafeMutablePointer<CChar>?
        var length: Int32 = 0
        guard dbus_message_marshal(message.raw, &start, &length) != 0, let start else { return nil }
        defer { dbus_free(start) }
        let bytes = UnsafeRawBufferPointer(start: start, count: Int(length))
        guard bytes.count <= PassedNames.longest, let body = WireMessage.body(of: bytes) else { return nil }
        let serial = nextPassedSerial()
        let written: Int? = withUnsafeTemporaryAllocation(byteCount: PassedNames.longestHeader, alignment: 8) { space in
            guard let header = names.writeHeader(of: message, bytes[1], bytes[2], body.count, serial, to: space) else { return nil }
            return Self.write(header, body, to: socket)
        }
        guard let written else { return nil }
        // The kernel takes so little whole or not at all; else the rest could not be made up for.
        if written != 0 { close() }
        return serial
    }

    /// Bytes that were not written; nil when none were.
    private static func write(_ header: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer, to socket: Int32) -> Int? {
        var parts = (
            iovec(iov_base: UnsafeMutableRawPointer(mutating: header.baseAddress), iov_len: header.count),
            iovec(iov_base: UnsafeMutableRawPointer(mutating: body.baseAddress), iov_len: body.count)
        )
        let sent = withUnsafeMutablePointer(to: &parts) { parts in
            parts.withMemoryRebound(to: iovec.self, capacity: 2) { parts in
                var whole = msghdr()
                whole.msg_iov = parts
                whole.msg_iovlen = body.isEmpty ? 1 : 2
                return sendmsg(socket, &whole, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
            }
        }
        return sent < 0 ? nil : header.count + body.count - sent
    }
}

/// What is another in the header of a message that is passed on. Other fields stay, but for those of a later version of
/// the protocol.
private struct PassedNames {
    /// Bytes of a message that is written at once; the kernel takes it in one piece.
    static let longest = 8192
    /// Bytes of its header: what lies on the stack.
    static let longestHeader = 1024

    var sender: String?
    var destination: String?
    var replySerial: UInt32 = 0
    var wantsReply = false

    /// - Returns: the header; nil when it is too long.
    func writeHeader(
        of message: Message, _ type: UInt8, _ flags: UInt8, _ body: Int, _ serial: UInt32, to space: UnsafeMutableRawBufferPointer
    ) -> UnsafeRawBufferPointer? {
        var writer = HeaderWriter(space)
        let raw = message.raw
        if let path = dbus_message_get_path(raw) { writer.text(1, "o", path) }
        if let interface = dbus_message_get_interface(raw) { writer.text(2, "s", interface) }
        if let member = dbus_message_get_member(raw) { writer.text(3, "s", member) }
        if let error = dbus_message_get_error_name(raw) { writer.text(4, "s", error) }
        if replySerial != 0 { writer.number(5, replySerial) }
        if var destination { destination.withUTF8 { writer.text(6, "s", UnsafeRawBufferPointer($0)) } }
        if var sender { sender.withUTF8 { writer.text(7, "s", UnsafeRawBufferPointer($0)) } }
        if let signature = dbus_message_get_signature(raw), signature[0] != 0 { writer.text(8, "g", signature) }
        // NO_REPLY_EXPECTED is 1.
        return writer.finish(type, wantsReply ? flags & ~1 : flags, body, serial)
    }
}

/// Writes a header, field by field. (D-Bus Specification, "Message Format")
private struct HeaderWriter {
    private let space: UnsafeMutableRawBufferPointer
    private var position = WireMessage.prefix
    private var hasRoom = true

    init(_ space: UnsafeMutableRawBufferPointer) {
        self.space = space
    }

    mutating func text(_ code: UInt8, _ type: Unicode.Scalar, _ text: UnsafePointer<CChar>) {
        self.text(code, type, UnsafeRawBufferPointer(start: text, count: strlen(text)))
    }

    mutating func text(_ code: UInt8, _ type: Unicode.Scalar, _ text: UnsafeRawBufferPointer) {
        guard begin(code, type, text.count + 5) else { return }
        if type == "g" {
            space[position] = UInt8(text.count)
            position += 1
        } else {
            append(UInt32(text.count))
        }
        UnsafeMutableRawBufferPointer(rebasing: space[position...]).copyMemory(from: text)
        position += text.count
        space[position] = 0
        position += 1
    }

    mutating func number(_ code: UInt8, _ number: UInt32) {
        if begin(code, "u", 4) { append(number) }
    }

    /// Begins a field of at most so many bytes after its type; false without room for it.
    private mutating func begin(_ code: UInt8, _ type: Unicode.Scalar, _ count: Int) -> Bool {
        hasRoom = hasRoom && position + 7 + 4 + count + 7 <= space.count
        guard hasRoom else { return false }
        pad()
        space[position] = code
        space[position + 1] = 1
        space[position + 2] = UInt8(ascii: type)
        space[position + 3] = 0
        position += 4
        return true
    }

    private mutating func pad() {
        while position & 7 != 0 {
            space[position] = 0
            position += 1
        }
    }

    private mutating func append(_ number: UInt32) {
        space.storeBytes(of: number, toByteOffset: position, as: UInt32.self)
        position += 4
    }

    mutating func finish(_ type: UInt8, _ flags: UInt8, _ body: Int, _ serial: UInt32) -> UnsafeRawBufferPointer? {
        guard hasRoom else { return nil }
        let fields = UInt32(position - WireMessage.prefix)
        pad()
        let end = position
        space[0] = WireMessage.order
        space[1] = type
        space[2] = flags
        space[3] = 1
        position = 4
        append(UInt32(body))
        append(serial)
        append(fields)
        return UnsafeRawBufferPointer(rebasing: space[..<end])
    }
}

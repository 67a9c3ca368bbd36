// SPDX-License-Identifier: Apache-2.0
// Adverts as they come off the wire, to our own reader of messages: whatever the bytes, it accepts the same signals as
// libdbus, and walks through them without leaving the bytes (AddressSanitizer watches).

import CDBus

@testable import DBusKit

func readAdvert(_ input: UnsafeRawBufferPointer) {
    guard let length = try? WireMessage.length(of: input), length <= input.count else { return }
    // A copy, so that a byte too far is noticed.
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 16)
    defer { copy.deallocate() }
    copy.copyMemory(from: UnsafeRawBufferPointer(rebasing: input[..<length]))
    let bytes = UnsafeRawBufferPointer(copy)
    let ours = signal(bytes)
    let theirs = dbus_message_demarshal(bytes.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(length), nil)
    defer { if let theirs { dbus_message_unref(theirs) } }
    if ours == nil, let last, last.fits(bytes), isBodyValid(last.message, bytes) {
        found("the last header fits what is invalid")
    }
    let isTheirs = theirs.map { dbus_message_get_type($0) == 4 } ?? false
    guard (ours != nil) == isTheirs else { found(ours == nil ? "libdbus accepts it" : "libdbus refuses it") }
    guard let ours else { return }
    var cursor = ValueCursor(
        bytes, at: ours.bodyOffset, types: UnsafeRawBufferPointer(rebasing: bytes[ours.signature]))
    walk(&cursor)
    compareWithLast(ours, bytes)
}

// nonisolated(unsafe), both: libFuzzer calls the entry point from one thread, one input after the other.

/// The header of the last input that was valid. A message that fits it must give the same result as the plain way.
nonisolated(unsafe) private var last: ValidHeader?
nonisolated(unsafe) private var memory = ValueMemory()

private func compareWithLast(_ message: WireMessage, _ bytes: UnsafeRawBufferPointer) {
    if let last, last.fits(bytes), last.message.path != message.path || last.message.signature != message.signature {
        found("the last header fits another")
    }
    let own = ValidHeader(message, bytes)
    guard own.fits(bytes) else { found("a header does not fit itself") }
    last = own
}

/// The message when it is a signal and valid throughout.
private func signal(_ bytes: UnsafeRawBufferPointer) -> WireMessage? {
    guard let message = try? WireMessage(bytes), message.type == WireMessage.signal else { return nil }
    return isBodyValid(message, bytes) ? message : nil
}

private func isBodyValid(_ message: WireMessage, _ bytes: UnsafeRawBufferPointer) -> Bool {
    var body = WireValidator(bytes, from: message.bodyOffset, to: bytes.count)
    return body.values(UnsafeRawBufferPointer(rebasing: bytes[message.signature]), depth: 0) && body.isAtEnd
}

private func walk(_ cursor: inout ValueCursor) {
    repeat {
        _ = cursor.string
        _ = cursor.int16
        _ = cursor.uint16
        _ = cursor.boolean
        _ = cursor.bytes
        _ = cursor.fingerprint
        _ = cursor.isString("RSSI")
        _ = cursor.isBytes([1, 2, 3])
        _ = cursor.isUnchanged(since: &memory)
        cursor.withVariant { walk(&$0) }
        cursor.forEachElement { walk(&$0) }
        cursor.forEachEntry { walk(&$0) }
    } while cursor.next()
}

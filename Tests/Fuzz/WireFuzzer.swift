// SPDX-License-Identifier: Apache-2.0
// Our own reader of messages under libFuzzer: whatever the bytes, it takes for a valid signal what libdbus takes for
// one, and walks through it without leaving the bytes (AddressSanitizer watches). Compiled together with the reader's
// own sources by Tests/Fuzz/run.

import CDBus

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard let length = try? WireMessage.length(of: UnsafeRawBufferPointer(start: start, count: count)), length <= count else {
        return 0
    }
    // A copy, so that a byte too far is noticed.
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 16)
    defer { copy.deallocate() }
    copy.copyMemory(from: UnsafeRawBufferPointer(start: start, count: length))
    let bytes = UnsafeRawBufferPointer(copy)
    let ours = signal(bytes)
    let theirs = dbus_message_demarshal(start.withMemoryRebound(to: CChar.self, capacity: count) { $0 }, Int32(length), nil)
    defer { if let theirs { dbus_message_unref(theirs) } }
    if ours == nil, let known, known.fits(bytes), isBodyValid(known.message, bytes) {
        found("a known header fits what is invalid")
    }
    let isTheirs = theirs.map { dbus_message_get_type($0) == 4 } ?? false
    guard (ours != nil) == isTheirs else { found(ours == nil ? "libdbus accepts it" : "libdbus refuses it") }
    guard let ours else { return 0 }
    var cursor = SpanCursor(
        bytes, at: ours.bodyOffset, types: UnsafeRawBufferPointer(rebasing: bytes[ours.signature]))
    walk(&cursor)
    compareWithKnown(ours, bytes)
    return 0
}

private func found(_ what: String) -> Never {
    // Ends the process on purpose: libFuzzer keeps the input that did it.
    fatalError(what)
}

// nonisolated(unsafe), both: libFuzzer calls the entry point from one thread, one input after the other.

/// The header of the last input that was valid. What fits it must be what the plain way found.
nonisolated(unsafe) private var known: KnownHeader?
nonisolated(unsafe) private var memory = ValueMemory()

private func compareWithKnown(_ message: WireMessage, _ bytes: UnsafeRawBufferPointer) {
    if let known, known.fits(bytes), known.message.path != message.path || known.message.signature != message.signature {
        found("a known header fits another")
    }
    let own = KnownHeader(message, bytes)
    guard own.fits(bytes) else { found("a header does not fit itself") }
    known = own
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

private func walk(_ cursor: inout SpanCursor) {
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

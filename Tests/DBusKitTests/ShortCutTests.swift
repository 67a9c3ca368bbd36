// SPDX-License-Identifier: Apache-2.0
// The short cuts of our own reader against the plain way: a header that is compared instead of read, a value that is
// known by its bytes.

import TestSupport
import Testing

@testable import DBusKit

@Suite struct ShortCutTests {
    private static func change(_ path: String, serial: UInt32 = 7, sender: String = ":1.7") throws -> [UInt8] {
        let message = try Message.signal(
            path: try #require(ObjectPath(path)), interface: Bus.properties, member: "PropertiesChanged", [.string("a.b")])
        message.setSender(sender)
        return try #require(message.wireFormat(serial: serial))
    }

    private static func header(of bytes: [UInt8]) throws -> ValidHeader {
        try bytes.withUnsafeBytes { ValidHeader(try WireMessage($0), $0) }
    }

    /// Whether the bytes have the known header; if so, the plain way must find them valid, and everything in the same
    /// places.
    private static func fits(_ bytes: [UInt8], _ known: ValidHeader) -> Bool {
        bytes.withUnsafeBytes { bytes in
            guard let length = try? WireMessage.length(of: bytes), length == bytes.count, known.fits(bytes) else { return false }
            let read = try? WireMessage(bytes)
            #expect(read?.type == WireMessage.signal && read?.bodyOffset == known.message.bodyOffset)
            #expect(read?.path == known.message.path && read?.signature == known.message.signature)
            for range in [known.message.interface, known.message.member, known.message.sender] {
                #expect(range == read?.interface || range == read?.member || range == read?.sender)
            }
            return true
        }
    }

    @Test func aValidHeaderFitsOtherObjectsAndNumbers() throws {
        let known = try Self.header(of: try Self.change("/org/bluez/hci0/dev_1"))
        #expect(Self.fits(try Self.change("/org/bluez/hci0/dev_2", serial: 8), known))
        #expect(Self.fits(try Self.change("/org/other/hci0/dev_1"), known))
        #expect(!Self.fits(try Self.change("/org/bluez/hci0/dev_12"), known))
        #expect(!Self.fits(try Self.change("/org/bluez/hci0/dev_1", sender: ":1.8"), known))
        #expect(!Self.fits(try Self.change("/org/bluez/hci0/dev_1", sender: ":1.71"), known))
    }

    /// Each byte of the header in turn, with every value.
    @Test func aDamagedHeaderFitsOnlyWhereItIsValid() throws {
        let whole = try Self.change("/org/freedesktop/DBus/Locak")
        let known = try Self.header(of: whole)
        var fitting = 0
        var valid = 0
        for place in 0..<known.message.bodyOffset {
            for value in 0...255 as ClosedRange<UInt8> {
                var bytes = whole
                bytes[place] = value
                if Self.fits(bytes, known) { fitting += 1 }
                if Self.isValid(bytes) { valid += 1 }
            }
        }
        // Other flags, numbers and paths are most of the valid messages; the path of libraries themselves is not among
        // them.
        #expect(fitting > 1000 && fitting <= valid)
        #expect(!Self.fits(try Self.replacing(whole, "/org/freedesktop/DBus/Locak", "/org/freedesktop/DBus/Local"), known))
    }

    private static func isValid(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { bytes in
            (try? WireMessage.length(of: bytes)) == bytes.count && (try? WireMessage(bytes)) != nil
        }
    }

    private static func replacing(_ bytes: [UInt8], _ old: String, _ new: String) throws -> [UInt8] {
        let place = try #require(bytes.indices.first { bytes[$0...].starts(with: old.utf8) })
        return bytes[..<place] + Array(new.utf8) + bytes[(place + old.utf8.count)...]
    }

    /// A variant behind a text, whose length decides where it stands.
    private static func variant(_ value: DBusValue, behind text: String = "") throws -> [UInt8] {
        let message = try Message.signal(path: "/a", interface: "a.b", member: "C", [.string(text), .variant(value)])
        return try #require(message.wireFormat)
    }

    private static func isUnchanged(_ bytes: [UInt8], since memory: inout ValueMemory) throws -> Bool {
        try bytes.withUnsafeBytes { bytes in
            let read = try WireMessage(bytes)
            var cursor = ValueCursor(
                bytes, at: read.bodyOffset, types: UnsafeRawBufferPointer(rebasing: bytes[read.signature]))
            cursor.next()
            return cursor.isUnchanged(since: &memory)
        }
    }

    private static func payload(_ bytes: [UInt8]) -> DBusValue {
        .dictionary(key: "q", value: "v", [.init(.uint16(0xFFFF), .variant(.bytes(bytes)))])
    }

    @Test func aValueIsUnchangedWhenItsBytesAre() throws {
        var memory = ValueMemory()
        let first = try Self.variant(Self.payload([1, 2, 3, 4]))
        #expect(try !Self.isUnchanged(first, since: &memory))
        #expect(try Self.isUnchanged(first, since: &memory))
        for place in 0..<4 {
            var payload: [UInt8] = [1, 2, 3, 4]
            payload[place] ^= 1
            let other = try Self.variant(Self.payload(payload))
            #expect(try !Self.isUnchanged(other, since: &memory) && Self.isUnchanged(other, since: &memory))
            #expect(try !Self.isUnchanged(first, since: &memory) && Self.isUnchanged(first, since: &memory))
        }
        #expect(try !Self.isUnchanged(try Self.variant(Self.payload([1, 2, 3])), since: &memory))
        #expect(try !Self.isUnchanged(try Self.variant(Self.payload([1, 2, 3, 4, 0])), since: &memory))
    }

    /// The same bytes at another alignment are another value: padding becomes a length there.
    @Test func theSameBytesElsewhereAreNotTheSame() {
        var memory = ValueMemory()
        let bytes: [UInt8] = [2, 0x61, 0x79, 0, 0, 0, 0, 0]
        func isSame(at position: Int) -> Bool { bytes.withUnsafeBytes { memory.isSame($0, at: position) } }
        #expect(!isSame(at: 16) && isSame(at: 16) && isSame(at: 24))
        for position in 17..<24 { #expect(!isSame(at: position) && isSame(at: position)) }
    }

    @Test func longValuesAreNotKept() throws {
        var memory = ValueMemory()
        let long = try Self.variant(Self.payload([UInt8](repeating: 1, count: ValueMemory.maxBytes)))
        #expect(try !Self.isUnchanged(long, since: &memory) && !Self.isUnchanged(long, since: &memory))
    }

    /// The comparison does not depend on the reader of the message.
    @Test func aMessageOfLibdbusIsComparedToo() throws {
        var memory = ValueMemory()
        let value = try Self.variant(Self.payload([1]))
        #expect(try !Self.isUnchanged(value, since: &memory))
        try #require(Message.demarshal(value)).withArguments { arguments in
            arguments.next()
            let isUnchanged = arguments.isUnchanged(since: &memory)
            #expect(isUnchanged)
        }
    }

    /// Random values in random places: never unchanged when libdbus sees another value, always when nothing changes.
    @Test(arguments: [1, 2, 3] as [UInt64]) func unchangedIsNeverAnotherValue(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        var memory = ValueMemory()
        var former: DBusValue?
        for _ in 0..<2000 {
            let value = WireTests.value(&random, depth: 2)
            let text = String(repeating: "x", count: .random(in: 0...8, using: &random))
            let bytes = try Self.variant(value, behind: text)
            if try Self.isUnchanged(bytes, since: &memory) { #expect(former == value) }
            // A short one, with its header.
            if bytes.count < 160 { #expect(try Self.isUnchanged(bytes, since: &memory)) }
            former = value
        }
    }

    @Test func fingerprintsChangeWithEachByte() throws {
        for count in 0...40 {
            let bytes = [UInt8](repeating: 0x61, count: count)
            let fingerprint = bytes.withUnsafeBytes { $0.fingerprint }
            let path = String(decoding: bytes, as: UTF8.self)
            #expect(path.withCString { UnsafeRawBufferPointer(of: $0).fingerprint } == fingerprint)
            for place in 0..<count {
                var other = bytes
                other[place] = 0x62
                #expect(other.withUnsafeBytes { $0.fingerprint } != fingerprint)
            }
        }
    }

    @Test func aValueIsOfItsOwnTypeOnly() throws {
        let values: [DBusValue] = [
            .byte(1), .boolean(true), .int16(1), .uint16(1), .int32(1), .uint32(1), .int64(1), .uint64(1), .double(1), .string("a"),
            .objectPath("/"), .signature("s"), .bytes([1]), .array(of: "s", []), .dictionary(key: "s", value: "v", []),
            .structure([.byte(1), .string("a")]), .variant(.byte(1)),
        ]
        for value in values {
            for other in values { #expect(value.isOf(other.signature) == (value.signature == other.signature)) }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// The connection that listens, against a socket that sends data which no bus would send, and in odd pieces.

import TestSupport
import Testing

@testable import DBusKit

@Suite struct SignalFeedTests {
    private let loop = MainLoop()
    private let bus: PlayedBus

    init() throws {
        bus = try PlayedBus(on: loop)
    }

    private final class Told {
        var changes: [String] = []
        var failures: [String] = []
    }

    private func open(_ told: Told) throws -> SignalFeed {
        try SignalFeed(
            bus.address, loop: loop, stream: .init(sender: ":1.7", namespace: "/org/bluez", interface: "org.bluez.Device1"),
            pause: .milliseconds(5),
            onChange: { source, arguments in
                var text = source.objectPath.rawValue
                arguments.next()
                arguments.forEachEntry { entry in
                    text += " " + (entry.string ?? "")
                    entry.next()
                    entry.withVariant { text += "=\($0.int16.map { "\($0)" } ?? $0.string ?? "?")" }
                }
                told.changes.append(text)
            }, onFailure: { told.failures.append($0) })
    }

    private func change(
        _ number: Int, sender: String = ":1.7", path: ObjectPath = "/org/bluez/hci0/dev_1", interface: String = "org.bluez.Device1",
        name: String? = nil
    ) throws -> [UInt8] {
        let value = name.map { DBusValue.string($0) } ?? .int16(Int16(number))
        let message = try Message.signal(
            path: path, interface: Bus.properties, member: "PropertiesChanged",
            [.string(interface), .vardict(["RSSI": value]), .array(of: "s", [])])
        message.setSender(sender)
        return try #require(message.wireFormat(serial: UInt32(number + 1)))
    }

    private static let greeting = Array("OK 0123456789abcdef\r\n".utf8)

    /// Whatever pieces the kernel hands over.
    @Test(arguments: [1, 2, 3, 7, 16, 100, 1000]) func messagesComeInAnyPieces(size: Int) throws {
        let told = Told()
        let feed = try open(told)
        var bytes = Self.greeting
        for number in 0..<20 { bytes += try change(number) }
        var index = 0
        while index < bytes.count {
            bus.say(Array(bytes[index..<min(index + size, bytes.count)]))
            index += size
            loop.iterate(mayBlock: false)
        }
        #expect(loop.run(until: { told.changes.count == 20 }, timeout: .hang))
        #expect(told.changes.last == "/org/bluez/hci0/dev_1 RSSI=19" && told.failures.isEmpty)
        feed.close()
    }

    /// Longer than the buffer, and small ones after it.
    @Test func aLongMessageFits() throws {
        let told = Told()
        let feed = try open(told)
        bus.say(Self.greeting)
        bus.say(try change(1, name: String(repeating: "x", count: 100_000)))
        bus.say(try change(2))
        #expect(loop.run(until: { told.changes.count == 2 }, timeout: .hang))
        #expect(told.changes[0].utf8.count > 100_000 && told.changes[1].hasSuffix("RSSI=2"))
        feed.close()
    }

    /// A signal that is not part of the stream is not delivered as if it were.
    @Test func onlyTheStreamIsTold() throws {
        let told = Told()
        let feed = try open(told)
        var signals: [String] = []
        feed.subscribe(sender: ":1.7", path: "/", interface: "a.b", member: "C") { signals.append($0.sender ?? "") }
        var others = 0
        feed.subscribe(
            sender: ":1.7", path: nil, interface: Bus.properties, member: "PropertiesChanged", argument0: "org.bluez.Adapter1"
        ) {
            message in
            if (try? message.arguments())?.first?.stringValue == "org.bluez.Adapter1" { others += 1 }
        }
        bus.say(Self.greeting)
        bus.say(try change(1, sender: ":1.8"))
        bus.say(try change(1, path: "/org/bluezX/hci0"))
        bus.say(try change(1, path: "/org/bluez"))
        bus.say(try change(1, interface: "org.bluez.Adapter1"))
        for sender in [":1.8", ":1.7"] {
            let other = try Message.signal(path: "/", interface: "a.b", member: "C", [.string(sender)])
            other.setSender(sender)
            bus.say(try #require(other.wireFormat(serial: 9)))
        }
        bus.say(try change(2))
        #expect(loop.run(until: { !told.changes.isEmpty }, timeout: .hang))
        #expect(told.changes == ["/org/bluez/hci0/dev_1 RSSI=2"] && signals == [":1.7"] && told.failures.isEmpty)
        // Of another interface, the same signal is one among others.
        #expect(others == 1)
        feed.close()
    }

    /// The causes that end it, once, with a reason.
    @Test(arguments: [
        ("REJECTED EXTERNAL\r\n", "refused us: REJECTED"), (String(repeating: "x", count: 2000), "does not speak"),
        ("OK 1\r\nnonsense from here on.", "byte order"), ("OK 1\r\nl\u{4}\u{1}\u{2}567890123456", "protocol version"),
    ])
    func nonsenseEndsIt(words: String, reason: String) throws {
        let told = Told()
        let feed = try open(told)
        var answers: [BusError] = []
        feed.call(try Message.call(to: "a.b", path: "/", interface: "a.b", member: "C")) { result in
            if case .failure(let error) = result { answers.append(error) }
        }
        bus.say(words)
        #expect(loop.run(until: { !told.failures.isEmpty }, timeout: .hang))
        #expect(told.failures.count == 1 && told.failures[0].contains(reason), "\(told.failures)")
        #expect(answers.count == 1 && told.changes.isEmpty)
    }

    /// Each byte of a change damaged in turn, with undamaged changes behind it: the feed delivers the same whether or
    /// not an undamaged one has made the header known before.
    @Test func aKnownHeaderMakesNoDifference() throws {
        let whole = try change(1)
        for place in whole.indices {
            var bytes = whole
            bytes[place] ^= 0x01
            let next = try change(2)
            var outcomes: [[String]] = []
            for before in [[], whole] {
                let bus = try PlayedBus(on: loop)
                let told = Told()
                let feed = try SignalFeed(
                    bus.address, loop: loop, stream: .init(sender: ":1.7", namespace: "/org/bluez", interface: "org.bluez.Device1"),
                    pause: .milliseconds(1),
                    onChange: { source, arguments in
                        arguments.next()
                        var text = source.objectPath.rawValue
                        arguments.forEachEntry { entry in
                            text += " " + (entry.string ?? "")
                            entry.next()
                            entry.withVariant { text += "=\($0.int16.map { "\($0)" } ?? "?")" }
                        }
                        told.changes.append(text)
                    }, onFailure: { told.failures.append($0) })
                bus.say(Self.greeting + before + bytes + next)
                #expect(loop.run(until: { !bus.heard().isEmpty }, timeout: .hang))
                bus.hangUp()
                #expect(loop.run(until: { !told.failures.isEmpty }, timeout: .hang))
                outcomes.append(Array(told.changes.dropFirst(before.isEmpty ? 0 : 1)) + told.failures)
                feed.close()
            }
            #expect(outcomes[0] == outcomes[1], "byte \(place)")
        }
    }

    /// Once for all that has come, after it.
    @Test func theEndOfAReadingIsTold() throws {
        var told: [String] = []
        let feed = try SignalFeed(
            bus.address, loop: loop, stream: .init(sender: ":1.7", namespace: "/org/bluez", interface: "org.bluez.Device1"),
            pause: .milliseconds(5), onChange: { _, _ in told.append("change") }, onRead: { told.append("read") },
            onFailure: { told.append($0) })
        bus.say(Self.greeting + (try change(1)) + (try change(2)) + (try change(3, sender: ":1.8")))
        #expect(loop.run(until: { told.last == "read" }, timeout: .hang))
        #expect(told == ["change", "change", "read"])
        bus.say(try change(4, sender: ":1.8"))
        #expect(!loop.run(until: { told.count > 3 }, timeout: .milliseconds(50)))
        feed.close()
    }

    /// Each byte of a change damaged in turn: it is delivered as it stands, or ends the stream; half a change is never
    /// delivered.
    @Test func damagedChangesAreNotTold() throws {
        let whole = try change(1)
        var ended = 0
        for place in whole.indices {
            let bus = try PlayedBus(on: loop)
            let told = Told()
            let feed = try SignalFeed(
                bus.address, loop: loop, stream: .init(sender: ":1.7", namespace: "/org/bluez", interface: "org.bluez.Device1"),
                pause: .milliseconds(5), onChange: { _, _ in told.changes.append("") }, onFailure: { told.failures.append($0) })
            var bytes = whole
            bytes[place] ^= 0x80
            bus.say(Self.greeting + bytes)
            let next = try change(2)
            bus.say(next + next)
            // A length that is too long waits for bytes that never come: the end of the connection ends that.
            loop.iterate(mayBlock: false)
            for _ in 0..<20 where told.failures.isEmpty && told.changes.isEmpty { loop.iterate(mayBlock: false) }
            bus.hangUp()
            #expect(loop.run(until: { !told.failures.isEmpty }, timeout: .hang))
            if told.changes.isEmpty { ended += 1 }
            feed.close()
        }
        #expect(ended > whole.count / 2)
    }

    @Test func aBusThatHangsUpIsTold() throws {
        let told = Told()
        let feed = try open(told)
        bus.say(Self.greeting)
        #expect(loop.run(until: { !bus.heard().isEmpty }, timeout: .hang))
        bus.hangUp()
        #expect(loop.run(until: { !told.failures.isEmpty }, timeout: .hang))
        withExtendedLifetime(feed) {}
    }

    @Test(arguments: ["tcp:host=127.0.0.1,port=1", "unix:path=/nonexistent", "nonsense"])
    func whatIsNoSocketIsAnError(address: String) {
        #expect(throws: BusError.self) {
            _ = try SignalFeed(
                .server(address), loop: loop, stream: .init(sender: ":1.7", namespace: "/", interface: "a.b"),
                pause: .milliseconds(5), onChange: { _, _ in }, onFailure: { _ in })
        }
    }

    /// The real bus: it understands the messages that we send at once, and an answer comes in order with the stream.
    @Test func theRealBusUnderstandsUs() throws {
        let real = try PrivateBus()
        let sender = try Connection(.server(real.address), loop: loop)
        var changes = 0
        var failures: [String] = []
        let feed = try SignalFeed(
            .server(real.address), loop: loop,
            stream: .init(sender: sender.uniqueName, namespace: "/org/bluez", interface: "org.bluez.Device1"),
            pause: .milliseconds(5), onChange: { _, _ in changes += 1 }, onFailure: { failures.append($0) })
        var owner: String?
        feed.call(
            try Message.call(
                to: Bus.name, path: Bus.path, interface: Bus.name, member: "GetNameOwner", [.string(sender.uniqueName)])
        ) { owner = (try? $0.get().arguments())?.first?.stringValue }
        #expect(loop.run(until: { owner != nil || !failures.isEmpty }, timeout: .hang))
        #expect(owner == sender.uniqueName && failures.isEmpty)
        for _ in 0..<500 {
            sender.send(
                try Message.signal(
                    path: "/org/bluez/hci0/dev_1", interface: Bus.properties, member: "PropertiesChanged",
                    [.string("org.bluez.Device1"), .vardict(["RSSI": .int16(-50)]), .array(of: "s", [])]))
        }
        #expect(loop.run(until: { changes == 500 || !failures.isEmpty }, timeout: .hang))
        #expect(changes == 500 && failures.isEmpty)
        feed.close()
    }
}

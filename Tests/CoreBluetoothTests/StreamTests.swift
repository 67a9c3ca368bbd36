// SPDX-License-Identifier: Apache-2.0
// The streams of AccessoryStreams over managers and peripherals, beside a delegate that hears the same.

import AccessoryStreams
import CoreBluetooth
import DBusKit
import Dispatch
import Foundation
import TestSupport
import Testing

@Suite(.serialized) struct StreamTests {
    private static func discovered() async throws -> App {
        let app = try await App(try World())
        try await app.connect()
        try await app.discover()
        return app
    }

    /// The error with which a stream ends; empty without one.
    private static func end(of values: CharacteristicValues) async -> String {
        do {
            for try await _ in values {}
            return ""
        } catch {
            return Recorder.name(error)
        }
    }

    /// The next values of a stream, in hexadecimal.
    private static func next(_ count: Int, of values: CharacteristicValues) async throws -> [String] {
        var found: [String] = []
        for try await value in values {
            found.append(Recorder.hex(value))
            if found.count == count { break }
        }
        return found
    }

    // MARK: States

    @Test func statesBeginWithThePresentOne() async throws {
        let app = try await App(try World())
        let (first, second) = (app.manager.states, app.manager.states)
        var states = first.makeAsyncIterator()
        #expect(await states.next() == .poweredOn)
        try app.world.play("adapterPowerOff", "hci0")
        #expect(await states.next() == .poweredOff)
        try app.world.play("adapterPowerOn", "hci0")
        #expect(await states.next() == .poweredOn)
        // A task that is behind gets the newest one.
        try app.world.play("adapterPowerOff", "hci0")
        try await app.events.wait("state poweredOff", count: 2)
        var late = second.makeAsyncIterator()
        #expect(await late.next() == .poweredOff)
    }

    @Test func statesFollowTheDaemon() async throws {
        let app = try await App(try World())
        var states = app.manager.states.makeAsyncIterator()
        #expect(await states.next() == .poweredOn)
        app.world.stopDaemon()
        let without = await states.next()
        #expect(without == .resetting || without == .unsupported)
        try app.world.startDaemon()
        while let state = await states.next(), state != .poweredOn {}
        #expect(app.manager.state == .poweredOn)
    }

    @Test func statesEndWithTheManager() async throws {
        let world = try World()
        let recorder = Recorder()
        var manager: CBCentralManager? = world.manager(recorder)
        let states = try #require(manager?.states)
        try await recorder.events.wait("state poweredOff")
        manager = nil
        var last: CBManagerState?
        for await state in states { last = state }
        #expect(last == .poweredOff && manager == nil)
    }

    // MARK: Values

    @Test func valuesArriveInOrderBesideTheDelegate() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        #expect(
            try await Self.next(25, of: app.peripheral.values(for: dice, bufferingPolicy: .unbounded))
                == (0..<25).map { String(format: "%02X", $0 % 10) })
        // The stream is over, and notifications with it.
        try await app.events.wait("notifying FF3F false")
        let lines = app.events.lines.filter { $0.hasPrefix("value") || $0.hasPrefix("notifying") }
        #expect(lines.first == "notifying FF3F true" && lines.last == "notifying FF3F false")
        #expect(lines[1...25] == (0..<25).map { "value FF3F " + String(format: "%02X", $0 % 10) }[...])
        #expect(!dice.isNotifying)
    }

    @Test func twoStreamsShareNotifications() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        var first: CharacteristicValues? = app.peripheral.values(for: dice)
        let second = app.peripheral.values(for: dice)
        #expect(try await Self.next(3, of: try #require(first)) == ["00", "01", "02"])
        first = nil
        #expect(try await Self.next(12, of: second).suffix(3) == ["09", "00", "01"])
        #expect(!app.events.lines.contains("notifying FF3F false") && first == nil)
        let task = Task { await Self.end(of: second) }
        task.cancel()
        #expect(await task.value == "")
        try await app.events.wait("notifying FF3F false")
    }

    /// The answers to requests of earlier streams do not end it.
    @Test func aStreamFollowsACancelledOne() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        for _ in 0..<5 { _ = app.peripheral.values(for: dice) }
        app.peripheral.setNotifyValue(false, for: dice)
        #expect(try await Self.next(3, of: app.peripheral.values(for: dice)).count == 3)
        try await app.events.wait("notifying FF3F true")
    }

    @Test func notificationsOfTheAppOutliveStreams() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        func streamAndWait(_ number: Int) async throws {
            #expect(try await Self.next(2, of: app.peripheral.values(for: dice)).count == 2)
            // Answered after the stream's last request.
            app.peripheral.writeValue(Data([1]), for: try app.characteristic("FF40"), type: .withResponse)
            try await app.events.wait("written", count: number)
        }
        app.peripheral.setNotifyValue(true, for: dice)
        try await streamAndWait(1)
        #expect(dice.isNotifying && !app.events.lines.contains("notifying FF3F false"))
        app.peripheral.setNotifyValue(false, for: dice)
        try await app.events.wait("notifying FF3F false")
        // Wanted by the app while a stream has turned them on.
        var values: CharacteristicValues? = app.peripheral.values(for: dice)
        app.peripheral.setNotifyValue(true, for: dice)
        try await streamAndWait(2)
        values = nil
        try await streamAndWait(3)
        #expect(dice.isNotifying && values == nil)
    }

    @Test(arguments: [true, false])
    func valuesBeyondTheBufferAreCounted(isNewest: Bool) async throws {
        let played = try await Played { member, _ in
            member == "StartNotify" ? [.answer([])] + (1...6).map { .value([$0]) } : nil
        }
        let values = played.peripheral.values(
            for: played.characteristic, bufferingPolicy: isNewest ? .bufferingNewest(2) : .bufferingOldest(2))
        try await played.events.wait("value", count: 6)
        #expect(values.droppedCount == 4)
        #expect(try await Self.next(2, of: values) == (isNewest ? ["05", "06"] : ["01", "02"]))
    }

    // MARK: Endings

    @Test func aLinkThatBreaksEndsValues() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        let values = app.peripheral.values(for: dice)
        _ = try await Self.next(1, of: values)
        try app.world.play("vanish", "pink")
        #expect(await Self.end(of: values) == "CBError.connectionTimeout")
        #expect(await Self.end(of: app.peripheral.values(for: dice)) == "CBError.notConnected")
    }

    @Test func theEndOfTheGrantEndsValues() async throws {
        let app = try await Self.discovered()
        let values = app.peripheral.values(for: try app.characteristic("FF3F"))
        _ = try await Self.next(1, of: values)
        try await app.world.revoke(app.identifier)
        #expect(await Self.end(of: values).hasPrefix("CBError."))
    }

    @Test func theAppEndsValues() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        let values = app.peripheral.values(for: dice)
        _ = try await Self.next(1, of: values)
        app.peripheral.setNotifyValue(false, for: dice)
        #expect(await Self.end(of: values) == "")
        let others = app.peripheral.values(for: dice)
        _ = try await Self.next(1, of: others)
        app.manager.cancelPeripheralConnection(app.peripheral)
        #expect(await Self.end(of: others) == "")
    }

    @Test func aPeripheralOrManagerThatIsReleasedEndsValues() async throws {
        let world = try World()
        let identifier = try await world.grant()
        for releasesManager in [true, false] {
            let recorder = Recorder()
            var manager: CBCentralManager? = world.manager(recorder)
            try await recorder.events.wait("state poweredOn")
            var peripheral = manager?.retrievePeripherals(withIdentifiers: [identifier]).first
            peripheral?.delegate = recorder
            manager?.connect(try #require(peripheral))
            try await recorder.events.wait("connected")
            peripheral?.discoverServices(nil)
            try await recorder.events.wait("services")
            peripheral?.discoverCharacteristics(nil, for: try #require(peripheral?.services?.first))
            try await recorder.events.wait("characteristics")
            let dice = try #require(peripheral?.services?.first?.characteristics?.first)
            let values = try #require(peripheral?.values(for: dice))
            if releasesManager { manager = nil } else { peripheral = nil }
            #expect(await Self.end(of: values) == "CBError.operationCancelled")
            if releasesManager {
                #expect(await Self.end(of: try #require(peripheral?.values(for: dice))) == "CBError.notConnected")
            }
            withExtendedLifetime((manager, peripheral)) {}
        }
    }

    @Test func aSubscriptionThatFailsEndsValues() async throws {
        let played = try await Played { member, count in
            switch (member, count) {
            case ("StartNotify", 0): [.fail("org.bluez.Error.Failed", "Operation failed with ATT error: 0x81")]
            case ("ReadValue", _): [.servicesGone, .answer([.bytes([1])])]
            default: nil
            }
        }
        #expect(
            await Self.end(of: played.peripheral.values(for: played.characteristic)) == "CBATTError.unlikelyError")
        // The next one succeeds, until the accessory has other services.
        let values = played.peripheral.values(for: played.characteristic)
        try await played.events.wait("notifying 2A19 true")
        played.peripheral.readValue(for: played.characteristic)
        #expect(await Self.end(of: values) == "CBError.invalidHandle")
        #expect(
            await Self.end(of: played.peripheral.values(for: played.characteristic)) == "CBError.invalidHandle")
    }
}

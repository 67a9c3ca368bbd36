// SPDX-License-Identifier: Apache-2.0
// Whether Bluetooth can be used: the callbacks when the grant, the power, BlueZ and the daemon come and go; and the
// peripherals that are there.

import AccessorySetupKit
import CoreBluetooth
import DBusKit
import Foundation
import TestSupport
import Testing

@Suite(.serialized) struct StateTests {
    @Test func withAGrantItIsOn() async throws {
        let world = try World()
        let identifier = try await world.grant()
        let recorder = Recorder()
        recorder.queue.suspend()
        let manager = world.manager(recorder)
        #expect(manager.state == .unknown && manager.delegate === recorder)
        recorder.queue.resume()
        try await recorder.events.wait("state poweredOn")
        #expect(recorder.events.lines == ["state poweredOn"])
        #expect(manager.authorization == .allowedAlways)
        // In the order of the request, the same object each time, without accessories that are not granted.
        let found = manager.retrievePeripherals(withIdentifiers: [UUID(), identifier, identifier])
        #expect(found.count == 2 && found[0] === found[1])
        // Its own name, or the item's where BlueZ has forgotten it meanwhile.
        let name = try #require(found[0].name)
        #expect(found[0].identifier == identifier && ["Dice 4F", "Pink"].contains(name) && found[0].state == .disconnected)
        #expect(found[0].services == nil)
        // As apps log it, and as they keep it.
        #expect("\(found[0])" == "<CBPeripheral: identifier = \(identifier), name = \(name), state = disconnected>")
        #expect(found[0].copy() as? CBPeripheral === found[0])
    }

    @Test func theFirstGrantTurnsItOn() async throws {
        let world = try World()
        let recorder = Recorder()
        let manager = world.manager(recorder)
        try await recorder.events.wait("state poweredOff")
        #expect(manager.retrievePeripherals(withIdentifiers: [UUID()]).isEmpty)
        let identifier = try await world.grant()
        try await recorder.events.wait("state poweredOn")
        #expect(manager.retrievePeripherals(withIdentifiers: [identifier]).count == 1)
        try await world.revoke(identifier)
        try await recorder.events.wait("state poweredOff", count: 2)
        #expect(recorder.events.lines == ["state poweredOff", "state poweredOn", "state poweredOff"])
    }

    /// No race between the session's event and the list of peripherals.
    @Test func aGrantIsFoundAtOnce() async throws {
        let world = try World()
        let app = try await App(world)
        let blue = try await world.grant("Blue", Gadget.other)
        #expect(app.manager.retrievePeripherals(withIdentifiers: [blue]).count == 1)
    }

    @Test func withoutAnAdapterItIsUnsupported() async throws {
        let world = try World(scenario: #"{ "adapters": [] }"#)
        let recorder = Recorder()
        let manager = world.manager(recorder)
        try await recorder.events.wait("state")
        #expect(manager.state == .unsupported)
    }

    @Test func devicesOfAKindAreDiscoveredAndNotConnected() async throws {
        let world = try World()
        let kind = try await world.addedEvent("All dice", access: .hear).accessory
        #expect(kind?.descriptor.access == .hear && kind?.bluetoothIdentifier == nil)
        let recorder = Recorder()
        recorder.connects = true
        let manager = world.manager(recorder)
        try await recorder.events.wait("state poweredOn")
        manager.scanForPeripherals(withServices: [CBUUID(string: Gadget.service)])
        let line = try await recorder.events.wait("discovered")
        #expect(line.hasPrefix("discovered Dice 4F -48 \(Gadget.service)"), "\(line)")
        #expect(try await recorder.events.wait("failed").contains("CBError.unknownDevice"))
        #expect(try world.links().isEmpty)
    }

    @Test func powerGoesAndComes() async throws {
        let world = try World()
        let app = try await App(world)
        try await app.connect()
        app.manager.scanForPeripherals(withServices: nil)
        try world.play("adapterPowerOff", "hci0")
        try await app.events.wait("state poweredOff")
        #expect(!app.manager.isScanning && app.peripheral.state == .disconnected)
        try world.play("adapterPowerOn", "hci0")
        try await app.events.wait("state poweredOn", count: 2)
        #expect(
            app.events.lines == [
                "state poweredOn", "connected connected services=-1",
                "disconnected disconnected services=-1 CBError.peripheralDisconnected", "state poweredOff",
                "state poweredOn",
            ])
        try await app.connect(count: 2)
    }

    /// In place of key-value observing.
    @Test func stateAndScanningAreObserved() async throws {
        let world = try World()
        let app = try await App(world)
        let changes = Mailbox()
        func observe(_ name: String, _ read: () -> Void) {
            withObservationTracking {
                read()
            } onChange: {
                changes.put(name)
            }
        }
        observe("scanning") { _ = app.manager.isScanning }
        observe("state") { _ = app.manager.state }
        app.manager.scanForPeripherals(withServices: nil)
        #expect(changes.lines == ["scanning"])
        try world.play("adapterPowerOff", "hci0")
        try await app.events.wait("state poweredOff")
        #expect(changes.lines == ["scanning", "state"])
    }

    @Test func bluetoothdGoesAndComes() async throws {
        let world = try World()
        let app = try await App(world)
        try await app.connect()
        try await app.discover()
        app.peripheral.setNotifyValue(true, for: try app.characteristic("FF3F"))
        try await app.events.wait("value", count: 3)
        try world.play("serviceStopped")
        try await app.events.wait("state poweredOff")
        try world.play("serviceStarted")
        try await app.events.wait("state poweredOn", count: 2)
        #expect(app.manager.retrievePeripherals(withIdentifiers: [app.identifier]).first === app.peripheral)
        try await app.connect(count: 2)
        try await app.discover(count: 2)
        let lines = app.events.lines.filter { !$0.hasPrefix("value") }
        #expect(lines[lines.firstIndex(of: "state poweredOff")! - 1].hasPrefix("disconnected"))
    }

    @Test func theAdapterGoesAndComes() async throws {
        let world = try World()
        let app = try await App(world)
        try await app.connect()
        try world.play("adapterRemoved", "hci0")
        try await app.events.wait("state unsupported")
        try world.play("adapterAdded", "hci0")
        try await app.events.wait("state poweredOn", count: 2)
        try await app.connect(count: 2)
    }

    @Test func theDaemonGoesAndComes() async throws {
        let world = try World()
        let app = try await App(world)
        try await app.connect()
        try await app.discover()
        app.peripheral.setNotifyValue(true, for: try app.characteristic("FF3F"))
        try await app.events.wait("value", count: 3)
        world.stopDaemon()
        try await app.events.wait("state resetting")
        #expect(app.manager.state == .resetting && app.peripheral.state == .disconnected)
        // Ignored, and logged.
        app.manager.scanForPeripherals(withServices: nil)
        #expect(!app.manager.isScanning)
        try world.startDaemon()
        try await app.events.wait("state poweredOn", count: 2)
        try await app.connect(count: 2)
        try await app.discover(count: 2)
    }

    @Test func theDaemonComesLater() async throws {
        let world = try World()
        let identifier = try await world.grant()
        world.stopDaemon()
        let recorder = Recorder()
        let manager = world.manager(recorder)
        try await recorder.events.wait("state resetting")
        // It may not be installed at all.
        try await recorder.events.wait("state unsupported")
        try world.startDaemon()
        try await recorder.events.wait("state poweredOn")
        #expect(recorder.events.lines == ["state resetting", "state unsupported", "state poweredOn"])
        #expect(manager.retrievePeripherals(withIdentifiers: [identifier]).count == 1)
    }

    @Test func callsBeforePowerAreIgnored() async throws {
        let world = try World()
        let app = try await App(world)
        let recorder = Recorder()
        recorder.queue.suspend()
        let manager = world.manager(recorder)
        #expect(manager.retrievePeripherals(withIdentifiers: [app.identifier]).isEmpty)
        manager.connect(app.peripheral)
        manager.scanForPeripherals(withServices: nil)
        recorder.queue.resume()
        try await recorder.events.wait("state poweredOn")
        // Another manager's peripheral.
        manager.connect(app.peripheral)
        #expect(app.peripheral.state == .disconnected && !manager.isScanning)
        // The same, on the queue that received no callback.
        #expect(recorder.events.lines == ["state poweredOn"] && app.events.lines == ["state poweredOn"])
    }

    @Test func aSecondRunFindsTheLinksOfTheFirst() async throws {
        let world = try World()
        let identifier = try await world.grant()
        // Another program of the app's connects; it ends, and its links linger.
        _ = try Connection(.server(world.view), loop: MainLoop()).callAndWait(
            "org.bluez", "/org/bluez/hci0/dev_C0_FF_EE_00_00_01", "org.bluez.Device1", "Connect")
        let recorder = Recorder()
        let manager = world.manager(recorder, restoring: "test")
        try await recorder.events.wait("state poweredOn")
        #expect(recorder.events.lines == ["restored connected while unknown", "state poweredOn"])
        let peripheral = try #require(manager.retrievePeripherals(withIdentifiers: [identifier]).first)
        peripheral.delegate = recorder
        peripheral.discoverServices(nil)
        #expect(try await recorder.events.wait("services") == "services \(Gadget.service),180F")
        #expect(manager.retrieveConnectedPeripherals(withServices: [CBUUID(string: "180F")]).first === peripheral)
        #expect(manager.retrieveConnectedPeripherals(withServices: [CBUUID(string: "1812")]).isEmpty)
        // Without the option there is nothing to restore.
        let plain = Recorder()
        let second = world.manager(plain)
        try await plain.events.wait("state poweredOn")
        #expect(plain.events.lines == ["state poweredOn"] && second.state == .poweredOn)
    }
}

// SPDX-License-Identifier: Apache-2.0
// Links: made, tried again, lost and released, by one manager and by two; and discoveries while the app scans.

import CoreBluetooth
import DBusKit
import Foundation
import TestSupport
import Testing

@Suite(.serialized) struct LinkTests {
    private static let reconnecting = [CBConnectPeripheralOptionEnableAutoReconnect: true]

    @Test func aLinkIsMadeAndLetGoOf() async throws {
        let world = try World()
        let app = try await App(world)
        app.recorder.queue.sync {
            app.manager.connect(app.peripheral)
            #expect(app.peripheral.state == .connecting)
        }
        try await app.events.wait("connected")
        #expect(try world.links() == ["pink"])
        // Reported again, as on Apple's systems.
        try await app.connect(count: 2)
        app.recorder.queue.sync {
            app.manager.cancelPeripheralConnection(app.peripheral)
            #expect(app.peripheral.state == .disconnecting)
        }
        try await app.events.wait("disconnected")
        #expect(
            app.events.lines == [
                "state poweredOn", "connected connected services=-1", "connected connected services=-1",
                "disconnected disconnected services=-1",
            ])
        #expect(try world.links() == [])
        try await app.connect(count: 3)
    }

    @Test func aLinkIsMadeAgainAtOnce() async throws {
        let world = try World()
        let app = try await App(world)
        // In the callbacks: BlueZ has answered by then, but may not yet have reported that the link is down.
        // nonisolated(unsafe): both may be called from any thread, and here they are on the manager's queue alone.
        nonisolated(unsafe) let (manager, peripheral) = (app.manager, app.peripheral)
        app.recorder.onEvent = { line in
            if line.hasPrefix("connected") { peripheral.discoverServices(nil) }
            if line.hasPrefix("services") { manager.cancelPeripheralConnection(peripheral) }
            if line.hasPrefix("disconnected") { manager.connect(peripheral) }
        }
        app.manager.connect(app.peripheral)
        try await app.events.wait("disconnected", count: 5)
        var wanted = ["state poweredOn"]
        for _ in 1...5 {
            wanted += ["connected connected services=-1", "services \(Gadget.service),180F"]
            wanted.append("disconnected disconnected services=-1")
        }
        #expect(Array(app.events.lines.prefix(wanted.count)) == wanted)
    }

    @Test func aLinkThatBreaksIsAnError() async throws {
        let world = try World()
        let app = try await App(world)
        try await app.connect()
        try await app.discover()
        try world.play("vanish", "pink")
        #expect(
            try await app.events.wait("disconnected")
                == "disconnected disconnected services=-1 CBError.connectionTimeout")
        // Requests without a link are ignored.
        app.peripheral.discoverServices(nil)
        try world.play("return", "pink")
        try await app.connect(count: 2)
        #expect(app.events.lines.filter { $0.hasPrefix("services") }.count == 1)
    }

    @Test func aConnectWaitsForTheAccessory() async throws {
        let world = try World()
        let app = try await App(world)
        try world.play("vanish", "pink")
        app.manager.connect(app.peripheral)
        let blue = try await world.grant("Blue", Gadget.other)
        #expect(app.peripheral.state == .connecting && app.events.lines == ["state poweredOn"])
        let other = try #require(app.manager.retrievePeripherals(withIdentifiers: [blue]).first)
        app.manager.connect(other)
        try await app.events.wait("connected")
        #expect(other.state == .connected && app.peripheral.state == .connecting)
        try world.play("return", "pink")
        // When it is heard: without a sign from the accessory, the next attempt would be made after this wait.
        try await app.events.wait("connected", count: 2)
        #expect(app.peripheral.state == .connected)
    }

    @Test func aWaitingConnectIsCalledOff() async throws {
        let world = try World()
        let app = try await App(world)
        try world.play("vanish", "pink")
        app.manager.connect(app.peripheral)
        app.manager.cancelPeripheralConnection(app.peripheral)
        try await app.events.wait("disconnected disconnected services=-1")
        try world.play("return", "pink")
        // An accessory that is heard now is not connected.
        app.manager.scanForPeripherals(withServices: nil)
        try await app.events.wait("discovered")
        #expect(app.peripheral.state == .disconnected && app.events.lines.count == 3)
    }

    @Test func aConnectOutlivesTheDaemonAndBluetoothd() async throws {
        let world = try World()
        let app = try await App(world)
        try world.play("vanish", "pink")
        app.manager.connect(app.peripheral)
        world.stopDaemon()
        try await app.events.wait("state resetting")
        try world.play("serviceStopped")
        try world.startDaemon()
        try await app.events.wait("state poweredOff")
        try world.play("serviceStarted")
        try await app.events.wait("state poweredOn", count: 2)
        try world.play("return", "pink")
        try await app.events.wait("connected connected")
    }

    @Test func aLostLinkIsMadeAgain() async throws {
        let world = try World()
        let app = try await App(world)
        app.recorder.knowsReconnecting = true
        try await app.connect(options: Self.reconnecting)
        try world.play("vanish", "pink")
        try await app.events.wait("lost")
        try world.play("return", "pink")
        try await app.events.wait("connected", count: 2)
        app.manager.cancelPeripheralConnection(app.peripheral)
        try await app.events.wait("lost", count: 2)
        #expect(
            app.events.lines == [
                "state poweredOn", "connected connected services=-1",
                "lost connecting true CBError.connectionTimeout",
                "connected connected services=-1", "lost disconnected false",
            ])
    }

    @Test func theEndOfTheGrantEndsTheLink() async throws {
        let world = try World()
        let app = try await App(world)
        let blue = try await world.grant("Blue", Gadget.other)
        try await app.connect()
        try await world.revoke(app.identifier)
        try await app.events.wait("disconnected disconnected services=-1")
        #expect(app.manager.retrievePeripherals(withIdentifiers: [app.identifier]).isEmpty)
        #expect(app.manager.retrievePeripherals(withIdentifiers: [blue]).count == 1)
        app.manager.connect(app.peripheral)
        try await app.events.wait("failed disconnected CBError.unknownDevice")
    }

    @Test func theEndOfTheGrantEndsReconnecting() async throws {
        let world = try World()
        let app = try await App(world)
        app.recorder.knowsReconnecting = true
        try await world.grant("Blue", Gadget.other)
        try await app.connect(options: Self.reconnecting)
        try await world.revoke(app.identifier)
        // The link goes first; then it is known that there is nothing to connect to any more.
        try await app.events.wait("lost connecting true")
        try await app.events.wait("failed disconnected CBError.unknownDevice")
    }

    @Test func theEndOfTheGrantEndsAWaitingConnect() async throws {
        let world = try World()
        let app = try await App(world)
        try await world.grant("Blue", Gadget.other)
        try world.play("vanish", "pink")
        app.manager.connect(app.peripheral)
        try await world.revoke(app.identifier)
        try await app.events.wait("failed disconnected CBError.unknownDevice")
    }

    @Test func aPeripheralThatIsReleasedIsDisconnected() async throws {
        let world = try World()
        let identifier = try await world.grant()
        let (recorder, other) = (Recorder(), Recorder())
        let (manager, witness) = (world.manager(recorder), world.manager(other))
        try await recorder.events.wait("state poweredOn")
        try await other.events.wait("state poweredOn")
        witness.registerForConnectionEvents(options: [:])
        var peripheral = manager.retrievePeripherals(withIdentifiers: [identifier]).first
        manager.connect(try #require(peripheral))
        try await recorder.events.wait("connected")
        try await other.events.wait("event peerConnected")
        peripheral = nil
        try await other.events.wait("event peerDisconnected")
        // Another attempt is not hindered by the first.
        peripheral = manager.retrievePeripherals(withIdentifiers: [identifier]).first
        #expect(peripheral?.state == .disconnected)
        manager.connect(try #require(peripheral))
        try await recorder.events.wait("connected", count: 2)
        #expect(!recorder.events.lines.contains { $0.hasPrefix("disconnected") })
    }

    @Test func twoManagersShareALink() async throws {
        let world = try World()
        let app = try await App(world)
        let recorder = Recorder()
        let second = world.manager(recorder)
        try await recorder.events.wait("state poweredOn")
        let peripheral = try #require(second.retrievePeripherals(withIdentifiers: [app.identifier]).first)
        #expect(peripheral !== app.peripheral)
        try await app.connect()
        #expect(peripheral.state == .disconnected)
        second.connect(peripheral)
        try await recorder.events.wait("connected")
        app.manager.cancelPeripheralConnection(app.peripheral)
        try await app.events.wait("disconnected")
        #expect(try world.links() == ["pink"] && peripheral.state == .connected)
        second.cancelPeripheralConnection(peripheral)
        try await recorder.events.wait("disconnected")
        #expect(try world.links() == [])
    }

    @Test func aManagerThatGoesEndsItsLinks() async throws {
        let world = try World()
        let watcher = Recorder()
        var app: App? = try await App(world)
        let other = world.manager(watcher)
        try await watcher.events.wait("state poweredOn")
        other.registerForConnectionEvents(options: [.serviceUUIDs: [CBUUID(string: Gadget.service)]])
        try await app?.connect()
        try await watcher.events.wait("event peerConnected")
        app = nil
        try await watcher.events.wait("event peerDisconnected")
        #expect(try world.links() == [])
    }

    @Test func withoutADelegateNothingIsTold() async throws {
        let world = try World()
        let app = try await App(world)
        try await app.connect()
        try await app.discover()
        app.peripheral.setNotifyValue(true, for: try app.characteristic("FF3F"))
        // On the queue, so that it is clear which callbacks come after.
        try await app.events.wait("value")
        app.recorder.queue.sync {
            app.manager.delegate = nil
            app.peripheral.delegate = nil
        }
        let count = app.events.lines.count
        app.manager.cancelPeripheralConnection(app.peripheral)
        let recorder = Recorder()
        let second = world.manager(recorder)
        try await recorder.events.wait("state poweredOn")
        let peripheral = try #require(second.retrievePeripherals(withIdentifiers: [app.identifier]).first)
        second.connect(peripheral)
        try await recorder.events.wait("connected")
        #expect(app.events.lines.count == count && app.peripheral.state == .disconnected)
    }

    /// Apps play managers in their own tests.
    @Test func aManagerCanBeSubclassed() async throws {
        final class Played: CBCentralManager {
            var asked: [UUID] = []
            override var state: CBManagerState { .poweredOn }
            override func retrievePeripherals(withIdentifiers identifiers: [UUID]) -> [CBPeripheral] {
                asked += identifiers
                return []
            }
        }
        let played = Played(delegate: nil, queue: DispatchQueue(label: "test.app"))
        let identifier = UUID()
        #expect((played as CBCentralManager).retrievePeripherals(withIdentifiers: [identifier]).isEmpty)
        #expect(played.asked == [identifier] && (played as CBManager).state == .poweredOn)
    }

    @Test func delegatesAreWeak() async throws {
        let world = try World(startsDaemon: false)
        var recorder: Recorder? = Recorder()
        weak let gone = recorder
        let manager = world.manager(recorder!)
        // A callback that runs holds its delegate; on the queue none does.
        let queue = recorder!.queue
        recorder = nil
        queue.sync { #expect(gone == nil && manager.delegate == nil) }
    }

    @Test func callbacksAreNeverInline() async throws {
        let world = try World()
        let app = try await App(world)
        app.recorder.queue.sync {
            app.recorder.onEvent = { line in
                guard line.hasPrefix("connected") else { return }
                app.manager.cancelPeripheralConnection(app.peripheral)
                app.peripheral.openL2CAPChannel(5)
                app.recorder.events.put("end of connected")
            }
        }
        app.manager.connect(app.peripheral)
        try await app.events.wait("disconnected")
        try await app.events.wait("channel")
        let lines = app.events.lines
        #expect(lines[1] == "connected connected services=-1" && lines[2] == "end of connected")
        #expect(lines.contains("channel none CBError.operationNotSupported"))
        app.recorder.queue.sync { app.recorder.onEvent = nil }
    }

    /// A callback sees the state that it reports, regardless of later changes.
    @Test func anAppThatIsBehindSeesWhatItIsTold() async throws {
        let world = try World()
        let app = try await App(world)
        let watcher = Recorder()
        let other = world.manager(watcher)
        try await watcher.events.wait("state poweredOn")
        other.registerForConnectionEvents(options: [.peripheralUUIDs: [app.identifier]])
        // One question through the second manager, so that the wish above has arrived.
        #expect(other.retrievePeripherals(withIdentifiers: [app.identifier]).count == 1)
        app.recorder.queue.suspend()
        app.manager.connect(app.peripheral)
        try await watcher.events.wait("event peerConnected")
        try world.play("vanish", "pink")
        try await watcher.events.wait("event peerDisconnected")
        try world.play("adapterPowerOff", "hci0")
        try await watcher.events.wait("state poweredOff")
        #expect(app.manager.state == .poweredOn && app.peripheral.state == .connecting)
        app.recorder.queue.resume()
        try await app.events.wait("state poweredOff")
        #expect(
            app.events.lines == [
                "state poweredOn", "connected connected services=-1",
                "disconnected disconnected services=-1 CBError.connectionTimeout", "state poweredOff",
            ])
    }

    @Test func wishesThatChangeQuicklyEndAsTheLastOne() async throws {
        let world = try World()
        let app = try await App(world)
        for _ in 0..<20 {
            app.manager.connect(app.peripheral)
            app.manager.cancelPeripheralConnection(app.peripheral)
        }
        app.manager.connect(app.peripheral)
        try await app.events.wait("connected")
        // The delegate has received a disconnection for each connection on the way.
        let second = Recorder()
        let manager = world.manager(second)
        try await second.events.wait("state poweredOn")
        #expect(app.peripheral.state == .connected && manager.state == .poweredOn)
        #expect(try world.links() == ["pink"])
        app.manager.cancelPeripheralConnection(app.peripheral)
        app.manager.connect(app.peripheral)
        app.manager.cancelPeripheralConnection(app.peripheral)
        try await app.events.wait("disconnected", count: 21)
        #expect(app.peripheral.state == .disconnected)
    }

    @Test func aStrengthIsReadWhereBlueZHasIt() async throws {
        let world = try World()
        let app = try await App(world)
        app.manager.scanForPeripherals(withServices: nil)
        try await app.events.wait("discovered")
        try await app.connect()
        app.peripheral.readRSSI()
        #expect(try await app.events.wait("rssi") == "rssi -48")
    }

    @Test func anotherNameIsTold() async throws {
        let scenario = """
            { "accessories": [ { "id": "pink", "address": "C0:FF:EE:00:00:01", "adverts": [
              { "until": 2, "name": "Dice 4F", "serviceUUIDs": ["\(Gadget.service)"] },
              { "from": 2, "name": "Dice 5A", "serviceUUIDs": ["\(Gadget.service)"] } ] } ] }
            """
        let app = try await App(try World(scenario: scenario))
        app.manager.scanForPeripherals(withServices: nil, options: [CBCentralManagerScanOptionAllowDuplicatesKey: true])
        try await app.events.wait("name Dice 5A")
        #expect(app.peripheral.name == "Dice 5A")
        #expect(app.events.lines[1].hasPrefix("discovered Dice 4F"))
    }

    // MARK: Scanning

    @Test func aScanTellsGrantedAccessoriesOnce() async throws {
        let world = try World()
        let app = try await App(world)
        let blue = try await world.grant("Blue", Gadget.other)
        app.manager.scanForPeripherals(withServices: nil)
        #expect(app.manager.isScanning)
        try await app.events.wait("discovered", count: 2)
        app.manager.stopScan()
        #expect(!app.manager.isScanning)
        #expect(
            Set(app.events.lines.dropFirst()) == [
                "discovered Dice 4F -48 \(Gadget.service) 1 4C000102", "discovered Dice A2 -61 \(Gadget.other) 1 ",
            ])
        // Only accessories that match, and the same object.
        app.manager.scanForPeripherals(withServices: [CBUUID(string: Gadget.other)])
        try await app.events.wait("discovered", count: 3)
        #expect(app.events.lines.last?.hasPrefix("discovered Dice A2") == true)
        #expect(app.manager.retrievePeripherals(withIdentifiers: [blue]).first?.name == "Dice A2")
    }

    @Test func aScanTellsDuplicatesWhereAsked() async throws {
        let world = try World()
        let app = try await App(world)
        app.manager.scanForPeripherals(withServices: nil, options: [CBCentralManagerScanOptionAllowDuplicatesKey: true])
        try await app.events.wait("discovered", count: 5)
        app.recorder.queue.sync { app.manager.stopScan() }
        let count = app.events.lines.count
        try await app.connect()
        #expect(app.events.lines.count == count + 1)
    }
}

// SPDX-License-Identifier: Apache-2.0
// The real thing around a test: a bus, the simulator, the daemon with its view, and a picker that grants accessories to
// the tests' own process.

import AccessorySetupKit
import CoreBluetooth
import DBusKit
import Foundation
import TestSupport

enum Gadget {
    static let service = "E56A082E-C49B-47CA-A2AB-389127B8ABE3"
    static let other = "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7"

    /// Two accessories that the tests' app declares.
    static let scenario = """
        {
          "accessories": [
            { "id": "pink", "address": "C0:FF:EE:00:00:01",
              "adverts": [ { "rssi": -48, "name": "Dice 4F", "serviceUUIDs": ["\(service)"],
                             "manufacturerData": { "004C": "0102" } } ],
              "gatt": [
                { "uuid": "\(service)", "includes": ["180F"], "characteristics": [
                  { "uuid": "FF3F", "flags": ["read", "notify"], "value": "AA",
                    "descriptors": [ { "uuid": "2901", "value": "526F6C6C" }, { "uuid": "2904", "value": "0400" } ],
                    "notify": { "interval": 0.02, "values": ["00", "01", "02", "03", "04", "05", "06", "07", "08", "09"] } },
                  { "uuid": "FF40", "flags": ["read", "write", "write-without-response"], "value": "01" },
                  { "uuid": "FF41", "flags": ["write"] },
                  { "uuid": "FF42", "flags": ["indicate", "encrypt-read"], "value": "07" } ] },
                { "uuid": "180F", "characteristics": [ { "uuid": "2A19", "flags": ["read"], "value": "64" } ] } ] },
            { "id": "blue", "address": "C0:FF:EE:00:00:02",
              "adverts": [ { "rssi": -61, "name": "Dice A2", "serviceUUIDs": ["\(other)"] } ],
              "gatt": [ { "uuid": "\(other)", "characteristics": [ { "uuid": "FF3F", "flags": ["read"], "value": "02" } ] } ] },
            { "id": "lamp", "address": "C0:FF:EE:00:00:03",
              "adverts": [ { "rssi": -70, "name": "Lamp", "serviceUUIDs": ["1812"] } ] }
          ]
        }
        """
}

final class World {
    let bus: PrivateBus
    let directory: TemporaryDirectory
    let simulator: ChildProcess
    private var daemon: ChildProcess?
    private var session: ASAccessorySession?
    private var sessionEvents = TestSupport.Mailbox<ASAccessoryEvent>()

    init(scenario: String = Gadget.scenario, startsDaemon: Bool = true) throws {
        bus = try PrivateBus()
        directory = try TemporaryDirectory()
        simulator = try ChildProcess(
            "accessory-sim", ["--bus", bus.address, try directory.write("scenario.json", scenario)])
        try simulator.waitForLine(containing: "ready")
        try directory.write("daemon.conf", "[View]\nLinger=5\n")
        try directory.write(
            "apps/com.example.dice.conf",
            """
            [Application]
            Id=com.example.dice
            Name=Dice
            Executable=\(try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))

            [AccessorySetup]
            Supports=Bluetooth;
            BluetoothServices=\(Gadget.service);\(Gadget.other);
            """)
        if startsDaemon { try startDaemon() }
    }

    deinit {
        session?.invalidate()
    }

    /// The view's address.
    var view: String { "unix:path=\(directory.path)/view" }

    func startDaemon() throws {
        let daemon = try ChildProcess(
            "accessorysetupd",
            [
                "--bus", bus.address, "--state-directory", directory.path + "/state", "--apps",
                directory.path + "/apps", "--view",
                directory.path + "/view", "--config", directory.path + "/daemon.conf",
            ])
        try daemon.waitForLine(containing: "accessorysetupd: ready")
        self.daemon = daemon
    }

    func stopDaemon() {
        session = nil
        daemon?.end()
        daemon = nil
    }

    /// Lets the person pick an accessory.
    ///
    /// - Returns: its identifier.
    @discardableResult
    func grant(
        _ name: String = "Pink", _ service: String = Gadget.service, access: ASDiscoveryDescriptor.Access = .full
    ) async throws -> UUID {
        let accessory = try await addedEvent(name, service, access: access).accessory
        guard let identifier = accessory?.bluetoothIdentifier else {
            throw Overdue(description: "\(name) is not there after the picker")
        }
        return identifier
    }

    /// Lets the person pick an accessory.
    ///
    /// - Returns: the event that the app receives.
    func addedEvent(
        _ name: String = "Pink", _ service: String = Gadget.service, access: ASDiscoveryDescriptor.Access = .full
    ) async throws -> ASAccessoryEvent {
        let picker = try ChildProcess(
            "accessoryctl", ["picker", "--bus", bus.address, "--pick", name, "--accept-passkey", "--stay"])
        defer { picker.end() }
        try picker.waitForLine(containing: "waiting")
        let session = try await self.activeSession()
        let descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothServiceUUID = CBUUID(string: service)
        descriptor.access = access
        let png = Data([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + [UInt8](repeating: 7, count: 32))
        guard let image = UIImage(data: png) else { throw Overdue(description: "the image is none") }
        try await session.showPicker(for: [ASPickerDisplayItem(name: name, productImage: image, descriptor: descriptor)]
        )
        return try await sessionEvents.wait("\(name) was added") { events in
            events.last { $0.eventType == .accessoryAdded && $0.accessory?.displayName == name }
        }
    }

    /// Takes a grant away.
    func revoke(_ identifier: UUID) async throws {
        let session = try await activeSession()
        guard let accessory = session.accessories.first(where: { $0.bluetoothIdentifier == identifier }) else {
            throw Overdue(description: "there is no such accessory")
        }
        try await session.removeAccessory(accessory)
    }

    private func activeSession() async throws -> ASAccessorySession {
        if let session { return session }
        let session = ASAccessorySession(bus: bus.address)
        sessionEvents = TestSupport.Mailbox()
        session.activate(on: DispatchQueue(label: "test.session")) { [sessionEvents] in sessionEvents.put($0) }
        _ = try await sessionEvents.wait("activated") { $0.last?.eventType == .activated ? true : nil }
        self.session = session
        return session
    }

    /// Something happens on the air.
    func play(_ action: String, _ target: String = "") throws {
        _ = try simulated("Do", [.string(action), .string(target)])
    }

    /// Accessories that are connected, by id.
    func links() throws -> [String] { try simulated("Connections", []).first?.stringsValue ?? [] }

    private func simulated(_ member: String, _ arguments: [DBusValue]) throws -> [DBusValue] {
        try Connection(.server(bus.address), loop: MainLoop()).callAndWait(
            "org.accessorysetup.Simulator1", "/org/accessorysetup/simulator", "org.accessorysetup.Simulator1", member,
            arguments)
    }

    /// Another program calls BlueZ, past the view.
    @discardableResult
    func bluez(_ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue] = []) throws
        -> [DBusValue]
    {
        try Connection(.server(bus.address), loop: MainLoop()).callAndWait(
            "org.bluez", path, interface, member, arguments)
    }

    // MARK: Managers

    func manager(_ recorder: Recorder, restoring identifier: String? = nil) -> CBCentralManager {
        CBCentralManager(
            delegate: recorder, queue: recorder.queue,
            options: identifier.map { [CBCentralManagerOptionRestoreIdentifierKey: $0] }, bus: view)
    }
}

/// An app with an accessory.
struct App {
    let world: World
    let recorder: Recorder
    let manager: CBCentralManager
    let peripheral: CBPeripheral
    let identifier: UUID

    var events: Mailbox { recorder.events }

    /// An app that is granted the pink accessory, powered on.
    init(
        _ world: World, recorder: Recorder = Recorder(), access: ASDiscoveryDescriptor.Access = .full
    ) async throws {
        self.world = world
        self.recorder = recorder
        identifier = try await world.grant(access: access)
        manager = world.manager(recorder)
        try await recorder.events.wait("state poweredOn")
        guard let peripheral = manager.retrievePeripherals(withIdentifiers: [identifier]).first else {
            throw Overdue(description: "the peripheral is not there")
        }
        self.peripheral = peripheral
        peripheral.delegate = recorder
    }

    func connect(options: [String: Any]? = nil, count: Int = 1) async throws {
        manager.connect(peripheral, options: options)
        try await events.wait("connected", count: count)
    }

    /// Discovers everything of the gadget's service, which another database has in another place.
    func discover(count: Int = 1) async throws {
        peripheral.discoverServices(nil)
        try await events.wait("services", count: count)
        let services = peripheral.services ?? []
        guard let service = services.first(where: { $0.uuid.uuidString == Gadget.service }) ?? services.first else {
            throw Overdue(description: "no service")
        }
        peripheral.discoverCharacteristics(nil, for: service)
        try await events.wait("characteristics", count: count)
    }

    func characteristic(_ uuid: String) throws -> CBCharacteristic {
        guard
            let found = (peripheral.services ?? []).flatMap({ $0.characteristics ?? [] }).first(where: {
                $0.uuid == CBUUID(string: uuid)
            })
        else { throw Overdue(description: "no characteristic \(uuid)") }
        return found
    }
}

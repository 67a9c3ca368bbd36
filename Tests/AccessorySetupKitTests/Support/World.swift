// SPDX-License-Identifier: Apache-2.0
// The real thing around a test: a bus, the simulator, the daemon, a picker program that picks, and a manifest for the
// tests themselves.

import AccessorySetupKit
import DBusKit
import Foundation
import TestSupport

enum Dice {
    static let pink = "E56A082E-C49B-47CA-A2AB-389127B8ABE3"
    static let blue = "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7"

    static let png = Data([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + [UInt8](repeating: 7, count: 32))

    static func image() throws -> UIImage {
        guard let image = UIImage(data: png) else { throw Overdue(description: "the image is none") }
        return image
    }

    static func item(_ name: String, _ service: String) throws -> ASPickerDisplayItem {
        let descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothServiceUUID = CBUUID(string: service)
        descriptor.supportedOptions = [.bluetoothPairingLE]
        return ASPickerDisplayItem(name: name, productImage: try image(), descriptor: descriptor)
    }
}

final class World {
    let bus: PrivateBus
    let directory: TemporaryDirectory
    let simulator: ChildProcess
    private(set) var daemon: ChildProcess?

    /// The socket of the app's discovery extension, where a test makes one.
    var extensionPath: String { directory.path + "/extension" }

    /// - Parameter isDeclared: whether a manifest fits the tests' process.
    init(scenario: String? = nil, isDeclared: Bool = true) throws {
        bus = try PrivateBus()
        directory = try TemporaryDirectory()
        var file = Programs.repository + "/Tests/Scenarios/dice.json"
        if let scenario { file = try directory.write("scenario.json", scenario) }
        simulator = try ChildProcess("accessory-sim", ["--bus", bus.address, file])
        try simulator.waitForLine(containing: "ready")
        let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        try directory.write(
            "apps/com.example.dice.conf",
            """
            [Application]
            Id=com.example.dice
            Name=Dice
            Executable=\(isDeclared ? executable : "/usr/bin/somebody-else")

            [AccessorySetup]
            Supports=Bluetooth;WiFi;
            BluetoothServices=\(Dice.pink);\(Dice.blue);
            Extension=\(extensionPath)
            """)
        try startDaemon()
    }

    func startDaemon() throws {
        let daemon = try ChildProcess(
            "accessorysetupd",
            ["--bus", bus.address, "--state-directory", directory.path + "/state", "--apps", directory.path + "/apps"])
        try daemon.waitForLine(containing: "accessorysetupd: ready")
        self.daemon = daemon
    }

    /// A picker program that picks the first offer with a name, and says yes to questions.
    ///
    /// - Parameter rename: the name that it gives to the accessory when asked; nil keeps the name.
    func startPicker(picking name: String, rename: String? = nil) throws -> ChildProcess {
        let picker = try ChildProcess(
            "accessoryctl",
            ["picker", "--bus", bus.address, "--pick", name, "--accept-passkey", "--stay"]
                + (rename.map { ["--rename", $0] } ?? []))
        try picker.waitForLine(containing: "waiting")
        return picker
    }

    func session() -> ASAccessorySession { ASAccessorySession(bus: bus.address) }

    /// Something happens on the air.
    func play(_ action: String, _ target: String = "") throws {
        _ = try Connection(.server(bus.address), loop: MainLoop()).callAndWait(
            "org.accessorysetup.Simulator1", "/org/accessorysetup/simulator", "org.accessorysetup.Simulator1", "Do",
            [.string(action), .string(target)])
    }

    /// Waits until the daemon knows the radio's state: `ready`, `off` or `absent`.
    func waitForBluetooth(_ expected: String) throws {
        let loop = MainLoop()
        let connection = try Connection(.server(bus.address), loop: loop)
        let (service, manager) = ("org.accessorysetup1", "org.accessorysetup1.Manager")
        let owner =
            try connection.callAndWait(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(service)])[0].stringValue ?? ""
        var state: String?
        let subscription = connection.subscribe(
            sender: owner, path: "/org/accessorysetup1", interface: Bus.properties, member: "PropertiesChanged", argument0: manager
        ) { message in
            if let new = (try? message.arguments())?[1].vardictValue?["Bluetooth"]?.stringValue { state = new }
        }
        defer { subscription.cancel() }
        // Asked after the subscription: a change in between is then not missed.
        let value = try connection.callAndWait(
            service, "/org/accessorysetup1", Bus.properties, "Get", [.string(manager), .string("Bluetooth")])
        state = value.first?.unwrapped.stringValue
        guard loop.run(until: { state == expected }, timeout: .hang) else {
            throw Overdue(description: "Bluetooth is \(state ?? "unknown")")
        }
    }

    /// Another program pairs with a device, past the daemon.
    func pair(_ device: ObjectPath) throws {
        let loop = MainLoop()
        let connection = try Connection(.server(bus.address), loop: loop)
        let bluez = "org.bluez"
        let owner = try connection.callAndWait(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(bluez)])[0].stringValue ?? ""
        var isThere = false
        let subscription = connection.subscribe(sender: owner, interface: Bus.objectManager, member: "InterfacesAdded") { message in
            if (try? message.arguments())?.first?.objectPathValue == device { isThere = true }
        }
        _ = try connection.callAndWait(bluez, "/org/bluez/hci0", "org.bluez.Adapter1", "StartDiscovery")
        guard loop.run(until: { isThere }, timeout: .hang) else { throw Overdue(description: "\(device) is not heard") }
        _ = try connection.callAndWait(bluez, device, "org.bluez.Device1", "Pair")
        _ = try connection.callAndWait(bluez, device, "org.bluez.Device1", "Disconnect")
        subscription.cancel()
    }

    /// The sessions that the daemon has, as an administrator sees them.
    func sessions() throws -> [String] {
        let objects = try Connection(.server(bus.address), loop: MainLoop()).callAndWait(
            "org.accessorysetup1", "/org/accessorysetup1", Bus.objectManager, "GetManagedObjects")
        return (objects.first?.entries ?? []).compactMap { $0.key.objectPathValue?.rawValue }.filter { $0.contains("/session/") }
    }
}

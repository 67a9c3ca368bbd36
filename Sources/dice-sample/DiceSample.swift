// A small app over the plain D-Bus API, as an app developer would write it: it asks for pink and blue dice, prints its events, then
// talks to the die that the person picked and prints what it rolls.

internal import ArgumentParser
internal import DBusKit
internal import Glibc
internal import ProgramSupport

@main
struct DiceSample: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dice-sample",
        abstract: "Sets up a die through accessorysetupd and prints its rolls.",
        discussion: """
            A die that was set up before is used again without a picker; --add asks for one more. \
            Exit status: 0 when rolls arrived, 1 when not, 64 for wrong arguments.
            """)

    @Option(help: "The bus: system, session, or an address.")
    var bus = "system"

    @Option(help: "How many rolls to print.")
    var rolls = 3

    @Option(help: "Seconds to wait for the person and the dice.")
    var timeout = 120.0

    @Option(help: "Seconds of discovery.")
    var discoveryTimeout: Double?

    @Flag(help: "Show the picker even if a die is set up already.")
    var add = false

    @Flag(help: "Wait until a picker program is there before asking for the picker.")
    var waitForPicker = false

    @Flag(help: "Remove the die at the end.")
    var remove = false

    static let dice: [(name: String, service: String)] = [
        ("Pink Dice", "E56A082E-C49B-47CA-A2AB-389127B8ABE3"), ("Blue Dice", "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7"),
    ]

    func run() throws {
        do {
            let app = try DiceApp(Connection.Address(bus), patience: .seconds(timeout))
            try app.begin()
            var die = app.firstAccessory
            if let die, !add {
                StandardOutput.line("\(die.name) was set up before")
            } else {
                if waitForPicker { try app.waitForPicker() }
                die = try app.add(Self.dice, discoveryTimeout: discoveryTimeout)
            }
            guard let die else { throw Failure("no die was set up") }
            try app.printRolls(of: die, count: rolls)
            if remove { try app.remove(die) }
        } catch {
            StandardOutput.errorLine("dice-sample: \(error)")
            throw ExitCode.failure
        }
    }
}

struct Failure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A die: our object for it, and BlueZ'.
struct Die {
    let accessory: ObjectPath
    let name: String
    let device: ObjectPath
}

/// The app's side of the session API.
final class DiceApp {
    private let loop = MainLoop()
    private let connection: Connection
    private let patience: Duration
    private var session: ObjectPath = "/"
    private var events: [(type: String, details: [String: DBusValue])] = []
    private static let daemon = "org.accessorysetup1"
    private static let interface = "org.accessorysetup1.Session"

    init(_ address: Connection.Address, patience: Duration) throws(BusError) {
        connection = try Connection(address, loop: loop)
        self.patience = patience
    }

    /// Activates a session and waits for `activated`.
    func begin() throws {
        // The first call starts the daemon where the bus can do that.
        session =
            try connection.callAndWait(
                Self.daemon, "/org/accessorysetup1", "org.accessorysetup1.Manager", "CreateSession", [.vardict([:])]
            )
            .first?.objectPathValue ?? "/"
        let name =
            try connection.callAndWait(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(Self.daemon)]).first?.stringValue
            ?? ""
        _ = connection.subscribe(sender: name, path: session, interface: Self.interface, member: "Event") { [weak self] message in
            guard let arguments = try? message.arguments(), let type = arguments[0].stringValue else { return }
            self?.take(type, arguments[1].vardictValue ?? [:])
        }
        _ = try connection.callAndWait(Self.daemon, session, Self.interface, "Activate")
        _ = try wait(for: ["activated"])
    }

    private func take(_ type: String, _ details: [String: DBusValue]) {
        var text = "event \(type)"
        if let name = details["properties"]?.vardictValue?["DisplayName"]?.stringValue { text += " “\(name)”" }
        if let message = details["message"]?.stringValue { text += ": \(message)" }
        StandardOutput.line(text)
        events.append((type, details))
    }

    /// The next event of one of these types; earlier ones of other types are dropped.
    private func wait(for types: Set<String>) throws -> (type: String, details: [String: DBusValue]) {
        var found: (type: String, details: [String: DBusValue])?
        let arrived = loop.run(
            until: {
                guard let index = events.firstIndex(where: { types.contains($0.type) }) else { return false }
                found = events[index]
                events.removeSubrange(...index)
                return true
            }, timeout: patience)
        guard arrived, let found else { throw Failure("no \(types.sorted().joined(separator: " or ")) in time") }
        return found
    }

    /// Waits until somebody can show a picker.
    func waitForPicker() throws {
        let manager = "org.accessorysetup1.Manager"
        let owner =
            try connection.callAndWait(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(Self.daemon)]).first?.stringValue
            ?? ""
        var isThere = false
        let subscription = connection.subscribe(
            sender: owner, path: "/org/accessorysetup1", interface: Bus.properties, member: "PropertiesChanged", argument0: manager
        ) { message in
            let changed = (try? message.arguments())?[1].vardictValue
            if let available = changed?["PickerAvailable"]?.booleanValue { isThere = available }
        }
        defer { subscription.cancel() }
        // Asked after the subscription: a change in between is then not missed.
        isThere = try property(of: "/org/accessorysetup1", Self.daemon, manager, "PickerAvailable").booleanValue ?? false
        guard loop.run(until: { isThere }, timeout: patience) else { throw Failure("no picker program came") }
    }

    /// The first accessory that is set up for this app already.
    var firstAccessory: Die? {
        let value = try? property(of: session, Self.daemon, Self.interface, "Accessories")
        guard let path = value?.arrayValue?.first?.objectPathValue else { return nil }
        return try? die(path)
    }

    private func die(_ path: ObjectPath) throws -> Die {
        let interface = "org.accessorysetup1.Accessory"
        return Die(
            accessory: path, name: try property(of: path, Self.daemon, interface, "DisplayName").stringValue ?? "",
            device: try property(of: path, Self.daemon, interface, "Device").objectPathValue ?? "/")
    }

    private func property(of path: ObjectPath, _ service: String, _ interface: String, _ name: String) throws -> DBusValue {
        try connection.callAndWait(service, path, Bus.properties, "Get", [.string(interface), .string(name)])[0].unwrapped
    }

    /// Shows the picker and waits for its end.
    func add(_ dice: [(name: String, service: String)], discoveryTimeout: Double?) throws -> Die {
        let items = dice.map { die in
            DBusValue.vardict([
                "name": .string(die.name),
                "descriptor": .vardict([
                    "bluetoothServiceUUID": .string(die.service), "supportedOptions": .strings(["bluetoothPairingLE"]),
                ]),
            ])
        }
        let settings = discoveryTimeout.map { ["discoveryTimeout": DBusValue.double($0)] } ?? [:]
        _ = try connection.callAndWait(
            Self.daemon, session, Self.interface, "ShowPicker", [.array(of: "a{sv}", items), .vardict(settings)])
        let end = try wait(for: ["accessoryAdded", "pickerDidDismiss"])
        guard end.type == "accessoryAdded", let path = end.details["accessory"]?.objectPathValue else {
            throw Failure("no die was added: \(end.details["error"]?.stringValue ?? "no reason given")")
        }
        _ = try wait(for: ["pickerDidDismiss"])
        return try die(path)
    }

    func remove(_ die: Die) throws {
        _ = try connection.callAndWait(Self.daemon, session, Self.interface, "RemoveAccessory", [.objectPath(die.accessory)])
        _ = try wait(for: ["accessoryRemoved"])
    }

    // MARK: The die itself, over BlueZ

    private static let bluez = "org.bluez"
    /// 0xFF3F: the rolls.
    private static let rollCharacteristic = "0000ff3f-0000-1000-8000-00805f9b34fb"

    func printRolls(of die: Die, count: Int) throws {
        guard die.device.rawValue != "/" else { throw Failure("BlueZ does not know \(die.name) now") }
        try connect(die)
        let characteristic = try findCharacteristic(of: die)
        let owner =
            try connection.callAndWait(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(Self.bluez)]).first?.stringValue ?? ""
        var rolls = 0
        let subscription = connection.subscribe(
            sender: owner, path: characteristic, interface: Bus.properties, member: "PropertiesChanged"
        ) { message in
            guard let changed = (try? message.arguments())?[1].vardictValue, let value = changed["Value"]?.bytesValue else {
                return
            }
            rolls += 1
            StandardOutput.line("\(die.name) rolled \(value.first ?? 0)")
        }
        _ = try connection.callAndWait(Self.bluez, characteristic, "org.bluez.GattCharacteristic1", "StartNotify")
        let arrived = loop.run(until: { rolls >= count }, timeout: patience)
        subscription.cancel()
        guard arrived else { throw Failure("only \(rolls) of \(count) rolls arrived") }
    }

    /// Links break in busy air; a few attempts are usual.
    private func connect(_ die: Die) throws {
        var attempt = 1
        while true {
            do {
                _ = try connection.callAndWait(Self.bluez, die.device, "org.bluez.Device1", "Connect", timeout: .seconds(40))
                return
            } catch {
                guard attempt < 4 else { throw error }
                attempt += 1
                // What BlueZ needs to notice that the link is down; nothing signals the moment at which trying again helps.
                let pause = Duration.seconds(attempt)
                _ = loop.run(until: { false }, timeout: pause)
            }
        }
    }

    /// Services appear some time after the connection does.
    private func findCharacteristic(of die: Die) throws -> ObjectPath {
        var found: ObjectPath?
        let look = { [self] in
            let reply = try? connection.callAndWait(Self.bluez, "/", Bus.objectManager, "GetManagedObjects")
            for entry in reply?.first?.entries ?? [] {
                guard let path = entry.key.objectPathValue, path.isBelow(die.device),
                    let properties = entry.value.vardictValue?["org.bluez.GattCharacteristic1"]?.vardictValue,
                    properties["UUID"]?.stringValue == Self.rollCharacteristic
                else { continue }
                found = path
            }
        }
        look()
        let poll = loop.every(.milliseconds(250)) {
            look()
            return found == nil
        }
        defer { poll.cancel() }
        guard loop.run(until: { found != nil }, timeout: patience), let found else {
            throw Failure("\(die.name) has no characteristic 0xFF3F")
        }
        return found
    }
}

// SPDX-License-Identifier: Apache-2.0
// The app's side of the session: what it asks for, and the events that it prints. The program is a sequence of steps, so events and
// completions, which come on a queue, are handed over to the thread that waits for them.

internal import AccessorySetupKit
internal import DBusKit
internal import Dispatch
internal import Foundation
internal import ProgramSupport
internal import Synchronization

final class DiceApp {
    private let session = ASAccessorySession()
    private let queue = DispatchQueue(label: "dice")
    private let inbox = Inbox()
    private let bus: String
    private let timeout: Double

    private static let allKinds: [(name: String, service: String)] = [
        ("Pink Dice", "E56A082E-C49B-47CA-A2AB-389127B8ABE3"), ("Blue Dice", "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7"),
    ]

    /// What the app looks for: of all its kinds those that its Info.plist declares, as no others are allowed. The file
    /// lies beside the program, and the manifest names it. Without one, the manifest itself has to declare all kinds.
    static var kinds: [(name: String, service: String)] {
        guard let declared = Bundle.main.object(forInfoDictionaryKey: "NSAccessorySetupBluetoothServices") as? [String] else {
            return allKinds
        }
        return allKinds.filter { kind in declared.contains { CBUUID(string: $0) == CBUUID(string: kind.service) } }
    }

    init(bus: String, timeout: Double) throws {
        self.bus = bus
        self.timeout = timeout
        // The module uses the system bus; this is how any program is led to another one.
        if bus != "system" {
            let address = bus == "session" ? ProcessInfo.processInfo.environment["DBUS_SESSION_BUS_ADDRESS"] : bus
            guard let address else { throw Failure("there is no session bus") }
            setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1)
        }
    }

    /// Activates the session.
    func begin() throws {
        session.activate(on: queue) { [inbox] event in
            var text = "event \(event.eventType)"
            if let name = event.accessory?.displayName { text += " “\(StandardOutput.printable(name))”" }
            if let error = event.error { text += ": \(StandardOutput.printable(error.localizedDescription))" }
            StandardOutput.line(text)
            inbox.put(event)
        }
        let event = try inbox.wait(for: [.activated, .invalidated], timeout)
        if event.eventType == .invalidated { throw event.error ?? Failure("the session could not be activated") }
    }

    var dice: [ASAccessory] { session.accessories }

    func die(named name: String) throws -> ASAccessory {
        guard let die = dice.first(where: { $0.displayName == name }) else { throw Failure("no die is called \(name)") }
        return die
    }

    /// Shows the picker and waits for its end.
    func add(discoveryTimeout: Double?, rename: Bool = false) throws -> ASAccessory {
        guard let image = UIImage(data: Data(Self.drawing.utf8)) else { throw Failure("the drawing of a die is no image") }
        let kinds = Self.kinds
        guard !kinds.isEmpty else { throw Failure("the app's Info.plist declares no dice") }
        let items = kinds.map { kind in
            let descriptor = ASDiscoveryDescriptor()
            descriptor.bluetoothServiceUUID = CBUUID(string: kind.service)
            descriptor.supportedOptions = .bluetoothPairingLE
            let item = ASPickerDisplayItem(name: kind.name, productImage: image, descriptor: descriptor)
            if rename { item.setupOptions = .rename }
            return item
        }
        if let discoveryTimeout {
            let settings = ASPickerDisplaySettings.default
            settings.discoveryTimeout = .init(rawValue: discoveryTimeout)
            session.pickerDisplaySettings = settings
        }
        try finished { session.showPicker(for: items, completionHandler: $0) }
        guard let die = inbox.last(.accessoryAdded)?.accessory else { throw Failure("no die was added") }
        return die
    }

    func rename(_ die: ASAccessory) throws {
        try finished { session.renameAccessory(die, completionHandler: $0) }
    }

    func remove(_ die: ASAccessory) throws {
        try finished { session.removeAccessory(die, completionHandler: $0) }
        _ = try inbox.wait(for: [.accessoryRemoved], timeout)
    }

    func printRolls(of die: ASAccessory, count: Int) throws {
        let name = StandardOutput.printable(die.displayName)
        // As it is now: the event's snapshot may be older than BlueZ' object.
        let current = dice.first { $0 == die } ?? die
        guard let device = current.devicePath.flatMap({ ObjectPath($0) }) else { throw Failure("BlueZ does not know \(name) now") }
        try DieLink(Connection.Address(bus), timeout: .seconds(timeout)).printRolls(of: name, device, count: count)
    }

    /// Waits until somebody can show a picker; the session API has no word for that, the daemon's bus interface has.
    func waitForPicker() throws {
        let loop = MainLoop()
        let connection = try Connection(Connection.Address(bus), loop: loop)
        let (service, manager): (String, String) = ("org.accessorysetup1", "org.accessorysetup1.Manager")
        let owner =
            try connection.callAndWait(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(service)]).first?.stringValue ?? ""
        var isThere = false
        let subscription = connection.subscribe(
            sender: owner, path: "/org/accessorysetup1", interface: Bus.properties, member: "PropertiesChanged", argument0: manager
        ) { message in
            let changed = (try? message.arguments())?[1].vardictValue
            if let available = changed?["PickerAvailable"]?.booleanValue { isThere = available }
        }
        defer { subscription.cancel() }
        // Asked after the subscription: a change in between is then not missed.
        let value = try connection.callAndWait(
            service, "/org/accessorysetup1", Bus.properties, "Get", [.string(manager), .string("PickerAvailable")])
        isThere = value.first?.unwrapped.booleanValue ?? false
        guard loop.run(until: { isThere }, timeout: .seconds(timeout)) else { throw Failure("no picker program came") }
    }

    /// Begins a request and waits for its completion.
    private func finished(_ begin: (@escaping @Sendable ((any Error)?) -> Void) -> Void) throws {
        let result = Result()
        begin { result.put($0) }
        try result.wait(timeout)
    }

    /// A die of the app's own drawing, with a border as its makers like it.
    private static let drawing = """
        <svg xmlns="http://www.w3.org/2000/svg" width="180" height="120" viewBox="0 0 180 120">
        <rect x="50" y="20" width="80" height="80" rx="14" fill="#ff5fa2"/>
        <g fill="#fff"><circle cx="70" cy="40" r="8"/><circle cx="110" cy="40" r="8"/><circle cx="90" cy="60" r="8"/>
        <circle cx="70" cy="80" r="8"/><circle cx="110" cy="80" r="8"/></g></svg>
        """
}

/// Events, from the queue to the thread that waits for them.
private final class Inbox: Sendable {
    private struct State {
        var events: [ASAccessoryEvent] = []
        var seen = 0
    }

    private let state = Mutex(State())
    private let arrival = DispatchSemaphore(value: 0)

    func put(_ event: ASAccessoryEvent) {
        state.withLock { $0.events.append(event) }
        arrival.signal()
    }

    /// The next event of one of these types; earlier ones of other types are passed over.
    func wait(for types: Set<ASAccessoryEventType>, _ seconds: Double) throws -> ASAccessoryEvent {
        let deadline = DispatchTime.now() + seconds
        while true {
            let found = state.withLock { state -> ASAccessoryEvent? in
                while state.seen < state.events.count {
                    state.seen += 1
                    if types.contains(state.events[state.seen - 1].eventType) { return state.events[state.seen - 1] }
                }
                return nil
            }
            if let found { return found }
            guard arrival.wait(timeout: deadline) == .success else {
                throw Failure("no \(types.map { "\($0)" }.sorted().joined(separator: " or ")) in time")
            }
        }
    }

    func last(_ type: ASAccessoryEventType) -> ASAccessoryEvent? {
        state.withLock { $0.events.last { $0.eventType == type } }
    }
}

/// The completion of a request, from the queue to the thread that waits for it.
private final class Result: Sendable {
    private let error = Mutex<(any Error)?>(nil)
    private let arrival = DispatchSemaphore(value: 0)

    func put(_ new: (any Error)?) {
        error.withLock { $0 = new }
        arrival.signal()
    }

    func wait(_ seconds: Double) throws {
        guard arrival.wait(timeout: .now() + seconds) == .success else { throw Failure("no answer in time") }
        if let error = error.withLock({ $0 }) { throw error }
    }
}

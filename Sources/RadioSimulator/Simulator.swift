// SPDX-License-Identifier: Apache-2.0
// A running scenario: the air, the simulated services, and a control object by which tests play further actions.

internal import AccessoryModel
public import DBusKit
public import Logging

/// Plays a scenario on a bus, from its beginning on. Used on the main loop's thread only.
public final class Simulator {
    /// The well-known name of the control object.
    public static let controlName = "org.accessorysetup.Simulator1"
    /// The path of the control object, which every client may use (Docs/Simulator.md).
    public static let controlPath: ObjectPath = "/org/accessorysetup/simulator"

    private let address: Connection.Address
    private let loop: MainLoop
    private var scenario: Scenario
    fileprivate let air: Air
    private let log: Logger
    private let control: Connection
    fileprivate let wifi: WiFiSimulation
    private let controlServer: ObjectServer
    private var bluez: SimulatedBlueZ?
    private var present: Set<String>
    private var power: [String: Bool] = [:]
    private var waiting: [Scenario.Event]
    /// Called once when the bus goes away.
    public var onDisconnect: (() -> Void)? {
        get { control.onDisconnect }
        set { control.onDisconnect = newValue }
    }

    /// - Parameter inputDirectory: where the input devices of this simulated machine are listed, for a daemon that
    ///   looks there.
    /// - Throws: the bus' error; `AddressInUse` when another program owns `org.bluez`.
    public init(
        _ scenario: Scenario, bus address: Connection.Address, inputDirectory: String? = nil, loop: MainLoop, log: Logger
    ) throws(BusError) {
        self.scenario = scenario
        self.address = address
        self.loop = loop
        self.log = log
        air = Air(scenario, input: InputDirectory(inputDirectory), loop: loop)
        wifi = WiFiSimulation(scenario, bus: address, loop: loop)
        present = Set(scenario.adapters.map(\.name))
        waiting = scenario.events
        control = try Connection(address, loop: loop)
        controlServer = ObjectServer(on: control, root: Self.controlPath)
        let description = try Interfaces.load()[Interfaces.simulator]!
        controlServer.export(ControlObject(self, description))
        control.onCall = { [controlServer] in controlServer.serve($0) }
        try control.requestName(Self.controlName)
        try startService()
        air.play()
        wifi.onScanStarted = { [unowned self] in trigger { if case .scanStarted(let after) = $0 { after } else { nil } } }
        try wifi.start()
        for event in waiting {
            guard case .at(let seconds) = event.trigger else { continue }
            loop.after(.seconds(seconds)) { [unowned self] in perform(event.action) }
        }
    }

    /// Sends the first advert of each accessory as fast as the bus takes them, regardless of the scenario's times,
    /// in addition to the scheduled ones. An accessory that is out of range, away or connected sends nothing.
    public func flood() {
        air.flood { [unowned self] in bluez?.connection.flush() }
    }

    private func startService() throws(BusError) {
        guard bluez == nil else { return }
        let bluez = try SimulatedBlueZ(address, loop: loop, air: air, log: log)
        bluez.onDiscoveryStarted = { [unowned self] in
            trigger { if case .discoveryStarted(let after) = $0 { after } else { nil } }
        }
        bluez.onPairingStarted = { [unowned self] accessory in
            trigger {
                if case .pairingStarted(let id, let after) = $0, id == accessory.scenario.id { after } else { nil }
            }
        }
        try bluez.start(scenario.adapters.filter { present.contains($0.name) }.map(withPower))
        self.bluez = bluez
    }

    private func withPower(_ adapter: Scenario.Adapter) -> Scenario.Adapter {
        var adapter = adapter
        adapter.isPowered = power[adapter.name] ?? adapter.isPowered
        return adapter
    }

    /// `on` events happen once.
    private func trigger(_ delay: (Scenario.Event.Trigger) -> Double?) {
        let due = waiting.filter { delay($0.trigger) != nil }
        waiting.removeAll { delay($0.trigger) != nil }
        for event in due {
            loop.after(.seconds(delay(event.trigger) ?? 0)) { [unowned self] in perform(event.action) }
        }
    }

    func perform(_ action: Scenario.Action) {
        log.info("scenario: \(action)")
        switch action {
        case .adapterRemoved(let name):
            present.remove(name)
            bluez?.remove(name)
        case .adapterAdded(let name):
            present.insert(name)
            if let adapter = scenario.adapters.first(where: { $0.name == name }) { bluez?.add(withPower(adapter)) }
        case .adapterPowerOff(let name): setPower(name, false)
        case .adapterPowerOn(let name): setPower(name, true)
        case .monitorsReleased(let name): bluez?.adapters[name]?.monitors?.release()
        case .adaptersSwapped: swapAdapters()
        case .serviceStopped:
            bluez?.stop()
            bluez = nil
        case .serviceStarted:
            do { try startService() } catch { log.error("the service does not start", metadata: ["error": "\(error)"]) }
        case .vanish(let id):
            guard let accessory = air.accessory(id) else { return wifi.setAway(id, true) }
            accessory.isAway = true
            for adapter in bluez.map({ Array($0.adapters.values) }) ?? [] {
                adapter.device(of: accessory)?.linkLost(.timeout)
            }
        case .return(let id):
            guard let accessory = air.accessory(id) else { return wifi.setAway(id, false) }
            accessory.isAway = false
        case .servicesChanged(let id):
            guard let accessory = air.accessory(id) else { return }
            for adapter in bluez.map({ Array($0.adapters.values) }) ?? [] { adapter.device(of: accessory)?.servicesChanged() }
        case .keysForgotten(let id):
            guard let accessory = air.accessory(id) else { return }
            accessory.forgottenBonds = accessory.bonds
            for adapter in bluez.map({ Array($0.adapters.values) }) ?? [] { adapter.device(of: accessory)?.linkLost(.remote) }
        case .wifiStopped(let service): wifi.stop(service)
        case .wifiStarted(let service):
            do { try wifi.start(service) } catch { log.error("the service does not start", metadata: ["error": "\(error)"]) }
        case .interfaceRemoved(let name): wifi.setPresent(name, false)
        case .interfaceAdded(let name): wifi.setPresent(name, true)
        case .wifiOff: wifi.setBlocked(true)
        case .wifiOn: wifi.setBlocked(false)
        }
    }

    /// Whether the scenario has the target of an action.
    fileprivate func knows(_ action: Scenario.Action) -> Bool {
        switch action {
        case .vanish(let id), .return(let id): air.accessory(id) != nil || scenario.accessPoints.contains { $0.id == id }
        case .servicesChanged(let id), .keysForgotten(let id): air.accessory(id) != nil
        case .adapterRemoved(let name), .adapterAdded(let name), .adapterPowerOff(let name), .adapterPowerOn(let name),
            .monitorsReleased(let name):
            scenario.adapters.contains { $0.name == name }
        default: true
        }
    }

    private func swapAdapters() {
        guard bluez == nil, scenario.adapters.count > 1 else {
            return log.error("adaptersSwapped: the service is there, or there are no two adapters")
        }
        let (first, second) = (scenario.adapters[0].name, scenario.adapters[1].name)
        let other = [first: second, second: first]
        (scenario.adapters[0].name, scenario.adapters[1].name) = (second, first)
        present = Set(present.map { other[$0] ?? $0 })
        power = Dictionary(uniqueKeysWithValues: power.map { (other[$0.key] ?? $0.key, $0.value) })
    }

    private func setPower(_ name: String, _ on: Bool) {
        power[name] = on
        bluez?.adapters[name]?.setPower(on)
    }

    fileprivate var bonds: [String] { air.accessories.filter { !$0.bonds.isEmpty }.map(\.scenario.id) }
    fileprivate var connections: [String] { air.accessories.filter { $0.connectedTo != nil }.map(\.scenario.id) }
}

/// The control object.
private final class ControlObject: ExportedObject {
    let path = Simulator.controlPath
    private(set) var interfaces: [ExportedInterface] = []

    init(_ simulator: Simulator, _ description: InterfaceDescription) {
        var control = ExportedInterface(description)
        control.method("Do") { [unowned simulator] call throws(BusError) in
            let word = call.arguments[0].stringValue ?? ""
            let target = call.arguments[1].stringValue ?? ""
            guard let action = Scenario.Action(word, target: target) else { throw .invalidArguments("unknown action: \(word)") }
            guard simulator.knows(action) else { throw .invalidArguments("\(word): there is no “\(target)”") }
            simulator.perform(action)
            call.reply()
        }
        control.method("Bonds") { [unowned simulator] call throws(BusError) in call.reply(.strings(simulator.bonds)) }
        control.method("Adverts") { [unowned simulator] call throws(BusError) in call.reply(.uint64(simulator.air.sent)) }
        control.method("SearchTime") { [unowned simulator] call throws(BusError) in
            call.reply(.double(simulator.air.searchTime))
        }
        control.method("Scans") { [unowned simulator] call throws(BusError) in call.reply(.uint32(simulator.wifi.scans)) }
        control.method("Joined") { [unowned simulator] call throws(BusError) in
            let joined = simulator.wifi.joined.sorted { $0.key < $1.key }
            call.reply(.dictionary(key: "s", value: "s", joined.map { .init(.string($0.key), .string($0.value)) }))
        }
        control.method("KnownNetworks") { [unowned simulator] call throws(BusError) in
            call.reply(.strings(simulator.wifi.knownNetworks))
        }
        control.method("Secrets") { [unowned simulator] call throws(BusError) in call.reply(.uint32(simulator.wifi.secrets)) }
        control.method("Connections") { [unowned simulator] call throws(BusError) in call.reply(.strings(simulator.connections)) }
        interfaces = [control]
    }

    func isVisible(to caller: String) -> Bool { true }
}

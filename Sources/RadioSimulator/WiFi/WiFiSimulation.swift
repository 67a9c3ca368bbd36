// SPDX-License-Identifier: Apache-2.0
// The simulated Wi-Fi services over one air: each lives on a bus connection of its own, so that each can stop and start
// alone.

internal import DBusKit
internal import Logging

/// One life of a simulated service.
protocol WiFiService: AnyObject {
    /// Exports everything, then takes the name.
    func start() throws(BusError)
    func stop()
    func add(_ radio: Radio)
    func remove(_ radio: Radio)
    /// All radios were switched off or on.
    func blockedChanged()
    func pointGone(_ point: AirAccessPoint)
    func awareAppeared(_ service: Scenario.AwareService)
    /// What each interface is joined to.
    var joined: [String: [UInt8]] { get }
    /// The profiles that it holds.
    var profiles: [StoredProfile] { get }
}

extension WiFiService {
    func awareAppeared(_ service: Scenario.AwareService) {}
}

final class WiFiSimulation {
    private let air: WiFiAir
    private let address: Connection.Address
    private let log: Logger
    private var services: [Scenario.WiFi.Service: any WiFiService] = [:]
    var onScanStarted: (() -> Void)? {
        didSet { air.onScanStarted = onScanStarted }
    }

    init(_ scenario: Scenario, bus address: Connection.Address, loop: MainLoop, log: Logger) {
        air = WiFiAir(scenario, loop: loop)
        self.address = address
        self.log = log
        air.onGone = { [unowned self] point in for service in services.values { service.pointGone(point) } }
        air.onBlocked = { [unowned self] in setBlocked($0) }
        air.onAware = { [unowned self] aware in for service in services.values { service.awareAppeared(aware) } }
    }

    func start() throws(BusError) {
        air.play()
        for service in air.wifi.services { try start(service) }
    }

    func start(_ name: Scenario.WiFi.Service) throws(BusError) {
        guard services[name] == nil else { return }
        let service: any WiFiService =
            switch name {
            case .wpaSupplicant: try SimulatedSupplicant(air, address)
            case .networkManager: try SimulatedNetworkManager(air, address)
            case .iwd: try SimulatedIWD(air, address)
            }
        try service.start()
        services[name] = service
    }

    func stop(_ name: Scenario.WiFi.Service) {
        services.removeValue(forKey: name)?.stop()
    }

    func setAway(_ id: String, _ isAway: Bool) {
        guard let point = air.points.first(where: { $0.scenario.id == id }) else { return }
        point.isAway = isAway
        if isAway { for service in services.values { service.pointGone(point) } }
    }

    func removeInterface(_ name: String) {
        guard let radio = air.radios.first(where: { $0.name == name }), radio.isPresent else { return }
        air.setPresent(radio, false)
        for service in services.values { service.remove(radio) }
    }

    func addInterface(_ name: String) {
        guard let radio = air.radios.first(where: { $0.name == name }), !radio.isPresent else { return }
        air.setPresent(radio, true)
        for service in services.values { service.add(radio) }
    }

    func setBlocked(_ isBlocked: Bool) {
        guard air.isBlocked != isBlocked else { return }
        air.setBlocked(isBlocked)
        for service in services.values { service.blockedChanged() }
    }

    // MARK: What tests ask

    var scans: UInt32 { air.scans }

    /// Where several services say something about an interface, what is not its uplink counts: somebody has joined it
    /// since.
    var joined: [String: String] {
        var result: [String: String] = [:]
        for service in services.values {
            for (name, ssid) in service.joined {
                let isUplink = air.radios.contains { $0.name == name && $0.uplink == ssid }
                if result[name] == nil || !isUplink { result[name] = lossyText(ssid) }
            }
        }
        return result
    }

    private var profiles: [StoredProfile] {
        // What is on disk stays there when its service stops.
        (services[.iwd] == nil && air.wifi.services.contains(.iwd) ? air.iwdProfiles : [])
            + (services[.networkManager] == nil && air.wifi.services.contains(.networkManager) ? air.managerProfiles : [])
            + services.values.flatMap(\.profiles)
    }

    var knownNetworks: [String] { Set(profiles.map { lossyText($0.ssid) }).sorted() }
    var secrets: UInt32 { UInt32(profiles.filter { !$0.isUplink && $0.key != nil }.count) }
}

/// A service's place on the bus: its connection, its objects, and the clients that it watches.
final class ServiceBus {
    let connection: Connection
    let server: ObjectServer
    let descriptions: [String: InterfaceDescription]
    private let name: String
    private var watches: [String: Subscription] = [:]
    var onClientGone: ((String) -> Void)?

    init(_ name: String, root: ObjectPath, xml: String, _ address: Connection.Address, loop: MainLoop) throws(BusError) {
        self.name = name
        connection = try Connection(address, loop: loop)
        server = ObjectServer(on: connection, root: root)
        descriptions = try Interfaces.load(xml)
    }

    func start() throws(BusError) {
        connection.onCall = { [server] in server.serve($0) }
        try connection.requestName(name)
    }

    func stop() {
        connection.onCall = nil
        for watch in watches.values { watch.cancel() }
        watches = [:]
        connection.flush()
        connection.close()
    }

    func interface(_ name: String) -> ExportedInterface { ExportedInterface(descriptions[name]!) }

    func changed(_ object: any ExportedObject, _ interface: String, _ names: [String]) {
        server.propertiesChanged(object, interface, names, to: .everybody)
    }

    func emit(_ path: ObjectPath, _ interface: String, _ member: String, _ arguments: DBusValue...) {
        server.emit(path: path, interface: interface, member: member, to: nil, arguments)
    }

    /// Tells `onClientGone` when a client leaves the bus.
    func watch(_ client: String) {
        guard watches[client] == nil else { return }
        watches[client] = connection.subscribe(
            sender: Bus.name, path: Bus.path, interface: Bus.name, member: "NameOwnerChanged", argument0: client
        ) { [weak self] message in
            guard let self, let new = (try? message.arguments())?.last?.stringValue, new.isEmpty else { return }
            self.watches.removeValue(forKey: client)?.cancel()
            self.onClientGone?(client)
        }
    }
}

/// An object without a life of its own.
final class PlainObject: ExportedObject {
    let path: ObjectPath
    let interfaces: [ExportedInterface]

    init(_ path: ObjectPath, _ interfaces: [ExportedInterface] = []) {
        self.path = path
        self.interfaces = interfaces
    }

    func isVisible(to caller: String) -> Bool { true }
}

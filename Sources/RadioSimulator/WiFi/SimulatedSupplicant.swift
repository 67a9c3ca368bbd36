// SPDX-License-Identifier: Apache-2.0
// One life of the simulated wpa_supplicant: its root object and its interfaces. Networks that were added over the bus
// go with it; the uplink comes back with the next one, as from its configuration file.

internal import DBusKit

final class SimulatedSupplicant: WiFiService {
    let air: WiFiAir
    let bus: ServiceBus
    private var interfaces: [String: SupplicantInterface] = [:]
    private var nextNumber = 0
    private var root: PlainObject?

    static let path: ObjectPath = "/fi/w1/wpa_supplicant1"

    init(_ air: WiFiAir, _ address: Connection.Address) throws(BusError) {
        self.air = air
        // The real one has no object manager on any of its objects.
        bus = try ServiceBus(
            SupplicantXML.root, root: "/fi/w1", xml: SupplicantXML.text(isAware: air.wifi.isAware), address, loop: air.loop)
    }

    func start() throws(BusError) {
        var description = bus.interface(SupplicantXML.root)
        description.property("Interfaces") { [unowned self] _ in .objectPaths(paths) }
        description.property("Capabilities") { _ in
            .strings(["ap", "ibss-rsn", "p2p", "interworking", "pmf", "mesh", "fils", "sha384"])
        }
        description.method("GetInterface") { [unowned self] call throws(BusError) in
            guard let interface = interfaces[call.arguments[0].stringValue ?? ""] else {
                throw SupplicantError.named("InterfaceUnknown", "wpa_supplicant knows nothing about this interface.")
            }
            call.reply(.objectPath(interface.path))
        }
        let root = PlainObject(Self.path, [description])
        self.root = root
        bus.server.export(root)
        for radio in air.radios where radio.isPresent { add(radio) }
        try bus.start()
    }

    func stop() {
        for interface in interfaces.values { interface.end() }
        bus.stop()
    }

    private var paths: [ObjectPath] { interfaces.values.map(\.path).sorted() }

    func add(_ radio: Radio) {
        let interface = SupplicantInterface(radio, nextNumber, self)
        nextNumber += 1
        interfaces[radio.name] = interface
        bus.server.export(interface)
        bus.emit(Self.path, SupplicantXML.root, "InterfaceAdded", .objectPath(interface.path), .vardict(interface.values))
        interfacesChanged()
        interface.begin()
    }

    func remove(_ radio: Radio) {
        guard let interface = interfaces.removeValue(forKey: radio.name) else { return }
        interface.end()
        bus.server.withdraw(interface.path)
        bus.emit(Self.path, SupplicantXML.root, "InterfaceRemoved", .objectPath(interface.path))
        interfacesChanged()
    }

    private func interfacesChanged() {
        guard let root else { return }
        bus.changed(root, SupplicantXML.root, ["Interfaces"])
        bus.emit(Self.path, SupplicantXML.root, "PropertiesChanged", .vardict(["Interfaces": .objectPaths(paths)]))
    }

    func blockedChanged() { for interface in interfaces.values { interface.blockedChanged() } }
    func pointGone(_ point: AirAccessPoint) { for interface in interfaces.values { interface.pointGone(point) } }
    func awareAppeared(_ service: Scenario.AwareService) {
        for interface in interfaces.values { interface.aware.appeared(service) }
    }
    var joined: [String: [UInt8]] { interfaces.compactMapValues(\.joined) }
    var profiles: [StoredProfile] { interfaces.values.flatMap { $0.networks.values.map(\.profile) } }
}

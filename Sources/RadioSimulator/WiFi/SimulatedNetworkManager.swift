// SPDX-License-Identifier: Apache-2.0
// One life of the simulated NetworkManager (introspection/*.xml of 1.42): devices and activations. Its profiles are the
// uplinks, which are on disk, and volatile ones, which end with their activation.

internal import DBusKit

final class SimulatedNetworkManager: SimulatedWiFiService {
    static let name = "org.freedesktop.NetworkManager"
    static let device = "org.freedesktop.NetworkManager.Device"
    static let wireless = "org.freedesktop.NetworkManager.Device.Wireless"
    static let accessPoint = "org.freedesktop.NetworkManager.AccessPoint"
    static let active = "org.freedesktop.NetworkManager.Connection.Active"
    static let path: ObjectPath = "/org/freedesktop/NetworkManager"

    private(set) var connections: [ManagerProfile] = []
    private var activations: [ManagerActivation] = []

    private static let table = """
        org.freedesktop.NetworkManager
            GetDevices() -> ao
            GetDeviceByIpIface(s) -> o
            ActivateConnection(o, o, o) -> o
            AddAndActivateConnection2(a{sa{sv}}, o, o, a{sv}) -> o, o, a{sv}
            DeactivateConnection(o)
            signal DeviceAdded(o)
            signal DeviceRemoved(o)
        org.freedesktop.NetworkManager.Device
            signal StateChanged(u, u, u)
            Interface: s
            State: u
            ActiveConnection: o
            Managed: b
            DeviceType: u
        org.freedesktop.NetworkManager.Device.Wireless
            GetAllAccessPoints() -> ao
            RequestScan(a{sv})
            LastScan: x
        org.freedesktop.NetworkManager.AccessPoint
            Flags: u
            WpaFlags: u
            RsnFlags: u
            Ssid: ay
            Frequency: u
            Strength: y
            LastSeen: i
        org.freedesktop.NetworkManager.Connection.Active
            signal StateChanged(u, u)
            Connection: o
            SpecificObject: o
            Id: s
            State: u
        """

    init(_ air: WiFiAir, _ address: Connection.Address) throws(BusError) {
        try super.init(Self.name, root: "/org/freedesktop", Self.table, air, address)
    }

    override func exportRoot() {
        bus.onClientGone = { [unowned self] client in
            for activation in activations where activation.boundTo == client { activation.device.deactivate(.userRequested) }
        }
        bus.server.export(PlainObject("/org/freedesktop"))
        bus.server.export(PlainObject(Self.path, [describeRoot()]))
        connections = air.uplinks.map { ManagerProfile($0, id: lossyText($0.ssid), next("Settings")) }
    }

    private func describeRoot() -> ExportedInterface {
        var manager = bus.interface(Self.name)
        manager.method("GetDevices") { [unowned self] call throws(BusError) in
            call.reply(.objectPaths(stations.values.map(\.path).sorted()))
        }
        manager.method("GetDeviceByIpIface") { [unowned self] call throws(BusError) in
            guard let device = stations[call.arguments[0].stringValue ?? ""] else {
                throw Self.error("UnknownDevice", "No device found for the requested iface.")
            }
            call.reply(.objectPath(device.path))
        }
        manager.method("ActivateConnection") { [unowned self] call throws(BusError) in
            let device = try device(call.arguments[1])
            let wanted = call.arguments[0].objectPathValue
            // “/” leaves the choice to NetworkManager.
            guard let profile = connections.first(where: { wanted == "/" ? device.isAvailable($0) : $0.path == wanted }),
                device.isAvailable(profile)
            else { throw Self.error("UnknownConnection", "The connection could not be found, or is not available.") }
            profile.isBlocked = false
            call.reply(.objectPath(device.activate(profile, boundTo: nil).path))
        }
        manager.method("AddAndActivateConnection2") { [unowned self] call throws(BusError) in
            let (profile, activation) = try addAndActivate(call)
            call.reply(.objectPath(profile.path), .objectPath(activation.path), .vardict([:]))
        }
        manager.method("DeactivateConnection") { [unowned self] call throws(BusError) in
            guard let activation = activations.first(where: { $0.path == call.arguments[0].objectPathValue }) else {
                throw Self.error("ConnectionNotActive", "The connection was not active.")
            }
            activation.profile.isBlocked = true
            call.reply()
            activation.device.deactivate(.userRequested)
        }
        return manager
    }

    private func device(_ value: DBusValue) throws(BusError) -> ManagerDevice {
        guard let device = stations.values.first(where: { $0.path == value.objectPathValue }) as? ManagerDevice else {
            throw Self.error("UnknownDevice", "Device not found")
        }
        return device
    }

    private func addAndActivate(_ call: MethodCall) throws(BusError) -> (ManagerProfile, ManagerActivation) {
        let options = (call.arguments[3].vardictValue ?? [:]).mapValues { $0.stringValue }
        guard options["persist"] == "volatile", options.keys.allSatisfy(["persist", "bind-activation"].contains) else {
            throw Self.error("InvalidArguments", "Only volatile connections are simulated")
        }
        let device = try device(call.arguments[1])
        guard device.state >= .disconnected else {
            throw Self.error("UnknownConnection", "device \(device.radio.name) is not available")
        }
        let (profile, id) = try ManagerProfile.read(call.arguments[0]) { device.heardNames.contains($0) }
        let added = ManagerProfile(profile, id: id, isVolatile: true, next("Settings"))
        connections.append(added)
        let client = options["bind-activation"] == "dbus-client" ? call.sender : nil
        if let client { bus.watch(client) }
        return (added, device.activate(added, boundTo: client))
    }

    func begin(_ activation: ManagerActivation) {
        activations.append(activation)
        bus.server.export(activation, to: .everybody)
    }

    /// Removes the object of an activation that is over, with its profile if that is volatile.
    func end(_ activation: ManagerActivation) {
        activations.removeAll { $0 === activation }
        bus.server.withdraw(activation.path, to: .everybody)
        if activation.profile.isVolatile { connections.removeAll { $0 === activation.profile } }
    }

    override func makeStation(_ radio: Radio) -> Station { ManagerDevice(radio, next("Devices"), self) }

    override func stationsChanged(_ station: Station, isAdded: Bool) {
        bus.emit(Self.path, Self.name, isAdded ? "DeviceAdded" : "DeviceRemoved", .objectPath(station.path))
    }

    override var profiles: [StoredProfile] { connections.map(\.stored) }

    static func error(_ name: String, _ text: String) -> BusError { BusError(name: "\(Self.name).\(name)", message: text) }
}

/// A connection profile.
final class ManagerProfile {
    let path: ObjectPath
    let stored: StoredProfile
    let id: String
    let isVolatile: Bool
    /// Does not connect by itself, after a user's request or a wrong key.
    var isBlocked = false

    init(_ stored: StoredProfile, id: String, isVolatile: Bool = false, _ number: Int) {
        self.stored = stored
        self.id = id
        self.isVolatile = isVolatile
        path = SimulatedNetworkManager.path.appending("Settings")!.appending("\(number)")!
    }

    /// Decodes a client's settings.
    static func read(_ value: DBusValue, isHeard: ([UInt8]) -> Bool) throws(BusError) -> (StoredProfile, id: String) {
        func invalid(_ text: String) -> BusError { SimulatedNetworkManager.error("Settings.Connection.InvalidProperty", text) }
        var groups: [String: [String: DBusValue]] = [:]
        for entry in value.entries ?? [] { groups[entry.key.stringValue ?? ""] = entry.value.vardictValue ?? [:] }
        let wireless = groups["802-11-wireless"]
        let security = groups["802-11-wireless-security"]
        let ssid = wireless?["ssid"]?.bytesValue ?? []
        guard (1...32).contains(ssid.count) else {
            throw invalid("802-11-wireless.ssid: SSID length is out of range <1-32> bytes")
        }
        let kinds: [String: Scenario.AccessPoint.Security] = ["wpa-psk": .wpa2, "sae": .wpa3]
        let management = security?["key-mgmt"]?.stringValue
        guard let kind = management.map({ kinds[$0] }) ?? .open, (management == nil) == (security == nil) else {
            throw invalid("802-11-wireless-security.key-mgmt: '\(management ?? "")' is not a valid value for the property")
        }
        let key = security?["psk"]?.stringValue
        guard key.map({ (8...64).contains($0.utf8.count) }) ?? true else {
            throw invalid("802-11-wireless-security.psk: property is invalid")
        }
        let isHidden = wireless?["hidden"]?.booleanValue ?? false
        let profile = StoredProfile(
            ssid: ssid, key: key, isHidden: isHidden || !isHeard(ssid),
            interface: groups["connection"]?["interface-name"]?.stringValue, security: kind)
        return (profile, groups["connection"]?["id"]?.stringValue ?? lossyText(ssid))
    }

    func fits(_ point: Scenario.AccessPoint) -> Bool {
        switch stored.security {
        case .open: point.security == .open
        case .wpa3: point.security.takesSAE
        default: point.security.takesPassphrase
        }
    }
}

/// An active connection.
final class ManagerActivation: ExportedObject {
    /// `NMActiveConnectionState`.
    enum State: UInt32 {
        case unknown, activating, activated, deactivating, deactivated
    }

    let path: ObjectPath
    let profile: ManagerProfile
    unowned let device: ManagerDevice
    private(set) var interfaces: [ExportedInterface] = []
    private var state = State.unknown
    /// Ends when this client leaves the bus.
    let boundTo: String?

    init(_ profile: ManagerProfile, on device: ManagerDevice, boundTo: String?, _ number: Int) {
        self.profile = profile
        self.device = device
        self.boundTo = boundTo
        path = SimulatedNetworkManager.path.appending("ActiveConnection")!.appending("\(number)")!
        interfaces = [
            device.bus.interface(
                SimulatedNetworkManager.active,
                [
                    "Connection": { .objectPath(profile.path) }, "Id": { .string(profile.id) },
                    "SpecificObject": { [unowned device] in .objectPath(device.current?.path ?? "/") },
                    "State": { [unowned self] in .uint32(state.rawValue) },
                ])
        ]
    }

    func isVisible(to caller: String) -> Bool { true }

    func setState(_ state: State, reason: UInt32 = 0) {
        guard state != self.state else { return }
        self.state = state
        device.bus.emit(path, SimulatedNetworkManager.active, "StateChanged", .uint32(state.rawValue), .uint32(reason))
    }
}

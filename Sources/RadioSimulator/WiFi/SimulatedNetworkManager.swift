// SPDX-License-Identifier: Apache-2.0
// One life of the simulated NetworkManager: profiles, devices and activations. Volatile profiles go with it, others
// stay on disk.

internal import DBusKit

final class SimulatedNetworkManager: WiFiService {
    let air: WiFiAir
    let bus: ServiceBus
    private var devices: [String: ManagerDevice] = [:]
    private(set) var known: [ManagerProfile] = []
    private var activations: [ManagerActivation] = []
    private var root: PlainObject?
    private var settings: PlainObject?
    private var toldState: UInt32 = 20
    private var counters: [String: Int] = [:]

    static let path: ObjectPath = "/org/freedesktop/NetworkManager"
    static let settingsPath: ObjectPath = "/org/freedesktop/NetworkManager/Settings"

    init(_ air: WiFiAir, _ address: Connection.Address) throws(BusError) {
        self.air = air
        bus = try ServiceBus(NetworkManagerXML.root, root: "/org/freedesktop", xml: NetworkManagerXML.text, address, loop: air.loop)
    }

    func start() throws(BusError) {
        bus.onClientGone = { [unowned self] client in
            for activation in activations where activation.boundTo == client {
                device(of: activation)?.deactivate(.userRequested)
            }
        }
        bus.server.export(PlainObject("/org/freedesktop"))
        let root = PlainObject(Self.path, [describeRoot()])
        self.root = root
        bus.server.export(root)
        var list = bus.interface(NetworkManagerXML.settings)
        list.property("Connections") { [unowned self] _ in .objectPaths(known.map(\.path)) }
        list.method("ListConnections") { [unowned self] call throws(BusError) in call.reply(.objectPaths(known.map(\.path))) }
        let settings = PlainObject(Self.settingsPath, [list])
        self.settings = settings
        bus.server.export(settings)
        for stored in air.managerProfiles { addProfile(.init(stored), .disk, isUplink: stored.isUplink) }
        for radio in air.radios where radio.isPresent { add(radio) }
        try bus.start()
    }

    func stop() {
        for device in devices.values { device.end() }
        bus.stop()
    }

    private func describeRoot() -> ExportedInterface {
        var manager = bus.interface(NetworkManagerXML.root)
        for name in ["Devices", "AllDevices"] { manager.property(name) { [unowned self] _ in .objectPaths(devicePaths) } }
        manager.property("NetworkingEnabled") { _ in .boolean(true) }
        manager.property("WirelessEnabled") { [unowned self] _ in .boolean(!air.isBlocked) }
        manager.property("WirelessHardwareEnabled") { _ in .boolean(true) }
        manager.property("ActiveConnections") { [unowned self] _ in .objectPaths(activations.map(\.path)) }
        manager.property("Version") { _ in .string("1.42.4") }
        manager.property("State") { [unowned self] _ in .uint32(state) }
        manager.writable("WirelessEnabled") { [unowned self] value, _ in air.onBlocked?(!(value.booleanValue ?? true)) }
        for name in ["GetDevices", "GetAllDevices"] {
            manager.method(name) { [unowned self] call throws(BusError) in call.reply(.objectPaths(devicePaths)) }
        }
        manager.method("GetDeviceByIpIface") { [unowned self] call throws(BusError) in
            guard let device = devices[call.arguments[0].stringValue ?? ""] else {
                throw ManagerError.manager("UnknownDevice", "No device found for the requested iface.")
            }
            call.reply(.objectPath(device.path))
        }
        manager.method("ActivateConnection") { [unowned self] call throws(BusError) in
            let device = try device(call.arguments[1])
            let wanted = call.arguments[0].objectPathValue
            // “/” leaves the choice to it.
            guard let profile = known.first(where: { wanted == "/" ? device.isAvailable($0) : $0.path == wanted }) else {
                throw ManagerError.manager("UnknownConnection", "Connection could not be found.")
            }
            guard device.isAvailable(profile) else {
                throw ManagerError.manager(
                    "UnknownConnection",
                    "Connection '\(profile.settings.id)' is not available on device \(device.radio.name) because "
                        + "device is not available or its network is not there")
            }
            profile.isBlocked = false
            call.reply(.objectPath(device.activate(profile, at: call.arguments[2].objectPathValue ?? "/", boundTo: nil).path))
        }
        manager.method("AddAndActivateConnection") { [unowned self] call throws(BusError) in
            let (profile, activation) = try addAndActivate(call, [:])
            call.reply(.objectPath(profile.path), .objectPath(activation.path))
        }
        manager.method("AddAndActivateConnection2") { [unowned self] call throws(BusError) in
            let (profile, activation) = try addAndActivate(call, call.arguments[3].vardictValue ?? [:])
            call.reply(.objectPath(profile.path), .objectPath(activation.path), .vardict([:]))
        }
        manager.method("DeactivateConnection") { [unowned self] call throws(BusError) in
            guard let activation = activations.first(where: { $0.path == call.arguments[0].objectPathValue }) else {
                throw ManagerError.manager("ConnectionNotActive", "The connection was not active.")
            }
            activation.profile.isBlocked = true
            call.reply()
            device(of: activation)?.deactivate(.userRequested)
        }
        return manager
    }

    private func device(_ value: DBusValue) throws(BusError) -> ManagerDevice {
        let path = value.objectPathValue ?? "/"
        let all = devices.values.sorted { $0.path < $1.path }
        guard let device = path == "/" ? all.first : all.first(where: { $0.path == path }) else {
            throw ManagerError.manager("UnknownDevice", "Device not found")
        }
        return device
    }

    private func addAndActivate(_ call: MethodCall, _ options: [String: DBusValue]) throws(BusError) -> (
        ManagerProfile, ManagerActivation
    ) {
        var persistence = ManagerProfile.Persistence.disk
        var isBound = false
        for (name, value) in options.sorted(by: { $0.key < $1.key }) {
            switch (name, value.stringValue) {
            case ("persist", let word?):
                guard let known = ManagerProfile.Persistence(rawValue: word) else {
                    throw ManagerError.manager(
                        "InvalidArguments", "Option \"persist\" must be one of \"volatile\", \"memory\" or \"disk\"")
                }
                persistence = known
            case ("bind-activation", let word?):
                guard ["dbus-client", "none"].contains(word) else {
                    throw ManagerError.manager(
                        "InvalidArguments", "Option \"bind-activation\" must be one of \"dbus-client\" or \"none\"")
                }
                isBound = word == "dbus-client"
            default: throw ManagerError.manager("InvalidArguments", "Unknown extra option passed")
            }
        }
        let device = try device(call.arguments[1])
        let specific = call.arguments[2].objectPathValue ?? "/"
        let point = device.accessPoint(specific)
        guard specific == "/" || point != nil else {
            throw ManagerError.device("SpecificObjectNotFound", "The access point \(specific) was not in the scan list.")
        }
        guard device.state.rawValue >= DeviceState.disconnected.rawValue else {
            throw ManagerError.manager("UnknownConnection", "device \(device.radio.name) is not available")
        }
        let settings = try ManagerProfile.Settings(call.arguments[0], at: point) { device.sees($0.ssid) }
        let profile = addProfile(settings, persistence, isUplink: false)
        store()
        if isBound { bus.watch(call.sender) }
        return (profile, device.activate(profile, at: specific, boundTo: isBound ? call.sender : nil))
    }

    // MARK: Profiles

    func next(_ kind: String) -> Int {
        counters[kind, default: 0] += 1
        return counters[kind]!
    }

    @discardableResult
    private func addProfile(
        _ settings: ManagerProfile.Settings, _ persistence: ManagerProfile.Persistence, isUplink: Bool
    ) -> ManagerProfile {
        let profile = ManagerProfile(settings, persistence, isUplink: isUplink, self, next("Settings"))
        known.append(profile)
        bus.server.export(profile, to: .everybody)
        bus.emit(Self.settingsPath, NetworkManagerXML.settings, "NewConnection", .objectPath(profile.path))
        profilesChanged()
        return profile
    }

    func delete(_ profile: ManagerProfile) {
        guard known.contains(where: { $0 === profile }) else { return }
        known.removeAll { $0 === profile }
        store()
        for device in devices.values where device.activation?.profile === profile { device.deactivate(.connectionRemoved) }
        bus.emit(profile.path, NetworkManagerXML.connection, "Removed")
        bus.server.withdraw(profile.path, to: .everybody)
        bus.emit(Self.settingsPath, NetworkManagerXML.settings, "ConnectionRemoved", .objectPath(profile.path))
        profilesChanged()
    }

    private func profilesChanged() {
        if let settings { bus.changed(settings, NetworkManagerXML.settings, ["Connections"]) }
    }

    /// Profiles in memory are files too, in /run: they outlive the service.
    private func store() { air.managerProfiles = known.filter { $0.persistence != .volatile }.map(\.stored) }

    // MARK: Activations

    func begin(_ activation: ManagerActivation) {
        activations.append(activation)
        bus.server.export(activation, to: .everybody)
        changed("ActiveConnections", "State")
    }

    /// An activation is over: its object goes, and a volatile profile with it.
    func end(_ activation: ManagerActivation) {
        activations.removeAll { $0 === activation }
        bus.server.withdraw(activation.path, to: .everybody)
        changed("ActiveConnections", "State")
        if activation.profile.persistence == .volatile { delete(activation.profile) }
    }

    private func device(of activation: ManagerActivation) -> ManagerDevice? {
        devices.values.first { $0.activation === activation }
    }

    func changed(_ names: String...) {
        guard let root else { return }
        bus.changed(root, NetworkManagerXML.root, names)
        guard state != toldState else { return }
        toldState = state
        bus.emit(Self.path, NetworkManagerXML.root, "StateChanged", .uint32(state))
    }

    private var state: UInt32 {
        let states = activations.map(\.state)
        return states.contains(.activated) ? 70 : states.contains(.activating) ? 40 : 20
    }

    // MARK: Devices

    private var devicePaths: [ObjectPath] { devices.values.map(\.path).sorted() }

    func add(_ radio: Radio) {
        let device = ManagerDevice(radio, next("Devices"), self)
        devices[radio.name] = device
        bus.server.export(device, to: .everybody)
        bus.emit(Self.path, NetworkManagerXML.root, "DeviceAdded", .objectPath(device.path))
        changed("Devices", "AllDevices")
        device.begin()
    }

    func remove(_ radio: Radio) {
        guard let device = devices.removeValue(forKey: radio.name) else { return }
        device.removed()
        bus.server.withdraw(device.path, to: .everybody)
        bus.emit(Self.path, NetworkManagerXML.root, "DeviceRemoved", .objectPath(device.path))
        changed("Devices", "AllDevices")
    }

    func blockedChanged() {
        changed("WirelessEnabled")
        for device in devices.values { device.blockedChanged() }
    }

    func pointGone(_ point: AirAccessPoint) { for device in devices.values { device.pointGone(point) } }
    var joined: [String: [UInt8]] { devices.compactMapValues(\.joined) }
    var profiles: [StoredProfile] { known.map(\.stored) }
}

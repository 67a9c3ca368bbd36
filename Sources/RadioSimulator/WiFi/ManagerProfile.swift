// SPDX-License-Identifier: Apache-2.0
// A connection profile of NetworkManager, and one activation of it.

internal import AccessoryModel
internal import DBusKit

final class ManagerProfile: ExportedObject {
    let path: ObjectPath
    private(set) var interfaces: [ExportedInterface] = []
    let settings: Settings
    let persistence: Persistence
    let isUplink: Bool
    /// Not joined without being asked, after a user's request or a wrong key.
    var isBlocked = false
    private unowned let manager: SimulatedNetworkManager

    enum Persistence: String {
        case volatile, memory, disk
    }

    /// What of a profile is played.
    struct Settings {
        var id: String
        var uuid: String
        var ssid: [UInt8]
        var key: String?
        var keyManagement: String?
        var isHidden = false
        var autoconnects = true
        var interface: String?
    }

    init(_ settings: Settings, _ persistence: Persistence, isUplink: Bool, _ manager: SimulatedNetworkManager, _ number: Int) {
        self.settings = settings
        self.persistence = persistence
        self.isUplink = isUplink
        self.manager = manager
        path = SimulatedNetworkManager.path.appending("Settings")!.appending("\(number)")!
        var description = manager.bus.interface(NetworkManagerXML.connection)
        description.property("Unsaved") { _ in .boolean(persistence != .disk) }
        // UNSAVED 1, NM_GENERATED 2, VOLATILE 4.
        description.property("Flags") { _ in .uint32(persistence == .volatile ? 5 : persistence == .memory ? 1 : 0) }
        description.property("Filename") { _ in
            let directory = persistence == .disk ? "/etc/NetworkManager" : "/run/NetworkManager"
            return .string("\(directory)/system-connections/\(settings.id).nmconnection")
        }
        description.method("GetSettings") { [unowned self] call throws(BusError) in call.reply(value) }
        description.method("Delete") { [unowned self] call throws(BusError) in
            call.reply()
            self.manager.delete(self)
        }
        interfaces = [description]
    }

    func isVisible(to caller: String) -> Bool { true }

    /// The settings, without secrets.
    private var value: DBusValue {
        var groups: [(String, [String: DBusValue])] = [
            (
                "connection",
                [
                    "id": .string(settings.id), "uuid": .string(settings.uuid), "type": .string("802-11-wireless"),
                    "autoconnect": .boolean(settings.autoconnects),
                ]
            ),
            (
                "802-11-wireless",
                ["ssid": .bytes(settings.ssid), "mode": .string("infrastructure"), "hidden": .boolean(settings.isHidden)]
            ),
        ]
        if let keyManagement = settings.keyManagement {
            groups.append(("802-11-wireless-security", ["key-mgmt": .string(keyManagement)]))
        }
        return .dictionary(key: "s", value: "a{sv}", groups.map { .init(.string($0.0), .vardict($0.1)) })
    }

    /// Whether its settings go with this access point's security.
    func fits(_ point: Scenario.AccessPoint) -> Bool {
        switch settings.keyManagement {
        case nil: point.security == .open
        case "wpa-psk": point.security.takesPassphrase
        case "sae": point.security.takesSAE
        default: false
        }
    }

    var stored: StoredProfile {
        StoredProfile(
            ssid: settings.ssid, key: settings.key, isHidden: settings.isHidden, isUplink: isUplink, interface: settings.interface,
            security: settings.keyManagement == nil ? .open : settings.keyManagement == "sae" ? .wpa3 : .wpa2)
    }
}

extension ManagerProfile.Settings {
    init(_ stored: StoredProfile) {
        self.init(id: lossyText(stored.ssid), uuid: Self.newUUID(), ssid: stored.ssid, key: stored.key)
        keyManagement = stored.key == nil ? nil : stored.security == .wpa3 ? "sae" : "wpa-psk"
        isHidden = stored.isHidden
        interface = stored.interface
    }

    /// Reads and completes what a client gave, as `AddAndActivateConnection` does, from the access point where there is
    /// one.
    init(_ value: DBusValue, at point: ManagerAccessPoint?, isSeen: (ManagerProfile.Settings) -> Bool) throws(BusError) {
        var groups: [String: [String: DBusValue]] = [:]
        for entry in value.entries ?? [] { groups[entry.key.stringValue ?? ""] = entry.value.vardictValue ?? [:] }
        let connection = groups["connection"] ?? [:]
        let wireless = groups["802-11-wireless"]
        let security = groups["802-11-wireless-security"]
        if let type = connection["type"]?.stringValue, type != "802-11-wireless" {
            throw ManagerError.device("IncompatibleConnection", "The connection was not a Wi-Fi connection.")
        }
        guard point != nil || wireless != nil else {
            throw ManagerError.device("InvalidConnection", "A 'wireless' setting is required if no AP path was given.")
        }
        var ssid = wireless?["ssid"]?.bytesValue ?? []
        if let point, !point.ssid.isEmpty { ssid = point.ssid }
        guard !ssid.isEmpty else {
            throw ManagerError.device(
                "InvalidConnection",
                point == nil
                    ? "A 'wireless' setting with a valid SSID is required if no AP path was given."
                    : "A 'wireless' setting with a valid SSID is required for hidden access points.")
        }
        guard ssid.count <= 32 else {
            throw ManagerError.profile("InvalidProperty", "802-11-wireless.ssid: SSID length is out of range <1-32> bytes")
        }
        self.init(
            id: connection["id"]?.stringValue ?? lossyText(ssid), uuid: connection["uuid"]?.stringValue ?? Self.newUUID(),
            ssid: ssid)
        autoconnects = connection["autoconnect"]?.booleanValue ?? true
        interface = connection["interface-name"]?.stringValue
        isHidden = wireless?["hidden"]?.booleanValue ?? false
        key = security?["psk"]?.stringValue
        keyManagement = security?["key-mgmt"]?.stringValue
        if keyManagement == nil, let scenario = point?.point.scenario {
            keyManagement = scenario.security == .wpa3 ? "sae" : scenario.security.takesPassphrase ? "wpa-psk" : nil
        }
        if security != nil, keyManagement == nil {
            throw ManagerError.profile("MissingProperty", "802-11-wireless-security.key-mgmt: property is missing")
        }
        if let keyManagement,
            !["none", "ieee8021x", "owe", "wpa-psk", "sae", "wpa-eap", "wpa-eap-suite-b-192"].contains(keyManagement)
        {
            throw ManagerError.profile(
                "InvalidProperty", "802-11-wireless-security.key-mgmt: '\(keyManagement)' is not a valid value for the property")
        }
        if let key, keyManagement == "wpa-psk", !(8...63).contains(key.utf8.count), key.utf8.count != 64 || Hex.bytes(key) == nil {
            throw ManagerError.profile("InvalidProperty", "802-11-wireless-security.psk: property is invalid")
        }
        if point == nil, !isSeen(self) { isHidden = true }
    }

    private static func newUUID() -> String {
        let text = Hex.text((0..<16).map { _ in UInt8.random(in: 0...255) })
        var result = ""
        for (index, character) in text.enumerated() {
            if [8, 12, 16, 20].contains(index) { result += "-" }
            result.append(character)
        }
        return result
    }
}

/// An active connection.
final class ManagerActivation: ExportedObject {
    let path: ObjectPath
    let profile: ManagerProfile
    private(set) var interfaces: [ExportedInterface] = []
    private(set) var state = ActiveState.unknown
    var specificObject: ObjectPath
    /// Ends when this client leaves the bus.
    let boundTo: String?
    private unowned let manager: SimulatedNetworkManager

    init(
        _ profile: ManagerProfile, on device: ObjectPath, at specificObject: ObjectPath, boundTo: String?,
        _ manager: SimulatedNetworkManager,
        _ number: Int
    ) {
        self.profile = profile
        self.boundTo = boundTo
        self.specificObject = specificObject
        self.manager = manager
        path = SimulatedNetworkManager.path.appending("ActiveConnection")!.appending("\(number)")!
        var description = manager.bus.interface(NetworkManagerXML.active)
        description.property("Connection") { _ in .objectPath(profile.path) }
        description.property("SpecificObject") { [unowned self] _ in .objectPath(self.specificObject) }
        description.property("Id") { _ in .string(profile.settings.id) }
        description.property("Uuid") { _ in .string(profile.settings.uuid) }
        description.property("Type") { _ in .string("802-11-wireless") }
        description.property("Devices") { _ in .objectPaths([device]) }
        description.property("State") { [unowned self] _ in .uint32(state.rawValue) }
        interfaces = [description]
    }

    func isVisible(to caller: String) -> Bool { true }

    func setState(_ state: ActiveState, reason: UInt32 = 0) {
        guard state != self.state else { return }
        self.state = state
        manager.bus.emit(path, NetworkManagerXML.active, "StateChanged", .uint32(state.rawValue), .uint32(reason))
        manager.bus.changed(self, NetworkManagerXML.active, ["State"])
    }
}

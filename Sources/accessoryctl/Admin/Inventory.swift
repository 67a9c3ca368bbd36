// SPDX-License-Identifier: Apache-2.0
// The daemon's objects as an admin sees them, or a person their own accessories, read once with GetManagedObjects.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import Glibc

struct Inventory {
    @dynamicMemberLookup
    struct Accessory {
        let path: ObjectPath
        let properties: AccessoryProperties
        /// The machine's interface that is on its network; empty for none.
        let interface: String
        /// As in its path: one without Bluetooth has no Bluetooth identifier.
        var id: String { AccessoryBus.accessoryID(at: path)?.rawValue ?? "" }
        var name: String { properties.displayName }
        /// The name of its network for people; empty for none.
        var network: String { SSID(properties.ssid)?.description ?? "" }

        subscript<Value>(dynamicMember path: KeyPath<AccessoryProperties, Value>) -> Value { properties[keyPath: path] }
    }

    @dynamicMemberLookup
    struct Grant {
        let path: ObjectPath
        let properties: GrantProperties
        var id: String { path.rawValue.split(separator: "/").last.map(String.init) ?? "" }
        /// For people: when it ends, or that it has ended; empty for a grant without an end.
        var end: String {
            if properties.ends != 0 { return Output.time(properties.ends) }
            return properties.endRules.isEmpty ? "" : "ended"
        }
        /// For people: `disabled`, or how far the set-up has come.
        var shownState: String { properties.isEnabled ? properties.state.rawValue : "disabled" }
        /// For people: the use that it opens, with the list; nil for full access.
        var narrowing: String? {
            switch properties.access {
            case .full: nil
            case .listed: "listed: " + properties.characteristics.joined(separator: ", ")
            case .read: "read: the app can read and receive data, not write; the accessory may act when it is read"
            case .hear: "hear"
            }
        }

        /// Whether the accessory is in range; nil where the app does not observe it, or cannot use it now.
        var isInRange: Bool? {
            properties.isObserved && properties.isEnabled && properties.state == .authorized ? properties.isPresent : nil
        }

        subscript<Value>(dynamicMember path: KeyPath<GrantProperties, Value>) -> Value { properties[keyPath: path] }
    }

    private(set) var accessories: [Accessory] = []
    private(set) var apps: [AppProperties] = []
    private(set) var grants: [Grant] = []
    private(set) var sessions: [SessionProperties] = []
    private var names: [ObjectPath: String] = [:]
    let connection: Connection

    /// The error for a caller that the daemon does not accept as an administrator. The daemon itself has no such error:
    /// administrators' objects do not exist for other callers.
    static let refusal = BusError.accessDenied("permission denied: run as root, or authenticate through polkit")

    /// Whether the daemon shows everything: it shows its admin object to administrators alone.
    private(set) var isComplete = false
    /// The state of the daemon as a whole; for administrators alone.
    private(set) var admin = AdminProperties()
    /// The machine's Bluetooth adapters.
    var adapters: [AdapterEntry] { admin.adapters }

    /// Connects as an administrator.
    ///
    /// - Throws: `refusal` for a caller that is none.
    static func connect(_ options: BusOptions) throws(BusError) -> Connection {
        let connection = try reach(options)
        guard authenticate(over: connection) else { throw refusal }
        return connection
    }

    static func reach(_ options: BusOptions) throws(BusError) -> Connection {
        try Connection(Connection.Address(options.bus), loop: MainLoop())
    }

    /// A caller other than root becomes an administrator through polkit, which asks at the first call of an
    /// administrator's method.
    ///
    /// - Returns: false for a refused caller. Other errors appear at the next call, in more detail.
    private static func authenticate(over connection: Connection) -> Bool {
        guard geteuid() != 0 else { return true }
        connection.allowsInteraction = true
        do throws(BusError) {
            // The daemon waits 180 s for the person, and refuses then.
            _ = try connection.callAndWait(
                AccessoryBus.name, AccessoryBus.adminPath, AccessoryBus.admin, "GetAudit", [.vardict(["limit": .uint32(1)])],
                timeout: .seconds(200))
            return true
        } catch {
            return !error.isStandard("UnknownObject")
        }
    }

    /// All objects.
    ///
    /// - Parameters:
    ///   - isFresh: whether the radio reads its devices first.
    ///   - orOwn: whether the accessories that the caller set up are enough.
    /// - Throws: `refusal` for a caller that is no administrator: a part of the objects would look like all.
    init(_ options: BusOptions, isFresh: Bool = false, orOwn: Bool = false) throws(BusError) {
        if isFresh {
            _ = try? Self.reach(options).callAndWait(AccessoryBus.name, AccessoryBus.adminPath, AccessoryBus.admin, "Refresh")
        }
        try self.init(visible: options)
        guard isComplete || orOwn && !accessories.isEmpty else { throw Self.refusal }
    }

    /// The visible objects: not all for a caller that is no administrator.
    init(visible options: BusOptions) throws(BusError) {
        connection = try Self.reach(options)
        // Refused or not: the output shows it.
        _ = Self.authenticate(over: connection)
        let reply = try connection.callAndWait(
            AccessoryBus.name, AccessoryBus.root, Bus.objectManager, "GetManagedObjects")
        for entry in reply.first?.entries ?? [] {
            guard let path = entry.key.objectPathValue, let interfaces = entry.value.vardictValue else { continue }
            if let admin = interfaces[AccessoryBus.admin]?.vardictValue {
                isComplete = true
                self.admin = AdminProperties(wire: admin)
            } else if let properties = interfaces[AccessoryBus.accessory]?.vardictValue {
                let network = NetworkProperties(wire: interfaces[AccessoryBus.network]?.vardictValue ?? [:])
                let accessory = Accessory(
                    path: path, properties: AccessoryProperties(wire: properties), interface: network.interface)
                accessories.append(accessory)
                names[path] = accessory.name
            } else if let properties = interfaces[AccessoryBus.grant]?.vardictValue {
                grants.append(Grant(path: path, properties: GrantProperties(wire: properties)))
            } else if let properties = interfaces[AccessoryBus.app]?.vardictValue {
                apps.append(AppProperties(wire: properties))
            } else if let properties = interfaces[AccessoryBus.session]?.vardictValue {
                sessions.append(SessionProperties(wire: properties))
            }
        }
    }

    func manager() throws(BusError) -> ManagerProperties {
        let reply = try connection.callAndWait(
            AccessoryBus.name, AccessoryBus.root, Bus.properties, "GetAll", [.string(AccessoryBus.manager)])
        return ManagerProperties(wire: reply.first?.vardictValue ?? [:])
    }

    /// The one accessory that a person means: by identifier, address, or display name.
    ///
    /// - Throws: `Failed` when it is none, or more than one.
    func accessory(_ text: String) throws(BusError) -> Accessory {
        let wanted = text.lowercased()
        let found = accessories.filter {
            $0.id.lowercased() == wanted || $0.properties.address.lowercased() == wanted || $0.name == text
                || $0.path.rawValue == text
        }
        guard let accessory = found.first else { throw .failed("no accessory “\(text)”") }
        guard found.count == 1 else {
            throw .failed("more than one accessory is named “\(text)”: \(found.map(\.id).joined(separator: ", "))")
        }
        return accessory
    }

    func name(of path: ObjectPath) -> String { names[path] ?? path.rawValue }

    /// Whether each accessory that an app observes is in range, by its path.
    var presences: [ObjectPath: Bool] {
        Dictionary(grants.compactMap { grant in grant.isInRange.map { (grant.accessory, $0) } }, uniquingKeysWith: { $0 || $1 })
    }
}

extension AdapterEntry {
    /// For people, such as `on`.
    var state: String { isAllowed ? isPowered ? "on" : "off" : "disabled by the configuration" }
}

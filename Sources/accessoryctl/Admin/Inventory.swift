// SPDX-License-Identifier: Apache-2.0
// What the daemon shows an admin, read once with GetManagedObjects.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import Glibc

struct Inventory {
    struct Accessory {
        let path: ObjectPath
        let properties: [String: DBusValue]
        /// As in its path: one without Bluetooth has no Bluetooth identifier.
        var id: String { AccessoryBus.accessoryID(at: path)?.rawValue ?? "" }
        var ssid: SSID? { properties["Ssid"]?.bytesValue.flatMap { SSID($0) } }
        let interface: String
        var name: String { properties["DisplayName"]?.stringValue ?? "" }
        var address: String { properties["Address"]?.stringValue ?? "" }
        var state: String { properties["State"]?.stringValue ?? "" }
        var adapter: String { properties["Adapter"]?.stringValue ?? "" }
        var device: String { properties["Device"]?.objectPathValue?.rawValue ?? "/" }
        var apps: [String] { properties["Apps"]?.stringsValue ?? [] }
        var problems: [String] { properties["Problems"]?.stringsValue ?? [] }
    }

    struct Grant {
        let path: ObjectPath
        let properties: [String: DBusValue]
        var id: String { path.rawValue.split(separator: "/").last.map(String.init) ?? "" }
        var app: String { properties["App"]?.stringValue ?? "" }
        var accessory: ObjectPath { properties["Accessory"]?.objectPathValue ?? "/" }
        var state: String { properties["State"]?.stringValue ?? "" }
        var isEnabled: Bool { properties["Enabled"]?.booleanValue ?? false }
        var created: Int { properties["Created"]?.integerValue ?? 0 }
        var lastUsed: Int { properties["LastUsed"]?.integerValue ?? 0 }
    }

    struct App {
        let properties: [String: DBusValue]
        var id: String { properties["Id"]?.stringValue ?? "" }
        var name: String { properties["Name"]?.stringValue ?? "" }
        var source: String { properties["Source"]?.stringValue ?? "" }
        /// The path of its own socket; empty without one.
        var socket: String { properties["Socket"]?.stringValue ?? "" }
        var problems: [String] { properties["Problems"]?.stringsValue ?? [] }
    }

    private(set) var accessories: [Accessory] = []
    private(set) var apps: [App] = []
    private(set) var grants: [Grant] = []
    private(set) var sessions: [(app: String, state: String)] = []
    private var names: [ObjectPath: String] = [:]
    let connection: Connection

    /// What is said to somebody whom the daemon does not take for an administrator. The daemon itself has no word for
    /// it: what is an administrator's does not exist for others.
    static let refusal = BusError.accessDenied("refused: this is for root, and for those whom polkit lets manage accessories")

    /// Whether the daemon shows everything: it shows its admin object to administrators alone.
    private(set) var isComplete = false
    /// The machine's Bluetooth adapters; for administrators alone.
    private(set) var adapters: [Adapter] = []

    struct Adapter {
        let name, address: String
        let isPowered, isAllowed: Bool

        init(_ properties: [String: DBusValue]) {
            name = properties["name"]?.stringValue ?? ""
            address = properties["address"]?.stringValue ?? ""
            isPowered = properties["powered"]?.booleanValue ?? false
            isAllowed = properties["allowed"]?.booleanValue ?? false
        }

        /// Such as `on`.
        var state: String { isAllowed ? isPowered ? "on" : "off" : "not used, by the configuration" }
    }

    /// Connects as an administrator.
    ///
    /// - Throws: `refusal` for somebody who is none.
    static func connect(_ options: BusOptions) throws(BusError) -> Connection {
        let connection = try reach(options)
        guard prove(over: connection) else { throw refusal }
        return connection
    }

    private static func reach(_ options: BusOptions) throws(BusError) -> Connection {
        try Connection(Connection.Address(options.bus), loop: MainLoop())
    }

    /// Who is not root is an administrator only by polkit, which asks when something of an administrator's is called.
    ///
    /// - Returns: false for who is refused. Of anything else that is wrong, what follows says more.
    private static func prove(over connection: Connection) -> Bool {
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

    /// All that there is.
    ///
    /// - Throws: `refusal` for somebody who is no administrator: what they see is a part, and looks like the whole.
    ///
    /// - Parameter isFresh: whether the radio looks at its devices first.
    init(_ options: BusOptions, isFresh: Bool = false) throws(BusError) {
        if isFresh {
            _ = try? Self.reach(options).callAndWait(AccessoryBus.name, AccessoryBus.adminPath, AccessoryBus.admin, "Refresh")
        }
        try self.init(visible: options)
        guard isComplete else { throw Self.refusal }
    }

    /// What may be seen, which is not all for somebody who is no administrator.
    init(visible options: BusOptions) throws(BusError) {
        connection = try Self.reach(options)
        // Refused or not: what is shown says it.
        _ = Self.prove(over: connection)
        let reply = try connection.callAndWait(
            AccessoryBus.name, AccessoryBus.root, Bus.objectManager, "GetManagedObjects")
        for entry in reply.first?.entries ?? [] {
            guard let path = entry.key.objectPathValue, let interfaces = entry.value.vardictValue else { continue }
            if let admin = interfaces[AccessoryBus.admin]?.vardictValue {
                isComplete = true
                adapters = (admin["Adapters"]?.arrayValue ?? []).compactMap(\.vardictValue).map { Adapter($0) }
            } else if let properties = interfaces[AccessoryBus.accessory]?.vardictValue {
                let network = interfaces[AccessoryBus.network]?.vardictValue
                accessories.append(
                    Accessory(path: path, properties: properties, interface: network?["Interface"]?.stringValue ?? ""))
                names[path] = accessories.last?.name
            } else if let properties = interfaces[AccessoryBus.grant]?.vardictValue {
                grants.append(Grant(path: path, properties: properties))
            } else if let properties = interfaces[AccessoryBus.app]?.vardictValue {
                apps.append(App(properties: properties))
            } else if let properties = interfaces[AccessoryBus.session]?.vardictValue {
                sessions.append((properties["App"]?.stringValue ?? "", properties["State"]?.stringValue ?? ""))
            }
        }
    }

    func manager(_ property: String) throws(BusError) -> DBusValue {
        try connection.callAndWait(
            AccessoryBus.name, AccessoryBus.root, Bus.properties, "Get", [.string(AccessoryBus.manager), .string(property)])[0]
            .unwrapped
    }

    /// The one accessory that a person means: by identifier, address, or display name.
    ///
    /// - Throws: `Failed` when it is none, or more than one.
    func accessory(_ text: String) throws(BusError) -> Accessory {
        let wanted = text.lowercased()
        let found = accessories.filter {
            $0.id.lowercased() == wanted || $0.address.lowercased() == wanted || $0.name == text || $0.path.rawValue == text
        }
        guard let accessory = found.first else { throw .failed("no accessory “\(text)”") }
        guard found.count == 1 else {
            throw .failed("more than one accessory is called “\(text)”: \(found.map(\.id).joined(separator: ", "))")
        }
        return accessory
    }

    func name(of path: ObjectPath) -> String { names[path] ?? path.rawValue }
}

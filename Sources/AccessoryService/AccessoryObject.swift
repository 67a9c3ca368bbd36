// An accessory on the bus: apps with a grant see what concerns them, admins see the rest too.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

final class AccessoryObject: ExportedObject {
    let path: ObjectPath
    let id: AccessoryID
    private unowned let service: AccessoryService
    private(set) var interfaces: [ExportedInterface] = []

    /// What was told last, so that only changes are told.
    private var told: [String: DBusValue] = [:]

    /// The names of the properties that have changed since the last time.
    func changes() -> [String] {
        guard let accessory = service.engine.ledger.accessories[id] else { return [] }
        let now: [String: DBusValue] = [
            "DisplayName": .string(accessory.displayName), "Device": .objectPath(service.devicePath(of: accessory) ?? "/"),
            "Address": .string(accessory.address?.description ?? ""), "Descriptor": WireEncoding.descriptor(accessory.descriptor),
            "BluetoothTransportBridgingIdentifier": .bytes(accessory.classicAddress?.bytes ?? []),
            "Ssid": .bytes(accessory.ssid?.bytes ?? []),
            "WiFiAwarePairedDeviceID": .uint64(accessory.awareDevice ?? 0),
        ]
        let names = now.keys.filter { now[$0] != told[$0] }.sorted()
        told = now
        return names
    }

    private static let forAdmins: Set<String> = ["Address", "Apps", "Rename", "Remove"]

    init(_ id: AccessoryID, _ service: AccessoryService) {
        self.id = id
        self.service = service
        path = AccessoryBus.accessoryPath(id)
        var interface = ExportedInterface(service.description(AccessoryBus.accessory))
        interface.hide { [unowned service] caller in service.clients.isAdmin(caller) ? [] : Self.forAdmins }
        for name in [
            "DisplayName", "State", "BluetoothIdentifier", "BluetoothTransportBridgingIdentifier", "Ssid",
            "WiFiAwarePairedDeviceID", "Descriptor", "Device",
        ] {
            interface.property(name) { [unowned service] caller in
                guard let accessory = service.engine.ledger.accessories[id] else { return nil }
                return WireEncoding.properties(
                    of: accessory, state: service.state(of: id, for: caller), device: service.devicePath(of: accessory))[name]
            }
        }
        interface.property("Address") { [unowned service] _ in
            .string(service.engine.ledger.accessories[id]?.address?.description ?? "")
        }
        interface.property("Apps") { [unowned service] _ in
            .strings(service.engine.ledger.grants(of: id).map(\.app.rawValue).sorted())
        }
        interface.method("JoinNetwork") { [unowned service] call throws(BusError) in
            let options = try WireDecoding.joinOptions(call.arguments[0])
            guard let app = service.app(of: call.sender, with: id) else {
                throw .accessDenied("only an app with a session and a grant joins an accessory's network")
            }
            try asking { () throws(SetupError) in
                try service.engine.joinNetwork(
                    of: id, for: ClientID(call.sender), app, passphrase: options.passphrase, isHidden: options.isHidden,
                    network: options.ssid
                ) { error in
                    if let error { call.fail(BusError(error)) } else { call.reply() }
                }
            }
        }
        interface.method("LeaveNetwork") { [unowned service] call throws(BusError) in
            guard service.app(of: call.sender, with: id) != nil else {
                throw .accessDenied("only an app with a session and a grant leaves an accessory's network")
            }
            service.engine.leaveNetwork(of: id, for: ClientID(call.sender)) { call.reply() }
        }
        interface.method("Rename") { [unowned service] call throws(BusError) in
            guard let accessory = service.engine.ledger.accessories[id] else { throw .unknownObject(call.path) }
            let name = call.arguments[0].stringValue ?? ""
            try WireDecoding.checkName(name, "name")
            try asking { () throws(SetupError) in
                try service.engine.rename(accessory, to: name, reason: "renamed by an admin", by: service.asAdmin(call.sender))
            }
            call.reply()
        }
        interface.method("Remove") { [unowned service] call throws(BusError) in
            guard let accessory = service.engine.ledger.accessories[id] else { throw .unknownObject(call.path) }
            try asking { () throws(SetupError) in
                try service.engine.remove(accessory, reason: "removed by an admin", by: service.asAdmin(call.sender)) {
                    call.reply()
                }
            }
        }
        var network = ExportedInterface(service.description(AccessoryBus.network))
        network.property("Interface") { [unowned service] _ in .string(service.engine.networkInterface(of: id) ?? "") }
        interfaces = [interface, network]
        _ = changes()
    }

    func isVisible(to caller: String) -> Bool { service.sees(id, caller) }
}

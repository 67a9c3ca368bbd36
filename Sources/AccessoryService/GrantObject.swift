// A grant on the bus, for admins: look, switch, revoke.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

final class GrantObject: ExportedObject {
    let path: ObjectPath
    private let id: Int64
    private unowned let service: AccessoryService
    private(set) var interfaces: [ExportedInterface] = []

    init(_ id: Int64, _ service: AccessoryService) {
        self.id = id
        self.service = service
        path = AccessoryBus.grantPath(id)
        let path = self.path
        let grant = { [unowned service] in service.engine.ledger.grants[id] }
        var interface = ExportedInterface(service.description(AccessoryBus.grant))
        interface.property("App") { _ in grant().map { .string($0.app.rawValue) } }
        interface.property("Accessory") { _ in grant().map { .objectPath(AccessoryBus.accessoryPath($0.accessory)) } }
        interface.property("State") { _ in grant().map { .string($0.state.rawValue) } }
        interface.property("Enabled") { _ in grant().map { .boolean($0.isEnabled) } }
        interface.property("Created") { _ in grant().map { .uint64(UInt64(max(0, $0.created))) } }
        interface.property("LastUsed") { _ in grant().map { .uint64(UInt64(max(0, $0.lastUsed ?? 0))) } }
        interface.writable("Enabled") { [unowned service] value, caller throws(BusError) in
            guard let grant = grant() else { throw .unknownObject(path) }
            try asking { () throws(SetupError) in
                try service.engine.setEnabled(grant, value.booleanValue ?? grant.isEnabled, by: service.asAdmin(caller))
            }
        }
        interface.method("Revoke") { [unowned service] call throws(BusError) in
            guard let grant = grant() else { throw .unknownObject(path) }
            try asking { () throws(SetupError) in
                try service.engine.revoke(grant, reason: "revoked by an admin", by: service.asAdmin(call.sender)) {
                    call.reply()
                }
            }
        }
        interfaces = [interface]
    }

    func isVisible(to caller: String) -> Bool { service.clients.isAdmin(caller) }
}

// SPDX-License-Identifier: Apache-2.0
// A grant on the bus, for admins: look, switch, revoke.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

final class GrantObject: ServiceObject {
    private let id: Int64
    unowned let service: AccessoryService

    init(_ id: Int64, _ service: AccessoryService) {
        self.id = id
        self.service = service
    }

    var path: ObjectPath { AccessoryBus.grantPath(id) }
    var interfaces: [ExportedInterface] { service.members.grant }
    func isVisible(to caller: String) -> Bool { service.clients.isAdmin(caller) }

    static func members(_ description: InterfaceDescription) -> ExportedInterface {
        var table = MemberTable<GrantObject>(description)
        table.property("App", for: .admins) { grant, _ in grant.grant.map { .string($0.app.rawValue) } }
        table.property("Accessory", for: .admins) { grant, _ in
            grant.grant.map { .objectPath(AccessoryBus.accessoryPath($0.accessory)) }
        }
        table.property("State", for: .admins) { grant, _ in grant.grant.map { .string($0.state.rawValue) } }
        table.property("Enabled", for: .admins) { grant, _ in grant.grant.map { .boolean($0.isEnabled) } }
        table.property("Created", for: .admins) { grant, _ in grant.grant.map { .uint64(UInt64(max(0, $0.created))) } }
        table.property("LastUsed", for: .admins) { grant, _ in grant.grant.map { .uint64(UInt64(max(0, $0.lastUsed ?? 0))) } }
        table.property("Ssid", for: .admins) { grant, _ in grant.grant.map { .bytes($0.terms.ssid?.bytes ?? []) } }
        table.property("NetworkName", for: .admins) { grant, _ in
            grant.grant.map { .string($0.terms.ssid?.description ?? "") }
        }
        table.property("Descriptor", for: .admins) { grant, _ in grant.grant.map { WireEncoding.descriptor($0.terms.descriptor) } }
        table.writable("Enabled", GrantObject.setEnabled)
        table.method("Revoke", for: .admins, GrantObject.revoke)
        return table.complete()
    }

    private var grant: Grant? { service.engine.ledger.grants[id] }

    private func setEnabled(_ value: DBusValue, for caller: String) throws(BusError) {
        guard let grant else { throw .unknownObject(path) }
        try asking { () throws(SetupError) in
            try service.engine.setEnabled(grant, value.booleanValue ?? grant.isEnabled, by: service.asAdmin(caller))
        }
    }

    private func revoke(_ call: MethodCall) throws(BusError) {
        guard let grant else { throw .unknownObject(path) }
        try asking { () throws(SetupError) in
            try service.engine.revoke(grant, reason: "revoked by an admin", by: service.asAdmin(call.sender)) { call.reply() }
        }
    }
}

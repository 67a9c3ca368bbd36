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
        table.properties { object, _ in object.properties }
        table.writable("Enabled", GrantObject.setEnabled)
        table.method("Revoke", for: .admins, GrantObject.revoke)
        table.method("SetEnd", for: .admins, GrantObject.setEnd)
        table.method("SetAccess", for: .admins, GrantObject.setAccess)
        table.method("ListDevices", for: .admins, GrantObject.listDevices)
        table.method("Exclude", for: .admins, GrantObject.exclude)
        table.method("Include", for: .admins, GrantObject.include)
        return table.complete()
    }

    private var properties: GrantProperties? {
        grant.map { grant in
            var properties = GrantProperties(grant, end: service.engine.end(of: grant))
            properties.isPresent = service.engine.isPresent(grant)
            return properties
        }
    }

    private var grant: Grant? { service.engine.ledger.grants[id] }

    private func setEnabled(_ value: DBusValue, for caller: String) throws(BusError) {
        guard let grant else { throw .unknownObject(path) }
        try mappingErrors { () throws(SetupError) in
            try service.engine.setEnabled(grant, value.booleanValue ?? grant.isEnabled, by: service.requester(caller))
        }
    }

    private func listDevices(_ call: MethodCall) throws(BusError) {
        guard let grant else { throw .unknownObject(path) }
        let devices = service.engine.heard(by: grant).map { device in
            var entry = HeardDeviceEntry()
            entry.address = device.address.description
            entry.name = ShownName.marked(device.name)
            return entry
        }
        call.reply(HeardDeviceEntry.wire(devices))
    }

    private func exclude(_ call: MethodCall) throws(BusError) { try setExcluded(true, call) }
    private func include(_ call: MethodCall) throws(BusError) { try setExcluded(false, call) }

    private func setExcluded(_ isExcluded: Bool, _ call: MethodCall) throws(BusError) {
        let text = call.arguments[0].stringValue ?? ""
        guard let address = BluetoothAddress(text, kind: .public) else {
            throw .invalidArguments("address: \(text): not a Bluetooth address")
        }
        try change(call) { grant, requester throws(SetupError) in
            try service.engine.setExcluded(address, isExcluded, from: grant, by: requester)
        }
    }

    private func setEnd(_ call: MethodCall) throws(BusError) {
        let end = try EndChoice.decode(call.arguments[0].stringValue ?? "", "end")
        try change(call) { grant, requester throws(SetupError) in try service.engine.setEnd(grant, end, by: requester) }
    }

    private func setAccess(_ call: MethodCall) throws(BusError) {
        let access = try AccessLimit.decode(call.arguments[0].stringValue ?? "", "access")
        try change(call) { grant, requester throws(SetupError) in try service.engine.setAccess(grant, access, by: requester) }
    }

    /// Changes the grant, and replies.
    private func change(_ call: MethodCall, _ body: (Grant, Requester) throws(SetupError) -> Void) throws(BusError) {
        guard let grant else { throw .unknownObject(path) }
        try mappingErrors { () throws(SetupError) in try body(grant, service.requester(call.sender)) }
        call.reply()
    }

    private func revoke(_ call: MethodCall) throws(BusError) {
        guard let grant else { throw .unknownObject(path) }
        try mappingErrors { () throws(SetupError) in
            try service.engine.revoke(grant, reason: "revoked by an admin", by: service.requester(call.sender)) { call.reply() }
        }
    }
}

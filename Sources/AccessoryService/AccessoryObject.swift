// SPDX-License-Identifier: Apache-2.0
// An accessory on the bus: apps with a grant see what concerns them, admins see the rest too.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

final class AccessoryObject: ServiceObject {
    let id: AccessoryID
    unowned let service: AccessoryService
    /// The radio's object and link as they were signalled last: both change without the accessory.
    private var published: (device: ObjectPath?, link: RadioLink)

    init(_ accessory: Accessory, _ service: AccessoryService) {
        id = accessory.id
        self.service = service
        published = (service.devicePath(of: accessory), service.engine.link(with: accessory))
    }

    var path: ObjectPath { AccessoryBus.accessoryPath(id) }
    var interfaces: [ExportedInterface] { service.members.accessory }
    func isVisible(to caller: String) -> Bool { service.sees(id, caller) }

    static func members(_ description: InterfaceDescription, _ network: InterfaceDescription) -> [ExportedInterface] {
        var table = MemberTable<AccessoryObject>(description)
        for name in WireEncoding.accessoryProperties {
            table.property(name, for: .whoeverSeesIt) { object, caller in
                object.service.granted(object.id, for: caller).flatMap { granted in
                    WireEncoding.property(name, of: granted, device: object.service.devicePath(of: granted.accessory))
                }
            }
        }
        table.property("Address", for: .admins) { object, _ in .string(object.accessory?.address?.description ?? "") }
        table.property("Adapter", for: .admins) { object, _ in .string(object.accessory?.adapter?.description ?? "") }
        table.property("NetworkName", for: .admins) { object, caller in
            .string(object.service.granted(object.id, for: caller).flatMap(Self.networkName) ?? "")
        }
        table.property("Apps", for: .admins) { object, _ in
            .strings(object.service.engine.ledger.grants(of: object.id).map(\.app.rawValue).sorted())
        }
        table.property("Connected", for: .admins) { object, _ in .boolean(object.link.isConnected) }
        table.property("Battery", for: .admins) { object, _ in .int16(object.link.battery.map { Int16(clamping: $0) } ?? -1) }
        table.property("Problems", for: .admins) { object, _ in
            .strings(object.accessory.map { object.service.engine.problems(with: $0) } ?? [])
        }
        table.method("JoinNetwork", for: .appsWithGrant, AccessoryObject.joinNetwork)
        table.method("LeaveNetwork", for: .appsWithGrant, AccessoryObject.leaveNetwork)
        table.method("Rename", for: .admins, AccessoryObject.rename)
        table.method("Remove", for: .admins, AccessoryObject.remove)
        table.method("Unpair", for: .admins, AccessoryObject.unpair)
        var networks = MemberTable<AccessoryObject>(network)
        networks.property("Interface", for: .whoeverSeesIt) { object, caller in
            .string(object.service.networkInterface(of: object.id, for: caller) ?? "")
        }
        return [table.complete(), networks.complete()]
    }

    // MARK: What is told

    /// The names of the properties in which an accessory differs from what it was, for an app or for admins.
    static func changes(from old: GrantedAccessory, to new: GrantedAccessory) -> [String] {
        // Any device will do: it is seen with the Bluetooth side, or not.
        let names = WireEncoding.accessoryProperties.filter { name in
            WireEncoding.property(name, of: old, device: AccessoryBus.root)
                != WireEncoding.property(name, of: new, device: AccessoryBus.root)
        }
        return names + (old.accessory.address == new.accessory.address ? [] : ["Address"])
            + (old.accessory.adapter == new.accessory.adapter ? [] : ["Adapter"])
            + (networkName(old) == networkName(new) ? [] : ["NetworkName"])
    }

    /// The network's name as people may be shown it; nil without one.
    private static func networkName(_ granted: GrantedAccessory) -> String? { granted.grant.terms.ssid?.description }

    /// The names of the properties in which the radio's object and link differ from the last signals.
    func radioChanges(of accessory: Accessory) -> [String] {
        let old = published
        published = (service.devicePath(of: accessory), service.engine.link(with: accessory))
        return (old.device == published.device ? [] : ["Device"])
            + (old.link.isConnected == published.link.isConnected ? [] : ["Connected"])
            + (old.link.battery == published.link.battery ? [] : ["Battery"])
    }

    // MARK: What is asked

    private var accessory: Accessory? { service.engine.ledger.accessories[id] }

    private var link: RadioLink { accessory.map { service.engine.link(with: $0) } ?? RadioLink() }

    private func known() throws(BusError) -> Accessory {
        guard let accessory else { throw .unknownObject(path) }
        return accessory
    }

    private func joinNetwork(_ call: MethodCall) throws(BusError) {
        let options = try WireDecoding.joinOptions(call.arguments[0])
        guard let app = service.grant(on: id, of: call.sender)?.app else { throw .unknownObject(path) }
        try asking { () throws(SetupError) in
            try service.engine.joinNetwork(
                of: id, for: ClientID(call.sender), app, passphrase: options.passphrase, isHidden: options.isHidden,
                network: options.ssid
            ) { error in
                if let error { call.fail(BusError(error)) } else { call.reply() }
            }
        }
    }

    private func leaveNetwork(_ call: MethodCall) throws(BusError) {
        service.engine.leaveNetwork(of: id, for: ClientID(call.sender)) { call.reply() }
    }

    private func rename(_ call: MethodCall) throws(BusError) {
        let accessory = try known()
        let name = call.arguments[0].stringValue ?? ""
        try WireDecoding.checkName(name, "name")
        try asking { () throws(SetupError) in
            try service.engine.rename(accessory, to: name, reason: "renamed by an admin", by: service.asAdmin(call.sender))
        }
        call.reply()
    }

    private func remove(_ call: MethodCall) throws(BusError) {
        let accessory = try known()
        try asking { () throws(SetupError) in
            try service.engine.remove(accessory, reason: "removed by an admin", by: service.asAdmin(call.sender)) { call.reply() }
        }
    }

    private func unpair(_ call: MethodCall) throws(BusError) {
        let accessory = try known()
        try asking { () throws(SetupError) in
            try service.engine.unpair(accessory, reason: "unpaired by an admin", by: service.asAdmin(call.sender)) { call.reply() }
        }
    }
}

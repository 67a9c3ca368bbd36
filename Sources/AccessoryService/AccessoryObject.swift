// SPDX-License-Identifier: Apache-2.0
// An accessory on the bus: apps with a grant see their part, admins see all properties.

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
        table.properties { object, caller in object.properties(for: caller) }
        table.method("JoinNetwork", for: .appsWithGrant, AccessoryObject.joinNetwork)
        table.method("LeaveNetwork", for: .appsWithGrant, AccessoryObject.leaveNetwork)
        table.method("Rename", for: .admins, AccessoryObject.rename)
        table.method("Remove", for: .admins, AccessoryObject.remove)
        table.method("Unpair", for: .admins, AccessoryObject.unpair)
        table.method("ImageData", for: .admins, AccessoryObject.imageData)
        var networks = MemberTable<AccessoryObject>(network)
        networks.properties { object, caller in
            var properties = NetworkProperties()
            properties.interface = object.service.networkInterface(of: object.id, for: caller) ?? ""
            return properties
        }
        return [table.complete(), networks.complete()]
    }

    // MARK: Properties

    private func properties(for caller: String) -> AccessoryProperties? {
        guard let granted = service.granted(id, for: caller) else { return nil }
        var properties = AccessoryProperties(granted, device: service.devicePath(of: granted.accessory))
        guard service.clients.isAdmin(caller) else { return properties }
        properties.apps = service.engine.ledger.grants(of: id).map(\.app.rawValue).sorted()
        properties.update(service.engine.link(with: granted.accessory))
        properties.problems = service.engine.problems(with: granted.accessory)
        return properties
    }

    /// The names of the properties in which the radio's object and link differ from the last signals.
    func radioChanges(of accessory: Accessory) -> [String] {
        let old = published
        published = (service.devicePath(of: accessory), service.engine.link(with: accessory))
        func properties(_ device: ObjectPath?, _ link: RadioLink) -> AccessoryProperties {
            var properties = AccessoryProperties()
            properties.device = device ?? "/"
            properties.update(link)
            return properties
        }
        return AccessoryProperties.table.changes(
            from: properties(old.device, old.link), to: properties(published.device, published.link))
    }

    // MARK: Calls

    private var accessory: Accessory? { service.engine.ledger.accessories[id] }

    private func requireAccessory() throws(BusError) -> Accessory {
        guard let accessory else { throw .unknownObject(path) }
        return accessory
    }

    private func joinNetwork(_ call: MethodCall) throws(BusError) {
        let options = try JoinOptions.decode(call.arguments[0])
        guard let app = service.grant(on: id, of: call.sender)?.app else { throw .unknownObject(path) }
        try mappingErrors { () throws(SetupError) in
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
        let accessory = try requireAccessory()
        let name = call.arguments[0].stringValue ?? ""
        try ShownName.check(name, "name")
        try mappingErrors { () throws(SetupError) in
            try service.engine.rename(accessory, to: name, reason: "renamed by an admin", by: service.asAdmin(call.sender))
        }
        call.reply()
    }

    private func remove(_ call: MethodCall) throws(BusError) {
        let accessory = try requireAccessory()
        try mappingErrors { () throws(SetupError) in
            try service.engine.remove(accessory, reason: "removed by an admin", by: service.asAdmin(call.sender)) { call.reply() }
        }
    }

    private func imageData(_ call: MethodCall) throws(BusError) {
        guard let image = try requireAccessory().image else { throw .failed("it was set up without an image") }
        call.reply(.bytes(image.bytes))
    }

    private func unpair(_ call: MethodCall) throws(BusError) {
        let accessory = try requireAccessory()
        try mappingErrors { () throws(SetupError) in
            try service.engine.unpair(accessory, reason: "unpaired by an admin", by: service.asAdmin(call.sender)) { call.reply() }
        }
    }
}

extension AccessoryProperties {
    fileprivate mutating func update(_ link: RadioLink) {
        isConnected = link.isConnected
        battery = link.battery ?? -1
        advertisedName = ShownName.marked(link.name ?? "")
    }
}

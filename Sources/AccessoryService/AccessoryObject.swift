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
    /// The properties that change without the accessory, as they were signalled last.
    private var published = AccessoryProperties()

    init(_ accessory: Accessory, _ service: AccessoryService) {
        id = accessory.id
        self.service = service
        published = passing(accessory)
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
        table.method("ScheduleRemoval", for: .admins, AccessoryObject.scheduleRemoval)
        table.method("CancelRemoval", for: .admins, AccessoryObject.cancelRemoval)
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
        properties.update(service.engine, granted.accessory)
        properties.problems = service.engine.problems(with: granted.accessory)
        return properties
    }

    /// The properties that change without the accessory: by the radio's object, its link, and a delayed removal.
    private func passing(_ accessory: Accessory) -> AccessoryProperties {
        var properties = AccessoryProperties()
        properties.device = service.devicePath(of: accessory) ?? "/"
        properties.update(service.engine, accessory)
        return properties
    }

    /// The names of such properties that differ from the last signals.
    func passingChanges(of accessory: Accessory) -> [String] {
        let old = published
        published = passing(accessory)
        return AccessoryProperties.table.changes(from: old, to: published)
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

    private func scheduleRemoval(_ call: MethodCall) throws(BusError) {
        let accessory = try requireAccessory()
        try mappingErrors { () throws(SetupError) in
            try service.engine.scheduleRemoval(
                of: accessory, in: UInt32(call.arguments[0].integerValue ?? 0), reason: "removed by an admin",
                by: service.asAdmin(call.sender))
        }
        call.reply()
    }

    private func cancelRemoval(_ call: MethodCall) throws(BusError) {
        let accessory = try requireAccessory()
        try mappingErrors { () throws(SetupError) in try service.engine.cancelRemoval(of: accessory) }
        call.reply()
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
    fileprivate mutating func update(_ engine: AccessoryEngine, _ accessory: Accessory) {
        let link = engine.link(with: accessory)
        removalTime = Int(engine.removalTime(of: accessory.id) ?? 0)
        isConnected = link.isConnected
        battery = link.battery ?? -1
        advertisedName = ShownName.marked(link.name ?? "")
    }
}

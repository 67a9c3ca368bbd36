// SPDX-License-Identifier: Apache-2.0
// An accessory on the bus: apps with a grant see their part, the persons who set it up see and manage theirs, admins
// see all properties.

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
    func isManaged(by caller: String) -> Bool { !service.ownGrants(on: id, of: caller).isEmpty }

    static func members(_ description: InterfaceDescription, _ network: InterfaceDescription) -> [ExportedInterface] {
        var table = MemberTable<AccessoryObject>(description)
        table.properties { object, caller in object.properties(for: caller) }
        table.method("JoinNetwork", for: .appsWithGrant, AccessoryObject.joinNetwork)
        table.method("LeaveNetwork", for: .appsWithGrant, AccessoryObject.leaveNetwork)
        table.method("Rename", for: .persons, AccessoryObject.rename)
        table.method("Remove", for: .persons, AccessoryObject.remove)
        table.method("ScheduleRemoval", for: .persons, AccessoryObject.scheduleRemoval)
        table.method("CancelRemoval", for: .persons, AccessoryObject.cancelRemoval)
        table.method("Unpair", for: .admins, AccessoryObject.unpair)
        table.method("ImageData", for: .persons, AccessoryObject.imageData)
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
        var properties = AccessoryProperties(
            granted, device: service.devicePath(of: granted.accessory), end: service.engine.end(of: granted.grant))
        let engine = service.engine
        let grants = service.clients.isAdmin(caller) ? engine.ledger.grants(of: id) : service.ownGrants(on: id, of: caller)
        guard !grants.isEmpty else { return properties }
        properties.apps = grants.map(\.app.rawValue).sorted()
        properties.update(engine.link(with: granted.accessory))
        properties.removalTime = Int(engine.removalTime(of: id, for: service.clients.person(caller)) ?? 0)
        properties.problems = engine.problems(with: granted.accessory, of: grants)
        return properties
    }

    /// The properties that change without the accessory: by the radio's object and its link.
    private func passing(_ accessory: Accessory) -> AccessoryProperties {
        var properties = AccessoryProperties()
        properties.device = service.devicePath(of: accessory) ?? "/"
        properties.update(service.engine.link(with: accessory))
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

    private func reason(_ action: String, _ caller: String) -> String {
        "\(action) by \(service.clients.isAdmin(caller) ? "an admin" : "the person who set it up")"
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
            try service.engine.rename(
                accessory, to: name, reason: reason("renamed", call.sender), by: service.requester(call.sender))
        }
        call.reply()
    }

    private func remove(_ call: MethodCall) throws(BusError) {
        let accessory = try requireAccessory()
        try mappingErrors { () throws(SetupError) in
            try service.engine.remove(accessory, reason: reason("removed", call.sender), by: service.requester(call.sender)) {
                call.reply()
            }
        }
    }

    private func scheduleRemoval(_ call: MethodCall) throws(BusError) {
        let accessory = try requireAccessory()
        try mappingErrors { () throws(SetupError) in
            try service.engine.scheduleRemoval(
                of: accessory, in: UInt32(call.arguments[0].integerValue ?? 0), reason: reason("removed", call.sender),
                by: service.requester(call.sender))
        }
        call.reply()
    }

    private func cancelRemoval(_ call: MethodCall) throws(BusError) {
        let accessory = try requireAccessory()
        try mappingErrors { () throws(SetupError) in
            try service.engine.cancelRemoval(of: accessory, for: service.clients.person(call.sender))
        }
        call.reply()
    }

    private func imageData(_ call: MethodCall) throws(BusError) {
        guard let image = try requireAccessory().image else { throw .failed("it was set up without an image") }
        call.reply(.bytes(image.bytes))
    }

    private func unpair(_ call: MethodCall) throws(BusError) {
        let accessory = try requireAccessory()
        try mappingErrors { () throws(SetupError) in
            try service.engine.unpair(accessory, reason: "unpaired by an admin", by: service.requester(call.sender)) {
                call.reply()
            }
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

// SPDX-License-Identifier: Apache-2.0
// A session on the bus: only the app's own connection calls it; an admin may look.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

final class SessionObject: ServiceObject {
    private let session: Session
    unowned let service: AccessoryService
    private var published = SessionProperties()

    init(_ session: Session, _ service: AccessoryService) {
        self.session = session
        self.service = service
        published = properties
    }

    var path: ObjectPath { AccessoryBus.sessionPath(session.id) }
    var interfaces: [ExportedInterface] { service.members.session }
    func isVisible(to caller: String) -> Bool { isOwned(by: caller) || service.clients.isAdmin(caller) }
    func isOwned(by caller: String) -> Bool { session.client.rawValue == caller }

    static func members(_ description: InterfaceDescription) -> ExportedInterface {
        var table = MemberTable<SessionObject>(description)
        table.properties { object, _ in object.properties }
        table.method("Activate", for: .owner, SessionObject.activate)
        table.method("Invalidate", for: .owner, SessionObject.invalidate)
        table.method("ShowPicker", for: .owner, SessionObject.showPicker)
        table.method("UpdatePicker", for: .owner, SessionObject.updatePicker)
        table.method("FinishPickerDiscovery", for: .owner, SessionObject.finishPickerDiscovery)
        table.method("CancelPicker", for: .owner, SessionObject.cancelPicker)
        table.method("RemoveAccessory", for: .owner, SessionObject.removeAccessory)
        table.method("RenameAccessory", for: .owner, SessionObject.renameAccessory)
        table.method("RenewAccess", for: .owner, SessionObject.renewAccess)
        table.method("FinishAuthorization", for: .owner, SessionObject.finishAuthorization)
        table.method("FailAuthorization", for: .owner, SessionObject.failAuthorization)
        table.method("UpdateAuthorization", for: .owner, SessionObject.updateAuthorization)
        table.method("ObservePresence", for: .owner, SessionObject.observePresence)
        return table.complete()
    }

    private var properties: SessionProperties {
        var properties = SessionProperties()
        properties.app = session.app.id.rawValue
        properties.program = ShownName.marked(service.clients.describe(session.client.rawValue))
        properties.state = session.state.rawValue
        properties.accessories = accessories
        return properties
    }

    /// Signals the changes since the last time.
    func publish() {
        let new = properties
        service.publish(self, from: published, to: new, to: service.audience(with: session.client))
        published = new
    }

    private var accessories: [ObjectPath] {
        guard session.state == .active else { return [] }
        return service.engine.ledger.accessories(of: session.app.id).map { AccessoryBus.accessoryPath($0.accessory.id) }.sorted()
    }

    private func activate(_ call: MethodCall) throws(BusError) {
        try mappingErrors { () throws(SetupError) in try service.engine.activate(session) { call.reply() } }
    }

    private func invalidate(_ call: MethodCall) throws(BusError) {
        service.engine.invalidate(session, reason: "invalidated by the app") { call.reply() }
    }

    private func removeAccessory(_ call: MethodCall) throws(BusError) {
        let accessory = try accessory(call)
        try mappingErrors { () throws(SetupError) in try service.engine.removeAccessory(session, accessory) { call.reply() } }
    }

    private func observePresence(_ call: MethodCall) throws(BusError) {
        let accessory = try accessory(call)
        try mappingErrors { () throws(SetupError) in
            try service.engine.observePresence(session, of: accessory, call.arguments[1].booleanValue ?? false) { call.reply() }
        }
    }

    private func updatePicker(_ call: MethodCall) throws(BusError) {
        let items = try DiscoveredItemKeys.items(call.arguments[0])
        try mappingErrors { () throws(SetupError) in try service.engine.updatePicker(session, items: items) }
        call.reply()
    }

    private func finishPickerDiscovery(_ call: MethodCall) throws(BusError) {
        try mappingErrors { () throws(SetupError) in try service.engine.finishPickerDiscovery(session) { call.reply() } }
    }

    private func cancelPicker(_ call: MethodCall) throws(BusError) {
        try mappingErrors { () throws(SetupError) in try service.engine.cancelPicker(session) { call.reply() } }
    }

    private func renameAccessory(_ call: MethodCall) throws(BusError) {
        let accessory = try accessory(call)
        let options = try RenameOptions.decode(call.arguments[1])
        service.engine.renameAccessory(session, accessory, options: options, answer: call.answer)
    }

    private func renewAccess(_ call: MethodCall) throws(BusError) {
        let accessory = try accessory(call)
        let options = try RenewalOptions.decode(call.arguments[1])
        service.engine.renewAccess(session, accessory, options: options, answer: call.answer)
    }

    private func finishAuthorization(_ call: MethodCall) throws(BusError) {
        let accessory = try accessory(call)
        let settings = try AuthorizationKeys.decode(call.arguments[1])
        try mappingErrors { () throws(SetupError) in
            try service.engine.finishAuthorization(session, accessory, settings: settings) { call.reply() }
        }
    }

    private func failAuthorization(_ call: MethodCall) throws(BusError) {
        let accessory = try accessory(call)
        try mappingErrors { () throws(SetupError) in try service.engine.failAuthorization(session, accessory) { call.reply() } }
    }

    private func updateAuthorization(_ call: MethodCall) throws(BusError) {
        let accessory = try accessory(call)
        let descriptor = try DescriptorKeys.decode(call.arguments[1], "descriptor")
        service.engine.updateAuthorization(session, accessory, descriptor: descriptor, answer: call.answer)
    }

    /// The accessory that a call speaks of first.
    ///
    /// - Throws: `UnknownObject`, also for one that exists and is not the app's: an admin's connection sees all
    ///   accessories, its app still has only its own.
    private func accessory(_ call: MethodCall) throws(BusError) -> AccessoryID {
        let target = call.arguments[0].objectPathValue ?? "/"
        let accessory = try service.accessory(at: target, for: call.sender)
        guard service.engine.ledger.grant(of: accessory.id, to: session.app.id)?.isEnabled == true else {
            throw .unknownObject(target)
        }
        return accessory.id
    }

    private func showPicker(_ call: MethodCall) throws(BusError) {
        let items = try ItemKeys.items(call.arguments[0])
        let settings = try PickerSettings.decode(call.arguments[1])
        for (index, item) in items.enumerated() {
            guard let migration = item.migration, !session.app.supports.contains(.wifi) else { continue }
            for (key, isThere) in [
                ("hotspotSSID", migration.hotspotSSID != nil),
                ("wifiAwarePairedDeviceID", migration.wifiAwarePairedDeviceID != nil),
            ] where isThere {
                throw BusError(
                    SetupError.invalid("items[\(index)].\(key)", "WiFi", "not among Supports= in \(session.app.source)"))
            }
        }
        let show = { [service, session] in
            service.engine.showPicker(session, items: items, settings: settings) { [unowned service] result in
                if case .failure(let error) = result {
                    service.engine.record(
                        .refused, app: session.app.id, by: .app(service.clients.describe(session.client.rawValue)),
                        why: error.message)
                }
                call.answer(result)
            }
        }
        guard items.contains(where: { $0.migration != nil }) else { return show() }
        service.engine.refreshBonds(show)
    }
}

extension MethodCall {
    /// The answer to a request that involves a person: the picker, before the outcome comes as events.
    fileprivate func answer(_ result: Result<PickerRun, SetupError>) {
        switch result {
        case .success(let run): reply(.objectPath(AccessoryBus.pickerPath(run.id)))
        case .failure(let error): fail(BusError(error))
        }
    }
}

/// The sessions on the bus, those that have ended included: their calls get another error than an unknown path.
final class ExportedSessions {
    private var objects: [Int: SessionObject] = [:]
    /// Paths of sessions that were invalidated while their app lives on, and its connection: calls are `Invalidated`,
    /// not `UnknownObject`.
    private var ended: [ObjectPath: String] = [:]

    /// How many ended sessions of one connection are remembered.
    private static let endedPerClient = 64

    /// The error for a request to a session of the caller's that has ended.
    func invalidation(of message: Message) -> BusError? {
        guard let path = message.path, let owner = ended[path], owner == message.sender,
            message.interface == AccessoryBus.session || message.interface == nil
        else { return nil }
        return BusError(SetupError(.invalidated, "the session \(path) was invalidated"))
    }

    func clientGone(_ client: String) { ended = ended.filter { $0.value != client } }

    func open(_ session: Session, _ service: AccessoryService) {
        let (object, client) = (SessionObject(session, service), session.client.rawValue)
        objects[session.id] = object
        service.server.export(object, to: service.audience(with: session.client))
        for granted in service.engine.ledger.accessories(of: session.app.id) where !service.clients.isAdmin(client) {
            if let object = service.object(of: granted.accessory.id) { service.server.announce(object, to: .only([client])) }
        }
    }

    func publish(_ session: Session) { objects[session.id]?.publish() }

    func close(_ session: Session, _ service: AccessoryService) {
        guard let object = objects.removeValue(forKey: session.id) else { return }
        let client = session.client.rawValue
        service.server.withdraw(object.path, to: service.audience(with: session.client))
        guard service.clients.caller(client) != nil, ended.values.count(where: { $0 == client }) < Self.endedPerClient
        else { return }
        ended[object.path] = client
    }

    func emit(_ event: SessionEvent, in session: Session, _ service: AccessoryService) {
        guard let object = objects[session.id] else { return }
        var details = EventDetails(event.discovered)
        if let granted = event.accessory {
            details.accessory = AccessoryBus.accessoryPath(granted.accessory.id)
            details.properties = AccessoryProperties(
                granted, device: service.devicePath(of: granted.accessory), end: service.engine.end(of: granted.grant))
        }
        if let presence = event.presence {
            (details.isPresent, details.reason, details.rssi) = (
                presence.state.isPresent, presence.state.reason, presence.state.rssi
            )
            details.device = presence.device?.description
        }
        details.picker = event.picker.map { AccessoryBus.pickerPath($0) }
        details.error = event.error.map { BusError($0).name }
        details.message = event.error?.message
        service.server.emit(
            path: object.path, interface: AccessoryBus.session, member: "Event", to: session.client.rawValue,
            [.string(event.type.name), details.wire])
    }
}

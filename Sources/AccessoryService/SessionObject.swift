// A session on the bus: only the app's own connection calls it; an admin may look.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

final class SessionObject: ExportedObject {
    let path: ObjectPath
    private let session: Session
    private unowned let service: AccessoryService
    private(set) var interfaces: [ExportedInterface] = []

    init(_ session: Session, _ service: AccessoryService) {
        self.session = session
        self.service = service
        path = AccessoryBus.sessionPath(session.id)
        var interface = ExportedInterface(service.description(AccessoryBus.session))
        interface.property("App") { _ in .string(session.app.id.rawValue) }
        interface.property("State") { _ in .string(session.state.rawValue) }
        interface.property("Accessories") { [unowned service] _ in
            guard session.state == .active else { return .objectPaths([]) }
            return .objectPaths(
                service.engine.ledger.accessories(of: session.app.id).map { AccessoryBus.accessoryPath($0.id) }.sorted())
        }
        interface.method("Activate") { [unowned self] call throws(BusError) in
            try own(call)
            try asking { () throws(SetupError) in try service.engine.activate(session) { call.reply() } }
        }
        interface.method("Invalidate") { [unowned self] call throws(BusError) in
            try own(call)
            service.engine.invalidate(session, reason: "invalidated by the app") { call.reply() }
        }
        interface.method("ShowPicker") { [unowned self] call throws(BusError) in
            try own(call)
            try showPicker(call)
        }
        interface.method("RemoveAccessory") { [unowned self] call throws(BusError) in
            try own(call)
            let accessory = try accessory(call)
            try asking { () throws(SetupError) in
                try service.engine.removeAccessory(session, accessory) { call.reply() }
            }
        }
        interface.method("UpdatePicker") { [unowned self] call throws(BusError) in
            try own(call)
            let items = try WireDecoding.discoveredItems(call.arguments[0])
            try asking { () throws(SetupError) in try service.engine.updatePicker(session, items: items) }
            call.reply()
        }
        interface.method("FinishPickerDiscovery") { [unowned self] call throws(BusError) in
            try own(call)
            try asking { () throws(SetupError) in try service.engine.finishPickerDiscovery(session) { call.reply() } }
        }
        interface.method("RenameAccessory") { [unowned self] call throws(BusError) in
            try own(call)
            let accessory = try accessory(call)
            let options = try WireDecoding.renameOptions(call.arguments[1])
            try asking { () throws(SetupError) in
                try service.engine.renameAccessory(session, accessory, options: options) { call.reply(with: $0) }
            }
        }
        interface.method("FinishAuthorization") { [unowned self] call throws(BusError) in
            try own(call)
            let accessory = try accessory(call)
            let settings = try WireDecoding.authorizationSettings(call.arguments[1])
            try asking { () throws(SetupError) in
                try service.engine.finishAuthorization(session, accessory, settings: settings) { call.reply() }
            }
        }
        interface.method("FailAuthorization") { [unowned self] call throws(BusError) in
            try own(call)
            let accessory = try accessory(call)
            try asking { () throws(SetupError) in
                try service.engine.failAuthorization(session, accessory) { call.reply() }
            }
        }
        interface.method("UpdateAuthorization") { [unowned self] call throws(BusError) in
            try own(call)
            let accessory = try accessory(call)
            let descriptor = try WireDecoding.descriptor(call.arguments[1], "descriptor")
            try asking { () throws(SetupError) in
                try DescriptorRules.check(descriptor)
                try DescriptorRules.check(descriptor, declaredBy: session.app)
            }
            try asking { () throws(SetupError) in
                try service.engine.updateAuthorization(session, accessory, descriptor: descriptor) { call.reply(with: $0) }
            }
        }
        interfaces = [interface]
    }

    func isVisible(to caller: String) -> Bool {
        caller == session.client.rawValue || service.clients.isAdmin(caller)
    }

    private func own(_ call: MethodCall) throws(BusError) {
        guard call.sender == session.client.rawValue else {
            throw .accessDenied("this session belongs to another connection")
        }
    }

    /// The accessory that a call speaks of first.
    ///
    /// - Throws: `UnknownObject`, also for one that exists and is not the app's: an admin's connection sees all accessories, its app
    ///   still has only its own.
    private func accessory(_ call: MethodCall) throws(BusError) -> AccessoryID {
        let target = call.arguments[0].objectPathValue ?? "/"
        let accessory = try service.accessory(at: target, for: call.sender)
        guard service.engine.ledger.grant(of: accessory.id, to: session.app.id)?.isEnabled == true else {
            throw .unknownObject(target)
        }
        return accessory.id
    }

    private func showPicker(_ call: MethodCall) throws(BusError) {
        let items = try WireDecoding.items(call.arguments[0])
        let settings = try WireDecoding.settings(call.arguments[1])
        for (index, item) in items.enumerated() {
            try asking { () throws(SetupError) in
                try DescriptorRules.check(item.descriptor)
                try DescriptorRules.check(item.descriptor, declaredBy: session.app)
            }
            guard let migration = item.migration, !session.app.supports.contains(.wifi) else { continue }
            for (key, isThere) in [
                ("hotspotSSID", migration.hotspotSSID != nil),
                ("wifiAwarePairedDeviceID", migration.wifiAwarePairedDeviceID != nil),
            ] where isThere {
                throw BusError(
                    SetupError.invalid("items[\(index)].\(key)", "WiFi", "not among Supports= in \(session.app.source)"))
            }
        }
        let show = { [unowned service, session] () throws(BusError) in
            try asking { () throws(SetupError) in
                do throws(SetupError) {
                    try service.engine.showPicker(session, items: items, settings: settings) { call.reply(with: $0) }
                } catch {
                    service.engine.audit(
                        .refused, app: session.app.id, by: .app(service.clients.describe(session.client.rawValue)),
                        why: error.message)
                    throw error
                }
            }
        }
        guard items.contains(where: { $0.migration != nil }) else { return try show() }
        service.engine.refreshBonds {
            do throws(BusError) { try show() } catch { call.fail(error) }
        }
    }
}

extension MethodCall {
    /// The answer to a request that involves a person: the picker, before the outcome comes as events.
    fileprivate func reply(with run: PickerRun) { reply(.objectPath(AccessoryBus.pickerPath(run.id))) }
}

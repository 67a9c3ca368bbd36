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
            let target = call.arguments[0].objectPathValue ?? "/"
            let accessory = try service.accessory(at: target, for: call.sender)
            // An admin's connection sees all accessories; its app still has only its own.
            guard service.engine.ledger.grant(of: accessory.id, to: session.app.id)?.isEnabled == true else {
                throw .unknownObject(target)
            }
            try asking { () throws(SetupError) in
                try service.engine.removeAccessory(session, accessory.id) { call.reply() }
            }
        }
        for name in [
            "UpdatePicker", "FinishPickerDiscovery", "RenameAccessory", "FinishAuthorization", "FailAuthorization",
            "UpdateAuthorization",
        ] {
            interface.method(name) { [unowned self] call throws(BusError) in
                try own(call)
                throw .notSupported("\(name) is not offered by this version")
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

    private func showPicker(_ call: MethodCall) throws(BusError) {
        let items = try WireDecoding.items(call.arguments[0])
        let settings = try WireDecoding.settings(call.arguments[1])
        for (index, item) in items.enumerated() {
            try asking { () throws(SetupError) in
                try DescriptorRules.check(item.descriptor)
                try DescriptorRules.check(item.descriptor, declaredBy: session.app)
            }
            try NotYetOffered.check(item, "items[\(index)]")
        }
        try asking { () throws(SetupError) in
            try service.engine.showPicker(session, items: items, settings: settings) { run in
                call.reply(.objectPath(AccessoryBus.pickerPath(run.id)))
            }
        }
    }
}

/// Valid requests that later versions will serve. The README lists them.
enum NotYetOffered {
    static func check(_ item: DisplayItem, _ context: String) throws(BusError) {
        for (name, option) in SetupOptions.names where item.setupOptions.contains(option) {
            throw .notSupported("\(context).setupOptions: \(name): not offered by this version")
        }
        let descriptor = item.descriptor
        if descriptor.wifiAware != nil {
            throw BusError(
                SetupError.invalid(
                    "\(context).descriptor", "Wi-Fi Aware", "the Wi-Fi service of this machine does not offer it"))
        }
        if descriptor.wantsWiFi {
            throw .notSupported("\(context).descriptor.ssid: Wi-Fi accessories are not offered by this version")
        }
        for (name, option) in SupportOptions.names where option != .pairingLE && descriptor.supportedOptions.contains(option) {
            throw .notSupported("\(context).descriptor.supportedOptions: \(name): not offered by this version")
        }
    }
}

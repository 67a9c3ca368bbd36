// The entry to our interface: sessions for apps, registration for picker programs, the state of the radios for everybody.

internal import AccessoryBus
internal import AccessoryEngine
internal import AccessoryModel
internal import CallerIdentity
internal import DBusKit
internal import Logging

final class ManagerObject: ExportedObject {
    let path = AccessoryBus.root
    private(set) var interfaces: [ExportedInterface] = []

    init(_ service: AccessoryService) {
        var manager = ExportedInterface(service.description(AccessoryBus.manager))
        manager.property("Version") { _ in .string(Version.current) }
        manager.property("Bluetooth") { [unowned service] _ in .string(service.engine.radioState.rawValue) }
        manager.property("WiFi") { [unowned service] _ in .string(service.engine.networkRadioState.rawValue) }
        manager.property("PickerAvailable") { [unowned service] _ in .boolean(!service.engine.pickerClients.isEmpty) }
        manager.method("CreateSession") { [unowned service] call throws(BusError) in
            try WireDecoding.empty(call.arguments[0], "options")
            let app: AppManifest
            do throws(IdentityFailure) {
                app = try service.clients.app(of: call.sender, in: service.manifests)
            } catch {
                service.engine.audit(.refused, by: .app(service.clients.describe(call.sender)), why: "session: \(error)")
                throw BusError(SetupError(.activationFailed, "\(error)"))
            }
            let session = try asking { () throws(SetupError) in
                try service.engine.createSession(client: ClientID(call.sender), app: app)
            }
            call.reply(.objectPath(AccessoryBus.sessionPath(session.id)))
        }
        manager.method("RegisterPicker") { [unowned service] call throws(BusError) in
            try WireDecoding.empty(call.arguments[0], "capabilities")
            guard service.clients.mayShowPickers(call.sender) else {
                service.engine.audit(
                    .refused, by: .app(service.clients.describe(call.sender)),
                    why: "picker program: not in group \(ClientRegistry.pickerGroup)")
                throw .accessDenied("a picker program runs as root or as a member of the group \(ClientRegistry.pickerGroup)")
            }
            try asking { () throws(SetupError) in try service.engine.registerPicker(ClientID(call.sender)) }
            call.reply()
        }
        manager.method("UnregisterPicker") { [unowned service] call throws(BusError) in
            service.engine.unregisterPicker(ClientID(call.sender))
            call.reply()
        }
        interfaces = [manager]
    }

    func isVisible(to caller: String) -> Bool { true }
}

// SPDX-License-Identifier: Apache-2.0
// The entry to our interface: sessions for apps, registration for picker programs, the state of the radios for
// everybody.

internal import AccessoryBus
internal import AccessoryEngine
internal import AccessoryModel
internal import AdminFiles
internal import CallerIdentity
internal import DBusKit

final class ManagerObject: ServiceObject {
    let path = AccessoryBus.root
    unowned let service: AccessoryService

    init(_ service: AccessoryService) {
        self.service = service
    }

    var interfaces: [ExportedInterface] { service.members.manager }
    func isVisible(to caller: String) -> Bool { true }

    static func members(_ description: InterfaceDescription) -> ExportedInterface {
        var table = MemberTable<ManagerObject>(description)
        table.property("Version", for: .whoeverSeesIt) { _, _ in .string(Version.current) }
        table.property("Bluetooth", for: .whoeverSeesIt) { manager, _ in .string(manager.service.engine.radioState.rawValue) }
        table.property("WiFi", for: .whoeverSeesIt) { manager, _ in .string(manager.service.engine.networkRadioState.rawValue) }
        table.property("PickerAvailable", for: .whoeverSeesIt) { manager, _ in
            .boolean(!manager.service.engine.pickerPrograms.isEmpty)
        }
        table.property("Pickers", for: .pickerProgramsAlone) { $0.pickers(for: $1) }
        // Which app a connection speaks for is what this method finds out.
        table.method("CreateSession", for: .whoeverSeesIt, ManagerObject.createSession)
        table.method("RegisterPicker", for: .pickerPrograms, ManagerObject.registerPicker)
        table.method("UnregisterPicker", for: .whoeverSeesIt, ManagerObject.unregisterPicker)
        return table.complete()
    }

    private func createSession(_ call: MethodCall) throws(BusError) {
        try WireDecoding.empty(call.arguments[0], "options")
        try openSession(call, mayWait: true)
    }

    /// - Parameter mayWait: for a manifest that is just being written.
    private func openSession(_ call: MethodCall, mayWait: Bool) throws(BusError) {
        let app: AppManifest
        do throws(IdentityFailure) {
            app = try service.clients.app(of: call.sender, in: service.manifests)
        } catch {
            let again = { [weak self] in
                do throws(BusError) { try self?.openSession(call, mayWait: false) } catch { call.fail(error) }
            }
            if mayWait, service.manifests.wait(again) { return }
            service.engine.audit(.refused, by: .app(service.clients.describe(call.sender)), why: "session: \(error)")
            throw BusError(SetupError(.activationFailed, "\(error)"))
        }
        let session = try asking { () throws(SetupError) in
            try service.engine.createSession(client: ClientID(call.sender), app: app, party: service.clients.party(of: call.sender))
        }
        call.reply(.objectPath(AccessoryBus.sessionPath(session.id)))
    }

    private func registerPicker(_ call: MethodCall) throws(BusError) {
        let capabilities = try WireDecoding.pickerCapabilities(call.arguments[0])
        try asking { () throws(SetupError) in
            try service.engine.registerPicker(
                ClientID(call.sender), label: capabilities.label, lease: capabilities.lease,
                isUnattended: capabilities.isUnattended,
                user: service.clients.account(of: call.sender))
        }
        call.reply()
    }

    /// The registered programs in their order, as `caller` sees them.
    private func pickers(for caller: String) -> DBusValue {
        let shower = service.engine.picker?.client
        return .array(
            of: "a{sv}",
            service.engine.pickerPrograms.map { program in
                .vardict([
                    "label": .string(ShownName.marked(program.label)), "user": .string(ShownName.marked(program.user)),
                    "program": .string(ShownName.marked(service.clients.describe(program.client.rawValue))),
                    "since": .uint64(UInt64(max(0, program.since))), "isYours": .boolean(program.client.rawValue == caller),
                    "shows": .boolean(program.client == shower),
                ])
            })
    }

    private func unregisterPicker(_ call: MethodCall) throws(BusError) {
        service.engine.unregisterPicker(ClientID(call.sender))
        call.reply()
    }
}

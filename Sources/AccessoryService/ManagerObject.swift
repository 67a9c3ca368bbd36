// SPDX-License-Identifier: Apache-2.0
// The entry to our interface: sessions for apps, registration for picker programs, the state of the radios for
// every caller.

internal import AccessoryBus
internal import AccessoryEngine
internal import AccessoryModel
internal import AdminFiles
internal import CallerIdentity
internal import DBusKit

final class ManagerObject: ServiceObject {
    let path = AccessoryBus.root
    unowned let service: AccessoryService
    /// As a caller without a program of its own sees them.
    private var published = ManagerProperties()

    init(_ service: AccessoryService) {
        self.service = service
        published = properties(for: "")
    }

    var interfaces: [ExportedInterface] { service.members.manager }
    func isVisible(to caller: String) -> Bool { true }
    func isManaged(by caller: String) -> Bool { service.clients.person(caller) != nil }

    static func members(_ description: InterfaceDescription) -> ExportedInterface {
        var table = MemberTable<ManagerObject>(description)
        table.properties { manager, caller in manager.properties(for: caller) }
        // This method determines the app that a connection acts for.
        table.method("CreateSession", for: .whoeverSeesIt, ManagerObject.createSession)
        table.method("RegisterPicker", for: .pickerPrograms, ManagerObject.registerPicker)
        table.method("UnregisterPicker", for: .whoeverSeesIt, ManagerObject.unregisterPicker)
        table.method("UnmuteApp", for: .persons, ManagerObject.unmuteApp)
        return table.complete()
    }

    private func createSession(_ call: MethodCall) throws(BusError) {
        try SessionKeys.decode(call.arguments[0], "options")
        try openSession(call, mayWait: true)
    }

    /// - Parameter mayWait: for a manifest that is just being written.
    private func openSession(_ call: MethodCall, mayWait: Bool) throws(BusError) {
        let app: AppManifest
        do throws(IdentityFailure) {
            app = try service.clients.app(of: call.sender)
        } catch {
            let again = { [weak self] in
                do throws(BusError) { try self?.openSession(call, mayWait: false) } catch { call.fail(error) }
            }
            if mayWait, service.manifests.wait(again) { return }
            service.engine.record(.refused, by: .app(service.clients.describe(call.sender)), why: "session: \(error)")
            throw BusError(SetupError(.activationFailed, "\(error)"))
        }
        let session = try mappingErrors { () throws(SetupError) in
            try service.engine.createSession(client: ClientID(call.sender), app: app, party: service.clients.party(of: call.sender))
        }
        call.reply(.objectPath(AccessoryBus.sessionPath(session.id)))
    }

    private func registerPicker(_ call: MethodCall) throws(BusError) {
        let capabilities = try PickerCapabilities.decode(call.arguments[0])
        try mappingErrors { () throws(SetupError) in
            try service.engine.registerPicker(
                ClientID(call.sender), label: capabilities.label, lease: capabilities.lease.map(Double.init),
                isUnattended: capabilities.isUnattended, isStandby: capabilities.isStandby,
                uid: service.clients.caller(call.sender)?.uid, user: service.clients.account(of: call.sender))
        }
        call.reply()
    }

    private func properties(for caller: String) -> ManagerProperties {
        let engine = service.engine
        let presenter = engine.picker?.client
        var properties = ManagerProperties()
        properties.version = Version.current
        properties.bluetooth = engine.radioState.rawValue
        properties.wifi = engine.networkRadioState.rawValue
        properties.isPickerAvailable = !engine.pickerPrograms.isEmpty
        properties.pickers = engine.pickerPrograms.map { program in
            var entry = PickerProgramEntry()
            entry.label = ShownName.marked(program.label)
            entry.user = ShownName.marked(program.user)
            entry.program = ShownName.marked(service.clients.describe(program.client.rawValue))
            entry.since = Int(program.since)
            entry.isYours = program.client.rawValue == caller
            entry.isShowing = program.client == presenter
            return entry
        }
        properties.mutedApps = engine.mutedApps.map { muted in
            var entry = MutedAppEntry()
            entry.app = muted.app.rawValue
            entry.name = ShownName.marked(service.manifests.apps[muted.app]?.name ?? "")
            entry.since = Int(muted.since)
            entry.who = ShownName.marked(muted.who)
            return entry
        }
        return properties
    }

    /// Signals the changes since the last time.
    func publish() {
        let new = properties(for: "")
        service.publish(self, from: published, to: new, to: .only(service.clients.identified))
        published = new
    }

    private func unmuteApp(_ call: MethodCall) throws(BusError) {
        let text = call.arguments[0].stringValue ?? ""
        guard let app = AppID(text) else { throw .invalidArguments("app: \(text): not an app's identifier") }
        try mappingErrors { () throws(SetupError) in try service.engine.unmute(app, by: service.requester(call.sender)) }
        call.reply()
    }

    private func unregisterPicker(_ call: MethodCall) throws(BusError) {
        service.engine.unregisterPicker(ClientID(call.sender))
        call.reply()
    }
}

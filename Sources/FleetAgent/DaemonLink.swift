// SPDX-License-Identifier: Apache-2.0
// The daemon, as an administrator's client of its D-Bus interface: its objects, its trail, and its methods. The agent
// has no other way to the gateway's accessories.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import FleetProtocol
internal import JSONText

/// The connection to the daemon.
final class DaemonLink {
    private enum State {
        /// The daemon has no owner on the bus.
        case absent
        /// The objects are being read; signals that arrive meanwhile wait.
        case loading([(DaemonLink) -> Void])
        /// They could not be read, and are read again after a pause.
        case unreadable(LoopSource)
        case loaded(DaemonObjects)
    }

    private static let callTimeout = Duration.seconds(40)
    private static let pause = Duration.seconds(5)
    private static let maxHeldSignals = 16_384

    private let connection: Connection
    private let loop: MainLoop
    private let handler: (AgentEvent) -> Void
    private let report: (String) -> Void
    private var nameWatch: Subscription?
    private var subscriptions: [Subscription] = []
    private var state = State.absent
    /// Ends the agent's time as a picker program; nil while it is none.
    private var lease: LoopSource?
    /// Secrets that were passed on, by the path of the picker.
    private var revealed: [ObjectPath: JSON] = [:]

    /// Begins to follow the daemon.
    ///
    /// - Parameters:
    ///   - handler: gets the daemon's events.
    ///   - report: gets problems, for the log.
    init(
        _ connection: Connection, _ loop: MainLoop, handler: @escaping (AgentEvent) -> Void, report: @escaping (String) -> Void
    ) {
        self.connection = connection
        self.loop = loop
        self.handler = handler
        self.report = report
        nameWatch = connection.watchName(AccessoryBus.name) { [weak self] in self?.ownerChanged($0) }
    }

    // MARK: Objects

    private func ownerChanged(_ owner: String?) {
        for subscription in subscriptions { subscription.cancel() }
        subscriptions = []
        setState(.absent)
        handler(.daemonGone)
        guard let owner else { return }
        func follow(_ path: ObjectPath?, _ interface: String, _ member: String, _ body: @escaping (DaemonLink, Message) -> Void) {
            subscriptions.append(
                connection.subscribe(sender: owner, path: path, interface: interface, member: member) { [weak self] message in
                    if let self { body(self, message) }
                })
        }
        follow(AccessoryBus.root, Bus.objectManager, "InterfacesAdded") { link, message in
            guard let added = message.addedInterfaces(limits: .generous) else { return }
            link.apply(added.path) { $0.add(added.path, added.interfaces) }
        }
        follow(AccessoryBus.root, Bus.objectManager, "InterfacesRemoved") { link, message in
            guard let removed = message.removedInterfaces else { return }
            link.apply(removed.path) { $0.remove(removed.path, removed.names) }
        }
        follow(nil, Bus.properties, "PropertiesChanged") { link, message in
            guard let path = message.path, let (interface, values, invalidated) = message.changedProperties else { return }
            link.apply(path) { $0.change(path, interface, values, invalidated) }
        }
        follow(AccessoryBus.adminPath, AccessoryBus.admin, "Audited") { link, _ in
            if case .loaded = link.state { link.handler(.audited) }
        }
        load()
    }

    private func setState(_ new: State) {
        if case .unreadable(let timer) = state { timer.cancel() }
        if case .absent = new {
            lease?.cancel()
            lease = nil
            revealed = [:]
        }
        state = new
    }

    /// An administrator's method comes first: at it the daemon has polkit decide whether the agent is one, and it shows
    /// all objects to administrators alone.
    private func load() {
        setState(.loading([]))
        do throws(BusError) {
            let call = try Message.call(
                to: AccessoryBus.name, path: AccessoryBus.adminPath, interface: AccessoryBus.admin, member: "GetAudit",
                [.vardict(["limit": .uint32(1)])])
            // Polkit decides by a rule, without a person; but the daemon has it decide only about callers that would
            // wait.
            call.allowsInteraction = true
            connection.call(call, timeout: Self.callTimeout) { [weak self] result in
                guard let self, case .loading = self.state else { return }
                switch result {
                case .success: self.loadObjects()
                case .failure(let error): self.loadLater(error)
                }
            }
        } catch {
            loadLater(error)
        }
    }

    private func loadLater(_ error: BusError) {
        report(
            error.isStandard("UnknownObject") || error.isStandard("AccessDenied")
                ? "permission denied by the daemon: polkit must permit org.accessorysetup1.manage to this user" : error.message)
        setState(.unreadable(loop.after(Self.pause) { [weak self] in self?.load() }))
    }

    private func loadObjects() {
        connection.call(
            AccessoryBus.name, AccessoryBus.root, Bus.objectManager, "GetManagedObjects", timeout: Self.callTimeout,
            limits: .generous
        ) { [weak self] result in
            guard let self, case .loading = self.state else { return }
            switch result {
            case .success(let values): self.loadManager(DaemonObjects(values.first))
            case .failure(let error): self.loadLater(error)
            }
        }
    }

    /// The list of objects is without the one that has it.
    private func loadManager(_ objects: DaemonObjects) {
        connection.call(
            AccessoryBus.name, AccessoryBus.root, Bus.properties, "GetAll", [.string(AccessoryBus.manager)],
            timeout: Self.callTimeout
        ) { [weak self] result in
            guard let self, case .loading(let signals) = self.state else { return }
            var objects = objects
            if case .success(let values) = result, let properties = values.first {
                _ = objects.add(
                    AccessoryBus.root, .dictionary(key: "s", value: "a{sv}", [.init(.string(AccessoryBus.manager), properties)]))
            }
            self.state = .loaded(objects)
            self.handler(.loaded(objects.reports))
            for signal in signals { signal(self) }
        }
    }

    /// Applies a signal, now or once the objects are loaded.
    private func apply(_ path: ObjectPath, _ change: @escaping (inout DaemonObjects) -> DaemonObjects.Part?) {
        switch state {
        case .absent, .unreadable: return
        case .loading(var signals):
            guard signals.count < Self.maxHeldSignals else { return }
            // The state must not hold a second reference during the append, which would copy all elements.
            state = .absent
            signals.append { $0.apply(path, change) }
            state = .loading(signals)
        case .loaded(var objects):
            state = .absent
            let part = change(&objects)
            state = .loaded(objects)
            guard let part else { return }
            handler(.changed(DaemonObjects.end(of: part), objects.report(part, at: path)))
            reveal(path, objects)
        }
    }

    /// Only while the operator is asked: a question to a person at the gateway is not theirs.
    private func reveal(_ path: ObjectPath, _ objects: DaemonObjects) {
        let secret = lease == nil ? nil : objects.secret(at: path)
        guard secret != revealed[path] else { return }
        revealed[path] = secret
        if let secret, let number = path.rawValue.split(separator: "/").last.flatMap({ Int($0) }) {
            handler(.secret(picker: number, secret))
        }
    }

    // MARK: The trail

    /// Lines from a number on; `auditRead` follows.
    func readAudit(from number: Int, limit: Int) {
        let filter = DBusValue.vardict(["from": .uint64(UInt64(clamping: number)), "limit": .uint32(UInt32(clamping: limit))])
        connection.call(
            AccessoryBus.name, AccessoryBus.adminPath, AccessoryBus.admin, "GetAudit", [filter], timeout: Self.callTimeout
        ) {
            [weak self] result in
            guard let self else { return }
            guard case .success(let values) = result else { return self.handler(.auditRead(nil, from: number)) }
            let lines = AuditLine.list(wire: values.first).map { line in
                AuditedLine(id: Int(clamping: line.id), time: line.time, json: JSON(line.wire).members ?? [:])
            }
            self.handler(.auditRead(lines, from: number))
        }
    }

    // MARK: Commands

    /// Performs a command; `performed` follows.
    ///
    /// - Parameter signer: names the operator's key, for the trail.
    func perform(_ id: String, _ action: FleetCommand.Action, for signer: String) {
        // In order: the daemon takes it before the command.
        connection.call(AccessoryBus.name, AccessoryBus.adminPath, AccessoryBus.admin, "ActFor", [.string(signer)]) { _ in }
        switch action {
        case .revoke(let grant): onGrant(id, grant, AccessoryBus.grant, "Revoke", [])
        case .enable(let grant): onGrant(id, grant, Bus.properties, "Set", Self.enabled(true))
        case .disable(let grant): onGrant(id, grant, Bus.properties, "Set", Self.enabled(false))
        case .remove(let accessory): onAccessory(id, accessory, "Remove", [])
        case .rename(let accessory, let name): onAccessory(id, accessory, "Rename", [.string(name)])
        case .lockDown(let isOn): lockDown(id, isOn)
        case .showPickers(let seconds): showPickers(id, seconds)
        case .pick(let picker, let offer, let end, let access):
            var choice: [String: DBusValue] = [:]
            if !end.isEmpty { choice["end"] = .string(end) }
            if !access.isEmpty { choice["access"] = .string(access) }
            onPicker(id, picker, "PickWith", [.string(offer), .vardict(choice)])
        case .respond(let picker, let response):
            let answer: [String: DBusValue] =
                switch response {
                case .accept(let isAccepted): ["accept": .boolean(isAccepted)]
                case .passkey(let passkey): ["passkey": .uint32(UInt32(clamping: passkey))]
                case .pin(let pin): ["pin": .string(pin)]
                }
            onPicker(id, picker, "Respond", [.vardict(answer)])
        case .name(let picker, let name): onPicker(id, picker, "Rename", [.string(name)])
        case .cancel(let picker): onPicker(id, picker, "Cancel", [])
        case .mute(let picker): onPicker(id, picker, "Mute", [])
        }
    }

    private static func enabled(_ isEnabled: Bool) -> [DBusValue] {
        [.string(AccessoryBus.grant), .string("Enabled"), .variant(.boolean(isEnabled))]
    }

    private func answer(_ id: String, _ outcome: CommandAnswer.Outcome, _ reason: String = "") {
        handler(.performed(CommandAnswer(id, outcome, reason)))
    }

    private func call(
        _ id: String, of service: String = AccessoryBus.name, _ path: ObjectPath, _ interface: String, _ member: String,
        _ arguments: [DBusValue], then: (([DBusValue]) -> Void)? = nil
    ) {
        connection.call(service, path, interface, member, arguments, timeout: Self.callTimeout) { [weak self] result in
            switch result {
            case .success(let values): then.map { $0(values) } ?? self?.answer(id, .done)
            case .failure(let error): self?.answer(id, Self.outcome(of: error), error.message.isEmpty ? error.name : error.message)
            }
        }
    }

    /// A call whose answer is lost may have happened.
    private static func outcome(of error: BusError) -> CommandAnswer.Outcome {
        error.isStandard("NoReply") || error.isStandard("Disconnected") ? .unknown : .failed
    }

    private func onGrant(
        _ id: String, _ grant: FleetCommand.Action.GrantName, _ interface: String, _ member: String, _ arguments: [DBusValue]
    ) {
        let path = AccessoryBus.grantPath(Int64(grant.number))
        guard case .loaded(let objects) = state else { return answer(id, .failed, "the daemon is not running") }
        guard let app = objects.value(path, AccessoryBus.grant, "App")?.stringValue,
            let accessory = objects.value(path, AccessoryBus.grant, "Accessory")?.objectPathValue
        else { return answer(id, .failed, "grant: \(grant.number): there is no such grant") }
        guard grant.app.isEmpty || grant.app == app else {
            return answer(id, .failed, "app: \(grant.app): grant \(grant.number) is another app's")
        }
        guard grant.accessory.isEmpty || grant.accessory == AccessoryBus.accessoryID(at: accessory)?.rawValue else {
            return answer(id, .failed, "accessory: \(grant.accessory): grant \(grant.number) is for another accessory")
        }
        call(id, path, interface, member, arguments)
    }

    private func onAccessory(_ id: String, _ accessory: String, _ member: String, _ arguments: [DBusValue]) {
        guard let path = AccessoryID(accessory).map(AccessoryBus.accessoryPath) else {
            return answer(id, .failed, "accessory: \(accessory): not an identifier")
        }
        call(id, path, AccessoryBus.accessory, member, arguments)
    }

    private func onPicker(_ id: String, _ picker: Int, _ member: String, _ arguments: [DBusValue]) {
        call(id, AccessoryBus.pickerPath(picker), AccessoryBus.picker, member, arguments)
    }

    private func showPickers(_ id: String, _ seconds: Int) {
        lease?.cancel()
        lease = nil
        guard seconds > 0 else { return call(id, AccessoryBus.root, AccessoryBus.manager, "UnregisterPicker", []) }
        // Before the call: a waiting picker may have a secret at once.
        lease = loop.after(.seconds(seconds)) { [weak self] in self?.lease = nil }
        let capabilities: [String: DBusValue] = ["label": .string("fleet"), "lease": .uint32(UInt32(clamping: max(5, seconds)))]
        call(id, AccessoryBus.root, AccessoryBus.manager, "RegisterPicker", [.vardict(capabilities)])
    }

    /// Only root can switch the lock-down: systemd runs `accessoryctl lockdown` for the agent, if polkit permits.
    private func lockDown(_ id: String, _ isOn: Bool) {
        let unit = "accessory-fleet-lockdown@\(isOn ? "on" : "off").service"
        let systemd: (String, ObjectPath, String) = (
            "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"
        )
        let watch = LockdownJob()
        watch.subscription = connection.subscribe(sender: systemd.0, path: systemd.1, interface: systemd.2, member: "JobRemoved") {
            [weak self] message in
            guard let arguments = try? message.arguments(), arguments.count == 4, let job = arguments[1].objectPathValue else {
                return
            }
            watch.results[job] = arguments[3].stringValue
            self?.conclude(id, watch, isOn)
        }
        call(id, of: systemd.0, systemd.1, systemd.2, "Subscribe", []) { [weak self] _ in
            self?.call(id, of: systemd.0, systemd.1, systemd.2, "StartUnit", [.string(unit), .string("replace")]) { values in
                watch.job = values.first?.objectPathValue
                self?.conclude(id, watch, isOn)
            }
        }
        watch.timer = loop.after(Self.callTimeout) { [weak self] in
            watch.subscription?.cancel()
            self?.answer(id, .unknown, "systemd did not finish \(unit)")
        }
    }

    private final class LockdownJob {
        var job: ObjectPath?
        var results: [ObjectPath: String] = [:]
        var subscription: Subscription?
        var timer: LoopSource?
    }

    private func conclude(_ id: String, _ watch: LockdownJob, _ isOn: Bool) {
        guard let job = watch.job, let result = watch.results[job] else { return }
        watch.subscription?.cancel()
        watch.timer?.cancel()
        answer(id, result == "done" ? .done : .failed, result == "done" ? "" : "accessoryctl lockdown failed: \(result)")
    }
}

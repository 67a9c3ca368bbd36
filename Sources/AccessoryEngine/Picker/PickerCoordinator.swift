// SPDX-License-Identifier: Apache-2.0
// Which picker runs, of which there is one at most, as there is one person (rule 7): the checks of each request, the
// program that shows the picker, and the answers of the person at it. `PickerRunner` performs the run.
// `AccessoryEngine` documents the requests.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class PickerCoordinator {
    private let services: EngineServices
    let requests: PickerRequests
    private(set) var runner: PickerRunner?
    private(set) lazy var programs = PickerRegistry(
        services,
        // A rule of the policy is no program.
        currentPresenter: { [weak self] in self?.run.flatMap { $0.client == .policy ? nil : $0.client } },
        onChange: { [weak self] in self?.assignPresenter() })
    private var runCount = 0
    private(set) var pauses = PickerPauses()

    init(_ services: EngineServices) {
        self.services = services
        requests = PickerRequests(services: services)
        services.access.afterChange { [weak self] in self?.runner?.accessChanged() }
    }

    var run: PickerRun? { runner?.run }

    /// The next program continues the picker of one that is gone, or that no person can see while the next can be seen.
    private func assignPresenter() {
        guard let runner, case let former = runner.run.client, former != .policy else { return }
        let presenter = programs[former]
        guard let next = programs.all.first else { return runner.feed(.pickerGone) }
        guard presenter == nil || presenter?.isStandby == true && !next.isStandby else { return }
        runner.run.client = next.client
        services.log.info("picker taken over", metadata: ["picker": "\(runner.run.id)", "client": "\(next.client)"])
        services.publisher.publish(.pickerAssigned(from: former, to: next.client))
    }

    // MARK: Requests of apps

    func show(
        _ session: Session, items: [DisplayItem], settings: PickerSettings, accepted: (PickerRun) -> Void
    ) throws(SetupError) {
        let request = "ShowPicker"
        guard session.state == .active else { throw session.wrongState(request) }
        guard !items.isEmpty else { return try showExtension(session, settings, accepted) }
        for (index, item) in items.enumerated() { try requests.check(item, session, at: "items[\(index)]") }
        let client = try programForNewRun(session, request)
        try requests.needRadios(items.map(\.descriptor), request)
        let migrations = try requests.migrations(in: items, session.app.id)
        let found = items.filter { $0.migration == nil }
        let purpose: SetupMachine.Purpose =
            found.isEmpty
            ? .migration(migrations.targets.map(\.offer))
            : .discovery(
                isBounded: settings.discoveryTimeout != nil, migrates: !migrations.targets.isEmpty || !migrations.refused.isEmpty)
        open(
            PickerRun(
                id: nextID(), session: session, request: found.isEmpty ? .migration : .discovery, purpose: purpose, items: found,
                migrations: migrations, settings: settings, client: client, nearness: services.nearness),
            accepted)
    }

    /// A picker for the accessories that the app's extension finds.
    private func showExtension(
        _ session: Session, _ settings: PickerSettings, _ accepted: (PickerRun) -> Void
    ) throws(SetupError) {
        let request = "ShowPicker"
        guard let manifest = services.registry.manifests[session.app.id], manifest.discoveryExtension != nil else {
            throw SetupError(
                .extensionNotFound, "\(request): items is empty, and \(session.app.source) has no Extension=")
        }
        guard !settings.options.contains(.filterDiscoveryResults) else {
            throw SetupError(.invalidRequest, "settings.options: filterDiscoveryResults: needs items")
        }
        // Before the picker program, for which the request may wait.
        try services.extensions.check(manifest)
        let client = try programForNewRun(session, request)
        let link = try services.extensions.connect(manifest)
        let reported = ReportedItems(manifest)
        open(
            PickerRun(
                id: nextID(), session: session, request: .discovery,
                purpose: .discovery(isBounded: settings.discoveryTimeout != nil, migrates: false), items: reported.declared,
                settings: settings, reported: reported, client: client, nearness: services.nearness),
            accepted, link)
    }

    func update(_ session: Session, items: [DiscoveredItem]) throws(SetupError) {
        let runner = try discovery(of: session, "UpdatePicker")
        guard runner.run.settings.options.contains(.filterDiscoveryResults) else {
            throw SetupError(.invalidRequest, "UpdatePicker: the picker was shown without filterDiscoveryResults")
        }
        guard !items.isEmpty else { throw SetupError(.invalidRequest, "items: is empty") }
        try runner.run.show(items)
        runner.refreshOffers()
    }

    func finishDiscovery(_ session: Session, accepted: () -> Void) throws(SetupError) {
        let runner = try discovery(of: session, "FinishPickerDiscovery")
        accepted()
        runner.feed(.discoveryFinished)
    }

    func callOff(_ session: Session, accepted: () -> Void) throws(SetupError) {
        guard session.state == .active else { throw session.wrongState("CancelPicker") }
        guard let runner, runner.run.session === session else {
            throw SetupError(.invalidRequest, "CancelPicker: this session is not showing a picker")
        }
        try runner.callOff(accepted: accepted)
    }

    func renameAccessory(
        _ session: Session, _ id: AccessoryID, options: RenameOptions, accepted: (PickerRun) -> Void
    ) throws(SetupError) {
        let request = "RenameAccessory"
        let offer = try requests.renaming(id, of: session, options, request)
        let client = try programForNewRun(session, request)
        open(
            PickerRun(
                id: nextID(), session: session, request: .rename(id), purpose: .rename(id, offer), client: client,
                nearness: services.nearness),
            accepted)
    }

    func renewAccess(
        _ session: Session, _ id: AccessoryID, options: RenewalOptions, accepted: (PickerRun) -> Void
    ) throws(SetupError) {
        let request = "RenewAccess"
        let offer = try requests.renewal(of: id, for: session, request)
        let rules = options.end.map { [$0] } ?? services.registry.ledger.grant(of: id, to: session.app.id)?.terms.time.rules ?? []
        _ = try services.time.limit(rules)
        let client = try programForNewRun(session, request)
        open(
            PickerRun(
                id: nextID(), session: session, request: .renewal(id, rules, choices: options.endChoices),
                purpose: .renewal(id, offer), client: client, nearness: services.nearness),
            accepted)
    }

    func updateAuthorization(
        _ session: Session, _ id: AccessoryID, descriptor: DiscoveryDescriptor, accepted: (PickerRun) -> Void
    ) throws(SetupError) {
        let request = "UpdateAuthorization"
        let accessory = try requests.updating(id, of: session, to: descriptor, request)
        let client = try programForNewRun(session, request)
        try requests.needRadios([descriptor], request)
        let settings = PickerSettings()
        open(
            PickerRun(
                id: nextID(), session: session, request: .authorization(id),
                purpose: .authorization(isBounded: settings.discoveryTimeout != nil),
                items: [DisplayItem(name: accessory.displayName, image: accessory.image, descriptor: descriptor)],
                settings: settings, client: client, nearness: services.nearness),
            accepted)
        runner?.refreshOffers()
    }

    /// The picker program for a new run (rule 7).
    private func programForNewRun(_ session: Session, _ request: String) throws(SetupError) -> ClientID {
        let isMuted = services.mutedApps.all[session.app.id] != nil
        let unattended = services.registry.unattended(for: session.app.id)
        let isApproved = request == "ShowPicker" && unattended.mayApprove
        if isMuted, !isApproved {
            throw SetupError(.userRestricted, "\(request): a person chose not to be asked by \(session.app.id)")
        }
        if let run {
            throw SetupError(
                .pickerAlreadyActive,
                run.session === session
                    ? "\(request): this session is already showing a picker" : "\(request): another app is showing a picker")
        }
        let policy = services.registry.policy
        if let refusal = policy.refusal(of: session.app.id) { throw SetupError(.userRestricted, "\(request): \(refusal)") }
        if !isMuted, let program = programs.all.first {
            if let reason = pauses.reasonToWait(session, request, now: services.clock.uptime) { throw reason }
            return program.client
        }
        if isApproved { return .policy }
        throw SetupError(
            .pickerRestricted,
            "\(request): no picker program is registered (accessoryctl picker is one)"
                + (unattended.obstacle.map { "; \($0)" } ?? ""))
    }

    private func discovery(of session: Session, _ request: String) throws(SetupError) -> PickerRunner {
        guard session.state == .active else { throw session.wrongState(request) }
        guard let runner, runner.run.session === session, runner.run.request == .discovery else {
            throw SetupError(.invalidRequest, "\(request): this session is not showing a picker that discovers accessories")
        }
        return runner
    }

    private func nextID() -> Int {
        runCount += 1
        return runCount
    }

    private func open(_ run: PickerRun, _ accepted: (PickerRun) -> Void, _ link: (any ExtensionLink)? = nil) {
        let runner = PickerRunner(run, services, programs, link) { [weak self] in
            guard let self else { return }
            self.runner = nil
            self.pauses.record(run, now: self.services.clock.uptime)
        }
        self.runner = runner
        runner.begin(accepted: accepted)
        // Published once it is complete, with its offers and its deadline; a run that has ended by then is not.
        if self.runner === runner { services.publisher.publish(.pickerOpened(run)) }
        programs.publish()
    }

    // MARK: Answers of the person

    func pick(_ run: PickerRun, offer: String, _ choice: PickChoice) throws(SetupError) { try running(run).pick(offer, choice) }
    func respond(_ run: PickerRun, answer: PromptAnswer) throws(SetupError) { try running(run).ask(.answered(answer)) }
    func cancel(_ run: PickerRun) throws(SetupError) { try running(run).ask(.cancelled) }
    func mute(_ run: PickerRun) throws(SetupError) { try running(run).mute() }

    func rename(_ run: PickerRun, to name: String) throws(SetupError) {
        if run.renamesNetwork, SSID(name) == nil { throw .invalid("name", name, "a network name must be 1 to 32 bytes long") }
        try running(run).ask(.named(name))
    }

    private func running(_ run: PickerRun) throws(SetupError) -> PickerRunner {
        guard let runner, runner.run === run else { throw SetupMachine.Refusal.finished.asSetupError }
        return runner
    }

    // MARK: Events

    /// The picker that waits for this app's confirmation of this accessory; nil when none does. Another app's picker
    /// may wait for the same accessory.
    ///
    /// - Throws: `InvalidRequest` while the person is asked about an earlier confirmation.
    func awaitedConfirmation(of id: AccessoryID, by app: AppID) throws(SetupError) -> AccessChanges.Continuation? {
        guard let runner, runner.run.session.app.id == app else { return nil }
        if case .consenting(let authorization, _) = runner.run.machine.state, authorization.accessory == id {
            throw .invalid("accessory", id, "the person is being asked about its network")
        }
        guard runner.run.machine.awaitedAuthorization == id else { return nil }
        return { settings, requester, bridges, unseen in
            runner.confirm(settings, requester, bridges: bridges, unseen: unseen)
        }
    }

    /// An app's session ends. Pairing is cancelled first and ends after the session, so the app gets its last event
    /// now.
    func sessionEnds(_ session: Session) {
        guard let runner, runner.run.session === session else { return }
        runner.feed(.appGone)
        if self.runner === runner { runner.publish(.pickerDidDismiss(SetupError(.invalidated, "the session was invalidated"))) }
    }
}

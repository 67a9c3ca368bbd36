// SPDX-License-Identifier: Apache-2.0
// Performs one picker run: feeds its machine with events, one after the other, and performs the effects. Searches,
// timers and the pairing end with it.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class PickerRunner {
    /// A pick, or the consent to a migration.
    private struct Picked {
        /// Nil for a migration without one.
        var offer: Offer?
        var requester: Requester
        var choice = PickChoice()
        /// The entry of a claim list by which it was picked.
        var attempt: ClaimAttempt?
        /// The bond whose removal the pairing waits for.
        var awaitedRemoval: BondIntent?
    }

    let run: PickerRun
    let services: EngineServices
    private let programs: PickerRegistry
    private let onEnd: () -> Void
    private let queue = EventQueue<SetupMachine.Event>()
    private lazy var search = RunSearch(run, services) { [weak self] in self?.refreshOffers() }
    private var deadlineTimer: (any EngineTimer)?
    private let link: RunExtension
    private var trail: RunTrail
    /// The pick, or the consent to a migration, until the search goes on.
    private var picked: Picked?
    /// The app's last confirmation.
    private var confirmation: (settings: AuthorizationSettings, requester: Requester)?
    /// The requester of the end of the run, where that is the app; else the person.
    private var cancelledBy: Requester?

    /// - Parameters:
    ///   - link: to the app's extension; nil for a run without one.
    ///   - onEnd: called when the run has ended, and gives up the runner.
    init(
        _ run: PickerRun, _ services: EngineServices, _ programs: PickerRegistry, _ link: (any ExtensionLink)?,
        onEnd: @escaping () -> Void
    ) {
        self.run = run
        self.link = RunExtension(link, services.clock)
        trail = RunTrail(services.audit, run.session.app.id)
        self.services = services
        self.programs = programs
        self.onEnd = onEnd
    }

    /// - Parameter accepted: called before the first event.
    func begin(accepted: (PickerRun) -> Void) {
        let app = run.session.app.id
        let presenter = run.client == .policy ? "no one (approved by policy)" : describe(run.client)
        services.audit.record(
            .pickerShown, app: app, by: services.sessions.requester(run.session),
            why: "\(run.request.kind), picker \(run.id), shown by \(presenter)")
        services.log.info(
            "picker accepted",
            metadata: ["picker": "\(run.id)", "app": "\(app)", "kind": "\(run.request.kind)", "items": "\(run.items.count)"])
        accepted(run)
        if run.lacksEvidence { search.verify() }
        feed(.begin)
    }

    // MARK: The person and the app

    private var person: Requester { .person(describe(run.client), user: programs[run.client]?.uid) }

    /// A picker program, with its user's name.
    private func describe(_ client: ClientID) -> String {
        let user = programs[client]?.user ?? ""
        return services.sessions.describe(client) + (user.isEmpty ? "" : ", user \(user)")
    }

    func pick(_ id: String, _ choice: PickChoice) throws(SetupError) {
        let offer = run.presentation.offers.first { $0.id == id }
        if let offer { try run.terms(of: offer, services.registry.ledger, services.registry.policy).check(choice) }
        try ask(.picked(id)) {
            let isUnattended = programs[run.client]?.isUnattended == true
            record(pick: offer, by: person, choice, why: isUnattended ? "picked by a script" : "picked by the person")
        }
    }

    func callOff(accepted: () -> Void) throws(SetupError) {
        try ask(.calledOff) {
            cancelledBy = services.sessions.requester(run.session)
            accepted()
        }
    }

    /// The app has confirmed the accessory that the run waits for.
    func confirm(_ settings: AuthorizationSettings, _ requester: Requester, bridges: Bool, unseen: SSID?) {
        confirmation = (settings, requester)
        feed(.authorizationFinished(bridges: bridges, unseen: unseen))
    }

    /// The person cancels, and does not want to be asked by the app again.
    func mute() throws(SetupError) {
        try check(.cancelled)
        try services.mutedApps.mute(run.session.app.id, by: person)
        feed(.cancelled)
    }

    /// - Throws: the refusal of the event; nothing has changed then.
    func ask(_ event: SetupMachine.Event, accepted: () -> Void = {}) throws(SetupError) {
        try check(event)
        accepted()
        feed(event)
    }

    private func check(_ event: SetupMachine.Event) throws(SetupError) {
        var trial = run.machine
        do {
            _ = try trial.handle(event)
        } catch {
            throw error.asSetupError
        }
    }

    private func record(
        pick offer: Offer?, by requester: Requester, _ choice: PickChoice = PickChoice(), attempt: ClaimAttempt? = nil, why: String
    ) {
        picked = Picked(offer: offer, requester: requester, choice: choice, attempt: attempt)
        services.audit.record(
            .picked, app: run.session.app.id, accessory: offer?.shared ?? offer?.identifier, by: requester, why: why)
    }

    // MARK: The air

    func heard(_ changes: [HeardDevice]) {
        run.hear(changes)
        guard run.machine.needsScan else { return }
        let ledger = services.registry.ledger
        let recalled = changes.map { HeardDevice(address: $0.address, rssi: $0.rssi, content: $0.content.map(ledger.recalling)) }
        if run.inRange.hear(recalled, now: services.clock.uptime) { refreshOffers() }
    }

    func heard(_ networks: [WiFiNetwork]) {
        if run.machine.needsScan, run.inRange.hear(networks) { refreshOffers() }
    }

    func heard(_ aware: [AwareService]) {
        if run.machine.needsScan, run.inRange.hear(aware) { refreshOffers() }
    }

    func deviceDropped(_ address: BluetoothAddress) { run.inRange.dropDevice(address, now: services.clock.uptime) }

    /// A radio is of no use any more. The run continues while something it looks for can still be found.
    func radioLost(_ technology: Technology, _ reason: String, _ requests: PickerRequests) {
        let machine = run.machine
        let findsMore =
            machine.needsScan && !machine.isPairing && run.reported != nil
            || machine.needsScan && !machine.isPairing
                && run.items.contains {
                    !$0.descriptor.technologies.contains(technology) && requests.obstacle(to: $0.descriptor) == nil
                }
        switch technology {
        case .bluetooth:
            guard findsMore else { return feed(.radioLost(reason)) }
            if run.inRange.dropDevices() { refreshOffers() }
        case .wifi where machine.needsScan:
            guard findsMore || machine.isPairing else { return feed(.radioLost(reason)) }
            if run.inRange.dropNetworks() { refreshOffers() }
        case .wifi: break
        }
    }

    // MARK: The app's extension

    private func reported(_ report: ExtensionReport) {
        if case .ended(let error) = report { return endExtension(error) }
        do throws(SetupError) {
            try run.take(report, now: services.clock.uptime)
        } catch {
            return endExtension(error)
        }
        if run.machine.needsScan { search.update() }
        refreshOffers()
    }

    private func endExtension(_ error: SetupError) {
        guard link.stop() else { return }
        services.log.warning("extension ended", metadata: ["picker": "\(run.id)", "reason": "\(error.message)"])
        services.audit.record(.refused, app: run.session.app.id, by: .daemon, why: error.message)
        feed(.extensionEnded(error))
    }

    // MARK: Offers

    /// Makes the offers anew, after something that they depend on has changed, and discloses new matches to an app that
    /// filters.
    func refreshOffers() {
        guard run.machine.needsScan else { return }
        if run.hasUndisclosed { search.discloseSoon { [weak self] in self?.publishDiscoveries() } }
        let unattended = run.client == .policy ? services.registry.unattended(for: run.session.app.id) : nil
        let offers = run.list(services.registry.ledger, services.registry.policy, unattended).offers()
        switch run.machine.state {
        case .discovering(let discovery) where discovery.offers == offers: return
        case .pairing(let pairing) where pairing.offers == offers: return
        default: feed(.offersChanged(offers))
        }
    }

    /// Rules or claim lists have changed.
    func policyChanged() {
        refreshOffers()
        // The terms of an offer are the rules', too.
        services.publisher.publish(.pickerChanged(run))
        if run.client == .policy { answerByPolicy() }
    }

    /// Grants or accessories have changed: the subject of the run may just have been taken away.
    func accessChanged() {
        refreshOffers()
        guard let id = run.subject else { return }
        let grant = services.registry.ledger.grant(of: id, to: run.session.app.id)
        // A grant that waits for a confirmation may also be switched off, or lose its bond.
        let isGone = grant.map { run.machine.isConfirmed && (!$0.isEnabled || $0.state == .unauthorized) } ?? true
        if isGone { return feed(.accessoryGone) }
        // The same offers may stand for other terms now.
        if case .authorization = run.request { services.publisher.publish(.pickerChanged(run)) }
    }

    // MARK: The machine

    func feed(_ event: SetupMachine.Event) {
        queue.add(event) { event in
            let before = run.presentation
            do {
                let effects = try run.machine.handle(event)
                if run.presentation.stage != before.stage {
                    services.log.info(
                        "picker \(before.stage.rawValue) → \(run.presentation.stage.rawValue)",
                        metadata: ["picker": "\(run.id)", "reason": "\(event.reason)"])
                }
                // First the stage, then the app's event about it.
                if run.presentation != before { services.publisher.publish(.pickerChanged(run)) }
                trail.record(run.presentation.offers)
                for effect in effects { perform(effect) }
                if run.client == .policy, run.presentation != before { answerByPolicy() }
            } catch {
                services.log.debug(
                    "event refused", metadata: ["picker": "\(run.id)", "event": "\(event.reason)", "why": "\(error)"])
            }
        }
    }

    /// Answers as the policy does, where no person is.
    private func answerByPolicy() {
        switch PolicyAnswer(to: run, services.registry, pick: picked?.offer, entry: picked?.attempt?.listing.entry) {
        case nil: break
        case .wait(let reasons): trail.record(reasons: reasons)
        case .respond(let answer):
            picked?.attempt?.isAnswered = true
            feed(.answered(answer))
        case .cancel: feed(.cancelled)
        case .migrate(let rule):
            picked = Picked(offer: picked?.offer, requester: rule)
            feed(.answered(.accept))
        case .pick(let offer, let verdict):
            var attempt: ClaimAttempt?
            if case .listed(let listing) = verdict { attempt = ClaimAttempt(listing: listing) }
            record(
                pick: offer, by: verdict.requester, attempt: attempt,
                why: offer.kind == nil
                    ? "approved without a person, at \(offer.rssi.map { "\($0) dBm" } ?? "an unknown distance")"
                    : "a kind, approved without a person")
            feed(.picked(offer.id))
        case .name(let name): feed(.named(name))
        }
    }

    private func perform(_ effect: SetupMachine.Effect) {
        let writer = SetupWriter(services: services, run: run)
        switch effect {
        case .startScan:
            forgetPick()
            search.start()
            link.start(run.settings) { [weak self] in self?.reported($0) }
            refreshOffers()
        case .stopScan:
            search.stop()
            link.stop()
        case .startDeadline: startDeadline()
        case .stopDeadline:
            run.deadline = nil
            deadlineTimer?.cancel()
            services.publisher.publish(.pickerDeadlineChanged)
        case .pair(let offer):
            link.stop()
            pair(offer)
        case .answer(let answer): services.radio.answer(answer)
        case .cancelPairing: cancelPairing()
        case .removeBond(let identity): services.bonds.removeOrphan(identity, after: services.bonds.endPairing())
        case .store(let offer, let identity, let name):
            feed(
                writer.store(
                    offer, identity, name, picked?.choice ?? PickChoice(), by: picked?.requester ?? .daemon, picked?.attempt))
        case .authorize(let id, let bridges): authorize(id, bridges)
        case .rename(let id, let name): feed(writer.rename(id, name, by: person))
        case .renew(let id): feed(writer.renew(id, picked?.choice ?? PickChoice(), by: picked?.requester ?? person))
        case .remove(let id): writer.revokeFailed(id, by: cancelledBy ?? person)
        case .migrate:
            search.stopVerifying()
            for target in run.migrations.targets { writer.migrate(target, by: picked?.requester ?? person) }
            for failure in run.migrations.refused { writer.report(.failure(failure)) }
            feed(.migrated)
        case .emit(let event): publish(event)
        case .end:
            deadlineTimer?.cancel()
            search.end()
            forgetPick()
            link.stop()
            _ = services.bonds.endPairing()
            onEnd()
            services.publisher.publish(.pickerClosed(run))
            programs.publish()
        }
    }

    /// An entry that was tried comes last from now on, unless its accessory was set up.
    private func forgetPick() {
        if let attempt = picked?.attempt { services.registry.endAttempt(at: attempt.listing.key) }
        picked = nil
    }

    private func startDeadline() {
        guard let seconds = run.settings.discoveryTimeout else { return }
        run.deadline = services.clock.wallTime + seconds
        services.publisher.publish(.pickerDeadlineChanged)
        deadlineTimer = services.clock.after(seconds) { [weak self] in self?.feed(.deadline) }
    }

    private func authorize(_ id: AccessoryID, _ bridges: Bool) {
        guard let granted = services.registry.ledger.granted(id, to: run.session.app.id), let (settings, requester) = confirmation
        else { return feed(.accessoryGone) }
        services.access.confirm(granted, settings, bridges: bridges, by: requester) { [weak self] failure in
            self?.feed(failure.map { .authorizationFailed($0) } ?? .authorized)
        }
    }

    // MARK: Pairing

    private func pair(_ offer: Offer) {
        do throws(SetupError) {
            guard let device = offer.device else {
                throw SetupError(.connectionFailed, "\(offer.name) is not present over Bluetooth")
            }
            if let peer = offer.peer, let old = services.bonds.intent(with: peer) { return try pair(offer, after: old) }
            // A bond that exists now, whenever this was offered, is not ours to undo.
            if let peer = offer.peer, services.radio.bond(with: peer) == nil { try services.bonds.beginPairing(offer, with: peer) }
            services.radio.pair(device, support: offer.support)
        } catch {
            feed(.pairingFailed(error))
        }
    }

    /// Pairs once an earlier bond is gone, whose removal would remove the new one too.
    private func pair(_ offer: Offer, after old: BondIntent) throws(SetupError) {
        let failure = SetupError(.connectionFailed, "an earlier pairing with it is being removed: try again in a moment")
        // Bridging ends by itself.
        guard !services.access.isBridging, picked?.awaitedRemoval == nil else { throw failure }
        picked?.awaitedRemoval = old
        services.bonds.removeBond(of: old) { [weak self] in
            guard let self, self.picked?.awaitedRemoval == old else { return }
            self.picked?.awaitedRemoval = nil
            guard self.services.bonds.intent(with: old.peer) == nil else { return self.feed(.pairingFailed(failure)) }
            self.pair(offer)
        }
    }

    private func cancelPairing() {
        guard picked?.awaitedRemoval != nil else { return services.radio.cancelPairing() }
        picked?.awaitedRemoval = nil
        feed(.pairingFailed(SetupError(.connectionFailed, "cancelled")))
    }

    func pairingEnded(_ result: Result<PairedIdentity, RadioFailure>) {
        let bonds = services.bonds
        switch result {
        case .success(let identity):
            services.log.info("paired", metadata: ["picker": "\(run.id)"])
            services.audit.record(
                identity.wasPairedBefore ? .adopted : .paired, app: run.session.app.id, accessory: picked?.offer?.identifier,
                by: picked?.requester ?? .daemon,
                why: identity.wasPairedBefore ? "another program has paired it, picker \(run.id)" : "for picker \(run.id)")
            // Another program was faster: the bond is not ours to undo.
            if identity.wasPairedBefore, let intent = bonds.endPairing() { bonds.delete(intent) }
            feed(.paired(identity))
        case .failure(let failure):
            services.log.warning("pairing failed", metadata: ["picker": "\(run.id)", "reason": "\(failure)"])
            let intent = bonds.endPairing()
            feed(.pairingFailed(SetupError(.connectionFailed, failure.message)))
            guard let intent else { return }
            switch failure.reason {
            // The radio's own answer: there is no bond, or none of ours.
            case .refused, .connection, .busy: bonds.delete(intent)
            // A bond may have been made.
            case .unavailable, .timeout, .cancelled, .other: bonds.removeBond(of: intent) {}
            }
        }
    }

    // MARK: Events for the app

    /// Publishes an event in the run's session, while that is active. An accessory that was added is published in the
    /// app's other sessions too.
    func publish(_ event: SetupMachine.AppEvent) {
        let session = run.session
        guard session.state == .active else { return }
        var out: SessionEvent
        switch event {
        case .pickerDidPresent: out = SessionEvent(.pickerDidPresent)
        case .pickerSetupPairing: out = SessionEvent(.pickerSetupPairing)
        case .pickerSetupBridging: out = SessionEvent(.pickerSetupBridging)
        case .pickerSetupRename: out = SessionEvent(.pickerSetupRename)
        case .pickerSetupFailed(let error): out = SessionEvent(.pickerSetupFailed, error: error)
        case .accessoryAdded(let id):
            out = SessionEvent(.accessoryAdded, accessory: services.registry.ledger.granted(id, to: session.app.id))
        case .pickerDidDismiss(let error): out = SessionEvent(.pickerDidDismiss, error: error)
        }
        out.picker = run.id
        services.publisher.publish(.event(out, in: session))
        guard case .accessoryAdded = event else { return }
        out.picker = nil
        services.sessions.publish(out, to: session.app.id, except: session)
    }

    /// Publishes new discoveries to an app that filters (rule 9).
    private func publishDiscoveries() {
        guard run.session.state == .active else { return }
        for discovery in run.discoveries(services.registry.ledger, services.registry.policy) {
            var event = SessionEvent(.accessoryDiscovered, picker: run.id)
            event.discovered = discovery
            services.publisher.publish(.event(event, in: run.session))
        }
    }
}

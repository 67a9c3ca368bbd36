// SPDX-License-Identifier: Apache-2.0
// The picker that runs, of which there is one at most, as there is one person (rule 7). The person's answers and
// everything else that happens go into its machine, one after the other, and what the machine says is done.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class Pickers {
    /// Things an admin can set.
    typealias Configuration = AccessoryEngine.Configuration

    private let book: Book
    private let bonds: BondKeeper
    private let access: AccessChanges
    private let radio: any Radio
    private let networks: any NetworkRadio
    private let sessions: Sessions
    private let news: News
    private let audit: AuditWriter
    private let clock: any EngineClock
    private let configuration: Configuration
    private let log: Logger
    private let requests: PickerRequests
    private let writer: SetupWriter
    private let teller: AppTeller

    private var current: CurrentRun?
    private lazy var registry = PickerRegistry(
        news, clock, log,
        // A rule of the policy is no program.
        shower: { [weak self] in self?.run.flatMap { $0.client == .policy ? nil : $0.client } },
        onGone: { [weak self] in self?.programIsGone($0) })
    private var made = 0
    private var events: [SetupMachine.Event] = []
    private var isFeeding = false

    init(
        _ book: Book, _ bonds: BondKeeper, _ access: AccessChanges, _ radio: any Radio, _ networks: any NetworkRadio,
        _ sessions: Sessions, _ news: News, _ audit: AuditWriter, _ clock: any EngineClock, _ configuration: Configuration,
        _ log: Logger
    ) {
        self.book = book
        self.bonds = bonds
        self.access = access
        self.radio = radio
        self.networks = networks
        self.sessions = sessions
        self.news = news
        self.audit = audit
        self.clock = clock
        self.configuration = configuration
        self.log = log
        requests = PickerRequests(book: book, radio: radio, networks: networks)
        writer = SetupWriter(
            book: book, bonds: bonds, access: access, radio: radio, sessions: sessions, news: news, clock: clock, log: log)
        teller = AppTeller(book: book, sessions: sessions, news: news)
        access.whenChanged { [weak self] in self?.accessChanged() }
    }

    var run: PickerRun? { current?.run }
    /// What the pairing that runs has noted: it is not for anybody else to clean up.
    var intent: BondIntent? { current?.intent }

    // MARK: Picker programs

    var programs: [PickerProgram] { registry.all }

    /// See `PickerRegistry.register`.
    func register(
        _ client: ClientID, label: String?, lease: Double?, isUnattended: Bool?, user: @autoclosure () -> String
    ) throws(SetupError) {
        try registry.register(client, label: label, lease: lease, isUnattended: isUnattended, user: user())
    }

    func unregister(_ client: ClientID) { registry.unregister(client) }

    /// The next program goes on with the picker of one that is gone.
    private func programIsGone(_ client: ClientID) {
        guard let run, run.client == client else { return }
        guard let next = registry.first else { return feed(.pickerGone) }
        run.assign(to: next)
        log.info("picker taken over", metadata: ["picker": "\(run.id)", "client": "\(next)"])
        news.tell(.pickerAssigned(run, to: next))
    }

    // MARK: What apps ask for

    /// A picker that finds accessories, takes known ones over, or both.
    func show(
        _ session: Session, items: [DisplayItem], settings: PickerSettings, accepted: (PickerRun) -> Void
    ) throws(SetupError) {
        let request = "ShowPicker"
        guard session.state == .active else { throw session.wrongState(request) }
        guard !items.isEmpty else { throw SetupError(.invalidRequest, "items: is empty") }
        for (index, item) in items.enumerated() { try requests.check(item.descriptor, session, at: "items[\(index)].descriptor") }
        let client = try programForNewRun(session, request)
        try requests.needRadios(items.map(\.descriptor), request)
        let (targets, refused) = try requests.migrations(in: items, session.app.id)
        let found = items.filter { $0.migration == nil }
        let purpose: SetupMachine.Purpose =
            found.isEmpty
            ? .migration(targets.map(\.offer))
            : .discovery(isBounded: settings.discoveryTimeout != nil, migrates: !targets.isEmpty || !refused.isEmpty)
        open(
            PickerRun(
                id: nextID(), session: session, request: found.isEmpty ? .migration : .discovery, purpose: purpose, items: found,
                migrations: targets, refusedMigrations: refused, settings: settings, client: client,
                nearness: configuration.nearness),
            accepted)
    }

    /// Shows accessories that the app has looked at (rule 9).
    func update(_ session: Session, items: [DiscoveredItem]) throws(SetupError) {
        let run = try discoveryRun(of: session, "UpdatePicker")
        guard run.settings.filtersDiscoveryResults else {
            throw SetupError(.invalidRequest, "UpdatePicker: the picker was shown without filterDiscoveryResults")
        }
        guard !items.isEmpty else { throw SetupError(.invalidRequest, "items: is empty") }
        try run.show(items)
        refreshOffers()
    }

    /// Ends a discovery that has offered nothing (rule 8).
    func finishDiscovery(_ session: Session, accepted: () -> Void) throws(SetupError) {
        _ = try discoveryRun(of: session, "FinishPickerDiscovery")
        accepted()
        feed(.discoveryFinished)
    }

    /// The app calls its own picker off: it ends as if the person had cancelled.
    func callOff(_ session: Session, accepted: () -> Void) throws(SetupError) {
        guard session.state == .active else { throw session.wrongState("CancelPicker") }
        guard let current, current.run.session === session else {
            throw SetupError(.invalidRequest, "CancelPicker: this session shows no picker")
        }
        try ask(current.run, .calledOff) {
            current.isCalledOff = true
            accepted()
        }
    }

    /// Has the person rename an accessory of the app's.
    func renameAccessory(
        _ session: Session, _ id: AccessoryID, options: RenameOptions, accepted: (PickerRun) -> Void
    ) throws(SetupError) {
        let request = "RenameAccessory"
        let offer = try requests.renaming(id, of: session, options, request)
        let client = try programForNewRun(session, request)
        open(
            PickerRun(
                id: nextID(), session: session, request: .rename(id), purpose: .rename(id, offer), client: client,
                renamesNetwork: offer.network != nil, nearness: configuration.nearness),
            accepted)
    }

    /// Has the person give an accessory of the app's what a new descriptor asks for.
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
                settings: settings, client: client, nearness: configuration.nearness),
            accepted)
        refreshOffers()
    }

    /// The picker program for a new run (rule 7).
    private func programForNewRun(_ session: Session, _ request: String) throws(SetupError) -> ClientID {
        if let run {
            throw SetupError(
                .pickerAlreadyActive,
                run.session === session
                    ? "\(request): this session shows a picker already" : "\(request): another app shows a picker")
        }
        if let refusal = book.policy.refusal(of: session.app.id) { throw SetupError(.userRestricted, "\(request): \(refusal)") }
        guard let client = registry.first else {
            if request == "ShowPicker", book.policy.approves(session.app.id) { return .policy }
            throw SetupError(.pickerRestricted, "\(request): no picker program is registered (accessoryctl picker is one)")
        }
        return client
    }

    private func discoveryRun(of session: Session, _ request: String) throws(SetupError) -> PickerRun {
        guard session.state == .active else { throw session.wrongState(request) }
        guard let run, run.session === session, run.request == .discovery else {
            throw SetupError(.invalidRequest, "\(request): this session shows no picker that discovers")
        }
        return run
    }

    private func nextID() -> Int {
        made += 1
        return made
    }

    private func open(_ run: PickerRun, _ accepted: (PickerRun) -> Void) {
        current = CurrentRun(run)
        let program = run.client == .policy ? "nobody: the policy approves" : describe(run.client)
        audit.note(
            .pickerShown, app: run.session.app.id, by: sessions.requester(run.session),
            why: "\(run.request.kind), picker \(run.id), shown by \(program)")
        log.info(
            "picker accepted",
            metadata: [
                "picker": "\(run.id)", "app": "\(run.session.app.id)", "kind": "\(run.request.kind)", "items": "\(run.items.count)",
            ])
        accepted(run)
        if run.lacksEvidence { current?.verification = radio.discover() }
        // Told once it is complete, with its offers and its deadline; one that has ended meanwhile was never there.
        feed(.begin)
        if self.run === run { news.tell(.pickerOpened(run)) }
        registry.tell()
    }

    // MARK: What the person says

    func pick(_ run: PickerRun, offer: String) throws(SetupError) {
        let offered = run.presentation.offers.first { $0.id == offer }
        try ask(run, .picked(offer)) { notePick(offered, by: person(at: run), why: howPicked(at: run)) }
    }

    func respond(_ run: PickerRun, answer: PromptAnswer) throws(SetupError) { try ask(run, .answered(answer)) }

    func rename(_ run: PickerRun, to name: String) throws(SetupError) {
        if run.renamesNetwork, SSID(name) == nil { throw .invalid("name", name, "a network's name must have 1 to 32 bytes") }
        try ask(run, .named(name))
    }

    func cancel(_ run: PickerRun) throws(SetupError) { try ask(run, .cancelled) }

    /// Who asks when the person at a picker does.
    private func person(at run: PickerRun) -> Requester { .person(describe(run.client)) }

    /// A picker program, with its user's name.
    private func describe(_ client: ClientID) -> String {
        let user = registry.all.first { $0.client == client }?.user ?? ""
        return sessions.describe(client) + (user.isEmpty ? "" : ", user \(user)")
    }

    private func howPicked(at run: PickerRun) -> String {
        registry.all.first { $0.client == run.client }?.isUnattended == true ? "picked by a script" : "picked by the person"
    }

    private func notePick(_ offer: Offer?, by requester: Requester, why: String) {
        guard let current else { return }
        current.picked = offer
        current.pickedBy = requester
        audit.note(
            .picked, app: current.run.session.app.id, accessory: offer?.shared ?? offer?.identifier, by: requester, why: why)
    }

    private func ask(_ run: PickerRun, _ event: SetupMachine.Event, accepted: () -> Void = {}) throws(SetupError) {
        // Tried on a copy first: a refusal is the caller's error and changes nothing.
        var trial = run.machine
        do {
            _ = try trial.handle(event)
        } catch {
            throw error.asSetupError
        }
        accepted()
        feed(event)
    }

    // MARK: What else happens

    /// Goes on with the picker that waits for this app's confirmation of this accessory; nil when none does. Another
    /// app's picker may wait for the same accessory: this confirmation is not for that.
    ///
    /// - Throws: `InvalidRequest` while the person is asked about an earlier confirmation.
    func awaitedConfirmation(of id: AccessoryID, by app: AppID) throws(SetupError) -> AccessChanges.Continuation? {
        guard let current, current.run.session.app.id == app else { return nil }
        if case .consenting(let authorization, _) = current.run.machine.state, authorization.accessory == id {
            throw .invalid("accessory", id, "the person is being asked about its network")
        }
        guard current.run.machine.awaitedAuthorization == id else { return nil }
        return { [weak self] settings, requester, bridges, unseen in
            current.confirmation = (settings, requester)
            self?.feed(.authorizationFinished(bridges: bridges, unseen: unseen))
        }
    }

    /// An app's session ends. A pairing is called off first, and ends after the session: what the app is to hear of it,
    /// it hears now.
    func sessionEnds(_ session: Session) {
        guard let run, run.session === session else { return }
        feed(.appGone)
        if self.run === run { teller.tell(.pickerDidDismiss(SetupError(.invalidated, "the session was invalidated")), run) }
    }

    /// Grants or accessories have changed: what the run is about may just have been taken away.
    private func accessChanged() {
        refreshOffers()
        guard let run, let id = run.subject else { return }
        let grant = book.ledger.grant(of: id, to: run.session.app.id)
        // What waits for a confirmation may also be switched off, or lose its bond.
        let isGone = grant.map { run.machine.isConfirmed && (!$0.isEnabled || $0.state == .unauthorized) } ?? true
        if isGone { feed(.accessoryGone) }
    }

    /// A radio is of no use any more. A run goes on while something it looks for can still be found.
    func radioLost(_ technology: Technology, _ reason: String) {
        guard let run else { return }
        let goesOn =
            run.machine.needsScan && !run.machine.isPairing
            && run.items.contains {
                !$0.descriptor.technologies.contains(technology) && requests.obstacle(to: $0.descriptor) == nil
            }
        if technology == .bluetooth {
            guard goesOn else { return feed(.radioLost(reason)) }
            if run.inRange.dropDevices() { refreshOffers() }
        } else if run.machine.needsScan {
            guard goesOn || run.machine.isPairing else { return feed(.radioLost(reason)) }
            if run.inRange.dropNetworks() { refreshOffers() }
        }
    }

    func heard(_ changes: [HeardDevice]) {
        let ledger = book.ledger
        run?.hear(changes)
        hear { inRange in
            let recalled = changes.map {
                HeardDevice(address: $0.address, rssi: $0.rssi, content: $0.content.map(ledger.recalling))
            }
            return inRange.hear(recalled, now: clock.uptime)
        }
    }

    func heard(_ networks: [WiFiNetwork]) { hear { $0.hear(networks) } }
    func heard(_ services: [AwareService]) { hear { $0.hear(services) } }
    func deviceDropped(_ address: BluetoothAddress) {
        run?.inRange.dropDevice(address, now: clock.uptime)
    }

    private func hear(_ takeIn: (InRange) -> Bool) {
        guard let run, run.machine.needsScan, takeIn(run.inRange) else { return }
        scheduleDiscoveries()
        refreshOffers()
    }

    func prompted(_ prompt: PairingPrompt) { feed(.prompted(prompt)) }
    func bridgingStarted() { feed(.bridgingStarted) }

    func pairingEnded(_ result: Result<PairedIdentity, RadioFailure>) {
        guard let current else { return }
        let run = current.run
        switch result {
        case .success(let identity):
            log.info("paired", metadata: ["picker": "\(run.id)"])
            audit.note(
                identity.wasPairedBefore ? .adopted : .paired, app: run.session.app.id, accessory: current.picked?.identifier,
                by: current.pickedBy,
                why: identity.wasPairedBefore ? "another program has paired it, picker \(run.id)" : "for picker \(run.id)")
            // Another program was faster: the bond is not ours to undo, whatever comes of this.
            if identity.wasPairedBefore, let intent = current.intent {
                current.intent = nil
                bonds.forget(intent)
            }
            feed(.paired(identity))
        case .failure(let failure):
            log.warning("pairing failed", metadata: ["picker": "\(run.id)", "reason": "\(failure)"])
            let intent = current.intent
            current.intent = nil
            feed(.pairingFailed(SetupError(.connectionFailed, failure.message)))
            guard let intent else { return }
            switch failure.reason {
            // The radio's own answer: there is no bond, or none of ours.
            case .refused, .connection, .busy: bonds.forget(intent)
            // Nobody knows how far it got.
            case .unavailable, .timeout, .cancelled, .other: bonds.removeBond(of: intent) {}
            }
        }
    }

    /// What may be picked is made anew, after something that it depends on has changed.
    func refreshOffers() {
        guard let run, run.machine.needsScan else { return }
        let offers = run.offers(book.ledger, book.policy)
        switch run.machine.state {
        case .discovering(let discovery) where discovery.offers == offers: return
        case .pairing(let pairing) where pairing.offers == offers: return
        default: feed(.offersChanged(offers))
        }
    }

    // MARK: The machine

    /// Feeds an event to the running picker. Events that effects cause are queued, so that every effect list is done in
    /// order.
    private func feed(_ event: SetupMachine.Event) {
        events.append(event)
        guard !isFeeding else { return }
        isFeeding = true
        defer { isFeeding = false }
        while !events.isEmpty {
            let event = events.removeFirst()
            guard let current else { return events.removeAll() }
            let run = current.run
            let before = run.presentation
            do {
                let effects = try run.handle(event)
                if run.presentation.stage != before.stage {
                    log.info(
                        "picker \(before.stage.rawValue) → \(run.presentation.stage.rawValue)",
                        metadata: ["picker": "\(run.id)", "reason": "\(event.reason)"])
                }
                // Shown before it is told: an app's event about a stage must not overtake the stage.
                if run.presentation != before { news.tell(.pickerChanged(run, from: before)) }
                noteOffers(current)
                for effect in effects { perform(effect, current) }
                if run.client == .policy, run.presentation != before { answerForNobody(current) }
            } catch {
                log.debug("event refused", metadata: ["picker": "\(run.id)", "event": "\(event.reason)", "why": "\(error)"])
            }
        }
    }

    /// Every accessory that was offered, once in a run; so many at most, because a stranger may come by a new address
    /// each minute.
    private func noteOffers(_ current: CurrentRun) {
        for offer in current.run.presentation.offers
        where current.noted.count < Limits.discoveredPerPicker && current.noted.insert(offer.id).inserted {
            audit.note(
                .offered, app: current.run.session.app.id, accessory: offer.shared ?? offer.identifier, by: .daemon,
                why: offer.advertisedName)
        }
    }

    /// Answers as the policy does, where no person is.
    private func answerForNobody(_ current: CurrentRun) {
        let isPicked = current.picked != nil || events.contains { if case .picked = $0 { true } else { false } }
        switch PolicyAnswer(to: current.run, book.policy, picked: isPicked, name: current.picked?.name) {
        case nil: break
        case .cancel: events.append(.cancelled)
        case .migrate(let rule):
            current.pickedBy = rule
            events.append(.answered(.accept))
        case .pick(let offer, let rule):
            notePick(
                offer, by: rule,
                why: "approved without a person, at \(offer.rssi.map { "\($0) dBm" } ?? "an unknown distance")")
            events.append(.picked(offer.id))
        case .name(let name): events.append(.named(name))
        }
    }

    private func perform(_ effect: SetupMachine.Effect, _ current: CurrentRun) {
        let run = current.run
        switch effect {
        case .startScan:
            if run.needs(.bluetooth) { current.discovery = radio.discover() }
            if run.needs(.wifi) {
                current.scan = networks.scan(asking: run.hiddenNames, aware: run.items.compactMap(\.descriptor.wifiAware))
            }
            schedulePrune(current)
        case .stopScan:
            current.discovery = nil
            current.scan = nil
            current.pruneTimer?.cancel()
        case .startDeadline: startDeadline(current)
        case .stopDeadline:
            run.setDeadline(nil)
            current.deadlineTimer?.cancel()
            news.tell(.pickerDeadlineChanged(run))
        case .pair(let offer): pair(offer, current)
        case .answer(let answer): radio.answer(answer)
        case .cancelPairing: cancelPairing(current)
        case .removeBond(let identity):
            let intent = current.intent
            current.intent = nil
            bonds.removeOrphan(identity, after: intent)
        case .store(let offer, let identity, let name):
            let event = writer.store(offer, identity, name, run, current.intent, by: current.pickedBy)
            if case .stored = event { current.intent = nil }
            feed(event)
        case .authorize(let id, let bridges): authorize(id, bridges, current)
        case .rename(let id, let name): feed(writer.rename(id, name, run, by: person(at: run)))
        case .remove(let id):
            writer.takeBack(id, run, by: current.isCalledOff ? sessions.requester(run.session) : person(at: run))
        case .migrate:
            let requester = current.pickedBy == .daemon ? person(at: run) : current.pickedBy
            current.verification = nil
            for target in run.migrations { writer.migrate(target, run, by: requester) }
            for failure in run.refusedMigrations { writer.report(.failure(failure), run) }
            feed(.migrated)
        case .emit(let event): teller.tell(event, run)
        case .end:
            current.deadlineTimer?.cancel()
            current.pruneTimer?.cancel()
            current.disclosureTimer?.cancel()
            self.current = nil
            news.tell(.pickerClosed(run))
            registry.tell()
        }
    }

    private func startDeadline(_ current: CurrentRun) {
        guard let seconds = current.run.settings.discoveryTimeout else { return }
        current.run.setDeadline(clock.wallTime + seconds)
        news.tell(.pickerDeadlineChanged(current.run))
        current.deadlineTimer = clock.after(seconds) { [weak self, weak current] in
            guard let self, let current, self.current === current else { return }
            self.feed(.deadline)
        }
    }

    private func pair(_ offer: Offer, _ current: CurrentRun) {
        do throws(SetupError) {
            guard let device = offer.device else {
                throw SetupError(.connectionFailed, "\(offer.name) is not there for Bluetooth")
            }
            if let peer = offer.peer, let old = bonds.intent(with: peer) {
                return try pair(offer, current, after: old)
            }
            // A bond that is there already is not ours to undo, whatever happens: nothing is noted.
            // As it is now: it may have come or gone since this was offered.
            if let peer = offer.peer, radio.bond(with: peer) == nil {
                let intent = bonds.pairingIntent(offer, with: peer)
                try bonds.note(intent)
                current.intent = intent
            }
            radio.pair(device, support: offer.support)
        } catch {
            feed(.pairingFailed(error))
        }
    }

    /// Pairs once an earlier bond is gone, whose removal would take the new one along.
    private func pair(_ offer: Offer, _ current: CurrentRun, after old: BondIntent) throws(SetupError) {
        let failure = SetupError(.connectionFailed, "an earlier pairing with it is being removed: try again in a moment")
        // A bridging ends by itself.
        guard !access.isBridging, current.awaited == nil else { throw failure }
        current.awaited = old
        bonds.removeBond(of: old) { [weak self, weak current] in
            guard let self, let current, self.current === current, current.awaited == old else { return }
            current.awaited = nil
            guard self.bonds.intent(with: old.peer) == nil else { return self.feed(.pairingFailed(failure)) }
            self.pair(offer, current)
        }
    }

    private func cancelPairing(_ current: CurrentRun) {
        guard current.awaited != nil else { return radio.cancelPairing() }
        current.awaited = nil
        feed(.pairingFailed(SetupError(.connectionFailed, "cancelled")))
    }

    private func authorize(_ id: AccessoryID, _ bridges: Bool, _ current: CurrentRun) {
        guard let granted = book.ledger.granted(id, to: current.run.session.app.id),
            let (settings, requester) = current.confirmation
        else { return feed(.accessoryGone) }
        access.confirm(granted, settings, bridges: bridges, by: requester) { [weak self, weak current] failure in
            guard let self, let current, self.current === current else { return }
            self.feed(failure.map { .authorizationFailed($0) } ?? .authorized)
        }
    }

    // MARK: Time

    private func scheduleDiscoveries() {
        guard let current, current.run.hasUndisclosed, current.disclosureTimer == nil else { return }
        current.disclosureTimer = clock.after(Disclosure.delay) { [weak self, weak current] in
            guard let self, let current, self.current === current else { return }
            current.disclosureTimer = nil
            self.teller.tellDiscoveries(of: current.run)
        }
    }

    /// The timer fires at least once within `InRange.grace`, so an offer in doubt needs no timer of its own.
    private func schedulePrune(_ current: CurrentRun) {
        current.pruneTimer?.cancel()
        let now = clock.uptime
        let due = current.run.inRange.nextWithdrawal(after: now).map { $0 - now } ?? InRange.grace
        current.pruneTimer = clock.after(min(due, InRange.grace)) { [weak self, weak current] in
            guard let self, let current, self.current === current else { return }
            if current.run.inRange.prune(now: self.clock.uptime) { self.refreshOffers() }
            self.schedulePrune(current)
        }
    }

    /// Why an accessory like this cannot be found now.
    func obstacle(to descriptor: DiscoveryDescriptor) -> String? { requests.obstacle(to: descriptor) }
}

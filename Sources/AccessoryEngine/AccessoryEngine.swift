// The engine: the one owner of sessions, picker runs and the ledger. It asks the pure decisions (AccessoryCore) and performs what
// they say through its ports. It lives on one thread and is not Sendable, so the compiler keeps it there (Docs/Decisions/0003).

public import AccessoryCore
public import AccessoryModel
public import Logging

public final class AccessoryEngine {
    /// Things an admin can set.
    public struct Configuration: Hashable, Sendable {
        /// What `immediate` means, dBm.
        public var nearness = Matcher.Nearness()
        public init() {}
    }

    public weak var observer: (any EngineObserver)?
    public private(set) var ledger: Ledger
    public private(set) var sessions: [Int: Session] = [:]
    /// At most one: there is one person (rule 7).
    public private(set) var picker: PickerRun?
    /// Registered picker programs, the first of them shows the next picker.
    public private(set) var pickerClients: [ClientID] = []

    private let radio: any Radio
    private let store: any LedgerStore
    private let clock: any EngineClock
    private let configuration: Configuration
    private let log: Logger
    private var sessionsMade = 0
    private var pickersMade = 0
    private var intents: [BondIntent]
    private var cleaning: Set<BondIntent> = []
    private var pendingEvents: [SetupMachine.Event] = []
    private var isFeeding = false

    /// - Throws: what the store throws when it cannot be read.
    public init(
        radio: any Radio, store: any LedgerStore, clock: any EngineClock, configuration: Configuration = Configuration(),
        log: Logger
    ) throws {
        self.radio = radio
        self.store = store
        self.clock = clock
        self.configuration = configuration
        self.log = log
        let stored = try store.load()
        ledger = Ledger(accessories: stored.accessories, grants: stored.grants)
        intents = stored.intents
        for intent in intents {
            log.notice("unfinished business from an earlier run", metadata: ["purpose": "\(intent.purpose.rawValue)"])
            log.debug("unfinished business", metadata: ["address": "\(intent.address)"])
        }
    }

    /// Begins: follows the radio, and finishes what an earlier run left unfinished.
    public func start() {
        radio.observer = self
        radio.start()
        cleanUp()
    }

    public var radioState: RadioState { radio.state }

    /// The radio's name for an accessory, if it knows it now.
    public func device(of accessory: Accessory) -> RadioDeviceID? {
        accessory.address.flatMap { radio.device(for: $0) }
    }

    // MARK: Sessions

    /// A session for an app.
    ///
    /// - Throws: `InvalidRequest` past `Limits.sessionsPerApp`.
    public func createSession(client: ClientID, app: AppManifest) throws(SetupError) -> Session {
        guard sessions.values.count(where: { $0.app.id == app.id }) < Limits.sessionsPerApp else {
            throw .invalid("CreateSession", app.id, "has \(Limits.sessionsPerApp) sessions already")
        }
        sessionsMade += 1
        let session = Session(id: sessionsMade, client: client, app: app)
        sessions[session.id] = session
        log.info("session created", metadata: ["session": "\(session.id)", "app": "\(app.id)"])
        observer?.sessionOpened(session)
        return session
    }

    /// - Parameter accepted: called between the checks and the first event.
    public func activate(_ session: Session, accepted: () -> Void = {}) throws(SetupError) {
        guard session.state == .created else { throw wrongState(session, "Activate") }
        session.state = .active
        accepted()
        log.info("session created → active", metadata: ["session": "\(session.id)", "app": "\(session.app.id)"])
        observer?.sessionChanged(session)
        observer?.event(SessionEvent(.activated), in: session)
    }

    public func invalidate(_ session: Session, reason: String, accepted: () -> Void = {}) {
        guard session.state != .invalidated else { return accepted() }
        log.info(
            "session \(session.state.rawValue) → invalidated",
            metadata: ["session": "\(session.id)", "app": "\(session.app.id)", "reason": "\(reason)"])
        accepted()
        if let picker, picker.session === session {
            feed(.appGone)
            // A pairing is called off first, and ends after the session: what the app is to hear of it, it hears now.
            if self.picker === picker { emit(.pickerDidDismiss(SetupError(.invalidated, "the session was invalidated")), picker) }
        }
        session.state = .invalidated
        observer?.sessionChanged(session)
        observer?.event(SessionEvent(.invalidated), in: session)
        sessions[session.id] = nil
        observer?.sessionClosed(session)
    }

    private func wrongState(_ session: Session, _ request: String) -> SetupError {
        session.state == .invalidated
            ? SetupError(.invalidated, "\(request): the session was invalidated")
            : SetupError(.invalidRequest, "\(request): the session is \(session.state.rawValue)")
    }

    /// A connection is gone: its sessions end, and its picker.
    public func clientGone(_ client: ClientID) {
        for session in sessions.values.sorted(by: { $0.id < $1.id }) where session.client == client {
            invalidate(session, reason: "the app's connection closed")
        }
        unregisterPicker(client)
    }

    // MARK: Pickers

    /// - Throws: `InvalidRequest` past `Limits.pickers`.
    public func registerPicker(_ client: ClientID) throws(SetupError) {
        guard !pickerClients.contains(client) else { return }
        guard pickerClients.count < Limits.pickers else {
            throw .invalid("RegisterPicker", client, "\(Limits.pickers) pickers are registered already")
        }
        pickerClients.append(client)
        log.info("picker registered", metadata: ["client": "\(client)"])
        if pickerClients.count == 1 { observer?.pickerAvailabilityChanged() }
    }

    public func unregisterPicker(_ client: ClientID) {
        guard let index = pickerClients.firstIndex(of: client) else { return }
        pickerClients.remove(at: index)
        log.info("picker unregistered", metadata: ["client": "\(client)"])
        if let picker, picker.client == client {
            if let next = pickerClients.first {
                picker.client = next
                log.info("picker taken over", metadata: ["picker": "\(picker.id)", "client": "\(next)"])
                observer?.pickerAssigned(picker, to: next)
            } else {
                feed(.pickerGone)
            }
        }
        if pickerClients.isEmpty { observer?.pickerAvailabilityChanged() }
    }

    /// Asks for a picker. What can be refused is refused before anything changes.
    ///
    /// - Parameter accepted: called with the run between the checks and the first event.
    public func showPicker(
        _ session: Session, items: [DisplayItem], settings: PickerSettings, accepted: (PickerRun) -> Void = { _ in }
    ) throws(SetupError) {
        guard session.state == .active else { throw wrongState(session, "ShowPicker") }
        guard !items.isEmpty else { throw SetupError(.invalidRequest, "items: is empty") }
        for item in items {
            try DescriptorRules.check(item.descriptor)
            try DescriptorRules.check(item.descriptor, declaredBy: session.app)
        }
        if let picker {
            throw SetupError(
                .pickerAlreadyActive,
                picker.session === session
                    ? "ShowPicker: this session shows a picker already" : "ShowPicker: another app shows a picker")
        }
        guard let client = pickerClients.first else {
            throw SetupError(.pickerRestricted, "ShowPicker: no picker program is registered (accessoryctl picker is one)")
        }
        guard radio.state == .ready else {
            throw SetupError(
                .pickerRestricted,
                radio.state == .off ? "ShowPicker: Bluetooth is off" : "ShowPicker: there is no Bluetooth adapter or service")
        }
        pickersMade += 1
        let run = PickerRun(
            id: pickersMade, session: session, items: items, settings: settings, client: client, nearness: configuration.nearness)
        picker = run
        log.info(
            "picker accepted", metadata: ["picker": "\(run.id)", "app": "\(session.app.id)", "items": "\(items.count)"])
        accepted(run)
        observer?.pickerOpened(run)
        feed(.begin)
    }

    /// The person picked an offer.
    public func pick(_ run: PickerRun, offer: String) throws(SetupError) { try ask(run, .picked(offer)) }
    public func respond(_ run: PickerRun, answer: PromptAnswer) throws(SetupError) { try ask(run, .answered(answer)) }
    public func cancel(_ run: PickerRun) throws(SetupError) { try ask(run, .cancelled) }

    /// The product image of an offer that is shown.
    public func image(_ run: PickerRun, offer id: String) throws(SetupError) -> ProductImage? {
        guard let offer = run.presentation.offers.first(where: { $0.id == id }) else {
            throw .invalid("offer", id, "was never offered")
        }
        return run.image(of: offer, ledger: ledger)
    }

    public func hasImage(_ run: PickerRun, offer: Offer) -> Bool {
        run.image(of: offer, ledger: ledger) != nil
    }

    private func ask(_ run: PickerRun, _ event: SetupMachine.Event) throws(SetupError) {
        // Tried on a copy first: a refusal is the caller's error and changes nothing.
        var trial = run.machine
        do {
            _ = try trial.handle(event)
        } catch {
            throw error.asSetupError
        }
        feed(event)
    }

    // MARK: Accessories and grants

    /// Takes the caller's grant away (rule 13).
    ///
    /// - Parameter completion: called once the bond is gone too, where it goes.
    public func removeAccessory(
        _ session: Session, _ id: AccessoryID, completion: @escaping () -> Void
    ) throws(SetupError) {
        guard session.state == .active else { throw wrongState(session, "RemoveAccessory") }
        guard let grant = ledger.grant(of: id, to: session.app.id) else {
            throw .invalid("accessory", id, "is not an accessory of \(session.app.id)")
        }
        try revoke(grant, reason: "removed by the app", completion: completion)
    }

    /// Takes a grant away.
    public func revoke(_ grant: Grant, reason: String, completion: @escaping () -> Void = {}) throws(SetupError) {
        let change = ledger.revoking(grant)
        try commit(change.steps, removing: change.bond, reason: reason, completion: completion)
    }

    /// Takes an accessory away from everybody.
    public func remove(_ accessory: Accessory, reason: String, completion: @escaping () -> Void = {}) throws(SetupError) {
        let change = ledger.removing(accessory)
        try commit(change.steps, removing: change.bond, reason: reason, completion: completion)
    }

    /// An admin's switch on a grant.
    public func setEnabled(_ grant: Grant, _ isEnabled: Bool) throws(SetupError) {
        guard grant.isEnabled != isEnabled else { return }
        var changed = grant
        changed.isEnabled = isEnabled
        try commit([.grant(changed)], removing: nil, reason: isEnabled ? "switched on" : "switched off") {}
    }

    /// Writes a change down, then tells everybody concerned, then removes the bond that nobody holds any more.
    private func commit(
        _ steps: [Ledger.Step], removing bond: BluetoothAddress?, reason: String, completion: @escaping () -> Void
    ) throws(SetupError) {
        let intent = bond.map { BondIntent(address: $0, device: radio.device(for: $0), purpose: .removal) }
        do {
            if let intent { try store.note(intent) }
            try store.commit(steps, finishing: [])
        } catch {
            log.error("the store refused a change", metadata: ["error": "\(error)"])
            throw SetupError(.unknown, "the store refused the change: \(error)")
        }
        let before = ledger
        ledger.apply(steps)
        announce(steps, before: before, reason: reason)
        refreshOffers()
        guard let intent else { return completion() }
        intents.append(intent)
        finish(intent, completion: completion)
    }

    private func announce(_ steps: [Ledger.Step], before: Ledger, reason: String) {
        for step in steps {
            switch step {
            case .put(let accessory):
                if before.accessories[accessory.id] == nil {
                    observer?.accessoryAppeared(accessory)
                } else {
                    observer?.accessoryChanged(accessory)
                }
            case .grant(let grant):
                if let old = before.grants[grant.id] {
                    observer?.grantChanged(grant)
                    if old.isEnabled != grant.isEnabled { tell(grant, before: before, visible: grant.isEnabled) }
                } else {
                    log.notice(
                        "grant written",
                        metadata: [
                            "grant": "\(grant.id)", "app": "\(grant.app)", "accessory": "\(grant.accessory)", "reason": "\(reason)",
                        ])
                    observer?.grantAppeared(grant)
                    if let accessory = ledger.accessories[grant.accessory] {
                        observer?.visibilityChanged(of: accessory, to: grant.app, visible: true)
                        sessionsChanged(of: grant.app)
                    }
                }
            case .revoke(let id):
                guard let grant = before.grants[id] else { continue }
                log.notice(
                    "grant revoked",
                    metadata: ["grant": "\(id)", "app": "\(grant.app)", "accessory": "\(grant.accessory)", "reason": "\(reason)"])
                observer?.grantDisappeared(grant)
                if grant.isEnabled { tell(grant, before: before, visible: false) }
            case .delete(let id):
                if let accessory = before.accessories[id] { observer?.accessoryDisappeared(accessory) }
            }
        }
    }

    /// An app sees an accessory again, or no longer.
    private func tell(_ grant: Grant, before: Ledger, visible: Bool) {
        guard let accessory = before.accessories[grant.accessory] else { return }
        observer?.visibilityChanged(of: accessory, to: grant.app, visible: visible)
        sessionsChanged(of: grant.app)
        var event = SessionEvent(visible ? .accessoryAdded : .accessoryRemoved, accessory: accessory)
        event.state = visible ? grant.state : .unauthorized
        for session in activeSessions(of: grant.app) { observer?.event(event, in: session) }
    }

    private func sessionsChanged(of app: AppID) {
        for session in activeSessions(of: app) { observer?.sessionChanged(session) }
    }

    private func activeSessions(of app: AppID) -> [Session] {
        sessions.values.filter { $0.app.id == app && $0.state == .active }.sorted { $0.id < $1.id }
    }

    // MARK: Bonds that nobody holds

    /// Removes what earlier runs, or failures, left on the radio.
    private func cleanUp() {
        guard radio.state == .ready else { return }
        for intent in intents where intent != picker?.intent { finish(intent) {} }
    }

    private func finish(_ intent: BondIntent, completion: @escaping () -> Void) {
        // Never touch a bond that a grant stands on: the crash may have come after the grant was written.
        if let accessory = ledger.accessory(at: intent.address), accessory.isBonded {
            forget(intent)
            return completion()
        }
        guard radio.state == .ready, cleaning.insert(intent).inserted else { return completion() }
        radio.removeBond(target(of: intent), device: intent.device) { [weak self] result in
            guard let self else { return completion() }
            self.cleaning.remove(intent)
            switch result {
            case .success:
                self.log.notice("no bond is left", metadata: ["after": "\(intent.purpose.rawValue)"])
                self.log.debug("no bond is left", metadata: ["address": "\(intent.address)"])
                self.forget(intent)
            case .failure(let failure):
                self.log.warning("bond not removed, will be tried again", metadata: ["reason": "\(failure)"])
                self.log.debug("bond not removed", metadata: ["address": "\(intent.address)"])
            }
            completion()
        }
    }

    /// The address under which an intent's bond is known now. A private address became an identity that nobody could note in time: it
    /// is the one new bond with the same name, or without a name, as the keys may have reached the disk before the name did. Where
    /// there are several, none is touched: a bond that belongs to somebody else must survive.
    private func target(of intent: BondIntent) -> BluetoothAddress {
        guard let trace = intent.trace else { return intent.address }
        let new = radio.bonds.filter {
            !trace.olderBonds.contains($0.address.description) && ledger.accessory(at: $0.address) == nil
        }
        let named = new.filter { $0.name == trace.name }
        let candidates = named.isEmpty ? new.filter { $0.name.isEmpty } : named
        if candidates.count > 1 {
            log.warning("a bond without a grant may be left", metadata: ["candidates": "\(candidates.count)"])
            log.debug("a bond without a grant may be left", metadata: ["name": "\(trace.name)"])
        }
        return candidates.count == 1 ? candidates[0].address : intent.address
    }

    private func forget(_ intent: BondIntent) {
        intents.removeAll { $0 == intent }
        do { try store.forget(intent) } catch { log.error("an intent could not be dropped", metadata: ["error": "\(error)"]) }
    }

    // MARK: The machine

    /// Feeds an event to the running picker. Events that effects cause are queued, so that every effect list is done in order.
    private func feed(_ event: SetupMachine.Event) {
        pendingEvents.append(event)
        guard !isFeeding else { return }
        isFeeding = true
        defer { isFeeding = false }
        while !pendingEvents.isEmpty {
            let event = pendingEvents.removeFirst()
            guard let run = picker else {
                pendingEvents.removeAll()
                return
            }
            let before = run.presentation
            do {
                let effects = try run.machine.handle(event)
                if run.presentation.stage != before.stage {
                    log.info(
                        "picker \(before.stage.rawValue) → \(run.presentation.stage.rawValue)",
                        metadata: ["picker": "\(run.id)", "reason": "\(event.reason)"])
                }
                // Shown before it is told: an app's event about a stage must not overtake the stage.
                if run.presentation != before { observer?.pickerChanged(run, from: before) }
                for effect in effects { perform(effect, run) }
            } catch {
                log.debug("event refused", metadata: ["picker": "\(run.id)", "event": "\(event.reason)", "why": "\(error)"])
            }
        }
    }

    private func perform(_ effect: SetupMachine.Effect, _ run: PickerRun) {
        switch effect {
        case .startScan:
            run.discovery = radio.discover()
            schedulePrune(run)
        case .stopScan:
            run.discovery = nil
            run.pruneTimer?.cancel()
        case .startDeadline:
            guard let seconds = run.settings.discoveryTimeout else { return }
            run.deadline = Double(clock.now) + seconds
            observer?.pickerDeadlineChanged(run)
            run.deadlineTimer = clock.after(seconds) { [weak self, weak run] in
                guard let self, let run, self.picker === run else { return }
                self.feed(.deadline)
            }
        case .stopDeadline:
            run.deadline = nil
            run.deadlineTimer?.cancel()
            observer?.pickerDeadlineChanged(run)
        case .pair(let offer):
            do {
                // A bond that is there already is not ours to undo, whatever happens: nothing is noted.
                if !offer.isBonded {
                    let intent = pairingIntent(offer)
                    try store.note(intent)
                    run.intent = intent
                    intents.append(intent)
                }
                radio.pair(offer.device)
            } catch {
                feed(.pairingFailed("the store refused: \(error)"))
            }
        case .answer(let answer):
            radio.answer(answer)
        case .cancelPairing:
            radio.cancelPairing()
        case .removeBond(let identity):
            removeOrphan(identity, run)
        case .store(let offer, let identity):
            write(offer, identity, run)
        case .emit(let event):
            emit(event, run)
        case .end:
            run.deadlineTimer?.cancel()
            run.pruneTimer?.cancel()
            picker = nil
            observer?.pickerClosed(run)
        }
    }

    private func pairingIntent(_ offer: Offer) -> BondIntent {
        let trace = BondIntent.Trace(name: offer.advertisedName, olderBonds: Set(radio.bonds.map(\.address.description)))
        return BondIntent(
            address: offer.address, device: offer.device, purpose: .pairing, trace: offer.address.isResolvablePrivate ? trace : nil)
    }

    private func write(_ offer: Offer, _ identity: PairedIdentity?, _ run: PickerRun) {
        do {
            let change = ledger.adding(
                offer, item: run.items[offer.item], identity: identity, to: run.session.app.id,
                grantID: try store.nextGrantID(), accessoryID: .random(), now: clock.now)
            // The grant and the end of the intent are one transaction: after a power cut there is either both or neither.
            try store.commit(change.steps, finishing: run.intent.map { [$0] } ?? [])
            intents.removeAll { $0 == run.intent }
            run.intent = nil
            let before = ledger
            ledger.apply(change.steps)
            announce(change.steps, before: before, reason: "picked")
            feed(.stored(change.accessory))
        } catch {
            log.error("the grant could not be written", metadata: ["error": "\(error)"])
            feed(.storeFailed("\(error)"))
        }
    }

    private func removeOrphan(_ identity: PairedIdentity, _ run: PickerRun) {
        if let intent = run.intent { forget(intent) }
        run.intent = nil
        let intent = BondIntent(address: identity.address, device: identity.device, purpose: .removal)
        do { try store.note(intent) } catch { log.error("an intent could not be noted", metadata: ["error": "\(error)"]) }
        intents.append(intent)
        finish(intent) {}
    }

    private func emit(_ event: SetupMachine.AppEvent, _ run: PickerRun) {
        let session = run.session
        guard session.state == .active else { return }
        var out: SessionEvent
        switch event {
        case .pickerDidPresent: out = SessionEvent(.pickerDidPresent)
        case .pickerSetupPairing: out = SessionEvent(.pickerSetupPairing)
        case .pickerSetupFailed(let error): out = SessionEvent(.pickerSetupFailed, error: error)
        case .accessoryAdded(let id): out = SessionEvent(.accessoryAdded, accessory: ledger.accessories[id])
        case .pickerDidDismiss(let error): out = SessionEvent(.pickerDidDismiss, error: error)
        }
        out.picker = run.id
        observer?.event(out, in: session)
        // An app may have other sessions; an accessory that was added is theirs too.
        guard case .accessoryAdded = event else { return }
        out.picker = nil
        for other in activeSessions(of: session.app.id) where other !== session { observer?.event(out, in: other) }
    }

    private func schedulePrune(_ run: PickerRun) {
        run.pruneTimer?.cancel()
        run.pruneTimer = clock.after(PickerRun.silence / 3) { [weak self, weak run] in
            guard let self, let run, self.picker === run else { return }
            if run.prune(now: self.clock.uptime) { self.refreshOffers() }
            self.schedulePrune(run)
        }
    }

    private func refreshOffers() {
        guard let run = picker, run.machine.needsScan else { return }
        let offers = run.offers(ledger: ledger)
        switch run.machine.state {
        case .discovering(let discovery) where discovery.offers == offers: return
        case .pairing(let pairing) where pairing.offers == offers: return
        default: feed(.offersChanged(offers))
        }
    }
}

// MARK: - What the radio tells

extension AccessoryEngine: RadioObserver {
    public func radioChanged(_ state: RadioState, reason: String) {
        log.notice("Bluetooth is \(state.rawValue)", metadata: ["reason": "\(reason)"])
        observer?.radioStateChanged(state)
        if state == .ready { cleanUp() } else if picker != nil { feed(.radioLost("Bluetooth: \(reason)")) }
    }

    public func discoveryFailed(_ failure: RadioFailure) {
        log.error("discovery failed", metadata: ["reason": "\(failure)"])
        if picker != nil { feed(.radioLost("discovery failed: \(failure)")) }
    }

    public func heard(_ changes: [HeardDevice]) {
        guard let run = picker, run.machine.needsScan else { return }
        if run.take(changes, now: clock.uptime) { refreshOffers() }
    }

    public func lost(_ device: RadioDeviceID) {
        guard let run = picker else { return }
        if run.drop(device) { refreshOffers() }
    }

    public func pairingPrompted(_ prompt: PairingPrompt) {
        feed(.prompted(prompt))
    }

    public func pairingEnded(_ result: Result<PairedIdentity, RadioFailure>) {
        guard let run = picker else { return }
        switch result {
        case .success(let identity):
            log.info("paired", metadata: ["picker": "\(run.id)"])
            feed(.paired(identity))
        case .failure(let failure):
            log.warning("pairing failed", metadata: ["picker": "\(run.id)", "reason": "\(failure)"])
            let intent = run.intent
            run.intent = nil
            feed(.pairingFailed(failure.message))
            guard let intent else { return }
            switch failure.reason {
            // The radio's own answer: there is no bond.
            case .refused, .connection: forget(intent)
            // Nobody knows how far it got.
            case .unavailable, .timeout, .cancelled, .other: finish(intent) {}
            }
        }
    }

    public func deviceChanged(_ address: BluetoothAddress?) {
        for accessory in ledger.accessories.values where address == nil || accessory.address == address {
            observer?.accessoryChanged(accessory)
        }
    }
}

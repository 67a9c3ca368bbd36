// The running picker: the person's answers and everything else that happens go into the machine, one after the other, and what the
// machine says is done.

internal import AccessoryCore
public import AccessoryModel
internal import Logging

extension AccessoryEngine {
    // MARK: What the person says

    /// The person picked an offer.
    public func pick(_ run: PickerRun, offer: String) throws(SetupError) {
        let offered = run.presentation.offers.first { $0.id == offer }
        try ask(run, .picked(offer)) { notePick(run, offered, by: asPerson(run), why: "picked by the person") }
    }

    /// Who asks when the person at a picker does.
    private func asPerson(_ run: PickerRun) -> Requester { .person(describeClient(run.client)) }

    private func notePick(_ run: PickerRun, _ offer: Offer?, by requester: Requester, why: String) {
        run.picked = offer
        run.pickedBy = requester
        audit(.picked, app: run.session.app.id, accessory: offer?.shared ?? offer?.identifier, by: requester, why: why)
    }

    public func respond(_ run: PickerRun, answer: PromptAnswer) throws(SetupError) { try ask(run, .answered(answer)) }
    /// The person gave a name that `WireDecoding.checkName` accepts.
    public func rename(_ run: PickerRun, to name: String) throws(SetupError) {
        if run.renamesNetwork, SSID(name) == nil { throw .invalid("name", name, "a network's name must have 1 to 32 bytes") }
        try ask(run, .named(name))
    }
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

    // MARK: The machine

    /// Feeds an event to the running picker. Events that effects cause are queued, so that every effect list is done in order.
    func feed(_ event: SetupMachine.Event) {
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
                noteOffers(run)
                for effect in effects { perform(effect, run) }
                if run.client == .policy, run.presentation != before { answerForNobody(run) }
            } catch {
                log.debug("event refused", metadata: ["picker": "\(run.id)", "event": "\(event.reason)", "why": "\(error)"])
            }
        }
    }

    /// Every accessory that was offered, once in a run.
    private func noteOffers(_ run: PickerRun) {
        for offer in run.presentation.offers where run.noted.insert(offer.id).inserted {
            audit(
                .offered, app: run.session.app.id, accessory: offer.shared ?? offer.identifier, by: .daemon,
                why: offer.advertisedName)
        }
    }

    /// What the policy says where no person is: the nearest accessory that a rule approves is picked, migrations that rules approve are
    /// accepted, a name is the app's, and nothing else is answered.
    private func answerForNobody(_ run: PickerRun) {
        if case .informing = run.machine.state {
            let rules = run.migrations.map { policy.approval(ofMigrating: $0.sighting, to: run.session.app.id) }
            guard let first = rules.first, let first, !rules.contains(nil) else { return pendingEvents.append(.cancelled) }
            run.pickedBy = .rule(name: first.name, source: first.source)
            return pendingEvents.append(.answered(.accept))
        }
        guard run.presentation.prompt == nil else { return pendingEvents.append(.cancelled) }
        switch run.presentation.stage {
        case .offering:
            guard run.picked == nil, !pendingEvents.contains(where: { if case .picked = $0 { true } else { false } }) else {
                return
            }
            let approved = run.presentation.offers.compactMap { offer in
                policy.approval(of: run.sighting(of: offer), rssi: offer.rssi, to: run.session.app.id).map { (offer, $0) }
            }
            guard let (offer, rule) = approved.max(by: { ($0.0.rssi ?? -128) < ($1.0.rssi ?? -128) }) else { return }
            notePick(
                run, offer, by: .rule(name: rule.name, source: rule.source),
                why: "approved without a person, at \(offer.rssi ?? -128) dBm")
            pendingEvents.append(.picked(offer.id))
        case .renaming: pendingEvents.append(.named(run.picked?.name ?? run.session.app.name))
        case .confirming, .failed: pendingEvents.append(.cancelled)
        case .searching, .pairing, .bridging, .done: break
        }
    }

    private func perform(_ effect: SetupMachine.Effect, _ run: PickerRun) {
        switch effect {
        case .startScan:
            if run.needs(.bluetooth) { run.discovery = radio.discover() }
            if run.needs(.wifi) {
                run.scan = networks.scan(asking: run.hiddenNames, aware: run.items.compactMap(\.descriptor.wifiAware))
            }
            schedulePrune(run)
        case .stopScan:
            run.discovery = nil
            run.scan = nil
            run.pruneTimer?.cancel()
        case .startDeadline: startDeadline(run)
        case .stopDeadline:
            run.deadline = nil
            run.deadlineTimer?.cancel()
            observer?.pickerDeadlineChanged(run)
        case .pair(let offer): pair(offer, run)
        case .answer(let answer): radio.answer(answer)
        case .cancelPairing: radio.cancelPairing()
        case .removeBond(let identity): removeOrphan(identity, run)
        case .store(let offer, let identity, let name): write(offer, identity, name, run)
        case .bridge(let id): bridge(id, run)
        case .rename(let id, let name): rename(id, name, run)
        case .remove(let id): remove(id, run)
        case .migrate:
            for target in run.migrations { migrate(target, run) }
            feed(.migrated)
        case .emit(let event): emit(event, run)
        case .end:
            run.deadlineTimer?.cancel()
            run.pruneTimer?.cancel()
            run.disclosureTimer?.cancel()
            picker = nil
            observer?.pickerClosed(run)
        }
    }

    private func startDeadline(_ run: PickerRun) {
        guard let seconds = run.settings.discoveryTimeout else { return }
        run.deadline = clock.wallTime + seconds
        observer?.pickerDeadlineChanged(run)
        run.deadlineTimer = clock.after(seconds) { [weak self, weak run] in
            guard let self, let run, self.picker === run else { return }
            self.feed(.deadline)
        }
    }

    private func pair(_ offer: Offer, _ run: PickerRun) {
        do throws(SetupError) {
            if let address = offer.address, let old = intents.first(where: { $0.address.value == address.value }) {
                // What is being undone would take the new bond along. (What is being bridged ends by itself.)
                if bridging.isEmpty { finish(old) {} }
                throw SetupError(.connectionFailed, "an earlier pairing with it is being removed: try again in a moment")
            }
            // A bond that is there already is not ours to undo, whatever happens: nothing is noted.
            // As it is now: it may have come or gone since this was offered.
            if let address = offer.address, !radio.bonds.contains(where: { $0.address == address }) {
                let intent = pairingIntent(offer, at: address)
                try note(intent)
                run.intent = intent
            }
            radio.pair(offer.device, support: offer.support)
        } catch {
            feed(.pairingFailed(error))
        }
    }

    // MARK: What is written down

    /// What a picked offer changes.
    private func change(_ offer: Offer, _ identity: PairedIdentity?, _ name: String?, _ run: PickerRun) throws -> (
        steps: [Ledger.Step], accessory: AccessoryID
    ) {
        let item = run.item(of: offer)
        let app = run.session.app.id
        let sighting = run.sighting(of: offer)
        let traits = sighting.advertisement.map { Accessory.Traits($0) } ?? Accessory.Traits()
        // Rules, grants and accessories may have changed while the person and the radio were at it.
        if let denial = policy.denial(of: sighting, to: app) {
            throw SetupError(.userRestricted, "rule \(denial.name) in \(denial.source) denies it")
        }
        let awareDevice = offer.aware == nil ? nil : try store.nextAwareDevice()
        if case .authorization(let id) = run.request {
            // What was taken away meanwhile is not given back.
            guard let old = ledger.accessories[id], let grant = ledger.grant(of: id, to: app), grant.isEnabled else {
                throw SetupError(.userRestricted, "the accessory was taken away from \(app) meanwhile")
            }
            let steps = ledger.upgrading(
                old, to: item.descriptor, offer: offer, identity: identity, awareDevice: awareDevice, traits: traits, for: app)
            if case .put(let new) = steps.first { try refuseDenied(new, app) }
            return (steps, id)
        }
        if let shared = offer.shared, ledger.accessories[shared] == nil {
            throw SetupError(.connectionFailed, "the accessory was removed meanwhile: try again")
        }
        let change = ledger.adding(
            offer, item: item, identity: identity, name: name, awareDevice: awareDevice, traits: traits, to: app,
            grantID: try store.nextGrantID(), now: clock.now)
        guard ledger.grant(of: change.accessory, to: app)?.isEnabled != false else {
            throw SetupError(.userRestricted, "an admin has switched this accessory off for \(app)")
        }
        var after = ledger
        after.apply(change.steps)
        if let accessory = after.accessories[change.accessory] { try refuseDenied(accessory, app) }
        return change
    }

    private func refuseDenied(_ accessory: Accessory, _ app: AppID) throws(SetupError) {
        guard let denial = policy.denial(of: accessory, to: app) else { return }
        throw SetupError(.userRestricted, "rule \(denial.name) in \(denial.source) denies it")
    }

    private func write(_ offer: Offer, _ identity: PairedIdentity?, _ name: String?, _ run: PickerRun) {
        do {
            let (steps, accessory) = try change(offer, identity, name, run)
            // The grant and the end of the intent are one transaction: after a power cut there is either both or neither.
            try store.commit(steps, finishing: run.intent.map { [$0] } ?? [])
            intents.removeAll { $0 == run.intent }
            run.intent = nil
            let before = ledger
            ledger.apply(steps)
            forgetWhatIsLeft()
            announce(steps, before: before, reason: "picked", by: run.pickedBy)
            if case .authorization = run.request {
                audit(.updated, app: run.session.app.id, accessory: accessory, by: run.pickedBy, why: "another descriptor")
            }
            if let name, let address = ledger.accessories[accessory]?.address { radio.setAlias(address, name) }
            feed(.stored(accessory))
        } catch {
            log.error("the grant could not be written", metadata: ["error": "\(error)"])
            feed(.storeFailed(error as? SetupError ?? SetupError(.unknown, "the grant could not be written: \(error)")))
        }
    }

    private func bridge(_ id: AccessoryID, _ run: PickerRun) {
        guard let accessory = ledger.accessories[id], let address = accessory.address,
            let grant = ledger.grant(of: id, to: run.session.app.id), let (settings, requester) = run.finishing
        else { return feed(.accessoryGone) }
        bridge(accessory, address, settings, for: grant, by: requester) { [weak self, weak run] failure in
            guard let self, let run, self.picker === run else { return }
            self.feed(failure.map { .bridgingFailed($0.message) } ?? .bridged)
        }
    }

    private func rename(_ id: AccessoryID, _ name: String, _ run: PickerRun) {
        guard let accessory = ledger.accessories[id], ledger.grant(of: id, to: run.session.app.id) != nil else {
            return feed(.accessoryGone)
        }
        do {
            try rename(
                accessory, to: name, withNetwork: run.renamesNetwork, reason: "renamed by the person", by: asPerson(run))
            feed(.renamed)
        } catch {
            feed(.renameFailed(error.message))
        }
    }

    private func remove(_ id: AccessoryID, _ run: PickerRun) {
        guard let grant = ledger.grant(of: id, to: run.session.app.id) else { return }
        do {
            try revoke(grant, reason: "not authorized", by: asPerson(run))
        } catch {
            log.error("the grant could not be taken back", metadata: ["error": "\(error)"])
        }
    }

    private func migrate(_ target: PickerRun.MigrationTarget, _ run: PickerRun) {
        let session = run.session
        var event = SessionEvent(.migrationComplete, picker: run.id)
        do {
            if let address = target.offer.address {
                guard radio.bonds.contains(where: { $0.address == address }) else {
                    throw SetupError(.connectionFailed, "Bluetooth has lost the pairing with \(target.item.name)")
                }
                guard !intents.contains(where: { $0.address.value == address.value }) else {
                    throw SetupError(.connectionFailed, "the pairing with \(target.item.name) is being removed")
                }
            }
            if let denial = policy.denial(of: target.sighting, to: session.app.id) {
                throw SetupError(.userRestricted, "rule \(denial.name) in \(denial.source) denies it")
            }
            if run.client == .policy, policy.approval(ofMigrating: target.sighting, to: session.app.id) == nil {
                throw SetupError(.userRestricted, "no rule approves that \(target.item.name) is taken over without a person")
            }
            // The app has used it all along: there is nothing to confirm.
            var item = target.item
            item.setupOptions = []
            let offer = target.offer
            let identity = offer.address.map { PairedIdentity(address: $0, device: offer.device, wasPairedBefore: true) }
            let change = ledger.adding(
                offer, item: item, identity: identity,
                traits: target.sighting.advertisement.map { Accessory.Traits($0) } ?? Accessory.Traits(), to: session.app.id,
                grantID: try store.nextGrantID(), now: clock.now)
            for case .put(let new) in change.steps { try refuseDenied(new, session.app.id) }
            if let known = ledger.accessories[change.accessory] { try refuseDenied(known, session.app.id) }
            guard ledger.grant(of: change.accessory, to: session.app.id)?.isEnabled != false else {
                throw SetupError(.userRestricted, "an admin has switched \(target.item.name) off for \(session.app.id)")
            }
            try store.commit(change.steps, finishing: [])
            let before = ledger
            ledger.apply(change.steps)
            announce(change.steps, before: before, reason: "migrated", by: run.pickedBy == .daemon ? asPerson(run) : run.pickedBy)
            event.accessory = ledger.accessories[change.accessory]
        } catch {
            log.error("an accessory could not be migrated", metadata: ["error": "\(error)"])
            event.error = error as? SetupError ?? SetupError(.unknown, "the grant could not be written: \(error)")
        }
        guard session.state == .active else { return }
        observer?.event(event, in: session)
        if event.error == nil { tellOthers(SessionEvent(.accessoryAdded, accessory: event.accessory), but: session) }
    }

    // MARK: What the app is told

    func emit(_ event: SetupMachine.AppEvent, _ run: PickerRun) {
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
            out = SessionEvent(.accessoryAdded, accessory: ledger.accessories[id])
            out.state = ledger.grant(of: id, to: session.app.id)?.state ?? .authorized
        case .pickerDidDismiss(let error): out = SessionEvent(.pickerDidDismiss, error: error)
        }
        out.picker = run.id
        observer?.event(out, in: session)
        guard case .accessoryAdded = event else { return }
        out.picker = nil
        tellOthers(out, but: session)
    }

    /// An app may have other sessions; an accessory that was added is theirs too.
    private func tellOthers(_ event: SessionEvent, but session: Session) {
        for other in activeSessions(of: session.app.id) where other !== session { observer?.event(event, in: other) }
    }

    func scheduleDiscoveries(_ run: PickerRun) {
        guard run.hasUndisclosed, run.disclosureTimer == nil else { return }
        run.disclosureTimer = clock.after(PickerRun.disclosureDelay) { [weak self, weak run] in
            guard let self, let run, self.picker === run else { return }
            run.disclosureTimer = nil
            self.tellDiscoveries(run)
        }
    }

    private func tellDiscoveries(_ run: PickerRun) {
        guard run.session.state == .active else { return }
        for discovery in run.discoveries(ledger: ledger) {
            var event = SessionEvent(.accessoryDiscovered, picker: run.id)
            event.discovered = discovery
            observer?.event(event, in: run.session)
        }
    }

    // MARK: What is offered

    private func schedulePrune(_ run: PickerRun) {
        run.pruneTimer?.cancel()
        run.pruneTimer = clock.after(PickerRun.silence / 3) { [weak self, weak run] in
            guard let self, let run, self.picker === run else { return }
            if run.prune(now: self.clock.uptime) { self.refreshOffers() }
            self.schedulePrune(run)
        }
    }

    func refreshOffers() {
        guard let run = picker, run.machine.needsScan else { return }
        let offers = run.offers(ledger: ledger, policy: policy)
        switch run.machine.state {
        case .discovering(let discovery) where discovery.offers == offers: return
        case .pairing(let pairing) where pairing.offers == offers: return
        default: feed(.offersChanged(offers))
        }
    }
}

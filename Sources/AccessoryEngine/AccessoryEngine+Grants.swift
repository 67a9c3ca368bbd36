// Accessories and grants: every change is asked of the ledger, written down, and then told to everybody concerned.

internal import AccessoryCore
public import AccessoryModel
internal import Logging

extension AccessoryEngine {
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
        try revoke(grant, reason: "removed by the app", by: asApp(session), completion: completion)
    }

    /// Who asks when a session does.
    func asApp(_ session: Session) -> Requester { .app(describeClient(session.client)) }

    /// Takes a grant away.
    public func revoke(
        _ grant: Grant, reason: String, by requester: Requester, completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        let change = ledger.revoking(grant)
        try commit(change.steps, removing: change.bonds, reason: reason, by: requester, completion: completion)
    }

    /// Takes an accessory away from everybody.
    public func remove(
        _ accessory: Accessory, reason: String, by requester: Requester, completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        let change = ledger.removing(accessory)
        try commit(change.steps, removing: change.bonds, reason: reason, by: requester, completion: completion)
    }

    /// An admin's switch on a grant.
    public func setEnabled(_ grant: Grant, _ isEnabled: Bool, by requester: Requester) throws(SetupError) {
        guard grant.isEnabled != isEnabled else { return }
        var changed = grant
        changed.isEnabled = isEnabled
        try commit([.grant(changed)], removing: [], reason: isEnabled ? "switched on" : "switched off", by: requester) {}
    }

    /// An app has used an accessory. That is worth a line in the trail once a minute, and a place in the store once a while: an app that
    /// connects again and again does not wear the flash.
    public func noteUse(of accessory: AccessoryID, by app: AppID, requester: Requester, as what: String) {
        guard var grant = ledger.grant(of: accessory, to: app) else { return }
        grant.lastUsed = clock.now
        ledger.apply([.grant(grant)])
        observer?.grantChanged(grant)
        unwrittenUses.insert(grant.id)
        if useTimer == nil { useTimer = clock.after(Self.usePatience) { [weak self] in self?.writeUses() } }
        if let told = toldUses[grant.id], clock.uptime - told < Self.usePatience { return }
        toldUses[grant.id] = clock.uptime
        audit(.used, app: app, accessory: accessory, by: requester, why: what)
    }

    /// Seconds that the last use of a grant may wait for the disk.
    private static let usePatience = 60.0

    /// Writes down when grants were last used. Called at the end, too.
    public func writeUses() {
        useTimer?.cancel()
        useTimer = nil
        let steps = unwrittenUses.compactMap { ledger.grants[$0].map(Ledger.Step.grant) }
        unwrittenUses = []
        guard !steps.isEmpty else { return }
        do {
            try store.commit(steps, noting: [], finishing: [])
        } catch {
            log.error("the last use of grants could not be written", metadata: ["error": "\(error)"])
        }
    }

    /// Another name for an accessory, for everybody (rule 14).
    ///
    /// - Parameter withNetwork: its network is called by this name from now on, too; the app tells the accessory.
    public func rename(
        _ accessory: Accessory, to name: String, withNetwork: Bool = false, reason: String, by requester: Requester
    ) throws(SetupError) {
        var network: SSID?
        if withNetwork {
            network = SSID(name)
            guard let network else { throw .invalid("name", name, "a network's name must have 1 to 32 bytes") }
            if let other = ledger.accessories.values.first(where: { $0.ssid == network && $0.id != accessory.id }) {
                throw .invalid("name", name, "is the network of another accessory (\(other.displayName))")
            }
        }
        let steps = ledger.renaming(accessory, to: name, network: network)
        guard !steps.isEmpty else { return }
        try commit(steps, removing: [], reason: reason, by: requester) {}
        audit(.renamed, accessory: accessory.id, by: requester, why: reason)
        if let address = accessory.address { radio.setAlias(address, name) }
    }

    // MARK: The app's word

    /// The app finishes an authorization that waits for it (rule 12). What the classic side makes of it comes as an event.
    ///
    /// - Parameter accepted: called between the checks and the first event.
    public func finishAuthorization(
        _ session: Session, _ id: AccessoryID, settings: AuthorizationSettings, accepted: () -> Void = {}
    ) throws(SetupError) {
        if try finishNetwork(session, id, settings, accepted: accepted) { return }
        let (grant, accessory) = try awaiting(session, id, "FinishAuthorization")
        try DescriptorRules.check(settings, for: accessory.descriptor)
        if let ssid = settings.ssid, let known = accessory.ssid, ssid != known, ledger.grants(of: id).count > 1 {
            throw .invalid("ssid", ssid, "another app uses this accessory, with the network \(known)")
        }
        // Another app's picker may wait for the same accessory: this word is not for that.
        let run = picker.flatMap { $0.machine.awaitedAuthorization == id && $0.session.app.id == grant.app ? $0 : nil }
        guard accessory.descriptor.supportedOptions.contains(.transportBridging), let address = accessory.address else {
            try authorize(grant, settings: settings, by: asApp(session), accepted: accepted)
            if run != nil { feed(.authorizationFinished(bridges: false)) }
            return
        }
        guard bridging.insert(id).inserted else { throw .invalid("accessory", id, "is being bridged already") }
        accepted()
        if let run {
            run.finishing = (settings, asApp(session))
            return feed(.authorizationFinished(bridges: true))
        }
        bridge(accessory, address, settings, for: grant, by: asApp(session)) { [weak self] failure in
            guard let self, let failure else { return }
            var event = SessionEvent(.pickerSetupFailed, accessory: self.ledger.accessories[id], error: failure)
            event.state = .awaitingAuthorization
            for session in self.activeSessions(of: grant.app) { self.observer?.event(event, in: session) }
        }
    }

    /// The whole name of a network of which the descriptor has the beginning, for an accessory that needs no other word of the app's.
    ///
    /// - Returns: whether that was all that was asked.
    private func finishNetwork(
        _ session: Session, _ id: AccessoryID, _ settings: AuthorizationSettings, accepted: () -> Void
    ) throws(SetupError) -> Bool {
        guard session.state == .active, settings.bridgingAddress == nil, let ssid = settings.ssid,
            let grant = ledger.grant(of: id, to: session.app.id), grant.state == .authorized,
            let accessory = ledger.accessories[id], accessory.descriptor.ssidPrefix != nil,
            accessory.ssid == nil || accessory.ssid == ssid
        else { return false }
        try DescriptorRules.check(settings, for: accessory.descriptor)
        let steps = ledger.authorizing(grant, settings: settings)
        try commit(steps, removing: [], reason: "the app named the network", by: asApp(session), accepted: accepted) {}
        return true
    }

    /// The app gives an accessory back that waits for its word.
    ///
    /// - Parameter completion: called once the bond is gone too, where it goes.
    public func failAuthorization(
        _ session: Session, _ id: AccessoryID, completion: @escaping () -> Void
    ) throws(SetupError) {
        let (grant, _) = try awaiting(session, id, "FailAuthorization")
        try revoke(grant, reason: "the app failed the authorization", by: asApp(session), completion: completion)
    }

    private func awaiting(
        _ session: Session, _ id: AccessoryID, _ request: String
    ) throws(SetupError) -> (Grant, Accessory) {
        guard session.state == .active else { throw wrongState(session, request) }
        guard let grant = ledger.grant(of: id, to: session.app.id), let accessory = ledger.accessories[id] else {
            throw .invalid("accessory", id, "is not an accessory of \(session.app.id)")
        }
        guard grant.state == .awaitingAuthorization else {
            throw .invalid("accessory", id, "does not wait for an authorization: it is \(grant.state.rawValue)")
        }
        return (grant, accessory)
    }

    private func authorize(
        _ grant: Grant, settings: AuthorizationSettings, ownsClassicBond: Bool = false, finishing intents: [BondIntent] = [],
        by requester: Requester, accepted: () -> Void = {}
    ) throws(SetupError) {
        try commit(
            ledger.authorizing(grant, settings: settings, ownsClassicBond: ownsClassicBond), removing: [], finishing: intents,
            reason: "authorized", by: requester, accepted: accepted
        ) {}
    }

    /// Pairs the classic side, then gives the app the accessory. Nothing has changed when that fails.
    func bridge(
        _ accessory: Accessory, _ address: BluetoothAddress, _ settings: AuthorizationSettings, for grant: Grant,
        by requester: Requester, completion: @escaping (SetupError?) -> Void
    ) {
        let intent: BondIntent?
        do throws(SetupError) {
            intent = try bridgingIntent(settings.bridgingAddress, of: accessory, at: address)
        } catch {
            bridging.remove(accessory.id)
            return completion(error)
        }
        radio.bridge(address, classic: settings.bridgingAddress) { [weak self] result in
            guard let self else { return }
            self.bridging.remove(accessory.id)
            do throws(SetupError) {
                guard case .success(let classic) = result else {
                    guard case .failure(let failure) = result else { return }
                    throw SetupError(.connectionFailed, failure.message)
                }
                // Revoked meanwhile: there is nobody to give it to, and another app's grant is another app's.
                guard let grant = self.ledger.grants[grant.id], grant.state == .awaitingAuthorization else {
                    throw SetupError(.connectionFailed, "the accessory was removed meanwhile")
                }
                var settings = settings
                settings.bridgingAddress = classic
                try self.authorize(
                    grant, settings: settings, ownsClassicBond: intent != nil, finishing: intent.map { [$0] } ?? [], by: requester)
                completion(nil)
            } catch {
                self.log.warning("bridging failed", metadata: ["reason": "\(error.message)"])
                if let intent { self.finish(intent) {} }
                completion(error)
            }
        }
    }

    /// The classic side of another address becomes a bond of its own, noted before it is made; nil where it has been made for this
    /// accessory already.
    ///
    /// - Throws: `ConnectionFailed` for an address that is paired as something else: an app names any address, and may not have what
    ///   another program, or another accessory, is bonded with. It is not told which.
    private func bridgingIntent(
        _ classic: BluetoothAddress?, of accessory: Accessory, at address: BluetoothAddress
    ) throws(SetupError) -> BondIntent? {
        guard let classic, classic.value != address.value else {
            // It gets another transport of the bond that is there, and where that has gone, a new one.
            guard !radio.bonds.contains(where: { $0.address.value == address.value }) else { return nil }
            let intent = BondIntent(address: address, device: radio.device(for: address), purpose: .pairing)
            try note(intent)
            return intent
        }
        let isBonded = radio.bonds.contains { $0.address.value == classic.value }
        if isBonded, accessory.classicAddress?.value == classic.value { return nil }
        if let earlier = accessory.classicAddress, earlier.value != classic.value, earlier.value != address.value {
            throw .invalid("bridgingAddress", classic, "the accessory has another classic side already")
        }
        guard !isBonded, ledger.accessory(withSide: classic, besides: accessory.id) == nil else {
            throw SetupError(.connectionFailed, "the classic side could not be paired")
        }
        let intent = BondIntent(address: classic, device: nil, purpose: .pairing)
        try note(intent)
        return intent
    }

    // MARK: Changes

    /// Writes a change down, then tells everybody concerned, then removes the bond that nobody holds any more.
    func commit(
        _ steps: [Ledger.Step], removing bonds: [BluetoothAddress], finishing finished: [BondIntent] = [], reason: String,
        by requester: Requester, accepted: () -> Void = {}, completion: @escaping () -> Void
    ) throws(SetupError) {
        let removals = bonds.map { BondIntent(address: $0, device: radio.device(for: $0), purpose: .removal) }
        do {
            try store.commit(steps, noting: removals, finishing: finished)
        } catch {
            log.error("the store refused a change", metadata: ["error": "\(error)"])
            throw SetupError(.unknown, "the store refused the change: \(error)")
        }
        toForget.removeAll { old in removals.contains { $0.address == old.address } && old.purpose == .removal }
        forgetWhatIsLeft()
        accepted()
        let before = ledger
        ledger.apply(steps)
        intents.removeAll { finished.contains($0) }
        intents += removals
        announce(steps, before: before, reason: reason, by: requester)
        refreshOffers()
        // What the running picker is about may just have been taken away.
        if let run = picker, let id = run.subject, ledger.grant(of: id, to: run.session.app.id) == nil { feed(.accessoryGone) }
        finishAll(removals[...], completion: completion)
    }

    private func finishAll(_ intents: ArraySlice<BondIntent>, completion: @escaping () -> Void) {
        guard let first = intents.first else { return completion() }
        finish(first) { [weak self] in self?.finishAll(intents.dropFirst(), completion: completion) }
    }

    func announce(_ steps: [Ledger.Step], before: Ledger, reason: String, by requester: Requester) {
        // What is no longer granted is cut before anybody is told.
        onAccessChange?()
        reviewNetworkUse()
        for step in steps {
            switch step {
            case .put(let accessory):
                if let old = before.accessories[accessory.id] {
                    observer?.accessoryChanged(accessory, from: old)
                    for grant in ledger.grants(of: accessory.id) where grant.isEnabled { tellChanged(accessory, grant) }
                } else {
                    observer?.accessoryAppeared(accessory)
                }
            case .grant(let grant):
                if let old = before.grants[grant.id] {
                    observer?.grantChanged(grant)
                    if old.isEnabled != grant.isEnabled {
                        audit(
                            grant.isEnabled ? .enabled : .disabled, app: grant.app, accessory: grant.accessory, by: requester,
                            why: reason)
                        tell(grant, before: before, visible: grant.isEnabled)
                    }
                    if old.state != grant.state, let accessory = ledger.accessories[grant.accessory] {
                        if grant.state == .authorized {
                            audit(.authorized, app: grant.app, accessory: grant.accessory, by: requester, why: reason)
                        }
                        observer?.stateChanged(of: accessory, for: grant.app)
                        if grant.isEnabled { tellChanged(accessory, grant) }
                    }
                } else {
                    log.notice(
                        "grant written",
                        metadata: [
                            "grant": "\(grant.id)", "app": "\(grant.app)", "accessory": "\(grant.accessory)", "reason": "\(reason)",
                        ])
                    audit(.granted, app: grant.app, accessory: grant.accessory, by: requester, why: reason)
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
                audit(.revoked, app: grant.app, accessory: grant.accessory, by: requester, why: reason)
                toldUses[id] = nil
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

    private func tellChanged(_ accessory: Accessory, _ grant: Grant) {
        var event = SessionEvent(.accessoryChanged, accessory: accessory)
        event.state = grant.state
        for session in activeSessions(of: grant.app) { observer?.event(event, in: session) }
    }

    func sessionsChanged(of app: AppID) {
        for session in activeSessions(of: app) { observer?.sessionChanged(session) }
    }

    func activeSessions(of app: AppID) -> [Session] {
        sessions.values.filter { $0.app.id == app && $0.state == .active }.sorted { $0.id < $1.id }
    }
}

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
        try revoke(grant, reason: "removed by the app", who: describeClient(session.client), completion: completion)
    }

    /// Takes a grant away.
    public func revoke(
        _ grant: Grant, reason: String, who: String = "accessorysetupd", completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        let change = ledger.revoking(grant)
        try commit(change.steps, removing: change.bonds, reason: reason, who: who, completion: completion)
    }

    /// Takes an accessory away from everybody.
    public func remove(
        _ accessory: Accessory, reason: String, who: String = "accessorysetupd", completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        let change = ledger.removing(accessory)
        try commit(change.steps, removing: change.bonds, reason: reason, who: who, completion: completion)
    }

    /// An admin's switch on a grant.
    public func setEnabled(_ grant: Grant, _ isEnabled: Bool, who: String) throws(SetupError) {
        guard grant.isEnabled != isEnabled else { return }
        var changed = grant
        changed.isEnabled = isEnabled
        try commit([.grant(changed)], removing: [], reason: isEnabled ? "switched on" : "switched off", who: who) {}
    }

    /// An app has used an accessory.
    public func noteUse(of accessory: AccessoryID, by app: AppID, who: String, as what: String) {
        guard var grant = ledger.grant(of: accessory, to: app) else { return }
        audit(.used, app: app, accessory: accessory, who: who, why: what)
        grant.lastUsed = clock.now
        do {
            try store.commit([.grant(grant)], finishing: [])
            ledger.apply([.grant(grant)])
            observer?.grantChanged(grant)
        } catch {
            log.error("the use of a grant could not be written", metadata: ["error": "\(error)"])
        }
    }

    /// Another name for an accessory, for everybody (rule 14).
    ///
    /// - Parameter withNetwork: its network is called by this name from now on, too; the app tells the accessory.
    public func rename(_ accessory: Accessory, to name: String, withNetwork: Bool = false, reason: String) throws(SetupError) {
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
        try commit(steps, removing: [], reason: reason) {}
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
        let run = picker.flatMap { $0.machine.awaitedAuthorization == id ? $0 : nil }
        guard accessory.descriptor.supportedOptions.contains(.transportBridging), let address = accessory.address else {
            try authorize(grant, settings: settings, accepted: accepted)
            if run != nil { feed(.authorizationFinished(bridges: false)) }
            return
        }
        guard bridging.insert(id).inserted else { throw .invalid("accessory", id, "is being bridged already") }
        accepted()
        if let run {
            run.finishing = settings
            return feed(.authorizationFinished(bridges: true))
        }
        bridge(accessory, address, settings) { [weak self] failure in
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
        try commit(steps, removing: [], reason: "the app named the network", accepted: accepted) {}
        return true
    }

    /// The app gives an accessory back that waits for its word.
    ///
    /// - Parameter completion: called once the bond is gone too, where it goes.
    public func failAuthorization(
        _ session: Session, _ id: AccessoryID, completion: @escaping () -> Void
    ) throws(SetupError) {
        let (grant, _) = try awaiting(session, id, "FailAuthorization")
        try revoke(grant, reason: "the app failed the authorization", completion: completion)
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
        _ grant: Grant, settings: AuthorizationSettings, finishing intents: [BondIntent] = [], accepted: () -> Void = {}
    ) throws(SetupError) {
        try commit(
            ledger.authorizing(grant, settings: settings), removing: [], finishing: intents, reason: "authorized",
            accepted: accepted
        ) {}
    }

    /// Pairs the classic side, then gives the app the accessory. Nothing has changed when that fails.
    func bridge(
        _ accessory: Accessory, _ address: BluetoothAddress, _ settings: AuthorizationSettings,
        completion: @escaping (SetupError?) -> Void
    ) {
        let intent: BondIntent?
        do {
            intent = try bridgingIntent(settings.bridgingAddress, of: address)
        } catch {
            bridging.remove(accessory.id)
            return completion(SetupError(.unknown, "the store refused: \(error)"))
        }
        radio.bridge(address, classic: settings.bridgingAddress) { [weak self] result in
            guard let self else { return }
            self.bridging.remove(accessory.id)
            do throws(SetupError) {
                guard case .success(let classic) = result else {
                    guard case .failure(let failure) = result else { return }
                    throw SetupError(.connectionFailed, failure.message)
                }
                // Revoked meanwhile: there is nobody to give it to.
                guard let grant = self.ledger.grants(of: accessory.id).first(where: { $0.state == .awaitingAuthorization }) else {
                    throw SetupError(.connectionFailed, "the accessory was removed meanwhile")
                }
                var settings = settings
                settings.bridgingAddress = classic
                try self.authorize(grant, settings: settings, finishing: intent.map { [$0] } ?? [])
                completion(nil)
            } catch {
                self.log.warning("bridging failed", metadata: ["reason": "\(error.message)"])
                if let intent { self.finish(intent) {} }
                completion(error)
            }
        }
    }

    /// The classic side of another address becomes a bond of its own: noted before it is made, unless it is there already.
    private func bridgingIntent(_ classic: BluetoothAddress?, of address: BluetoothAddress) throws -> BondIntent? {
        guard let classic, classic.value != address.value, !radio.bonds.contains(where: { $0.address.value == classic.value })
        else { return nil }
        let intent = BondIntent(address: classic, device: nil, purpose: .pairing)
        try store.note(intent)
        intents.append(intent)
        return intent
    }

    // MARK: Changes

    /// Writes a change down, then tells everybody concerned, then removes the bond that nobody holds any more.
    func commit(
        _ steps: [Ledger.Step], removing bonds: [BluetoothAddress], finishing finished: [BondIntent] = [], reason: String,
        who: String = "accessorysetupd", accepted: () -> Void = {}, completion: @escaping () -> Void
    ) throws(SetupError) {
        let removals = bonds.map { BondIntent(address: $0, device: radio.device(for: $0), purpose: .removal) }
        do {
            for removal in removals { try store.note(removal) }
            try store.commit(steps, finishing: finished)
        } catch {
            log.error("the store refused a change", metadata: ["error": "\(error)"])
            throw SetupError(.unknown, "the store refused the change: \(error)")
        }
        accepted()
        let before = ledger
        ledger.apply(steps)
        intents.removeAll { finished.contains($0) }
        announce(steps, before: before, reason: reason, who: who)
        refreshOffers()
        // What a running picker waits for may just have been taken away.
        if let id = picker?.machine.awaitedAuthorization, let app = picker?.session.app.id, ledger.grant(of: id, to: app) == nil {
            feed(.authorizationFailed)
        }
        intents += removals
        finishAll(removals[...], completion: completion)
    }

    private func finishAll(_ intents: ArraySlice<BondIntent>, completion: @escaping () -> Void) {
        guard let first = intents.first else { return completion() }
        finish(first) { [weak self] in self?.finishAll(intents.dropFirst(), completion: completion) }
    }

    func announce(_ steps: [Ledger.Step], before: Ledger, reason: String, who: String = "accessorysetupd") {
        // What is no longer granted is cut before anybody is told.
        onAccessChange?()
        reviewNetworkUse()
        for step in steps {
            switch step {
            case .put(let accessory):
                if before.accessories[accessory.id] == nil {
                    observer?.accessoryAppeared(accessory)
                } else {
                    observer?.accessoryChanged(accessory)
                    for grant in ledger.grants(of: accessory.id) where grant.isEnabled { tellChanged(accessory, grant) }
                }
            case .grant(let grant):
                if let old = before.grants[grant.id] {
                    observer?.grantChanged(grant)
                    if old.isEnabled != grant.isEnabled {
                        audit(
                            grant.isEnabled ? .enabled : .disabled, app: grant.app, accessory: grant.accessory, who: who,
                            why: reason)
                        tell(grant, before: before, visible: grant.isEnabled)
                    }
                    if old.state != grant.state, let accessory = ledger.accessories[grant.accessory] {
                        observer?.stateChanged(of: accessory, for: grant.app)
                        if grant.isEnabled { tellChanged(accessory, grant) }
                    }
                } else {
                    log.notice(
                        "grant written",
                        metadata: [
                            "grant": "\(grant.id)", "app": "\(grant.app)", "accessory": "\(grant.accessory)", "reason": "\(reason)",
                        ])
                    audit(.granted, app: grant.app, accessory: grant.accessory, who: who, why: reason)
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
                audit(.revoked, app: grant.app, accessory: grant.accessory, who: who, why: reason)
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

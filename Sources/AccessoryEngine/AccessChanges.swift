// SPDX-License-Identifier: Apache-2.0
// Changes of access together with their bonds: revoking, removing, switching, renaming, and the app's confirmation.
// `AccessoryEngine` documents the requests.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class AccessChanges {
    private let registry: GrantRegistry
    private let bonds: BondKeeper
    private let radio: any Radio
    private let sessions: Sessions
    private let log: Logger
    /// Accessories whose classic side is being paired.
    private var bridging: Set<AccessoryID> = []
    private var onChange: (() -> Void)?

    init(
        _ registry: GrantRegistry, _ bonds: BondKeeper, _ radio: any Radio, _ sessions: Sessions, _ log: Logger
    ) {
        self.registry = registry
        self.bonds = bonds
        self.radio = radio
        self.sessions = sessions
        self.log = log
    }

    /// Sets the closure to call after each change and its events: the subject of a running picker may have been
    /// revoked.
    func afterChange(_ body: @escaping () -> Void) { onChange = body }

    /// Whether the classic side of an accessory is being paired.
    var isBridging: Bool { !bridging.isEmpty }

    // MARK: Changes

    func revoke(
        _ grant: Grant, reason: String, by requester: Requester, completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        let change = registry.ledger.revoking([grant])
        try commit(change.steps, removing: change.bonds, reason: reason, by: requester, completion: completion)
    }

    func remove(_ accessory: Accessory, reason: String, by requester: Requester, completion: @escaping () -> Void)
        throws(SetupError)
    {
        let ledger = registry.ledger
        let change =
            requester.user.map { ledger.revoking(ledger.grants(of: accessory.id, setUpBy: $0)) } ?? ledger.removing(accessory)
        try commit(change.steps, removing: change.bonds, reason: reason, by: requester, completion: completion)
    }

    func unpair(_ accessory: Accessory, reason: String, by requester: Requester, completion: @escaping () -> Void)
        throws(SetupError)
    {
        guard accessory.isBonded, accessory.address != nil else {
            throw .invalid("accessory", accessory.id, "is not paired")
        }
        try unpair(accessory, removingBond: true, reason: reason, by: requester, completion: completion)
    }

    /// The bond with an accessory has gone without a request.
    func bondLost(_ accessory: Accessory) throws(SetupError) {
        try unpair(
            accessory, removingBond: false, reason: "Bluetooth no longer has a bond with it: another program removed it",
            by: .daemon
        ) {}
    }

    private func unpair(
        _ accessory: Accessory, removingBond: Bool, reason: String, by requester: Requester, completion: @escaping () -> Void
    ) throws(SetupError) {
        let change = registry.ledger.unpairing(accessory)
        let line = AuditWriter.Line(.unpaired, accessory: accessory.id, why: reason)
        try commit(
            change.steps, removing: removingBond ? change.bonds : [], line: line, reason: reason, by: requester,
            completion: completion)
    }

    func setEnabled(_ grant: Grant, _ isEnabled: Bool, by requester: Requester) throws(SetupError) {
        guard grant.isEnabled != isEnabled else { return }
        var changed = grant
        changed.isEnabled = isEnabled
        try commit([.grant(changed)], reason: isEnabled ? "switched on" : "switched off", by: requester)
    }

    /// The time of a grant is over. It stays, and can be renewed, unless a rule has it removed.
    func end(_ grant: Grant, reason: String) throws(SetupError) {
        guard let granted = registry.ledger.granted(grant.accessory, to: grant.app) else { return }
        guard !registry.policy.limits(on: granted).contains(where: \.removesAtEnd) else {
            return try revoke(grant, reason: reason, by: .daemon)
        }
        var ended = grant
        ended.state = .unauthorized
        ended.terms.time = .ended(grant.terms.time.rules)
        try commit([.grant(ended)], reason: reason, by: .daemon)
        guard grant.isEnabled else { return }
        sessions.publish(SessionEvent(.accessDidEnd, accessory: GrantedAccessory(granted.accessory, ended)), to: grant.app)
    }

    /// Gives a grant another end.
    ///
    func setEnd(_ grant: Grant, _ time: TimeLimit, reason: String, by requester: Requester) throws(SetupError) {
        var renewed = grant
        renewed.terms.time = time
        if grant.terms.time.hasEnded {
            renewed.state = .authorized
            renewed.user = requester.user ?? grant.user
        }
        let line = AuditWriter.Line(.updated, app: grant.app, accessory: grant.accessory, why: reason)
        try commit([.grant(renewed)], line: grant.terms.time.hasEnded ? nil : line, reason: reason, by: requester)
    }

    /// Sets the most that the app may do.
    func setAccess(_ grant: Grant, _ ceiling: AccessLimit, by requester: Requester) throws(SetupError) {
        guard !grant.terms.descriptor.isKind else { throw .invalid("grant", grant.id, "is for a kind, which is heard alone") }
        guard ceiling != grant.terms.ceiling else { return }
        var changed = grant
        changed.terms.ceiling = ceiling
        let why = "access at most \(ceiling)"
        try commit(
            [.grant(changed)], line: AuditWriter.Line(.updated, app: grant.app, accessory: grant.accessory, why: why), reason: why,
            by: requester)
    }

    /// Excludes a device from a kind, or includes it again.
    func setExcluded(
        _ address: BluetoothAddress, _ isExcluded: Bool, from grant: Grant, by requester: Requester
    ) throws(SetupError) {
        var changed = grant
        guard grant.terms.descriptor.isKind else { throw .invalid("grant", grant.id, "is not for a kind") }
        guard changed.terms.excluded.contains(address.value) != isExcluded else {
            throw .invalid("address", address, isExcluded ? "is excluded already" : "is not excluded")
        }
        guard !isExcluded || changed.terms.excluded.count < Limits.excludedDevices else {
            throw .invalid("address", address, "\(Limits.excludedDevices) devices are excluded already")
        }
        changed.terms.excluded.formSymmetricDifference([address.value])
        let why = "\(isExcluded ? "excluded" : "included") \(address)"
        try commit(
            [.grant(changed)], line: AuditWriter.Line(.updated, app: grant.app, accessory: grant.accessory, why: why), reason: why,
            by: requester)
    }

    /// Renames an accessory for all apps (rule 14).
    ///
    /// - Parameter grant: the grant whose network is renamed too; the app renames it on the accessory.
    func rename(
        _ accessory: Accessory, to name: String, withNetworkOf grant: Grant? = nil, reason: String, by requester: Requester
    ) throws(SetupError) {
        var network: SSID?
        if let grant {
            network = SSID(name)
            guard let network else { throw .invalid("name", name, "a network name must be 1 to 32 bytes long") }
            if let other = registry.ledger.grant(onNetwork: network, to: grant.app), other.id != grant.id {
                throw .invalid("name", name, "is the network of another accessory of \(grant.app)")
            }
        }
        let steps = registry.ledger.renaming(accessory, to: name, network: network, of: grant)
        guard !steps.isEmpty else { return }
        let line = AuditWriter.Line(
            .renamed, accessory: accessory.id, why: "\(reason): “\(accessory.displayName)” is “\(name)” now")
        try commit(steps, line: line, reason: reason, by: requester)
        if let peer = accessory.peer { radio.setAlias(peer, name) }
    }

    /// Stores and publishes a change, then removes bonds without a holder.
    private func commit(
        _ steps: [Ledger.Step], removing peers: [BluetoothPeer] = [], finishing finished: [BondIntent] = [],
        line: AuditWriter.Line? = nil, reason: String, by requester: Requester, accepted: () -> Void = {},
        completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        let removals = peers.map(bonds.removalIntent)
        try registry.change(steps, adding: removals, finishing: finished, line: line, reason: reason, by: requester) {
            bonds.written(removals, finished: finished)
            accepted()
        }
        onChange?()
        bonds.removeBonds(of: removals, completion: completion)
    }

    // MARK: The app's confirmation

    /// Goes on with a picker that waits for the confirmation: with whether the classic side is to be paired first, and
    /// the network that no person has seen.
    typealias Continuation = (
        _ settings: AuthorizationSettings, _ requester: Requester, _ bridges: Bool, _ unseen: SSID?
    ) -> Void

    /// The app finishes an authorization that waits for its confirmation (rule 12). The result of bridging comes as an
    /// event.
    ///
    /// - Parameters:
    ///   - picker: the picker that waits for this confirmation, if one does.
    ///   - accepted: called between the checks and the first event.
    func finishAuthorization(
        _ session: Session, _ id: AccessoryID, settings: AuthorizationSettings,
        picker: (AccessoryID, AppID) throws(SetupError) -> Continuation?, accepted: () -> Void
    ) throws(SetupError) {
        if try repeatsNetwork(session, id, settings) { return accepted() }
        let (grant, accessory) = try awaiting(session, id, "FinishAuthorization")
        try DescriptorRules.check(settings, for: grant.terms.descriptor)
        let requester = sessions.requester(session)
        let goOn = try picker(id, grant.app)
        let unseen = settings.ssid == grant.terms.ssid ? nil : settings.ssid
        if let unseen, goOn == nil { throw Self.isUnseen(unseen) }
        let bridges = grant.terms.descriptor.supportedOptions.contains(.transportBridging) && accessory.peer != nil
        guard bridges || unseen != nil else {
            try authorize(grant, settings: settings, by: requester, accepted: accepted)
            goOn?(settings, requester, false, nil)
            return
        }
        guard !bridging.contains(id) else { throw .invalid("accessory", id, "is already being bridged") }
        accepted()
        if let goOn { return goOn(settings, requester, bridges, unseen) }
        confirm(GrantedAccessory(accessory, grant), settings, bridges: true, by: requester) { [weak self] failure in
            guard let self, let failure else { return }
            self.sessions.publish(
                SessionEvent(.pickerSetupFailed, accessory: GrantedAccessory(accessory, grant), error: failure), to: grant.app)
        }
    }

    func failAuthorization(_ session: Session, _ id: AccessoryID, completion: @escaping () -> Void) throws(SetupError) {
        let (grant, _) = try awaiting(session, id, "FailAuthorization")
        try revoke(grant, reason: "the app rejected the authorization", by: sessions.requester(session), completion: completion)
    }

    /// Whether an app says once more which network it has. Another one takes a person who sees its name.
    private func repeatsNetwork(
        _ session: Session, _ id: AccessoryID, _ settings: AuthorizationSettings
    ) throws(SetupError) -> Bool {
        guard session.state == .active, settings.bridgingAddress == nil, let ssid = settings.ssid,
            let grant = registry.ledger.grant(of: id, to: session.app.id), grant.state == .authorized,
            grant.terms.descriptor.wantsWiFi
        else { return false }
        if grant.terms.ssid == ssid { return true }
        try DescriptorRules.check(settings, for: grant.terms.descriptor)
        throw Self.isUnseen(ssid)
    }

    private static func isUnseen(_ ssid: SSID) -> SetupError {
        .invalid("settings.ssid", ssid, "no person has approved this network: show it in a picker (UpdateAuthorization)")
    }

    private func awaiting(_ session: Session, _ id: AccessoryID, _ request: String) throws(SetupError) -> (Grant, Accessory) {
        guard session.state == .active else { throw session.wrongState(request) }
        guard let grant = registry.ledger.grant(of: id, to: session.app.id), let accessory = registry.ledger.accessories[id] else {
            throw .invalid("accessory", id, "is not an accessory of \(session.app.id)")
        }
        guard grant.state == .awaitingAuthorization else {
            throw .invalid("accessory", id, "is not awaiting authorization: it is \(grant.state.rawValue)")
        }
        return (grant, accessory)
    }

    private func authorize(
        _ grant: Grant, settings: AuthorizationSettings, ownsClassicBond: Bool = false, finishing intents: [BondIntent] = [],
        by requester: Requester, accepted: () -> Void = {}
    ) throws(SetupError) {
        try commit(
            registry.ledger.authorizing(grant, settings: settings, ownsClassicBond: ownsClassicBond), finishing: intents,
            reason: "authorized", by: requester, accepted: accepted)
    }

    // MARK: The classic side

    /// Gives the app the accessory as it has confirmed it.
    ///
    /// - Parameters:
    ///   - bridges: whether the classic side is paired first. Nothing has changed when that fails.
    ///   - completion: called once, with why not.
    func confirm(
        _ granted: GrantedAccessory, _ settings: AuthorizationSettings, bridges: Bool, by requester: Requester,
        completion: @escaping (SetupError?) -> Void
    ) {
        if bridges, let peer = granted.accessory.peer {
            return bridge(granted.accessory, peer, settings, for: granted.grant, by: requester, completion: completion)
        }
        do throws(SetupError) {
            // Much may have happened while the person was asked.
            guard let grant = registry.ledger.grants[granted.grant.id], grant.state == .awaitingAuthorization else {
                throw SetupError(.connectionFailed, "the accessory was removed in the meantime")
            }
            try authorize(grant, settings: settings, by: requester)
            completion(nil)
        } catch {
            completion(error)
        }
    }

    private func bridge(
        _ accessory: Accessory, _ peer: BluetoothPeer, _ settings: AuthorizationSettings, for grant: Grant,
        by requester: Requester, completion: @escaping (SetupError?) -> Void
    ) {
        let intent: BondIntent?
        bridging.insert(accessory.id)
        do throws(SetupError) {
            intent = try bridgingIntent(settings.bridgingAddress, of: accessory, peer, for: grant)
        } catch {
            bridging.remove(accessory.id)
            return completion(error)
        }
        radio.bridge(peer, classic: settings.bridgingAddress) { [weak self] result in
            guard let self else { return }
            self.bridging.remove(accessory.id)
            do throws(SetupError) {
                guard case .success(let classic) = result else {
                    guard case .failure(let failure) = result else { return }
                    throw SetupError(.connectionFailed, failure.message)
                }
                // Revoked meanwhile; another app's grant must not change instead.
                guard let grant = self.registry.ledger.grants[grant.id], grant.state == .awaitingAuthorization else {
                    throw SetupError(.connectionFailed, "the accessory was removed in the meantime")
                }
                var settings = settings
                settings.bridgingAddress = classic
                try self.authorize(
                    grant, settings: settings, ownsClassicBond: intent != nil, finishing: intent.map { [$0] } ?? [], by: requester)
                completion(nil)
            } catch {
                self.log.warning("bridging failed", metadata: ["reason": "\(error.message)"])
                if let intent { self.bonds.removeBond(of: intent) {} }
                completion(error)
            }
        }
    }

    /// The classic side of another address becomes a bond of its own, stored before it is made; nil where it has been
    /// made for this accessory already.
    ///
    /// - Throws: `ConnectionFailed`, without the reason, for an address that is bonded as another accessory or by
    ///   another program: an app may name any address.
    private func bridgingIntent(
        _ classic: BluetoothAddress?, of accessory: Accessory, _ peer: BluetoothPeer, for grant: Grant
    ) throws(SetupError) -> BondIntent? {
        guard let classic, classic.value != peer.address.value else {
            // It gets another transport of the bond that is there, and where that has gone, a new one.
            guard radio.bond(with: peer, byValue: true) == nil else { return nil }
            let intent = BondIntent(peer, device: radio.device(for: peer), purpose: .pairing)
            try bonds.persist(intent)
            return intent
        }
        let side = BluetoothPeer(classic, adapter: peer.adapter)
        let isBonded = radio.bond(with: side, byValue: true) != nil
        if let earlier = grant.terms.classicAddress, earlier.value != classic.value, earlier.value != peer.address.value {
            throw .invalid("bridgingAddress", classic, "the accessory already has a different classic side")
        }
        if isBonded, registry.ledger.hasSide(classic, accessory.id) { return nil }
        guard !isBonded, registry.ledger.accessory(withSide: classic, besides: accessory.id) == nil else {
            throw SetupError(.connectionFailed, "the classic side could not be paired")
        }
        let intent = BondIntent(side, device: nil, purpose: .pairing)
        try bonds.persist(intent)
        return intent
    }
}

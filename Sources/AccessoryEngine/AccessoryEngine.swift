// SPDX-License-Identifier: Apache-2.0
// The engine's face: requests and events of the radios, each forwarded to its owner: `GrantRegistry`, `AccessChanges`,
// `BondKeeper`, `Sessions`, `PickerCoordinator`, `AccessoryNetworks`, `Explanations`, `AuditWriter`. It lives on one
// thread and is not Sendable, so the compiler keeps it there (Docs/Decisions/0003).

public import AccessoryCore
public import AccessoryModel
public import Logging

/// The daemon without a bus: apps' requests, the radios' events and the store meet here. Used on the main loop's thread
/// only.
public final class AccessoryEngine {
    /// Things an admin can set.
    public struct Configuration: Hashable, Sendable {
        /// The strength of `immediate`, dBm.
        public var nearness = Matcher.Nearness()
        /// How much of the time may be spent on searching for observed accessories, percent, 0 to 100.
        public var presenceDuty = 2
        /// The daemon's own settings.
        public init() {}
    }

    private let services: EngineServices
    private let pickers: PickerCoordinator
    private let pickerQueue: PickerQueue
    private let bondWatch: BondWatch
    private let removals: DelayedRemovals
    private let ends: GrantEnds
    private let networks: AccessoryNetworks
    private let hearing: Hearing
    private let presence: Presence
    private let explanations: Explanations

    /// - Throws: the store's error when it cannot be read.
    public init(
        radio: any Radio, networks networkRadio: any NetworkRadio, store: any LedgerStore, clock: any EngineClock,
        configuration: Configuration = Configuration(),
        trail: (any AuditTrail)? = nil, extensions: any DiscoveryExtensions = NoExtensions(), log: Logger
    ) throws {
        let ports = EnginePorts(radio: radio, networkRadio: networkRadio, extensions: extensions, clock: clock, log: log)
        services = try EngineServices(ports, store, trail, configuration.nearness)
        bondWatch = BondWatch(services)
        removals = DelayedRemovals(services)
        ends = GrantEnds(services)
        networks = AccessoryNetworks(services)
        hearing = Hearing(services)
        pickers = PickerCoordinator(services)
        pickerQueue = PickerQueue(services, pickers)
        explanations = Explanations(services, pickers)
        // The first listener: others read the result.
        services.publisher.listen { [hearing, ends] in
            guard case .access = $0 else { return }
            hearing.review()
            ends.review()
        }
        presence = Presence(services, hearing, networks, duty: configuration.presenceDuty)
    }

    /// Begins to follow the radios, and finishes the work of an earlier run as soon as Bluetooth is ready.
    public func start() {
        services.radio.observer = self
        services.networkRadio.observer = self
        services.radio.start()
        services.networkRadio.start()
        services.bonds.removeLeftovers()
        ends.start()
    }

    // MARK: State

    /// Adds a listener to all events, after those that exist.
    public func listen(_ listener: @escaping (EngineEvent) -> Void) { services.publisher.listen(listener) }

    /// Describes a client for the audit trail.
    public var describeClient: (ClientID) -> String {
        get { services.sessions.describe }
        set { services.sessions.describe = newValue }
    }

    /// All accessories and grants.
    public var ledger: Ledger { services.registry.ledger }
    /// The admin's rules.
    public var policy: AccessPolicy { services.registry.policy }
    /// The sessions that are open, by their numbers.
    public var sessions: [Int: Session] { services.sessions.all }
    /// At most one: there is one person (rule 7).
    public var picker: PickerRun? { pickers.run }
    /// Registered picker programs; the first shows the next picker.
    public var pickerPrograms: [PickerProgram] { pickers.programs.all }
    /// The Bluetooth adapters of the machine.
    public var adapters: [RadioAdapter] { services.radio.adapters }
    /// Whether Bluetooth can be used now.
    public var radioState: RadioState { services.radio.state }
    /// Whether Wi-Fi can be used now.
    public var networkRadioState: RadioState { services.networkRadio.state }

    /// The radio's name for an accessory, if it knows it now.
    public func device(of accessory: Accessory) -> RadioDeviceID? {
        accessory.peer.flatMap { services.radio.device(for: $0) }
    }

    /// The link with an accessory, as of the radio's last refresh.
    public func link(with accessory: Accessory) -> RadioLink {
        accessory.peer.map { services.radio.link(with: $0) } ?? RadioLink()
    }

    /// Reasons, for people, why granted apps cannot use an accessory, as of the radio's last look.
    ///
    /// - Parameter grants: the grants on it whose apps are named.
    public func problems(with accessory: Accessory, of grants: [Grant]) -> [String] {
        var problems: [String] = []
        if services.radio.state == .ready, let adapter = accessory.adapter,
            !services.radio.adapters.contains(where: { $0.address == adapter })
        {
            problems.append("the adapter that it was set up with, \(adapter), is missing")
        }
        problems += bondWatch.problems(with: accessory, of: grants)
        for grant in grants.sorted(by: { $0.app < $1.app }) {
            if let denial = services.registry.policy.denial(of: GrantedAccessory(accessory, grant)) {
                problems.append("rule \(denial.name) in \(denial.source) denies it to \(grant.app)")
            }
        }
        return problems
    }

    /// Has the radio look at its devices anew, before a request that speaks of devices which other programs may have
    /// paired.
    public func refreshBonds(_ completion: @escaping () -> Void) { services.radio.refresh(completion) }

    // MARK: Sessions

    /// A session for an app.
    ///
    /// - Parameter party: the user whose session it is.
    /// - Throws: `InvalidRequest` past `Limits.sessionsPerUser`.
    public func createSession(client: ClientID, app: AppManifest, party: Party) throws(SetupError) -> Session {
        try services.sessions.open(client, app, party)
    }

    /// - Parameter accepted: called between the checks and the first event.
    /// - Throws: `InvalidRequest` for one that is active, `Invalidated` for one that has ended.
    public func activate(_ session: Session, accepted: () -> Void = {}) throws(SetupError) {
        try services.sessions.activate(session, accepted: accepted)
        presence.activated(session)
    }

    /// Ends a session, and its picker; nothing happens to one that has ended.
    ///
    /// - Parameter accepted: called before the first event.
    public func invalidate(_ session: Session, reason: String, accepted: () -> Void = {}) {
        guard session.state != .invalidated else { return accepted() }
        services.log.info(
            "session \(session.state.rawValue) → invalidated",
            metadata: ["session": "\(session.id)", "app": "\(session.app.id)", "reason": "\(reason)"])
        accepted()
        pickers.sessionEnds(session)
        services.sessions.end(session)
        // It sees its accessories no longer, so it could not leave their networks either.
        networks.reviewHolders()
    }

    /// A connection has closed: its sessions end, and its picker.
    public func clientGone(_ client: ClientID) {
        for session in services.sessions.of(client) { invalidate(session, reason: "the app's connection closed") }
        pickers.programs.unregister(client)
        networks.reviewHolders()
    }

    // MARK: Pickers

    /// A program that shows pickers; one that is registered already may give itself another label.
    ///
    /// - Parameters:
    ///   - label: its name for people, which may be shown; nil keeps the present one.
    ///   - lease: seconds after which the registration ends unless renewed, see `Limits.pickerLease`; nil keeps the
    ///     present one, at first that it does not end.
    ///   - isUnattended: whether it answers without a person; nil keeps the present value, at first false.
    ///   - isStandby: whether no person can see it at the moment; nil keeps the present value, at first false.
    ///   - uid: its user; nil where that is not known.
    ///   - user: its user's account name, asked for of a program that is new.
    /// - Throws: `InvalidRequest` past `Limits.pickers`.
    public func registerPicker(
        _ client: ClientID, label: String? = nil, lease: Double? = nil, isUnattended: Bool? = nil, isStandby: Bool? = nil,
        uid: UInt32? = nil, user: @autoclosure () -> String = ""
    ) throws(SetupError) {
        try pickers.programs.register(
            client, label: label, lease: lease, isUnattended: isUnattended, isStandby: isStandby, uid: uid, user: user())
    }
    /// A picker program shows no more pickers; a picker that it shows goes to the next program, or ends (rule 17).
    public func unregisterPicker(_ client: ClientID) { pickers.programs.unregister(client) }

    /// Asks for a picker that finds accessories, takes known ones over, or both; without items, for one with the
    /// accessories that the app's extension finds (`ExtensionNotFound` where there is none).
    ///
    /// - Parameter answer: called once. The run comes between the checks and the first event. An error comes at once
    ///   (`InvalidRequest` for items that are not valid, `PickerAlreadyActive`, `PickerRestricted` without a radio or a
    ///   picker program, `UserRestricted` for items that the admin denies), unless `settings.waitForPicker` lets the
    ///   request wait for another app's picker to end, or for that which restricts pickers. After the person has
    ///   cancelled a picker of the app's, every request waits for a while. A request that waits ends with `Invalidated`
    ///   when its session does, with `UserCancelled` after `cancelPicker`, and with `UserRestricted` after `mute`.
    public func showPicker(
        _ session: Session, items: [DisplayItem], settings: PickerSettings,
        answer: @escaping (Result<PickerRun, SetupError>) -> Void
    ) {
        pickerQueue.request(session, "ShowPicker", wait: settings.waitForPicker, answer: answer) {
            [pickers] accepted throws(SetupError) in
            try pickers.show(session, items: items, settings: settings, accepted: accepted)
        }
    }

    /// Shows accessories that the app has looked at (rule 9).
    ///
    /// - Throws: `InvalidRequest` without such a picker, or for an accessory that was not discovered.
    public func updatePicker(_ session: Session, items: [DiscoveredItem]) throws(SetupError) {
        try pickers.update(session, items: items)
    }

    /// Ends a discovery that has offered nothing (rule 8).
    ///
    /// - Parameter accepted: called between the checks and the first event.
    /// - Throws: `InvalidRequest` without a picker that discovers.
    public func finishPickerDiscovery(_ session: Session, accepted: () -> Void = {}) throws(SetupError) {
        try pickers.finishDiscovery(session, accepted: accepted)
    }

    /// The app cancels its own picker of any kind, which ends as if the person had cancelled. A write in progress
    /// completes.
    ///
    /// - Parameter accepted: called between the checks and the first event.
    /// - Throws: `InvalidRequest` without a picker of this session, or a request for one that waits.
    public func cancelPicker(_ session: Session, accepted: () -> Void = {}) throws(SetupError) {
        if pickerQueue.callOff(session, accepted: accepted) { return }
        try pickers.callOff(session, accepted: accepted)
    }

    /// Has the person rename an accessory of the app's.
    ///
    /// - Parameter answer: as for `showPicker`; `InvalidRequest` for an accessory of another app.
    public func renameAccessory(
        _ session: Session, _ id: AccessoryID, options: RenameOptions,
        answer: @escaping (Result<PickerRun, SetupError>) -> Void
    ) {
        pickerQueue.request(session, "RenameAccessory", answer: answer) { [pickers] accepted throws(SetupError) in
            try pickers.renameAccessory(session, id, options: options, accepted: accepted)
        }
    }

    /// Has the person give an accessory of the app's the side that a new descriptor asks for.
    ///
    /// - Parameter answer: as for `showPicker`; `InvalidRequest` for an accessory of another app.
    public func updateAuthorization(
        _ session: Session, _ id: AccessoryID, descriptor: DiscoveryDescriptor,
        answer: @escaping (Result<PickerRun, SetupError>) -> Void
    ) {
        pickerQueue.request(session, "UpdateAuthorization", answer: answer) { [pickers] accepted throws(SetupError) in
            try pickers.updateAuthorization(session, id, descriptor: descriptor, accepted: accepted)
        }
    }

    /// Has the person give an app's grant that ends its time again, without pairing.
    ///
    /// - Parameter answer: as for `showPicker`; `InvalidRequest` for a grant that does not end, or whose accessory has
    ///   lost its pairing.
    public func renewAccess(
        _ session: Session, _ id: AccessoryID, options: RenewalOptions,
        answer: @escaping (Result<PickerRun, SetupError>) -> Void
    ) {
        pickerQueue.request(session, "RenewAccess", answer: answer) { [pickers] accepted throws(SetupError) in
            try pickers.renewAccess(session, id, options: options, accepted: accepted)
        }
    }

    /// The person picked an offer.
    ///
    /// - Parameter choice: the person's, about the terms.
    /// - Throws: `InvalidRequest` for an unknown offer, a choice that was not offered, or in another state.
    public func pick(_ run: PickerRun, offer: String, _ choice: PickChoice = PickChoice()) throws(SetupError) {
        try pickers.pick(run, offer: offer, choice)
    }

    /// The terms of the grant that a pick would make.
    public func terms(_ run: PickerRun, of offer: Offer) -> OfferTerms { run.terms(of: offer, ledger, policy) }

    /// The person answered a prompt.
    ///
    /// - Throws: `InvalidRequest` for an answer that fits no prompt.
    public func respond(_ run: PickerRun, answer: PromptAnswer) throws(SetupError) { try pickers.respond(run, answer: answer) }

    /// The person gave a name that `ShownName.check` accepts.
    ///
    /// - Throws: `InvalidRequest` when no name was asked for, or a network cannot have it.
    public func rename(_ run: PickerRun, to name: String) throws(SetupError) { try pickers.rename(run, to: name) }

    /// The person closed the picker.
    ///
    /// - Throws: `InvalidRequest` for one that has ended.
    public func cancel(_ run: PickerRun) throws(SetupError) { try pickers.cancel(run) }

    /// The person closed the picker, and does not want to be asked by its app again: its pickers are `UserRestricted`
    /// until `unmute`. Grants stay, and so do approvals by a rule.
    ///
    /// - Throws: `InvalidRequest` for one that has ended, `Unknown` when the store refuses.
    public func mute(_ run: PickerRun) throws(SetupError) { try pickers.mute(run) }

    /// Apps that may not ask, by their identifiers.
    public var mutedApps: [MutedApp] { services.mutedApps.all.values.sorted { $0.app < $1.app } }

    /// A muted app may ask again.
    ///
    /// - Throws: `InvalidRequest` for an app that is not muted, `Unknown` when the store refuses.
    public func unmute(_ app: AppID, by requester: Requester) throws(SetupError) {
        try services.mutedApps.unmute(app, by: requester)
    }

    /// The product image of an offer that is shown.
    ///
    /// - Throws: `InvalidRequest` for an unknown offer.
    public func image(_ run: PickerRun, offer id: String) throws(SetupError) -> ProductImage? {
        guard let offer = run.presentation.offers.first(where: { $0.id == id }) else {
            throw .invalid("offer", id, "is not offered")
        }
        return run.image(of: offer, ledger)
    }

    /// Whether there is a product image for an offer: the stored accessory's, or its item's.
    public func hasImage(_ run: PickerRun, offer: Offer) -> Bool { run.image(of: offer, ledger) != nil }

    // MARK: Accessories and grants

    /// Takes the caller's grant away (rule 13).
    ///
    /// - Parameter completion: called once the bond is gone too, where it goes.
    /// - Throws: `InvalidRequest` for an accessory of another app, `Unknown` when the store refuses.
    public func removeAccessory(_ session: Session, _ id: AccessoryID, completion: @escaping () -> Void) throws(SetupError) {
        guard session.state == .active else { throw session.wrongState("RemoveAccessory") }
        guard let grant = ledger.grant(of: id, to: session.app.id) else {
            throw .invalid("accessory", id, "is not an accessory of \(session.app.id)")
        }
        try services.access.revoke(
            grant, reason: "removed by the app", by: services.sessions.requester(session), completion: completion)
    }

    /// Takes a grant away.
    ///
    /// - Parameter completion: called once the bond is gone too, where it goes.
    /// - Throws: `Unknown` when the store refuses.
    public func revoke(
        _ grant: Grant, reason: String, by requester: Requester, completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        try services.access.revoke(grant, reason: reason, by: requester, completion: completion)
    }

    /// Removes an accessory and all its grants. For a person only the grants that they set up go; the accessory goes
    /// with the last grant.
    ///
    /// - Parameter completion: called once the bond is gone too, where it goes.
    /// - Throws: `Unknown` when the store refuses.
    public func remove(
        _ accessory: Accessory, reason: String, by requester: Requester, completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        try services.access.remove(accessory, reason: reason, by: requester, completion: completion)
    }

    /// As `remove` after a delay, in which apps can still use the accessory and `cancelRemoval` keeps it. A failure is
    /// only logged.
    ///
    /// - Parameter seconds: within `Limits.removalDelay`.
    /// - Throws: `InvalidRequest` for another delay.
    public func scheduleRemoval(
        of accessory: Accessory, in seconds: UInt32, reason: String, by requester: Requester
    ) throws(SetupError) {
        let delays = Limits.removalDelay
        guard delays.contains(seconds) else {
            throw .invalid("seconds", seconds, "must be \(delays.lowerBound) to \(delays.upperBound)")
        }
        removals.schedule(accessory, in: Double(seconds), reason: reason, by: requester)
    }

    /// Keeps an accessory that is to be removed.
    ///
    /// - Parameter user: the person whose removal it is; nil for that of admins.
    /// - Throws: `InvalidRequest` for one that is not.
    public func cancelRemoval(of accessory: Accessory, for user: UInt32?) throws(SetupError) {
        try removals.cancel(accessory, for: user)
    }

    /// The time at which an accessory is removed, in seconds since 1970; nil for one that stays.
    ///
    /// - Parameter user: the person whose removal it is; nil for that of admins.
    public func removalTime(of accessory: AccessoryID, for user: UInt32?) -> Int64? {
        removals.time(of: accessory, for: user)
    }

    /// Carries out the removals that are delayed still: before the daemon ends.
    public func finishRemovals() { removals.performAll() }

    /// Removes the bond with an accessory, whichever program has made it; grants stay, and are `unauthorized` until a
    /// person pairs it again.
    ///
    /// - Parameter completion: called once the bond is gone.
    /// - Throws: `InvalidRequest` for one that is not paired, `Unknown` when the store refuses.
    public func unpair(
        _ accessory: Accessory, reason: String, by requester: Requester, completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        try services.access.unpair(accessory, reason: reason, by: requester, completion: completion)
    }

    /// An admin's switch on a grant.
    ///
    /// - Throws: `Unknown` when the store refuses.
    public func setEnabled(_ grant: Grant, _ isEnabled: Bool, by requester: Requester) throws(SetupError) {
        try services.access.setEnabled(grant, isEnabled, by: requester)
    }

    /// An admin gives a grant another end, counted from now, or none. A grant that has ended is in force again.
    ///
    /// - Throws: `InvalidRequest` for a time of day on a machine that does not know the time, and for a grant whose
    ///   accessory has lost its pairing; `UserRestricted` for one that is switched off or denied; `Unknown` when the
    ///   store refuses.
    public func setEnd(_ grant: Grant, _ end: EndChoice, by requester: Requester) throws(SetupError) {
        if grant.state == .unauthorized { try PickerRequests.checkRenewal(of: grant) }
        let rules = end.rule.map { [$0] } ?? []
        try services.access.setEnd(
            grant, try services.time.limit(rules), reason: end.rule.map { "ends: \($0)" } ?? "does not end", by: requester)
    }

    /// An admin sets the most that the app may do, whichever access its descriptor asks for.
    ///
    /// - Throws: `InvalidRequest` for a kind; for wider access `UserRestricted` where the grant is switched off or
    ///   denied; `Unknown` when the store refuses.
    public func setAccess(_ grant: Grant, _ ceiling: AccessLimit, by requester: Requester) throws(SetupError) {
        try services.access.setAccess(grant, ceiling, by: requester)
    }

    /// When a grant ends, in seconds since 1970; nil for one that does not, or has ended.
    public func end(of grant: Grant) -> Int64? { services.time.end(of: grant) }

    /// Renames an accessory for all apps (rule 14).
    ///
    /// - Throws: `Unknown` when the store refuses.
    public func rename(
        _ accessory: Accessory, to name: String, reason: String, by requester: Requester
    ) throws(SetupError) {
        try services.access.rename(accessory, to: name, reason: reason, by: requester)
    }

    /// The app finishes an authorization that waits for its confirmation (rule 12). The result of bridging comes as an
    /// event.
    ///
    /// - Parameter accepted: called between the checks and the first event.
    /// - Throws: `InvalidRequest` for an accessory that does not wait, or settings that do not fit, `Unknown` when the
    ///   store refuses.
    public func finishAuthorization(
        _ session: Session, _ id: AccessoryID, settings: AuthorizationSettings, accepted: () -> Void = {}
    ) throws(SetupError) {
        try services.access.finishAuthorization(
            session, id, settings: settings, picker: pickers.awaitedConfirmation, accepted: accepted)
    }

    /// The app gives an accessory back that waits for its confirmation.
    ///
    /// - Parameter completion: called once the bond is gone too, where it goes.
    /// - Throws: `InvalidRequest` for an accessory that does not wait, `Unknown` when the store refuses.
    public func failAuthorization(_ session: Session, _ id: AccessoryID, completion: @escaping () -> Void) throws(SetupError) {
        try services.access.failAuthorization(session, id, completion: completion)
    }

    /// A link with an accessory came up for an app, and ended before the app could use it.
    ///
    /// - Returns: the likely reason and the way out, for people; nil for an accessory without a bond.
    public func linkEndedAtOnce(_ id: AccessoryID) -> String? { bondWatch.linkEndedAtOnce(id) }

    /// An app has used an accessory; nothing happens for one that is not the app's.
    public func recordUse(of accessory: AccessoryID, by app: AppID, requester: Requester, as what: String) {
        bondWatch.used(accessory)
        services.registry.recordUse(of: accessory, by: app, requester: requester, as: what)
    }

    /// An app was refused a use of an accessory that its grant does not open.
    ///
    /// - Parameter why: the use, and the access that the grant has.
    public func recordRefusedUse(of accessory: AccessoryID, by app: AppID, requester: Requester, why: String) {
        services.registry.recordRefusedUse(of: accessory, by: app, requester: requester, why: why)
    }

    /// Writes down when grants were last used: before the daemon ends.
    public func writeUses() {
        services.registry.writeUses()
        ends.storeAnchor()
    }

    // MARK: Rules, reasons and the trail

    /// The admin's policy has changed: denied accessories are neither offered nor reached any more.
    public func setPolicy(_ new: AccessPolicy) {
        services.registry.setPolicy(new)
        pickers.runner?.policyChanged()
    }

    /// The entries of claim lists that are used up.
    public var claims: Claims { services.registry.claims }

    /// Why a claim list approves nothing now; nil when it does.
    public func obstacle(to list: ClaimList) -> String? { claims.obstacle(to: list, now: services.clock.now) }

    /// Manifests have changed: each app may use only accessories that its manifest declares.
    public func setManifests(_ manifests: [AppID: AppManifest]) { services.registry.setManifests(manifests) }

    /// Whether an app may use an accessory now by a technology: its grant is switched on, stands and includes it, its
    /// manifest declares it, and no rule denies the accessory.
    public func mayUse(_ accessory: AccessoryID, _ app: AppID, by technology: Technology) -> Bool {
        services.registry.usable(accessory, to: app, by: technology) != nil
    }

    /// The accessories that an app may use now by Bluetooth.
    public func reachable(for app: AppID) -> [GrantedAccessory] {
        services.registry.ledger.accessories(of: app).compactMap {
            services.registry.usable($0.accessory.id, to: app, by: .bluetooth)
        }
    }

    // MARK: Kinds

    /// The apps with a client that uses the view now: devices of the apps' kinds are followed.
    public func setListening(_ apps: Set<AppID>) { hearing.setPresent(apps) }

    /// The addresses of the devices that an app hears now by its grants for kinds; nil for an app without one.
    public func heard(by app: AppID) -> [BluetoothAddress]? { hearing.members(of: app) }

    /// The devices that an app hears now by one grant, by their addresses; none while the app does not listen.
    public func heard(by grant: Grant) -> [HeardMember] { hearing.members(by: grant) }

    /// Excludes a device from a kind, or includes it again.
    ///
    /// - Parameter address: 48 bits, public or random.
    /// - Throws: `InvalidRequest` for a grant that is not for a kind, an address that is (not) excluded already, and
    ///   past `Limits.excludedDevices`; `Unknown` when the store refuses.
    public func setExcluded(
        _ address: BluetoothAddress, _ isExcluded: Bool, from grant: Grant, by requester: Requester
    ) throws(SetupError) {
        try services.access.setExcluded(address, isExcluded, from: grant, by: requester)
    }

    /// Looks around for some seconds with an app's items: those of its picker when it shows one, else `dryItems`; for
    /// an app with Wi-Fi also without items.
    ///
    /// - Throws: `InvalidRequest` without items, `PickerRestricted` when no radio could find any item.
    public func explain(
        _ app: AppManifest, dryItems: [DisplayItem], seconds: Double,
        completion: @escaping ([DisplayItem], [ExplainedDevice]) -> Void
    ) throws(SetupError) {
        try explanations.explain(app, dryItems: dryItems, seconds: seconds, completion: completion)
    }

    /// Records a line in the audit trail.
    public func record(
        _ event: AuditEntry.Event, app: AppID? = nil, accessory: AccessoryID? = nil, by requester: Requester, why: String
    ) {
        services.audit.record(event, app: app, accessory: accessory, by: requester, why: why)
    }

    /// Writes the lines that wait for the disk: before the daemon ends.
    public func flushAudit() { services.audit.flush() }

    /// The trail's lines, in pages of `count`, 1 or more.
    ///
    /// - Throws: the store's error.
    public func auditPages(_ query: AuditQuery, of count: Int) throws -> AuditPages { try services.audit.pages(query, of: count) }

    // MARK: Presence

    /// Begins or ends the observation of an accessory, or of a kind, of the app's. Its present state follows as an
    /// event, in this session.
    ///
    /// - Parameter accepted: called between the checks and the first event.
    /// - Throws: `InvalidRequest` for an accessory of another app, one that cannot be used, and past the limits;
    ///   `UserRestricted` where a rule denies it; `Unknown` when the store refuses.
    public func observePresence(
        _ session: Session, of id: AccessoryID, _ isObserved: Bool, accepted: () -> Void = {}
    ) throws(SetupError) {
        try presence.observe(session, id, isObserved, accepted: accepted)
    }

    /// Whether the accessory of an observed grant is in range; for a kind, whether a device is.
    public func isPresent(_ grant: Grant) -> Bool { presence.isPresent(grant.id) }

    // MARK: Networks

    /// Joins the network of an accessory for an app; the interface is the app's until it leaves, goes, or loses its
    /// grant.
    ///
    /// - Parameters:
    ///   - network: the network that the app means; nil for the accessory's.
    ///   - completion: called once, with why not.
    /// - Throws: `InvalidRequest` for a network that is not granted, `UserRestricted` where the admin denies it.
    public func joinNetwork(
        of id: AccessoryID, for client: ClientID, _ app: AppID, passphrase: NetworkJoin.Passphrase?, isHidden: Bool,
        network: SSID?, completion: @escaping (SetupError?) -> Void
    ) throws(SetupError) {
        try networks.join(
            id, for: client, app, passphrase: passphrase, isHidden: isHidden, network: network, completion: completion)
    }

    /// An app has done with an accessory's network. Nothing happens to one that it had not joined.
    ///
    /// - Parameter completion: called once the interface is given back, or where others use it still, at once.
    public func leaveNetwork(of id: AccessoryID, for client: ClientID, completion: @escaping () -> Void) {
        networks.leave(id, for: client, completion: completion)
    }

    /// The interface that is on an accessory's network now; nil when none is.
    ///
    /// - Parameter ssid: the network that is meant; nil for any that an app has joined for this accessory.
    public func networkInterface(of id: AccessoryID, on ssid: SSID?) -> String? { networks.interface(of: id, on: ssid) }

    /// Gives the interface back: before the daemon ends.
    public func leaveNetworks(_ completion: @escaping () -> Void) { networks.end(completion) }
}

// MARK: - Bluetooth

extension AccessoryEngine: RadioObserver {
    /// Publishes the state. When Bluetooth is ready, finishes earlier work; else a picker ends that can find nothing
    /// without it.
    public func radioChanged(_ state: RadioState, reason: String) {
        services.log.notice("Bluetooth is \(state.rawValue)", metadata: ["reason": "\(reason)"])
        services.publisher.publish(.bluetooth(state))
        presence.radioChanged()
        services.publisher.publish(.access)
        if state == .ready {
            services.bonds.removeLeftovers()
        } else {
            hearing.lostAll()
            pickers.runner?.radioLost(.bluetooth, "Bluetooth: \(reason)", pickers.requests)
        }
    }

    /// Announces the change, and removes the bonds that waited for an adapter which has come back.
    public func adaptersChanged() {
        services.publisher.publish(.adapters)
        deviceChanged(nil)
        if services.radio.state == .ready { services.bonds.removeLeftovers() }
    }

    /// Ends a picker that can find nothing without Bluetooth.
    public func discoveryFailed(_ failure: RadioFailure) {
        services.log.error("discovery failed", metadata: ["reason": "\(failure)"])
        presence.searchFailed()
        pickers.runner?.radioLost(.bluetooth, "discovery failed: \(failure)", pickers.requests)
    }

    /// Forwards them to the picker that searches, to explanations, and to apps that hear kinds.
    public func heard(_ changes: [HeardDevice]) {
        explanations.heard(changes)
        hearing.heard(changes)
        presence.heard(changes)
        pickers.runner?.heard(changes)
    }

    /// Withdraws the device's offer.
    public func lost(_ address: BluetoothAddress) {
        hearing.lost(address)
        pickers.runner?.deviceDropped(address)
    }
    /// Has the picker show it.
    public func pairingPrompted(_ prompt: PairingPrompt) { pickers.runner?.feed(.prompted(prompt)) }
    /// Reports it to the picker and the app.
    public func bridgingStarted() { pickers.runner?.feed(.bridgingStarted) }
    /// Goes on with the run that has paired, or was about to.
    public func pairingEnded(_ result: Result<PairedIdentity, RadioFailure>) { pickers.runner?.pairingEnded(result) }

    /// Publishes the change of the radio's object.
    public func deviceChanged(_ address: BluetoothAddress?) {
        let accessories = address.map { [ledger.accessory(at: $0)].compactMap(\.self) } ?? Array(ledger.accessories.values)
        for accessory in accessories { services.publisher.publish(.deviceChanged(of: accessory)) }
        // Strangers come and go all the time.
        if address == nil || !accessories.isEmpty { services.publisher.publish(.access) }
        presence.lookAtLinks(address)
        bondWatch.review(address)
    }
}

// MARK: - Wi-Fi

extension AccessoryEngine: NetworkRadioObserver {
    /// Publishes the state. Unless Wi-Fi is ready, a picker ends that can find nothing without it.
    public func networkRadioChanged(_ state: RadioState, reason: String) {
        services.log.notice("Wi-Fi is \(state.rawValue)", metadata: ["reason": "\(reason)"])
        services.publisher.publish(.wifi(state))
        if state != .ready { pickers.runner?.radioLost(.wifi, "Wi-Fi: \(reason)", pickers.requests) }
    }

    /// Ends a picker that can find nothing without Wi-Fi.
    public func scanFailed(_ failure: RadioFailure) {
        services.log.error("scanning for networks failed", metadata: ["reason": "\(failure)"])
        pickers.runner?.radioLost(.wifi, "scanning for networks failed: \(failure)", pickers.requests)
    }

    /// Forwards them to the picker that searches, and to explanations.
    public func heard(networks: [WiFiNetwork]) {
        explanations.heard(networks)
        pickers.runner?.heard(networks)
    }

    /// Forwards them to the picker that searches.
    public func heard(services: [AwareService]) { pickers.runner?.heard(services) }
    /// Notes it in the trail.
    public func earlierNetworkLeft(_ ssid: SSID) { networks.leftEarlier(ssid) }
    /// Publishes it to the apps on the network.
    public func networkLost(reason: String) { networks.gone(reason) }
}

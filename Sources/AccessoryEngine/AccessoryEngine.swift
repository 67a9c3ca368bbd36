// SPDX-License-Identifier: Apache-2.0
// The engine's face: requests and events of the radios, each forwarded to its owner: `GrantRegistry`, `AccessChanges`,
// `BondKeeper`, `Sessions`, `PickerCoordinator`, `AccessoryNetworks`, `Explanations`, `AuditWriter`. It lives on one
// thread and is not Sendable, so the compiler keeps it there (Docs/Decisions/0003). This file constructs the owners,
// and has the sessions and Bluetooth's events; the extensions in files beside it have the other requests.

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

    let services: EngineServices
    let pickers: PickerCoordinator
    let pickerQueue: PickerQueue
    let bondWatch: BondWatch
    let removals: DelayedRemovals
    let ends: GrantEnds
    let networks: AccessoryNetworks
    let hearing: Hearing
    let presence: Presence
    let explanations: Explanations

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
        explanations = Explanations(services, pickers, hearing)
        // The first listener: others read the result.
        services.publisher.listen { [weak hearing, weak ends] in
            guard case .access = $0 else { return }
            hearing?.review()
            ends?.review()
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
        presence.lost(address)
        hearing.lost(address)
        pickers.runner?.deviceDropped(address)
    }
    /// Has observed accessories searched for, or not.
    public func monitoringChanged() { presence.monitoringChanged() }
    /// Forwards it to those that observe the device.
    public func monitorChanged(_ address: BluetoothAddress) { presence.monitorChanged(address) }
    /// Has the device searched for again.
    public func monitorEnded(_ address: BluetoothAddress) { presence.lost(address) }
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

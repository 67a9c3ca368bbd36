// SPDX-License-Identifier: Apache-2.0
// The observed accessories: performs the effects of `PresenceMachine`, reports links, networks and adverts to it, and
// notifies apps: by an event in their sessions, or by a connection to the socket that starts them.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class Presence {
    private typealias Subject = PresenceMachine.Subject

    /// An observed grant, as far as it decides on presence.
    private struct Target: Hashable {
        let granted: GrantedAccessory
        let peer: BluetoothPeer?
        let ssid: SSID?

        var isKind: Bool { granted.grant.terms.descriptor.isKind }
        /// The patterns that its adverts have, and whether they miss none.
        var monitored: (patterns: [AdvertPattern], areComplete: Bool) {
            peer == nil && !isKind ? ([], false) : AdvertPattern.patterns(of: granted.grant.terms.descriptor)
        }
        var asked: PresenceMachine.Target {
            let descriptor = granted.grant.terms.descriptor
            return isKind ? .kind(atMost: descriptor.heardDevices) : .accessory(hasBluetooth: peer != nil)
        }
    }

    private let services: EngineServices
    private let hearing: Hearing
    private let networks: AccessoryNetworks
    private var machine: PresenceMachine
    private let queue = EventQueue<PresenceMachine.Event>()
    private var targets: [Int64: Target] = [:]
    private var byAddress: [BluetoothAddress: [Int64]] = [:]
    /// Grants that are observed from now on, or again, and whose state is not known yet.
    private var unpublished: Set<Int64> = []
    /// While a window is open.
    private var search: DiscoveryToken?
    private var timer: (any EngineTimer)?
    private var requests = Allowance()
    private let wakes: Wakes

    /// Requests of apps in the present minute.
    private struct Allowance {
        var minute = 0
        var used: [AppID: Int] = [:]
    }

    /// - Parameter duty: percent of the time that may be spent on searching, 0 to 100.
    init(_ services: EngineServices, _ hearing: Hearing, _ networks: AccessoryNetworks, duty: Int) {
        self.services = services
        self.hearing = hearing
        self.networks = networks
        machine = PresenceMachine(duty: duty)
        wakes = Wakes(services)
        services.publisher.listen { [weak self] event in
            switch event {
            case .access: self?.review()
            case .networkUseChanged: self?.lookAtNetworks()
            default: break
            }
        }
    }

    // MARK: Requests

    /// Begins or ends the observation of an accessory of the app's.
    func observe(_ session: Session, _ id: AccessoryID, _ isObserved: Bool, accepted: () -> Void) throws(SetupError) {
        let app = session.app.id
        guard session.state == .active else { throw session.wrongState("ObservePresence") }
        guard var grant = services.registry.ledger.grant(of: id, to: app), grant.isEnabled else {
            throw .invalid("accessory", id, "is not an accessory of \(app)")
        }
        if isObserved {
            if let denial = services.registry.ledger.granted(id, to: app).flatMap(services.registry.policy.denial) {
                throw SetupError(.userRestricted, "rule \(denial.name) in \(denial.source) denies it")
            }
            guard target(of: grant) != nil else { throw .invalid("accessory", id, "cannot be used: it is \(grant.state.rawValue)") }
        }
        if grant.isObserved != isObserved {
            try admit(app)
            guard !isObserved || services.registry.ledger.observed.count < Limits.observedGrants else {
                throw .invalid("accessory", id, "\(Limits.observedGrants) accessories are observed already")
            }
            grant.isObserved = isObserved
            let why = isObserved ? "its presence is observed" : "its presence is no longer observed"
            try services.registry.change(
                [.grant(grant)], line: AuditWriter.Line(.updated, app: app, accessory: id, why: why), reason: why,
                by: services.sessions.requester(session)
            ) { accepted() }
        } else {
            accepted()
            if isObserved, !unpublished.contains(grant.id) { tell(session, only: grant.id) }
        }
    }

    private func admit(_ app: AppID) throws(SetupError) {
        let minute = Int(services.clock.uptime / 60)
        if minute != requests.minute { requests = Allowance(minute: minute) }
        guard requests.used[app, default: 0] < Limits.observationsPerMinute else {
            throw .invalid("ObservePresence", app, "has made \(Limits.observationsPerMinute) requests in this minute")
        }
        requests.used[app, default: 0] += 1
    }

    /// A session has become active: it gets the present state of all that its app observes.
    func activated(_ session: Session) {
        wakes.activated(session.app.id)
        tell(session, only: nil)
    }

    private func tell(_ session: Session, only grant: Int64?) {
        guard session.state == .active else { return }
        for (id, target) in targets.sorted(by: { $0.key < $1.key })
        where target.granted.grant.app == session.app.id && (grant ?? id) == id && !unpublished.contains(id) {
            let states = machine.states(of: id)
            for (subject, state) in states { publish(target, subject.device, state, in: [session]) }
            // Of a kind without a device, this is the state.
            if states.isEmpty { publish(target, nil, PresenceState(isPresent: false, reason: .lost, rssi: nil), in: [session]) }
        }
    }

    /// Whether an accessory, or a device of a kind, is present now; false for a grant that is not observed.
    func isPresent(_ grant: Int64) -> Bool { machine.isPresent(grant) }

    // MARK: Targets

    /// The grant as an observed one; nil while the app may not use the accessory.
    private func target(of grant: Grant) -> Target? {
        let registry = services.registry
        let bluetooth = registry.usable(grant.accessory, to: grant.app, by: .bluetooth)
        let wifi = registry.usable(grant.accessory, to: grant.app, by: .wifi)
        guard let granted = bluetooth ?? wifi else { return nil }
        var bare = granted
        bare.grant.lastUsed = nil
        return Target(
            granted: bare, peer: bluetooth.flatMap { $0.address == nil ? nil : $0.accessory.peer },
            ssid: wifi?.grant.terms.ssid)
    }

    /// Looks at grants and rules anew.
    func review() {
        let observed = services.registry.ledger.observed
        guard !observed.isEmpty || !targets.isEmpty else { return }
        var new: [Int64: Target] = [:]
        for grant in observed { new[grant.id] = target(of: grant) }
        leaveKinds(new)
        guard new != targets else { return }
        let former = targets
        targets = new
        byAddress = [:]
        for (id, target) in new { if let peer = target.peer { byAddress[peer.address, default: []].append(id) } }
        hearing.setObserving(Set(new.values.filter(\.isKind).map(\.granted.grant.app)))
        // Its apps know the state from before, or none.
        unpublished = unpublished.union(new.keys.filter { former[$0]?.asked != new[$0]?.asked }).intersection(new.keys)
        monitor()
        services.radio.follow(new.sorted { $0.key < $1.key }.compactMap(\.value.peer))
        // A link that another program has made is known after a reading.
        if new.contains(where: { $0.value.peer != nil && former[$0.key]?.peer != $0.value.peer }) {
            services.radio.refresh { [weak self] in self?.begin() }
        } else {
            begin()
        }
        for id in Set(former.keys).union(new.keys) where former[id]?.asked != new[id]?.asked { changed(id) }
    }

    private func begin() {
        handle(.observing(targets.mapValues(\.asked), linked: Set(targets.filter { isLinked($0.value) }.keys)))
        handle(.radio(isReady: services.radio.state == .ready))
        monitoringChanged()
        for address in byAddress.keys where services.radio.isMonitored(address) { monitorChanged(address) }
        lookAtNetworks()
        let begun = unpublished.sorted()
        unpublished = []
        for id in begun {
            guard let target = targets[id] else { continue }
            for session in services.sessions.active(of: target.granted.grant.app) { tell(session, only: id) }
            if machine.isPresent(id) { wake(for: target) }
        }
    }

    /// Has the radio monitor the adverts of all targets. With more patterns than a monitor can have, it monitors none.
    private func monitor() {
        let patterns = Set(targets.values.flatMap(\.monitored.patterns))
        services.radio.monitor(patterns.count > AdvertPattern.limit ? [] : patterns.sorted())
    }

    /// Devices that a kind includes no more.
    private func leaveKinds(_ new: [Int64: Target]) {
        for (id, target) in new where target.isKind && targets[id].map({ $0 != target }) == true {
            let members = Set(hearing.members(by: target.granted.grant).map(\.address))
            for (subject, _) in machine.states(of: id) where subject.device.map(members.contains) == false {
                handle(.gone(subject))
            }
        }
    }

    private func changed(_ grant: Int64) {
        if let grant = services.registry.ledger.grants[grant] { services.publisher.publish(.presenceChanged(of: grant)) }
    }

    // MARK: The radios

    func radioChanged() { handle(.radio(isReady: services.radio.state == .ready)) }
    func searchFailed() { handle(.searchFailed) }

    func monitoringChanged() {
        let complete = targets.filter { $0.value.isKind && $0.value.monitored.areComplete }
        handle(.monitoring(kinds: services.radio.isMonitoring ? Set(complete.keys) : nil))
    }

    func monitorChanged(_ address: BluetoothAddress) {
        let isFound = services.radio.isMonitored(address)
        for subject in subjects(at: address) { handle(isFound ? .monitored(subject) : .gone(subject)) }
    }

    /// The radio has dropped the device, or the monitor that heard it is no more.
    func lost(_ address: BluetoothAddress) {
        guard !services.radio.isMonitored(address) else { return }
        for subject in subjects(at: address) { handle(.dropped(subject)) }
    }

    /// An observed accessory at this address, and devices of kinds.
    private func subjects(at address: BluetoothAddress) -> [Subject] {
        (byAddress[address] ?? []).map { Subject($0) }
            + hearing.grants(hearing: address).filter { targets[$0] != nil }.map { Subject($0, device: address) }
    }

    /// - Parameter address: nil for all.
    func lookAtLinks(_ address: BluetoothAddress?) {
        let concerned = address.map { byAddress[$0] ?? [] } ?? targets.keys.sorted()
        for id in concerned {
            guard let target = targets[id], target.peer != nil else { continue }
            handle(isLinked(target) ? .held(Subject(id), by: .link) : .released(Subject(id), by: .link))
        }
    }

    private func isLinked(_ target: Target) -> Bool {
        services.radio.state == .ready && target.peer.map { services.radio.link(with: $0).isConnected } == true
    }

    private func lookAtNetworks() {
        for (id, target) in targets {
            guard let ssid = target.ssid else { continue }
            let isJoined = networks.interface(of: target.granted.accessory.id, on: ssid) != nil
            handle(isJoined ? .held(Subject(id), by: .network) : .released(Subject(id), by: .network))
        }
    }

    /// Takes in adverts, after `Hearing` has.
    func heard(_ changes: [HeardDevice]) {
        guard !targets.isEmpty else { return }
        for change in changes where change.content?.isConnected != true {
            for subject in subjects(at: change.address) {
                let wasPresent = machine.isPresent(subject)
                handle(.heard(subject, rssi: change.rssi))
                // A monitor may have found a device of a kind before its adverts were read.
                if !wasPresent, services.radio.isMonitored(change.address) { handle(.monitored(subject)) }
            }
        }
    }

    // MARK: The machine

    private func handle(_ event: PresenceMachine.Event) {
        queue.add(event) { event in
            for effect in machine.handle(event, now: services.clock.uptime) { perform(effect) }
        }
    }

    private func perform(_ effect: PresenceMachine.Effect) {
        switch effect {
        case .publish(let subject, let state): publish(subject, state)
        case .beginSearch:
            services.log.debug("presence: a window begins")
            search = services.radio.discover()
        case .endSearch:
            services.log.debug("presence: the window ends")
            search = nil
        case .setTimer(let time):
            timer?.cancel()
            timer = services.clock.after(max(0, time - services.clock.uptime)) { [weak self] in self?.handle(.due) }
        case .cancelTimer:
            timer?.cancel()
            timer = nil
        }
    }

    private func publish(_ subject: Subject, _ state: PresenceState) {
        guard let target = targets[subject.grant] else { return }
        let granted = target.granted
        services.log.debug(
            "presence changed",
            metadata: [
                "app": "\(granted.grant.app)", "accessory": "\(granted.accessory.id)", "present": "\(state.isPresent)",
                "reason": "\(state.reason.rawValue)", "device": "\(subject.device.map { "\($0)" } ?? "-")",
            ])
        changed(subject.grant)
        guard !unpublished.contains(subject.grant) else { return }
        let sessions = services.sessions.active(of: granted.grant.app)
        publish(target, subject.device, state, in: sessions)
        if state.isPresent { wake(for: target) }
    }

    /// Starts an app without a session.
    private func wake(for target: Target) {
        let app = target.granted.grant.app
        guard services.sessions.active(of: app).isEmpty, let manifest = services.registry.manifests[app] else { return }
        wakes.appeared(manifest) { [weak self] in
            guard let self else { return false }
            return self.targets.contains { $0.value.granted.grant.app == manifest.id && self.machine.isPresent($0.key) }
        }
    }

    private func publish(_ target: Target, _ device: BluetoothAddress?, _ state: PresenceState, in sessions: [Session]) {
        // As it is now: the target has no last use.
        let granted =
            services.registry.ledger.granted(target.granted.accessory.id, to: target.granted.grant.app) ?? target.granted
        var event = SessionEvent(.presenceChanged, accessory: granted)
        event.presence = PresenceNews(state: state, device: device)
        for session in sessions { services.publisher.publish(.event(event, in: session)) }
    }
}

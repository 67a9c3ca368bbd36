// SPDX-License-Identifier: Apache-2.0
// The machine's Wi-Fi as the engine's network radio. Three services may serve it, one above another: the interface
// belongs to the first of NetworkManager, iwd and wpa_supplicant that manages it, and is followed when it changes
// hands. Scans run only while somebody needs them, one after the other with a pause between. What joining has changed
// is on disk before it is changed.

public import AccessoryEngine
public import AccessoryModel
public import DBusKit
public import Logging

/// The machine's Wi-Fi by NetworkManager, iwd or wpa_supplicant, on one interface at a time.
public final class WiFiRadio: NetworkRadio {
    /// Held weakly; told on the main loop's thread.
    public weak var observer: (any NetworkRadioObserver)?
    /// Of the interface in use; `absent` until all services were looked for.
    public private(set) var state = RadioState.absent
    /// Whether the state is known rather than assumed: all services were looked for.
    public var isSettled: Bool { services.allSatisfy(\.isSettled) && awareSearch.isSettled }

    private let connection: Connection
    private let log: Logger
    private let preferredInterface: String?
    private let routeDirectory: String
    private let journal: any JoinJournal
    /// In the order of their rights.
    private let services: [any WiFiService]
    private let server: ObjectServer
    private let awareSearch: AwareSearch
    private var selected: Selected?

    private struct Look: ~Copyable {
        let need: DiscoveryToken
        let scanned: Awaited<Void>
    }

    private struct Selected: Equatable {
        let service: any WiFiService
        let owner: String?
        let interface: String
        let state: RadioState

        static func == (a: Self, b: Self) -> Bool {
            a.service === b.service && a.owner == b.owner && a.interface == b.interface && a.state == b.state
        }
    }

    // Scanning.
    private var needs: [Int: (names: [SSID], aware: [WiFiAware])] = [:]
    private var needsMade = 0
    /// Counted up with every change of what is scanned with: answers to older questions do not count.
    private var round = 0
    private var isScanning = false
    private var pause: LoopSource?
    /// Nil before the first scan.
    private var survey: Survey?
    private var failures = 0
    /// When the first of them began.
    private var failing: Int64 = 0
    private var refusals = 0

    // Joining.
    private var record: JoinRecord?
    /// The network of a run of the daemon that has ended without leaving it, until it is left.
    private var earlierNetwork: SSID?
    /// The record is of a run that has ended without giving the interface back.
    private var isFromEarlierRun = false
    private var isJoining = false
    /// A join that waits for a scan.
    private var looking: Look?
    private var isRestoring = false
    private var afterRestoring: [() -> Void] = []
    private let anotherRestore: Retry

    /// Between the end of a scan and the next: the interface has other things to do, too.
    private static let betweenScans = Duration.seconds(2)
    /// How often a scan may fail before the need for it is given up.
    private static let failuresAllowed = 5
    /// For how many microseconds: a service that does not answer takes its time for each, and the person waits.
    private static let failingAllowed: Int64 = 20_000_000

    /// - Parameters:
    ///   - connection: one of the radio's own: NetworkManager binds a joined network to it.
    ///   - interface: the interface's name (`wlan1`); nil for the only one, or the first that does not lead to the
    ///     default route.
    ///   - routeDirectory: where the kernel's routing tables are.
    public init(
        on connection: Connection, interface: String?, routeDirectory: String = "/proc/1/net", journal: any JoinJournal, log: Logger
    ) throws(BusError) {
        self.connection = connection
        self.log = log
        self.journal = journal
        self.routeDirectory = routeDirectory
        preferredInterface = interface
        anotherRestore = Retry(2...64, connection.loop.once)
        server = ObjectServer(on: connection, root: "/org/accessorysetup1/networkagent")
        let supplicant = Supplicant(on: connection, log: log)
        let iwd = try IWD(on: connection, server: server, log: log)
        services = [NetworkManager(on: connection, over: iwd, or: supplicant, log: log), iwd, supplicant]
        awareSearch = AwareSearch(supplicant, log: log)
        connection.onCall = { [server] in server.serve($0) }
    }

    /// Reads the record of an earlier run's network and follows the services; that network is left once its service
    /// is there.
    public func start() {
        do { record = try journal.read() } catch { log.error("the record of a joined network cannot be read: \(error)") }
        // On the bus of another boot somebody else may have the name of the service of then, and its objects the paths.
        if let bus = record?.bus, bus != "", bus != connection.busIdentifier { record?.owner = "" }
        isFromEarlierRun = record != nil
        earlierNetwork = record?.ssid
        awareSearch.onServices = { [weak self] in self?.observer?.heard(services: $0) }
        awareSearch.onChange = { [weak self] in self?.awareSearch.use(self?.selected?.interface) }
        for service in services {
            service.onChange = { [weak self] in self?.select() }
            service.onLost = { [weak self, weak service] reason in
                guard let self, let service, self.record?.service == service.busName, !self.isJoining, !self.isRestoring
                else { return }
                self.log.notice("the joined network is gone", metadata: ["reason": "\(reason)"])
                // A service that is gone is asked once it is back: iwd remembers.
                if service.owner == nil { self.isFromEarlierRun = true } else { self.restore {} }
                self.observer?.networkLost(reason: reason)
            }
            service.start()
        }
    }

    /// Nil while wpa_supplicant with unsynchronized service discovery serves the interface.
    public var awareObstacle: String? { awareSearch.obstacle(on: selected?.interface) }

    // MARK: Which interface, and whose

    private func select() {
        guard services.allSatisfy(\.isSettled) else { return }
        let new = choose()
        guard new != selected else { return finishEarlierRun() }
        let old = selected
        selected = new
        if old?.service !== new?.service || old?.interface != new?.interface {
            log.info(
                "Wi-Fi interface",
                metadata: ["interface": "\(new?.interface ?? "none")", "service": "\(new?.service.name ?? "none")"])
        }
        let reason: String
        switch new?.state {
        case .ready: reason = "\(new?.service.name ?? "") serves \(new?.interface ?? "")"
        case .off: reason = "\(new?.interface ?? "") is switched off"
        case .absent, nil:
            let wanted = preferredInterface.map { "\($0) is managed by no Wi-Fi service" }
            reason = wanted ?? old.map { "\($0.service.name) or its interface is gone" } ?? "no service manages an interface"
        }
        let before = state
        state = new?.state ?? .absent
        // What ran, ran elsewhere.
        restartScanning()
        awareSearch.use(new?.interface)
        finishEarlierRun()
        if state != before { observer?.networkRadioChanged(state, reason: reason) }
    }

    private func choose() -> Selected? {
        var owners: [String: any WiFiService] = [:]
        for service in services {
            var manages = service.interfaces.isEmpty
            for name in service.interfaces.keys where owners[name] == nil {
                owners[name] = service
                manages = true
            }
            service.isShadowed = !manages
        }
        func selected(_ name: String) -> Selected? {
            owners[name].map { Selected(service: $0, owner: $0.owner, interface: name, state: $0.interfaces[name] ?? .absent) }
        }
        if let preferredInterface { return selected(preferredInterface) }
        // What is joined stays where it is.
        if let record, isJoining || record.joined != "", let selected = selected(record.interface) { return selected }
        let names = owners.keys.sorted()
        guard names.count > 1 else { return names.first.flatMap(selected) }
        let uplinks = DefaultRoute.interfaces(in: routeDirectory)
        return (names.first { !uplinks.contains($0) } ?? names.first).flatMap(selected)
    }

    // MARK: Scanning

    /// Scans the interface in use over and over until all tokens are gone, with a pause after each scan.
    public func scan(asking names: [SSID], aware: [WiFiAware]) -> DiscoveryToken {
        needsMade += 1
        let number = needsMade
        needs[number] = (names, aware)
        if needs.count == 1 {
            // Routes may have changed since somebody looked.
            select()
            if !isScanning { restartScanning() }
        }
        awareSearch.look(for: needs.values.flatMap(\.aware))
        return DiscoveryToken { [weak self] in
            guard let self else { return }
            self.needs[number] = nil
            self.awareSearch.look(for: self.needs.values.flatMap(\.aware))
            if self.needs.isEmpty { self.restartScanning() }
        }
    }

    private func restartScanning() {
        round += 1
        isScanning = false
        failures = 0
        refusals = 0
        pause?.cancel()
        pause = nil
        scanNow()
    }

    private func scanNow() {
        guard !needs.isEmpty, !isScanning, let selected, selected.state == .ready else { return }
        isScanning = true
        let round = round
        let begun = connection.loop.now
        var names: [SSID] = []
        for name in needs.values.flatMap(\.names) where !names.contains(name) { names.append(name) }
        selected.service.scan(selected.interface, asking: names) { [weak self] result in
            guard let self, self.round == round else { return }
            self.isScanning = false
            switch result {
            case .success(let accessPoints):
                self.failures = 0
                self.refusals = 0
                self.survey = Survey(of: accessPoints, ended: self.connection.loop.now)
                self.observer?.heard(networks: WiFiNetwork.merged(accessPoints))
                self.looking?.scanned.end(())
                self.scanAgain(after: Self.betweenScans)
            case .failure(.busy):
                // Somebody else's scan, or a limit on how often: longer and longer pauses, up to what services ask for.
                // Counted no further than that: the pause doubles each time.
                self.refusals = min(self.refusals + 1, 5)
                self.scanAgain(after: .milliseconds(min(500 << self.refusals, 10_000)))
            case .failure(.failed(let reason)):
                if self.failures == 0 { self.failing = begun }
                self.failures += 1
                self.log.info("a scan failed", metadata: ["reason": "\(reason)", "attempt": "\(self.failures)"])
                let isLong = self.connection.loop.now - self.failing >= Self.failingAllowed
                guard self.failures < Self.failuresAllowed, !isLong else {
                    self.observer?.scanFailed(RadioFailure(.other, reason))
                    return
                }
                self.scanAgain(after: .seconds(1))
            }
        }
    }

    private func scanAgain(after delay: Duration) {
        // Reporting may have ended the need.
        guard !needs.isEmpty, pause?.isActive != true else { return }
        pause = connection.loop.after(delay) { [weak self] in
            self?.pause = nil
            self?.scanNow()
        }
    }

    // MARK: Joining

    /// Joins a network on the interface in use; waits first while an earlier one is being left.
    public func join(_ join: NetworkJoin, completion: @escaping (Result<String, RadioFailure>) -> Void) {
        if isRestoring { return afterRestoring.append { [weak self] in self?.join(join, completion: completion) } }
        guard let selected, selected.state == .ready else {
            return completion(.failure(RadioFailure(.unavailable, "Wi-Fi is \(state.rawValue)")))
        }
        // What could not be given back, first.
        if isFromEarlierRun, anotherRestore.isWaiting {
            return restore { [weak self] in
                guard let self else { return }
                guard self.record == nil else {
                    return completion(.failure(RadioFailure(.other, "the Wi-Fi interface is not given back yet")))
                }
                self.join(join, completion: completion)
            }
        }
        // The service of an earlier run's network is gone: nothing is there to be given back.
        if isFromEarlierRun { record = nil }
        isFromEarlierRun = false
        guard record == nil, !isJoining else {
            return completion(.failure(RadioFailure(.other, "the Wi-Fi interface is on an accessory's network already")))
        }
        isJoining = true
        let begun = connection.loop.now
        look(for: join) { [weak self] in self?.join(join, by: selected, begun: begun, completion: completion) }
    }

    /// Scans, unless a recent scan has heard the network, and continues after that; or after some seconds, where the
    /// service has other things to do than to scan.
    private func look(for join: NetworkJoin, then next: @escaping () -> Void) {
        guard survey?.hasTarget(of: join, now: connection.loop.now) != true else { return next() }
        survey = nil
        let need = scan(asking: join.isHidden ? [join.ssid] : [], aware: [])
        let scanned = Awaited<Void>(connection.loop, timeout: WiFiTimes.look, late: ()) { [weak self] in
            self?.looking = nil
            next()
        }
        looking = Look(need: need, scanned: scanned)
    }

    private func join(
        _ join: NetworkJoin, by chosen: Selected, begun: Int64, completion: @escaping (Result<String, RadioFailure>) -> Void
    ) {
        // A vain attempt would take the machine off its own network.
        let change = chosen == selected ? nil : RadioFailure.serviceGone
        if let failure = change ?? survey?.obstacle(to: join, now: connection.loop.now) {
            isJoining = false
            return completion(.failure(failure))
        }
        let note: (JoinRecord) throws -> Void = { [weak self] record in
            guard let self else { return }
            self.record = record
            self.record?.bus = connection.busIdentifier
            try journal.write(self.record)
        }
        let done = { [weak self] (failure: RadioFailure?) in
            guard let self else { return }
            guard let failure else {
                self.isJoining = false
                return completion(.success(chosen.interface))
            }
            self.log.info("a network was not joined", metadata: ["reason": "\(failure)"])
            self.explain(failure, of: join, by: chosen, begun: begun) { reason in
                self.isJoining = false
                self.restore { completion(.failure(reason)) }
            }
        }
        chosen.service.join(join, on: chosen.interface, begun: begun, note: note) { [weak self] result in
            switch result {
            case .success: self?.verify(join, on: chosen, completion: done)
            case .failure(let failure): done(failure)
            }
        }
    }

    /// Replaces the failure of a join by a reason from the access points heard since it began, if they rule it out: a
    /// service that does not scan when it is asked to, scans when it joins.
    private func explain(
        _ failure: RadioFailure, of join: NetworkJoin, by chosen: Selected, begun: Int64,
        completion: @escaping (RadioFailure) -> Void
    ) {
        guard let path = chosen.service.paths[chosen.interface] else { return completion(failure) }
        chosen.service.read(path, since: begun) { [loop = connection.loop] result in
            let survey = (try? result.get()).map { Survey(of: $0, ended: loop.now) }
            completion(survey?.obstacle(to: join, now: loop.now) ?? failure)
        }
    }

    /// The service says that it has joined: was it the network that the join was for?
    ///
    /// - Parameter completion: gets why not, or nil.
    private func verify(_ join: NetworkJoin, on chosen: Selected, completion: @escaping (RadioFailure?) -> Void) {
        guard let path = chosen.service.paths[chosen.interface] else { return completion(.serviceGone) }
        chosen.service.readCurrent(path) { [name = chosen.service.name] current in
            guard let current, let security = current.security else {
                return completion(RadioFailure(.other, "\(name) does not say which network it has joined"))
            }
            guard current.ssid == join.ssid, join.suits(security) else {
                return completion(
                    RadioFailure(.other, "\(name) has joined another network: \(current.ssid) (\(security.rawValue))"))
            }
            completion(nil)
        }
    }

    /// Gives the interface back, where it is on an accessory's network.
    public func leave(completion: @escaping () -> Void) {
        if isRestoring { return afterRestoring.append(completion) }
        restore(completion)
    }

    private func restore(_ completion: @escaping () -> Void) {
        guard let record else { return completion() }
        isRestoring = true
        isFromEarlierRun = false
        anotherRestore.stop()
        let service = services.first { $0.busName == record.service }
        let done = { [weak self] (isRestored: Bool) in
            guard let self, self.isRestoring else { return }
            self.isRestoring = false
            if isRestored {
                if let network = self.earlierNetwork { self.observer?.earlierNetworkLeft(network) }
                self.earlierNetwork = nil
                self.dropRecord()
            } else {
                self.restoreLater()
            }
            let waiting = self.afterRestoring
            self.afterRestoring = []
            completion()
            for body in waiting { body() }
            self.select()
        }
        guard let service else { return done(true) }
        service.restore(record, completion: done)
    }

    private func dropRecord() {
        record = nil
        anotherRestore.end()
        do { try journal.write(nil) } catch {
            log.error("the record of the joined network could not be dropped: \(error)")
        }
    }

    /// The service has not taken back all that is in the record, which stays: again after longer and longer pauses, at
    /// the next start, or when the service has come back.
    private func restoreLater() {
        log.warning("the interface is not given back yet")
        isFromEarlierRun = true
        anotherRestore.later { [weak self] in self?.finishEarlierRun() }
    }

    /// What an earlier run of the daemon has joined goes, as soon as its service is there.
    private func finishEarlierRun() {
        guard let record, isFromEarlierRun, !isRestoring, !anotherRestore.isWaiting,
            let service = services.first(where: { $0.busName == record.service })
        else { return }
        guard let owner = service.owner else { return service.restoreBelow(record) }
        // Not before the interface is there, too; unless it is another service by now, which knows nothing of it.
        guard service.paths[record.interface] != nil || owner != record.owner else { return }
        log.notice("giving back the interface that an earlier run had", metadata: ["interface": "\(record.interface)"])
        restore {}
    }

}

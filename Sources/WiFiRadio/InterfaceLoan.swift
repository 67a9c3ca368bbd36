// SPDX-License-Identifier: Apache-2.0
// Performs the effects of `LoanMachine`: joins by a service, checks the result, and keeps the record on disk.

internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit
internal import Logging

/// The interface that a service serves now.
struct SelectedInterface: Equatable {
    let service: any WiFiService
    let owner: String?
    let name: String
    let state: RadioState

    static func == (a: Self, b: Self) -> Bool {
        a.service === b.service && a.owner == b.owner && a.name == b.name && a.state == b.state
    }
}

/// Joins, leaves and restores, one network at a time.
final class InterfaceLoan {
    typealias Completion = (Result<String, RadioFailure>) -> Void

    /// The network of an earlier run was left.
    var onEarlierLeft: ((SSID) -> Void)?
    /// An interface may have become free.
    var onRestored: (() -> Void)?
    /// The interface in use.
    var selected: () -> SelectedInterface? = { nil }
    private var machine = LoanMachine()
    private let loop: MainLoop
    private let log: Logger
    private let bus: String
    private let journal: any JoinJournal
    private let services: [any WiFiService]
    private let scanner: Scanner
    private let retry: Retry
    private var pending: [LoanMachine.Ticket: (join: NetworkJoin?, completion: Completion)] = [:]

    /// - Parameters:
    ///   - bus: the identity of the bus. Another bus has given the same names and paths to other programs and objects.
    ///   - services: each may have a record.
    init(
        _ loop: MainLoop, bus: String, journal: any JoinJournal, services: [any WiFiService], scanner: Scanner, log: Logger
    ) {
        self.loop = loop
        self.bus = bus
        self.journal = journal
        self.services = services
        self.scanner = scanner
        self.log = log
        retry = Retry(2...64, loop.once)
    }

    /// The interface that must stay selected.
    var interface: String? { machine.interface }

    /// Reads an earlier run's record.
    func start() {
        do {
            guard var record = try journal.read() else { return }
            if record.bus != "", record.bus != bus { record.owner = "" }
            handle(.found(record))
        } catch { log.error("cannot read the record of a joined network: \(error)") }
    }

    func join(_ join: NetworkJoin, completion: @escaping Completion) {
        if case .restoring = machine.state { return handle(.join(ticket(join, completion))) }
        if let obstacle { return completion(.failure(obstacle)) }
        handle(.join(ticket(join, completion)))
    }

    private var obstacle: RadioFailure? {
        let state = selected()?.state ?? .absent
        return state == .ready ? nil : RadioFailure(.unavailable, "Wi-Fi is \(state.rawValue)")
    }

    func leave(completion: @escaping () -> Void) { handle(.leave(ticket(nil) { _ in completion() })) }

    /// - Returns: whether this was the joined network.
    func lost(by service: any WiFiService) -> Bool {
        guard case .joined(let record) = machine.state, record.service == service.busName else { return false }
        handle(.lost(isServiceGone: service.owner == nil))
        return true
    }

    /// Undoes an owed record, if its service can do so now.
    func restoreOwed() {
        guard case .owed(let record, isPausing: false) = machine.state,
            let service = services.first(where: { $0.busName == record.service })
        else { return }
        guard let owner = service.owner else { return service.forgetUnderlying(record) }
        // Not before the interface has appeared, too; except where the service was restarted, and has forgotten it.
        guard service.interfaces[record.interface] != nil || owner != record.owner else { return }
        log.notice("restoring the interface of an earlier join", metadata: ["interface": "\(record.interface)"])
        handle(.canRestore)
    }

    private func ticket(_ join: NetworkJoin?, _ completion: @escaping Completion) -> LoanMachine.Ticket {
        let ticket = (pending.keys.max() ?? 0) + 1
        pending[ticket] = (join, completion)
        return ticket
    }

    private func handle(_ event: LoanMachine.Event) {
        for effect in machine.handle(event) {
            switch effect {
            case .join(let ticket): join(ticket)
            case .answer(let ticket, let failure): answer(ticket, failure)
            case .restore(let record): restore(record)
            case .dropRecord:
                retry.finish()
                write(nil)
            case .pause:
                log.warning("the interface has not been restored yet")
                retry.schedule { [weak self] in
                    self?.handle(.pauseOver)
                    self?.restoreOwed()
                }
            case .reportEarlier(let network): onEarlierLeft?(network)
            }
        }
    }

    private func answer(_ ticket: LoanMachine.Ticket, _ failure: RadioFailure?) {
        guard let (_, completion) = pending.removeValue(forKey: ticket) else { return }
        completion(failure.map { .failure($0) } ?? .success(machine.record?.interface ?? ""))
    }

    @discardableResult
    private func write(_ record: JoinRecord?) -> RadioFailure? {
        do { try journal.write(record) } catch {
            if record == nil { log.error("could not delete the record of the joined network: \(error)") }
            return RadioFailure(.other, "could not store the record of the joined network: \(error)")
        }
        return nil
    }

    private func restore(_ record: JoinRecord) {
        retry.cancel()
        let done = { [weak self] (isRestored: Bool) in
            guard let self else { return }
            self.handle(.restored(isRestored))
            self.onRestored?()
        }
        guard let service = services.first(where: { $0.busName == record.service }) else { return done(true) }
        service.restore(record, completion: done)
    }

    // MARK: Joining

    private func join(_ ticket: LoanMachine.Ticket) {
        guard let join = pending[ticket]?.join else { return }
        guard let chosen = selected(), obstacle == nil else { return handle(.joinEnded(obstacle ?? .serviceGone)) }
        let begun = loop.now
        scanner.look(for: join) { [weak self] obstacle in
            guard let self else { return }
            // An attempt in vain would take the machine off its own network.
            let change = chosen == self.selected() ? nil : RadioFailure.serviceGone
            if let failure = change ?? obstacle { return self.handle(.joinEnded(failure)) }
            self.join(join, on: chosen, begun: begun)
        }
    }

    private func join(_ join: NetworkJoin, on chosen: SelectedInterface, begun: Int64) {
        let record = { [weak self] (record: JoinRecord) -> RadioFailure? in
            guard let self else { return nil }
            var record = record
            record.bus = self.bus
            self.handle(.recorded(record))
            return self.write(record)
        }
        let done = { [weak self] (failure: RadioFailure?) in
            guard let self else { return }
            guard let failure else { return self.handle(.joinEnded(nil)) }
            self.log.info("could not join a network", metadata: ["reason": "\(failure)"])
            self.explain(failure, of: join, on: chosen, begun: begun) { self.handle(.joinEnded($0)) }
        }
        chosen.service.join(join, on: chosen.name, begun: begun, record: record) { [weak self] result in
            switch result {
            case .success: self?.verify(join, on: chosen, completion: done)
            case .failure(let failure): done(failure)
            }
        }
    }

    /// Replaces a failure by the reason that the access points heard since the begin give, if they rule the join out:
    /// a service that does not scan on request scans when it joins.
    private func explain(
        _ failure: RadioFailure, of join: NetworkJoin, on chosen: SelectedInterface, begun: Int64,
        completion: @escaping (RadioFailure) -> Void
    ) {
        guard let path = chosen.service.interfaces[chosen.name]?.path else { return completion(failure) }
        chosen.service.readNetworks(path, since: begun) { [loop] result in
            let survey = (try? result.get()).map { Survey(of: $0, ended: loop.now) }
            completion(survey?.obstacle(to: join, now: loop.now) ?? failure)
        }
    }

    /// Checks that the network which the service has joined is the requested one.
    ///
    /// - Parameter completion: gets nil if so.
    private func verify(_ join: NetworkJoin, on chosen: SelectedInterface, completion: @escaping (RadioFailure?) -> Void) {
        guard let path = chosen.service.interfaces[chosen.name]?.path else { return completion(.serviceGone) }
        chosen.service.readCurrent(path) { [name = chosen.service.name] current in
            guard let current, let security = current.security else {
                return completion(RadioFailure(.other, "\(name) does not report the network that it has joined"))
            }
            guard current.ssid == join.ssid, join.suits(security) else {
                return completion(
                    RadioFailure(.other, "\(name) has joined a different network: \(current.ssid) (\(security.rawValue))"))
            }
            completion(nil)
        }
    }
}

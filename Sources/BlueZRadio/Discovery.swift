// SPDX-License-Identifier: Apache-2.0
// Discovery as a shared need: while at least one token lives, BlueZ scans for us on each adapter that may be used; with
// the last one it stops. BlueZ may lose a scan (adapter reset, another client's stop, a connection on 5.66); it is
// started again, a bounded number of times.

internal import AccessoryEngine
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

final class Discovery {
    private let connection: Connection
    private let log: Logger
    private let failed: (RadioFailure) -> Void
    private var needs = 0
    private var scans: [ObjectPath: AdapterScan] = [:]
    /// Told when the first need comes and when the last one goes.
    var onNeedChanged: ((Bool) -> Void)?

    /// - Parameter failed: called when no adapter scans, and none will by itself.
    init(on connection: Connection, log: Logger, failed: @escaping (RadioFailure) -> Void) {
        self.connection = connection
        self.log = log
        self.failed = failed
    }

    var isNeeded: Bool { needs > 0 }

    func token() -> DiscoveryToken {
        needs += 1
        if needs == 1 {
            onNeedChanged?(true)
            needChanged()
        }
        return DiscoveryToken { [weak self] in
            guard let self else { return }
            self.needs -= 1
            guard self.needs == 0 else { return }
            self.needChanged()
            self.onNeedChanged?(false)
        }
    }

    private func needChanged() {
        for scan in scans.values { scan.needChanged() }
    }

    /// The adapters to scan with: those that may be used and have power.
    func use(_ adapters: Set<ObjectPath>) {
        for (path, scan) in scans where !adapters.contains(path) {
            scan.end()
            scans[path] = nil
        }
        for path in adapters where scans[path] == nil {
            let scan = AdapterScan(of: path, on: connection, log: log, isNeeded: { [weak self] in self?.isNeeded == true }) {
                [weak self] failure in self?.scanFailed(failure)
            }
            scans[path] = scan
            scan.needChanged()
        }
    }

    private func scanFailed(_ failure: RadioFailure) {
        if scans.values.allSatisfy(\.hasFailed) { failed(failure) }
    }

    /// BlueZ says whether an adapter scans.
    func discoveringChanged(_ adapter: ObjectPath, _ isDiscovering: Bool) { scans[adapter]?.discoveringChanged(isDiscovering) }

    /// A connection was made, with which the filters may be lost.
    func renewFilter() {
        for scan in scans.values { scan.renewFilter() }
    }

    /// A search for something else ends on this connection, which is one client to BlueZ.
    func endOther(on adapter: ObjectPath) {
        if let scan = scans[adapter] { scan.endOther() } else { connection.call(.classicSearchEnd, at: adapter) { _ in } }
    }
}

/// The scan of one adapter.
private final class AdapterScan {
    private enum State: String {
        case stopped, starting, running, stopping
    }

    private let connection: Connection
    private let log: Logger
    private let failed: (RadioFailure) -> Void
    private let isNeeded: () -> Bool
    private let adapter: ObjectPath
    private var state = State.stopped
    private var attempts = 0
    /// Nothing is tried any more until the next need.
    private(set) var hasFailed = false
    /// Its adapter is not used any more.
    private var isOver = false
    private var retry: LoopSource?
    /// Whether BlueZ may be scanning for us without our knowing: a start was not answered, or a stop did not work.
    private var mayScan = false
    private var stopsLeft = 0

    /// How often a scan is tried before its failure is reported: for some 17 s. A bluetoothd that was killed leaves the
    /// kernel scanning, and its successor answers `InProgress` until that scan has run out, after about 10 s.
    private static let attemptsAllowed = 13
    /// A call without an answer counts for so many attempts, so that a failure is reported within 30 s.
    private static let attemptsUnanswered = 7
    private static let stopsAllowed = 3

    init(
        of adapter: ObjectPath, on connection: Connection, log: Logger, isNeeded: @escaping () -> Bool,
        failed: @escaping (RadioFailure) -> Void
    ) {
        self.adapter = adapter
        self.connection = connection
        self.log = log
        self.isNeeded = isNeeded
        self.failed = failed
    }

    /// The need has come or gone.
    func needChanged() {
        (attempts, hasFailed) = (0, false)
        if !isNeeded() { retry?.cancel() }
        advance()
    }

    /// The adapter is not used any more: what ran on it is gone.
    func end() {
        isOver = true
        retry?.cancel()
    }

    /// BlueZ says whether it scans.
    func discoveringChanged(_ isDiscovering: Bool) {
        guard state == .running, !isDiscovering, isNeeded() else { return }
        change(.stopped, "BlueZ stopped scanning")
        again(after: RadioFailure(.other, "BlueZ stopped scanning"))
    }

    /// A connection was made, with which the filter may be lost.
    func renewFilter() {
        guard state == .running else { return }
        setFilter { _ in }
    }

    /// A search for something else ends on this connection, which is one client to BlueZ: until that has worked,
    /// BlueZ may scan for us.
    func endOther() {
        mayScan = true
        connection.call(.classicSearchEnd, at: adapter) { [weak self] result in
            guard let self, !self.isOver, self.state == .stopped else { return }
            if case .success = result { self.mayScan = false } else { self.advance() }
        }
    }

    private func advance() {
        guard !isOver else { return }
        switch state {
        case .stopped where isNeeded():
            change(.starting, "needed")
            setFilter { [weak self] result in
                guard let self, self.state == .starting, !self.isOver else { return }
                switch result {
                case .success: self.start()
                case .failure(let error): self.ended(error)
                }
            }
        // Also where the last answer did not come, and nobody needs it any more: it may have begun.
        case .running where !isNeeded(), .stopped where !isNeeded() && mayScan:
            stopsLeft = Self.stopsAllowed
            stop()
        case .stopped, .starting, .running, .stopping:
            break
        }
    }

    private func stop() {
        change(.stopping, "no longer needed")
        stopsLeft -= 1
        connection.call(.discoveryStop, at: adapter) { [weak self] result in
            guard let self, self.state == .stopping, !self.isOver else { return }
            self.mayScan = false
            if case .failure(let error) = result {
                self.mayScan = true
                self.log.debug("StopDiscovery failed", metadata: ["error": "\(error)"])
            }
            self.change(.stopped, "stopped")
            guard self.mayScan, !self.isNeeded() else { return self.advance() }
            // What was never answered may have begun all the same; should it go on, the next start says so.
            if self.stopsLeft > 0 { self.stop() }
        }
    }

    private func setFilter(_ completion: @escaping (Result<Void, BusError>) -> Void) {
        connection.call(.discoveryFilter, at: adapter, [BlueZVersions.discoveryFilter]) { completion($0.map { _ in }) }
    }

    private func start() {
        connection.call(.discoveryStart, at: adapter) { [weak self] result in
            guard let self, self.state == .starting, !self.isOver else { return }
            switch result {
            case .success: self.started("started")
            // Its own answer to one who scans already.
            case .failure(let error) where self.mayScan && error.bluez == .inProgress:
                self.started("it was, without an answer")
            case .failure(let error):
                self.mayScan = self.mayScan || error.leavesOpen
                self.ended(error)
            }
        }
    }

    private func started(_ reason: String) {
        attempts = 0
        mayScan = false
        change(.running, reason)
        advance()
    }

    private func ended(_ error: BusError) {
        change(.stopped, "\(error)")
        guard isNeeded() else { return advance() }
        if error.leavesOpen { attempts += Self.attemptsUnanswered - 1 }
        again(after: RadioFailure(error.bluez == .notReady ? .unavailable : .other, "\(error)"))
    }

    /// Tries again after a pause; `InProgress` may stick until bluetoothd restarts, so not for ever.
    private func again(after failure: RadioFailure) {
        attempts += 1
        guard attempts < Self.attemptsAllowed else {
            hasFailed = true
            return failed(failure)
        }
        retry = connection.loop.after(.milliseconds(min(200 * attempts, 2000))) { [weak self] in self?.advance() }
    }

    private func change(_ new: State, _ reason: String) {
        log.debug(
            "discovery \(state.rawValue) → \(new.rawValue)", metadata: ["adapter": "\(adapter)", "reason": "\(reason)"])
        state = new
    }
}

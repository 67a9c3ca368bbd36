// SPDX-License-Identifier: Apache-2.0
// Discovery as a shared need: while at least one token lives, adverts are followed, and while one of a search lives,
// bluetoothd scans for this connection on each adapter that may be used.

internal import AccessoryEngine
internal import CallsOut
internal import DBusKit
internal import Logging

final class Discovery {
    private let connection: Connection
    private let log: Logger
    private let onNeedChange: (Bool) -> Void
    private let onFailure: (RadioFailure) -> Void
    private var tokens = 0
    private var searches = 0
    private var scans: [ObjectPath: AdapterScan] = [:]

    /// - Parameters:
    ///   - onNeedChange: called with true where all adverts are to be reported anew, before the scan begins, and with
    ///     false for the end of the last token, after the scan.
    ///   - onFailure: called when no adapter scans, and none will before the next need.
    init(
        on connection: Connection, log: Logger, onNeedChange: @escaping (Bool) -> Void,
        onFailure: @escaping (RadioFailure) -> Void
    ) {
        self.connection = connection
        self.log = log
        self.onNeedChange = onNeedChange
        self.onFailure = onFailure
    }

    var isNeeded: Bool { tokens > 0 }

    /// - Parameter searching: false to follow the adverts that other programs' searches bring.
    func token(searching: Bool = true) -> DiscoveryToken {
        tokens += 1
        if searching { searches += 1 }
        if tokens == 1 || !searching || searches == 1 { onNeedChange(true) }
        if searching, searches == 1 { for scan in scans.values { scan.handle(.needed) } }
        return DiscoveryToken { [weak self] in
            guard let self else { return }
            tokens -= 1
            if searching {
                searches -= 1
                if searches == 0 { for scan in scans.values { scan.handle(.unneeded) } }
            }
            if tokens == 0 { onNeedChange(false) }
        }
    }

    /// The adapters to scan with: those that may be used and have power. A scan ends with its adapter.
    func use(_ adapters: Set<ObjectPath>) {
        scans = scans.filter { adapters.contains($0.key) }
        for path in adapters where scans[path] == nil {
            let scan = AdapterScan(of: path, on: connection, log: log) { [weak self] failure in
                guard let self, scans.values.allSatisfy({ $0.state == .failed }) else { return }
                onFailure(failure)
            }
            scans[path] = scan
            if searches > 0 { scan.handle(.needed) }
        }
    }

    /// The adapter's `Discovering` has changed.
    func discoveringChanged(_ adapter: ObjectPath, _ isDiscovering: Bool) {
        if !isDiscovering { scans[adapter]?.handle(.discoveryEnded) }
    }

    /// After a connection was made, with which bluetoothd may lose the filters.
    func renewFilter() {
        for scan in scans.values { scan.renewFilter() }
    }

    /// Ends another search on this connection, which is one client to bluetoothd.
    func endOther(on adapter: ObjectPath) {
        scans[adapter]?.handle(.otherSearchEnds)
        connection.call(.classicSearchEnd, at: adapter) { [weak self] in self?.scans[adapter]?.handle(.otherSearchEnded($0.error)) }
    }
}

/// Performs the `ScanMachine` of one adapter.
private final class AdapterScan {
    private let adapter: ObjectPath
    private let connection: Connection
    private let log: Logger
    private let onFailure: (RadioFailure) -> Void
    private let retry: Timers<Bool>
    private var machine = ScanMachine()

    init(of adapter: ObjectPath, on connection: Connection, log: Logger, onFailure: @escaping (RadioFailure) -> Void) {
        self.adapter = adapter
        self.connection = connection
        self.log = log
        self.onFailure = onFailure
        retry = Timers(on: connection.loop)
    }

    var state: ScanMachine.State { machine.state }

    func handle(_ event: ScanMachine.Event) {
        let former = state
        let effects = machine.handle(event)
        if state != former {
            log.debug("discovery \(former) → \(state)", metadata: ["adapter": "\(adapter)", "event": "\(event)"])
        }
        for effect in effects { perform(effect) }
    }

    func renewFilter() {
        if state == .running { connection.call(.discoveryFilter, at: adapter, [BlueZVersions.discoveryFilter]) { _ in } }
    }

    private func perform(_ effect: ScanMachine.Effect) {
        switch effect {
        case .setFilter:
            connection.call(.discoveryFilter, at: adapter, [BlueZVersions.discoveryFilter]) { [weak self] in
                self?.handle(.filterSet($0.error))
            }
        case .start: connection.call(.discoveryStart, at: adapter) { [weak self] in self?.handle(.started($0.error)) }
        case .stop: connection.call(.discoveryStop, at: adapter) { [weak self] in self?.handle(.stopped($0.error)) }
        case .retry(let pause): retry.start(true, after: pause) { [weak self] in self?.handle(.retryIsDue) }
        case .cancelRetry: retry.cancelAll()
        case .report(let failure): onFailure(failure)
        }
    }
}

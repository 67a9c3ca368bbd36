// SPDX-License-Identifier: Apache-2.0
// The searches of a picker run, and the timers that belong to them.

internal import AccessoryCore
internal import AccessoryModel

final class RunSearch {
    private let run: PickerRun
    private let services: EngineServices
    private let refreshOffers: () -> Void
    private var discovery: DiscoveryToken?
    private var scan: DiscoveryToken?
    /// The names that the present scan asks for.
    private var probed: [SSID] = []
    /// For adverts of known accessories that are to be migrated.
    private var verification: DiscoveryToken?
    private var pruneTimer: (any EngineTimer)?
    private var disclosureTimer: (any EngineTimer)?

    /// - Parameter refreshOffers: called when devices have left the range.
    init(_ run: PickerRun, _ services: EngineServices, refreshOffers: @escaping () -> Void) {
        self.run = run
        self.services = services
        self.refreshOffers = refreshOffers
    }

    func start() {
        update()
        schedulePrune()
    }

    /// Searches by the radios that the run needs by now.
    func update() {
        if discovery == nil, run.needs(.bluetooth) { discovery = services.radio.discover() }
        if run.needs(.wifi), scan == nil || probed != run.hiddenNames {
            probed = run.hiddenNames
            scan = services.networkRadio.scan(probing: probed, aware: run.items.compactMap(\.descriptor.wifiAware))
        }
    }

    func stop() {
        discovery = nil
        scan = nil
        pruneTimer?.cancel()
    }

    func verify() { verification = services.radio.discover() }
    func stopVerifying() { verification = nil }

    func end() {
        stop()
        stopVerifying()
        disclosureTimer?.cancel()
    }

    /// Calls `disclose` once the parts of new accessories had time to arrive.
    func discloseSoon(_ disclose: @escaping () -> Void) {
        guard disclosureTimer == nil else { return }
        disclosureTimer = services.clock.after(Disclosure.delay) { [weak self] in
            self?.disclosureTimer = nil
            disclose()
        }
    }

    /// The timer fires at least once within `InRange.grace`, so an offer in doubt needs no timer of its own.
    private func schedulePrune() {
        pruneTimer?.cancel()
        let now = services.clock.uptime
        let due = run.inRange.nextWithdrawal(after: now).map { $0 - now } ?? InRange.grace
        pruneTimer = services.clock.after(min(due, InRange.grace)) { [weak self] in
            guard let self else { return }
            if self.run.inRange.prune(now: self.services.clock.uptime) { self.refreshOffers() }
            self.schedulePrune()
        }
    }
}

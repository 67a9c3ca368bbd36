// SPDX-License-Identifier: Apache-2.0
// Scans of the interface in use, one after another while they are needed: `ScanMachine` decides, as a value, when the
// next one runs and when the need is given up; `Scanner` owns the needs, the pause and the last result.

internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit
internal import Logging

/// When to scan, as a value.
struct ScanMachine: Hashable {
    enum State: Hashable {
        /// Not needed, not possible, or given up.
        case idle
        /// - since: the begin of the scan, in microseconds of the monotonic clock.
        case scanning(since: Int64, Tally)
        case pausing(Tally)
    }

    /// The scans without a result since the last success.
    struct Tally: Hashable {
        var failures = 0
        /// The begin of the first failure, in microseconds of the monotonic clock.
        var failing: Int64 = 0
        var refusals = 0
    }

    enum Event {
        /// The needs, the interface or its service have changed.
        case changed(canScan: Bool)
        case succeeded
        case refused
        case failed(String)
        case pauseOver
    }

    enum Effect: Hashable {
        case cancel
        case scan
        case pause(Duration)
        case report(String)
    }

    private(set) var state = State.idle

    /// The interface has other traffic, too.
    private static let betweenScans = Duration.seconds(2)
    private static let afterFailure = Duration.seconds(1)
    private static let maxFailures = 5
    /// In microseconds: a service that does not answer takes its time for each call, and a person is waiting.
    private static let maxFailing: Int64 = 20_000_000
    /// 500 ms, doubled with each refusal, up to 10 s: services limit the rate of scans by that much at most.
    private static let maxRefusals = 5

    mutating func handle(_ event: Event, now: Int64) -> [Effect] {
        switch (state, event) {
        case (_, .changed(let canScan)):
            state = canScan ? .scanning(since: now, Tally()) : .idle
            return canScan ? [.cancel, .scan] : [.cancel]
        case (.scanning, .succeeded):
            state = .pausing(Tally())
            return [.pause(Self.betweenScans)]
        case (.scanning(_, var tally), .refused):
            tally.refusals = min(tally.refusals + 1, Self.maxRefusals)
            state = .pausing(tally)
            return [.pause(.milliseconds(min(500 << tally.refusals, 10_000)))]
        case (.scanning(let since, var tally), .failed(let reason)):
            if tally.failures == 0 { tally.failing = since }
            tally.failures += 1
            guard tally.failures < Self.maxFailures, now - tally.failing < Self.maxFailing else {
                state = .idle
                return [.report(reason)]
            }
            state = .pausing(tally)
            return [.pause(Self.afterFailure)]
        case (.pausing(let tally), .pauseOver):
            state = .scanning(since: now, tally)
            return [.scan]
        default: return []
        }
    }
}

/// Scans the interface in use while at least one need lives.
final class Scanner {
    var onNetworks: (([WiFiNetwork]) -> Void)?
    var onFailure: ((String) -> Void)?
    private let loop: MainLoop
    private let log: Logger
    private var machine = ScanMachine()
    /// The interface to scan; nil while none is ready.
    private var target: SelectedInterface?
    /// The names to probe, for each need.
    private var needs: [Int: [SSID]] = [:]
    private var lastNeed = 0
    /// Incremented with every restart: results of earlier scans do not count.
    private var round = 0
    private var pause: LoopSource?
    /// The last complete scan; nil before it.
    private var survey: Survey?
    /// A join that waits for a scan.
    private var look: Awaited<Void>?

    init(_ loop: MainLoop, log: Logger) {
        self.loop = loop
        self.log = log
    }

    var isNeeded: Bool { !needs.isEmpty }

    /// Restarts on an interface; everything that ran, ran on another one.
    func use(_ target: SelectedInterface?) {
        self.target = target
        restart()
    }

    /// Scans until the returned closure is called.
    func need(_ names: [SSID]) -> () -> Void {
        lastNeed += 1
        let number = lastNeed
        needs[number] = names
        if needs.count == 1 { restart() }
        return { [weak self] in
            guard let self else { return }
            self.needs[number] = nil
            if self.needs.isEmpty { self.restart() }
        }
    }

    /// Scans for a join, unless a recent scan has heard its network, and continues with the reason why the join is in
    /// vain, if the last scan has one. Continues without a scan where the service does not make one in time.
    func look(for join: NetworkJoin, completion: @escaping (RadioFailure?) -> Void) {
        if survey?.hasTarget(of: join, now: loop.now) != true {
            survey = nil
            let end = need(join.isHidden ? [join.ssid] : [])
            look = Awaited(loop, timeout: WiFiTimes.look, late: ()) { [weak self] in
                end()
                guard let self else { return }
                self.look = nil
                completion(self.survey?.obstacle(to: join, now: self.loop.now))
            }
        } else {
            completion(survey?.obstacle(to: join, now: loop.now))
        }
    }

    private func restart() {
        round += 1
        handle(.changed(canScan: target != nil && isNeeded))
    }

    private func handle(_ event: ScanMachine.Event) {
        for effect in machine.handle(event, now: loop.now) {
            switch effect {
            case .cancel: pause?.cancel()
            case .scan: scan()
            case .pause(let time): pause = loop.after(time) { [weak self] in self?.handle(.pauseOver) }
            case .report(let reason): onFailure?(reason)
            }
        }
    }

    private func scan() {
        guard let target else { return }
        let round = round
        var names: [SSID] = []
        for name in needs.values.joined() where !names.contains(name) { names.append(name) }
        target.service.scan(target.name, probing: names) { [weak self] result in
            guard let self, self.round == round else { return }
            switch result {
            case .success(let accessPoints):
                self.survey = Survey(of: accessPoints, ended: self.loop.now)
                self.handle(.succeeded)
                self.onNetworks?(WiFiNetwork.merged(accessPoints))
                self.look?.end(())
            case .failure(.busy): self.handle(.refused)
            case .failure(.failed(let reason)):
                self.log.info("a scan failed", metadata: ["reason": "\(reason)"])
                self.handle(.failed(reason))
            }
        }
    }
}

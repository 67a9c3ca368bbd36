// SPDX-License-Identifier: Apache-2.0
// Hands the devices that were heard to the engine while a search runs: content at once, strengths twice a second.

internal import AccessoryEngine
internal import DBusKit

/// The pace of adverts on their way to the engine.
final class HandOver {
    private let devices: DeviceTable
    private let loop: MainLoop
    /// Receives the devices.
    weak var observer: (any RadioObserver)?
    private let timer: Timers<Bool>
    /// Whether a search runs.
    private(set) var isRunning = false
    private lazy var contentPacer = Pacer(loop, interval: .milliseconds(50)) { [weak self] in self?.handContent() }
    private lazy var strengthPacer = Pacer(loop, interval: .milliseconds(450), patience: .milliseconds(100)) { [weak self] in
        guard let self else { return }
        observer?.heard(devices.drainStrengths(now: loop.now))
    }

    /// The time in which a search hears a device that has a signal strength, as a rule.
    private static let strengthTimeout = Duration.seconds(2)

    init(of devices: DeviceTable, on loop: MainLoop) {
        self.devices = devices
        self.loop = loop
        timer = Timers(on: loop)
    }

    /// A search begins: devices that were heard before do not count.
    func begin() {
        isRunning = true
        devices.forgetAdverts()
        timer.start(true, after: Self.strengthTimeout) { [weak self] in
            self?.devices.hearWithoutStrength()
            self?.schedule()
        }
    }

    /// The search has ended.
    func end() {
        isRunning = false
        timer.cancelAll()
        contentPacer.cancel()
        strengthPacer.cancel()
        devices.forgetAdverts()
    }

    /// After the table may have changed. Content is handed over at once, or 50 ms after the content before: with the
    /// feed's pause of 60 ms it waits 110 ms at most. Strengths are handed over twice a second, preferably with a
    /// reading of the feed: in a busy room nearly all changes are strengths.
    func schedule() {
        guard isRunning else { return }
        if devices.hasNewContent { contentPacer.request() }
        if devices.hasNewStrengths { strengthPacer.request() }
    }

    func handContent() { observer?.heard(devices.drainContent(now: loop.now)) }
}

/// Keeps something from happening too often: the first request is served at once, those that follow together when the
/// interval is over.
final class Pacer {
    private let loop: MainLoop
    private let interval: Duration
    private let patience: Duration
    private let action: () -> Void
    private var timer: LoopSource?
    /// When it last happened, microseconds of the monotonic clock.
    private var last: Int64?

    /// - Parameter patience: how much longer than the interval it may wait for another request, which costs no wakeup
    ///   of its own.
    init(_ loop: MainLoop, interval: Duration, patience: Duration = .zero, _ action: @escaping () -> Void) {
        self.loop = loop
        self.interval = interval
        self.patience = patience
        self.action = action
    }

    deinit {
        timer?.cancel()
    }

    func request() {
        let elapsed: Duration = last.map { .microseconds(loop.now - $0) } ?? interval
        guard elapsed < interval else { return act() }
        guard timer == nil else { return }
        timer = loop.after(interval + patience - elapsed) { [weak self] in self?.act() }
    }

    private func act() {
        cancel()
        last = loop.now
        action()
    }

    func cancel() {
        timer?.cancel()
        timer = nil
        last = nil
    }
}

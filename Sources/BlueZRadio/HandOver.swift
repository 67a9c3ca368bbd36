// SPDX-License-Identifier: Apache-2.0
// Hands over what the table of devices has heard while a search runs: content at once, strengths twice a second.

internal import AccessoryEngine
internal import DBusKit

/// The pace of adverts on their way to the engine.
final class HandOver {
    private let devices: DeviceTable
    private let loop: MainLoop
    private let heard: ([HeardDevice]) -> Void
    private lazy var contentPacer = Pacer(loop, interval: .milliseconds(50)) { [weak self] in self?.handContent() }
    private lazy var strengthPacer = Pacer(loop, interval: .milliseconds(450), patience: .milliseconds(100)) { [weak self] in
        self?.handStrengths()
    }
    private var strengthTimer: LoopSource?

    /// The time in which a search hears a device that has a signal strength, as a rule.
    private static let strengthTimeout = Duration.seconds(2)

    /// - Parameter heard: receives the news, which may be many at a time, and at least one.
    init(of devices: DeviceTable, on loop: MainLoop, heard: @escaping ([HeardDevice]) -> Void) {
        self.devices = devices
        self.loop = loop
        self.heard = heard
    }

    /// A search begins: devices that were heard before it do not count.
    func begin() {
        devices.forgetAir()
        strengthTimer = loop.after(Self.strengthTimeout) { [weak self] in
            self?.devices.hearWithoutStrength()
            self?.schedule()
        }
    }

    /// The search has ended, and with it the news.
    func end() {
        strengthTimer?.cancel()
        contentPacer.cancel()
        strengthPacer.cancel()
        devices.forgetAir()
    }

    /// The table may have news. Content goes at once, or 50 ms after what went before: with the feed's pause of 60 ms
    /// news waits 110 ms at most, and as a rule goes with the reading that brought it, without a timer. Strengths go
    /// twice a second, with a reading, too: no person reads faster, and in a busy room they are nearly all of the news.
    func schedule() {
        if devices.hasContentNews { contentPacer.request() }
        if devices.hasStrengthNews { strengthPacer.request() }
    }

    func handContent() {
        let news = devices.takeContentNews(now: loop.now)
        if !news.isEmpty { heard(news) }
    }

    private func handStrengths() {
        let news = devices.takeStrengthNews(now: loop.now)
        if !news.isEmpty { heard(news) }
    }
}

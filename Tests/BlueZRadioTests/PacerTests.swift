// SPDX-License-Identifier: Apache-2.0
// Requests are served at once, later ones after the interval, and none is lost. Time passes on the test's command.

import DBusKit
import TestSupport
import Testing

@testable import BlueZRadio

@Suite struct PacerTests {
    private let loop = MainLoop()
    private let interval = Duration.seconds(3600)

    /// Lets so much time pass, and everything happen that is due then.
    private func pass(_ time: Duration) {
        loop.pass(time)
        _ = loop.run(until: { false }, timeout: .zero)
    }

    @Test func theFirstGoesAtOnceAndOthersTogether() {
        var times = 0
        let pacer = Pacer(loop, interval: interval) { times += 1 }
        pacer.request()
        #expect(times == 1)
        for _ in 0..<5 { pacer.request() }
        #expect(times == 1)
        pass(interval)
        #expect(times == 2)
        pass(interval)
        #expect(times == 2)
        pacer.request()
        #expect(times == 3)
    }

    /// A request within the patience is served when it comes; without one the timer serves the earlier ones.
    @Test func aRequestWithinThePatienceIsServed() {
        var times = 0
        let pacer = Pacer(loop, interval: interval, patience: interval * 10) { times += 1 }
        pacer.request()
        pacer.request()
        pass(interval * 2)
        #expect(times == 1)
        pacer.request()
        #expect(times == 2)
        let short = Pacer(loop, interval: interval, patience: interval) { times += 1 }
        short.request()
        short.request()
        pass(interval * 2)
        #expect(times == 4)
    }

    @Test func cancelledRequestsAreNotServed() {
        var times = 0
        let pacer = Pacer(loop, interval: interval) { times += 1 }
        pacer.request()
        pacer.request()
        pacer.cancel()
        pass(interval * 2)
        #expect(times == 1)
        pacer.request()
        #expect(times == 2)
    }
}

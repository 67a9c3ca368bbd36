// SPDX-License-Identifier: Apache-2.0
// What is paced happens at once, then not before the interval is over, and never not at all.

import DBusKit
import Testing

@testable import BlueZRadio

@Suite struct PacerTests {
    private let loop = MainLoop()

    @Test func theFirstGoesAtOnceAndOthersTogether() {
        var times = 0
        let pacer = Pacer(loop, interval: .milliseconds(30)) { times += 1 }
        pacer.request()
        #expect(times == 1)
        for _ in 0..<5 { pacer.request() }
        #expect(times == 1)
        #expect(loop.run(until: { times == 2 }, timeout: .seconds(10)))
        #expect(!loop.run(until: { times == 3 }, timeout: .milliseconds(100)))
        // The interval is over.
        pacer.request()
        #expect(times == 3)
    }

    /// A request within the patience is served when it comes; without one the timer serves what came before.
    @Test func aRequestWithinThePatienceIsServed() {
        var times = 0
        let pacer = Pacer(loop, interval: .milliseconds(20), patience: .seconds(20)) { times += 1 }
        pacer.request()
        pacer.request()
        #expect(!loop.run(until: { times == 2 }, timeout: .milliseconds(60)))
        pacer.request()
        #expect(times == 2)
        let short = Pacer(loop, interval: .milliseconds(20), patience: .milliseconds(20)) { times += 1 }
        short.request()
        short.request()
        #expect(loop.run(until: { times == 4 }, timeout: .seconds(10)))
    }

    @Test func whatIsCancelledDoesNotHappen() {
        var times = 0
        let pacer = Pacer(loop, interval: .milliseconds(20)) { times += 1 }
        pacer.request()
        pacer.request()
        pacer.cancel()
        #expect(!loop.run(until: { times == 2 }, timeout: .milliseconds(60)))
        pacer.request()
        #expect(times == 2)
    }
}

// SPDX-License-Identifier: Apache-2.0
// A failed action is tried again more and more seldom, and by one timer at most.

import AccessoryEngine
import Testing

@Suite struct RetryTests {
    /// A timer whose time the test lets pass.
    private final class PlayedTimer {
        private(set) var pauses: [Double] = []
        private var body: (() -> Void)?

        var isWaiting: Bool { body != nil }

        func once(after seconds: Double, _ body: @escaping () -> Void) -> () -> Void {
            pauses.append(seconds)
            self.body = body
            return { [weak self] in self?.body = nil }
        }

        func pass() {
            let body = body
            self.body = nil
            body?()
        }
    }

    private let timer = PlayedTimer()

    @Test func pausesGrowUpToTheLongest() {
        let retry = Retry(2...60, timer.once)
        func fail() { retry.schedule { fail() } }
        fail()
        for _ in 0..<6 { timer.pass() }
        #expect(timer.pauses == [2, 4, 8, 16, 32, 60, 60])
    }

    @Test func whatFailsMeanwhileIsDoneOnce() {
        let retry = Retry(1...16, timer.once)
        var done = 0
        for _ in 0..<3 { retry.schedule { done += 1 } }
        #expect(retry.isWaiting)
        timer.pass()
        #expect(done == 1 && !retry.isWaiting && timer.pauses == [1])
    }

    /// Other things may still have to be done again.
    @Test func whatWorksShortensTheNextPauseAndCallsNothingOff() {
        let retry = Retry(1...16, timer.once)
        retry.schedule {}
        timer.pass()
        retry.schedule {}
        retry.reset()
        #expect(retry.isWaiting && timer.isWaiting)
        timer.pass()
        retry.reset()
        retry.schedule {}
        #expect(timer.pauses == [1, 2, 1])
    }

    @Test func whatIsStoppedComesAfterAPauseAsLongNextTime() {
        let retry = Retry(1...16, timer.once)
        retry.schedule {}
        timer.pass()
        retry.schedule {}
        retry.cancel()
        #expect(!retry.isWaiting && !timer.isWaiting)
        retry.schedule {}
        #expect(timer.pauses == [1, 2, 2])
    }

    @Test func anEndBeginsAnew() {
        let retry = Retry(1...16, timer.once)
        for _ in 0..<2 {
            retry.schedule {}
            timer.pass()
        }
        retry.schedule {}
        retry.finish()
        #expect(!retry.isWaiting && !timer.isWaiting)
        retry.schedule {}
        #expect(timer.pauses == [1, 2, 4, 1])
    }

    @Test func whoeverIsGoneIsNotWaitedFor() {
        var retry: Retry? = Retry(1...16, timer.once)
        retry?.schedule {}
        retry = nil
        #expect(!timer.isWaiting)
    }
}

// SPDX-License-Identifier: Apache-2.0
// How often a network is tried, before an app is told that it was not joined.

import AccessoryEngine
import DBusKit
import Logging
import Testing

@testable import WiFiRadio

@Suite struct JoiningTests {
    private let lost = RadioFailure.wrongPassphrase
    private let aside = RadioFailure.putAside

    /// One that fails, which tells why.
    private func joining(_ failed: @escaping (RadioFailure) -> Void) -> Joining {
        let loop = MainLoop()
        return Joining(loop, begun: loop.now, late: .joinTimeout, isHidden: false, log: Logger(label: "test")) { result in
            if case .failure(let failure) = result { failed(failure) }
        }
    }

    /// How many attempts are made when they end like this, and what is said then.
    private func attempts(_ outcomes: RadioFailure...) -> (made: Int, said: String?) {
        var made = 0
        var said: String?
        let joining = joining { said = $0.message }
        func attempt(_ joining: Joining) {
            made += 1
            if made <= outcomes.count { joining.failed(outcomes[made - 1], again: attempt) }
        }
        attempt(joining)
        return (made, said)
    }

    @Test func whatMayBeLostFramesIsTriedTwice() {
        #expect(attempts(lost) == (2, nil))
        #expect(attempts(lost, lost) == (2, RadioFailure.wrongPassphrase.message))
    }

    @Test func whatIsPutAsideCountsForNoAttempt() {
        #expect(attempts(lost, aside) == (3, nil))
        #expect(attempts(lost, aside, lost) == (3, RadioFailure.wrongPassphrase.message))
    }

    @Test func aServiceThatPutsItAsideOverAndOverIsNotFollowed() {
        #expect(attempts(aside, aside) == (3, nil))
        #expect(attempts(aside, aside, aside, aside) == (3, RadioFailure.putAside.message))
    }

    @Test func whatWasHeardOnTheAirIsSaidRatherThanWhatWasPutBefore() {
        #expect(attempts(lost, aside, aside, aside) == (4, RadioFailure.wrongPassphrase.message))
    }

    /// A lease may come a moment after the time is up; whoever gets none ends all the same.
    @Test func whoeverIsOnTheNetworkHasTimeForAnAddress() {
        var failures: [RadioFailure] = []
        joining { failures.append($0) }.expire()
        #expect(failures == [.joinTimeout])
        let connected = joining { failures.append($0) }
        connected.connected()
        connected.expire()
        #expect(failures.count == 1)
        connected.expire()
        #expect(failures.count == 2)
    }

    /// Where another attempt takes its place, the first has brought nobody onto the network.
    @Test func anAttemptThatWasOnTheNetworkGivesTheNextNoTime() {
        var ended = 0
        let joining = joining { _ in ended += 1 }
        joining.connected()
        joining.failed(lost) { _ in }
        joining.expire()
        #expect(ended == 1)
    }
}

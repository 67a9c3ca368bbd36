// SPDX-License-Identifier: Apache-2.0
// The decisions of a join as values: attempts, scans, the interface on loan, and the way back.

import AccessoryEngine
import AccessoryModel
import DBusKit
import Testing

@testable import WiFiRadio

@Suite struct JoinAttemptsTests {
    private let lost = RadioFailure.wrongPassphrase

    /// The number of attempts that end like this, and the failure of the join.
    private func attempts(_ outcomes: RadioFailure..., isTimeLeft: Bool = true) -> (made: Int, failure: RadioFailure?) {
        var attempts = JoinAttempts(late: .joinTimeout)
        var made = 1
        for outcome in outcomes {
            for effect in attempts.handle(.failed(outcome, isTimeLeft: isTimeLeft)) {
                switch effect {
                case .attempt: made += 1
                case .end(let failure): return (made, failure)
                case .extend: Issue.record("an attempt that has failed is extended")
                }
            }
        }
        return (made, nil)
    }

    @Test func aFailureThatMayPassIsFollowedByOneMoreAttempt() {
        for failure in [lost, .displaced, .refusedOrNoAnswer, .joinTimeout] {
            #expect(attempts(failure) == (2, nil))
            #expect(attempts(failure, lost) == (2, lost))
            #expect(attempts(failure, isTimeLeft: false) == (1, failure))
        }
        #expect(attempts(.passphraseWanted) == (1, .passphraseWanted))
    }

    @Test func theNetworksOwnAnswerIsReportedRatherThanAnotherConnection() {
        #expect(attempts(lost, .displaced) == (2, lost))
        #expect(attempts(.displaced, lost) == (2, lost))
    }

    /// A lease can come a moment after the time is up.
    @Test func aConnectedAttemptHasTimeForAnAddress() {
        var unconnected = JoinAttempts(late: .joinTimeout)
        #expect(unconnected.handle(.timeUp) == [.end(.joinTimeout)])
        #expect(unconnected.handle(.joined) == [])
        for isSecond in [false, true] {
            var attempts = JoinAttempts(late: .joinTimeout)
            if isSecond { #expect(attempts.handle(.failed(lost, isTimeLeft: true)) == [.attempt]) }
            #expect(attempts.handle(.connected) == [])
            #expect(attempts.handle(.timeUp) == [.extend])
            var joined = attempts
            #expect(joined.handle(.joined) == [.end(nil)])
            #expect(attempts.handle(.timeUp) == [.end(.joinTimeout)])
        }
    }

    /// The second attempt has to connect by itself.
    @Test func aConnectedAttemptGivesTheNextNoTime() {
        var attempts = JoinAttempts(late: .joinTimeout)
        #expect(attempts.handle(.connected) == [])
        #expect(attempts.handle(.failed(lost, isTimeLeft: true)) == [.attempt])
        #expect(attempts.handle(.timeUp) == [.end(.joinTimeout)])
    }
}

@Suite struct ScanMachineTests {
    @Test func aServiceThatRefusesIsAskedLessAndLessOften() {
        var machine = ScanMachine()
        #expect(machine.handle(.changed(canScan: true), now: 0) == [.cancel, .scan])
        for pause in [1000, 2000, 4000, 8000, 10_000, 10_000] {
            #expect(machine.handle(.refused, now: 0) == [.pause(.milliseconds(pause))])
            #expect(machine.handle(.pauseOver, now: 0) == [.scan])
        }
        #expect(machine.handle(.succeeded, now: 0) == [.pause(.seconds(2))])
        #expect(machine.handle(.pauseOver, now: 0) == [.scan])
        #expect(machine.handle(.refused, now: 0) == [.pause(.seconds(1))])
    }

    @Test func fiveFailuresOrTwentySecondsOfThemAreReported() {
        for (seconds, scans) in [(0, 5), (7, 3), (20, 1)] as [(Int64, Int)] {
            var machine = ScanMachine()
            var now: Int64 = 0
            var effects = machine.handle(.changed(canScan: true), now: now)
            for _ in 0..<scans {
                #expect(effects.last == .scan)
                now += seconds * 1_000_000
                effects = machine.handle(.failed("no"), now: now)
                if effects == [.pause(.seconds(1))] { effects = machine.handle(.pauseOver, now: now) }
            }
            #expect(effects == [.report("no")])
            #expect(machine.handle(.pauseOver, now: now) == [])
        }
    }

    @Test func aChangeRestartsOrEndsTheScans() {
        var machine = ScanMachine()
        #expect(machine.handle(.changed(canScan: false), now: 0) == [.cancel])
        #expect(machine.handle(.changed(canScan: true), now: 0) == [.cancel, .scan])
        #expect(machine.handle(.changed(canScan: true), now: 0) == [.cancel, .scan])
        #expect(machine.handle(.changed(canScan: false), now: 0) == [.cancel])
        #expect(machine.handle(.succeeded, now: 0) == [])
    }
}

@Suite struct LoanMachineTests {
    private let record = JoinRecord(service: "a", owner: ":1.1", interface: "wlan0", network: "41", joined: "x")

    private func joined() -> LoanMachine {
        var machine = LoanMachine()
        #expect(machine.handle(.join(1)) == [.join(1)])
        #expect(machine.handle(.recorded(record)) == [])
        #expect(machine.handle(.joinEnded(nil)) == [.answer(1, nil)])
        return machine
    }

    @Test func aNetworkIsJoinedAndLeft() {
        var machine = joined()
        #expect(machine.record == record && machine.interface == "wlan0")
        let answers = machine.handle(.join(2))
        guard case .answer(2, .some) = answers.first else { return #expect(Bool(false), "\(answers)") }
        #expect(machine.handle(.leave(3)) == [.restore(record)])
        #expect(machine.handle(.leave(4)) == [])
        #expect(machine.handle(.join(5)) == [])
        #expect(machine.handle(.restored(true)) == [.dropRecord, .answer(3, nil), .answer(4, nil), .join(5)])
    }

    @Test func aJoinThatFailsIsUndoneBeforeItIsAnswered() {
        var machine = LoanMachine()
        #expect(machine.handle(.join(1)) == [.join(1)])
        #expect(machine.handle(.recorded(record)) == [])
        #expect(machine.handle(.joinEnded(.displaced)) == [.restore(record)])
        #expect(machine.handle(.restored(true)) == [.dropRecord, .answer(1, .displaced)])
        #expect(machine.handle(.join(2)) == [.join(2)])
        #expect(machine.handle(.joinEnded(.displaced)) == [.answer(2, .displaced)])
        #expect(machine.state == .free)
    }

    @Test func theRecordStaysUntilItIsUndone() {
        var machine = joined()
        #expect(machine.handle(.lost(isServiceGone: true)) == [])
        #expect(machine.handle(.canRestore) == [.restore(record)])
        #expect(machine.handle(.restored(false)) == [.pause])
        #expect(machine.handle(.canRestore) == [])
        // A join does not wait for the pause, and is refused if the interface is not restored now.
        #expect(machine.handle(.join(2)) == [.restore(record)])
        let effects = machine.handle(.restored(false))
        guard effects.count == 2, case .answer(2, .some) = effects[1] else { return #expect(Bool(false), "\(effects)") }
        #expect(machine.handle(.pauseOver) == [])
        #expect(machine.handle(.canRestore) == [.restore(record)])
        #expect(machine.handle(.restored(true)) == [.dropRecord])
    }

    @Test func anEarlierRunsNetworkIsReportedOnceItIsLeft() throws {
        var machine = LoanMachine()
        #expect(machine.handle(.found(record)) == [])
        #expect(machine.handle(.canRestore) == [.restore(record)])
        let network = try #require(record.ssid)
        #expect(machine.handle(.restored(true)) == [.reportEarlier(network), .dropRecord])
    }
}

@Suite struct ReconnectionMachineTests {
    private let home: ObjectPath = "/home"

    @Test func anActivationThatFailsIsBegunAgainFourTimesAtMost() {
        var machine = ReconnectionMachine(isAfterRestart: false)
        #expect(machine.handle(.begin) == [.look])
        for attempt in 1...4 {
            #expect(machine.handle(.found(nil)) == [.activate])
            #expect(machine.handle(.activating(home)) == [.started(true), .follow(home), .wait(.seconds(50))])
            #expect(machine.handle(.timeUp) == [.deactivate(home)])
            #expect(machine.handle(.deactivated) == [attempt < 4 ? .wait(.seconds(2)) : .giveUp])
            #expect(machine.handle(.timeUp) == (attempt < 4 ? [.look] : []))
        }
    }

    @Test func NetworkManagersOwnActivationIsFollowed() {
        var machine = ReconnectionMachine(isAfterRestart: false)
        #expect(machine.handle(.begin) == [.look])
        #expect(machine.handle(.found(home)) == [.started(true), .follow(home), .wait(.seconds(50))])
        #expect(machine.handle(.activated) == [])
        #expect(machine.state == .over)
    }

    @Test func aRefusalIsReportedToTheRecordsOwner() {
        for event in [ReconnectionMachine.Event.refused, .foundAccessory] {
            var machine = ReconnectionMachine(isAfterRestart: false)
            #expect(machine.handle(.begin) == [.look])
            #expect(machine.handle(event) == [.started(false)])
            #expect(machine.state == .over)
        }
    }

    @Test func afterARestartNetworkManagerTriesFirst() {
        var machine = ReconnectionMachine(isAfterRestart: true)
        #expect(machine.handle(.begin) == [.wait(.seconds(2))])
        #expect(machine.handle(.timeUp) == [.look])
        #expect(machine.handle(.foundAccessory) == [.wait(.seconds(2))])
        #expect(machine.handle(.timeUp) == [.look])
        #expect(machine.handle(.found(nil)) == [.activate])
        #expect(machine.handle(.refused) == [])
        #expect(machine.state == .watching)
        #expect(machine.handle(.deviceChanged) == [.wait(.seconds(2))])
        #expect(machine.handle(.timeUp) == [.look])
        #expect(machine.handle(.found(home)) == [.started(true), .follow(home), .wait(.seconds(50))])
    }
}

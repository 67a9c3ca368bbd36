// SPDX-License-Identifier: Apache-2.0
// The scan of one adapter as a value: every event in every state, bounded retries, and stops of scans whose start was
// not answered.

import AccessoryEngine
import BlueZInterfaces
import DBusKit
import Testing

@testable import BlueZRadio

@Suite struct ScanMachineTests {
    private static let noReply = BusError.standard("NoReply", "")
    private static let inProgress = BusError.bluez(.inProgress, "")

    private static let paths: [String: [ScanMachine.Event]] = [
        "stopped": [],
        "filtering": [.needed],
        "starting": [.needed, .filterSet(nil)],
        "running": [.needed, .filterSet(nil), .started(nil)],
        "waiting": [.needed, .filterSet(inProgress)],
        "unanswered": [.needed, .filterSet(nil), .started(noReply)],
        "failed": [.needed, .filterSet(noReply), .retryIsDue, .filterSet(noReply)],
        "stopping": [.needed, .filterSet(nil), .started(nil), .unneeded],
    ]

    private static let events: [String: ScanMachine.Event] = [
        "needed": .needed, "unneeded": .unneeded, "filter set": .filterSet(nil), "filter failed": .filterSet(.failed("")),
        "started": .started(nil), "in progress": .started(inProgress), "stopped": .stopped(nil),
        "not stopped": .stopped(noReply), "ended": .discoveryEnded, "due": .retryIsDue,
        "other failed": .otherSearchEnded(noReply), "other ended": .otherSearchEnded(nil),
    ]

    /// Events that are not named have no effect.
    private static let table: [String: [String: String]] = [
        "stopped": ["needed": "setFilter", "unneeded": "cancelRetry", "other failed": "stop"],
        "filtering": ["unneeded": "cancelRetry", "filter set": "start", "filter failed": "retry"],
        "starting": ["unneeded": "cancelRetry", "started": "", "in progress": "retry"],
        "running": ["unneeded": "cancelRetry stop", "ended": "retry"],
        "waiting": ["needed": "setFilter", "unneeded": "cancelRetry", "due": "setFilter"],
        "unanswered": ["needed": "setFilter", "unneeded": "cancelRetry stop", "due": "setFilter"],
        "failed": ["needed": "setFilter", "unneeded": "cancelRetry"],
        "stopping": ["unneeded": "cancelRetry", "not stopped": "stop"],
    ]

    struct Row: Sendable, CustomTestStringConvertible {
        let state: String
        let event: String
        let expected: String
        var testDescription: String { "\(state) × \(event)" }
    }

    static var rows: [Row] {
        paths.keys.sorted().flatMap { state in
            events.keys.sorted().map { Row(state: state, event: $0, expected: table[state]?[$0] ?? "") }
        }
    }

    private static func machine(_ state: String) throws -> ScanMachine {
        var machine = ScanMachine()
        for event in try #require(paths[state]) { _ = machine.handle(event) }
        return machine
    }

    private static func word(_ effect: ScanMachine.Effect) -> String {
        switch effect {
        case .setFilter: "setFilter"
        case .start: "start"
        case .stop: "stop"
        case .cancelRetry: "cancelRetry"
        case .retry: "retry"
        case .report: "report"
        }
    }

    @Test(arguments: rows) func anEventInAState(row: Row) throws {
        var machine = try Self.machine(row.state)
        let effects = machine.handle(try #require(Self.events[row.event]))
        #expect(effects.map(Self.word).joined(separator: " ") == row.expected)
    }

    /// The failure is reported after some 17 s of errors, and the next need begins anew.
    @Test func aScanIsGivenUp() {
        var machine = ScanMachine()
        _ = machine.handle(.needed)
        var pauses: [Duration] = []
        loop: while true {
            for effect in machine.handle(.filterSet(Self.inProgress)) {
                if case .retry(let pause) = effect { pauses.append(pause) }
                if case .report = effect { break loop }
            }
            _ = machine.handle(.retryIsDue)
        }
        #expect(pauses.count == 12 && pauses.reduce(.zero, +) == .milliseconds(15_000))
        #expect(machine.state == .failed)
        #expect(machine.handle(.needed) == [.setFilter])
    }

    /// Two calls without an answer are enough, which is before 30 s.
    @Test func unansweredCallsCountForMore() throws {
        var machine = try Self.machine("unanswered")
        _ = machine.handle(.retryIsDue)
        #expect(machine.handle(.filterSet(Self.noReply)).map(Self.word) == ["report"])
    }

    /// After a start without an answer, `InProgress` is the answer to a client that scans already.
    @Test func aStartWithoutAnAnswerMayHaveWorked() throws {
        var machine = try Self.machine("unanswered")
        _ = machine.handle(.retryIsDue)
        _ = machine.handle(.filterSet(nil))
        #expect(machine.handle(.started(Self.inProgress)).isEmpty)
        #expect(machine.state == .running)
    }

    @Test func aStopIsTriedThreeTimes() throws {
        var machine = try Self.machine("stopping")
        #expect(machine.handle(.stopped(Self.noReply)) == [.stop])
        #expect(machine.handle(.stopped(Self.noReply)) == [.stop])
        #expect(machine.handle(.stopped(Self.noReply)).isEmpty)
        #expect(machine.state == .stopped)
        // The need comes back before the stop is answered.
        machine = try Self.machine("stopping")
        _ = machine.handle(.needed)
        #expect(machine.handle(.stopped(nil)) == [.setFilter])
    }

    @Test func aFailureCountsOnlyWhileNeeded() throws {
        var machine = try Self.machine("filtering")
        _ = machine.handle(.unneeded)
        #expect(machine.handle(.filterSet(Self.inProgress)).isEmpty)
        #expect(machine.state == .stopped)
    }

    /// Another search on the connection ends: bluetoothd may scan for this one until that has worked.
    @Test func anotherSearchThatDoesNotEndIsStopped() {
        var machine = ScanMachine()
        _ = machine.handle(.otherSearchEnds)
        #expect(machine.handle(.otherSearchEnded(Self.noReply)) == [.stop])
        machine = ScanMachine()
        _ = machine.handle(.otherSearchEnds)
        #expect(machine.handle(.otherSearchEnded(nil)).isEmpty)
        #expect(machine.handle(.unneeded) == [.cancelRetry])
    }
}

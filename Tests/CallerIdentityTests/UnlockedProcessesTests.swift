// SPDX-License-Identifier: Apache-2.0
// Which processes the lock-down does not hold: by their filters, their beginnings and their parents.

import Glibc
import Testing

@testable import CallerIdentity

@Suite struct UnlockedProcessesTests {
    /// When the lock-down began.
    private static let since: UInt64 = 100

    private static func process(
        _ pid: Int32, of parent: Int32 = 1, in unit: String? = "a.service", filtered: Bool = false, at beginning: UInt64 = 200
    ) -> RunningProcess {
        RunningProcess(pid: pid, parent: parent, unit: unit, isFiltered: filtered, beginning: beginning)
    }

    private static func found(
        _ processes: RunningProcess..., since: UInt64? = since, exceptions: [String] = []
    ) -> [Int32: UnlockedProcesses.Filter] {
        Dictionary(
            uniqueKeysWithValues: UnlockedProcesses(among: processes, since: since, exceptions: exceptions).found.map {
                ($0.process.pid, $0.filter)
            })
    }

    @Test func withoutAFilterItIsUnlockedWheneverItBegan() {
        #expect(Self.found(Self.process(10, at: 1), Self.process(11), since: 0) == [10: .none, 11: .none])
        #expect(Self.found(Self.process(10, in: nil)) == [10: .none])
    }

    @Test func aFilterCountsForWhatBeganLater() {
        let before = Self.process(10, filtered: true, at: Self.since)
        let later = Self.process(11, filtered: true, at: Self.since + 1)
        #expect(Self.found(before, later) == [10: .earlier])
        #expect(Self.found(before, later, since: 0) == [:])
        #expect(Self.found(before, later, since: nil) == [10: .earlier, 11: .earlier])
    }

    @Test func aFilterDoesNotCountForWhatAnUnlockedOneBegan() {
        // A sandbox in a session that began before: its own filter may let Bluetooth through.
        let shell = Self.process(10, in: "session-1.scope", at: 50)
        let sandbox = Self.process(11, of: 10, in: "session-1.scope", filtered: true)
        let inside = Self.process(12, of: 11, in: "session-1.scope", filtered: true)
        #expect(Self.found(inside, sandbox, shell) == [10: .none, 11: .earlier, 12: .earlier])
    }

    @Test func exceptionsAreNotListedNorWhatTheyStart() {
        let daemon = Self.process(10, in: "bluetooth.service", at: 50)
        let instance = Self.process(11, in: "radio@2.service")
        let session = Self.process(12, of: 11, in: "session-1.scope")
        let other = Self.process(13, in: "radio.service")
        let exceptions = ["bluetooth.service", "radio@.service"]
        #expect(Self.found(daemon, instance, session, other, exceptions: exceptions) == [13: .none])
    }

    @Test func systemdsOwnHelperBesideALockedManagerIsNone() {
        func helper(_ pid: Int32, of parent: Int32, ours: Bool = true) -> RunningProcess {
            RunningProcess(
                pid: pid, parent: parent, unit: "user@1000.service", isFiltered: false, beginning: 200, isServiceManagers: ours)
        }
        let manager = Self.process(10, in: "user@1000.service", filtered: true)
        let older = Self.process(20, in: "user@1001.service", filtered: true, at: 50)
        #expect(Self.found(manager, helper(11, of: 10)) == [:])
        #expect(Self.found(manager, helper(11, of: 10, ours: false)) == [11: .none])
        #expect(Self.found(older, helper(21, of: 20)) == [20: .earlier, 21: .none])
        #expect(Self.found(helper(11, of: 1)) == [11: .none])
    }

    @Test func numbersThatComeRoundMakeNoCircle() {
        let one = Self.process(10, of: 11, filtered: true), other = Self.process(11, of: 10, filtered: true)
        #expect(Self.found(one, other) == [:])
    }

    @Test func theProcessesOfThisMachineAreRead() throws {
        let all = try RunningProcess.all()
        #expect(!all.contains { $0.pid <= 2 || $0.pid == getpid() })
        #expect(all.contains { $0.pid == getppid() && $0.beginning <= RunningProcess.now })
    }
}

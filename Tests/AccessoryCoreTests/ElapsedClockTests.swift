// SPDX-License-Identifier: Apache-2.0
// The time by which grants end, against machines that are restarted, suspended, switched off, or do not know the time.

import AccessoryCore
import AccessoryModel
import TestSupport
import Testing

@Suite struct ElapsedClockTests {
    /// A machine with its clocks, and the true time.
    private struct Machine {
        var boots = 1
        var truth = 0.0
        var bootedAt = 0.0
        var wallError = 0.0
        let hasRealTimeClock: Bool
        var isSynchronized = false
        var clock: ElapsedClock?
        var stored: ElapsedClock.Anchor?

        static let start = 1_800_000_000.0

        init(realTimeClock: Bool) {
            hasRealTimeClock = realTimeClock
            run()
        }

        var reading: ClockReading {
            ClockReading(
                boot: "boot \(boots)", sinceBoot: truth - bootedAt, wall: Self.start + truth + wallError,
                isTrusted: hasRealTimeClock || isSynchronized)
        }
        var elapsed: Double { clock?.moment(at: reading).elapsed ?? -1 }
        var wall: Double { (clock?.moment(at: reading).wall ?? 0) - Self.start }

        /// The daemon starts, and ends.
        mutating func run() {
            clock = ElapsedClock(stored, at: reading)
            stored = clock?.anchor(at: reading)
        }
        mutating func end() { stored = clock?.anchor(at: reading) }
        mutating func pass(_ seconds: Double) { truth += seconds }
        /// The power goes for some time; a machine without a real-time clock begins in 1970.
        mutating func lose(power seconds: Double, wallBeginsAt wall: Double? = nil) {
            truth += seconds
            boots += 1
            bootedAt = truth
            isSynchronized = false
            if !hasRealTimeClock { wallError = (wall ?? -Self.start) - truth }
        }
        mutating func synchronize() {
            isSynchronized = true
            setWall(by: -wallError)
        }
        mutating func setWall(by seconds: Double) {
            wallError += seconds
            let now = reading
            clock?.clockSet(at: now)
        }
    }

    @Test(arguments: [86_400.0, -86_400, 1_000_000_000, -1_700_000_000])
    func aJumpOfTheWallClockChangesNothing(jump: Double) {
        var machine = Machine(realTimeClock: true)
        machine.pass(100)
        machine.setWall(by: jump)
        machine.pass(100)
        #expect(machine.elapsed == 200)
        machine.run()
        #expect(machine.elapsed == 200)
        // While the daemon does not run.
        machine.wallError -= jump
        machine.pass(100)
        machine.run()
        #expect(machine.elapsed == 300)
        // The next boot goes by the clock as it was set.
        machine.end()
        machine.lose(power: 50)
        machine.run()
        #expect(machine.elapsed == 350)
    }

    @Test func timeOffCountsByTheRealTimeClock() {
        var machine = Machine(realTimeClock: true)
        machine.pass(100)
        machine.lose(power: 1000)
        machine.pass(10)
        machine.run()
        #expect(machine.elapsed == 1110)
        machine.setWall(by: 5000)
        machine.pass(10)
        #expect(machine.elapsed == 1120)
    }

    @Test func withoutARealTimeClockTimeOffCountsOnceItIsKnown() {
        var machine = Machine(realTimeClock: false)
        machine.synchronize()
        machine.run()
        machine.pass(100)
        machine.end()
        machine.lose(power: 1000)
        machine.pass(10)
        machine.run()
        #expect(machine.elapsed == 110)
        #expect(machine.wall == 110)
        machine.pass(10)
        machine.synchronize()
        #expect(machine.elapsed == 1120)
        #expect(machine.wall == 1120)
        machine.setWall(by: 1_000_000)
        #expect(machine.elapsed == 1120)
    }

    @Test func aClockThatWasSavedAtTheEndIsNotBelieved() {
        var machine = Machine(realTimeClock: false)
        machine.synchronize()
        machine.run()
        machine.pass(100)
        machine.end()
        machine.lose(power: 1000, wallBeginsAt: 100)
        machine.run()
        machine.pass(20)
        #expect(machine.elapsed == 120)
        machine.synchronize()
        #expect(machine.elapsed == 1120)
    }

    @Test func bootsThatNeverKnewTheTimeAddUp() {
        var machine = Machine(realTimeClock: false)
        machine.synchronize()
        machine.run()
        for _ in 0..<3 {
            machine.lose(power: 1000)
            machine.run()
            machine.pass(100)
            machine.end()
        }
        #expect(machine.elapsed == 300)
        // A restart of the daemon knows no more.
        machine.run()
        #expect(machine.elapsed == 300)
        machine.synchronize()
        #expect(machine.elapsed == 3300)
    }

    /// Switched off before it ever knew the time, it does not take the years since 1970 for time off.
    @Test(arguments: [-1_800_000_000.0, 0, -5_000]) func timeOffAfterAnUnknownMomentDoesNotCount(beginning: Double) {
        var machine = Machine(realTimeClock: false)
        machine.lose(power: 10_000, wallBeginsAt: beginning)
        machine.stored = nil
        machine.run()
        machine.pass(100)
        machine.end()
        machine.lose(power: 1000, wallBeginsAt: beginning + 100)
        machine.run()
        machine.pass(10)
        machine.synchronize()
        #expect(machine.elapsed == 110)
        // From here on it is known.
        machine.end()
        machine.lose(power: 1000)
        machine.run()
        machine.synchronize()
        #expect(machine.elapsed == 1110)
    }

    @Test func setInTheSameBootItIsKnown() {
        var machine = Machine(realTimeClock: false)
        machine.lose(power: 0)
        machine.stored = nil
        machine.run()
        machine.pass(100)
        machine.synchronize()
        #expect(machine.elapsed == 100)
        machine.end()
        machine.lose(power: 50)
        machine.run()
        machine.synchronize()
        #expect(machine.elapsed == 150)
    }

    /// A random life: elapsed time never goes back, and never beyond the truth; once the time is known, it is the
    /// truth.
    @Test(arguments: 0..<200) func aRandomLife(seed: UInt64) {
        var random = SeededGenerator(state: seed)
        var machine = Machine(realTimeClock: seed % 2 == 0)
        machine.synchronize()
        machine.run()
        var last = 0.0
        var isKnown = true
        for _ in 0..<60 {
            switch random.next() % 6 {
            case 0: machine.pass(Double(random.next() % 10_000))
            case 1: machine.run()
            case 2:
                machine.end()
                machine.lose(power: Double(random.next() % 100_000))
                machine.run()
                isKnown = machine.hasRealTimeClock && isKnown
            // Without a real-time clock, the next boot has another error.
            case 3: if machine.hasRealTimeClock { machine.setWall(by: Double(random.next() % 1_000_000) - 500_000) }
            case 4:
                // A restart with a wrong wall clock would only repeat it.
                machine.synchronize()
                isKnown = true
            default: machine.end()
            }
            #expect(machine.elapsed >= last - 0.001 && machine.elapsed <= machine.truth + 0.001)
            if isKnown { #expect(abs(machine.elapsed - machine.truth) < 0.001) }
            last = machine.elapsed
        }
    }
}

@Suite struct TimeLimitTests {
    private func limit(_ texts: String..., at moment: Moment = Moment(elapsed: 0, wall: 0)) -> TimeLimit {
        TimeLimit(texts.compactMap { EndRule($0) }, at: moment) { moment.wall + Double($0) }
    }

    @Test(arguments: ["90s", "15min", "8h", "7d", "18:00", "00:00", "23:59", "idle 30d", "1s", "3650d"])
    func textOfRules(text: String) { #expect(EndRule(text)?.description == text) }

    @Test(arguments: [
        ("3600s", "1h"), ("60min", "1h"), ("24h", "1d"), ("2w", "14d"), ("idle 2w", "idle 14d"), ("idle 24h", "idle 1d"),
    ])
    func otherTexts(text: String, same: String) { #expect(EndRule(text)?.description == same) }

    @Test(arguments: [
        "", "8", "h", "0s", "-1h", "+1h", "1.5h", "8 h", " 8h", "8H", "8m", "24:00", "1:00", "18:60", "18:000", "18:00:00", "idle",
        "idle 0d", "idle 1h", "idle", "idle idle 1d", "4000d", "99999999999999999999s", "٣h", "none",
    ])
    func noRules(text: String) { #expect(EndRule(text) == nil) }

    @Test func theFirstEndCounts() {
        let limit = limit("idle 1d", "1h")
        #expect(limit.remaining(at: Moment(elapsed: 600, wall: 0)) == 3000)
        #expect(limit.lead == 360)
    }

    @Test func aTimeOfDayGoesByTheWallClock() {
        let limit = TimeLimit([.timeOfDay(minutes: 60)], at: Moment(elapsed: 0, wall: 100)) { _ in 3600 }
        #expect(limit.remaining(at: Moment(elapsed: 5000, wall: 600)) == 3000)
        #expect(limit.remaining(at: Moment(elapsed: 0, wall: 3600)) == 0)
    }

    @Test func aUseMovesIdleDaysOnly() {
        let now = Moment(elapsed: 7200, wall: 0)
        #expect(limit("idle 1d").used(at: now).remaining(at: now) == 86400)
        #expect(limit("1d").used(at: now) == limit("1d"))
        let soon = Moment(elapsed: 30, wall: 0)
        #expect(limit("idle 1d").used(at: soon) == limit("idle 1d"))
    }

    @Test func aUseTakesTheWarningBack() {
        guard case .running(let ends, _) = limit("idle 1d") else { return #expect(Bool(false)) }
        let warned = TimeLimit.running(ends, hasWarned: true)
        guard case .running(_, let hasWarned) = warned.used(at: Moment(elapsed: 86000, wall: 0)) else {
            return #expect(Bool(false))
        }
        #expect(!hasWarned)
    }

    @Test func bounds() {
        let now = Moment(elapsed: 0, wall: 0)
        #expect(limit().bounded(by: 60, at: now).rules == [.duration(seconds: 60)])
        #expect(limit("30s").bounded(by: 60, at: now) == limit("30s"))
        #expect(limit("1h").bounded(by: 60, at: now).rules == [.duration(seconds: 60)])
        #expect(limit("idle 1d").bounded(by: 60, at: now).rules == [.idle(days: 1), .duration(seconds: 60)])
        #expect(TimeLimit.ended([.idle(days: 1)]).bounded(by: 60, at: now) == .ended([.idle(days: 1)]))
        // Once bounded it is not bounded anew.
        let bounded = limit("1h").bounded(by: 60, at: now)
        #expect(bounded.bounded(by: 60, at: Moment(elapsed: 30, wall: 30)) == bounded)
    }
}

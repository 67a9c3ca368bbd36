// SPDX-License-Identifier: Apache-2.0
// The time by which grants end: the system's clocks, counted by `ElapsedClock`.

internal import AccessoryCore
internal import AccessoryModel

final class GrantTime {
    private let clock: any EngineClock
    private var elapsed: ElapsedClock

    /// - Parameter grants: all that are stored. With a damaged anchor nothing is known about their time: they end, and
    ///   can be renewed.
    init(_ stored: ElapsedClock.Anchor?, _ grants: [Grant], _ clock: any EngineClock) {
        self.clock = clock
        let now = clock.reading
        elapsed = ElapsedClock(stored, at: now)
        let start = Moment(elapsed: 0, wall: now.wall)
        guard stored == nil, let latest = grants.compactMap({ $0.terms.time.remaining(at: start) }).max() else { return }
        elapsed = ElapsedClock(
            ElapsedClock.Anchor(boot: now.boot, sinceBoot: now.sinceBoot, wall: now.wall, elapsed: latest, isSettled: true), at: now
        )
    }

    var now: Moment { elapsed.moment(at: clock.reading) }
    /// To be stored.
    var anchor: ElapsedClock.Anchor { elapsed.anchor(at: clock.reading) }
    /// Whether the time since the earlier boot is known.
    var isSettled: Bool { elapsed.isSettled }

    func clockSet() { elapsed.clockSet(at: clock.reading) }

    /// - Throws: `InvalidRequest` for a time of day before the clock was ever set.
    func limit(_ rules: [EndRule]) throws(SetupError) -> TimeLimit {
        let now = now
        for case .timeOfDay(let minutes) in rules where now.wall < Self.earliest {
            throw .invalid("end", EndRule.timeOfDay(minutes: minutes), "this machine does not know the time yet")
        }
        return TimeLimit(rules, at: now) { clock.next($0, after: now.wall) }
    }

    /// Seconds since 1970, for people; nil for a grant that does not end, or has ended.
    func end(of grant: Grant) -> Int64? {
        guard grant.state != .unauthorized else { return nil }
        let now = now
        return grant.terms.time.remaining(at: now).map { Int64((now.wall + $0).rounded()) }
    }

    /// Whether a grant has time left.
    func isRunning(_ grant: Grant) -> Bool {
        guard case .running = grant.terms.time else { return !grant.terms.time.hasEnded }
        return grant.terms.time.remaining(at: now).map { $0 > 0 } ?? true
    }

    /// In 2024: an earlier wall clock was never set.
    private static let earliest = 1_704_067_200.0
}

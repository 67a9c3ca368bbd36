// SPDX-License-Identifier: Apache-2.0
// The time that has passed for this machine, switched off or not. Within one boot the kernel counts it, suspended time
// included; between boots only the wall clock knows, and on a machine without a real-time clock that knows nothing
// before it is set. A value: readings of the clocks in, elapsed seconds out (Docs/Decisions/0046).

public import AccessoryModel

/// The clocks of the system at one moment.
public struct ClockReading: Hashable, Sendable {
    /// The kernel's identifier of the boot.
    public var boot: String
    /// Seconds since the boot, suspended time included (`CLOCK_BOOTTIME`).
    public var sinceBoot: Double
    /// Seconds since 1970 (`CLOCK_REALTIME`).
    public var wall: Double
    /// Whether the wall clock can be relied on as it is: from a real-time clock, or set from a time server.
    public var isTrusted: Bool

    /// Stores its arguments.
    public init(boot: String, sinceBoot: Double, wall: Double, isTrusted: Bool) {
        self.boot = boot
        self.sinceBoot = sinceBoot
        self.wall = wall
        self.isTrusted = isTrusted
    }

    fileprivate var trustedWall: Double? { isTrusted ? wall : nil }
}

/// Counts elapsed time across restarts, reboots, suspends, and jumps of the wall clock.
public struct ElapsedClock: Hashable, Sendable {
    /// A moment of a boot whose elapsed time is known; stored.
    public struct Anchor: Hashable, Sendable {
        /// The boot.
        public var boot: String
        /// Seconds since the boot.
        public var sinceBoot: Double
        /// Seconds since 1970; nil while that cannot be relied on. The time off after this moment is never known then,
        /// and does not count.
        public var wall: Double?
        /// Elapsed seconds.
        public var elapsed: Double
        /// False while the time between this boot and the one before is not known yet: `wall` is the earliest then.
        public var isSettled: Bool

        /// Stores its arguments.
        public init(boot: String, sinceBoot: Double, wall: Double?, elapsed: Double, isSettled: Bool) {
            self.boot = boot
            self.sinceBoot = sinceBoot
            self.wall = wall
            self.elapsed = elapsed
            self.isSettled = isSettled
        }
    }

    private var anchor: Anchor

    /// - Parameter stored: the last anchor; nil where nothing was counted before.
    public init(_ stored: Anchor?, at now: ClockReading) {
        guard let stored else {
            anchor = Anchor(boot: now.boot, sinceBoot: now.sinceBoot, wall: now.trustedWall, elapsed: 0, isSettled: true)
            return
        }
        if stored.boot == now.boot, stored.sinceBoot <= now.sinceBoot {
            anchor = stored
            // It may have been set while the daemon did not run.
            if stored.isSettled { anchor = self.anchor(at: now) } else { clockSet(at: now, isFirst: true) }
            return
        }
        guard stored.wall != nil else {
            anchor = Anchor(boot: now.boot, sinceBoot: 0, wall: nil, elapsed: stored.elapsed, isSettled: true)
            anchor = self.anchor(at: now)
            return
        }
        anchor = Anchor(boot: now.boot, sinceBoot: 0, wall: stored.wall, elapsed: stored.elapsed, isSettled: false)
        clockSet(at: now, isFirst: true)
    }

    /// The wall clock was set. The first setting in a boot that does not contradict the earlier time shows how long the
    /// machine was off; later ones change nothing.
    public mutating func clockSet(at now: ClockReading) { clockSet(at: now, isFirst: false) }

    private mutating func clockSet(at now: ClockReading, isFirst: Bool) {
        guard !anchor.isSettled else {
            anchor = anchor(at: now)
            anchor.wall = now.wall
            return
        }
        guard gap(at: now) >= 0, now.isTrusted || !isFirst else { return }
        anchor = Anchor(
            boot: now.boot, sinceBoot: now.sinceBoot, wall: now.wall, elapsed: moment(at: now).elapsed, isSettled: true)
    }

    /// Seconds by which the wall clock is ahead of the time that is known to have passed.
    private func gap(at now: ClockReading) -> Double {
        anchor.wall.map { now.wall - ($0 + now.sinceBoot - anchor.sinceBoot) } ?? 0
    }

    /// The present moment. While the time off is unknown, it counts as far as the wall clock suggests it.
    public func moment(at now: ClockReading) -> Moment {
        let counted = anchor.elapsed + max(0, now.sinceBoot - anchor.sinceBoot)
        guard !anchor.isSettled, let wall = anchor.wall else { return Moment(elapsed: counted, wall: now.wall) }
        let gap = max(0, gap(at: now))
        return Moment(elapsed: counted + gap, wall: wall + now.sinceBoot - anchor.sinceBoot + gap)
    }

    /// Whether the time off is known.
    public var isSettled: Bool { anchor.isSettled }

    /// The present anchor, to be stored.
    public func anchor(at now: ClockReading) -> Anchor {
        let moment = moment(at: now)
        return Anchor(
            boot: now.boot, sinceBoot: now.sinceBoot, wall: anchor.wall == nil ? now.trustedWall : moment.wall,
            elapsed: moment.elapsed, isSettled: anchor.isSettled)
    }
}

// SPDX-License-Identifier: Apache-2.0
// Decides when an app may be started because an observed accessory has appeared: once a minute, and at growing
// intervals while the app does not open a session.

internal import AccessoryModel

/// The wakes of one app as a value. Times are monotonic seconds.
public struct WakeLimit: Hashable, Sendable {
    private var next = -Double.infinity
    private var pause = Limits.wakePause.lowerBound

    /// No wake so far.
    public init() {}

    /// The app may be woken: nil, and the wake counts; else the time from which it may be.
    public mutating func wake(now: Double) -> Double? {
        guard now >= next else { return next }
        next = now + pause
        pause = min(2 * pause, Limits.wakePause.upperBound)
        return nil
    }

    /// The app has opened a session: the pauses begin anew, and the present one is the shortest.
    public mutating func activated(now: Double) {
        pause = Limits.wakePause.lowerBound
        next = min(next, now + pause)
    }
}

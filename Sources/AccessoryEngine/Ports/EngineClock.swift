// SPDX-License-Identifier: Apache-2.0
// The engine's view of time.

public import AccessoryCore

/// Time, so that tests can hold it still.
public protocol EngineClock: AnyObject {
    /// Seconds since 1970, with their fraction.
    var wallTime: Double { get }
    /// Monotonic seconds.
    var uptime: Double { get }
    /// All clocks at this moment.
    var reading: ClockReading { get }
    /// The next time that the local clock shows a time of day, in seconds since 1970, after `wall`.
    ///
    /// - Parameter minutes: since midnight, 0 to 1439.
    func next(_ minutes: Int, after wall: Double) -> Double
    /// Calls `body` on the engine's thread after each setting of the wall clock, and after a suspend, until it is
    /// cancelled. Costs nothing meanwhile.
    func onClockSet(_ body: @escaping () -> Void) -> any EngineTimer
    /// Calls `body` once on the engine's thread after `seconds`, unless the timer is cancelled.
    func after(_ seconds: Double, _ body: @escaping () -> Void) -> any EngineTimer
}

extension EngineClock {
    /// Whole seconds since 1970, as they are stored.
    public var now: Int64 { Int64(wallTime) }
}

/// A scheduled call.
public protocol EngineTimer: AnyObject {
    /// Cancels the call. Nothing happens after it.
    func cancel()
}

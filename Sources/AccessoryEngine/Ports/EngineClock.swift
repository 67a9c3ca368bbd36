// SPDX-License-Identifier: Apache-2.0
// The engine's view of time.

/// Time, so that tests can hold it still.
public protocol EngineClock: AnyObject {
    /// Seconds since 1970, with their fraction.
    var wallTime: Double { get }
    /// Monotonic seconds.
    var uptime: Double { get }
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

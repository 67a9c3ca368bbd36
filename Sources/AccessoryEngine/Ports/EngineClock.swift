// SPDX-License-Identifier: Apache-2.0
// What the engine needs of time.

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

/// Something that is to be done later.
public protocol EngineTimer: AnyObject {
    /// It is not done then. Nothing happens to one that is done.
    func cancel()
}

// SPDX-License-Identifier: Apache-2.0
// Repeats an operation that the disk, the radio or a service refused, at growing intervals: it is not forgotten, and
// does not keep an idle gateway awake.

/// One thing that is done again until it works.
public final class Retry {
    /// Calls a body once after some seconds, and returns a function that cancels the call.
    public typealias Timer = (_ seconds: Double, _ body: @escaping () -> Void) -> () -> Void

    private let pauses: ClosedRange<Double>
    private let timer: Timer
    private var delay: Double
    private var callOff: (() -> Void)?

    /// - Parameters:
    ///   - pauses: the first one and the longest, in seconds; each is twice as long as the one before it.
    ///   - timer: of the loop that it is done on.
    public init(_ pauses: ClosedRange<Double>, _ timer: @escaping Timer) {
        self.pauses = pauses
        self.timer = timer
        delay = pauses.lowerBound
    }

    /// Whether something is to be done again, after a pause that is not over yet.
    public var isWaiting: Bool { callOff != nil }

    /// It has failed: calls `body` after a pause, unless something is to be done again already.
    public func schedule(_ body: @escaping () -> Void) {
        guard !isWaiting else { return }
        callOff = timer(delay) { [weak self] in
            guard let self else { return }
            self.callOff = nil
            self.delay = min(self.delay * 2, self.pauses.upperBound)
            body()
        }
    }

    /// It works: the next pause is the shortest one. A scheduled call remains.
    public func reset() { delay = pauses.lowerBound }

    /// It is not done when the pause is over.
    public func cancel() {
        callOff?()
        callOff = nil
    }

    /// Nothing is to be done again, and the next pause is the shortest one.
    public func finish() {
        cancel()
        reset()
    }

    deinit { callOff?() }
}

extension EngineClock {
    /// Calls `body` once after some seconds, and returns a function that cancels the call.
    func once(after seconds: Double, _ body: @escaping () -> Void) -> () -> Void {
        let timer = after(seconds, body)
        return { timer.cancel() }
    }
}

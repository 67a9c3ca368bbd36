// SPDX-License-Identifier: Apache-2.0
// The handle of whatever the main loop calls: a timer, a job, a descriptor, a signal.

/// A source of the loop. It lasts until it is cancelled or done; releasing the handle does not end it.
public final class LoopSource {
    enum Kind {
        case timer(TimerQueue.Key)
        case job
        /// A descriptor, and the events that it is watched for, as bits of poll(2).
        case descriptor(Int32, UInt32)
    }

    /// Changed by the loop alone.
    var kind: Kind
    /// Takes the events of a descriptor, 0 otherwise; false to be called no more. Nil once the source has ended.
    private(set) var body: ((UInt32) -> Bool)?
    // A loop ends its sources, and nothing is asked of the loop afterwards.
    private unowned let loop: MainLoop

    init(_ kind: Kind, of loop: MainLoop, _ body: @escaping (UInt32) -> Bool) {
        self.kind = kind
        self.loop = loop
        self.body = body
    }

    /// Whether the source can still fire.
    public var isActive: Bool { body != nil }

    /// Ends the source; that of a descriptor before this is closed. Safe at any time, also from its own body.
    public func cancel() {
        guard body != nil else { return }
        body = nil
        loop.remove(self)
    }

    /// Calls the body unless another source's has cancelled it.
    ///
    /// - Returns: whether the source goes on.
    func fire(_ events: UInt32 = 0) -> Bool {
        guard let body, body(events) else { return false }
        return isActive
    }

    /// Ends it without a word to the loop, which has dropped it.
    func end() { body = nil }
}

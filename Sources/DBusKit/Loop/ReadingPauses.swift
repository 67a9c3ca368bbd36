// SPDX-License-Identifier: Apache-2.0
// The pauses of a descriptor's reader: while much arrives the descriptor is not waited for, but read by a timer. A
// `ReadingPace` decides how long; the timer exists in a pause only.

/// Has a descriptor read after pauses, until little arrives. On the thread of its `MainLoop`.
public final class ReadingPauses {
    private let loop: MainLoop
    private var pace: any ReadingPace
    private let read: () -> Int
    private let listen: () -> Void
    private var timer: LoopSource?

    /// - Parameters:
    ///   - read: called after a pause; how many messages it took. It may end the pauses.
    ///   - listen: called when pauses are over, to wait for the descriptor again.
    public init(on loop: MainLoop, _ pace: any ReadingPace, read: @escaping () -> Int, listen: @escaping () -> Void) {
        self.loop = loop
        self.pace = pace
        self.read = read
        self.listen = listen
    }

    deinit {
        end()
    }

    /// Whether the descriptor is not to be waited for.
    public var isPausing: Bool { timer != nil }

    /// Called after a reading without a pause before it.
    ///
    /// - Returns: whether pauses have begun, and the descriptor is not to be waited for until `listen` is called.
    public func begin(after taken: Int) -> Bool {
        guard timer == nil, let pause = pace.pause(after: taken, at: loop.now) else { return false }
        wait(pause)
        return true
    }

    /// Ends the pauses; `listen` is not called.
    public func end() {
        timer?.cancel()
        timer = nil
    }

    private func wait(_ pause: Duration) {
        timer = loop.after(pause) { [weak self] in self?.pauseIsOver() }
    }

    private func pauseIsOver() {
        let ended = timer
        let taken = read()
        // The reading may have ended the pauses, or begun new ones.
        guard let ended, timer === ended else { return }
        timer = nil
        if let next = pace.pause(after: taken, at: loop.now) { wait(next) } else { listen() }
    }
}

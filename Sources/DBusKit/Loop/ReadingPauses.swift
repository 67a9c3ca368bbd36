// SPDX-License-Identifier: Apache-2.0
// The pauses of whoever reads a descriptor: while much comes it is not waited for, but read by a timer. How long is for
// a `ReadingPace` to say; here is the timer, which is there in a pause only.

/// Has a descriptor read after pauses, until little comes. On the thread of its `MainLoop`.
public final class ReadingPauses {
    private let loop: MainLoop
    private var pace: any ReadingPace
    private let read: () -> Int
    private let listen: () -> Void
    private var timer: LoopSource?
    /// Tells a pause from one that was begun when it had ended.
    private var begun = 0

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

    /// Called after a reading that no pause came before.
    ///
    /// - Returns: whether pauses have begun, and the descriptor is not to be waited for until `listen` is called.
    public func begin(after taken: Int) -> Bool {
        guard timer == nil, let pause = pace.pause(after: taken, at: loop.now) else { return false }
        begun += 1
        wait(pause, begun)
        return true
    }

    /// Ends the pauses; `listen` is not called.
    public func end() {
        timer?.cancel()
        timer = nil
    }

    private func wait(_ pause: Duration, _ number: Int) {
        // One timer for pauses that are alike.
        timer = loop.every(pause) { [weak self] in self?.isOver(pause, number) ?? false }
    }

    /// True to wait as long once more.
    private func isOver(_ pause: Duration, _ number: Int) -> Bool {
        let taken = read()
        guard isPausing, begun == number else { return false }
        let next = pace.pause(after: taken, at: loop.now)
        if next == pause { return true }
        timer = nil
        if let next { wait(next, number) } else { listen() }
        return false
    }
}

// SPDX-License-Identifier: Apache-2.0
// Doing again what the disk or the radio did not take, after 1, 2, 4 … 60 seconds: it is not forgotten, and does not
// keep an idle gateway awake.

final class Retry {
    private let clock: any EngineClock
    private var timer: (any EngineTimer)?
    /// Seconds until the next time.
    private var delay = 1.0

    private static let longestDelay = 60.0

    init(_ clock: any EngineClock) { self.clock = clock }

    /// Calls `body` in a while, unless something is to be done again already.
    func later(_ body: @escaping () -> Void) {
        guard timer == nil else { return }
        timer = clock.after(delay) { [weak self] in
            guard let self else { return }
            self.timer = nil
            self.delay = min(self.delay * 2, Self.longestDelay)
            body()
        }
    }

    /// It has worked: nothing is to be done again, and the next failure begins at a second.
    func end() {
        timer?.cancel()
        timer = nil
        delay = 1
    }
}

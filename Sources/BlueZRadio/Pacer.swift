// SPDX-License-Identifier: Apache-2.0
// Keeps something from happening too often: the first request is served at once, those that follow together at the interval's end.

internal import DBusKit

final class Pacer {
    private let loop: MainLoop
    private let interval: Duration
    private let action: () -> Void
    private var timer: LoopSource?
    private var isDue = false

    init(_ loop: MainLoop, interval: Duration, _ action: @escaping () -> Void) {
        self.loop = loop
        self.interval = interval
        self.action = action
    }

    deinit {
        timer?.cancel()
    }

    func request() {
        guard timer == nil else {
            isDue = true
            return
        }
        action()
        timer = loop.every(interval) { [weak self] in
            guard let self else { return false }
            // Nothing came: the next request need not wait, and an idle loop has no timer.
            guard self.isDue else {
                self.timer = nil
                return false
            }
            self.isDue = false
            self.action()
            return true
        }
    }

    func cancel() {
        timer?.cancel()
        timer = nil
        isDue = false
    }
}

// SPDX-License-Identifier: Apache-2.0
// Keeps something from happening too often: the first request is served at once, those that follow together when the
// interval is over.

internal import DBusKit

final class Pacer {
    private let loop: MainLoop
    private let interval: Duration
    private let patience: Duration
    private let action: () -> Void
    private var timer: LoopSource?
    /// When it last happened, microseconds of the monotonic clock.
    private var last: Int64?

    /// - Parameter patience: how much longer than the interval it may wait for another request, which costs no wakeup
    ///   of its own.
    init(_ loop: MainLoop, interval: Duration, patience: Duration = .zero, _ action: @escaping () -> Void) {
        self.loop = loop
        self.interval = interval
        self.patience = patience
        self.action = action
    }

    deinit {
        timer?.cancel()
    }

    func request() {
        let elapsed: Duration = last.map { .microseconds(loop.now - $0) } ?? interval
        guard elapsed < interval else { return act() }
        guard timer == nil else { return }
        timer = loop.after(interval + patience - elapsed) { [weak self] in self?.act() }
    }

    private func act() {
        cancel()
        last = loop.now
        action()
    }

    func cancel() {
        timer?.cancel()
        timer = nil
        last = nil
    }
}

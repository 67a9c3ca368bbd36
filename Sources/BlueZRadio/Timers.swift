// SPDX-License-Identifier: Apache-2.0
// The timers of one machine: each is started anew by its name, and all end with their owner.

internal import DBusKit

/// One-shot timers by name.
final class Timers<Name: Hashable> {
    private let loop: MainLoop
    private var sources: [Name: LoopSource] = [:]

    init(on loop: MainLoop) { self.loop = loop }

    /// Replaces the timer of that name.
    func start(_ name: Name, after delay: Duration, _ body: @escaping () -> Void) {
        cancel(name)
        sources[name] = loop.after(delay) { [weak self] in
            self?.sources[name] = nil
            body()
        }
    }

    /// Calls `check` every 250 ms until it returns true; after so many times `onTimeout` instead.
    func poll(_ name: Name, times: Int, _ check: @escaping () -> Bool, onTimeout: @escaping () -> Void) {
        start(name, after: .milliseconds(250)) { [weak self] in
            if check() { return }
            if times > 1 { self?.poll(name, times: times - 1, check, onTimeout: onTimeout) } else { onTimeout() }
        }
    }

    func cancel(_ name: Name) { sources.removeValue(forKey: name)?.cancel() }

    func cancelAll() {
        for source in sources.values { source.cancel() }
        sources = [:]
    }

    deinit { cancelAll() }
}

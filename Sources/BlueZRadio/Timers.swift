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

    func cancel(_ name: Name) { sources.removeValue(forKey: name)?.cancel() }

    func cancelAll() {
        for source in sources.values { source.cancel() }
        sources = [:]
    }

    deinit { cancelAll() }
}

// SPDX-License-Identifier: Apache-2.0
// The tie between an asynchronous call that shows a picker and the task that made
// it: when the task is cancelled, the picker ends.

internal import Synchronization

/// One asynchronous call. It goes along with the call's task while the request is made, rather than as an argument: the
/// asynchronous forms go through the methods with completion handlers, which an app's subclass may have overridden.
final class PickerCall: Sendable {
    @TaskLocal static var current: PickerCall?

    private struct State {
        var isCancelled = false
        var cancel: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// The task was cancelled.
    func cancel() {
        let cancel = state.withLock { state in
            state.isCancelled = true
            return state.cancel.take()
        }
        cancel?()
    }

    /// The request is on its way.
    ///
    /// - Parameter cancel: ends it; called at most once, at once when the task is cancelled already.
    func begin(_ cancel: @escaping @Sendable () -> Void) {
        let isCancelled = state.withLock { state in
            if !state.isCancelled { state.cancel = cancel }
            return state.isCancelled
        }
        if isCancelled { cancel() }
    }
}

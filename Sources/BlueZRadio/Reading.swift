// SPDX-License-Identifier: Apache-2.0
// One reading of all of BlueZ's objects, and the requests that wait for it. Requests that come while it goes on are
// served by the next one.

/// A reading of all objects.
final class Reading {
    private var completions: [() -> Void]
    /// Requests since it began: its result may be older than the state that they ask for.
    var later: [() -> Void] = []

    init(for completions: [() -> Void]) { self.completions = completions }

    /// Begins anew, which serves the later requests as well.
    func restart() {
        completions += later
        later = []
    }

    func end() { for completion in completions { completion() } }
}

// SPDX-License-Identifier: Apache-2.0
// Where callbacks arrive in a test, as lines of text in their order. A test waits for what it needs, with a limit that
// only a hang reaches.

import Dispatch
import Synchronization

struct Overdue: Error, CustomStringConvertible {
    let description: String
}

/// Lines in the order in which they arrived.
final class Mailbox: Sendable {
    private struct Waiter {
        let number: Int
        /// True when it is done.
        let look: @Sendable ([String]) -> Bool
        let expire: @Sendable ([String]) -> Void
    }

    private struct State {
        var lines: [String] = []
        var waiters: [Waiter] = []
        var lastNumber = 0
    }

    private let state = Mutex(State())

    var lines: [String] { state.withLock { $0.lines } }

    func put(_ line: String) {
        state.withLock { state in
            state.lines.append(line)
            let lines = state.lines
            state.waiters.removeAll { $0.look(lines) }
        }
    }

    /// Waits for the `count`-th line that is, or begins with, `text`.
    @discardableResult
    func wait(_ text: String, count: Int = 1, seconds: Double = 30) async throws -> String {
        @Sendable func find(_ lines: [String]) -> String? {
            let fitting = lines.filter { $0 == text || $0.hasPrefix(text + " ") }
            return fitting.count >= count ? fitting[count - 1] : nil
        }
        return try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<String, any Error>) in
            state.withLock { state in
                if let line = find(state.lines) { return continuation.resume(returning: line) }
                state.lastNumber += 1
                let number = state.lastNumber
                state.waiters.append(
                    Waiter(
                        number: number,
                        look: { lines in
                            guard let line = find(lines) else { return false }
                            continuation.resume(returning: line)
                            return true
                        },
                        expire: {
                            continuation.resume(
                                throwing: Overdue(description: "no “\(text)” number \(count), there is \($0)"))
                        }))
                DispatchQueue.global().asyncAfter(deadline: .now() + seconds) { [weak self] in self?.expire(number) }
            }
        }
    }

    private func expire(_ number: Int) {
        state.withLock { state in
            guard let index = state.waiters.firstIndex(where: { $0.number == number }) else { return }
            state.waiters.remove(at: index).expire(state.lines)
        }
    }
}

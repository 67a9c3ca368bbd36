// SPDX-License-Identifier: Apache-2.0
// A place where events, answers and calls from other threads arrive in a test. A test waits for the ones it needs, with
// a limit that only a hang reaches, and without holding the thread.

internal import Dispatch
internal import Synchronization

extension Duration {
    /// The limit of all waiting in tests. A longer wait is a hang: no machine is so slow.
    public static let hang = Duration.seconds(300)
}

/// The event that a test waited for did not come.
public struct Overdue: Error, CustomStringConvertible {
    /// The missing event, and the events so far.
    public let description: String

    /// Stores its argument.
    public init(description: String) { self.description = description }
}

/// Elements in the order in which they arrived.
public final class Mailbox<Element: Sendable>: Sendable {
    private struct Waiter {
        let number: Int
        /// True when it is done.
        let look: @Sendable ([Element]) -> Bool
        let expire: @Sendable ([Element]) -> Void
    }

    private struct State {
        var elements: [Element] = []
        var waiters: [Waiter] = []
        var lastNumber = 0
    }

    private let state = Mutex(State())

    /// All that has arrived.
    public var elements: [Element] { state.withLock { $0.elements } }

    /// Nothing has arrived.
    public init() {}

    /// Lets an element arrive.
    public func put(_ element: Element) {
        state.withLock { state in
            state.elements.append(element)
            let elements = state.elements
            state.waiters.removeAll { $0.look(elements) }
        }
    }

    /// Waits until `find` finds something among all elements so far.
    public func wait<Value: Sendable>(
        _ what: String, seconds: Double = Double(Duration.hang.components.seconds),
        _ find: @escaping @Sendable ([Element]) -> Value?
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Value, any Error>) in
            state.withLock { state in
                if let value = find(state.elements) { return continuation.resume(returning: value) }
                state.lastNumber += 1
                let number = state.lastNumber
                state.waiters.append(
                    Waiter(
                        number: number,
                        look: { elements in
                            guard let value = find(elements) else { return false }
                            continuation.resume(returning: value)
                            return true
                        },
                        expire: { continuation.resume(throwing: Overdue(description: "no \(what), there is \($0)")) }))
                DispatchQueue.global().asyncAfter(deadline: .now() + seconds) { [weak self] in self?.expire(number) }
            }
        }
    }

    private func expire(_ number: Int) {
        state.withLock { state in
            guard let index = state.waiters.firstIndex(where: { $0.number == number }) else { return }
            state.waiters.remove(at: index).expire(state.elements)
        }
    }

    /// The `count`-th element.
    public func wait(count: Int = 1) async throws -> Element {
        try await wait("element number \(count)") { $0.count >= count ? $0[count - 1] : nil }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Where things from other threads arrive in a test: events, answers, calls. A test waits for what it needs, with a limit that only a hang
// reaches, and without holding the thread.

import AccessorySetupKit
import Dispatch
import Synchronization

struct Overdue: Error, CustomStringConvertible {
    let description: String
}

/// Elements in the order in which they arrived.
final class Mailbox<Element: Sendable>: Sendable {
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

    var elements: [Element] { state.withLock { $0.elements } }

    func put(_ element: Element) {
        state.withLock { state in
            state.elements.append(element)
            let elements = state.elements
            state.waiters.removeAll { $0.look(elements) }
        }
    }

    /// Waits until `find` finds something among all elements so far.
    func wait<Value: Sendable>(
        _ what: String, seconds: Double = 60, _ find: @escaping @Sendable ([Element]) -> Value?
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
    func wait(count: Int = 1) async throws -> Element {
        try await wait("element number \(count)") { $0.count >= count ? $0[count - 1] : nil }
    }
}

extension Mailbox where Element == ASAccessoryEvent {
    /// The `count`-th event of a type.
    @discardableResult
    func wait(for type: ASAccessoryEventType, count: Int = 1) async throws -> ASAccessoryEvent {
        try await wait("\(type) number \(count)") { events in
            let fitting = events.filter { $0.eventType == type }
            return fitting.count >= count ? fitting[count - 1] : nil
        }
    }

    var types: [ASAccessoryEventType] { elements.map(\.eventType) }
}

/// What a completion handler got; exactly once, else `wait` or the test's end says so.
struct Answer: Sendable {
    let error: ASError?

    init(_ error: (any Error)?) { self.error = error.map { $0 as? ASError ?? ASError(.unknown) } }

    var code: ASError.Code { error?.code ?? .success }
}

typealias Events = Mailbox<ASAccessoryEvent>
typealias Answers = Mailbox<Answer>

/// The code that an asynchronous request threw; `success` when it did not.
func code(of request: () async throws -> Void) async -> ASError.Code {
    do {
        try await request()
        return .success
    } catch {
        return (error as? ASError)?.code ?? .unknown
    }
}

extension ASAccessorySession {
    /// Activates the session; events arrive in the mailbox.
    func begin(on queue: DispatchQueue = DispatchQueue(label: "test.app")) -> Events {
        let events = Events()
        activate(on: queue) { events.put($0) }
        return events
    }
}

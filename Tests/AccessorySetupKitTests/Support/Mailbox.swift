// SPDX-License-Identifier: Apache-2.0
// The module's events and answers in a test.

import AccessorySetupKit
import TestSupport

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

/// The result of a completion handler; it must come exactly once, else `wait` or the test's end fails.
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

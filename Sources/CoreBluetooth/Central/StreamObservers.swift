// SPDX-License-Identifier: Apache-2.0
// The streams of the module AccessoryStreams over a manager and its peripherals. Each receives its events on the app's
// queue, in the order of the delegate's callbacks and just before them.

internal import DBusKit
internal import Foundation
internal import Synchronization

/// An event for a stream.
package enum StreamEvent: Sendable {
    case state(CBManagerState)
    case value(Data)
    /// The last event. Without an error, notifications were turned off or the app has ended the link.
    case ended((any Error & Sendable)?)
}

/// The streams of one manager, in the order in which they began.
final class StreamObservers: Sendable {
    typealias Body = @Sendable (StreamEvent) -> Void
    typealias Token = Int

    enum Subject: Hashable {
        case state
        case characteristic(UUID, ObjectPath)

        func isOf(_ peripheral: UUID) -> Bool { if case .characteristic(peripheral, _) = self { true } else { false } }
    }

    private struct Observer {
        let token: Token
        let subject: Subject
        let body: Body
        /// Whether the stream's own request for notifications was answered. Answers before it concern earlier requests.
        var isSubscribed = false
    }

    private struct List {
        var observers: [Observer] = []
        var lastToken = 0
    }

    private let list = Mutex(List())

    func add(_ subject: Subject, _ body: @escaping Body) -> Token {
        list.withLock { list in
            list.lastToken += 1
            list.observers.append(Observer(token: list.lastToken, subject: subject, body: body))
            return list.lastToken
        }
    }

    func remove(_ token: Token) {
        list.withLock { list in list.observers.removeAll { $0.token == token } }
    }

    func bodies(_ subject: Subject) -> [Body] {
        list.withLock { list in list.observers.filter { $0.subject == subject }.map(\.body) }
    }

    func send(_ event: StreamEvent, to subject: Subject) {
        for body in bodies(subject) { body(event) }
    }

    func end(_ token: Token, _ error: any Error & Sendable) { end(error) { $0.token == token } }

    func end(_ error: (any Error & Sendable)?, where isOver: (Subject) -> Bool) { end(error) { isOver($0.subject) } }

    private func end(_ error: (any Error & Sendable)?, _ isOver: (Observer) -> Bool) {
        let ended = list.withLock { list in
            defer { list.observers.removeAll(where: isOver) }
            return list.observers.filter(isOver)
        }
        for observer in ended { observer.body(.ended(error)) }
    }

    /// A request to turn notifications on or off was answered.
    ///
    /// - Parameter token: the stream that has made it; nil for the app.
    func answered(_ subject: Subject, isOn: Bool?, _ error: (any Error & Sendable)?, to token: Token?) {
        if isOn == false { end(nil) { $0.subject == subject && $0.isSubscribed } }
        guard let token else { return }
        if let error { return end(token, error) }
        list.withLock { list in
            guard let index = list.observers.firstIndex(where: { $0.token == token }) else { return }
            list.observers[index].isSubscribed = true
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// The half of a session that every thread may touch: its phase, its state for the app, and the completions that wait
// for an answer. The promises to the app are kept here, in one lock: events in order, every completion exactly once,
// and nothing after `invalidated`.

internal import DBusKit
internal import Dispatch
internal import Foundation
internal import Synchronization

final class SessionCore: Sendable {
    typealias Completion = @Sendable ((any Error)?) -> Void
    /// Sends a request; called on the module's thread.
    typealias Send = @Sendable (SessionClient) -> Void

    /// Requests that may wait for a session to become active.
    private static let mostHeld = 64

    private enum Phase {
        case created
        case activating
        case active
        /// With the answer to later requests.
        case ended(ASError)

        static let released = Phase.ended(ASError(.invalidated, "the session was invalidated; an app needs a new one"))

        /// The activation has failed: later requests must not hide the cause.
        static func failed(_ cause: ASError) -> Phase {
            let text = "the activation of the session has failed: \(cause.localizedDescription)"
            return .ended(ASError(.invalidated, userInfo: [NSLocalizedDescriptionKey: text, NSUnderlyingErrorKey: cause]))
        }

        var hasBegun: Bool {
            switch self {
            case .activating, .active: true
            case .created, .ended: false
            }
        }

        var hasEnded: Bool { if case .ended = self { true } else { false } }
    }

    private struct State {
        var phase = Phase.created
        /// Serial, and aimed at the app's: order is kept even if that one is concurrent.
        var queue: DispatchQueue?
        var handler: EventHandler?
        /// As of the event that was handled last.
        var accessories: [ASAccessory] = []
        var settings: ASPickerDisplaySettings?
        var isPickerShown = false
        var completions: [Int: Completion] = [:]
        var lastToken = 0
        /// Requests that wait for the session to become active, in order.
        var held: [(token: Int, send: Send)] = []
    }

    let address: Connection.Address
    private let state = Mutex(State())
    /// For completions of a session that never had a queue.
    private static let queueOfNobody = DispatchQueue(label: "org.accessorysetup1.completions")

    init(_ address: Connection.Address) {
        self.address = address
    }

    var accessories: [ASAccessory] { state.withLock { $0.accessories } }

    var settings: ASPickerDisplaySettings? {
        get { state.withLock { $0.settings } }
        set { state.withLock { $0.settings = newValue } }
    }

    // MARK: Life

    var hasEnded: Bool { state.withLock { $0.phase.hasEnded } }

    /// - Returns: whether the session is to be opened now.
    func begin(on queue: DispatchQueue, _ handler: EventHandler) -> Bool {
        state.withLock { state in
            switch state.phase {
            case .created:
                state.phase = .activating
                state.queue = DispatchQueue(label: "org.accessorysetup1.session", target: queue)
                state.handler = handler
                return true
            case .activating, .active:
                return false
            case .ended(let error):
                queue.async { handler.call(ASAccessoryEvent(.invalidated, error: error)) }
                return false
            }
        }
    }

    /// Ends the session: a picker that is shown is dismissed, requests that wait end with an error, and the last event
    /// is `invalidated`.
    ///
    /// - Parameters:
    ///   - reason: the error of `invalidated`; nil when the app wanted it.
    ///   - error: the error for the requests that wait.
    /// - Returns: whether it had begun and was not over.
    @discardableResult
    func end(_ reason: ASError?, failing error: ASError) -> Bool {
        state.withLock { state in
            let hadBegun = state.phase.hasBegun
            guard !state.phase.hasEnded else { return false }
            if case .activating = state.phase, let reason { state.phase = .failed(reason) } else { state.phase = .released }
            // As with every picker: the completion, then the dismissal.
            failAll(error, in: &state)
            if state.isPickerShown { enqueue(ASAccessoryEvent(.pickerDidDismiss, error: error), in: state) }
            enqueue(ASAccessoryEvent(.invalidated, error: reason), in: state)
            return hadBegun
        }
    }

    /// Ends the session after the app has released it: no handler is left for its events. A session that was ended
    /// before still delivers its last event.
    ///
    /// - Returns: whether it had begun and was not over.
    func abandon() -> Bool {
        // Released outside the lock: objects that the handler holds may call back when they go.
        let (handler, hadBegun) = state.withLock { state -> (EventHandler?, Bool) in
            let hadBegun = state.phase.hasBegun
            guard !state.phase.hasEnded else { return (nil, false) }
            state.phase = .released
            failAll(ASError(.invalidated, "the session is gone"), in: &state)
            return (state.handler.take(), hadBegun)
        }
        withExtendedLifetime(handler) {}
        return hadBegun
    }

    private func failAll(_ error: ASError, in state: inout State) {
        let completions = state.completions.sorted { $0.key < $1.key }.map(\.value)
        state.completions = [:]
        state.held = []
        for completion in completions { (state.queue ?? Self.queueOfNobody).async { completion(error) } }
    }

    // MARK: Events

    /// - Parameter accessories: the full list, when the event brings a new one.
    /// - Returns: requests that waited for this event, to be sent now: no other code sends any before the module's
    ///   thread has done so.
    func deliver(_ event: ASAccessoryEvent, accessories: [ASAccessory]? = nil) -> [Send] {
        state.withLock { state in
            guard !state.phase.hasEnded else { return [] }
            var held: [Send] = []
            switch event.eventType {
            case .activated:
                state.phase = .active
                held = state.held.map(\.send)
                state.held = []
            case .pickerDidPresent: state.isPickerShown = true
            case .pickerDidDismiss: state.isPickerShown = false
            default: break
            }
            enqueue(event, accessories: accessories, in: state)
            return held
        }
    }

    /// An accessory has changed in a way that is no event.
    func refresh(_ accessory: ASAccessory) {
        state.withLock { state in
            state.queue?.async { [self] in
                self.state.withLock { state in
                    guard let index = state.accessories.firstIndex(of: accessory) else { return }
                    state.accessories[index] = accessory
                }
            }
        }
    }

    /// Called under the lock, so that the queue's order is the order of the events.
    private func enqueue(_ event: ASAccessoryEvent, accessories: [ASAccessory]? = nil, in state: State) {
        state.queue?.async { [self] in
            let handler = self.state.withLock { state in
                Self.apply(event, accessories, to: &state.accessories)
                // The last event takes the handler along: whatever it held is free.
                return event.eventType == .invalidated ? state.handler.take() : state.handler
            }
            handler?.call(event)
        }
    }

    private static func apply(_ event: ASAccessoryEvent, _ all: [ASAccessory]?, to accessories: inout [ASAccessory]) {
        if let all { accessories = all }
        switch event.eventType {
        case .accessoryAdded, .accessoryChanged, .migrationComplete:
            guard let accessory = event.accessory else { return }
            if let index = accessories.firstIndex(of: accessory) {
                accessories[index] = accessory
            } else {
                accessories.append(accessory)
            }
        case .accessoryRemoved:
            accessories.removeAll { $0 == event.accessory }
        case .invalidated:
            accessories = []
        default:
            break
        }
    }

    // MARK: Requests

    /// Records a completion that waits for an answer.
    ///
    /// - Returns: the token for the answer; nil when the request is refused already.
    func open(_ completion: @escaping Completion) -> Int? {
        state.withLock { state in
            let refusal: ASError
            switch state.phase {
            case .activating where state.completions.count >= Self.mostHeld:
                refusal = ASError(.invalidRequest, "\(Self.mostHeld) requests are already waiting for the session to become active")
            case .active, .activating:
                state.lastToken += 1
                state.completions[state.lastToken] = completion
                return state.lastToken
            case .created:
                refusal = ASError(.invalidRequest, "the session is not active: activate it first")
            case .ended(let error):
                refusal = error
            }
            (state.queue ?? Self.queueOfNobody).async { completion(refusal) }
            return nil
        }
    }

    /// - Returns: whether the request is to be sent now; else it waits for the session to become active, or is answered
    ///   already.
    func holdUnlessActive(_ token: Int, _ send: @escaping Send) -> Bool {
        state.withLock { state in
            switch state.phase {
            case .active: return true
            case .activating where state.completions[token] != nil: state.held.append((token, send))
            case .activating, .created, .ended: break
            }
            return false
        }
    }

    /// Calls a request off that has not been sent.
    ///
    /// - Returns: whether it waited to be sent.
    func withdraw(_ token: Int, _ error: ASError) -> Bool {
        let wasHeld = state.withLock { state in
            guard let index = state.held.firstIndex(where: { $0.token == token }) else { return false }
            state.held.remove(at: index)
            return true
        }
        if wasHeld { finish(token, error) }
        return wasHeld
    }

    /// Answers a request. A request that has been answered already is not answered again.
    func finish(_ token: Int, _ error: ASError?) {
        state.withLock { state in
            guard let completion = state.completions.removeValue(forKey: token) else { return }
            (state.queue ?? Self.queueOfNobody).async { completion(error) }
        }
    }
}

/// The app's event handler on its way to the app's queue.
///
/// @unchecked, as the closure is not Sendable: Apple's signature does not ask for it, so that a handler may use the
/// objects that belong to its queue. It is safe because the closure is only called on the queue that came with it, by
/// one block at a time (the session's own queue is serial), and by no other code: the app passes both together and
/// thereby declares where the handler may run.
final class EventHandler: @unchecked Sendable {
    private let body: (ASAccessoryEvent) -> Void

    init(_ body: @escaping (ASAccessoryEvent) -> Void) {
        self.body = body
    }

    func call(_ event: ASAccessoryEvent) { body(event) }
}

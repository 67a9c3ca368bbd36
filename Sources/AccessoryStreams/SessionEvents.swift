// SPDX-License-Identifier: Apache-2.0
// The events of a session as a stream.

public import AccessorySetupKit
public import Dispatch

extension ASAccessorySession {
    /// Activates the session, and returns its events. The stream ends after `.invalidated`.
    ///
    /// The session belongs to the stream: it stays while the stream does, and is invalidated when the task that
    /// iterates is cancelled, or the stream is released. Keep the stream for as long as the session is needed.
    ///
    /// A session is activated once, as with `activate(on:eventHandler:)`. Of a session that is already active,
    /// another call returns a stream that ends at once without an event; of a session that is over, a stream of
    /// `.invalidated` alone, with an error. Neither affects the session.
    ///
    /// - Parameters:
    ///   - queue: where the completion handlers of the session's requests are called.
    ///   - limit: the number of events that may wait for the task. Beyond it, the oldest or the newest are dropped;
    ///     with `bufferingNewest`, `.invalidated` never is.
    public func events(
        on queue: DispatchQueue = .global(),
        bufferingPolicy limit: AsyncStream<ASAccessoryEvent>.Continuation.BufferingPolicy = .bufferingNewest(256)
    ) -> AsyncStream<ASAccessoryEvent> {
        let (stream, continuation) = AsyncStream.makeStream(of: ASAccessoryEvent.self, bufferingPolicy: limit)
        continuation.onTermination = { reason in
            if case .cancelled = reason { self.invalidate() }
        }
        let sink = EventSink(continuation)
        activate(on: queue) { sink.receive($0) }
        return stream
    }
}

/// Ends its stream also where no event does: a session that ignores the activation releases the handler at once.
private final class EventSink: Sendable {
    private let continuation: AsyncStream<ASAccessoryEvent>.Continuation

    init(_ continuation: AsyncStream<ASAccessoryEvent>.Continuation) {
        self.continuation = continuation
    }

    deinit { continuation.finish() }

    func receive(_ event: ASAccessoryEvent) {
        continuation.yield(event)
        if event.eventType == .invalidated { continuation.finish() }
    }
}

// SPDX-License-Identifier: Apache-2.0
// A method call on its way: its completion is called once, or never after `cancel()`.

internal import CDBus

/// A call that waits for its answer.
public final class PendingCall {
    private var handle: OpaquePointer?
    private var completion: ((Result<Message, BusError>) -> Void)?
    var onFinish: ((ObjectIdentifier) -> Void)?

    init(_ completion: @escaping (Result<Message, BusError>) -> Void) {
        self.completion = completion
    }

    deinit {
        if let handle { dbus_pending_call_unref(handle) }
    }

    /// Whether the answer is still to come.
    public var isPending: Bool { completion != nil }

    /// Forgets the call: the completion is not called, a late answer is dropped. (The service still
    /// does its work.)
    public func cancel() {
        completion = nil
        onFinish?(ObjectIdentifier(self))
        guard let handle else { return }
        self.handle = nil
        dbus_pending_call_cancel(handle)
        dbus_pending_call_unref(handle)
    }

    func adopt(_ handle: OpaquePointer) {
        self.handle = handle
        let box = Unmanaged.passRetained(self).toOpaque()
        dbus_pending_call_set_notify(
            handle,
            { _, data in Unmanaged<PendingCall>.fromOpaque(data!).takeUnretainedValue().collect() }, box,
            { data in Unmanaged<PendingCall>.fromOpaque(data!).release() })
        // The answer may have come before the notification was set.
        if dbus_pending_call_get_completed(handle) != 0 { collect() }
    }

    private func collect() {
        guard let handle, let reply = dbus_pending_call_steal_reply(handle) else { return }
        // The handle holds this object, to notify it: kept here as well, each would keep the other for ever.
        self.handle = nil
        defer { dbus_pending_call_unref(handle) }
        let message = Message(adopting: reply)
        finish(message.error.map { .failure($0) } ?? .success(message))
    }

    func finish(_ result: Result<Message, BusError>) {
        guard let completion else { return }
        self.completion = nil
        onFinish?(ObjectIdentifier(self))
        completion(result)
    }
}

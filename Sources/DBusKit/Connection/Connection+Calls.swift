// SPDX-License-Identifier: Apache-2.0
// Calls of any service's methods, and subscriptions to signals. Messages are made here; `Connection` sends and receives
// them.

internal import CDBus
internal import Effects

extension Connection {
    /// Calls a method on any service.
    @discardableResult
    public func call(
        _ destination: String, _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
        timeout: Duration = .seconds(25), limits: DecodingLimits = .standard,
        completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) -> PendingCall? {
        do {
            let message = try Message.call(
                to: destination, path: path, interface: interface, member: member, arguments)
            return call(message, timeout: timeout) { result in
                completion(result.flatMap { reply in Result { () throws(BusError) in try reply.arguments(limits: limits) } })
            }
        } catch {
            loop.soon { completion(.failure(error)) }
            return nil
        }
    }

    /// Calls a method and waits for the answer without running the loop: for command-line programs and start-up.
    public func callAndWait(
        _ destination: String, _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
        timeout: Duration = .seconds(25)
    ) throws(BusError) -> [DBusValue] {
        let message = try Message.call(to: destination, path: path, interface: interface, member: member, arguments)
        message.allowsInteraction = allowsInteraction
        number(message)
        var failure = CDBus.DBusError()
        dbus_error_init(&failure)
        let effect = Effect(.call, message.calledMethod)
        guard let reply = dbus_connection_send_with_reply_and_block(raw, message.raw, timeout.milliseconds, &failure) else {
            throw BusError(taking: &failure)
        }
        // The answer is there, so there is no moment between.
        effect.done()
        return try Message(adopting: reply).arguments(limits: .generous)
    }

    // MARK: Signals

    /// Subscribes to signals.
    ///
    /// - Parameter sender: the unique name (or the bus itself) that a signal must come from. A well-known name would
    ///   not do: any program can send a signal straight to us, past all match rules.
    /// - Parameter argument0: only signals whose first argument is this text.
    /// - Parameter busKnows: an earlier process has asked the bus for them on this connection, and has left it.
    public func subscribe(
        sender: String, path: ObjectPath? = nil, below namespace: ObjectPath? = nil, interface: String, member: String,
        argument0: String? = nil, busKnows: Bool = false, handler: @escaping (Message) -> Void
    ) -> Subscription {
        let filter = SignalFilter(
            sender: sender, path: path, namespace: namespace, interface: interface, member: member, argument0: argument0)
        let rule = filter.rule
        let subscription = Subscription(filter, on: self, handler: handler)
        subscriptions.add(subscription)
        if !busKnows { matchRule(.match, rule) }
        return subscription
    }

    func remove(_ subscription: Subscription) {
        subscriptions.remove(subscription)
        if isConnected { matchRule(.matchEnd, subscription.filter.rule) }
    }

    private func matchRule(_ call: BusCall, _ rule: String) {
        guard let message = try? call.method.message(at: Bus.path, [.string(rule)]) else { return }
        message.expectNoReply()
        send(message)
    }
}

extension Duration {
    /// A time-out as libdbus takes it; at least 1.
    var milliseconds: Int32 {
        max(1, Int32(clamping: components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000))
    }
}

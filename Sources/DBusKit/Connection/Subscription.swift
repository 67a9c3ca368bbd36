// SPDX-License-Identifier: Apache-2.0
// The signals that are subscribed to on a connection. Every signal is compared with them where it stands, without
// making Strings.

/// Which signals a subscription gets.
struct SignalFilter {
    let sender: String
    let path: ObjectPath?
    let namespace: ObjectPath?
    let interface: String
    let member: String
    let argument0: String?

    /// As a match rule. (D-Bus specification, "Match Rules")
    var rule: String {
        precondition(BusNames.isBusName(sender) && BusNames.isInterface(interface) && BusNames.isMember(member))
        var rule = "type='signal',sender='\(sender)',interface='\(interface)',member='\(member)'"
        if let path { rule += ",path='\(path)'" }
        if let namespace { rule += ",path_namespace='\(namespace)'" }
        if let argument0 { rule += ",arg0='\(argument0)'" }
        return rule
    }

    func isOf(_ message: Message) -> Bool { message.hasMember(member) && message.hasInterface(interface) }

    /// Whether a signal of this name fits the rest.
    func fits(_ message: Message) -> Bool {
        guard message.hasSender(sender), path.map({ message.hasPath($0) }) ?? true else { return false }
        // Everything lies below the root.
        if let namespace, namespace.rawValue != "/", !message.hasPath(namespace), !message.isPath(below: namespace.rawValue) {
            return false
        }
        return argument0.map { message.hasFirstText($0) } ?? true
    }
}

/// A subscription to signals. The connection keeps it until `cancel()`.
public final class Subscription {
    let filter: SignalFilter
    fileprivate weak var connection: Connection?
    fileprivate var handler: ((Message) -> Void)?

    init(_ filter: SignalFilter, on connection: Connection, handler: @escaping (Message) -> Void) {
        self.filter = filter
        self.connection = connection
        self.handler = handler
    }

    /// Whether it was not cancelled; the bus may have disconnected all the same.
    public var isActive: Bool { handler != nil }

    /// Ends the subscription: the handler is not called any more, not even for a signal that has arrived. Safe at
    /// any time.
    public func cancel() {
        guard handler != nil else { return }
        handler = nil
        connection?.remove(self)
    }
}

/// The subscriptions of a connection, by signal: a signal is compared once per name and not once per subscription.
struct Subscriptions {
    private var groups: [[Subscription]] = []

    mutating func add(_ subscription: Subscription) {
        let filter = subscription.filter
        let place = groups.firstIndex { $0[0].filter.interface == filter.interface && $0[0].filter.member == filter.member }
        if let place { groups[place].append(subscription) } else { groups.append([subscription]) }
    }

    mutating func remove(_ subscription: Subscription) {
        for place in groups.indices { groups[place].removeAll { $0 === subscription } }
        groups.removeAll(where: \.isEmpty)
    }

    /// The subscriptions to signals of this name.
    func named(as signal: Message) -> [Subscription] { groups.first { $0[0].filter.isOf(signal) } ?? [] }
}

extension Connection {
    /// Calls the handlers that a signal is for.
    func deliver(_ signal: Message) {
        // A handler may subscribe or cancel: each is asked again whether it is active.
        for subscription in subscriptions.named(as: signal) where subscription.filter.fits(signal) {
            subscription.handler?(signal)
        }
    }
}

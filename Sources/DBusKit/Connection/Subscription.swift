// SPDX-License-Identifier: Apache-2.0
// The signals that are subscribed to on a connection, and the comparison that every signal goes through: on C text,
// without making a String.

internal import CDBus
internal import Glibc

/// A subscription to signals. The connection keeps it until `cancel()`.
public final class Subscription {
    let rule: String
    weak var connection: Connection?
    var handler: ((Message) -> Void)?
    private let sender: CText
    private let path: CText?
    private let namespace: CText?
    private let argument0: CText?

    init(
        rule: String, sender: String, path: ObjectPath?, namespace: ObjectPath?, argument0: String?,
        handler: @escaping (Message) -> Void
    ) {
        self.rule = rule
        self.sender = CText(sender)
        self.path = path.map { CText($0.rawValue) }
        // Everything lies below the root.
        self.namespace = namespace.flatMap { $0.rawValue == "/" ? nil : CText($0.rawValue) }
        self.argument0 = argument0.map { CText($0) }
        self.handler = handler
    }

    /// Whether it was not cancelled. It says nothing of the bus.
    public var isActive: Bool { handler != nil }

    /// Ends the subscription: the handler is not called any more, not even for a signal that has arrived. Safe at
    /// any time.
    public func cancel() {
        guard handler != nil else { return }
        handler = nil
        connection?.remove(self)
    }

    var needsArgument: Bool { argument0 != nil }

    func matches(
        _ sender: UnsafePointer<CChar>, _ path: UnsafePointer<CChar>, _ argument0: UnsafePointer<CChar>?
    ) -> Bool {
        guard handler != nil, self.sender.equals(sender) else { return false }
        if let wanted = self.path, !wanted.equals(path) { return false }
        if let namespace, !namespace.isAncestor(of: path) { return false }
        guard let wanted = self.argument0 else { return true }
        return argument0.map { wanted.equals($0) } ?? false
    }
}

/// Text as C sees it, made once: passing a String to C makes a copy every time.
private final class CText {
    private let start: UnsafeMutablePointer<CChar>
    private let length: Int

    init(_ text: String) {
        start = strdup(text)
        length = strlen(start)
    }

    deinit {
        free(start)
    }

    func equals(_ other: UnsafePointer<CChar>) -> Bool { strcmp(start, other) == 0 }

    /// Whether `path` is this path or lies below it.
    func isAncestor(of path: UnsafePointer<CChar>) -> Bool {
        strncmp(start, path, length) == 0 && (path[length] == 0 || path[length] == 0x2F)
    }
}

/// The subscriptions of a connection, by signal.
final class Subscriptions {
    private var groups: [SubscriptionGroup] = []

    func add(_ subscription: Subscription, _ interface: String, _ member: String) {
        if let group = groups.first(where: { $0.interface == interface && $0.member == member }) {
            group.members.append(subscription)
        } else {
            let group = SubscriptionGroup(interface: interface, member: member)
            group.members.append(subscription)
            groups.append(group)
        }
    }

    func remove(_ subscription: Subscription) {
        for group in groups { group.members.removeAll { $0 === subscription } }
        groups.removeAll { $0.members.isEmpty }
    }

    /// Calls the handlers that a signal is for.
    func deliver(signal raw: OpaquePointer) {
        guard let interface = dbus_message_get_interface(raw), let member = dbus_message_get_member(raw),
            let sender = dbus_message_get_sender(raw), let path = dbus_message_get_path(raw)
        else { return }
        for group in groups where group.matches(interface, member) {
            var message: Message?
            let argument0 = group.needsArgument ? Self.firstText(raw) : nil
            // A handler may subscribe or cancel: walk a copy, and ask each again whether it still wants the signal.
            let members = group.members
            for subscription in members where subscription.matches(sender, path, argument0) {
                if message == nil { message = Message(retaining: raw) }
                subscription.handler?(message!)
            }
            return
        }
    }

    /// The first argument, when it is text. Looked up once for all subscriptions that compare it.
    private static func firstText(_ raw: OpaquePointer) -> UnsafePointer<CChar>? {
        var iterator = DBusMessageIter()
        guard dbus_message_iter_init(raw, &iterator) != 0, dbus_message_iter_get_arg_type(&iterator) == TypeCode.string
        else { return nil }
        var text: UnsafePointer<CChar>?
        dbus_message_iter_get_basic(&iterator, &text)
        return text
    }
}

/// Subscriptions to one signal, so that a signal is compared once per kind and not once per subscription.
private final class SubscriptionGroup {
    let interface: String
    let member: String
    private let interfaceText: CText
    private let memberText: CText
    var members: [Subscription] = [] {
        didSet { needsArgument = members.contains(where: \.needsArgument) }
    }
    private(set) var needsArgument = false

    init(interface: String, member: String) {
        self.interface = interface
        self.member = member
        interfaceText = CText(interface)
        memberText = CText(member)
    }

    func matches(_ interface: UnsafePointer<CChar>, _ member: UnsafePointer<CChar>) -> Bool {
        memberText.equals(member) && interfaceText.equals(interface)
    }
}

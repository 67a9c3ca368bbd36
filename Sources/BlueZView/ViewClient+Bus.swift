// What the bus itself answers (D-Bus specification, "Message Bus Messages"), for a bus with three names on it. Nothing can be owned
// here, nobody else can be seen, and nothing is started.

internal import AccessoryModel
internal import CallerIdentity
internal import DBusKit

extension ViewClient {
    func takeBusCall(_ message: Message) {
        do {
            try serveBusCall(message)
        } catch {
            answer(message, error, from: Bus.name)
        }
    }

    /// Names and their owners, as far as this client is concerned.
    private func owner(of name: String) -> String? {
        switch name {
        case Bus.name: Bus.name
        case Scope.service: view.feed.alias
        case view.service.name, Self.serviceAlias: Self.serviceAlias
        case self.name: self.name
        default: name == view.feed.alias ? name : nil
        }
    }

    private func serveBusCall(_ message: Message) throws(BusError) {
        let member = message.member ?? ""
        switch message.interface {
        case Bus.introspectable:
            guard member == "Introspect" else { throw .unknownMethod("no such method: \(member)") }
            return reply(message, [.string(message.path == Bus.path ? Self.description : Self.emptyNode(Bus.path))], from: Bus.name)
        case Bus.properties:
            return try serveBusProperty(message, member)
        case nil, Bus.name: break
        case let other?: throw .unknownInterface(other)
        }
        let arguments = try message.arguments()
        func text() throws(BusError) -> String {
            guard message.signature.hasPrefix("s"), let text = arguments.first?.stringValue else {
                throw .invalidArguments("\(member) takes text first, not (\(message.signature))")
            }
            return text
        }
        switch member {
        case "Hello": throw .failed("Hello was said already")
        case "AddMatch":
            let rule = try MatchRule(try text())
            guard rules.count < view.limits.matchRules else {
                throw .limitsExceeded("a connection may have \(view.limits.matchRules) match rules")
            }
            rules.append(rule)
            reply(message, [], from: Bus.name)
        case "RemoveMatch":
            let rule = try MatchRule(try text())
            guard let index = rules.firstIndex(of: rule) else { throw .standard("MatchRuleNotFound", "there is no such rule") }
            rules.remove(at: index)
            reply(message, [], from: Bus.name)
        case "ListNames":
            let names =
                [Bus.name, view.service.name, Self.serviceAlias, name] + (view.feed.alias.map { [Scope.service, $0] } ?? [])
            reply(message, [.strings(names)], from: Bus.name)
        case "ListActivatableNames": reply(message, [.strings([Bus.name])], from: Bus.name)
        case "NameHasOwner":
            let wanted = try text()
            // Whether the service is there may not be known yet.
            view.feed.whenReady { [weak self] in
                guard let self else { return }
                self.reply(message, [.boolean(self.owner(of: wanted) != nil)], from: Bus.name)
            }
        case "GetNameOwner":
            let wanted = try text()
            view.feed.whenReady { [weak self] in
                guard let self else { return }
                guard let owner = self.owner(of: wanted) else {
                    return self.answer(message, Self.noOwner(wanted), from: Bus.name)
                }
                self.reply(message, [.string(owner)], from: Bus.name)
            }
        case "ListQueuedOwners": reply(message, [.strings([try known(try text())])], from: Bus.name)
        case "StartServiceByName":
            let wanted = try text()
            guard owner(of: wanted) != nil else {
                throw .standard("ServiceUnknown", "The name \(wanted) was not provided by any .service files")
            }
            // Already running.
            reply(message, [.uint32(2)], from: Bus.name)
        case "RequestName": throw .accessDenied("no names can be owned on this bus")
        // Not an owner of it.
        case "ReleaseName": reply(message, [.uint32(try known(try text()) == name ? 3 : 2)], from: Bus.name)
        case "GetConnectionUnixUser":
            let caller = try own(try text())
            reply(message, [.uint32(caller.uid)], from: Bus.name)
        case "GetConnectionUnixProcessID":
            let caller = try own(try text())
            reply(message, [.uint32(UInt32(caller.pid))], from: Bus.name)
        case "GetConnectionCredentials":
            let caller = try own(try text())
            reply(
                message, [.vardict(["UnixUserID": .uint32(caller.uid), "ProcessID": .uint32(UInt32(caller.pid))])], from: Bus.name)
        case "GetId": reply(message, [.string(view.identifier)], from: Bus.name)
        case "UpdateActivationEnvironment", "ReloadConfig", "BecomeMonitor", "GetAllMatchRules":
            throw .accessDenied("\(member) is not for clients of this bus")
        default: throw .unknownMethod("no such method: \(Bus.name).\(member)")
        }
    }

    private static func noOwner(_ name: String) -> BusError {
        .standard("NameHasNoOwner", "Could not get owner of name '\(name)': no such name")
    }

    private func known(_ name: String) throws(BusError) -> String {
        guard let owner = owner(of: name) else { throw Self.noOwner(name) }
        return owner
    }

    /// A client may ask who it is itself; the services are nobody it need know.
    private func own(_ name: String) throws(BusError) -> (uid: UInt32, pid: Int32) {
        guard try known(name) == self.name else { throw .accessDenied("\(name) is not told on this bus") }
        return (pinned.caller.uid, pinned.caller.pid)
    }

    private func serveBusProperty(_ message: Message, _ member: String) throws(BusError) {
        let arguments = try message.arguments()
        let values: [String: DBusValue] = ["Features": .strings([]), "Interfaces": .strings([])]
        switch (member, message.signature) {
        case ("GetAll", "s"): reply(message, [.vardict(values)], from: Bus.name)
        case ("Get", "ss"):
            guard let key = arguments[1].stringValue, let value = values[key] else {
                throw .unknownProperty(arguments[1].stringValue ?? "")
            }
            reply(message, [.variant(value)], from: Bus.name)
        default: throw .readOnly("the bus' properties")
        }
    }

    private static func emptyNode(_ child: ObjectPath) -> String { "<node><node name=\"\(child.rawValue.dropFirst())\"/></node>" }

    private static let description = """
        <!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
         "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
        <node>
          <interface name="org.freedesktop.DBus">
            <method name="Hello"><arg type="s" direction="out"/></method>
            <method name="AddMatch"><arg type="s" direction="in"/></method>
            <method name="RemoveMatch"><arg type="s" direction="in"/></method>
            <method name="ListNames"><arg type="as" direction="out"/></method>
            <method name="ListActivatableNames"><arg type="as" direction="out"/></method>
            <method name="NameHasOwner"><arg type="s" direction="in"/><arg type="b" direction="out"/></method>
            <method name="GetNameOwner"><arg type="s" direction="in"/><arg type="s" direction="out"/></method>
            <method name="GetId"><arg type="s" direction="out"/></method>
            <signal name="NameOwnerChanged"><arg type="s"/><arg type="s"/><arg type="s"/></signal>
            <signal name="NameAcquired"><arg type="s"/></signal>
          </interface>
        </node>

        """
}

// SPDX-License-Identifier: Apache-2.0
// A client's bus: the calls to the bus itself (D-Bus specification, "Message Bus Messages"), for a bus with three names
// on it. No name can be owned, no other client can be seen, and no service is started.

internal import BlueZInterfaces
internal import CallerIdentity
internal import DBusKit
internal import Glibc

/// Answers a client's calls to the bus, and sends the bus' signals.
final class BusDriver {
    /// The unique name that our own service goes by here.
    static let serviceAlias = ":accessorysetup.1"

    private let connection: ClientConnection
    private let identity: ClientIdentity
    private let feed: RadioFeed
    /// Our own name.
    private let serviceName: String
    /// The answer to `GetId`.
    private let identifier: String
    /// The unique name that the client knows org.bluez by; nil for none.
    private var clientAlias: String?
    /// Called when the client has asked for signals that may be org.bluez', with the work for when it receives them.
    private let onListen: (_ completion: @escaping () -> Void) -> Void

    init(
        _ environment: ViewEnvironment, _ connection: ClientConnection, _ identity: ClientIdentity,
        onListen: @escaping (_ completion: @escaping () -> Void) -> Void
    ) {
        self.onListen = onListen
        self.connection = connection
        self.identity = identity
        feed = environment.feed
        serviceName = environment.service.name
        identifier = environment.identifier
        clientAlias = environment.feed.alias
    }

    // MARK: Coming

    /// Takes a client's first message.
    ///
    /// - Returns: whether it was `Hello`; otherwise it was refused.
    func greet(_ call: Message) -> Bool {
        guard call.member == "Hello", call.interface == nil || call.interface == Bus.name,
            call.destination == nil || call.destination == Bus.name
        else {
            connection.fail(call, .accessDenied("the first message must be Hello"), from: Bus.name)
            return false
        }
        reply(to: call, [.string(connection.name)])
        if let signal = try? Message.signal(
            path: Bus.path, interface: Bus.name, member: "NameAcquired", [.string(connection.name)])
        {
            connection.send(signal, from: Bus.name, about: .bus)
        }
        return true
    }

    // MARK: Names

    /// Names and their owners, as far as this client is concerned.
    private func owner(of name: String) -> String? {
        switch name {
        case Bus.name: Bus.name
        case BlueZ.service: feed.alias
        case serviceName, Self.serviceAlias: Self.serviceAlias
        case connection.name: connection.name
        default: name == feed.alias ? name : nil
        }
    }

    /// Where a call goes.
    enum Receiver {
        case bus
        case bluez
        case service
        case unknown(String)
    }

    /// Who has the name that a call is for.
    func receiver(of call: Message) -> Receiver {
        // Nearly all are for it.
        if call.hasDestination(BlueZ.service) { return .bluez }
        return switch call.destination {
        case nil, Bus.name: .bus
        case feed.alias: .bluez
        case serviceName, Self.serviceAlias: .service
        case let other?: .unknown(other)
        }
    }

    /// Whether org.bluez has another owner than the client knows.
    var hasNewServiceOwner: Bool { feed.alias != clientAlias }

    /// Signals another owner of org.bluez.
    func signalServiceOwner() {
        let old = clientAlias
        clientAlias = feed.alias
        signalOwner(of: BlueZ.service, old, clientAlias)
    }

    /// Signals that our own name was acquired or lost.
    func signalOwnName(isPresent: Bool) {
        signalOwner(of: serviceName, isPresent ? nil : Self.serviceAlias, isPresent ? Self.serviceAlias : nil)
    }

    private func signalOwner(of name: String, _ old: String?, _ new: String?) {
        let arguments: [DBusValue] = [.string(name), .string(old ?? ""), .string(new ?? "")]
        guard
            let signal = try? Message.signal(path: Bus.path, interface: Bus.name, member: "NameOwnerChanged", arguments)
        else { return }
        connection.broadcast(signal, from: [Bus.name], as: Bus.name, about: .bus)
    }

    // MARK: Between two runs

    var left: LeftState { ["KnownService": .string(clientAlias ?? "")] }

    func resume(_ state: LeftState) {
        clientAlias = state.text("KnownService").flatMap { $0.isEmpty ? nil : $0 }
    }

    // MARK: Calls

    /// Answers a call to the bus.
    func serve(_ call: Message) {
        do {
            try answer(call)
        } catch {
            connection.fail(call, error, from: Bus.name)
        }
    }

    /// Answers calls to org.freedesktop.DBus.Peer, for any destination.
    func answerPeer(_ call: Message) {
        switch call.member {
        case "Ping": reply(to: call, [])
        case "GetMachineId": reply(to: call, [.string(Bus.machineID)])
        case let other:
            connection.fail(call, .unknownMethod("no such method: \(Bus.peer).\(other ?? "")"), from: Bus.name)
        }
    }

    /// Refuses a call to a name without an owner.
    func refuseUnknownName(_ call: Message, to name: String) {
        connection.fail(call, Self.unknownService(name), from: Bus.name)
    }

    private func reply(to call: Message, _ arguments: [DBusValue]) {
        connection.reply(to: call, arguments, from: Bus.name, about: .bus)
    }

    private func answer(_ call: Message) throws(BusError) {
        let member = call.member ?? ""
        switch call.interface {
        case Bus.introspectable:
            guard member == "Introspect" else { throw .unknownMethod("no such method: \(member)") }
            return reply(to: call, [.string(call.path == Bus.path ? Self.description : Self.emptyNode(Bus.path))])
        case Bus.properties:
            return try answerProperty(call, member)
        case nil, Bus.name: break
        case "org.freedesktop.DBus.Monitoring":
            // busctl shows the text of this error; of AccessDenied it does not.
            throw .standard(
                "NotSupported",
                "clients of this bus cannot be monitors: with AddMatch they receive the signals of org.bluez and \(serviceName). "
                    + "Root can monitor the system bus, and `accessoryctl explain` shows why an app's calls are refused")
        case let other?: throw .unknownInterface(other)
        }
        let arguments = try call.arguments()
        func text() throws(BusError) -> String {
            guard call.signature.hasPrefix("s"), let text = arguments.first?.stringValue else {
                throw .invalidArguments("\(member) takes a string first, not (\(call.signature))")
            }
            return text
        }
        switch member {
        case "Hello": throw .failed("Hello was already called")
        case "AddMatch":
            let rule = try connection.addRule(try text())
            guard Scope.mayBeFor(rule, alias: feed.alias) else { return reply(to: call, []) }
            do throws(BusError) {
                try connection.listen()
            } catch {
                try connection.removeRule(try text())
                throw error
            }
            // Changes after the answer are signalled.
            onListen { [weak self] in self?.reply(to: call, []) }
        case "RemoveMatch":
            try connection.removeRule(try text())
            reply(to: call, [])
        case "ListNames":
            let names =
                [Bus.name, serviceName, Self.serviceAlias, connection.name] + (feed.alias.map { [BlueZ.service, $0] } ?? [])
            reply(to: call, [.strings(names)])
        case "ListActivatableNames": reply(to: call, [.strings([Bus.name])])
        case "NameHasOwner":
            let wanted = try text()
            // Whether the service is there may not be known yet.
            feed.whenReady { [weak self] in
                guard let self else { return }
                self.reply(to: call, [.boolean(self.owner(of: wanted) != nil)])
            }
        case "GetNameOwner":
            let wanted = try text()
            feed.whenReady { [weak self] in
                guard let self else { return }
                guard let owner = self.owner(of: wanted) else {
                    return self.connection.fail(call, Self.noOwner(wanted), from: Bus.name)
                }
                self.reply(to: call, [.string(owner)])
            }
        case "ListQueuedOwners": reply(to: call, [.strings([try requireOwner(of: try text())])])
        case "StartServiceByName":
            let wanted = try text()
            guard owner(of: wanted) != nil else {
                throw Self.unknownService(wanted)
            }
            // Already running.
            reply(to: call, [.uint32(2)])
        case "RequestName": throw .accessDenied("names cannot be owned on this bus")
        // Not the owner.
        case "ReleaseName": reply(to: call, [.uint32(try requireOwner(of: try text()) == connection.name ? 3 : 2)])
        case "GetConnectionUnixUser", "GetConnectionUnixProcessID", "GetConnectionCredentials":
            readProcess(of: try text()) { [weak self] in self?.answerProcess(call, member, $0) }
        case "GetConnectionSELinuxSecurityContext":
            throw .standard(
                "SELinuxSecurityContextUnknown", "Could not determine security context for '\(try requireOwner(of: try text()))'")
        case "GetAdtAuditSessionData":
            throw .standard(
                "AdtAuditDataUnknown", "Could not determine audit session data for '\(try requireOwner(of: try text()))'")
        case "GetId": reply(to: call, [.string(identifier)])
        case "UpdateActivationEnvironment", "ReloadConfig":
            throw .accessDenied("\(member) is not for clients of this bus")
        default: throw .unknownMethod("no such method: \(Bus.name).\(member)")
        }
    }

    private static func noOwner(_ name: String) -> BusError {
        .standard("NameHasNoOwner", "Could not get owner of name '\(name)': no such name")
    }

    private static func unknownService(_ name: String) -> BusError {
        .standard("ServiceUnknown", "The name \(name) was not provided by any .service files")
    }

    private func requireOwner(of name: String) throws(BusError) -> String {
        guard let owner = owner(of: name) else { throw Self.noOwner(name) }
        return owner
    }

    /// The process that owns a name: the daemon for this bus and our service; for org.bluez the one that its bus names.
    private func readProcess(
        of name: String, _ completion: @escaping (Result<ServiceProcess, BusError>) -> Void
    ) {
        feed.whenReady { [weak self] in
            guard let self else { return }
            switch self.owner(of: name) {
            case nil: completion(.failure(Self.noOwner(name)))
            case self.connection.name: completion(.success(ServiceProcess(uid: self.identity.uid, pid: self.identity.pid)))
            case self.feed.alias: self.feed.readProcess(completion)
            default: completion(.success(ServiceProcess(uid: getuid(), pid: getpid())))
            }
        }
    }

    private func answerProcess(_ call: Message, _ member: String, _ process: Result<ServiceProcess, BusError>) {
        do throws(BusError) {
            let process = try process.get()
            switch member {
            case "GetConnectionUnixUser":
                guard let uid = process.uid else { throw .failed("the user is unknown") }
                reply(to: call, [.uint32(uid)])
            case "GetConnectionUnixProcessID":
                guard let pid = process.pid else { throw .standard("UnixProcessIdUnknown", "the process is unknown") }
                reply(to: call, [.uint32(pid)])
            default:
                var credentials: [String: DBusValue] = [:]
                credentials["UnixUserID"] = process.uid.map { .uint32($0) }
                credentials["ProcessID"] = process.pid.map { .uint32($0) }
                reply(to: call, [.vardict(credentials)])
            }
        } catch {
            connection.fail(call, error, from: Bus.name)
        }
    }

    private func answerProperty(_ call: Message, _ member: String) throws(BusError) {
        let arguments = try call.arguments()
        let values: [String: DBusValue] = ["Features": .strings([]), "Interfaces": .strings([])]
        switch (member, call.signature) {
        case ("GetAll", "s"): reply(to: call, [.vardict(values)])
        case ("Get", "ss"):
            guard let key = arguments[1].stringValue, let value = values[key] else {
                throw .unknownProperty(arguments[1].stringValue ?? "")
            }
            reply(to: call, [.variant(value)])
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

// SPDX-License-Identifier: Apache-2.0
// Exported objects: visibility is decided for every caller, and an object or member that a caller may not see does not
// exist for it, in calls, properties, introspection and ObjectManager alike. Arguments are checked against the
// interface's XML before a handler runs.

/// An object on the bus.
public protocol ExportedObject: AnyObject {
    /// Where it is; does not change while it is exported.
    var path: ObjectPath { get }
    /// Its interfaces besides the standard ones.
    var interfaces: [ExportedInterface] { get }
    /// Whether they come from `MemberTable.complete()`: then exporting the object does not look at them.
    var hasCompleteTables: Bool { get }
    /// Whether the object exists for `caller` (a unique name).
    func isVisible(to caller: String) -> Bool
}

extension ExportedObject {
    public var hasCompleteTables: Bool { false }
}

/// The receivers of a signal.
public enum Audience: Sendable {
    /// One signal without a destination.
    case everybody
    /// One signal for each of these unique names; none for an empty list.
    case only([String])
}

/// The tree of exported objects below one root, which carries `org.freedesktop.DBus.ObjectManager`.
public final class ObjectServer {
    private let connection: Connection
    private let root: ObjectPath
    private var objects: [ObjectPath: any ExportedObject] = [:]
    private let longAnswers: LongAnswers
    /// Called for each call that a rule of a table has refused, with the caller, the member and the answer.
    public var onRefused: ((_ caller: String, _ member: String, _ error: BusError) -> Void)?
    /// Objects of a list that are added to it in one go.
    private static let objectsPerPart = 16

    /// - Parameter root: the object that everything lies below; calls elsewhere are not served.
    public init(on connection: Connection, root: ObjectPath) {
        self.connection = connection
        self.root = root
        longAnswers = LongAnswers(on: connection)
    }

    /// The object exported at this path, visible or not; nil when there is none.
    public func object(at path: ObjectPath) -> (any ExportedObject)? { objects[path] }

    /// Exports an object and announces it to its audience; the root itself is not announced. A member without a handler
    /// is a programming error.
    public func export(_ object: any ExportedObject, to audience: Audience = .only([])) {
        if !object.hasCompleteTables {
            for interface in object.interfaces { interface.checkCompleteness() }
        }
        objects[object.path] = object
        guard object.path != root else { return }
        announce(object, to: audience)
    }

    /// `InterfacesAdded` for connections that begin to see an object.
    public func announce(_ object: any ExportedObject, to audience: Audience) {
        for destination in audience.destinations {
            emit(
                path: root, interface: Bus.objectManager, member: "InterfacesAdded", to: destination,
                [.objectPath(object.path), interfacesValue(of: object, for: destination ?? "")])
        }
    }

    /// Withdraws an object, and announces that to its audience.
    public func withdraw(_ path: ObjectPath, to audience: Audience = .only([])) {
        guard let object = objects.removeValue(forKey: path) else { return }
        dismiss(object, to: audience)
    }

    /// `InterfacesRemoved` for connections that no longer see an object.
    public func dismiss(_ object: any ExportedObject, to audience: Audience) {
        for destination in audience.destinations {
            emit(
                path: root, interface: Bus.objectManager, member: "InterfacesRemoved", to: destination,
                [.objectPath(object.path), .strings(object.interfaces.map(\.description.name))])
        }
    }

    /// `PropertiesChanged` with the present values of the named properties.
    public func propertiesChanged(
        _ object: any ExportedObject, _ interface: String, _ names: [String], to audience: Audience
    ) {
        guard let exported = object.interfaces.first(where: { $0.description.name == interface }) else { return }
        for destination in audience.destinations {
            let caller = destination ?? ""
            let hidden = exported.hidden(of: object, for: caller)
            let read = exported.reader(of: object, for: caller)
            var values: [String: DBusValue] = [:]
            var invalidated: [String] = []
            for name in names where !hidden.contains(name) {
                if let value = read(name) {
                    values[name] = value
                } else {
                    invalidated.append(name)
                }
            }
            guard !values.isEmpty || !invalidated.isEmpty else { continue }
            emit(
                path: object.path, interface: Bus.properties, member: "PropertiesChanged", to: destination,
                [.string(interface), .vardict(values), .strings(invalidated)])
        }
    }

    /// A signal of an object's own.
    public func emit(path: ObjectPath, interface: String, member: String, to destination: String?, _ arguments: [DBusValue]) {
        guard
            let message = try? Message.signal(
                path: path, interface: interface, member: member, to: destination, arguments)
        else { return }
        longAnswers.send(message, to: destination)
    }

    /// A connection has disconnected: its long answers are dropped.
    public func callerGone(_ caller: String) {
        longAnswers.callerGone(caller)
    }

    // MARK: Calls

    /// Serves a method call; false when the path is not ours.
    public func serve(_ message: Message) -> Bool {
        guard let path = message.path, let sender = message.sender, let member = message.member else { return false }
        guard path == root || path.isBelow(root) || root.isBelow(path) || path.rawValue == "/" else { return false }
        do {
            try serve(message, path: path, sender: sender, member: member)
        } catch {
            if message.wantsReply, let answer = message.errorReply(error) { connection.send(answer) }
        }
        return true
    }

    private func serve(_ message: Message, path: ObjectPath, sender: String, member: String) throws(BusError) {
        let object = objects[path].flatMap { $0.isVisible(to: sender) ? $0 : nil }
        let interface = message.interface
        if interface == Bus.introspectable || (interface == nil && member == "Introspect") {
            guard object != nil || hasChildren(path, for: sender) else { throw .unknownObject(path) }
            guard member == "Introspect" else { throw .unknownMethod("no such method: \(Bus.introspectable).\(member)") }
            try Self.takesNothing(message, member)
            return introspect(message, path, object, for: sender)
        }
        if path == root, interface == Bus.objectManager || (interface == nil && member == "GetManagedObjects") {
            guard member == "GetManagedObjects" else { throw .unknownMethod("no such method: \(Bus.objectManager).\(member)") }
            try Self.takesNothing(message, member)
            return list(message, for: sender)
        }
        guard let object else { throw .unknownObject(path) }
        if interface == Bus.properties { return try serveProperties(message, object, sender, member) }
        let candidates = object.interfaces.filter { interface == nil || $0.description.name == interface }
        guard !candidates.isEmpty else { throw .unknownInterface(interface ?? "") }
        guard
            let exported = candidates.first(where: { $0.answers(member) }), let description = exported.description.method(member)
        else { throw .unknownMethod("no such method: \(candidates[0].description.name).\(member)") }
        switch exported.access(to: member, of: object, for: sender) {
        case .granted: break
        case .hidden: throw .unknownMethod("no such method: \(exported.description.name).\(member)")
        case .refused(let error):
            onRefused?(sender, member, error)
            throw error
        }
        guard message.signature == description.inputSignature else {
            throw .invalidArguments(
                "\(member) takes (\(description.inputSignature)), not (\(message.signature))")
        }
        let call = MethodCall(
            message, sender: sender, path: path, interface: exported.description.name, member: member,
            arguments: try message.arguments(), on: connection, longAnswers)
        do {
            try exported.call(member, of: object, call)
        } catch {
            call.fail(error)
        }
    }

    private static func takesNothing(_ message: Message, _ member: String) throws(BusError) {
        guard message.signature.isEmpty else { throw .invalidArguments("\(member) takes (), not (\(message.signature))") }
    }

    private func serveProperties(
        _ message: Message, _ object: any ExportedObject, _ sender: String, _ member: String
    ) throws(BusError) {
        let wanted = ["Get": "ss", "GetAll": "s", "Set": "ssv"]
        guard let signature = wanted[member] else { throw .unknownMethod("no such method: \(Bus.properties).\(member)") }
        guard message.signature == signature else {
            throw .invalidArguments("\(member) takes (\(signature)), not (\(message.signature))")
        }
        let arguments = try message.arguments()
        let name = arguments[0].stringValue ?? ""
        guard let exported = object.interfaces.first(where: { $0.description.name == name }) else {
            let standard = [Bus.introspectable, Bus.peer, Bus.properties] + (object.path == root ? [Bus.objectManager] : [])
            guard standard.contains(name) else { throw .unknownInterface(name) }
            guard member == "GetAll" else { throw .unknownProperty("\(name).\(arguments[1].stringValue ?? "")") }
            // They have none.
            return send(try message.reply([.vardict([:])]))
        }
        if member == "GetAll" { return send(try message.reply([exported.values(of: object, for: sender)])) }
        let key = arguments[1].stringValue ?? ""
        guard let property = exported.description.property(key) else { throw .unknownProperty("\(name).\(key)") }
        switch exported.access(to: key, of: object, for: sender) {
        case .granted: break
        case .hidden: throw .unknownProperty("\(name).\(key)")
        case .refused(let error): throw error
        }
        if member == "Get" {
            guard let value = exported.reader(of: object, for: sender)(key) else { throw .unknownProperty("\(name).\(key)") }
            return send(try message.reply([.variant(value)]))
        }
        guard property.isWritable else { throw .readOnly("\(name).\(key)") }
        let value = arguments[2].unwrapped
        guard value.signature == property.type else {
            throw .invalidArguments("\(key) is of type \(property.type), not \(value.signature)")
        }
        try exported.set(key, of: object, to: value, for: sender)
        send(try message.reply())
    }

    private func send(_ message: Message) { connection.send(message) }

    // MARK: Descriptions

    /// `GetManagedObjects`, in parts.
    private func list(_ call: Message, for caller: String) {
        longAnswers.begin(call) { [unowned self] () throws(BusError) in
            var paths = objects.keys.sorted()[...]
            let answer = try ArrayAnswer(to: call, key: "o", value: "a{sa{sv}}")
            return { [unowned self] () throws(BusError) in
                for path in paths.prefix(Self.objectsPerPart) where path != root {
                    // An object that was withdrawn meanwhile is not listed.
                    guard let object = objects[path], object.isVisible(to: caller) else { continue }
                    try answer.append(.init(.objectPath(path), interfacesValue(of: object, for: caller)))
                }
                paths = paths.dropFirst(Self.objectsPerPart)
                return paths.isEmpty ? try answer.finished() : nil
            }
        }
    }

    private func interfacesValue(of object: any ExportedObject, for caller: String) -> DBusValue {
        .dictionary(
            key: "s", value: "a{sv}",
            object.interfaces.map { .init(.string($0.description.name), $0.values(of: object, for: caller)) })
    }

    /// Whether there is something below a path that `caller` may see.
    private func hasChildren(_ path: ObjectPath, for caller: String) -> Bool {
        objects.contains { $0.key.isBelow(path) && $0.value.isVisible(to: caller) }
    }

    /// `Introspect`, in parts: an object may have thousands of children.
    private func introspect(_ call: Message, _ path: ObjectPath, _ object: (any ExportedObject)?, for caller: String) {
        let prefix = path.rawValue == "/" ? "/" : path.rawValue + "/"
        var xml = """
            <!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
            <node>

            """
        if let object {
            for interface in object.interfaces {
                xml += interface.description.xml(hiding: interface.hidden(of: object, for: caller))
            }
            xml += StandardInterfaces.everywhere
            if path == root { xml += StandardInterfaces.objectManager }
        }
        longAnswers.begin(call) { [unowned self] () throws(BusError) in
            var others = objects.keys.filter { $0.isBelow(path) }.sorted()[...]
            var children: Set<String> = []
            return { [unowned self] () throws(BusError) in
                for other in others.prefix(Self.objectsPerPart) where objects[other]?.isVisible(to: caller) == true {
                    let child = String(other.rawValue.dropFirst(prefix.count).prefix { $0 != "/" })
                    if children.insert(child).inserted { xml += "  <node name=\"\(child)\"/>\n" }
                }
                others = others.dropFirst(Self.objectsPerPart)
                return others.isEmpty ? try call.reply([.string(xml + "</node>\n")]) : nil
            }
        }
    }
}

extension Audience {
    var destinations: [String?] {
        switch self {
        case .everybody: [nil]
        case .only(let names): names.map { $0 }
        }
    }
}

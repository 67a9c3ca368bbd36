// Exported objects: who may see them is asked for every caller, and what a caller may not see does not exist for it, in calls,
// properties, introspection and ObjectManager alike. Arguments are checked against the interface's XML before a handler runs.

/// One interface of an exported object: its description and what answers.
public struct ExportedInterface {
    public let description: InterfaceDescription
    var methods: [String: (MethodCall) throws(BusError) -> Void] = [:]
    var getters: [String: (_ caller: String) -> DBusValue?] = [:]
    var setters: [String: (DBusValue, _ caller: String) throws(BusError) -> Void] = [:]
    /// Members that a caller may not see.
    var hidden: (_ caller: String) -> Set<String> = { _ in [] }

    public init(_ description: InterfaceDescription) {
        self.description = description
    }

    /// Answers a method. The handler replies through the call, at once or later; what it throws is the answer.
    public mutating func method(_ name: String, _ handler: @escaping (MethodCall) throws(BusError) -> Void) {
        precondition(description.method(name) != nil, "\(description.name) has no method \(name)")
        methods[name] = handler
    }

    /// Reads a property; nil means that the object has no value for it now.
    public mutating func property(_ name: String, _ getter: @escaping (_ caller: String) -> DBusValue?) {
        precondition(description.property(name) != nil, "\(description.name) has no property \(name)")
        getters[name] = getter
    }

    /// Writes a property.
    public mutating func writable(_ name: String, _ setter: @escaping (DBusValue, _ caller: String) throws(BusError) -> Void) {
        precondition(description.property(name)?.isWritable == true, "\(description.name).\(name) is not writable")
        setters[name] = setter
    }

    /// Which members a caller may not see.
    public mutating func hide(_ hidden: @escaping (_ caller: String) -> Set<String>) {
        self.hidden = hidden
    }

    func values(for caller: String) -> [String: DBusValue] {
        let hidden = hidden(caller)
        return getters.compactMapValues { $0(caller) }.filter { !hidden.contains($0.key) }
    }
}

/// A call that a handler answers, now or later.
public final class MethodCall {
    public let sender: String
    public let path: ObjectPath
    public let interface: String
    public let member: String
    public let arguments: [DBusValue]
    private let message: Message
    private let connection: Connection
    private var isAnswered = false

    init(
        _ message: Message, sender: String, path: ObjectPath, interface: String, member: String, arguments: [DBusValue],
        on connection: Connection
    ) {
        self.message = message
        self.sender = sender
        self.path = path
        self.interface = interface
        self.member = member
        self.arguments = arguments
        self.connection = connection
    }

    deinit {
        // A caller must never wait for an answer that nobody will give.
        if !isAnswered { fail(.failed("the request was dropped")) }
    }

    public func reply(_ values: DBusValue...) {
        answer { () throws(BusError) in try message.reply(values) }
    }

    public func fail(_ error: BusError) {
        answer { () throws(BusError) in message.errorReply(error) }
    }

    private func answer(_ make: () throws(BusError) -> Message?) {
        guard !isAnswered else { return }
        isAnswered = true
        guard message.wantsReply else { return }
        do {
            if let answer = try make() { connection.send(answer) }
        } catch {
            if let answer = message.errorReply(error) { connection.send(answer) }
        }
    }
}

/// An object on the bus.
public protocol ExportedObject: AnyObject {
    var path: ObjectPath { get }
    var interfaces: [ExportedInterface] { get }
    /// Whether the object exists for `caller` (a unique name).
    func isVisible(to caller: String) -> Bool
}

/// Who gets a signal.
public enum Audience: Sendable {
    case everybody
    case only([String])
}

/// The tree of exported objects below one root, which carries `org.freedesktop.DBus.ObjectManager`.
public final class ObjectServer {
    private let connection: Connection
    private let root: ObjectPath
    private var objects: [ObjectPath: any ExportedObject] = [:]

    public init(on connection: Connection, root: ObjectPath) {
        self.connection = connection
        self.root = root
    }

    public func object(at path: ObjectPath) -> (any ExportedObject)? { objects[path] }

    /// Exports an object and tells its audience. The root itself is not announced.
    public func export(_ object: any ExportedObject, to audience: Audience = .only([])) {
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

    /// Takes an object away and tells its audience.
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
            let hidden = exported.hidden(caller)
            var values: [String: DBusValue] = [:]
            var invalidated: [String] = []
            for name in names where !hidden.contains(name) {
                if let value = exported.getters[name]?(caller) { values[name] = value } else { invalidated.append(name) }
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
        connection.send(message)
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
            guard let xml = introspect(path, object, for: sender) else { throw .unknownObject(path) }
            guard member == "Introspect" else { throw .unknownMethod("no such method: \(Bus.introspectable).\(member)") }
            try Self.takesNothing(message, member)
            return send(try message.reply([.string(xml)]))
        }
        if path == root, interface == Bus.objectManager || (interface == nil && member == "GetManagedObjects") {
            guard member == "GetManagedObjects" else { throw .unknownMethod("no such method: \(Bus.objectManager).\(member)") }
            try Self.takesNothing(message, member)
            return send(try message.reply([managedObjects(for: sender)]))
        }
        guard let object else { throw .unknownObject(path) }
        if interface == Bus.properties { return try serveProperties(message, object, sender, member) }
        let candidates = object.interfaces.filter { interface == nil || $0.description.name == interface }
        guard !candidates.isEmpty else { throw .unknownInterface(interface ?? "") }
        guard
            let exported = candidates.first(where: { $0.methods[member] != nil && !$0.hidden(sender).contains(member) }),
            let handler = exported.methods[member], let description = exported.description.method(member)
        else { throw .unknownMethod("no such method: \(candidates[0].description.name).\(member)") }
        guard message.signature == description.inputSignature else {
            throw .invalidArguments(
                "\(member) takes (\(description.inputSignature)), not (\(message.signature))")
        }
        let call = MethodCall(
            message, sender: sender, path: path, interface: exported.description.name, member: member,
            arguments: try message.arguments(), on: connection)
        do {
            try handler(call)
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
        if member == "GetAll" { return send(try message.reply([.vardict(exported.values(for: sender))])) }
        let key = arguments[1].stringValue ?? ""
        guard let property = exported.description.property(key), !exported.hidden(sender).contains(key) else {
            throw .unknownProperty("\(name).\(key)")
        }
        if member == "Get" {
            guard let value = exported.getters[key]?(sender) else { throw .unknownProperty("\(name).\(key)") }
            return send(try message.reply([.variant(value)]))
        }
        guard let setter = exported.setters[key] else { throw .readOnly("\(name).\(key)") }
        let value = arguments[2].unwrapped
        guard value.signature == property.type else {
            throw .invalidArguments("\(key) is of type \(property.type), not \(value.signature)")
        }
        try setter(value, sender)
        send(try message.reply())
    }

    private func send(_ message: Message) { connection.send(message) }

    // MARK: Descriptions

    private func managedObjects(for caller: String) -> DBusValue {
        let visible = objects.values.filter { $0.path != root && $0.isVisible(to: caller) }.sorted { $0.path < $1.path }
        return .dictionary(
            key: "o", value: "a{sa{sv}}",
            visible.map { .init(.objectPath($0.path), interfacesValue(of: $0, for: caller)) })
    }

    private func interfacesValue(of object: any ExportedObject, for caller: String) -> DBusValue {
        .dictionary(
            key: "s", value: "a{sv}",
            object.interfaces.map { .init(.string($0.description.name), .vardict($0.values(for: caller))) })
    }

    private func introspect(_ path: ObjectPath, _ object: (any ExportedObject)?, for caller: String) -> String? {
        let prefix = path.rawValue == "/" ? "/" : path.rawValue + "/"
        var children: Set<String> = []
        for (other, candidate) in objects where other.rawValue.hasPrefix(prefix) && other != path {
            guard candidate.isVisible(to: caller) else { continue }
            children.insert(String(other.rawValue.dropFirst(prefix.count).prefix { $0 != "/" }))
        }
        guard object != nil || !children.isEmpty else { return nil }
        var xml = """
            <!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
            <node>

            """
        if let object {
            for interface in object.interfaces { xml += interface.description.xml(hiding: interface.hidden(caller)) }
            xml += StandardInterfaces.everywhere
            if path == root { xml += StandardInterfaces.objectManager }
        }
        for child in children.sorted() where !child.isEmpty { xml += "  <node name=\"\(child)\"/>\n" }
        return xml + "</node>\n"
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

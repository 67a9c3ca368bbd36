// SPDX-License-Identifier: Apache-2.0
// The implementation of an interface: a handler for each member that the XML names. A single object fills an
// `ExportedInterface` with closures of its own; a class of many objects shares one `MemberTable`, so that ten thousand
// objects do not cost ten thousand sets of closures. The table names the callers that may use each member, which is
// checked before its handler runs.

/// Whether a caller may use a member of an object that it sees.
public enum Permission {
    /// It may.
    case granted
    /// The member does not exist for it.
    case hidden
    case refused(BusError)
}

/// One interface of an exported object: its description and its handlers.
public struct ExportedInterface {
    /// The interface's XML.
    public let description: InterfaceDescription
    private var methods: [String: Method] = [:]
    private var getters: [String: Getter] = [:]
    private var groups = 0
    /// Readable properties in alphabetical order.
    private var names: [String] = []
    private var setters: [String: Setter] = [:]
    /// Access to members; a member without a rule is for every caller that sees the object.
    private var rules: [Rule] = []
    /// Whether every member is proved to have its handler.
    fileprivate var isComplete = false

    /// Handlers of a table take the object first.
    private struct Method { let handler: (any ExportedObject) -> (MethodCall) throws(BusError) -> Void }
    private struct Getter {
        /// Properties that are read together have the same.
        let group: Int
        let handler: (any ExportedObject, String) -> (String) -> DBusValue?
    }
    private struct Setter { let handler: (any ExportedObject) -> (DBusValue, String) throws(BusError) -> Void }

    private struct Rule {
        let members: Set<String>
        let access: (any ExportedObject, String) -> Permission
    }

    /// An interface that nothing answers yet.
    public init(_ description: InterfaceDescription) {
        self.description = description
    }

    // MARK: Filling

    /// Answers a method. The handler replies through the call, at once or later; an error that it throws is the answer.
    public mutating func method(_ name: String, _ handler: @escaping (MethodCall) throws(BusError) -> Void) {
        add(method: name) { _ in handler }
    }

    /// Reads a property; nil means that the object has no value for it now.
    public mutating func property(_ name: String, _ getter: @escaping (_ caller: String) -> DBusValue?) {
        add(properties: [name]) { _, caller in { _ in getter(caller) } }
    }

    /// Writes a property.
    public mutating func writable(_ name: String, _ setter: @escaping (DBusValue, _ caller: String) throws(BusError) -> Void) {
        add(writable: name) { _ in setter }
    }

    /// Restricts these members; the others are for every caller that sees the object.
    public mutating func restrict(
        _ members: Set<String>, _ access: @escaping (_ object: any ExportedObject, _ caller: String) -> Permission
    ) {
        rules.append(Rule(members: members, access: access))
    }

    fileprivate mutating func add(
        method name: String, _ handler: @escaping (any ExportedObject) -> (MethodCall) throws(BusError) -> Void
    ) {
        precondition(description.method(name) != nil, "\(description.name) has no method \(name)")
        methods[name] = Method(handler: handler)
    }

    fileprivate mutating func add(
        properties added: [String], _ handler: @escaping (any ExportedObject, String) -> (String) -> DBusValue?
    ) {
        groups += 1
        let getter = Getter(group: groups, handler: handler)
        for name in added {
            precondition(description.property(name)?.isReadable == true, "\(description.name).\(name) is not readable")
            if getters.updateValue(getter, forKey: name) == nil {
                names.insert(name, at: names.firstIndex { $0 > name } ?? names.endIndex)
            }
        }
    }

    fileprivate mutating func add(
        writable name: String, _ handler: @escaping (any ExportedObject) -> (DBusValue, String) throws(BusError) -> Void
    ) {
        precondition(description.property(name)?.isWritable == true, "\(description.name).\(name) is not writable")
        setters[name] = Setter(handler: handler)
    }

    /// A member of the XML that nothing answers is a programming error, found where the object is exported.
    func checkCompleteness() {
        guard !isComplete else { return }
        let unanswered =
            description.methods.map(\.name).filter { methods[$0] == nil }
            + description.properties.filter { $0.isReadable && getters[$0.name] == nil || $0.isWritable && setters[$0.name] == nil }
            .map(\.name)
        precondition(unanswered.isEmpty, "\(description.name): nothing answers \(unanswered)")
    }

    // MARK: Answering

    /// Whether `caller` may use a member; also for one that does not exist.
    func access(to member: String, of object: any ExportedObject, for caller: String) -> Permission {
        for rule in rules where rule.members.contains(member) { return rule.access(object, caller) }
        return .granted
    }

    /// Members that do not exist for `caller`.
    func hidden(of object: any ExportedObject, for caller: String) -> Set<String> {
        var hidden: Set<String> = []
        for rule in rules {
            if case .hidden = rule.access(object, caller) { hidden.formUnion(rule.members) }
        }
        return hidden
    }

    func answers(_ method: String) -> Bool { methods[method] != nil }

    func call(_ method: String, of object: any ExportedObject, _ call: MethodCall) throws(BusError) {
        try methods[method]?.handler(object)(call)
    }

    /// The named properties of an object as they are for `caller`; those of one group are read once.
    func reader(of object: any ExportedObject, for caller: String) -> (String) -> DBusValue? {
        var groups: [Int: (String) -> DBusValue?] = [:]
        return { name in
            guard let getter = getters[name] else { return nil }
            let read = groups[getter.group] ?? getter.handler(object, caller)
            groups[getter.group] = read
            return read(name)
        }
    }

    func set(_ property: String, of object: any ExportedObject, to value: DBusValue, for caller: String) throws(BusError) {
        guard let setter = setters[property] else { throw .readOnly("\(description.name).\(property)") }
        try setter.handler(object)(value, caller)
    }

    /// All properties that `caller` may see, by their names in alphabetical order.
    func values(of object: any ExportedObject, for caller: String) -> DBusValue {
        let hidden = hidden(of: object, for: caller)
        let read = reader(of: object, for: caller)
        return .dictionary(
            key: "s", value: "v",
            names.compactMap { name in
                guard !hidden.contains(name), let value = read(name) else { return nil }
                return .init(.string(name), .variant(value))
            })
    }
}

/// A rule for the callers of a member, for all objects of a class.
public struct AccessRule<Object: ExportedObject> {
    let name: String
    let access: ((Object, String) -> Permission)?

    /// - Parameter name: unique in the table.
    public init(_ name: String, _ access: @escaping (_ object: Object, _ caller: String) -> Permission) {
        self.name = name
        self.access = access
    }

    private init() {
        name = ""
        access = nil
    }

    /// Every caller that sees the object.
    public static var whoeverSeesIt: AccessRule { AccessRule() }
}

/// The implementation of an interface, for all objects of a class.
public struct MemberTable<Object: ExportedObject> {
    private var interface: ExportedInterface
    private var members: [String: (rule: AccessRule<Object>, names: Set<String>)] = [:]

    /// A table that nothing answers yet.
    public init(_ description: InterfaceDescription) {
        interface = ExportedInterface(description)
    }

    /// Answers a method. The handler replies through the call, at once or later; an error that it throws is the answer.
    public mutating func method(
        _ name: String, for rule: AccessRule<Object>, _ handler: @escaping (Object) -> (MethodCall) throws(BusError) -> Void
    ) {
        interface.add(method: name) { handler(Self.object($0)) }
        restrict(name, rule)
    }

    /// Reads properties that belong to one value, which is made once for a caller that asks for several.
    ///
    /// - Parameter reader: gives a property by its name; nil means that the object has no value for it now.
    public mutating func properties(
        _ rules: [String: AccessRule<Object>], _ reader: @escaping (Object, _ caller: String) -> (String) -> DBusValue?
    ) {
        interface.add(properties: Array(rules.keys)) { reader(Self.object($0), $1) }
        for (name, rule) in rules { restrict(name, rule) }
    }

    /// Writes a property that has a reader already; the same callers may.
    public mutating func writable(
        _ name: String, _ setter: @escaping (Object) -> (DBusValue, _ caller: String) throws(BusError) -> Void
    ) {
        interface.add(writable: name) { setter(Self.object($0)) }
    }

    /// The interface, with a handler for each of its members; one that is missing is a programming error.
    public func complete() -> ExportedInterface {
        var interface = interface
        for (rule, names) in members.values {
            guard let access = rule.access else { continue }
            interface.restrict(names) { access(Self.object($0), $1) }
        }
        interface.checkCompleteness()
        interface.isComplete = true
        return interface
    }

    private mutating func restrict(_ name: String, _ rule: AccessRule<Object>) {
        members[rule.name, default: (rule, [])].names.insert(name)
    }

    /// Objects of another class never have this table in their list of interfaces.
    private static func object(_ object: any ExportedObject) -> Object { object as! Object }
}

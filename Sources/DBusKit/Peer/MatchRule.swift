// SPDX-License-Identifier: Apache-2.0
// Match rules, for the side that plays the bus: a client's AddMatch, and whether a message matches. The text is
// untrusted.

internal import CDBus

/// A match rule (D-Bus specification, "Match Rules").
public struct MatchRule: Hashable, Sendable {
    /// Longer rules are refused, as dbus-daemon does (1 KiB there).
    public static let maxBytes = 1024

    private enum Part: Hashable, Sendable {
        case kind(Message.Kind)
        case sender(String)
        case interface(String)
        case member(String)
        case path(String)
        case namespace(String)
        case destination(String)
        case argument(Int, String)
        case argumentPath(Int, String)
        case argumentNamespace(String)
    }

    private let parts: [Part]

    /// - Throws: `MatchRuleInvalid` naming the part.
    public init(_ text: String) throws(BusError) {
        guard text.utf8.count <= Self.maxBytes else { throw Self.invalid("longer than \(Self.maxBytes) bytes") }
        var parts: [Part] = []
        var seen: Set<String> = []
        for (key, value) in try Self.split(text) {
            guard seen.insert(key).inserted else { throw Self.invalid("\(key) comes twice") }
            if let part = try Self.part(key, value) { parts.append(part) }
        }
        guard !seen.isSuperset(of: ["path", "path_namespace"]) else {
            throw Self.invalid("path and path_namespace exclude each other")
        }
        self.parts = parts
    }

    private static func invalid(_ why: String) -> BusError { .standard("MatchRuleInvalid", "match rule: \(why)") }

    /// `key='value',…`: quotes may be anywhere in a value; outside quotes `\'` is a quote (and the backslash stands
    /// for itself else).
    private static func split(_ text: String) throws(BusError) -> [(String, String)] {
        var result: [(String, String)] = []
        var rest = Substring(text).unicodeScalars
        while true {
            while let first = rest.first, first == " " || first == "\t" || first == "\n" || first == "\r" { rest.removeFirst() }
            guard !rest.isEmpty else { return result }
            guard let equals = rest.firstIndex(of: "=") else { throw invalid("\(Substring(rest)) has no value") }
            let key = String(Substring(rest[..<equals]))
            rest = rest[rest.index(after: equals)...]
            var value = String.UnicodeScalarView()
            var isQuoted = false
            while let next = rest.popFirst() {
                if next == "'" {
                    isQuoted.toggle()
                } else if !isQuoted, next == "," {
                    break
                } else if !isQuoted, next == "\\", rest.first == "'" {
                    rest.removeFirst()
                    value.append("'")
                } else {
                    value.append(next)
                }
            }
            guard !isQuoted else { throw invalid("\(key): a quote is not closed") }
            result.append((key, String(value)))
        }
    }

    private static func part(_ key: String, _ value: String) throws(BusError) -> Part? {
        func need(_ condition: Bool) throws(BusError) {
            guard condition else { throw invalid("\(key): \(value) is not valid") }
        }
        switch key {
        case "type":
            let kinds: [String: Message.Kind] = [
                "signal": .signal, "method_call": .call, "method_return": .reply, "error": .error,
            ]
            try need(kinds[value] != nil)
            return kinds[value].map { .kind($0) }
        case "sender":
            try need(BusNames.isBusName(value))
            return .sender(value)
        case "destination":
            try need(BusNames.isBusName(value))
            return .destination(value)
        case "interface":
            try need(BusNames.isInterface(value))
            return .interface(value)
        case "member":
            try need(BusNames.isMember(value))
            return .member(value)
        case "path", "path_namespace":
            try need(ObjectPath(value) != nil)
            return key == "path" ? .path(value) : value == "/" ? nil : .namespace(value)
        case "eavesdrop":
            try need(value == "true" || value == "false")
            return nil
        case "arg0namespace":
            return .argumentNamespace(value)
        default:
            let isPath = key.hasSuffix("path")
            guard key.hasPrefix("arg"), let number = Int(key.dropFirst(3).dropLast(isPath ? 4 : 0)), (0...63).contains(number)
            else { throw invalid("\(key) is not known") }
            return isPath ? .argumentPath(number, value) : .argument(number, value)
        }
    }

    /// Whether a message matches the rule.
    ///
    /// - Parameter names: every name of the message's sender.
    public func matches(_ message: Message, from names: [String]) -> Bool {
        parts.allSatisfy { Self.holds($0, message, names) }
    }

    private static func holds(_ part: Part, _ message: Message, _ names: [String]) -> Bool {
        switch part {
        case .kind(let kind): message.kind == kind
        case .sender(let name): names.contains(name)
        case .interface(let name): message.hasInterface(name)
        case .member(let name): message.hasMember(name)
        case .path(let path): message.isPath(path)
        case .namespace(let path): message.isPath(path) || message.isPath(below: path)
        // Without eavesdropping: a message to one client is not matched at all.
        case .destination: false
        case .argument(let number, let text): message.withTextArgument(number, paths: false) { equals($0, text) } ?? false
        case .argumentPath(let number, let text):
            message.textArgument(number, paths: true).map { $0 == text || isPrefix($0, text) || isPrefix(text, $0) } ?? false
        case .argumentNamespace(let text):
            message.textArgument(0, paths: false).map { $0 == text || $0.hasPrefix(text + ".") } ?? false
        }
    }

    /// Whether signals of a sender can match the rule.
    ///
    /// - Parameters:
    ///   - names: all names of the sender.
    ///   - interfaces: whether an interface can be the sender's.
    ///   - paths: whether a path can be the sender's.
    public func mayAskForSignals(
        of names: [String], interfaces: (String) -> Bool, paths: (String) -> Bool
    ) -> Bool {
        parts.allSatisfy { part in
            switch part {
            case .kind(let kind): kind == .signal
            case .sender(let name): names.contains(name)
            case .interface(let name): interfaces(name)
            case .path(let path), .namespace(let path): paths(path)
            default: true
            }
        }
    }

    /// A path that ends with a slash stands for everything below it.
    private static func isPrefix(_ short: String, _ long: String) -> Bool { short.hasSuffix("/") && long.hasPrefix(short) }
}

extension Message {
    /// The first argument, when it is text.
    public var firstText: String? { textArgument(0, paths: false) }

    /// Whether the first argument is this text, without making a String.
    public func hasFirstText(_ text: String) -> Bool { withTextArgument(0, paths: false) { equals($0, text) } ?? false }

    /// The text in argument `number`, a string or (with `paths`) an object path; nil when it is something else.
    func textArgument(_ number: Int, paths: Bool) -> String? {
        withTextArgument(number, paths: paths) { String(cString: $0) }
    }

    fileprivate func withTextArgument<Result>(
        _ number: Int, paths: Bool, _ body: (UnsafePointer<CChar>) -> Result
    ) -> Result? {
        var iterator = DBusMessageIter()
        guard dbus_message_iter_init(raw, &iterator) != 0 else { return nil }
        for _ in 0..<number where dbus_message_iter_next(&iterator) == 0 { return nil }
        let type = dbus_message_iter_get_arg_type(&iterator)
        guard type == TypeCode.string || (paths && type == TypeCode.objectPath) else { return nil }
        var text: UnsafePointer<CChar>?
        dbus_message_iter_get_basic(&iterator, &text)
        return text.map(body)
    }
}

// SPDX-License-Identifier: Apache-2.0
// An interface as its introspection XML describes it. The XML is the truth: the server offers, checks and prints
// that, and nothing else.

internal import CGLib

/// The members of one interface.
public struct InterfaceDescription: Sendable, Hashable {
    /// An argument of a method or a signal.
    public struct Argument: Sendable, Hashable {
        /// Its name in the XML; may be empty.
        public let name: String
        /// Its one complete type.
        public let type: Signature
    }

    /// A method.
    public struct Method: Sendable, Hashable {
        /// Its member name.
        public let name: String
        /// The call's arguments, in their order.
        public let inputs: [Argument]
        /// The answer's arguments, in their order.
        public let outputs: [Argument]

        /// The signature that a call's body must have; empty for none.
        public var inputSignature: String { inputs.map(\.type.rawValue).joined() }
    }

    /// A signal.
    public struct Signal: Sendable, Hashable {
        /// Its member name.
        public let name: String
        /// Its arguments, in their order.
        public let arguments: [Argument]
    }

    /// A property.
    public struct Property: Sendable, Hashable {
        /// Its name, without the interface's.
        public let name: String
        /// Its type, without the variant around it on the wire.
        public let type: Signature
        /// Whether `Get` and `GetAll` have it.
        public let isReadable: Bool
        /// Whether `Set` may be called for it.
        public let isWritable: Bool
        /// `true`, `invalidates`, `const` or `false`, as in `org.freedesktop.DBus.Property.EmitsChangedSignal`.
        public let emitsChanged: String
    }

    /// The interface's name, for example `org.freedesktop.DBus.Properties`.
    public let name: String
    /// In the document's order.
    public fileprivate(set) var methods: [Method] = []
    /// In the document's order.
    public fileprivate(set) var signals: [Signal] = []
    /// In the document's order.
    public fileprivate(set) var properties: [Property] = []

    /// The method of this name; nil when there is none.
    public func method(_ name: String) -> Method? { methods.first { $0.name == name } }
    /// The property of this name; nil when there is none.
    public func property(_ name: String) -> Property? { properties.first { $0.name == name } }

    /// The interfaces in an introspection document.
    ///
    /// - Throws: `Failed` with the parser's message and line.
    public static func parse(xml: String) throws(BusError) -> [InterfaceDescription] {
        let builder = Builder()
        var parser = GMarkupParser()
        parser.start_element = { _, element, names, values, data, failure in
            var attributes: [String: String] = [:]
            var index = 0
            while let name = names?[index], let value = values?[index] {
                attributes[String(cString: name)] = String(cString: value)
                index += 1
            }
            let builder = Unmanaged<Builder>.fromOpaque(data!).takeUnretainedValue()
            if let problem = builder.start(String(cString: element!), attributes) {
                // The variadic form is not imported; a literal error with the message as it is does the same.
                failure?.pointee = g_error_new_literal(g_quark_from_static_string("introspection"), 0, problem)
            }
        }
        parser.end_element = { _, element, data, _ in
            Unmanaged<Builder>.fromOpaque(data!).takeUnretainedValue().end(String(cString: element!))
        }
        let context = g_markup_parse_context_new(
            &parser, GMarkupParseFlags(rawValue: 0), Unmanaged.passUnretained(builder).toOpaque(), nil)
        defer { g_markup_parse_context_free(context) }
        var failure: UnsafeMutablePointer<GError>?
        guard
            g_markup_parse_context_parse(context, xml, xml.utf8.count, &failure) != 0,
            g_markup_parse_context_end_parse(context, &failure) != 0
        else {
            defer { g_clear_error(&failure) }
            throw .failed(failure.map { String(cString: $0.pointee.message) } ?? "not an introspection document")
        }
        return builder.interfaces
    }

    /// The interface as XML, without the members that `hiding` names.
    public func xml(hiding hidden: Set<String> = []) -> String {
        var text = "  <interface name=\"\(name)\">\n"
        for method in methods where !hidden.contains(method.name) {
            let lines =
                method.inputs.map { "      <arg type=\"\($0.type)\" name=\"\($0.name)\" direction=\"in\"/>\n" }
                + method.outputs.map { "      <arg type=\"\($0.type)\" name=\"\($0.name)\" direction=\"out\"/>\n" }
            text += Self.element("method", method.name, lines)
        }
        for signal in signals where !hidden.contains(signal.name) {
            text += Self.element(
                "signal", signal.name, signal.arguments.map { "      <arg type=\"\($0.type)\" name=\"\($0.name)\"/>\n" })
        }
        for property in properties where !hidden.contains(property.name) {
            let access = property.isReadable ? (property.isWritable ? "readwrite" : "read") : "write"
            text += "    <property name=\"\(property.name)\" type=\"\(property.type)\" access=\"\(access)\""
            if property.emitsChanged == "true" {
                text += "/>\n"
            } else {
                text +=
                    ">\n      <annotation name=\"org.freedesktop.DBus.Property.EmitsChangedSignal\" value=\"\(property.emitsChanged)\"/>\n    </property>\n"
            }
        }
        return text + "  </interface>\n"
    }

    private static func element(_ kind: String, _ name: String, _ lines: [String]) -> String {
        lines.isEmpty
            ? "    <\(kind) name=\"\(name)\"/>\n" : "    <\(kind) name=\"\(name)\">\n\(lines.joined())    </\(kind)>\n"
    }

    private final class Builder {
        var interfaces: [InterfaceDescription] = []
        private var method: (name: String, inputs: [Argument], outputs: [Argument])?
        private var signal: (name: String, arguments: [Argument])?
        private var property: (name: String, type: Signature, access: String, emits: String)?

        /// - Returns: the fault of the element; nil without one.
        func start(_ element: String, _ attributes: [String: String]) -> String? {
            let name = attributes["name"] ?? ""
            switch element {
            case "interface":
                guard BusNames.isInterface(name) else { return "not an interface: \(name)" }
                interfaces.append(InterfaceDescription(name: name))
            case "method":
                method = (name, [], [])
            case "signal":
                signal = (name, [])
            case "arg":
                guard let type = Signature(attributes["type"] ?? "") else { return "arg \(name): bad type" }
                let argument = Argument(name: name, type: type)
                if method != nil {
                    if attributes["direction"] == "out" {
                        method?.outputs.append(argument)
                    } else {
                        method?.inputs.append(argument)
                    }
                } else {
                    signal?.arguments.append(argument)
                }
            case "property":
                guard let type = Signature(attributes["type"] ?? "") else { return "property \(name): bad type" }
                property = (name, type, attributes["access"] ?? "read", "true")
            case "annotation":
                if name == "org.freedesktop.DBus.Property.EmitsChangedSignal" { property?.emits = attributes["value"] ?? "true" }
            default:
                break
            }
            return nil
        }

        func end(_ element: String) {
            guard let last = interfaces.indices.last else { return }
            switch element {
            case "method":
                if let method {
                    interfaces[last].methods.append(Method(name: method.name, inputs: method.inputs, outputs: method.outputs))
                }
                method = nil
            case "signal":
                if let signal { interfaces[last].signals.append(Signal(name: signal.name, arguments: signal.arguments)) }
                signal = nil
            case "property":
                if let property {
                    interfaces[last].properties.append(
                        Property(
                            name: property.name, type: property.type, isReadable: property.access != "write",
                            isWritable: property.access != "read", emitsChanged: property.emits))
                }
                property = nil
            default:
                break
            }
        }
    }
}

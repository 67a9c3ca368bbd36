// SPDX-License-Identifier: Apache-2.0
// Errors on the bus: a name for programs and a message for people. Each standard error has a maker, so that its name is
// written once.

internal import CDBus

/// An error on the bus: a name for programs, a message for people.
@frozen public struct BusError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Dotted, as an interface's name: `org.freedesktop.DBus.Error.Failed`.
    public let name: String
    /// For people; may be empty.
    public let message: String

    /// Any error. A name that is not valid goes out as `Failed`.
    public init(name: String, message: String) {
        self.name = name
        self.message = message
    }

    /// The name and the message, where there is one.
    public var description: String { message.isEmpty ? name : "\(name): \(message)" }

    /// `org.freedesktop.DBus.Error.Failed`: any other failure.
    public static func failed(_ message: String) -> BusError { standard("Failed", message) }
    /// `org.freedesktop.DBus.Error.InvalidArgs`: arguments of wrong types, or with values that make no sense.
    public static func invalidArguments(_ message: String) -> BusError { standard("InvalidArgs", message) }
    /// `org.freedesktop.DBus.Error.UnknownMethod`: the object's interface has no such method, or not for this caller.
    public static func unknownMethod(_ message: String) -> BusError { standard("UnknownMethod", message) }
    /// `org.freedesktop.DBus.Error.UnknownObject`: nothing is there, or nothing that the caller may see.
    public static func unknownObject(_ path: ObjectPath) -> BusError { standard("UnknownObject", "no such object: \(path)") }
    /// `org.freedesktop.DBus.Error.UnknownInterface`: the object has no such interface.
    public static func unknownInterface(_ name: String) -> BusError { standard("UnknownInterface", "no such interface: \(name)") }
    /// `org.freedesktop.DBus.Error.UnknownProperty`: the interface has no such property, or it has no value now.
    public static func unknownProperty(_ name: String) -> BusError { standard("UnknownProperty", "no such property: \(name)") }
    /// `org.freedesktop.DBus.Error.PropertyReadOnly`: the property cannot be set.
    public static func readOnly(_ name: String) -> BusError { standard("PropertyReadOnly", "property is read-only: \(name)") }
    /// `org.freedesktop.DBus.Error.AccessDenied`: the caller sees it and may not use it.
    public static func accessDenied(_ message: String) -> BusError { standard("AccessDenied", message) }
    /// `org.freedesktop.DBus.Error.LimitsExceeded`: more than is taken from one peer.
    public static func limitsExceeded(_ message: String) -> BusError { standard("LimitsExceeded", message) }
    /// `org.freedesktop.DBus.Error.Disconnected`: the bus has gone, or was never there.
    public static func disconnected(_ message: String) -> BusError { standard("Disconnected", message) }

    /// For a peer that has not agreed to descriptors, in place of an answer with some.
    static let noDescriptors = standard(
        "NotSupported", "the answer is a descriptor, and this connection has not agreed to descriptors (NEGOTIATE_UNIX_FD)")

    /// `org.freedesktop.DBus.Error.<name>`.
    public static func standard(_ name: String, _ message: String) -> BusError {
        BusError(name: "org.freedesktop.DBus.Error.\(name)", message: message)
    }

    /// Whether the error is `org.freedesktop.DBus.Error.<name>`.
    public func isStandard(_ name: String) -> Bool {
        self.name == "org.freedesktop.DBus.Error.\(name)"
    }
}

extension BusError {
    /// Takes over libdbus' own error structure.
    init(taking failure: inout CDBus.DBusError) {
        self.init(
            name: failure.name.map { String(cString: $0) } ?? "org.freedesktop.DBus.Error.Failed",
            message: failure.message.map { String(cString: $0) } ?? "")
        dbus_error_free(&failure)
    }
}

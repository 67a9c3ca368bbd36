// SPDX-License-Identifier: Apache-2.0
// What goes wrong on the bus: an error has a name for programs and a message for people. The standard ones have a maker each, so that
// nobody writes their names twice.

/// An error on the bus: a name for programs, a message for people.
public struct BusError: Error, Hashable, Sendable, CustomStringConvertible {
    public let name: String
    public let message: String

    public init(name: String, message: String) {
        self.name = name
        self.message = message
    }

    public var description: String { message.isEmpty ? name : "\(name): \(message)" }

    public static func failed(_ message: String) -> BusError { standard("Failed", message) }
    public static func invalidArguments(_ message: String) -> BusError { standard("InvalidArgs", message) }
    public static func unknownMethod(_ message: String) -> BusError { standard("UnknownMethod", message) }
    public static func unknownObject(_ path: ObjectPath) -> BusError { standard("UnknownObject", "no such object: \(path)") }
    public static func unknownInterface(_ name: String) -> BusError { standard("UnknownInterface", "no such interface: \(name)") }
    public static func unknownProperty(_ name: String) -> BusError { standard("UnknownProperty", "no such property: \(name)") }
    public static func readOnly(_ name: String) -> BusError { standard("PropertyReadOnly", "property is read-only: \(name)") }
    public static func accessDenied(_ message: String) -> BusError { standard("AccessDenied", message) }
    public static func limitsExceeded(_ message: String) -> BusError { standard("LimitsExceeded", message) }
    public static func disconnected(_ message: String) -> BusError { standard("Disconnected", message) }
    public static func cancelled() -> BusError { standard("Cancelled", "the call was cancelled") }

    /// `org.freedesktop.DBus.Error.<name>`.
    public static func standard(_ name: String, _ message: String) -> BusError {
        BusError(name: "org.freedesktop.DBus.Error.\(name)", message: message)
    }

    /// Whether the error is `org.freedesktop.DBus.Error.<name>`.
    public func isStandard(_ name: String) -> Bool {
        self.name == "org.freedesktop.DBus.Error.\(name)"
    }
}

// SPDX-License-Identifier: Apache-2.0
// Names on the bus. libdbus aborts the process when it is handed a bad name, so every name that reaches it was checked here.

internal import CDBus

/// An object path, always valid by the D-Bus specification.
public struct ObjectPath: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringLiteral, Comparable {
    public let rawValue: String

    /// Nil when `rawValue` is not a valid object path.
    public init?(_ rawValue: String) {
        guard !rawValue.utf8.contains(0), dbus_validate_path(rawValue, nil) != 0 else { return nil }
        self.rawValue = rawValue
    }

    /// For paths that libdbus has validated already.
    init(validated rawValue: String) {
        self.rawValue = rawValue
    }

    /// A literal that is not a path is a programming error.
    public init(stringLiteral value: StaticString) {
        guard let path = ObjectPath("\(value)") else { preconditionFailure("not an object path: \(value)") }
        self = path
    }

    public var description: String { rawValue }

    public static func < (a: ObjectPath, b: ObjectPath) -> Bool { a.rawValue < b.rawValue }

    /// The same number as `Message.pathFingerprint` for this path.
    public var fingerprint: UInt64 { rawValue.withCString { DBusKit.fingerprint(of: $0) } }

    /// The path of a child; nil when `element` may not stand in a path (`[A-Za-z0-9_]+`).
    public func appending(_ element: String) -> ObjectPath? {
        ObjectPath(rawValue == "/" ? "/\(element)" : "\(rawValue)/\(element)")
    }

    /// Whether `self` lies below `ancestor`.
    public func isBelow(_ ancestor: ObjectPath) -> Bool {
        ancestor.rawValue == "/" ? rawValue != "/" : rawValue.hasPrefix(ancestor.rawValue + "/")
    }
}

/// Checks of the other kinds of names.
public enum BusNames {
    public static func isBusName(_ name: String) -> Bool {
        !name.utf8.contains(0) && dbus_validate_bus_name(name, nil) != 0
    }

    public static func isInterface(_ name: String) -> Bool {
        !name.utf8.contains(0) && dbus_validate_interface(name, nil) != 0
    }

    public static func isMember(_ name: String) -> Bool {
        !name.utf8.contains(0) && dbus_validate_member(name, nil) != 0
    }

    public static func isErrorName(_ name: String) -> Bool {
        !name.utf8.contains(0) && dbus_validate_error_name(name, nil) != 0
    }
}

/// Names of the bus itself.
public enum Bus {
    public static let name = "org.freedesktop.DBus"
    public static let path: ObjectPath = "/org/freedesktop/DBus"
    public static let properties = "org.freedesktop.DBus.Properties"
    public static let introspectable = "org.freedesktop.DBus.Introspectable"
    public static let objectManager = "org.freedesktop.DBus.ObjectManager"
    public static let peer = "org.freedesktop.DBus.Peer"

    /// This machine's identifier, 32 hexadecimal digits; empty when it has none.
    public static var machineID: String {
        guard let text = dbus_try_get_local_machine_id(nil) else { return "" }
        defer { dbus_free(text) }
        return String(cString: text)
    }
}

// SPDX-License-Identifier: Apache-2.0
// Names on the bus. libdbus aborts the process when it is handed a bad name, so every name that reaches it was checked
// here.

internal import CDBus

/// An object path, always valid by the D-Bus specification.
@frozen public struct ObjectPath: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringLiteral, Comparable {
    /// The path: `/`, or elements of `[A-Za-z0-9_]`, each after a slash.
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

    /// The same as `rawValue`.
    public var description: String { rawValue }

    /// In the order of the text.
    public static func < (a: ObjectPath, b: ObjectPath) -> Bool { a.rawValue < b.rawValue }

    /// The same number as `Message.pathFingerprint` for this path.
    public var fingerprint: UInt64 {
        var text = rawValue
        return text.withUTF8 { UnsafeRawBufferPointer($0).fingerprint }
    }

    /// The path above; its own for the root.
    public var parent: ObjectPath {
        let end = rawValue.lastIndex(of: "/") ?? rawValue.startIndex
        return ObjectPath(validated: end == rawValue.startIndex ? "/" : String(rawValue[..<end]))
    }

    /// The path of a child, or of a descendant where `element` is several between slashes. Nil when that is no path: an
    /// element is `[A-Za-z0-9_]+`.
    public func appending(_ element: String) -> ObjectPath? {
        ObjectPath(rawValue == "/" ? "/\(element)" : "\(rawValue)/\(element)")
    }

    /// Whether `self` lies below `ancestor`.
    public func isBelow(_ ancestor: ObjectPath) -> Bool {
        guard ancestor.rawValue != "/" else { return rawValue != "/" }
        // Not by hasPrefix with a slash: this is asked for every message, and would make a text each time.
        var (path, above) = (rawValue, ancestor.rawValue)
        return path.withUTF8 { path in
            above.withUTF8 { UnsafeRawBufferPointer(path).isPath(below: UnsafeRawBufferPointer($0)) }
        }
    }
}

/// Checks of the other kinds of names.
public enum BusNames {
    /// Whether it is a unique name (`:1.42`) or a well-known one (`org.bluez`), at most 255 bytes.
    public static func isBusName(_ name: String) -> Bool {
        !name.utf8.contains(0) && dbus_validate_bus_name(name, nil) != 0
    }

    /// Whether it is an interface's name: two or more elements between dots, at most 255 bytes.
    public static func isInterface(_ name: String) -> Bool {
        !name.utf8.contains(0) && dbus_validate_interface(name, nil) != 0
    }

    /// Whether it is a method's or a signal's name: `[A-Za-z_][A-Za-z0-9_]*`, at most 255 bytes.
    public static func isMember(_ name: String) -> Bool {
        !name.utf8.contains(0) && dbus_validate_member(name, nil) != 0
    }

    /// Whether it is an error's name, which follows the rules of interfaces.
    public static func isErrorName(_ name: String) -> Bool {
        !name.utf8.contains(0) && dbus_validate_error_name(name, nil) != 0
    }
}

/// Names of the bus itself.
public enum Bus {
    /// The bus's own name, which is also the name of its interface.
    public static let name = "org.freedesktop.DBus"
    /// The bus's object.
    public static let path: ObjectPath = "/org/freedesktop/DBus"
    /// The interface of properties (D-Bus specification, "Standard Interfaces").
    public static let properties = "org.freedesktop.DBus.Properties"
    /// The interface of introspection.
    public static let introspectable = "org.freedesktop.DBus.Introspectable"
    /// The interface that lists the objects below its own.
    public static let objectManager = "org.freedesktop.DBus.ObjectManager"
    /// The interface of every connection; libdbus answers it by itself.
    public static let peer = "org.freedesktop.DBus.Peer"

    /// This machine's identifier, 32 hexadecimal digits; empty when it has none.
    public static var machineID: String {
        guard let text = dbus_try_get_local_machine_id(nil) else { return "" }
        defer { dbus_free(text) }
        return String(cString: text)
    }
}

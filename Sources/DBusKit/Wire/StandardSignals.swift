// SPDX-License-Identifier: Apache-2.0
// The arguments of the signals that every service with objects sends, checked once. Another type of argument counts as
// no signal. (D-Bus specification, org.freedesktop.DBus.ObjectManager and org.freedesktop.DBus.Properties)

extension Message {
    /// `InterfacesAdded`: an object, and its new interfaces with their properties (`a{sa{sv}}`).
    public func addedInterfaces(limits: DecodingLimits = .standard) -> (path: ObjectPath, interfaces: DBusValue)? {
        guard let arguments = try? arguments(limits: limits), arguments.count == 2, let path = arguments[0].objectPathValue else {
            return nil
        }
        return (path, arguments[1])
    }

    /// `InterfacesRemoved`: an object, and the interfaces that it has no longer.
    public var removedInterfaces: (path: ObjectPath, names: [String])? {
        guard let arguments = try? arguments(), arguments.count == 2, let path = arguments[0].objectPathValue,
            let names = arguments[1].stringsValue
        else { return nil }
        return (path, names)
    }

    /// `PropertiesChanged`: new values, and the names of properties whose value is unknown from now on.
    public var changedProperties: (interface: String, values: [String: DBusValue], invalidated: [String])? {
        guard let arguments = try? arguments(), arguments.count == 3, let interface = arguments[0].stringValue,
            let values = arguments[1].vardictValue
        else { return nil }
        return (interface, values, arguments[2].stringsValue ?? [])
    }
}

extension Result {
    /// The failure; nil for a success.
    public var error: Failure? { if case .failure(let error) = self { error } else { nil } }
}

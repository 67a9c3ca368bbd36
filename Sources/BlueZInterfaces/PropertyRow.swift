// SPDX-License-Identifier: Apache-2.0
// How the properties of an interface are described and read: one row for each, found by name in a message, and by case
// everywhere else.

public import DBusKit

/// An interface of bluetoothd; its cases are the properties, the most frequent first.
public protocol BlueZInterface: CaseIterable, Hashable, Sendable {
    /// The name on the bus.
    static var interface: String { get }
    /// The properties by name.
    static var table: PropertyTable<Self> { get }
    /// The description of the property.
    var row: PropertyRow { get }
}

extension BlueZInterface {
    /// The property's name on the bus.
    public var name: String { row.name.description }
}

/// One property.
public struct PropertyRow: Sendable {
    /// The name on the bus.
    public let name: StaticString
    /// The type on the bus.
    public let type: Signature
    /// The value to assume where there is none; nil where none can be assumed.
    public let fallback: DBusValue?

    init(_ name: StaticString, _ type: Signature, default fallback: DBusValue? = nil) {
        self.name = name
        self.type = type
        self.fallback = fallback
    }
}

/// The properties of an interface by name.
public struct PropertyTable<Interface: BlueZInterface>: Sendable {
    @usableFromInline let properties: [Interface]
    @usableFromInline let names: [StaticString]

    init() {
        properties = Array(Interface.allCases)
        names = properties.map(\.row.name)
    }
}

extension ValueCursor {
    /// The property whose name is here; nil for one without a row.
    @inlinable
    public mutating func property<Interface: BlueZInterface>(of _: Interface.Type) -> Interface? {
        let table = Interface.table
        return word(among: table.names).map { table.properties[$0] }
    }

    /// The value of each property that has a row, in the dictionary (`a{sv}`) here.
    @inlinable
    public mutating func forEachProperty<Interface: BlueZInterface>(
        of _: Interface.Type, _ body: (Interface, inout Self) -> Void
    ) {
        forEachEntry { entry in
            guard let property = entry.property(of: Interface.self) else { return }
            entry.next()
            entry.withVariant { body(property, &$0) }
        }
    }
}

/// Properties of one object, as far as they were sent (`a{sv}`). A value of another type than its row's counts as none.
public struct Properties<Interface: BlueZInterface>: Equatable, Sendable {
    /// The values by name, those without a row included.
    public let values: [String: DBusValue]

    /// - Parameter values: `GetAll`'s answer, or an object's entry in `GetManagedObjects`.
    public init(_ values: [String: DBusValue] = [:]) {
        self.values = values
    }

    /// The value that was sent, or else the row's default.
    public subscript(_ property: Interface) -> DBusValue? {
        let row = property.row
        guard let value = values[row.name.description]?.unwrapped, value.signature == row.type else { return row.fallback }
        return value
    }

    func isTrue(_ property: Interface) -> Bool { self[property]?.booleanValue == true }
}

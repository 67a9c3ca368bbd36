// SPDX-License-Identifier: Apache-2.0
// The objects of org.bluez as a value: interfaces and properties, updated by its signals. It knows no bus, no app and
// no time. (BlueZ, org.bluez.Device(5), org.bluez.GattCharacteristic(5))

public import BlueZInterfaces
public import DBusKit

/// The objects of org.bluez.
public struct BlueZTree: Sendable {
    private static let interfaces: Set<String> = [
        Adapter1.interface, Device1.interface, GattService1.interface, GattCharacteristic1.interface, GattDescriptor1.interface,
    ]

    private var objects: [ObjectPath: [String: [String: DBusValue]]] = [:]

    /// Without an object.
    public init() {}

    // MARK: Keeping up

    /// Replaces all known objects with an answer of `GetManagedObjects`.
    public mutating func load(_ managedObjects: DBusValue?) {
        objects = [:]
        for entry in managedObjects?.entries ?? [] {
            if let path = entry.key.objectPathValue { add(path, entry.value) }
        }
    }

    /// `InterfacesAdded`.
    public mutating func add(_ path: ObjectPath, _ interfaces: DBusValue) {
        for entry in interfaces.entries ?? [] {
            guard let name = entry.key.stringValue, Self.interfaces.contains(name) else { continue }
            objects[path, default: [:]][name] = entry.value.vardictValue ?? [:]
        }
    }

    /// `InterfacesRemoved`.
    public mutating func remove(_ path: ObjectPath, _ names: [String]) {
        for name in names { objects[path]?[name] = nil }
        if objects[path]?.isEmpty == true { objects[path] = nil }
    }

    /// Applies `PropertiesChanged`. The signal does not create objects or interfaces.
    public mutating func change(_ path: ObjectPath, _ interface: String, _ changed: [String: DBusValue], invalidated: [String]) {
        guard objects[path]?[interface] != nil else { return }
        objects[path]?[interface]?.merge(changed) { _, new in new }
        for name in invalidated { objects[path]?[interface]?[name] = nil }
    }

    // MARK: Reading

    /// The properties of an object's interface; nil where the object does not have it.
    public func properties<Interface: BlueZInterface>(of path: ObjectPath, _: Interface.Type = Interface.self) -> Properties<
        Interface
    >? {
        objects[path]?[Interface.interface].map { Properties($0) }
    }

    /// All adapters.
    public var adapters: [ObjectPath] { objects.filter { $0.value[Adapter1.interface] != nil }.keys.sorted() }

    /// The adapter; the first of several.
    public var adapter: ObjectPath? { adapters.first }

    /// Whether the adapter has power.
    public var isPowered: Bool { adapter.flatMap { properties(of: $0, Adapter1.self) }?.isPowered == true }

    /// A device's properties; nil without an object.
    public func device(_ path: ObjectPath) -> Properties<Device1>? { properties(of: path) }

    /// All devices.
    public var devices: [ObjectPath] { objects.filter { $0.value[Device1.interface] != nil }.map(\.key) }

    /// Whether an object has this interface.
    public func has(_ path: ObjectPath, _ interface: String) -> Bool { objects[path]?[interface] != nil }

    /// A property of a service, characteristic or descriptor that all three have.
    public func attributeUUID(_ path: ObjectPath, _ interface: String) -> String? {
        objects[path]?[interface]?["UUID"]?.stringValue
    }

    /// The bytes of a packet on the link, according to a characteristic of the device; nil when there is none.
    public func mtu(of device: ObjectPath) -> Int? {
        objects.keys.lazy.filter { $0.isBelow(device) }.compactMap { properties(of: $0, GattCharacteristic1.self)?.mtu }.first
    }

    /// The objects with this interface directly below another, in the order of their handles: these are four digits in
    /// the paths, so that the order of the text is theirs.
    public func children(of path: ObjectPath, _ interface: String) -> [ObjectPath] {
        let prefix = path.rawValue.utf8.count + 1
        return objects.filter { child, interfaces in
            interfaces[interface] != nil && child.isBelow(path)
                && !child.rawValue.utf8.dropFirst(prefix).contains(UInt8(ascii: "/"))
        }
        .keys.sorted()
    }

    /// All objects below another, by the object directly above each; in the same order.
    public func objects(below path: ObjectPath) -> [ObjectPath: [ObjectPath]] {
        Dictionary(grouping: objects.keys.filter { $0.isBelow(path) }.sorted(), by: \.parent)
    }
}

// SPDX-License-Identifier: Apache-2.0
// The objects of org.bluez as a value: interfaces and properties, updated by its signals, and a central's queries on
// them. It knows no bus, no app and no time. (BlueZ, org.bluez.Device(5), org.bluez.GattCharacteristic(5))

internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

/// A service, characteristic or descriptor, as the tree has it.
struct AttributeInfo: Equatable, Sendable {
    var path: ObjectPath
    /// As `CBUUID` prints it: four digits where that is enough.
    var uuid: String
    var isPrimary = true
    var properties: CBCharacteristicProperties = []
}

/// The objects of org.bluez.
struct BlueZTree {

    private static let interfaces: Set<String> = [
        Adapter1.interface, Device1.interface, GattService1.interface, GattCharacteristic1.interface, GattDescriptor1.interface,
    ]

    private var objects: [ObjectPath: [String: [String: DBusValue]]] = [:]

    // MARK: Keeping up

    /// Replaces all known objects with an answer of `GetManagedObjects`.
    mutating func load(_ managedObjects: DBusValue?) {
        objects = [:]
        for entry in managedObjects?.entries ?? [] {
            if let path = entry.key.objectPathValue { add(path, entry.value) }
        }
    }

    /// `InterfacesAdded`.
    mutating func add(_ path: ObjectPath, _ interfaces: DBusValue) {
        for entry in interfaces.entries ?? [] {
            guard let name = entry.key.stringValue, Self.interfaces.contains(name) else { continue }
            objects[path, default: [:]][name] = entry.value.vardictValue ?? [:]
        }
    }

    /// `InterfacesRemoved`.
    mutating func remove(_ path: ObjectPath, _ names: [String]) {
        for name in names { objects[path]?[name] = nil }
        if objects[path]?.isEmpty == true { objects[path] = nil }
    }

    /// Applies `PropertiesChanged`. The signal does not create objects or interfaces.
    mutating func change(_ path: ObjectPath, _ interface: String, _ changed: [String: DBusValue], invalidated: [String]) {
        guard objects[path]?[interface] != nil else { return }
        objects[path]?[interface]?.merge(changed) { _, new in new }
        for name in invalidated { objects[path]?[interface]?[name] = nil }
    }

    // MARK: The adapter

    private func properties<Interface: BlueZInterface>(of path: ObjectPath) -> Properties<Interface>? {
        objects[path]?[Interface.interface].map { Properties($0) }
    }

    /// The adapter; the first of several.
    var adapter: ObjectPath? { objects.filter { $0.value[Adapter1.interface] != nil }.keys.min() }

    var isPowered: Bool {
        let properties: Properties<Adapter1>? = adapter.flatMap { self.properties(of: $0) }
        return properties?.isPowered == true
    }

    // MARK: Devices

    /// A device's properties; nil without an object.
    func device(_ path: ObjectPath) -> Properties<Device1>? { properties(of: path) }

    /// All devices.
    var devices: [ObjectPath] { objects.filter { $0.value[Device1.interface] != nil }.map(\.key) }

    /// An accessory's advertisement.
    struct Advertisement: Equatable, Sendable {
        var localName: String?
        var services: [String] = []
        var serviceData: [String: [UInt8]] = [:]
        var manufacturerData: [UInt8]?
        var txPower: Int?

        /// Whether the device advertises one of the wanted services; nil stands for any.
        func fits(_ wanted: [String]?) -> Bool {
            guard let wanted, !wanted.isEmpty else { return true }
            return wanted.contains { services.contains($0) || serviceData[$0] != nil }
        }
    }

    // MARK: Attributes

    /// Whether any service of a device is an object.
    func hasServices(_ device: ObjectPath) -> Bool { !children(of: device, GattService1.interface).isEmpty }

    /// GAP, GATT, device information, battery, HID and scan parameters: bluetoothd may keep them for its own profiles,
    /// and then exports no objects for these services.
    static let claimedServices: Set<String> = ["1800", "1801", "180A", "180F", "1812", "1813"]

    /// A device's services, in the order of their handles. Those that are only included in others too, and without
    /// those that Apple's systems keep to themselves.
    func services(of device: ObjectPath) -> [AttributeInfo] {
        children(of: device, GattService1.interface).filter { !Self.keptServices.contains($0.uuid) }
    }

    /// Generic Access, Generic Attribute, HID and the notification center: “filtered out from the list of discovered
    /// services” (Apple's Accessory Design Guidelines, Bluetooth Low Energy, GATT Server).
    private static let keptServices: Set<String> = ["1800", "1801", "1812", "7905F431-B5CE-4E99-A40F-4B1E122D00D0"]

    /// The services that a service includes; nil when it has no object.
    func includedServices(of service: ObjectPath) -> [AttributeInfo]? {
        let properties: Properties<GattService1>? = self.properties(of: service)
        return properties?.includes.sorted().compactMap { info($0, GattService1.interface) }
    }

    /// A service's characteristics, in the order of their handles; nil when it is not there.
    func characteristics(of service: ObjectPath) -> [AttributeInfo]? {
        guard objects[service]?[GattService1.interface] != nil else { return nil }
        return children(of: service, GattCharacteristic1.interface)
    }

    /// A characteristic's descriptors, in the order of their handles; nil when it is not there.
    func descriptors(of characteristic: ObjectPath) -> [AttributeInfo]? {
        guard objects[characteristic]?[GattCharacteristic1.interface] != nil else { return nil }
        return children(of: characteristic, GattDescriptor1.interface)
    }

    /// Whether this is a characteristic or a descriptor that is there.
    func hasAttribute(_ path: ObjectPath) -> Bool {
        objects[path]?[GattCharacteristic1.interface] != nil || objects[path]?[GattDescriptor1.interface] != nil
    }

    /// The bytes of a packet on the link, according to a characteristic of the device; nil when there is none.
    func mtu(of device: ObjectPath) -> Int? {
        objects.keys.lazy.filter { $0.isBelow(device) }.compactMap { path in
            (properties(of: path) as Properties<GattCharacteristic1>?)?.mtu
        }
        .first
    }

    // Handles are four digits in the paths, so that the order of the text is theirs.
    private func children(of path: ObjectPath, _ interface: String) -> [AttributeInfo] {
        let prefix = path.rawValue.utf8.count + 1
        let paths = objects.keys.filter {
            $0.isBelow(path) && !$0.rawValue.utf8.dropFirst(prefix).contains(UInt8(ascii: "/"))
        }
        return paths.sorted().compactMap { info($0, interface) }
    }

    private func info(_ path: ObjectPath, _ interface: String) -> AttributeInfo? {
        guard let properties = objects[path]?[interface],
            let uuid = properties["UUID"]?.stringValue.flatMap({ BluetoothUUID($0) })
        else { return nil }
        return AttributeInfo(
            path: path, uuid: Self.shortened(uuid), isPrimary: Properties<GattService1>(properties).isPrimary,
            properties: CBCharacteristicProperties(flags: Properties<GattCharacteristic1>(properties).flags))
    }

    /// A UUID as `CBUUID` prints it. BlueZ writes all 128 bits of a short one.
    static func shortened(_ uuid: BluetoothUUID) -> String {
        guard uuid.low == 0x8000_0080_5F9B_34FB, uuid.high & 0xFFFF_FFFF == 0x1000 else {
            return uuid.description.uppercased()
        }
        let digits = uuid.description.prefix(8).uppercased()
        return digits.hasPrefix("0000") ? String(digits.dropFirst(4)) : digits
    }
}

extension Properties<Device1> {
    var displayName: String? { name ?? alias }

    /// The advertised or discovered services, as `CBUUID` prints them.
    var services: [String] { serviceUUIDs.map(BlueZTree.shortened) }

    var advertisement: BlueZTree.Advertisement {
        // The company's identifier first, least significant byte first, as on the air. BlueZ may have several; Apple's
        // key holds one.
        let manufacturer = manufacturerData.min { $0.key.value < $1.key.value }.map { company, bytes in
            [UInt8(company.value & 0xFF), UInt8(company.value >> 8)] + bytes
        }
        return BlueZTree.Advertisement(
            localName: name, services: services,
            serviceData: Dictionary(serviceData.map { (BlueZTree.shortened($0.key), $0.value) }) { first, _ in first },
            manufacturerData: manufacturer, txPower: txPower)
    }
}

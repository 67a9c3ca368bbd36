// SPDX-License-Identifier: Apache-2.0
// What org.bluez shows of itself, as a value: objects with interfaces and properties, kept up by its signals, and the
// questions that a central has about them. It knows no bus, no app and no time. (BlueZ, org.bluez.Device(5),
// org.bluez.GattCharacteristic(5))

internal import AccessoryModel
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
    static let service = "org.bluez"
    static let adapterInterface = "org.bluez.Adapter1"
    static let deviceInterface = "org.bluez.Device1"
    static let serviceInterface = "org.bluez.GattService1"
    static let characteristicInterface = "org.bluez.GattCharacteristic1"
    static let descriptorInterface = "org.bluez.GattDescriptor1"

    private static let kept: Set<String> = [
        adapterInterface, deviceInterface, serviceInterface, characteristicInterface, descriptorInterface,
    ]

    private var objects: [ObjectPath: [String: [String: DBusValue]]] = [:]

    // MARK: Keeping up

    /// Takes what `GetManagedObjects` answered in the place of all that was known.
    mutating func load(_ managedObjects: DBusValue?) {
        objects = [:]
        for entry in managedObjects?.entries ?? [] {
            if let path = entry.key.objectPathValue { add(path, entry.value) }
        }
    }

    /// `InterfacesAdded`.
    mutating func add(_ path: ObjectPath, _ interfaces: DBusValue) {
        for entry in interfaces.entries ?? [] {
            guard let name = entry.key.stringValue, Self.kept.contains(name) else { continue }
            objects[path, default: [:]][name] = entry.value.vardictValue ?? [:]
        }
    }

    /// `InterfacesRemoved`.
    mutating func remove(_ path: ObjectPath, _ names: [String]) {
        for name in names { objects[path]?[name] = nil }
        if objects[path]?.isEmpty == true { objects[path] = nil }
    }

    /// `PropertiesChanged`. What is not there does not come into being by it.
    mutating func change(_ path: ObjectPath, _ interface: String, _ changed: [String: DBusValue], invalidated: [String]) {
        guard objects[path]?[interface] != nil else { return }
        objects[path]?[interface]?.merge(changed) { _, new in new }
        for name in invalidated { objects[path]?[interface]?[name] = nil }
    }

    // MARK: The adapter

    /// The adapter that is shown; the first where there are several.
    var adapter: ObjectPath? { objects.filter { $0.value[Self.adapterInterface] != nil }.keys.min() }

    /// Whether the adapter has power.
    var isPowered: Bool {
        adapter.flatMap { objects[$0]?[Self.adapterInterface]?["Powered"]?.booleanValue } ?? false
    }

    // MARK: Devices

    /// A device's properties; nil when BlueZ does not have it.
    func device(_ path: ObjectPath) -> Device? { objects[path]?[Self.deviceInterface].map { Device(properties: $0) } }

    /// The questions about a device.
    struct Device {
        fileprivate let properties: [String: DBusValue]

        var isConnected: Bool { properties["Connected"]?.booleanValue ?? false }
        var areServicesResolved: Bool { properties["ServicesResolved"]?.booleanValue ?? false }
        var name: String? { properties["Name"]?.stringValue ?? properties["Alias"]?.stringValue }
        var rssi: Int? { properties["RSSI"]?.integerValue }

        /// The services that it has said it has.
        var services: [String] { (properties["UUIDs"]?.stringsValue ?? []).compactMap(BlueZTree.shortened) }

        var advertisement: Advertisement {
            var data = Advertisement(localName: properties["Name"]?.stringValue, services: services)
            for entry in properties["ServiceData"]?.entries ?? [] {
                if let key = entry.key.stringValue.flatMap(BlueZTree.shortened) {
                    data.serviceData[key] = entry.value.bytesValue
                }
            }
            // The company's identifier first, least significant byte first, as on the air. BlueZ may know several;
            // Apple's key holds one.
            let manufacturers = (properties["ManufacturerData"]?.entries ?? []).compactMap { entry -> (Int, [UInt8])? in
                guard let company = entry.key.integerValue, let bytes = entry.value.bytesValue else { return nil }
                return (company, bytes)
            }
            if let (company, bytes) = manufacturers.min(by: { $0.0 < $1.0 }) {
                data.manufacturerData = [UInt8(company & 0xFF), UInt8(company >> 8 & 0xFF)] + bytes
            }
            data.txPower = properties["TxPower"]?.integerValue
            return data
        }
    }

    /// What an accessory has said of itself.
    struct Advertisement: Equatable, Sendable {
        var localName: String?
        var services: [String] = []
        var serviceData: [String: [UInt8]] = [:]
        var manufacturerData: [UInt8]?
        var txPower: Int?

        /// Whether one of these services is advertised; nil stands for any.
        func fits(_ wanted: [String]?) -> Bool {
            guard let wanted, !wanted.isEmpty else { return true }
            return wanted.contains { services.contains($0) || serviceData[$0] != nil }
        }
    }

    // MARK: Attributes

    /// Whether any service of a device is an object.
    func hasServices(_ device: ObjectPath) -> Bool { !children(of: device, Self.serviceInterface).isEmpty }

    /// GAP, GATT, device information, battery, HID and scan parameters: bluetoothd may keep them for its own profiles,
    /// and then exports no objects for these services.
    static let claimedServices: Set<String> = ["1800", "1801", "180A", "180F", "1812", "1813"]

    /// A device's services, in the order of their handles. Those that are only included in others too, and without
    /// those that Apple's systems keep to themselves.
    func services(of device: ObjectPath) -> [AttributeInfo] {
        children(of: device, Self.serviceInterface).filter { !Self.keptServices.contains($0.uuid) }
    }

    /// Generic Access, Generic Attribute, HID and the notification center: “filtered out from the list of discovered
    /// services” (Apple's Accessory Design Guidelines, Bluetooth Low Energy, GATT Server).
    private static let keptServices: Set<String> = ["1800", "1801", "1812", "7905F431-B5CE-4E99-A40F-4B1E122D00D0"]

    /// The services that a service includes; nil when it is not there.
    func includedServices(of service: ObjectPath) -> [AttributeInfo]? {
        guard let properties = objects[service]?[Self.serviceInterface] else { return nil }
        let paths = (properties["Includes"]?.arrayValue ?? []).compactMap(\.objectPathValue).sorted()
        return paths.compactMap { info($0, Self.serviceInterface) }
    }

    /// A service's characteristics, in the order of their handles; nil when it is not there.
    func characteristics(of service: ObjectPath) -> [AttributeInfo]? {
        guard objects[service]?[Self.serviceInterface] != nil else { return nil }
        return children(of: service, Self.characteristicInterface)
    }

    /// A characteristic's descriptors, in the order of their handles; nil when it is not there.
    func descriptors(of characteristic: ObjectPath) -> [AttributeInfo]? {
        guard objects[characteristic]?[Self.characteristicInterface] != nil else { return nil }
        return children(of: characteristic, Self.descriptorInterface)
    }

    /// Whether this is a characteristic or a descriptor that is there.
    func hasAttribute(_ path: ObjectPath) -> Bool {
        objects[path]?[Self.characteristicInterface] != nil || objects[path]?[Self.descriptorInterface] != nil
    }

    /// The bytes of a packet on the link, as a characteristic of the device tells; nil when none does.
    func mtu(of device: ObjectPath) -> Int? {
        objects.lazy.filter { $0.key.isBelow(device) }.compactMap {
            $0.value[Self.characteristicInterface]?["MTU"]?.integerValue
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
            let uuid = properties["UUID"]?.stringValue.flatMap(Self.shortened)
        else { return nil }
        return AttributeInfo(
            path: path, uuid: uuid, isPrimary: properties["Primary"]?.booleanValue ?? true,
            properties: CBCharacteristicProperties(flags: properties["Flags"]?.stringsValue ?? []))
    }

    /// A UUID as `CBUUID` prints it: BlueZ writes all 128 bits of one that is short. Nil for text that is none:
    /// `CBUUID(string:)` would end the app.
    static func shortened(_ text: String) -> String? {
        guard let uuid = BluetoothUUID(text) else { return nil }
        guard uuid.low == 0x8000_0080_5F9B_34FB, uuid.high & 0xFFFF_FFFF == 0x1000 else {
            return uuid.description.uppercased()
        }
        let digits = uuid.description.prefix(8).uppercased()
        return digits.hasPrefix("0000") ? String(digits.dropFirst(4)) : digits
    }
}

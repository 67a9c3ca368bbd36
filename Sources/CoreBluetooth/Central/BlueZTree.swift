// SPDX-License-Identifier: Apache-2.0
// A central's queries on the objects of org.bluez: attributes and advertisements in the terms of CoreBluetooth.

internal import AccessoryModel
internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit

/// A service, characteristic or descriptor, as the tree has it.
struct AttributeInfo: Equatable, Sendable {
    var path: ObjectPath
    /// As `CBUUID` prints it: four digits where that is enough.
    var uuid: String
    var isPrimary = true
    var properties: CBCharacteristicProperties = []
}

extension BlueZTree {
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
        attributes(of: device, GattService1.interface).filter { !Self.keptServices.contains($0.uuid) }
    }

    /// Generic Access, Generic Attribute, HID and the notification center: “filtered out from the list of discovered
    /// services” (Apple's Accessory Design Guidelines, Bluetooth Low Energy, GATT Server).
    private static let keptServices: Set<String> = ["1800", "1801", "1812", "7905F431-B5CE-4E99-A40F-4B1E122D00D0"]

    /// The services that a service includes; nil when it has no object.
    func includedServices(of service: ObjectPath) -> [AttributeInfo]? {
        properties(of: service, GattService1.self)?.includes.sorted().compactMap { info($0, GattService1.interface) }
    }

    /// A service's characteristics, in the order of their handles; nil when it is not there.
    func characteristics(of service: ObjectPath) -> [AttributeInfo]? {
        has(service, GattService1.interface) ? attributes(of: service, GattCharacteristic1.interface) : nil
    }

    /// A characteristic's descriptors, in the order of their handles; nil when it is not there.
    func descriptors(of characteristic: ObjectPath) -> [AttributeInfo]? {
        has(characteristic, GattCharacteristic1.interface) ? attributes(of: characteristic, GattDescriptor1.interface) : nil
    }

    /// Whether this is a characteristic or a descriptor that is there.
    func hasAttribute(_ path: ObjectPath) -> Bool {
        has(path, GattCharacteristic1.interface) || has(path, GattDescriptor1.interface)
    }

    private func attributes(of path: ObjectPath, _ interface: String) -> [AttributeInfo] {
        children(of: path, interface).compactMap { info($0, interface) }
    }

    private func info(_ path: ObjectPath, _ interface: String) -> AttributeInfo? {
        guard let uuid = attributeUUID(path, interface).flatMap({ BluetoothUUID($0) }) else { return nil }
        return AttributeInfo(
            path: path, uuid: Self.shortened(uuid), isPrimary: properties(of: path, GattService1.self)?.isPrimary ?? true,
            properties: CBCharacteristicProperties(flags: properties(of: path, GattCharacteristic1.self)?.flags ?? []))
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

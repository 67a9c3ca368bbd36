// SPDX-License-Identifier: Apache-2.0
// The attributes of devices by their objects, as bluetoothd has them now: a grant names characteristics by UUID and
// instance, and calls name them by path, which may be another characteristic's once a device's services change.

internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

/// The services, characteristics and descriptors of all devices.
struct Attributes {
    private struct Attribute {
        let interface: String
        let uuid: BluetoothUUID
    }

    /// By device and object.
    private var devices: [ObjectPath: [ObjectPath: Attribute]] = [:]
    /// Of the devices that were asked about since their attributes changed.
    private var identities: [ObjectPath: [ObjectPath: CharacteristicIdentity]] = [:]

    /// An attribute's interfaces, each with the steps from its object to the device's.
    private static let depths = [GattService1.interface: 1, GattCharacteristic1.interface: 2, GattDescriptor1.interface: 3]

    private static func device(of path: ObjectPath, _ interface: String) -> ObjectPath? {
        depths[interface].map { depth in (0..<depth).reduce(path) { path, _ in path.parent } }
    }

    /// The radio service has an object, with these interfaces.
    mutating func add(_ path: ObjectPath, _ interfaces: [String: DBusValue]) {
        for (interface, properties) in interfaces {
            guard let device = Self.device(of: path, interface),
                let uuid = properties.vardictValue?["UUID"]?.stringValue.flatMap({ BluetoothUUID($0) })
            else { continue }
            devices[device, default: [:]][path] = Attribute(interface: interface, uuid: uuid)
            identities[device] = nil
        }
    }

    /// The radio service has removed interfaces of an object.
    mutating func remove(_ path: ObjectPath, _ interfaces: some Sequence<String>) {
        for device in interfaces.compactMap({ Self.device(of: path, $0) }) where devices[device]?[path] != nil {
            devices[device]?[path] = nil
            if devices[device]?.isEmpty == true { devices[device] = nil }
            identities[device] = nil
        }
    }

    /// The UUID of a device's attribute; nil for one that is not known.
    func uuid(of path: ObjectPath, _ device: ObjectPath) -> BluetoothUUID? { devices[device]?[path]?.uuid }

    /// A characteristic of a device; nil for one that is not known.
    mutating func identity(of characteristic: ObjectPath, _ device: ObjectPath) -> CharacteristicIdentity? {
        if let known = identities[device] { return known[characteristic] }
        let attributes = devices[device] ?? [:]
        var found: [ObjectPath: CharacteristicIdentity] = [:]
        var counts: [CharacteristicIdentity: Int] = [:]
        // Paths end with handles of four digits: their order is that of the handles.
        for (path, attribute) in attributes.sorted(by: { $0.key < $1.key })
        where attribute.interface == GattCharacteristic1.interface {
            guard let service = attributes[path.parent]?.uuid else { continue }
            let all = CharacteristicIdentity(service: service, characteristic: attribute.uuid, instance: 0)
            counts[all, default: 0] += 1
            found[path] = CharacteristicIdentity(
                service: service, characteristic: attribute.uuid, instance: counts[all, default: 0])
        }
        identities[device] = found
        return found[characteristic]
    }
}

// SPDX-License-Identifier: Apache-2.0
// An accessory's attributes by handle, as clients know them. bluetoothd has the handle of a declaration in the path; a
// client uses that of a characteristic's value, which follows its declaration. (Core Specification 5.4, Vol 3, Part G,
// 3.3.1)

internal import AccessoryModel
internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit
internal import ESPHomeAPI

/// The attributes of one accessory.
struct Attributes {
    enum Target: Equatable {
        case characteristic(ObjectPath)
        case descriptor(ObjectPath)
        /// The client characteristic configuration of a characteristic: bluetoothd writes it itself.
        case configuration(of: ObjectPath)
    }

    let services: [ServerMessage.Service]
    private let targets: [UInt32: Target]

    /// Client Characteristic Configuration (Core Specification 5.4, Vol 3, Part G, 3.3.3.3).
    private static let configuration = BluetoothUUID(short: 0x2902)

    init(of device: ObjectPath, in tree: BlueZTree) {
        var services: [ServerMessage.Service] = []
        var targets: [UInt32: Target] = [:]
        // In one pass: an accessory may have tens of thousands of attributes.
        let objects = tree.objects(below: device)
        func children(of path: ObjectPath, _ interface: String) -> [ObjectPath] {
            objects[path, default: []].filter { tree.has($0, interface) }
        }
        for service in children(of: device, GattService1.interface) {
            guard let handle = Self.handle(service), let uuid = tree.uuid(of: service, GattService1.interface) else { continue }
            var characteristics: [ServerMessage.Characteristic] = []
            for characteristic in children(of: service, GattCharacteristic1.interface) {
                guard let handle = Self.valueHandle(characteristic),
                    let uuid = tree.uuid(of: characteristic, GattCharacteristic1.interface)
                else { continue }
                let flags = tree.properties(of: characteristic, GattCharacteristic1.self)?.flags ?? []
                targets[handle] = .characteristic(characteristic)
                var descriptors: [ServerMessage.Descriptor] = []
                for descriptor in children(of: characteristic, GattDescriptor1.interface) {
                    guard let handle = Self.handle(descriptor), let uuid = tree.uuid(of: descriptor, GattDescriptor1.interface)
                    else { continue }
                    targets[handle] = uuid == Self.configuration ? .configuration(of: characteristic) : .descriptor(descriptor)
                    descriptors.append(.init(uuid: uuid.numbers, handle: handle))
                }
                characteristics.append(
                    .init(uuid: uuid.numbers, handle: handle, properties: Self.properties(flags), descriptors: descriptors))
            }
            services.append(.init(uuid: uuid.numbers, handle: handle, characteristics: characteristics))
        }
        self.services = services
        self.targets = targets
    }

    func target(_ handle: UInt32) -> Target? { targets[handle] }

    /// The handle of a characteristic's value.
    static func valueHandle(_ characteristic: ObjectPath) -> UInt32? { handle(characteristic).map { $0 + 1 } }

    /// `…/char0011` → 0x11.
    private static func handle(_ path: ObjectPath) -> UInt32? { UInt32(path.rawValue.suffix(4), radix: 16) }

    /// bluetoothd's flags as bits (doc/org.bluez.GattCharacteristic.rst).
    private static func properties(_ flags: [String]) -> UInt8 {
        let bits: [String: UInt8] = [
            "broadcast": 0x01, "read": 0x02, "write-without-response": 0x04, "write": 0x08, "notify": 0x10, "indicate": 0x20,
            "authenticated-signed-writes": 0x40, "extended-properties": 0x80,
        ]
        return flags.reduce(0) { $0 | (bits[$1] ?? 0) }
    }
}

extension BlueZTree {
    fileprivate func uuid(of path: ObjectPath, _ interface: String) -> BluetoothUUID? {
        attributeUUID(path, interface).flatMap { BluetoothUUID($0) }
    }
}

extension BluetoothUUID {
    fileprivate var numbers: ServerMessage.UUID128 { .init(high: high, low: low) }
}

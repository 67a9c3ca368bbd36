// SPDX-License-Identifier: Apache-2.0
// The GATT server of a connected accessory: its services, with the characteristics and descriptors of each, as BlueZ
// exports them.

internal import AccessoryModel
internal import DBusKit

final class SimulatedGATT {
    private unowned let device: SimulatedDevice
    private let bluez: SimulatedBlueZ
    /// After each change of the services their order is the other one, so that handles are other attributes'.
    private var isReversed = false
    private var services: [ServiceObject] = []
    private var characteristics: [CharacteristicObject] = []
    private var descriptors: [DescriptorObject] = []

    init(_ device: SimulatedDevice, _ bluez: SimulatedBlueZ) {
        self.device = device
        self.bluez = bluez
        build()
    }

    private func build() {
        (services, characteristics, descriptors) = ([], [], [])
        var handle = 0x0A
        var paths: [BluetoothUUID: ObjectPath] = [:]
        var included: [(ServiceObject, [BluetoothUUID])] = []
        let all = Array(device.accessory.scenario.gatt.services.enumerated())
        for (place, service) in isReversed ? all.reversed() : all {
            let element = "service" + Self.hex(handle)
            guard let path = device.path.appending(element) else { continue }
            let object = ServiceObject(path, service.uuid, device, bluez)
            services.append(object)
            paths[service.uuid] = path
            included.append((object, service.includes))
            for (index, characteristic) in service.characteristics.enumerated() {
                handle += 2
                guard let path = path.appending("char" + Self.hex(handle)) else { continue }
                // The path has the declaration's handle; the value's follows, and the descriptors'.
                handle += 1
                // Values outlive connections; they belong to the accessory.
                let key = "\(place)/\(index)"
                let object = CharacteristicObject(path, characteristic, key: key, device)
                characteristics.append(object)
                for (index, descriptor) in characteristic.descriptors.enumerated() {
                    handle += 1
                    guard let below = path.appending("desc" + Self.hex(handle)) else { continue }
                    let value = SimulatedAttribute(descriptor.value, key: "\(key)/\(index)", device)
                    descriptors.append(DescriptorObject(below, descriptor.uuid, of: path, value, bluez))
                }
                guard let subscription = object.subscription else { continue }
                handle += 1
                guard let below = path.appending("desc" + Self.hex(handle)) else { continue }
                descriptors.append(DescriptorObject(below, Self.configuration, of: path, subscription, bluez, isReadOnly: true))
            }
            handle += 2
        }
        for (service, uuids) in included { service.included = uuids.compactMap { paths[$0] } }
    }

    /// The descriptor by which a client subscribes, which bluetoothd writes for its own.
    private static let configuration = BluetoothUUID("2902")!

    private static func hex(_ handle: Int) -> String {
        let text = String(handle, radix: 16)
        return String(repeating: "0", count: max(0, 4 - text.count)) + text
    }

    func export() {
        for service in services { bluez.server.export(service, to: .everybody) }
        for characteristic in characteristics { bluez.server.export(characteristic, to: .everybody) }
        for descriptor in descriptors { bluez.server.export(descriptor, to: .everybody) }
    }

    func withdraw() {
        for descriptor in descriptors { bluez.server.withdraw(descriptor.path, to: .everybody) }
        for characteristic in characteristics {
            characteristic.stop()
            bluez.server.withdraw(characteristic.path, to: .everybody)
        }
        for service in services { bluez.server.withdraw(service.path, to: .everybody) }
    }

    /// The accessory has another database: BlueZ takes the old objects away and makes new ones.
    func replace() {
        withdraw()
        isReversed.toggle()
        build()
        export()
    }

    func clientGone(_ client: String) {
        for characteristic in characteristics { characteristic.clientGone(client) }
    }
}

private final class ServiceObject: ExportedObject {
    let path: ObjectPath
    var included: [ObjectPath] = []
    private(set) var interfaces: [ExportedInterface] = []

    init(_ path: ObjectPath, _ uuid: BluetoothUUID, _ device: SimulatedDevice, _ bluez: SimulatedBlueZ) {
        self.path = path
        let devicePath = device.path
        var service = ExportedInterface(bluez.descriptions[Interfaces.service]!)
        service.property("UUID") { _ in .string(uuid.description) }
        service.property("Device") { _ in .objectPath(devicePath) }
        service.property("Primary") { _ in .boolean(true) }
        service.property("Includes") { [unowned self] _ in .objectPaths(included) }
        interfaces = [service]
    }

    func isVisible(to caller: String) -> Bool { true }
}

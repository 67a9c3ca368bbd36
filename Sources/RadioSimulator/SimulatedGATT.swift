// SPDX-License-Identifier: Apache-2.0
// The GATT server of a connected accessory: services and characteristics with read, write and notify, as BlueZ exports
// them.

internal import AccessoryModel
internal import DBusKit
internal import Glibc

final class SimulatedGATT {
    private let bluez: SimulatedBlueZ
    private var services: [ServiceObject] = []
    private var characteristics: [CharacteristicObject] = []
    private var descriptors: [DescriptorObject] = []

    init(_ device: SimulatedDevice, _ bluez: SimulatedBlueZ) {
        self.bluez = bluez
        var handle = 0x0A
        var paths: [BluetoothUUID: ObjectPath] = [:]
        var included: [(ServiceObject, [BluetoothUUID])] = []
        for service in device.accessory.scenario.services {
            let element = "service" + Self.hex(handle)
            guard let path = device.path.appending(element) else { continue }
            let object = ServiceObject(path, service.uuid, device, bluez)
            services.append(object)
            paths[service.uuid] = path
            included.append((object, service.includes))
            for (index, characteristic) in service.characteristics.enumerated() {
                handle += 2
                guard let path = path.appending("char" + Self.hex(handle)) else { continue }
                // Values outlive connections; they belong to the accessory.
                let key = "\(service.uuid)/\(index)"
                characteristics.append(CharacteristicObject(path, characteristic, key: key, device, bluez))
                for (index, descriptor) in characteristic.descriptors.enumerated() {
                    handle += 1
                    guard let below = path.appending("desc" + Self.hex(handle)) else { continue }
                    descriptors.append(DescriptorObject(below, descriptor, of: path, key: "\(key)/\(index)", device, bluez))
                }
            }
            handle += 2
        }
        for (service, uuids) in included { service.included = uuids.compactMap { paths[$0] } }
    }

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

private final class DescriptorObject: ExportedObject {
    let path: ObjectPath
    private(set) var interfaces: [ExportedInterface] = []

    init(
        _ path: ObjectPath, _ scenario: Scenario.Descriptor, of characteristic: ObjectPath, key: String,
        _ device: SimulatedDevice, _ bluez: SimulatedBlueZ
    ) {
        self.path = path
        // Values outlive connections; they belong to the accessory.
        func value(_ device: SimulatedDevice) -> [UInt8] { device.accessory.characteristicValues[key] ?? scenario.value }
        var descriptor = ExportedInterface(bluez.descriptions[Interfaces.descriptor]!)
        descriptor.property("UUID") { _ in .string(scenario.uuid.description) }
        descriptor.property("Characteristic") { _ in .objectPath(characteristic) }
        descriptor.property("Value") { [unowned device] _ in .bytes(value(device)) }
        descriptor.method("ReadValue") { [unowned device] call throws(BusError) in call.reply(.bytes(value(device))) }
        descriptor.method("WriteValue") { [unowned device] call throws(BusError) in
            device.accessory.characteristicValues[key] = call.arguments[0].bytesValue ?? []
            call.reply()
        }
        interfaces = [descriptor]
    }

    func isVisible(to caller: String) -> Bool { true }
}

private final class CharacteristicObject: ExportedObject {
    let path: ObjectPath
    private let scenario: Scenario.Characteristic
    private let key: String
    private unowned let device: SimulatedDevice
    private unowned let bluez: SimulatedBlueZ
    private(set) var interfaces: [ExportedInterface] = []
    private var subscribers: Set<String> = []
    private var timer: LoopSource?
    private var next = 0
    /// Descriptors that were handed out; the values go there instead of into the property.
    private var writing: Acquired?
    private var notifying: Acquired?

    private struct Acquired {
        let end: FileDescriptor
        let source: LoopSource
    }

    /// The ATT MTU, as BlueZ tells it: three bytes of a packet are the protocol's. This is the usual one.
    private static let mtu: UInt16 = 247

    init(_ path: ObjectPath, _ scenario: Scenario.Characteristic, key: String, _ device: SimulatedDevice, _ bluez: SimulatedBlueZ) {
        self.path = path
        self.scenario = scenario
        self.key = key
        self.device = device
        self.bluez = bluez
        let service = ObjectPath(String(path.rawValue[..<(path.rawValue.lastIndex(of: "/") ?? path.rawValue.endIndex)])) ?? "/"
        var characteristic = ExportedInterface(bluez.descriptions[Interfaces.characteristic]!)
        characteristic.property("UUID") { _ in .string(scenario.uuid.description) }
        characteristic.property("Service") { _ in .objectPath(service) }
        characteristic.property("Flags") { _ in .strings(scenario.flags) }
        characteristic.property("Value") { [unowned self] _ in .bytes(value) }
        characteristic.property("Notifying") { [unowned self] _ in .boolean(!subscribers.isEmpty) }
        characteristic.method("ReadValue") { [unowned self] call throws(BusError) in
            try allow("read")
            changed("Value")
            call.reply(.bytes(value))
        }
        characteristic.method("WriteValue") { [unowned self] call throws(BusError) in
            guard writing == nil else { throw .bluez("NotPermitted", "Write acquired") }
            try allow("write")
            device.accessory.characteristicValues[key] = call.arguments[0].bytesValue ?? []
            call.reply()
        }
        characteristic.method("StartNotify") { [unowned self] call throws(BusError) in
            guard scenario.flags.contains("notify") || scenario.flags.contains("indicate") else {
                throw .bluez("NotSupported", "Operation is not supported")
            }
            start(call.sender)
            call.reply()
        }
        characteristic.method("StopNotify") { [unowned self] call throws(BusError) in
            guard subscribers.contains(call.sender) else { throw .bluez("Failed", "No notify session started") }
            clientGone(call.sender)
            call.reply()
        }
        characteristic.property("WriteAcquired") { [unowned self] _ in .boolean(writing != nil) }
        characteristic.property("NotifyAcquired") { [unowned self] _ in .boolean(notifying != nil) }
        characteristic.method("AcquireWrite") { [unowned self] call throws(BusError) in
            try allow("write")
            guard writing == nil else { throw .bluez("NotPermitted", "Write acquired") }
            let (acquired, end) = try acquire { [unowned self] in
                writing = nil
                changed("WriteAcquired")
            }
            writing = acquired
            changed("WriteAcquired")
            call.reply(end, .uint16(Self.mtu))
        }
        characteristic.method("AcquireNotify") { [unowned self] call throws(BusError) in
            guard scenario.flags.contains("notify") else { throw .bluez("NotSupported", "Operation is not supported") }
            guard notifying == nil, subscribers.isEmpty else { throw .bluez("NotPermitted", "Notify acquired") }
            let (acquired, end) = try acquire { [unowned self] in
                notifying = nil
                stopTimer()
                changed("NotifyAcquired")
            }
            notifying = acquired
            changed("NotifyAcquired")
            call.reply(end, .uint16(Self.mtu))
            startTimer()
        }
        interfaces = [characteristic]
    }

    func isVisible(to caller: String) -> Bool { true }

    private var value: [UInt8] { device.accessory.characteristicValues[key] ?? scenario.value }

    /// Whether the flags allow it; what wants encryption wants a bond.
    private func allow(_ operation: String) throws(BusError) {
        let plain = scenario.flags.contains { $0 == operation || $0 == operation + "-without-response" }
        if plain { return }
        guard scenario.flags.contains(where: { $0.hasSuffix("-" + operation) }) else {
            throw .bluez("NotPermitted", "\(operation) not permitted")
        }
        guard device.isBonded else { throw .bluez("NotAuthorized", "Operation Not Authorized") }
    }

    private func start(_ client: String) {
        let wasIdle = subscribers.isEmpty
        subscribers.insert(client)
        guard wasIdle else { return }
        changed("Notifying")
        startTimer()
    }

    private func startTimer() {
        guard let notify = scenario.notify, !notify.values.isEmpty else { return }
        timer = bluez.loop.every(.seconds(notify.interval)) { [weak self] in
            guard let self else { return false }
            let value = notify.values[self.next % notify.values.count]
            self.next += 1
            if let notifying = self.notifying {
                // Who does not read misses it, as with bluetoothd.
                _ = value.withUnsafeBytes(notifying.end.sendPacket)
                return true
            }
            self.device.accessory.characteristicValues[self.key] = value
            self.changed("Value")
            return true
        }
    }

    private func stopTimer() {
        timer?.cancel()
        timer = nil
    }

    /// Makes a pair and listens at one end; `ended` when the client has closed the other.
    ///
    /// - Returns: besides, the client's end.
    private func acquire(ended: @escaping () -> Void) throws(BusError) -> (Acquired, DBusValue) {
        guard let (mine, theirs) = FileDescriptor.packetPair() else { throw .bluez("Failed", "no descriptors") }
        let source = bluez.loop.onReadable(mine.rawValue) { [weak self] in
            var buffer = [UInt8](repeating: 0, count: 512)
            let count = recv(mine.rawValue, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            guard count > 0 else {
                ended()
                return false
            }
            guard let self else { return false }
            self.device.accessory.characteristicValues[self.key] = Array(buffer.prefix(count))
            return true
        }
        return (Acquired(end: mine, source: source), .fileDescriptor(theirs))
    }

    func clientGone(_ client: String) {
        guard subscribers.remove(client) != nil, subscribers.isEmpty else { return }
        stop()
        changed("Notifying")
    }

    func stop() {
        stopTimer()
        for acquired in [writing, notifying] {
            acquired?.source.cancel()
            acquired?.end.endConnection()
        }
        writing = nil
        notifying = nil
    }

    private func changed(_ name: String) {
        bluez.server.propertiesChanged(self, Interfaces.characteristic, [name], to: .everybody)
    }
}

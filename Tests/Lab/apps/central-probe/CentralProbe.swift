// SPDX-License-Identifier: Apache-2.0
// The lab's app over CoreBluetooth (checks/central.py): it executes each line of its input, with one accessory at
// a time, and writes a line for each callback. Written as an app for Apple's systems would be.

import CoreBluetooth

@MainActor
final class CentralProbe: NSObject {
    private var central: CBCentralManager?
    private var peripheral: CBPeripheral?

    /// Begins: the first line is the manager's state.
    func start() {
        central = CBCentralManager(delegate: self, queue: .main)
    }

    /// Executes a line: commands with a semicolon between them, in one turn of the queue.
    func obey(_ line: String) {
        for command in line.split(separator: ";") { perform(String(command)) }
    }

    /// Reports unknown commands and absent objects as well.
    private func perform(_ line: String) {
        let words = line.split(separator: " ").map(String.init)
        guard let word = words.first, let central else { return }
        switch (word, words.dropFirst().first) {
        case ("retrieve", let text?): retrieve(UUID(uuidString: text), central)
        case ("scan", nil): central.scanForPeripherals(withServices: nil)
        case ("connect", nil): use { central.connect($0) }
        case ("connect", "reconnecting"):
            use { central.connect($0, options: [CBConnectPeripheralOptionEnableAutoReconnect: true]) }
        case ("cancel", nil): use { central.cancelPeripheralConnection($0) }
        case ("services", _): use { $0.discoverServices(nil) }
        case ("included", let name?): use(service(name)) { $0.discoverIncludedServices(nil, for: $1) }
        case ("characteristics", let name?): use(service(name)) { $0.discoverCharacteristics(nil, for: $1) }
        case ("descriptors", let name?): use(characteristic(name)) { $0.discoverDescriptors(for: $1) }
        case ("read", let name?) where name.contains("/"): use(descriptor(name)) { $0.readValue(for: $1) }
        case ("read", let name?): use(characteristic(name)) { $0.readValue(for: $1) }
        case ("write", let name?) where name.contains("/"):
            use(descriptor(name)) { $0.writeValue(Self.data(words.last), for: $1) }
        case ("write", let name?):
            use(characteristic(name)) { $0.writeValue(Self.data(words.last), for: $1, type: .withResponse) }
        case ("command", let name?):
            use(characteristic(name)) { $0.writeValue(Self.data(words.last), for: $1, type: .withoutResponse) }
        case ("notify", let name?): use(characteristic(name)) { $0.setNotifyValue(words.last == "on", for: $1) }
        // No callback of the same line's requests may precede it.
        case ("say", _): say(words.dropFirst().joined(separator: " "))
        default: say("not understood: \(line)")
        }
    }

    private func retrieve(_ identifier: UUID?, _ central: CBCentralManager) {
        peripheral = identifier.flatMap { central.retrievePeripherals(withIdentifiers: [$0]).first }
        peripheral?.delegate = self
        say("retrieved \(peripheral?.name ?? "nothing")")
    }

    // MARK: Attributes by their UUIDs

    private func use(_ body: (CBPeripheral) -> Void) {
        guard let peripheral else { return say("no peripheral") }
        body(peripheral)
    }

    private func use<Attribute>(_ attribute: Attribute?, _ body: (CBPeripheral, Attribute) -> Void) {
        guard let attribute else { return say("no such attribute") }
        use { body($0, attribute) }
    }

    private func service(_ name: String) -> CBService? {
        peripheral?.services?.first { $0.uuid == CBUUID(string: name) }
    }

    private func characteristic(_ name: String) -> CBCharacteristic? {
        let all = (peripheral?.services ?? []).flatMap { $0.characteristics ?? [] }
        return all.first { $0.uuid == CBUUID(string: name) }
    }

    /// The characteristic's UUID, a slash and the descriptor's.
    private func descriptor(_ name: String) -> CBDescriptor? {
        let parts = name.split(separator: "/").map(String.init)
        return characteristic(parts[0])?.descriptors?.first { $0.uuid == CBUUID(string: parts[1]) }
    }

    private static func data(_ hex: String?) -> Data {
        let digits = Array(hex ?? "")
        let pairs = stride(from: 0, to: digits.count - 1, by: 2).map { String(digits[$0...$0 + 1]) }
        return Data(pairs.compactMap { UInt8($0, radix: 16) })
    }

    // MARK: Saying

    /// A line at once, also into a pipe.
    private func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    private func say(_ line: String, _ error: (any Error)?) { say(line + (error.map { " " + Self.name($0) } ?? "")) }

    private static func name(_ error: any Error) -> String {
        if let error = error as? CBError { return "CBError.\(error.code)" }
        if let error = error as? CBATTError { return "CBATTError.\(error.code)" }
        return "\(error)"
    }

    private static func hex(_ data: Data?) -> String { (data ?? Data()).map { String(format: "%02X", $0) }.joined() }

    private static func list(_ attributes: [CBAttribute]?) -> String {
        (attributes ?? []).map(\.uuid.uuidString).joined(separator: " ")
    }
}

extension CentralProbe: @preconcurrency CBCentralManagerDelegate {
    func centralManagerDidUpdateState(_ central: CBCentralManager) { say("didUpdateState \(central.state)") }

    func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
        say("didConnect \(peripheral.state)")
    }

    func centralManager(_ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?) {
        say("didFailToConnect \(peripheral.state)", error)
    }

    func centralManager(
        _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, timestamp: CFAbsoluteTime,
        isReconnecting: Bool, error: (any Error)?
    ) {
        say("didDisconnect \(peripheral.state) \(isReconnecting ? "isReconnecting" : "for good")", error)
    }
}

extension CentralProbe: @preconcurrency CBPeripheralDelegate {
    func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
        say("didDiscoverServices \(Self.list(peripheral.services))", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didDiscoverIncludedServicesFor service: CBService, error: (any Error)?) {
        say("didDiscoverIncludedServices \(service.uuid.uuidString): \(Self.list(service.includedServices))", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?) {
        say("didDiscoverCharacteristics \(service.uuid.uuidString): \(Self.list(service.characteristics))", error)
    }

    func peripheral(
        _ peripheral: CBPeripheral, didDiscoverDescriptorsFor characteristic: CBCharacteristic, error: (any Error)?
    ) {
        say("didDiscoverDescriptors \(characteristic.uuid.uuidString): \(Self.list(characteristic.descriptors))", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
        say("didUpdateValue \(characteristic.uuid.uuidString) \(Self.hex(characteristic.value))", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didWriteValueFor characteristic: CBCharacteristic, error: (any Error)?) {
        say("didWriteValue \(characteristic.uuid.uuidString)", error)
    }

    func peripheral(
        _ peripheral: CBPeripheral, didUpdateNotificationStateFor characteristic: CBCharacteristic, error: (any Error)?
    ) {
        say("didUpdateNotificationState \(characteristic.uuid.uuidString) \(characteristic.isNotifying ? "on" : "off")", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor descriptor: CBDescriptor, error: (any Error)?) {
        let value = (descriptor.value as? Data).map(Self.hex) ?? descriptor.value
        say("didUpdateDescriptor \(descriptor.uuid.uuidString) \(value ?? "nothing")", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didWriteValueFor descriptor: CBDescriptor, error: (any Error)?) {
        say("didWriteDescriptor \(descriptor.uuid.uuidString)", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didModifyServices invalidatedServices: [CBService]) {
        say("didModifyServices \(Self.list(invalidatedServices))")
    }

    func peripheralIsReady(toSendWriteWithoutResponse peripheral: CBPeripheral) { say("isReadyToSend") }
}

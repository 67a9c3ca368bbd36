// SPDX-License-Identifier: Apache-2.0
// An app's delegate that records its callbacks, with the state that it sees at that moment; a callback on another queue
// than the manager's is marked.

import CoreBluetooth
import Dispatch
import Foundation
import TestSupport

class Recorder: NSObject, CBCentralManagerDelegate, CBPeripheralDelegate {
    let events = Mailbox()
    let queue: DispatchQueue
    private let key = DispatchSpecificKey<Bool>()
    /// Called with each line, on the queue.
    var onEvent: ((String) -> Void)?
    /// Connects to each peripheral that it discovers.
    var connects = false
    private var retained: [CBPeripheral] = []

    init(on queue: DispatchQueue = DispatchQueue(label: "test.app")) {
        self.queue = queue
        super.init()
        queue.setSpecific(key: key, value: true)
    }

    func record(_ line: String, _ error: (any Error)? = nil) {
        let place = DispatchQueue.getSpecific(key: key) == true ? "" : " ON ANOTHER QUEUE"
        let failure = error.map { " " + Self.name($0) } ?? ""
        events.put(line + failure + place)
        onEvent?(line + failure)
    }

    static func name(_ error: any Error) -> String {
        if let error = error as? CBError { return "CBError.\(error.code)" }
        if let error = error as? CBATTError { return "CBATTError.\(error.code)" }
        return "\(error)"
    }

    static func hex(_ data: Data?) -> String { (data ?? Data()).map { String(format: "%02X", $0) }.joined() }

    // MARK: CBCentralManagerDelegate

    /// An app keeps them, or their links end.
    private var restored: [CBPeripheral] = []

    func centralManagerDidUpdateState(_ central: CBCentralManager) { record("state \(central.state)") }

    func centralManager(_ central: CBCentralManager, willRestoreState dict: [String: Any]) {
        let peripherals = dict[CBCentralManagerRestoredStatePeripheralsKey] as? [CBPeripheral] ?? []
        restored = peripherals
        record("restored \(peripherals.map { "\($0.state)" }.joined(separator: ",")) while \(central.state)")
    }

    func centralManager(
        _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
        rssi RSSI: NSNumber
    ) {
        if connects {
            retained.append(peripheral)
            central.connect(peripheral)
        }
        let services = advertisementData[CBAdvertisementDataServiceUUIDsKey] as? [CBUUID] ?? []
        record(
            "discovered \(peripheral.name ?? "-") \(RSSI) \(services.map(\.uuidString).joined(separator: ",")) "
                + "\(advertisementData[CBAdvertisementDataIsConnectable] ?? "-") "
                + Self.hex(advertisementData[CBAdvertisementDataManufacturerDataKey] as? Data))
    }

    func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
        record("connected \(peripheral.state) services=\(peripheral.services?.count ?? -1)")
    }

    func centralManager(_ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?) {
        record("failed \(peripheral.state)", error)
    }

    func centralManager(
        _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
    ) {
        record("disconnected \(peripheral.state) services=\(peripheral.services?.count ?? -1)", error)
    }

    /// Whether it is an app that knows the newer form. (A subclass could not add it: Swift takes the witness of who
    /// conforms.)
    var knowsReconnecting = false

    func centralManager(
        _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, timestamp: CFAbsoluteTime,
        isReconnecting: Bool, error: (any Error)?
    ) {
        guard knowsReconnecting else {
            return centralManager(central, didDisconnectPeripheral: peripheral, error: error)
        }
        let isNow = abs(timestamp - Date().timeIntervalSinceReferenceDate) < 10
        record("lost \(peripheral.state) \(isReconnecting)\(isNow ? "" : " AT ANOTHER TIME")", error)
    }

    func centralManager(
        _ central: CBCentralManager, connectionEventDidOccur event: CBConnectionEvent, for peripheral: CBPeripheral
    ) {
        record("event \(event)")
    }

    // MARK: CBPeripheralDelegate

    func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
        record("services \((peripheral.services ?? []).map(\.uuid.uuidString).joined(separator: ","))", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didDiscoverIncludedServicesFor service: CBService, error: (any Error)?) {
        record("included \(service.uuid.uuidString) \(service.includedServices?.count ?? -1)", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?) {
        record(
            "characteristics \(service.uuid.uuidString) \((service.characteristics ?? []).map(\.uuid.uuidString).joined(separator: ","))",
            error)
    }

    func peripheral(
        _ peripheral: CBPeripheral, didDiscoverDescriptorsFor characteristic: CBCharacteristic, error: (any Error)?
    ) {
        record("descriptors \(characteristic.uuid.uuidString) \(characteristic.descriptors?.count ?? -1)", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
        record("value \(characteristic.uuid.uuidString) \(Self.hex(characteristic.value))", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didWriteValueFor characteristic: CBCharacteristic, error: (any Error)?) {
        record("written \(characteristic.uuid.uuidString)", error)
    }

    func peripheral(
        _ peripheral: CBPeripheral, didUpdateNotificationStateFor characteristic: CBCharacteristic, error: (any Error)?
    ) {
        record("notifying \(characteristic.uuid.uuidString) \(characteristic.isNotifying)", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor descriptor: CBDescriptor, error: (any Error)?) {
        record("descriptor \(descriptor.uuid.uuidString) \(descriptor.value ?? "-")", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didWriteValueFor descriptor: CBDescriptor, error: (any Error)?) {
        record("described \(descriptor.uuid.uuidString)", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didReadRSSI RSSI: NSNumber, error: (any Error)?) {
        record("rssi \(RSSI)", error)
    }

    func peripheral(_ peripheral: CBPeripheral, didModifyServices invalidatedServices: [CBService]) {
        record("modified \(invalidatedServices.map(\.uuid.uuidString).joined(separator: ","))")
    }

    func peripheralDidUpdateName(_ peripheral: CBPeripheral) { record("name \(peripheral.name ?? "-")") }

    func peripheralIsReady(toSendWriteWithoutResponse peripheral: CBPeripheral) {
        record("ready \(peripheral.canSendWriteWithoutResponse)")
    }

    func peripheral(_ peripheral: CBPeripheral, didOpen channel: CBL2CAPChannel?, error: (any Error)?) {
        record("channel \(channel == nil ? "none" : "there")", error)
    }
}

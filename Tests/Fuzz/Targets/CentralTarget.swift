// SPDX-License-Identifier: Apache-2.0
// The view's messages to CoreBluetooth: objects, properties, values, answers and errors of any type and at any moment,
// while an app scans, connects, reads and writes. Its thread takes it all and its queue stays alive.

import Dispatch
import Foundation

@testable import CoreBluetooth
@testable import DBusKit

private let identifier = UUID(uuidString: "12345678-1234-1234-1234-123456789ABC")!

private let centralWords =
    bluezWords
    + Vocabulary(
        texts: ["12345678-1234-1234-1234-123456789abc", "org.accessorysetup1.View"], paths: ["/org/accessorysetup1/view"],
        interfaces: ["org.accessorysetup1.View"], keys: [("Peripherals", "a(sos)")])

/// An app that goes on with whatever it hears, on its queue.
///
/// @unchecked Sendable: it is used on its queue, and by the fuzzer while that waits.
private final class App: NSObject, CBCentralManagerDelegate, CBPeripheralDelegate, @unchecked Sendable {
    var delivered = 0

    func centralManagerDidUpdateState(_ central: CBCentralManager) { delivered += 1 }
    func centralManager(
        _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any], rssi RSSI: NSNumber
    ) { delivered += advertisementData.count }
    func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
        peripheral.delegate = self
        peripheral.discoverServices(nil)
    }
    func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
        for service in peripheral.services ?? [] {
            peripheral.discoverCharacteristics(nil, for: service)
            peripheral.discoverIncludedServices(nil, for: service)
        }
    }
    func peripheral(_ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?) {
        for characteristic in service.characteristics ?? [] { peripheral.discoverDescriptors(for: characteristic) }
    }
    func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
        delivered += characteristic.value?.count ?? 0
    }
}

/// Jobs on the runtime's thread are done when this returns.
private func waitForModule() {
    let isDone = DispatchSemaphore(value: 0)
    guard (try? CentralRegistry.perform { _ in isDone.signal() }) != nil else { found("no thread") }
    guard isDone.wait(timeout: .now() + 240) == .success else { found("CoreBluetooth's thread stands still") }
}

func sendToCentral(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    let bus = PlayedBus.shared
    let queue = DispatchQueue(label: "fuzz.app")
    let app = App()
    var manager: CBCentralManager? = CBCentralManager(delegate: app, queue: queue, bus: "\(bus.address)")
    defer {
        manager = nil
        // Work that waits on the queue may hold the manager.
        queue.sync {}
        waitForModule()
        bus.reset()
    }
    waitForModule()
    var service = PlayedService(centralWords, owners: ["org.bluez": ":1.2", "org.accessorysetup1": ":1.3"])
    service.types = bluezTypes
    service.usual = { call in
        guard call.path == "/org/accessorysetup1/view" else { return bluezAnswer(call) }
        let fields: [DBusValue] = [.string(identifier.uuidString), .objectPath(device), .string("Dice")]
        return [.variant(.array(of: "(sos)", [.structure(fields)]))]
    }
    settle(&service, queue)
    if !input.oneIn(8) {
        for _ in 0..<3 {
            service.answerAll()
            settle(&service, queue)
        }
    }
    for _ in 0..<16 where !input.isAtEnd {
        guard let manager, let line = bus.lines.first(where: \.isOpen) else { break }
        let act = input.byte() % 14
        switch act {
        case 0, 1: service.answerAll()
        case 2: service.answerOne(&input)
        case 3...9:
            let choice = input.byte()
            queue.sync {
                let peripheral = manager.peripheral(identifier)
                peripheral.delegate = app
                request(act, choice, manager, peripheral)
            }
        default: for _ in 0...input.number(below: 3) { service.sendSignal(&input, on: line) }
        }
        settle(&service, queue)
    }
}

private func request(_ act: UInt8, _ choice: UInt8, _ manager: CBCentralManager, _ peripheral: CBPeripheral) {
    switch act {
    case 3:
        if choice.isMultiple(of: 2) { manager.scanForPeripherals(withServices: nil) } else { manager.stopScan() }
    case 4, 5: manager.connect(peripheral)
    case 6: manager.cancelPeripheralConnection(peripheral)
    case 7:
        if choice.isMultiple(of: 2) {
            peripheral.discoverServices([CBUUID(string: "180F")])
        } else {
            peripheral.readRSSI()
            expect(peripheral.maximumWriteValueLength(for: .withoutResponse) >= 20, "writes of nothing")
        }
    default:
        let characteristics = (peripheral.services ?? []).flatMap { $0.characteristics ?? [] }
        guard !characteristics.isEmpty else { return }
        let characteristic = characteristics[Int(choice) % characteristics.count]
        switch choice % 6 {
        case 0: peripheral.readValue(for: characteristic)
        case 1: peripheral.writeValue(Data([1, 2, 3]), for: characteristic, type: .withResponse)
        case 2: peripheral.writeValue(Data([1, 2, 3]), for: characteristic, type: .withoutResponse)
        case 3: peripheral.setNotifyValue(true, for: characteristic)
        case 4: peripheral.setNotifyValue(false, for: characteristic)
        default: for descriptor in characteristic.descriptors ?? [] { peripheral.readValue(for: descriptor) }
        }
    }
}

/// Takes the sent messages, and finishes the work that results from them.
private func settle(_ service: inout PlayedService, _ queue: DispatchQueue) {
    queue.sync {}
    waitForModule()
    let bus = PlayedBus.shared
    service.receive(bus.hear())
    for line in bus.lines { service.receive(bus.waitForAll(on: line).map { (line, $0) }) }
    queue.sync {}
}

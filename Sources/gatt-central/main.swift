// SPDX-License-Identifier: Apache-2.0
// The same app as `gatt-baseline`, for `make bench`, over CoreBluetooth: the module's cost beside plain C. It
// connects a peripheral, hears notifications of its characteristic or writes to it without response, so many times, and
// says how long one took (nanoseconds).

import CoreBluetooth

@MainActor
final class Bench: NSObject {
    private let identifier: UUID
    private let writes: Bool
    private let count: Int
    private var central: CBCentralManager?
    private var peripheral: CBPeripheral?
    private var characteristic: CBCharacteristic?
    private var done = 0
    private var begin: DispatchTime?
    private let packet = Data("01234567890123456789".utf8)

    init(_ identifier: UUID, writes: Bool, count: Int) {
        self.identifier = identifier
        self.writes = writes
        self.count = count
        super.init()
        central = CBCentralManager(delegate: self, queue: .main)
    }

    /// Everything is ready: waits for the word to begin.
    private func isReady() {
        print("ready")
        fflush(nil)
        guard readLine() != nil else { exit(1) }
        done = 0
        begin = .now()
        if writes { write() }
    }

    private func write() {
        guard let peripheral, let characteristic else { return }
        while done < count, peripheral.canSendWriteWithoutResponse {
            peripheral.writeValue(packet, for: characteristic, type: .withoutResponse)
            done += 1
        }
        if done == count { finish() }
    }

    private func finish() {
        guard let begin else { return }
        print((DispatchTime.now().uptimeNanoseconds - begin.uptimeNanoseconds) / UInt64(count))
        fflush(nil)
        // Its CPU is read while it is still there.
        _ = readLine()
        exit(0)
    }
}

extension Bench: @preconcurrency CBCentralManagerDelegate, @preconcurrency CBPeripheralDelegate {
    func centralManagerDidUpdateState(_ central: CBCentralManager) {
        guard central.state == .poweredOn, peripheral == nil else { return }
        guard let peripheral = central.retrievePeripherals(withIdentifiers: [identifier]).first else { exit(1) }
        self.peripheral = peripheral
        peripheral.delegate = self
        central.connect(peripheral)
    }

    func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) { peripheral.discoverServices(nil) }

    func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
        for service in peripheral.services ?? [] { peripheral.discoverCharacteristics([CBUUID(string: "FF3F")], for: service) }
    }

    func peripheral(_ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?) {
        guard let characteristic = service.characteristics?.first else { return }
        self.characteristic = characteristic
        if writes { isReady() } else { peripheral.setNotifyValue(true, for: characteristic) }
    }

    func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
        done += 1
        if begin == nil {
            if done == 10 { isReady() }
        } else if done == count {
            finish()
        }
    }

    func peripheralIsReady(toSendWriteWithoutResponse peripheral: CBPeripheral) { if begin != nil { write() } }
}

guard CommandLine.arguments.count == 4, let identifier = UUID(uuidString: CommandLine.arguments[1]),
    let count = Int(CommandLine.arguments[3])
else {
    print("usage: gatt-central IDENTIFIER notify|write COUNT")
    exit(64)
}
let bench = Bench(identifier, writes: CommandLine.arguments[2] == "write", count: count)
dispatchMain()

// SPDX-License-Identifier: Apache-2.0
// The die itself, over CoreBluetooth: connects to the accessory that the session has granted, finds the characteristic
// of the rolls, and reports each roll.

import CoreBluetooth

@MainActor
final class DieReader: NSObject {
    private let identifier: UUID
    private let name: String
    private let count: Int
    private var central: CBCentralManager?
    private var die: CBPeripheral?
    private var rolls = 0
    /// Links break in busy air.
    private var attemptsLeft = 3
    private var roll: (UInt8) -> Void = { _ in }
    private var end: CheckedContinuation<Void, any Error>?

    /// 0xFF3F: the rolls.
    private static let rolls = CBUUID(string: "FF3F")

    init(_ identifier: UUID, named name: String, count: Int) {
        self.identifier = identifier
        self.name = name
        self.count = count
    }

    /// Reports rolls until their number is reached.
    func read(_ roll: @escaping (UInt8) -> Void) async throws {
        self.roll = roll
        try await withCheckedThrowingContinuation { continuation in
            end = continuation
            central = CBCentralManager(delegate: self, queue: .main)
        }
    }

    private func finish(_ error: (any Error)? = nil) {
        guard let end else { return }
        self.end = nil
        if let error { end.resume(throwing: error) } else { end.resume() }
    }
}

extension DieReader: @preconcurrency CBCentralManagerDelegate {
    func centralManagerDidUpdateState(_ central: CBCentralManager) {
        guard central.state == .poweredOn else { return }
        guard let die = central.retrievePeripherals(withIdentifiers: [identifier]).first else {
            return finish(CBError(.unknownDevice))
        }
        self.die = die
        die.delegate = self
        central.connect(die)
    }

    func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
        peripheral.discoverServices(nil)
    }

    func centralManager(_ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?) {
        finish(error ?? Failure("no link to \(name)"))
    }

    func centralManager(_ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?) {
        if rolls >= count { return finish() }
        guard attemptsLeft > 0 else { return finish(Failure("lost the link to \(name) after \(rolls) of \(count) rolls")) }
        attemptsLeft -= 1
        central.connect(peripheral)
    }
}

extension DieReader: @preconcurrency CBPeripheralDelegate {
    func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
        for service in peripheral.services ?? [] { peripheral.discoverCharacteristics([Self.rolls], for: service) }
    }

    func peripheral(_ peripheral: CBPeripheral, didDiscoverCharacteristicsFor service: CBService, error: (any Error)?) {
        for characteristic in service.characteristics ?? [] { peripheral.setNotifyValue(true, for: characteristic) }
    }

    func peripheral(_ peripheral: CBPeripheral, didUpdateNotificationStateFor characteristic: CBCharacteristic, error: (any Error)?)
    {
        if let error { finish(error) }
    }

    func peripheral(_ peripheral: CBPeripheral, didUpdateValueFor characteristic: CBCharacteristic, error: (any Error)?) {
        guard rolls < count, let value = characteristic.value?.first else { return }
        rolls += 1
        roll(value)
        if rolls == count { central?.cancelPeripheralConnection(peripheral) }
    }
}

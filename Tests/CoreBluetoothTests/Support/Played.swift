// SPDX-License-Identifier: Apache-2.0
// An app over a view of the test's own.

import CoreBluetooth
import TestSupport
import Testing

/// An app over a played view, connected, with its one characteristic discovered.
struct Played {
    let view: FakeView
    let recorder = Recorder()
    let manager: CBCentralManager
    let peripheral: CBPeripheral
    let characteristic: CBCharacteristic

    init(_ play: @escaping @Sendable (String, Int) -> [Step]?) async throws {
        view = try await FakeView(play)
        manager = CBCentralManager(delegate: recorder, queue: recorder.queue, bus: view.address)
        try await recorder.events.wait("state poweredOn")
        peripheral = try #require(manager.retrievePeripherals(withIdentifiers: [FakeView.identifier]).first)
        peripheral.delegate = recorder
        manager.connect(peripheral)
        try await recorder.events.wait("connected")
        peripheral.discoverServices(nil)
        try await recorder.events.wait("services")
        let service = try #require(peripheral.services?.first)
        peripheral.discoverCharacteristics(nil, for: service)
        try await recorder.events.wait("characteristics")
        characteristic = try #require(service.characteristics?.first)
    }

    var events: Mailbox { recorder.events }
}

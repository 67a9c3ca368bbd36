// SPDX-License-Identifier: Apache-2.0
// An extension as it is written for Apple's framework. It reports a printer and a lamp, then that the lamp is another
// and has gone; a third device comes by Bluetooth where PLAYED_ADDRESS is set.

import DeviceDiscoveryExtension
import Foundation
import UniformTypeIdentifiers

@main
final class PlayedExtension: DDDiscoveryExtension {
    private var locators: [Locator] = []

    func startDiscovery(session: DDDiscoverySession) {
        print("started")
        fflush(nil)
        let handler: DDEventHandler = { event in session.report(event) }
        locators = [Locator(handler)]
        for locator in locators { locator.search() }
    }

    func stopDiscovery(session: DDDiscoverySession) {
        print("stopped")
        fflush(nil)
        locators = []
    }
}

private final class Locator {
    private let handler: DDEventHandler

    init(_ handler: @escaping DDEventHandler) { self.handler = handler }

    func search() {
        guard let ipp = UTType("com.example.ipp") else { return }
        let printer = DDDevice(displayName: "Printer", category: .accessorySetup, protocolType: ipp, identifier: "printer")
        printer.networkEndpoint = .hostPort(host: "printer.local", port: 631)
        handler(DDDeviceEvent(eventType: .deviceFound, device: printer))
        let lamp = DDDevice(displayName: "Lamp", category: .accessorySetup, protocolType: ipp, identifier: "lamp")
        lamp.networkEndpoint = .hostPort(host: "192.0.2.7", port: 80)
        handler(DDDeviceEvent(eventType: .deviceFound, device: lamp))
        lamp.displayName = "Other lamp"
        handler(DDDeviceEvent(eventType: .deviceChanged, device: lamp))
        handler(DDDeviceEvent(eventType: .deviceLost, device: lamp))
        guard let address = ProcessInfo.processInfo.environment["PLAYED_ADDRESS"] else { return }
        let die = DDDevice(displayName: "Die", category: .accessorySetup, protocolType: ipp, identifier: "die")
        die.bluetoothAddress = address
        die.deviceSupports = [.bluetoothPairingLE]
        handler(DDDeviceEvent(eventType: .deviceFound, device: die))
    }
}

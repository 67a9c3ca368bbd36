// SPDX-License-Identifier: Apache-2.0
// The module DeviceDiscoveryExtension with the real daemon: this process is the app and its extension.
// Tests/API/test_extension.py has the extension as a program of its own.

import AccessorySetupKit
import CSystem
import DBusKit
import Foundation
import TestSupport
import Testing

@testable import DeviceDiscoveryExtension

@MainActor
struct ExtensionTests {
    @Test func aDeviceOfTheExtensionIsSetUp() async throws {
        let world = try World()
        let (events, log) = AsyncStream<String>.makeStream()
        Discovery.current = Discovery(
            start: { session in
                log.yield("start")
                guard let type = UTType("com.example.ipp") else { return }
                let printer = DDDevice(
                    displayName: "Printer", category: .accessorySetup, protocolType: type, identifier: "printer")
                printer.networkEndpoint = .hostPort(host: "printer.local", port: 631)
                session.report(DDDeviceEvent(eventType: .deviceFound, device: printer))
            }, stop: { _ in log.yield("stop") })
        let socket = csystem_listen(world.extensionPath, 0o600)
        try #require(socket >= 0)
        try ExtensionServer.start(on: FileDescriptor(owning: socket))
        let picker = try world.startPicker(picking: "Printer")
        let session = world.session()
        defer { session.invalidate() }
        _ = session.begin()
        try await session.showPicker()
        let endpoint = try #require(session.accessories.first?.networkEndpoint)
        #expect(endpoint.host == "printer.local" && endpoint.port == 631)
        #expect(session.accessories.first?.bluetoothIdentifier == nil)
        var told: [String] = []
        for await event in events {
            told.append(event)
            if event == "stop" { break }
        }
        #expect(told == ["start", "stop"])
        picker.end()
    }

    @Test func aDeviceIsAnItem() throws {
        let type = try #require(UTType("com.example.ipp"))
        let device = DDDevice(displayName: "Lamp", category: .accessorySetup, protocolType: type, identifier: "lamp")
        #expect(device.item.vardictValue?.keys.sorted() == ["identifier", "name"])
        device.bluetoothAddress = "C0:FF:EE:00:00:01"
        device.ssid = "Lamp-1"
        device.deviceSupports = [.bluetoothPairingLE]
        device.networkEndpoint = .service(name: "Lamp", type: "_hue._tcp", domain: "local")
        #expect(device.item.vardictValue?["endpoint"] == nil)
        device.networkEndpoint = .hostPort(host: "::1", port: 80)
        let keys = ["bluetoothIdentifier", "endpoint", "identifier", "name", "ssid", "supportedOptions"]
        #expect(device.item.vardictValue?.keys.sorted() == keys)
        #expect(UTType("") == nil && NWEndpoint.Port(rawValue: 0) == nil)
    }
}

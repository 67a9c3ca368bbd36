// SPDX-License-Identifier: Apache-2.0
// The module's form of NEHotspotConfiguration against the real daemon: the network of an accessory of the app's is
// joined and left, and nothing else is.

import AccessorySetupKit
import DBusKit
import Foundation
import TestSupport
import Testing

@Suite(.serialized) struct HotspotTests {
    private static let scenario = """
        { "wifi": { "services": ["wpa_supplicant"], "interfaces": [{ "name": "wlan0", "uplink": "Home" }], "scanTime": 0.1 },
          "accessPoints": [ { "id": "die", "ssid": "Dice-1234", "security": "wpa2", "passphrase": "sixsided1" } ] }
        """

    private func item() throws -> ASPickerDisplayItem {
        let descriptor = ASDiscoveryDescriptor()
        descriptor.ssidPrefix = "Dice-"
        return ASPickerDisplayItem(name: "Wi-Fi die", productImage: try Dice.image(), descriptor: descriptor)
    }

    private func failure(_ configuration: NEHotspotConfiguration) async -> NEHotspotConfigurationError? {
        do {
            try await NEHotspotConfigurationManager.shared.apply(configuration)
            return nil
        } catch {
            return error as? NEHotspotConfigurationError ?? .unknown
        }
    }

    @Test func aGrantedNetworkIsJoinedAndLeft() async throws {
        let world = try World(scenario: Self.scenario)
        let picker = try world.startPicker(picking: "Wi-Fi die")
        let session = world.session()
        defer { session.invalidate() }
        let events = session.begin()
        try await events.wait(for: .activated)
        #expect(await failure(NEHotspotConfiguration(ssid: "Dice-1234")) == .userUnauthorized)
        try await session.showPicker(for: [try item()])
        let accessory = try #require(session.accessories.first)
        #expect(accessory.ssid == "Dice-1234" && accessory.bluetoothIdentifier == nil && accessory.devicePath == nil)

        #expect(await failure(NEHotspotConfiguration(ssid: "Home", passphrase: "correct horse", isWEP: false)) == .userUnauthorized)
        #expect(await failure(NEHotspotConfiguration(ssid: "Dice-1234", passphrase: "wrong one", isWEP: false)) == .internal)
        #expect(await NEHotspotConfigurationManager.shared.configuredSSIDs() == [])
        let good = NEHotspotConfiguration(ssidPrefix: "Dice-", passphrase: "sixsided1", isWEP: false)
        #expect(await failure(good) == nil)
        #expect(await failure(good) == nil)
        #expect(await NEHotspotConfigurationManager.shared.configuredSSIDs() == ["Dice-1234"])
        #expect(try world.networks() == ["wlan0": "Dice-1234"])

        NEHotspotConfigurationManager.shared.removeConfiguration(forSSID: "Dice-1234")
        try await world.waitForNetworks(["wlan0": "Home"])
        #expect(await failure(good) == nil)
        session.invalidate()
        try await world.waitForNetworks(["wlan0": "Home"])
        picker.end()
    }

    @Test func anAccessorysNetworkIsJoined() async throws {
        let world = try World(scenario: Self.scenario)
        let picker = try world.startPicker(picking: "Wi-Fi die")
        let session = world.session()
        defer { session.invalidate() }
        _ = session.begin()
        try await session.showPicker(for: [try item()])
        let accessory = try #require(session.accessories.first)
        let manager = NEHotspotConfigurationManager.shared
        func failure(_ join: () async throws -> Void) async -> NEHotspotConfigurationError? {
            do {
                try await join()
                return nil
            } catch {
                return error as? NEHotspotConfigurationError ?? .unknown
            }
        }
        #expect(await failure { try await manager.joinAccessoryHotspot(accessory, passphrase: "short") } == .invalidWPAPassphrase)
        #expect(await failure { try await manager.joinAccessoryHotspot(accessory, passphrase: "wrong one") } == .internal)
        #expect(await failure { try await manager.joinAccessoryHotspotWithoutSecurity(accessory) } == .internal)
        #expect(await failure { try await manager.joinAccessoryHotspotWithoutSecurity(ASAccessory()) } == .userUnauthorized)
        let errors = Mailbox<String>()
        manager.joinAccessoryHotspot(accessory, passphrase: "sixsided1") { errors.put($0.map { "\($0)" } ?? "none") }
        #expect(try await errors.wait() == "none")
        #expect(try world.networks() == ["wlan0": "Dice-1234"])
        manager.removeConfiguration(forSSID: "Dice-1234")
        try await world.waitForNetworks(["wlan0": "Home"])
        try await manager.joinAccessoryHotspot(accessory, passphrase: "sixsided1")
        #expect(try world.networks() == ["wlan0": "Dice-1234"])
        session.invalidate()
        try await world.waitForNetworks(["wlan0": "Home"])
        // The network belongs to no session any more.
        #expect(
            await failure { try await manager.joinAccessoryHotspot(accessory, passphrase: "sixsided1") } == .userUnauthorized)
        picker.end()
    }

    @Test func whatIsWrongByItselfIsRefusedAtOnce() async {
        for (configuration, error) in [
            (NEHotspotConfiguration(ssid: ""), NEHotspotConfigurationError.invalidSSID),
            (NEHotspotConfiguration(ssid: String(repeating: "x", count: 33)), .invalidSSID),
            (NEHotspotConfiguration(ssidPrefix: String(repeating: "x", count: 33)), .invalidSSIDPrefix),
            (NEHotspotConfiguration(ssid: "Dice", passphrase: "short", isWEP: false), .invalidWPAPassphrase),
            (NEHotspotConfiguration(ssid: "Dice", passphrase: "12345", isWEP: true), .invalidWEPPassphrase),
            (NEHotspotConfiguration(ssid: "Dice"), .userUnauthorized),
        ] {
            #expect(await failure(configuration) == error)
        }
    }

    @Test func valuesAreKept() {
        let configuration = NEHotspotConfiguration(ssid: "Dice", passphrase: "sixsided1", isWEP: false)
        #expect(!configuration.joinOnce && !configuration.hidden && configuration.lifeTimeInDays == 0)
        configuration.joinOnce = true
        configuration.hidden = true
        configuration.lifeTimeInDays = 7
        #expect(configuration.joinOnce && configuration.hidden && configuration.lifeTimeInDays == 7)
        #expect(configuration.ssid == "Dice" && configuration.ssidPrefix.isEmpty)
        let error = NEHotspotConfigurationError.invalidSSID as NSError
        #expect(error.domain == NEHotspotConfigurationErrorDomain && error.code == 1)
        #expect(error.localizedDescription.contains("32 bytes"))
    }
}

extension World {
    private func control(_ member: String) throws -> [String: String] {
        let reply = try Connection(.server(bus.address), loop: MainLoop()).callAndWait(
            "org.accessorysetup.Simulator1", "/org/accessorysetup/simulator", "org.accessorysetup.Simulator1", member)
        return Dictionary(
            uniqueKeysWithValues: (reply.first?.entries ?? []).map { ($0.key.stringValue ?? "", $0.value.stringValue ?? "") })
    }

    /// The networks that the simulated interfaces are connected to.
    func networks() throws -> [String: String] { try control("Joined") }

    /// Polls, because only the service's clients receive the change.
    func waitForNetworks(_ expected: [String: String]) async throws {
        let deadline = ContinuousClock.now + .seconds(20)
        while try networks() != expected {
            guard ContinuousClock.now < deadline else { throw Overdue(description: "the networks are \(try networks())") }
            await Task.yield()
        }
    }
}

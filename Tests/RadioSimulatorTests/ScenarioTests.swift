// SPDX-License-Identifier: Apache-2.0
// Scenarios: the meaning of the language, and that a mistake is an error with its place.

import AccessoryModel
import Foundation
@testable import RadioSimulator
import TestSupport
import Testing

@Suite struct ScenarioTests {
    private func scenario(_ json: String) throws -> Scenario { try Scenario(json: Array(json.utf8)) }

    private func problem(_ json: String) -> String {
        do {
            return "read: \(try scenario(json))"
        } catch { return "\(error)" }
    }

    @Test func theScenariosOfTheTestsAreRead() throws {
        let folder = Programs.repository + "/Tests/Scenarios"
        let names = try FileManager.default.contentsOfDirectory(atPath: folder)
        #expect(names.count >= 3)
        for name in names {
            let read = try Scenario(file: "\(folder)/\(name)")
            #expect(!read.accessories.isEmpty || !read.accessPoints.isEmpty, "\(name)")
        }
        #expect(throws: ScenarioProblem.self) { try Scenario(file: folder + "/absent.json") }
    }

    @Test func nothingIsAnAdapterAndNobody() throws {
        let nothing = try scenario("{}")
        #expect(nothing.adapters == [Scenario.Adapter()] && nothing.accessories.isEmpty && nothing.events.isEmpty)
        #expect(try scenario(#"{"adapters": []}"#).adapters.isEmpty)
        #expect(try scenario(##"{"# why": 1}"##).accessories.isEmpty)
    }

    @Test func anAccessory() throws {
        let read = try scenario(
            """
            {"accessories": [{"id": "die", "address": "C0:FF:EE:00:00:01", "addressType": "public", "transport": "dual",
              "appearsAt": 1, "leavesAt": 2, "connectable": false, "input": true, "battery": 77, "mtu": 64, "crossTransportKeys": true,
              "adverts": [{"rssi": null, "interval": 0.5, "name": "Die", "serviceUUIDs": ["180F"], "serviceData": {"180F": "01"},
                "manufacturerData": {"004C": "0215"}, "txPower": -4, "scanResponse": {"name": "Die 1"}}],
              "pairing": {"mode": "pin", "pin": "7", "legacy": true, "fault": "slow", "delay": 3, "faultCount": 1, "typing": 2},
              "gatt": [{"uuid": "180F", "characteristics": [{"uuid": "2A19", "flags": ["notify"], "value": "64",
                "notify": {"interval": 2, "values": ["01", "02"]}}]}]}]}
            """)
        let die = try #require(read.accessories.first)
        #expect(die.address == BluetoothAddress("C0:FF:EE:00:00:01", kind: .public) && die.airAddress.type == .public)
        #expect(
            die.transport == .dual && die.isInput && die.battery == 77 && die.gatt.mtu == 64 && die.crossesTransports
                && !die.isConnectable)
        #expect(die.presence.appearsAt == 1 && die.presence.leavesAt == 2)
        let advert = try #require(die.adverts.first)
        #expect(advert.rssi == nil && advert.interval == 0.5 && advert.payload.name == "Die" && advert.payload.txPower == -4)
        #expect(advert.payload.serviceData == [try #require(BluetoothUUID("180F")): [1]])
        #expect(advert.payload.manufacturerData == [CompanyIdentifier(0x4C): [2, 0x15]])
        #expect(advert.scanResponse?.name == "Die 1")
        #expect(die.pairing.mode == .pin && die.pairing.pin == "7" && die.pairing.isLegacy)
        #expect(die.pairing.fault == .slow && die.pairing.delay == 3 && die.pairing.faultCount == 1 && die.pairing.typing == 2)
        let characteristic = try #require(die.gatt.services.first?.characteristics.first)
        #expect(characteristic.flags == ["notify"] && characteristic.value == [0x64])
        #expect(characteristic.notify?.interval == 2 && characteristic.notify?.values == [[1], [2]])
    }

    @Test func onlyPrivateAddressesRotate() throws {
        let die = #""id": "die", "address": "C0:FF:EE:00:00:FF", "rotates": 60"#
        #expect(try scenario("{\"accessories\": [{\(die), \"addressType\": \"rpa\"}]}").accessories.first?.airAddress.rotates == 60)
        #expect(problem("{\"accessories\": [{\(die)}]}").hasPrefix("accessories[0].rotates: "))
    }

    @Test func oneEntryIsAsManyAsItSays() throws {
        let read = try scenario(
            """
            {"accessories": [{"id": "die", "address": "C0:FF:EE:00:00:FF", "count": 3, "adverts": [{"name": "Die %d"}]}]}
            """)
        #expect(read.accessories.map(\.id) == ["die-0", "die-1", "die-2"])
        #expect(read.accessories.map(\.address.description) == ["C0:FF:EE:00:00:FF", "C0:FF:EE:00:01:00", "C0:FF:EE:00:01:01"])
        #expect(read.accessories.map { $0.adverts.first?.payload.name } == ["Die 0", "Die 1", "Die 2"])
    }

    @Test func events() throws {
        let die = #""accessories": [{"id": "die", "address": "C0:FF:EE:00:00:01"}]"#
        func event(_ json: String) throws -> Scenario.Event? { try scenario("{\(die), \"events\": [\(json)]}").events.first }
        #expect(
            try event(#"{"at": 2, "do": "vanish", "accessory": "die"}"#) == Scenario.Event(trigger: .at(2), action: .vanish("die")))
        #expect(
            try event(#"{"on": "discoveryStarted", "after": 1, "do": "serviceStopped"}"#)
                == Scenario.Event(trigger: .discoveryStarted(after: 1), action: .serviceStopped))
        #expect(
            try event(#"{"on": "pairingStarted", "accessory": "die", "do": "return"}"#)
                == Scenario.Event(trigger: .pairingStarted(accessory: "die", after: 0), action: .return("die")))
        #expect(
            try event(#"{"at": 1, "do": "adapterPowerOff"}"#) == Scenario.Event(trigger: .at(1), action: .adapterPowerOff("hci0")))
        for (mistake, says) in [
            (#"{"do": "vanish", "accessory": "die"}"#, "events[0].at: needs exactly one of at and on"),
            (#"{"at": 1, "on": "scanStarted", "do": "wifiOff"}"#, "events[0].at: needs exactly one of at and on"),
            (#"{"on": "sunrise", "do": "wifiOff"}"#, "events[0].on: sunrise: unknown"),
            (#"{"at": 1, "do": "explode"}"#, "events[0].do: explode: unknown"),
            (#"{"at": 1, "do": "vanish", "accessory": "lamp"}"#, "events: no accessory lamp"),
            (#"{"at": 1, "do": "wifiStopped"}"#, "events[0].service: is required"),
            (#"{"at": 1, "do": "interfaceRemoved", "interface": "wlan9"}"#, "events: no interface wlan9"),
            (#"{"at": 1, "do": "adapterRemoved", "adapter": "hci9"}"#, "events: no adapter hci9"),
        ] { #expect(problem("{\(die), \"events\": [\(mistake)]}") == says) }
    }

    @Test(arguments: [
        ("[]", "must be an object"), (#"{"acessories": []}"#, "acessories: unknown key"),
        (#"{"accessories": {}}"#, "accessories: must be a list"), (#"{"accessories": [7]}"#, "accessories[0]: must be an object"),
        (#"{"accessories": [{"id": "die"}]}"#, "accessories[0].id: id and address are required"),
        (#"{"accessories": [{"id": "Die", "address": "C0:FF:EE:00:00:01"}]}"#, "accessories[0].id: Die: only a–z"),
        (#"{"accessories": [{"id": "die", "address": "C0"}]}"#, "accessories[0].address: C0: not an address"),
        (
            #"{"accessories": [{"id": "die", "address": "C0:FF:EE:00:00:01"}, {"id": "die", "address": "C0:FF:EE:00:00:02"}]}"#,
            "accessories: duplicate id die"
        ), (#"{"adapters": [{"powered": "yes"}]}"#, "adapters[0].powered: must be true or false"),
    ])
    func mistakesHaveTheirPlace(json: String, says: String) { #expect(problem(json).hasPrefix(says), "\(problem(json))") }

    @Test(arguments: [
        (#""adverts": [{"interval": 0}]"#, "adverts[0].interval: 0.0: must be 0.02 to 10.0"),
        (#""adverts": [{"interval": "often"}]"#, "adverts[0].interval: must be a number"),
        (#""adverts": [{"rssi": 21}]"#, "adverts[0].rssi: 21.0: must be -127.0 to 20.0"),
        (#""adverts": [{"serviceUUIDs": ["18"]}]"#, "adverts[0].serviceUUIDs: 18: not a UUID"),
        (#""adverts": [{"serviceData": {"180F": "1"}}]"#, "adverts[0].serviceData.180F: 1: not hexadecimal bytes"),
        (#""adverts": [{"manufacturerData": {"apple": "01"}}]"#, "adverts[0].manufacturerData: apple: not a company identifier"),
        (#""adverts": [{"colour": "pink"}]"#, "adverts[0].colour: unknown key"),
        (#""pairing": {"mode": "magic"}"#, "pairing.mode: magic: must be one of justWorks, displayPasskey"),
        (#""pairing": {"passkey": 1000000}"#, "pairing.passkey: 1000000.0: must be 0.0 to 999999.0"),
        (#""gatt": [{"characteristics": []}]"#, "gatt[0].uuid: is required"),
        (
            #""gatt": [{"uuid": "180F", "characteristics": [{"uuid": "2A19", "value": "x"}]}]"#,
            "gatt[0].characteristics[0].value: x"
        ),
    ])
    func mistakesInAnAccessoryHaveTheirPlace(json: String, says: String) {
        let found = problem(#"{"accessories": [{"id": "die", "address": "C0:FF:EE:00:00:01", \#(json)}]}"#)
        #expect(found.hasPrefix("accessories[0].\(says)"), "\(found)")
    }

    @Test func whatIsNoJSON() { #expect(problem("{").hasPrefix("not JSON: ")) }
}

// SPDX-License-Identifier: Apache-2.0
// Services and values over a link: discovering, reading, writing, notifications, and their end when the link breaks or
// the grant ends in the middle.

import AccessorySetupKit
import CoreBluetooth
import DBusKit
import Foundation
import TestSupport
import Testing

@Suite(.serialized) struct AttributeTests {
    private static func connected() async throws -> App {
        let app = try await App(try World())
        try await app.connect()
        return app
    }

    private static func discovered() async throws -> App {
        let app = try await connected()
        try await app.discover()
        return app
    }

    // MARK: Discovering

    @Test func whatIsAskedForIsDiscovered() async throws {
        let app = try await Self.connected()
        #expect(app.peripheral.services == nil)
        app.peripheral.discoverServices([CBUUID(string: "180F"), CBUUID(string: "1812")])
        #expect(try await app.events.wait("services") == "services 180F")
        let battery = try #require(app.peripheral.services?.first)
        #expect(battery.isPrimary && battery.peripheral === app.peripheral && battery.characteristics == nil)
        app.peripheral.discoverServices(nil)
        // In the order of their handles, and those that are known are the same objects.
        #expect(try await app.events.wait("services", count: 2) == "services \(Gadget.service),180F")
        #expect(app.peripheral.services?.last === battery)
        let service = try #require(app.peripheral.services?.first)
        app.peripheral.discoverCharacteristics([CBUUID(string: "FF41")], for: service)
        #expect(try await app.events.wait("characteristics") == "characteristics \(Gadget.service) FF41")
        app.peripheral.discoverCharacteristics(nil, for: service)
        let all = try await app.events.wait("characteristics", count: 2)
        #expect(all == "characteristics \(Gadget.service) FF3F,FF40,FF41,FF42")
        let dice = try app.characteristic("FF3F")
        #expect(
            dice.service === service && dice.properties == [.read, .notify] && dice.value == nil && !dice.isNotifying)
        #expect(try app.characteristic("FF40").properties == [.read, .write, .writeWithoutResponse])
        #expect(try app.characteristic("FF42").properties == [.read, .indicate])
        #expect(dice.descriptors == nil)
        app.peripheral.discoverDescriptors(for: dice)
        app.peripheral.discoverIncludedServices(nil, for: service)
        #expect(try await app.events.wait("included") == "included \(Gadget.service) 1")
        #expect(service.includedServices?.first === battery)
        #expect(dice.descriptors?.map(\.uuid.uuidString) == ["2901", "2904", "2902"])
    }

    @Test func anAccessoryIsDiscoveredAgainOverTheNextLink() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        app.manager.cancelPeripheralConnection(app.peripheral)
        try await app.events.wait("disconnected")
        #expect(app.peripheral.services == nil)
        try await app.connect(count: 2)
        try await app.discover(count: 2)
        #expect(try app.characteristic("FF3F") === dice)
    }

    @Test func aGrantThatOnlyReadsTakesNoWrite() async throws {
        let app = try await App(try World(), access: .read)
        try await app.connect()
        try await app.discover()
        let value = try app.characteristic("FF40")
        app.peripheral.writeValue(Data([7]), for: value, type: .withResponse)
        #expect(try await app.events.wait("written") == "written FF40 CBATTError.writeNotPermitted")
        app.peripheral.readValue(for: value)
        #expect(try await app.events.wait("value") == "value FF40 01")
        app.peripheral.setNotifyValue(true, for: try app.characteristic("FF3F"))
        #expect(try await app.events.wait("notifying") == "notifying FF3F true")
    }

    @Test func anotherDatabaseIsTold() async throws {
        let app = try await Self.discovered()
        let old = try app.characteristic("FF40")
        try app.world.play("servicesChanged", "pink")
        #expect(try await app.events.wait("modified") == "modified \(Gadget.service),180F")
        #expect(app.peripheral.services?.isEmpty == true)
        try await app.discover(count: 2)
        let new = try app.characteristic("FF40")
        #expect(new !== old)
        // Ignored, and logged.
        app.peripheral.readValue(for: old)
        app.peripheral.readValue(for: new)
        #expect(try await app.events.wait("value") == "value FF40 01")
        app.peripheral.readValue(for: new)
        try await app.events.wait("value", count: 2)
        #expect(app.events.lines.filter { $0.hasPrefix("value") }.count == 2)
    }

    /// bluetoothd may call the services resolved before they are objects (its issue 1489).
    @Test func servicesThatAreNoObjectsYetAreWaitedFor() async throws {
        let scenario = """
            { "accessories": [ { "id": "pink", "address": "C0:FF:EE:00:00:01", "lateServices": 0.6,
              "adverts": [ { "name": "Dice", "serviceUUIDs": ["\(Gadget.service)"] } ],
              "gatt": [ { "uuid": "\(Gadget.service)", "characteristics": [ { "uuid": "FF3F", "flags": ["read"], "value": "01" } ] },
                        { "uuid": "FF50", "characteristics": [] } ] } ] }
            """
        let app = try await App(try World(scenario: scenario))
        app.manager.scanForPeripherals(withServices: nil)
        try await app.events.wait("discovered")
        try await app.connect()
        app.peripheral.discoverServices(nil)
        #expect(try await app.events.wait("services") == "services \(Gadget.service),FF50")
        app.peripheral.discoverServices(nil)
        try await app.events.wait("services", count: 2)
        #expect(!app.events.lines.contains { $0.hasPrefix("modified") })
    }

    @Test func servicesThatGoWithTheLinkAreNoOtherDatabase() async throws {
        let app = try await Self.discovered()
        try app.world.play("vanish", "pink")
        try await app.events.wait("disconnected")
        try app.world.play("return", "pink")
        try await app.connect(count: 2)
        #expect(!app.events.lines.contains { $0.hasPrefix("modified") })
    }

    @Test func descriptorsAreReadAndWritten() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        app.peripheral.discoverDescriptors(for: dice)
        try await app.events.wait("descriptors")
        let name = try #require(dice.descriptors?.first)
        #expect(name.characteristic === dice && name.value == nil)
        app.peripheral.readValue(for: name)
        #expect(try await app.events.wait("descriptor") == "descriptor 2901 Roll")
        app.peripheral.writeValue(Data("Dice".utf8), for: name)
        app.peripheral.readValue(for: name)
        #expect(try await app.events.wait("descriptor", count: 2) == "descriptor 2901 Dice")
        #expect(app.events.lines.suffix(2) == ["described 2901", "descriptor 2901 Dice"])
        app.peripheral.readValue(for: try #require(dice.descriptors?[1]))
        #expect(try await app.events.wait("descriptor 2904") == "descriptor 2904 2 bytes")
    }

    // MARK: Values

    @Test func valuesAreReadAndWritten() async throws {
        let app = try await Self.discovered()
        let value = try app.characteristic("FF40")
        app.peripheral.readValue(for: value)
        #expect(try await app.events.wait("value") == "value FF40 01")
        app.peripheral.writeValue(Data([0xBE, 0xEF]), for: value, type: .withResponse)
        app.peripheral.readValue(for: value)
        #expect(try await app.events.wait("value", count: 2) == "value FF40 BEEF")
        #expect(app.events.lines.suffix(2) == ["written FF40", "value FF40 BEEF"])
        #expect(value.value == Data([0xBE, 0xEF]))
        // One with 512 bytes, the most that a value has.
        #expect(app.peripheral.maximumWriteValueLength(for: .withResponse) == 512)
        app.peripheral.writeValue(Data(repeating: 7, count: 512), for: value, type: .withResponse)
        try await app.events.wait("written FF40", count: 2)
    }

    @Test func whatTheAccessoryRefusesIsAnError() async throws {
        let app = try await Self.discovered()
        app.peripheral.readValue(for: try app.characteristic("FF41"))
        #expect(try await app.events.wait("value FF41") == "value FF41  CBATTError.readNotPermitted")
        app.peripheral.writeValue(Data([1]), for: try app.characteristic("FF3F"), type: .withResponse)
        #expect(try await app.events.wait("written FF3F") == "written FF3F CBATTError.writeNotPermitted")
        app.peripheral.setNotifyValue(true, for: try app.characteristic("FF41"))
        #expect(try await app.events.wait("notifying FF41") == "notifying FF41 false CBATTError.requestNotSupported")
        app.peripheral.readValue(for: try app.characteristic("FF42"))
        // It is not paired.
        #expect(try await app.events.wait("value FF42") == "value FF42  CBATTError.insufficientAuthentication")
    }

    @Test func aStrangersAttributeIsIgnored() async throws {
        let app = try await Self.discovered()
        let own = CBMutableCharacteristic(
            type: CBUUID(string: "FF3F"), properties: .read, value: nil, permissions: .readable)
        app.peripheral.readValue(for: own)
        app.peripheral.writeValue(Data([1]), for: own, type: .withoutResponse)
        let count = app.events.lines.count
        app.peripheral.readRSSI()
        #expect(try await app.events.wait("rssi") == "rssi 127 CBError.operationNotSupported")
        #expect(app.events.lines.count == count + 1)
    }

    @Test func manyRequestsAreAnsweredInOrder() async throws {
        let app = try await Self.discovered()
        let value = try app.characteristic("FF40")
        for number in 0..<100 {
            app.peripheral.writeValue(Data([UInt8(number)]), for: value, type: .withResponse)
            app.peripheral.readValue(for: value)
        }
        try await app.events.wait("value", count: 100)
        let wanted = (0..<100).flatMap { ["written FF40", "value FF40 " + String(format: "%02X", $0)] }
        #expect(app.events.lines.suffix(200) == wanted[...])
    }

    // MARK: Writing without response

    @Test func writesWithoutResponseArriveInOrder() async throws {
        let app = try await Self.discovered()
        let value = try app.characteristic("FF40")
        #expect(app.peripheral.canSendWriteWithoutResponse)
        #expect(app.peripheral.maximumWriteValueLength(for: .withoutResponse) == 514)
        var sent = 0
        while sent < 200 {
            if app.peripheral.canSendWriteWithoutResponse {
                app.peripheral.writeValue(Data([UInt8(sent)]), for: value, type: .withoutResponse)
                sent += 1
            } else {
                let count = app.events.lines.filter { $0 == "ready true" }.count
                try await app.events.wait("ready true", count: count + 1)
            }
        }
        #expect(app.events.lines.contains("ready true"))
        #expect(app.peripheral.maximumWriteValueLength(for: .withoutResponse) == 514)
        // The last one is the value: a write with response goes after them, and would be refused while the descriptor
        // is out.
        app.peripheral.readValue(for: value)
        app.peripheral.writeValue(Data([0xEE]), for: value, type: .withResponse)
        app.peripheral.readValue(for: value)
        try await app.events.wait("value", count: 2)
        #expect(app.events.lines.last == "value FF40 EE")
        #expect(!app.events.lines.contains { $0.hasPrefix("written FF40 ") })
    }

    @Test func aWriteWithoutResponseIsNotAnswered() async throws {
        let app = try await Self.discovered()
        let value = try app.characteristic("FF40")
        app.peripheral.writeValue(Data([0x42]), for: value, type: .withoutResponse)
        app.peripheral.readValue(for: value)
        #expect(try await app.events.wait("value") == "value FF40 42")
        #expect(!app.events.lines.contains { $0.hasPrefix("written") })
    }

    @Test func whatIsReadWasWrittenBefore() async throws {
        let app = try await Self.discovered()
        let value = try app.characteristic("FF40")
        for number in 0..<30 {
            for byte in 0..<8 {
                app.peripheral.writeValue(Data([UInt8(number * 8 + byte)]), for: value, type: .withoutResponse)
            }
            app.peripheral.readValue(for: value)
            try await app.events.wait("value", count: number + 1)
        }
        let values = app.events.lines.filter { $0.hasPrefix("value") }
        #expect(values == (0..<30).map { "value FF40 " + String(format: "%02X", $0 * 8 + 7) })
    }

    @Test func writesOfEachKindKeepTheirOrder() async throws {
        let app = try await Self.discovered()
        let value = try app.characteristic("FF40")
        app.peripheral.writeValue(Data([1]), for: value, type: .withoutResponse)
        app.peripheral.writeValue(Data(), for: value, type: .withoutResponse)
        app.peripheral.writeValue(Data([3]), for: value, type: .withResponse)
        try await app.events.wait("written FF40")
        app.peripheral.readValue(for: value)
        #expect(try await app.events.wait("value") == "value FF40 03")
    }

    // MARK: Notifications

    @Test func valuesAreToldInOrderAndNoneIsLost() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        app.peripheral.setNotifyValue(true, for: dice)
        try await app.events.wait("value", count: 60)
        let values = app.events.lines.filter { $0.hasPrefix("value") }.prefix(60)
        #expect(Array(values) == (0..<60).map { "value FF3F " + String(format: "%02X", $0 % 10) })
        #expect(app.events.lines[app.events.lines.firstIndex { $0.hasPrefix("value") }! - 1] == "notifying FF3F true")
        app.peripheral.setNotifyValue(false, for: dice)
        try await app.events.wait("notifying FF3F false")
        #expect(!dice.isNotifying)
        app.peripheral.readValue(for: dice)
        try await app.events.wait("value", count: app.events.lines.filter { $0.hasPrefix("value") }.count + 1)
        // Only the one that was read came after.
        let lines = app.events.lines
        #expect(lines.count - lines.firstIndex(of: "notifying FF3F false")! == 2)
    }

    @Test func notificationsCanBeAskedForAgain() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        app.peripheral.setNotifyValue(true, for: dice)
        app.peripheral.setNotifyValue(true, for: dice)
        app.peripheral.setNotifyValue(false, for: dice)
        app.peripheral.setNotifyValue(true, for: dice)
        try await app.events.wait("notifying FF3F true", count: 3)
        try await app.events.wait("value")
        app.peripheral.setNotifyValue(true, for: try app.characteristic("FF42"))
        try await app.events.wait("notifying FF42 true")
    }

    // MARK: Endings

    /// Apps clean up like this: they stop notifications and end the link, without waiting.
    @Test func whatIsStoppedBeforeTheAppLetsGoHasStopped() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        app.peripheral.setNotifyValue(true, for: dice)
        try await app.events.wait("notifying FF3F true")
        app.peripheral.readValue(for: try app.characteristic("FF40"))
        app.peripheral.setNotifyValue(false, for: dice)
        app.manager.cancelPeripheralConnection(app.peripheral)
        try await app.events.wait("disconnected")
        let notifying = app.events.lines.filter { $0.hasPrefix("notifying") }
        #expect(notifying == ["notifying FF3F true", "notifying FF3F false"])
    }

    @Test func everyRequestIsAnsweredWhenTheLinkBreaks() async throws {
        let app = try await Self.discovered()
        let value = try app.characteristic("FF40")
        let service = try #require(app.peripheral.services?.first)
        app.peripheral.setNotifyValue(true, for: try app.characteristic("FF3F"))
        try await app.events.wait("notifying")
        let before = app.events.lines.filter { !$0.hasPrefix("value FF3F") }.count
        for _ in 0..<80 {
            app.peripheral.readValue(for: value)
            app.peripheral.writeValue(Data([1]), for: value, type: .withResponse)
            app.peripheral.discoverServices(nil)
            app.peripheral.discoverCharacteristics(nil, for: service)
            app.peripheral.discoverDescriptors(for: value)
            app.peripheral.discoverIncludedServices(nil, for: service)
            app.peripheral.setNotifyValue(true, for: value)
            app.peripheral.writeValue(Data([1]), for: value, type: .withoutResponse)
        }
        try app.world.play("vanish", "pink")
        // Each of the seven requests that have an answer, and the end. (RareMomentTests checks the waiting requests.)
        let lines = try await app.events.wait("\(80 * 7) answers and the end") { lines in
            let found = lines.filter { !$0.hasPrefix("value FF3F") && !$0.hasPrefix("ready") }
            return found.count == before + 80 * 7 + 1 ? found : nil
        }
        #expect(lines.filter { $0 == "disconnected disconnected services=-1 CBError.connectionTimeout" }.count == 1)
        #expect(!app.peripheral.canSendWriteWithoutResponse && value.descriptors == nil)
        #expect(try !app.characteristicsAreKnown)
    }

    @Test func aGrantThatEndsEndsNotifications() async throws {
        let app = try await Self.discovered()
        let dice = try app.characteristic("FF3F")
        app.peripheral.setNotifyValue(true, for: dice)
        try await app.events.wait("value", count: 5)
        try await app.world.revoke(app.identifier)
        try await app.events.wait("disconnected")
        try await app.events.wait("state poweredOff")
        #expect(app.events.lines.last == "state poweredOff" && !dice.isNotifying)
        #expect(app.events.lines.filter { $0.hasPrefix("disconnected") }.count == 1)
    }

    /// Each request is answered with the end of the link, whatever the view has answered meanwhile.
    @Test func aGrantThatEndsEndsRequests() async throws {
        let app = try await Self.discovered()
        let value = try app.characteristic("FF40")
        for _ in 0..<200 { app.peripheral.readValue(for: value) }
        try await app.events.wait("value FF40")
        try await app.world.revoke(app.identifier)
        let lines = try await app.events.wait("200 answers and the end") { lines in
            let found = lines.filter { $0.hasPrefix("value FF40") || $0.hasPrefix("disconnected") }
            return found.count == 201 ? found : nil
        }
        let errors = Set(lines.compactMap { $0.split(separator: " ").last.map(String.init) }.filter { $0.contains("Error") })
        #expect(errors == ["CBError.peripheralDisconnected"])
    }

    @Test func tooManyRequestsAreRefused() async throws {
        let app = try await Self.discovered()
        let value = try app.characteristic("FF40")
        for _ in 0..<3000 { app.peripheral.readValue(for: value) }
        try await app.events.wait("value", count: 3000)
        #expect(
            app.events.lines.contains("value FF40  CBError.outOfSpace")
                || app.events.lines.contains { $0.hasSuffix("outOfSpace") })
    }

    @Test func everythingIsToldOnTheQueue() async throws {
        let app = try await Self.discovered()
        app.peripheral.setNotifyValue(true, for: try app.characteristic("FF3F"))
        try await app.events.wait("value", count: 10)
        app.manager.cancelPeripheralConnection(app.peripheral)
        try await app.events.wait("disconnected")
        #expect(!app.events.lines.contains { $0.contains("QUEUE") })
    }

    @Test func theMainQueueIsTheDefault() async throws {
        let world = try World()
        let identifier = try await world.grant()
        let recorder = Recorder(on: .main)
        let manager = CBCentralManager(delegate: recorder, queue: nil, options: nil, bus: world.view)
        #expect(try await recorder.events.wait("state") == "state poweredOn")
        #expect(manager.retrievePeripherals(withIdentifiers: [identifier]).count == 1)
    }
}

extension App {
    fileprivate var characteristicsAreKnown: Bool {
        get throws { (peripheral.services ?? []).contains { $0.characteristics != nil } }
    }
}

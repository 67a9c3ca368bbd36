// SPDX-License-Identifier: Apache-2.0
// Every request as it leaves the module, and every answer as it comes back, with a fake daemon at the other end.

import AccessoryBus
import AccessoryModel
import AccessorySetupKit
import DBusKit
import Foundation
import TestSupport
import Testing

/// A fake daemon and an active session.
private struct Stage {
    let bus: PrivateBus
    let daemon: FakeDaemon
    let session: ASAccessorySession
    let events: Events

    init(accessories: [ObjectPath: [String: DBusValue]] = [:]) async throws {
        bus = try PrivateBus()
        daemon = try await FakeDaemon(on: bus, accessories: accessories)
        session = ASAccessorySession(bus: bus.address)
        events = session.begin()
        try await events.wait(for: .activated)
    }

    func call(_ member: String) async throws -> Call {
        try await daemon.calls.wait("call of \(member)") { calls in calls.first { $0.member == member } }
    }

    func end() { session.invalidate() }
}

@Suite struct RequestTests {
    @Test func anItemTravelsWithAllItsTraits() async throws {
        let stage = try await Stage()
        defer { stage.end() }
        let descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothCompanyIdentifier = ASBluetoothCompanyIdentifier(0xFFFF)
        descriptor.bluetoothManufacturerDataBlob = Data([1, 2])
        descriptor.bluetoothManufacturerDataMask = Data([255, 15])
        descriptor.bluetoothServiceUUID = CBUUID(string: "180f")
        descriptor.bluetoothServiceDataBlob = Data([3])
        descriptor.bluetoothServiceDataMask = Data([3])
        descriptor.bluetoothNameSubstring = "Dice"
        descriptor.bluetoothNameSubstringCompareOptions = [.caseInsensitive, .anchored, .regularExpression]
        descriptor.bluetoothRange = .immediate
        descriptor.access = .hear
        descriptor.maxDevices = 20
        descriptor.characteristics = [
            .init(service: "180F", characteristic: "2A19", instance: 2, uses: [.read, .listen]),
            .init(service: "none", characteristic: "2A19", uses: .read),
        ]
        descriptor.ssid = "Dıce"
        descriptor.ssidPrefix = "D"
        descriptor.supportedOptions = [.bluetoothPairingLE, .bluetoothTransportBridging, .bluetoothHID]
        descriptor.wifiAwareServiceName = "_dice._tcp"
        descriptor.wifiAwareServiceRole = .publisher
        descriptor.wifiAwareModelNameMatch = ASPropertyCompareString(string: "D6", compareOptions: [.literal, .numeric])
        descriptor.wifiAwareVendorNameMatch = ASPropertyCompareString(string: "Example", compareOptions: [])
        let item = ASPickerDisplayItem(name: "Dice", productImage: try Dice.image(), descriptor: descriptor)
        item.setupOptions = [.rename, .confirmAuthorization, .finishInApp, .pickSeveral]
        item.renameOptions = .ssid
        item.accessEnd = .after(seconds: 28_800)
        item.accessEndChoices = [.at(hour: 18), .unused(days: 30), .never]
        let settings = ASPickerDisplaySettings.default
        settings.discoveryTimeout = .unbounded
        settings.options.insert(.filterDiscoveryResults)
        stage.session.pickerDisplaySettings = settings
        stage.session.showPicker(for: [item]) { _ in }
        // Read when asked for, not later.
        item.setupOptions = []
        descriptor.ssid = nil

        let call = try await stage.call("ShowPicker")
        let values = try #require(call.arguments[0].arrayValue?.first?.vardictValue)
        #expect(Set(values.keys) == ["name", "productImage", "descriptor", "setupOptions", "renameOptions", "end", "endChoices"])
        #expect(values["end"] == .string("8h") && values["endChoices"] == .strings(["18:00", "idle 30d", "none"]))
        #expect(values["name"] == .string("Dice"))
        #expect(values["setupOptions"] == .strings(["rename", "confirmAuthorization", "finishInApp", "pickSeveral"]))
        #expect(values["renameOptions"] == .strings(["ssid"]))
        let image = try #require(values["productImage"]?.fileDescriptorValue)
        #expect(image.readFile(limit: 1 << 20) == [UInt8](Dice.png))
        #expect(
            values["descriptor"]?.vardictValue == [
                "bluetoothCompanyIdentifier": .uint16(0xFFFF), "bluetoothManufacturerDataBlob": .bytes([1, 2]),
                "bluetoothManufacturerDataMask": .bytes([255, 15]), "bluetoothServiceUUID": .string("180F"),
                "bluetoothServiceDataBlob": .bytes([3]), "bluetoothServiceDataMask": .bytes([3]),
                "bluetoothNameSubstring": .string("Dice"),
                "bluetoothNameSubstringCompareOptions": .strings(["caseInsensitive", "anchored", "regularExpression"]),
                "bluetoothRange": .string("immediate"), "access": .string("hear"), "maxDevices": .uint32(20),
                "characteristics": .array(
                    of: "(ssuas)",
                    [
                        .structure([
                            .string("0000180f-0000-1000-8000-00805f9b34fb"), .string("00002a19-0000-1000-8000-00805f9b34fb"),
                            .uint32(2), .strings(["read", "listen"]),
                        ])
                    ]),
                "ssid": .bytes(Array("Dıce".utf8)), "ssidPrefix": .bytes(Array("D".utf8)),
                "supportedOptions": .strings(["bluetoothPairingLE", "bluetoothTransportBridging", "bluetoothHID"]),
                "wifiAwareServiceName": .string("_dice._tcp"), "wifiAwareServiceRole": .string("publisher"),
                "wifiAwareModelNameMatch": .structure([.string("D6"), .strings(["literal", "numeric"])]),
                "wifiAwareVendorNameMatch": .structure([.string("Example"), .strings([])]),
            ])
        #expect(call.values(1) == ["discoveryTimeout": .double(.infinity), "options": .strings(["filterDiscoveryResults"])])
        // A key of the daemon without a property here is missing above.
        let migrations: Set = ["peripheralIdentifier", "hotspotSSID", "wifiAwarePairedDeviceID"]
        #expect(Set(DescriptorKeys.table.rows.map(\.name)) == values["descriptor"]?.vardictValue.map { Set($0.keys) })
        #expect(Set(ItemKeys.table.rows.map(\.name)) == migrations.union(values.keys))
        // Linux only, and not for apps with Apple's interface.
        #expect(Set(PickerSettings.table.rows.map(\.name)) == Set(call.values(1).keys).union(["waitForPicker"]))
    }

    @Test func whatIsNotSetDoesNotTravel() async throws {
        let stage = try await Stage()
        defer { stage.end() }
        let item = ASPickerDisplayItem(name: "Dice", productImage: try Dice.image(), descriptor: ASDiscoveryDescriptor())
        stage.session.showPicker(for: [item]) { _ in }
        let call = try await stage.call("ShowPicker")
        let values = try #require(call.arguments[0].arrayValue?.first?.vardictValue)
        #expect(Set(values.keys) == ["name", "productImage", "descriptor"])
        #expect(values["descriptor"]?.vardictValue == [:])
        #expect(call.values(1) == [:])
    }

    @Test func aMigrationItemTravelsWithItsIdentifiers() async throws {
        let stage = try await Stage()
        defer { stage.end() }
        let identifier = UUID()
        let item = ASMigrationDisplayItem(name: "Dice", productImage: try Dice.image(), descriptor: ASDiscoveryDescriptor())
        item.peripheralIdentifier = identifier
        item.hotspotSSID = "Dice 1"
        item.wifiAwarePairedDeviceID = 7
        stage.session.showPicker(for: [item]) { _ in }
        let values = try #require(try await stage.call("ShowPicker").arguments[0].arrayValue?.first?.vardictValue)
        #expect(values["peripheralIdentifier"] == .string(identifier.uuidString))
        #expect(values["hotspotSSID"] == .bytes(Array("Dice 1".utf8)))
        #expect(values["wifiAwarePairedDeviceID"] == .uint64(7))
    }

    /// A bus takes 16 descriptors in a message.
    @Test func manyImagesFitIntoOneRequest() async throws {
        let stage = try await Stage()
        defer { stage.end() }
        let items = try (0..<40).map { try Dice.item("Dice \($0)", Dice.pink) }
        stage.session.showPicker(for: items) { _ in }
        let values = try await stage.call("ShowPicker").arguments[0].arrayValue?.compactMap(\.vardictValue) ?? []
        #expect(values.count == 40)
        #expect(values.count { $0["productImage"]?.fileDescriptorValue != nil } == 16)
        #expect(values.count { $0["productImage"]?.bytesValue == [UInt8](Dice.png) } == 24)
    }

    @Test func requestsAboutAccessoriesTravel() async throws {
        let stage = try await Stage(accessories: [
            FakeDaemon.accessory: FakeDaemon.properties("Dice", state: "awaitingAuthorization")
        ])
        defer { stage.end() }
        let accessory = try #require(stage.session.accessories.first)
        #expect(accessory.state == .awaitingAuthorization)
        let object = DBusValue.objectPath(FakeDaemon.accessory)
        let settings = ASAccessorySettings.default
        settings.ssid = "Dice"
        settings.bluetoothTransportBridgingIdentifier = Data([1, 2, 3, 4, 5, 6])
        try await stage.session.finishAuthorization(for: accessory, settings: settings)
        try await stage.session.finishAuthorization(for: accessory, settings: .default)
        try await stage.session.failAuthorization(for: accessory)
        try await stage.session.removeAccessory(accessory)
        try await stage.session.finishPickerDiscovery()
        try await stage.session.observePresence(of: accessory)
        try await stage.session.observePresence(of: accessory, false)
        let calls = stage.daemon.calls.elements.suffix(7)
        #expect(
            calls.map(\.member) == [
                "FinishAuthorization", "FinishAuthorization", "FailAuthorization", "RemoveAccessory", "FinishPickerDiscovery",
                "ObservePresence", "ObservePresence",
            ])
        #expect(
            calls.map(\.arguments) == [
                [
                    object,
                    .vardict([
                        "ssid": .bytes(Array("Dice".utf8)), "bluetoothTransportBridgingIdentifier": .bytes([1, 2, 3, 4, 5, 6]),
                    ]),
                ],
                [object, .vardict([:])], [object], [object], [], [object, .boolean(true)], [object, .boolean(false)],
            ])
    }

    @Test func whatShowsAPickerIsDoneWhenThePickerIs() async throws {
        let stage = try await Stage(accessories: [FakeDaemon.accessory: FakeDaemon.properties("Dice")])
        defer { stage.end() }
        let accessory = try #require(stage.session.accessories.first)
        let descriptor = ASDiscoveryDescriptor()
        descriptor.wifiAwareServiceName = "_dice._tcp"
        let item = try Dice.item("Dice", Dice.pink)
        let requests: [(member: String, start: (Answers) -> Void)] = [
            ("ShowPicker", { answers in stage.session.showPicker(for: [item]) { answers.put(Answer($0)) } }),
            (
                "RenameAccessory",
                { answers in stage.session.renameAccessory(accessory, options: .ssid) { answers.put(Answer($0)) } }
            ),
            (
                "UpdateAuthorization",
                { answers in
                    stage.session.updateAuthorization(for: accessory, descriptor: descriptor) { answers.put(Answer($0)) }
                }
            ),
        ]
        for (number, request) in requests.enumerated() {
            for (round, error) in [nil, "UserCancelled"].enumerated() {
                let count = number * 2 + round + 1
                let picker = try #require(ObjectPath("/org/accessorysetup1/picker/\(count)"))
                stage.daemon.answer(request.member, with: .values([.objectPath(picker)]))
                let answers = Answers()
                request.start(answers)
                _ = try await stage.call(request.member)
                stage.daemon.emit("pickerDidPresent", ["picker": .objectPath(picker)])
                try await stage.events.wait(for: .pickerDidPresent, count: count)
                // Another app's picker does not count.
                stage.daemon.emit("pickerDidDismiss", ["picker": .objectPath("/org/accessorysetup1/picker/99")])
                #expect(answers.elements.isEmpty)
                var details: [String: DBusValue] = ["picker": .objectPath(picker)]
                details["error"] = error.map { .string("org.accessorysetup1.Error." + $0) }
                details["message"] = error.map { _ in .string("enough") }
                stage.daemon.emit("pickerDidDismiss", details)
                let answer = try await answers.wait()
                #expect(answer.code == (error == nil ? .success : .userCancelled), "\(request.member)")
                #expect(answer.error?.localizedDescription == (error == nil ? nil : "enough"))
            }
        }
        let renames = stage.daemon.calls.elements.filter { $0.member == "RenameAccessory" }
        #expect(renames[0].arguments == [.objectPath(FakeDaemon.accessory), .vardict(["renameOptions": .strings(["ssid"])])])
        #expect(
            try await stage.call("UpdateAuthorization").values(1).keys.sorted() == ["wifiAwareServiceName", "wifiAwareServiceRole"])
    }

    @Test func discoveredAccessoriesComeWithTheirAdvertsAndGoIntoThePicker() async throws {
        let stage = try await Stage()
        defer { stage.end() }
        stage.daemon.emit(
            "accessoryDiscovered",
            [
                "identifier": .string("offer-7"), "rssi": .int16(-48),
                "advertisement": .vardict([
                    "localName": .string("Dice 4F"), "serviceUUIDs": .strings([Dice.pink.lowercased(), "180f"]),
                    "serviceData": .dictionary(key: "s", value: "ay", [.init(.string("fe00"), .bytes([1, 2]))]),
                    "manufacturerData": .dictionary(
                        key: "q", value: "v",
                        [.init(.uint16(0xFFFF), .variant(.bytes([9]))), .init(.uint16(0x0259), .variant(.bytes([171])))]),
                    "txPower": .int16(4), "colour": .string("pink"),
                ]),
            ])
        let event = try await stage.events.wait(for: .accessoryDiscovered)
        let accessory = try #require(event.accessory as? ASDiscoveredAccessory)
        #expect(accessory.bluetoothRSSI == -48 && accessory.displayName == "Dice 4F" && accessory.state == .unauthorized)
        let data = try #require(accessory.bluetoothAdvertisementData)
        #expect(data.count == 5)
        #expect(data[CBAdvertisementDataLocalNameKey] as? String == "Dice 4F")
        #expect(data[CBAdvertisementDataServiceUUIDsKey] as? [CBUUID] == [CBUUID(string: Dice.pink), CBUUID(string: "180F")])
        #expect(data[CBAdvertisementDataServiceDataKey] as? [CBUUID: Data] == [CBUUID(string: "FE00"): Data([1, 2])])
        #expect(data[CBAdvertisementDataManufacturerDataKey] as? Data == Data([0x59, 0x02, 171]))
        #expect((data[CBAdvertisementDataTxPowerLevelKey] as? NSNumber)?.intValue == 4)
        // It is not the app's yet.
        #expect(stage.session.accessories.isEmpty)

        let item = ASDiscoveredDisplayItem(name: "Pink Dice", productImage: try Dice.image(), accessory: accessory)
        try await stage.session.updatePicker(showing: [item])
        let values = try #require(try await stage.call("UpdatePicker").arguments[0].arrayValue?.first?.vardictValue)
        #expect(Set(values.keys) == ["name", "productImage", "identifier"])
        #expect(values["identifier"] == .string("offer-7") && values["name"] == .string("Pink Dice"))
    }

    @Test(arguments: [
        ("org.accessorysetup1.Error.Unknown", ASError.Code.unknown),
        ("org.accessorysetup1.Error.ActivationFailed", .activationFailed),
        ("org.accessorysetup1.Error.ConnectionFailed", .connectionFailed),
        ("org.accessorysetup1.Error.DiscoveryTimeout", .discoveryTimeout),
        ("org.accessorysetup1.Error.ExtensionNotFound", .extensionNotFound),
        ("org.accessorysetup1.Error.Invalidated", .invalidated), ("org.accessorysetup1.Error.InvalidRequest", .invalidRequest),
        ("org.accessorysetup1.Error.PickerAlreadyActive", .pickerAlreadyActive),
        ("org.accessorysetup1.Error.PickerRestricted", .pickerRestricted),
        ("org.accessorysetup1.Error.UserCancelled", .userCancelled), ("org.accessorysetup1.Error.UserRestricted", .userRestricted),
        ("org.accessorysetup1.Error.OfTomorrow", .unknown), ("com.example.Strange", .unknown),
        ("org.freedesktop.DBus.Error.NotSupported", .invalidRequest), ("org.freedesktop.DBus.Error.UnknownObject", .invalidRequest),
        ("org.freedesktop.DBus.Error.NoReply", .connectionFailed), ("org.freedesktop.DBus.Error.OfTomorrow", .unknown),
    ])
    func everyErrorHasItsCode(name: String, code expected: ASError.Code) async throws {
        let stage = try await Stage()
        defer { stage.end() }
        stage.daemon.answer("ShowPicker", with: .failure(name))
        do {
            try await stage.session.showPicker(for: [try Dice.item("Dice", Dice.pink)])
            Issue.record("no error")
        } catch {
            #expect(expected ~= error)
            #expect(error.localizedDescription == "because")
            #expect((error as NSError).domain == ASErrorDomain && (error as NSError).code == expected.rawValue)
        }
    }
}

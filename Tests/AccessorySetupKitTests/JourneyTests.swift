// SPDX-License-Identifier: Apache-2.0
// The longer journeys against the real daemon: a picker that the app filters, names, the app's word for a set-up,
// migration.

import AccessorySetupKit
import DBusKit
import Foundation
import TestSupport
import Testing

@Suite(.serialized) struct JourneyTests {
    private static func begin(_ world: World) async throws -> (session: ASAccessorySession, events: Events) {
        let session = world.session()
        let events = session.begin()
        try await events.wait(for: .activated)
        return (session, events)
    }

    @Test func theAppChoosesWhatThePickerShows() async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "More Specific Product Name")
        let (session, events) = try await Self.begin(world)
        let settings = ASPickerDisplaySettings.default
        settings.discoveryTimeout = .unbounded
        settings.options.insert(.filterDiscoveryResults)
        session.pickerDisplaySettings = settings
        // No picker to update yet.
        #expect(await code { try await session.finishPickerDiscovery() } == .invalidRequest)
        let answers = Answers()
        session.showPicker(for: [try Dice.item("Dice", Dice.pink)]) { answers.put(Answer($0)) }
        let accessory = try #require(try await events.wait(for: .accessoryDiscovered).accessory as? ASDiscoveredAccessory)
        #expect(accessory.displayName == "Dice" && accessory.state == .unauthorized && (accessory.bluetoothRSSI ?? 0) < 0)
        let advertisement = try #require(accessory.bluetoothAdvertisementData)
        #expect(advertisement[CBAdvertisementDataServiceUUIDsKey] as? [CBUUID] == [CBUUID(string: Dice.pink)])
        let item = ASDiscoveredDisplayItem(name: "More Specific Product Name", productImage: try Dice.image(), accessory: accessory)
        try await session.updatePicker(showing: [item])
        #expect(try await answers.wait().error == nil)
        let added = try #require(session.accessories.first)
        #expect(added.displayName == "More Specific Product Name" && added.bluetoothIdentifier == accessory.bluetoothIdentifier)
        session.invalidate()
        picker.end()
    }

    @Test func aFilteringAppEndsTheSearch() async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "nobody")
        let (session, events) = try await Self.begin(world)
        let settings = ASPickerDisplaySettings.default
        settings.discoveryTimeout = .unbounded
        settings.options.insert(.filterDiscoveryResults)
        session.pickerDisplaySettings = settings
        let answers = Answers()
        session.showPicker(for: [try Dice.item("Dice", Dice.pink)]) { answers.put(Answer($0)) }
        try await events.wait(for: .accessoryDiscovered)
        try await session.finishPickerDiscovery()
        #expect(try await answers.wait().code == .discoveryTimeout)
        session.invalidate()
        picker.end()
    }

    @Test func aNameIsAskedForAndChanged() async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "Pink Dice", rename: "Kitchen")
        let (session, events) = try await Self.begin(world)
        let item = try Dice.item("Pink Dice", Dice.pink)
        item.setupOptions = .rename
        try await session.showPicker(for: [item])
        #expect(events.types.contains(.pickerSetupRename))
        #expect(session.accessories.map(\.displayName) == ["Kitchen"])
        picker.end()

        let second = try world.startPicker(picking: "nobody", rename: "Bath")
        let accessory = try #require(session.accessories.first)
        try await session.renameAccessory(accessory)
        #expect(try await events.wait(for: .accessoryChanged).accessory?.displayName == "Bath")
        #expect(session.accessories.map(\.displayName) == ["Bath"] && session.accessories == [accessory])
        // It has no network to rename.
        #expect(await code { try await session.renameAccessory(accessory, options: .ssid) } == .invalidRequest)
        second.end()
        #expect(await code { try await session.renameAccessory(accessory) } == .pickerRestricted)
        session.invalidate()
    }

    @Test(arguments: [true, false])
    func theAppHasTheLastWord(isFinished: Bool) async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "Pink Dice")
        let (session, events) = try await Self.begin(world)
        let item = try Dice.item("Pink Dice", Dice.pink)
        item.setupOptions = .confirmAuthorization
        let answers = Answers()
        session.showPicker(for: [item]) { answers.put(Answer($0)) }
        let accessory = try #require(try await events.wait(for: .accessoryAdded).accessory)
        #expect(accessory.state == .awaitingAuthorization && session.accessories.first?.state == .awaitingAuthorization)
        if isFinished {
            try await session.finishAuthorization(for: accessory, settings: .default)
            #expect(try await answers.wait().error == nil)
            #expect(try await events.wait(for: .accessoryChanged).accessory?.state == .authorized)
            #expect(session.accessories.map(\.state) == [.authorized])
            #expect(await code { try await session.failAuthorization(for: accessory) } == .invalidRequest)
        } else {
            try await session.failAuthorization(for: accessory)
            #expect(try await answers.wait().code == .connectionFailed)
            try await events.wait(for: .accessoryRemoved)
            #expect(session.accessories.isEmpty)
        }
        session.invalidate()
        picker.end()
    }

    @Test func anAccessoryGetsANewDescriptor() async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "Pink Dice")
        let (session, events) = try await Self.begin(world)
        let unpaired = ASDiscoveryDescriptor()
        unpaired.bluetoothServiceUUID = CBUUID(string: Dice.pink)
        try await session.showPicker(for: [
            ASPickerDisplayItem(name: "Pink Dice", productImage: try Dice.image(), descriptor: unpaired)
        ])
        let accessory = try #require(session.accessories.first)
        #expect(accessory.descriptor == unpaired && !events.types.contains(.pickerSetupPairing))
        let paired = accessory.descriptor
        paired.supportedOptions = .bluetoothPairingLE
        try await session.updateAuthorization(for: accessory, descriptor: paired)
        #expect(events.types.contains(.pickerSetupPairing))
        #expect(session.accessories.first?.descriptor == paired && session.accessories == [accessory])
        session.invalidate()
        picker.end()
    }

    @Test func anAccessoryOfBeforeIsTakenOver() async throws {
        let world = try World()
        try world.pair("/org/bluez/hci0/dev_C0_FF_EE_00_00_01")
        let picker = try world.startPicker(picking: "nobody")
        let (session, events) = try await Self.begin(world)
        let descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothServiceUUID = CBUUID(string: Dice.pink)
        let item = ASMigrationDisplayItem(name: "My Dice", productImage: try Dice.image(), descriptor: descriptor)
        item.peripheralIdentifier = UUID()
        #expect(await code { try await session.showPicker(for: [item]) } == .invalidRequest)
        item.peripheralIdentifier = nil
        item.peripheralAddress = "C0:FF:EE:00:00:01"
        try await session.showPicker(for: [item])
        try await events.wait(for: .pickerDidDismiss)
        #expect(events.types == [.activated, .pickerDidPresent, .migrationComplete, .pickerDidDismiss])
        #expect(session.accessories.map(\.displayName) == ["My Dice"])
        #expect(session.accessories.first?.devicePath == "/org/bluez/hci0/dev_C0_FF_EE_00_00_01")
        session.invalidate()
        picker.end()
    }
}

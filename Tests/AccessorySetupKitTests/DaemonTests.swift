// SPDX-License-Identifier: Apache-2.0
// The module against the real daemon, over a real bus, with simulated radios and a picker program in the person's
// place.

import AccessorySetupKit
import Foundation
import TestSupport
import Testing

@Suite(.serialized) struct DaemonTests {
    @Test func anAccessoryIsSetUpUsedAndRemoved() async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "Pink Dice")
        let session = world.session()
        defer { session.invalidate() }
        let queue = DispatchQueue(label: "test.app")
        let mark = DispatchSpecificKey<Bool>()
        queue.setSpecific(key: mark, value: true)
        let events = Events()
        let seen = Mailbox<Int>()
        session.activate(on: queue) { [weak session] event in
            #expect(DispatchQueue.getSpecific(key: mark) == true)
            seen.put(session?.accessories.count ?? -1)
            events.put(event)
        }
        try await events.wait(for: .activated)
        #expect(session.accessories.isEmpty)

        let answers = Answers()
        session.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)]) { error in
            #expect(DispatchQueue.getSpecific(key: mark) == true)
            // The event of the accessory has come before, and the accessory is there; the picker's end comes after
            // this.
            #expect(events.types.last == .accessoryAdded && session.accessories.count == 1)
            answers.put(Answer(error))
        }
        #expect(try await answers.wait().error == nil)
        try await events.wait(for: .pickerDidDismiss)
        #expect(events.types == [.activated, .pickerDidPresent, .pickerSetupPairing, .accessoryAdded, .pickerDidDismiss])
        #expect(seen.elements == [0, 0, 0, 1, 1])
        #expect(events.elements.allSatisfy { $0.error == nil })
        #expect(events.elements.map { $0.accessory != nil } == [false, false, false, true, false])

        let accessory = try #require(session.accessories.first)
        #expect(accessory == events.elements[3].accessory)
        #expect(accessory.displayName == "Pink Dice" && accessory.state == .authorized)
        #expect(accessory.bluetoothIdentifier != nil && accessory.ssid == nil && accessory.wifiAwarePairedDeviceID == 0)
        #expect(accessory.devicePath == "/org/bluez/hci0/dev_C0_FF_EE_00_00_01")
        #expect(accessory.descriptor.bluetoothServiceUUID == CBUUID(string: Dice.pink))
        #expect(accessory.descriptor.supportedOptions == [.bluetoothPairingLE])

        // Another session of the app finds it there, and hears when it goes.
        let other = world.session()
        defer { other.invalidate() }
        let otherEvents = other.begin()
        try await otherEvents.wait(for: .activated)
        #expect(other.accessories == [accessory])
        try await other.removeAccessory(accessory)
        #expect(other.accessories.isEmpty)
        #expect(otherEvents.types == [.activated, .accessoryRemoved])
        let removed = try await events.wait(for: .accessoryRemoved)
        #expect(removed.accessory == accessory && removed.accessory?.state == .unauthorized)
        #expect(session.accessories.isEmpty)
        #expect(await code { try await session.removeAccessory(accessory) } == .invalidRequest)
        picker.end()
    }

    @Test func whatIsRefusedIsAnsweredAtOnce() async throws {
        let world = try World()
        let session = world.session()
        defer { session.invalidate() }
        let events = session.begin()
        // Held until the session is active, and then refused by the daemon.
        #expect(await code { try await session.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)]) } == .pickerRestricted)
        #expect(events.types == [.activated])
        #expect(await code { try await session.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)]) } == .pickerRestricted)
        #expect(await code { try await session.showPicker(for: []) } == .invalidRequest)
        #expect(await code { try await session.showPicker() } == .extensionNotFound)

        let picker = try world.startPicker(picking: "nobody")
        // Not declared in the manifest: Apple's systems end the process, and this module reports an error that names
        // the value.
        do {
            try await session.showPicker(for: [try Dice.item("Lamp", "180F")])
            Issue.record("it was accepted")
        } catch {
            #expect(ASError.invalidRequest ~= error)
            #expect(error.localizedDescription.lowercased().contains("180f"))
        }
        for descriptor in [
            ASDiscoveryDescriptor(),
            Self.descriptor {
                $0.ssid = "Dice"
                $0.ssidPrefix = "Di"
            },
        ] {
            let item = ASPickerDisplayItem(name: "Dice", productImage: try Dice.image(), descriptor: descriptor)
            #expect(await code { try await session.showPicker(for: [item]) } == .invalidRequest, "\(descriptor)")
        }

        let answers = Answers()
        session.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)]) { answers.put(Answer($0)) }
        try await events.wait(for: .pickerDidPresent)
        let other = world.session()
        defer { other.invalidate() }
        try await other.begin().wait(for: .activated)
        #expect(await code { try await other.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)]) } == .pickerAlreadyActive)
        // The picker program goes: there is no program left to ask.
        picker.end()
        #expect(try await answers.wait().code == .userCancelled)
        let dismissed = try await events.wait(for: .pickerDidDismiss)
        #expect((dismissed.error as? ASError)?.code == .userCancelled)
        try world.play("adapterPowerOff", "hci0")
        try world.waitForBluetooth("off")
        let again = try world.startPicker(picking: "Pink Dice")
        #expect(await code { try await session.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)]) } == .pickerRestricted)
        again.end()
        #expect(events.types == [.activated, .pickerDidPresent, .pickerDidDismiss])
    }

    private static func descriptor(_ change: (ASDiscoveryDescriptor) -> Void) -> ASDiscoveryDescriptor {
        let descriptor = ASDiscoveryDescriptor()
        change(descriptor)
        return descriptor
    }

    @Test func theSettingsTravelWithTheRequest() async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "nobody")
        let session = world.session()
        defer { session.invalidate() }
        try await session.begin().wait(for: .activated)
        let settings = ASPickerDisplaySettings.default
        settings.discoveryTimeout = .init(0.2)
        session.pickerDisplaySettings = settings
        let declaredButAbsent = try Dice.item("Blue Dice", Dice.blue)
        try world.play("vanish", "blue-dice")
        #expect(await code { try await session.showPicker(for: [declaredButAbsent]) } == .discoveryTimeout)
        picker.end()
    }

    @Test func anAppWithoutAManifestIsNotLetIn() async throws {
        let world = try World(isDeclared: false)
        let session = world.session()
        defer { session.invalidate() }
        let events = session.begin()
        let event = try await events.wait(for: .invalidated)
        #expect(ASError.activationFailed ~= (event.error ?? ASError(.success)))
        #expect(event.error?.localizedDescription.contains("no manifest matches") == true)
        #expect(events.types == [.invalidated])
    }

    @Test func sessionsHaveALimit() async throws {
        let world = try World()
        var sessions: [ASAccessorySession] = []
        for _ in 0..<8 {
            let session = world.session()
            try await session.begin().wait(for: .activated)
            sessions.append(session)
        }
        let oneTooMany = world.session()
        let event = try await oneTooMany.begin().wait(for: .invalidated)
        #expect((event.error as? ASError)?.code == .activationFailed && event.error?.localizedDescription.contains("8") == true)
        // One that goes makes room, whether it was invalidated or let go.
        sessions[0].invalidate()
        let second = world.session()
        try await second.begin().wait(for: .activated)
        sessions.removeAll()
        let third = world.session()
        try await third.begin().wait(for: .activated)
        #expect(try world.sessions().count == 2)
        withExtendedLifetime((oneTooMany, second, third)) {}
    }

    @Test(arguments: [SIGKILL, SIGTERM])
    func aDaemonThatGoesTakesItsSessionsAlong(signal: Int32) async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "nobody")
        let session = world.session()
        defer { session.invalidate() }
        let events = session.begin()
        try await events.wait(for: .activated)
        let answers = Answers()
        session.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)]) { answers.put(Answer($0)) }
        try await events.wait(for: .pickerDidPresent)
        world.daemon?.end(signal)
        let last = try await events.wait(for: .invalidated)
        let expected: ASError.Code = signal == SIGKILL ? .connectionFailed : .invalidated
        #expect((last.error as? ASError)?.code == expected)
        #expect(try await answers.wait().code == expected)
        // The picker that was shown is gone, with an event.
        #expect(events.types == [.activated, .pickerDidPresent, .pickerDidDismiss, .invalidated])
        #expect(session.accessories.isEmpty)
        picker.end()

        // The old session stays dead when the daemon is back; a new one works.
        try world.startDaemon()
        #expect(await code { try await session.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)]) } == .invalidated)
        let new = world.session()
        defer { new.invalidate() }
        try await new.begin().wait(for: .activated)
        #expect(answers.elements.count == 1)
    }

    @Test func aBusThatGoesIsTold() async throws {
        let world = try World()
        let session = world.session()
        defer { session.invalidate() }
        let events = session.begin()
        try await events.wait(for: .activated)
        world.bus.end()
        #expect((try await events.wait(for: .invalidated).error as? ASError)?.code == .connectionFailed)
    }

    @Test func invalidatingEndsWhatRuns() async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "nobody")
        let session = world.session()
        defer { session.invalidate() }
        let events = session.begin()
        try await events.wait(for: .activated)
        let answers = Answers()
        session.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)]) { answers.put(Answer($0)) }
        try await events.wait(for: .pickerDidPresent)
        session.invalidate()
        session.invalidate()
        let last = try await events.wait(for: .invalidated)
        #expect(last.error == nil)
        #expect(try await answers.wait().code == .invalidated)
        #expect(events.types == [.activated, .pickerDidPresent, .pickerDidDismiss, .invalidated])
        // The daemon knows: the way is free for another session.
        let other = world.session()
        defer { other.invalidate() }
        let otherEvents = other.begin()
        try await otherEvents.wait(for: .activated)
        other.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)]) { answers.put(Answer($0)) }
        try await otherEvents.wait(for: .pickerDidPresent)
        #expect(try world.sessions().count == 1)
        other.invalidate()
        try await otherEvents.wait(for: .invalidated)
        picker.end()
    }

    @Test func anAppShowsThePickerRightAfterActivating() async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "Pink Dice")
        let session = world.session()
        defer { session.invalidate() }
        let events = session.begin()
        try await session.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)])
        #expect(session.accessories.map(\.displayName) == ["Pink Dice"])
        try await events.wait(for: .pickerDidDismiss)
        #expect(events.types == [.activated, .pickerDidPresent, .pickerSetupPairing, .accessoryAdded, .pickerDidDismiss])
        picker.end()
    }

    @Test func cancellingTheTaskEndsThePicker() async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "Pink Dice")
        let session = world.session()
        defer { session.invalidate() }
        let events = session.begin()
        try await session.showPicker(for: [try Dice.item("Pink Dice", Dice.pink)])
        let accessory = try #require(session.accessories.first)
        try await events.wait(for: .pickerDidDismiss)
        picker.end()

        let idle = try world.startPicker(picking: "nobody")
        let descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothServiceUUID = CBUUID(string: Dice.blue)
        let blue = try Dice.item("Blue Dice", Dice.blue)
        let requests: [@Sendable () async throws -> Void] = [
            { try await session.showPicker(for: [blue]) }, { try await session.renameAccessory(accessory) },
            { try await session.updateAuthorization(for: accessory, descriptor: descriptor) },
        ]
        for (number, request) in requests.enumerated() {
            let task = Task { await code(of: request) }
            try await events.wait(for: .pickerDidPresent, count: number + 2)
            task.cancel()
            #expect(await task.value == .userCancelled)
            let dismissed = try await events.wait(for: .pickerDidDismiss, count: number + 2)
            #expect((dismissed.error as? ASError)?.code == .userCancelled)
        }
        #expect(session.accessories == [accessory] && session.accessories.first?.descriptor == accessory.descriptor)
        idle.end()
    }

    @Test func anEmptyImageAndASymbolAreShown() async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "Blue Dice")
        let session = world.session()
        defer { session.invalidate() }
        _ = session.begin()
        let items = try [
            (try #require(UIImage(systemName: "dice.fill")), Dice.pink, "Pink Dice"), (UIImage(), Dice.blue, "Blue Dice"),
        ]
        .map { image, service, name in
            let descriptor = try Dice.item(name, service).descriptor
            return ASPickerDisplayItem(name: name, productImage: image, descriptor: descriptor)
        }
        try await session.showPicker(for: items)
        #expect(session.accessories.map(\.displayName) == ["Blue Dice"])
        picker.end()
    }

    @Test func oneSessionServesManyTasks() async throws {
        let world = try World()
        let session = world.session()
        defer { session.invalidate() }
        try await session.begin(on: .global()).wait(for: .activated)
        let descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothServiceUUID = CBUUID(string: Dice.pink)
        let item = ASPickerDisplayItem(name: "Pink Dice", productImage: try Dice.image(), descriptor: descriptor)
        let codes = await withTaskGroup(of: ASError.Code.self) { group in
            for number in 0..<64 {
                group.addTask {
                    descriptor.bluetoothRange = number.isMultiple(of: 2) ? .immediate : .default
                    item.setupOptions = number.isMultiple(of: 3) ? .finishInApp : []
                    session.pickerDisplaySettings = .default
                    _ = session.accessories
                    return await code { try await session.showPicker(for: [item]) }
                }
            }
            return await group.reduce(into: [ASError.Code]()) { $0.append($1) }
        }
        #expect(codes == Array(repeating: .pickerRestricted, count: 64))
    }
}

// SPDX-License-Identifier: Apache-2.0
// The life of a session at a fake daemon: the list of accessories, a daemon that is newer, one that never answers, and
// the moments in which a session ends.

import AccessoryBus
import AccessoryModel
import AccessorySetupKit
import DBusKit
import Foundation
import Synchronization
import TestSupport
import Testing

@Suite struct SessionTests {
    private static func begin(
        accessories: [ObjectPath: [String: DBusValue]] = [:], prepare: (FakeDaemon) -> Void = { _ in }
    ) async throws -> (bus: PrivateBus, daemon: FakeDaemon, session: ASAccessorySession, events: Events) {
        let bus = try PrivateBus()
        let daemon = try await FakeDaemon(on: bus, accessories: accessories)
        prepare(daemon)
        let session = ASAccessorySession(bus: bus.address)
        return (bus, daemon, session, session.begin())
    }

    @Test func theListFollowsTheEvents() async throws {
        let second: ObjectPath = "/org/accessorysetup1/accessory/B"
        let (bus, daemon, session, events) = try await Self.begin(accessories: [FakeDaemon.accessory: FakeDaemon.properties("Dice")]
        )
        defer { session.invalidate() }
        try await events.wait(for: .activated)
        func names() -> [String] { session.accessories.map(\.displayName) }
        #expect(names() == ["Dice"])
        func details(_ path: ObjectPath, _ name: String) -> [String: DBusValue] {
            ["accessory": .objectPath(path), "properties": .vardict(FakeDaemon.properties(name))]
        }
        daemon.emit("accessoryAdded", details(second, "Lamp"))
        #expect(try await events.wait(for: .accessoryAdded).accessory?.displayName == "Lamp")
        #expect(names() == ["Dice", "Lamp"])
        daemon.emit("accessoryChanged", details(FakeDaemon.accessory, "Die"))
        try await events.wait(for: .accessoryChanged)
        #expect(names() == ["Die", "Lamp"])
        daemon.emit("accessoryRemoved", details(FakeDaemon.accessory, "Die"))
        #expect(try await events.wait(for: .accessoryRemoved).accessory?.displayName == "Die")
        #expect(names() == ["Lamp"])
        daemon.emit("migrationComplete", details(FakeDaemon.accessory, "Dice"))
        #expect(try await events.wait(for: .migrationComplete).accessory?.displayName == "Dice")
        #expect(names() == ["Lamp", "Dice"])
        // BlueZ comes to know it: no event, but the list says so.
        #expect(session.accessories[0].devicePath == nil)
        daemon.changeAccessory(second, ["Device": .objectPath("/org/bluez/hci0/dev_1")])
        daemon.emit("pickerSetupBridging")
        try await events.wait(for: .pickerSetupBridging)
        #expect(session.accessories[0].devicePath == "/org/bluez/hci0/dev_1" && names() == ["Lamp", "Dice"])
        withExtendedLifetime(bus) {}
    }

    @Test func everyEventHasItsType() async throws {
        let (bus, daemon, session, events) = try await Self.begin()
        defer { session.invalidate() }
        try await events.wait(for: .activated)
        // The one without a type of Apple's has a test of its own.
        let others: Set<SessionEventType> = [.unknown, .invalidated, .activated, .presenceChanged]
        let known = SessionEventType.allCases.filter { !others.contains($0) }
        for type in known { daemon.emit(type.name) }
        daemon.emit("invalidated")
        try await events.wait(for: .invalidated)
        let types = known.map { ASAccessoryEventType(rawValue: $0.rawValue) ?? .unknown }
        #expect(events.types == [.activated] + types + [.invalidated])
        let names = events.elements.map { event in event.addition.map { "\($0)" } ?? "\(event.eventType)" }
        #expect(names.dropFirst().dropLast().elementsEqual(known.map(\.name)))
        withExtendedLifetime(bus) {}
    }

    @Test func presenceArrivesBesideApplesTypes() async throws {
        let (bus, daemon, session, events) = try await Self.begin(accessories: [
            FakeDaemon.accessory: FakeDaemon.properties("Dice")
        ])
        defer { session.invalidate() }
        try await events.wait(for: .activated)
        #expect(try await events.wait(for: .activated).presence == nil)
        daemon.emit(
            "presenceChanged",
            [
                "accessory": .objectPath(FakeDaemon.accessory), "properties": .vardict(FakeDaemon.properties("Dice")),
                "present": .boolean(true), "reason": .string("link"), "rssi": .int16(-50), "device": .string("C0:FF:EE:00:00:01"),
            ])
        let event = try await events.wait(for: .unknown)
        let presence = try #require(event.presence)
        #expect(presence.isPresent && presence.reason == .link && presence.rssi == -50)
        #expect(presence.device == "C0:FF:EE:00:00:01" && event.accessory == session.accessories.first)
        withExtendedLifetime(bus) {}
    }

    @Test func aNewerDaemonIsUnderstoodAsFarAsItCanBe() async throws {
        let (bus, daemon, session, events) = try await Self.begin(accessories: [
            FakeDaemon.accessory: [
                "DisplayName": .string("Dice"), "State": .string("resting"),
                "Descriptor": .vardict([
                    "bluetoothServiceUUID": .string("180f"), "supportedOptions": .strings(["bluetoothPairingLE", "teleport"]),
                    "bluetoothRange": .string("adjacent"), "colour": .string("pink"), "ssid": .uint32(7),
                ]),
            ]
        ])
        defer { session.invalidate() }
        try await events.wait(for: .activated)
        let accessory = try #require(session.accessories.first)
        #expect(accessory.state == .unauthorized && accessory.bluetoothIdentifier == nil)
        #expect(accessory.descriptor.supportedOptions == .bluetoothPairingLE && accessory.descriptor.ssid == nil)
        #expect(accessory.descriptor.bluetoothRange == .default)
        daemon.emit("accessoryTeleported", ["accessory": .objectPath("/x"), "speed": .double(1)])
        daemon.emit("pickerSetupFailed", ["error": .string("org.accessorysetup1.Error.OfTomorrow"), "message": .string("so")])
        daemon.emit("accessoryAdded", ["accessory": .string("not a path"), "properties": .strings(["not a dictionary"])])
        let failed = try await events.wait(for: .pickerSetupFailed)
        #expect((failed.error as? ASError)?.code == .unknown && failed.error?.localizedDescription == "so")
        #expect(try await events.wait(for: .accessoryAdded).accessory == nil)
        #expect(events.types == [.activated, .unknown, .pickerSetupFailed, .accessoryAdded])
        withExtendedLifetime(bus) {}
    }

    @Test func nobodyThereIsTold() async throws {
        let bus = try PrivateBus()
        let session = ASAccessorySession(bus: bus.address)
        let events = session.begin()
        #expect((try await events.wait(for: .invalidated).error as? ASError)?.code == .connectionFailed)
        let lost = ASAccessorySession(bus: "unix:path=/nowhere")
        #expect((try await lost.begin().wait(for: .invalidated).error as? ASError)?.code == .connectionFailed)
        let broken = ASAccessorySession(bus: "this is no address")
        #expect((try await broken.begin().wait(for: .invalidated).error as? ASError)?.code == .connectionFailed)
        // Over is over.
        #expect(await code { try await session.finishPickerDiscovery() } == .invalidated)
        #expect((try await session.begin().wait(for: .invalidated).error as? ASError)?.code == .invalidated)
        withExtendedLifetime((bus, lost, broken)) {}
    }

    @Test(arguments: ["CreateSession", "Activate"])
    func aRefusedActivationIsTold(member: String) async throws {
        let (bus, daemon, session, events) = try await Self.begin {
            $0.answer(member, with: .failure("org.accessorysetup1.Error.ActivationFailed"))
        }
        let event = try await events.wait(for: .invalidated)
        #expect((event.error as? ASError)?.code == .activationFailed && event.error?.localizedDescription == "because")
        // Later requests give the cause.
        await #expect {
            try await session.finishPickerDiscovery()
        } throws: { error in
            let cause = (error as NSError).userInfo[NSUnderlyingErrorKey] as? ASError
            return error.localizedDescription.hasSuffix("because") && cause?.code == .activationFailed
        }
        withExtendedLifetime((bus, daemon, session)) {}
    }

    @Test func aNameThatChangesHandsEndsTheSession() async throws {
        let (bus, daemon, session, events) = try await Self.begin { $0.answer("RemoveAccessory", with: .never) }
        try await events.wait(for: .activated)
        let answers = Answers()
        session.finishPickerDiscovery { answers.put(Answer($0)) }
        #expect(try await answers.wait().code == .success)
        daemon.answer("FinishPickerDiscovery", with: .never)
        session.finishPickerDiscovery { answers.put(Answer($0)) }
        _ = try await daemon.calls.wait("second call") {
            $0.filter { $0.member == "FinishPickerDiscovery" }.count == 2 ? true : nil
        }
        daemon.end()
        #expect((try await events.wait(for: .invalidated).error as? ASError)?.code == .connectionFailed)
        #expect(try await answers.wait(count: 2).code == .connectionFailed)
        withExtendedLifetime(bus) {}
    }

    @Test func requestsBeforeAndAfterAreRefused() async throws {
        let item = try Dice.item("Dice", Dice.pink)
        let session = ASAccessorySession(bus: "unix:path=/nowhere")
        #expect(session.accessories.isEmpty)
        #expect(await code { try await session.showPicker() } == .invalidRequest)
        #expect(await code { try await session.showPicker(for: [item]) } == .invalidRequest)
        #expect(await code { try await session.updatePicker(showing: []) } == .invalidRequest)
        #expect(await code { try await session.finishPickerDiscovery() } == .invalidRequest)
        session.invalidate()
        session.invalidate()
        #expect(await code { try await session.showPicker() } == .invalidated)
        #expect(await code { try await session.showPicker(for: [item]) } == .invalidated)
        let event = try await session.begin().wait(for: .invalidated)
        #expect((event.error as? ASError)?.code == .invalidated)
    }

    @Test func invalidatingDoesNotWaitForTheDaemon() async throws {
        let (bus, daemon, session, events) = try await Self.begin {
            $0.answer("FinishPickerDiscovery", with: .never)
            $0.answer("Invalidate", with: .never)
        }
        try await events.wait(for: .activated)
        let answers = Answers()
        session.finishPickerDiscovery { answers.put(Answer($0)) }
        session.finishPickerDiscovery { answers.put(Answer($0)) }
        session.invalidate()
        #expect(try await events.wait(for: .invalidated).error == nil)
        #expect(answers.elements.map(\.code) == [.invalidated, .invalidated])
        withExtendedLifetime((bus, daemon)) {}
    }

    /// A session that the daemon is still making must not stay behind there.
    @Test func invalidatingWhileActivatingEndsBoth() async throws {
        let (bus, daemon, session, events) = try await Self.begin()
        // Another session keeps the connection open.
        let other = ASAccessorySession(bus: bus.address)
        session.invalidate()
        try await events.wait(for: .invalidated)
        try await other.begin().wait(for: .activated)
        #expect(events.types.last == .invalidated && events.types.count { $0 == .invalidated } == 1)
        let made = daemon.calls.elements.count { $0.member == "CreateSession" }
        if made > 1 {
            _ = try await daemon.calls.wait("end of the first session") { calls in calls.first { $0.member == "Invalidate" }?.member
            }
        }
        other.invalidate()
    }

    @Test func invalidatingBreaksTheCycle() async throws {
        final class App: Sendable {
            let session: ASAccessorySession
            let events = Events()
            let gone: Mailbox<Bool>

            init(_ bus: String, _ gone: Mailbox<Bool>) {
                session = ASAccessorySession(bus: bus)
                self.gone = gone
            }

            func begin() {
                // Strong on purpose.
                session.activate(on: .global()) { self.events.put($0) }
            }

            deinit { gone.put(true) }
        }
        let bus = try PrivateBus()
        let daemon = try await FakeDaemon(on: bus)
        let gone = Mailbox<Bool>()
        do {
            let app = App(bus.address, gone)
            app.begin()
            try await app.events.wait(for: .activated)
            app.session.finishPickerDiscovery { _ in _ = app }
            app.session.invalidate()
            try await app.events.wait(for: .invalidated)
        }
        #expect(try await gone.wait())
        withExtendedLifetime(daemon) {}
    }

    @Test func aSessionThatIsLetGoEndsAtTheDaemonToo() async throws {
        let (bus, daemon, session, events) = try await Self.begin { $0.answer("FinishPickerDiscovery", with: .never) }
        let other = ASAccessorySession(bus: bus.address)
        try await other.begin().wait(for: .activated)
        try await events.wait(for: .activated)
        let answers = Answers()
        var held: ASAccessorySession? = session
        held?.finishPickerDiscovery { answers.put(Answer($0)) }
        held = nil
        _ = consume session
        #expect(try await answers.wait().code == .invalidated)
        _ = try await daemon.calls.wait("Invalidate") { calls in calls.first { $0.member == "Invalidate" }?.member }
        #expect(events.types == [.activated])
        other.invalidate()
    }

    /// The list as each event left it, also when the app's queue is behind.
    @Test func orderIsKeptOnAConcurrentQueue() async throws {
        let (bus, daemon, session, _) = try await Self.begin()
        session.invalidate()
        let other = ASAccessorySession(bus: bus.address)
        let counts = Mailbox<Int>()
        let events = Events()
        other.activate(on: DispatchQueue(label: "test.concurrent", attributes: .concurrent)) { event in
            counts.put(other.accessories.count)
            events.put(event)
        }
        try await events.wait(for: .activated)
        for number in 1...200 {
            daemon.emit(
                "accessoryAdded",
                [
                    "accessory": .objectPath(try #require(ObjectPath("/org/accessorysetup1/accessory/\(number)"))),
                    "properties": .vardict(FakeDaemon.properties("\(number)")),
                ])
        }
        try await events.wait(for: .accessoryAdded, count: 200)
        #expect(counts.elements == Array(0...200))
        #expect(events.elements.compactMap { $0.accessory?.displayName } == (1...200).map(String.init))
        other.invalidate()
    }
}

// SPDX-License-Identifier: Apache-2.0
// The events of a session as a stream: a whole set-up at the real daemon, and the ends of streams at a fake one.

import AccessorySetupKit
import AccessoryStreams
import Foundation
import TestSupport
import Testing

@Suite(.serialized) struct EventStreamTests {
    private static func begin() async throws -> (bus: PrivateBus, daemon: FakeDaemon, session: ASAccessorySession) {
        let bus = try PrivateBus()
        let daemon = try await FakeDaemon(on: bus)
        return (bus, daemon, ASAccessorySession(bus: bus.address))
    }

    private static func waitForInvalidate(_ daemon: FakeDaemon) async throws {
        _ = try await daemon.calls.wait("Invalidate") { calls in calls.first { $0.member == "Invalidate" }?.member }
    }

    @Test func aSetUpAsAStream() async throws {
        let world = try World()
        let picker = try world.startPicker(picking: "Pink Dice")
        defer { picker.end() }
        let session = world.session()
        let item = try Dice.item("Pink Dice", Dice.pink)
        var types: [ASAccessoryEventType] = []
        for await event in session.events() {
            types.append(event.eventType)
            switch event.eventType {
            case .activated: session.showPicker(for: [item]) { #expect($0 == nil) }
            case .accessoryAdded: #expect(event.accessory?.displayName == "Pink Dice")
            case .pickerDidDismiss: session.invalidate()
            case .invalidated: #expect(event.error == nil)
            default: break
            }
        }
        #expect(
            types == [
                .activated, .pickerDidPresent, .pickerSetupPairing, .accessoryAdded, .pickerDidDismiss, .invalidated,
            ])
    }

    @Test func cancellingTheTaskInvalidates() async throws {
        let (bus, daemon, session) = try await Self.begin()
        let types = Mailbox<ASAccessoryEventType>()
        let task = Task {
            for await event in session.events() { types.put(event.eventType) }
        }
        #expect(try await types.wait() == .activated)
        task.cancel()
        await task.value
        try await Self.waitForInvalidate(daemon)
        #expect(types.elements == [.activated])
        #expect(await code { try await session.finishPickerDiscovery() } == .invalidated)
        withExtendedLifetime(bus) {}
    }

    @Test func releasingTheStreamInvalidates() async throws {
        let (bus, daemon, session) = try await Self.begin()
        for await event in session.events() where event.eventType == .activated { break }
        try await Self.waitForInvalidate(daemon)
        withExtendedLifetime(bus) {}
    }

    /// The stream keeps the session.
    @Test func aStreamWithoutAReference() async throws {
        let (bus, daemon, session) = try await Self.begin()
        var events = (consume session).events().makeAsyncIterator()
        #expect(await events.next()?.eventType == .activated)
        daemon.emit("pickerSetupBridging")
        #expect(await events.next()?.eventType == .pickerSetupBridging)
        daemon.end()
        let last = await events.next()
        #expect(last?.eventType == .invalidated && (last?.error as? ASError)?.code == .connectionFailed)
        #expect(await events.next() == nil)
        withExtendedLifetime(bus) {}
    }

    @Test func aSessionIsActivatedOnce() async throws {
        let (bus, daemon, session) = try await Self.begin()
        var events = session.events().makeAsyncIterator()
        #expect(await events.next()?.eventType == .activated)
        for await event in session.events() { Issue.record("\(event)") }
        daemon.emit("pickerSetupBridging")
        #expect(await events.next()?.eventType == .pickerSetupBridging)
        session.invalidate()
        #expect(await events.next()?.eventType == .invalidated)
        #expect(await events.next() == nil)
        // Over is over.
        var codes: [ASError.Code?] = []
        for await event in session.events() { codes.append((event.error as? ASError)?.code) }
        #expect(codes == [.invalidated])
        withExtendedLifetime(bus) {}
    }

    @Test func eventsBeyondTheBuffer() async throws {
        let (bus, daemon, session) = try await Self.begin()
        let events = session.events(bufferingPolicy: .bufferingNewest(1))
        // Answered after `activated`, and then after `invalidated`.
        try await session.finishPickerDiscovery()
        session.invalidate()
        #expect(await code { try await session.finishPickerDiscovery() } == .invalidated)
        var types: [ASAccessoryEventType] = []
        for await event in events { types.append(event.eventType) }
        #expect(types == [.invalidated])
        withExtendedLifetime((bus, daemon)) {}
    }
}

// SPDX-License-Identifier: Apache-2.0
// The order of requests and events, at a fake daemon: requests before the session is active, the completion before the
// picker's dismissal, and tasks that are cancelled.

import AccessoryBus
import AccessorySetupKit
import DBusKit
import Foundation
import TestSupport
import Testing

/// A fake daemon, a session, and one list of all the app's events and completions.
private struct Stage {
    let bus: PrivateBus
    let daemon: FakeDaemon
    let session: ASAccessorySession
    let log = Mailbox<String>()
    let events = Events()

    init(isActive: Bool = true, accessories: [ObjectPath: [String: DBusValue]] = [:]) async throws {
        bus = try PrivateBus()
        daemon = try await FakeDaemon(on: bus, accessories: accessories)
        if !isActive { daemon.answer("CreateSession", with: .never) }
        session = ASAccessorySession(bus: bus.address)
        session.activate(on: DispatchQueue(label: "test.app")) { [log, events, weak session] event in
            let error = (event.error as? ASError).map { " \($0.code)" } ?? ""
            log.put("\(event.eventType)\(error) (\(session?.accessories.count ?? -1))")
            events.put(event)
        }
        if isActive {
            try await events.wait(for: .activated)
        } else {
            _ = try await call("CreateSession")
        }
    }

    /// The daemon goes on with the session that it was asked for.
    func activate() {
        daemon.answer("CreateSession", with: .values([.objectPath(AccessoryBus.sessionPath(1))]))
        daemon.release("CreateSession", with: [.objectPath(AccessoryBus.sessionPath(1))])
    }

    func note(_ what: String) -> @Sendable ((any Error)?) -> Void {
        { [log, weak session] error in
            log.put("\(what) \(Answer(error).code) (\(session?.accessories.count ?? -1))")
        }
    }

    @discardableResult
    func call(_ member: String) async throws -> Call {
        try await daemon.calls.wait("call of \(member)") { calls in calls.first { $0.member == member } }
    }

    func waitForLog(_ count: Int) async throws -> [String] {
        try await log.wait("\(count) lines") { $0.count >= count ? $0 : nil }
    }

    func emit(_ type: String, _ error: String? = nil, accessory: ObjectPath? = nil) {
        var details: [String: DBusValue] = ["picker": .objectPath(FakeDaemon.picker)]
        details["error"] = error.map { .string("org.accessorysetup1.Error." + $0) }
        details["message"] = error.map { .string($0) }
        details["accessory"] = accessory.map { .objectPath($0) }
        if accessory != nil { details["properties"] = .vardict(FakeDaemon.properties("Dice")) }
        daemon.emit(type, details)
    }
}

/// The requests that show a picker.
private enum Shown: String, CaseIterable, Sendable {
    case showPicker = "ShowPicker"
    case renameAccessory = "RenameAccessory"
    case updateAuthorization = "UpdateAuthorization"

    func start(_ session: ASAccessorySession, _ completion: @escaping @Sendable ((any Error)?) -> Void) throws {
        switch self {
        case .showPicker: session.showPicker(for: [try Dice.item("Dice", Dice.pink)], completionHandler: completion)
        case .renameAccessory: session.renameAccessory(ASAccessory(), completionHandler: completion)
        case .updateAuthorization:
            session.updateAuthorization(for: ASAccessory(), descriptor: ASDiscoveryDescriptor(), completionHandler: completion)
        }
    }

    func run(_ session: ASAccessorySession) async throws {
        switch self {
        case .showPicker: try await session.showPicker(for: [try Dice.item("Dice", Dice.pink)])
        case .renameAccessory: try await session.renameAccessory(ASAccessory())
        case .updateAuthorization: try await session.updateAuthorization(for: ASAccessory(), descriptor: ASDiscoveryDescriptor())
        }
    }
}

@Suite struct OrderTests {
    // MARK: Before the session is active

    @Test func requestsWaitForTheSessionInTheirOrder() async throws {
        let stage = try await Stage(isActive: false)
        defer { stage.session.invalidate() }
        stage.session.finishPickerDiscovery(completionHandler: stage.note("finish"))
        stage.session.removeAccessory(ASAccessory(), completionHandler: stage.note("remove"))
        stage.session.updatePicker(showing: [], completionHandler: stage.note("update"))
        stage.session.showPicker(for: [try Dice.item("Dice", Dice.pink)], completionHandler: stage.note("picker"))
        stage.activate()
        try await stage.call("ShowPicker")
        stage.emit("pickerDidDismiss")
        let log = try await stage.waitForLog(6)
        #expect(log.first == "activated (0)" && log.suffix(2) == ["picker success (0)", "pickerDidDismiss (0)"])
        #expect(
            log[1...3].sorted() == ["finish success (0)", "remove success (0)", "update success (0)"])
        let sent = ["FinishPickerDiscovery", "RemoveAccessory", "UpdatePicker", "ShowPicker"]
        #expect(stage.daemon.calls.elements.map(\.member).filter(sent.contains) == sent)
    }

    @Test func anActivationThatFailsAnswersWhoWaits() async throws {
        let stage = try await Stage(isActive: false)
        stage.session.finishPickerDiscovery(completionHandler: stage.note("finish"))
        stage.session.showPicker(for: [try Dice.item("Dice", Dice.pink)], completionHandler: stage.note("picker"))
        stage.daemon.answer("Activate", with: .failure("org.accessorysetup1.Error.ActivationFailed"))
        stage.daemon.release("CreateSession", with: [.objectPath("/org/accessorysetup1/session/77")])
        #expect(
            try await stage.waitForLog(3) == [
                "finish activationFailed (0)", "picker activationFailed (0)", "invalidated activationFailed (0)",
            ])
        #expect(!stage.daemon.calls.elements.contains { $0.member == "ShowPicker" })
    }

    @Test func invalidatingAnswersWhoWaits() async throws {
        let stage = try await Stage(isActive: false)
        stage.session.finishPickerDiscovery(completionHandler: stage.note("finish"))
        stage.session.showPicker(for: [try Dice.item("Dice", Dice.pink)], completionHandler: stage.note("picker"))
        stage.session.invalidate()
        #expect(try await stage.waitForLog(3) == ["finish invalidated (0)", "picker invalidated (0)", "invalidated (0)"])
        stage.activate()
        try await stage.call("Invalidate")
        #expect(!stage.daemon.calls.elements.contains { ["ShowPicker", "FinishPickerDiscovery"].contains($0.member) })
    }

    @Test func onlySoManyWait() async throws {
        let stage = try await Stage(isActive: false)
        defer { stage.session.invalidate() }
        for number in 1...65 { stage.session.finishPickerDiscovery(completionHandler: stage.note("\(number)")) }
        #expect(try await stage.waitForLog(1) == ["65 invalidRequest (0)"])
        stage.activate()
        let log = try await stage.waitForLog(66)
        #expect(log[1] == "activated (0)" && log[2...] == (1...64).map { "\($0) success (0)" }[...])
    }

    // MARK: The completion, then the dismissal

    @Test(arguments: Shown.allCases)
    fileprivate func theCompletionComesBeforeTheDismissal(request: Shown) async throws {
        let stage = try await Stage()
        defer { stage.session.invalidate() }
        try request.start(stage.session, stage.note("done"))
        try await stage.call(request.rawValue)
        stage.emit("pickerDidPresent")
        stage.emit("accessoryAdded", accessory: FakeDaemon.accessory)
        stage.emit("pickerDidDismiss")
        #expect(
            try await stage.waitForLog(5) == [
                "activated (0)", "pickerDidPresent (0)", "accessoryAdded (1)", "done success (1)", "pickerDidDismiss (1)",
            ])
        try request.start(stage.session, stage.note("again"))
        _ = try await stage.daemon.calls.wait("second call") {
            $0.count { $0.member == request.rawValue } == 2 ? true : nil
        }
        stage.emit("pickerDidPresent")
        stage.emit("pickerDidDismiss", "UserCancelled")
        #expect(
            try await stage.waitForLog(8).suffix(3) == [
                "pickerDidPresent (1)", "again userCancelled (1)", "pickerDidDismiss userCancelled (1)",
            ])
    }

    /// The answer to the request may be later than the picker's end; events that came meanwhile wait, and stay in
    /// order.
    @Test func aPickerThatEndsBeforeItsAnswerIsToldInOrder() async throws {
        let stage = try await Stage()
        defer { stage.session.invalidate() }
        stage.daemon.answer("ShowPicker", with: .never)
        stage.session.showPicker(for: [try Dice.item("Dice", Dice.pink)], completionHandler: stage.note("done"))
        try await stage.call("ShowPicker")
        stage.emit("accessoryAdded", accessory: FakeDaemon.accessory)
        stage.emit("pickerDidDismiss")
        stage.emit("accessoryRemoved", accessory: FakeDaemon.accessory)
        stage.daemon.release("ShowPicker", with: [.objectPath(FakeDaemon.picker)])
        #expect(
            try await stage.waitForLog(5) == [
                "activated (0)", "accessoryAdded (1)", "done success (1)", "pickerDidDismiss (1)", "accessoryRemoved (0)",
            ])
    }

    @Test func invalidatingKeepsTheOrder() async throws {
        let stage = try await Stage()
        stage.session.showPicker(for: [try Dice.item("Dice", Dice.pink)], completionHandler: stage.note("done"))
        try await stage.call("ShowPicker")
        stage.emit("pickerDidPresent")
        try await stage.events.wait(for: .pickerDidPresent)
        stage.session.invalidate()
        #expect(
            try await stage.waitForLog(5).suffix(3) == [
                "done invalidated (0)", "pickerDidDismiss invalidated (0)", "invalidated (0)",
            ])
    }

    @Test func theNextPickerMayBeAskedForInTheCompletion() async throws {
        let stage = try await Stage()
        defer { stage.session.invalidate() }
        let item = try Dice.item("Dice", Dice.pink)
        let again = stage.note("again")
        stage.session.showPicker(for: [item]) { [weak session = stage.session] _ in
            session?.showPicker(for: [item], completionHandler: again)
        }
        try await stage.call("ShowPicker")
        stage.emit("pickerDidDismiss")
        _ = try await stage.daemon.calls.wait("second call") { $0.count { $0.member == "ShowPicker" } == 2 ? true : nil }
        stage.emit("pickerDidDismiss", "DiscoveryTimeout")
        #expect(try await stage.waitForLog(4).suffix(2) == ["again discoveryTimeout (0)", "pickerDidDismiss discoveryTimeout (0)"])
    }

    // MARK: Cancelled tasks

    @Test(arguments: Shown.allCases)
    fileprivate func cancellingTheTaskCallsThePickerOff(request: Shown) async throws {
        let stage = try await Stage()
        defer { stage.session.invalidate() }
        let session = stage.session
        let task = Task { await code { try await request.run(session) } }
        try await stage.call(request.rawValue)
        stage.emit("pickerDidPresent")
        try await stage.events.wait(for: .pickerDidPresent)
        task.cancel()
        try await stage.call("CancelPicker")
        // The daemon has the last word.
        stage.emit("pickerDidDismiss", "UserCancelled")
        #expect(await task.value == .userCancelled)
        #expect(try await stage.waitForLog(3).last == "pickerDidDismiss userCancelled (0)")
    }

    @Test func aPickerWithoutAnAnswerIsCalledOffWhenItIsThere() async throws {
        let stage = try await Stage()
        defer { stage.session.invalidate() }
        stage.daemon.answer("ShowPicker", with: .never)
        let session = stage.session
        let task = Task { await code { try await Shown.showPicker.run(session) } }
        try await stage.call("ShowPicker")
        task.cancel()
        stage.session.finishPickerDiscovery(completionHandler: stage.note("finish"))
        // Sent after the task was cancelled, and answered: nothing was called off so far.
        #expect(try await stage.waitForLog(2).last == "finish success (0)")
        #expect(!stage.daemon.calls.elements.contains { $0.member == "CancelPicker" })
        stage.daemon.release("ShowPicker", with: [.objectPath(FakeDaemon.picker)])
        try await stage.call("CancelPicker")
        stage.emit("pickerDidDismiss", "UserCancelled")
        #expect(await task.value == .userCancelled)
    }

    @Test func whatWasNotSentIsNeverSent() async throws {
        let stage = try await Stage(isActive: false)
        defer { stage.session.invalidate() }
        let session = stage.session
        let before = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await code { try await Shown.showPicker.run(session) }
        }
        #expect(await before.value == .userCancelled)
        let held = Task { await code { try await Shown.renameAccessory.run(session) } }
        held.cancel()
        #expect(await held.value == .userCancelled)
        stage.activate()
        try await stage.session.finishPickerDiscovery()
        #expect(!stage.daemon.calls.elements.contains { Shown(rawValue: $0.member) != nil || $0.member == "CancelPicker" })
    }

    @Test func otherRequestsAreNotCalledOff() async throws {
        let stage = try await Stage()
        defer { stage.session.invalidate() }
        stage.daemon.answer("RemoveAccessory", with: .never)
        let session = stage.session
        let task = Task { await code { try await session.removeAccessory(ASAccessory()) } }
        try await stage.call("RemoveAccessory")
        task.cancel()
        try await stage.session.finishPickerDiscovery()
        stage.daemon.release("RemoveAccessory", with: [])
        #expect(await task.value == .success)
        #expect(!stage.daemon.calls.elements.contains { $0.member == "CancelPicker" })
    }
}

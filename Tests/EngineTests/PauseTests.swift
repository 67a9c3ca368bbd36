// SPDX-License-Identifier: Apache-2.0
// Apps that ask too often: the pause after a person's cancel, and apps that a person does not want to be asked by.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Testing

@Suite struct PauseTests {
    private let bench: Bench
    private let session: Session

    init() throws {
        bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        session = try bench.session()
    }

    private final class Answers {
        private(set) var all: [SetupError.Code?] = []
        func take(_ result: Result<PickerRun, SetupError>) {
            if case .failure(let error) = result { all.append(error.code) } else { all.append(nil) }
        }
    }

    private func ask(_ session: Session, _ settings: PickerSettings = PickerSettings()) -> Answers {
        let answers = Answers()
        bench.engine.showPicker(session, items: [bench.item()], settings: settings, answer: answers.take)
        return answers
    }

    private func ask() -> Answers { ask(session) }
    private func cancel() throws { try bench.engine.cancel(try #require(bench.engine.picker)) }

    /// Seconds until a request is answered with a picker.
    private func wait(for answers: Answers) -> Double {
        let begin = bench.clock.uptime
        while answers.all.isEmpty, bench.clock.uptime < begin + 100 { bench.clock.advance(0.5) }
        #expect(answers.all == [nil])
        return bench.clock.uptime - begin
    }

    @Test func theNextPickerWaitsLongerEachTime() throws {
        #expect(wait(for: ask()) == 0)
        for pause in [2.0, 4, 8, 16, 20, 20] {
            try cancel()
            #expect(wait(for: ask()) == pause)
        }
        // An app that does not ask for so long begins anew.
        try cancel()
        bench.clock.advance(60)
        #expect(wait(for: ask()) == 0)
        try cancel()
        #expect(wait(for: ask()) == 2)
    }

    @Test func aPauseIsOverByItself() throws {
        #expect(ask().all == [nil])
        try cancel()
        bench.clock.advance(2)
        #expect(ask().all == [nil])
    }

    @Test func aSetUpEndsThePause() throws {
        #expect(ask().all == [nil])
        try cancel()
        _ = wait(for: ask())
        bench.hear(1)
        try bench.engine.pick(
            try #require(bench.engine.picker), offer: try #require(bench.engine.picker?.presentation.offers.first?.id))
        bench.paired(1)
        #expect(bench.engine.picker == nil)
        #expect(ask().all == [nil])
        try cancel()
        #expect(wait(for: ask()) == 2)
    }

    /// Neither the app's own end nor a failure is a person's cancel; a picker that is closed is one.
    @Test func onlyPersonsBeginAPause() throws {
        #expect(ask().all == [nil])
        try bench.engine.cancelPicker(session)
        #expect(ask(session, PickerSettings(discoveryTimeout: 5)).all == [nil])
        bench.clock.advance(5)
        try cancelIfOpen()
        bench.clock.advance(60)
        #expect(ask().all == [nil])
        bench.engine.unregisterPicker(ClientID(":picker"))
        try bench.engine.registerPicker(ClientID(":picker"))
        #expect(wait(for: ask()) == 2)
    }

    private func cancelIfOpen() throws { if let run = bench.engine.picker { try bench.engine.cancel(run) } }

    @Test func otherAppsDoNotWait() throws {
        #expect(ask().all == [nil])
        try cancel()
        let paused = ask()
        let other = try bench.session(":board", app: "com.example.board")
        #expect(ask(other).all == [nil])
        bench.clock.advance(10)
        // It did not want to wait for another's picker.
        #expect(paused.all == [.pickerAlreadyActive])
        // Nor does the same app of another user wait.
        try bench.engine.cancelPicker(other)
        bench.clock.advance(60)
        #expect(ask().all == [nil])
        try cancel()
        #expect(ask(try bench.session(":other", user: 1001)).all == [nil])
    }

    @Test func aRequestThatWaitsEndsAsOthersDo() throws {
        #expect(ask().all == [nil])
        try cancel()
        let cancelled = ask()
        #expect(cancelled.all.isEmpty && ask().all == [.pickerAlreadyActive])
        try bench.engine.cancelPicker(session)
        #expect(cancelled.all == [.userCancelled])
        let gone = ask()
        bench.engine.clientGone(session.client)
        #expect(gone.all == [.invalidated])
        #expect(bench.engine.picker == nil)
    }

    @Test func aRequestThatWaitsAnywayWaitsThroughThePause() throws {
        #expect(ask().all == [nil])
        try cancel()
        var settings = PickerSettings()
        settings.waitForPicker = 1
        #expect(wait(for: ask(session, settings)) == 2)
    }

    @Test func whatIsInvalidIsRefusedAtOnce() throws {
        #expect(ask().all == [nil])
        try cancel()
        let answers = Answers()
        let nothing = DisplayItem(name: "Die", descriptor: DiscoveryDescriptor())
        bench.engine.showPicker(session, items: [nothing], settings: PickerSettings(), answer: answers.take)
        #expect(answers.all == [.invalidRequest])
        bench.engine.unregisterPicker(ClientID(":picker"))
        #expect(ask().all == [.pickerRestricted])
    }

    @Test func otherRequestsWaitToo() throws {
        let other = try Bench()
        let session = try other.pickOne()
        other.paired(1)
        let id = try #require(other.engine.ledger.accessories.keys.first)
        other.engine.showPicker(session, items: [other.item()], settings: PickerSettings()) { _ in }
        try other.engine.cancel(try #require(other.engine.picker))
        let (renaming, updating) = (Answers(), Answers())
        other.engine.renameAccessory(session, id, options: [], answer: renaming.take)
        #expect(renaming.all.isEmpty)
        other.clock.advance(2)
        #expect(renaming.all == [nil])
        try other.engine.cancel(try #require(other.engine.picker))
        other.engine.updateAuthorization(session, id, descriptor: other.item().descriptor, answer: updating.take)
        #expect(updating.all.isEmpty)
        other.clock.advance(4)
        #expect(updating.all == [nil])
    }

    // MARK: Muted apps

    @Test func aMutedAppDoesNotAsk() throws {
        #expect(ask().all == [nil])
        try bench.engine.mute(try #require(bench.engine.picker))
        #expect(bench.engine.picker == nil && bench.witness.errors == [.userCancelled])
        #expect(bench.engine.mutedApps.map(\.app) == [session.app.id])
        #expect(ask().all == [.userRestricted])
        #expect(ask(try bench.session(":other", user: 1001)).all == [.userRestricted])
        #expect(ask(try bench.session(":board", app: "com.example.board")).all == [nil])
        let restarted = try Bench(store: bench.store)
        try restarted.engine.registerPicker(ClientID(":picker"))
        #expect(throws: SetupError.self) {
            try restarted.engine.showPicker(restarted.session(), items: [restarted.item()], settings: PickerSettings())
        }
        try restarted.engine.unmute(session.app.id, by: .person("somebody", user: nil))
        try restarted.engine.showPicker(restarted.session(":again"), items: [restarted.item()], settings: PickerSettings())
        #expect(restarted.engine.picker != nil && restarted.store.stored.mutedApps.isEmpty)
        restarted.engine.flushAudit()
        #expect(restarted.trail.lines.filter { [.muted, .unmuted].contains($0.event) }.map(\.event) == [.muted, .unmuted])
        #expect(throws: SetupError.self) { try restarted.engine.unmute(session.app.id, by: .person("somebody", user: nil)) }
    }

    @Test func requestsThatWaitEnd() throws {
        #expect(ask().all == [nil])
        var settings = PickerSettings()
        settings.waitForPicker = .infinity
        let waiting = ask(try bench.session(":other", user: 1001), settings)
        #expect(waiting.all.isEmpty)
        try bench.engine.mute(try #require(bench.engine.picker))
        bench.clock.advance(0)
        #expect(waiting.all == [.userRestricted])
    }

    @Test func aStoreThatRefusesKeepsThePicker() throws {
        #expect(ask().all == [nil])
        bench.store.isFull = true
        #expect(throws: SetupError.self) { try bench.engine.mute(try #require(bench.engine.picker)) }
        #expect(bench.engine.picker != nil && bench.engine.mutedApps.isEmpty)
    }

    @Test func aRuleThatAsksNoPersonHolds() throws {
        #expect(ask().all == [nil])
        try bench.engine.mute(try #require(bench.engine.picker))
        var policy = AccessPolicy()
        var target = AccessPolicy.Target()
        target.descriptor = bench.item().descriptor
        policy.approvals = [.init(name: "near", source: "x", app: session.app.id, target: target, minimumRSSI: -60)]
        bench.engine.setPolicy(policy)
        #expect(ask().all == [nil])
        #expect(bench.engine.picker?.client == .policy)
        bench.hear(1)
        bench.paired(1)
        #expect(bench.engine.ledger.grants.count == 1)
    }
}

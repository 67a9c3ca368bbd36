// SPDX-License-Identifier: Apache-2.0
// Grants that end: to the second, whatever happens to the clocks, the disk and the machine.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Testing

@Suite struct GrantEndTests {
    private let bench: Bench

    init() throws { bench = try Bench() }

    /// The person has picked an accessory for an item with these ends.
    @discardableResult private func grant(_ end: String?, choices: [String] = [], policy: AccessPolicy = AccessPolicy()) throws
        -> Session
    {
        bench.engine.setPolicy(policy)
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        var item = bench.item()
        item.end = end.flatMap { EndRule($0) }
        item.endChoices = choices.compactMap { EndChoice($0) }
        try bench.engine.showPicker(session, items: [item], settings: PickerSettings())
        bench.hear(1)
        try bench.engine.pick(
            try #require(bench.engine.picker), offer: try #require(bench.engine.picker?.presentation.offers.first?.id))
        bench.paired(1)
        return session
    }

    private var state: AuthorizationState? { bench.engine.ledger.grants.values.first?.state }
    private var isUsable: Bool {
        bench.engine.ledger.grants.values.first.map { bench.engine.mayUse($0.accessory, $0.app, by: .bluetooth) } ?? false
    }
    private func count(_ event: String) -> Int { bench.witness.events.count { $0.hasSuffix(":" + event) } }

    @Test func itEndsToTheSecond() throws {
        try grant("1h")
        bench.clock.advance(3239.9)
        #expect(count("accessWillEnd") == 0)
        bench.clock.advance(0.1)
        #expect(count("accessWillEnd") == 1)
        bench.clock.advance(359.9)
        #expect(isUsable)
        bench.clock.advance(0.1)
        #expect(!isUsable && state == .unauthorized && count("accessDidEnd") == 1 && count("accessWillEnd") == 1)
        #expect(bench.trail.lines.last?.event == .ended)
        bench.clock.advance(100_000)
        #expect(count("accessDidEnd") == 1)
    }

    @Test func nothingWaitsWithoutAnEnd() throws {
        try grant(nil)
        bench.clock.advance(120)
        #expect(bench.clock.active == 0)
        bench.engine.setPolicy(AccessPolicy())
        try grantEnds("1h")
        #expect(bench.clock.active == 1)
        try grantEnds("none")
        #expect(bench.clock.active == 0)
    }

    private func grantEnds(_ end: String) throws {
        let grant = try #require(bench.engine.ledger.grants.values.first)
        try bench.engine.setEnd(grant, try #require(EndChoice(end)), by: .admin("test"))
    }

    @Test(arguments: [-1_000_000.0, 1_000_000]) func jumpsOfTheClockMoveNothing(jump: Double) throws {
        try grant("1h")
        bench.clock.advance(1800)
        bench.clock.setWall(by: jump)
        bench.clock.advance(1799)
        #expect(isUsable)
        bench.clock.advance(1)
        #expect(!isUsable)
        bench.clock.setWall(by: -jump)
        #expect(!isUsable)
    }

    @Test func aTimeOfDayFollowsTheClock() throws {
        // 1970 is a clock that was never set.
        #expect(throws: Never.self) { try grant("18:00") }
        #expect(bench.engine.ledger.grants.isEmpty)
        bench.clock.setWall(by: 1_800_000_000)
        try grantAgain("18:00")
        let left = (64800 - bench.clock.wallTime.truncatingRemainder(dividingBy: 86400) + 86400).truncatingRemainder(
            dividingBy: 86400)
        bench.clock.advance(left - 1000)
        #expect(isUsable)
        bench.clock.setWall(by: -3600)
        bench.clock.advance(4599)
        #expect(isUsable)
        bench.clock.advance(1)
        #expect(!isUsable)
    }

    private func grantAgain(_ end: String) throws {
        var item = bench.item()
        item.end = EndRule(end)
        let session = try #require(bench.engine.sessions.values.first)
        try bench.engine.showPicker(session, items: [item], settings: PickerSettings())
        bench.hear(1)
        try bench.engine.pick(
            try #require(bench.engine.picker), offer: try #require(bench.engine.picker?.presentation.offers.first?.id))
        bench.paired(1)
    }

    @Test func asleepItEndsToo() throws {
        try grant("1h")
        bench.clock.suspend(7200)
        #expect(!isUsable && state == .unauthorized && count("accessDidEnd") == 1)
    }

    @Test func aFullDiskKeepsNothingOpen() throws {
        try grant("1h")
        bench.clock.advance(3500)
        bench.store.isFull = true
        bench.clock.advance(100)
        #expect(!isUsable)
        bench.store.isFull = false
        bench.clock.advance(60)
        #expect(state == .unauthorized && count("accessDidEnd") == 1)
    }

    @Test func aLostAnchorEndsIt() throws {
        try grant("1h")
        let store = ManualStore()
        store.stored = bench.store.stored
        store.stored.clock = nil
        let next = try Bench(store: store)
        #expect(next.engine.ledger.grants.values.first?.state == .unauthorized)
    }

    @Test func itCountsAcrossRuns() throws {
        try grant("1h")
        bench.clock.advance(1000)
        let next = try Bench(store: bench.store, after: 3000)
        next.clock.advance(599)
        #expect(next.engine.ledger.grants.values.first?.state == .authorized)
        next.clock.advance(1)
        #expect(next.engine.ledger.grants.values.first?.state == .unauthorized)
    }

    @Test func idleDaysBeginWithEachUse() throws {
        try grant("idle 1d")
        let grant = try #require(bench.engine.ledger.grants.values.first)
        for _ in 0..<3 {
            bench.clock.advance(80_000)
            bench.engine.recordUse(of: grant.accessory, by: grant.app, requester: .app("test"), as: "read")
        }
        #expect(isUsable)
        bench.clock.advance(86_400)
        #expect(!isUsable)
    }

    @Test func aRuleBoundsWhicheverWayTheGrantComes() throws {
        var policy = AccessPolicy()
        var limit = AccessPolicy.Limit(name: "all", source: "/policy", apps: nil, target: .init())
        limit.maxDuration = 60
        policy.limits = [limit]
        try grant("1h", policy: policy)
        #expect(bench.engine.ledger.grants.values.first?.terms.time.rules == [.duration(seconds: 60)])
        bench.clock.advance(60)
        #expect(!isUsable)
        try grantEnds("none")
        #expect(isUsable && bench.engine.ledger.grants.values.first?.terms.time.rules == [.duration(seconds: 60)])
    }

    @Test func aLostBondIsNotRenewed() throws {
        let session = try grant("1h")
        bench.clock.advance(3600)
        let accessory = try #require(bench.engine.ledger.accessories.values.first)
        try bench.engine.unpair(accessory, reason: "test", by: .admin("test"))
        var refusal: SetupError?
        bench.engine.renewAccess(session, accessory.id, options: RenewalOptions()) { result in
            if case .failure(let error) = result { refusal = error }
        }
        #expect(refusal?.code == .invalidRequest)
        #expect(throws: SetupError.self) { try grantEnds("1h") }
        #expect(!isUsable)
    }

    /// An end in between must not let a renewal take the place of pairing.
    @Test func aLostBondIsNotRenewedAfterAnEndEither() throws {
        let session = try grant("1h")
        let accessory = try #require(bench.engine.ledger.accessories.values.first)
        try bench.engine.unpair(accessory, reason: "test", by: .admin("test"))
        bench.clock.advance(7200)
        #expect(state == .unauthorized && bench.clock.active == 0)
        var refusal: SetupError?
        bench.engine.renewAccess(session, accessory.id, options: RenewalOptions()) { result in
            if case .failure(let error) = result { refusal = error }
        }
        #expect(refusal?.code == .invalidRequest)
        #expect(throws: SetupError.self) { try grantEnds("none") }
        // Paired again, it begins anew.
        try grantAgain("1h")
        #expect(isUsable)
        bench.clock.advance(3600)
        #expect(!isUsable && state == .unauthorized)
    }
}

// SPDX-License-Identifier: Apache-2.0
// Removals that a person can still take back.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Testing

@Suite struct DelayedRemovalTests {
    private let bench: Bench
    private let accessory: Accessory
    private let address = BluetoothAddress(value: 1, kind: .public)

    init() throws {
        bench = try Bench()
        _ = try bench.pickOne()
        bench.paired(1)
        accessory = try #require(bench.engine.ledger.accessories.values.first)
    }

    private func schedule(_ seconds: UInt32) throws(SetupError) {
        try bench.engine.scheduleRemoval(of: accessory, in: seconds, reason: "test", by: .admin("somebody"))
    }

    private var isThere: Bool { bench.engine.ledger.accessories[accessory.id] != nil }

    @Test func itIsRemovedAfterTheDelay() throws {
        try schedule(10)
        bench.clock.advance(9)
        #expect(isThere && bench.engine.removalTime(of: accessory.id, for: nil) != nil && bench.radio.removed.isEmpty)
        bench.clock.advance(1)
        #expect(!isThere && bench.radio.removed == [address])
        #expect(bench.trail.lines.last.map { $0.event == .revoked && $0.who == "somebody" } == true)
    }

    @Test func itIsTakenBack() throws {
        try schedule(10)
        try bench.engine.cancelRemoval(of: accessory, for: nil)
        #expect(bench.engine.removalTime(of: accessory.id, for: nil) == nil)
        bench.clock.advance(60)
        #expect(isThere)
        #expect(throws: SetupError.self) { try bench.engine.cancelRemoval(of: accessory, for: nil) }
    }

    @Test func theLastDelayCounts() throws {
        try schedule(10)
        try schedule(60)
        bench.clock.advance(59)
        #expect(isThere)
        bench.clock.advance(1)
        #expect(!isThere)
    }

    @Test(arguments: [0, 61, UInt32.max]) func delaysAreBounded(seconds: UInt32) {
        #expect(throws: SetupError.self) { try schedule(seconds) }
        #expect(bench.engine.removalTime(of: accessory.id, for: nil) == nil)
    }

    @Test func theEndOfTheDaemonRemovesIt() throws {
        try schedule(60)
        bench.engine.finishRemovals()
        #expect(!isThere && bench.radio.removed == [address])
    }

    @Test func whatHasGoneMeanwhileIsNotRemovedAgain() throws {
        try schedule(10)
        try bench.engine.remove(accessory, reason: "test", by: .daemon)
        bench.clock.advance(10)
        #expect(bench.radio.removed == [address])
    }

    @Test func aStoreThatRefusesKeepsItVisibly() throws {
        try schedule(10)
        bench.store.isFull = true
        bench.clock.advance(10)
        #expect(isThere && bench.engine.removalTime(of: accessory.id, for: nil) == nil)
    }
}

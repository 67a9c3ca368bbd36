// SPDX-License-Identifier: Apache-2.0
// Turns of users, and the calls that are under way at org.bluez.

import AccessoryModel
import DBusKit
import Testing

@testable import BlueZView

@Suite struct TurnsTests {
    private let one = Party.user(1)
    private let two = Party.user(2)
    private let three = Party.user(3)

    @Test func eachPartyHasItsTurn() {
        var turns = Turns<String>()
        for each in ["a1", "a2", "a3"] { turns.add(each, of: one) }
        turns.add("b1", of: two)
        #expect(turns.next() == "a1")
        // A latecomer has its turn before the second of the first.
        turns.add("c1", of: three)
        turns.add("b2", of: two)
        var order: [String] = []
        while let next = turns.next() { order.append(next) }
        #expect(order == ["b1", "a2", "c1", "b2", "a3"])
        #expect(turns.isEmpty)
    }

    @Test func whatIsDroppedHasNoTurn() {
        var turns = Turns<Int>()
        for each in 1...4 { turns.add(each, of: one) }
        turns.add(5, of: two)
        turns.removeAll(of: one) { $0 > 1 }
        #expect(turns.elements(of: one) == [1])
        turns.removeAll(of: two) { _ in true }
        #expect(turns.elements(of: two).isEmpty)
        #expect(turns.next() == 1)
        #expect(turns.next() == nil)
    }
}

@Suite struct ServiceQueueTests {
    private final class Client {
        let party: Party
        init(_ uid: UInt32) { party = .user(uid) }
    }

    private let queue = ServiceQueue()
    private let mine = Client(1)
    private let others = Client(2)
    /// It has room for two.
    private let lane = ServiceQueue.Lane.service

    /// Calls in the order in which they began.
    private final class Begun { var calls: [String] = [] }
    private let begun = Begun()

    private func enter(_ name: String, _ lane: ServiceQueue.Lane, of client: Client, isUnderWay: Bool = true) {
        queue.enter(lane, of: client.party, owner: client) { [begun] in
            begun.calls.append(name)
            return isUnderWay
        }
    }

    @Test func fewAreUnderWayAndUsersHaveTheirTurns() {
        for number in 1...6 { enter("mine \(number)", lane, of: mine) }
        enter("another's", lane, of: others)
        #expect(begun.calls == ["mine 1", "mine 2"])
        queue.leave(lane)
        queue.leave(lane)
        #expect(begun.calls.suffix(2) == ["mine 3", "another's"])
    }

    @Test func lanesDoNotWaitForEachOther() {
        for number in 1...4 { enter("mine \(number)", .objects, of: mine) }
        enter("a read", .link("/org/bluez/hci0/dev_1"), of: mine)
        enter("a property", .service, of: others)
        #expect(begun.calls == ["mine 1", "a read", "a property"])
    }

    @Test func whatDoesNotBeginMakesRoom() {
        for number in 1...9 { enter("mine \(number)", lane, of: mine, isUnderWay: false) }
        #expect(begun.calls.count == 9)
    }

    /// Another user, who asks now and then, has room meanwhile.
    @Test func aCrowdIsServedAfterPauses() {
        final class Pauses { var over: [() -> Void] = [] }
        let pauses = Pauses()
        let queue = ServiceQueue { pauses.over.append($0) }
        func enter(_ name: String, of client: Client) {
            queue.enter(lane, of: client.party, owner: client) { [begun] in
                begun.calls.append(name)
                return true
            }
        }
        for number in 1...40 { enter("mine \(number)", of: mine) }
        queue.leave(lane)
        #expect(begun.calls == ["mine 1", "mine 2"] && pauses.over.count == 1)
        enter("another's", of: others)
        #expect(begun.calls.last == "another's")
        queue.leave(lane)
        pauses.over.removeFirst()()
        #expect(begun.calls.last == "mine 3")
    }

    @Test func whoGoesTakesAlongWhatWaits() {
        for number in 1...6 { enter("mine \(number)", lane, of: mine) }
        enter("another's", lane, of: others)
        queue.withdrawAll(of: mine, mine.party)
        queue.leave(lane)
        queue.leave(lane)
        #expect(begun.calls == ["mine 1", "mine 2", "another's"])
    }

    @Test func whatIsSaidAfterwardsIsDoneAfterwards() {
        queue.afterWaiting(lane, of: mine.party, owner: mine) { [begun] in begun.calls.append("at once") }
        for number in 1...4 { enter("mine \(number)", lane, of: mine) }
        queue.afterWaiting(lane, of: mine.party, owner: mine) { [begun] in begun.calls.append("after") }
        // It waits for this client's earlier calls, not for others.
        queue.afterWaiting(lane, of: others.party, owner: others) { [begun] in begun.calls.append("another's") }
        #expect(begun.calls == ["at once", "mine 1", "mine 2", "another's"])
        queue.leave(lane)
        #expect(begun.calls.last == "mine 3")
        queue.leave(lane)
        #expect(begun.calls.last == "mine 4")
        queue.leave(lane)
        #expect(begun.calls.last == "after")
        // Also where that is withdrawn.
        enter("mine 5", lane, of: mine)
        enter("mine 6", lane, of: mine)
        queue.afterWaiting(lane, of: mine.party, owner: mine) { [begun] in begun.calls.append("in the end") }
        queue.withdrawAll(of: mine, mine.party)
        #expect(begun.calls.suffix(2) == ["mine 5", "in the end"])
    }
}

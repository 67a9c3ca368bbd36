// SPDX-License-Identifier: Apache-2.0
// Admission: shares of users, strangers first, and no client that keeps others out.

import AccessoryModel
import Testing

@testable import BlueZView

@Suite struct AdmissionTests {
    private func limits(clients: Int, perUser: Int, strangers: Int, strangersPerUser: Int) -> ViewLimits.Places {
        var limits = ViewLimits.Places()
        (limits.clients, limits.clientsPerUser) = (clients, perUser)
        (limits.strangers, limits.strangersPerUser) = (strangers, strangersPerUser)
        return limits
    }

    /// Lets clients in that say hello at once.
    private func admit(_ names: [String], of party: Party, to admission: inout Admission) {
        for name in names {
            #expect(admission.admit(name, of: party) == .admitted(insteadOf: nil))
            admission.greeted(name)
        }
    }

    @Test func aUserHasAShare() {
        var admission = Admission(limits(clients: 10, perUser: 2, strangers: 10, strangersPerUser: 10))
        admit(["a", "b"], of: .user(1), to: &admission)
        #expect(admission.admit("c", of: .user(1)) == .refused(why: "user 1 already has 2 connections"))
        #expect(admission.admit("d", of: .user(2)) == .admitted(insteadOf: nil))
        admission.left("a")
        #expect(admission.admit("c", of: .user(1)) == .admitted(insteadOf: nil))
    }

    @Test func aUserHasAShareOfStrangers() {
        var admission = Admission(limits(clients: 10, perUser: 10, strangers: 10, strangersPerUser: 1))
        #expect(admission.admit("a", of: .user(1)) == .admitted(insteadOf: nil))
        #expect(admission.admit("b", of: .user(1)) == .refused(why: "user 1 has 1 connections that have not called Hello"))
        admission.greeted("a")
        #expect(admission.admit("b", of: .user(1)) == .admitted(insteadOf: nil))
    }

    @Test func fewMaySendLongMessages() {
        var limits = ViewLimits.Places()
        (limits.longMessageClients, limits.longMessageClientsPerUser) = (3, 2)
        var admission = Admission(limits)
        admit(["a", "b", "c"], of: .user(1), to: &admission)
        admit(["d", "e"], of: .user(2), to: &admission)
        func ask(_ names: String...) -> [Bool] {
            var answers: [Bool] = []
            for name in names { answers.append(admission.allowLongMessages(name)) }
            return answers
        }
        #expect(ask("a", "b", "c") == [true, true, false])
        #expect(ask("d", "e") == [true, false])
        // Who goes makes room.
        admission.left("a")
        #expect(ask("c", "nobody") == [true, false])
        // And who is of no app any more, once.
        let revoked = ["d", "d", "nobody"].map { admission.revokeLongMessages($0) }
        #expect(revoked == [true, false, false])
        #expect(ask("e", "d") == [true, false])
    }

    @Test func slowestReaderGoesOfTheUserForWhomMostWaits() {
        var limits = ViewLimits.Places()
        limits.unreadBytes = 100
        var admission = Admission(limits)
        admit(["a", "b", "c"], of: .user(1), to: &admission)
        admit(["d"], of: .user(2), to: &admission)
        #expect(admission.slowestReader(["a": 20, "b": 30, "c": 10, "d": 40]) == nil)
        #expect(admission.slowestReader(["a": 20, "b": 30, "c": 10, "d": 41]) == "b")
        #expect(admission.slowestReader(["a": 30, "b": 30, "c": 10, "d": 41]) == "b")
        // Unread bytes of a client that has gone count for no user.
        admission.left("b")
        #expect(admission.slowestReader(["a": 20, "b": 90, "c": 10, "d": 41]) == nil)
    }

    @Test func strangersGoFirst() {
        var admission = Admission(limits(clients: 4, perUser: 4, strangers: 4, strangersPerUser: 4))
        admit(["a", "b", "c"], of: .user(1), to: &admission)
        #expect(admission.admit("stranger", of: .user(2)) == .admitted(insteadOf: nil))
        #expect(admission.admit("d", of: .user(3)) == .admitted(insteadOf: "stranger"))
    }

    @Test func amongStrangersTheLatestOfTheUserWithMost() {
        var admission = Admission(limits(clients: 10, perUser: 10, strangers: 3, strangersPerUser: 3))
        for (name, uid): (String, UInt32) in [("a", 1), ("b", 1), ("c", 2)] {
            #expect(admission.admit(name, of: .user(uid)) == .admitted(insteadOf: nil))
        }
        #expect(admission.admit("d", of: .user(3)) == .admitted(insteadOf: "b"))
    }

    @Test func theLatestOfTheUserWithMostGoesForWhoHasFewer() {
        var admission = Admission(limits(clients: 4, perUser: 4, strangers: 4, strangersPerUser: 4))
        admit(["a", "b", "c"], of: .user(1), to: &admission)
        admit(["d"], of: .user(2), to: &admission)
        #expect(admission.admit("e", of: .user(2)) == .admitted(insteadOf: "c"))
        admission.greeted("e")
        // Two each: one more would be no fairer.
        #expect(admission.admit("f", of: .user(2)) == .refused(why: "4 clients are already connected"))
        #expect(admission.admit("f", of: .user(1)) == .refused(why: "4 clients are already connected"))
        // Of users with as many, the one with the lower number.
        #expect(admission.admit("g", of: .user(3)) == .admitted(insteadOf: "b"))
    }
}

// SPDX-License-Identifier: Apache-2.0
// Who keeps the machine on an accessory's network: all states that two apps, three connections and two networks can
// reach, with the invariants of each, and the stories that the engine plays.

import AccessoryCore
import AccessoryModel
import Testing

@Suite struct JoinMachineTests {
    private static let first = JoinMachine.Goal(accessory: .random(), ssid: SSID("Dice-1")!)
    private static let second = JoinMachine.Goal(accessory: .random(), ssid: SSID("Dice-2")!)
    private static let dice = JoinMachine.Holder(client: ":1", app: AppID("com.example.dice")!)
    private static let otherOfDice = JoinMachine.Holder(client: ":2", app: AppID("com.example.dice")!)
    private static let other = JoinMachine.Holder(client: ":3", app: AppID("com.example.other")!)
    private static let holders = [dice, otherOfDice, other]

    /// A machine, and which requests it still owes an answer. A ticket stands for who asks, so that there are finitely
    /// many states.
    private struct World: Hashable {
        var machine = JoinMachine()
        var owed: Set<Int> = []
        /// The radio has been asked, and has not answered yet.
        var isJoining = false
        var isLeaving = false
    }

    /// The possible next events, from a client, the radio or the environment.
    private static func events(in world: World) -> [JoinMachine.Event] {
        var events: [JoinMachine.Event] = [
            .gone(reason: "gone"), .entitled([], reason: "revoked"), .entitled(Set(holders), reason: "all"),
            .entitled([other], reason: "some"),
        ]
        for (number, holder) in holders.enumerated() {
            for (place, goal) in [first, second].enumerated() where !world.owed.contains(number * 10 + place) {
                events.append(.wanted(number * 10 + place, goal, by: holder))
            }
            if !world.owed.contains(number * 10 + 5) {
                events.append(.released(number * 10 + 5, first.accessory, client: holder.client))
            }
        }
        if !world.owed.contains(99) { events.append(.ending(99)) }
        if world.isJoining { events += [.joined(interface: "wlan0"), .joinFailed("no")] }
        if world.isLeaving { events.append(.left) }
        return events
    }

    private static func ticket(of event: JoinMachine.Event) -> Int? {
        switch event {
        case .wanted(let ticket, _, _), .released(let ticket, _, _), .ending(let ticket): ticket
        case .entitled, .joined, .joinFailed, .left, .gone: nil
        }
    }

    /// Plays an event, and holds the result against the rules.
    private static func play(_ event: JoinMachine.Event, in before: World) throws -> World {
        var world = before
        if let ticket = ticket(of: event) { world.owed.insert(ticket) }
        switch event {
        case .joined, .joinFailed: world.isJoining = false
        case .left: world.isLeaving = false
        default: break
        }
        let was = before.machine
        let effects = world.machine.handle(event)
        let now = world.machine
        for effect in effects {
            switch effect {
            case .join(let ticket):
                // Only an idle interface is taken, and by one who waits for it.
                try #require(was.state == .idle && !world.isJoining && world.owed.contains(ticket))
                world.isJoining = true
            case .leave:
                try #require(!world.isLeaving)
                world.isLeaving = true
            case .answer(let ticket, let failure):
                try #require(world.owed.remove(ticket) != nil, "answered twice: \(ticket)")
                // A client that gets the answer “joined” holds the network, and the machine is on it.
                if case .wanted(ticket, let goal, let holder) = event, failure == nil {
                    guard case .joined(goal, _) = now.state else { throw Broken("\(event): told so, and is \(now.state)") }
                    try #require(now.holders.contains(holder))
                }
            case .retry(let ticket): try #require(world.owed.remove(ticket) != nil, "tried twice: \(ticket)")
            case .recordJoined(let goal, let holder, _):
                // Once for each who comes: when it is joined, or when it is already.
                if case .joined(goal, _) = was.state {
                    try #require(!was.holders.contains(holder) && now.holders.contains(holder))
                } else {
                    try #require(was.state == .joining(goal) && was.holders.contains(holder))
                }
            case .changed, .recordLeft: break
            }
        }
        switch now.state {
        case .idle: try #require(now.holders.isEmpty && !world.isJoining && world.owed.isEmpty, "\(event): somebody is forgotten")
        case .joining: try #require(world.isJoining && !world.isLeaving)
        // The machine does not stay on a network without holders.
        case .joined: try #require(!now.holders.isEmpty && !world.isJoining && !world.isLeaving)
        case .leaving: try #require(world.isLeaving && now.holders.isEmpty)
        }
        // Joining and leaving are each reported once.
        func isJoined(_ machine: JoinMachine) -> Bool { if case .joined = machine.state { true } else { false } }
        let changes = effects.count { if case .changed = $0 { true } else { false } }
        let passed = !isJoined(was) && effects.contains { if case .recordLeft = $0 { true } else { false } }
        try #require(changes == (passed ? 2 : isJoined(was) == isJoined(now) ? 0 : 1), "\(event): \(effects)")
        // Another app's network is never taken from it by a wish.
        if case .wanted(_, let goal, let holder) = event, case .joined(let theirs, _) = was.state, theirs != goal,
            was.holders.contains(where: { $0.client != holder.client })
        {
            try #require(now == was)
        }
        return world
    }

    private struct Broken: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    @Test func whatHoldsInAllStates() throws {
        var seen: Set<World> = [World()]
        var fresh = [World()]
        while let world = fresh.popLast() {
            for event in Self.events(in: world) {
                let next = try Self.play(event, in: world)
                // Who waits in which order makes states without end that differ in nothing else.
                if next.owed.count <= 3, seen.insert(next).inserted { fresh.append(next) }
            }
        }
        #expect(seen.count > 500)
    }

    @Test func oneNetworkForTwoApps() {
        var machine = JoinMachine()
        #expect(machine.handle(.wanted(1, Self.first, by: Self.dice)) == [.join(1)])
        #expect(machine.handle(.wanted(2, Self.first, by: Self.other)) == [])
        #expect(
            machine.handle(.joined(interface: "wlan0")) == [
                .changed(Self.first), .recordJoined(Self.first, Self.dice, interface: "wlan0"), .answer(1, failure: nil),
                .recordJoined(Self.first, Self.other, interface: "wlan0"), .answer(2, failure: nil),
            ])
        #expect(machine.handle(.released(3, Self.first.accessory, client: ":1")) == [.answer(3, failure: nil)])
        #expect(
            machine.handle(.released(4, Self.first.accessory, client: ":3")) == [
                .recordLeft(Self.first.accessory, reason: "left by the app"), .changed(Self.first), .leave,
            ])
        #expect(machine.handle(.left) == [.answer(4, failure: nil)])
    }

    @Test func whoComesLaterIsNotedToo() {
        var machine = JoinMachine()
        _ = machine.handle(.wanted(1, Self.first, by: Self.dice))
        _ = machine.handle(.joined(interface: "wlan0"))
        #expect(
            machine.handle(.wanted(2, Self.first, by: Self.other)) == [
                .recordJoined(Self.first, Self.other, interface: "wlan0"), .answer(2, failure: nil),
            ])
        #expect(machine.handle(.wanted(3, Self.first, by: Self.other)) == [.answer(3, failure: nil)])
    }

    @Test func aloneOnItAnAppChangesOver() {
        var machine = JoinMachine()
        _ = machine.handle(.wanted(1, Self.first, by: Self.dice))
        _ = machine.handle(.joined(interface: "wlan0"))
        #expect(machine.handle(.wanted(2, Self.second, by: Self.dice)).last == .leave)
        #expect(machine.handle(.left) == [.retry(2)])
        #expect(machine.state == .idle)
    }

    @Test func whatIsHalfJoinedIsLeftOnceItIs() {
        var machine = JoinMachine()
        _ = machine.handle(.wanted(1, Self.first, by: Self.dice))
        #expect(machine.handle(.entitled([], reason: "revoked")) == [])
        #expect(
            machine.handle(.joined(interface: "wlan0")) == [
                .changed(Self.first), .answer(1, failure: "the network was left, or its grant was revoked, before it was joined"),
                .recordLeft(Self.first.accessory, reason: "no app uses it any longer"), .changed(Self.first), .leave,
            ])
    }
}

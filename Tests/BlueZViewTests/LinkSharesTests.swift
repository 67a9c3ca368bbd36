// SPDX-License-Identifier: Apache-2.0
// Shares in links: all reachable states and all events with the rules that hold at every step, and the stories that
// apps live through.

import AccessoryModel
import DBusKit
import Testing

@testable import BlueZView

private typealias Event = LinkShares.Event
private typealias Client = LinkShares.Client

private let dice: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_01"
private let lamp: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_02"
private let red = AppID("com.example.red")!
private let blue = AppID("com.example.blue")!
private let red1 = Client(name: ":view.1", app: red)
private let red2 = Client(name: ":view.2", app: red)
private let blue1 = Client(name: ":view.3", app: blue)
private let clients = [red1, red2, blue1]

/// Every kind of event about a device, with every payload that makes a difference.
private func alphabet(_ device: ObjectPath) -> [Event] {
    var events: [Event] = [
        .deviceRemoved(device), .unfollowed(device), .allUnfollowed,
        .discoveryRequested([device], red, inputs: []), .discoveryRequested([device], blue, inputs: [device]),
    ]
    for isConnected in [nil, false, true] {
        for areServicesResolved in [nil, false, true] {
            events.append(.reported(device, isConnected: isConnected, areServicesResolved: areServicesResolved))
        }
    }
    for client in clients {
        events += [
            .connectRequested(device, client), .connectAnswered(device, client, hasWorked: true),
            .connectAnswered(device, client, hasWorked: false), .connectAbandoned(device, client),
            .connectConfirmed(device, client, isGranted: true), .connectConfirmed(device, client, isGranted: false),
            .clientCutOff(device, client: client.name), .clientGone(client: client.name),
        ]
    }
    for app in [red, blue] {
        events += [
            .disconnectRequested(device, app), .grantEnded(device, app), .appGone(app), .appPresent(app), .lingerEnded(app),
        ]
    }
    return events
}

/// The knowledge of an observer of the events, without a look into the value except at its public state.
private struct World: Hashable {
    /// The last report of the radio service that has not been taken back.
    var isUp = false
    var isResolved = false
    /// Each `Connect` without an outcome: true for one that has worked, and is to be confirmed.
    var attempts: [Client: [Bool: Int]] = [:]
    /// A drop waits for the attempts of others.
    var isUpForAttempts = false
    /// Whose time runs.
    var timers: Set<AppID> = []
    /// Who has asked for the link, among those who share it.
    var users: Set<Client> = []

    /// Whether an event can happen now. (An attempt of a client's is bounded, so that the walk is.)
    func allows(_ event: Event) -> Bool {
        switch event {
        case .connectRequested(_, let client): attempts[client, default: [:]].values.reduce(0, +) < (client == red1 ? 2 : 1)
        case .lingerEnded(let app): timers.contains(app)
        default: true
        }
    }

    /// Takes one `Connect` away, if there is one of this kind.
    mutating func endAttempt(_ client: Client, hasWorked: Bool) -> Bool {
        guard let count = attempts[client]?[hasWorked] else { return false }
        attempts[client]?[hasWorked] = count > 1 ? count - 1 : nil
        if attempts[client] == [:] { attempts[client] = nil }
        return true
    }
}

private struct Node: Hashable {
    var shares = LinkShares()
    var world = World()

    func holders(_ device: ObjectPath) -> Set<AppID> { Set(shares.shares.filter { $0.device == device }.map(\.app)) }
}

private func named(_ name: String) -> Client { clients.first { $0.name == name }! }

/// The rule for each event in each state: the holders of the link afterwards, the answer and the effects, derived from
/// the state before.
private func expectation(
    _ event: Event, _ holders: Set<AppID>, _ world: inout World
) -> (holders: Set<AppID>, answer: LinkShares.Answer?, drops: LinkShares.DropReason?, callsOff: Bool) {
    var after = holders
    var answer: LinkShares.Answer?
    var drops: LinkShares.DropReason?
    var callsOff = false
    /// Who waits for a link has it for now.
    func drop(_ reason: LinkShares.DropReason, _ world: inout World) {
        world.isUpForAttempts = !world.attempts.isEmpty
        if world.attempts.isEmpty { drops = reason }
    }
    func release(_ app: AppID, _ reason: LinkShares.DropReason, _ world: inout World) {
        if after.remove(app) != nil, after.isEmpty { drop(reason, &world) }
    }
    switch event {
    case .reported(_, let isConnected, let isResolved):
        world.isUp = isConnected ?? world.isUp
        world.isResolved = isResolved ?? world.isResolved
        if !world.isUp { after = [] }
    case .deviceRemoved, .unfollowed, .allUnfollowed:
        (world.isUp, world.isResolved, after) = (false, false, [])
    case .connectRequested(_, let client):
        answer = holders.contains(client.app) ? .held : .forward
        if answer == .held { world.users.insert(client) } else { world.attempts[client, default: [:]][false, default: 0] += 1 }
    case .connectAnswered(_, let client, let hasWorked):
        guard world.endAttempt(client, hasWorked: false) else { break }
        if hasWorked { world.attempts[client, default: [:]][true, default: 0] += 1 }
        // The last attempt for which the link was kept did not get it.
        if world.attempts.isEmpty, world.isUpForAttempts { drop(.unusedAfterAttempts, &world) }
    case .connectAbandoned(_, let client):
        if world.endAttempt(client, hasWorked: false) { callsOff = world.attempts.isEmpty && holders.isEmpty }
    case .connectConfirmed(_, let client, let isGranted):
        guard world.endAttempt(client, hasWorked: true) else {
            answer = .notGranted
            break
        }
        answer = isGranted ? world.isUp ? .held : .broken : .notGranted
        if answer == .held {
            after.insert(client.app)
            world.users.insert(client)
        }
        // A link that no client asks for any more does not stay up.
        if answer == .notGranted, world.isUp, holders.isEmpty { drop(.grantEndedMeanwhile, &world) }
    case .disconnectRequested(_, let app):
        if holders.subtracting([app]).isEmpty, world.attempts.keys.allSatisfy({ $0.app == app }) {
            answer = .forward
        } else {
            answer = holders.contains(app) ? .released : .notConnected
            if after.remove(app) != nil, after.isEmpty { world.isUpForAttempts = true }
        }
    case .grantEnded(_, let app): release(app, .grantEnded(app), &world)
    case .clientCutOff(_, let name), .clientGone(let name):
        if world.attempts.removeValue(forKey: named(name)) != nil { callsOff = world.attempts.isEmpty && holders.isEmpty }
        world.users.remove(named(name))
    case .appGone(let app): if holders.contains(app) { world.timers.insert(app) }
    case .appPresent(let app): world.timers.remove(app)
    case .lingerEnded(let app):
        world.timers.remove(app)
        release(app, .appGone(app), &world)
    case .discoveryRequested(_, let app, let inputs):
        let isUsed = world.users.contains { $0.app == app } || !holders.subtracting([app]).isEmpty
        if world.isUp, !isUsed, world.attempts.isEmpty, holders.contains(app) || inputs.isEmpty {
            after.remove(app)
            drops = .discovery(app)
        }
    }
    world.users = world.users.filter { after.contains($0.app) }
    if !world.isUp || !after.isEmpty || callsOff { world.isUpForAttempts = false }
    return (after, answer, drops, callsOff)
}

@Suite struct LinkSharesTests {
    @Test func everyEventHasItsRuleInEveryState() throws {
        var seen: Set<Node> = []
        var queue = [Node()]
        var steps = 0
        while let node = queue.popLast() {
            guard seen.insert(node).inserted else { continue }
            for event in alphabet(dice) where node.world.allows(event) {
                var next = node
                let before = node.holders(dice)
                let expected = expectation(event, before, &next.world)
                let decision = next.shares.handle(event)
                steps += 1
                func place() -> Comment { "\(event) with \(node.world), held by \(before): \(decision)" }
                try #require(next.holders(dice) == expected.holders, place())
                try #require(decision.answer == expected.answer, place())
                try check(decision.effects, of: event, from: node, to: next, expected.drops, expected.callsOff, place)
                queue.append(next)
            }
        }
        #expect(seen.count > 2500 && steps > 120_000, "the walk saw \(seen.count) states in \(steps) steps")
    }

    /// The invariants of every step, whatever the event.
    private func check(
        _ effects: [LinkShares.Effect], of event: Event, from old: Node, to new: Node, _ drops: LinkShares.DropReason?,
        _ callsOff: Bool, _ place: () -> Comment
    ) throws {
        let dropped = effects.compactMap { if case .drop(dice, let reason) = $0 { reason } else { nil } }
        try #require(dropped == (drops.map { [$0] } ?? []), place())
        try #require(effects.contains(.callOff(dice)) == callsOff, place())
        // No link is ended while a client waits for it, and none is kept for attempts that are over.
        let isEnded = !dropped.isEmpty || effects.contains(.callOff(dice))
        try #require(!isEnded || new.world.attempts.isEmpty && new.holders(dice).isEmpty, place())
        try #require(!new.world.isUpForAttempts || !new.world.attempts.isEmpty, place())
        try #require(Set(effects).count == effects.count, place())
        // An app sees only links that are up, and only its own.
        for app in [red, blue] {
            let state = new.shares.state(of: dice, seenBy: app)
            let holds = new.holders(dice).contains(app)
            try #require(state.isConnected == holds && new.shares.holds(dice, app) == holds, place())
            try #require(!holds || new.world.isUp && state.areServicesResolved == new.world.isResolved, place())
            try #require(holds || !state.areServicesResolved, place())
        }
        try #require(new.shares.state(of: dice, seenBy: nil) == LinkShares.State())
        // An app for which the state changes gets a signal before the link is ended, except where all is forgotten.
        let isForgotten = event == .unfollowed(dice) || event == .allUnfollowed
        let changed = [red, blue].contains { old.shares.state(of: dice, seenBy: $0) != new.shares.state(of: dice, seenBy: $0) }
        try #require(!changed || isForgotten || effects.first == .signal(dice), place())
        try #require(!isForgotten || effects.isEmpty, place())
        // One clock for each app, which is only for apps that hold something when it begins.
        for app in [red, blue] {
            try #require(!effects.contains(.startLinger(app)) || event == .appGone(app) && old.holders(dice).contains(app), place())
            try #require(
                effects.contains(.stopLinger(app)) == (event == .appPresent(app) && old.world.timers.contains(app)), place())
        }
        try #require(new.shares.heldDevices == (new.holders(dice).isEmpty ? [] : [dice]), place())
    }

    /// Every event again, beside a link that another app holds and waits for: nothing that concerns one device reaches
    /// another.
    @Test func oneDeviceIsNoOthersBusiness() {
        var shares = LinkShares()
        for event: Event in [
            .connectRequested(lamp, blue1), .reported(lamp, isConnected: true, areServicesResolved: true),
            .connectAnswered(lamp, blue1, hasWorked: true), .connectConfirmed(lamp, blue1, isGranted: true),
            .connectRequested(dice, red1), .reported(dice, isConnected: true, areServicesResolved: false),
            .connectAnswered(dice, red1, hasWorked: true), .connectConfirmed(dice, red1, isGranted: true),
        ] { _ = shares.handle(event) }
        for event in alphabet(dice) {
            switch event {
            // These are about all devices.
            case .allUnfollowed, .clientGone, .appGone, .appPresent, .lingerEnded: continue
            default: break
            }
            var next = shares
            let effects = next.handle(event).effects
            #expect(next.state(of: lamp, seenBy: blue) == shares.state(of: lamp, seenBy: blue), "\(event)")
            for effect in effects {
                switch effect {
                case .signal(let device), .drop(let device, _), .callOff(let device): #expect(device == dice, "\(event)")
                case .startLinger, .stopLinger: Issue.record("\(event)")
                }
            }
        }
    }

    /// Plays events and collects their answers and effects.
    private func play(_ events: [Event]) -> (shares: LinkShares, answers: [LinkShares.Answer?], effects: [[LinkShares.Effect]]) {
        var shares = LinkShares()
        let decisions = events.map { shares.handle($0) }
        return (shares, decisions.map(\.answer), decisions.map(\.effects))
    }

    private func connecting(_ client: Client, _ device: ObjectPath = dice) -> [Event] {
        [
            .connectRequested(device, client), .reported(device, isConnected: true, areServicesResolved: nil),
            .connectAnswered(device, client, hasWorked: true), .connectConfirmed(device, client, isGranted: true),
        ]
    }

    @Test func theLastAppEndsTheLink() {
        let (_, answers, effects) = play(
            connecting(red1) + connecting(blue1) + [.grantEnded(dice, red), .disconnectRequested(dice, blue)])
        #expect(answers.suffix(2) == [nil, .forward])
        #expect(effects.suffix(2) == [[.signal(dice)], []])
    }

    @Test func aSecondConnectionOfAnAppNeedNotConnect() {
        let (_, answers, _) = play(connecting(red1) + [.connectRequested(dice, red2), .connectRequested(dice, blue1)])
        #expect(answers.suffix(2) == [.held, .forward])
    }

    @Test func aDisconnectOfOneLeavesTheOthers() {
        let (shares, answers, effects) = play(
            connecting(red1) + connecting(blue1) + [.disconnectRequested(dice, red), .disconnectRequested(dice, red)])
        #expect(answers.suffix(2) == [.released, .notConnected])
        #expect(effects.suffix(2) == [[.signal(dice)], []])
        #expect(shares.shares.map(\.app) == [blue])
    }

    @Test func aRevokedGrantDropsTheLinkThatNobodyElseHolds() {
        let (shares, _, effects) = play(connecting(red1) + [.grantEnded(dice, red), .grantEnded(dice, red)])
        #expect(effects.suffix(2) == [[.signal(dice), .drop(dice, because: .grantEnded(red))], []])
        // Up, until the radio service says otherwise, but held by no app.
        #expect(shares.state(of: dice, seenBy: red) == LinkShares.State())
    }

    @Test func aConnectIsCalledOffByTheLastThatWaits() {
        let (_, _, effects) = play([
            .connectRequested(dice, red1), .connectRequested(dice, red1), .connectRequested(dice, blue1),
            .connectAbandoned(dice, red1), .clientGone(client: blue1.name), .clientCutOff(dice, client: red1.name),
        ])
        #expect(effects.suffix(3) == [[], [], [.callOff(dice)]])
    }

    @Test func aConnectIsNotCalledOffUnderWhoHoldsTheLink() {
        let (_, _, effects) = play(
            [.connectRequested(dice, blue1)] + connecting(red1) + [.connectAbandoned(dice, blue1)])
        #expect(effects.last == [])
    }

    @Test func aConnectThatHasWorkedIsNotCalledOffByAnother() {
        let (shares, answers, effects) = play([
            .connectRequested(dice, red1), .connectRequested(dice, blue1), .connectAnswered(dice, red1, hasWorked: true),
            .connectAbandoned(dice, blue1), .reported(dice, isConnected: true, areServicesResolved: nil),
            .connectConfirmed(dice, red1, isGranted: true),
        ])
        #expect(effects[3] == [])
        #expect(answers.last == .held && shares.holds(dice, red))
    }

    @Test func whoGoesBeforeAConnectThatWorkedIsConfirmedLeavesNothingUp() {
        let (_, _, effects) = play([
            .connectRequested(dice, red1), .connectAnswered(dice, red1, hasWorked: true), .clientGone(client: red1.name),
        ])
        #expect(effects.last == [.callOff(dice)])
    }

    @Test func aLinkStaysUpForWhoWaitsForIt() {
        let waiting = connecting(red1) + [.connectRequested(dice, blue1), .clientGone(client: red1.name), .appGone(red)]
        let worked: [Event] = [.connectAnswered(dice, blue1, hasWorked: true), .connectConfirmed(dice, blue1, isGranted: true)]
        for end: Event in [.disconnectRequested(dice, red), .grantEnded(dice, red), .lingerEnded(red)] {
            let (left, _, effects) = play(waiting + [end])
            #expect(left.shares.isEmpty && effects.last == [.signal(dice)], "\(end)")
            // It is the other's then; or goes down, if that does not get it.
            #expect(play(waiting + [end] + worked).shares.shares.map(\.app) == [blue], "\(end)")
            #expect(
                play(waiting + [end, .connectAnswered(dice, blue1, hasWorked: false)]).effects.last
                    == [.drop(dice, because: .unusedAfterAttempts)], "\(end)")
            #expect(play(waiting + [end, .connectAbandoned(dice, blue1)]).effects.last == [.callOff(dice)], "\(end)")
        }
    }

    @Test func aGrantThatEndsWhileItConnectsLeavesNothingUp() {
        let (_, answers, effects) = play([
            .connectRequested(dice, red1), .reported(dice, isConnected: true, areServicesResolved: nil),
            .connectAnswered(dice, red1, hasWorked: true), .connectConfirmed(dice, red1, isGranted: false),
        ])
        #expect(answers.last == .notGranted)
        #expect(effects.last == [.drop(dice, because: .grantEndedMeanwhile)])
    }

    @Test func aLinkThatBreaksIsLostForAll() {
        let (shares, answers, effects) = play(
            connecting(red1) + connecting(blue1) + [
                .disconnectRequested(dice, red), .connectRequested(dice, red1), .connectAnswered(dice, red1, hasWorked: true),
                .reported(dice, isConnected: false, areServicesResolved: false), .connectConfirmed(dice, red1, isGranted: true),
            ])
        #expect(effects.suffix(2) == [[.signal(dice)], []])
        #expect(answers.last == .broken)
        #expect(shares.shares.isEmpty)
    }

    @Test func sharesLingerAndEnd() {
        let left: [Event] = connecting(red1) + [.clientGone(client: red1.name), .appGone(red)]
        let (shares, _, effects) = play(left)
        #expect(effects.last == [.startLinger(red)])
        #expect(shares.heldDevices == [dice])
        #expect(
            play(left + [.lingerEnded(red)]).effects.last == [.signal(dice), .drop(dice, because: .appGone(red))])
        let (back, answers, stopped) = play(left + [.appPresent(red), .connectRequested(dice, red2), .lingerEnded(red)])
        #expect(stopped.suffix(3) == [[.stopLinger(red)], [], []])
        #expect(answers.suffix(2) == [.held, nil])
        #expect(back.holds(dice, red))
    }

    @Test func aSearchEndsWhatNobodyUses() {
        let up: Event = .reported(dice, isConnected: true, areServicesResolved: nil)
        let search: Event = .discoveryRequested([lamp, dice], red, inputs: [])
        // A rest of the pairing.
        #expect(play([up, search]).effects.last == [.drop(dice, because: .discovery(red))])
        // An input device is in use without any app.
        #expect(play([up, .discoveryRequested([dice], red, inputs: [dice])]).effects.last == [])
        // A connection that the app has lost.
        #expect(
            play(connecting(red1) + [.clientGone(client: red1.name), search]).effects.last
                == [.signal(dice), .drop(dice, because: .discovery(red))])
        // One that it uses, and another app's.
        #expect(play(connecting(red1) + [search]).effects.last == [])
        #expect(play(connecting(blue1) + [.clientGone(client: blue1.name), search]).effects.last == [])
        // One for which a client waits.
        #expect(play([.connectRequested(dice, blue1), up, search]).effects.last == [])
        #expect(
            play([.connectRequested(dice, red1), up, .connectAnswered(dice, red1, hasWorked: true), search]).effects.last == [])
    }
}

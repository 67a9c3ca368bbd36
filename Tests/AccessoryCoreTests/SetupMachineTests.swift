// SPDX-License-Identifier: Apache-2.0
// The setup machine: all reachable states and all events, with the invariants checked at every step; and the paths that
// people take.

import AccessoryCore
import AccessoryModel
import Testing

private let address = BluetoothAddress(value: 0xC0FF_EE00_0001, kind: .random)
private let accessory = AccessoryID("00000000-0000-4000-8000-000000000001")!
private func offer(_ id: String, pairs: Bool, shared: AccessoryID? = nil, setup: SetupOptions = []) -> Offer {
    Offer(
        id: id, device: RadioDeviceID("/dev/\(id)"), address: address, item: 0, name: id, advertisedName: id, rssi: -50,
        shared: shared, needsPairing: pairs, identifier: accessory, setup: setup)
}
private let pairing = offer("1", pairs: true)
private let plain = offer("2", pairs: false)
private let named = offer("3", pairs: true, setup: [.rename, .finishInApp])
private let confirmed = offer("4", pairs: false, setup: [.confirmAuthorization, .rename])
private let identity = PairedIdentity(address: address, device: RadioDeviceID("/dev/1"), wasPairedBefore: false)
private let old = PairedIdentity(address: address, device: RadioDeviceID("/dev/1"), wasPairedBefore: true)

/// Every kind of event, with every payload that makes a difference.
private let alphabet: [SetupMachine.Event] = [
    .begin, .offersChanged([]), .offersChanged([pairing]), .offersChanged([pairing, plain]), .offersChanged([named, confirmed]),
    .picked("1"), .picked("2"), .picked("3"), .picked("4"), .named("Kitchen"), .discoveryFinished, .bridgingStarted,
    .authorizationFinished(bridges: false, unseen: nil), .authorizationFinished(bridges: true, unseen: nil),
    .authorizationFinished(bridges: false, unseen: SSID("Dice")), .authorizationFinished(bridges: true, unseen: SSID("Dice")),
    .accessoryGone, .authorized, .authorizationFailed(SetupError(.connectionFailed, "no classic")), .renamed, .renameFailed("disk"),
    .migrated,
    .picked("never"), .answered(.accept), .answered(.reject), .answered(.passkey(1)), .answered(.pin("0")), .cancelled, .deadline,
    .radioLost("gone"), .appGone, .pickerGone, .prompted(.confirmPasskey(1)), .prompted(.enterPasskey),
    .prompted(.displayPasskey(1, entered: 0)), .prompted(.enterPIN), .prompted(.displayPIN("0")), .prompted(.consent),
    .paired(identity), .paired(old), .pairingFailed(SetupError(.connectionFailed, "no")), .stored(accessory),
    .storeFailed(SetupError(.unknown, "disk")),
]

/// The world as the effects have made it.
private struct World: Hashable {
    var isScanning = false
    var deadlineRuns = false
    var pairs: Offer?
    var pairedTo: PairedIdentity?
    var picked: Offer?
    var stores = false
    var stored = 0
    var dismissed = 0
    var added = 0
    var hasEnded = false
    var removedBonds = 0
    var bridges = false
    var isNamed = false
    var renames = false
    var removed = false
    var consented = false
    var migrates = false
    var migrations = 0
    var storeFailed = false
    /// The grant waits for the app's confirmation.
    var awaits = false

    /// Whether an event can happen in this world at all: radios and stores answer only requests.
    func allows(_ event: SetupMachine.Event, of machine: SetupMachine) -> Bool {
        switch event {
        case .bridgingStarted: pairs != nil
        case .authorized, .authorizationFailed: bridges
        case .renamed, .renameFailed: renames
        case .migrated: migrates
        case .authorizationFinished: machine.awaitedAuthorization != nil
        case .accessoryGone:
            if case .authorization = machine.purpose { true } else { machine.accessory != nil && !renames }
        case .answered: pairs != nil || bridges || machine.presentation.prompt != nil
        case .paired, .pairingFailed, .prompted: pairs != nil
        case .stored, .storeFailed: stores
        case .deadline: deadlineRuns
        default: true
        }
    }
}

extension SetupMachine.Purpose {
    /// Whether the world has reached the purpose of the run.
    fileprivate func isDone(_ world: World) -> Bool {
        switch self {
        case .discovery(_, let migrates): world.added == 1 && !world.removed && (!migrates || world.migrations == 1 || world.awaits)
        case .authorization, .renewal: world.stored == 1 && !world.stores && !world.storeFailed
        case .migration: world.migrations == 1
        case .rename: world.isNamed
        }
    }
}

private func perform(
    _ effects: [SetupMachine.Effect], after event: SetupMachine.Event, in world: inout World, offers: [Offer],
    purpose: SetupMachine.Purpose
) {
    #expect(!world.hasEnded || effects.isEmpty, "effects after the end: \(effects)")
    switch event {
    case .paired(let identity): (world.pairedTo, world.pairs) = (identity, nil)
    case .pairingFailed: world.pairs = nil
    case .stored: world.stores = false
    case .storeFailed: (world.stores, world.storeFailed) = (false, true)
    case .deadline: world.deadlineRuns = false
    case .authorized, .authorizationFailed: world.bridges = false
    case .renamed: (world.renames, world.isNamed) = (false, true)
    case .renameFailed: world.renames = false
    case .answered(.accept): world.consented = world.pairs == nil && !world.bridges
    case .migrated: world.migrates = false
    case .accessoryGone: world.removed = true
    default: break
    }
    for effect in effects {
        #expect(!world.hasEnded, "\(effect) after the end")
        switch effect {
        case .startScan:
            #expect(!world.isScanning)
            world.isScanning = true
        case .stopScan:
            #expect(world.isScanning)
            world.isScanning = false
        case .startDeadline:
            #expect(!world.deadlineRuns)
            world.deadlineRuns = true
        case .stopDeadline:
            #expect(world.deadlineRuns)
            world.deadlineRuns = false
        case .pair(let offer):
            #expect(world.pairs == nil && offer.needsPairing && offers.contains(offer))
            (world.pairs, world.picked) = (offer, offer)
        case .answer, .cancelPairing:
            #expect(world.pairs != nil || world.bridges)
            // A cancelled attempt ends by itself, and the machine does not wait for that.
            if effect == .cancelPairing { world.bridges = false }
        case .removeBond(let identity):
            #expect(!identity.wasPairedBefore, "an older bond was undone")
            world.removedBonds += 1
        case .store(let offer, let identity, let name):
            // Only an offer that asks for a name gets one, and a shared accessory is never renamed.
            #expect(name == nil || offer.setup.contains(.rename) && offer.shared == nil)
            // A grant is written only for an offer that was shown and picked, and paired where that is needed.
            #expect(offers.contains(offer) || world.picked == offer)
            #expect(offer.needsPairing == (identity != nil))
            #expect(identity == world.pairedTo)
            world.stores = true
            world.stored += 1
        case .renew:
            // Once the person has agreed.
            #expect(event == .picked("1") && world.stored == 0)
            world.stores = true
            world.stored += 1
        case .authorize:
            #expect(!world.bridges && world.added == 1)
            world.bridges = true
        case .rename:
            #expect(!world.renames)
            world.renames = true
        case .remove:
            #expect(world.added == 1 && !world.removed)
            world.removed = true
        case .migrate:
            // Only when the person agreed, or did not refuse in time, or along with an accessory that was set up.
            #expect((world.consented || world.added == 1) && world.migrations == 0)
            world.migrates = true
            world.migrations += 1
        case .emit(.accessoryAdded):
            #expect(world.dismissed == 0)
            world.added += 1
        case .emit(.pickerDidDismiss(let error)):
            let isDone = purpose.isDone(world)
            // An app that has left keeps the grants it received, and those that wait for its confirmation.
            #expect(isDone == (error == nil) || isDone && error?.code == .invalidated, "\(String(describing: error)) \(world)")
            world.dismissed += 1
        case .emit: #expect(world.dismissed == 0)
        case .end:
            #expect(world.dismissed == 1)
            world.hasEnded = true
        }
    }
}

private func offers(of machine: SetupMachine) -> [Offer] {
    switch machine.state {
    case .discovering(let discovery): discovery.offers
    case .pairing(let pairing): pairing.offers
    default: []
    }
}

@Suite struct SetupMachineTests {
    private struct Node: Hashable {
        var machine: SetupMachine
        var world = World()
    }

    static let purposes: [SetupMachine.Purpose] = [
        .discovery(isBounded: true, migrates: false), .discovery(isBounded: false, migrates: false),
        .discovery(isBounded: true, migrates: true), .authorization(isBounded: true), .migration([pairing]),
        .rename(accessory, offer("1", pairs: false, shared: accessory)),
        .renewal(accessory, offer("1", pairs: false, shared: accessory)),
    ]

    @Test(arguments: purposes)
    func allReachableStatesKeepTheInvariants(purpose: SetupMachine.Purpose) {
        var seen: Set<Node> = []
        var queue = [Node(machine: SetupMachine(purpose))]
        var finals = 0
        var steps = 0
        while let node = queue.popLast() {
            guard seen.insert(node).inserted else { continue }
            if node.machine.isFinished {
                finals += 1
                #expect(node.world.hasEnded && node.world.dismissed == 1 && !node.world.isScanning)
                #expect(!node.world.deadlineRuns && node.world.pairs == nil)
            } else {
                #expect(!node.world.hasEnded && node.world.dismissed == 0)
                // A scan runs exactly while a state needs it.
                #expect(node.world.isScanning == node.machine.needsScan, "\(node.machine.state)")
            }
            for event in alphabet {
                var next = node
                let before = next.machine
                do {
                    let effects = try next.machine.handle(event)
                    steps += 1
                    #expect(!before.isFinished, "a final state accepted \(event)")
                    guard node.world.allows(event, of: before) else {
                        // An impossible event has no consequence.
                        #expect(!effects.contains { if case .store = $0 { true } else { false } }, "\(before.state) \(event)")
                        continue
                    }
                    next.world.awaits = before.awaitedAuthorization != nil
                    perform(effects, after: event, in: &next.world, offers: offers(of: before), purpose: purpose)
                    queue.append(next)
                } catch {
                    #expect(next.machine == before, "a refusal changed the state: \(before.state) \(event)")
                }
            }
        }
        let isLong = if case .discovery = purpose { true } else { false }
        #expect(
            isLong ? seen.count > 100 && finals > 30 && steps > 1000 : seen.count > 5 && finals > 3 && steps > 20,
            "the walk saw \(seen.count) states, \(finals) final, \(steps) steps")
    }

    @Test(arguments: purposes)
    func theseEventsAreValidInAllStatesThatAreNotFinal(purpose: SetupMachine.Purpose) {
        let always: [SetupMachine.Event] = [.cancelled, .radioLost("x"), .appGone, .pickerGone]
        var seen: Set<SetupMachine> = []
        var queue = [SetupMachine(purpose)]
        while let machine = queue.popLast() {
            guard seen.insert(machine).inserted, !machine.isFinished else { continue }
            for event in always {
                var copy = machine
                #expect(throws: Never.self, "\(machine.state) refused \(event)") { try copy.handle(event) }
            }
            for event in alphabet {
                var next = machine
                if (try? next.handle(event)) != nil { queue.append(next) }
            }
        }
    }

    private func run(
        _ events: [SetupMachine.Event], purpose: SetupMachine.Purpose = .discovery(isBounded: true, migrates: false)
    ) throws -> (SetupMachine, [[SetupMachine.Effect]]) {
        var machine = SetupMachine(purpose)
        let effects = try events.map { try machine.handle($0) }
        return (machine, effects)
    }

    @Test func pairsThenStoresThenDismisses() throws {
        let (machine, effects) = try run([.begin, .offersChanged([pairing]), .picked("1"), .paired(identity), .stored(accessory)])
        #expect(
            effects == [
                [.startScan, .startDeadline, .emit(.pickerDidPresent)], [],
                [.stopDeadline, .emit(.pickerSetupPairing), .pair(pairing)], [.stopScan, .store(pairing, identity, name: nil)],
                [.emit(.accessoryAdded(accessory)), .emit(.pickerDidDismiss(nil)), .end],
            ])
        #expect(machine.presentation.stage == .done)
    }

    @Test func withoutPairingTheGrantIsWrittenAtOnce() throws {
        let (_, effects) = try run([.begin, .offersChanged([plain]), .picked("2")])
        #expect(effects[2] == [.stopDeadline, .stopScan, .store(plain, nil, name: nil)])
    }

    @Test func whatWasNeverOfferedIsRefused() throws {
        var (machine, _) = try run([.begin, .offersChanged([pairing])])
        #expect(throws: SetupMachine.Refusal.notOffered("never")) { try machine.handle(.picked("never")) }
        #expect(throws: SetupMachine.Refusal.notOffered("2")) { try machine.handle(.picked("2")) }
        _ = try machine.handle(.offersChanged([plain]))
        // Gone meanwhile: no longer offered.
        #expect(throws: SetupMachine.Refusal.notOffered("1")) { try machine.handle(.picked("1")) }
    }

    @Test func aFailedPairingCanBeTriedAgain() throws {
        let (machine, effects) = try run([
            .begin, .offersChanged([pairing]), .picked("1"), .pairingFailed(SetupError(.connectionFailed, "refused")), .picked("1"),
            .paired(identity),
        ])
        #expect(effects[3] == [.emit(.pickerSetupFailed(SetupError(.connectionFailed, "refused")))])
        #expect(effects[4] == [.emit(.pickerSetupPairing), .pair(pairing)])
        #expect(machine.presentation.stage == .pairing)
    }

    @Test func aFailedPairingWithNothingLeftSearchesForAsLongAgain() throws {
        let (machine, effects) = try run([
            .begin, .offersChanged([pairing]), .picked("1"), .offersChanged([]),
            .pairingFailed(SetupError(.connectionFailed, "gone")),
        ])
        #expect(effects[4].first == .startDeadline)
        #expect(machine.presentation.stage == .failed)
        var copy = machine
        #expect(
            try copy.handle(.deadline).contains(
                .emit(.pickerDidDismiss(SetupError(.discoveryTimeout, "no accessory for this app was found in time")))))
    }

    @Test func cancelWhilePairingWaitsForItsEndAndLeavesNoBond() throws {
        var (machine, effects) = try run([.begin, .offersChanged([pairing]), .picked("1"), .cancelled])
        #expect(effects[3] == [.stopScan, .cancelPairing])
        let end = try machine.handle(.paired(identity))
        #expect(end.first == .removeBond(identity))
        #expect(end.last == .end)
    }

    @Test func rule8TheDeadlineEndsOnlyAnEmptyPicker() throws {
        var (machine, _) = try run([.begin, .offersChanged([pairing]), .deadline])
        #expect(machine.presentation.stage == .offering)
        #expect(try machine.handle(.offersChanged([])) == [.startDeadline])
        #expect(try machine.handle(.deadline).last == .end)
    }

    @Test func promptsWantTheirOwnAnswer() throws {
        var (machine, _) = try run([.begin, .offersChanged([pairing]), .picked("1")])
        #expect(throws: SetupMachine.Refusal.notPrompted) { try machine.handle(.answered(.accept)) }
        _ = try machine.handle(.prompted(.enterPasskey))
        #expect(machine.presentation.stage == .confirming)
        #expect(throws: SetupMachine.Refusal.wrongAnswer(prompt: .enterPasskey)) { try machine.handle(.answered(.accept)) }
        #expect(try machine.handle(.answered(.passkey(7))) == [.answer(.passkey(7))])
        #expect(throws: SetupMachine.Refusal.notPrompted) { try machine.handle(.answered(.passkey(7))) }
        _ = try machine.handle(.prompted(.displayPasskey(5, entered: 3)))
        #expect(machine.presentation.stage == .pairing)
        #expect(machine.presentation.prompt == .displayPasskey(5, entered: 3))
    }

    @Test func aGrantThatCannotBeWrittenLeavesNoBond() throws {
        let (_, effects) = try run([
            .begin, .offersChanged([pairing]), .picked("1"), .paired(identity), .storeFailed(SetupError(.unknown, "disk full")),
        ])
        #expect(effects[4].first == .removeBond(identity))
        let (_, kept) = try run([
            .begin, .offersChanged([pairing]), .picked("1"), .paired(old), .storeFailed(SetupError(.unknown, "disk full")),
        ])
        #expect(!kept[4].contains(.removeBond(old)))
    }

    @Test func rule12ANameIsAskedForBeforeTheGrant() throws {
        let (machine, effects) = try run([
            .begin, .offersChanged([named]), .picked("3"), .paired(identity), .named("Kitchen"), .stored(accessory),
        ])
        #expect(effects[3] == [.stopScan, .emit(.pickerSetupRename)])
        #expect(effects[4] == [.store(named, identity, name: "Kitchen")])
        #expect(effects[5] == [.emit(.accessoryAdded(accessory)), .emit(.pickerDidDismiss(nil)), .end])
        #expect(machine.presentation.stage == .done && machine.presentation.finishInApp)
        let (_, kept) = try run([.begin, .offersChanged([named]), .picked("3"), .paired(identity), .cancelled])
        #expect(kept[4] == [.store(named, identity, name: nil)])
    }

    @Test func rule12TheAppsWordIsAwaited() throws {
        let begin: [SetupMachine.Event] = [.begin, .offersChanged([confirmed]), .picked("4"), .stored(accessory)]
        let (machine, effects) = try run(begin)
        #expect(effects[3] == [.emit(.accessoryAdded(accessory))])
        #expect(machine.presentation.stage == .confirming && machine.awaitedAuthorization == accessory)
        let (_, finished) = try run(
            begin + [.authorizationFinished(bridges: true, unseen: nil), .authorized, .named("Kitchen"), .renamed])
        #expect(
            finished[4...] == [
                [.emit(.pickerSetupBridging), .authorize(accessory, bridges: true)], [.emit(.pickerSetupRename)],
                [.rename(accessory, "Kitchen")],
                [.emit(.pickerDidDismiss(nil)), .end],
            ])
        for (event, code) in [
            (SetupMachine.Event.accessoryGone, SetupError.Code.connectionFailed), (.cancelled, .userCancelled),
        ] {
            var copy = machine
            let end = try copy.handle(event)
            // An accessory that is already gone need not be removed.
            let removes = event == .cancelled
            guard (end.first == .remove(accessory)) == removes, case .emit(.pickerDidDismiss(let error?)) = end[removes ? 1 : 0]
            else {
                Issue.record("\(event): \(end)")
                continue
            }
            #expect(error.code == code)
        }
        // An app that crashes finds the accessory waiting when it is back.
        var copy = machine
        #expect(try copy.handle(.appGone).contains(.remove(accessory)) == false)
    }

    /// Consent covers the network that was shown: about another one the person is asked.
    @Test(arguments: [false, true]) func aNetworkThatNoPersonHasSeenIsAskedAbout(bridges: Bool) throws {
        let network = SSID("Dice-9")!
        let begin: [SetupMachine.Event] = [
            .begin, .offersChanged([confirmed]), .picked("4"), .stored(accessory),
            .authorizationFinished(bridges: bridges, unseen: network),
        ]
        let (machine, effects) = try run(begin)
        #expect(effects[4].isEmpty && machine.presentation.prompt == .network(network))
        #expect(machine.presentation.stage == .confirming && machine.awaitedAuthorization == nil)
        let (_, accepted) = try run(begin + [.answered(.accept), .authorized])
        #expect(accepted[5].last == .authorize(accessory, bridges: bridges) && accepted[5].count == (bridges ? 2 : 1))
        // The app may go on without that network, or give the accessory back.
        let (declined, ends) = try run(begin + [.answered(.reject)])
        let code: SetupError.Code? = if case .emit(.pickerSetupFailed(let failure)) = ends[5].first { failure.code } else { nil }
        #expect(code == .userCancelled && declined.awaitedAuthorization == accessory)
        var refused = declined
        #expect(try refused.handle(.authorizationFinished(bridges: false, unseen: nil)) == [.emit(.pickerSetupRename)])
        var wrong = machine
        #expect(throws: SetupMachine.Refusal.self) { try wrong.handle(.answered(.passkey(1))) }
    }

    @Test func rule8DiscoveryIsFinishedByTheAppUnlessSomethingWasOffered() throws {
        let unbounded = SetupMachine.Purpose.discovery(isBounded: false, migrates: false)
        let (machine, effects) = try run([.begin, .discoveryFinished], purpose: unbounded)
        #expect(machine.isFinished && effects[1].first == .stopScan)
        let (open, none) = try run(
            [.begin, .offersChanged([plain]), .offersChanged([]), .discoveryFinished], purpose: unbounded)
        #expect(!open.isFinished && none[3].isEmpty)
    }

    // MARK: Several accessories in one run

    private static let another = offer("5", pairs: false, setup: [.pickSeveral])

    @Test func aRunForSeveralGoesOnAfterEach() throws {
        var machine = try begin(with: [Self.another])
        for count in 1...2 {
            #expect(try machine.handle(.picked("5")).contains(.store(Self.another, nil, name: nil)))
            #expect(try machine.handle(.stored(accessory)) == [.emit(.accessoryAdded(accessory)), .startScan, .startDeadline])
            #expect(machine.presentation.added == count)
            _ = try machine.handle(.offersChanged([Self.another]))
        }
        #expect(try machine.handle(.cancelled) == [.stopDeadline, .stopScan, .emit(.pickerDidDismiss(nil)), .end])
        #expect(!machine.isCancelledByPerson)
    }

    @Test func aRunForSeveralEndsWithItsTime() throws {
        var machine = try begin(with: [Self.another])
        _ = try machine.handle(.picked("5"))
        _ = try machine.handle(.stored(accessory))
        _ = try machine.handle(.offersChanged([Self.another]))
        #expect(try machine.handle(.deadline) == [.stopScan, .emit(.pickerDidDismiss(nil)), .end])
    }

    @Test func aFailureEndsNoneOfTheOthers() throws {
        let failure = SetupError(.unknown, "disk")
        var machine = try begin(with: [Self.another])
        _ = try machine.handle(.picked("5"))
        #expect(try machine.handle(.storeFailed(failure)) == [.emit(.pickerSetupFailed(failure)), .startScan, .startDeadline])
        _ = try machine.handle(.offersChanged([Self.another]))
        _ = try machine.handle(.picked("5"))
        _ = try machine.handle(.stored(accessory))
        // Its app gets no error for its new accessories; one that is gone gets nothing.
        var other = machine
        #expect(try machine.handle(.radioLost("gone")).suffix(2) == [.emit(.pickerDidDismiss(nil)), .end])
        #expect(try other.handle(.appGone).suffix(2) != [.emit(.pickerDidDismiss(nil)), .end])
    }

    private func begin(with offers: [Offer]) throws -> SetupMachine {
        var machine = SetupMachine(.discovery(isBounded: true, migrates: false))
        _ = try machine.handle(.begin)
        _ = try machine.handle(.offersChanged(offers))
        return machine
    }

    @Test func rule15MigrationsAloneAreAnnouncedAndRideAlongOtherwise() throws {
        let (asking, _) = try run([.begin], purpose: .migration([pairing]))
        #expect(asking.presentation.prompt == .consent && asking.presentation.offers == [pairing])
        var (copy, refused) = (asking, asking)
        var silent = asking
        #expect(try copy.handle(.answered(.accept)) == [.migrate])
        #expect(try silent.handle(.deadline) == [] && silent == asking)
        #expect(try copy.handle(.migrated) == [.emit(.pickerDidDismiss(nil)), .end])
        #expect(try refused.handle(.answered(.reject)).contains(.migrate) == false)
        let (_, mixed) = try run(
            [.begin, .offersChanged([plain]), .picked("2"), .stored(accessory), .migrated],
            purpose: .discovery(isBounded: true, migrates: true))
        #expect(mixed[3] == [.emit(.accessoryAdded(accessory)), .migrate])
        #expect(mixed[4] == [.emit(.pickerDidDismiss(nil)), .end])
    }
}

extension SetupMachine {
    /// Whether the run is over: every further event is refused.
    fileprivate var isFinished: Bool { if case .finished = state { true } else { false } }
}

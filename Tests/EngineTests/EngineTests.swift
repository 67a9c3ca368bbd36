// SPDX-License-Identifier: Apache-2.0
// The engine, with everything around it in the test's hand (EngineBench.swift).

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Testing

/// Bonds seen after a power cut, and which one is removed; 9 is the address that the accessory had before it was
/// paired.
struct TraceCase: Sendable {
    let bonds: [Int: String]
    let removed: Int

    init(_ bonds: [Int: String], removes removed: Int) {
        self.bonds = bonds
        self.removed = removed
    }
}

@Suite struct EngineTests {
    @Test func addsAnAccessory() throws {
        let bench = try Bench()
        let session = try bench.pickOne()
        #expect(bench.radio.pairing == RadioDeviceID("/dev/1") && bench.store.stored.intents.count == 1)
        bench.paired(1)
        #expect(
            bench.witness.events
                == ["activated", "pickerDidPresent", "pickerSetupPairing", "accessoryAdded", "pickerDidDismiss"].map {
                    "\(session.id):\($0)"
                })
        #expect(bench.store.stored.grants.count == 1 && bench.store.stored.intents.isEmpty)
        #expect(bench.radio.scans == 0 && bench.clock.active == 0 && bench.witness.openPickers == 0)
    }

    /// No owner holds another in a circle: tests and fuzzers make thousands.
    @Test func anEngineThatIsLetGoIsFreed() throws {
        weak var radio: ManualRadio?
        weak var clock: ManualClock?
        do {
            let bench = try Bench()
            _ = try bench.pickOne()
            bench.paired(1)
            (radio, clock) = (bench.radio, bench.clock)
        }
        #expect(radio == nil && clock == nil)
    }

    @Test func rule7OnePickerAtATime() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let first = try bench.session()
        let second = try bench.session(":other", app: "com.example.other")
        try bench.engine.showPicker(first, items: [bench.item()], settings: PickerSettings())
        for session in [first, second] {
            #expect { try bench.engine.showPicker(session, items: [bench.item()], settings: PickerSettings()) } throws: {
                ($0 as? SetupError)?.code == .pickerAlreadyActive
            }
        }
        #expect(bench.radio.scans == 1)
    }

    @Test func rule8TimesOut() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        try bench.engine.showPicker(try bench.session(), items: [bench.item()], settings: PickerSettings(discoveryTimeout: 5))
        bench.clock.advance(4.9)
        #expect(bench.engine.picker != nil)
        bench.clock.advance(0.2)
        #expect(bench.witness.errors == [.discoveryTimeout] && bench.radio.scans == 0 && bench.clock.active == 0)
    }

    @Test func withoutRadioOrPickerItIsRestricted() throws {
        for state in [RadioState.off, .absent] {
            let bench = try Bench(radioState: state)
            try bench.engine.registerPicker(ClientID(":picker"))
            #expect {
                try bench.engine.showPicker(try bench.session(), items: [bench.item()], settings: PickerSettings())
            } throws: {
                ($0 as? SetupError)?.code == .pickerRestricted
            }
        }
        let bench = try Bench()
        #expect { try bench.engine.showPicker(try bench.session(), items: [bench.item()], settings: PickerSettings()) } throws: {
            ($0 as? SetupError)?.code == .pickerRestricted
        }
    }

    @Test func aLostRadioEndsTheRun() throws {
        let bench = try Bench()
        _ = try bench.pickOne()
        bench.radio.state = .absent
        bench.radio.observer?.radioChanged(.absent, reason: "unplugged")
        #expect(bench.radio.isCancelled && bench.engine.picker != nil)
        bench.radio.observer?.pairingEnded(.failure(RadioFailure(.unavailable, "unplugged")))
        #expect(bench.engine.picker == nil && bench.witness.errors == [.connectionFailed] && bench.radio.scans == 0)
        // How far it got is unknown: the intent waits for the radio.
        #expect(bench.store.stored.intents.count == 1)
        bench.radio.state = .ready
        bench.radio.observer?.radioChanged(.ready, reason: "back")
        #expect(bench.store.stored.intents.isEmpty && bench.radio.removed.count == 1)
    }

    @Test func rule17TheAppsEndEndsItsPicker() throws {
        let bench = try Bench()
        _ = try bench.pickOne()
        bench.engine.clientGone(ClientID(":app"))
        #expect(bench.radio.isCancelled)
        bench.paired(1)
        // It succeeded all the same: the bond is undone, nothing is granted.
        #expect(bench.radio.removed.count == 1 && bench.store.stored.grants.isEmpty && bench.store.stored.intents.isEmpty)
        #expect(bench.engine.picker == nil && bench.engine.sessions.isEmpty)
    }

    @Test func rule17AnotherPickerTakesOver() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":one"))
        try bench.engine.registerPicker(ClientID(":two"))
        try bench.engine.showPicker(try bench.session(), items: [bench.item()], settings: PickerSettings())
        bench.engine.clientGone(ClientID(":one"))
        #expect(bench.engine.picker?.client == ClientID(":two"))
        bench.engine.clientGone(ClientID(":two"))
        #expect(bench.engine.picker == nil && bench.witness.errors == [.userCancelled])
    }

    @Test func aGrantThatCannotBeWrittenLeavesNothing() throws {
        let bench = try Bench()
        _ = try bench.pickOne()
        bench.store.isFull = true
        bench.paired(1)
        #expect(bench.witness.errors == [.unknown] && bench.engine.ledger == Ledger() && bench.radio.removed.count == 1)
    }

    @Test func anUnfinishedPairingIsUndoneAtStart() throws {
        let store = ManualStore()
        let address = BluetoothAddress(value: 9, kind: .public)
        store.stored.intents = [BondIntent(BluetoothPeer(address, adapter: nil), device: nil, purpose: .pairing)]
        let bench = try Bench(store: store)
        #expect(bench.radio.removed == [address] && store.stored.intents.isEmpty)
    }

    @Test func aBondWithAGrantIsNeverUndone() throws {
        let store = ManualStore()
        let address = BluetoothAddress(value: 9, kind: .public)
        store.stored.accessories = [
            Accessory(
                id: .random(), displayName: "x", address: address, isBonded: true, created: 0)
        ]
        store.stored.intents = [BondIntent(BluetoothPeer(address, adapter: nil), device: nil, purpose: .pairing)]
        let bench = try Bench(store: store)
        #expect(bench.radio.removed.isEmpty && store.stored.intents.isEmpty)
    }

    /// After a power cut a private address has become an identity: found by its name, or namelessness, among the new
    /// bonds.
    @Test(arguments: [
        TraceCase([10: "Die"], removes: 10), TraceCase([10: ""], removes: 10), TraceCase([10: "Die", 11: ""], removes: 10),
        TraceCase([10: "Die", 11: "Die"], removes: 9), TraceCase([10: "", 11: ""], removes: 9),
        TraceCase([10: "Other"], removes: 9), TraceCase([1: "Die"], removes: 9), TraceCase([2: "Die"], removes: 9),
    ])
    func anUnfinishedPairingIsFoundByItsTrace(_ trace: TraceCase) throws {
        func address(_ number: Int) -> BluetoothAddress { BluetoothAddress(value: UInt64(number), kind: .public) }
        let store = ManualStore()
        // 1 was there before; 2 is an app's.
        store.stored.accessories = [
            Accessory(
                id: .random(), displayName: "x", address: address(2), isBonded: true, created: 0)
        ]
        store.stored.intents = [
            BondIntent(
                BluetoothPeer(address(9), adapter: nil), device: nil, purpose: .pairing,
                trace: BondIntent.Trace(name: "Die", olderBonds: [address(1).description]))
        ]
        let bench = try Bench(store: store, radioState: .off)
        bench.radio.bonds = trace.bonds.map { RadioBond(address: address($0), device: RadioDeviceID("/dev/\($0)"), name: $1) }
        bench.radio.state = .ready
        bench.radio.observer?.radioChanged(.ready, reason: "test")
        #expect(bench.radio.removed == [address(trace.removed)] && store.stored.intents.isEmpty)
    }

    @Test func aBondThatCannotBeRemovedIsTriedAgain() throws {
        let bench = try Bench()
        let session = try bench.pickOne()
        bench.paired(1)
        bench.radio.removals = .failure(RadioFailure(.other, "busy"))
        var done = false
        try bench.engine.removeAccessory(session, try #require(bench.engine.ledger.accessories.keys.first)) { done = true }
        #expect(done && bench.engine.ledger == Ledger() && bench.store.stored.intents.count == 1)
        bench.radio.removals = .success(())
        bench.radio.observer?.radioChanged(.ready, reason: "again")
        #expect(bench.store.stored.intents.isEmpty)
    }

    /// A bond that is being removed would take a new one along.
    @Test(arguments: ["removed", "refused", "cancelled"])
    func aPairingWaitsForARemoval(end: String) throws {
        let bench = try Bench()
        _ = try bench.pickOne()
        bench.radio.holdsRemovals = true
        bench.radio.pairing = nil
        bench.radio.observer?.pairingEnded(.failure(RadioFailure(.timeout, "no link")))
        // The object has gone, and the picked accessory is offered still.
        bench.radio.observer?.lost(BluetoothAddress(value: 1, kind: .public))
        let picker = try #require(bench.engine.picker)
        try bench.engine.pick(picker, offer: try #require(picker.presentation.offers.first?.id))
        #expect(bench.radio.pairing == nil && bench.radio.removed.count == 1 && bench.store.stored.intents.count == 1)
        switch end {
        case "removed":
            bench.radio.finishRemovals()
            #expect(bench.radio.pairing == RadioDeviceID("/dev/1"))
            bench.hear(1)
            bench.paired(1)
            #expect(bench.engine.ledger.grants.count == 1 && bench.store.stored.intents.isEmpty)
        case "refused":
            bench.radio.removals = .failure(RadioFailure(.other, "busy"))
            bench.radio.finishRemovals()
            #expect(bench.radio.pairing == nil && bench.witness.errors == [.connectionFailed, .connectionFailed])
        default:
            try bench.engine.cancel(picker)
            #expect(bench.engine.picker == nil && !bench.radio.isCancelled)
            bench.radio.finishRemovals()
            #expect(bench.radio.pairing == nil && bench.store.stored.intents.isEmpty)
        }
    }

    /// The radio is asked again at growing distances, and no longer once the bond is gone.
    @Test func aBondThatCannotBeRemovedIsTriedAgainAfterAWhile() throws {
        let bench = try Bench()
        let session = try bench.pickOne()
        bench.paired(1)
        bench.radio.removals = .failure(RadioFailure(.other, "busy"))
        try bench.engine.removeAccessory(session, try #require(bench.engine.ledger.accessories.keys.first)) {}
        for seconds in [1.0, 2, 4, 8, 16, 32, 60, 60] {
            bench.clock.advance(seconds)
            #expect(bench.store.stored.intents.count == 1)
        }
        bench.radio.removals = .success(())
        bench.clock.advance(59)
        #expect(bench.store.stored.intents.count == 1)
        bench.clock.advance(1)
        #expect(bench.store.stored.intents.isEmpty)
    }

    /// A program that shows the trail has a name for the accessory of each line, at that moment.
    @Test func linesAreToldWhileTheirAccessoryIsThere() throws {
        let bench = try Bench()
        let session = try bench.pickOne()
        bench.paired(1)
        let id = try #require(bench.engine.ledger.accessories.keys.first)
        try bench.engine.removeAccessory(session, id) {}
        #expect(bench.witness.comings == ["appeared", "granted", "revoked", "disappeared"])
    }

    /// A line that the disk did not take waits for it, and is reported once; a change is written with the lines that
    /// wait.
    @Test func linesWaitForTheDisk() throws {
        let bench = try Bench()
        _ = try bench.pickOne()
        bench.store.isFull = true
        bench.paired(1)
        bench.clock.advance(1)
        #expect(bench.trail.lines.isEmpty)
        bench.store.isFull = false
        bench.clock.advance(60)
        let before = bench.trail.lines.map(\.event)
        #expect(before.contains(.picked) && !before.contains(.granted))
        #expect(bench.trail.lines.map(\.event).filter { $0 == .picked }.count == 1)
    }

    @Test func rule13EverySessionOfTheAppIsTold() throws {
        let bench = try Bench()
        let session = try bench.pickOne()
        let other = try bench.session(":second")
        bench.paired(1)
        let grant = try #require(bench.engine.ledger.grants.values.first)
        bench.witness.clearEvents()
        try bench.engine.revoke(grant, reason: "test", by: .admin("root"))
        #expect(bench.witness.events == ["\(session.id):accessoryRemoved", "\(other.id):accessoryRemoved"])
    }

    // MARK: Other requests of apps

    @Test func rule9NothingIsOfferedBeforeTheAppSaysSo() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        try bench.engine.showPicker(
            session, items: [bench.item()], settings: PickerSettings(discoveryTimeout: nil, options: .filterDiscoveryResults))
        let run = try #require(bench.engine.picker)
        bench.hear(1)
        bench.hear(2)
        bench.hear(1, rssi: -60)
        // Its name may be on the way still.
        #expect(bench.witness.discovered.isEmpty)
        bench.clock.advance(1)
        #expect(bench.witness.discovered.count == 2 && run.presentation.offers.isEmpty)
        let stranger = DiscoveredItem(name: "x", image: nil, identifier: .random())
        #expect { try bench.engine.updatePicker(session, items: [stranger]) } throws: {
            ($0 as? SetupError)?.message.contains(stranger.identifier.rawValue) == true
        }
        let second = bench.witness.discovered[1]
        try bench.engine.updatePicker(
            session, items: [DiscoveredItem(name: "More specific", image: nil, identifier: second.identifier)])
        #expect(run.presentation.offers.map(\.name) == ["More specific"])
        // After an update that showed something, the app's end of discovery has no effect.
        try bench.engine.finishPickerDiscovery(session)
        #expect(bench.engine.picker != nil)
        try bench.engine.pick(run, offer: try #require(run.presentation.offers.first?.id))
        bench.paired(2)
        let accessory = try #require(bench.engine.ledger.accessories.values.first)
        #expect(accessory.id == second.identifier && accessory.displayName == "More specific")
    }

    @Test func anAppCallsItsOwnPickerOff() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let (session, other) = (try bench.session(), try bench.session(":app2"))
        func isRefused(_ session: Session) -> Bool {
            do throws(SetupError) {
                try bench.engine.cancelPicker(session) { Issue.record("it was accepted") }
                return false
            } catch {
                return error.code == .invalidRequest
            }
        }
        #expect(isRefused(session))
        try bench.engine.showPicker(session, items: [bench.item()], settings: PickerSettings())
        bench.hear(1)
        // Another session of the same app has not asked for it.
        #expect(isRefused(other) && bench.engine.picker != nil)
        bench.witness.clearEvents()
        var isAnsweredFirst = false
        try bench.engine.cancelPicker(session) { isAnsweredFirst = bench.witness.events.isEmpty }
        #expect(isAnsweredFirst && bench.witness.events == ["1:pickerDidDismiss"] && bench.witness.errors == [.userCancelled])
        #expect(bench.engine.picker == nil && bench.radio.scans == 0 && isRefused(session))
        // While the person is asked for a name.
        try bench.engine.showPicker(session, items: [bench.item(pairs: false)], settings: PickerSettings())
        bench.hear(1)
        try bench.engine.pick(
            try #require(bench.engine.picker), offer: try #require(bench.engine.picker?.presentation.offers.first?.id))
        let renamed = try #require(bench.engine.ledger.accessories.keys.first)
        try bench.engine.renameAccessory(session, renamed, options: [])
        try bench.engine.cancelPicker(session)
        #expect(bench.engine.picker == nil && bench.witness.errors == [.userCancelled, .userCancelled])
        bench.engine.invalidate(session, reason: "over")
        #expect { try bench.engine.cancelPicker(session) } throws: { ($0 as? SetupError)?.code == .invalidated }
    }

    @Test func rule23WhatAnAppCallsOffIsTakenBackAtItsRequest() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        var item = bench.item(pairs: false)
        item.setupOptions = [.confirmAuthorization]
        for isTheApps in [true, false] {
            try bench.engine.showPicker(session, items: [item], settings: PickerSettings())
            bench.hear(1)
            let run = try #require(bench.engine.picker)
            try bench.engine.pick(run, offer: try #require(run.presentation.offers.first?.id))
            #expect(bench.engine.ledger.grants.values.map(\.state) == [.awaitingAuthorization])
            if isTheApps { try bench.engine.cancelPicker(session) } else { try bench.engine.cancel(run) }
            #expect(bench.engine.ledger == Ledger() && bench.engine.picker == nil)
            bench.engine.flushAudit()
            let line = try #require(bench.trail.lines.last { $0.event == .revoked })
            #expect(line.who == (isTheApps ? ":app" : ":picker"))
        }
    }

    @Test func rule14ANameReachesEveryAppAndTheRadio() throws {
        let bench = try Bench()
        let session = try bench.pickOne()
        bench.paired(1)
        let accessory = try #require(bench.engine.ledger.accessories.values.first)
        _ = try bench.session(":app2")
        try bench.engine.renameAccessory(session, accessory.id, options: [])
        let run = try #require(bench.engine.picker)
        #expect(run.presentation.stage == .renaming && run.request.kind == "rename" && bench.radio.scans == 0)
        bench.witness.clearEvents()
        try bench.engine.rename(run, to: "Kitchen")
        #expect(bench.witness.events == ["1:accessoryChanged", "2:accessoryChanged", "1:pickerDidDismiss"])
        #expect(bench.store.stored.accessories.first?.displayName == "Kitchen")
        #expect(bench.radio.aliases == [try #require(accessory.address): "Kitchen"])
    }

    @Test func rule12TheAppFinishesFailsOrComesBackLater() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        var item = bench.item(pairs: false)
        item.setupOptions = [.confirmAuthorization]
        func pick(_ session: Session) throws -> AccessoryID {
            try bench.engine.showPicker(session, items: [item], settings: PickerSettings())
            bench.hear(1)
            try bench.engine.pick(
                try #require(bench.engine.picker), offer: try #require(bench.engine.picker?.presentation.offers.first?.id))
            return try #require(bench.engine.ledger.accessories.keys.first)
        }
        let session = try bench.session()
        var id = try pick(session)
        #expect(bench.engine.ledger.grants.values.map(\.state) == [.awaitingAuthorization])
        try bench.engine.failAuthorization(session, id) {}
        #expect(bench.engine.ledger == Ledger() && bench.engine.picker == nil && bench.witness.errors == [.connectionFailed])
        id = try pick(session)
        bench.engine.invalidate(session, reason: "crash")
        #expect(bench.engine.picker == nil && bench.engine.ledger.grants.count == 1)
        let back = try bench.session(":app2")
        try bench.engine.finishAuthorization(back, id, settings: AuthorizationSettings())
        #expect(bench.engine.ledger.grants.values.map(\.state) == [.authorized])
        #expect { try bench.engine.finishAuthorization(back, id, settings: AuthorizationSettings()) } throws: {
            ($0 as? SetupError)?.code == .invalidRequest
        }
    }

    @Test func bridgingByTheAppsIdentifier() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        var item = bench.item()
        item.descriptor.supportedOptions = [.pairingLE, .transportBridging]
        item.setupOptions = [.confirmAuthorization]
        try bench.engine.showPicker(session, items: [item], settings: PickerSettings())
        bench.hear(1)
        try bench.engine.pick(
            try #require(bench.engine.picker), offer: try #require(bench.engine.picker?.presentation.offers.first?.id))
        // The app may know the address: the classic side waits for it.
        #expect(bench.radio.support == .pairingLE)
        bench.paired(1)
        let id = try #require(bench.engine.ledger.accessories.keys.first)
        let classic = BluetoothAddress(value: 77, kind: .public)
        for isDone in [false, true] {
            try bench.engine.finishAuthorization(session, id, settings: AuthorizationSettings(bridgingAddress: classic))
            #expect(bench.radio.bridged == classic && bench.engine.picker?.presentation.stage == .bridging)
            bench.radio.bridging?(isDone ? .success(classic) : .failure(RadioFailure(.connection, "not there")))
        }
        #expect(bench.witness.errors == [.connectionFailed] && bench.engine.picker == nil)
        #expect(bench.engine.ledger.granted(id)?.grant.terms.classicAddress == classic)
    }

    @Test func rule15MigrationTakesOverWhatTheRadioKnows() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        bench.radio.bonds = [7, 8].map {
            RadioBond(
                address: BluetoothAddress(value: $0, kind: .random), device: RadioDeviceID("/dev/\($0)"), name: "Old",
                services: [bench.service])
        }
        func migration(_ value: UInt64) -> DisplayItem {
            var item = bench.item("Die \(value)")
            item.migration = Migration()
            item.migration?.peripheral = .address(value)
            return item
        }
        #expect { try bench.engine.showPicker(session, items: [migration(9)], settings: PickerSettings()) } throws: {
            ($0 as? SetupError)?.message.contains("00:00:00:00:00:09") == true
        }
        try bench.engine.showPicker(session, items: [migration(7), migration(8)], settings: PickerSettings())
        let run = try #require(bench.engine.picker)
        #expect(run.request.kind == "migration" && bench.engine.ledger == Ledger() && bench.radio.scans == 0)
        bench.witness.clearEvents()
        try bench.engine.respond(run, answer: .accept)
        #expect(bench.witness.events == ["1:migrationComplete", "1:migrationComplete", "1:pickerDidDismiss"])
        #expect(bench.engine.ledger.accessories.values.allSatisfy(\.isBonded) && bench.engine.ledger.grants.count == 2)
    }

    @Test func rule15MigrationRidesAlongWithANewAccessory() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        let old = BluetoothAddress(value: 7, kind: .random)
        bench.radio.bonds = [RadioBond(address: old, device: RadioDeviceID("/dev/7"), name: "Old", services: [bench.service])]
        var migration = bench.item("Old die")
        migration.migration = Migration()
        migration.migration?.peripheral = .address(7)
        try bench.engine.showPicker(session, items: [migration, bench.item(pairs: false)], settings: PickerSettings())
        let run = try #require(bench.engine.picker)
        #expect(run.ridingAlong.map(\.name) == ["Old die"])
        try bench.engine.cancel(run)
        #expect(bench.engine.ledger == Ledger())
        bench.clock.advance(2)
        try bench.engine.showPicker(session, items: [migration, bench.item(pairs: false)], settings: PickerSettings())
        bench.hear(1)
        bench.witness.clearEvents()
        try bench.engine.pick(
            try #require(bench.engine.picker), offer: try #require(bench.engine.picker?.presentation.offers.first?.id))
        #expect(bench.witness.events == ["1:accessoryAdded", "1:migrationComplete", "1:pickerDidDismiss"])
    }

    @Test func anAccessoryGetsWhatANewDescriptorAsksFor() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        try bench.engine.showPicker(session, items: [bench.item(pairs: false)], settings: PickerSettings())
        bench.hear(1)
        try bench.engine.pick(
            try #require(bench.engine.picker), offer: try #require(bench.engine.picker?.presentation.offers.first?.id))
        let id = try #require(bench.engine.ledger.accessories.keys.first)
        #expect(bench.engine.ledger.accessories[id]?.isBonded == false)
        try bench.engine.updateAuthorization(session, id, descriptor: bench.item().descriptor)
        let run = try #require(bench.engine.picker)
        // Pairing needs the accessory in range; other devices in range are not meant.
        bench.hear(2)
        #expect(run.presentation.offers.isEmpty && run.request.kind == "authorization")
        bench.hear(1)
        bench.witness.clearEvents()
        try bench.engine.pick(run, offer: try #require(run.presentation.offers.first?.id))
        bench.paired(1)
        #expect(bench.witness.events == ["1:pickerSetupPairing", "1:accessoryChanged", "1:pickerDidDismiss"])
        #expect(bench.engine.ledger.accessories[id]?.isBonded == true && bench.engine.ledger.grants.count == 1)
    }

    @Test func rule19LimitsHold() throws {
        let bench = try Bench()
        for _ in 0..<Limits.sessionsPerUser { _ = try bench.session() }
        #expect { try bench.session() } throws: { ($0 as? SetupError)?.message.contains("\(Limits.sessionsPerUser)") == true }
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try #require(bench.engine.sessions.values.first)
        try bench.engine.showPicker(session, items: [bench.item()], settings: PickerSettings())
        for number in 1...(Limits.offersShown + 20) { bench.hear(number, rssi: -50 - number % 40) }
        let offers = try #require(bench.engine.picker).presentation.offers
        #expect(offers.count == Limits.offersShown)
        // The farthest were left out.
        #expect((offers.compactMap(\.rssi).min() ?? -128) > -85)
    }
}

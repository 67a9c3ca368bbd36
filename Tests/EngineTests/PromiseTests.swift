// SPDX-License-Identifier: Apache-2.0
// The promise, one defect each: an app reaches the accessories that were granted to it, for as long as the grant
// stands, and no bonds but ours are removed.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Testing

private func address(_ value: UInt64) -> BluetoothAddress { BluetoothAddress(value: value, kind: .public) }
private let admin = Requester.admin("root")

extension Bench {
    /// A person picks the die, for an app that confirms it or not, and it is granted.
    fileprivate func grantOne(app id: String, confirming: Bool = false, client: String = ":app", number: Int = 1) throws -> (
        session: Session, accessory: AccessoryID
    ) {
        if engine.pickerPrograms.isEmpty { try engine.registerPicker(ClientID(":picker")) }
        let session = try session(client, app: id)
        var item = item()
        if confirming { item.setupOptions = .confirmAuthorization }
        try engine.showPicker(session, items: [item], settings: PickerSettings())
        hear(number)
        let run = try #require(engine.picker)
        try engine.pick(run, offer: try #require(run.presentation.offers.first?.id))
        if radio.pairing != nil { paired(number) }
        let accessory = try #require(engine.ledger.accessory(at: address(UInt64(number))))
        return (session, accessory.id)
    }
}

@Suite struct PromiseTests {
    @Test func whatIsRevokedDuringAnUpdateStaysRevoked() throws {
        let bench = try Bench()
        let (session, id) = try bench.grantOne(app: "a.a")
        let descriptor = try #require(bench.engine.ledger.granted(id)).grant.terms.descriptor
        var wanted = descriptor
        wanted.supportedOptions = [.pairingLE, .hid]
        try bench.engine.updateAuthorization(session, id, descriptor: wanted)
        bench.hear(1)
        let run = try #require(bench.engine.picker)
        try bench.engine.pick(run, offer: try #require(run.presentation.offers.first?.id))
        let grant = try #require(bench.engine.ledger.grants.values.first)
        try bench.engine.revoke(grant, reason: "test", by: admin)
        bench.paired(1)
        #expect(bench.engine.ledger == Ledger() && bench.engine.picker == nil)
        #expect(bench.radio.removed.contains(address(1)))
    }

    /// A stranger who has a new address each minute does not fill the memory, or the trail, of a picker without a
    /// deadline.
    @Test func whatWasOfferedIsNotedWithinABound() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        var settings = PickerSettings()
        settings.discoveryTimeout = nil
        try bench.engine.showPicker(try bench.session(), items: [bench.item()], settings: settings)
        for number in 1...600 {
            bench.hear(number)
            bench.radio.observer?.lost(BluetoothAddress(value: UInt64(number), kind: .public))
            bench.clock.advance(5)
        }
        bench.engine.flushAudit()
        #expect(bench.trail.lines.count { $0.event == .offered } == Limits.discoveredPerPicker)
    }

    @Test func oneAppsWordIsNotAnothers() throws {
        let bench = try Bench()
        func bridged(_ name: String, _ client: String) throws -> (Session, AccessoryID) {
            if bench.engine.pickerPrograms.isEmpty { try bench.engine.registerPicker(ClientID(":picker")) }
            let session = try bench.session(client, app: name)
            var item = bench.item()
            item.descriptor.supportedOptions = [.pairingLE, .transportBridging]
            item.setupOptions = .confirmAuthorization
            try bench.engine.showPicker(session, items: [item], settings: PickerSettings())
            bench.hear(1)
            let run = try #require(bench.engine.picker)
            try bench.engine.pick(run, offer: try #require(run.presentation.offers.first?.id))
            if bench.radio.pairing != nil { bench.paired(1) }
            return (session, try #require(bench.engine.ledger.accessory(at: address(1))).id)
        }
        let (first, id) = try bridged("a.a", ":a")
        bench.engine.invalidate(first, reason: "test")
        let (second, _) = try bridged("a.b", ":b")
        try bench.engine.finishAuthorization(second, id, settings: AuthorizationSettings())
        bench.radio.bridging?(.success(address(1)))
        #expect(bench.engine.ledger.grant(of: id, to: AppID("a.b")!)?.state == .authorized)
        #expect(bench.engine.ledger.grant(of: id, to: AppID("a.a")!)?.state == .awaitingAuthorization)
    }

    @Test func aPickerThatWaitsIsNotAnsweredByAnotherApp() throws {
        let bench = try Bench()
        let (first, id) = try bench.grantOne(app: "a.a", confirming: true, client: ":a")
        bench.engine.invalidate(first, reason: "test")
        let (_, _) = try bench.grantOne(app: "a.b", confirming: true, client: ":b")
        let again = try bench.session(":a2", app: "a.a")
        try bench.engine.finishAuthorization(again, id, settings: AuthorizationSettings())
        #expect(bench.engine.picker?.presentation.stage == .confirming)
        #expect(bench.engine.ledger.grant(of: id, to: AppID("a.b")!)?.state == .awaitingAuthorization)
    }

    private func migration(_ bench: Bench, _ value: UInt64) -> DisplayItem {
        var item = bench.item("Die")
        item.migration = Migration()
        item.migration?.peripheral = .address(value)
        return item
    }

    @Test func aSilentPickerProgramMakesWayForTheNext() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":page"), lease: 90)
        try bench.engine.registerPicker(ClientID(":terminal"))
        let session = try bench.session()
        var settings = PickerSettings()
        settings.discoveryTimeout = nil
        try bench.engine.showPicker(session, items: [bench.item()], settings: settings)
        // A renewed registration goes on, by the lease that it has.
        bench.clock.advance(60)
        try bench.engine.registerPicker(ClientID(":page"))
        bench.clock.advance(60)
        #expect(bench.engine.picker?.client == ClientID(":page"))
        bench.clock.advance(31)
        #expect(bench.engine.picker?.client == ClientID(":terminal"))
        #expect(bench.engine.pickerPrograms.map(\.client) == [ClientID(":terminal")])
        // Back again, behind the one that took over; and without leases nothing is waited for.
        let active = bench.clock.active
        try bench.engine.registerPicker(ClientID(":page"), lease: 90)
        bench.engine.unregisterPicker(ClientID(":page"))
        #expect(bench.clock.active == active)
        #expect(bench.engine.pickerPrograms.map(\.client) == [ClientID(":terminal")])
    }

    @Test func migrationTakesOnlyWhatTheDescriptorLooksFor() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        let keyboard = RadioBond(
            address: address(7), device: RadioDeviceID("/dev/7"), name: "Keyboard", services: [BluetoothUUID("1812")!])
        let unknown = RadioBond(address: address(8), device: RadioDeviceID("/dev/8"), name: "Die")
        bench.radio.bonds = [keyboard, unknown]
        var said: Set<String> = []
        for value: UInt64 in [7, 8, 9] {
            #expect { try bench.engine.showPicker(session, items: [migration(bench, value)], settings: PickerSettings()) } throws: {
                guard let error = $0 as? SetupError else { return false }
                // The same for a paired accessory that does not match as for one that is not paired.
                said.insert(error.message.replacing("0\(value)", with: "0x"))
                return error.code == .invalidRequest
            }
        }
        #expect(said.count == 1, "\(said)")
        #expect(bench.engine.ledger == Ledger() && bench.engine.picker == nil)
    }

    @Test func migrationIsHeldAgainstPolicyAndNeedsAWord() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        bench.radio.bonds = [
            RadioBond(address: address(7), device: RadioDeviceID("/dev/7"), name: "Die", services: [bench.service])
        ]
        try bench.engine.showPicker(session, items: [migration(bench, 7)], settings: PickerSettings())
        bench.clock.advance(86_400)
        #expect(bench.engine.ledger == Ledger() && bench.engine.picker?.presentation.prompt == .consent)
        // A rule that comes meanwhile.
        var policy = AccessPolicy()
        policy.denials = [.init(name: "no", source: "x.conf", apps: nil, target: .init(address: 7))]
        bench.engine.setPolicy(policy)
        try bench.engine.respond(try #require(bench.engine.picker), answer: .accept)
        #expect(bench.engine.ledger == Ledger() && bench.witness.errors.contains(.userRestricted))
        #expect(throws: SetupError.self) {
            try bench.engine.showPicker(session, items: [migration(bench, 7)], settings: PickerSettings())
        }
    }

    @Test func aBondThatWeDidNotMakeStays() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        bench.radio.bonds = [
            RadioBond(address: address(7), device: RadioDeviceID("/dev/7"), name: "Die", services: [bench.service])
        ]
        try bench.engine.showPicker(session, items: [migration(bench, 7)], settings: PickerSettings())
        try bench.engine.respond(try #require(bench.engine.picker), answer: .accept)
        let id = try #require(bench.engine.ledger.accessories.keys.first)
        try bench.engine.removeAccessory(session, id) {}
        #expect(bench.engine.ledger == Ledger() && bench.radio.removed.isEmpty && bench.store.stored.intents.isEmpty)
    }

    @Test func theClassicAddressOfSomebodyElseIsRefused() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        var item = bench.item()
        item.descriptor.supportedOptions = [.pairingLE, .transportBridging]
        item.setupOptions = .confirmAuthorization
        try bench.engine.showPicker(session, items: [item], settings: PickerSettings())
        bench.hear(1)
        let run = try #require(bench.engine.picker)
        try bench.engine.pick(run, offer: try #require(run.presentation.offers.first?.id))
        bench.paired(1)
        let id = try #require(bench.engine.ledger.accessories.keys.first)
        bench.radio.bonds = [RadioBond(address: address(5), device: RadioDeviceID("/dev/5"), name: "Headphones")]
        var settings = AuthorizationSettings()
        settings.bridgingAddress = address(5)
        try bench.engine.finishAuthorization(session, id, settings: settings)
        #expect(bench.radio.bridged == nil && bench.witness.errors.contains(.connectionFailed))
        #expect(bench.engine.ledger.granted(id)?.grant.terms.classicAddress == nil)
        try bench.engine.removeAccessory(session, id) {}
        #expect(!bench.radio.removed.contains(address(5)))
    }

    @Test func anUpdateIsHeldAgainstPolicyAndChangesNoTraits() throws {
        let bench = try Bench()
        let (session, id) = try bench.grantOne(app: "a.a")
        var policy = AccessPolicy()
        var denied = DiscoveryDescriptor()
        denied.serviceUUID = bench.service
        var other = DiscoveryDescriptor()
        other.serviceUUID = BluetoothUUID("FFF0")!
        try bench.engine.updateAuthorization(session, id, descriptor: other)
        let run = try #require(bench.engine.picker)
        try bench.engine.pick(run, offer: try #require(run.presentation.offers.first?.id))
        #expect(bench.engine.ledger.granted(id)?.grant.terms.descriptor == other)
        policy.denials = [.init(name: "no", source: "x.conf", apps: nil, target: .init(descriptor: denied))]
        bench.engine.setPolicy(policy)
        // Known by another service before, it is denied by that still.
        #expect(policy.denial(of: try #require(bench.engine.ledger.granted(id))) != nil)
        #expect { try bench.engine.updateAuthorization(session, id, descriptor: other) } throws: {
            ($0 as? SetupError)?.code == .userRestricted
        }
    }

    @Test func aSharedAccessorysNetworkIsNotRewritten() throws {
        let accessory = Accessory(id: .random(), displayName: "x", address: address(1), isBonded: true, created: 0)
        let (a, b) = (AppID("a.a")!, AppID("a.b")!)
        let grants = [a, b].enumerated().map {
            Grant(
                id: Int64($0.offset), app: $0.element, accessory: accessory.id, state: .awaitingAuthorization,
                terms: Grant.Terms(DiscoveryDescriptor(), ssid: $0.element == a ? SSID("First") : nil), created: 0)
        }
        var ledger = Ledger(accessories: [accessory], grants: grants)
        let offer = Offer(
            id: "m1", device: RadioDeviceID(""), address: address(1), item: 0, name: "x", advertisedName: "", rssi: nil,
            shared: accessory.id, needsPairing: false, identifier: accessory.id,
            network: WiFiNetwork(ssid: SSID("Evil")!, rssi: nil, security: nil, band: nil))
        ledger.apply(
            ledger.adding(
                offer, item: DisplayItem(name: "x", descriptor: DiscoveryDescriptor()), identity: nil, to: b, grantID: 9, now: 0
            ).steps)
        ledger.apply(ledger.authorizing(grants[1], settings: AuthorizationSettings(ssid: SSID("Evil"))))
        #expect(ledger.granted(accessory.id, to: a)?.grant == grants[0])
        #expect(ledger.granted(accessory.id, to: b)?.grant.terms.ssid == SSID("Evil"))
    }

    @Test func whatAnotherProgramPairsIsLeftAlone() throws {
        let bench = try Bench()
        _ = try bench.pickOne()
        bench.radio.pairing = nil
        bench.radio.observer?.pairingEnded(.failure(RadioFailure(.busy, "another program is pairing this accessory")))
        #expect(bench.radio.removed.isEmpty && bench.store.stored.intents.isEmpty)
        #expect(bench.witness.errors == [.connectionFailed])
    }

    @Test func whatAnotherProgramHasPairedFirstIsLeftAlone() throws {
        let bench = try Bench()
        _ = try bench.pickOne()
        try bench.engine.cancel(try #require(bench.engine.picker))
        bench.paired(1, wasPairedBefore: true)
        #expect(bench.engine.ledger == Ledger() && bench.engine.picker == nil)
        #expect(bench.radio.removed.isEmpty && bench.store.stored.intents.isEmpty)
    }

    @Test func atEveryMomentAnIntentStandsForTheBond() throws {
        let bench = try Bench()
        _ = try bench.pickOne()
        var intents: [[BondIntent.Purpose]] = []
        bench.store.onChange = { [unowned store = bench.store] in intents.append(store.stored.intents.map(\.purpose)) }
        bench.radio.removals = .failure(RadioFailure(.other, "busy"))
        let run = try #require(bench.engine.picker)
        try bench.engine.cancel(run)
        bench.paired(1)
        #expect(!intents.contains([]) && bench.store.stored.intents.map(\.purpose) == [.removal])
    }

    @Test func anIntentThatCouldNotBeForgottenIsForgottenSoon() throws {
        let bench = try Bench()
        _ = try bench.pickOne()
        bench.store.isFull = true
        bench.paired(1)
        #expect(bench.witness.errors == [.unknown] && bench.radio.removed == [address(1)])
        #expect(bench.store.stored.intents.count == 1)
        bench.store.isFull = false
        bench.clock.advance(61)
        #expect(bench.store.stored.intents.isEmpty && bench.clock.active == 0)
    }

    @Test func aFullDiskBeforePairingIsNoFailureOfTheConnection() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        try bench.engine.showPicker(session, items: [bench.item()], settings: PickerSettings())
        bench.hear(1)
        bench.store.isFull = true
        let run = try #require(bench.engine.picker)
        try bench.engine.pick(run, offer: try #require(run.presentation.offers.first?.id))
        #expect(bench.witness.errors == [.unknown] && bench.radio.pairing == nil)
    }

    @Test(arguments: ["renaming", "update", "naming", "confirming"])
    func aRunEndsWithTheAccessoryThatItIsAbout(stage: String) throws {
        let bench = try Bench()
        var (session, id) = try bench.grantOne(app: "a.a", confirming: stage == "confirming")
        switch stage {
        case "renaming": try bench.engine.renameAccessory(session, id, options: [])
        case "update":
            var wanted = try #require(bench.engine.ledger.granted(id)).grant.terms.descriptor
            wanted.supportedOptions = [.pairingLE, .hid]
            try bench.engine.updateAuthorization(session, id, descriptor: wanted)
        case "naming":
            bench.engine.invalidate(session, reason: "test")
            session = try bench.session(":b", app: "a.b")
            var item = bench.item()
            item.setupOptions = [.confirmAuthorization, .rename]
            try bench.engine.showPicker(session, items: [item], settings: PickerSettings())
            bench.hear(2)
            let run = try #require(bench.engine.picker)
            try bench.engine.pick(run, offer: try #require(run.presentation.offers.last?.id))
            bench.paired(2)
            id = try #require(bench.engine.ledger.accessory(at: address(2))).id
            try bench.engine.finishAuthorization(session, id, settings: AuthorizationSettings())
            #expect(bench.engine.picker?.presentation.stage == .renaming)
        default: break
        }
        #expect(bench.engine.picker != nil)
        try bench.engine.remove(try #require(bench.engine.ledger.accessories[id]), reason: "test", by: admin)
        #expect(bench.engine.picker == nil && bench.witness.openPickers == 0 && bench.radio.scans == 0)
    }

    @Test func usesAreWrittenOnceInAWhile() throws {
        let bench = try Bench()
        let (session, id) = try bench.grantOne(app: "a.a")
        var commits = 0
        bench.store.onChange = { commits += 1 }
        for _ in 0..<100 { bench.engine.recordUse(of: id, by: session.app.id, requester: .app("x"), as: "Connect") }
        #expect(commits == 0)
        bench.clock.advance(61)
        #expect(commits == 1 && bench.store.stored.grants.first?.lastUsed != nil)
        #expect(bench.clock.active == 0)
    }
}

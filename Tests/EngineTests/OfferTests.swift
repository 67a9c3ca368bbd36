// SPDX-License-Identifier: Apache-2.0
// Which accessories in range a picker offers, and for how long: by adverts, by strength, and by dropped devices.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Testing

@Suite struct OfferTests {
    /// A picker for an item, without a deadline.
    private func picker(_ bench: Bench, _ item: DisplayItem? = nil) throws -> PickerRun {
        try bench.engine.registerPicker(ClientID(":picker"))
        let settings = PickerSettings(discoveryTimeout: nil)
        try bench.engine.showPicker(try bench.session(), items: [item ?? bench.item()], settings: settings)
        return try #require(bench.engine.picker)
    }

    /// Televisions and beacons say two things in turns, of which an item may look for one.
    @Test func anOfferStaysWhileAdvertsAlternate() throws {
        let bench = try Bench()
        var item = bench.item()
        item.descriptor.serviceData = try MaskedData(blob: [0x42, 4, 1, 1], mask: [0xFF, 0xFF, 0xFF, 0xFF])
        let picker = try self.picker(bench, item)
        func hear(_ kind: UInt8) {
            var advert = Advertisement(device: RadioDeviceID("/dev/1"), address: BluetoothAddress(value: 1, kind: .public))
            advert.serviceUUIDs = [bench.service]
            advert.serviceData = [bench.service: [0x42, 4, 1, kind]]
            bench.radio.observer?.heard([HeardDevice(address: advert.address, rssi: -50, content: advert)])
        }
        hear(1)
        let offer = try #require(picker.presentation.offers.first?.id)
        for turn in 0..<40 {
            bench.clock.advance(0.5)
            hear(turn % 2 == 0 ? 0x20 : 1)
            #expect(picker.presentation.offers.map(\.id) == [offer])
        }
        // bluetoothd rests for 5 s, after an advert of the other kind.
        bench.clock.advance(0.5)
        hear(0x20)
        bench.clock.advance(5.5)
        #expect(picker.presentation.offers.map(\.id) == [offer])
        hear(1)
        // It says the other thing for good.
        bench.clock.advance(0.5)
        hear(0x20)
        for _ in 0..<9 {
            bench.clock.advance(0.5)
            hear(0x20)
            #expect(picker.presentation.offers.map(\.id) == [offer])
        }
        bench.clock.advance(0.5)
        #expect(picker.presentation.offers.isEmpty)
    }

    /// Without a bond, no key resolves a private address: equal adverts under a new address are the same device.
    @Test func aPrivateAddressThatChangesIsOneOffer() throws {
        let bench = try Bench()
        let picker = try self.picker(bench)
        func hear(_ number: UInt64, name: String = "Die") {
            var advert = Advertisement(
                device: RadioDeviceID("/dev/\(number)"), address: BluetoothAddress(value: 0x4000_0000_0000 + number, kind: .random))
            advert.serviceUUIDs = [bench.service]
            advert.localName = name
            bench.radio.observer?.heard([HeardDevice(address: advert.address, rssi: -50, content: advert)])
        }
        hear(1)
        let offer = try #require(picker.presentation.offers.first)
        for number in 2...9 as ClosedRange<UInt64> {
            bench.clock.advance(4)
            hear(number)
            #expect(picker.presentation.offers.map(\.id) == [offer.id])
        }
        let now = try #require(picker.presentation.offers.first)
        #expect(now.identifier == offer.identifier && now.device == RadioDeviceID("/dev/9"))
        // One that says something else is another, and so is a twin, which is heard under its own address again.
        hear(20, name: "Another")
        hear(30)
        hear(9)
        hear(30)
        #expect(picker.presentation.offers.count == 3)
        for _ in 0..<4 {
            bench.clock.advance(4)
            hear(9)
            hear(30)
        }
        // A device that falls silent under a private address goes soon.
        #expect(picker.presentation.offers.count == 2)
    }

    /// A device that BlueZ forgets and hears again stays one offer; without another advert the offer goes.
    @Test func anOfferOutlivesItsObjectForAMoment() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        try bench.engine.showPicker(try bench.session(), items: [bench.item()], settings: PickerSettings())
        bench.hear(1)
        let picker = try #require(bench.engine.picker)
        let offer = try #require(picker.presentation.offers.first?.id)
        bench.radio.observer?.lost(BluetoothAddress(value: 1, kind: .public))
        bench.clock.advance(4)
        bench.hear(1)
        bench.clock.advance(9)
        #expect(picker.presentation.offers.map(\.id) == [offer])
        bench.radio.observer?.lost(BluetoothAddress(value: 1, kind: .public))
        bench.clock.advance(4)
        #expect(picker.presentation.offers.map(\.id) == [offer])
        bench.clock.advance(1)
        #expect(picker.presentation.offers.isEmpty)
    }

    @Test func offersComeAndGo() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        try bench.engine.showPicker(try bench.session(), items: [bench.item()], settings: PickerSettings())
        let run = try #require(bench.engine.picker)
        bench.hear(1)
        bench.hear(2)
        #expect(run.presentation.offers.count == 2)
        bench.radio.observer?.lost(BluetoothAddress(value: 1, kind: .public))
        bench.clock.advance(5)
        #expect(run.presentation.offers.count == 1)
        // Silence takes the other away.
        bench.clock.advance(PickerRun.silence * 2)
        #expect(run.presentation.offers.isEmpty)
    }

    @Test func theSameStrengthIsNoNews() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        try bench.engine.showPicker(try bench.session(), items: [bench.item()], settings: PickerSettings())
        bench.hear(1)
        let changes = bench.witness.offers.count
        for _ in 0..<50 { bench.hear(1, changed: false) }
        #expect(bench.witness.offers.count == changes)
    }

    @Test func rule5NearnessIsSmoothed() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        try bench.engine.showPicker(try bench.session(), items: [bench.item(immediate: true)], settings: PickerSettings())
        let run = try #require(bench.engine.picker)
        bench.hear(1, rssi: -70)
        // One strong packet is no nearness.
        bench.hear(1, rssi: -45)
        #expect(run.presentation.offers.isEmpty)
        for _ in 0..<10 { bench.hear(1, rssi: -45) }
        #expect(run.presentation.offers.count == 1)
        bench.hear(1, rssi: nil)
        #expect(run.presentation.offers.isEmpty)
    }

    /// The grant of an accessory, or a kind, that is picked without pairing.
    private func grant(_ bench: Bench, _ change: (inout DisplayItem) -> Void) throws -> (Session, Grant) {
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        var item = bench.item()
        item.descriptor.supportedOptions = []
        change(&item)
        try bench.engine.showPicker(session, items: [item], settings: PickerSettings())
        bench.hear(1)
        let run = try #require(bench.engine.picker)
        try bench.engine.pick(run, offer: try #require(run.presentation.offers.first?.id))
        return (session, try #require(bench.engine.ledger.grants.values.first))
    }

    @Test func anUpdateOffersFullAccessToAnAppThatHasHadLess() throws {
        let bench = try Bench()
        let (session, grant) = try grant(bench) { _ in }
        try bench.engine.setAccess(grant, .read, by: .admin("test"))
        var other = DiscoveryDescriptor()
        other.serviceUUID = BluetoothUUID("FFF0")
        try bench.engine.updateAuthorization(session, grant.accessory, descriptor: other)
        let run = try #require(bench.engine.picker)
        let offer = try #require(run.presentation.offers.first)
        #expect(bench.engine.terms(run, of: offer).access == .full)
        // The offers stay, and the picker shows other terms.
        let changes = bench.witness.offers.count
        try bench.engine.setAccess(try #require(bench.engine.ledger.grants[grant.id]), .full, by: .admin("test"))
        #expect(run.presentation.offers == [offer] && bench.engine.terms(run, of: offer).access == nil)
        #expect(bench.witness.offers.count == changes + 1)
    }

    @Test func aKindHasNoAccessInItsTerms() throws {
        let bench = try Bench()
        let (session, grant) = try grant(bench) { item in
            item.descriptor.access = .hear
            item.end = .duration(seconds: 3600)
        }
        bench.engine.renewAccess(session, grant.accessory, options: RenewalOptions()) { _ in }
        let run = try #require(bench.engine.picker)
        let terms = bench.engine.terms(run, of: try #require(run.presentation.offers.first))
        #expect(run.request.kind == "renewal" && terms.access == nil && !terms.canBeNarrowed)
    }
}

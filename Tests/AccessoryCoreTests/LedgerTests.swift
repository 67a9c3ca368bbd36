// SPDX-License-Identifier: Apache-2.0
// Access to accessories: adding, sharing, revoking, and which bond goes when.

import AccessoryCore
import AccessoryModel
import Testing

@Suite struct LedgerTests {
    private let app = AppID("com.example.a")!
    private let other = AppID("com.example.b")!
    private let address = BluetoothAddress("C0:FF:EE:00:00:01", kind: .random)!
    private let identity = BluetoothAddress("00:1A:7D:00:00:01", kind: .public)!

    private func offer(shared: AccessoryID? = nil) -> Offer {
        Offer(
            id: "1", device: RadioDeviceID("/d"), address: address, item: 0, name: "Die", advertisedName: "D", rssi: nil,
            shared: shared, needsPairing: true, identifier: .random())
    }
    private func item(_ name: String) -> DisplayItem {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = BluetoothUUID("FFF0")
        return DisplayItem(name: name, descriptor: descriptor)
    }
    private func paired(_ address: BluetoothAddress) -> PairedIdentity {
        PairedIdentity(address: address, device: RadioDeviceID("/d"), wasPairedBefore: false)
    }

    private func ledgerWithOne() -> (Ledger, AccessoryID) {
        var ledger = Ledger()
        let change = ledger.adding(
            offer(), item: item("Die"), identity: paired(identity), to: app, grantID: 1, now: 7)
        ledger.apply(change.steps)
        return (ledger, change.accessory)
    }

    @Test func rule16AnAccessoryIsKeyedByItsIdentity() {
        let (ledger, id) = ledgerWithOne()
        #expect(ledger.accessories[id]?.address == identity)
        #expect(ledger.accessory(at: address) == nil)
        #expect(ledger.accessory(at: identity)?.isBonded == true)
    }

    @Test func rule11SharingKeepsNameAndBond() {
        var (ledger, id) = ledgerWithOne()
        let change = ledger.adding(
            offer(shared: id), item: item("Other name"), identity: nil, to: other, grantID: 2, now: 8)
        ledger.apply(change.steps)
        #expect(change.accessory == id)
        #expect(ledger.accessories[id]?.displayName == "Die")
        #expect(ledger.grants(of: id).map(\.app) == [app, other])
    }

    /// After a first connection BlueZ lists the services that a device has, no longer those that it advertises.
    @Test func aKnownAccessoryIsStillFoundByTheServiceThatItWasSetUpBy() {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = BluetoothUUID("FF3F")
        var ledger = Ledger()
        ledger.apply(
            ledger.adding(
                offer(), item: DisplayItem(name: "Die", descriptor: descriptor), identity: paired(identity),
                traits: Accessory.Traits(descriptor), to: app, grantID: 1, now: 7
            ).steps)
        let battery = BluetoothUUID("180F")!
        func advert(_ address: BluetoothAddress) -> Advertisement {
            var advert = Advertisement(device: RadioDeviceID("/d"), address: address)
            advert.serviceUUIDs = [battery]
            return advert
        }
        #expect(ledger.recalling(advert(identity)).serviceUUIDs == [battery, descriptor.serviceUUID])
        // No other device is taken for it, and an accessory that was set up by other properties keeps its own advert.
        #expect(ledger.recalling(advert(address)) == advert(address))
        #expect(ledgerWithOne().0.recalling(advert(identity)) == advert(identity))
    }

    @Test func rule13TheBondGoesWithTheLastGrant() throws {
        var (ledger, id) = ledgerWithOne()
        ledger.apply(
            ledger.adding(offer(shared: id), item: item("x"), identity: nil, to: other, grantID: 2, now: 8)
                .steps)
        let first = ledger.revoking([try #require(ledger.grant(of: id, to: app))])
        #expect(first.bonds.isEmpty)
        ledger.apply(first.steps)
        #expect(ledger.accessories(of: app).isEmpty && ledger.accessories(of: other).count == 1)
        let last = ledger.revoking([try #require(ledger.grant(of: id, to: other))])
        #expect(last.bonds == [BluetoothPeer(identity, adapter: nil)])
        ledger.apply(last.steps)
        #expect(ledger == Ledger())
    }

    @Test func aDisabledGrantOpensNothing() throws {
        var (ledger, id) = ledgerWithOne()
        var grant = try #require(ledger.grant(of: id, to: app))
        grant.isEnabled = false
        ledger.apply([.grant(grant)])
        #expect(ledger.accessories(of: app).isEmpty)
    }

    @Test func addingTwiceIsOneGrant() {
        let (ledger, id) = ledgerWithOne()
        let again = ledger.adding(
            offer(shared: id), item: item("Die"), identity: nil, to: app, grantID: 2, now: 9)
        #expect(again.steps.isEmpty && again.accessory == id)
    }
}

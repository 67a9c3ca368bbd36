// SPDX-License-Identifier: Apache-2.0
// A client's session apart from its links: greeting and end, searches on all adapters, adverts that wait.

@testable import AccessoryDoor
import BlueZInterfaces
import BlueZObjects
import DBusKit
import ESPHomeAPI
import Testing

@Suite struct GreetingTests {
    private var view = PlayedView(isGreeted: false)

    @Test mutating func theFirstMessages() {
        #expect(
            view.request(.hello(clientInfo: "Home Assistant"))
                == [.send(.hello(name: "gateway", serverInfo: "accessory-door 1.2.3"))])
        #expect(view.request(.authentication) == [.send(.authenticated)])
        #expect(view.request(.deviceInfo) == [.send(.deviceInfo(PlayedView.gateway.info))])
        #expect(view.request(.listEntities) == [.send(.entitiesDone)])
        #expect(view.request(.ping) == [.send(.pong)])
        #expect(view.request(.pong) == [])
        #expect(view.request(.other(type: 33)) == [], "of other devices")
        #expect(view.request(.disconnect) == [.send(.disconnected), .end])
        #expect(view.request(.disconnected) == [.end])
    }

    /// Before hello only these are answered, as by an ESP32.
    @Test mutating func beforeHello() {
        #expect(view.request(.ping) == [.send(.pong)])
        #expect(view.request(.authentication) == [.send(.authenticated)])
        #expect(view.request(.disconnect) == [.send(.disconnected), .end])
        for request: ClientRequest in [
            .deviceInfo, .listEntities, .subscribeAdvertisements(isRaw: true), .unsubscribeAdvertisements,
            .device(address: 1, .connect), .device(address: 1, .disconnect), .getServices(address: 1),
            .read(address: 1, handle: 3), .write(address: 1, handle: 3, needsResponse: true, []),
            .readDescriptor(address: 1, handle: 3), .writeDescriptor(address: 1, handle: 3, []),
            .notify(address: 1, handle: 3, isEnabled: true), .subscribeFreeConnections, .setScannerMode(.active),
            .setConnectionParameters(address: 1), .setEncryptionKey, .other(type: 33),
        ] { #expect(view.request(request) == [.end], "\(request)") }
        #expect(view.calls.isEmpty && view.session.links.isEmpty && view.session.scans.isEmpty)
    }

    @Test mutating func objectsBeforeHelloAreForNone() {
        #expect(view.handle(.objects(.loaded)) == [])
        #expect(view.change(1, ["RSSI": .int16(-40)]) == [])
        #expect(view.handle(.stateChanged) == [] && view.handle(.flush(isCongested: false)) == [] && view.handle(.retryScan) == [])
    }

    /// An answer that comes twice, or to no call.
    @Test mutating func answersToNoCall() {
        _ = view.request(.hello(clientInfo: ""))
        _ = view.connect()
        for id in [-1, 0, 1, 2, 1000] { #expect(view.handle(.answered(id, .success([]))) == []) }
    }
}

@Suite struct ScanTests {
    private static let second: ObjectPath = "/org/bluez/hci1"
    private var view = PlayedView()

    private mutating func subscribe() -> [String] { view.request(.subscribeAdvertisements(isRaw: true)).words }

    /// A search that runs.
    private mutating func search() {
        _ = subscribe()
        _ = view.answer("SetDiscoveryFilter")
        _ = view.answer("StartDiscovery")
    }

    @Test mutating func aSearchFromTheSubscriptionToItsEnd() throws {
        #expect(view.request(.setScannerMode(.passive)).words == ["scanner idle"])
        #expect(subscribe() == ["SetDiscoveryFilter hci0", "scanner starting"])
        #expect(
            try #require(view.calls.values.first).arguments
                == [.vardict(["Transport": .string("le"), "DuplicateData": .boolean(true)])])
        #expect(view.answer("SetDiscoveryFilter").words == ["StartDiscovery hci0"])
        #expect(view.answer("StartDiscovery").words == ["scanner running"])
        #expect(subscribe() == ["scanner running"], "again, and again reported")
        #expect(view.request(.setScannerMode(.passive)) == [.send(.scanner(.running, mode: .active))])
        #expect(view.request(.unsubscribeAdvertisements).words == ["StopDiscovery hci0"])
        #expect(view.request(.setScannerMode(.active)).words == ["scanner idle"])
        #expect(view.answer("StopDiscovery", .failure(.bluez("Failed"))) == [])
        #expect(view.request(.unsubscribeAdvertisements) == [])
    }

    /// A filter that is refused means more adverts, and a search that runs already is one.
    @Test mutating func refusalsThatDoNoHarm() {
        _ = subscribe()
        #expect(view.answer("SetDiscoveryFilter", .failure(.bluez("InvalidArguments"))).words == ["StartDiscovery hci0"])
        #expect(view.answer("StartDiscovery", .failure(.bluez("InProgress"))).words == ["scanner running"])
    }

    @Test mutating func aFailedSearchIsTriedAgain() {
        _ = subscribe()
        _ = view.answer("SetDiscoveryFilter")
        #expect(view.answer("StartDiscovery", .failure(.bluez("NotReady"))).words == ["retryScan", "scanner failed"])
        #expect(view.handle(.stateChanged) == [], "not before the pause is over")
        #expect(view.handle(.retryScan).words == ["SetDiscoveryFilter hci0", "scanner starting"])
        _ = view.answer("SetDiscoveryFilter")
        #expect(view.answer("StartDiscovery").words == ["scanner running"])
        #expect(view.handle(.retryScan) == [])
    }

    @Test mutating func aFailedSearchThatNoneWants() {
        _ = subscribe()
        _ = view.answer("SetDiscoveryFilter")
        _ = view.answer("StartDiscovery", .failure(.bluez("NotReady")))
        #expect(view.request(.unsubscribeAdvertisements) == [], "nothing runs that could be stopped")
        #expect(view.handle(.retryScan) == [])
    }

    @Test mutating func anEndBeforeTheStart() {
        _ = subscribe()
        #expect(view.request(.unsubscribeAdvertisements).words == ["StopDiscovery hci0"])
        #expect(view.answer("SetDiscoveryFilter") == [])
        // And again before the answers.
        #expect(subscribe() == ["SetDiscoveryFilter hci0", "scanner starting"])
        #expect(view.answer("StopDiscovery") == [])
        #expect(view.answer("SetDiscoveryFilter").words == ["StartDiscovery hci0"])
    }

    @Test mutating func answersOfTheFormerSearchAreNotTheNextOnes() {
        _ = subscribe()
        _ = view.answer("SetDiscoveryFilter")
        _ = view.request(.unsubscribeAdvertisements)
        _ = subscribe()
        #expect(view.answer("StartDiscovery", .failure(.bluez("Failed"))) == [], "of the one that was stopped")
        #expect(view.answer("SetDiscoveryFilter").words == ["StartDiscovery hci0"])
        #expect(view.answer("StartDiscovery").words == ["scanner running"])
    }

    @Test mutating func twoAdaptersAndTheirPower() {
        view.tree.add(Self.second, Adapter1.interface, ["Powered": .boolean(false)])
        search()
        #expect(view.setPower(true, Self.second).words == ["SetDiscoveryFilter hci1"], "running is running")
        _ = view.answer("SetDiscoveryFilter")
        #expect(view.answer("StartDiscovery") == [])
        #expect(view.setPower(false) == [], "it has stopped by itself, and the other runs")
        #expect(view.setPower(false, Self.second).words == ["scanner stopped"])
        #expect(view.setPower(true).words == ["SetDiscoveryFilter hci0", "scanner starting"])
        view.tree.remove(PlayedView.adapter, [Adapter1.interface])
        #expect(view.handle(.stateChanged).words == ["scanner stopped"])
        #expect(view.answer("SetDiscoveryFilter") == [])
        view.tree.add(PlayedView.adapter, Adapter1.interface, ["Powered": .boolean(true)])
        #expect(view.handle(.objects(.loaded)).words == ["SetDiscoveryFilter hci0", "scanner starting"])
        _ = view.setPower(true, Self.second)
        #expect(view.request(.unsubscribeAdvertisements).words == ["StopDiscovery hci0", "StopDiscovery hci1"])
    }

    @Test mutating func oneAdapterFailsAndTheOtherRuns() {
        view.tree.add(Self.second, Adapter1.interface, ["Powered": .boolean(true)])
        #expect(subscribe() == ["SetDiscoveryFilter hci0", "SetDiscoveryFilter hci1", "scanner starting"])
        for _ in 0..<2 { _ = view.answer("SetDiscoveryFilter") }
        #expect(view.answer("StartDiscovery", .failure(.bluez("NotReady"))).words == ["retryScan"])
        #expect(view.answer("StartDiscovery").words == ["scanner running"])
        #expect(view.handle(.retryScan).words == ["SetDiscoveryFilter hci0"])
    }

    @Test mutating func bluetoothdComesBack() {
        search()
        let tree = view.tree
        view.tree = BlueZTree()
        #expect(view.handle(.stateChanged).words == ["scanner stopped"])
        view.tree = tree
        #expect(view.handle(.objects(.loaded)).words == ["SetDiscoveryFilter hci0", "scanner starting"])
    }

    /// bluetoothd hangs, and the client does not.
    @Test mutating func subscribingFasterThanAnswers() {
        for _ in 0..<1000 {
            _ = subscribe()
            _ = view.request(.unsubscribeAdvertisements)
        }
        #expect(view.calls.count <= ProxySession.maxCalls + 1, "\(view.calls.count)")
        #expect(subscribe() == ["retryScan", "scanner failed"])
        for id in view.calls.keys.sorted() { #expect(view.handle(.answered(id, .failure(.bluez("Failed")))) == []) }
        #expect(view.handle(.retryScan).words == ["SetDiscoveryFilter hci0", "scanner starting"])
    }

    // MARK: Adverts

    @Test mutating func advertsWaitForTheirTime() {
        #expect(view.change(1, ["RSSI": .int16(-40)]) == [], "without a subscription")
        search()
        view.addDevice(2)
        #expect(view.change(1, ["RSSI": .int16(-41)]).words == ["flush"])
        #expect(view.change(2, ["RSSI": .int16(-42)]) == [], "the timer runs")
        #expect(view.change(1, ["RSSI": .int16(-43)]) == [])
        guard case .send(.rawAdvertisements(let adverts))? = view.handle(.flush(isCongested: false)).first else {
            Issue.record("no adverts")
            return
        }
        #expect(adverts.map(\.address) == [1, 2] && adverts.map(\.rssi) == [-43, -42] && adverts.allSatisfy(\.isRandom))
        #expect(view.handle(.flush(isCongested: false)) == [])
        #expect(view.change(2, ["RSSI": .int16(-42)]).words == ["flush"])
    }

    @Test mutating func changesThatComeFromNoAdvert() {
        search()
        #expect(view.change(1, ["Connected": .boolean(true)]) == [])
        #expect(view.change(1, ["Alias": .string("Dice"), "Paired": .boolean(true)]) == [])
        #expect(view.change(1, ["Name": .string("Dice")]).words == ["flush"])
        view.addDevice(2, rssi: nil)
        #expect(view.change(2, ["Name": .string("From the disk")]) == [], "it was not heard")
    }

    @Test mutating func aBurstIsSentInBatches() {
        search()
        var words: [String] = []
        for number in 1...AdvertQueue.batch {
            words += view.change(1, ["RSSI": .int16(-40), "Name": .string("\(number)")]).words
        }
        #expect(words == ["flush", "flush now"])
        let sent = view.handle(.flush(isCongested: false))
        #expect(sent.count == AdvertQueue.batch / 32 && view.handle(.flush(isCongested: false)) == [])
    }

    @Test mutating func aCongestedClientGetsAdvertsLater() {
        search()
        _ = view.change(1, ["RSSI": .int16(-41)])
        #expect(view.handle(.flush(isCongested: true)).words == ["flush"])
        #expect(view.change(1, ["RSSI": .int16(-30)]) == [])
        #expect(view.handle(.flush(isCongested: false)).words == ["raw [1]"])
    }

    @Test mutating func whoMayNotBeShownAnyMoreIsNot() {
        search()
        view.addDevice(2)
        _ = view.change(1, ["RSSI": .int16(-41)])
        _ = view.change(2, ["RSSI": .int16(-41)])
        _ = view.remove(1)
        #expect(view.handle(.flush(isCongested: false)).words == ["raw [2]"])
        _ = view.change(2, ["RSSI": .int16(-42)])
        _ = view.remove(2)
        #expect(view.handle(.flush(isCongested: false)) == [])
    }

    @Test mutating func unsubscribedBeforeTheTime() {
        search()
        _ = view.change(1, ["RSSI": .int16(-41)])
        _ = view.request(.unsubscribeAdvertisements)
        #expect(view.handle(.flush(isCongested: false)) == [] && view.handle(.flush(isCongested: true)) == [])
        _ = subscribe()
        #expect(view.handle(.flush(isCongested: false)) == [], "of the former subscription")
    }

    @Test mutating func parsedAdvertsForClientsThatWantThem() {
        _ = view.request(.subscribeAdvertisements(isRaw: false))
        _ = view.change(
            1,
            [
                "RSSI": .int16(-41), "Name": .string("Dice"), "UUIDs": .strings(["180F"]),
                "ManufacturerData": .dictionary(
                    key: "q", value: "v",
                    [.init(.uint16(0xFFFF), .variant(.bytes([2]))), .init(.uint16(0x4C), .variant(.bytes([1])))]),
                "ServiceData": .vardict(["180F": .bytes([3])]),
            ])
        var advert = ServerMessage.ParsedAdvertisement(address: 1, name: "Dice", rssi: -41, isRandom: true)
        advert.services = ["0000180f-0000-1000-8000-00805f9b34fb"]
        advert.serviceData = [.init(key: "0000180f-0000-1000-8000-00805f9b34fb", data: [3])]
        advert.manufacturerData = [.init(key: "0x004C", data: [1]), .init(key: "0xFFFF", data: [2])]
        #expect(view.handle(.flush(isCongested: false)) == [.send(.advertisement(advert))])
    }

    /// Whatever adverts contain, each message fits a frame.
    @Test mutating func manyLongAdverts() {
        search()
        let long = DBusValue.dictionary(
            key: "q", value: "v", (0..<20).map { .init(.uint16($0), .variant(.bytes([UInt8](repeating: 7, count: 200)))) })
        for device in 2..<200 {
            view.addDevice(device)
            _ = view.change(device, ["ManufacturerData": long])
        }
        var heard: [UInt64] = []
        for case .send(let message) in view.handle(.flush(isCongested: false)) {
            #expect(message.body.count <= ServerMessage.maxBytes)
            if case .rawAdvertisements(let adverts) = message { heard += adverts.map(\.address) }
        }
        #expect(heard == (2..<200).map { UInt64($0) })
    }
}

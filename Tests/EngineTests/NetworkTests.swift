// SPDX-License-Identifier: Apache-2.0
// Accessories with Wi-Fi in the engine: which networks are offered, alone and as the other half of an accessory that
// Bluetooth finds, and who gets the machine onto an accessory's network.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Testing

@Suite struct NetworkTests {
    private func item(
        _ name: String = "Die", ssid: String? = nil, prefix: String? = nil, service: BluetoothUUID? = nil, setup: SetupOptions = []
    ) -> DisplayItem {
        var descriptor = DiscoveryDescriptor()
        descriptor.ssid = ssid.map { Array($0.utf8) }
        descriptor.ssidPrefix = prefix.map { Array($0.utf8) }
        descriptor.serviceUUID = service
        return DisplayItem(name: name, descriptor: descriptor, setupOptions: setup)
    }

    private func show(_ bench: Bench, _ items: DisplayItem..., settings: PickerSettings = PickerSettings()) throws -> Session {
        if bench.engine.pickerPrograms.isEmpty { try bench.engine.registerPicker(ClientID(":picker")) }
        let session = try bench.session()
        try bench.engine.showPicker(session, items: items, settings: settings)
        return session
    }

    private func offers(_ bench: Bench) -> [Offer] { bench.engine.picker?.presentation.offers ?? [] }

    private func pick(_ bench: Bench, _ index: Int = 0) throws {
        try bench.engine.pick(try #require(bench.engine.picker), offer: offers(bench)[index].id)
    }

    private func accessory(_ bench: Bench) throws -> Accessory { try #require(bench.store.stored.accessories.first) }
    private func network(_ bench: Bench) throws -> SSID? { try #require(bench.store.stored.grants.first).terms.ssid }

    // MARK: Offers

    @Test func aNetworkIsOfferedPickedAndGranted() throws {
        let bench = try Bench()
        _ = try show(bench, item(prefix: "Dice-"))
        #expect(bench.radio.scans == 0 && bench.networks.scans == 1 && bench.networks.asked.isEmpty)
        bench.networks.hear("Home", "Dice-1", "Dice-2")
        #expect(offers(bench).map(\.advertisedName) == ["Dice-1", "Dice-2"])
        #expect(offers(bench).first?.network?.security == .wpa2 && offers(bench).first?.rssi == -50)
        try pick(bench, 1)
        let accessory = try accessory(bench)
        #expect(try network(bench) == SSID("Dice-2") && accessory.address == nil && !accessory.isBonded)
        #expect(bench.networks.scans == 0 && bench.radio.pairing == nil && bench.clock.active == 0)
        // An accessory that the app has is not offered again, and a new name is a new accessory.
        _ = try show(bench, item(prefix: "Dice-"))
        bench.networks.hear("Dice-2", "Dice-3")
        #expect(offers(bench).map(\.advertisedName) == ["Dice-3"])
    }

    @Test func aWholeNameIsAskedFor() throws {
        let bench = try Bench()
        _ = try show(bench, item(ssid: "Secret"), item(prefix: "Dice-"), item(ssid: "Secret"))
        #expect(bench.networks.asked == [SSID("Secret")!])
    }

    @Test func aNetworkGoesAfterThreeScansWithoutIt() throws {
        let bench = try Bench()
        _ = try show(bench, item(prefix: "Dice-"))
        bench.networks.hear("Dice-1")
        for _ in 0..<2 {
            bench.networks.hear("Home")
            #expect(offers(bench).count == 1)
        }
        bench.networks.hear("Home")
        #expect(offers(bench).isEmpty)
        let before = bench.store.stored.accessories
        bench.networks.hear("Dice-1")
        #expect(offers(bench).count == 1 && bench.store.stored.accessories == before)
    }

    @Test func bothSidesMakeOneOffer() throws {
        let bench = try Bench()
        _ = try show(bench, item(ssid: "Dice-1", service: bench.service))
        #expect(bench.radio.scans == 1 && bench.networks.scans == 1)
        bench.hear(1)
        #expect(offers(bench).isEmpty)
        bench.networks.hear("Dice-1", "Dice-2")
        #expect(offers(bench).count == 1)
        #expect(offers(bench).first?.network?.ssid == SSID("Dice-1") && offers(bench).first?.device == RadioDeviceID("/dev/1"))
        try pick(bench)
        let accessory = try accessory(bench)
        #expect(try network(bench) == SSID("Dice-1") && accessory.address == BluetoothAddress(value: 1, kind: .public))
    }

    @Test func aPrefixIsCompletedByTheOnlyNetworkOrByTheApp() throws {
        for (heard, setup, expected) in [
            (["Dice-1"], SetupOptions(), SSID("Dice-1")), (["Dice-1", "Dice-2"], [], nil),
            (["Dice-1"], .confirmAuthorization, SSID("Dice-1")), (["Dice-1", "Dice-2"], .confirmAuthorization, nil),
        ] {
            let bench = try Bench()
            let session = try show(bench, item(prefix: "Dice-", service: bench.service, setup: setup))
            bench.hear(1)
            #expect(offers(bench).count == 1)
            bench.networks.observer?.heard(
                networks: heard.map { WiFiNetwork(ssid: SSID($0)!, rssi: -50, security: .open, band: nil) })
            #expect(offers(bench).map(\.network?.ssid) == [expected])
            try pick(bench)
            let id = try accessory(bench).id
            #expect(try network(bench) == expected)
            func finish(_ name: String) throws {
                try bench.engine.finishAuthorization(session, id, settings: AuthorizationSettings(ssid: SSID(name)))
            }
            #expect(throws: SetupError.self) { try finish("Home") }
            guard setup == .confirmAuthorization else {
                // No person has seen it, and no picker can ask.
                #expect(throws: SetupError.self) { try finish("Dice-9") }
                #expect(try network(bench) == expected)
                continue
            }
            try finish("Dice-9")
            let run = try #require(bench.engine.picker)
            #expect(run.presentation.prompt == .network(SSID("Dice-9")!))
            #expect(throws: SetupError.self) { try finish("Dice-8") }
            #expect(bench.store.stored.grants.first?.state == .awaitingAuthorization)
            try bench.engine.respond(run, answer: .reject)
            #expect(bench.witness.errors == [.userCancelled])
            #expect(try network(bench) == expected)
            try finish("Dice-9")
            try bench.engine.respond(run, answer: .accept)
            #expect(try network(bench) == SSID("Dice-9"))
            #expect(bench.store.stored.grants.first?.state == .authorized && bench.engine.picker == nil)
        }
    }

    @Test func withoutWiFiOnlyBluetoothIsFound() throws {
        let bench = try Bench()
        bench.networks.state = .absent
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        for descriptor in [item(ssid: "Dice-1"), item(ssid: "Dice-1", service: bench.service)] {
            #expect { try bench.engine.showPicker(session, items: [descriptor], settings: PickerSettings()) } throws: {
                ($0 as? SetupError)?.code == .pickerRestricted && "\($0)".contains("Wi-Fi")
            }
        }
        try bench.engine.showPicker(
            session, items: [item(ssid: "Dice-1"), item(prefix: "Dice-", service: bench.service)], settings: PickerSettings())
        bench.hear(1)
        #expect(offers(bench).count == 1)
    }

    @Test func theRunGoesOnWithTheOtherRadio() throws {
        let bench = try Bench()
        _ = try show(bench, item("Wi-Fi die", prefix: "Dice-"), item("Bluetooth die", service: bench.service))
        bench.hear(1)
        bench.networks.hear("Dice-1")
        #expect(offers(bench).count == 2)
        bench.networks.state = .absent
        bench.networks.observer?.networkRadioChanged(.absent, reason: "gone")
        #expect(offers(bench).map(\.name) == ["Bluetooth die"])
        bench.radio.state = .off
        bench.radio.observer?.radioChanged(.off, reason: "off")
        #expect(bench.engine.picker == nil && bench.witness.errors == [.pickerRestricted])
    }

    @Test func aFilteringAppIsToldOfNetworks() throws {
        let bench = try Bench()
        let session = try show(
            bench, item(prefix: "Dice-"), settings: PickerSettings(discoveryTimeout: 30, options: .filterDiscoveryResults))
        bench.networks.hear("Dice-1")
        bench.clock.advance(1)
        #expect(offers(bench).isEmpty && bench.witness.discovered.count == 1)
        let found = try #require(bench.witness.discovered.first)
        #expect(found.network?.ssid == SSID("Dice-1") && found.advertisement == nil)
        try bench.engine.updatePicker(
            session, items: [DiscoveredItem(name: "Red die", image: nil, identifier: found.identifier)])
        #expect(offers(bench).map(\.name) == ["Red die"])
    }

    @Test func aSharedNetworkKeepsItsName() throws {
        let bench = try Bench()
        _ = try show(bench, item("First name", prefix: "Dice-"))
        bench.networks.hear("Dice-1")
        try pick(bench)
        let other = try bench.session(":other", app: "com.example.other")
        try bench.engine.showPicker(other, items: [item("Second name", ssid: "Dice-1")], settings: PickerSettings())
        bench.networks.hear("Dice-1")
        #expect(offers(bench).map(\.name) == ["First name"] && offers(bench).first?.shared != nil)
        try pick(bench)
        #expect(bench.store.stored.accessories.count == 1 && bench.store.stored.grants.count == 2)
    }

    @Test func theAdminDeniesANetwork() throws {
        let bench = try Bench()
        var policy = AccessPolicy()
        var descriptor = DiscoveryDescriptor()
        descriptor.ssidPrefix = Array("Dice-1".utf8)
        policy.denials = [.init(name: "no", source: "x.conf", apps: nil, target: .init(descriptor: descriptor))]
        bench.engine.setPolicy(policy)
        _ = try show(bench, item(prefix: "Dice-"))
        bench.networks.hear("Dice-1", "Dice-2")
        #expect(offers(bench).map(\.advertisedName) == ["Dice-2"])
    }

    // MARK: Requests

    @Test func aNetworkIsRenamedAlongWithItsAccessory() throws {
        let bench = try Bench()
        let session = try show(bench, item(prefix: "Dice-"))
        bench.networks.hear("Dice-1")
        try pick(bench)
        let id = try accessory(bench).id
        try bench.engine.renameAccessory(session, id, options: .ssid)
        let run = try #require(bench.engine.picker)
        #expect(throws: SetupError.self) { try bench.engine.rename(run, to: String(repeating: "x", count: 33)) }
        #expect(bench.engine.picker != nil)
        #expect(try network(bench) == SSID("Dice-1"))
        try bench.engine.rename(run, to: "Dice-new")
        #expect(try network(bench) == SSID("Dice-new") && accessory(bench).displayName == "Dice-new")
        // It is found again under the old name: that is another accessory now.
        _ = try show(bench, item(prefix: "Dice-"))
        bench.networks.hear("Dice-1", "Dice-new")
        #expect(offers(bench).map(\.advertisedName) == ["Dice-1"])
    }

    @Test func aNetworkIsMigratedByItsName() throws {
        let bench = try Bench()
        var item = item(prefix: "Dice-")
        var migration = Migration()
        migration.hotspotSSID = SSID("Dice-1")
        item.migration = migration
        _ = try show(bench, item)
        // Silence is not consent.
        bench.clock.advance(86_400)
        #expect(bench.engine.ledger == Ledger() && bench.engine.picker != nil)
        try bench.engine.respond(try #require(bench.engine.picker), answer: .accept)
        #expect(try network(bench) == SSID("Dice-1"))
        #expect(bench.witness.events.contains { $0.hasSuffix("migrationComplete") })
    }

    @Test func anAccessoryGetsANetworkLater() throws {
        let bench = try Bench()
        let session = try bench.pickOne()
        bench.paired(1)
        let id = try accessory(bench).id
        try bench.engine.updateAuthorization(session, id, descriptor: item(ssid: "Dice-1", service: bench.service).descriptor)
        #expect(offers(bench).isEmpty)
        bench.hear(1)
        bench.networks.hear("Dice-1")
        #expect(offers(bench).count == 1)
        try pick(bench)
        #expect(try network(bench) == SSID("Dice-1") && accessory(bench).isBonded)
    }

    // MARK: Joining

    /// An app with an accessory that has a network.
    private func granted(_ bench: Bench) throws -> (session: Session, id: AccessoryID) {
        let session = try show(bench, item(prefix: "Dice-"))
        bench.networks.hear("Dice-1")
        try pick(bench)
        return (session, try accessory(bench).id)
    }

    private func join(_ bench: Bench, _ id: AccessoryID, client: String = ":app", _ done: @escaping (SetupError?) -> Void) throws {
        try bench.engine.joinNetwork(
            of: id, for: ClientID(client), AppID(client == ":app" ? "com.example.dice" : "com.example.other")!,
            passphrase: NetworkJoin.Passphrase("sixsided1"), isHidden: false, network: nil, completion: done)
    }

    @Test func joinsAndLeaves() throws {
        let bench = try Bench()
        let (session, id) = try granted(bench)
        var answers: [SetupError?] = []
        try join(bench, id) { answers.append($0) }
        try join(bench, id) { answers.append($0) }
        #expect(bench.networks.joins.map(\.ssid) == [SSID("Dice-1")!] && answers.isEmpty)
        bench.networks.joined()
        #expect(answers == [nil, nil] && bench.engine.networkInterface(of: id, on: nil) == "wlan0")
        var isLeft = false
        bench.engine.leaveNetwork(of: id, for: session.client) { isLeft = true }
        #expect(bench.networks.leaves == 1 && !isLeft && bench.engine.networkInterface(of: id, on: nil) == nil)
        // Asked again while it is being left: joined anew afterwards.
        try join(bench, id) { answers.append($0) }
        bench.networks.left()
        #expect(isLeft && bench.networks.joins.count == 2)
        bench.networks.joined(.failure(RadioFailure(.refused, "the passphrase is wrong")))
        #expect(answers.last??.code == .connectionFailed && answers.last??.message == "the passphrase is wrong")
        // Nothing is joined: nothing to leave.
        isLeft = false
        bench.engine.leaveNetwork(of: id, for: session.client) { isLeft = true }
        #expect(isLeft && bench.networks.leaves == 1)
    }

    /// The trail of a daemon that was killed may end with “joined”. The line is on the disk before the record goes,
    /// and there is one for each “joined”.
    @Test func whatAnEarlierRunHadJoinedIsRecordedAsLeft() throws {
        let bench = try Bench()
        let (_, id) = try granted(bench)
        let ssid = try #require(SSID("Dice-1"))
        func recorded() -> [AuditEntry.Event] {
            bench.networks.observer?.earlierNetworkLeft(ssid)
            return bench.trail.lines.filter { $0.accessory == id }.map(\.event).filter { $0 == .joined || $0 == .left }
        }
        #expect(recorded() == [])
        let joined = AuditEntry(time: 1, event: .joined, app: nil, accessory: id, who: "an app", why: "Dice-1")
        for expected in [[AuditEntry.Event.joined, .left], [.joined, .left, .joined, .left]] {
            _ = try bench.trail.append([joined])
            #expect(recorded() == expected)
            #expect(recorded() == expected)
        }
    }

    /// The ledger may not have the accessory any more: it was removed, or the store was damaged and is a new one.
    @Test func whatAnEarlierRunHadJoinedIsRecordedAsLeftOnceWithoutItsAccessory() throws {
        let bench = try Bench()
        let ssid = try #require(SSID("Dice-1"))
        func recorded() -> [AccessoryID?] {
            bench.networks.observer?.earlierNetworkLeft(ssid)
            return bench.trail.lines.filter { $0.event == .left }.map(\.accessory)
        }
        #expect(recorded() == [nil])
        #expect(recorded() == [nil])
        let removed = try #require(AccessoryID("11111111-2222-3333-4444-555555555555"))
        _ = try bench.trail.append([AuditEntry(time: 1, event: .joined, app: nil, accessory: removed, who: "an app", why: "Dice-1")]
        )
        #expect(recorded() == [nil, removed])
        #expect(recorded() == [nil, removed])
    }

    @Test(arguments: ["revoked", "disabled", "session", "client", "policy", "manifest", "declaration", "daemon"])
    func whoeverIsNotEntitledLosesTheNetwork(_ way: String) throws {
        let bench = try Bench()
        let (session, id) = try granted(bench)
        var answer: SetupError??
        try join(bench, id) { answer = $0 }
        // Also while it is being joined: then as soon as it is.
        for isJoined in way == "revoked" ? [false] : [true] where isJoined { bench.networks.joined() }
        let grant = try #require(bench.engine.ledger.grant(of: id, to: session.app.id))
        switch way {
        case "revoked": try bench.engine.revoke(grant, reason: "test", by: .admin("root"))
        case "disabled": try bench.engine.setEnabled(grant, false, by: .admin("root"))
        case "session": bench.engine.invalidate(session, reason: "test")
        case "client": bench.engine.clientGone(session.client)
        case "policy":
            var policy = AccessPolicy()
            policy.denials = [.init(name: "no", source: "x.conf", apps: nil, target: .init())]
            bench.engine.setPolicy(policy)
        case "manifest": bench.engine.setManifests([:])
        case "declaration":
            var app = bench.app()
            app.supports = [.bluetooth]
            bench.declare(app)
        default: bench.engine.leaveNetworks {}
        }
        if way == "revoked" {
            #expect(bench.networks.leaves == 0)
            bench.networks.joined()
            #expect(answer??.code == .connectionFailed)
        }
        #expect(bench.networks.leaves == 1 && bench.engine.networkInterface(of: id, on: nil) == nil)
    }

    @Test func twoAppsAndTwoNetworks() throws {
        let bench = try Bench()
        let (session, id) = try granted(bench)
        let other = try bench.session(":other", app: "com.example.other")
        try bench.engine.showPicker(other, items: [item(prefix: "Dice-")], settings: PickerSettings())
        bench.networks.hear("Dice-1", "Dice-2")
        try pick(bench)
        try bench.engine.showPicker(other, items: [item(prefix: "Dice-")], settings: PickerSettings())
        bench.networks.hear("Dice-1", "Dice-2")
        try pick(bench)
        let second = try #require(bench.engine.ledger.accessory(ofNetwork: SSID("Dice-2")!, for: AppID("com.example.other")!)).id
        var answers: [SetupError?] = []
        try join(bench, id) { answers.append($0) }
        bench.networks.joined()
        try join(bench, id, client: ":other") { answers.append($0) }
        #expect(answers == [nil, nil] && bench.networks.joins.count == 1)
        // One interface is on one network.
        try join(bench, second, client: ":other") { answers.append($0) }
        #expect(answers.count == 3 && answers[2]?.code == .connectionFailed)
        bench.engine.leaveNetwork(of: id, for: session.client) {}
        #expect(bench.networks.leaves == 0)
        // Alone on it, an app changes over.
        try join(bench, second, client: ":other") { answers.append($0) }
        #expect(bench.networks.leaves == 1)
        bench.networks.left()
        #expect(bench.networks.joins.last?.ssid == SSID("Dice-2"))
        bench.networks.joined()
        #expect(answers.count == 4 && answers[3] == nil)
    }

    @Test func aNetworkThatIsGoneIsNobodys() throws {
        let bench = try Bench()
        let (_, id) = try granted(bench)
        try join(bench, id) { _ in }
        bench.networks.joined()
        bench.networks.observer?.networkLost(reason: "out of range")
        #expect(bench.engine.networkInterface(of: id, on: nil) == nil && bench.networks.leaves == 0)
        try join(bench, id) { _ in }
        #expect(bench.networks.joins.count == 2)
    }

    @Test func onlyTheGrantedNetworkIsJoined() throws {
        let bench = try Bench()
        let (_, id) = try granted(bench)
        let app = AppID("com.example.dice")!
        func refusal(_ id: AccessoryID, _ app: AppID, _ network: String?) -> SetupError? {
            do throws(SetupError) {
                try bench.engine.joinNetwork(
                    of: id, for: ClientID(":app"), app, passphrase: nil, isHidden: false, network: network.flatMap { SSID($0) }
                ) { _ in }
                return nil
            } catch { return error }
        }
        #expect(refusal(id, app, "Home")?.code == .invalidRequest)
        #expect(refusal(id, AppID("com.example.other")!, nil)?.code == .invalidRequest)
        #expect(refusal(.random(), app, nil)?.code == .invalidRequest)
        bench.networks.state = .off
        #expect(refusal(id, app, nil)?.code == .connectionFailed)
        bench.networks.state = .ready
        #expect(bench.networks.joins.isEmpty)
        #expect(refusal(id, app, "Dice-1") == nil)
    }

    @Test(arguments: [
        ("", false), ("short12", false), ("eightchr", true), (String(repeating: "x", count: 63), true),
        (String(repeating: "x", count: 64), false), (String(repeating: "aB", count: 32), true), ("with\nline", false),
        (String(repeating: "ä", count: 4), true),
    ])
    func passphrases(_ text: String, _ isValid: Bool) {
        #expect((NetworkJoin.Passphrase(text) != nil) == isValid)
        if let passphrase = NetworkJoin.Passphrase(text) {
            #expect(!"\(NetworkJoin(ssid: SSID("D")!, passphrase: passphrase))".contains(text))
        }
    }

    // MARK: Wi-Fi Aware

    @Test func wiFiAwareIsRefusedWhereItIsMissing() throws {
        let bench = try Bench()
        try bench.engine.registerPicker(ClientID(":picker"))
        let session = try bench.session()
        var item = item()
        item.descriptor.wifiAware = WiFiAware()
        item.descriptor.wifiAware?.serviceName = "_dice._tcp"
        item.descriptor.wifiAware?.serviceRole = .publisher
        #expect { try bench.engine.showPicker(session, items: [item], settings: PickerSettings()) } throws: {
            ($0 as? SetupError)?.code == .invalidRequest && "\($0)".contains("no Wi-Fi Aware here")
        }
        bench.networks.awareObstacle = nil
        item.descriptor.wifiAware?.modelName = WiFiAware.Match(string: "d6", options: .caseInsensitive)
        try bench.engine.showPicker(session, items: [item], settings: PickerSettings())
        bench.networks.observer?.heard(services: [
            AwareService(peer: "1", serviceName: "_dice._tcp", modelName: "Model D6", vendorName: "Example"),
            AwareService(peer: "2", serviceName: "_dice._tcp", modelName: "Model D20", vendorName: "Example"),
            AwareService(peer: "4", serviceName: "_dice._tcp", role: .subscriber, modelName: "Model D6", vendorName: "Example"),
            AwareService(peer: "3", serviceName: "_lamp._tcp", modelName: "Model D6", vendorName: "Example"),
        ])
        #expect(offers(bench).map(\.advertisedName) == ["Example Model D6"])
        try pick(bench)
        #expect(try #require(bench.store.stored.grants.first).terms.awareDevice == 7)
    }
}

// SPDX-License-Identifier: Apache-2.0
// Which accessory in range an app gets without a person, by claim lists and rules, and why not the others.

import AccessoryCore
import AccessoryModel
import Testing

@Suite struct UnattendedTests {
    private static let app = AppID("com.example.dice")!
    private static let pink = BluetoothUUID("E56A082E-C49B-47CA-A2AB-389127B8ABE3")!
    private static let company = CompanyIdentifier(0xFFFE)
    private static let rule = AccessPolicy.Approval(
        name: "all", source: "10.conf", app: app, target: .init(descriptor: descriptor), minimumRSSI: -127)

    private static var descriptor: DiscoveryDescriptor {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = pink
        return descriptor
    }

    private func list(
        _ keys: [String], id: String = "spring", place: ClaimList.Place = .name(prefix: "", suffix: ""), count: Int = 10,
        app: AppID = Self.app
    ) -> ClaimList {
        ClaimList(
            id: id, source: "\(id).conf", app: app, window: 100..<200, count: count, place: place,
            entries: keys.map { ClaimList.Entry(key: $0) })
    }

    private func device(_ name: String?, _ number: UInt64 = 1, kind: BluetoothAddress.Kind = .public) -> AccessoryCandidate {
        var advert = Advertisement(
            device: RadioDeviceID("\(number)"), address: BluetoothAddress(value: 0xC0FF_EE00_0000 | number, kind: kind))
        advert.localName = name
        advert.serviceUUIDs = [Self.pink]
        return AccessoryCandidate(advertisement: advert)
    }

    private func policy(_ lists: [ClaimList], rules: [AccessPolicy.Approval] = []) -> AccessPolicy {
        var policy = AccessPolicy()
        (policy.lists, policy.approvals) = (lists, rules)
        return policy
    }

    /// The place of the accessory that is taken, and the verdicts in words.
    private func decide(
        _ policy: AccessPolicy, _ devices: [(AccessoryCandidate, Int?)], _ claims: Claims = Claims(), now: Int64 = 150
    ) -> (choice: Int?, verdicts: [String]) {
        let unattended = Unattended(policy, claims, Self.app, now: now)
        let verdicts = unattended.verdicts(on: devices.map { (candidate: $0.0, rssi: $0.1) })
        return (unattended.choice(verdicts, strengths: devices.map(\.1)), verdicts.map { "\($0)" })
    }

    private func claim(_ entry: String, of list: String = "spring") -> Claim {
        Claim(.init(list: list, entry: entry), app: Self.app, accessory: .random(), isAuthenticated: false, time: 120)
    }

    @Test func anEntryGoesBeforeStrength() {
        let air = [(device("stranger"), -20), (device("B", 2), -90), (device("A", 3), nil)] as [(AccessoryCandidate, Int?)]
        let decided = decide(policy([list(["A", "B"])], rules: [Self.rule]), air)
        #expect(decided.choice == 2)
        #expect(decided.verdicts[0] == "not approved: no entry of claim list spring fits it")
        #expect(decided.verdicts[2] == "approved by entry A of claim list spring in spring.conf, unauthenticated")
        // Without an open list the rule decides as ever: the nearest.
        #expect(decide(policy([], rules: [Self.rule]), air).choice == 0)
        #expect(decide(policy([list(["A", "B"])], rules: [Self.rule]), air, now: 200).choice == 0)
        #expect(decide(policy([list(["A"], app: AppID("com.example.board")!)], rules: [Self.rule]), air).choice == 0)
        // While the listed one is silent, nothing is taken.
        #expect(decide(policy([list(["C"])], rules: [Self.rule]), air).choice == nil)
    }

    @Test func theWindowAndTheCount() {
        let air = [(device("A"), -50), (device("B", 2), -50)] as [(AccessoryCandidate, Int?)]
        func reason(_ list: ClaimList, _ claims: Claims = Claims(), now: Int64) -> String {
            let decided = decide(policy([list]), air, claims, now: now)
            #expect(decided.choice == nil)
            return decided.verdicts[1]
        }
        #expect(reason(list(["A", "B"]), now: 99).contains("opens at 1970-01-01T00:01:40Z; the clock says 1970-01-01T00:01:39Z"))
        #expect(decide(policy([list(["A", "B"])]), air, now: 100).choice == 0)
        #expect(decide(policy([list(["A", "B"])]), air, now: 199).choice == 0)
        #expect(reason(list(["A", "B"]), now: 200).contains("closed at 1970-01-01T00:03:20Z"))
        #expect(reason(list(["A", "B"], count: 1), Claims([claim("A")]), now: 150).contains("has set up its Count=1"))
        #expect(reason(list(["A", "B"]), Claims([claim("A"), claim("B")]), now: 150).contains("has no entry left"))
        // An entry that the file no longer has counts.
        #expect(reason(list(["B"], count: 1), Claims([claim("A")]), now: 150).contains("has set up its Count=1"))
    }

    @Test func anEntryIsUsedOnce() {
        let air = [(device("A"), -50), (device("B", 2), -50)] as [(AccessoryCandidate, Int?)]
        let decided = decide(policy([list(["A", "B"])]), air, Claims([claim("A")]))
        #expect(decided.choice == 1)
        #expect(decided.verdicts[0].contains("entry A of claim list spring is used since 1970-01-01T00:02:00Z"))
        #expect(decide(policy([list(["A", "B"])]), air, Claims([claim("A", of: "another")])).choice == 0)
    }

    @Test func failuresComeLast() {
        var claims = Claims()
        claims.addFailure(of: .init(list: "spring", entry: "A"), at: 120)
        let air = [(device("A"), -50), (device("B", 2), -50)] as [(AccessoryCandidate, Int?)]
        #expect(decide(policy([list(["A", "B"])]), air, claims).choice == 1)
        claims.addFailure(of: .init(list: "spring", entry: "B"), at: 125)
        #expect(decide(policy([list(["A", "B"])]), air, claims).choice == 0)
        // Even alone, it leaves the others a while to be heard.
        let soon = decide(policy([list(["A", "B"])]), [air[0]], claims, now: 129)
        #expect(soon.choice == nil)
        #expect(soon.verdicts[0].contains("is not tried for 10 s: its set-up has failed"))
        #expect(decide(policy([list(["A", "B"])]), [air[0]], claims, now: 130).choice == 0)
    }

    @Test func twoThatFitAreBothLeft() {
        let twins = [(device("A"), -50), (device("A", 2), -20), (device("B", 3), -90)] as [(AccessoryCandidate, Int?)]
        let decided = decide(policy([list(["A", "B"])]), twins)
        #expect(decided.choice == 2)
        #expect(decided.verdicts[1] == "not approved: entry A of claim list spring fits 2 accessories in range")
        // One that is denied is no candidate.
        var denying = policy([list(["A"])])
        denying.denials = [.init(name: "no", source: "10.conf", apps: nil, target: .init(address: 0xC0FF_EE00_0002))]
        #expect(decide(denying, twins).choice == 0)
        // Entries of two lists.
        let both = decide(policy([list(["A"]), list(["A"], id: "autumn")]), [(device("A"), -50)])
        #expect(both.choice == nil)
        #expect(both.verdicts[0].contains("it fits entry A of claim list spring and entry A of claim list autumn"))
    }

    @Test func denialsAndMistakesGoBeforeLists() {
        var broken = policy([list(["A"])])
        broken.problem = "10.conf:1: x"
        #expect(decide(broken, [(device("A"), -50)]).verdicts == ["not approved: the policy is not valid: 10.conf:1: x"])
        #expect(!Unattended(broken, Claims(), Self.app, now: 150).mayApprove)
        var denying = policy([list(["A"])])
        denying.denials = [.init(name: "no", source: "10.conf", apps: [Self.app], target: .init(descriptor: Self.descriptor))]
        #expect(decide(denying, [(device("A"), -50)]).verdicts == ["not approved: rule no in 10.conf denies it"])
    }

    @Test func aNetworkIsLeftToAPerson() throws {
        var candidate = device("A")
        candidate.network = WiFiNetwork(ssid: try #require(SSID("Die")), rssi: nil, security: nil, band: nil)
        let decided = decide(policy([list(["A"])]), [(candidate, -50)])
        #expect(decided.choice == nil)
        #expect(decided.verdicts[0].contains("approves no network"))
    }

    @Test func placesOfSerialNumbers() {
        func fits(_ place: ClaimList.Place, _ key: String, _ candidate: AccessoryCandidate) -> Bool {
            decide(policy([list([key], place: place)]), [(candidate, -50)]).choice == 0
        }
        #expect(fits(.name(prefix: "Die ", suffix: "!"), "7", device("Die 7!")))
        #expect(!fits(.name(prefix: "Die ", suffix: "!"), "7", device("Die 7")))
        #expect(!fits(.name(prefix: "aba", suffix: "aba"), "", device("aba")))
        #expect(!fits(.name(prefix: "", suffix: ""), "7", device(nil)))
        #expect(fits(.address, "C0:FF:EE:00:00:01", device("x")))
        #expect(fits(.address, "C0:FF:EE:00:00:01", device("x", kind: .random)))
        // A private address with the value of a listed one.
        var isPrivate = device("x")
        isPrivate.advertisement?.address = BluetoothAddress(value: 0x40FF_EE00_0001, kind: .random)
        #expect(!fits(.address, "40:FF:EE:00:00:01", isPrivate))
        var data = device("x")
        data.advertisement?.manufacturerData = [Self.company: [1, 2, 0x53, 0x37]]
        data.advertisement?.serviceData = [Self.pink: [0xAB, 0xCD]]
        #expect(fits(.manufacturerData(Self.company, offset: 2, isText: true), "S7", data))
        #expect(fits(.manufacturerData(Self.company, offset: 0, isText: false), "0102", data))
        #expect(!fits(.manufacturerData(Self.company, offset: 3, isText: true), "S7", data))
        #expect(fits(.serviceData(Self.pink, offset: 1, isText: false), "cd", data))
        #expect(!fits(.serviceData(Self.pink, offset: 2, isText: false), "cd", data))
    }

    @Test func aChangeBeforeTheGrant() {
        let unattended = Unattended(policy([list(["A"])]), Claims(), Self.app, now: 150)
        guard case .listed(let listing) = unattended.verdicts(on: [(candidate: device("A"), rssi: -50)])[0] else {
            Issue.record("is not listed")
            return
        }
        func obstacle(_ lists: [ClaimList], _ claims: Claims = Claims(), now: Int64 = 150) -> String? {
            Unattended(policy(lists), claims, Self.app, now: now).obstacle(to: listing)
        }
        #expect(obstacle([list(["A"])]) == nil)
        #expect(obstacle([list(["B", "A"])]) == nil)
        #expect(obstacle([list(["B"])])?.contains("was changed") == true)
        #expect(obstacle([])?.contains("was changed") == true)
        #expect(obstacle([list(["A"])], now: 200)?.contains("closed at") == true)
        #expect(obstacle([list(["A", "B"])], Claims([claim("A")]))?.contains("is used") == true)
    }
}

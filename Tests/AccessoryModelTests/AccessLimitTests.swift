// SPDX-License-Identifier: Apache-2.0
// Limits of access: text and back, the uses that each permits, and the part that two permit.

import AccessoryModel
import Testing

@Suite struct AccessLimitTests {
    private static func list(_ texts: String...) -> AccessLimit {
        .listed(CharacteristicList(texts.map { CharacteristicAccess($0)! }))
    }

    private static func identity(_ characteristic: String, _ instance: Int) -> CharacteristicIdentity {
        CharacteristicIdentity(
            service: BluetoothUUID("180F")!, characteristic: BluetoothUUID(characteristic)!, instance: instance)
    }

    @Test(arguments: [
        ("180F/2A19:read", "180F/2A19:read"), ("180f/2a19:listen+read", "180F/2A19:read+listen"),
        ("180F/2A19#2:read+read", "180F/2A19#2:read"),
        (
            "0000180f-0000-1000-8000-00805f9b34fb/E56A082E-C49B-47CA-A2AB-389127B8ABE3#65535:write",
            "180F/E56A082E-C49B-47CA-A2AB-389127B8ABE3#65535:write"
        ),
    ])
    func anEntryHasAText(_ given: String, _ expected: String) {
        #expect(CharacteristicAccess(given)?.description == expected)
        #expect(CharacteristicAccess(expected)?.description == expected)
    }

    @Test(arguments: [
        "", "180F", "180F/2A19", "180F/2A19:", "180F/2A19:execute", "180F/2A19:read+", "180F/2A19:read:write", "18/2A19:read",
        "180F/2A19/2A19:read", "180F/2A19#0:read", "180F/2A19#-1:read", "180F/2A19#65536:read", "180F/2A19#:read",
        "180F/2A19#1#2:read",
    ])
    func anotherTextIsNoEntry(_ text: String) {
        #expect(CharacteristicAccess(text) == nil)
    }

    @Test func eachCharacteristicIsListedOnce() {
        #expect(
            Self.list("180F/2A19:read", "180F/2A19:listen", "180F/2A19#2:read+write").description
                == "listed (180F/2A19:read+listen; 180F/2A19#2:write)")
        #expect(Self.list("180F/2A19:read", "180F/2A19#2:read") == Self.list("180F/2A19:read"))
        #expect(Self.list("180F/2A1A:read", "180F/2A19:read") == Self.list("180F/2A19:read", "180F/2A1A:read"))
    }

    @Test func eachLimitPermitsItsUses() {
        let listed = Self.list("180F/2A19:read", "180F/2A19#2:write")
        let battery = (1...3).map { Self.identity("2A19", $0) }
        for uses: CharacteristicUses in [.read, .write, .listen, [.read, .listen], [.read, .write]] {
            #expect(AccessLimit.full.allows(uses, of: nil) && AccessLimit.full.allows(uses, of: battery[0]))
            #expect(AccessLimit.read.allows(uses, of: nil) == !uses.contains(.write))
            #expect(AccessLimit.read.allows(uses, of: battery[0]) == !uses.contains(.write))
            #expect(listed.allows(uses, of: battery[0]) == (uses == .read))
            #expect(listed.allows(uses, of: battery[1]) == [CharacteristicUses.read, .write, [.read, .write]].contains(uses))
            #expect(listed.allows(uses, of: battery[2]) == (uses == .read))
            #expect(!listed.allows(uses, of: nil) && !listed.allows(uses, of: Self.identity("2A1A", 1)))
        }
    }

    private static let limits: [AccessLimit] = [
        .full, .read, list(), list("180F/2A19:read"), list("180F/2A19:read+write"), list("180F/2A19#2:read+write+listen"),
        list("180F/2A19:write", "180F/2A19#1:read", "180F/2A1A:listen"), list("180F/2A19#1:read", "180F/2A19#2:write"),
    ]

    @Test func narrowingIsTheIntersection() {
        #expect(AccessLimit.full.narrowed(by: .read) == .read)
        #expect(AccessLimit.read.narrowed(by: Self.list("180F/2A19:read+write+listen")) == Self.list("180F/2A19:read+listen"))
        #expect(AccessLimit.read.narrowed(by: Self.list("180F/2A19:write")) == Self.list())
        #expect(
            Self.list("180F/2A19:read+write").narrowed(by: Self.list("180F/2A19#2:write+listen")) == Self.list("180F/2A19#2:write"))
        let identities = (1...3).flatMap { [Self.identity("2A19", $0), Self.identity("2A1A", $0)] } + [nil]
        for one in Self.limits {
            for other in Self.limits {
                let both = one.narrowed(by: other)
                #expect(both == other.narrowed(by: one) && both.isWithin(one) && both.isWithin(other), "\(one), \(other)")
                for identity in identities {
                    for uses: CharacteristicUses in [.read, .write, .listen] {
                        #expect(
                            both.allows(uses, of: identity) == (one.allows(uses, of: identity) && other.allows(uses, of: identity)),
                            "\(one), \(other), \(identity.map { "\($0)" } ?? "-"), \(uses.words)")
                    }
                }
            }
        }
    }

    @Test func theSameOrLessIsWithin() {
        for limit in Self.limits { #expect(limit.isWithin(limit) && limit.isWithin(.full) && Self.list().isWithin(limit)) }
        #expect(!AccessLimit.full.isWithin(.read) && !AccessLimit.read.isWithin(Self.list("180F/2A19:read+listen")))
        #expect(Self.list("180F/2A19#2:read").isWithin(Self.list("180F/2A19:read")))
        #expect(!Self.list("180F/2A19:read").isWithin(Self.list("180F/2A19#2:read")))
    }

    @Test func inANetworkNothingIsNarrowed() {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = BluetoothUUID("180F")
        var terms = Grant.Terms(descriptor, hasBluetooth: true, ssid: SSID([65]))
        #expect(terms.includes(.wifi) && terms.access == .full && terms.narrowing == nil)
        terms.descriptor.access = .read
        #expect(!terms.includes(.wifi) && terms.includes(.bluetooth) && terms.narrowing == .read)
        terms.descriptor.access = .hear
        #expect(terms.access == Self.list() && terms.narrowing == nil)
    }
}

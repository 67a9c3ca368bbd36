// SPDX-License-Identifier: Apache-2.0
// The admin's rules on kinds: which are approved, and which are denied as a whole.

import AccessoryCore
import AccessoryModel
import Testing

@Suite struct AccessPolicyTests {
    private let app = AppID("com.example.hub")!
    private let service = BluetoothUUID("180F")!

    private func kind(_ maxDevices: Int? = nil, name: String? = nil) -> DiscoveryDescriptor {
        var kind = DiscoveryDescriptor()
        (kind.access, kind.serviceUUID, kind.maxDevices, kind.name.substring) = (.hear, service, maxDevices, name)
        return kind
    }

    private func target(_ change: (inout DiscoveryDescriptor) -> Void) -> AccessPolicy.Target {
        var descriptor = DiscoveryDescriptor()
        change(&descriptor)
        return AccessPolicy.Target(descriptor: descriptor)
    }

    private func approval(_ target: AccessPolicy.Target, _ maxDevices: Int?) -> AccessPolicy {
        var policy = AccessPolicy()
        policy.approvals = [
            .init(name: "tags", source: "10.conf", app: app, target: target, minimumRSSI: -90, maxDevices: maxDevices)
        ]
        return policy
    }

    @Test func aKindTakesARuleForKinds() {
        let policy = approval(target { $0.serviceUUID = service }, 64)
        #expect(policy.approval(ofKind: kind(), to: app) != nil)
        #expect(policy.approval(ofKind: kind(64), to: app) != nil)
        #expect(policy.approval(ofKind: kind(65), to: app) == nil)
        #expect(policy.approval(ofKind: kind(), to: AppID("com.example.other")!) == nil)
        #expect(approval(target { $0.serviceUUID = service }, nil).approval(ofKind: kind(), to: app) == nil)
    }

    @Test func aRuleForKindsApprovesNoSingleAccessory() {
        var advert = Advertisement(device: RadioDeviceID("/d"), address: BluetoothAddress(value: 1, kind: .random))
        advert.serviceUUIDs = [service]
        let candidate = AccessoryCandidate(advertisement: advert)
        #expect(approval(target { $0.serviceUUID = service }, nil).approval(of: candidate, rssi: -50, to: app) != nil)
        #expect(approval(target { $0.serviceUUID = service }, 64).approval(of: candidate, rssi: -50, to: app) == nil)
        #expect(approval(target { $0.serviceUUID = service }, 64).approval(ofMigrating: candidate, to: app) == nil)
    }

    @Test func theKindHasEveryTraitOfTheRule() {
        let named = approval(target { ($0.serviceUUID, $0.name.substring) = (service, "Tag") }, 64)
        #expect(named.approval(ofKind: kind(name: "Tag"), to: app) != nil)
        #expect(named.approval(ofKind: kind(), to: app) == nil)
        #expect(named.approval(ofKind: kind(name: "Other"), to: app) == nil)
    }

    @Test func aDenialOfAllItsDevicesDeniesTheKind() {
        func denied(_ target: AccessPolicy.Target) -> Bool {
            var policy = approval(self.target { $0.serviceUUID = service }, 64)
            policy.denials = [.init(name: "no", source: "10.conf", apps: nil, target: target)]
            #expect((policy.denial(ofKind: kind(), to: app) != nil) == (policy.approval(ofKind: kind(), to: app) == nil))
            return policy.denial(ofKind: kind(), to: app) != nil
        }
        #expect(denied(AccessPolicy.Target()))
        #expect(denied(target { $0.serviceUUID = service }))
        #expect(!denied(target { $0.serviceUUID = BluetoothUUID("1812") }))
        #expect(!denied(target { ($0.serviceUUID, $0.name.substring) = (service, "Tag") }))
        #expect(!denied(target { $0.ssid = [65] }))
        #expect(!denied(AccessPolicy.Target(address: 1)))
    }
}

// SPDX-License-Identifier: Apache-2.0
// Which descriptors are refused, and that the refusal names the key and the value.

import AccessoryCore
import AccessoryModel
import Testing

@Suite struct DescriptorRulesTests {
    private func refusal(_ change: (inout DiscoveryDescriptor) -> Void) -> String? {
        var descriptor = DiscoveryDescriptor()
        change(&descriptor)
        do {
            try DescriptorRules.check(descriptor)
            return nil
        } catch {
            #expect(error.code == .invalidRequest)
            return error.message
        }
    }

    @Test func rule1NeedsCompanyOrService() {
        #expect(refusal { _ in }?.contains("bluetoothServiceUUID") == true)
        #expect(refusal { $0.serviceUUID = BluetoothUUID("180F") } == nil)
        #expect(refusal { $0.companyIdentifier = CompanyIdentifier(0) } == nil)
        #expect(refusal { $0.name.substring = "Dice" }?.contains("bluetoothNameSubstring: Dice") == true)
    }

    @Test func rule1DataNeedsItsIdentifier() throws {
        let data = try MaskedData(blob: [0xAB], mask: [0xFF])
        let service = BluetoothUUID("180F")
        #expect(
            refusal { ($0.manufacturerData, $0.serviceUUID) = (data, service) }?.contains("bluetoothManufacturerDataBlob: ab")
                == true)
        #expect(
            refusal { ($0.serviceData, $0.companyIdentifier) = (data, CompanyIdentifier(1)) }?.contains(
                "bluetoothServiceDataBlob: ab") == true)
    }

    @Test func rule1MaskedData() {
        #expect(throws: MaskedData.Problem.lengthsDiffer) { try MaskedData(blob: [1], mask: [1, 2]) }
        #expect(throws: MaskedData.Problem.blobBitOutsideMask(index: 1)) { try MaskedData(blob: [1, 6], mask: [0xFF, 0]) }
        #expect(throws: MaskedData.Problem.empty) { try MaskedData(blob: [], mask: []) }
    }

    @Test func rule3Names() {
        let base: (inout DiscoveryDescriptor) -> Void = { $0.serviceUUID = BluetoothUUID("180F") }
        #expect(
            refusal {
                base(&$0); $0.name.substring = ""
            }?.contains("bluetoothNameSubstring") == true)
        #expect(
            refusal {
                base(&$0); $0.name.substring = String(repeating: "x", count: 249)
            }?.contains("248") == true)
        #expect(
            refusal {
                base(&$0); $0.name.options = .literal
            }?.contains("CompareOptions") == true)
        #expect(
            refusal {
                base(&$0)
                $0.name.substring = "("
                $0.name.options = .regularExpression
            }?.contains("regular expression") == true)
    }

    @Test func aKindHasBluetoothKeysOnly() {
        func kind(_ change: @escaping (inout DiscoveryDescriptor) -> Void = { _ in }) -> String? {
            refusal {
                ($0.access, $0.serviceUUID) = (.hear, BluetoothUUID("180F"))
                change(&$0)
            }
        }
        #expect(kind() == nil)
        #expect(kind { $0.name.substring = "Tag" } == nil)
        #expect(kind { $0.serviceUUID = nil }?.hasPrefix("access: hear: needs bluetoothServiceUUID") == true)
        for change: (inout DiscoveryDescriptor) -> Void in [
            { $0.ssid = [65] }, { $0.ssidPrefix = [65] }, { $0.supportedOptions = .pairingLE }, { $0.range = .immediate },
        ] {
            #expect(kind(change)?.hasPrefix("access: hear: cannot be combined with") == true)
        }
        for count in [1, 1024] { #expect(kind { $0.maxDevices = count } == nil) }
        for count in [-1, 0, 1025] {
            #expect(kind { $0.maxDevices = count }?.hasPrefix("maxDevices: \(count): must be 1 to 1024") == true)
        }
        #expect(refusal { ($0.maxDevices, $0.serviceUUID) = (1, BluetoothUUID("180F")) }?.hasPrefix("maxDevices: 1: needs") == true)
    }

    @Test func narrowedAccessHasNoWayAround() {
        func narrowed(_ change: @escaping (inout DiscoveryDescriptor) -> Void = { _ in }) -> String? {
            refusal {
                ($0.access, $0.serviceUUID) = (.read, BluetoothUUID("180F"))
                change(&$0)
            }
        }
        #expect(narrowed() == nil)
        #expect(narrowed { $0.range = .immediate } == nil)
        #expect(narrowed { $0.supportedOptions = .pairingLE } == nil)
        #expect(narrowed { $0.serviceUUID = nil }?.hasPrefix("access: read: needs bluetoothServiceUUID") == true)
        for change: (inout DiscoveryDescriptor) -> Void in [
            { $0.ssid = [65] }, { $0.ssidPrefix = [65] }, { $0.supportedOptions = .hid },
            { $0.supportedOptions = [.pairingLE, .transportBridging] },
        ] {
            #expect(narrowed(change)?.hasPrefix("access: read: cannot be combined with") == true)
        }
        #expect(narrowed { $0.maxDevices = 1 }?.hasPrefix("maxDevices: 1: needs access hear") == true)
    }

    @Test func rule4SSIDs() {
        #expect(refusal { ($0.ssid, $0.ssidPrefix) = ([65], [66]) }?.contains("ssidPrefix") == true)
        #expect(refusal { $0.ssid = [] }?.contains("ssid") == true)
        #expect(refusal { $0.ssidPrefix = Array(repeating: 65, count: 33) }?.contains("32") == true)
        #expect(refusal { $0.ssid = Array(repeating: 0xFF, count: 32) } == nil)
    }

    @Test func rule6Declarations() {
        var app = AppManifest(id: AppID("com.example")!, name: "Example", source: "/apps/com.example.conf")
        app.supports = [.bluetooth]
        app.services = [BluetoothUUID("180F")!]
        app.names = ["Dice"]
        app.companies = [CompanyIdentifier(0xFFFF)]
        func refusal(_ change: (inout DiscoveryDescriptor) -> Void) -> String? {
            var descriptor = DiscoveryDescriptor()
            change(&descriptor)
            do {
                try DescriptorRules.check(descriptor, declaredBy: app)
                return nil
            } catch { return error.message }
        }
        // The 16-bit form and its 128-bit form are the same service.
        #expect(refusal { $0.serviceUUID = BluetoothUUID("0000180F-0000-1000-8000-00805F9B34FB") } == nil)
        #expect(refusal { $0.serviceUUID = BluetoothUUID("180A") }?.contains("/apps/com.example.conf") == true)
        #expect(refusal { $0.companyIdentifier = CompanyIdentifier(1) }?.contains("0001") == true)
        #expect(refusal { ($0.serviceUUID, $0.name.substring) = (BluetoothUUID("180F"), "Lamp") }?.contains("Lamp") == true)
        #expect(refusal { $0.ssid = [65] }?.contains("WiFi") == true)
        app.supports = []
        #expect(refusal { $0.serviceUUID = BluetoothUUID("180F") }?.contains("Bluetooth") == true)
    }
}

// SPDX-License-Identifier: Apache-2.0
// The daemon's output, in the types that the XML and the documents promise; decoding an encoded value yields the same
// value.

import AccessoryBus
import AccessoryModel
import DBusKit
import TestSupport
import Testing

private func types(_ value: DBusValue?) -> [String: String] { types(value?.vardictValue ?? [:]) }
private func types(_ values: [String: DBusValue]) -> [String: String] { values.mapValues(\.signature.rawValue) }

@Suite struct EncodingTests {
    private let id = AccessoryID("7F3C9A52-1111-4222-8333-444455556666")!
    private let service = BluetoothUUID("180F")!

    private func descriptor(_ generator: inout SeededGenerator) throws -> DiscoveryDescriptor {
        func maybe<Value>(_ value: @autoclosure () throws -> Value) rethrows -> Value? {
            Bool.random(using: &generator) ? try value() : nil
        }
        func bytes(_ range: ClosedRange<Int>) -> [UInt8] {
            (0..<Int.random(in: range, using: &generator)).map { _ in .random(in: 0...255, using: &generator) }
        }
        func text() -> String { ["", "Die", "Würfel", "🎲 1", "a\nb"].randomElement(using: &generator)! }
        func data() throws -> MaskedData {
            let mask = bytes(1...31)
            return try MaskedData(blob: mask.map { $0 & .random(in: 0...255, using: &generator) }, mask: mask)
        }
        func options() -> CompareOptions {
            CompareOptions(CompareOptions.names.filter { _ in Bool.random(using: &generator) }.map(\.1))
        }
        var descriptor = DiscoveryDescriptor()
        descriptor.companyIdentifier = maybe(CompanyIdentifier(.random(in: 0...0xFFFF, using: &generator)))
        descriptor.serviceUUID = maybe(
            BluetoothUUID(high: .random(in: 0...UInt64.max, using: &generator), low: .random(in: 0...UInt64.max, using: &generator))
        )
        descriptor.manufacturerData = try maybe(try data())
        descriptor.serviceData = try maybe(try data())
        descriptor.name.substring = maybe(text())
        descriptor.name.options = options()
        descriptor.range = maybe(.immediate) ?? .default
        let entries = ["180F/2A19#2:read+listen", "180A/2A29:write"].map { CharacteristicAccess($0)! }
        descriptor.access = maybe(.hear) ?? maybe(.read) ?? maybe(.use(.listed(CharacteristicList(entries)))) ?? .full
        descriptor.maxDevices = maybe(.random(in: 1...1024, using: &generator))
        descriptor.ssid = maybe(bytes(0...32))
        descriptor.ssidPrefix = maybe(bytes(0...32))
        descriptor.supportedOptions = SupportOptions(SupportOptions.names.filter { _ in Bool.random(using: &generator) }.map(\.1))
        var aware = WiFiAware()
        aware.serviceName = maybe(text())
        aware.serviceRole = maybe(.publisher) ?? maybe(.subscriber)
        aware.modelName = maybe(WiFiAware.Match(string: text(), options: options()))
        aware.vendorName = maybe(WiFiAware.Match(string: text(), options: options()))
        descriptor.wifiAware = aware == WiFiAware() ? nil : aware
        return descriptor
    }

    @Test func decodingADescriptorIsTheInverseOfEncodingIt() throws {
        func traits(_ descriptor: DiscoveryDescriptor) -> [String: String] {
            let (own, name) = (Mirror(reflecting: descriptor).children, Mirror(reflecting: descriptor.name).children)
            let pairs = own.map { ($0.label ?? "", "\($0.value)") } + name.map { ("name.\($0.label ?? "")", "\($0.value)") }
            return Dictionary(uniqueKeysWithValues: pairs)
        }
        let unset = traits(DiscoveryDescriptor())
        var seen: Set<String> = []
        var set: Set<String> = []
        for seed in UInt64(0)..<500 {
            var generator = SeededGenerator(state: seed)
            let descriptor = try descriptor(&generator)
            let value = descriptor.wire
            seen.formUnion(types(value).keys)
            set.formUnion(traits(descriptor).filter { unset[$0.key] != $0.value }.keys)
            #expect(try DescriptorKeys.decode(value, "descriptor") == descriptor, "seed \(seed)")
        }
        #expect(seen == Set(DescriptorKeys.table.rows.map(\.name)))
        // A property that is never set here could be without a row.
        #expect(set == Set(unset.keys))
    }

    @Test func accessories() throws {
        let address = BluetoothAddress("C0:FF:EE:00:00:01", kind: .random)
        let classic = BluetoothAddress("00:01:02:03:04:05", kind: .public)
        func properties(_ address: BluetoothAddress?, _ terms: Grant.Terms) -> [String: DBusValue] {
            let granted = GrantedAccessory(
                Accessory(id: id, displayName: "Die", address: address, isBonded: address != nil, created: 1),
                Grant(id: 1, app: AppID("a.a")!, accessory: id, state: .awaitingAuthorization, terms: terms, created: 1))
            return AccessoryProperties(granted, device: "/org/bluez/hci0/dev_1", end: 99).wire.vardictValue ?? [:]
        }
        var descriptor = DiscoveryDescriptor()
        descriptor.companyIdentifier = CompanyIdentifier(1)
        let values = properties(
            address, Grant.Terms(descriptor, hasBluetooth: true, ssid: SSID("Die"), awareDevice: 7, classicAddress: classic))
        #expect(values["State"] == .string("awaitingAuthorization"))
        #expect(values["BluetoothIdentifier"] == .string(id.rawValue))
        #expect(values["BluetoothTransportBridgingIdentifier"] == .bytes([0, 1, 2, 3, 4, 5]))
        #expect(values["WiFiAwarePairedDeviceID"] == .uint64(7))
        #expect(values["Ends"] == .uint64(99))
        // The snapshot of an event has no row that is for admins.
        #expect(values["Address"] == nil && values["Apps"] == nil)
        // An app without Bluetooth in its descriptor sees nothing of the Bluetooth side.
        for (address, terms) in [
            (nil, Grant.Terms(DiscoveryDescriptor())), (address, Grant.Terms(DiscoveryDescriptor(), ssid: SSID("Die"))),
        ] {
            let none = properties(address, terms)
            #expect(none["BluetoothIdentifier"] == .string("") && none["Device"] == .objectPath("/"))
        }
    }

    @Test func offers() throws {
        let device = RadioDeviceID("/dev/1")
        func offer(_ rssi: Int?, shared: AccessoryID? = nil, network: WiFiNetwork? = nil) -> Offer {
            Offer(
                id: "1", device: device, address: nil, item: 0, name: "Die", advertisedName: "DIE-1", rssi: rssi, shared: shared,
                needsPairing: true, identifier: id, network: network)
        }
        func encoded(_ offer: Offer, resembled: String? = nil, hasImage: Bool = false) throws -> [String: DBusValue] {
            try #require(
                PickerOffer(
                    offer, ends: [], choices: [], access: nil, canBeNarrowed: false, resembled: resembled, hasImage: hasImage
                ).wire.vardictValue)
        }
        let least = ["advertisedName": "s", "hasImage": "b", "id": "s", "name": "s", "shared": "b"]
        #expect(types(try encoded(offer(nil))) == least)
        #expect(try encoded(offer(nil, shared: id), hasImage: true)["shared"] == .boolean(true))
        #expect(try encoded(offer(nil), hasImage: true)["hasImage"] == .boolean(true))
        #expect(try encoded(offer(nil), resembled: "Die\u{202E}")["resembles"] == .string("Die\u{FFFD}"))
        #expect(try encoded(offer(-40_000))["rssi"] == .int16(.min))
        let twin = PickerOffer(
            offer(nil), ends: [], choices: [], access: nil, canBeNarrowed: false, resembled: nil, hasImage: false, isTwin: true
        )
        #expect(twin.addressEnd == nil, "it has no address")
        for isBonded in [true, false] {
            let heard = Offer(
                id: "1", device: nil, address: BluetoothAddress(value: 0xC0_0A_EE_00_00_01, kind: .random), item: 0, name: "Die",
                advertisedName: "", rssi: nil, shared: nil, needsPairing: false, isBonded: isBonded, identifier: .random())
            #expect(try encoded(heard)["identity"] == (isBonded ? .string("C0:0A:EE:00:00:01 random") : nil))
        }
        let ending = PickerOffer(
            offer(nil), ends: [.duration(seconds: 60)], choices: [.none], access: .read, canBeNarrowed: true, resembled: nil,
            hasImage: false)
        #expect(ending.accessChoices == ["read"] && ending.access == .read)
        #expect(ending.ends == ["1min"] && ending.endChoices == ["none"])
        let network = WiFiNetwork(ssid: try #require(SSID("Die")), rssi: -50, security: .wpa2, band: .ghz5)
        let more = ["rssi": "n", "ssid": "ay", "network": "s", "networkRssi": "n", "security": "s", "band": "s"]
        #expect(types(try encoded(offer(-40, network: network))) == least.merging(more) { $1 })
        let unheard = WiFiNetwork(ssid: network.ssid, rssi: nil, security: nil, band: nil)
        #expect(types(try encoded(offer(nil, network: unheard))) == least.merging(["ssid": "ay", "network": "s"]) { $1 })
        let hostile = Offer(
            id: "1", device: device, address: nil, item: 0, name: "a\u{202E}", advertisedName: "<b>\n", rssi: nil, shared: nil,
            needsPairing: true, identifier: id,
            network: WiFiNetwork(ssid: try #require(SSID("\u{1B}[")), rssi: nil, security: nil, band: nil))
        let shown = try encoded(hostile)
        #expect(shown["name"] == .string("a\u{FFFD}") && shown["advertisedName"] == .string("<b>\u{FFFD}"))
        #expect(shown["network"] == .string("\u{FFFD}[") && shown["ssid"] == .bytes([0x1B, 0x5B]))
        #expect(PickerOffer.wire([]) == .array(of: "a{sv}", []))
    }

    @Test func advertisements() throws {
        var advert = Advertisement(device: RadioDeviceID("/dev/1"), address: .none)
        #expect(AdvertisementEntry(advert).wire == .vardict([:]))
        advert.localName = "Die"
        advert.txPower = 200_000
        advert.serviceUUIDs = [service, try #require(BluetoothUUID("1800"))]
        advert.serviceData = [service: [1]]
        advert.manufacturerData = [CompanyIdentifier(76): [2]]
        let values = try #require(AdvertisementEntry(advert).wire.vardictValue)
        #expect(
            types(values)
                == ["localName": "s", "txPower": "n", "serviceUUIDs": "as", "serviceData": "a{say}", "manufacturerData": "a{qay}"])
        #expect(values["txPower"] == .int16(.max))
        #expect(values["serviceUUIDs"]?.stringsValue?.last == service.description)
        #expect(values["manufacturerData"]?.entries?.first?.key == .uint16(76))
    }

    @Test func whatIsDiscovered() throws {
        func discovered(_ accessory: DiscoveredAccessory) -> [String: DBusValue] {
            EventDetails(accessory).wire.vardictValue ?? [:]
        }
        let item = DisplayItem(name: "Die", descriptor: DiscoveryDescriptor())
        let advert = Advertisement(device: RadioDeviceID("/dev/1"), address: .none)
        let network = WiFiNetwork(ssid: try #require(SSID("Die")), rssi: nil, security: .open, band: nil)
        let heard = discovered(DiscoveredAccessory(identifier: id, item: item, advertisement: advert, rssi: -40))
        #expect(types(heard) == ["identifier": "s", "properties": "a{sv}", "advertisement": "a{sv}", "rssi": "n"])
        let snapshot = try #require(heard["properties"]?.vardictValue)
        #expect(snapshot["State"] == .string("unauthorized") && snapshot["BluetoothIdentifier"] == .string(id.rawValue))
        let seen = discovered(DiscoveredAccessory(identifier: id, item: item, advertisement: nil, network: network, rssi: nil))
        #expect(types(seen) == ["identifier": "s", "properties": "a{sv}", "ssid": "ay", "security": "s"])
        #expect(seen["properties"]?.vardictValue?["BluetoothIdentifier"] == .string(""))
    }

    @Test func prompts() {
        func prompt(_ prompt: PairingPrompt?, failure: SetupError? = nil) -> [String: String] {
            types(PickerPrompt(prompt, failure: failure, finishesInApp: false, migrations: []).wire)
        }
        #expect(prompt(nil).isEmpty)
        for bare: PairingPrompt in [.enterPasskey, .enterPIN, .consent] { #expect(prompt(bare) == ["kind": "s"]) }
        let hostile = PickerPrompt(
            nil, failure: SetupError(.connectionFailed, "a\u{200B}"), finishesInApp: false, migrations: ["b\u{2066}"]
        ).wire.vardictValue
        #expect(hostile?["message"] == .string("a\u{FFFD}") && hostile?["migrations"] == .strings(["b\u{FFFD}"]))
        #expect(prompt(.confirmPasskey(1)) == ["kind": "s", "passkey": "u"])
        #expect(prompt(.displayPasskey(1, entered: 2)) == ["kind": "s", "passkey": "u", "entered": "q"])
        #expect(prompt(.displayPIN("1")) == ["kind": "s", "pin": "s"])
        let failure = SetupError(.connectionFailed, "no")
        let failed = PickerPrompt(nil, failure: failure, finishesInApp: true, migrations: ["Lamp"]).wire.vardictValue ?? [:]
        #expect(failed["error"] == .string("org.accessorysetup1.Error.ConnectionFailed") && failed["message"] == .string("no"))
        #expect(failed["finishInApp"] == .boolean(true) && failed["migrations"] == .strings(["Lamp"]))
        // A present question takes precedence over an earlier failure.
        #expect(prompt(.consent, failure: failure) == ["kind": "s"])
    }
}

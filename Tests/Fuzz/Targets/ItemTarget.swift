// SPDX-License-Identifier: Apache-2.0
// Dictionaries from apps and pickers: items, descriptors, settings, answers. An accepted one keeps the limits, says the
// same after it was encoded and decoded again, and can be looked for on any air; and names and patterns of all kinds
// are compared within bounds.

import AccessoryCore
import AccessoryModel
import DBusKit

@testable import AccessoryBus

/// The keys of all dictionaries of the session API.
let sessionWords = Vocabulary(
    texts: [
        "180F", "0000180f-0000-1000-8000-00805f9b34fb", "Dice", "Pink Dice", "caseInsensitive", "regularExpression", "anchored",
        "backwards", "literal", "diacriticInsensitive", "bluetoothPairingLE", "bluetoothTransportBridging", "bluetoothHID",
        "immediate", "default", "publisher", "subscriber", "confirmAuthorization", "rename", "finishInApp", "ssid",
        "filterDiscoveryResults", "C0:FF:EE:00:00:01", "12345678-1234-1234-1234-123456789abc", "Dice-", "passphrase", "",
        "D(i|c)+e$", "[[:alpha:]]{2,}", "\u{202E}ecid", "_dice._tcp", "com.example.dice",
    ],
    paths: [
        "/", "/org/accessorysetup1", "/org/accessorysetup1/session/1", "/org/accessorysetup1/picker/1",
        "/org/accessorysetup1/admin", "/org/accessorysetup1/grant/1",
        "/org/accessorysetup1/accessory/12345678_1234_1234_1234_123456789abc", "/org/accessorysetup1/app/com_2eexample_2edice",
    ],
    interfaces: ["org.accessorysetup1.Session"],
    keys: [
        ("name", "s"), ("descriptor", "a{sv}"), ("productImage", "ay"), ("setupOptions", "as"), ("renameOptions", "as"),
        ("peripheralIdentifier", "s"), ("hotspotSSID", "ay"), ("wifiAwarePairedDeviceID", "t"), ("identifier", "s"),
        ("bluetoothCompanyIdentifier", "q"), ("bluetoothServiceUUID", "s"), ("bluetoothManufacturerDataBlob", "ay"),
        ("bluetoothManufacturerDataMask", "ay"), ("bluetoothServiceDataBlob", "ay"), ("bluetoothServiceDataMask", "ay"),
        ("bluetoothNameSubstring", "s"), ("bluetoothNameSubstringCompareOptions", "as"), ("bluetoothRange", "s"), ("ssid", "ay"),
        ("ssidPrefix", "ay"), ("supportedOptions", "as"), ("wifiAwareServiceName", "s"), ("wifiAwareServiceRole", "s"),
        ("wifiAwareModelNameMatch", "(sas)"), ("wifiAwareVendorNameMatch", "(sas)"), ("discoveryTimeout", "d"),
        ("options", "as"), ("accept", "b"), ("passkey", "u"), ("pin", "s"), ("label", "s"), ("lease", "u"), ("passphrase", "s"),
        ("hidden", "b"), ("bluetoothTransportBridgingIdentifier", "ay"),
    ])

func decodeItems(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    let kind = input.number(below: 10)
    let value =
        input.oneIn(8)
        ? input.anyValue(sessionWords) : input.value(kind < 4 ? "aa{sv}" : "a{sv}", sessionWords)
    do throws(BusError) {
        switch kind {
        case 0, 1, 2:
            let items = try ItemKeys.items(value)
            // Without any, the app's extension finds the accessories.
            expect(items.count <= Limits.itemsPerPicker, "\(items.count) items")
            for item in items {
                expect(ShownName.problem(with: item.name) == nil, "a name that may not be shown: \(item.name)")
                expect((item.image?.bytes.count ?? 0) <= Limits.imageBytes, "an image of \(item.image?.bytes.count ?? 0) bytes")
            }
            look(for: items.map(\.descriptor), &input)
        case 3:
            let items = try DiscoveredItemKeys.items(value)
            expect(items.count <= Limits.itemsPerPicker, "\(items.count) items")
        case 4, 5:
            let descriptor = try DescriptorKeys.decode(value, "descriptor")
            let again = try DescriptorKeys.decode(descriptor.wire, "descriptor")
            expect(again == descriptor, "decoded again it is another: \(descriptor) and \(again)")
            look(for: [descriptor], &input)
        case 6:
            let settings = try PickerSettings.decode(value)
            expect(settings.discoveryTimeout.map(Limits.discoveryTimeout.contains) ?? true, "\(settings.discoveryTimeout ?? 0) s")
        case 7:
            _ = try AnswerKeys.decode(value)
            _ = try AuthorizationKeys.decode(value)
        case 8:
            _ = try JoinOptions.decode(value)
            _ = try RenameOptions.decode(value)
        default:
            let capabilities = try PickerCapabilities.decode(value)
            let lease = capabilities.lease ?? Limits.pickerLease.lowerBound
            expect((5...3600).contains(lease), "a lease of \(lease) s")
        }
    } catch {
        expect(error.setupCode == .invalidRequest, "refused as something else: \(error)")
        expect(error.message.utf8.count < 64 << 10, "an error of \(error.message.utf8.count) bytes")
    }
}

/// Compiles the descriptors that the rules accept, and lets some accessories advertise.
private func look(for descriptors: [DiscoveryDescriptor], _ input: inout Input) {
    let valid = descriptors.filter { descriptor in
        do throws(SetupError) { try DescriptorRules.check(descriptor) } catch { return false }
        return true
    }
    guard !valid.isEmpty else { return }
    var matcher = Matcher(valid)
    for _ in 0..<2 {
        var advert = Advertisement(device: RadioDeviceID("/d"), address: BluetoothAddress(value: input.uint64(), kind: .random))
        advert.localName = input.text(sessionWords)
        for descriptor in valid.prefix(2) {
            if let service = descriptor.serviceUUID {
                advert.serviceUUIDs.insert(service)
                advert.serviceData[service] = input.bytes()
            }
            if let company = descriptor.companyIdentifier { advert.manufacturerData[company] = input.bytes() }
        }
        let rssi = Int(Int8(bitPattern: input.byte()))
        let first = matcher.firstMatch(advert, smoothedRSSI: rssi)
        expect(matcher.firstMatch(advert, smoothedRSSI: rssi) == first, "the same advert matches another item")
        _ = AdvertisementEntry(advert).wire
        if let network = SSID(input.bytes()) { _ = matcher.firstMatch(network) }
    }
}

/// Options (two bytes), a name up to the first zero, and the text that is looked for in it.
func matchNames(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    let bits = input.number(below: 65_536)
    let options = CompareOptions(CompareOptions.names.indices.filter { bits >> $0 & 1 == 1 }.map { CompareOptions.names[$0].1 })
    let parts = input.everything().split(separator: 0, maxSplits: 1, omittingEmptySubsequences: false)
    let name = String(decoding: parts[0], as: UTF8.self)
    let pattern = parts.count > 1 ? String(decoding: parts[1].map { $0 == 0 ? 0x20 : $0 }, as: UTF8.self) : name
    guard pattern.utf8.count <= Limits.nameSubstringBytes else { return }
    if let rule = NameRule(substring: pattern, options: options) {
        let verdict = rule.matches(name)
        expect(rule.matches(name) == verdict, "the same name matches differently")
        let isItself = name.utf8.elementsEqual(pattern.utf8) && !name.isEmpty
        expect(!isItself || verdict || options.contains(.regularExpression), "“\(name)” is not found in itself with \(options)")
    } else {
        expect(options.contains(.regularExpression), "a text that cannot be looked for: \(pattern)")
    }
    let marked = ShownName.marked(name)
    expect(ShownName.marked(marked) == marked, "what was marked is marked again: \(name.debugDescription)")
}

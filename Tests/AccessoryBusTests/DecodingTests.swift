// SPDX-License-Identifier: Apache-2.0
// Input from apps and picker programs: each key of each dictionary with the values that it takes; anything else is
// refused by its name.

import AccessoryBus
import AccessoryModel
import DBusKit
import Testing

/// A value of each type that the bus has.
private let samples: [DBusValue] = [
    .byte(1), .boolean(true), .int16(1), .uint16(1), .int32(1), .uint32(1), .int64(1), .uint64(1), .double(1), .string("x"),
    .objectPath("/x"), .signature("s"), .bytes([1]), .array(of: "i", [.int32(1)]), .strings(["x"]),
    .dictionary(key: "s", value: "s", [.init(.string("x"), .string("x"))]), .vardict(["x": .string("x")]),
    .structure([.int32(1), .strings([])]), .structure([.string("x")]),
]
/// One, in each width that holds it.
private let ones = samples.filter { $0.integerValue == 1 }
private let tooLong = String(repeating: "x", count: Limits.textBytes + 1)

/// A key of a dictionary, and the types that it takes.
private struct Key: CustomTestStringConvertible {
    let dictionary: Dictionary
    let name: String
    let types: Set<Signature>

    var testDescription: String { "\(dictionary) \(name)" }
}

/// The dictionaries of the session API, each in its place in a request.
private enum Dictionary: CaseIterable {
    case descriptor
    case item
    case discoveredItem
    case settings
    case answer
    case joinOptions
    case renameOptions
    case renewalOptions
    case pickChoice
    case authorizationSettings

    static let text: Set<Signature> = ["s"]
    static let words: Set<Signature> = ["as"]
    static let bytes: Set<Signature> = ["ay"]
    static let bytesOrText: Set<Signature> = ["ay", "s"]
    static let integer: Set<Signature> = ["y", "n", "q", "i", "u", "x", "t"]
    static let image: Set<Signature> = ["ay", "h"]

    var keys: [String: Set<Signature>] {
        switch self {
        case .descriptor:
            [
                "bluetoothCompanyIdentifier": Self.integer, "bluetoothServiceUUID": Self.text,
                "bluetoothManufacturerDataBlob": Self.bytes, "bluetoothManufacturerDataMask": Self.bytes,
                "bluetoothServiceDataBlob": Self.bytes, "bluetoothServiceDataMask": Self.bytes,
                "bluetoothNameSubstring": Self.text, "bluetoothNameSubstringCompareOptions": Self.words,
                "bluetoothRange": Self.text, "access": Self.text, "maxDevices": Self.integer,
                "characteristics": ["a(ssuas)"], "ssid": Self.bytesOrText,
                "ssidPrefix": Self.bytesOrText,
                "supportedOptions": Self.words, "wifiAwareServiceName": Self.text, "wifiAwareServiceRole": Self.text,
                "wifiAwareModelNameMatch": ["(sas)"], "wifiAwareVendorNameMatch": ["(sas)"],
            ]
        case .item:
            [
                "name": Self.text, "descriptor": ["a{sv}"], "productImage": Self.image, "setupOptions": Self.words,
                "renameOptions": Self.words, "peripheralIdentifier": Self.text, "hotspotSSID": Self.bytesOrText,
                "wifiAwarePairedDeviceID": Self.integer, "end": Self.text, "endChoices": Self.words,
            ]
        case .discoveredItem: ["name": Self.text, "productImage": Self.image, "identifier": Self.text]
        case .settings:
            [
                "discoveryTimeout": Self.integer.union(["d"]), "options": Self.words,
                "waitForPicker": Self.integer.union(["d"]),
            ]
        case .answer: ["accept": ["b"], "passkey": Self.integer, "pin": Self.text]
        case .joinOptions: ["ssid": Self.bytesOrText, "passphrase": Self.text, "hidden": ["b"]]
        case .renameOptions: ["renameOptions": Self.words]
        case .renewalOptions: ["end": Self.text, "endChoices": Self.words]
        case .pickChoice: ["end": Self.text, "access": Self.text]
        case .authorizationSettings: ["ssid": Self.bytesOrText, "bluetoothTransportBridgingIdentifier": Self.bytes]
        }
    }

    static let allKeys: [Key] = allCases.flatMap { dictionary in
        dictionary.keys.sorted { $0.key < $1.key }.map { Key(dictionary: dictionary, name: $0.key, types: $0.value) }
    }

    var rows: [WireRow] {
        switch self {
        case .descriptor: DescriptorKeys.table.rows
        case .item: ItemKeys.table.rows
        case .discoveredItem: DiscoveredItemKeys.table.rows
        case .settings: PickerSettings.table.rows
        case .answer: AnswerKeys.table.rows
        case .joinOptions: JoinOptions.table.rows
        case .renameOptions: RenameOptions.table.rows
        case .renewalOptions: RenewalOptions.table.rows
        case .pickChoice: PickChoice.table.rows
        case .authorizationSettings: AuthorizationKeys.table.rows
        }
    }

    /// Keys without which it is refused.
    var base: [String: DBusValue] {
        switch self {
        case .item: ["name": .string("Die"), "descriptor": .vardict([:])]
        case .discoveredItem: ["name": .string("Die"), "identifier": .string("7F3C9A52-1111-4222-8333-444455556666")]
        default: [:]
        }
    }

    /// Where a key stands, as errors say it.
    func place(_ key: String) -> String {
        switch self {
        case .descriptor: "descriptor.\(key)"
        case .item, .discoveredItem: "items[0].\(key)"
        case .settings, .authorizationSettings: "settings.\(key)"
        case .answer: "answer.\(key)"
        case .joinOptions, .renameOptions, .renewalOptions: "options.\(key)"
        case .pickChoice: "choice.\(key)"
        }
    }

    func decode(_ value: DBusValue) throws(BusError) {
        switch self {
        case .descriptor: _ = try DescriptorKeys.decode(value, "descriptor")
        case .item: _ = try ItemKeys.items(.array(of: "a{sv}", [value]))
        case .discoveredItem: _ = try DiscoveredItemKeys.items(.array(of: "a{sv}", [value]))
        case .settings: _ = try PickerSettings.decode(value)
        case .answer: _ = try AnswerKeys.decode(value)
        case .joinOptions: _ = try JoinOptions.decode(value)
        case .renameOptions: _ = try RenameOptions.decode(value)
        case .renewalOptions: _ = try RenewalOptions.decode(value)
        case .pickChoice: _ = try PickChoice.decode(value)
        case .authorizationSettings: _ = try AuthorizationKeys.decode(value)
        }
    }
}

/// Why a request is refused; nil for one that is not.
private func refusal(_ body: () throws(BusError) -> Void) -> String? {
    do throws(BusError) {
        try body()
        return nil
    } catch {
        #expect(error.setupCode == .invalidRequest, "\(error)")
        return error.message
    }
}

private func refusal(_ dictionary: Dictionary, _ values: [String: DBusValue]) -> String? {
    refusal { () throws(BusError) in try dictionary.decode(.vardict(dictionary.base.merging(values) { $1 })) }
}

private func descriptor(_ values: [String: DBusValue]) throws -> DiscoveryDescriptor {
    try DescriptorKeys.decode(.vardict(values), "descriptor")
}

private func expectRefusal(
    _ dictionary: Dictionary, _ values: [String: DBusValue], of key: String, saying reason: String,
    sourceLocation: SourceLocation = #_sourceLocation
) {
    let message = refusal(dictionary, values) ?? "taken"
    #expect(
        message.hasPrefix(dictionary.place(key) + ":") && message.contains(reason), "\(message)", sourceLocation: sourceLocation)
}

@Suite struct DictionaryTests {
    @Test(arguments: Dictionary.allCases)
    fileprivate func everyRowIsTested(dictionary: Dictionary) {
        #expect(Set(dictionary.rows.map(\.name)) == Set(dictionary.keys.keys))
    }

    @Test(arguments: Dictionary.allKeys)
    fileprivate func aKeyOfAnotherTypeIsRefusedByItsName(key: Key) {
        for sample in samples where !key.types.contains(sample.signature) {
            let message = refusal(key.dictionary, [key.name: sample]) ?? "taken"
            #expect(message.hasPrefix(key.dictionary.place(key.name) + ":"), "\(sample): \(message)")
            #expect(message.contains("type \(sample.signature)") && message.contains("must be of type") || key.name == "descriptor")
        }
    }

    @Test(arguments: Dictionary.allKeys.filter { !$0.types.isDisjoint(with: ["s"]) })
    fileprivate func aTextThatIsTooLongIsRefusedAndNotQuoted(key: Key) throws {
        let message = try #require(refusal(key.dictionary, [key.name: .string(tooLong)]))
        #expect(message.hasPrefix(key.dictionary.place(key.name) + ":"), "\(message)")
        #expect(message.utf8.count < 300)
    }

    @Test(arguments: Dictionary.allKeys)
    fileprivate func aKeyWithAnotherSpellingIsUnknown(key: Key) {
        for other in [key.name.uppercased(), key.name + "s", key.name + " "] where key.dictionary.keys[other] == nil {
            expectRefusal(key.dictionary, [other: .string("x")], of: other, saying: "unknown key")
        }
    }

    @Test(arguments: Dictionary.allCases)
    fileprivate func whatIsNoDictionaryOfVariantsIsRefused(dictionary: Dictionary) {
        for sample in samples where sample.signature != "a{sv}" {
            let message = refusal { () throws(BusError) in try dictionary.decode(sample) } ?? "taken"
            #expect(message.contains("must be a dictionary (a{sv})"), "\(sample): \(message)")
        }
    }

    @Test(arguments: Dictionary.allCases)
    fileprivate func aDictionaryHasSixtyFourEntriesAtMost(dictionary: Dictionary) {
        var values = dictionary.base
        for number in 0...Limits.dictionaryEntries { values["key\(number)"] = .string("x") }
        let message = refusal(dictionary, values) ?? "taken"
        #expect(message.contains("more than \(Limits.dictionaryEntries)"), "\(message)")
    }

    @Test func whatHoldsNoKeysYet() {
        #expect(refusal { () throws(BusError) in try SessionKeys.decode(.vardict([:]), "options") } == nil)
        let message = refusal { () throws(BusError) in try SessionKeys.decode(.vardict(["x": .boolean(true)]), "options") }
        #expect(message == "options.x: type b: unknown key")
    }
}

@Suite struct DescriptorDecodingTests {
    /// One key, with its effect on a descriptor.
    private func expect(
        _ values: [String: DBusValue], _ change: (inout DiscoveryDescriptor) throws -> Void,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        var expected = DiscoveryDescriptor()
        try change(&expected)
        #expect(try descriptor(values) == expected, sourceLocation: sourceLocation)
    }

    @Test func nothingIsAnEmptyDescriptor() throws { try expect([:]) { _ in } }

    @Test func aCompanyInAnyWidth() throws {
        for one in ones { try expect(["bluetoothCompanyIdentifier": one]) { $0.companyIdentifier = CompanyIdentifier(1) } }
        try expect(["bluetoothCompanyIdentifier": .uint64(65_535)]) { $0.companyIdentifier = CompanyIdentifier(65_535) }
        for wrong: DBusValue in [.int32(-1), .int64(.min), .uint32(65_536), .uint64(.max)] {
            expectRefusal(
                .descriptor, ["bluetoothCompanyIdentifier": wrong], of: "bluetoothCompanyIdentifier", saying: "must be 0 to 65535")
        }
    }

    @Test func aServiceInAnyForm() throws {
        for text in ["180F", "180f", "0x180F", "0000180F", "0000180f-0000-1000-8000-00805f9b34fb"] {
            try expect(["bluetoothServiceUUID": .string(text)]) { $0.serviceUUID = BluetoothUUID("180F") }
        }
        for text in ["", "18", "180G", "0000180f-0000-1000-8000-00805f9b34f", "0000180f00001000800000805f9b34fb", " 180F"] {
            expectRefusal(
                .descriptor, ["bluetoothServiceUUID": .string(text)], of: "bluetoothServiceUUID",
                saying: "not a UUID of 16, 32 or 128 bits")
        }
    }

    @Test(arguments: ["bluetoothManufacturerData", "bluetoothServiceData"])
    func dataHasAMaskOfItsLength(prefix: String) throws {
        func pair(_ blob: [UInt8]?, _ mask: [UInt8]?) -> [String: DBusValue] {
            var values: [String: DBusValue] = [:]
            values[prefix + "Blob"] = blob.map { .bytes($0) }
            values[prefix + "Mask"] = mask.map { .bytes($0) }
            return values
        }
        let long = [UInt8](repeating: 1, count: Limits.dataBytes)
        for (blob, mask) in [([1, 0], [0xFF, 0]), (long, long)] as [([UInt8], [UInt8])] {
            try expect(pair(blob, mask)) {
                let data = try MaskedData(blob: blob, mask: mask)
                if prefix.contains("Service") { $0.serviceData = data } else { $0.manufacturerData = data }
            }
        }
        expectRefusal(.descriptor, pair([1], nil), of: prefix + "Blob", saying: "needs \(prefix)Mask")
        expectRefusal(.descriptor, pair(nil, [1]), of: prefix + "Mask", saying: "needs \(prefix)Blob")
        expectRefusal(.descriptor, pair([], []), of: prefix + "Blob", saying: "is empty")
        expectRefusal(.descriptor, pair([1], [1, 1]), of: prefix + "Mask", saying: "the blob has 1 bytes")
        expectRefusal(.descriptor, pair([0, 2], [1, 1]), of: prefix + "Blob", saying: "byte 1 has a bit outside the mask")
        expectRefusal(.descriptor, pair(long + [1], long), of: prefix + "Blob", saying: "longer than 1650 bytes")
        expectRefusal(.descriptor, pair(long, long + [1]), of: prefix + "Mask", saying: "longer than 1650 bytes")
    }

    @Test func aName() throws {
        try expect(["bluetoothNameSubstring": .string("Die")]) { $0.name.substring = "Die" }
        try expect(["bluetoothNameSubstring": .string("")]) { $0.name.substring = "" }
    }

    @Test func sets() throws {
        for (word, option) in CompareOptions.names {
            try expect(["bluetoothNameSubstringCompareOptions": .strings([word])]) { $0.name.options = option }
        }
        for (word, option) in SupportOptions.names {
            try expect(["supportedOptions": .strings([word])]) { $0.supportedOptions = option }
        }
        let all = SupportOptions.names.map(\.0)
        try expect(["supportedOptions": .strings(all + all)]) { $0.supportedOptions = [.pairingLE, .transportBridging, .hid] }
        try expect(["supportedOptions": .strings([])]) { _ in }
        for key in ["bluetoothNameSubstringCompareOptions", "supportedOptions"] {
            expectRefusal(.descriptor, [key: .strings(["nothing"])], of: key, saying: "nothing: must be one of ")
        }
    }

    @Test func aRange() throws {
        try expect(["bluetoothRange": .string("default")]) { _ in }
        try expect(["bluetoothRange": .string("immediate")]) { $0.range = .immediate }
        expectRefusal(
            .descriptor, ["bluetoothRange": .string("near")], of: "bluetoothRange", saying: "must be one of default, immediate")
    }

    @Test func aKind() throws {
        try expect(["access": .string("full")]) { _ in }
        try expect(["access": .string("hear"), "maxDevices": .uint32(20)]) { ($0.access, $0.maxDevices) = (.hear, 20) }
        expectRefusal(
            .descriptor, ["access": .string("write")], of: "access", saying: "must be one of full, read, listed, hear")
    }

    @Test func narrowedAccess() throws {
        func list(_ service: String = "180F", _ instance: UInt32 = 0, _ uses: [String] = ["read"]) -> DBusValue {
            .array(
                of: "(ssuas)", [.structure([.string(service), .string("2A19"), .uint32(instance), .strings(uses)])])
        }
        try expect(["access": .string("read")]) { $0.access = .read }
        try expect(["access": .string("listed"), "characteristics": list("0x180f", 2, ["listen", "read"])]) {
            $0.access = .use(.listed(CharacteristicList([CharacteristicAccess("180F/2A19#2:read+listen")!])))
        }
        expectRefusal(.descriptor, ["access": .string("listed")], of: "access", saying: "needs characteristics")
        for access in ["full", "read", "hear"] {
            expectRefusal(
                .descriptor, ["access": .string(access), "characteristics": list()], of: "characteristics",
                saying: "needs access listed")
        }
        for (list, reason) in [
            (list("18"), "not a UUID"), (list("180F", 65_536), "must be 0 to 65535"), (list("180F", 0, []), "has no uses"),
            (list("180F", 0, ["execute"]), "must be one of read, write, listen"),
            (.array(of: "(ssuas)", Array(repeating: list().arrayValue![0], count: 65)), "more than 64"),
            (.strings(["180F"]), "must be of type a(ssuas)"),
        ] {
            expectRefusal(
                .descriptor, ["access": .string("listed"), "characteristics": list], of: "characteristics", saying: reason)
        }
    }

    @Test func networksAreBytesOrText() throws {
        for value: DBusValue in [.bytes([0x44, 0x69]), .string("Di")] {
            try expect(["ssid": value]) { $0.ssid = [0x44, 0x69] }
            try expect(["ssidPrefix": value]) { $0.ssidPrefix = [0x44, 0x69] }
        }
        let long = [UInt8](repeating: 1, count: Limits.textBytes + 1)
        for key in ["ssid", "ssidPrefix"] {
            expectRefusal(.descriptor, [key: .bytes(long)], of: key, saying: "longer than 4096 bytes")
        }
    }

    @Test func wifiAware() throws {
        func expectAware(_ values: [String: DBusValue], _ change: (inout WiFiAware) -> Void) throws {
            var aware = WiFiAware()
            change(&aware)
            try expect(values) { $0.wifiAware = aware }
        }
        try expectAware(["wifiAwareServiceName": .string("_die._udp")]) { $0.serviceName = "_die._udp" }
        try expectAware(["wifiAwareServiceRole": .string("subscriber")]) { $0.serviceRole = .subscriber }
        try expectAware(["wifiAwareServiceRole": .string("publisher")]) { $0.serviceRole = .publisher }
        let value = DBusValue.structure([.string("Die"), .strings(["anchored", "literal"])])
        let match = WiFiAware.Match(string: "Die", options: [.anchored, .literal])
        try expectAware(["wifiAwareModelNameMatch": value]) { $0.modelName = match }
        try expectAware(["wifiAwareVendorNameMatch": value]) { $0.vendorName = match }
        expectRefusal(
            .descriptor, ["wifiAwareServiceRole": .string("both")], of: "wifiAwareServiceRole",
            saying: "must be one of subscriber, publisher")
        expectRefusal(
            .descriptor, ["wifiAwareModelNameMatch": .structure([.string("Die"), .strings(["loosely"])])],
            of: "wifiAwareModelNameMatch.options", saying: "loosely: must be one of ")
    }
}

@Suite struct RequestDecodingTests {
    private func item(_ values: [String: DBusValue]) throws -> DisplayItem {
        try #require(try ItemKeys.items(.array(of: "a{sv}", [.vardict(Dictionary.item.base.merging(values) { $1 })])).first)
    }

    @Test func anItem() throws {
        #expect(try item([:]) == DisplayItem(name: "Die", descriptor: DiscoveryDescriptor()))
        for (word, option) in SetupOptions.names { #expect(try item(["setupOptions": .strings([word])]).setupOptions == option) }
        let network = DBusValue.vardict(["ssid": .string("Die")])
        #expect(try item(["descriptor": network, "renameOptions": .strings(["ssid"])]).renameOptions == .ssid)
        expectRefusal(
            .item, ["renameOptions": .strings(["ssid"])], of: "renameOptions", saying: "the descriptor declares no network")
        expectRefusal(.item, ["setupOptions": .strings(["now"])], of: "setupOptions", saying: "must be one of ")
        // Refused where it stands.
        let inner = refusal(.item, ["descriptor": .vardict(["colour": .string("pink")])])
        #expect(inner == "items[0].descriptor.colour: type s: unknown key")
        #expect(refusal { () throws(BusError) in try Dictionary.item.decode(.vardict([:])) } == "items[0].name: : is missing")
        let nameOnly = DBusValue.vardict(["name": .string("Die")])
        #expect(refusal { () throws(BusError) in try Dictionary.item.decode(nameOnly) } == "items[0].descriptor: : is missing")
    }

    @Test(arguments: [Dictionary.item, .discoveredItem])
    fileprivate func aNameCanBeShown(dictionary: Dictionary) {
        #expect(refusal(dictionary, ["name": .string(String(repeating: "n", count: Limits.nameBytes))]) == nil)
        for name in ["", " ", "a\nb", "a\u{202E}b", String(repeating: "n", count: Limits.nameBytes + 1)] {
            expectRefusal(dictionary, ["name": .string(name)], of: "name", saying: "")
        }
    }

    @Test func whatIsTakenOver() throws {
        let id = "7F3C9A52-1111-4222-8333-444455556666"
        #expect(try item([:]).migration == nil)
        #expect(
            try item(["peripheralIdentifier": .string("C0:FF:EE:00:00:01")]).migration?.peripheral == .address(0xC0FF_EE00_0001))
        #expect(
            try item(["peripheralIdentifier": .string(id.lowercased())]).migration?.peripheral
                == .identifier(try #require(AccessoryID(id))))
        for one in ones { #expect(try item(["wifiAwarePairedDeviceID": one]).migration?.wifiAwarePairedDeviceID == 1) }
        #expect(try item(["wifiAwarePairedDeviceID": .uint64(.max)]).migration?.wifiAwarePairedDeviceID == .max)
        #expect(try item(["hotspotSSID": .string("Die")]).migration?.hotspotSSID == SSID("Die"))
        expectRefusal(
            .item, ["peripheralIdentifier": .string("die")], of: "peripheralIdentifier", saying: "neither an address nor a UUID")
        expectRefusal(
            .item, ["wifiAwarePairedDeviceID": .int16(-1)], of: "wifiAwarePairedDeviceID",
            saying: "must be 0 to 18446744073709551615")
    }

    @Test(arguments: [(Dictionary.item, "hotspotSSID"), (.joinOptions, "ssid"), (.authorizationSettings, "ssid")])
    fileprivate func aNetworksName(dictionary: Dictionary, key: String) {
        // A name may end in NUL: firmware that counts the end of a C string.
        for good: DBusValue in [.string("x"), .bytes([0xFF]), .bytes([1, 0]), .bytes([UInt8](repeating: 1, count: 32))] {
            #expect(refusal(dictionary, [key: good]) == nil)
        }
        for wrong: DBusValue in [.string(""), .bytes([]), .bytes([UInt8](repeating: 1, count: 33))] {
            expectRefusal(dictionary, [key: wrong], of: key, saying: "must have 1 to 32 bytes")
        }
        for wrong: DBusValue in [.bytes([0]), .bytes([0, 0])] {
            expectRefusal(dictionary, [key: wrong], of: key, saying: "has only NUL bytes")
        }
    }

    @Test func howManyItems() throws {
        let items = { (count: Int) in DBusValue.array(of: "a{sv}", Array(repeating: .vardict(Dictionary.item.base), count: count)) }
        #expect(try ItemKeys.items(items(Limits.itemsPerPicker)).count == Limits.itemsPerPicker)
        #expect(refusal { () throws(BusError) in _ = try ItemKeys.items(items(0)) } == nil)
        let tooMany = refusal { () throws(BusError) in _ = try ItemKeys.items(items(Limits.itemsPerPicker + 1)) }
        #expect(tooMany == "items: 257 items: more than 256")
        // Discovered items may be an empty list.
        #expect(try DiscoveredItemKeys.items(items(0)).isEmpty)
        let tooManyFound = refusal { () throws(BusError) in _ = try DiscoveredItemKeys.items(items(257)) }
        #expect(tooManyFound == "items: 257 items: more than 256")
    }

    @Test(arguments: [Dictionary.item, .discoveredItem])
    fileprivate func images(dictionary: Dictionary) throws {
        let png: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        let largest = png + [UInt8](repeating: 0, count: Limits.imageBytes - png.count)
        let sealed = try #require(FileDescriptor.sealed(png, name: "test"))
        for image: DBusValue in [.bytes(png), .bytes(largest), .fileDescriptor(sealed)] {
            #expect(refusal(dictionary, ["productImage": image]) == nil)
        }
        let sealedTooMuch = try #require(FileDescriptor.sealed(largest + [0], name: "test"))
        for (image, reason): (DBusValue, String) in [
            (.bytes([]), "neither PNG, JPEG nor SVG"), (.bytes(largest + [0]), "more than 1048576"),
            (.fileDescriptor(sealedTooMuch), "of at most 1048576 bytes"),
        ] { expectRefusal(dictionary, ["productImage": image], of: "productImage", saying: reason) }
        // One limit for all images together: the seventeenth of the largest is too much.
        let value = DBusValue.vardict(dictionary.base.merging(["productImage": .bytes(largest)]) { $1 })
        let message = refusal { () throws(BusError) in
            let values = DBusValue.array(of: "a{sv}", Array(repeating: value, count: 17))
            if dictionary == .item { _ = try ItemKeys.items(values) } else { _ = try DiscoveredItemKeys.items(values) }
        }
        #expect(message == "items[16].productImage: 17825792 bytes in total: more than 16777216")
    }

    @Test func whatWasDiscovered() throws {
        let values = DBusValue.array(of: "a{sv}", [.vardict(Dictionary.discoveredItem.base)])
        let id = try #require(AccessoryID("7F3C9A52-1111-4222-8333-444455556666"))
        #expect(try DiscoveredItemKeys.items(values) == [DiscoveredItem(name: "Die", image: nil, identifier: id)])
        expectRefusal(.discoveredItem, ["identifier": .string("180F")], of: "identifier", saying: "not a UUID")
    }

    @Test func settings() throws {
        func timeout(_ value: DBusValue) throws -> Double? {
            try PickerSettings.decode(.vardict(["discoveryTimeout": value])).discoveryTimeout
        }
        #expect(try PickerSettings.decode(.vardict([:])) == PickerSettings())
        for one in ones { #expect(try timeout(one) == 1) }
        #expect(try timeout(.double(0.1)) == 0.1)
        #expect(try timeout(.double(86_400)) == 86_400)
        #expect(try timeout(.double(.infinity)) == nil)
        for wrong in [0, 0.09, -1, 86_400.5, .nan, -.infinity] {
            expectRefusal(.settings, ["discoveryTimeout": .double(wrong)], of: "discoveryTimeout", saying: "must be 0.1 to")
        }
        let filtered = try PickerSettings.decode(.vardict(["options": .strings(["filterDiscoveryResults"])]))
        #expect(filtered == PickerSettings(discoveryTimeout: 30, options: .filterDiscoveryResults))
        expectRefusal(.settings, ["options": .strings(["all"])], of: "options", saying: "must be one of filterDiscoveryResults")
    }

    @Test func answers() throws {
        func answer(_ values: [String: DBusValue]) throws -> PromptAnswer { try AnswerKeys.decode(.vardict(values)) }
        #expect(try answer(["accept": .boolean(true)]) == .accept)
        #expect(try answer(["accept": .boolean(false)]) == .reject)
        for one in ones { #expect(try answer(["passkey": one]) == .passkey(1)) }
        #expect(try answer(["passkey": .uint32(999_999)]) == .passkey(999_999))
        #expect(try answer(["pin": .string("0000")]) == .pin("0000"))
        // A number typed in says "accept" by itself; only "no" contradicts it.
        #expect(try answer(["accept": .boolean(true), "passkey": .uint32(7)]) == .passkey(7))
        #expect(try answer(["accept": .boolean(true), "pin": .string("7")]) == .pin("7"))
        for values: [String: DBusValue] in [
            [:], ["accept": .boolean(false), "pin": .string("7")], ["passkey": .uint32(7), "pin": .string("7")],
            ["accept": .boolean(true), "passkey": .uint32(7), "pin": .string("7")],
        ] { #expect(refusal(.answer, values) == "answer: needs exactly one of accept, passkey, pin") }
        expectRefusal(.answer, ["passkey": .uint32(1_000_000)], of: "passkey", saying: "must be 0 to 999999")
        expectRefusal(.answer, ["passkey": .int32(-1)], of: "passkey", saying: "must be 0 to")
        for pin in ["", String(repeating: "1", count: 17)] {
            expectRefusal(.answer, ["pin": .string(pin)], of: "pin", saying: "must be 1 to 16")
        }
    }

    @Test func joining() throws {
        let key = String(repeating: "0f", count: 32)
        let options = try JoinOptions.decode(
            .vardict(["ssid": .string("Die"), "passphrase": .string("12345678"), "hidden": .boolean(true)]))
        #expect(options.ssid == SSID("Die") && options.passphrase?.text == "12345678" && options.isHidden)
        let none = try JoinOptions.decode(.vardict([:]))
        #expect(none.ssid == nil && none.passphrase == nil && !none.isHidden)
        #expect(try JoinOptions.decode(.vardict(["passphrase": .string(key)])).passphrase?.key != nil)
        for secret in ["1234567", String(repeating: "secret", count: 11), "with\ncontrol", String(repeating: "zz", count: 32)] {
            let message = refusal(.joinOptions, ["passphrase": .string(secret)]) ?? "taken"
            #expect(message.contains("must have 8 to 63 bytes") && !message.contains(secret.prefix(6)), "\(message)")
        }
    }

    @Test func afterwards() throws {
        #expect(try RenameOptions.decode(.vardict([:])) == [])
        #expect(try RenameOptions.decode(.vardict(["renameOptions": .strings(["ssid"])])) == .ssid)
        expectRefusal(.renameOptions, ["renameOptions": .strings(["name"])], of: "renameOptions", saying: "must be one of ssid")
        let settings = try AuthorizationKeys.decode(
            .vardict(["ssid": .string("Die"), "bluetoothTransportBridgingIdentifier": .bytes([0, 1, 2, 3, 4, 5])]))
        #expect(settings.ssid == SSID("Die"))
        #expect(settings.bridgingAddress == BluetoothAddress("00:01:02:03:04:05", kind: .public))
        #expect(try AuthorizationKeys.decode(.vardict([:])) == AuthorizationSettings())
        for bytes: [UInt8] in [[], [1], [1, 2, 3, 4, 5, 6, 7]] {
            expectRefusal(
                .authorizationSettings, ["bluetoothTransportBridgingIdentifier": .bytes(bytes)],
                of: "bluetoothTransportBridgingIdentifier", saying: "must have 6 bytes")
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// The compiled matcher against a naive reference, on random items and adverts; and the rules of the session API, one by
// one.

import AccessoryCore
import AccessoryModel
import TestSupport
import Testing

/// The rules as they are written, item by item, without an index.
private func reference(_ descriptors: [DiscoveryDescriptor], _ advert: Advertisement, rssi: Int?, threshold: Int) -> Int? {
    for (index, descriptor) in descriptors.enumerated() {
        var fits = descriptor.serviceUUID != nil || descriptor.companyIdentifier != nil
        if let service = descriptor.serviceUUID {
            let listed = advert.serviceUUIDs.contains(service)
            let payload = advert.serviceData[service]
            if !listed && payload == nil { fits = false }
            if let data = descriptor.serviceData {
                if payload == nil { fits = false } else { fits = fits && compare(data, payload!) }
            }
        }
        if let company = descriptor.companyIdentifier {
            if let payload = advert.manufacturerData[company] {
                if let data = descriptor.manufacturerData { fits = fits && compare(data, payload) }
            } else {
                fits = false
            }
        }
        if let name = descriptor.name.substring {
            let advertised = advert.localName ?? ""
            if descriptor.name.options.contains(.caseInsensitive) {
                fits = fits && advertised.lowercased().contains(name.lowercased())
            } else {
                fits = fits && advertised.contains(name)
            }
        }
        if descriptor.range == .immediate { fits = fits && (rssi.map { $0 >= threshold } ?? false) }
        if fits { return index }
    }
    return nil
}

private func compare(_ data: MaskedData, _ payload: [UInt8]) -> Bool {
    if payload.count < data.blob.count { return false }
    for (index, mask) in data.mask.enumerated() where payload[index] & mask != data.blob[index] & mask { return false }
    return true
}

/// Small alphabets, so that things meet.
private struct Sampler {
    var generator: SeededGenerator

    mutating func service() -> BluetoothUUID { BluetoothUUID(short: 0x1800 + UInt32.random(in: 0...3, using: &generator)) }
    mutating func company() -> CompanyIdentifier { CompanyIdentifier(UInt16.random(in: 0...3, using: &generator)) }
    mutating func bytes(_ range: ClosedRange<Int>) -> [UInt8] {
        (0..<Int.random(in: range, using: &generator)).map { _ in UInt8.random(in: 0...2, using: &generator) }
    }
    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }
    mutating func name() -> String { ["Dice", "Pink Dice", "dice 4F", "Lamp", ""].randomElement(using: &generator)! }

    /// The blob is cut to the mask, so the pair is always valid; nil only if that were wrong.
    mutating func masked() -> MaskedData? {
        let mask = (0..<Int.random(in: 1...3, using: &generator)).map { _ in
            [0xFF, 0x0F, 0x01, 0x00].randomElement(using: &generator)! as UInt8
        }
        let blob = mask.map { $0 & UInt8.random(in: 0...2, using: &generator) }
        return try? MaskedData(blob: blob, mask: mask)
    }

    mutating func descriptor() -> DiscoveryDescriptor {
        var descriptor = DiscoveryDescriptor()
        if chance(60) { descriptor.serviceUUID = service() }
        if descriptor.serviceUUID == nil || chance(30) { descriptor.companyIdentifier = company() }
        if descriptor.serviceUUID != nil, chance(40) { descriptor.serviceData = masked() }
        if descriptor.companyIdentifier != nil, chance(40) { descriptor.manufacturerData = masked() }
        if chance(30) {
            descriptor.name.substring = ["Dice", "Pink", "4f"].randomElement(using: &generator)!
            if chance(50) { descriptor.name.options = .caseInsensitive }
        }
        if chance(20) { descriptor.range = .immediate }
        return descriptor
    }

    mutating func advert() -> Advertisement {
        var advert = Advertisement(device: RadioDeviceID("d"), address: BluetoothAddress(value: 1, kind: .public))
        while chance(60) { advert.serviceUUIDs.insert(service()) }
        while chance(40) { advert.serviceData[service()] = bytes(0...4) }
        while chance(50) { advert.manufacturerData[company()] = bytes(0...4) }
        if chance(70) { advert.localName = name() }
        return advert
    }
}

/// A generator with a seed, so that a failure can be repeated.

@Suite struct MatcherTests {
    @Test(arguments: [UInt64.random(in: 0...UInt64.max), 1, 2])
    func agreesWithTheReference(seed: UInt64) {
        var sampler = Sampler(generator: SeededGenerator(state: seed))
        var matches = 0
        for _ in 0..<2000 {
            let count = Int.random(in: 1...12, using: &sampler.generator)
            let descriptors = (0..<count).map { _ in sampler.descriptor() }
            var matcher = Matcher(descriptors, nearness: .init(threshold: -55))
            for _ in 0..<5 {
                let advert = sampler.advert()
                let rssi = sampler.chance(80) ? Int.random(in: -70 ... -40, using: &sampler.generator) : nil
                let found = matcher.firstMatch(advert, smoothedRSSI: rssi)
                #expect(
                    found == reference(descriptors, advert, rssi: rssi, threshold: -55), "seed \(seed): \(descriptors) \(advert)")
                if found != nil { matches += 1 }
            }
        }
        // A property that nothing ever exercises proves nothing.
        #expect(matches > 1000 && matches < 9900)
    }

    /// `explain` agrees with the matcher.
    @Test(arguments: 0..<8 as Range<UInt64>)
    func exclusionsAgreeWithTheMatcher(seed: UInt64) {
        var sampler = Sampler(generator: SeededGenerator(state: seed &+ 77))
        for _ in 0..<3000 {
            let descriptor = sampler.descriptor()
            let advert = sampler.advert()
            let rssi = sampler.chance(80) ? Int.random(in: -80...(-30), using: &sampler.generator) : nil
            var matcher = Matcher([descriptor])
            let reasons = Matcher.exclusions(of: advert, from: descriptor, smoothedRSSI: rssi)
            let isMatch = matcher.firstMatch(advert, smoothedRSSI: rssi) != nil
            #expect(isMatch == reasons.isEmpty, "\(descriptor) \(advert) \(reasons)")
        }
    }

    private func advert(_ change: (inout Advertisement) -> Void) -> Advertisement {
        var advert = Advertisement(device: RadioDeviceID("d"), address: BluetoothAddress(value: 1, kind: .public))
        change(&advert)
        return advert
    }

    private func match(_ descriptor: DiscoveryDescriptor, _ advert: Advertisement, rssi: Int? = nil, offered: Bool = false) -> Bool
    {
        var matcher = Matcher([descriptor], nearness: .init(threshold: -55))
        return matcher.firstMatch(advert, smoothedRSSI: rssi, isOffered: offered) != nil
    }

    @Test func rule2ServiceMatchesListOrDataKey() {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = BluetoothUUID("180F")
        #expect(match(descriptor, advert { $0.serviceUUIDs = [BluetoothUUID(short: 0x180F)] }))
        #expect(match(descriptor, advert { $0.serviceData[BluetoothUUID(short: 0x180F)] = [] }))
        #expect(!match(descriptor, advert { $0.serviceUUIDs = [BluetoothUUID(short: 0x180A)] }))
    }

    @Test func rule2DataIsAPrefixOfThePayload() throws {
        var descriptor = DiscoveryDescriptor()
        descriptor.companyIdentifier = CompanyIdentifier(0xFFFF)
        descriptor.manufacturerData = try MaskedData(blob: [1, 2, 0], mask: [0xFF, 0xFF, 0])
        #expect(match(descriptor, advert { $0.manufacturerData[CompanyIdentifier(0xFFFF)] = [1, 2, 9, 9] }))
        #expect(!match(descriptor, advert { $0.manufacturerData[CompanyIdentifier(0xFFFF)] = [1, 2] }))
        #expect(!match(descriptor, advert { $0.manufacturerData[CompanyIdentifier(0xFFFE)] = [1, 2, 9] }))
    }

    @Test func rule2TheFirstMatchingItemNamesIt() {
        var broad = DiscoveryDescriptor()
        broad.companyIdentifier = CompanyIdentifier(1)
        var narrow = DiscoveryDescriptor()
        narrow.serviceUUID = BluetoothUUID("180F")
        let both = advert {
            $0.serviceUUIDs = [BluetoothUUID(short: 0x180F)]
            $0.manufacturerData[CompanyIdentifier(1)] = [0]
        }
        var first = Matcher([broad, narrow])
        var second = Matcher([narrow, broad])
        #expect(first.firstMatch(both, smoothedRSSI: nil) == 0)
        #expect(second.firstMatch(both, smoothedRSSI: nil) == 0)
    }

    @Test func piecesMatchTogether() {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = BluetoothUUID("180F")
        descriptor.name.substring = "Dice"
        var pieces = advert { $0.localName = "Dice 1" }
        #expect(!match(descriptor, pieces))
        pieces.serviceData[BluetoothUUID(short: 0x180F)] = [1]
        #expect(match(descriptor, pieces))
    }

    struct NameCase: Sendable {
        let substring: String
        let name: String
        let options: CompareOptions
        let matches: Bool
        init(_ substring: String, in name: String, _ options: CompareOptions, _ matches: Bool) {
            (self.substring, self.name, self.options, self.matches) = (substring, name, options, matches)
        }
    }

    static let nameCases: [NameCase] = [
        NameCase("dice", in: "Pink DICE", .caseInsensitive, true),
        NameCase("dice", in: "Pink DICE", [], false),
        NameCase("Pink", in: "Pink Dice", .anchored, true),
        NameCase("Dice", in: "Pink Dice", .anchored, false),
        NameCase("Dice", in: "Pink Dice", [.anchored, .backwards], true),
        NameCase("Dice", in: "Dice Pink", [.anchored, .backwards], false),
        NameCase("cafe", in: "Café", [.caseInsensitive, .diacriticInsensitive], true),
        NameCase("cafe", in: "Café", .caseInsensitive, false),
        NameCase("e\u{301}", in: "\u{E9}", [], true),
        NameCase("e\u{301}", in: "\u{E9}", .literal, false),
        NameCase("ABC", in: "ＡＢＣ", .widthInsensitive, true),
        NameCase("ABC", in: "ＡＢＣ", [], false),
        NameCase("^Dice [0-9]+$", in: "Dice 42", .regularExpression, true),
        NameCase("^Dice [0-9]+$", in: "Dice x", .regularExpression, false),
        NameCase("^dice", in: "DICE", [.regularExpression, .caseInsensitive], true),
    ]

    @Test(arguments: nameCases)
    func rule3NamesCompareAsFoundationDoes(_ test: NameCase) {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = BluetoothUUID("180F")
        descriptor.name.substring = test.substring
        descriptor.name.options = test.options
        let heard = advert {
            $0.serviceUUIDs = [BluetoothUUID(short: 0x180F)]
            $0.localName = test.name
        }
        #expect(match(descriptor, heard) == test.matches)
    }

    @Test func rule5ImmediateIsDecidedHere() {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = BluetoothUUID("180F")
        descriptor.range = .immediate
        let heard = advert { $0.serviceUUIDs = [BluetoothUUID(short: 0x180F)] }
        #expect(match(descriptor, heard, rssi: -55))
        #expect(!match(descriptor, heard, rssi: -56))
        #expect(!match(descriptor, heard, rssi: nil))
        #expect(match(descriptor, heard, rssi: -60, offered: true))
        #expect(!match(descriptor, heard, rssi: -62, offered: true))
    }
}

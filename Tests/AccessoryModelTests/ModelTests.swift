// SPDX-License-Identifier: Apache-2.0
// The model's words: which texts parse, and which do not.

import AccessoryModel
import Testing

@Suite struct ModelTests {
    @Test(arguments: [
        ("180F", "0000180f-0000-1000-8000-00805f9b34fb"), ("0x180f", "0000180f-0000-1000-8000-00805f9b34fb"),
        ("E56A082E-C49B-47CA-A2AB-389127B8ABE3", "e56a082e-c49b-47ca-a2ab-389127b8abe3"),
        ("12345678", "12345678-0000-1000-8000-00805f9b34fb"),
    ])
    func uuids(text: String, printed: String) { #expect(BluetoothUUID(text)?.description == printed) }

    @Test(arguments: [
        "", "18", "180G", "180F0", "E56A082EC49B47CAA2AB389127B8ABE3", "E56A082E-C49B-47CA-A2AB-389127B8ABE", "é80F", "0x",
    ])
    func notUUIDs(text: String) { #expect(BluetoothUUID(text) == nil) }

    @Test func addresses() {
        let address = BluetoothAddress("c0:ff:ee:00:00:01", kind: .random)
        #expect(address?.description == "C0:FF:EE:00:00:01")
        #expect(BluetoothAddress("40:00:00:00:00:01", kind: .random)?.isResolvablePrivate == true)
        #expect(address?.isResolvablePrivate == false)
        for text in ["", "C0:FF:EE:00:00", "C0-FF-EE-00-00-01", "C0:FF:EE:00:00:0G"] {
            #expect(BluetoothAddress(text, kind: .public) == nil)
        }
    }

    @Test func accessoryIdentifiersAreVersion4() {
        let id = AccessoryID.random().rawValue
        #expect(id.count == 36 && Array(id)[14] == "4" && "89AB".contains(Array(id)[19]))
        #expect(AccessoryID("nonsense") == nil)
    }

    @Test(arguments: ["", "a/b", "a b", ".hidden", "ä", String(repeating: "a", count: 256)])
    func notAppIdentifiers(text: String) { #expect(AppID(text) == nil) }

    @Test func imagesAreSniffed() {
        #expect(ProductImage([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0])?.format == .png)
        #expect(ProductImage([0xFF, 0xD8, 0xFF, 0xE0])?.format == .jpeg)
        #expect(ProductImage(Array("<?xml version='1.0'?><svg/>".utf8))?.format == .svg)
        #expect(ProductImage(Array("<html>".utf8)) == nil)
        #expect(ProductImage([]) == nil)
    }

    @Test func dataMatchesUnderItsMask() throws {
        let data = try MaskedData(blob: [0x10, 0x02], mask: [0xF0, 0x0F])
        #expect(data.matches([0x1F, 0xF2]) && data.matches([0x10, 0x02, 0xFF]))
        #expect(!data.matches([0x20, 0x02]) && !data.matches([0x10]) && !data.matches([]))
        #expect(throws: MaskedData.Problem.empty) { try MaskedData(blob: [], mask: []) }
        #expect(throws: MaskedData.Problem.lengthsDiffer) { try MaskedData(blob: [1], mask: [1, 1]) }
        #expect(throws: MaskedData.Problem.blobBitOutsideMask(index: 1)) { try MaskedData(blob: [1, 2], mask: [1, 1]) }
    }

    @Test func networksNames() {
        #expect(SSID("Dice")?.text == "Dice")
        #expect(SSID([0xFF])?.text == nil && SSID([0xFF])?.description == "\u{FFFD}")
        #expect(SSID("a\u{1B}[2Jb\u{9B}")?.description == "a\u{FFFD}[2Jb\u{FFFD}")
        #expect(SSID([UInt8](repeating: 1, count: 32)) != nil)
        // A hidden network fills in zeros.
        for bytes in [[], [0], [0, 0, 0], [UInt8](repeating: 1, count: 33)] { #expect(SSID(bytes) == nil) }
    }

    @Test func oneNetworkForEachName() throws {
        let dice = try #require(SSID("Dice")), other = try #require(SSID("Aaa"))
        func point(_ ssid: SSID, _ rssi: Int?, _ band: NetworkBand) -> WiFiNetwork {
            WiFiNetwork(ssid: ssid, rssi: rssi, security: .wpa2, band: band)
        }
        let merged = WiFiNetwork.merged([
            point(dice, nil, .ghz6), point(dice, -70, .ghz2), point(other, -80, .ghz2), point(dice, -50, .ghz5),
            point(dice, -60, .ghz2),
        ])
        #expect(merged == [point(other, -80, .ghz2), point(dice, -50, .ghz5)])
    }

    @Test func bandsAndSecurity() {
        let bands = [2412, 2472, 5180, 5885, 5955, 7115, 868, 2500, 60_480].map { NetworkBand(frequency: $0) }
        #expect(bands == [.ghz2, .ghz2, .ghz5, .ghz5, .ghz6, .ghz6, nil, nil, nil])
        #expect(NetworkSecurity.allCases.filter { !$0.wantsPassphrase } == [.open, .owe, .enterprise])
    }

    @Test func passphrasesAreNeverSaid() throws {
        let key = String(repeating: "0f", count: 32)
        #expect(NetworkJoin.Passphrase("12345678")?.key == nil && NetworkJoin.Passphrase(key)?.key?.count == 32)
        for text in [
            "1234567", String(repeating: "a", count: 65), String(repeating: "z", count: 64), "1234567\n", "12345678\u{7F}",
        ] {
            #expect(NetworkJoin.Passphrase(text) == nil)
        }
        let join = NetworkJoin(ssid: try #require(SSID("Dice")), passphrase: NetworkJoin.Passphrase("sixsided1"), isHidden: true)
        #expect("\(join)" == "Dice with a passphrase, hidden" && !"\(join.passphrase as Any)".contains("sixsided"))
    }

    @Test func hexadecimals() {
        #expect(Hex.bytes("00fFa0") == [0, 0xFF, 0xA0] && Hex.bytes("") == [] && Hex.text([0, 0xFF, 0xA0]) == "00ffa0")
        for text in ["0", "0g", "é0"] { #expect(Hex.bytes(text) == nil) }
        #expect(CompanyIdentifier(hexadecimal: "0x4C")?.description == "004C")
        for text in ["", "0x", "12345", "G"] { #expect(CompanyIdentifier(hexadecimal: text) == nil) }
    }

    /// Adverts come from strangers.
    @Test func whatAnAccessoryIsRememberedByIsBounded() {
        var traits = Accessory.Traits()
        for number in 0..<1000 {
            let service = BluetoothUUID(short: UInt32(number))
            traits.formUnion(Accessory.Traits(services: [service], companies: [CompanyIdentifier(UInt16(number))]))
        }
        #expect(traits.services.count == Limits.traitsPerAccessory && traits.companies.count == Limits.traitsPerAccessory)
    }

    @Test func rawValuesAreApples() {
        #expect(SessionEventType.pickerSetupFailed.rawValue == 70 && SessionEventType.pickerDidDismiss.name == "pickerDidDismiss")
        #expect(SetupError.Code.pickerRestricted.rawValue == 550)
        #expect(CompareOptions.regularExpression.rawValue == 1024 && SupportOptions.hid.rawValue == 8)
    }
}

// SPDX-License-Identifier: Apache-2.0
// The model's words: what parses, what does not.

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

    @Test func rawValuesAreApples() {
        #expect(SessionEventType.pickerSetupFailed.rawValue == 70 && SessionEventType.pickerDidDismiss.name == "pickerDidDismiss")
        #expect(SetupError.Code.pickerRestricted.rawValue == 550)
        #expect(CompareOptions.regularExpression.rawValue == 1024 && SupportOptions.hid.rawValue == 8)
    }
}

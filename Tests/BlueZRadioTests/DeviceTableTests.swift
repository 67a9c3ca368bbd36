// SPDX-License-Identifier: Apache-2.0
// The news that the table of devices hands over after several signals in one reading.

import AccessoryEngine
import AccessoryModel
import DBusKit
import Testing

@testable import BlueZRadio

@Suite struct DeviceTableTests {
    private let table = DeviceTable()
    private let path: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"

    init() throws {
        table.adapters = [
            "/org/bluez/hci0": RadioAdapter(
                address: try #require(BluetoothAddress("00:AA:01:00:00:42", kind: .public)), name: "hci0", isPowered: true,
                isAllowed: true)
        ]
    }

    private func data(_ byte: UInt8) -> [String: DBusValue] {
        let payload = DBusValue.dictionary(key: "q", value: "v", [.init(.uint16(0x75), .variant(.bytes([0x42, byte])))])
        return ["ManufacturerData": payload, "RSSI": .int16(-50)]
    }

    private func add(_ properties: [String: DBusValue]) throws {
        let all = properties.merging(["Address": .string("C0:FF:EE:00:02:01"), "AddressType": .string("random")]) { old, _ in old }
        let message = try Message.signal(path: path, interface: "a.b", member: "C", [.vardict(all)])
        message.withArguments { table.merge(path, &$0, isNew: true) }
    }

    private func change(_ properties: [String: DBusValue]) throws {
        let device = try #require(table[path])
        let message = try Message.signal(
            path: path, interface: "org.freedesktop.DBus.Properties", member: "PropertiesChanged",
            [.string("org.bluez.Device1"), .vardict(properties), .strings([])])
        message.withArguments { table.update(device, &$0) }
    }

    private var handedOver: [UInt8?] {
        table.drainContent(now: 1).map { $0.content?.manufacturerData[CompanyIdentifier(0x75)]?.last }
    }

    @Test func aPayloadThatIsReplacedInOneReadingIsHandedOver() throws {
        try add(data(1))
        try change(data(2))
        #expect(handedOver == [1, 2])
        try change(data(1))
        #expect(handedOver == [1])
        // However many there are.
        for byte: UInt8 in [2, 3, 4, 5] { try change(data(byte)) }
        #expect(handedOver == [2, 5])
        #expect(handedOver.isEmpty)
    }
}

// SPDX-License-Identifier: Apache-2.0
// The rows of org.bluez against the simulator's own description, and values that are absent or malformed.

import AccessoryModel
import BlueZInterfaces
import DBusKit
import Testing

@testable import RadioSimulator

@Suite struct InterfaceTableTests {
    /// Properties without a part in any scenario.
    private static let unplayed: Set<String> = [
        "Class", "DiscoverableTimeout", "PairableTimeout", "Connectable", "AdvertisingFlags", "WakeAllowed",
    ]

    private func check<Interface: BlueZInterface>(_: Interface.Type, members: [String] = []) throws {
        let description = try #require(try Interfaces.load()[Interface.interface])
        for property in Interface.allCases where !Self.unplayed.contains(property.name) {
            #expect(description.properties.first { $0.name == property.name }?.type == property.row.type, "\(property.name)")
        }
        #expect(Set(members).isSubset(of: description.methods.map(\.name)))
        for property in Interface.allCases {
            if let fallback = property.row.fallback { #expect(fallback.signature == property.row.type, "\(property.name)") }
        }
    }

    @Test func rowsHaveTheTypesOfTheSimulator() throws {
        typealias Adapter = Adapter1.Member
        try check(
            Adapter1.self,
            members: [
                Adapter.startDiscovery, Adapter.stopDiscovery, Adapter.setDiscoveryFilter, Adapter.getDiscoveryFilters,
                Adapter.removeDevice,
            ])
        typealias Device = Device1.Member
        try check(Device1.self, members: [Device.connect, Device.disconnect, Device.pair, Device.cancelPairing])
        try check(Battery1.self)
        try check(GattService1.self)
        typealias Characteristic = GattCharacteristic1.Member
        try check(
            GattCharacteristic1.self,
            members: [
                Characteristic.readValue, Characteristic.writeValue, Characteristic.startNotify, Characteristic.stopNotify,
                Characteristic.acquireWrite, Characteristic.acquireNotify,
            ])
        try check(GattDescriptor1.self, members: [GattDescriptor1.Member.readValue, GattDescriptor1.Member.writeValue])
    }

    @Test func absentAndMalformedValuesAreDefaults() {
        var device = Properties<Device1>([
            "Connected": .string("yes"), "RSSI": .int32(-40), "UUIDs": .strings(["180F", "no UUID"]),
        ])
        #expect(!device.isConnected && device.rssi == nil && device.isBonded == nil && device.address == nil)
        device.change(["Connected": .variant(.boolean(true)), "RSSI": .int16(-40), "Bonded": .boolean(false)])
        #expect(device.isConnected && device.rssi == -40 && device.isBonded == false)
        device.change(["Address": .string("C0:00:00:00:00:01"), "AddressType": .string("random")], invalidated: ["RSSI"])
        #expect(device.rssi == nil && device.address == BluetoothAddress("C0:00:00:00:00:01", kind: .random))
        #expect(device.values["UUIDs"] != nil && device.serviceUUIDs.count <= 1)
        #expect(Properties<GattService1>().isPrimary)
        #expect(Properties<Battery1>(["Percentage": .byte(200)]).percentage == 100)
    }

    /// Properties are found by name, whatever the order of the rows.
    @Test func aMessageIsReadByName() throws {
        let message = try Message.signal(
            path: "/", interface: "a.b", member: "C",
            [.vardict(["Powered": .boolean(true), "Discovering": .boolean(false), "Other": .byte(1)])])
        var read: [Adapter1: Bool?] = [:]
        message.withArguments { $0.forEachProperty(of: Adapter1.self) { read[$0] = $1.boolean } }
        #expect(read == [.powered: true, .discovering: false])
    }

    @Test func errorsHaveTheNamesOfTheService() {
        #expect(BusError.bluez(.notReady, "").name == "org.bluez.Error.NotReady")
        #expect(BusError(name: "org.bluez.Error.DoesNotExist", message: "").bluez == .doesNotExist)
        #expect(BusError.failed("").bluez == nil && BusError(name: "org.bluez.Error.New", message: "").bluez == nil)
    }
}

// SPDX-License-Identifier: Apache-2.0
// The rows of org.bluez against the simulator's own description, and values that are absent or malformed.

import AccessoryModel
import BlueZInterfaces
import DBusKit
import Testing

@testable import RadioSimulator

@Suite struct InterfaceTableTests {
    /// Properties without a part in any scenario.
    private static let unplayed: Set<String> = ["AdvertisingFlags"]

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
    }

    @Test func absentAndMalformedValuesAreDefaults() {
        let malformed = Properties<Device1>([
            "Connected": .string("yes"), "TxPower": .int32(-40), "UUIDs": .strings(["180F", "no UUID"]),
        ])
        #expect(!malformed.isConnected && malformed.txPower == nil && malformed.address == nil)
        #expect(malformed.serviceUUIDs.count <= 1)
        let device = Properties<Device1>([
            "Connected": .variant(.boolean(true)), "TxPower": .int16(-40), "Address": .string("C0:00:00:00:00:01"),
            "AddressType": .string("random"),
        ])
        #expect(device.isConnected && device.txPower == -40)
        #expect(device.address == BluetoothAddress("C0:00:00:00:00:01", kind: .random))
        #expect(Properties<GattService1>().isPrimary)
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

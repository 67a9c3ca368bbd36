// SPDX-License-Identifier: Apache-2.0
// The permission that each call needs, and characteristics by UUID and instance.

import AccessoryModel
import BlueZInterfaces
import DBusKit
import Testing

@testable import BlueZView

@Suite struct NarrowedAccessTests {
    static let device: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_01"
    static let characteristic: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_01/service000a/char000b"
    static let descriptor: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_01/service000a/char000b/desc000d"

    private static func use(_ uses: CharacteristicUses, _ descriptor: ObjectPath? = nil) -> CallNeed {
        .use(.init(device: device, characteristic: characteristic, descriptor: descriptor, uses: uses))
    }

    @Test(
        arguments: [
            (device, Device1.interface, "Connect", CallNeed.nothing), (device, Device1.interface, "Disconnect", .nothing),
            (device, Device1.interface, "Pair", .nothing), (device, Device1.interface, "ConnectProfile", .fullAccess),
            (device, Bus.properties, "Get", .nothing), (device, Bus.properties, "GetAll", .nothing),
            (device, Bus.properties, "Set", .fullAccess), (characteristic, Bus.properties, "Set", .fullAccess),
            (device, Bus.introspectable, "Introspect", .nothing), (device, Input1.interface, "Connect", .fullAccess),
            (device, "org.bluez.Network1", "Connect", .fullAccess), (device, "org.bluez.New1", "New", .fullAccess),
            (device, nil, "Introspect", .nothing), (characteristic, nil, "WriteValue", .fullAccess),
            (characteristic, GattCharacteristic1.interface, "ReadValue", use(.read)),
            (characteristic, GattCharacteristic1.interface, "WriteValue", use(.write)),
            (characteristic, GattCharacteristic1.interface, "AcquireWrite", use(.write)),
            (characteristic, GattCharacteristic1.interface, "AcquireNotify", use(.listen)),
            (characteristic, GattCharacteristic1.interface, "StartNotify", use(.listen)),
            (characteristic, GattCharacteristic1.interface, "Confirm", use(.listen)),
            (characteristic, GattCharacteristic1.interface, "StopNotify", .nothing),
            (characteristic, GattCharacteristic1.interface, "NewValue", .fullAccess),
            (descriptor, GattDescriptor1.interface, "ReadValue", use(.read, descriptor)),
            (descriptor, GattDescriptor1.interface, "WriteValue", use(.write, descriptor)),
            (descriptor, GattDescriptor1.interface, "NewValue", .fullAccess),
        ] as [(ObjectPath, String?, String, CallNeed)])
    func eachCallNeedsAUse(_ path: ObjectPath, _ interface: String?, _ member: String, _ need: CallNeed) {
        #expect(CallNeed(path, interface, member, Self.device) == need)
    }

    @Test func ofTwoGrantsForOneObjectTheNarrowerCounts() {
        func limit(_ first: AccessLimit, _ second: AccessLimit) -> AccessLimit? {
            let granted = [first, second].map {
                GrantedDevice(accessory: .random(), name: "Mine", paths: [Self.device], access: $0)
            }
            return Scope(granted: granted).limits[Self.device]
        }
        #expect(limit(.full, .full) == nil)
        #expect(limit(.full, .read) == .read && limit(.read, .full) == .read)
    }

    private func path(_ text: String) -> ObjectPath { ObjectPath(Self.device.rawValue + text)! }

    private func object(_ interface: String, _ uuid: String) -> [String: DBusValue] {
        [interface: .vardict(["UUID": .string(BluetoothUUID(uuid)!.description)])]
    }

    private func identity(_ attributes: inout Attributes, _ text: String) -> String? {
        attributes.identity(of: path(text), Self.device)?.description
    }

    @Test func instancesAreCountedInTheOrderOfHandles() {
        var attributes = Attributes()
        let characteristics = [
            ("/service000a/char000b", "2A19"), ("/service000a/char000e", "2A1A"), ("/service0010/char0011", "2A19"),
            ("/service0010/char00f0", "2A19"), ("/service0100/char0101", "2A19"),
        ]
        // Signals come in any order.
        for (text, uuid) in characteristics.reversed() { attributes.add(path(text), object(GattCharacteristic1.interface, uuid)) }
        #expect(identity(&attributes, "/service000a/char000b") == nil)
        for (text, uuid) in [("/service000a", "180F"), ("/service0010", "180F"), ("/service0100", "180A")] {
            attributes.add(path(text), object(GattService1.interface, uuid))
        }
        attributes.add(path("/service000a/char000b/desc000d"), object(GattDescriptor1.interface, "2902"))
        #expect(
            characteristics.map { identity(&attributes, $0.0) }
                == ["180F/2A19#1", "180F/2A1A#1", "180F/2A19#2", "180F/2A19#3", "180A/2A19#1"])
        #expect(attributes.uuid(of: path("/service000a/char000b/desc000d"), Self.device) == BluetoothUUID("2902"))
        #expect(identity(&attributes, "/service000a") == nil && identity(&attributes, "/service000a/char000b/desc000d") == nil)
        // A service goes, and another one comes in its place.
        attributes.remove(path("/service000a/char000b"), [GattCharacteristic1.interface])
        #expect(identity(&attributes, "/service000a/char000b") == nil)
        #expect(identity(&attributes, "/service0010/char0011") == "180F/2A19#1")
        attributes.add(path("/service000a"), object(GattService1.interface, "1815"))
        attributes.add(path("/service000a/char000b"), object(GattCharacteristic1.interface, "2A56"))
        #expect(identity(&attributes, "/service000a/char000b") == "1815/2A56#1")
        // Other devices' attributes are their own.
        #expect(attributes.identity(of: path("/service000a/char000b"), "/org/bluez/hci0/dev_C0_FF_EE_00_00_02") == nil)
    }
}

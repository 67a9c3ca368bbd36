// SPDX-License-Identifier: Apache-2.0
// The reach of an app, as tables: every known call of org.bluez, on every kind of object.

import AccessoryModel
import BlueZInterfaces
import DBusKit
import Testing

@testable import BlueZView

@Suite struct ScopeTests {
    static let adapter: ObjectPath = "/org/bluez/hci0"
    static let mine: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_01"
    static let characteristic: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_01/service000a/char000c"
    let scope = Scope(adapter: adapter, granted: [GrantedDevice(accessory: .random(), name: "Mine", paths: [mine])])

    private func verdict(_ path: ObjectPath, _ interface: String?, _ member: String) -> Scope.Verdict {
        scope.verdict(path: path, interface: interface, member: member)
    }

    private func error(_ verdict: Scope.Verdict) -> String? {
        if case .refused(let error) = verdict { error.name } else { nil }
    }

    @Test func theAdapterStaysUntilTheViewHasHeardWhereItWent() {
        var heardFirst = Scope()
        heardFirst.keepAdapters(of: scope) { $0 == Self.adapter }
        #expect(heardFirst.adapters == [Self.adapter] && heardFirst.isEmpty)
        var isGone = Scope()
        isGone.keepAdapters(of: scope) { _ in false }
        #expect(isGone.adapters.isEmpty)
        var another = Scope(adapter: "/org/bluez/hci1")
        another.keepAdapters(of: scope) { _ in true }
        #expect(another.adapters == ["/org/bluez/hci1"])
    }

    @Test func aDeviceIsItselfAndWhatIsBelow() {
        #expect(scope.device(of: Self.mine) == Self.mine)
        #expect(scope.device(of: Self.characteristic) == Self.mine)
        // A longer name is another device.
        #expect(scope.device(of: "/org/bluez/hci0/dev_C0_FF_EE_00_00_012") == nil)
        #expect(scope.device(of: Self.adapter) == nil)
        #expect(scope.device(of: "/") == nil)
    }

    @Test(arguments: [
        (mine, Device1.interface, "Connect", Scope.Verdict.connect(mine)),
        (mine, Device1.interface, "Disconnect", .disconnect(mine)), (mine, Device1.interface, "Pair", .pairing(mine)),
        (mine, Bus.properties, "GetAll", .deviceProperty(mine)),
        (mine, Bus.introspectable, "Introspect", .passed(mine)),
        (characteristic, Bus.properties, "Get", .deviceProperty(mine)),
        (characteristic, GattCharacteristic1.interface, "ReadValue", .attribute(mine)),
        (characteristic, GattCharacteristic1.interface, "StopNotify", .attribute(mine)),
        (characteristic, GattCharacteristic1.interface, "AcquireWrite", .acquisition(mine)),
        (characteristic, GattCharacteristic1.interface, "AcquireNotify", .acquisition(mine)),
        (adapter, Adapter1.interface, "StartDiscovery", .discovery),
        (adapter, Bus.properties, "GetAll", .adapterProperty(adapter)),
        (adapter, Bus.properties, "Set", .adapterProperty(adapter)), (mine, Bus.properties, "Set", .deviceSetting(mine)),
        (BlueZ.manager, AgentManager1.interface, "RegisterAgent", .agent),
        (BlueZ.manager, AgentManager1.interface, "UnregisterAgent", .agent),
        ("/", Bus.objectManager, "GetManagedObjects", .managedObjects), ("/org", Bus.introspectable, "Introspect", .introspection),
    ]) func anAppsOwn(path: ObjectPath, interface: String, member: String, expected: Scope.Verdict) {
        #expect(verdict(path, interface, member) == expected)
    }

    /// Whatever is not listed above is refused, on its own objects too.
    @Test func nothingElsePasses() {
        let interfaces = [
            nil, Device1.interface, Adapter1.interface, GattCharacteristic1.interface, GattDescriptor1.interface,
            "org.bluez.GattService1", "org.bluez.AgentManager1", "org.bluez.Media1", "org.bluez.Network1", Bus.properties,
            Bus.objectManager, "com.example.Other",
        ]
        let members = [
            "CancelPairing", "ConnectProfile", "DisconnectProfile", "RemoveDevice", "ConnectDevice", "SetDiscoveryFilterX",
            "Set", "RegisterAgent", "RegisterApplication", "RegisterAdvertisement", "RegisterProfile", "Register", "Explode",
        ]
        for path: ObjectPath in ["/", "/org/bluez", Self.adapter, Self.mine, Self.characteristic] {
            for interface in interfaces {
                // Answered where the present values are known: almost all is refused there.
                let isSetting = interface == Bus.properties && [Self.adapter, Self.mine].contains(path)
                let isAgent = interface == AgentManager1.interface && path == BlueZ.manager
                for member in members where !(isSetting && member == "Set" || isAgent && member == "RegisterAgent") {
                    #expect(error(verdict(path, interface, member)) != nil, "\(path) \(interface ?? "") \(member)")
                }
            }
        }
    }

    @Test func othersDoNotExist() {
        for path: ObjectPath in [
            "/org/bluez/hci1", "/org/bluez/hci0/dev_C0_FF_EE_00_00_02", "/com/example", "/org/bluez/hci0/dev_X/y",
        ] {
            for (interface, member) in [
                (Device1.interface, "Connect"), (Device1.interface, "Pair"), (Bus.properties, "Set"),
                (Bus.introspectable, "Introspect"),
            ] {
                #expect(error(verdict(path, interface, member)) == "org.freedesktop.DBus.Error.UnknownObject")
            }
        }
    }

    @Test func theTreeShowsTheWayToItsOwn() {
        #expect(ObjectTree.introspection(of: "/org", scope).contains("<node name=\"bluez\"/>"))
        #expect(ObjectTree.introspection(of: Self.adapter, scope).contains("<node name=\"dev_C0_FF_EE_00_00_01\"/>"))
        let empty = Scope(adapter: Self.adapter)
        #expect(!ObjectTree.introspection(of: Self.adapter, empty).contains("<node name="))
    }
}

@Suite struct DiscoveryFilterTests {
    private func passed(_ values: [String: DBusValue]) throws -> [String: DBusValue] {
        try DiscoveryFilter(.vardict(values)).values
    }

    @Test func whatIsPassedOn() throws {
        for transport in ["auto", "le", "bredr"] {
            #expect(try passed(["Transport": .string(transport)]) == ["Transport": .string(transport)])
        }
        // In the type that bluetoothd takes, whatever the client's language has.
        for value: DBusValue in [.int16(20), .byte(20), .int32(20), .uint64(20)] {
            #expect(try passed(["RSSI": value]) == ["RSSI": .int16(20)])
            #expect(try passed(["Pathloss": value]) == ["Pathloss": .uint16(20)])
        }
        #expect(try passed(["RSSI": .int32(-127)]) == ["RSSI": .int16(-127)])
        #expect(try passed(["DuplicateData": .boolean(true)]) == ["DuplicateData": .boolean(true)])
        #expect(try DiscoveryFilter(nil).values.isEmpty)
    }

    /// Parameters that would narrow other clients' searches apply to this client only.
    @Test func whatIsTakenAndNotPassedOn() throws {
        #expect(
            try passed([
                "UUIDs": .strings(["180F"]), "Pattern": .string("Die"), "Discoverable": .boolean(false), "RSSI": .int16(-60),
            ])
                == ["RSSI": .int16(-60)])
    }

    @Test func whatIsRefused() {
        func refusal(_ key: String, _ value: DBusValue) -> String? {
            do {
                _ = try passed([key: value])
                return nil
            } catch { return (error as? BusError)?.name }
        }
        for (key, value): (String, DBusValue) in [
            ("Transport", .string("wire")), ("Transport", .byte(1)), ("RSSI", .int16(-128)), ("RSSI", .int16(21)),
            ("RSSI", .string("-60")), ("Pathloss", .uint16(138)), ("Pathloss", .int16(-1)), ("DuplicateData", .byte(1)),
            ("Discoverable", .string("no")), ("UUIDs", .string("180F")), ("Pattern", .boolean(true)), ("Colour", .string("pink")),
            ("transport", .string("le")),
        ] { #expect(refusal(key, value) == "org.bluez.Error.InvalidArguments", "\(key) \(value)") }
        #expect(refusal("Discoverable", .boolean(true)) == "org.bluez.Error.NotPermitted")
    }
}

// SPDX-License-Identifier: Apache-2.0
// The interfaces of org.bluez that the simulator serves (from BlueZ' doc/org.bluez.*.rst, 5.66; `PreferredBearer` and
// `Disconnected` of 5.83), and its control interface (Docs/Simulator.md).

internal import DBusKit

enum Interfaces {
    static func load() throws(BusError) -> [String: InterfaceDescription] { try InterfaceTable.load(table) }

    static let adapter = "org.bluez.Adapter1"
    static let monitorManager = "org.bluez.AdvertisementMonitorManager1"
    static let device = "org.bluez.Device1"
    static let battery = "org.bluez.Battery1"
    static let agentManager = "org.bluez.AgentManager1"
    static let service = "org.bluez.GattService1"
    static let characteristic = "org.bluez.GattCharacteristic1"
    static let descriptor = "org.bluez.GattDescriptor1"
    static let simulator = "org.accessorysetup.Simulator1"

    private static let table = """
        org.bluez.AgentManager1
            RegisterAgent(o, s)
            UnregisterAgent(o)
            RequestDefaultAgent(o)
        org.bluez.Adapter1
            StartDiscovery()
            StopDiscovery()
            SetDiscoveryFilter(a{sv})
            GetDiscoveryFilters() -> as
            RemoveDevice(o)
            Address: s
            AddressType: s
            Name: s
            Alias: s rw
            Powered: b rw
            Pairable: b rw
            Discoverable: b rw
            Discovering: b
            UUIDs: as
            Roles: as
        org.bluez.AdvertisementMonitorManager1
            RegisterMonitor(o)
            UnregisterMonitor(o)
            SupportedMonitorTypes: as
            SupportedFeatures: as
        org.bluez.Device1
            Connect()
            Disconnect()
            Pair()
            CancelPairing()
            signal Disconnected(s, s)
            Address: s
            AddressType: s
            Name: s
            Alias: s rw
            Paired: b
            Bonded: b
            Trusted: b rw
            Blocked: b rw
            LegacyPairing: b
            Connected: b
            ServicesResolved: b
            UUIDs: as
            Adapter: o
            RSSI: n
            TxPower: n
            ManufacturerData: a{qv}
            ServiceData: a{sv}
            PreferredBearer: s rw
        org.bluez.Battery1
            Percentage: y
        org.bluez.GattService1
            UUID: s
            Device: o
            Primary: b
            Includes: ao
        org.bluez.GattDescriptor1
            ReadValue(a{sv}) -> ay
            WriteValue(ay, a{sv})
            UUID: s
            Characteristic: o
            Value: ay
        org.bluez.GattCharacteristic1
            ReadValue(a{sv}) -> ay
            WriteValue(ay, a{sv})
            StartNotify()
            StopNotify()
            AcquireWrite(a{sv}) -> h, q
            AcquireNotify(a{sv}) -> h, q
            WriteAcquired: b
            NotifyAcquired: b
            UUID: s
            Service: o
            Value: ay
            Notifying: b
            Flags: as
            MTU: q
        org.accessorysetup.Simulator1
            Do(s, s)
            Bonds() -> as
            Connections() -> as
            Adverts() -> t
            SearchTime() -> d
            Scans() -> u
            Joined() -> a{ss}
            KnownNetworks() -> as
            Secrets() -> u
        """
}

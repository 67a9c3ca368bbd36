// SPDX-License-Identifier: Apache-2.0
// A device that an app hears by a grant for a kind, as a client sees it: the properties that come from adverts, and no
// trace of other apps' use.

internal import BlueZInterfaces
internal import DBusKit

enum HeardDevice {
    static let interfaces = [Device1.interface, Bus.introspectable, Bus.properties]

    /// Properties that come from adverts (BlueZ, org.bluez.Device(5)).
    private static let advertised: Set = [
        "Adapter", "Address", "AddressType", "AdvertisingData", "AdvertisingFlags", "Appearance", "Class", "Icon",
        "ManufacturerData", "Name", "RSSI", "ServiceData", "TxPower", "UUIDs",
    ]

    /// The state of a device without a link and a bond.
    private static let unused: [String: DBusValue] = [
        "Blocked": .boolean(false), "Bonded": .boolean(false), "Connected": .boolean(false), "LegacyPairing": .boolean(false),
        "Paired": .boolean(false), "ServicesResolved": .boolean(false), "Trusted": .boolean(false),
    ]

    static func isAdvertised(_ property: String) -> Bool { advertised.contains(property) }

    /// All properties of a device.
    static func properties(_ all: [String: DBusValue]) -> [String: DBusValue] {
        var shown = changes(all)
        // As bluetoothd makes one of the address: the present one may be another app's name for it.
        let address = all["Address"]?.stringValue ?? ""
        shown["Alias"] = shown["Name"] ?? .string(String(address.map { $0 == ":" ? "-" : $0 }))
        return shown.merging(unused) { $1 }
    }

    /// Those of changed properties that come from adverts, with the alias that follows the name.
    static func changes(_ changed: [String: DBusValue]) -> [String: DBusValue] {
        var shown = changed.filter { advertised.contains($0.key) }
        if let name = shown["Name"] { shown["Alias"] = name }
        return shown
    }

    /// The object of a device; nil for an object without `Device1`.
    static func object(_ interfaces: [String: DBusValue]) -> [String: DBusValue]? {
        guard let all = interfaces[Device1.interface]?.vardictValue else { return nil }
        return [Device1.interface: .vardict(properties(all)), Bus.introspectable: .vardict([:]), Bus.properties: .vardict([:])]
    }
}

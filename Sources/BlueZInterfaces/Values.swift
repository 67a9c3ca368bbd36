// SPDX-License-Identifier: Apache-2.0
// Properties as values of the model. An absent or malformed value is nil, or the row's default.

public import AccessoryModel
public import DBusKit

extension Properties<Adapter1> {
    /// The controller's public or static address.
    public var address: BluetoothAddress? { self[.address]?.stringValue.flatMap { BluetoothAddress($0, kind: .public) } }
    public var isPowered: Bool { isTrue(.powered) }
}

extension Properties<Device1> {
    /// The address in use: a private one until pairing has given the identity address.
    public var address: BluetoothAddress? {
        let kind = self[.addressType]?.stringValue.flatMap { BluetoothAddress.Kind(rawValue: $0) } ?? .public
        return self[.address]?.stringValue.flatMap { BluetoothAddress($0, kind: kind) }
    }
    /// The name that the device gives itself.
    public var name: String? { self[.name]?.stringValue }
    /// The name on this machine; the device's own unless another was set.
    public var alias: String? { self[.alias]?.stringValue }
    public var isConnected: Bool { isTrue(.connected) }
    /// Whether all services have objects.
    public var areServicesResolved: Bool { isTrue(.servicesResolved) }
    /// Also true while a link lasts whose keys are not kept.
    public var isPaired: Bool { isTrue(.paired) }
    /// Whether the keys are kept; nil where bluetoothd does not send it.
    public var isBonded: Bool? { self[.bonded]?.booleanValue }
    /// dBm, of the last packet.
    public var rssi: Int? { self[.rssi]?.integerValue }
    /// dBm, as advertised.
    public var txPower: Int? { self[.txPower]?.integerValue }
    /// Services that are advertised or were found.
    public var serviceUUIDs: [BluetoothUUID] { (self[.uuids]?.stringsValue ?? []).compactMap { BluetoothUUID($0) } }
    public var serviceData: [BluetoothUUID: [UInt8]] {
        payloads(.serviceData) { $0.stringValue.flatMap { BluetoothUUID($0) } }
    }
    public var manufacturerData: [CompanyIdentifier: [UInt8]] {
        payloads(.manufacturerData) { $0.integerValue.flatMap { UInt16(exactly: $0) }.map { CompanyIdentifier($0) } }
    }
    /// The flags of the advert (Core Specification Supplement, Part A, 1.3).
    public var advertisingFlags: UInt8? { self[.advertisingFlags]?.bytesValue?.first }
    /// `le`, `bredr` or `last-used`; nil where bluetoothd does not let it be chosen.
    public var preferredBearer: String? { self[.preferredBearer]?.stringValue }

    private func payloads<Key: Hashable>(_ property: Device1, _ key: (DBusValue) -> Key?) -> [Key: [UInt8]] {
        let entries = self[property]?.entries ?? []
        return entries.reduce(into: [:]) { result, entry in
            if let key = key(entry.key), let bytes = entry.value.bytesValue { result[key] = bytes }
        }
    }
}

extension Properties<GattService1> {
    public var isPrimary: Bool { isTrue(.primary) }
    /// The objects of the included services.
    public var includes: [ObjectPath] { (self[.includes]?.arrayValue ?? []).compactMap(\.objectPathValue) }
}

extension Properties<GattCharacteristic1> {
    /// Such as `read` and `notify`.
    public var flags: [String] { self[.flags]?.stringsValue ?? [] }
    /// Bytes of a packet on the link.
    public var mtu: Int? { self[.mtu]?.integerValue }
}

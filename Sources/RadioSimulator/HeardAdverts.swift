// SPDX-License-Identifier: Apache-2.0
// The properties of a device object that come from its adverts.

internal import AccessoryModel
internal import DBusKit

struct HeardAdverts {
    private(set) var name: String?
    private(set) var lastHeard: Double
    private var uuids: Set<BluetoothUUID> = []
    /// The resolved services, which BlueZ then lists in place of the advertised ones. (`dev_property_get_uuids` in
    /// device.c)
    private var resolved: Set<BluetoothUUID>?
    private var hasLostUUIDs = false
    private var serviceData: [BluetoothUUID: [UInt8]] = [:]
    private var manufacturerData: [CompanyIdentifier: [UInt8]] = [:]
    private var rssi: Int?
    private var txPower: Int?

    static let properties = ["UUIDs", "RSSI", "TxPower", "ServiceData", "ManufacturerData"]

    init(name: String?, at time: Double) {
        self.name = name
        lastHeard = time
    }

    func value(_ property: String) -> DBusValue? {
        switch property {
        case "UUIDs": .strings((resolved ?? uuids).sorted().map(\.description))
        case "RSSI": rssi.map { .int16(Int16(clamping: $0)) }
        case "TxPower": txPower.map { .int16(Int16(clamping: $0)) }
        case "ServiceData":
            Self.dictionary("s", serviceData.sorted { $0.key < $1.key }.map { (.string($0.key.description), $0.value) })
        default: Self.dictionary("q", manufacturerData.sorted { $0.key < $1.key }.map { (.uint16($0.key.value), $0.value) })
        }
    }

    private static func dictionary(_ key: Signature, _ entries: [(DBusValue, [UInt8])]) -> DBusValue? {
        entries.isEmpty ? nil : .dictionary(key: key, value: "v", entries.map { .init($0.0, .variant(.bytes($0.1))) })
    }

    /// - Parameter duplicates: signal unchanged data, too (`DuplicateData`).
    /// - Returns: the properties to signal.
    mutating func hear(_ payload: Scenario.Payload, rssi new: Int?, duplicates: Bool, at time: Double) -> [String] {
        lastHeard = time
        var names: [String] = []
        if let new = payload.name, new != name {
            name = new
            names.append("Name")
        }
        if !hasLostUUIDs, resolved == nil, !uuids.isSuperset(of: payload.serviceUUIDs) {
            uuids.formUnion(payload.serviceUUIDs)
            names.append("UUIDs")
        }
        if !payload.serviceData.isEmpty, duplicates || serviceData != payload.serviceData {
            serviceData = payload.serviceData
            names.append("ServiceData")
        }
        if !payload.manufacturerData.isEmpty, duplicates || manufacturerData != payload.manufacturerData {
            manufacturerData = payload.manufacturerData
            names.append("ManufacturerData")
        }
        if let power = payload.txPower, power != txPower {
            txPower = power
            names.append("TxPower")
        }
        if let new, duplicates || new != rssi {
            rssi = new
            names.append("RSSI")
        }
        return names
    }

    /// - Returns: whether the strength was known.
    mutating func silence() -> Bool {
        defer { rssi = nil }
        return rssi != nil
    }

    mutating func resolve(_ services: Set<BluetoothUUID>) { resolved = services }

    mutating func loseUUIDs() {
        hasLostUUIDs = true
        (uuids, resolved) = ([], nil)
    }
}

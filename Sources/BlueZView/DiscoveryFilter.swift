// SPDX-License-Identifier: Apache-2.0
// The keys of SetDiscoveryFilter that an app may use. bluetoothd merges the filters of all its clients and acts on some
// of their keys for the whole adapter, so the filter is built anew from harmless keys.

internal import BlueZInterfaces
internal import DBusKit

/// A client's discovery filter, as it is passed on. (BlueZ, org.bluez.Adapter(5), SetDiscoveryFilter)
struct DiscoveryFilter {
    let values: [String: DBusValue]

    /// - Throws: `org.bluez.Error.NotPermitted` for a key that would change the adapter, `InvalidArguments` for a value
    ///   that the key cannot be.
    init(_ asked: DBusValue?) throws(BusError) {
        var values: [String: DBusValue] = [:]
        for (key, value) in asked?.vardictValue ?? [:] {
            func invalid() -> BusError { .bluez(.invalidArguments, "\(key) is not a value of type \(value.signature)") }
            switch key {
            case "Transport":
                guard let text = value.stringValue, ["auto", "le", "bredr"].contains(text) else { throw invalid() }
                values[key] = .string(text)
            case "RSSI":
                guard let number = value.integerValue, let rssi = Int16(exactly: number), (-127...20).contains(rssi) else {
                    throw invalid()
                }
                values[key] = .int16(rssi)
            case "Pathloss":
                guard let number = value.integerValue, let loss = UInt16(exactly: number), loss <= 137 else { throw invalid() }
                values[key] = .uint16(loss)
            case "DuplicateData":
                guard let wanted = value.booleanValue else { throw invalid() }
                values[key] = .boolean(wanted)
            case "Discoverable":
                guard let wanted = value.booleanValue else { throw invalid() }
                guard !wanted else { throw .notPermitted("an app may not make the adapter discoverable") }
            // Only narrow the results, of which an app sees its own accessories anyway. Not passed on: UUIDs misses
            // those with service data only, and crashes bluetoothd 5.87; a pattern would hide devices from other
            // clients' searches.
            case "UUIDs":
                guard value.stringsValue != nil else { throw invalid() }
            case "Pattern":
                guard value.stringValue != nil else { throw invalid() }
            // Since 5.83; bluetoothctl has it. An app connects by itself, to accessories of its own.
            case "AutoConnect":
                guard value.booleanValue != nil else { throw invalid() }
            default: throw .bluez(.invalidArguments, "\(key) is not a discovery filter key")
            }
        }
        self.values = values
    }
}

// SPDX-License-Identifier: Apache-2.0
// An access point as wpa_supplicant has heard it: what the scan results say, with the ciphers that go with each kind of
// security.

internal import DBusKit

final class SupplicantBSS: ExportedObject {
    let path: ObjectPath
    let point: AirAccessPoint
    let ssid: [UInt8]
    private(set) var interfaces: [ExportedInterface] = []
    private let air: WiFiAir
    private var lastSeen: Double
    /// Scans since that did not hear it.
    var misses = 0

    init(_ sighting: Sighting, _ path: ObjectPath, _ bus: ServiceBus, _ air: WiFiAir) {
        self.air = air
        lastSeen = air.now
        self.path = path
        point = sighting.point
        ssid = sighting.ssid
        var description = bus.interface(SupplicantXML.bss)
        for name in values.keys { description.property(name) { [unowned self] _ in values[name] } }
        interfaces = [description]
    }

    func isVisible(to caller: String) -> Bool { true }

    func seen() {
        lastSeen = air.now
        misses = 0
    }

    var values: [String: DBusValue] {
        let scenario = point.scenario
        let rates: [UInt32] = [54_000_000, 48_000_000, 36_000_000, 24_000_000, 18_000_000, 12_000_000, 9_000_000, 6_000_000]
        return [
            "SSID": .bytes(ssid),
            "BSSID": .bytes(point.bssid),
            "Privacy": .boolean(scenario.security != .open),
            "Mode": .string("infrastructure"),
            "Signal": .int16(Int16(clamping: scenario.rssi)),
            "Frequency": .uint16(UInt16(clamping: scenario.frequency)),
            "Rates": .array(of: "u", rates.map { .uint32($0) }),
            "WPA": .vardict(wpa),
            "RSN": .vardict(rsn),
            "IEs": .bytes([0, UInt8(ssid.count)] + ssid),
            "Age": .uint32(UInt32(air.now - lastSeen)),
        ]
    }

    private var wpa: [String: DBusValue] {
        let isWPA = point.scenario.security == .wpa
        return [
            "KeyMgmt": .strings(isWPA ? ["wpa-psk"] : []), "Pairwise": .strings(isWPA ? ["tkip"] : []),
            "Group": .string(isWPA ? "tkip" : ""),
        ]
    }

    private var rsn: [String: DBusValue] {
        let keys: [String] =
            switch point.scenario.security {
            case .open, .wep, .wpa: []
            case .wpa2: ["wpa-psk"]
            case .wpa3: ["sae"]
            case .transition: ["wpa-psk", "sae"]
            case .enterprise: ["wpa-eap"]
            }
        return [
            "KeyMgmt": .strings(keys), "Pairwise": .strings(keys.isEmpty ? [] : ["ccmp"]),
            "Group": .string(keys.isEmpty ? "" : "ccmp"),
            "MgmtGroup": .string(point.scenario.security.takesSAE ? "aes128cmac" : ""),
        ]
    }
}

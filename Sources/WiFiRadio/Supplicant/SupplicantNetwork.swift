// SPDX-License-Identifier: Apache-2.0
// wpa_supplicant's representation of networks, decoded and encoded, and the progress of an attempt by its signals.

internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit
internal import Glibc

enum SupplicantNetwork {
    /// Decodes the properties of a BSS object.
    ///
    /// - Parameter properties: a cursor on the dictionary. The last value of a property counts; a value of another type
    ///   counts as missing.
    /// - Returns: the network, and its age in seconds; nil for a network that hides its name.
    static func scanResult(_ properties: inout ValueCursor) -> (network: WiFiNetwork, age: Int)? {
        var ssid: SSID?
        var rssi: Int?
        var frequency: Int?
        var age: Int?
        var rsn: KeyManagement = []
        var wpa: KeyManagement = []
        var isPrivate = false
        properties.forEachEntry(among: ["SSID", "Signal", "Frequency", "Age", "RSN", "WPA", "Privacy"]) { key, value in
            switch key {
            case 0: ssid = value.bytes.flatMap { SSID($0) }
            case 1: rssi = value.integer
            case 2: frequency = value.integer
            case 3: age = value.integer
            case 4: rsn = KeyManagement(&value)
            case 5: wpa = KeyManagement(&value)
            default: isPrivate = value.boolean == true
            }
        }
        guard let ssid else { return nil }
        let network = WiFiNetwork(
            ssid: ssid, rssi: rssi, security: security(rsn: rsn, wpa: wpa, isPrivate: isPrivate),
            band: frequency.flatMap { NetworkBand(frequency: $0) })
        return (network, age ?? 0)
    }

    private static func security(rsn: KeyManagement, wpa: KeyManagement, isPrivate: Bool) -> NetworkSecurity {
        if rsn.union(wpa).contains(.enterprise) { return .enterprise }
        if rsn.contains(.psk) { return rsn.contains(.sae) ? .wpa2wpa3 : .wpa2 }
        if rsn.contains(.sae) { return .wpa3 }
        if rsn.contains(.owe) { return .owe }
        if wpa.contains(.psk) { return .wpa }
        return isPrivate ? .wep : .open
    }

    /// The methods in `KeyMgmt` of a BSS' `RSN` or `WPA`.
    private struct KeyManagement: OptionSet {
        let rawValue: UInt8
        static let enterprise = Self(rawValue: 1)
        static let psk = Self(rawValue: 2)
        static let sae = Self(rawValue: 4)
        static let owe = Self(rawValue: 8)

        init(rawValue: UInt8) {
            self.rawValue = rawValue
        }

        /// - Parameter value: a cursor on the dictionary.
        init(_ value: inout ValueCursor) {
            var found: Self = []
            value.forEachEntry(among: ["KeyMgmt"]) { _, names in
                found = []
                names.forEachElement { name in
                    if name.contains("eap") || name.contains("8021x") { found.insert(.enterprise) }
                    if name.contains("psk") { found.insert(.psk) }
                    if name.contains("sae") { found.insert(.sae) }
                    if name.isString("owe") { found.insert(.owe) }
                }
            }
            self = found
        }
    }

    /// Whether an interface's `Capabilities` contain SAE; assumed where the property is missing.
    static func knowsSAE(_ values: [String: DBusValue]) -> Bool {
        guard let methods = values["Capabilities"]?.vardictValue?["KeyMgmt"]?.stringsValue else { return true }
        return methods.contains { strstr($0, "sae") != nil }
    }

    /// The arguments of `AddNetwork`: wpa_supplicant quotes texts itself, and takes bytes as they are.
    static func arguments(_ join: NetworkJoin, knowsSAE: Bool) -> [String: DBusValue] {
        var values: [String: DBusValue] = ["ssid": .bytes(join.ssid.bytes), "scan_ssid": .int32(join.isHidden ? 1 : 0)]
        guard let passphrase = join.passphrase else {
            values["key_mgmt"] = .string("NONE")
            return values
        }
        if let key = passphrase.key {
            values["psk"] = .bytes(key)
            values["key_mgmt"] = .string("WPA-PSK")
        } else {
            values["psk"] = .string(passphrase.text)
            values["key_mgmt"] = .string(knowsSAE ? "WPA-PSK WPA-PSK-SHA256 SAE" : "WPA-PSK WPA-PSK-SHA256")
        }
        // Protected management frames where the accessory has them: SAE requires them.
        values["ieee80211w"] = .int32(1)
        return values
    }

    /// Whether a network object's properties have this name: as quoted text, or in digits.
    static func isNamed(_ values: [String: DBusValue], hex: String) -> Bool {
        guard let text = values["Properties"]?.vardictValue?["ssid"]?.stringValue else { return false }
        if text.hasPrefix("\""), text.hasSuffix("\""), text.count >= 2 {
            return Hex.text(text.dropFirst().dropLast().utf8) == hex
        }
        return text.lowercased() == hex
    }
}

/// The progress of an attempt, by the changes of an interface.
final class SupplicantAttempt {
    /// The properties that the verdict depends on.
    static let properties: [StaticString] = ["CurrentNetwork", "State", "DisconnectReason", "AuthStatusCode", "AssocStatusCode"]

    /// Earlier changes belong to the previous network.
    var isSelected = false {
        didSet { state = "" }
    }
    /// wpa_supplicant is connected to a network that it has not signalled: `CurrentNetwork` is signalled after none,
    /// not after another one.
    var isToBeAsked: Bool { isSelected && !isOurs && state == "completed" }
    private var isOurs = false
    private var state = ""

    /// IEEE 802.11-2020, 9.4.1.7: the 4-way handshake timed out, as it does with a wrong passphrase.
    private static let handshakeTimeout = 15

    /// - Returns: the result of the attempt; nil before its end.
    func verdict(on values: [String: DBusValue], network: ObjectPath) -> Result<Void, RadioFailure>? {
        if let current = values["CurrentNetwork"]?.objectPathValue { isOurs = current == network }
        let before = state
        if let new = values["State"]?.stringValue { state = new }
        if isOurs, state == "completed" { return .success(()) }
        guard isSelected || isOurs else { return nil }
        if let reason = values["DisconnectReason"]?.integerValue, reason.magnitude == Self.handshakeTimeout {
            return .failure(.wrongPassphrase)
        }
        if let status = values["AuthStatusCode"]?.integerValue, status != 0 {
            // SAE proves the passphrase first.
            return .failure(
                status == 1 || status == 15
                    ? .wrongPassphrase : RadioFailure(.refused, "the network refused (authentication status \(status))"))
        }
        if let status = values["AssocStatusCode"]?.integerValue, status != 0 {
            return .failure(RadioFailure(.refused, "the network refused (association status \(status))"))
        }
        if before == "4way_handshake", ["disconnected", "scanning"].contains(state) { return .failure(.wrongPassphrase) }
        return nil
    }
}

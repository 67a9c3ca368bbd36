// SPDX-License-Identifier: Apache-2.0
// wpa_supplicant's words for networks, read and written, and what the changes of its state say of an attempt to join.

internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit
internal import Glibc

enum SupplicantNetwork {
    /// What a BSS object's properties say.
    ///
    /// - Parameter properties: stands on the dictionary. Of one that is told twice the last value counts, and a value
    ///   of another type as none.
    /// - Returns: a network, and how many seconds ago it was heard; nil for one that hides its name.
    static func sighting(_ properties: inout ValueCursor) -> (network: WiFiNetwork, age: Int)? {
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

    /// What `KeyMgmt` of a BSS' `RSN` or `WPA` names.
    private struct KeyManagement: OptionSet {
        let rawValue: UInt8
        static let enterprise = Self(rawValue: 1)
        static let psk = Self(rawValue: 2)
        static let sae = Self(rawValue: 4)
        static let owe = Self(rawValue: 8)

        init(rawValue: UInt8) {
            self.rawValue = rawValue
        }

        /// - Parameter value: stands on the dictionary.
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

    /// Whether an interface's `Capabilities` name SAE. One that does not say is believed to know it.
    static func knowsSAE(_ values: [String: DBusValue]) -> Bool {
        guard let known = values["Capabilities"]?.vardictValue?["KeyMgmt"]?.stringsValue else { return true }
        return known.contains { strstr($0, "sae") != nil }
    }

    /// What `AddNetwork` takes: text is quoted by wpa_supplicant itself, bytes are taken as they are.
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
        // Protected management frames where the accessory has them: SAE demands it.
        values["ieee80211w"] = .int32(1)
        return values
    }

    /// Whether a network object's properties carry this name: quoted text, or the digits themselves.
    static func isNamed(_ values: [String: DBusValue], hex: String) -> Bool {
        guard let text = values["Properties"]?.vardictValue?["ssid"]?.stringValue else { return false }
        if text.hasPrefix("\""), text.hasSuffix("\""), text.count >= 2 {
            return Hex.text(text.dropFirst().dropLast().utf8) == hex
        }
        return text.lowercased() == hex
    }
}

/// What the changes of an interface's state say of an attempt.
final class SupplicantAttempt {
    /// The properties that the verdict depends on.
    static let properties: [StaticString] = ["CurrentNetwork", "State", "DisconnectReason", "AuthStatusCode", "AssocStatusCode"]

    /// What comes before belongs to the network that is left.
    var isSelected = false {
        didSet { state = "" }
    }
    /// wpa_supplicant is connected and has not said to what: it tells of `CurrentNetwork` when it had none, and not
    /// when one follows another.
    var isToBeAsked: Bool { isSelected && !isOurs && state == "completed" }
    private var isOurs = false
    private var state = ""

    /// IEEE 802.11-2020, 9.4.1.7: the 4-way handshake timed out, which is what a wrong passphrase looks like.
    private static let handshakeTimeout = 15

    /// - Returns: how the attempt ended, when it has.
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
            // SAE proves that both know the passphrase before anything else.
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

// SPDX-License-Identifier: Apache-2.0
// wpa_supplicant's words for networks, read and written, and what the changes of its state say of an attempt to join.

internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

enum SupplicantNetwork {
    /// A network from a BSS object's properties; nil for one that hides its name.
    static func network(_ values: [String: DBusValue]) -> WiFiNetwork? {
        guard let ssid = values["SSID"]?.bytesValue.flatMap({ SSID($0) }) else { return nil }
        return WiFiNetwork(
            ssid: ssid, rssi: values["Signal"]?.integerValue, security: security(values),
            band: values["Frequency"]?.integerValue.flatMap { NetworkBand(frequency: $0) })
    }

    static func security(_ values: [String: DBusValue]) -> NetworkSecurity {
        let rsn = Set(values["RSN"]?.vardictValue?["KeyMgmt"]?.stringsValue ?? [])
        let wpa = Set(values["WPA"]?.vardictValue?["KeyMgmt"]?.stringsValue ?? [])
        let all = rsn.union(wpa)
        if all.contains(where: { $0.contains("eap") || $0.contains("8021x") }) { return .enterprise }
        let isSAE = rsn.contains { $0.contains("sae") }
        if rsn.contains(where: { $0.contains("psk") }) { return isSAE ? .wpa2wpa3 : .wpa2 }
        if isSAE { return .wpa3 }
        if rsn.contains("owe") { return .owe }
        if wpa.contains(where: { $0.contains("psk") }) { return .wpa }
        return values["Privacy"]?.booleanValue == true ? .wep : .open
    }

    /// Whether an interface's `Capabilities` name SAE. One that does not say is believed to know it.
    static func knowsSAE(_ values: [String: DBusValue]) -> Bool {
        guard let known = values["Capabilities"]?.vardictValue?["KeyMgmt"]?.stringsValue else { return true }
        return known.contains { $0.contains("sae") }
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
    /// What comes before belongs to the network that is left.
    var isSelected = false {
        didSet { state = "" }
    }
    /// wpa_supplicant is connected and has not said to what: it tells of `CurrentNetwork` when it had none, and not when one follows
    /// another.
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
        if let reason = values["DisconnectReason"]?.integerValue, abs(reason) == Self.handshakeTimeout {
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

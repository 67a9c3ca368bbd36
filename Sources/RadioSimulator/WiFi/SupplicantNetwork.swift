// SPDX-License-Identifier: Apache-2.0
// A network that wpa_supplicant is configured with, in its own words: values are texts as in its configuration file.

internal import AccessoryModel
internal import DBusKit

final class SupplicantNetwork: ExportedObject {
    let path: ObjectPath
    let number: Int
    let isUplink: Bool
    private(set) var interfaces: [ExportedInterface] = []
    private(set) var isEnabled = false
    private(set) var ssid: [UInt8] = []
    private(set) var passphrase: String?
    private var saePassword: String?
    private var settings: [String: String] = [:]
    private unowned let owner: SupplicantInterface
    /// Not tried before this moment of the air, in seconds, as after a wrong key.
    var notBefore: Double?
    var failures = 0

    /// Keys whose texts the real one puts between quotes (`should_quote_opt`).
    private static let quoted: Set<String> = [
        "ssid", "psk", "sae_password", "identity", "anonymous_identity", "password", "sae_password_id", "id_str", "phase1",
        "phase2",
    ]
    private static let known: Set<String> = quoted.union([
        "key_mgmt", "scan_ssid", "ieee80211w", "proto", "pairwise", "group", "group_mgmt", "auth_alg", "priority", "bssid", "mode",
        "frequency", "freq_list", "scan_freq", "bgscan", "mac_addr", "eap", "wep_key0", "wep_tx_keyidx", "disabled",
        "proactive_key_caching",
        "mem_only_psk", "ocv", "beacon_int", "sae_pwe",
    ])
    private static let secret: Set<String> = ["psk", "sae_password", "password", "wep_key0"]

    init(_ number: Int, _ owner: SupplicantInterface, isUplink: Bool = false) {
        self.number = number
        self.owner = owner
        self.isUplink = isUplink
        path = owner.path.appending("Networks")!.appending("\(number)")!
        var description = owner.bus.interface(SupplicantXML.network)
        description.property("Enabled") { [unowned self] _ in .boolean(isEnabled) }
        description.property("Properties") { [unowned self] _ in properties }
        description.writable("Enabled") { [unowned self] value, _ in self.owner.enable(self, value.booleanValue ?? false) }
        description.writable("Properties") { [unowned self] value, _ throws(BusError) in
            try set(value)
            self.owner.changed(self, SupplicantXML.network, ["Properties"])
        }
        interfaces = [description]
    }

    /// A saved network.
    convenience init(_ number: Int, _ owner: SupplicantInterface, _ profile: StoredProfile) {
        self.init(number, owner, isUplink: true)
        ssid = profile.ssid
        passphrase = profile.key
        isEnabled = true
        settings["ssid"] = Self.text(ssid)
        settings["key_mgmt"] = profile.key == nil ? "NONE" : profile.security == .wpa3 ? "SAE" : "WPA-PSK"
        if profile.security == .wpa3 { settings["ieee80211w"] = "2" }
        if profile.key != nil { settings["psk"] = "" }
        if profile.isHidden { settings["scan_ssid"] = "1" }
    }

    func isVisible(to caller: String) -> Bool { true }

    var values: [String: DBusValue] { ["Enabled": .boolean(isEnabled), "Properties": properties] }

    private var properties: DBusValue {
        var texts = settings
        for key in Self.secret where texts[key] != nil { texts[key] = "*" }
        texts["disabled"] = isEnabled ? "0" : "1"
        return .vardict(texts.mapValues { .string($0) })
    }

    /// The real one prints an SSID between quotes when it can be printed, else in hexadecimal.
    private static func text(_ bytes: [UInt8]) -> String {
        bytes.allSatisfy { (32..<127).contains($0) } ? "\"\(lossyText(bytes))\"" : Hex.text(bytes)
    }

    func setEnabled(_ isEnabled: Bool) {
        guard isEnabled != self.isEnabled else { return }
        self.isEnabled = isEnabled
        owner.changed(self, SupplicantXML.network, ["Enabled"])
    }

    // MARK: Configuration

    /// - Throws: as the real one, the bus' own error: its set_network_properties uses
    ///   `org.freedesktop.DBus.Error.InvalidArgs`.
    func set(_ arguments: DBusValue) throws(BusError) {
        let problem = BusError.invalidArguments("invalid message format")
        guard let values = arguments.vardictValue else { throw problem }
        for (key, value) in values {
            guard Self.known.contains(key) else { throw problem }
            switch value {
            case .string(let text): try set(key, text: text, bytes: nil, problem)
            case .bytes(let bytes) where !bytes.isEmpty: try set(key, text: Hex.text(bytes), bytes: bytes, problem)
            case .int32, .uint32: try set(key, text: "\(value.integerValue ?? 0)", bytes: nil, problem)
            default: throw problem
            }
        }
    }

    private func set(_ key: String, text: String, bytes: [UInt8]?, _ problem: BusError) throws(BusError) {
        switch key {
        case "ssid":
            ssid = bytes ?? Array(text.utf8)
            guard ssid.count <= 32 else { throw problem }
            settings[key] = Self.text(ssid)
        case "psk":
            // A key of 32 bytes is taken, but fits nothing: nobody derives it here.
            guard bytes.map({ $0.count == 32 }) ?? (8...63).contains(text.utf8.count) else { throw problem }
            passphrase = text
            settings[key] = "*"
        case "sae_password":
            guard !text.isEmpty else { throw problem }
            saePassword = text
            settings[key] = "*"
        default:
            settings[key] = Self.quoted.contains(key) && bytes == nil ? "\"\(text)\"" : text
        }
    }

    var scansForSSID: Bool { settings["scan_ssid"] == "1" }
    var priority: Int { Int(settings["priority"] ?? "0") ?? 0 }
    private var keyManagement: Set<String> {
        Set((settings["key_mgmt"] ?? "WPA-PSK WPA-EAP").split(separator: " ").map(String.init))
    }

    /// How it would join this access point; nil when its settings do not fit.
    func method(for point: Scenario.AccessPoint) -> Method? {
        switch point.security {
        case .open: return keyManagement.contains("NONE") ? .open : nil
        case .wep, .enterprise: return nil
        default: break
        }
        let protects = settings["ieee80211w"].map { $0 != "0" } ?? false
        if point.security.takesSAE, keyManagement.contains("SAE"), protects, let key = saePassword ?? passphrase {
            return .sae(key)
        }
        if point.security.takesPSK, keyManagement.contains("WPA-PSK"), let passphrase { return .psk(passphrase) }
        return nil
    }

    enum Method {
        case open
        case psk(String)
        case sae(String)

        var key: String? {
            switch self {
            case .open: nil
            case .psk(let key), .sae(let key): key
            }
        }
    }

    var profile: StoredProfile {
        StoredProfile(ssid: ssid, key: passphrase ?? saePassword, isUplink: isUplink, security: .wpa2)
    }
}

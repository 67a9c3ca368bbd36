// SPDX-License-Identifier: Apache-2.0
// A network that wpa_supplicant is configured with, in its own words: values are texts as in its configuration file.

internal import AccessoryModel
internal import DBusKit

final class SupplicantNetwork: ExportedObject {
    let path: ObjectPath
    private(set) var interfaces: [ExportedInterface] = []
    private(set) var profile: StoredProfile
    private(set) var isEnabled: Bool
    private var settings: [String: String]
    private unowned let owner: SupplicantInterface
    /// Not tried before this moment of the air's clock, after a wrong key.
    var rest: Double?
    var failures = 0

    enum Method {
        case open, psk, sae
    }

    /// The keys that are played; the real one has many more.
    private static let keys: Set<String> = ["ssid", "psk", "key_mgmt", "scan_ssid", "ieee80211w"]

    /// A network that a client adds.
    ///
    /// - Throws: as the real one, the bus' own error (`set_network_properties`).
    convenience init(_ number: Int, _ owner: SupplicantInterface, _ arguments: DBusValue) throws(BusError) {
        let problem = BusError.invalidArguments("invalid message format")
        guard let values = arguments.vardictValue, values.keys.allSatisfy(Self.keys.contains) else { throw problem }
        var profile = StoredProfile(ssid: [], security: .open)
        var settings: [String: String] = [:]
        for (key, value) in values {
            switch value {
            case .string(let text): settings[key] = text
            case .bytes(let bytes) where !bytes.isEmpty: settings[key] = Hex.text(bytes)
            case .int32, .uint32: settings[key] = "\(value.integerValue ?? 0)"
            default: throw problem
            }
        }
        profile.ssid = values["ssid"]?.bytesValue ?? Array((settings["ssid"] ?? "").utf8)
        profile.isHidden = settings["scan_ssid"] == "1"
        profile.key = settings["psk"]
        // A key of 32 bytes is accepted, and fits nothing: none is derived here.
        let isKey = values["psk"]?.bytesValue.map { $0.count == 32 } ?? profile.key.map { (8...63).contains($0.utf8.count) } ?? true
        guard profile.ssid.count <= 32, isKey else { throw problem }
        self.init(number, owner, profile, settings, isEnabled: false)
    }

    /// A saved network.
    convenience init(_ number: Int, _ owner: SupplicantInterface, _ profile: StoredProfile) {
        let management = profile.key == nil ? "NONE" : profile.security == .wpa3 ? "SAE" : "WPA-PSK"
        self.init(number, owner, profile, ["key_mgmt": management, "ieee80211w": "1"], isEnabled: true)
    }

    private init(
        _ number: Int, _ owner: SupplicantInterface, _ profile: StoredProfile, _ settings: [String: String], isEnabled: Bool
    ) {
        self.owner = owner
        self.profile = profile
        self.settings = settings
        self.isEnabled = isEnabled
        path = owner.path.appending("Networks")!.appending("\(number)")!
        var description = owner.bus.interface(
            SimulatedSupplicant.network,
            ["Enabled": { [unowned self] in .boolean(self.isEnabled) }, "Properties": { [unowned self] in properties }])
        description.writable("Enabled") { [unowned self] value, _ in self.owner.enable(self, value.booleanValue ?? false) }
        interfaces = [description]
    }

    func isVisible(to caller: String) -> Bool { true }

    private var properties: DBusValue {
        var texts = settings
        // Printable names are quoted, others are in hexadecimal digits.
        let isPrintable = profile.ssid.allSatisfy { (32..<127).contains($0) }
        texts["ssid"] = isPrintable ? "\"\(lossyText(profile.ssid))\"" : Hex.text(profile.ssid)
        if profile.key != nil { texts["psk"] = "*" }
        texts["disabled"] = isEnabled ? "0" : "1"
        return .vardict(texts.mapValues { .string($0) })
    }

    func setEnabled(_ isEnabled: Bool) {
        guard isEnabled != self.isEnabled else { return }
        self.isEnabled = isEnabled
        owner.bus.changed(self, SimulatedSupplicant.network, "Enabled")
    }

    /// How it would join this access point; nil where its settings do not fit.
    func method(for point: Scenario.AccessPoint) -> Method? {
        let management = (settings["key_mgmt"] ?? "WPA-PSK WPA-EAP").split(separator: " ")
        if point.security == .open { return management.contains("NONE") ? .open : nil }
        guard profile.key != nil else { return nil }
        if point.security.takesSAE, management.contains("SAE"), settings["ieee80211w"] ?? "0" != "0" { return .sae }
        return point.security.takesPSK && management.contains("WPA-PSK") ? .psk : nil
    }
}

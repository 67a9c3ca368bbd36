// SPDX-License-Identifier: Apache-2.0
// NetworkManager's representation of networks: decodes access points, encodes a connection's settings, explains
// reasons.
// (nm-dbus-types of NetworkManager's API reference.)

internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

enum ManagedNetwork {
    static let activating = 1
    static let activated = 2
    static let deactivated = 4
    /// `NMDeviceStateReason`: another activation takes the device.
    static let newActivation = 60

    /// `NM80211ApSecurityFlags`.
    private enum KeyManagement {
        static let psk = 0x100
        static let enterprise = 0x200
        static let sae = 0x400
        static let owe = 0x800
        static let suiteB = 0x2000
    }

    /// Decodes the properties of an access point.
    ///
    /// - Parameter properties: a cursor on the dictionary. The last value of a property counts; a value of another type
    ///   counts as missing.
    /// - Returns: the network, and when it was heard in seconds since boot, -1 for never; nil for a network that hides
    ///   its name.
    static func scanResult(_ properties: inout ValueCursor) -> (network: WiFiNetwork, lastSeen: Int)? {
        var ssid: SSID?
        var strength: Int?
        var frequency: Int?
        var lastSeen: Int?
        var rsn: Int?
        var wpa: Int?
        var flags: Int?
        properties.forEachEntry(
            among: ["Ssid", "Strength", "Frequency", "LastSeen", "RsnFlags", "WpaFlags", "Flags"]
        ) { key, value in
            switch key {
            case 0: ssid = value.bytes.flatMap { SSID($0) }
            case 1: strength = value.integer
            case 2: frequency = value.integer
            case 3: lastSeen = value.integer
            case 4: rsn = value.integer
            case 5: wpa = value.integer
            default: flags = value.integer
            }
        }
        guard let ssid else { return nil }
        let network = WiFiNetwork(
            ssid: ssid, rssi: strength.map(rssi), security: security(rsn: rsn ?? 0, wpa: wpa ?? 0, flags: flags ?? 0),
            band: frequency.flatMap { NetworkBand(frequency: $0) })
        return (network, lastSeen ?? -1)
    }

    /// dBm from a strength in percent: NetworkManager maps −100 dBm to 0 % and −40 dBm to 100 %.
    static func rssi(_ percent: Int) -> Int { -40 - (100 - min(max(percent, 0), 100)) * 60 / 100 }

    private static func security(rsn: Int, wpa: Int, flags: Int) -> NetworkSecurity {
        if (rsn | wpa) & (KeyManagement.enterprise | KeyManagement.suiteB) != 0 { return .enterprise }
        if rsn & KeyManagement.psk != 0 { return rsn & KeyManagement.sae != 0 ? .wpa2wpa3 : .wpa2 }
        if rsn & KeyManagement.sae != 0 { return .wpa3 }
        if rsn & KeyManagement.owe != 0 { return .owe }
        if wpa & KeyManagement.psk != 0 { return .wpa }
        // 1: the access point requires privacy without naming a method.
        return flags & 1 != 0 ? .wep : .open
    }

    /// The name of our connection.
    static func name(_ ssid: SSID) -> String { "accessory \(ssid)" }

    /// The settings of a connection that takes nothing but an address: the machine keeps its routes and name servers.
    ///
    /// - Parameter user: the only user who may see, use and change the connection, besides root. NetworkManager then
    ///   asks polkit for `settings.modify.own`, not for `settings.modify.system`.
    static func settings(_ join: NetworkJoin, security: NetworkSecurity?, interface: String, user: String?) -> DBusValue {
        var connection: [String: DBusValue] = [
            "id": .string(name(join.ssid)), "type": .string("802-11-wireless"), "autoconnect": .boolean(false),
            "interface-name": .string(interface),
        ]
        if let user { connection["permissions"] = .strings(["user:\(user):"]) }
        var groups: [String: [String: DBusValue]] = [
            "connection": connection,
            "802-11-wireless": [
                "ssid": .bytes(join.ssid.bytes), "mode": .string("infrastructure"), "hidden": .boolean(join.isHidden),
            ],
            // The address may be late, or missing; the app decides how long to wait. Two routes of DHCP, to one half of
            // all addresses each, would amount to a default route.
            "ipv4": [
                "method": .string("auto"), "never-default": .boolean(true), "ignore-auto-routes": .boolean(true),
                "ignore-auto-dns": .boolean(true), "may-fail": .boolean(true),
            ],
            // Routers advertise prefixes of any length as on-link. Without those routes NetworkManager's IPv6 addresses
            // reach nothing, so only the link-local one is used.
            "ipv6": ["method": .string("link-local"), "never-default": .boolean(true), "may-fail": .boolean(true)],
        ]
        if let passphrase = join.passphrase {
            groups["802-11-wireless-security"] = [
                "key-mgmt": .string(security == .wpa3 ? "sae" : "wpa-psk"), "psk": .string(passphrase.text),
            ]
        }
        return .dictionary(
            key: "s", value: "a{sv}",
            groups.sorted { $0.key < $1.key }.map { DBusValue.Entry(.string($0.key), .vardict($0.value)) })
    }

    /// - Parameter reason: `NMDeviceStateReason`; nil where the device gave none.
    static func failure(_ reason: Int?) -> RadioFailure {
        switch reason {
        // No secrets: the given ones did not work, and no agent has others. Supplicant disconnected, failed, timed out:
        // the same, detected earlier, or the network refused.
        case 7: .wrongPassphrase
        case 8, 10: .refusedOrPassphrase
        case 9, 11: .noAnswerOrPassphrase
        case 5, 15, 16, 17: RadioFailure(.connection, "the network assigned no address")
        case 53: RadioFailure(.connection, "no such network is in range")
        case newActivation: RadioFailure(.connection, "NetworkManager was asked to activate another connection")
        case let reason?: RadioFailure(.connection, "the network could not be joined (NetworkManager's reason \(reason))")
        case nil: RadioFailure(.connection, "the network could not be joined")
        }
    }
}

/// The progress of an attempt, by the signals of the device and of its active connection.
struct ManagedAttempt {
    /// Over iwd, a connection that replaces the attempt is not necessarily a person's choice: iwd reconnects a network
    /// that it knows, and NetworkManager follows.
    private let isOverIWD: Bool
    /// The signals can belong to the previous activation until this one has begun. It may never begin: NetworkManager
    /// can be on its way back already (1.42 over iwd, after an attempt that has failed).
    private var hasBegun = false
    /// `NMDeviceStateReason` of the end; the active connection does not have it.
    private var reason: Int?
    /// The device is on the network, and waits for its addresses at most.
    private(set) var isConnected = false

    /// `NMDeviceState`.
    private static let disconnected = 30
    private static let prepare = 40
    private static let ipConfig = 70
    private static let secondaries = 90
    private static let deactivating = 110
    private static let failed = 120

    init(isOverIWD: Bool) { self.isOverIWD = isOverIWD }

    /// - Parameter arguments: the device's new state, the one before, and the reason.
    mutating func deviceChanged(_ arguments: [Int?]) {
        guard arguments.count == 3, let new = arguments[0], let old = arguments[1] else { return }
        if new == Self.prepare {
            (hasBegun, isConnected) = (true, false)
            // The connection that was replaced is the previous one.
            if reason == ManagedNetwork.newActivation { reason = nil }
        }
        if new == Self.ipConfig { isConnected = true }
        guard hasBegun else { return }
        switch new {
        case Self.failed: reason = arguments[2]
        case Self.deactivating where arguments[2] == ManagedNetwork.newActivation: reason = ManagedNetwork.newActivation
        // A failure, or a user's request, passes through another state first.
        case Self.disconnected where Self.prepare...Self.secondaries ~= old: reason = ManagedNetwork.newActivation
        default: break
        }
    }

    /// - Parameter state: the connection's, an `NMActiveConnectionState`.
    /// - Returns: the result of the attempt; nil before its end.
    mutating func verdict(on state: Int?) -> Result<Void, RadioFailure>? {
        switch state {
        case ManagedNetwork.activating:
            hasBegun = true
            return nil
        case ManagedNetwork.activated: return .success(())
        case ManagedNetwork.deactivated:
            let isReplaced = !hasBegun || isOverIWD && reason == ManagedNetwork.newActivation
            return .failure(isReplaced ? .displaced : ManagedNetwork.failure(reason))
        default: return nil
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// NetworkManager's words for networks: access points read, a connection's settings written, reasons explained.
// (nm-dbus-types of NetworkManager's API reference.)

internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

enum ManagedNetwork {
    static let activating = 1
    static let activated = 2
    static let deactivated = 4
    /// Of `NMDeviceStateReason`: another activation takes the device.
    static let newActivation = 60
    /// Of those, too.
    static let supplicantDisconnect = 8

    /// `NM80211ApSecurityFlags`.
    private enum KeyManagement {
        static let psk = 0x100
        static let enterprise = 0x200
        static let sae = 0x400
        static let owe = 0x800
        static let suiteB = 0x2000
    }

    /// What an access point's properties say.
    ///
    /// - Parameter properties: stands on the dictionary. Of one that is told twice the last value counts, and a value
    ///   of another type as none.
    /// - Returns: a network, and when it was heard, in seconds since the machine started, -1 for never; nil for one
    ///   that hides its name.
    static func sighting(_ properties: inout ValueCursor) -> (network: WiFiNetwork, lastSeen: Int)? {
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

    /// dBm from a strength in percent: NetworkManager makes 0 % of −100 dBm and 100 % of −40 dBm.
    static func rssi(_ percent: Int) -> Int { -40 - (100 - min(max(percent, 0), 100)) * 60 / 100 }

    private static func security(rsn: Int, wpa: Int, flags: Int) -> NetworkSecurity {
        if (rsn | wpa) & (KeyManagement.enterprise | KeyManagement.suiteB) != 0 { return .enterprise }
        if rsn & KeyManagement.psk != 0 { return rsn & KeyManagement.sae != 0 ? .wpa2wpa3 : .wpa2 }
        if rsn & KeyManagement.sae != 0 { return .wpa3 }
        if rsn & KeyManagement.owe != 0 { return .owe }
        if wpa & KeyManagement.psk != 0 { return .wpa }
        // 1: the access point wants privacy, and says nothing about how.
        return flags & 1 != 0 ? .wep : .open
    }

    /// What a connection of ours is called.
    static func name(_ ssid: SSID) -> String { "accessory \(ssid)" }

    /// The settings of a connection that lives as long as it is used, and takes nothing but an address: the machine's
    /// own routes and name servers stay.
    ///
    /// - Parameter user: the only user who may see, use and change it, besides root. NetworkManager then asks polkit
    ///   for `settings.modify.own`, and not for the right to change everybody's connections.
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
            // Its address may be late, or missing: the app knows how long it waits for it. Two routes of DHCP, to a
            // half of all addresses each, would be as good as a default route.
            "ipv4": [
                "method": .string("auto"), "never-default": .boolean(true), "ignore-auto-routes": .boolean(true),
                "ignore-auto-dns": .boolean(true), "may-fail": .boolean(true),
            ],
            // Routers advertise prefixes of any length as being on the link. Without those routes NetworkManager's
            // addresses of IPv6 reach nothing; so there is the link's own one, and what is advertised is not read.
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

    /// - Parameter reason: `NMDeviceStateReason`; nil when the device said nothing.
    static func failure(_ reason: Int?) -> RadioFailure {
        switch reason {
        // No secrets: the ones it had did not do, and nobody has others. Supplicant disconnected, failed, timed out:
        // the same, seen earlier, or the network refused.
        case 7: .wrongPassphrase
        case supplicantDisconnect, 10: .refusedOrPassphrase
        case 9, 11: .noAnswerOrPassphrase
        case 5, 15, 16, 17: RadioFailure(.connection, "the network gives no address")
        case 53: RadioFailure(.connection, "there is no such network in range")
        case newActivation: RadioFailure(.connection, "NetworkManager was told to use another connection")
        case let reason?: RadioFailure(.connection, "the network could not be joined (NetworkManager's reason \(reason))")
        case nil: RadioFailure(.connection, "the network could not be joined")
        }
    }
}

/// What a device and its active connection say of an attempt.
struct ManagedAttempt {
    /// iwd goes back to a network that it knows by itself, and NetworkManager follows it: what takes the place of an
    /// attempt there may be nobody's choice.
    private let isOverIWD: Bool
    /// Its turn may come after the end of another, of which the device tells, too; or never, where NetworkManager is on
    /// its way back already (1.42 over iwd, after an attempt that has failed).
    private var hasBegun = false
    /// It did not fail: another has taken the device. So 1.42 over iwd, in the same case, some tenths of a second
    /// later; or it calls that a failure, when iwd is “connecting to the wrong AP”.
    private var isReplaced = false
    /// `NMDeviceStateReason`: the device knows better why than the connection does.
    private var reason: Int?
    /// What is told of it twice, by a signal and as an answer, happens once.
    private var isOver = false
    /// The device is on the network, and waits for its addresses at most.
    private(set) var isConnected = false

    /// `NMDeviceState`.
    private static let disconnected = 30
    private static let prepare = 40
    private static let needAuth = 60
    private static let ipConfig = 70
    private static let secondaries = 90
    private static let deactivating = 110
    private static let failed = 120

    init(isOverIWD: Bool) { self.isOverIWD = isOverIWD }

    /// - Parameter arguments: the device's new state, the one before, and the reason.
    mutating func deviceChanged(_ arguments: [Int?]) {
        guard arguments.count == 3, let new = arguments[0], let old = arguments[1] else { return }
        switch new {
        case Self.prepare:
            hasBegun = true
            isReplaced = false
            isConnected = false
        case Self.ipConfig: isConnected = true
        // What fails by itself before it has an address ends with the answer of iwd, which has other reasons.
        case Self.failed
        where isOverIWD && hasBegun && arguments[2] == ManagedNetwork.supplicantDisconnect
            && Self.prepare...Self.needAuth ~= old:
            isReplaced = true
        case Self.failed where hasBegun: reason = arguments[2]
        case Self.deactivating where hasBegun && arguments[2] == ManagedNetwork.newActivation,
            // Whoever deactivates it, or fails, says so on the way.
            Self.disconnected where hasBegun && Self.prepare...Self.secondaries ~= old:
            isReplaced = true
        default: break
        }
    }

    /// - Parameter state: the connection's, an `NMActiveConnectionState`.
    /// - Returns: how the attempt ended, once, when it has.
    mutating func verdict(on state: Int?) -> Result<Void, RadioFailure>? {
        if state == ManagedNetwork.activating { hasBegun = true }
        guard !isOver, state == ManagedNetwork.activated || state == ManagedNetwork.deactivated else { return nil }
        isOver = true
        if state == ManagedNetwork.activated { return .success(()) }
        guard hasBegun, !isReplaced || !isOverIWD else { return .failure(.putAside) }
        return .failure(ManagedNetwork.failure(isReplaced ? ManagedNetwork.newActivation : reason))
    }
}

// SPDX-License-Identifier: Apache-2.0
// The Wi-Fi half of a scenario: which services run, which access points are on the air, and how they misbehave.

extension Scenario {
    /// This machine's side of Wi-Fi.
    public struct WiFi: Hashable, Sendable {
        /// A service by the word for it in scenarios.
        public enum Service: String, Hashable, Sendable, CaseIterable {
            case networkManager = "NetworkManager"
            case iwd
            case wpaSupplicant = "wpa_supplicant"
        }

        /// A Wi-Fi interface.
        public struct Interface: Hashable, Sendable {
            /// The kernel's name, 1–15 bytes.
            public var name = "wlan0"
            /// The SSID of the saved network that it is connected to at the start and comes back to.
            public var uplink: String?
            /// `wlan0`, without an uplink.
            public init() {}
        }

        /// The services that run, each once.
        public var services: [Service] = []
        /// Whether the scenario lists the services.
        var namesServices = false
        /// The interfaces; every service that runs shows them all.
        public var interfaces: [Interface] = [Interface()]
        /// Seconds that a scan lasts, 0–60.
        public var scanTime = 0.2
        /// NetworkManager refuses scans within this long of the last one.
        public var rateLimit = 0.0
        /// Seconds for which NetworkManager searches for a network that it was asked to join.
        public var joinTimeout = 25.0
        /// Whether wpa_supplicant has the methods of Wi-Fi Aware.
        public var isAware = false
        /// Whether iwd reports that it configures addresses.
        public var iwdConfigures = false

        /// One interface, and no service.
        public init() {}
    }

    /// An access point.
    public struct AccessPoint: Hashable, Sendable {
        /// Its protection, in the words of scenarios. `wep` and `enterprise` are shown and not joined.
        public enum Security: String, Hashable, Sendable, CaseIterable {
            case open, wep, wpa, wpa2, wpa3
            case transition = "wpa2-wpa3"
            case enterprise
        }

        /// A fault of joining: `refuse` (it refuses), `silent` (it never answers), `slow` (it answers
        /// after `delay`), `noAddress` (NetworkManager gets no address), `handshake` (of a protected network, it comes
        /// to nothing, as it does with a wrong passphrase), `displaced` (NetworkManager goes to its uplink instead).
        public enum Fault: String, Hashable, Sendable, CaseIterable {
            case refuse, silent, slow, noAddress, handshake, displaced
        }

        /// `[a-z0-9-]+`; events and logs name it so.
        public var id: String
        /// The network's name, at most 32 bytes of anything.
        public var ssid: [UInt8]
        /// Its address, 48 bits; 0 until the reader has given it one.
        public var bssid: UInt64 = 0
        /// Its protection.
        public var security = Security.open
        /// Its passphrase, 8–63 bytes; nil for a protection without one.
        public var passphrase: String?
        /// Whether it shows its name only when it is probed by name.
        public var isHidden = false
        /// MHz.
        public var frequency = 2412
        /// dBm.
        public var rssi = -50
        /// When it is in range.
        public var presence = Presence()
        /// Its fault; nil for none.
        public var fault: Fault?
        /// Seconds that `slow`, `silent` and `noAddress` last, 0–120.
        public var delay = 2.0
        /// Nil: every time.
        public var faultCount: Int?
    }

    /// A service that another device announces over Wi-Fi Aware.
    public struct AwareService: Hashable, Sendable {
        /// Which side of the service it is on.
        public enum Role: String, Hashable, Sendable, CaseIterable {
            case publisher, subscriber
        }

        /// `[a-z0-9-]+`, another than accessories and access points have.
        public var id: String
        /// The service's name.
        public var service: String
        /// A publisher is found by subscribing, a subscriber by publishing.
        public var role = Role.publisher
        /// `model=` in the service information; nil for none.
        public var model: String?
        /// `vendor=` in the service information; nil for none.
        public var vendor: String?
        /// The other device's address, 48 bits.
        public var address: UInt64
        /// dBm, −127 to 20; wpa_supplicant does not report it.
        public var rssi = -50
        /// When it is in range.
        public var presence = Presence()
    }
}

extension Scenario.AccessPoint.Security {
    /// Whether it has a passphrase.
    var takesPassphrase: Bool {
        switch self {
        case .wpa, .wpa2, .wpa3, .transition: true
        case .open, .wep, .enterprise: false
        }
    }

    /// Whether it accepts the pre-shared key of WPA2 or WPA.
    var takesPSK: Bool { self == .wpa || self == .wpa2 || self == .transition }
    var takesSAE: Bool { self == .wpa3 || self == .transition }
}

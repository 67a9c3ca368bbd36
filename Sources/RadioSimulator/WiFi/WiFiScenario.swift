// SPDX-License-Identifier: Apache-2.0
// The Wi-Fi half of a scenario: which services run, which access points are on the air, and how they misbehave.

extension Scenario {
    public struct WiFi: Hashable, Sendable {
        /// A service by the word for it in scenarios.
        public enum Service: String, Hashable, Sendable, CaseIterable {
            case networkManager = "NetworkManager"
            case iwd
            case wpaSupplicant = "wpa_supplicant"
        }

        public struct Interface: Hashable, Sendable {
            public var name = "wlan0"
            /// The SSID of the saved network that it is connected to at the start and comes back to.
            public var uplink: String?
            public init() {}
        }

        public var services: [Service] = []
        /// Whether the scenario says which services run.
        var namesServices = false
        public var interfaces: [Interface] = [Interface()]
        public var scanTime = 0.2
        /// NetworkManager refuses scans within this long of the last one.
        public var rateLimit = 0.0
        /// How long a service looks for a network that it was told to join.
        public var joinTimeout = 25.0
        /// Whether wpa_supplicant speaks Wi-Fi Aware.
        public var isAware = false

        public init() {}
    }

    public struct AccessPoint: Hashable, Sendable {
        public enum Security: String, Hashable, Sendable, CaseIterable {
            case open, wep, wpa, wpa2, wpa3
            case transition = "wpa2-wpa3"
            case enterprise
        }

        public enum Fault: String, Hashable, Sendable, CaseIterable {
            case refuse, silent, slow, noAddress
        }

        public var id: String
        public var ssid: [UInt8]
        public var bssid: UInt64 = 0
        public var security = Security.open
        public var passphrase: String?
        public var isHidden = false
        /// MHz.
        public var frequency = 2412
        /// dBm.
        public var rssi = -50
        public var appearsAt = 0.0
        public var leavesAt: Double?
        public var fault: Fault?
        public var delay = 2.0
        /// Nil: every time.
        public var faultCount: Int?
    }

    /// What another device says over Wi-Fi Aware.
    public struct AwareService: Hashable, Sendable {
        public enum Role: String, Hashable, Sendable, CaseIterable {
            case publisher, subscriber
        }

        public var id: String
        public var service: String
        public var role = Role.publisher
        public var model: String?
        public var vendor: String?
        public var address: UInt64
        public var rssi = -50
        public var appearsAt = 0.0
        public var leavesAt: Double?
    }
}

extension Scenario.AccessPoint.Security {
    /// Whether a passphrase opens it.
    var takesPassphrase: Bool {
        switch self {
        case .wpa, .wpa2, .wpa3, .transition: true
        case .open, .wep, .enterprise: false
        }
    }

    /// Whether WPA2's pre-shared key is among what it takes (or WPA's).
    var takesPSK: Bool { self == .wpa || self == .wpa2 || self == .transition }
    var takesSAE: Bool { self == .wpa3 || self == .transition }
}

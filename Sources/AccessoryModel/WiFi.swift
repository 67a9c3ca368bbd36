// SPDX-License-Identifier: Apache-2.0
// Wi-Fi's vocabulary: network names (bytes, not text), their protection, and networks in range.

/// A network's name: 1–32 bytes of anything but only zeros (IEEE 802.11-2020, 9.4.2.2). Compared as bytes, shown as
/// lossy text.
public struct SSID: Hashable, Sendable, CustomStringConvertible, Comparable {
    /// As on the air, 1–32 bytes.
    public let bytes: [UInt8]

    /// How many bytes a name may have.
    public static let length = 1...32

    /// Nil for a wrong number of bytes, and for zeros alone, which hidden networks send for a name.
    public init?(_ bytes: [UInt8]) {
        guard Self.length.contains(bytes.count), bytes.contains(where: { $0 != 0 }) else { return nil }
        self.bytes = bytes
    }

    /// The name's UTF-8. Nil as for bytes.
    public init?(_ text: String) { self.init(Array(text.utf8)) }

    /// For people: parts that are not UTF-8 or may not be shown (`ShownName`) are replaced.
    public var description: String { ShownName.marked(String(decoding: bytes, as: UTF8.self)) }

    /// The name as text, where it is text; services that know networks by text cannot name the others.
    public var text: String? { String(validating: bytes, as: UTF8.self) }

    /// Byte by byte.
    public static func < (a: Self, b: Self) -> Bool { a.bytes.lexicographicallyPrecedes(b.bytes) }
}

/// The protection of a network, in the words of pickers and the bus; from weak to strong, except for `psk`.
public enum NetworkSecurity: String, Hashable, Sendable, CaseIterable {
    case open
    /// Opportunistic encryption without a passphrase (RFC 8110).
    case owe
    case wep
    case wpa
    case wpa2
    /// WPA2 and WPA3 at the same time.
    case wpa2wpa3 = "wpa2-wpa3"
    /// WPA3-Personal: SAE only.
    case wpa3
    /// Users and certificates (802.1X), which accessories do not ask for.
    case enterprise
    /// A passphrase; the service does not say of which kind.
    case psk

    /// Whether joining takes a passphrase.
    public var wantsPassphrase: Bool {
        switch self {
        case .wep, .wpa, .wpa2, .wpa2wpa3, .wpa3, .psk: true
        case .open, .owe, .enterprise: false
        }
    }
}

/// A range of frequencies.
public enum NetworkBand: String, Hashable, Sendable, CaseIterable {
    case ghz2 = "2.4 GHz"
    case ghz5 = "5 GHz"
    case ghz6 = "6 GHz"

    /// - Parameter frequency: MHz; nil outside the bands that accessories use.
    public init?(frequency: Int) {
        switch frequency {
        case 2400..<2500: self = .ghz2
        case 4900..<5925: self = .ghz5
        case 5925..<7200: self = .ghz6
        default: return nil
        }
    }
}

/// A network as it is heard: an access point, or all access points of one name, described by the strongest.
public struct WiFiNetwork: Hashable, Sendable {
    /// Its name, which is its identity here.
    public let ssid: SSID
    /// dBm; nil when the service does not say.
    public var rssi: Int?
    /// Nil when it is not in range.
    public var security: NetworkSecurity?
    /// Nil when the service does not say.
    public var band: NetworkBand?

    /// Stores its arguments.
    ///
    /// - Parameter rssi: dBm.
    public init(ssid: SSID, rssi: Int?, security: NetworkSecurity?, band: NetworkBand?) {
        self.ssid = ssid
        self.rssi = rssi
        self.security = security
        self.band = band
    }

    /// One network for each name: access points of one name are one network.
    public static func merged(_ accessPoints: some Sequence<WiFiNetwork>) -> [WiFiNetwork] {
        var strongest: [SSID: WiFiNetwork] = [:]
        for point in accessPoints {
            if let best = strongest[point.ssid], !Strength.isNearer(point.rssi, than: best.rssi) { continue }
            strongest[point.ssid] = point
        }
        return strongest.values.sorted { $0.ssid < $1.ssid }
    }
}

/// The parameters of a join.
public struct NetworkJoin: Hashable, Sendable, CustomStringConvertible {
    /// A network's secret. It lives in memory only, and is never part of a description.
    public struct Passphrase: Hashable, Sendable, CustomStringConvertible {
        /// As given, for the Wi-Fi service only.
        public let text: String

        /// 8–63 bytes without control characters, or the 64 hexadecimal digits of a WPA key (IEEE 802.11-2020, J.4).
        /// Nil otherwise.
        public init?(_ text: String) {
            let bytes = Array(text.utf8)
            let isKey = bytes.count == 64 && Hex.bytes(text) != nil
            guard isKey || (8...63).contains(bytes.count), !bytes.contains(where: { $0 < 0x20 || $0 == 0x7F }) else { return nil }
            self.text = text
        }

        /// The 32 bytes of a key that was given as such.
        public var key: [UInt8]? { text.utf8.count == 64 ? Hex.bytes(text) : nil }

        /// Without the passphrase.
        public var description: String { "(a passphrase)" }
    }

    /// The network's whole name.
    public let ssid: SSID
    /// Nil for an open network.
    public let passphrase: Passphrase?
    /// The network does not say its name.
    public let isHidden: Bool

    /// Stores its arguments.
    public init(ssid: SSID, passphrase: Passphrase? = nil, isHidden: Bool = false) {
        self.ssid = ssid
        self.passphrase = passphrase
        self.isHidden = isHidden
    }

    /// Whether a network of this name can be the one to join: with a passphrase, one that uses it; without one, one
    /// that needs none. WEP and 802.1X are never joined.
    public func suits(_ security: NetworkSecurity) -> Bool {
        guard security != .wep, security != .enterprise else { return false }
        return security.wantsPassphrase == (passphrase != nil)
    }

    /// The network, and whether it has a passphrase.
    public var description: String { "\(ssid)\(passphrase == nil ? "" : " with a passphrase")\(isHidden ? ", hidden" : "")" }
}

/// A discovered Wi-Fi Aware service.
public struct AwareService: Hashable, Sendable {
    /// The radio's name for who offers it, stable while it is in range.
    public let peer: String
    /// The service's name, in full.
    public let serviceName: String
    /// The accessory's side of the service.
    public let role: WiFiAware.Role
    /// As its service information says; empty when that does not.
    public let modelName: String
    /// As its service information says; empty when that does not.
    public let vendorName: String
    /// dBm; nil when unknown.
    public let rssi: Int?

    /// Stores its arguments.
    ///
    /// - Parameter rssi: dBm; nil when unknown.
    public init(
        peer: String, serviceName: String, role: WiFiAware.Role = .publisher, modelName: String, vendorName: String,
        rssi: Int? = nil
    ) {
        self.role = role
        self.peer = peer
        self.serviceName = serviceName
        self.modelName = modelName
        self.vendorName = vendorName
        self.rssi = rssi
    }
}

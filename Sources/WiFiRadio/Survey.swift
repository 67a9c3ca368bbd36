// SPDX-License-Identifier: Apache-2.0
// The last complete scan, and its verdict on a join. A network is a name and a kind of protection: a stranger's open
// network of the accessory's name is another network, and must neither be joined nor stand in the way.

internal import AccessoryEngine
internal import AccessoryModel

/// The networks that one scan heard, with every kind of protection that was seen under a name.
struct Survey {
    private let seen: [SSID: Set<NetworkSecurity>]
    /// The end of the scan, in microseconds of the monotonic clock.
    private let ended: Int64

    /// How long the result of a scan that heard a suitable network is valid: an accessory changes its network in less
    /// than a minute, and another scan takes seconds.
    private static let validity: Int64 = 10_000_000

    init(of accessPoints: [WiFiNetwork], ended: Int64) {
        var seen: [SSID: Set<NetworkSecurity>] = [:]
        for point in accessPoints {
            if let security = point.security { seen[point.ssid, default: []].insert(security) }
        }
        self.seen = seen
        self.ended = ended
    }

    /// Whether the scan is recent, and heard a network that the join can be meant for.
    func hasTarget(of join: NetworkJoin, now: Int64) -> Bool {
        now - ended < Self.validity && seen[join.ssid]?.contains(where: join.suits) == true
    }

    /// Why the join is in vain: networks of its name were heard, and none is suitable. Nil where the scan does not
    /// rule it out, as for a name that was not heard.
    func obstacle(to join: NetworkJoin, now: Int64) -> RadioFailure? {
        join.obstacle(among: seen[join.ssid] ?? [], source: "the scan \(max(0, now - ended) / 1_000_000) s ago")
    }
}

extension NetworkJoin {
    /// Why none of the networks with the join's name is the one to join; nil where one is suitable, or none was heard.
    ///
    /// - Parameter source: where the networks were heard, for people.
    func obstacle(among seen: Set<NetworkSecurity>, source: String) -> RadioFailure? {
        guard !seen.isEmpty, !seen.contains(where: suits) else { return nil }
        let reasons = seen.map(mismatch).sorted().joined(separator: ", ")
        return RadioFailure(.refused, "in \(source): \(ssid) \(reasons)")
    }

    private func mismatch(_ security: NetworkSecurity) -> String {
        switch security {
        case .open, .owe: "is open, and a passphrase was given"
        case .wep: "uses WEP, which is insecure and not supported"
        case .enterprise: "uses enterprise authentication, which is not supported"
        case .wpa, .wpa2, .wpa2wpa3, .wpa3, .psk: "requires a passphrase (\(security.rawValue)), and none was given"
        }
    }
}

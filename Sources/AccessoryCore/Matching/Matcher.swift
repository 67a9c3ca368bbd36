// SPDX-License-Identifier: Apache-2.0
// Finds the item of a picker that an advert matches. Items are compiled once per picker into an index by the service
// UUID or company identifier that each must name, so that an advert costs look-ups for its own and not for every item.

public import AccessoryModel

/// The compiled items of one picker.
public struct Matcher: Sendable {
    /// How near is `immediate`, in dBm of smoothed signal strength; a started offer is held until 6 dB below, or it
    /// would flicker.
    public struct Nearness: Hashable, Sendable {
        /// dBm: from this strength on a device is near.
        public var threshold: Int
        /// dB below the threshold at which a device that is offered is near no more.
        public static let hysteresis = 6

        /// −55 dBm is about half a metre for a typical accessory at 0 dBm.
        public init(threshold: Int = -55) {
            self.threshold = threshold
        }
    }

    private let rules: [RuleList]
    private let descriptors: [DiscoveryDescriptor]
    private var byService: [BluetoothUUID: Bucket] = [:]
    private var byCompany: [CompanyIdentifier: Bucket] = [:]
    private let nearness: Nearness
    /// Names of the networks in range: the other half of items that name a network in full.
    public var networks: Set<SSID> = []
    /// Verdicts on names, which cost microseconds and repeat with every advert.
    private var nameVerdicts: [NameQuestion: Bool] = [:]

    /// Rules whose regular expression took too long on so many names: they are not asked any more.
    private var exhausted: [Int: Int] = [:]
    private static let exhaustionsAllowed = 16

    private struct NameQuestion: Hashable {
        let rule: Int
        let name: String
    }

    /// The descriptors are valid (see `DescriptorRules`); one without Bluetooth traits matches no advert.
    public init(_ descriptors: [DiscoveryDescriptor], nearness: Nearness = Nearness()) {
        self.nearness = nearness
        self.descriptors = descriptors
        rules = descriptors.map(RuleList.init)
        for (index, rule) in rules.enumerated() {
            // One key suffices: the other traits are checked on the candidates. A service is rarer on the air than a
            // company.
            if let service = rule.service {
                byService[service, default: Bucket()].add(index, rule.serviceData)
            } else if let company = rule.company {
                byCompany[company, default: Bucket()].add(index, rule.manufacturerData)
            }
        }
    }

    /// The first item that the advert matches, or nil.
    ///
    /// - Parameters:
    ///   - smoothedRSSI: dBm; nil when unknown, which is never near.
    ///   - isOffered: whether this device is offered already, for the hysteresis of nearness.
    public mutating func firstMatch(_ advert: Advertisement, smoothedRSSI: Int?, isOffered: Bool = false) -> Int? {
        let circumstances = Circumstances(
            rssi: smoothedRSSI, threshold: nearness.threshold - (isOffered ? Nearness.hysteresis : 0), networks: networks)
        var best = rules.count
        for service in advert.serviceUUIDs {
            scan(byService[service]?.candidates(for: advert.serviceData[service]), advert, circumstances, &best)
        }
        for (service, payload) in advert.serviceData where !advert.serviceUUIDs.contains(service) {
            scan(byService[service]?.candidates(for: payload), advert, circumstances, &best)
        }
        for (company, payload) in advert.manufacturerData {
            scan(byCompany[company]?.candidates(for: payload), advert, circumstances, &best)
        }
        return best == rules.count ? nil : best
    }

    /// The first item with Wi-Fi only that looks for this network, or nil.
    public func firstMatch(_ network: SSID) -> Int? {
        descriptors.firstIndex { !$0.wantsBluetooth && $0.wifiAware == nil && $0.fits(network) }
    }

    /// The first item that looks for this Wi-Fi Aware service, or nil.
    public func firstMatch(_ service: AwareService) -> Int? {
        descriptors.firstIndex { $0.wifiAware?.fits(service) == true }
    }

    /// - Parameter candidates: ascending; behind the best match so far, none can be better.
    private mutating func scan(
        _ candidates: [Int]?, _ advert: Advertisement, _ circumstances: Circumstances, _ best: inout Int
    ) {
        guard let candidates else { return }
        let rules = rules
        for index in candidates {
            if index >= best { return }
            if rules[index].holds(for: advert, circumstances, matches: { matches($0, of: index, $1) }) { return best = index }
        }
    }

    private mutating func matches(_ rule: NameRule, of index: Int, _ name: String) -> Bool {
        let question = NameQuestion(rule: index, name: name)
        if let verdict = nameVerdicts[question] { return verdict }
        guard exhausted[index, default: 0] < Self.exhaustionsAllowed else { return false }
        let answer = rule.verdict(on: name)
        if answer == nil { exhausted[index, default: 0] += 1 }
        let verdict = answer == true
        // Bounded: names come from strangers.
        if nameVerdicts.count >= 4096 { nameVerdicts.removeAll(keepingCapacity: true) }
        nameVerdicts[question] = verdict
        return verdict
    }
}

/// Items under one key, ascending. Where many share a key and differ in their data, the data's first byte selects.
private struct Bucket: Sendable {
    private var others: [Int] = []
    /// With the others among them.
    private var byFirstByte: [UInt8: [Int]] = [:]

    mutating func add(_ index: Int, _ data: MaskedData?) {
        if let data, data.mask[0] == 0xFF {
            byFirstByte[data.blob[0], default: others].append(index)
        } else {
            others.append(index)
            for byte in byFirstByte.keys { byFirstByte[byte]?.append(index) }
        }
    }

    func candidates(for payload: [UInt8]?) -> [Int] { payload?.first.flatMap { byFirstByte[$0] } ?? others }
}

extension WiFiAware {
    /// Whether a service has this name and role, and its model and vendor match.
    func fits(_ service: AwareService) -> Bool {
        serviceName == service.serviceName && (serviceRole ?? .subscriber) == service.role
            && Self.matches(modelName, service.modelName)
            && Self.matches(vendorName, service.vendorName)
    }

    private static func matches(_ wanted: Match?, _ text: String) -> Bool {
        guard let wanted else { return true }
        return NameRule(substring: wanted.string, options: wanted.options)?.matches(text) == true
    }
}

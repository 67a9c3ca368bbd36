// SPDX-License-Identifier: Apache-2.0
// The rules of one descriptor, in one list: verdicts for the matcher and the admin's rules, and reasons in words. Each
// rule is a case with its test and its words beside each other, so that these cannot drift apart.

public import AccessoryModel

/// Conditions besides an advert that a rule may test.
struct Circumstances {
    /// Smoothed, dBm; nil when unknown, which is never near.
    var rssi: Int?
    /// From here on it is near, dBm.
    var threshold = Matcher.Nearness().threshold
    /// Names of the networks in range.
    var networks: Set<SSID> = []
}

/// One descriptor, ready to be applied.
struct RuleList: Sendable {
    /// Cheap ones first: most adverts fail at the first.
    private enum Rule: Sendable {
        case service(BluetoothUUID)
        case serviceData(BluetoothUUID, MaskedData)
        case company(CompanyIdentifier)
        case manufacturerData(CompanyIdentifier, MaskedData)
        /// The network that must be in range too. Of one that is named by its beginning only, the app says later which
        /// it is.
        case network(SSID)
        case immediate
        case name(NameRule)
    }

    private let rules: [Rule]
    /// One of the two exists where the descriptor looks for Bluetooth: adverts without it are not compared.
    let service: BluetoothUUID?
    let serviceData: MaskedData?
    let company: CompanyIdentifier?
    let manufacturerData: MaskedData?

    init(_ descriptor: DiscoveryDescriptor) {
        service = descriptor.serviceUUID
        serviceData = descriptor.serviceData
        company = descriptor.companyIdentifier
        manufacturerData = descriptor.manufacturerData
        var rules: [Rule] = []
        if let service {
            rules.append(.service(service))
            if let serviceData { rules.append(.serviceData(service, serviceData)) }
        }
        if let company {
            rules.append(.company(company))
            if let manufacturerData { rules.append(.manufacturerData(company, manufacturerData)) }
        }
        if let network = descriptor.network { rules.append(.network(network)) }
        if descriptor.range == .immediate { rules.append(.immediate) }
        if let name = descriptor.name.substring.flatMap({ NameRule(substring: $0, options: descriptor.name.options) }) {
            rules.append(.name(name))
        }
        self.rules = rules
    }

    /// Whether an advert matches the descriptor.
    ///
    /// - Parameter matches: compares a name; the matcher keeps the answers.
    func holds(
        for advert: Advertisement, _ circumstances: Circumstances, matches: (NameRule, String) -> Bool = { $0.matches($1) }
    ) -> Bool {
        guard service != nil || company != nil else { return false }
        for rule in rules where !holds(rule, advert, circumstances, matches) { return false }
        return true
    }

    /// The reasons why an advert does not match, in words; empty when it does.
    func reasons(against advert: Advertisement, _ circumstances: Circumstances) -> [String] {
        let nothing = service == nil && company == nil ? ["the item names neither a Bluetooth service nor a company"] : []
        return nothing
            + rules.compactMap { rule in
                holds(rule, advert, circumstances) { $0.matches($1) } ? nil : words(of: rule, advert, circumstances)
            }
    }

    private func holds(
        _ rule: Rule, _ advert: Advertisement, _ circumstances: Circumstances, _ matches: (NameRule, String) -> Bool
    ) -> Bool {
        switch rule {
        case .service(let service): advert.serviceData[service] != nil || advert.serviceUUIDs.contains(service)
        case .serviceData(let service, let data): advert.serviceData[service].map { data.matches($0) } ?? false
        case .company(let company): advert.manufacturerData[company] != nil
        case .manufacturerData(let company, let data): advert.manufacturerData[company].map { data.matches($0) } ?? false
        case .network(let network): circumstances.networks.contains(network)
        case .immediate: circumstances.rssi.map { $0 >= circumstances.threshold } ?? false
        case .name(let rule): advert.localName.map { matches(rule, $0) } ?? false
        }
    }

    /// The evidence that a device, which may be silent, matches.
    fileprivate func evidence(of advert: Advertisement, _ circumstances: Circumstances) -> Matcher.Evidence {
        guard service != nil || company != nil else { return .contradicts }
        var evidence = Matcher.Evidence.fits
        for rule in rules where !holds(rule, advert, circumstances, { $0.matches($1) }) {
            guard cannotBeEvaluated(rule, advert) else { return .contradicts }
            evidence = .missing
        }
        return evidence
    }

    /// Whether a rule fails only for lack of an advert.
    private func cannotBeEvaluated(_ rule: Rule, _ advert: Advertisement) -> Bool {
        switch rule {
        case .serviceData(let service, _): advert.serviceData[service] == nil
        case .company, .manufacturerData: advert.manufacturerData.isEmpty
        // BlueZ keeps services and names: without one, it is another device.
        case .service, .name, .network, .immediate: false
        }
    }

    /// Why a rule does not hold; nil where another rule says it already.
    private func words(of rule: Rule, _ advert: Advertisement, _ circumstances: Circumstances) -> String? {
        switch rule {
        case .service(let service): return "bluetoothServiceUUID \(service): is not advertised"
        case .serviceData(let service, let data):
            let payload = advert.serviceData[service]
            if payload == nil, !advert.serviceUUIDs.contains(service) { return nil }
            let seen = payload.map { "is \(Hex.text($0))" } ?? "is absent"
            return "bluetoothServiceDataBlob \(Hex.text(data.blob)): the service data \(seen)"
        case .company(let company): return "bluetoothCompanyIdentifier \(company): is not advertised"
        case .manufacturerData(let company, let data):
            guard let payload = advert.manufacturerData[company] else { return nil }
            return "bluetoothManufacturerDataBlob \(Hex.text(data.blob)): the manufacturer data is \(Hex.text(payload))"
        case .network(let network): return "ssid \(network): no such network is in range"
        case .immediate:
            guard let rssi = circumstances.rssi else { return "bluetoothRange immediate: the signal strength is unknown" }
            return "bluetoothRange immediate: \(rssi) dBm is below \(circumstances.threshold) dBm"
        case .name:
            guard let name = advert.localName else { return "bluetoothNameSubstring: no name is advertised" }
            return "bluetoothNameSubstring: does not match the name \(name)"
        }
    }
}

extension Matcher {
    /// Whether a paired device matches a descriptor. BlueZ keeps name and services of a silent device, but not the data
    /// of its adverts: a rule about that data has no answer then, and a person must decide.
    public enum Evidence: Hashable, Sendable {
        case fits
        /// All rules that can be evaluated fit, and others cannot be evaluated.
        case missing
        case contradicts
    }

    /// - Parameter advert: all that is known of the device. Its distance does not matter.
    public static func evidence(of advert: Advertisement, for descriptor: DiscoveryDescriptor) -> Evidence {
        var wanted = descriptor
        wanted.range = .default
        return RuleList(wanted).evidence(of: advert, Circumstances(networks: Set([wanted.network].compactMap(\.self))))
    }

    /// The rules of `descriptor` that the advert fails, in words; empty when it matches.
    ///
    /// - Parameters:
    ///   - smoothedRSSI: dBm; nil when unknown, which is never near.
    ///   - networks: names of the networks in range.
    public static func exclusions(
        of advert: Advertisement, from descriptor: DiscoveryDescriptor, smoothedRSSI: Int?, nearness: Nearness = Nearness(),
        networks: Set<SSID> = []
    ) -> [String] {
        RuleList(descriptor).reasons(
            against: advert, Circumstances(rssi: smoothedRSSI, threshold: nearness.threshold, networks: networks))
    }
}

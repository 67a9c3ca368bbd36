// Why an advert is not what an item looks for, in words: for the admin and the developer who wonder. The same rules as the matcher's,
// asked one by one; a test holds the two against each other.

public import AccessoryModel

extension Matcher {
    /// The rules of `descriptor` that the advert fails; empty when it matches.
    public static func exclusions(
        of advert: Advertisement, from descriptor: DiscoveryDescriptor, smoothedRSSI: Int?, nearness: Nearness = Nearness(),
        networks: Set<SSID> = []
    ) -> [String] {
        Rule(descriptor).exclusions(of: advert, smoothedRSSI: smoothedRSSI, nearness: nearness, networks: networks)
    }
}

extension Rule {
    func exclusions(
        of advert: Advertisement, smoothedRSSI: Int?, nearness: Matcher.Nearness, networks: Set<SSID>
    ) -> [String] {
        var reasons: [String] = []
        if service == nil, company == nil { reasons.append("the item names no Bluetooth service and no company") }
        if let service {
            let payload = advert.serviceData[service]
            if payload == nil, !advert.serviceUUIDs.contains(service) {
                reasons.append("bluetoothServiceUUID \(service): is not advertised")
            } else if let serviceData, payload.map({ serviceData.matches($0) }) != true {
                let seen = payload.map { "is \(Hex.text($0))" } ?? "is not there"
                reasons.append("bluetoothServiceDataBlob \(Hex.text(serviceData.blob)): the service data \(seen)")
            }
        }
        if let company {
            if let payload = advert.manufacturerData[company] {
                if let manufacturerData, !manufacturerData.matches(payload) {
                    reasons.append(
                        "bluetoothManufacturerDataBlob \(Hex.text(manufacturerData.blob)): the manufacturer data is \(Hex.text(payload))"
                    )
                }
            } else {
                reasons.append("bluetoothCompanyIdentifier \(company): is not advertised")
            }
        }
        if let name {
            if let advertised = advert.localName {
                if !name.matches(advertised) { reasons.append("bluetoothNameSubstring: does not match the name \(advertised)") }
            } else {
                reasons.append("bluetoothNameSubstring: no name is advertised")
            }
        }
        if isImmediate {
            if let smoothedRSSI {
                if smoothedRSSI < nearness.threshold {
                    reasons.append("bluetoothRange immediate: \(smoothedRSSI) dBm is below \(nearness.threshold) dBm")
                }
            } else {
                reasons.append("bluetoothRange immediate: the strength is not known")
            }
        }
        if let network, !networks.contains(network) { reasons.append("ssid \(network): no such network is in range") }
        return reasons
    }
}

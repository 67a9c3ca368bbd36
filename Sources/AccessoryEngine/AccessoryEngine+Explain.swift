// What is in range and why it is not offered: for the picker that runs, or for one that nobody shows.

internal import AccessoryCore
public import AccessoryModel

/// One device or network in range, and what keeps it from being offered.
public struct ExplainedDevice: Hashable, Sendable {
    /// One of the two is there.
    public let sighting: Sighting
    /// Smoothed, dBm; nil when unknown.
    public let rssi: Int?
    /// The item that it matches; nil for none.
    public let item: Int?
    /// For each item the rules that it fails, or what else excludes it; empty when it is offered.
    public let reasons: [String]
}

/// A look around that goes on.
final class Explanation {
    let app: AppID
    let items: [DisplayItem]
    var discovery: DiscoveryToken?
    /// Keeps networks scanned, where an item names one too.
    var scan: DiscoveryToken?
    var networks: [SSID: WiFiNetwork] = [:]
    var heard: [RadioDeviceID: (content: Advertisement, rssi: Int?)] = [:]

    init(app: AppID, items: [DisplayItem]) {
        self.app = app
        self.items = items
    }
}

extension AccessoryEngine {
    /// Looks around for some seconds with an app's items: those of its picker when it shows one, else `dryItems`.
    ///
    /// - Throws: `InvalidRequest` without items, `PickerRestricted` without a radio that could find one of them.
    public func explain(
        _ app: AppID, dryItems: [DisplayItem], seconds: Double, completion: @escaping ([DisplayItem], [ExplainedDevice]) -> Void
    ) throws(SetupError) {
        let running = picker.flatMap { $0.session.app.id == app && $0.request == .discovery ? $0.items : nil }
        let items = running ?? dryItems
        guard !items.isEmpty else { throw .invalid("app", app, "declares no service and no company, and shows no picker") }
        let obstacles = items.map { obstacle(to: $0.descriptor) }
        if !obstacles.contains(nil), let first = obstacles.first, let first { throw SetupError(.pickerRestricted, first) }
        guard explanations.count < Limits.pickers else { throw SetupError(.invalidRequest, "too many look around already") }
        let explanation = Explanation(app: app, items: items)
        if let run = picker {
            // Who joins a search that runs hears at first what changes only: the rest is known already.
            for candidate in run.candidates.values {
                explanation.heard[candidate.advertisement.device] = (candidate.advertisement, candidate.rssi)
            }
            for candidate in run.networks.values { explanation.networks[candidate.network.ssid] = candidate.heard }
        }
        explanations.append(explanation)
        if items.contains(where: { $0.descriptor.wantsBluetooth }) { explanation.discovery = radio.discover() }
        if items.contains(where: { $0.descriptor.wantsWiFi }) {
            explanation.scan = networks.scan(asking: items.compactMap(\.descriptor.network), aware: [])
        }
        _ = clock.after(seconds) { [weak self, weak explanation] in
            guard let self, let explanation else { return }
            self.explanations.removeAll { $0 === explanation }
            completion(
                items,
                explanation.heard.values.map { self.explained($0.content, $0.rssi, explanation) }
                    + explanation.networks.values.map { self.explained($0, explanation) })
        }
    }

    func noteHeard(_ networks: [WiFiNetwork]) {
        for explanation in explanations {
            for network in networks where explanation.networks.count < Limits.trackedDevices {
                explanation.networks[network.ssid] = network
            }
        }
    }

    private func explained(_ network: WiFiNetwork, _ explanation: Explanation) -> ExplainedDevice {
        let sighting = Sighting(network: network)
        let fitting = Matcher(explanation.items.map(\.descriptor)).firstMatch(network.ssid)
        guard let fitting else {
            let reasons = explanation.items.enumerated().map { index, item in
                let descriptor = item.descriptor
                let reason =
                    !descriptor.wantsWiFi
                    ? "names no network"
                    : descriptor.fits(network.ssid)
                        ? "is found by Bluetooth first, and has this network besides"
                        : "\(descriptor.ssid != nil ? "ssid" : "ssidPrefix") \(String(decoding: descriptor.ssid ?? descriptor.ssidPrefix ?? [], as: UTF8.self)): is another name"
                return "item \(index + 1) (\(item.name)): \(reason)"
            }
            return ExplainedDevice(sighting: sighting, rssi: network.rssi, item: nil, reasons: reasons)
        }
        return ExplainedDevice(
            sighting: sighting, rssi: network.rssi, item: fitting, reasons: obstacles(sighting, explanation.app))
    }

    func noteHeard(_ changes: [HeardDevice]) {
        for explanation in explanations {
            for change in changes {
                if let content = change.content,
                    explanation.heard.count < Limits.trackedDevices || explanation.heard[change.device] != nil
                {
                    explanation.heard[change.device] = (content, change.rssi ?? explanation.heard[change.device]?.rssi)
                } else if let rssi = change.rssi {
                    explanation.heard[change.device]?.rssi = rssi
                }
            }
        }
    }

    private func explained(_ advert: Advertisement, _ rssi: Int?, _ explanation: Explanation) -> ExplainedDevice {
        var reasons: [String] = []
        for (index, item) in explanation.items.enumerated() {
            let failed = Matcher.exclusions(
                of: advert, from: item.descriptor, smoothedRSSI: rssi, nearness: configuration.nearness,
                networks: Set(explanation.networks.keys))
            if failed.isEmpty {
                return ExplainedDevice(
                    sighting: Sighting(advertisement: advert), rssi: rssi, item: index,
                    reasons: obstacles(Sighting(advertisement: advert), explanation.app))
            }
            reasons += failed.map { "item \(index + 1) (\(item.name)): \($0)" }
        }
        return ExplainedDevice(sighting: Sighting(advertisement: advert), rssi: rssi, item: nil, reasons: reasons)
    }

    /// What keeps a match from being offered.
    private func obstacles(_ sighting: Sighting, _ app: AppID) -> [String] {
        if let denial = policy.denial(of: sighting, to: app) { return ["rule \(denial.name) in \(denial.source) denies it"] }
        let known = sighting.advertisement.flatMap { ledger.accessory(at: $0.address) }
        let isMine =
            known.map { ledger.grant(of: $0.id, to: app) != nil } ?? sighting.network.map { ledger.hasNetwork($0.ssid, app) }
            ?? false
        return isMine ? ["\(app) has it already"] : []
    }
}

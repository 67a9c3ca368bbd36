// What is in range and why it is not offered: for the picker that runs, or for one that nobody shows.

internal import AccessoryCore
public import AccessoryModel

/// One device in range, and what keeps it from being offered.
public struct ExplainedDevice: Hashable, Sendable {
    public let advertisement: Advertisement
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
    var networks: Set<SSID> = []
    var heard: [RadioDeviceID: (content: Advertisement, rssi: Int?)] = [:]

    init(app: AppID, items: [DisplayItem]) {
        self.app = app
        self.items = items
    }
}

extension AccessoryEngine {
    /// Looks around for some seconds with an app's items: those of its picker when it shows one, else `dryItems`.
    ///
    /// - Throws: `InvalidRequest` without items, `PickerRestricted` without a radio.
    public func explain(
        _ app: AppID, dryItems: [DisplayItem], seconds: Double, completion: @escaping ([DisplayItem], [ExplainedDevice]) -> Void
    ) throws(SetupError) {
        let running = picker.flatMap { $0.session.app.id == app && $0.request == .discovery ? $0.items : nil }
        let items = running ?? dryItems
        guard !items.isEmpty else { throw .invalid("app", app, "declares no service and no company, and shows no picker") }
        guard radio.state == .ready else { throw SetupError(.pickerRestricted, "Bluetooth is \(radio.state.rawValue)") }
        guard explanations.count < Limits.pickers else { throw SetupError(.invalidRequest, "too many look around already") }
        let explanation = Explanation(app: app, items: items)
        explanations.append(explanation)
        explanation.discovery = radio.discover()
        let names = items.compactMap(\.descriptor.network)
        if !names.isEmpty { explanation.scan = networks.scan(asking: names, aware: []) }
        _ = clock.after(seconds) { [weak self, weak explanation] in
            guard let self, let explanation else { return }
            self.explanations.removeAll { $0 === explanation }
            completion(items, explanation.heard.values.map { self.explained($0.content, $0.rssi, explanation) })
        }
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
                networks: explanation.networks)
            if failed.isEmpty {
                return ExplainedDevice(advertisement: advert, rssi: rssi, item: index, reasons: obstacles(advert, explanation.app))
            }
            reasons += failed.map { "item \(index + 1) (\(item.name)): \($0)" }
        }
        return ExplainedDevice(advertisement: advert, rssi: rssi, item: nil, reasons: reasons)
    }

    /// What keeps a match from being offered.
    private func obstacles(_ advert: Advertisement, _ app: AppID) -> [String] {
        if let denial = policy.denial(of: Sighting(advertisement: advert), to: app) {
            return ["rule \(denial.name) in \(denial.source) denies it"]
        }
        if let known = ledger.accessory(at: advert.address), ledger.grant(of: known.id, to: app) != nil {
            return ["\(app) has it already"]
        }
        return []
    }
}

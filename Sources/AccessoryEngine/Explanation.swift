// SPDX-License-Identifier: Apache-2.0
// Accessories in range, the reasons why they are not offered, for the picker that runs or for hypothetical items, and
// whether the app hears them by its grants for kinds.

internal import AccessoryCore
public import AccessoryModel

/// One device or network in range, and the reasons why it is not offered.
public struct ExplainedDevice: Hashable, Sendable {
    /// One of the two is there.
    public let candidate: AccessoryCandidate
    /// Smoothed, dBm; nil when unknown.
    public let rssi: Int?
    /// The item that it matches; nil for none.
    public let item: Int?
    /// For each item the rules that it fails, or another reason; empty where it would be offered. (A picker may show
    /// fewer: the nearest, and the app's choice.)
    public let reasons: [String]
    /// Whether it would be picked without a person, and why or why not; nil where the app has neither rules that
    /// approve nor claim lists.
    public fileprivate(set) var unattended: String?
    /// The app's grants for kinds that match it, oldest first: whether the app hears it, and how to open it otherwise.
    public fileprivate(set) var kinds: [String] = []
}

/// The looks around that go on.
final class Explanations {
    private let services: EngineServices
    private let pickers: PickerCoordinator
    private let hearing: Hearing
    private var looks: [Look] = []

    /// A look around that goes on.
    private final class Look {
        let app: AppID
        let items: [DisplayItem]
        /// No item names a network, and all networks are explained.
        let explainsAllNetworks: Bool
        var discovery: DiscoveryToken?
        /// Keeps networks scanned, where an item names one too.
        var scan: DiscoveryToken?
        var networks: [SSID: WiFiNetwork] = [:]
        var heard: [BluetoothAddress: (content: Advertisement, rssi: Int?)] = [:]

        init(app: AppID, items: [DisplayItem], explainsAllNetworks: Bool) {
            self.app = app
            self.items = items
            self.explainsAllNetworks = explainsAllNetworks
        }
    }

    init(_ services: EngineServices, _ pickers: PickerCoordinator, _ hearing: Hearing) {
        self.services = services
        self.pickers = pickers
        self.hearing = hearing
    }

    /// Looks around for some seconds with an app's items: those of its picker when it shows one, else `dryItems`. A
    /// manifest names no networks: of an app with Wi-Fi that shows no picker, all networks in range are explained.
    ///
    /// - Throws: `InvalidRequest` without items, `PickerRestricted` when no radio could find any item.
    func explain(
        _ app: AppManifest, dryItems: [DisplayItem], seconds: Double,
        completion: @escaping ([DisplayItem], [ExplainedDevice]) -> Void
    ) throws(SetupError) {
        let running = pickers.run.flatMap { $0.session.app.id == app.id && $0.request == .discovery ? $0.items : nil }
        let items = running ?? dryItems
        let explainsAllNetworks = running == nil && app.supports.contains(.wifi)
        guard !items.isEmpty || explainsAllNetworks else {
            throw .invalid("app", app.id, "declares neither a service nor a company, and is showing no picker")
        }
        var obstacles = items.map { pickers.requests.obstacle(to: $0.descriptor) }
        if explainsAllNetworks {
            obstacles.append(services.networkRadio.state == .ready ? nil : "Wi-Fi is \(services.networkRadio.state.rawValue)")
        }
        if !obstacles.contains(nil), let first = obstacles.first, let first { throw SetupError(.pickerRestricted, first) }
        guard looks.count < Limits.pickers else { throw SetupError(.invalidRequest, "too many explanations are already running") }
        let look = Look(app: app.id, items: items, explainsAllNetworks: explainsAllNetworks)
        if let run = pickers.run {
            // A search that runs reports changes only: earlier devices come from the run.
            for device in run.inRange.devices.values { look.heard[device.content.address] = (device.content, device.rssi) }
            for network in run.inRange.networks.values { look.networks[network.content.ssid] = InRange.smoothed(network) }
        }
        looks.append(look)
        if items.contains(where: { $0.descriptor.wantsBluetooth }) { look.discovery = services.radio.discover() }
        if explainsAllNetworks || items.contains(where: { $0.descriptor.wantsWiFi }) {
            look.scan = services.networkRadio.scan(probing: items.compactMap(\.descriptor.network), aware: [])
        }
        _ = services.clock.after(seconds) { [weak self, weak look] in
            guard let self, let look else { return }
            self.looks.removeAll { $0 === look }
            let devices =
                look.heard.values.map { self.explained($0.content, $0.rssi, look) }
                + look.networks.values.map { self.explained($0, look) }
            completion(items, self.withKinds(self.judged(devices, look), look.app))
        }
    }

    /// Adds the verdicts of the app's kinds.
    private func withKinds(_ devices: [ExplainedDevice], _ app: AppID) -> [ExplainedDevice] {
        let verdicts = hearing.verdicts(on: devices.compactMap(\.candidate.advertisement), of: app)
        return devices.map { device in
            guard let address = device.candidate.advertisement?.address else { return device }
            var explained = device
            explained.kinds = (verdicts[address] ?? []).map { granted, verdict in
                let grant = granted.grant.id
                return "grant \(grant) (\(granted.accessory.displayName)): \(verdict.words(grant: grant, device: address))"
            }
            return explained
        }
    }

    /// Adds the verdicts in a person's place on all that are offered.
    private func judged(_ devices: [ExplainedDevice], _ look: Look) -> [ExplainedDevice] {
        let unattended = services.registry.unattended(for: look.app)
        guard unattended.mayApprove || unattended.obstacle != nil else { return devices }
        var judged = devices
        let offered = devices.indices.filter { devices[$0].item != nil && devices[$0].reasons.isEmpty }
        let verdicts = unattended.verdicts(
            on: offered.map { index in
                let descriptor = devices[index].item.map { look.items[$0].descriptor }
                let kind = descriptor.flatMap { $0.isKind ? AccessoryCandidate(kind: $0) : nil }
                return (kind ?? devices[index].candidate, devices[index].rssi)
            })
        for (index, verdict) in zip(offered, verdicts) { judged[index].unattended = "\(verdict)" }
        return judged
    }

    func heard(_ networks: [WiFiNetwork]) {
        for look in looks {
            for network in networks where look.networks.count < Limits.trackedDevices {
                look.networks[network.ssid] = network
            }
        }
    }

    private func explained(_ network: WiFiNetwork, _ look: Look) -> ExplainedDevice {
        let candidate = AccessoryCandidate(network: network)
        let fitting = Matcher(look.items.map(\.descriptor)).firstMatch(network.ssid)
        guard let fitting else {
            // Only an item of a picker can name it.
            if look.explainsAllNetworks {
                let denied = obstacles(candidate, look.app)
                let reasons =
                    denied.isEmpty ? ["no picker is shown: it is offered once an item's ssid or ssidPrefix matches"] : denied
                return ExplainedDevice(candidate: candidate, rssi: network.rssi, item: nil, reasons: reasons)
            }
            let reasons = look.items.enumerated().map { index, item in
                let descriptor = item.descriptor
                let reason =
                    !descriptor.wantsWiFi
                    ? "names no network"
                    : descriptor.fits(network.ssid)
                        ? "is found over Bluetooth first; this is its additional network"
                        : "\(descriptor.ssid != nil ? "ssid" : "ssidPrefix") \(String(decoding: descriptor.ssid ?? descriptor.ssidPrefix ?? [], as: UTF8.self)): does not match"
                return "item \(index + 1) (\(item.name)): \(reason)"
            }
            return ExplainedDevice(candidate: candidate, rssi: network.rssi, item: nil, reasons: reasons)
        }
        return ExplainedDevice(
            candidate: candidate, rssi: network.rssi, item: fitting, reasons: obstacles(candidate, look.app))
    }

    func heard(_ changes: [HeardDevice]) {
        for look in looks {
            for change in changes {
                if let content = change.content,
                    look.heard.count < Limits.trackedDevices || look.heard[change.address] != nil
                {
                    look.heard[change.address] = (content, change.rssi ?? look.heard[change.address]?.rssi)
                } else if let rssi = change.rssi {
                    look.heard[change.address]?.rssi = rssi
                }
            }
        }
    }

    private func explained(_ advert: Advertisement, _ rssi: Int?, _ look: Look) -> ExplainedDevice {
        var reasons: [String] = []
        for (index, item) in look.items.enumerated() {
            let failed = Matcher.exclusions(
                of: advert, from: item.descriptor, smoothedRSSI: rssi, nearness: services.nearness,
                networks: Set(look.networks.keys))
            if failed.isEmpty {
                return ExplainedDevice(
                    candidate: AccessoryCandidate(advertisement: advert), rssi: rssi, item: index,
                    reasons: item.descriptor.isKind
                        ? obstacles(toKind: item.descriptor, look.app)
                        : obstacles(AccessoryCandidate(advertisement: advert), look.app))
            }
            reasons += failed.map { "item \(index + 1) (\(item.name)): \($0)" }
        }
        return ExplainedDevice(candidate: AccessoryCandidate(advertisement: advert), rssi: rssi, item: nil, reasons: reasons)
    }

    /// The reasons why the kind that a device belongs to is not offered.
    private func obstacles(toKind descriptor: DiscoveryDescriptor, _ app: AppID) -> [String] {
        if let denial = services.registry.policy.denial(ofKind: descriptor, to: app) {
            return ["rule \(denial.name) in \(denial.source) denies the kind"]
        }
        let grants = services.registry.ledger.accessories(of: app).map(\.grant)
        return grants.first { $0.terms.descriptor == descriptor }.map { ["\(app) already has the kind, by grant \($0.id)"] } ?? []
    }

    /// The reasons why a match is not offered.
    private func obstacles(_ candidate: AccessoryCandidate, _ app: AppID) -> [String] {
        if let denial = services.registry.policy.denial(of: candidate, to: app) {
            return ["rule \(denial.name) in \(denial.source) denies it"]
        }
        let accessory = candidate.advertisement.flatMap { services.registry.ledger.accessory(at: $0.address) }
        let isMine =
            accessory.map { services.registry.ledger.hasByBluetooth($0.id, app) } ?? candidate.network.map {
                services.registry.ledger.grant(onNetwork: $0.ssid, to: app) != nil
            }
            ?? false
        if isMine { return ["\(app) already has it"] }
        // A picker without items shows the accessories of the app's extension alone.
        guard let run = pickers.run, run.session.app.id == app, let reported = run.reported else { return [] }
        return reported.names(candidate, accessory?.id) ? [] : ["the app's extension has not reported it"]
    }
}

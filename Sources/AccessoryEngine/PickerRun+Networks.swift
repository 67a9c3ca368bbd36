// The Wi-Fi side of a run: networks and Wi-Fi Aware services in range, alone or as the other half of what Bluetooth finds.

internal import AccessoryCore
internal import AccessoryModel

extension PickerRun {
    /// One network in range.
    final class NetworkCandidate {
        var network: WiFiNetwork
        var smoothed: Double?
        /// Scans in a row that it was missing from.
        var misses = 0
        /// The item with Wi-Fi only that it matches; nil for one that is only the other half of an item.
        let item: Int?
        let offer: Int
        let identifier: AccessoryID

        init(_ network: WiFiNetwork, item: Int?, offer: Int, identifier: AccessoryID) {
            self.network = network
            self.item = item
            self.offer = offer
            self.identifier = identifier
        }

        /// As it was heard, with its strength smoothed.
        var heard: WiFiNetwork {
            var heard = network
            heard.rssi = smoothed.map { Int($0.rounded()) }
            return heard
        }
    }

    /// One Wi-Fi Aware service in range.
    final class ServiceCandidate {
        var service: AwareService
        let item: Int?
        let offer: Int
        let identifier: AccessoryID

        init(_ service: AwareService, item: Int?, offer: Int, identifier: AccessoryID) {
            self.service = service
            self.item = item
            self.offer = offer
            self.identifier = identifier
        }
    }

    /// A network that was missing from this many scans in a row is gone. One scan can miss a network that is there.
    static let missesAllowed = 3
    /// How much a new sample of the strength counts; there is one in a scan.
    private static let smoothing = 0.6

    /// Whether this run looks for anything that this radio finds.
    func needs(_ technology: Technology) -> Bool {
        items.contains { item in
            switch technology {
            case .bluetooth: item.descriptor.wantsBluetooth
            case .wifi: item.descriptor.wantsWiFi || item.descriptor.wifiAware != nil
            }
        }
    }

    /// Networks that may be hidden: those with a whole name.
    var hiddenNames: [SSID] {
        var names: [SSID] = []
        for name in items.compactMap(\.descriptor.network) where !names.contains(name) { names.append(name) }
        return names
    }

    // MARK: What is in range

    /// Takes in a complete scan; true when what is offered may have changed.
    func take(_ heard: [WiFiNetwork]) -> Bool {
        var changed = false
        var missing = Set(networks.keys)
        for network in heard {
            missing.remove(network.ssid)
            if let known = networks[network.ssid] {
                known.misses = 0
                if known.network != network { changed = true }
                known.network = network
                known.smoothed = Self.smooth(known.smoothed, network.rssi)
            } else if networks.count < Limits.trackedDevices, items.contains(where: { $0.descriptor.fits(network.ssid) }) {
                let (offer, identifier) = enroll(.network(network.ssid))
                let candidate = NetworkCandidate(
                    network, item: matcher.firstMatch(network.ssid), offer: offer, identifier: identifier)
                candidate.smoothed = network.rssi.map(Double.init)
                networks[network.ssid] = candidate
                if candidate.item != nil { disclose(.network(network.ssid)) }
                changed = true
            }
        }
        for ssid in missing {
            guard let candidate = networks[ssid] else { continue }
            candidate.misses += 1
            if candidate.misses >= Self.missesAllowed {
                networks[ssid] = nil
                changed = true
            }
        }
        return networksChanged() || changed
    }

    private static func smooth(_ old: Double?, _ sample: Int?) -> Double? {
        sample.map { sample in old.map { $0 + smoothing * (Double(sample) - $0) } ?? Double(sample) }
    }

    private func networksChanged() -> Bool {
        let names = Set(networks.keys)
        guard matcher.networks != names else { return false }
        matcher.networks = names
        return matchDevices()
    }

    /// Takes in all Wi-Fi Aware services in range; true when what is offered may have changed.
    func take(_ heard: [AwareService]) -> Bool {
        var changed = false
        let peers = Set(heard.map(\.peer))
        for peer in services.keys where !peers.contains(peer) {
            services[peer] = nil
            changed = true
        }
        for service in heard {
            if let known = services[service.peer] {
                if known.service != service { changed = true }
                known.service = service
            } else if services.count < Limits.trackedDevices, let item = matcher.firstMatch(service) {
                let (offer, identifier) = enroll(.service(service.peer))
                services[service.peer] = ServiceCandidate(service, item: item, offer: offer, identifier: identifier)
                disclose(.service(service.peer))
                changed = true
            }
        }
        return changed
    }

    /// Forgets all networks; true when what is offered may have changed.
    func dropNetworks() -> Bool {
        guard !networks.isEmpty || !services.isEmpty else { return false }
        networks = [:]
        services = [:]
        _ = networksChanged()
        return true
    }

    /// The network that a descriptor names in full, when it is in range.
    func network(of descriptor: DiscoveryDescriptor) -> WiFiNetwork? {
        descriptor.network.flatMap { networks[$0]?.heard }
    }

    // MARK: Offers

    /// The stored accessory behind a network. One that this app has in whatever form is the app's.
    private func known(_ ssid: SSID, in ledger: Ledger) -> (accessory: Accessory?, isMine: Bool) {
        (ledger.accessory(ofNetwork: ssid), ledger.hasNetwork(ssid, session.app.id))
    }

    func offer(for candidate: NetworkCandidate, ledger: Ledger) -> Offer? {
        let network = candidate.heard
        guard let index = candidate.item, case let known = known(network.ssid, in: ledger), !known.isMine else { return nil }
        let item = items[index]
        return Offer(
            id: "\(candidate.offer)", device: RadioDeviceID(""), address: nil, item: index,
            name: known.accessory?.displayName ?? chosen[candidate.identifier]?.name ?? item.name,
            advertisedName: network.ssid.description, rssi: network.rssi, shared: known.accessory?.id, needsPairing: false,
            identifier: candidate.identifier, setup: item.setupOptions, network: network)
    }

    func offer(for candidate: ServiceCandidate, ledger: Ledger) -> Offer? {
        guard let index = candidate.item else { return nil }
        let item = items[index]
        return offer(
            candidate, name: chosen[candidate.identifier]?.name ?? item.name, shared: nil, identifier: candidate.identifier,
            setup: item.setupOptions)
    }

    func upgrade(of accessory: Accessory, by candidate: ServiceCandidate) -> Offer {
        offer(candidate, name: accessory.displayName, shared: accessory.id, identifier: accessory.id, setup: [])
    }

    private func offer(
        _ candidate: ServiceCandidate, name: String, shared: AccessoryID?, identifier: AccessoryID, setup: SetupOptions
    ) -> Offer {
        let service = candidate.service
        let model = [service.vendorName, service.modelName].filter { !$0.isEmpty }.joined(separator: " ")
        return Offer(
            id: "\(candidate.offer)", device: RadioDeviceID(""), address: nil, item: candidate.item ?? 0, name: name,
            advertisedName: model, rssi: service.rssi, shared: shared, needsPairing: false, identifier: identifier, setup: setup,
            aware: service)
    }

    // MARK: What the app filters

    func discovery(of candidate: NetworkCandidate, ledger: Ledger) -> DiscoveredAccessory? {
        guard let item = candidate.item, !known(candidate.network.ssid, in: ledger).isMine else { return nil }
        return DiscoveredAccessory(
            identifier: candidate.identifier, item: items[item], advertisement: nil, network: candidate.heard,
            rssi: candidate.heard.rssi)
    }

    func discovery(of candidate: ServiceCandidate, ledger: Ledger) -> DiscoveredAccessory? {
        candidate.item.map {
            DiscoveredAccessory(
                identifier: candidate.identifier, item: items[$0], advertisement: nil, rssi: candidate.service.rssi)
        }
    }
}

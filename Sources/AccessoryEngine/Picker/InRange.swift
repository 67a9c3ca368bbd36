// SPDX-License-Identifier: Apache-2.0
// Devices, networks and services in range: matched with the picker's items, and dropped when they are silent.

internal import AccessoryCore
internal import AccessoryModel

final class InRange {
    private let items: [DisplayItem]
    private let dependsOnDistance: Bool
    private var matcher: Matcher
    private var numbering = OfferNumbering()
    /// Items for kinds, which are offered whether devices are in range or not.
    let kinds: [(item: Int, place: OfferNumbering.Place)]
    /// Private addresses that seemed to have been exchanged for others.
    private var left: Set<BluetoothAddress> = []
    /// Called when an item looks for something that it did not look for before.
    private let onMatch: (TrackedKey) -> Void
    private(set) var devices = TrackedSet<BluetoothAddress, Advertisement>()
    private(set) var networks = TrackedSet<SSID, WiFiNetwork>()
    private(set) var services = TrackedSet<String, AwareService>()
    /// Networks that the app's extension names, besides those of items.
    var reportedNetworks: Set<SSID> = []

    /// Seconds. A device that was not heard for this long is gone from the picker. (BlueZ drops its own temporary
    /// devices after 30 s too, but keeps the ones it knows.)
    static let silence = 30.0
    /// Seconds. A device that the radio drops may be back in a moment, as after a pairing that failed: BlueZ forgets
    /// it, and its next advert makes it anew. A device that says something else may alternate adverts, as televisions
    /// and beacons do. Such an offer stays for this long.
    static let grace = 5.0
    /// Seconds. A device that says something else must be heard for so long to lose its offer: bluetoothd scans for 10
    /// s and rests for 5 s, and an alternating device may be silent on the wrong advert.
    private static let proof = 3.0
    /// Seconds. An unpaired device with a private address has another one by then, or is out of range.
    private static let privateSilence = 10.0
    /// A network that was missing from this many scans in a row is gone. One scan can miss a network that is there.
    private static let missesAllowed = 3
    /// The radio gives a sample every half second, itself a mean.
    private static let deviceWeight = 0.5
    /// There is one sample in a scan.
    private static let networkWeight = 0.6

    init(_ items: [DisplayItem], nearness: Matcher.Nearness, onMatch: @escaping (TrackedKey) -> Void) {
        self.items = items
        self.onMatch = onMatch
        var numbering = OfferNumbering()
        kinds = items.indices.filter { items[$0].descriptor.isKind }.map { ($0, numbering.place(.kind($0))) }
        self.numbering = numbering
        matcher = Matcher(items.map(\.descriptor), nearness: nearness)
        dependsOnDistance = items.contains { $0.descriptor.range == .immediate }
    }

    // MARK: Devices

    /// Adds adverts; true when offers may have changed.
    func hear(_ changes: [HeardDevice], now: Double) -> Bool {
        var changed = false
        for change in changes {
            guard let device = devices[change.address] ?? change.content.map({ admit($0) }) else { continue }
            device.lastHeard = now
            if let content = change.content {
                device.content = content
                if case .dropped = device.doubt { device.doubt = nil }
            }
            let before = device.item
            // Only offers and items that depend on distance use the strength.
            if before != nil || dependsOnDistance || change.content != nil { device.hear(change.rssi, weight: Self.deviceWeight) }
            if change.content != nil || dependsOnDistance { match(device, now: now) }
            if before != nil || device.item != nil { changed = true }
        }
        devices.keepLatest(Limits.trackedDevices)
        return changed
    }

    private func admit(_ advertisement: Advertisement) -> Tracked<Advertisement> {
        let device = predecessor(of: advertisement) ?? Tracked(advertisement, numbering.place(.device(advertisement.address)))
        devices.add(device, at: advertisement.address)
        return device
    }

    /// The offered device that probably has this new private address: without keys, equal adverts are the only sign. Of
    /// two devices with equal adverts, the other one is heard again under its own address, and becomes an offer again.
    private func predecessor(of advertisement: Advertisement) -> Tracked<Advertisement>? {
        guard advertisement.address.isResolvablePrivate, !advertisement.saysNothing,
            left.remove(advertisement.address) == nil,
            let former = devices.values.first(where: {
                $0.item != nil && $0.content.address.isResolvablePrivate && !$0.content.isPaired && !$0.content.isConnected
                    && $0.content.saysTheSame(as: advertisement)
            })
        else { return nil }
        _ = devices.remove(former.content.address)
        if left.count < Limits.trackedDevices { left.insert(former.content.address) }
        numbering.move(.device(former.content.address), to: .device(advertisement.address))
        return former
    }

    private func match(_ device: Tracked<Advertisement>, now: Double) {
        let before = device.item
        let item = matcher.firstMatch(device.content, smoothedRSSI: device.rssi, isOffered: before != nil)
        guard item == nil, before != nil else {
            (device.item, device.doubt) = (item, nil)
            if before == nil, item != nil { onMatch(.device(device.content.address)) }
            return
        }
        // Too far away: the strength is smoothed, and does not alternate.
        if matcher.firstMatch(device.content, smoothedRSSI: 0, isOffered: true) != nil {
            (device.item, device.doubt) = (nil, nil)
        } else if device.doubt == nil {
            device.doubt = .mismatched(since: now)
        }
    }

    /// When the next offer in doubt comes to its end; nil without one.
    func nextWithdrawal(after now: Double) -> Double? {
        devices.values.lazy.compactMap { $0.doubt.map { $0.since + Self.grace } }.filter { $0 > now }.min()
    }

    /// The radio has dropped a device: an offer stays for `grace`.
    func dropDevice(_ address: BluetoothAddress, now: Double) {
        guard let dropped = devices[address], dropped.item != nil else { return _ = devices.remove(address) }
        dropped.doubt = .dropped(since: dropped.doubt?.since ?? now)
    }

    /// Forgets all devices; true when one was offered.
    func dropDevices() -> Bool { devices.removeAll() }

    /// Drops silent devices; true when one was offered. A connected device need not advertise, nor is one without a
    /// strength heard again while it does: the radio reports when those leave.
    func prune(now: Double) -> Bool {
        var withdrew = false
        let removed = devices.removeAll { device in
            if let doubt = device.doubt, now >= doubt.since + Self.grace {
                if case .dropped = doubt { return true }
                if device.lastHeard >= doubt.since + Self.proof { (device.item, device.doubt, withdrew) = (nil, nil, true) }
            }
            let mustBeHeard = !device.content.isConnected && (device.rssi != nil || device.content.isPaired)
            let isPrivate = device.content.address.isResolvablePrivate && !device.content.isPaired
            return mustBeHeard && now - device.lastHeard > (isPrivate ? Self.privateSilence : Self.silence)
        }
        return removed || withdrew
    }

    // MARK: Networks

    /// Adds a complete scan; true when offers may have changed.
    func hear(_ heard: [WiFiNetwork]) -> Bool {
        var changed = false
        var missing = networks.keys
        for network in heard {
            missing.remove(network.ssid)
            if let tracked = networks[network.ssid] {
                tracked.misses = 0
                if tracked.content != network { changed = true }
                tracked.content = network
                tracked.hear(network.rssi, weight: Self.networkWeight)
            } else if networks.count < Limits.trackedDevices,
                reportedNetworks.contains(network.ssid) || items.contains(where: { $0.descriptor.fits(network.ssid) })
            {
                admit(network)
                changed = true
            }
        }
        for ssid in missing { networks[ssid]?.misses += 1 }
        let before = networks.count
        _ = networks.removeAll { $0.misses >= Self.missesAllowed }
        return networksChanged() || changed || networks.count != before
    }

    private func admit(_ network: WiFiNetwork) {
        // Nil for one that is only the network of an accessory that is found by Bluetooth.
        let item = matcher.firstMatch(network.ssid)
        let tracked = Tracked(network, numbering.place(.network(network.ssid)), item: item)
        tracked.hear(network.rssi, weight: Self.networkWeight)
        networks.add(tracked, at: network.ssid)
        if item != nil { onMatch(.network(network.ssid)) }
    }

    /// Looks again for the items of all devices where the networks that items name besides have come or gone.
    private func networksChanged() -> Bool {
        let names = networks.keys
        guard matcher.networks != names else { return false }
        matcher.networks = names
        var changed = false
        for device in devices.values {
            let before = device.item
            match(device, now: device.lastHeard)
            if before != device.item { changed = true }
        }
        return changed
    }

    /// Drops all networks and services; true when offers may have changed.
    func dropNetworks() -> Bool {
        guard networks.count > 0 || services.count > 0 else { return false }
        _ = networks.removeAll()
        _ = services.removeAll()
        _ = networksChanged()
        return true
    }

    /// A network as it was heard, with its strength smoothed; nil when it is not in range.
    func network(_ ssid: SSID) -> WiFiNetwork? { networks[ssid].map(Self.smoothed) }

    static func smoothed(_ network: Tracked<WiFiNetwork>) -> WiFiNetwork {
        var heard = network.content
        heard.rssi = network.rssi
        return heard
    }

    // MARK: Wi-Fi Aware services

    /// Adds all services in range; true when offers may have changed.
    func hear(_ heard: [AwareService]) -> Bool {
        let peers = Set(heard.map(\.peer))
        let before = services.count
        _ = services.removeAll { !peers.contains($0.content.peer) }
        var changed = services.count != before
        for service in heard {
            if let tracked = services[service.peer] {
                if tracked.content != service { changed = true }
                tracked.content = service
            } else if services.count < Limits.trackedDevices, let item = matcher.firstMatch(service) {
                services.add(Tracked(service, numbering.place(.service(service.peer)), item: item), at: service.peer)
                onMatch(.service(service.peer))
                changed = true
            }
        }
        return changed
    }
}

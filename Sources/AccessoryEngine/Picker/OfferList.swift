// SPDX-License-Identifier: Apache-2.0
// The offers of a run: accessories in range that the app wants shown and does not have, and that no rule denies.

internal import AccessoryCore
internal import AccessoryModel

struct OfferList {
    let request: PickerRun.Request
    let app: AppID
    let items: [DisplayItem]
    /// Only accessories that the app has chosen are offered.
    let isFiltered: Bool
    let inRange: InRange
    let disclosure: Disclosure
    /// Only accessories that the app's extension has reported are offered; nil without one.
    let reported: ReportedItems?
    let ledger: Ledger
    let policy: AccessPolicy
    /// Nil where a person picks.
    let unattended: Unattended?

    // MARK: Offers

    /// All offers in the order of appearance, without accessories that the app has.
    func offers() -> [Offer] {
        if case .authorization(let id) = request { return upgrades(of: id) }
        if let reported { return Array(reported.all.lazy.compactMap(offer).prefix(Limits.offersShown)) }
        var devices = inRange.devices.values.filter { device in
            device.item.map { !items[$0].descriptor.isKind } == true && isShown(device.identifier)
        }
        if devices.count > Limits.offersShown {
            // Offers are costly to make by the thousand: only those that may be shown are made. Devices are costly to
            // move, too: their places are sorted.
            let order = devices.indices.map { (place: $0, rssi: devices[$0].rssi, number: devices[$0].number) }
                .sorted { isNearer($0.rssi, $0.number, than: $1.rssi, $1.number) }
            devices = listedFirst(order.map { devices[$0.place] }) { AccessoryCandidate(advertisement: $0.content) }
            let mayBeShown = { (device: Tracked<Advertisement>) in
                stored(device.content)?.isMine != true
                    && policy.denial(of: AccessoryCandidate(advertisement: device.content), to: app) == nil
            }
            devices = Array(devices.lazy.filter(mayBeShown).prefix(Limits.offersShown))
        }
        var offers = devices.compactMap { device -> (number: Int, offer: Offer)? in
            guard let offer = offer(for: device),
                isAllowed(offer, AccessoryCandidate(advertisement: device.content, network: offer.network))
            else { return nil }
            return (device.number, offer)
        }
        // The network of an accessory that is offered already is not offered by itself.
        let networksOfDevices = Set(offers.compactMap(\.offer.network?.ssid))
        for network in inRange.networks.values
        where isShown(network.identifier) && !networksOfDevices.contains(network.content.ssid) {
            guard let offer = offer(for: network), isAllowed(offer, AccessoryCandidate(network: network.content)) else { continue }
            offers.append((network.number, offer))
        }
        for service in inRange.services.values where isShown(service.identifier) {
            guard let offer = offer(for: service), policy.denial(of: AccessoryCandidate(), to: app) == nil else { continue }
            offers.append((service.number, offer))
        }
        // Without a strength a kind would be the first to go.
        let kinds = inRange.kinds.compactMap { kind in
            offer(forKind: kind.item, kind.place).map { (number: kind.place.number, offer: $0) }
        }.prefix(Limits.offersShown)
        let room = Limits.offersShown - kinds.count
        if offers.count > room {
            // The nearest are shown; among equals those that were there first.
            offers.sort { isNearer($0.offer.rssi, $0.number, than: $1.offer.rssi, $1.number) }
            offers = listedFirst(offers) { each in
                AccessoryCandidate(advertisement: each.offer.address.flatMap { inRange.devices[$0]?.content })
            }
            offers.removeSubrange(room...)
        }
        offers += kinds
        return offers.sorted { $0.number < $1.number }.map(\.offer)
    }

    /// The offer of a kind that the app does not have.
    private func offer(forKind index: Int, _ place: OfferNumbering.Place) -> Offer? {
        let item = items[index]
        guard !ledger.accessories(of: app).contains(where: { $0.grant.terms.descriptor == item.descriptor }),
            policy.denial(ofKind: item.descriptor, to: app) == nil
        else { return nil }
        let devices = inRange.devices.values.filter { $0.item == index }
        let names = Set(devices.lazy.compactMap(\.content.localName).filter { !$0.isEmpty }).sorted()
        var offer = Offer(
            id: "\(place.number)", device: nil, address: nil, item: index, name: item.name, advertisedName: "", rssi: nil,
            shared: nil, needsPairing: false, identifier: place.identifier, setup: item.setupOptions)
        offer.kind = Offer.Kind(
            maxDevices: item.descriptor.heardDevices, count: devices.count,
            names: Array(names.prefix(Limits.namesOfKind)))
        return offer
    }

    /// Those that a claim list awaits come first: nearer ones must not displace them.
    private func listedFirst<Each>(_ all: [Each], _ candidate: (Each) -> AccessoryCandidate) -> [Each] {
        guard let unattended else { return all }
        let split = all.map { (each: $0, isAwaited: unattended.awaits(candidate($0))) }
        return (split.filter(\.isAwaited) + split.filter { !$0.isAwaited }).map(\.each)
    }

    private func isNearer(_ a: Int?, _ number: Int, than b: Int?, _ other: Int) -> Bool {
        a == b ? number < other : Strength.isNearer(a, than: b)
    }

    private func isShown(_ id: AccessoryID) -> Bool { !isFiltered || disclosure.item(for: id) != nil }

    /// Whether no rule denies it, as it is in range and as it is stored: earlier adverts may have said more.
    private func isAllowed(_ offer: Offer, _ candidate: AccessoryCandidate) -> Bool {
        if policy.denial(of: candidate, to: app) != nil { return false }
        return offer.shared.flatMap { ledger.accessories[$0] }.map { stored in
            policy.denial(of: stored, on: ledger.grant(of: stored.id, to: app)?.terms, to: app) == nil
        } ?? true
    }

    private func offer(for device: Tracked<Advertisement>) -> Offer? {
        guard let index = device.item else { return nil }
        let stored = stored(device.content)
        guard stored?.isMine != true else { return nil }
        let item = items[index]
        let advert = device.content
        let network = network(besides: item, index)
        // An app that has it by its network has nothing to confirm.
        let isHeld = stored.flatMap { ledger.grant(of: $0.accessory.id, to: app) }?.state == .authorized
        return Offer(
            id: identifier(device.number, network), device: advert.device, address: advert.address, adapter: advert.adapter,
            item: index,
            name: stored?.accessory.displayName ?? name(of: device.identifier, item),
            advertisedName: advert.localName ?? "", rssi: device.rssi,
            // One that has lost its bond is shared only with apps for which it was paired again.
            shared: stored.flatMap { each in
                ledger.grants(of: each.accessory.id).contains { $0.state != .unauthorized } ? each.accessory.id : nil
            },
            // The classic side is bridged for each app, over the bond that is there.
            needsPairing: item.descriptor.wantsPairing
                && (stored?.accessory.isBonded != true
                    || advert.isPaired && item.supportWhilePairing.contains(.transportBridging)),
            isBonded: advert.isPaired,
            identifier: device.identifier, setup: isHeld ? item.setupOptions.subtracting(.confirmAuthorization) : item.setupOptions,
            support: item.supportWhilePairing, network: network)
    }

    /// Another network makes another offer: a pick means the one that was shown.
    private func identifier(_ number: Int, _ network: WiFiNetwork?) -> String {
        "\(number)" + (network.flatMap { inRange.networks[$0.ssid] }.map { ".\($0.number)" } ?? "")
    }

    /// The network of an accessory that was found by Bluetooth: the one that its item names, or the only one in range
    /// that it can be. The person who picks the accessory sees it, and agrees to this one alone.
    private func network(besides item: DisplayItem, _ index: Int) -> WiFiNetwork? {
        if item.descriptor.ssid != nil { return network(of: item.descriptor) }
        guard item.descriptor.ssidPrefix != nil, inRange.devices.values.count(where: { $0.item == index }) == 1 else { return nil }
        let fitting = inRange.networks.values.filter { item.descriptor.fits($0.content.ssid) }
        return fitting.count == 1 ? InRange.smoothed(fitting[0]) : nil
    }

    private func offer(for network: Tracked<WiFiNetwork>) -> Offer? {
        guard let index = network.item, case let stored = stored(network.content.ssid), !stored.isMine else { return nil }
        let item = items[index]
        return Offer(
            id: "\(network.number)", device: nil, address: nil, item: index,
            name: stored.accessory?.displayName ?? name(of: network.identifier, item),
            advertisedName: network.content.ssid.description, rssi: network.rssi, shared: stored.accessory?.id, needsPairing: false,
            identifier: network.identifier, setup: item.setupOptions, network: InRange.smoothed(network))
    }

    private func offer(for service: Tracked<AwareService>) -> Offer? {
        guard let index = service.item else { return nil }
        let item = items[index]
        return offer(
            service, name: name(of: service.identifier, item), shared: nil, identifier: service.identifier, setup: item.setupOptions
        )
    }

    private func offer(
        _ service: Tracked<AwareService>, name: String, shared: AccessoryID?, identifier: AccessoryID, setup: SetupOptions
    ) -> Offer {
        let content = service.content
        let model = [content.vendorName, content.modelName].filter { !$0.isEmpty }.joined(separator: " ")
        return Offer(
            id: "\(service.number)", device: nil, address: nil, item: service.item ?? 0, name: name,
            advertisedName: model, rssi: content.rssi, shared: shared, needsPairing: false, identifier: identifier, setup: setup,
            aware: content)
    }

    /// The app's name for an accessory: the one it has chosen for this one, or its item's.
    private func name(of identifier: AccessoryID, _ item: DisplayItem) -> String {
        disclosure.item(for: identifier)?.name ?? item.name
    }

    // MARK: Accessories of an extension

    /// One offer for all sides of an accessory. A side of radio must be in range, whatever the extension says.
    private func offer(for reported: ReportedItems.Reported) -> Offer? {
        let (item, identifier) = (reported.item, reported.place.identifier)
        let device = item.peripheral.flatMap(device)
        guard item.peripheral == nil || device?.item != nil else { return nil }
        let network = item.ssid.flatMap(inRange.network)
        guard item.ssid == nil || network != nil else { return nil }
        let known = device.flatMap { stored($0.content) }
        let joined = device == nil ? item.ssid.map { stored($0) } : nil
        guard known?.isMine != true, joined?.isMine != true,
            device != nil || network != nil || ledger.grant(reported: item.identity.identifier, to: app) == nil
        else { return nil }
        let accessory = known?.accessory ?? joined?.accessory
        let wanted = item.displayItem(device?.item.map { items[$0].descriptor })
        let offer = Offer(
            id: "\(reported.place.number)", device: device?.content.device, address: device?.content.address,
            adapter: device?.content.adapter, item: device?.item ?? 0, name: accessory?.displayName ?? item.name,
            advertisedName: device?.content.localName ?? network?.ssid.description ?? "", rssi: device?.rssi ?? network?.rssi,
            shared: accessory?.id, needsPairing: device != nil && wanted.descriptor.wantsPairing && accessory?.isBonded != true,
            isBonded: device?.content.isPaired ?? false, identifier: device?.identifier ?? identifier,
            support: wanted.supportWhilePairing, network: network, reported: item.identity)
        return isAllowed(offer, AccessoryCandidate(advertisement: device?.content, network: network)) ? offer : nil
    }

    private func device(_ peripheral: Migration.Peripheral) -> Tracked<Advertisement>? {
        switch peripheral {
        case .identifier(let id): ledger.accessories[id]?.address.flatMap { inRange.devices[$0] }
        case .address(let value):
            [BluetoothAddress.Kind.public, .random].lazy
                .compactMap { inRange.devices[BluetoothAddress(value: value, kind: $0)] }.first { $0.item != nil }
        }
    }

    // MARK: Stored accessories

    private func stored(_ advert: Advertisement) -> (accessory: Accessory, isMine: Bool)? {
        ledger.accessory(at: advert.address).map { ($0, ledger.hasByBluetooth($0.id, app)) }
    }

    /// The stored accessory behind a network. One that this app has in whatever form is the app's.
    private func stored(_ ssid: SSID) -> (accessory: Accessory?, isMine: Bool) {
        (ledger.accessory(ofNetwork: ssid, for: app), ledger.grant(onNetwork: ssid, to: app) != nil)
    }

    /// The network that a descriptor names in full, when it is in range.
    private func network(of descriptor: DiscoveryDescriptor) -> WiFiNetwork? { descriptor.network.flatMap(inRange.network) }

    // MARK: A new descriptor

    /// The offers for an accessory that gets a new descriptor: at once where nothing must be found first, else as soon
    /// as it is in range.
    private func upgrades(of id: AccessoryID) -> [Offer] {
        guard let granted = ledger.granted(id, to: app), let item = items.first else { return [] }
        let (accessory, terms) = (granted.accessory, granted.grant.terms)
        let descriptor = item.descriptor
        if descriptor.wifiAware != nil {
            return inRange.services.values.filter { $0.item != nil }
                .map { offer($0, name: accessory.displayName, shared: id, identifier: id, setup: []) }
        }
        let more = descriptor.supportedOptions.subtracting(terms.descriptor.supportedOptions)
        let needsPairing =
            item.descriptor.wantsPairing && (!accessory.isBonded || !more.isDisjoint(with: [.transportBridging, .hid]))
        let devices = inRange.devices.values.filter {
            // Of an accessory without Bluetooth, a device that is no other accessory's may become the Bluetooth side.
            $0.item != nil
                && (accessory.address.map { [address = $0.content.address] in $0 == address }
                    ?? (ledger.accessory(at: $0.content.address) == nil))
        }.sorted { $0.number < $1.number }
        if descriptor.wantsBluetooth, devices.isEmpty, needsPairing || !terms.hasBluetooth { return [] }
        // A network of which only the beginning is given is picked; one that the accessory has already stays.
        let hasNetwork = !descriptor.wantsWiFi || terms.ssid.map(descriptor.fits) == true
        let found = inRange.networks.values.filter { descriptor.fits($0.content.ssid) }.sorted { $0.number < $1.number }
        if !hasNetwork, found.isEmpty, !descriptor.wantsBluetooth || descriptor.ssid != nil { return [] }
        func upgrade(_ number: Int, _ device: Tracked<Advertisement>?, _ network: WiFiNetwork?) -> Offer {
            let advert = device?.content
            return Offer(
                id: identifier(number, network), device: advert?.device, address: accessory.address ?? advert?.address,
                adapter: accessory.adapter ?? advert?.adapter, item: 0,
                name: accessory.displayName, advertisedName: advert?.localName ?? network?.ssid.description ?? "",
                rssi: device?.rssi ?? network?.rssi, shared: id, needsPairing: descriptor.wantsBluetooth && needsPairing,
                isBonded: advert?.isPaired ?? accessory.isBonded, identifier: id, support: item.supportWhilePairing,
                network: network)
        }
        if !hasNetwork, !descriptor.wantsBluetooth { return found.map { upgrade($0.number, nil, InRange.smoothed($0)) } }
        let network = hasNetwork ? nil : found.count == 1 ? InRange.smoothed(found[0]) : nil
        return devices.isEmpty ? [upgrade(1, nil, network)] : devices.map { upgrade($0.number, $0, network) }
    }

    // MARK: Discoveries

    /// The discovery that a match is for the app; nil for an accessory that the app has, or that has left the range.
    func discovery(of key: TrackedKey) -> DiscoveredAccessory? {
        switch key {
        case .device(let address):
            guard let device = inRange.devices.values.first(where: { $0.content.address == address }),
                let item = device.item, !items[item].descriptor.isKind, stored(device.content)?.isMine != true
            else { return nil }
            return DiscoveredAccessory(
                identifier: device.identifier, item: items[item], advertisement: device.content,
                network: network(of: items[item].descriptor), rssi: device.rssi)
        case .network(let ssid):
            guard let network = inRange.networks[ssid], let item = network.item, !stored(ssid).isMine else { return nil }
            return DiscoveredAccessory(
                identifier: network.identifier, item: items[item], advertisement: nil, network: InRange.smoothed(network),
                rssi: network.rssi)
        case .service(let peer):
            return inRange.services[peer].flatMap { service in
                service.item.map {
                    DiscoveredAccessory(
                        identifier: service.identifier, item: items[$0], advertisement: nil, rssi: service.content.rssi)
                }
            }
        case .kind: return nil
        }
    }
}

extension DiscoveryDescriptor {
    /// Whether its accessories are paired.
    fileprivate var wantsPairing: Bool { !supportedOptions.isDisjoint(with: [.pairingLE, .transportBridging, .hid]) }
}

extension DisplayItem {
    /// Sides that are paired together with the accessory. The classic side waits for an app that confirms, as the app
    /// may have the address.
    fileprivate var supportWhilePairing: SupportOptions {
        setupOptions.contains(.confirmAuthorization)
            ? descriptor.supportedOptions.subtracting(.transportBridging) : descriptor.supportedOptions
    }
}

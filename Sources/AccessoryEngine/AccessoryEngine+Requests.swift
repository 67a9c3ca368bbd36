// Requests that involve a person: registered picker programs, and what apps ask of them. What can be refused is refused before
// anything changes.

internal import AccessoryCore
public import AccessoryModel
internal import Logging

extension AccessoryEngine {
    // MARK: Picker programs

    /// - Throws: `InvalidRequest` past `Limits.pickers`.
    public func registerPicker(_ client: ClientID) throws(SetupError) {
        guard !pickerClients.contains(client) else { return }
        guard pickerClients.count < Limits.pickers else {
            throw .invalid("RegisterPicker", client, "\(Limits.pickers) pickers are registered already")
        }
        pickerClients.append(client)
        log.info("picker registered", metadata: ["client": "\(client)"])
        if pickerClients.count == 1 { observer?.pickerAvailabilityChanged() }
    }

    public func unregisterPicker(_ client: ClientID) {
        guard let index = pickerClients.firstIndex(of: client) else { return }
        pickerClients.remove(at: index)
        log.info("picker unregistered", metadata: ["client": "\(client)"])
        if let picker, picker.client == client {
            if let next = pickerClients.first {
                picker.client = next
                log.info("picker taken over", metadata: ["picker": "\(picker.id)", "client": "\(next)"])
                observer?.pickerAssigned(picker, to: next)
            } else {
                feed(.pickerGone)
            }
        }
        if pickerClients.isEmpty { observer?.pickerAvailabilityChanged() }
    }

    // MARK: What apps ask for

    /// Has the radio look at its devices anew, before a request that speaks of devices which other programs may have paired.
    public func refreshBonds(_ completion: @escaping () -> Void) { radio.refresh(completion) }

    /// Asks for a picker that finds accessories, takes known ones over, or both.
    ///
    /// - Parameter accepted: called with the run between the checks and the first event.
    public func showPicker(
        _ session: Session, items: [DisplayItem], settings: PickerSettings, accepted: (PickerRun) -> Void = { _ in }
    ) throws(SetupError) {
        let request = "ShowPicker"
        guard session.state == .active else { throw wrongState(session, request) }
        guard !items.isEmpty else { throw SetupError(.invalidRequest, "items: is empty") }
        for item in items { try check(item.descriptor, session) }
        let client = try freePicker(session, request)
        try needRadios(items.map(\.descriptor), request)
        var targets: [PickerRun.MigrationTarget] = []
        for (index, item) in items.enumerated() {
            guard let migration = item.migration else { continue }
            targets.append(try target(of: migration, item, session.app.id, "items[\(index)]", number: targets.count + 1))
        }
        let found = items.filter { $0.migration == nil }
        let purpose: SetupMachine.Purpose =
            found.isEmpty
            ? .migration(targets.map(\.offer))
            : .discovery(isBounded: settings.discoveryTimeout != nil, migrates: !targets.isEmpty)
        open(
            PickerRun(
                id: nextPicker(), session: session, request: found.isEmpty ? .migration : .discovery, purpose: purpose,
                items: found,
                migrations: targets, settings: settings, client: client, nearness: configuration.nearness),
            accepted)
    }

    /// Shows accessories that the app has looked at (rule 9).
    public func updatePicker(_ session: Session, items: [DiscoveredItem]) throws(SetupError) {
        let run = try discoveryRun(of: session, "UpdatePicker")
        guard run.settings.filtersDiscoveryResults else {
            throw SetupError(.invalidRequest, "UpdatePicker: the picker was shown without filterDiscoveryResults")
        }
        guard !items.isEmpty else { throw SetupError(.invalidRequest, "items: is empty") }
        for (index, item) in items.enumerated() where !run.isDisclosed(item.identifier) {
            throw .invalid("items[\(index)].identifier", item.identifier, "was not discovered in this picker")
        }
        let bytes = run.imageBytes(with: items)
        guard bytes <= Limits.imageBytesPerPicker else {
            throw .invalid("items", "\(bytes) bytes of images in this picker", "more than \(Limits.imageBytesPerPicker)")
        }
        run.show(items)
        refreshOffers()
    }

    /// Ends a discovery that has offered nothing (rule 8).
    ///
    /// - Parameter accepted: called between the checks and the first event.
    public func finishPickerDiscovery(_ session: Session, accepted: () -> Void = {}) throws(SetupError) {
        _ = try discoveryRun(of: session, "FinishPickerDiscovery")
        accepted()
        feed(.discoveryFinished)
    }

    /// Has the person rename an accessory of the app's.
    public func renameAccessory(
        _ session: Session, _ id: AccessoryID, options: RenameOptions, accepted: (PickerRun) -> Void = { _ in }
    ) throws(SetupError) {
        let request = "RenameAccessory"
        let accessory = try accessory(id, of: session, request)
        if options.contains(.ssid), accessory.ssid == nil {
            throw .invalid("options.renameOptions", "ssid", "the accessory has no network")
        }
        let network = options.contains(.ssid) ? accessory.ssid : nil
        let client = try freePicker(session, request)
        let offer = Offer(
            id: "1", device: device(of: accessory) ?? RadioDeviceID(""), address: accessory.address, item: 0,
            name: accessory.displayName, advertisedName: "", rssi: nil, shared: id, needsPairing: false,
            isBonded: accessory.isBonded, identifier: id,
            network: network.map { WiFiNetwork(ssid: $0, rssi: nil, security: nil, band: nil) })
        open(
            PickerRun(
                id: nextPicker(), session: session, request: .rename(id), purpose: .rename(id, offer), client: client,
                renamesNetwork: network != nil,
                nearness: configuration.nearness),
            accepted)
    }

    /// Has the person give an accessory of the app's what a new descriptor asks for.
    public func updateAuthorization(
        _ session: Session, _ id: AccessoryID, descriptor: DiscoveryDescriptor, accepted: (PickerRun) -> Void = { _ in }
    ) throws(SetupError) {
        let request = "UpdateAuthorization"
        let accessory = try accessory(id, of: session, request)
        try check(descriptor, session)
        var updated = accessory
        updated.descriptor = descriptor
        updated.traits.formUnion(Accessory.Traits(accessory.descriptor))
        if let denial = policy.denial(of: accessory, to: session.app.id) ?? policy.denial(of: updated, to: session.app.id) {
            throw SetupError(.userRestricted, "\(request): rule \(denial.name) in \(denial.source) denies it")
        }
        let client = try freePicker(session, request)
        try needRadios([descriptor], request)
        let settings = PickerSettings()
        open(
            PickerRun(
                id: nextPicker(), session: session, request: .authorization(id),
                purpose: .authorization(isBounded: settings.discoveryTimeout != nil),
                items: [DisplayItem(name: accessory.displayName, image: accessory.image, descriptor: descriptor)],
                settings: settings, client: client, nearness: configuration.nearness),
            accepted)
        refreshOffers()
    }

    // MARK: Checks

    private func check(_ descriptor: DiscoveryDescriptor, _ session: Session) throws(SetupError) {
        try DescriptorRules.check(descriptor)
        try DescriptorRules.check(descriptor, declaredBy: session.app)
    }

    /// The picker program for a new run (rule 7).
    private func freePicker(_ session: Session, _ request: String) throws(SetupError) -> ClientID {
        if let picker {
            throw SetupError(
                .pickerAlreadyActive,
                picker.session === session
                    ? "\(request): this session shows a picker already" : "\(request): another app shows a picker")
        }
        if let refusal = policy.refusal(of: session.app.id) { throw SetupError(.userRestricted, "\(request): \(refusal)") }
        guard let client = pickerClients.first else {
            if request == "ShowPicker", policy.approves(session.app.id) { return .policy }
            throw SetupError(.pickerRestricted, "\(request): no picker program is registered (accessoryctl picker is one)")
        }
        return client
    }

    /// At least one of these must be able to be found.
    private func needRadios(_ descriptors: [DiscoveryDescriptor], _ request: String) throws(SetupError) {
        for aware in descriptors.compactMap(\.wifiAware) {
            guard let obstacle = networks.awareObstacle else { continue }
            throw .invalid("wifiAwareServiceName", aware.serviceName ?? "", obstacle)
        }
        let obstacles = descriptors.map(obstacle)
        guard !obstacles.contains(nil), let first = obstacles.first, let first else { return }
        throw SetupError(.pickerRestricted, "\(request): \(first)")
    }

    /// Why an accessory like this cannot be found now.
    func obstacle(to descriptor: DiscoveryDescriptor) -> String? {
        let states = [Technology.bluetooth: radio.state, .wifi: networks.state]
        for technology in [Technology.bluetooth, .wifi] where descriptor.technologies.contains(technology) {
            switch (states[technology], technology) {
            case (.ready, _), (nil, _): continue
            case (.off, _): return "\(technology.name) is off"
            case (.absent, .bluetooth): return "there is no Bluetooth adapter or service"
            case (.absent, .wifi): return "there is no Wi-Fi interface or service (NetworkManager, iwd or wpa_supplicant)"
            }
        }
        return nil
    }

    private func accessory(_ id: AccessoryID, of session: Session, _ request: String) throws(SetupError) -> Accessory {
        guard session.state == .active else { throw wrongState(session, request) }
        guard ledger.grant(of: id, to: session.app.id) != nil, let accessory = ledger.accessories[id] else {
            throw .invalid("accessory", id, "is not an accessory of \(session.app.id)")
        }
        return accessory
    }

    private func discoveryRun(of session: Session, _ request: String) throws(SetupError) -> PickerRun {
        guard session.state == .active else { throw wrongState(session, request) }
        guard let picker, picker.session === session, picker.request == .discovery else {
            throw SetupError(.invalidRequest, "\(request): this session shows no picker that discovers")
        }
        return picker
    }

    /// The accessory that a migration item means: the radio must have a bond with it; a network is taken at its name.
    private func target(
        of migration: Migration, _ item: DisplayItem, _ app: AppID, _ context: String, number: Int
    ) throws(SetupError) -> PickerRun.MigrationTarget {
        let bond = try migration.peripheral.map { peripheral throws(SetupError) in
            try self.bond(with: peripheral, item.descriptor, app, context)
        }
        if let ssid = migration.hotspotSSID, item.descriptor.wantsWiFi, !item.descriptor.fits(ssid) {
            throw .invalid("\(context).hotspotSSID", ssid, "does not fit the ssid or ssidPrefix of the item's descriptor")
        }
        var known = bond.flatMap { ledger.accessory(at: $0.address) } ?? migration.hotspotSSID.flatMap(ledger.accessory(ofNetwork:))
        if let number = migration.wifiAwarePairedDeviceID {
            known = ledger.accessory(awareDevice: number)
            if known == nil {
                throw .invalid("\(context).wifiAwarePairedDeviceID", number, "no device was paired under this number")
            }
        }
        guard bond != nil || migration.hotspotSSID != nil || known != nil else {
            throw SetupError(.invalidRequest, "\(context): names no accessory")
        }
        if let known, ledger.grant(of: known.id, to: app)?.isEnabled == false {
            let key =
                migration.peripheral != nil
                ? "peripheralIdentifier" : migration.hotspotSSID != nil ? "hotspotSSID" : "wifiAwarePairedDeviceID"
            let value =
                migration.peripheral?.description ?? migration.hotspotSSID?.description
                ?? "\(migration.wifiAwarePairedDeviceID ?? 0)"
            throw SetupError(
                .userRestricted, "\(context).\(key): \(value): an admin has switched this accessory off for \(app)")
        }
        let network = migration.hotspotSSID.map { WiFiNetwork(ssid: $0, rssi: nil, security: nil, band: nil) }
        if let network, let denial = policy.denial(of: Sighting(network: network), to: app) {
            throw SetupError(
                .userRestricted,
                "\(context).hotspotSSID: \(network.ssid): rule \(denial.name) in \(denial.source) denies it to \(app)")
        }
        let offer = Offer(
            id: "m\(number)", device: bond?.device ?? RadioDeviceID(""), address: bond?.address, item: 0,
            name: known?.displayName ?? item.name, advertisedName: bond?.name ?? network?.ssid.description ?? "", rssi: nil,
            shared: known?.id, needsPairing: false, isBonded: bond != nil, identifier: .random(), network: network)
        return PickerRun.MigrationTarget(
            offer: offer, item: item, sighting: Sighting(advertisement: bond?.advertisement, network: network))
    }

    /// The bond that a migration means: with a device that is what the item's descriptor looks for, by what the radio knows of it
    /// (what it does not know does not match), and that no rule denies.
    ///
    /// - Throws: `InvalidRequest`, the same in all cases: an app does not learn with what this machine is paired.
    private func bond(
        with peripheral: Migration.Peripheral, _ descriptor: DiscoveryDescriptor, _ app: AppID, _ context: String
    ) throws(SetupError) -> RadioBond {
        var wanted = descriptor
        // Where it is now says nothing of what it is.
        wanted.range = .default
        let bond: RadioBond? =
            switch peripheral {
            case .address(let value): radio.bonds.first { $0.address.value == value }
            case .identifier(let id):
                ledger.accessories[id]?.address.flatMap { address in radio.bonds.first { $0.address == address } }
            }
        guard let bond,
            Matcher.exclusions(
                of: bond.advertisement, from: wanted, smoothedRSSI: nil, networks: Set([wanted.network].compactMap(\.self))
            ).isEmpty,
            policy.denial(of: Sighting(advertisement: bond.advertisement), to: app) == nil
        else {
            throw .invalid("\(context).peripheralIdentifier", peripheral, "Bluetooth knows no paired device like this")
        }
        return bond
    }

    // MARK: Opening

    private func nextPicker() -> Int {
        pickersMade += 1
        return pickersMade
    }

    private func open(_ run: PickerRun, _ accepted: (PickerRun) -> Void) {
        picker = run
        audit(
            .pickerShown, app: run.session.app.id, by: asApp(run.session),
            why:
                "\(run.request.kind), picker \(run.id), shown by \(run.client == .policy ? "nobody: the policy approves" : describeClient(run.client))"
        )
        log.info(
            "picker accepted",
            metadata: [
                "picker": "\(run.id)", "app": "\(run.session.app.id)", "kind": "\(run.request.kind)", "items": "\(run.items.count)",
            ])
        accepted(run)
        // Told once it is complete, with its offers and its deadline; one that has ended meanwhile was never there.
        feed(.begin)
        if picker === run { observer?.pickerOpened(run) }
    }
}

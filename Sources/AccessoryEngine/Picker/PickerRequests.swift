// SPDX-License-Identifier: Apache-2.0
// The checks of descriptors, radios and migrations that `PickerCoordinator` makes before anything changes.

internal import AccessoryCore
internal import AccessoryModel

struct PickerRequests {
    let services: EngineServices

    private var registry: GrantRegistry { services.registry }

    /// - Parameter context: where in the request the item stands.
    /// - Throws: `InvalidRequest` as for its descriptor, and for a kind that is to be migrated or confirmed.
    func check(_ item: DisplayItem, _ session: Session, at context: String) throws(SetupError) {
        try check(item.descriptor, session, at: "\(context).descriptor")
        let (key, value) = ("\(context).descriptor.access", item.descriptor.access.word.rawValue)
        if item.descriptor.access != .full, item.migration?.hotspotSSID != nil {
            throw .invalid(key, value, "cannot be combined with hotspotSSID")
        }
        guard item.descriptor.isKind else { return }
        if item.migration != nil { throw .invalid(key, value, "a migration is of one accessory") }
        if item.setupOptions.contains(.confirmAuthorization) {
            throw .invalid(key, value, "cannot be combined with confirmAuthorization")
        }
    }

    /// - Parameter context: where in the request the descriptor stands.
    /// - Throws: `InvalidRequest` for a descriptor that is not valid, or that the app has not declared.
    func check(_ descriptor: DiscoveryDescriptor, _ session: Session, at context: String) throws(SetupError) {
        do throws(SetupError) {
            try DescriptorRules.check(descriptor)
            guard let manifest = registry.manifests[session.app.id] else {
                throw SetupError(.activationFailed, "\(session.app.id) no longer has a manifest")
            }
            try DescriptorRules.check(descriptor, declaredBy: manifest)
        } catch {
            throw SetupError(error.code, "\(context).\(error.message)")
        }
    }

    /// The radios must be able to find at least one descriptor.
    func needRadios(_ descriptors: [DiscoveryDescriptor], _ request: String) throws(SetupError) {
        for aware in descriptors.compactMap(\.wifiAware) {
            guard let obstacle = services.networkRadio.awareObstacle else { continue }
            throw .invalid("wifiAwareServiceName", aware.serviceName ?? "", obstacle)
        }
        let obstacles = descriptors.map(obstacle)
        guard !obstacles.contains(nil), let first = obstacles.first, let first else { return }
        throw SetupError(.pickerRestricted, "\(request): \(first)")
    }

    /// Why an accessory like this cannot be found now.
    func obstacle(to descriptor: DiscoveryDescriptor) -> String? {
        let states = [Technology.bluetooth: services.radio.state, .wifi: services.networkRadio.state]
        for technology in [Technology.bluetooth, .wifi] where descriptor.technologies.contains(technology) {
            switch (states[technology], technology) {
            case (.ready, _), (nil, _): continue
            case (.off, _): return "\(technology.name) is off"
            case (.absent, .bluetooth): return "no Bluetooth adapter or service is available"
            case (.absent, .wifi): return "no Wi-Fi interface or service (NetworkManager, iwd or wpa_supplicant) is available"
            }
        }
        return nil
    }

    /// - Throws: `InvalidRequest` for a grant that does not end, or that more time does not help.
    static func checkRenewal(of grant: Grant) throws(SetupError) {
        let id = grant.accessory
        guard grant.terms.time != .none || grant.state == .unauthorized else {
            throw .invalid("accessory", id, "its grant does not end")
        }
        guard grant.state != .unauthorized || grant.terms.time.hasEnded else {
            throw .invalid("accessory", id, "has lost its pairing: ask for it with ShowPicker")
        }
    }

    /// An accessory of the app's as an offer, for the person to give its grant more time.
    func renewal(of id: AccessoryID, for session: Session, _ request: String) throws(SetupError) -> Offer {
        let granted = try accessory(id, of: session, request)
        try Self.checkRenewal(of: granted.grant)
        if let denial = registry.policy.denial(of: granted) {
            throw SetupError(.userRestricted, "\(request): rule \(denial.name) in \(denial.source) denies it")
        }
        return offer(of: granted, network: granted.grant.terms.ssid)
    }

    /// An accessory of the app's as an offer, for the person to give it another name; with its network, where that is
    /// renamed too.
    func renaming(
        _ id: AccessoryID, of session: Session, _ options: RenameOptions, _ request: String
    ) throws(SetupError) -> Offer {
        let granted = try accessory(id, of: session, request)
        let network = options.contains(.ssid) ? granted.grant.terms.ssid : nil
        if options.contains(.ssid), network == nil {
            throw .invalid("options.renameOptions", "ssid", "the accessory has no network")
        }
        return offer(of: granted, network: network)
    }

    private func offer(of granted: GrantedAccessory, network: SSID?) -> Offer {
        let accessory = granted.accessory
        return Offer(
            id: "1", device: accessory.peer.flatMap { services.radio.device(for: $0) }, address: accessory.address,
            adapter: accessory.adapter, item: 0, name: accessory.displayName, advertisedName: "", rssi: nil, shared: accessory.id,
            needsPairing: false, isBonded: accessory.isBonded, identifier: accessory.id,
            network: network.map { WiFiNetwork(ssid: $0, rssi: nil, security: nil, band: nil) })
    }

    /// An accessory of the app's that may get a new descriptor: no rule denies it, as it is or as it would be.
    func updating(
        _ id: AccessoryID, of session: Session, to descriptor: DiscoveryDescriptor, _ request: String
    ) throws(SetupError) -> Accessory {
        let granted = try accessory(id, of: session, request)
        try check(descriptor, session, at: "descriptor")
        guard !granted.grant.terms.time.hasEnded else {
            throw .invalid("accessory", id, "its grant has ended: renew it with RenewAccess")
        }
        guard !descriptor.isKind, !granted.grant.terms.descriptor.isKind else {
            throw .invalid("descriptor.access", "hear", "a kind is not updated: remove it, and ask for another one")
        }
        var updated = granted
        updated.grant.terms.describe(by: descriptor, network: nil)
        if let denial = registry.policy.denial(of: granted) ?? registry.policy.denial(of: updated) {
            throw SetupError(.userRestricted, "\(request): rule \(denial.name) in \(denial.source) denies it")
        }
        return granted.accessory
    }

    /// An accessory of the app's.
    private func accessory(_ id: AccessoryID, of session: Session, _ request: String) throws(SetupError) -> GrantedAccessory {
        guard session.state == .active else { throw session.wrongState(request) }
        guard let granted = registry.ledger.granted(id, to: session.app.id) else {
            throw .invalid("accessory", id, "is not an accessory of \(session.app.id)")
        }
        return granted
    }

    /// The accessories of migration items, and the errors for items that cannot be migrated.
    ///
    /// - Throws: the first error where no item is left to be shown.
    func migrations(in items: [DisplayItem], _ app: AppID) throws(SetupError) -> PickerRun.Migrations {
        var migrations = PickerRun.Migrations()
        for (index, item) in items.enumerated() {
            guard let migration = item.migration else { continue }
            do throws(SetupError) {
                let number = migrations.targets.count + 1
                migrations.targets.append(try target(of: migration, item, app, "items[\(index)]", number: number))
            } catch {
                migrations.refused.append(error)
            }
        }
        if migrations.refused.count == items.count, let first = migrations.refused.first { throw first }
        return migrations
    }

    /// The accessory that a migration item means: the radio must have a bond with it; a network is taken at its name.
    private func target(
        of migration: Migration, _ item: DisplayItem, _ app: AppID, _ context: String, number: Int
    ) throws(SetupError) -> PickerRun.MigrationTarget {
        let bond = try migration.peripheral.map { peripheral throws(SetupError) in
            try self.bond(with: peripheral, item.descriptor, app, context)
        }
        if let ssid = migration.hotspotSSID, item.descriptor.wantsWiFi, !item.descriptor.fits(ssid) {
            throw .invalid("\(context).hotspotSSID", ssid, "does not match the ssid or ssidPrefix of the item's descriptor")
        }
        if let ssid = migration.hotspotSSID, let manifest = registry.manifests[app] {
            do throws(SetupError) {
                try DescriptorRules.check(ssid, declaredBy: manifest)
            } catch {
                throw SetupError(error.code, "\(context).hotspotSSID: \(error.message)")
            }
        }
        var accessory =
            bond.flatMap { registry.ledger.accessory(at: $0.address) }
            ?? migration.hotspotSSID.flatMap { registry.ledger.accessory(ofNetwork: $0, for: app) }
        if let number = migration.wifiAwarePairedDeviceID {
            accessory = registry.ledger.grant(awareDevice: number).flatMap { registry.ledger.accessories[$0.accessory] }
            if accessory == nil {
                throw .invalid("\(context).wifiAwarePairedDeviceID", number, "no device was paired with this identifier")
            }
            if let bond, accessory?.address != bond.address {
                throw .invalid("\(context).wifiAwarePairedDeviceID", number, "is not the device of peripheralIdentifier")
            }
        }
        guard bond != nil || migration.hotspotSSID != nil || accessory != nil else {
            throw SetupError(.invalidRequest, "\(context): names no accessory")
        }
        if let accessory, registry.ledger.grant(of: accessory.id, to: app)?.isEnabled == false {
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
        if let network, let denial = registry.policy.denial(of: AccessoryCandidate(network: network), to: app) {
            throw SetupError(
                .userRestricted,
                "\(context).hotspotSSID: \(network.ssid): rule \(denial.name) in \(denial.source) denies it to \(app)")
        }
        let evidence = bond.map { Matcher.evidence(of: $0.advertisement, for: item.descriptor) } ?? .fits
        var name = accessory?.displayName ?? item.name
        // The person has nothing else to decide by.
        if let bond, evidence == .missing { name += " (“\(bond.name)”, \(bond.address))" }
        let offer = Offer(
            id: "m\(number)", device: bond?.device, address: bond?.address, adapter: bond?.adapter, item: 0,
            name: name, advertisedName: bond?.name ?? network?.ssid.description ?? "", rssi: nil,
            shared: accessory?.id, needsPairing: false, isBonded: bond != nil, identifier: .random(), network: network)
        return PickerRun.MigrationTarget(
            offer, item, AccessoryCandidate(advertisement: bond?.advertisement, network: network), evidence)
    }

    /// The bond that a migration means: with a device that does not contradict the item's descriptor, and that no rule
    /// denies.
    ///
    /// - Throws: `InvalidRequest`, the same in all cases: the error must not disclose the machine's pairings.
    private func bond(
        with peripheral: Migration.Peripheral, _ descriptor: DiscoveryDescriptor, _ app: AppID, _ context: String
    ) throws(SetupError) -> RadioBond {
        let bond: RadioBond? =
            switch peripheral {
            case .address(let value): services.radio.bonds.first { $0.address.value == value }
            case .identifier(let id):
                registry.ledger.accessories[id]?.peer.flatMap { services.radio.bond(with: $0) }
            }
        guard let bond, Matcher.evidence(of: bond.advertisement, for: descriptor) != .contradicts,
            registry.policy.denial(of: AccessoryCandidate(advertisement: bond.advertisement), to: app) == nil
        else {
            throw .invalid("\(context).peripheralIdentifier", peripheral, "Bluetooth has no such paired device")
        }
        return bond
    }
}

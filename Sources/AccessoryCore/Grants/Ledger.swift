// SPDX-License-Identifier: Apache-2.0
// Accessories and grants as a value: it says what a request would change, and takes the change over once the store has
// it.

public import AccessoryModel

/// What is set up, and for whom.
public struct Ledger: Hashable, Sendable {
    /// One step of a change; all steps of a change go into the store together or not at all.
    public enum Step: Hashable, Sendable {
        /// A new accessory, or a stored one as it is from now on.
        case put(Accessory)
        /// The accessory; its grants go by steps of their own.
        case delete(AccessoryID)
        /// A new grant, or a stored one as it is from now on.
        case grant(Grant)
        /// The grant with this number.
        case revoke(Int64)
    }

    /// All accessories that are set up.
    public private(set) var accessories: [AccessoryID: Accessory] = [:]
    /// All grants by their numbers, those that are switched off or wait for the app too.
    public private(set) var grants: [Int64: Grant] = [:]

    // Derived from the two above, so that a question costs the same with ten accessories and with ten thousand.
    private var grantsByAccessory: [AccessoryID: Set<Int64>] = [:]
    private var grantsByApp: [AppID: Set<Int64>] = [:]
    private var byAddress: [UInt64: Set<AccessoryID>] = [:]
    private var byNetwork: [SSID: Set<AccessoryID>] = [:]

    /// What the store holds; grants are for accessories that are among the others.
    public init(accessories: [Accessory] = [], grants: [Grant] = []) {
        for accessory in accessories { put(accessory) }
        for grant in grants { put(grant) }
    }

    /// Applies steps that the store has accepted, in their order. A step that takes away what is not there does
    /// nothing.
    public mutating func apply(_ steps: [Step]) {
        for step in steps {
            switch step {
            case .put(let accessory): put(accessory)
            case .delete(let id): delete(id)
            case .grant(let grant): put(grant)
            case .revoke(let id): revoke(id)
            }
        }
    }

    private mutating func put(_ accessory: Accessory) {
        delete(accessory.id)
        accessories[accessory.id] = accessory
        for address in accessory.addresses { byAddress[address, default: []].insert(accessory.id) }
        if let ssid = accessory.ssid { byNetwork[ssid, default: []].insert(accessory.id) }
    }

    private mutating func delete(_ id: AccessoryID) {
        guard let accessory = accessories.removeValue(forKey: id) else { return }
        for address in accessory.addresses { byAddress.remove(id, under: address) }
        if let ssid = accessory.ssid { byNetwork.remove(id, under: ssid) }
    }

    private mutating func put(_ grant: Grant) {
        grants[grant.id] = grant
        grantsByAccessory[grant.accessory, default: []].insert(grant.id)
        grantsByApp[grant.app, default: []].insert(grant.id)
    }

    private mutating func revoke(_ id: Int64) {
        guard let grant = grants.removeValue(forKey: id) else { return }
        grantsByAccessory.remove(id, under: grant.accessory)
        grantsByApp.remove(id, under: grant.app)
    }

    // MARK: Questions

    /// The accessory with this identity address, of the same kind (public or random); nil for its classic side.
    public func accessory(at address: BluetoothAddress) -> Accessory? {
        accessories(valued: address).first { $0.address == address }
    }

    /// What a radio says of a device, and by which service it was set up here. An accessory that was connected once may
    /// advertise services that it has not: BlueZ tells only of those that it has from then on.
    public func recalling(_ advertisement: Advertisement) -> Advertisement {
        guard let service = accessory(at: advertisement.address)?.descriptor.serviceUUID else { return advertisement }
        var recalled = advertisement
        recalled.serviceUUIDs.insert(service)
        return recalled
    }

    /// Another accessory one of whose sides has this address.
    public func accessory(withSide address: BluetoothAddress, besides other: AccessoryID) -> Accessory? {
        accessories(valued: address).first { $0.id != other }
    }

    /// Those with an address of this value, of whichever side.
    private func accessories(valued address: BluetoothAddress) -> [Accessory] {
        byAddress[address.value, default: []].sorted().compactMap { accessories[$0] }
    }

    private func accessories(with ssid: SSID) -> [Accessory] {
        byNetwork[ssid, default: []].sorted().compactMap { accessories[$0] }
    }

    /// The accessory with Wi-Fi only whose network has this name. One that has Bluetooth too is known by that: whoever
    /// has its network's name does not get the rest of it.
    public func accessory(ofNetwork ssid: SSID) -> Accessory? {
        accessories(with: ssid).first { $0.address == nil }
    }

    /// Whether a network is part of an accessory that an app has, in whatever form.
    public func hasNetwork(_ ssid: SSID, _ app: AppID) -> Bool {
        accessories(with: ssid).contains { grant(of: $0.id, to: app) != nil }
    }

    /// The accessory with this number as a Wi-Fi Aware device; nil when none has it.
    public func accessory(awareDevice: UInt64) -> Accessory? {
        accessories.values.first { $0.awareDevice == awareDevice }
    }

    /// Whether an accessory depends on a bond with this device, on either side, made by any program.
    public func holdsBond(with peer: BluetoothPeer) -> Bool {
        let value = peer.address.value
        return accessories(valued: peer.address).contains {
            peer.shares($0.adapter) && ($0.isBonded && $0.address?.value == value || $0.classicAddress?.value == value)
        }
    }

    /// Whether the bond behind a pairing is of our making: made now, or for another accessory, whose other side this
    /// is.
    private func isOurs(_ identity: PairedIdentity) -> Bool {
        !identity.wasPairedBefore
            || accessories(valued: identity.address).contains { accessory in
                identity.peer.shares(accessory.adapter)
                    && accessory.bonds.contains { $0.address.value == identity.address.value }
            }
    }

    /// Whether an accessory is somebody else's, too: what it is for all of them is not for one app to change.
    private func isShared(_ accessory: AccessoryID, besides app: AppID) -> Bool {
        grantsByAccessory[accessory, default: []].contains { grants[$0]?.app != app }
    }

    /// The app's grant on an accessory, whatever its state and the admin's switch; nil when it has none.
    public func grant(of accessory: AccessoryID, to app: AppID) -> Grant? {
        let (ofAccessory, ofApp) = (grantsByAccessory[accessory, default: []], grantsByApp[app, default: []])
        let (fewer, more) = ofAccessory.count < ofApp.count ? (ofAccessory, ofApp) : (ofApp, ofAccessory)
        return fewer.first { more.contains($0) }.flatMap { grants[$0] }
    }

    /// Whether the app has a grant on an accessory that stands: one whose accessory has lost its bond does not.
    public func hasStandingGrant(of accessory: AccessoryID, to app: AppID) -> Bool {
        grant(of: accessory, to: app).map { $0.state != .unauthorized } ?? false
    }

    /// All grants on an accessory, the oldest first.
    public func grants(of accessory: AccessoryID) -> [Grant] {
        grantsByAccessory[accessory, default: []].sorted().compactMap { grants[$0] }
    }

    /// What an app may see: accessories with a grant that an admin has not switched off.
    public func accessories(of app: AppID) -> [Accessory] {
        grantsByApp[app, default: []].compactMap { grants[$0] }.filter(\.isEnabled).compactMap { accessories[$0.accessory] }
            .sorted { $0.id < $1.id }
    }

    // MARK: Changes

    /// A new grant for what a person picked: on the stored accessory when there is one, else on a new one.
    ///
    /// - Parameters:
    ///   - identity: who it turned out to be; nil when it was not paired.
    ///   - name: what the person calls it; nil for the item's name.
    ///   - awareDevice: our number for it, where it was found by Wi-Fi Aware.
    ///   - traits: what it advertised.
    public func adding(
        _ offer: Offer, item: DisplayItem, identity: PairedIdentity?, name: String? = nil, awareDevice: UInt64? = nil,
        traits: Accessory.Traits = Accessory.Traits(), to app: AppID, grantID: Int64, now: Int64
    ) -> (steps: [Step], accessory: AccessoryID) {
        let address = identity?.address ?? offer.address
        // An accessory keeps its identity while its address changes: the stored one is found by the identity address
        // too.
        var accessory =
            offer.shared.flatMap { accessories[$0] } ?? address.flatMap { self.accessory(at: $0) }
            ?? Accessory(
                id: offer.identifier, displayName: name ?? item.name, address: address,
                adapter: address == nil ? nil : offer.adapter, isBonded: false, descriptor: item.descriptor, image: item.image,
                created: now)
        if let identity { accessory.bind(identity, isOurs: isOurs(identity)) }
        if !isShared(accessory.id, besides: app) { accessory.ssid = accessory.ssid ?? offer.network?.ssid }
        accessory.awareDevice = accessory.awareDevice ?? awareDevice
        accessory.traits.formUnion(traits)
        accessory.traits.formUnion(Accessory.Traits(item.descriptor))
        var steps: [Step] = accessories[accessory.id] == accessory ? [] : [.put(accessory)]
        let state: AuthorizationState = item.setupOptions.contains(.confirmAuthorization) ? .awaitingAuthorization : .authorized
        if var grant = grant(of: accessory.id, to: app) {
            // Paired again.
            if grant.state == .unauthorized {
                grant.state = state
                steps.append(.grant(grant))
            }
        } else {
            steps.append(.grant(Grant(id: grantID, app: app, accessory: accessory.id, state: state, created: now)))
        }
        return (steps, accessory.id)
    }

    /// What a new descriptor, and a pairing that it asked for, make of an accessory.
    public func upgrading(
        _ accessory: Accessory, to descriptor: DiscoveryDescriptor, offer: Offer, identity: PairedIdentity?,
        awareDevice: UInt64? = nil, traits: Accessory.Traits = Accessory.Traits(), for app: AppID
    ) -> [Step] {
        var changed = accessory
        changed.traits.formUnion(Accessory.Traits(accessory.descriptor))
        changed.traits.formUnion(Accessory.Traits(descriptor))
        changed.traits.formUnion(traits)
        changed.descriptor = descriptor
        if changed.address == nil { (changed.address, changed.adapter) = (offer.address, offer.adapter) }
        if let identity { changed.bind(identity, isOurs: isOurs(identity)) }
        if changed.ssid == nil || !isShared(accessory.id, besides: app) { changed.ssid = offer.network?.ssid ?? changed.ssid }
        changed.awareDevice = changed.awareDevice ?? awareDevice
        return changed == accessory ? [] : [.put(changed)]
    }

    /// - Parameter network: the network's new name, where that changes too.
    public func renaming(_ accessory: Accessory, to name: String, network: SSID? = nil) -> [Step] {
        var changed = accessory
        changed.displayName = name
        changed.ssid = network ?? accessory.ssid
        return changed == accessory ? [] : [.put(changed)]
    }

    /// The app has confirmed an accessory.
    ///
    /// - Parameter ownsClassicBond: whether the classic side was bonded for this.
    public func authorizing(_ grant: Grant, settings: AuthorizationSettings, ownsClassicBond: Bool = false) -> [Step] {
        var steps: [Step] = []
        if let accessory = accessories[grant.accessory] {
            var changed = accessory
            if accessory.ssid == nil || !isShared(accessory.id, besides: grant.app) {
                changed.ssid = settings.ssid ?? accessory.ssid
            }
            if let classic = settings.bridgingAddress { changed.bind(classic: classic, isOurs: ownsClassicBond) }
            if changed != accessory { steps.append(.put(changed)) }
        }
        var authorized = grant
        authorized.state = .authorized
        return steps + [.grant(authorized)]
    }

    /// Takes a grant away; with the last one the accessory goes, and the bonds that are to be removed are named.
    public func revoking(_ grant: Grant) -> (steps: [Step], bonds: [BluetoothPeer]) {
        let others = grants(of: grant.accessory).filter { $0.id != grant.id }
        guard others.isEmpty else { return ([.revoke(grant.id)], []) }
        return ([.revoke(grant.id), .delete(grant.accessory)], accessories[grant.accessory]?.bonds ?? [])
    }

    /// An accessory has lost its bond, or is to lose it: whatever answers at its address from now on is not known to be
    /// the accessory. Grants stay, and are `unauthorized` until a person pairs it again.
    public func unpairing(_ accessory: Accessory) -> (steps: [Step], bonds: [BluetoothPeer]) {
        var unpaired = accessory
        (unpaired.isBonded, unpaired.ownsBond) = (false, false)
        let grants = grants(of: accessory.id).filter { $0.state != .unauthorized }.map { grant in
            var changed = grant
            changed.state = .unauthorized
            return Step.grant(changed)
        }
        return ([.put(unpaired)] + grants, [accessory.peer].compactMap(\.self))
    }

    /// Takes an accessory away from everybody.
    public func removing(_ accessory: Accessory) -> (steps: [Step], bonds: [BluetoothPeer]) {
        (grants(of: accessory.id).map { .revoke($0.id) } + [.delete(accessory.id)], accessory.bonds)
    }
}

extension Dictionary {
    fileprivate mutating func remove<Element>(_ element: Element, under key: Key) where Value == Set<Element> {
        self[key]?.remove(element)
        if self[key]?.isEmpty == true { self[key] = nil }
    }
}

extension Accessory {
    fileprivate var addresses: Set<UInt64> { Set([address, classicAddress].compactMap { $0?.value }) }

    /// The bonds that we have made for it: at most two, as the classic side may have an address of its own.
    fileprivate var bonds: [BluetoothPeer] {
        let own = isBonded && ownsBond ? [peer].compactMap(\.self) : []
        guard let classicAddress, ownsClassicBond, classicAddress.value != address?.value else { return own }
        return own + [BluetoothPeer(classicAddress, adapter: adapter)]
    }

    /// The accessory was paired, and this is who it is.
    fileprivate mutating func bind(_ identity: PairedIdentity, isOurs: Bool) {
        ownsBond = isOurs
        isBonded = true
        (address, adapter) = (identity.address, identity.adapter)
        if let classic = identity.classicAddress { bind(classic: classic, isOurs: isOurs) }
    }

    fileprivate mutating func bind(classic: BluetoothAddress, isOurs: Bool) {
        if classic.value == address?.value, isOurs { (isBonded, ownsBond) = (true, true) }
        // An accessory has one classic side: one with an address of its own stays when nobody names it again.
        if classicAddress != nil, classicAddress?.value != address?.value, classic.value == address?.value { return }
        ownsClassicBond = isOurs || ownsClassicBond && classicAddress?.value == classic.value
        classicAddress = classic
    }
}

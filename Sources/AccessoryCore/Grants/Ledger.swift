// Accessories and grants as a value: it says what a request would change, and takes the change over once the store has it.

public import AccessoryModel

/// What is set up, and for whom.
public struct Ledger: Hashable, Sendable {
    /// One step of a change; all steps of a change go into the store together or not at all.
    public enum Step: Hashable, Sendable {
        case put(Accessory)
        case delete(AccessoryID)
        case grant(Grant)
        case revoke(Int64)
    }

    public private(set) var accessories: [AccessoryID: Accessory] = [:]
    public private(set) var grants: [Int64: Grant] = [:]

    public init(accessories: [Accessory] = [], grants: [Grant] = []) {
        for accessory in accessories { self.accessories[accessory.id] = accessory }
        for grant in grants { self.grants[grant.id] = grant }
    }

    public mutating func apply(_ steps: [Step]) {
        for step in steps {
            switch step {
            case .put(let accessory): accessories[accessory.id] = accessory
            case .delete(let id): accessories[id] = nil
            case .grant(let grant): grants[grant.id] = grant
            case .revoke(let id): grants[id] = nil
            }
        }
    }

    // MARK: Questions

    public func accessory(at address: BluetoothAddress) -> Accessory? {
        accessories.values.first { $0.address == address }
    }

    /// The accessory with Wi-Fi only whose network has this name. One that has Bluetooth too is known by that: whoever has its network's
    /// name does not get the rest of it.
    public func accessory(ofNetwork ssid: SSID) -> Accessory? {
        accessories.values.first { $0.ssid == ssid && $0.address == nil }
    }

    /// Whether a network is part of an accessory that an app has, in whatever form.
    public func hasNetwork(_ ssid: SSID, _ app: AppID) -> Bool {
        accessories.values.contains { $0.ssid == ssid && grant(of: $0.id, to: app) != nil }
    }

    public func accessory(awareDevice: UInt64) -> Accessory? {
        accessories.values.first { $0.awareDevice == awareDevice }
    }

    /// Whether an accessory stands on a bond with this address.
    public func holdsBond(at address: BluetoothAddress) -> Bool {
        accessories.values.contains { $0.bonds.contains { $0.value == address.value } }
    }

    public func grant(of accessory: AccessoryID, to app: AppID) -> Grant? {
        grants.values.first { $0.accessory == accessory && $0.app == app }
    }

    public func grants(of accessory: AccessoryID) -> [Grant] {
        grants.values.filter { $0.accessory == accessory }.sorted { $0.id < $1.id }
    }

    /// What an app may see: accessories with a grant that an admin has not switched off.
    public func accessories(of app: AppID) -> [Accessory] {
        grants.values.filter { $0.app == app && $0.isEnabled }.compactMap { accessories[$0.accessory] }.sorted { $0.id < $1.id }
    }

    // MARK: Changes

    /// A new grant for what a person picked: on the stored accessory when there is one, else on a new one.
    ///
    /// - Parameters:
    ///   - identity: who it turned out to be; nil when it was not paired.
    ///   - name: what the person calls it; nil for the item's name.
    ///   - awareDevice: our number for it, where it was found by Wi-Fi Aware.
    public func adding(
        _ offer: Offer, item: DisplayItem, identity: PairedIdentity?, name: String? = nil, awareDevice: UInt64? = nil,
        to app: AppID,
        grantID: Int64, now: Int64
    ) -> (steps: [Step], accessory: AccessoryID) {
        let address = identity?.address ?? offer.address
        // An accessory keeps its identity while its address changes: the stored one is found by the identity address too.
        var accessory =
            offer.shared.flatMap { accessories[$0] } ?? address.flatMap { self.accessory(at: $0) }
            ?? Accessory(
                id: offer.identifier, displayName: name ?? item.name, address: address, isBonded: false,
                descriptor: item.descriptor, image: item.image, created: now)
        if let identity { accessory.take(identity) }
        accessory.ssid = accessory.ssid ?? offer.network?.ssid
        accessory.awareDevice = accessory.awareDevice ?? awareDevice
        var steps: [Step] = accessories[accessory.id] == accessory ? [] : [.put(accessory)]
        if grant(of: accessory.id, to: app) == nil {
            let state: AuthorizationState = item.setupOptions.contains(.confirmAuthorization) ? .awaitingAuthorization : .authorized
            steps.append(.grant(Grant(id: grantID, app: app, accessory: accessory.id, state: state, created: now)))
        }
        return (steps, accessory.id)
    }

    /// What a new descriptor, and a pairing that it asked for, make of an accessory.
    public func upgrading(
        _ accessory: Accessory, to descriptor: DiscoveryDescriptor, offer: Offer, identity: PairedIdentity?,
        awareDevice: UInt64? = nil
    ) -> [Step] {
        var changed = accessory
        changed.descriptor = descriptor
        changed.address = changed.address ?? offer.address
        if let identity { changed.take(identity) }
        changed.ssid = offer.network?.ssid ?? changed.ssid
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

    /// The app has given its word for an accessory.
    public func authorizing(_ grant: Grant, settings: AuthorizationSettings) -> [Step] {
        var steps: [Step] = []
        if let accessory = accessories[grant.accessory] {
            var changed = accessory
            changed.ssid = settings.ssid ?? accessory.ssid
            changed.classicAddress = settings.bridgingAddress ?? accessory.classicAddress
            if changed != accessory { steps.append(.put(changed)) }
        }
        var authorized = grant
        authorized.state = .authorized
        return steps + [.grant(authorized)]
    }

    /// Takes a grant away; with the last one the accessory goes, and the bonds that are to be removed are named.
    public func revoking(_ grant: Grant) -> (steps: [Step], bonds: [BluetoothAddress]) {
        let others = grants(of: grant.accessory).filter { $0.id != grant.id }
        guard others.isEmpty else { return ([.revoke(grant.id)], []) }
        return ([.revoke(grant.id), .delete(grant.accessory)], accessories[grant.accessory]?.bonds ?? [])
    }

    /// Takes an accessory away from everybody.
    public func removing(_ accessory: Accessory) -> (steps: [Step], bonds: [BluetoothAddress]) {
        (grants(of: accessory.id).map { .revoke($0.id) } + [.delete(accessory.id)], accessory.bonds)
    }
}

extension Accessory {
    /// The bonds that we hold for it: one, or two where the classic side has an address of its own.
    fileprivate var bonds: [BluetoothAddress] {
        let own = isBonded ? [address].compactMap(\.self) : []
        guard let classicAddress, classicAddress.value != address?.value else { return own }
        return own + [classicAddress]
    }

    /// The accessory was paired, and this is who it is.
    fileprivate mutating func take(_ identity: PairedIdentity) {
        isBonded = true
        address = identity.address
        classicAddress = identity.classicAddress ?? classicAddress
    }
}

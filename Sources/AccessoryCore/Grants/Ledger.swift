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
    /// - Parameter identity: who it turned out to be; nil when it was not paired.
    public func adding(
        _ offer: Offer, item: DisplayItem, identity: PairedIdentity?, to app: AppID, grantID: Int64, accessoryID: AccessoryID,
        now: Int64
    ) -> (steps: [Step], accessory: AccessoryID) {
        let address = identity?.address ?? offer.address
        // An accessory keeps its identity while its address changes: the stored one is found by the identity address too.
        var accessory =
            offer.shared.flatMap { accessories[$0] } ?? self.accessory(at: address)
            ?? Accessory(
                id: accessoryID, displayName: item.name, address: address, isBonded: false, descriptor: item.descriptor,
                image: item.image, created: now)
        if identity != nil {
            accessory.isBonded = true
            accessory.address = address
        }
        var steps: [Step] = accessories[accessory.id] == accessory ? [] : [.put(accessory)]
        if grant(of: accessory.id, to: app) == nil {
            steps.append(.grant(Grant(id: grantID, app: app, accessory: accessory.id, state: .authorized, created: now)))
        }
        return (steps, accessory.id)
    }

    /// Takes a grant away; with the last one the accessory goes, and the bond that is to be removed is named.
    public func revoking(_ grant: Grant) -> (steps: [Step], bond: BluetoothAddress?) {
        let others = grants(of: grant.accessory).filter { $0.id != grant.id }
        guard others.isEmpty else { return ([.revoke(grant.id)], nil) }
        let accessory = accessories[grant.accessory]
        return ([.revoke(grant.id), .delete(grant.accessory)], accessory.flatMap { $0.isBonded ? $0.address : nil })
    }

    /// Takes an accessory away from everybody.
    public func removing(_ accessory: Accessory) -> (steps: [Step], bond: BluetoothAddress?) {
        (
            grants(of: accessory.id).map { .revoke($0.id) } + [.delete(accessory.id)],
            accessory.isBonded ? accessory.address : nil
        )
    }
}

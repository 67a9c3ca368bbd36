// SPDX-License-Identifier: Apache-2.0
// Accessories and grants as a value: it computes the change of a request, and applies the change once the store has it.

public import AccessoryModel

/// All accessories and grants.
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
    private var grantsByNetwork: [SSID: Set<Int64>] = [:]
    private var grantsBySide: [UInt64: Set<Int64>] = [:]
    private var observing: Set<Int64> = []

    /// The stored state; each grant's accessory is among the accessories.
    public init(accessories: [Accessory] = [], grants: [Grant] = []) {
        for accessory in accessories { put(accessory) }
        for grant in grants { put(grant) }
    }

    /// Applies stored steps in their order. A step that removes an absent object does nothing.
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
        if let address = accessory.address { byAddress[address.value, default: []].insert(accessory.id) }
    }

    private mutating func delete(_ id: AccessoryID) {
        guard let accessory = accessories.removeValue(forKey: id) else { return }
        if let address = accessory.address { byAddress.remove(id, under: address.value) }
    }

    private mutating func put(_ grant: Grant) {
        revoke(grant.id)
        grants[grant.id] = grant
        if let ssid = grant.terms.ssid { grantsByNetwork[ssid, default: []].insert(grant.id) }
        if let side = grant.terms.classicAddress { grantsBySide[side.value, default: []].insert(grant.id) }
        grantsByAccessory[grant.accessory, default: []].insert(grant.id)
        grantsByApp[grant.app, default: []].insert(grant.id)
        if grant.isObserved { observing.insert(grant.id) }
    }

    private mutating func revoke(_ id: Int64) {
        guard let grant = grants.removeValue(forKey: id) else { return }
        observing.remove(id)
        grantsByAccessory.remove(id, under: grant.accessory)
        grantsByApp.remove(id, under: grant.app)
        if let ssid = grant.terms.ssid { grantsByNetwork.remove(id, under: ssid) }
        if let side = grant.terms.classicAddress { grantsBySide.remove(id, under: side.value) }
    }

    // MARK: Questions

    /// The grants whose accessories are observed, the oldest first.
    public var observed: [Grant] { observing.sorted().compactMap { grants[$0] } }

    /// The accessory with this identity address, of the same kind (public or random); nil for its classic side.
    public func accessory(at address: BluetoothAddress) -> Accessory? {
        accessories(valued: address).first { $0.address == address }
    }

    /// An advert, with the services by which apps have the accessory. BlueZ reports only the services that an accessory
    /// was found to have once it was connected, which may lack advertised ones. A service counts only if it was
    /// advertised: an app may claim any.
    public func recalling(_ advertisement: Advertisement) -> Advertisement {
        guard let accessory = accessory(at: advertisement.address) else { return advertisement }
        var recalled = advertisement
        for service in grants(of: accessory.id).compactMap(\.terms.descriptor.serviceUUID)
        where accessory.traits.services.contains(service) {
            recalled.serviceUUIDs.insert(service)
        }
        return recalled
    }

    /// Another accessory one of whose sides has this address.
    public func accessory(withSide address: BluetoothAddress, besides other: AccessoryID) -> Accessory? {
        let ofGrants = grants(withSide: address).lazy.compactMap { accessories[$0.accessory] }
        return accessories(valued: address).first { $0.id != other } ?? ofGrants.first { $0.id != other }
    }

    /// Those with an address of this value, public or random.
    private func accessories(valued address: BluetoothAddress) -> [Accessory] {
        byAddress[address.value, default: []].sorted().compactMap { accessories[$0] }
    }

    /// Those for which a classic side with this address was bridged.
    private func grants(withSide address: BluetoothAddress) -> [Grant] {
        grantsBySide[address.value, default: []].sorted().compactMap { grants[$0] }
    }

    /// Whether the classic side of an accessory was bridged for any app.
    public func hasSide(_ classic: BluetoothAddress, _ accessory: AccessoryID) -> Bool {
        grants(withSide: classic).contains { $0.accessory == accessory }
    }

    private func grants(with ssid: SSID) -> [Grant] {
        grantsByNetwork[ssid, default: []].sorted().compactMap { grants[$0] }
    }

    /// The accessory without Bluetooth that apps have by the network of this name: such an accessory has no other
    /// identity. One with Bluetooth is known by that, and the name of its network is no claim to the rest.
    ///
    /// - Parameter app: its own accessory goes before others', and one that it has by another network is not meant.
    public func accessory(ofNetwork ssid: SSID, for app: AppID) -> Accessory? {
        if let own = grant(onNetwork: ssid, to: app).flatMap({ granted($0.accessory, to: app) }), own.address == nil {
            return own.accessory
        }
        return grants(with: ssid).lazy.compactMap { accessories[$0.accessory] }.first { accessory in
            accessory.address == nil && grant(of: accessory.id, to: app) == nil
        }
    }

    /// The accessory whose network has this name for some app; nil when none has.
    public func accessory(joinedBy ssid: SSID) -> Accessory? {
        grants(with: ssid).lazy.compactMap { accessories[$0.accessory] }.first
    }

    /// The app's grant that includes a network, in whatever state; nil when none does.
    public func grant(onNetwork ssid: SSID, to app: AppID) -> Grant? { grants(with: ssid).first { $0.app == app } }

    /// The app's grant on the accessory that its extension knows by this identifier, in whatever state.
    public func grant(reported identifier: String, to app: AppID) -> Grant? {
        grantsByApp[app, default: []].lazy.compactMap { grants[$0] }.first { $0.terms.reported?.identifier == identifier }
    }

    /// The grant by which an app has a Wi-Fi Aware device of this number; nil when none has.
    public func grant(awareDevice: UInt64) -> Grant? { grants.values.first { $0.terms.awareDevice == awareDevice } }

    /// Whether an accessory depends on a bond with this device, on either side, made by any program.
    public func holdsBond(with peer: BluetoothPeer) -> Bool {
        accessories(valued: peer.address).contains { peer.shares($0.adapter) && $0.isBonded }
            || grants(withSide: peer.address).contains { peer.shares(accessories[$0.accessory]?.adapter) }
    }

    /// Whether the bond behind a pairing is of our making: made now, or for another accessory, whose other side this
    /// is.
    private func isOurs(_ identity: PairedIdentity) -> Bool {
        !identity.wasPairedBefore || ownsBond(with: identity.peer)
    }

    /// Whether an accessory depends on a bond with this device, on either side, that is of our making.
    public func ownsBond(with peer: BluetoothPeer) -> Bool {
        accessories(valued: peer.address).contains { peer.shares($0.adapter) && $0.isBonded && $0.ownsBond }
            || grants(withSide: peer.address).contains {
                $0.terms.ownsClassicBond && peer.shares(accessories[$0.accessory]?.adapter)
            }
    }

    /// The app's grant on an accessory, whatever its state and the admin's switch; nil when it has none.
    public func grant(of accessory: AccessoryID, to app: AppID) -> Grant? {
        let (ofAccessory, ofApp) = (grantsByAccessory[accessory, default: []], grantsByApp[app, default: []])
        let (fewer, more) = ofAccessory.count < ofApp.count ? (ofAccessory, ofApp) : (ofApp, ofAccessory)
        return fewer.first { more.contains($0) }.flatMap { grants[$0] }
    }

    /// Whether an app has an accessory by Bluetooth already. A grant whose accessory has lost its bond does not count.
    public func hasByBluetooth(_ accessory: AccessoryID, _ app: AppID) -> Bool {
        grant(of: accessory, to: app).map { $0.state != .unauthorized && $0.terms.includes(.bluetooth) } ?? false
    }

    /// All grants on an accessory, the oldest first.
    public func grants(of accessory: AccessoryID) -> [Grant] {
        grantsByAccessory[accessory, default: []].sorted().compactMap { grants[$0] }
    }

    /// The grants on an accessory that a person set up, the oldest first.
    public func grants(of accessory: AccessoryID, setUpBy user: UInt32) -> [Grant] {
        grants(of: accessory).filter { $0.user == user }
    }

    /// An accessory as an app has it, whatever the state of the grant and the admin's switch; nil without a grant.
    public func granted(_ accessory: AccessoryID, to app: AppID) -> GrantedAccessory? {
        guard let grant = grant(of: accessory, to: app), let accessory = accessories[accessory] else { return nil }
        return GrantedAccessory(accessory, grant)
    }

    /// The accessories that an app may see: those with a grant that is not switched off.
    public func accessories(of app: AppID) -> [GrantedAccessory] {
        grantsByApp[app, default: []].compactMap { grants[$0] }.filter(\.isEnabled).compactMap { grant in
            accessories[grant.accessory].map { GrantedAccessory($0, grant) }
        }.sorted { $0.accessory.id < $1.accessory.id }
    }

    /// The kinds that an app has, those that are switched off too; the oldest grant first.
    public func kinds(of app: AppID) -> [GrantedAccessory] {
        grantsByApp[app, default: []].sorted().compactMap { grants[$0] }.filter(\.terms.descriptor.isKind).compactMap { grant in
            accessories[grant.accessory].map { GrantedAccessory($0, grant) }
        }
    }

    // MARK: Changes

    /// The change that a pick makes: a grant on the stored accessory when there is one, else on a new one.
    ///
    /// - Parameters:
    ///   - identity: from pairing; nil when it was not paired.
    ///   - name: the person's name for it; nil for the item's name.
    ///   - awareDevice: our number for it, where it was found by Wi-Fi Aware.
    ///   - traits: from its adverts.
    ///   - user: the uid of the person who picked it; nil for a rule.
    ///   - time: when a grant ends that is new, or given again.
    ///   - ceiling: the person's choice for such a grant. Where a rule gives it again, the earlier choice stays.
    public func adding(
        _ offer: Offer, item: DisplayItem, identity: PairedIdentity?, name: String? = nil, awareDevice: UInt64? = nil,
        traits: Accessory.Traits = Accessory.Traits(), to app: AppID, user: UInt32? = nil, time: TimeLimit = .none,
        ceiling: AccessLimit = .full, grantID: Int64, now: Int64
    ) -> (steps: [Step], accessory: AccessoryID) {
        let address = identity?.address ?? offer.address
        // An accessory keeps its identity while its address changes: the stored one is found by the identity address
        // too.
        var accessory =
            offer.shared.flatMap { accessories[$0] } ?? address.flatMap { self.accessory(at: $0) }
            ?? Accessory(
                id: offer.identifier, displayName: name ?? item.name, address: address,
                adapter: address == nil ? nil : offer.adapter, isBonded: false, image: item.image, created: now)
        accessory.traits.formUnion(traits)
        let state: AuthorizationState = item.setupOptions.contains(.confirmAuthorization) ? .awaitingAuthorization : .authorized
        let existing = grant(of: accessory.id, to: app)
        var grant =
            existing
            ?? Grant(id: grantID, app: app, accessory: accessory.id, state: state, terms: .init(item.descriptor), created: now)
        if existing == nil || grant.state == .unauthorized { grant.user = user ?? grant.user }
        let isByBluetooth = offer.address != nil && item.descriptor.wantsBluetooth
        // Paired again; or picked by Bluetooth where it was known by its network.
        if existing == nil || grant.state == .unauthorized || isByBluetooth && !grant.terms.includes(.bluetooth) {
            if existing == nil || grant.state == .unauthorized {
                grant.terms.time = time
                if existing == nil || user != nil { grant.terms.ceiling = ceiling }
            }
            if grant.state == .unauthorized { grant.state = state }
            grant.terms.describe(by: item.descriptor, network: offer.network?.ssid)
        }
        grant.terms.hasBluetooth = grant.terms.hasBluetooth || isByBluetooth
        grant.terms.ssid = grant.terms.ssid ?? offer.network?.ssid
        grant.terms.awareDevice = grant.terms.awareDevice ?? awareDevice
        grant.terms.reported = offer.reported ?? grant.terms.reported
        if let identity { bind(identity, &accessory, &grant) }
        return (steps(accessory, grant), accessory.id)
    }

    /// The change that a new descriptor, and a pairing for it, make to an app's accessory.
    public func upgrading(
        _ granted: GrantedAccessory, to descriptor: DiscoveryDescriptor, offer: Offer, identity: PairedIdentity?,
        awareDevice: UInt64? = nil, traits: Accessory.Traits = Accessory.Traits(), user: UInt32? = nil,
        ceiling: AccessLimit = .full
    ) -> [Step] {
        var (accessory, grant) = (granted.accessory, granted.grant)
        grant.terms.ceiling = ceiling
        accessory.traits.formUnion(traits)
        if accessory.address == nil { (accessory.address, accessory.adapter) = (offer.address, offer.adapter) }
        if let identity { bind(identity, &accessory, &grant) }
        // Paired again.
        if grant.state == .unauthorized, identity != nil { (grant.state, grant.user) = (.authorized, user ?? grant.user) }
        grant.terms.describe(by: descriptor, network: offer.network?.ssid)
        grant.terms.hasBluetooth = descriptor.wantsBluetooth && (grant.terms.hasBluetooth || offer.device != nil)
        grant.terms.awareDevice = grant.terms.awareDevice ?? awareDevice
        return steps(accessory, grant)
    }

    /// - Parameters:
    ///   - network: the network's new name, where that changes too.
    ///   - grant: the grant of the app that has asked, and whose network is meant.
    public func renaming(_ accessory: Accessory, to name: String, network: SSID? = nil, of grant: Grant? = nil) -> [Step] {
        var (accessory, grant) = (accessory, grant)
        accessory.displayName = name
        if let network { grant?.terms.ssid = network }
        return steps(accessory, grant)
    }

    /// The app has confirmed an accessory.
    ///
    /// - Parameter ownsClassicBond: whether the classic side was bonded for this.
    public func authorizing(_ grant: Grant, settings: AuthorizationSettings, ownsClassicBond: Bool = false) -> [Step] {
        guard var accessory = accessories[grant.accessory] else { return [] }
        var grant = grant
        if let classic = settings.bridgingAddress { bind(classic: classic, isOurs: ownsClassicBond, &accessory, &grant) }
        grant.terms.ssid = settings.ssid ?? grant.terms.ssid
        grant.state = .authorized
        return steps(accessory, grant)
    }

    /// The accessory was paired for a grant, and this is its identity.
    private func bind(_ identity: PairedIdentity, _ accessory: inout Accessory, _ grant: inout Grant) {
        let isOurs = isOurs(identity)
        (accessory.isBonded, accessory.ownsBond) = (true, isOurs)
        (accessory.address, accessory.adapter) = (identity.address, identity.adapter)
        if let classic = identity.classicAddress { bind(classic: classic, isOurs: isOurs, &accessory, &grant) }
    }

    private func bind(classic: BluetoothAddress, isOurs: Bool, _ accessory: inout Accessory, _ grant: inout Grant) {
        let isIdentity = classic.value == accessory.address?.value
        if isIdentity, isOurs { (accessory.isBonded, accessory.ownsBond) = (true, true) }
        // A classic side with an address of its own stays when no request names it again.
        if isIdentity, let earlier = grant.terms.classicAddress, earlier.value != classic.value { return }
        grant.terms.ownsClassicBond = isOurs || ownsBond(with: BluetoothPeer(classic, adapter: accessory.adapter))
        grant.terms.classicAddress = classic
    }

    /// Steps for those of the two that changed.
    private func steps(_ accessory: Accessory, _ grant: Grant?) -> [Step] {
        let put = accessories[accessory.id] == accessory ? nil : Step.put(accessory)
        return [put, grant.flatMap { grants[$0.id] == $0 ? nil : .grant($0) }].compactMap(\.self)
    }

    /// Another accessory with the Bluetooth identity of one that steps put; nil when none has.
    public func rival(of steps: [Step]) -> Accessory? {
        steps.lazy.compactMap { step in
            guard case .put(let accessory) = step, let address = accessory.address else { return nil }
            return self.accessories(valued: address).first { $0.address == address && $0.id != accessory.id }
        }.first
    }

    /// Takes grants on one accessory away; with the last one the accessory goes, and the bonds that are to be removed
    /// are named.
    public func revoking(_ leaving: [Grant]) -> (steps: [Step], bonds: [BluetoothPeer]) {
        let steps = leaving.map { Step.revoke($0.id) }
        guard let accessory = leaving.first.flatMap({ accessories[$0.accessory] }) else { return (steps, []) }
        let others = grants(of: accessory.id).filter { grant in !leaving.contains { $0.id == grant.id } }
        guard !others.isEmpty else { return removing(accessory) }
        guard accessory.address != nil, !others.contains(where: \.terms.hasBluetooth) else {
            return (steps, sides(of: leaving, accessory))
        }
        // The others know it by its network, as before its Bluetooth side was added.
        var network = accessory
        (network.address, network.adapter, network.isBonded, network.ownsBond) = (nil, nil, false, false)
        network.traits = Accessory.Traits()
        return (steps + [.put(network)], bonds(of: accessory, leaving: leaving))
    }

    /// An accessory has lost its bond, or is to lose it: whatever answers at its address from now on is not known to be
    /// the accessory. Grants that include Bluetooth stay, and are `unauthorized` until a person pairs it again.
    public func unpairing(_ accessory: Accessory) -> (steps: [Step], bonds: [BluetoothPeer]) {
        var unpaired = accessory
        (unpaired.isBonded, unpaired.ownsBond) = (false, false)
        let grants = grants(of: accessory.id).filter { grant in
            (grant.state != .unauthorized || grant.terms.time.hasEnded) && grant.terms.includes(.bluetooth)
        }.map { grant in
            var changed = grant
            changed.state = .unauthorized
            // Renewing it would not bring the bond back.
            changed.terms.time = changed.terms.time.overdue
            return Step.grant(changed)
        }
        return ([.put(unpaired)] + grants, [accessory.peer].compactMap(\.self))
    }

    /// Removes an accessory and all its grants.
    public func removing(_ accessory: Accessory) -> (steps: [Step], bonds: [BluetoothPeer]) {
        let grants = grants(of: accessory.id)
        return (grants.map { .revoke($0.id) } + [.delete(accessory.id)], bonds(of: accessory, leaving: grants))
    }

    /// The bonds of an accessory that are of our making.
    private func bonds(of accessory: Accessory, leaving: [Grant]) -> [BluetoothPeer] {
        (accessory.isBonded && accessory.ownsBond ? [accessory.peer].compactMap(\.self) : []) + sides(of: leaving, accessory)
    }

    /// The bonds of classic sides with addresses of their own, made by us, that no other grant has.
    private func sides(of leaving: [Grant], _ accessory: Accessory) -> [BluetoothPeer] {
        var sides: [BluetoothPeer] = []
        for terms in leaving.map(\.terms) {
            guard let classic = terms.classicAddress, terms.ownsClassicBond, classic.value != accessory.address?.value,
                case let side = BluetoothPeer(classic, adapter: accessory.adapter), !sides.contains(side),
                grants(withSide: classic).allSatisfy(leaving.contains)
            else { continue }
            sides.append(side)
        }
        return sides
    }
}

extension Dictionary {
    fileprivate mutating func remove<Element>(_ element: Element, under key: Key) where Value == Set<Element> {
        self[key]?.remove(element)
        if self[key]?.isEmpty == true { self[key] = nil }
    }
}

// One picker run: what was asked for, the machine, the matcher, and what was heard of the accessories that match.

public import AccessoryCore
public import AccessoryModel

public final class PickerRun {
    /// What the app asked for.
    public enum Request: Hashable, Sendable {
        /// Set up an accessory; migrations may ride along.
        case discovery
        /// Take known accessories over.
        case migration
        case rename(AccessoryID)
        /// Give an accessory what a new descriptor asks for.
        case authorization(AccessoryID)

        /// The name on the bus.
        public var kind: String {
            switch self {
            case .discovery: "discovery"
            case .migration: "migration"
            case .rename: "rename"
            case .authorization: "authorization"
            }
        }
    }

    /// A known accessory that is to be taken over.
    struct MigrationTarget {
        let offer: Offer
        let item: DisplayItem
    }

    /// Counted up, never used twice in a daemon's life.
    public let id: Int
    public let session: Session
    public let request: Request
    public let items: [DisplayItem]
    public let settings: PickerSettings
    /// The picker program that shows it.
    public internal(set) var client: ClientID
    public internal(set) var machine: SetupMachine
    /// Seconds since 1970; nil when discovery is unbounded or its time does not run.
    public internal(set) var deadline: Double?

    let migrations: [MigrationTarget]
    var discovery: DiscoveryToken?
    var deadlineTimer: (any EngineTimer)?
    var pruneTimer: (any EngineTimer)?
    var disclosureTimer: (any EngineTimer)?
    /// The intent noted for the pairing that runs.
    var intent: BondIntent?
    /// What was picked, and what was offered so far, for the audit trail.
    var picked: Offer?
    var pickedBy = "accessorysetupd"
    var noted: Set<String> = []
    /// What the app said when it finished the authorization, while the classic side is being paired.
    var finishing: AuthorizationSettings?

    private var matcher: Matcher
    private let dependsOnDistance: Bool
    private var candidates: [RadioDeviceID: Candidate] = [:]
    private var offersMade = 0
    /// What every accessory of this run will be called by: the same one gets the same identifier when it comes back.
    private var identifiers: [BluetoothAddress: AccessoryID] = [:]
    /// Matches that the app has not been told of, and those that it has.
    private var undisclosed: [RadioDeviceID] = []
    private var disclosed: Set<AccessoryID> = []
    /// What the app wants shown.
    private var chosen: [AccessoryID: DiscoveredItem] = [:]

    /// One device in range. A class, so that the thousands of updates that change only its strength change it in place.
    private final class Candidate {
        var advertisement: Advertisement
        var smoothed: Double?
        var lastHeard = 0.0
        var item: Int?
        let offer: Int
        let identifier: AccessoryID

        init(_ advertisement: Advertisement, offer: Int, identifier: AccessoryID) {
            self.advertisement = advertisement
            self.offer = offer
            self.identifier = identifier
        }

        func take(_ sample: Int?, smoothing: Double) {
            smoothed = sample.map { sample in
                smoothed.map { $0 + smoothing * (Double(sample) - $0) } ?? Double(sample)
            }
        }

        /// A connected device need not advertise, and one without a strength says nothing new while it does: the radio tells when those go.
        var mustBeHeard: Bool { !advertisement.isConnected && (smoothed != nil || advertisement.isPaired) }

        var rssi: Int? { smoothed.map { Int($0.rounded()) } }
    }

    /// A device that was not heard for this long is gone from the picker. (BlueZ drops its own temporary devices after 30 s too, but
    /// keeps the ones it knows.)
    public static let silence = 30.0
    /// How long the person may refuse a migration that nothing else goes with.
    public static let informationTime = 5.0
    /// What an accessory says may come in parts, a name in its scan response for one: the app is told once they had time to come.
    static let disclosureDelay = 0.4
    /// How much a new sample of the signal strength counts; the radio gives one every half second, itself a mean.
    private static let smoothing = 0.5

    init(
        id: Int, session: Session, request: Request, purpose: SetupMachine.Purpose, items: [DisplayItem] = [],
        migrations: [MigrationTarget] = [], settings: PickerSettings = PickerSettings(), client: ClientID,
        nearness: Matcher.Nearness
    ) {
        self.id = id
        self.session = session
        self.request = request
        self.items = items
        self.migrations = migrations
        self.settings = settings
        self.client = client
        machine = SetupMachine(purpose)
        matcher = Matcher(items.map(\.descriptor), nearness: nearness)
        dependsOnDistance = items.contains { $0.descriptor.range == .immediate }
    }

    public var presentation: PickerPresentation { machine.presentation }

    /// Accessories that are taken over along with the one that is set up.
    public var ridingAlong: [Offer] { request == .discovery ? migrations.map(\.offer) : [] }

    // MARK: What is in range

    /// Takes in what was heard; true when what is offered may have changed.
    func take(_ changes: [HeardDevice], now: Double) -> Bool {
        var changed = false
        for change in changes {
            let known = candidates[change.device]
            guard let candidate = known ?? change.content.map({ admit($0) }) else { continue }
            candidate.lastHeard = now
            if let content = change.content { candidate.advertisement = content }
            let before = candidate.item
            // What is not offered and does not depend on its distance has no use for its strength.
            if before != nil || dependsOnDistance || change.content != nil {
                candidate.take(change.rssi, smoothing: Self.smoothing)
            }
            if change.content != nil || dependsOnDistance {
                candidate.item = matcher.firstMatch(
                    candidate.advertisement, smoothedRSSI: candidate.rssi, isOffered: before != nil)
            }
            if before == nil, candidate.item != nil, settings.filtersDiscoveryResults { undisclosed.append(change.device) }
            if before != nil || candidate.item != nil { changed = true }
        }
        if candidates.count > Limits.trackedDevices { dropOldest() }
        return changed
    }

    private func admit(_ advertisement: Advertisement) -> Candidate {
        offersMade += 1
        let identifier = identifiers[advertisement.address] ?? .random()
        if identifiers.count < Limits.trackedDevices { identifiers[advertisement.address] = identifier }
        let candidate = Candidate(advertisement, offer: offersMade, identifier: identifier)
        candidates[advertisement.device] = candidate
        return candidate
    }

    /// Forgets a device; true when it was offered.
    func drop(_ device: RadioDeviceID) -> Bool {
        candidates.removeValue(forKey: device)?.item != nil
    }

    /// Forgets what has been silent; true when something of it was offered.
    func prune(now: Double) -> Bool {
        let silent = candidates.filter { now - $0.value.lastHeard > Self.silence && $0.value.mustBeHeard }
        for device in silent.keys { candidates[device] = nil }
        return silent.values.contains { $0.item != nil }
    }

    private func dropOldest() {
        let byAge = candidates.sorted { $0.value.lastHeard < $1.value.lastHeard }
        for (device, _) in byAge.prefix(candidates.count - Limits.trackedDevices) { candidates[device] = nil }
    }

    // MARK: What the app filters

    /// Matches that the app has not heard of yet. What it has already is no discovery.
    func discoveries(ledger: Ledger) -> [DiscoveredAccessory] {
        defer { undisclosed = [] }
        return undisclosed.compactMap { device in
            guard disclosed.count < Limits.discoveredPerPicker, let candidate = candidates[device], let item = candidate.item,
                known(candidate, in: ledger)?.isMine != true, disclosed.insert(candidate.identifier).inserted
            else { return nil }
            return DiscoveredAccessory(
                identifier: candidate.identifier, item: items[item], advertisement: candidate.advertisement, rssi: candidate.rssi)
        }
    }

    var hasUndisclosed: Bool { !undisclosed.isEmpty }

    func isDisclosed(_ identifier: AccessoryID) -> Bool { disclosed.contains(identifier) }

    func show(_ items: [DiscoveredItem]) {
        for item in items { chosen[item.identifier] = item }
    }

    // MARK: Offers

    /// What the person may pick now, in the order of appearance. What this app has already is not offered again.
    func offers(ledger: Ledger, policy: AccessPolicy) -> [Offer] {
        if case .authorization(let id) = request { return upgrade(of: id, ledger: ledger).map { [$0] } ?? [] }
        var matching = candidates.values.filter {
            $0.item != nil && policy.denial(of: $0.advertisement, to: session.app.id) == nil
                && (!settings.filtersDiscoveryResults || chosen[$0.identifier] != nil)
        }
        if matching.count > Limits.offersShown {
            // The nearest are shown; among equals those that were there first.
            matching.sort { ($0.rssi ?? -128, $1.offer) > ($1.rssi ?? -128, $0.offer) }
            matching.removeSubrange(Limits.offersShown...)
        }
        matching.sort { $0.offer < $1.offer }
        return matching.compactMap { offer(for: $0, ledger: ledger) }
    }

    /// What an offered accessory advertises.
    func advertisement(of offer: Offer) -> Advertisement? { candidates[offer.device]?.advertisement }

    private func known(_ candidate: Candidate, in ledger: Ledger) -> (accessory: Accessory, isMine: Bool)? {
        ledger.accessory(at: candidate.advertisement.address).map { ($0, ledger.grant(of: $0.id, to: session.app.id) != nil) }
    }

    private func offer(for candidate: Candidate, ledger: Ledger) -> Offer? {
        guard let index = candidate.item else { return nil }
        let known = known(candidate, in: ledger)
        guard known?.isMine != true else { return nil }
        let item = items[index]
        let advert = candidate.advertisement
        return Offer(
            id: "\(candidate.offer)", device: advert.device, address: advert.address, item: index,
            name: known?.accessory.displayName ?? chosen[candidate.identifier]?.name ?? item.name,
            advertisedName: advert.localName ?? "", rssi: candidate.rssi, shared: known?.accessory.id,
            needsPairing: item.descriptor.wantsPairing && known?.accessory.isBonded != true, isBonded: advert.isPaired,
            identifier: candidate.identifier, setup: item.setupOptions, support: item.supportWhilePairing)
    }

    /// An accessory that gets a new descriptor: there at once when nothing is to be paired, else as soon as it is in range.
    private func upgrade(of id: AccessoryID, ledger: Ledger) -> Offer? {
        guard let accessory = ledger.accessories[id], let address = accessory.address, let item = items.first else { return nil }
        let more = item.descriptor.supportedOptions.subtracting(accessory.descriptor.supportedOptions)
        let needsPairing =
            item.descriptor.wantsPairing && (!accessory.isBonded || !more.isDisjoint(with: [.transportBridging, .hid]))
        let candidate = candidates.values.first { $0.advertisement.address == address && $0.item != nil }
        guard candidate != nil || !needsPairing else { return nil }
        let advert = candidate?.advertisement
        return Offer(
            id: "1", device: advert?.device ?? RadioDeviceID(""), address: address, item: 0, name: accessory.displayName,
            advertisedName: advert?.localName ?? "", rssi: candidate?.rssi, shared: id, needsPairing: needsPairing,
            isBonded: advert?.isPaired ?? accessory.isBonded, identifier: id, support: item.supportWhilePairing)
    }

    /// The item that a picked offer stands for, as the app wants it set up.
    func item(of offer: Offer) -> DisplayItem {
        var item = items[offer.item]
        guard let chosen = chosen[offer.identifier] else { return item }
        item.name = chosen.name
        item.image = chosen.image ?? item.image
        return item
    }

    /// The image of an offer: the stored one when it is shared, else the item's.
    func image(of offer: Offer, ledger: Ledger) -> ProductImage? {
        if let shared = offer.shared, let stored = ledger.accessories[shared] { return stored.image }
        if let migration = migrations.first(where: { $0.offer.id == offer.id }) { return migration.item.image }
        return items.indices.contains(offer.item) ? item(of: offer).image : nil
    }
}

extension DiscoveryDescriptor {
    /// Whether what it finds is to be paired.
    var wantsPairing: Bool { !supportedOptions.isDisjoint(with: [.pairingLE, .transportBridging, .hid]) }
}

extension DisplayItem {
    /// What is paired along with the accessory. The classic side waits for the app where the app has a say: it may know the address.
    var supportWhilePairing: SupportOptions {
        setupOptions.contains(.confirmAuthorization)
            ? descriptor.supportedOptions.subtracting(.transportBridging) : descriptor.supportedOptions
    }
}

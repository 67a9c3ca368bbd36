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
        /// What the radio knows of it.
        let sighting: Sighting
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
    /// Whether renaming changes the network's name along with the accessory's.
    let renamesNetwork: Bool
    var discovery: DiscoveryToken?
    var scan: DiscoveryToken?
    var deadlineTimer: (any EngineTimer)?
    var pruneTimer: (any EngineTimer)?
    var disclosureTimer: (any EngineTimer)?
    /// The intent noted for the pairing that runs.
    var intent: BondIntent?
    /// What was picked, and what was offered so far, for the audit trail.
    var picked: Offer?
    var pickedBy = Requester.daemon
    var noted: Set<String> = []
    /// What the app said when it finished the authorization, while the classic side is being paired.
    var finishing: (settings: AuthorizationSettings, requester: Requester)?

    var matcher: Matcher
    private let dependsOnDistance: Bool
    var candidates: [RadioDeviceID: Candidate] = [:]
    var networks: [SSID: NetworkCandidate] = [:]
    var services: [String: ServiceCandidate] = [:]
    private var offersMade = 0
    /// What every accessory of this run will be called by: the same one gets the same identifier when it comes back.
    private var identifiers: [Key: AccessoryID] = [:]
    /// Matches that the app has not been told of, and those that it has.
    var undisclosed: [Key] = []
    private var disclosed: Set<AccessoryID> = []
    /// What the app wants shown.
    var chosen: [AccessoryID: DiscoveredItem] = [:]

    /// What an accessory in range is told from others by.
    enum Key: Hashable {
        case device(BluetoothAddress)
        case network(SSID)
        case service(String)
    }

    /// One device in range. A class, so that the thousands of updates that change only its strength change it in place.
    final class Candidate {
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
    /// What an accessory says may come in parts, a name in its scan response for one: the app is told once they had time to come.
    static let disclosureDelay = 0.4
    /// How much a new sample of the signal strength counts; the radio gives one every half second, itself a mean.
    private static let smoothing = 0.5

    init(
        id: Int, session: Session, request: Request, purpose: SetupMachine.Purpose, items: [DisplayItem] = [],
        migrations: [MigrationTarget] = [], settings: PickerSettings = PickerSettings(), client: ClientID,
        renamesNetwork: Bool = false, nearness: Matcher.Nearness
    ) {
        self.renamesNetwork = renamesNetwork
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

    /// The accessory of the app's that this run is about: without it the run has nothing more to do.
    var subject: AccessoryID? {
        switch request {
        case .rename(let id), .authorization(let id): id
        case .discovery, .migration: machine.accessory
        }
    }

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
            if before == nil, candidate.item != nil { disclose(.device(candidate.advertisement.address)) }
            if before != nil || candidate.item != nil { changed = true }
        }
        if candidates.count > Limits.trackedDevices { dropOldest() }
        return changed
    }

    /// A number for an offer, and what the accessory will be called by.
    func enroll(_ key: Key) -> (offer: Int, identifier: AccessoryID) {
        offersMade += 1
        let identifier = identifiers[key] ?? .random()
        if identifiers.count < Limits.trackedDevices { identifiers[key] = identifier }
        return (offersMade, identifier)
    }

    func disclose(_ key: Key) {
        if settings.filtersDiscoveryResults { undisclosed.append(key) }
    }

    private func admit(_ advertisement: Advertisement) -> Candidate {
        let (offer, identifier) = enroll(.device(advertisement.address))
        let candidate = Candidate(advertisement, offer: offer, identifier: identifier)
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

    /// Forgets all devices; true when one was offered.
    func dropDevices() -> Bool {
        defer { candidates = [:] }
        return candidates.values.contains { $0.item != nil }
    }

    /// Looks again for the items of all devices: the networks that items name too have come or gone.
    func matchDevices() -> Bool {
        var changed = false
        for candidate in candidates.values {
            let before = candidate.item
            candidate.item = matcher.firstMatch(candidate.advertisement, smoothedRSSI: candidate.rssi, isOffered: before != nil)
            if before == nil, candidate.item != nil { disclose(.device(candidate.advertisement.address)) }
            if before != candidate.item { changed = true }
        }
        return changed
    }

    private func dropOldest() {
        let byAge = candidates.sorted { $0.value.lastHeard < $1.value.lastHeard }
        for (device, _) in byAge.prefix(candidates.count - Limits.trackedDevices) { candidates[device] = nil }
    }

    // MARK: What the app filters

    /// Matches that the app has not heard of yet. What it has already is no discovery.
    func discoveries(ledger: Ledger) -> [DiscoveredAccessory] {
        defer { undisclosed = [] }
        return undisclosed.compactMap { key in
            guard disclosed.count < Limits.discoveredPerPicker, let discovery = discovery(of: key, ledger: ledger),
                disclosed.insert(discovery.identifier).inserted
            else { return nil }
            return discovery
        }
    }

    private func discovery(of key: Key, ledger: Ledger) -> DiscoveredAccessory? {
        switch key {
        case .device(let address):
            guard let candidate = candidates.values.first(where: { $0.advertisement.address == address }),
                let item = candidate.item, known(candidate, in: ledger)?.isMine != true
            else { return nil }
            return DiscoveredAccessory(
                identifier: candidate.identifier, item: items[item], advertisement: candidate.advertisement,
                network: network(of: items[item].descriptor), rssi: candidate.rssi)
        case .network(let ssid): return networks[ssid].flatMap { discovery(of: $0, ledger: ledger) }
        case .service(let peer): return services[peer].flatMap { discovery(of: $0, ledger: ledger) }
        }
    }

    var hasUndisclosed: Bool { !undisclosed.isEmpty }

    func isDisclosed(_ identifier: AccessoryID) -> Bool { disclosed.contains(identifier) }

    /// Bytes of all images of this picker, were these shown.
    func imageBytes(with new: [DiscoveredItem]) -> Int {
        var images = chosen.mapValues { $0.image?.bytes.count ?? 0 }
        for item in new { images[item.identifier] = item.image?.bytes.count ?? 0 }
        return images.values.reduce(0, +) + items.reduce(0) { $0 + ($1.image?.bytes.count ?? 0) }
    }

    func show(_ items: [DiscoveredItem]) {
        for item in items { chosen[item.identifier] = item }
    }

    // MARK: Offers

    /// What the person may pick now, in the order of appearance. What this app has already is not offered again.
    func offers(ledger: Ledger, policy: AccessPolicy) -> [Offer] {
        if case .authorization(let id) = request { return upgrades(of: id, ledger: ledger) }
        let isChosen = { [self] (id: AccessoryID) in !settings.filtersDiscoveryResults || chosen[id] != nil }
        let app = session.app.id
        var devices = candidates.values.filter { $0.item != nil && isChosen($0.identifier) }
        if devices.count > Limits.offersShown {
            // Offers are costly to make by the thousand: only those that may be shown are made.
            devices.sort { ($0.rssi ?? -128, $1.offer) > ($1.rssi ?? -128, $0.offer) }
            devices = Array(
                devices.lazy.filter { policy.denial(of: Sighting(advertisement: $0.advertisement), to: app) == nil }
                    .prefix(Limits.offersShown))
        }
        var offers = devices.compactMap { candidate -> (number: Int, offer: Offer)? in
            guard let offer = offer(for: candidate, ledger: ledger),
                policy.denial(of: Sighting(advertisement: candidate.advertisement, network: offer.network), to: app) == nil,
                !isDenied(offer, ledger, policy)
            else { return nil }
            return (candidate.offer, offer)
        }
        // A network that is the other half of what is offered is not offered by itself.
        let halves = Set(offers.compactMap(\.offer.network?.ssid))
        for candidate in networks.values where isChosen(candidate.identifier) && !halves.contains(candidate.network.ssid) {
            guard let offer = offer(for: candidate, ledger: ledger),
                policy.denial(of: Sighting(network: candidate.network), to: app) == nil, !isDenied(offer, ledger, policy)
            else { continue }
            offers.append((candidate.offer, offer))
        }
        for candidate in services.values where isChosen(candidate.identifier) {
            guard let offer = offer(for: candidate, ledger: ledger), policy.denial(of: Sighting(), to: app) == nil else { continue }
            offers.append((candidate.offer, offer))
        }
        if offers.count > Limits.offersShown {
            // The nearest are shown; among equals those that were there first.
            offers.sort { ($0.offer.rssi ?? -128, $1.number) > ($1.offer.rssi ?? -128, $0.number) }
            offers.removeSubrange(Limits.offersShown...)
        }
        return offers.sorted { $0.number < $1.number }.map(\.offer)
    }

    /// Whether a rule denies what is stored of an offered accessory: it may have been known by more than it says now.
    private func isDenied(_ offer: Offer, _ ledger: Ledger, _ policy: AccessPolicy) -> Bool {
        offer.shared.flatMap { ledger.accessories[$0] }.map { policy.denial(of: $0, to: session.app.id) != nil } ?? false
    }

    /// What there is of an offered accessory.
    func sighting(of offer: Offer) -> Sighting {
        Sighting(advertisement: candidates[offer.device]?.advertisement, network: offer.network)
    }

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
            identifier: candidate.identifier, setup: item.setupOptions, support: item.supportWhilePairing,
            network: half(of: item, index: index))
    }

    /// The network of an accessory that was found by Bluetooth: the one that its item names, or, where the app does not say it later,
    /// the only one in range that it can be.
    private func half(of item: DisplayItem, index: Int) -> WiFiNetwork? {
        if item.descriptor.ssid != nil { return network(of: item.descriptor) }
        guard item.descriptor.ssidPrefix != nil, !item.setupOptions.contains(.confirmAuthorization),
            candidates.values.count(where: { $0.item == index }) == 1
        else { return nil }
        let fitting = networks.values.filter { item.descriptor.fits($0.network.ssid) }
        return fitting.count == 1 ? fitting[0].heard : nil
    }

    /// An accessory that gets a new descriptor: there at once when nothing of it is to be found first, else as soon as it is in range.
    private func upgrades(of id: AccessoryID, ledger: Ledger) -> [Offer] {
        guard let accessory = ledger.accessories[id], let item = items.first else { return [] }
        let descriptor = item.descriptor
        if descriptor.wifiAware != nil { return services.values.filter { $0.item != nil }.map { upgrade(of: accessory, by: $0) } }
        let more = descriptor.supportedOptions.subtracting(accessory.descriptor.supportedOptions)
        let needsPairing =
            item.descriptor.wantsPairing && (!accessory.isBonded || !more.isDisjoint(with: [.transportBridging, .hid]))
        let devices = candidates.values.filter {
            $0.item != nil && (accessory.address == nil || $0.advertisement.address == accessory.address)
        }.sorted { $0.offer < $1.offer }
        if descriptor.wantsBluetooth, devices.isEmpty, needsPairing || accessory.address == nil { return [] }
        // A network of which only the beginning is given is picked; one that the accessory has already stays.
        let hasNetwork = !descriptor.wantsWiFi || accessory.ssid.map(descriptor.fits) == true
        let found = networks.values.filter { descriptor.fits($0.network.ssid) }.sorted { $0.offer < $1.offer }
        if !hasNetwork, found.isEmpty, !descriptor.wantsBluetooth || descriptor.ssid != nil { return [] }
        func offer(_ number: Int, _ device: Candidate?, _ network: WiFiNetwork?) -> Offer {
            let advert = device?.advertisement
            return Offer(
                id: "\(number)", device: advert?.device ?? RadioDeviceID(""), address: accessory.address ?? advert?.address,
                item: 0,
                name: accessory.displayName, advertisedName: advert?.localName ?? network?.ssid.description ?? "",
                rssi: device?.rssi ?? network?.rssi, shared: id, needsPairing: descriptor.wantsBluetooth && needsPairing,
                isBonded: advert?.isPaired ?? accessory.isBonded, identifier: id, support: item.supportWhilePairing,
                network: network)
        }
        if !hasNetwork, !descriptor.wantsBluetooth { return found.map { offer($0.offer, nil, $0.heard) } }
        let network = hasNetwork ? nil : found.count == 1 ? found[0].heard : nil
        return devices.isEmpty ? [offer(1, nil, network)] : devices.map { offer($0.offer, $0, network) }
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

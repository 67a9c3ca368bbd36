// One picker run: the machine, the matcher, and what was heard of the accessories that match.

public import AccessoryCore
public import AccessoryModel

public final class PickerRun {
    /// Counted up, never used twice in a daemon's life.
    public let id: Int
    public let session: Session
    public let items: [DisplayItem]
    public let settings: PickerSettings
    /// The picker program that shows it.
    public internal(set) var client: ClientID
    public internal(set) var machine: SetupMachine
    /// Seconds since 1970; nil when discovery is unbounded or its time does not run.
    public internal(set) var deadline: Double?

    var discovery: DiscoveryToken?
    var deadlineTimer: (any EngineTimer)?
    var pruneTimer: (any EngineTimer)?
    /// The intent noted for the pairing that runs.
    var intent: BondIntent?

    private var matcher: Matcher
    private let dependsOnDistance: Bool
    private var candidates: [RadioDeviceID: Candidate] = [:]
    private var offersMade = 0

    /// One device in range. A class, so that the thousands of updates that change only its strength change it in place.
    private final class Candidate {
        var advertisement: Advertisement
        var smoothed: Double?
        var lastHeard = 0.0
        var item: Int?
        let offer: Int

        init(_ advertisement: Advertisement, offer: Int) {
            self.advertisement = advertisement
            self.offer = offer
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
    /// How much a new sample of the signal strength counts; the radio gives one every half second, itself a mean.
    private static let smoothing = 0.5

    init(id: Int, session: Session, items: [DisplayItem], settings: PickerSettings, client: ClientID, nearness: Matcher.Nearness) {
        self.id = id
        self.session = session
        self.items = items
        self.settings = settings
        self.client = client
        machine = SetupMachine(isBounded: settings.discoveryTimeout != nil)
        matcher = Matcher(items.map(\.descriptor), nearness: nearness)
        dependsOnDistance = items.contains { $0.descriptor.range == .immediate }
    }

    public var presentation: PickerPresentation { machine.presentation }

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
            if before != nil || candidate.item != nil { changed = true }
        }
        if candidates.count > Limits.trackedDevices { dropOldest() }
        return changed
    }

    private func admit(_ advertisement: Advertisement) -> Candidate {
        offersMade += 1
        let candidate = Candidate(advertisement, offer: offersMade)
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

    /// What the person may pick now, in the order of appearance. What this app has already is not offered again.
    func offers(ledger: Ledger) -> [Offer] {
        var matching = candidates.values.filter { $0.item != nil }
        if matching.count > Limits.offersShown {
            // The nearest are shown; among equals those that were there first.
            matching.sort { ($0.rssi ?? -128, $1.offer) > ($1.rssi ?? -128, $0.offer) }
            matching.removeSubrange(Limits.offersShown...)
        }
        matching.sort { $0.offer < $1.offer }
        return matching.compactMap { offer(for: $0, ledger: ledger) }
    }

    private func offer(for candidate: Candidate, ledger: Ledger) -> Offer? {
        guard let index = candidate.item else { return nil }
        let advert = candidate.advertisement
        let known = ledger.accessory(at: advert.address)
        if let known, ledger.grant(of: known.id, to: session.app.id) != nil { return nil }
        let wantsPairing = items[index].descriptor.supportedOptions.contains(.pairingLE)
        return Offer(
            id: "\(candidate.offer)", device: advert.device, address: advert.address, item: index,
            name: known?.displayName ?? items[index].name, advertisedName: advert.localName ?? "", rssi: candidate.rssi,
            shared: known?.id, needsPairing: wantsPairing && known?.isBonded != true, isBonded: advert.isPaired)
    }

    /// The image of an offer: the stored one when it is shared, else the item's.
    func image(of offer: Offer, ledger: Ledger) -> ProductImage? {
        offer.shared.flatMap { ledger.accessories[$0]?.image } ?? items[offer.item].image
    }
}

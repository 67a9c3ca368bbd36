// SPDX-License-Identifier: Apache-2.0
// One picker run: the app's request, its presenter, its state and its offers.

public import AccessoryCore
public import AccessoryModel

/// One picker, from the app's request to its end. There is one at a time (rule 7).
public final class PickerRun {
    /// The app's request.
    public enum Request: Hashable, Sendable {
        /// Set up an accessory; migrations may ride along.
        case discovery
        /// Take known accessories over.
        case migration
        /// Another name for an accessory.
        case rename(AccessoryID)
        /// Give an accessory the side that a new descriptor asks for.
        case authorization(AccessoryID)
        /// More time for a grant that ends, with these rules, or by the person's choice.
        case renewal(AccessoryID, [EndRule], choices: [EndChoice])

        /// The name on the bus.
        public var kind: String {
            switch self {
            case .discovery: "discovery"
            case .migration: "migration"
            case .rename: "rename"
            case .authorization: "authorization"
            case .renewal: "renewal"
            }
        }
    }

    /// A known accessory that is to be taken over.
    struct MigrationTarget {
        let offer: Offer
        let item: DisplayItem
        /// Its adverts and its network.
        private(set) var candidate: AccessoryCandidate
        private(set) var evidence: Matcher.Evidence

        init(_ offer: Offer, _ item: DisplayItem, _ candidate: AccessoryCandidate, _ evidence: Matcher.Evidence) {
            self.offer = offer
            self.item = item
            self.candidate = candidate
            self.evidence = evidence
        }

        /// Takes in an advert that was heard while the page is shown.
        fileprivate mutating func hear(_ advertisement: Advertisement) {
            guard evidence == .missing, advertisement.address == offer.address else { return }
            evidence = Matcher.evidence(of: advertisement, for: item.descriptor)
            if evidence != .missing { candidate.advertisement = advertisement }
        }
    }

    /// The known accessories that the app has listed.
    struct Migrations {
        /// Those that can be taken over.
        var targets: [MigrationTarget] = []
        /// Why the others cannot.
        var refused: [SetupError] = []
    }

    /// Seconds after which a device that was not heard is gone from the picker.
    public static let silence = InRange.silence

    /// Counted up, never used twice in a daemon's life.
    public let id: Int
    /// The session that asked for it.
    public let session: Session
    /// The app's request.
    public let request: Request
    /// The app's items, at most `Limits.itemsPerPicker`; of an update of an authorization the one that the
    /// accessory becomes.
    /// Empty for a new name, and for a migration by itself.
    public let items: [DisplayItem]
    /// The app's settings; their defaults where it had no say.
    public let settings: PickerSettings
    /// The picker program that shows it.
    public internal(set) var client: ClientID
    /// How far the run is.
    public internal(set) var machine: SetupMachine
    /// Seconds since 1970; nil when discovery is unbounded or its time does not run.
    public internal(set) var deadline: Double?

    private(set) var migrations: Migrations
    /// Devices, networks and services that match its items.
    let inRange: InRange
    private let disclosure: DisclosureBox

    /// The accessories that the app's extension has reported; nil for a run without one.
    private(set) var reported: ReportedItems?

    /// `InRange` reports matches to this box, which exists before it.
    private final class DisclosureBox {
        var value = Disclosure()
    }

    init(
        id: Int, session: Session, request: Request, purpose: SetupMachine.Purpose, items: [DisplayItem] = [],
        migrations: Migrations = Migrations(), settings: PickerSettings = PickerSettings(),
        reported: ReportedItems? = nil, client: ClientID, nearness: Matcher.Nearness
    ) {
        self.reported = reported
        self.id = id
        self.session = session
        self.request = request
        self.items = items
        self.migrations = migrations
        self.settings = settings
        self.client = client
        machine = SetupMachine(purpose)
        let disclosure = DisclosureBox()
        self.disclosure = disclosure
        inRange = InRange(items, nearness: nearness) { key in
            if settings.options.contains(.filterDiscoveryResults) { disclosure.value.add(key) }
        }
    }

    // MARK: State

    /// The picker as the person sees it.
    public var presentation: PickerPresentation { machine.presentation }

    /// The accessory of the app's that this run is about: without it the run has nothing more to do.
    var subject: AccessoryID? {
        switch request {
        case .rename(let id), .authorization(let id), .renewal(let id, _, _): id
        case .discovery, .migration: machine.accessory
        }
    }

    /// Whether renaming changes the network's name along with the accessory's.
    var renamesNetwork: Bool {
        guard case .rename = request else { return false }
        return presentation.offers.first?.network != nil
    }

    /// Whether the evidence about a known accessory waits for its adverts.
    var lacksEvidence: Bool { migrations.targets.contains { $0.evidence == .missing } }

    /// Takes in adverts of known accessories.
    func hear(_ changes: [HeardDevice]) {
        guard lacksEvidence else { return }
        for content in changes.compactMap(\.content) {
            for index in migrations.targets.indices { migrations.targets[index].hear(content) }
        }
    }

    /// Accessories that are taken over along with the one that is set up.
    public var ridingAlong: [Offer] { request == .discovery ? migrations.targets.map(\.offer) : [] }

    /// Whether this run looks for anything that this radio finds.
    func needs(_ technology: Technology) -> Bool {
        if let reported { return technology == .bluetooth ? reported.wantsBluetooth : !reported.networks.isEmpty }
        return items.contains { item in
            switch technology {
            case .bluetooth: item.descriptor.wantsBluetooth
            case .wifi: item.descriptor.wantsWiFi || item.descriptor.wifiAware != nil
            }
        }
    }

    /// Networks that may be hidden: those with a whole name.
    var hiddenNames: [SSID] {
        var names: [SSID] = []
        for name in items.compactMap(\.descriptor.network) + (reported?.networks ?? []) where !names.contains(name) {
            names.append(name)
        }
        return names
    }

    /// Takes in a report of the app's extension.
    ///
    /// - Throws: `InvalidRequest` for one that breaks the rules.
    func take(_ report: ExtensionReport, now: Double) throws(SetupError) {
        try reported?.take(report, now: now)
        inRange.reportedNetworks = Set(reported?.networks ?? [])
    }

    // MARK: Offers

    /// - Parameter unattended: where no person picks.
    func list(_ ledger: Ledger, _ policy: AccessPolicy, _ unattended: Unattended? = nil) -> OfferList {
        OfferList(
            request: request, app: session.app.id, items: items, isFiltered: settings.options.contains(.filterDiscoveryResults),
            inRange: inRange,
            disclosure: disclosure.value, reported: reported, ledger: ledger, policy: policy, unattended: unattended)
    }

    /// The advert and the network of an offered accessory.
    func candidate(of offer: Offer) -> AccessoryCandidate {
        AccessoryCandidate(
            advertisement: offer.address.flatMap { inRange.devices[$0]?.content }, network: offer.network,
            kind: offer.kind == nil ? nil : items[offer.item].descriptor)
    }

    /// The services and companies that an offered accessory has advertised: those of its advert, and those by which its
    /// item has matched earlier ones.
    func traits(of offer: Offer) -> Accessory.Traits {
        var traits = candidate(of: offer).advertisement.map { Accessory.Traits($0) } ?? Accessory.Traits()
        if offer.device != nil { traits.formUnion(Accessory.Traits(item(of: offer).descriptor)) }
        return traits
    }

    /// The item that a picked offer stands for, as the app wants it set up.
    func item(of offer: Offer) -> DisplayItem {
        if let item = reported?[offer.reported] {
            return item.displayItem(offer.address == nil ? nil : items[offer.item].descriptor)
        }
        var item = items[offer.item]
        guard let chosen = disclosure.value.item(for: offer.identifier) else { return item }
        item.name = chosen.name
        item.image = chosen.image ?? item.image
        return item
    }

    /// The image of an offer: the stored one when it is shared, else the item's.
    func image(of offer: Offer, _ ledger: Ledger) -> ProductImage? {
        if let shared = offer.shared, let stored = ledger.accessories[shared] { return stored.image }
        if let migration = migrations.targets.first(where: { $0.offer.id == offer.id }) { return migration.item.image }
        return offer.reported != nil || items.indices.contains(offer.item) ? item(of: offer).image : nil
    }

    // MARK: Terms

    /// The terms of the grant that a pick makes, as the app and the rules have them.
    public func terms(of offer: Offer, _ ledger: Ledger, _ policy: AccessPolicy) -> OfferTerms {
        let app = session.app.id
        if case .renewal(let id, let rules, let choices) = request {
            guard let granted = ledger.granted(id, to: app) else { return OfferTerms() }
            return OfferTerms(rules, choices, granted.grant.terms.descriptor, policy.limits(on: granted), isNew: false)
        }
        let migrated = migrations.targets.first { $0.offer.id == offer.id }?.item
        guard migrated != nil || offer.reported != nil || items.indices.contains(offer.item) else { return OfferTerms() }
        let item = migrated ?? self.item(of: offer)
        var limits = policy.limits(on: candidate(of: offer), to: app)
        var former: AccessLimit?
        // An accessory that the app has need not be in range.
        if case .authorization(let id) = request, let granted = ledger.granted(id, to: app) {
            (limits, former) = (policy.limits(on: granted), granted.grant.terms.narrowing)
        }
        // A migration is a question, without a choice.
        let (isNew, choices) = migrated == nil ? (request == .discovery, item.endChoices) : (false, [])
        return OfferTerms(
            item.end.map { [$0] } ?? [], choices, item.descriptor, insteadOf: former, limits, isNew: isNew)
    }

    // MARK: Discoveries

    var hasUndisclosed: Bool { disclosure.value.isPending }

    /// Matches that were not disclosed to the app yet, except for accessories that it has.
    func discoveries(_ ledger: Ledger, _ policy: AccessPolicy) -> [DiscoveredAccessory] {
        disclosure.value.next(list(ledger, policy).discovery)
    }

    /// Shows accessories that the app has looked at.
    ///
    /// - Throws: `InvalidRequest` for one that was not disclosed, and past `Limits.imageBytesPerPicker`.
    func show(_ new: [DiscoveredItem]) throws(SetupError) {
        for (index, item) in new.enumerated() where !disclosure.value.isDisclosed(item.identifier) {
            throw .invalid("items[\(index)].identifier", item.identifier, "was not discovered in this picker")
        }
        let bytes = disclosure.value.imageBytes(with: new) + items.reduce(0) { $0 + ($1.image?.bytes.count ?? 0) }
        guard bytes <= Limits.imageBytesPerPicker else {
            throw .invalid("items", "\(bytes) bytes of images in this picker", "more than \(Limits.imageBytesPerPicker)")
        }
        disclosure.value.show(new)
    }
}

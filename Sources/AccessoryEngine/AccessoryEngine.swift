// The engine: the one owner of sessions, picker runs and the ledger. It asks the pure decisions (AccessoryCore) and performs what
// they say through its ports. It lives on one thread and is not Sendable, so the compiler keeps it there (Docs/Decisions/0003). Here
// are its state and the sessions; the extensions beside this file hold requests for a person, grants, running pickers, bonds, the radio.

public import AccessoryCore
public import AccessoryModel
public import Logging

public final class AccessoryEngine {
    /// Things an admin can set.
    public struct Configuration: Hashable, Sendable {
        /// What `immediate` means, dBm.
        public var nearness = Matcher.Nearness()
        public init() {}
    }

    public weak var observer: (any EngineObserver)?
    /// Called when grants, accessories or where the radio has them have changed: who may reach what is to be asked anew.
    public var onAccessChange: (() -> Void)?
    public internal(set) var ledger: Ledger
    public private(set) var sessions: [Int: Session] = [:]
    /// At most one: there is one person (rule 7).
    public internal(set) var picker: PickerRun?
    /// Registered picker programs, the first of them shows the next picker.
    public internal(set) var pickerClients: [ClientID] = []

    let radio: any Radio
    let networks: any NetworkRadio
    let store: any LedgerStore
    let clock: any EngineClock
    let configuration: Configuration
    let log: Logger
    /// Says who a client is, for the audit trail.
    public var describeClient: (ClientID) -> String = { $0.rawValue }
    /// What the admin allows; see `setPolicy`.
    public internal(set) var policy = AccessPolicy()
    let trail: (any AuditTrail)?
    var unwritten: [AuditEntry] = []
    var auditTimer: (any EngineTimer)?
    var refusals = (minute: 0, count: 0)
    /// Who wants to know what is in range, and why it is not offered.
    var explanations: [Explanation] = []
    private var sessionsMade = 0
    var pickersMade = 0
    var intents: [BondIntent]
    var cleaning: Set<BondIntent> = []
    /// Done with, and still in the store, which did not take it.
    var toForget: [BondIntent] = []
    var forgetTimer: (any EngineTimer)?
    /// Seconds until that is tried again.
    var forgetDelay = 1.0
    /// Grants whose last use is not in the store yet.
    var unwrittenUses: Set<Int64> = []
    var useTimer: (any EngineTimer)?
    /// When the trail last told of a grant's use, in monotonic seconds.
    var toldUses: [Int64: Double] = [:]
    /// Accessories whose classic side is being paired.
    var bridging: Set<AccessoryID> = []
    /// The accessory's network that the machine is on.
    var networkUse: NetworkUse?
    var pendingEvents: [SetupMachine.Event] = []
    var isFeeding = false

    /// - Throws: what the store throws when it cannot be read.
    public init(
        radio: any Radio, networks: any NetworkRadio, store: any LedgerStore, clock: any EngineClock,
        configuration: Configuration = Configuration(),
        trail: (any AuditTrail)? = nil, log: Logger
    ) throws {
        self.radio = radio
        self.networks = networks
        self.trail = trail
        self.store = store
        self.clock = clock
        self.configuration = configuration
        self.log = log
        let stored = try store.load()
        ledger = Ledger(accessories: stored.accessories, grants: stored.grants)
        intents = stored.intents
        for intent in intents {
            log.notice("unfinished business from an earlier run", metadata: ["purpose": "\(intent.purpose.rawValue)"])
            log.debug("unfinished business", metadata: ["address": "\(intent.address)"])
        }
    }

    /// Begins: follows the radio, and finishes what an earlier run left unfinished.
    public func start() {
        radio.observer = self
        networks.observer = self
        radio.start()
        networks.start()
        cleanUp()
    }

    public var radioState: RadioState { radio.state }
    public var networkRadioState: RadioState { networks.state }

    /// The radio's name for an accessory, if it knows it now.
    public func device(of accessory: Accessory) -> RadioDeviceID? {
        accessory.address.flatMap { radio.device(for: $0) }
    }

    /// The admin's policy has changed: what it denies is neither offered nor reached any more.
    public func setPolicy(_ new: AccessPolicy) {
        policy = new
        onAccessChange?()
        reviewNetworkUse()
        refreshOffers()
    }

    // MARK: Sessions

    /// A session for an app.
    ///
    /// - Throws: `InvalidRequest` past `Limits.sessionsPerApp`.
    public func createSession(client: ClientID, app: AppManifest) throws(SetupError) -> Session {
        guard sessions.values.count(where: { $0.app.id == app.id }) < Limits.sessionsPerApp else {
            throw .invalid("CreateSession", app.id, "has \(Limits.sessionsPerApp) sessions already")
        }
        sessionsMade += 1
        let session = Session(id: sessionsMade, client: client, app: app)
        sessions[session.id] = session
        log.info("session created", metadata: ["session": "\(session.id)", "app": "\(app.id)"])
        observer?.sessionOpened(session)
        return session
    }

    /// - Parameter accepted: called between the checks and the first event.
    public func activate(_ session: Session, accepted: () -> Void = {}) throws(SetupError) {
        guard session.state == .created else { throw wrongState(session, "Activate") }
        session.state = .active
        accepted()
        log.info("session created → active", metadata: ["session": "\(session.id)", "app": "\(session.app.id)"])
        observer?.sessionChanged(session)
        observer?.event(SessionEvent(.activated), in: session)
    }

    public func invalidate(_ session: Session, reason: String, accepted: () -> Void = {}) {
        guard session.state != .invalidated else { return accepted() }
        log.info(
            "session \(session.state.rawValue) → invalidated",
            metadata: ["session": "\(session.id)", "app": "\(session.app.id)", "reason": "\(reason)"])
        accepted()
        if let picker, picker.session === session {
            feed(.appGone)
            // A pairing is called off first, and ends after the session: what the app is to hear of it, it hears now.
            if self.picker === picker { emit(.pickerDidDismiss(SetupError(.invalidated, "the session was invalidated")), picker) }
        }
        session.state = .invalidated
        observer?.sessionChanged(session)
        observer?.event(SessionEvent(.invalidated), in: session)
        sessions[session.id] = nil
        observer?.sessionClosed(session)
        // It sees its accessories no longer, so it could not leave their networks either.
        reviewNetworkUse()
    }

    func wrongState(_ session: Session, _ request: String) -> SetupError {
        session.state == .invalidated
            ? SetupError(.invalidated, "\(request): the session was invalidated")
            : SetupError(.invalidRequest, "\(request): the session is \(session.state.rawValue)")
    }

    /// A connection is gone: its sessions end, and its picker.
    public func clientGone(_ client: ClientID) {
        for session in sessions.values.sorted(by: { $0.id < $1.id }) where session.client == client {
            invalidate(session, reason: "the app's connection closed")
        }
        unregisterPicker(client)
        reviewNetworkUse()
    }
}

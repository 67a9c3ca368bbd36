// SPDX-License-Identifier: Apache-2.0
// Accessories, grants, manifests and the admin's rules. Access changes only here: a change is stored, then applied,
// then published, with its line in the audit trail. (The last use of a grant is applied at once and stored later.)

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class GrantRegistry {
    private(set) var ledger: Ledger
    private(set) var policy = AccessPolicy()
    private(set) var claims: Claims
    private(set) var manifests: [AppID: AppManifest] = [:]
    private let store: any LedgerStore
    private let sessions: Sessions
    private let publisher: EventPublisher
    private let audit: AuditWriter
    private let clock: any EngineClock
    private let time: GrantTime
    private let log: Logger
    private var uses = UseNotes()

    /// Uses of grants that the store, or the trail, does not have yet or again.
    private struct UseNotes {
        /// Grants whose last use is not in the store yet.
        var unwritten: Set<Int64> = []
        /// Runs while uses wait for the store.
        var timer: (any EngineTimer)?
        /// Times of the last lines `used` and `refused` about each grant, in monotonic seconds.
        private var recorded: [AuditEntry.Event: [Int64: Double]] = [:]

        /// Whether a line is due about a grant; notes the time of that line then.
        mutating func isDue(_ event: AuditEntry.Event, _ grant: Int64, at uptime: Double) -> Bool {
            if let time = recorded[event]?[grant], uptime - time < GrantRegistry.betweenUses { return false }
            recorded[event, default: [:]][grant] = uptime
            return true
        }

        mutating func forget(_ grant: Int64) { for event in recorded.keys { recorded[event]?[grant] = nil } }
    }

    /// Seconds that the last use of a grant may wait for the disk, and for its next line in the trail.
    static let betweenUses = 60.0

    init(
        _ ledger: Ledger, _ claims: Claims, _ store: any LedgerStore, _ sessions: Sessions, _ publisher: EventPublisher,
        _ audit: AuditWriter,
        _ clock: any EngineClock, _ time: GrantTime, _ log: Logger
    ) {
        self.time = time
        self.ledger = ledger
        self.claims = claims
        self.store = store
        self.sessions = sessions
        self.publisher = publisher
        self.audit = audit
        self.clock = clock
        self.log = log
    }

    /// An accessory as an app may use it now, by Bluetooth or by its network: the grant is switched on, stands and
    /// includes that, the app's manifest declares it, and no rule denies it.
    func usable(_ id: AccessoryID, to app: AppID, by technology: Technology) -> GrantedAccessory? {
        guard let granted = ledger.granted(id, to: app), obstacle(to: granted, by: technology) == nil else { return nil }
        return granted
    }

    /// Why an app cannot use an accessory now by a technology; nil where it can.
    func obstacle(to granted: GrantedAccessory, by technology: Technology) -> GrantObstacle? {
        let grant = granted.grant
        guard grant.isEnabled else { return .disabled }
        guard time.isRunning(grant) else { return .ended }
        guard grant.state != .unauthorized else { return .unauthorized }
        guard grant.terms.includes(technology) else { return .notIncluded }
        if let denial = policy.denial(of: granted) { return .denied(denial) }
        do throws(SetupError) {
            try declared(grant.terms, technology, by: grant.app)
            return nil
        } catch {
            return .undeclared(error.message)
        }
    }

    /// - Throws: `InvalidRequest` for terms that the app's manifest does not declare, `ActivationFailed` for an app
    ///   without a manifest.
    func declared(_ terms: Grant.Terms, _ technology: Technology, by app: AppID) throws(SetupError) {
        guard let manifest = manifests[app] else { throw SetupError(.activationFailed, "\(app) has no manifest") }
        try DescriptorRules.check(terms, technology, declaredBy: manifest)
    }

    func setManifests(_ new: [AppID: AppManifest]) {
        guard new != manifests else { return }
        manifests = new
        publisher.publish(.access)
    }

    func setPolicy(_ new: AccessPolicy) {
        policy = new
        publisher.publish(.access)
        publisher.publish(.policy)
        limitAll()
    }

    /// Grants from before a rule get its limits; a time counts from now.
    private func limitAll() {
        for grant in ledger.grants.values.sorted(by: { $0.id < $1.id }) {
            guard case let limited = limited(grant, in: ledger), limited != grant,
                let granted = ledger.granted(grant.accessory, to: grant.app),
                let rule = policy.limits(on: granted).first(where: { $0.maxDuration != nil || $0.access != nil })
            else { continue }
            var changes: [String] = []
            if limited.terms.time != grant.terms.time {
                changes.append("ends in \(limited.terms.time.rules.map(\.description).joined(separator: ", "))")
            }
            if limited.terms.ceiling != grant.terms.ceiling { changes.append("access at most \(limited.terms.ceiling)") }
            let why = changes.joined(separator: "; ")
            do throws(SetupError) {
                try change(
                    [.grant(limited)], line: AuditWriter.Line(.updated, app: grant.app, accessory: grant.accessory, why: why),
                    reason: why, by: .rule(name: rule.name, source: rule.source))
            } catch {
                log.error("could not limit a grant", metadata: ["grant": "\(grant.id)", "error": "\(error.message)"])
            }
        }
    }

    /// A grant as the rules limit it.
    private func limited(_ grant: Grant, in ledger: Ledger) -> Grant {
        guard grant.state != .unauthorized, let granted = ledger.granted(grant.accessory, to: grant.app) else { return grant }
        let limits = policy.limits(on: granted)
        var limited = grant
        if let seconds = limits.compactMap(\.maxDuration).min() {
            limited.terms.time = grant.terms.time.bounded(by: seconds, at: time.now)
        }
        if !grant.terms.descriptor.isKind {
            limited.terms.ceiling = limits.compactMap(\.access).reduce(grant.terms.ceiling) { $0.narrowed(by: $1) }
        }
        return limited
    }

    /// Stores how much time has passed. A failure costs the next start that knowledge, and is only logged.
    func store(_ anchor: ElapsedClock.Anchor) {
        do {
            try store.commit(StoreChange(clock: anchor))
        } catch {
            log.error("could not store the time", metadata: ["error": "\(error)"])
        }
    }

    /// The rules and claim lists for an app at this moment.
    func unattended(for app: AppID) -> Unattended { Unattended(policy, claims, app, now: clock.now) }

    /// The accessory of an entry was picked, and its run has ended.
    func endAttempt(at key: Claim.Key) { if claims.made[key] == nil { claims.addFailure(of: key, at: clock.now) } }

    // MARK: Changes

    /// Stores, applies and publishes a change.
    ///
    /// - Parameters:
    ///   - asked: the steps, before the rules limit their grants.
    ///   - claim: the entry of a claim list that the change uses up, in the same transaction.
    ///   - adding, finishing: intents about bonds that begin and end in the same transaction.
    ///   - line: one for the trail besides those that the steps make.
    ///   - written: called once the store has taken it, before anything changes.
    /// - Throws: for a change that is not allowed, and `Unknown` when the store refuses; nothing has changed then.
    func change(
        _ asked: [Ledger.Step], claim: Claim? = nil, adding new: [BondIntent] = [], finishing finished: [BondIntent] = [],
        line: AuditWriter.Line? = nil, reason: String, by requester: Requester, written: () -> Void = {}
    ) throws(SetupError) {
        let before = ledger
        var after = ledger
        after.apply(asked)
        let steps = asked.map { step -> Ledger.Step in
            guard case .grant(let grant) = step else { return step }
            return .grant(limited(grant, in: after))
        }
        if steps != asked { after.apply(steps) }
        try admit(steps, before, after)
        let lines = steps.flatMap { self.lines(for: $0, reason: reason) } + (line.map { [$0] } ?? [])
        let published = try audit.write(lines, by: requester) { lines in
            let clock = steps.contains(where: \.hasEnd) ? time.anchor : nil
            return try store.commit(StoreChange(steps, clock: clock, claim: claim, adding: new, finishing: finished, lines: lines))
        }
        written()
        ledger = after
        if let claim { claims.add(claim) }
        // Revoked access ends before any event about it.
        publisher.publish(.access)
        // Lines come while their subjects exist: after new ones appear, before old ones go.
        let appearing = steps.prefix { if case .put = $0 { true } else { false } }
        for step in appearing { publish(step, before: before, reason: reason) }
        if !published.isEmpty { publisher.publish(.audited(published)) }
        for step in steps.dropFirst(appearing.count) { publish(step, before: before, reason: reason) }
        if claim != nil { publisher.publish(.policy) }
    }

    /// The one gate for access: whichever request leads to it, a grant that is new or opens more is held against the
    /// admin's switch, the app's manifest and the rules as they are at this moment (rule 20).
    private func admit(_ steps: [Ledger.Step], _ before: Ledger, _ after: Ledger) throws(SetupError) {
        if before.rival(of: steps) != nil {
            throw SetupError(.connectionFailed, "the device is already set up as another accessory")
        }
        for case .grant(let grant) in steps {
            let old = before.grants[grant.id]
            guard old.map({ opensMore(grant, than: $0) }) ?? true,
                let granted = after.granted(grant.accessory, to: grant.app)
            else { continue }
            guard old?.isEnabled != false else {
                throw SetupError(.userRestricted, "an admin has switched this accessory off for \(grant.app)")
            }
            if let denial = policy.denial(of: granted) {
                throw SetupError(.userRestricted, "rule \(denial.name) in \(denial.source) denies it")
            }
            for technology in [Technology.bluetooth, .wifi] where grant.terms.includes(technology) {
                try declared(grant.terms, technology, by: grant.app)
            }
        }
    }

    private func opensMore(_ grant: Grant, than old: Grant) -> Bool {
        var terms = grant.terms
        (terms.time, terms.ceiling) = (old.terms.time, old.terms.ceiling)
        guard terms == old.terms, grant.terms.access.isWithin(old.terms.access),
            grant.state == old.state || grant.state == .unauthorized
        else { return true }
        let now = time.now
        return grant.terms.time.remaining(at: now) ?? .infinity > old.terms.time.remaining(at: now) ?? .infinity
            && !grant.terms.time.hasEnded
    }

    /// - Throws: `Unknown` when the store refuses.
    func nextGrantID() throws(SetupError) -> Int64 { try storing(log) { try store.nextGrantID() } }

    /// - Throws: `Unknown` when the store refuses.
    func nextAwareDevice() throws(SetupError) -> UInt64 { try storing(log) { try store.nextAwareDevice() } }

    /// The lines for a step, before it is applied.
    private func lines(for step: Ledger.Step, reason: String) -> [AuditWriter.Line] {
        func line(_ event: AuditEntry.Event, _ grant: Grant) -> AuditWriter.Line {
            AuditWriter.Line(event, app: grant.app, accessory: grant.accessory, why: reason)
        }
        switch step {
        case .put, .delete: return []
        case .revoke(let id): return ledger.grants[id].map { [line(.revoked, $0)] } ?? []
        case .grant(let grant):
            guard let old = ledger.grants[grant.id] else {
                let access = grant.terms.narrowing.map { ", access \($0)" } ?? ""
                return [AuditWriter.Line(.granted, app: grant.app, accessory: grant.accessory, why: reason + access)]
            }
            var lines: [AuditWriter.Line] = []
            if old.isEnabled != grant.isEnabled { lines.append(line(grant.isEnabled ? .enabled : .disabled, grant)) }
            if grant.terms.time.hasEnded, !old.terms.time.hasEnded { lines.append(line(.ended, grant)) }
            if old.state != grant.state, grant.state == .authorized { lines.append(line(.authorized, grant)) }
            return lines
        }
    }

    private func publish(_ step: Ledger.Step, before: Ledger, reason: String) {
        switch step {
        case .put(let accessory):
            guard let old = before.accessories[accessory.id] else { return publisher.publish(.accessoryAppeared(accessory)) }
            publisher.publish(.accessoryChanged(accessory, from: old))
            // A grant that is new, or has changed itself, has its own step.
            for grant in ledger.grants(of: accessory.id) where before.grants[grant.id] == grant {
                publishChange(of: GrantedAccessory(accessory, grant), from: GrantedAccessory(old, grant))
            }
        case .grant(let grant):
            guard let old = before.grants[grant.id], let accessory = ledger.accessories[grant.accessory] else {
                return publishNew(grant, before: before, reason: reason)
            }
            publisher.publish(.grantChanged(grant, from: old))
            if old.user != grant.user {
                for user in [old.user, grant.user] { publishOwnGrants(of: accessory, by: user, before: before, at: grant.id) }
            }
            if old.isEnabled != grant.isEnabled { publishVisibility(of: grant, before: before, grant.isEnabled) }
            publishChange(
                of:
                    GrantedAccessory(accessory, grant),
                from: GrantedAccessory(before.accessories[grant.accessory] ?? accessory, old))
        case .revoke(let id):
            guard let grant = before.grants[id] else { return }
            log.notice(
                "grant revoked",
                metadata: ["grant": "\(id)", "app": "\(grant.app)", "accessory": "\(grant.accessory)", "reason": "\(reason)"])
            uses.forget(id)
            publisher.publish(.grantDisappeared(grant))
            if let accessory = before.accessories[grant.accessory] {
                publishOwnGrants(of: accessory, by: grant.user, before: before, at: id)
            }
            if grant.isEnabled { publishVisibility(of: grant, before: before, false) }
        case .delete(let id):
            if let accessory = before.accessories[id] { publisher.publish(.accessoryDisappeared(accessory)) }
        }
    }

    private func publishNew(_ grant: Grant, before: Ledger, reason: String) {
        log.notice(
            "grant written",
            metadata: [
                "grant": "\(grant.id)", "app": "\(grant.app)", "accessory": "\(grant.accessory)", "reason": "\(reason)",
            ])
        publisher.publish(.grantAppeared(grant))
        guard let accessory = ledger.accessories[grant.accessory] else { return }
        publishOwnGrants(of: accessory, by: grant.user, before: before, at: grant.id)
        publisher.publish(.visibilityChanged(of: accessory, to: grant.app, visible: true))
        sessions.accessoriesChanged(of: grant.app)
    }

    /// A person's grants on an accessory are others now; once, where their first ones come or their last ones go
    /// together.
    private func publishOwnGrants(of accessory: Accessory, by user: UInt32?, before: Ledger, at grant: Int64) {
        guard let user else { return }
        let (old, new) = (before.grants(of: accessory.id, setUpBy: user), ledger.grants(of: accessory.id, setUpBy: user))
        guard !old.isEmpty || new.first?.id == grant, !new.isEmpty || old.last?.id == grant else { return }
        publisher.publish(.ownGrantsChanged(of: accessory, by: user, from: old, to: new))
    }

    /// An app sees an accessory again, or no longer.
    private func publishVisibility(of grant: Grant, before: Ledger, _ isVisible: Bool) {
        guard let accessory = before.accessories[grant.accessory] else { return }
        publisher.publish(.visibilityChanged(of: accessory, to: grant.app, visible: isVisible))
        sessions.accessoriesChanged(of: grant.app)
        var granted = GrantedAccessory(accessory, grant)
        if !isVisible { granted.grant.state = .unauthorized }
        sessions.publish(SessionEvent(isVisible ? .accessoryAdded : .accessoryRemoved, accessory: granted), to: grant.app)
    }

    /// An app gets the changes that it can see; another app's terms are not among those.
    private func publishChange(of granted: GrantedAccessory, from old: GrantedAccessory) {
        guard granted.grant.isEnabled, !granted.looksLike(old) else { return }
        sessions.publish(SessionEvent(.accessoryChanged, accessory: granted), to: granted.grant.app)
    }

    // MARK: Uses

    /// An app has used an accessory. That is worth a line in the trail once a minute, and a place in the store once a
    /// while: an app that connects again and again does not wear the flash.
    func recordUse(of accessory: AccessoryID, by app: AppID, requester: Requester, as what: String) {
        guard let old = ledger.grant(of: accessory, to: app) else { return }
        var grant = old
        grant.lastUsed = clock.now
        grant.terms.time = grant.terms.time.used(at: time.now)
        ledger.apply([.grant(grant)])
        publisher.publish(.grantChanged(grant, from: old))
        uses.unwritten.insert(grant.id)
        if uses.timer == nil { uses.timer = clock.after(Self.betweenUses) { [weak self] in self?.writeUses() } }
        record(.used, grant, by: requester, why: what)
    }

    /// A use was refused that a grant does not open: worth a line in the trail once a minute.
    func recordRefusedUse(of accessory: AccessoryID, by app: AppID, requester: Requester, why: String) {
        guard let grant = ledger.grant(of: accessory, to: app) else { return }
        record(.refused, grant, by: requester, why: why)
    }

    private func record(_ event: AuditEntry.Event, _ grant: Grant, by requester: Requester, why: String) {
        guard uses.isDue(event, grant.id, at: clock.uptime) else { return }
        audit.record(event, app: grant.app, accessory: grant.accessory, by: requester, why: why)
    }

    /// Writes down when grants were last used.
    func writeUses() {
        uses.timer?.cancel()
        uses.timer = nil
        let steps = uses.unwritten.compactMap { ledger.grants[$0].map(Ledger.Step.grant) }
        guard !steps.isEmpty else { return uses.unwritten = [] }
        do {
            try store.commit(StoreChange(steps))
            uses.unwritten = []
        } catch {
            // They wait for the next use: a disk that is full is not to be filled, nor an idle machine woken.
            log.error("could not record the last use of grants", metadata: ["error": "\(error)"])
        }
    }
}

extension Ledger.Step {
    /// Whether it is about a grant that ends.
    fileprivate var hasEnd: Bool { if case .grant(let grant) = self, case .running = grant.terms.time { true } else { false } }
}

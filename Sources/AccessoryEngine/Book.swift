// SPDX-License-Identifier: Apache-2.0
// The book of access: which accessories there are, which app has which of them, and what the admin's rules allow. It is
// the only place that changes them: a change is written down, then applied, then told to everybody concerned, with its
// line in the audit trail. (When a grant was last used is the exception: it is applied at once and written down in a
// while.)

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class Book {
    private(set) var ledger: Ledger
    private(set) var policy = AccessPolicy()
    private let store: any LedgerStore
    private let sessions: Sessions
    private let news: News
    private let audit: AuditWriter
    private let clock: any EngineClock
    private let log: Logger
    /// Grants whose last use is not in the store yet.
    private var unwrittenUses: Set<Int64> = []
    private var useTimer: (any EngineTimer)?
    /// When the trail last told of a grant's use, in monotonic seconds.
    private var toldUses: [Int64: Double] = [:]

    /// Seconds that the last use of a grant may wait for the disk, and for its next line in the trail.
    private static let betweenUses = 60.0

    init(
        _ ledger: Ledger, _ store: any LedgerStore, _ sessions: Sessions, _ news: News, _ audit: AuditWriter,
        _ clock: any EngineClock,
        _ log: Logger
    ) {
        self.ledger = ledger
        self.store = store
        self.sessions = sessions
        self.news = news
        self.audit = audit
        self.clock = clock
        self.log = log
    }

    /// The grant by which an app may use an accessory now: switched on, standing, and denied by no rule.
    func usableGrant(of accessory: Accessory, to app: AppID) -> Grant? {
        guard let grant = ledger.grant(of: accessory.id, to: app), grant.isEnabled, grant.state != .unauthorized,
            policy.denial(of: accessory, to: app) == nil
        else { return nil }
        return grant
    }

    func setPolicy(_ new: AccessPolicy) {
        policy = new
        news.tell(.access)
        news.tell(.policy)
    }

    // MARK: Changes

    /// Writes a change down, and tells everybody concerned.
    ///
    /// - Parameters:
    ///   - noting, finishing: what is to happen to bonds, and what has happened, in one transaction with the change.
    ///   - line: one for the trail besides those that the steps make.
    ///   - written: called once the store has taken it, before anything changes.
    /// - Throws: what the store throws; nothing has changed then.
    func change(
        _ steps: [Ledger.Step], noting new: [BondIntent] = [], finishing finished: [BondIntent] = [],
        line: AuditWriter.Line? = nil, reason: String, by requester: Requester, written: () -> Void = {}
    ) throws {
        let lines = steps.flatMap { self.lines(for: $0, reason: reason) } + (line.map { [$0] } ?? [])
        let told = try audit.write(lines, by: requester) { lines in
            try store.commit(StoreChange(steps, noting: new, finishing: finished, lines: lines))
        }
        written()
        let before = ledger
        ledger.apply(steps)
        // What is no longer granted is cut before anybody is told.
        news.tell(.access)
        // The lines come while what they name is there: after what is new has appeared, before anything goes.
        let appearing = steps.prefix { if case .put = $0 { true } else { false } }
        for step in appearing { tell(step, before: before, reason: reason) }
        if !told.isEmpty { news.tell(.audited(told)) }
        for step in steps.dropFirst(appearing.count) { tell(step, before: before, reason: reason) }
    }

    /// - Throws: what the store throws.
    func nextGrantID() throws -> Int64 { try store.nextGrantID() }

    /// - Throws: what the store throws.
    func nextAwareDevice() throws -> UInt64 { try store.nextAwareDevice() }

    /// What the trail says of a step, before it is done.
    private func lines(for step: Ledger.Step, reason: String) -> [AuditWriter.Line] {
        func line(_ event: AuditEntry.Event, _ grant: Grant) -> AuditWriter.Line {
            AuditWriter.Line(event, app: grant.app, accessory: grant.accessory, why: reason)
        }
        switch step {
        case .put, .delete: return []
        case .revoke(let id): return ledger.grants[id].map { [line(.revoked, $0)] } ?? []
        case .grant(let grant):
            guard let old = ledger.grants[grant.id] else { return [line(.granted, grant)] }
            var lines: [AuditWriter.Line] = []
            if old.isEnabled != grant.isEnabled { lines.append(line(grant.isEnabled ? .enabled : .disabled, grant)) }
            if old.state != grant.state, grant.state == .authorized { lines.append(line(.authorized, grant)) }
            return lines
        }
    }

    private func tell(_ step: Ledger.Step, before: Ledger, reason: String) {
        switch step {
        case .put(let accessory):
            guard let old = before.accessories[accessory.id] else { return news.tell(.accessoryAppeared(accessory)) }
            news.tell(.accessoryChanged(accessory, from: old))
            // A grant that is new, or has another state, has its own step.
            for grant in ledger.grants(of: accessory.id) where grant.isEnabled && before.grants[grant.id]?.state == grant.state {
                tellChanged(accessory, grant)
            }
        case .grant(let grant):
            guard let old = before.grants[grant.id] else { return tellNew(grant, reason: reason) }
            news.tell(.grantChanged(grant))
            if old.isEnabled != grant.isEnabled { tellVisibility(of: grant, before: before, grant.isEnabled) }
            if old.state != grant.state, let accessory = ledger.accessories[grant.accessory] {
                news.tell(.stateChanged(of: accessory, for: grant.app))
                if grant.isEnabled { tellChanged(accessory, grant) }
            }
        case .revoke(let id):
            guard let grant = before.grants[id] else { return }
            log.notice(
                "grant revoked",
                metadata: ["grant": "\(id)", "app": "\(grant.app)", "accessory": "\(grant.accessory)", "reason": "\(reason)"])
            toldUses[id] = nil
            news.tell(.grantDisappeared(grant))
            if grant.isEnabled { tellVisibility(of: grant, before: before, false) }
        case .delete(let id):
            if let accessory = before.accessories[id] { news.tell(.accessoryDisappeared(accessory)) }
        }
    }

    private func tellNew(_ grant: Grant, reason: String) {
        log.notice(
            "grant written",
            metadata: [
                "grant": "\(grant.id)", "app": "\(grant.app)", "accessory": "\(grant.accessory)", "reason": "\(reason)",
            ])
        news.tell(.grantAppeared(grant))
        guard let accessory = ledger.accessories[grant.accessory] else { return }
        news.tell(.visibilityChanged(of: accessory, to: grant.app, visible: true))
        sessions.accessoriesChanged(of: grant.app)
    }

    /// An app sees an accessory again, or no longer.
    private func tellVisibility(of grant: Grant, before: Ledger, _ isVisible: Bool) {
        guard let accessory = before.accessories[grant.accessory] else { return }
        news.tell(.visibilityChanged(of: accessory, to: grant.app, visible: isVisible))
        sessions.accessoriesChanged(of: grant.app)
        var event = SessionEvent(isVisible ? .accessoryAdded : .accessoryRemoved, accessory: accessory)
        event.state = isVisible ? grant.state : .unauthorized
        sessions.tell(grant.app, event)
    }

    private func tellChanged(_ accessory: Accessory, _ grant: Grant) {
        var event = SessionEvent(.accessoryChanged, accessory: accessory)
        event.state = grant.state
        sessions.tell(grant.app, event)
    }

    // MARK: Uses

    /// An app has used an accessory. That is worth a line in the trail once a minute, and a place in the store once a
    /// while: an app that connects again and again does not wear the flash.
    func noteUse(of accessory: AccessoryID, by app: AppID, requester: Requester, as what: String) {
        guard var grant = ledger.grant(of: accessory, to: app) else { return }
        grant.lastUsed = clock.now
        ledger.apply([.grant(grant)])
        news.tell(.grantChanged(grant))
        unwrittenUses.insert(grant.id)
        if useTimer == nil { useTimer = clock.after(Self.betweenUses) { [weak self] in self?.writeUses() } }
        if let told = toldUses[grant.id], clock.uptime - told < Self.betweenUses { return }
        toldUses[grant.id] = clock.uptime
        audit.note(.used, app: app, accessory: accessory, by: requester, why: what)
    }

    /// Writes down when grants were last used.
    func writeUses() {
        useTimer?.cancel()
        useTimer = nil
        let steps = unwrittenUses.compactMap { ledger.grants[$0].map(Ledger.Step.grant) }
        guard !steps.isEmpty else { return unwrittenUses = [] }
        do {
            try store.commit(StoreChange(steps))
            unwrittenUses = []
        } catch {
            // They wait for the next use: a disk that is full is not to be filled, nor an idle machine woken.
            log.error("the last use of grants could not be written", metadata: ["error": "\(error)"])
        }
    }
}

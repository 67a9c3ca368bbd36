// SPDX-License-Identifier: Apache-2.0
// Apps that a person does not want to be asked by: their pickers are refused until a person allows them again. Their
// grants stay, and so do approvals by a rule, which ask no person.

internal import AccessoryModel

final class MutedApps {
    private(set) var all: [AppID: MutedApp]
    private let store: any LedgerStore
    private let publisher: EventPublisher
    private let audit: AuditWriter
    private let clock: any EngineClock

    init(
        _ stored: [MutedApp], _ store: any LedgerStore, _ publisher: EventPublisher, _ audit: AuditWriter, _ clock: any EngineClock
    ) {
        all = Dictionary(stored.map { ($0.app, $0) }) { first, _ in first }
        self.store = store
        self.publisher = publisher
        self.audit = audit
        self.clock = clock
    }

    /// - Throws: `Unknown` when the store refuses.
    func mute(_ app: AppID, by requester: Requester) throws(SetupError) {
        guard all[app] == nil else { return }
        let muted = MutedApp(app: app, since: clock.now, who: "\(requester)")
        try commit(StoreChange(muted: muted), .init(.muted, app: app, why: "a person chose not to be asked"), by: requester)
        all[app] = muted
        publisher.publish(.mutedApps)
    }

    /// - Throws: `InvalidRequest` for an app that is not muted, `Unknown` when the store refuses.
    func unmute(_ app: AppID, by requester: Requester) throws(SetupError) {
        guard all[app] != nil else { throw .invalid("app", app, "is not muted") }
        try commit(StoreChange(unmuted: app), .init(.unmuted, app: app, why: "it may ask again"), by: requester)
        all[app] = nil
        publisher.publish(.mutedApps)
    }

    private func commit(_ change: StoreChange, _ line: AuditWriter.Line, by requester: Requester) throws(SetupError) {
        let published = try audit.write([line], by: requester) { lines in
            var change = change
            change.lines = lines
            return try store.commit(change)
        }
        if !published.isEmpty { publisher.publish(.audited(published)) }
    }
}

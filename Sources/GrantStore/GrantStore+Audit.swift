// SPDX-License-Identifier: Apache-2.0
// The audit trail on disk: lines are appended, and the oldest are deleted when there are too many. Changes of access,
// actions and refusals have a share each, so that neither an app that requests pickers all day nor a refused one can
// push out the history of access.

public import AccessoryEngine
public import AccessoryModel

extension GrantStore: AuditTrail {
    /// Lines kept of refusals.
    public static let refusalsKept = 2000
    /// Lines kept of actions that changed no access.
    public static let actionsKept = 10_000
    /// Lines kept of changes of access.
    public static let changesKept = 20_000
    /// Lines of one app among those of actions.
    public static let actionsKeptPerApp = 2000
    /// In bytes, of each column: several times the length of any text that the daemon writes.
    private static let maxTextLength = 16_384

    private static let refusals: Set<AuditEntry.Event> = [.refused]
    private static let changes: Set<AuditEntry.Event> = [
        .granted, .authorized, .updated, .ended, .revoked, .disabled, .enabled, .renamed, .muted, .unmuted, .storeReplaced,
    ]

    /// All other events are actions.
    private static func share(of event: AuditEntry.Event) -> (name: String, events: Set<AuditEntry.Event>, kept: Int) {
        if refusals.contains(event) { return ("refusals", refusals, refusalsKept) }
        if changes.contains(event) { return ("changes", changes, changesKept) }
        return ("actions", Set(AuditEntry.Event.allCases).subtracting(refusals).subtracting(changes), actionsKept)
    }

    /// Appends lines, and deletes the oldest of a share that has become too long, in one transaction.
    ///
    /// - Returns: the lines' numbers.
    /// - Throws: SQLite's error; nothing has changed then.
    public func append(_ entries: [AuditEntry]) throws -> [Int64] {
        try database.transaction { try Self.add(entries, to: database) }
    }

    /// As `append`, in the current transaction.
    static func add(_ entries: [AuditEntry], to database: Database) throws -> [Int64] {
        let numbers = try entries.map { entry in
            try database.integer(
                """
                INSERT INTO audit (id, time, event, app, accessory, who, why) VALUES
                    ((SELECT coalesce(max(id), 0) + 1 FROM audit WHERE id BETWEEN 0 AND ?), ?, ?, ?, ?, ?, ?) RETURNING id
                """, .integer(Rows.identifiers.upperBound), .integer(entry.time), .text(entry.event.rawValue),
                SQLValue(entry.app?.rawValue),
                SQLValue(entry.accessory?.rawValue), .text(entry.who), .text(entry.why)) ?? 0
        }
        var pruned: Set<String> = []
        for entry in entries {
            let share = share(of: entry.event)
            guard pruned.insert(share.name).inserted else { continue }
            try prune(share.events, app: nil, keeping: share.kept, in: database)
        }
        for app in Set(entries.filter { share(of: $0.event).name == "actions" }.compactMap(\.app)) {
            try prune(share(of: .pickerShown).events, app: app, keeping: actionsKeptPerApp, in: database)
        }
        return numbers
    }

    /// Deletes the oldest lines beyond `kept`, among the given events.
    private static func prune(
        _ events: Set<AuditEntry.Event>, app: AppID?, keeping kept: Int, in database: Database
    ) throws {
        let names = events.map { "'\($0.rawValue)'" }.sorted().joined(separator: ", ")
        let condition = "event IN (\(names)) AND (?1 IS NULL OR app = ?1)"
        try database.execute(
            """
            DELETE FROM audit WHERE \(condition) AND id <=
                (SELECT id FROM audit WHERE \(condition) ORDER BY id DESC LIMIT 1 OFFSET \(kept))
            """, SQLValue(app?.rawValue))
    }

    /// The condition of a query; its arguments are the app and the time.
    private static let condition = "(?1 IS NULL OR app = ?1) AND (?2 IS NULL OR time >= ?2)"

    /// The number at which the lines of a query begin: `from`, or without it the number of the first of the newest
    /// `limit` lines; 0 if there are fewer.
    ///
    /// - Throws: SQLite's error.
    public func firstLine(of query: AuditQuery) throws -> Int64 {
        if let from = query.from { return from }
        return try database.integer(
            "SELECT id FROM audit WHERE \(Self.condition) ORDER BY id DESC LIMIT 1 OFFSET ?3", SQLValue(query.app?.rawValue),
            SQLValue(query.since), SQLValue(query.limit - 1)) ?? 0
    }

    /// Lines from a number on, oldest first. Unknown events and invalid lines are left out, so a page may be short.
    ///
    /// - Throws: SQLite's error.
    public func page(of query: AuditQuery, from number: Int64, atMost count: Int) throws -> AuditPage {
        let rows = try database.rows(
            "SELECT * FROM audit WHERE \(Self.condition) AND id >= ?3 ORDER BY id LIMIT ?4", SQLValue(query.app?.rawValue),
            SQLValue(query.since), .integer(number), SQLValue(count))
        var next: Int64?
        if rows.count == count, case .integer(let last)? = rows.last?["id"], last < .max { next = last + 1 }
        return AuditPage(entries: rows.compactMap(Self.entry), next: next)
    }

    private static func entry(_ row: SQLRow) -> AuditEntry? {
        func text(_ column: String) -> String? { Rows.text(row[column], maxLength: maxTextLength) }
        guard case .integer(let id) = row["id"], Rows.identifiers.contains(id),
            case .integer(let time) = row["time"], Rows.times.contains(time),
            let event = text("event").flatMap({ AuditEntry.Event(rawValue: $0) })
        else { return nil }
        return AuditEntry(
            id: id, time: time, event: event, app: text("app").flatMap { AppID($0) },
            accessory: text("accessory").flatMap { AccessoryID($0) }, who: text("who") ?? "", why: text("why") ?? "")
    }
}

// The audit trail on disk: lines are only added, and the oldest go when there are too many. Refusals have a share of their own, so that
// who is refused again and again cannot push out what was done.

public import AccessoryEngine
public import AccessoryModel
internal import GRDB

extension GrantStore: AuditTrail {
    /// Lines kept: of refusals, and of everything else.
    public static let refusalsKept = 2000
    public static let actionsKept = 10_000

    public func append(_ entries: [AuditEntry]) throws {
        try queue.write { database in
            for entry in entries {
                try database.execute(
                    sql: "INSERT INTO audit (time, event, app, accessory, who, why) VALUES (?, ?, ?, ?, ?, ?)",
                    arguments: [
                        entry.time, entry.event.rawValue, entry.app?.rawValue, entry.accessory?.rawValue, entry.who, entry.why,
                    ])
            }
            let refused = AuditEntry.Event.refused.rawValue
            for (condition, kept) in [("event = ?", Self.refusalsKept), ("event <> ?", Self.actionsKept)] {
                try database.execute(
                    sql: """
                        DELETE FROM audit WHERE \(condition) AND id <=
                            (SELECT id FROM audit WHERE \(condition) ORDER BY id DESC LIMIT 1 OFFSET \(kept))
                        """, arguments: [refused, refused])
            }
        }
    }

    public func entries(_ query: AuditQuery) throws -> [AuditEntry] {
        try queue.read { database in
            let rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT * FROM audit WHERE (?1 IS NULL OR app = ?1) AND (?2 IS NULL OR time >= ?2) ORDER BY id DESC LIMIT ?3
                    """, arguments: [query.app?.rawValue, query.since, query.limit])
            return rows.reversed().compactMap(Self.entry)
        }
    }

    /// Nil for an event that a newer daemon knows.
    private static func entry(_ row: Row) -> AuditEntry? {
        let event: String = row["event"]
        let app: String? = row["app"]
        let accessory: String? = row["accessory"]
        guard let event = AuditEntry.Event(rawValue: event) else { return nil }
        return AuditEntry(
            id: row["id"], time: row["time"], event: event, app: app.flatMap { AppID($0) },
            accessory: accessory.flatMap { AccessoryID($0) }, who: row["who"], why: row["why"])
    }
}

// SPDX-License-Identifier: Apache-2.0
// The audit trail on disk: lines are only added, and the oldest go when there are too many. What changes access, what
// is only done, and refusals have a share each, so that neither an app that asks for pickers all day nor who is refused
// can push out who was given what.

public import AccessoryEngine
public import AccessoryModel

extension GrantStore: AuditTrail {
    /// Lines kept of refusals.
    public static let refusalsKept = 2000
    /// Lines kept of what was done and changed no access.
    public static let actionsKept = 10_000
    /// Lines kept of what changed access.
    public static let changesKept = 20_000
    /// Events of a share, the rest is what was done.
    private static let refusals: Set<AuditEntry.Event> = [.refused]
    private static let changes: Set<AuditEntry.Event> = [
        .granted, .authorized, .updated, .revoked, .disabled, .enabled, .renamed, .storeReplaced,
    ]
    /// Lines of one app among those of what was done.
    public static let actionsKeptPerApp = 2000

    private static func share(of event: AuditEntry.Event) -> (name: String, events: Set<AuditEntry.Event>, kept: Int) {
        if refusals.contains(event) { return ("refusals", refusals, refusalsKept) }
        if changes.contains(event) { return ("changes", changes, changesKept) }
        return ("actions", Set(AuditEntry.Event.allCases).subtracting(refusals).subtracting(changes), actionsKept)
    }

    /// Adds lines, and drops the oldest of a share that has become too long; all in one transaction.
    ///
    /// - Returns: the lines' numbers.
    /// - Throws: what SQLite says; nothing has changed then.
    public func append(_ entries: [AuditEntry]) throws -> [Int64] {
        try database.transaction { try Self.add(entries, to: database) }
    }

    /// As `append`, in a transaction that is under way.
    static func add(_ entries: [AuditEntry], to database: Database) throws -> [Int64] {
        let numbers = try entries.map { entry in
            try database.integer(
                "INSERT INTO audit (time, event, app, accessory, who, why) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
                .integer(entry.time), .text(entry.event.rawValue), SQLValue(entry.app?.rawValue),
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

    /// Drops the oldest lines of these events past `kept`.
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

    /// In characters, of each column: several times what we write.
    private static let longestText = 16_384

    /// The numbers of lines that we have not written as they stand.
    func damagedLines() throws(DatabaseError) -> [Int64] {
        let bounds = [Numbers.given, Numbers.times].flatMap { [SQLValue($0.lowerBound), SQLValue($0.upperBound)] }
        let arguments = bounds + [SQLValue(Self.longestText)]
        let damaged = """
            SELECT id FROM audit WHERE (id NOT BETWEEN ?1 AND ?2 OR time NOT BETWEEN ?3 AND ?4 OR
                max(length(event), length(who), length(why), coalesce(length(app), 0), coalesce(length(accessory), 0)) > ?5)
            """
        do throws(DatabaseError) {
            return try database.integers(damaged, arguments)
        } catch {
            guard error.isTooLong else { throw error }
        }
        // One after the other: a line that cannot be read is one of them.
        var numbers: [Int64] = []
        for number in try database.integers("SELECT id FROM audit", []) {
            do throws(DatabaseError) {
                numbers += try database.integers(damaged + " AND id = ?6", arguments + [.integer(number)])
            } catch {
                guard error.isTooLong else { throw error }
                numbers.append(number)
            }
        }
        return numbers
    }

    /// Which lines a query asks for; its arguments are the app and the time.
    private static let asked = "(?1 IS NULL OR app = ?1) AND (?2 IS NULL OR time >= ?2)"

    /// The number of the first of the newest `limit` lines that the query asks for; 0 when there are no more than
    /// these.
    ///
    /// - Throws: what SQLite says.
    public func firstLine(of query: AuditQuery) throws -> Int64 {
        // None: there are no more than the limit.
        try database.integer(
            "SELECT id FROM audit WHERE \(Self.asked) ORDER BY id DESC LIMIT 1 OFFSET ?3", SQLValue(query.app?.rawValue),
            SQLValue(query.since), SQLValue(query.limit - 1)) ?? 0
    }

    /// Lines from a number on, oldest first. Events that only a newer daemon knows are left out, so a page may be
    /// short.
    ///
    /// - Throws: what SQLite says.
    public func page(of query: AuditQuery, from number: Int64, atMost count: Int) throws -> AuditPage {
        let rows = try database.rows(
            "SELECT * FROM audit WHERE \(Self.asked) AND id >= ?3 ORDER BY id LIMIT ?4", SQLValue(query.app?.rawValue),
            SQLValue(query.since), .integer(number), SQLValue(count))
        var next: Int64?
        if rows.count == count, case .integer(let last)? = rows.last?["id"] { next = last + 1 }
        return AuditPage(entries: rows.compactMap(Self.entry), next: next)
    }

    /// Nil for an event that a newer daemon knows, and for a line without a number.
    private static func entry(_ row: SQLRow) -> AuditEntry? {
        func text(_ column: String) -> String? { if case .text(let text) = row[column], Rows.isText(text) { text } else { nil } }
        func number(_ column: String) -> Int64 { if case .integer(let number) = row[column] { number } else { 0 } }
        let id = number("id")
        guard Numbers.given.contains(id), let event = text("event").flatMap({ AuditEntry.Event(rawValue: $0) }) else { return nil }
        return AuditEntry(
            id: id, time: number("time"), event: event, app: text("app").flatMap { AppID($0) },
            accessory: text("accessory").flatMap { AccessoryID($0) }, who: text("who") ?? "", why: text("why") ?? "")
    }
}

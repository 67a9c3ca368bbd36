// SPDX-License-Identifier: Apache-2.0
// Accessories, grants and unfinished bonds on disk: SQLite, one writer. Every change is a transaction that is on the
// disk when the call returns. Docs/Storage.md describes the file.

internal import AccessoryCore
public import AccessoryEngine
internal import AccessoryModel
public import Logging
internal import SystemFiles

/// Why the store cannot be used.
public enum GrantStoreError: Error, CustomStringConvertible {
    /// The directory cannot be made or entered.
    case directory(path: String, reason: String)
    /// A newer daemon wrote the file.
    case newer(path: String)
    /// The file cannot be opened, although it may be sound: it is on a missing disk, locked, or not readable.
    case unusable(path: String, reason: String)

    /// For the admin: the path, and the reason or the remedy.
    public var description: String {
        switch self {
        case .directory(let path, let reason): "state directory \(path): \(reason)"
        case .newer(let path): "\(path) was written by a newer accessorysetupd; install that version, or move the file away"
        case .unusable(let path, let reason): "\(path): \(reason)"
        }
    }
}

/// The store in SQLite (Docs/Storage.md). The daemon is its only writer.
public final class GrantStore: LedgerStore {
    let database: Database
    private let path: String
    private let log: Logger
    /// The path of an unreadable store that was found at the start; nil for none.
    public let keptAside: String?

    /// Opens (or makes) the store in `directory`, which gets mode 0700. An unreadable file is kept aside, reported in
    /// the log, and replaced by a new store.
    ///
    /// - Throws: `GrantStoreError`.
    public init(directory: String, log: Logger) throws {
        self.log = log
        do {
            try SystemFile.makeDirectory(directory, mode: 0o700)
            try SystemFile.setMode(directory, 0o700)
        } catch {
            throw GrantStoreError.directory(path: directory, reason: error.reason)
        }
        path = directory + "/grants.sqlite"
        do {
            (database, keptAside) = try StoreFile.open(path, log)
        } catch let error as DatabaseError {
            throw GrantStoreError.unusable(path: path, reason: error.message)
        }
        try SystemFile.setMode(path, 0o600)
    }

    // MARK: LedgerStore

    /// Reads the store. An invalid row is set aside (Docs/Storage.md) and reported in the log; all others stay in use,
    /// and so does the bond behind it.
    public func load() throws -> StoredState {
        var rejected: [RejectedRow] = []
        var state = StoredState(
            accessories: try rows(of: "accessory", &rejected) { try Rows.accessory($0, in: database) }, grants: [],
            intents: try rows(of: "bondIntent", &rejected) { try Rows.intent($0, in: database) })
        let accessories = Set(state.accessories.map(\.id))
        state.grants = try rows(of: "accessGrant", &rejected) { row in
            let grant = try Rows.grant(row, in: database)
            guard accessories.contains(grant.accessory) else {
                throw InvalidRow("accessory \(grant.accessory): is not in the store")
            }
            return grant
        }
        state.mutedApps = try rows(of: "mutedApp", &rejected, Rows.mutedApp)
        state.clock = try rows(of: "elapsedClock", &rejected, Rows.clock).last
        state.claims = try rows(of: "claim", &rejected, Rows.claim)
        try setAside(rejected)
        return state
    }

    private func rows<Value>(
        of table: String, _ rejected: inout [RejectedRow], _ decode: (SQLRow) throws -> Value
    ) throws -> [Value] {
        var values: [Value] = []
        try database.forEachRow("SELECT rowid AS rowNumber, * FROM \(table) ORDER BY rowid") { row in
            do {
                values.append(try decode(row))
            } catch let error as InvalidRow {
                rejected.append(RejectedRow(table: table, row: row, reason: error.description))
            }
        }
        return values
    }

    private func setAside(_ rejected: [RejectedRow]) throws {
        guard !rejected.isEmpty else { return }
        for row in rejected {
            log.critical(
                "set aside a damaged row of the store",
                metadata: ["file": "\(path)", "table": "\(row.table)", "row": "\(row.number)", "why": "\(row.reason)"])
        }
        try database.transaction(of: "setAside") {
            // Grants refer to accessories, and must be deleted before them.
            for row in rejected.filter({ $0.table == "accessGrant" }) + rejected.filter({ $0.table != "accessGrant" }) {
                try Rows.put(row, in: database)
                try database.execute("DELETE FROM \(row.table) WHERE rowid = ?", .integer(row.number))
            }
        }
    }

    /// Writes a change in one transaction. A change of access is then folded from the log into the file.
    ///
    /// - Throws: SQLite's error; nothing has changed then.
    @discardableResult public func commit(_ change: StoreChange) throws -> [Int64] {
        let numbers = try database.transaction {
            for step in change.steps {
                switch step {
                case .put(let accessory): try Rows.put(accessory, in: database)
                case .delete(let id): try database.execute("DELETE FROM accessory WHERE id = ?", .text(id.rawValue))
                case .grant(let grant): try Rows.put(grant, in: database)
                case .revoke(let id): try database.execute("DELETE FROM accessGrant WHERE id = ?", .integer(id))
                }
            }
            if let clock = change.clock { try Rows.put(clock, in: database) }
            if let claim = change.claim { try Rows.put(claim, in: database) }
            if let app = change.unmuted { try database.execute("DELETE FROM mutedApp WHERE app = ?", .text(app.rawValue)) }
            if let muted = change.muted { try Rows.put(muted, in: database) }
            for intent in change.intents { try Rows.put(intent, in: database) }
            for intent in change.finishedIntents { try Rows.delete(intent, in: database) }
            return try Self.add(change.lines, to: database)
        }
        if change.steps.contains(where: \.changesAccess) { foldLog() }
        return numbers
    }

    /// Access must not depend on a log that may be damaged.
    private func foldLog() {
        do {
            try database.checkpoint()
        } catch {
            log.warning("could not checkpoint the store's log", metadata: ["error": "\(error)"])
        }
    }

    /// Writes an intent, over one of the same address, kind, adapter and purpose.
    ///
    /// - Throws: SQLite's error.
    public func persist(_ intent: BondIntent) throws {
        try database.transaction { try Rows.put(intent, in: database) }
    }

    /// Deletes the intent of this address, kind, adapter and purpose, if there is one.
    ///
    /// - Throws: SQLite's error.
    public func delete(_ intent: BondIntent) throws {
        try database.transaction { try Rows.delete(intent, in: database) }
    }

    /// Counts up on disk: a number is never given twice, whether it was used or not.
    ///
    /// - Throws: SQLite's error.
    public func nextGrantID() throws -> Int64 { try nextNumber("grant", inUse: "id") }

    /// Counts up on disk, as `nextGrantID` does.
    ///
    /// - Throws: SQLite's error.
    public func nextAwareDevice() throws -> UInt64 { UInt64(try nextNumber("awareDevice", inUse: "awareDevice")) }

    /// A counter that is missing, out of range or behind the numbers of existing grants continues from these.
    private func nextNumber(_ counter: String, inUse column: String) throws -> Int64 {
        let last = "(SELECT coalesce(max(\(column)), 0) FROM accessGrant)"
        return try database.transaction {
            let number = try database.integer(
                """
                INSERT INTO counter (name, value) VALUES (?1, \(last) + 1) ON CONFLICT (name) DO UPDATE SET
                    value = CASE WHEN value BETWEEN \(last) AND ?2 THEN value ELSE \(last) END + 1
                RETURNING value
                """, .text(counter), .integer(Rows.identifiers.upperBound - 1))
            guard let number, Rows.identifiers.contains(number) else {
                throw DatabaseError.damage("counter \(counter): out of range")
            }
            return number
        }
    }
}

// The state to restore after a daemon died on a joined network; at most one row.
extension GrantStore: JoinJournal {
    /// Replaces the record on disk; nil deletes it.
    ///
    /// - Throws: SQLite's error.
    public func write(_ record: JoinRecord?) throws {
        try database.transaction {
            try database.execute("DELETE FROM joinRecord")
            if let record { try Rows.put(record, in: database) }
        }
    }

    /// The record of a network that an earlier run may have left joined; nil for none. An invalid one is set aside.
    ///
    /// - Throws: SQLite's error.
    public func read() throws -> JoinRecord? {
        var rejected: [RejectedRow] = []
        let records = try rows(of: "joinRecord", &rejected) { try Rows.joinRecord($0, in: database) }
        try setAside(rejected)
        return records.last
    }
}

extension Ledger.Step {
    /// Whether the step grants access, or takes it away.
    fileprivate var changesAccess: Bool {
        switch self {
        case .grant, .revoke, .delete: true
        case .put: false
        }
    }
}

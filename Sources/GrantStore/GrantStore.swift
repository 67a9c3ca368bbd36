// SPDX-License-Identifier: Apache-2.0
// Accessories, grants and unfinished bonds on disk: SQLite through GRDB, one writer, every change a transaction that is on the disk
// when the call returns. Docs/Storage.md describes the file.

public import AccessoryCore
public import AccessoryEngine
internal import AccessoryModel
internal import Foundation
internal import GRDB
public import Logging

/// Why the store cannot be used.
public enum GrantStoreError: Error, CustomStringConvertible {
    /// The directory cannot be made or entered.
    case directory(path: String, reason: String)
    /// A newer daemon wrote the file.
    case newer(path: String)
    /// The file cannot be opened, and it is not damaged: somebody has to look.
    case unusable(path: String, reason: String)

    /// For the admin: the path, and what is to be done or why it failed.
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
    let queue: DatabaseQueue
    private let path: String
    private let log: Logger
    /// Where a damaged file was put, if one was found at start.
    public let keptAside: String?

    /// Opens (or makes) the store in `directory`, which gets mode 0700.
    ///
    /// - Throws: `GrantStoreError`. A damaged file does not throw: it is moved aside, reported in the log, and a new one begun.
    public init(directory: String, log: Logger) throws {
        self.log = log
        do {
            try FileManager.default.createDirectory(
                atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: directory)
        } catch {
            throw GrantStoreError.directory(path: directory, reason: error.localizedDescription)
        }
        let path = directory + "/grants.sqlite"
        self.path = path
        do {
            try Self.examine(path)
            queue = try Self.open(path, log)
            keptAside = nil
        } catch let error as DatabaseError where [.SQLITE_NOTADB, .SQLITE_CORRUPT].contains(error.resultCode) {
            let aside = try Self.moveAside(path)
            log.critical(
                "the store is damaged; it was kept aside and a new one begun: all accessories must be set up again",
                metadata: ["kept": "\(aside)", "reason": "\(error.message ?? "damaged")"])
            queue = try Self.open(path, log)
            keptAside = aside
        } catch let error as DatabaseError {
            throw GrantStoreError.unusable(path: path, reason: error.message ?? error.description)
        }
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    }

    /// Looks whether the file is whole, and writes nothing into it: a damaged one is kept byte for byte. With a log beside it, which SQLite
    /// would fold in, copies of both are looked at.
    ///
    /// - Throws: `DatabaseError` with `SQLITE_CORRUPT` or `SQLITE_NOTADB`.
    private static func examine(_ path: String) throws {
        let files = FileManager.default
        guard let size = try? files.attributesOfItem(atPath: path)[.size] as? Int else { return }
        // SQLite takes an empty file for a new one. We never leave one behind.
        guard size > 0 else { throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "the file is empty") }
        let log = path + "-wal"
        let logSize = (try? files.attributesOfItem(atPath: log)[.size] as? Int) ?? 0
        var configuration = Configuration()
        guard logSize > 0 else {
            configuration.readonly = true
            // Nobody else writes, and there is nothing to fold in: no lock and no other file is needed.
            return try check(DatabaseQueue(path: "file:\(percentEncoded(path))?immutable=1", configuration: configuration))
        }
        let copy = path + ".examined"
        let names = [copy, copy + "-wal", copy + "-shm"]
        defer { for name in names { try? files.removeItem(atPath: name) } }
        for name in names { try? files.removeItem(atPath: name) }
        try files.copyItem(atPath: path, toPath: copy)
        try files.copyItem(atPath: log, toPath: copy + "-wal")
        try check(DatabaseQueue(path: copy, configuration: configuration))
    }

    private static func check(_ queue: DatabaseQueue) throws {
        let verdict = try queue.read { try String.fetchOne($0, sql: "PRAGMA quick_check(1)") }
        guard verdict == "ok" else { throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: verdict) }
    }

    private static func percentEncoded(_ path: String) -> String {
        path.replacing("%", with: "%25").replacing("?", with: "%3f").replacing("#", with: "%23")
    }

    private static func open(_ path: String, _ log: Logger) throws -> DatabaseQueue {
        let written = WriteAheadLog.frames(of: path)
        var configuration = Configuration()
        configuration.foreignKeysEnabled = true
        configuration.journalMode = .wal
        configuration.prepareDatabase { database in
            // WAL's default may lose the last transactions in a power cut; a grant must not be lost.
            try database.execute(sql: "PRAGMA synchronous = FULL")
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        if try queue.read({ try Schema.migrator.hasBeenSuperseded($0) }) { throw GrantStoreError.newer(path: path) }
        if let written, case let used = try queue.writeWithoutTransaction({ try WriteAheadLog.used(by: $0) }), used < written {
            log.critical(
                "the end of the store's log could not be read: the last changes may be lost",
                metadata: ["file": "\(path)-wal", "pages": "\(written)", "readable": "\(used)"])
        }
        try Schema.migrator.migrate(queue)
        return queue
    }

    /// Never overwrites: the new name carries the time and, if need be, a number.
    private static func moveAside(_ path: String) throws -> String {
        let stamp = Int(Date().timeIntervalSince1970)
        var target = "\(path).damaged-\(stamp)"
        var number = 1
        while FileManager.default.fileExists(atPath: target) {
            number += 1
            target = "\(path).damaged-\(stamp)-\(number)"
        }
        try FileManager.default.moveItem(atPath: path, toPath: target)
        for suffix in ["-wal", "-shm"] where FileManager.default.fileExists(atPath: path + suffix) {
            try FileManager.default.moveItem(atPath: path + suffix, toPath: target + suffix)
        }
        return target
    }

    // MARK: LedgerStore

    /// What is stored. A row that makes no sense is set aside (Docs/Storage.md), said in the log, and costs nobody else anything: the
    /// bond behind it stays as it is.
    public func load() throws -> StoredState {
        var damages: [Rows.Damage] = []
        let state = try queue.read { database in
            func rows<Value>(_ table: String, _ decode: (Row) throws -> Value) throws -> [Value] {
                try Row.fetchAll(database, sql: "SELECT rowid AS rowNumber, * FROM \(table)").compactMap { row in
                    do {
                        return try decode(row)
                    } catch {
                        damages.append(Rows.Damage(table: table, row: row, why: "\(error)"))
                        return nil
                    }
                }
            }
            var state = StoredState(
                accessories: try rows("accessory", Rows.accessory), grants: [], intents: try rows("bondIntent", Rows.intent))
            let known = Set(state.accessories.map(\.id))
            state.grants = try rows("accessGrant") { row in
                let grant = try Rows.grant(row)
                guard known.contains(grant.accessory) else {
                    throw Rows.Nonsense("accessory \(grant.accessory): is not in the store")
                }
                return grant
            }
            return state
        }
        try setAside(damages)
        return state
    }

    private func setAside(_ damages: [Rows.Damage]) throws {
        guard !damages.isEmpty else { return }
        for damage in damages {
            log.critical(
                "a row of the store is damaged and was set aside",
                metadata: ["file": "\(path)", "table": "\(damage.table)", "row": "\(damage.number)", "why": "\(damage.why)"])
        }
        try queue.write { database in
            // Grants refer to accessories: they go first.
            for damage in damages.sorted(by: { $0.table < $1.table }).sorted(by: { $0.isGrant && !$1.isGrant }) {
                try database.execute(
                    sql: "INSERT INTO setAside (time, what, why, content) VALUES (?, ?, ?, ?)",
                    arguments: [Int(Date().timeIntervalSince1970), damage.table, damage.why, damage.content])
                try database.execute(sql: "DELETE FROM \(damage.table) WHERE rowid = ?", arguments: [damage.number])
            }
        }
    }

    /// One transaction. Once it is on disk, a change of who may use what is folded from the log into the file.
    ///
    /// - Throws: what SQLite says; nothing has changed then.
    public func commit(_ steps: [Ledger.Step], noting new: [BondIntent], finishing finished: [BondIntent]) throws {
        try queue.write { database in
            for step in steps {
                switch step {
                case .put(let accessory): try Rows.put(accessory, in: database)
                case .delete(let id): try database.execute(sql: "DELETE FROM accessory WHERE id = ?", arguments: [id.rawValue])
                case .grant(let grant): try Rows.put(grant, in: database)
                case .revoke(let id): try database.execute(sql: "DELETE FROM accessGrant WHERE id = ?", arguments: [id])
                }
            }
            for intent in new { try Rows.put(intent, in: database) }
            for intent in finished { try Rows.delete(intent, in: database) }
        }
        if steps.contains(where: \.changesAccess) { checkpoint() }
    }

    /// Folds the log into the file: what is granted does not hang on a log that may be damaged.
    private func checkpoint() {
        do {
            try queue.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        } catch {
            log.warning("the store's log could not be folded in", metadata: ["error": "\(error)"])
        }
    }

    /// Notes an intent; one of the same address, kind and purpose is replaced.
    ///
    /// - Throws: what SQLite says.
    public func note(_ intent: BondIntent) throws {
        try queue.write { try Rows.put(intent, in: $0) }
    }

    /// Drops an intent by its address, kind and purpose; nothing happens when there is none.
    ///
    /// - Throws: what SQLite says.
    public func forget(_ intent: BondIntent) throws {
        try queue.write { try Rows.delete(intent, in: $0) }
    }

    /// Counts up on disk: a number that was given is not given again, whether it was used or not.
    ///
    /// - Throws: what SQLite says.
    public func nextGrantID() throws -> Int64 { try next("grant") }

    /// Counts up on disk, as `nextGrantID` does.
    ///
    /// - Throws: what SQLite says.
    public func nextAwareDevice() throws -> UInt64 { UInt64(try next("awareDevice")) }

    private func next(_ counter: String) throws -> Int64 {
        try queue.write { database in
            try Int64.fetchOne(
                database, sql: "UPDATE counter SET value = value + 1 WHERE name = ? RETURNING value", arguments: [counter]) ?? 1
        }
    }
}

// What a network's joining must undo after a crash; at most one.
extension GrantStore: JoinJournal {
    /// Replaces the record on disk; nil drops it.
    ///
    /// - Throws: what SQLite says.
    public func write(_ record: JoinRecord?) throws {
        let content = try record.map { String(decoding: try JSONEncoder().encode($0), as: UTF8.self) }
        try queue.write { database in
            try database.execute(sql: "DELETE FROM joinRecord")
            if let content { try database.execute(sql: "INSERT INTO joinRecord VALUES (?)", arguments: [content]) }
        }
    }

    /// The record of a network that an earlier run may have left joined; nil when there is none.
    ///
    /// - Throws: what SQLite says, or `DecodingError` for a record that makes no sense.
    public func read() throws -> JoinRecord? {
        try queue.read { try String.fetchOne($0, sql: "SELECT content FROM joinRecord") }
            .map { try JSONDecoder().decode(JoinRecord.self, from: Data($0.utf8)) }
    }
}

extension Ledger.Step {
    /// Whether somebody may do what they might not before, or the other way round.
    fileprivate var changesAccess: Bool {
        switch self {
        case .grant, .revoke, .delete: true
        case .put: false
        }
    }
}

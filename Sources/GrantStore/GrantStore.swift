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

    public var description: String {
        switch self {
        case .directory(let path, let reason): "state directory \(path): \(reason)"
        case .newer(let path): "\(path) was written by a newer accessorysetupd; install that version, or move the file away"
        case .unusable(let path, let reason): "\(path): \(reason)"
        }
    }
}

public final class GrantStore: LedgerStore {
    let queue: DatabaseQueue
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
        do {
            queue = try Self.open(path)
            keptAside = nil
        } catch let error as DatabaseError where [.SQLITE_NOTADB, .SQLITE_CORRUPT].contains(error.resultCode) {
            let aside = try Self.moveAside(path)
            log.critical(
                "the store is damaged; it was kept aside and a new one begun: all accessories must be set up again",
                metadata: ["kept": "\(aside)", "reason": "\(error.message ?? "damaged")"])
            queue = try Self.open(path)
            keptAside = aside
        } catch let error as DatabaseError {
            throw GrantStoreError.unusable(path: path, reason: error.message ?? error.description)
        }
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    }

    private static func open(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = true
        configuration.journalMode = .wal
        configuration.prepareDatabase { database in
            // WAL's default may lose the last transactions in a power cut; a grant must not be lost.
            try database.execute(sql: "PRAGMA synchronous = FULL")
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        let verdict = try queue.read { try String.fetchOne($0, sql: "PRAGMA quick_check(1)") }
        guard verdict == "ok" else { throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: verdict) }
        if try queue.read({ try Schema.migrator.hasBeenSuperseded($0) }) { throw GrantStoreError.newer(path: path) }
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

    public func load() throws -> StoredState {
        try queue.read { database in
            StoredState(
                accessories: try Row.fetchAll(database, sql: "SELECT * FROM accessory").map(Rows.accessory),
                grants: try Row.fetchAll(database, sql: "SELECT * FROM accessGrant").map(Rows.grant),
                intents: try Row.fetchAll(database, sql: "SELECT * FROM bondIntent").map(Rows.intent))
        }
    }

    public func commit(_ steps: [Ledger.Step], finishing intents: [BondIntent]) throws {
        try queue.write { database in
            for step in steps {
                switch step {
                case .put(let accessory): try Rows.put(accessory, in: database)
                case .delete(let id): try database.execute(sql: "DELETE FROM accessory WHERE id = ?", arguments: [id.rawValue])
                case .grant(let grant): try Rows.put(grant, in: database)
                case .revoke(let id): try database.execute(sql: "DELETE FROM accessGrant WHERE id = ?", arguments: [id])
                }
            }
            for intent in intents { try Rows.delete(intent, in: database) }
        }
    }

    public func note(_ intent: BondIntent) throws {
        try queue.write { try Rows.put(intent, in: $0) }
    }

    public func forget(_ intent: BondIntent) throws {
        try queue.write { try Rows.delete(intent, in: $0) }
    }

    public func nextGrantID() throws -> Int64 { try next("grant") }

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
    public func write(_ record: JoinRecord?) throws {
        let content = try record.map { String(decoding: try JSONEncoder().encode($0), as: UTF8.self) }
        try queue.write { database in
            try database.execute(sql: "DELETE FROM joinRecord")
            if let content { try database.execute(sql: "INSERT INTO joinRecord VALUES (?)", arguments: [content]) }
        }
    }

    public func read() throws -> JoinRecord? {
        try queue.read { try String.fetchOne($0, sql: "SELECT content FROM joinRecord") }
            .map { try JSONDecoder().decode(JoinRecord.self, from: Data($0.utf8)) }
    }
}

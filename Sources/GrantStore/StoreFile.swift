// SPDX-License-Identifier: Apache-2.0
// Opens the store's file. A file that is damaged, or that another version of the store's schema wrote, is kept aside
// byte for byte, and a new store takes its place.

internal import AccessoryEngine
internal import AccessoryModel
internal import Glibc
internal import Logging
internal import SystemFiles

enum StoreFile {
    /// Side files of SQLite, and the store itself. The store is moved last: as long as it exists, the next daemon
    /// continues with it.
    private static let suffixes = ["-journal", "-wal", "-shm", ""]
    /// In scalars. SQLite quotes parts of a damaged store in its messages.
    private static let maxReasonLength = 500

    /// Opens the store, or a new one in place of an unreadable one.
    ///
    /// - Returns: also the path of the unreadable one, if any.
    /// - Throws: `GrantStoreError`, `DatabaseError`, `SystemFileError`.
    static func open(_ path: String, _ log: Logger) throws -> (database: Database, keptAside: String?) {
        // The target of a dangling link may be on a disk that is not mounted yet.
        guard !SystemFile.isNoFile(path) else {
            throw GrantStoreError.unusable(path: path, reason: "is not a regular file")
        }
        let pendingStore = path + ".pending"
        SystemFile.removeDraft(of: pendingStore)
        var keptAside: String?
        if suffixes.contains(where: { SystemFile.exists(path + $0) }) {
            do {
                let database = try openSound(path)
                if SystemFile.exists(pendingStore) { try SystemFile.remove(pendingStore) }
                return (database, nil)
            } catch let error as DatabaseError where error.isDamage {
                // The new store is complete before the first rename: a daemon that is killed between renames leaves a
                // store that the next one can use, and the record of a joined network in it.
                try write(pendingStore, insteadOf: error.message, joined: joinRecord(in: path))
                keptAside = try moveAside(path)
                log.critical(
                    "the store is unreadable; it was set aside and replaced by an empty one: all accessories must be set up again",
                    metadata: ["reason": "\(error.message)", "kept": "\(keptAside ?? "")"])
            }
        } else if !SystemFile.exists(pendingStore) {
            try write(pendingStore)
        }
        try SystemFile.move(pendingStore, to: path)
        try SystemFile.syncDirectory(of: path)
        return (try openSound(path), keptAside)
    }

    /// Opens a store after it was examined. An unreadable file, and a log beside it, stay as they are.
    ///
    /// - Throws: a `DatabaseError` that `isDamage` for an unreadable store.
    private static func openSound(_ path: String) throws -> Database {
        guard let size = SystemFile.size(path) else { throw DatabaseError.damage("a log exists without its store") }
        // For SQLite, an empty file is an empty database, and a log beside it obsolete.
        guard size > 0 else { throw DatabaseError.damage("the file is empty") }
        let database = try Database(path: path)
        let version = try database.integer("PRAGMA user_version") ?? 0
        guard version <= Schema.version else { throw GrantStoreError.newer(path: path) }
        let verdict = try database.value("PRAGMA integrity_check(1)")
        guard verdict == .text("ok") else { throw DatabaseError.damage("\(verdict)") }
        guard version == Schema.version else {
            throw DatabaseError.damage("its version is \(version), and this daemon reads only \(Schema.version)")
        }
        guard try Schema.matches(database) else { throw DatabaseError.damage("its tables are not those of version \(version)") }
        try database.execute("PRAGMA journal_mode = WAL")
        // WAL's default may lose the last transactions in a power cut.
        try database.execute("PRAGMA synchronous = EXTRA")
        try database.foldLogOnClose()
        return database
    }

    /// Writes an empty store, as a whole and synced.
    ///
    /// - Parameter reason: why the previous store is unreadable; the trail begins with it.
    private static func write(_ path: String, insteadOf reason: String? = nil, joined record: JoinRecord? = nil) throws {
        let database = try Schema.emptyStore()
        if let reason {
            let entry = AuditEntry(
                time: Int64(time(nil)), event: .storeReplaced, who: Requester.daemon.description,
                why: "the store was unreadable and was set aside: \(String(reason.unicodeScalars.prefix(maxReasonLength)))")
            _ = try GrantStore.add([entry], to: database)
        }
        if let record { try Rows.put(record, in: database) }
        try SystemFile.replace(path, with: database.serialized(), mode: 0o600)
    }

    /// The record of a joined network in an unreadable store, as far as it can be read.
    private static func joinRecord(in path: String) -> JoinRecord? {
        guard (SystemFile.size(path) ?? 0) > 0, let database = try? Database(path: path),
            let row = try? database.rows("SELECT content FROM joinRecord").last
        else { return nil }
        return try? Rows.joinRecord(row, in: database)
    }

    /// Renames the store and SQLite's side files to a free name that carries the time.
    private static func moveAside(_ path: String) throws -> String {
        let name = "\(path).damaged-\(time(nil))"
        var target = name
        var number = 1
        while suffixes.contains(where: { SystemFile.exists(target + $0) }) {
            number += 1
            target = "\(name)-\(number)"
        }
        for suffix in suffixes where SystemFile.exists(path + suffix) {
            try SystemFile.move(path + suffix, to: target + suffix)
        }
        return target
    }
}

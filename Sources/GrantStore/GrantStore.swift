// SPDX-License-Identifier: Apache-2.0
// Accessories, grants and unfinished bonds on disk: SQLite, one writer, every change a transaction that is on the disk
// when the call returns. Docs/Storage.md describes the file.

internal import AccessoryCore
public import AccessoryEngine
internal import AccessoryModel
internal import Glibc
public import Logging
internal import SystemFiles

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
    let database: Database
    private let path: String
    private let log: Logger
    /// Where a damaged file was put, if one was found at start.
    public let keptAside: String?

    /// Opens (or makes) the store in `directory`, which gets mode 0700.
    ///
    /// - Throws: `GrantStoreError`. A damaged file does not throw: it is moved aside, reported in the log, and a new
    ///   one begun.
    public init(directory: String, log: Logger) throws {
        self.log = log
        do {
            try SystemFile.makeDirectory(directory, mode: 0o700)
            try SystemFile.setMode(directory, 0o700)
        } catch {
            throw GrantStoreError.directory(path: directory, reason: error.reason)
        }
        let path = directory + "/grants.sqlite"
        self.path = path
        do {
            (database, keptAside) = try Self.openSound(path, log)
        } catch let error as DatabaseError {
            throw GrantStoreError.unusable(path: path, reason: error.message)
        }
        try SystemFile.setMode(path, 0o600)
    }

    /// Over tables in memory, which are only tried.
    init(over database: Database) {
        self.database = database
        path = Database.inMemory
        log = Logger(label: "rehearsal") { _ in SwiftLogNoOpLogHandler() }
        keptAside = nil
    }

    /// In scalars: what a damaged store has put into words of SQLite's.
    private static let longestReason = 500
    private static let copySuffix = ".examined"
    private static let begunSuffix = ".begun"
    /// What SQLite writes down before it is in the store itself, or what was there before: ours, and, where somebody
    /// has given the store another mode, a rollback journal.
    private static let logSuffixes = ["-wal", "-journal"]
    /// All that SQLite keeps of a store.
    private static let suffixes = [""] + logSuffixes + ["-shm"]

    /// Opens the store, or a new one in the place of a damaged one.
    ///
    /// - Returns: besides, where the damaged one is now.
    /// - Throws: `GrantStoreError` of a newer daemon's store; what SQLite and the disk say.
    private static func openSound(_ path: String, _ log: Logger) throws -> (Database, keptAside: String?) {
        // Where it leads may be there at the next start: a disk that is not mounted.
        guard SystemFile.exists(path) || !SystemFile.isNoFile(path) else {
            throw GrantStoreError.unusable(path: path, reason: "is a link that leads nowhere")
        }
        do {
            try clearPlaces(beside: path, log)
            try takeBegun(path, log)
            if isFree(path) {
                try begin(path + begunSuffix, with: nil, insteadOf: nil, log)
                try nameBegun(path)
                return (try open(path, log), nil)
            }
            let found = try examine(path)
            guard found != .newer else { throw GrantStoreError.newer(path: path) }
            let opened = try open(path, log)
            if found == .wrongIndexes {
                log.critical(
                    "an index of the store is damaged or none of ours, and all are made anew", metadata: ["file": "\(path)"])
                try mendIndexes(of: opened)
            }
            return (opened, nil)
        } catch let error as DatabaseError where error.isDamage {
            let aside = try beginAnew(path, error.message, log)
            logDamage(error.message, keptAside: aside, log)
            return (try open(path, log), aside)
        }
    }

    private static func logDamage(_ reason: String, keptAside: String?, _ log: Logger) {
        var metadata: Logger.Metadata = ["reason": "\(reason)"]
        if let keptAside { metadata["kept"] = "\(keptAside)" }
        log.critical(
            "the store is damaged; it was kept aside and a new one begun: all accessories must be set up again", metadata: metadata)
    }

    /// Puts a new store in the place of a damaged one, with what that still says of a network that was joined; its
    /// trail begins with why. It is whole before the damaged one goes: whenever the daemon is killed, the next one
    /// finds either.
    ///
    /// - Returns: where the damaged one is now.
    private static func beginAnew(_ path: String, _ reason: String, _ log: Logger) throws -> String {
        // Without its file there is a log only: a daemon was killed in the middle of this.
        if SystemFile.exists(path) || !SystemFile.exists(path + begunSuffix) {
            remove(path + begunSuffix)
            try begin(path + begunSuffix, with: joinRecord(in: path), insteadOf: reason, log)
        }
        let aside = try moveAside(path)
        try nameBegun(path)
        return aside
    }

    /// Makes a new store, which is one file when this returns. Its trail begins with the damage of the one before it,
    /// if there was one.
    private static func begin(_ path: String, with record: JoinRecord?, insteadOf damage: String?, _ log: Logger) throws {
        let database = try open(path, log)
        if let damage {
            let entry = AuditEntry(
                time: Int64(time(nil)), event: .storeReplaced, who: Requester.daemon.description,
                why: "the store was damaged and is kept aside: \(String(damage.unicodeScalars.prefix(longestReason)))")
            _ = try database.transaction { try add([entry], to: database) }
        }
        if let record { try write(record, into: database) }
        try database.checkpoint()
    }

    private static func nameBegun(_ path: String) throws {
        try SystemFile.move(path + begunSuffix, to: path)
        try SystemFile.syncDirectory(of: path)
    }

    /// Whether there is no store of that name, nor a log of one.
    private static func isFree(_ path: String) -> Bool { !SystemFile.exists(path) && !isLogThere(path) }

    private static func isLogThere(_ path: String) -> Bool { logSuffixes.contains { SystemFile.exists(path + $0) } }

    /// Takes over a new store that a daemon had begun when it was killed: where a damaged one is out of the way it is
    /// whole. Where that is still there, or where there was none and it is not whole, it goes.
    private static func takeBegun(_ path: String, _ log: Logger) throws {
        let begun = path + begunSuffix
        // As long as the damaged one's log is there, that is to be kept aside first.
        guard !isFree(begun), SystemFile.exists(path) || isFree(path) else { return }
        guard isFree(path), !isLogThere(begun), try isWhole(begun) else { return remove(begun) }
        let replaced = try? Database(path: begun, .immutable).value(
            "SELECT why FROM audit WHERE event = ?1", .text(AuditEntry.Event.storeReplaced.rawValue))
        if case .text(let why)? = replaced { logDamage("\(why); a daemon was killed meanwhile", keptAside: nil, log) }
        try nameBegun(path)
    }

    private static func isWhole(_ path: String) throws -> Bool {
        do {
            _ = try examine(path)
            return true
        } catch let error as DatabaseError where error.isDamage {
            return false
        }
    }

    /// What an examination finds, where the file is not damaged.
    private enum Finding {
        case sound
        /// It has to be brought up to date, and is sound otherwise.
        case older
        /// A newer daemon wrote it.
        case newer
        /// The tables are whole, and an index is not what they say.
        case wrongIndexes
    }

    /// Looks whether the file is whole, and writes nothing into it: a damaged one is kept byte for byte, and so is a
    /// newer daemon's. With a log beside it, which SQLite would fold in, copies of both are looked at.
    ///
    /// - Throws: `DatabaseError` that `isDamage`.
    private static func examine(_ path: String) throws -> Finding {
        // Of a run that was killed.
        remove(path + copySuffix)
        guard let size = SystemFile.size(path) else {
            // SQLite would delete it: a daemon that was putting a damaged store aside was killed in the middle of that.
            throw DatabaseError.damage("there is a log and no file")
        }
        // SQLite takes an empty file for a new one. We never leave one behind.
        guard size > 0 else { throw DatabaseError.damage("the file is empty") }
        let hasLog = !logs(of: path).isEmpty
        // Nobody else writes, and without a log there is nothing to fold in: no lock and no other file is needed.
        if !hasLog, case let database = try Database(path: path, .immutable), try finding(in: database) == .sound {
            try rehearse(database)
            return .sound
        }
        return try withCopy(of: path) { database in
            let found = try finding(in: database)
            // What is to be written is written into the copy first: where that shows more damage, the file is as it
            // was.
            if found == .wrongIndexes { try mendIndexes(of: database) }
            guard found != .newer else { return found }
            try Schema.migrate(database)
            try rehearse(database)
            return found
        }
    }

    /// Those of a store's logs that say something, by how their names end.
    private static func logs(of path: String) -> [String] { logSuffixes.filter { (SystemFile.size(path + $0) ?? 0) > 0 } }

    /// Opens a copy of a file with its log, and removes it again.
    private static func withCopy<Result>(of original: String, _ body: (Database) throws -> Result) throws -> Result {
        let copy = original + copySuffix
        defer { remove(copy) }
        try SystemFile.copy(original, to: copy)
        for suffix in logs(of: original) { try SystemFile.copy(original + suffix, to: copy + suffix) }
        return try body(try Database(path: copy))
    }

    private static func remove(_ store: String) {
        for suffix in suffixes where SystemFile.exists(store + suffix) { try? SystemFile.remove(store + suffix) }
    }

    /// What a damaged file still says of a network that was joined: the way home is not to end with the grants.
    private static func joinRecord(in damaged: String) -> JoinRecord? {
        // Of a pipe or a device there is no size, and no end.
        guard (SystemFile.size(damaged) ?? 0) > 0 else { return nil }
        return try? withCopy(of: damaged) { database in
            // Anything else of that name could have us compute for ever.
            let kind = try database.value("SELECT type FROM sqlite_schema WHERE name = 'joinRecord' COLLATE NOCASE")
            guard kind == .text("table") else { return nil }
            var record: JoinRecord?
            let last = try database.integers("SELECT rowid FROM joinRecord ORDER BY rowid DESC LIMIT 1", [])
            try database.forEachRow(of: "joinRecord", last) { _, row in
                if let row { record = try Rows.joinRecord(row, in: database) }
            }
            return record
        }
    }

    private static func rehearse(_ database: Database) throws(DatabaseError) {
        if let fault = Rehearsal.fault(of: try Schema.statements(of: database)) { throw DatabaseError.damage(fault) }
    }

    private static func finding(in database: Database) throws(DatabaseError) -> Finding {
        let isSound = try database.value("PRAGMA integrity_check(1)") == .text("ok")
        if !isSound {
            // The same without a look at what is in the indexes.
            let verdict = try database.value("PRAGMA quick_check(1)")
            guard verdict == .text("ok") else { throw DatabaseError.damage("\(verdict)") }
        }
        guard try Schema.isKnown(in: database) else { return .newer }
        let sound = try Schema.sound(like: database)
        if let wrong = try Schema.fault(in: database, besides: sound) { throw DatabaseError.damage(wrong) }
        guard isSound, try Schema.foreignIndexes(in: database, besides: sound).isEmpty else { return .wrongIndexes }
        return try Schema.isCurrent(database) ? .sound : .older
    }

    private static func open(_ path: String, _ log: Logger) throws -> Database {
        let written = WriteAheadLog.frames(of: path)
        let database = try Database(path: path)
        try database.execute("PRAGMA journal_mode = WAL")
        // WAL's default may lose the last transactions in a power cut; a grant must not be lost.
        // EXTRA: also while the file is made, and has no such log yet.
        try database.execute("PRAGMA synchronous = EXTRA")
        if let written, case let used = try WriteAheadLog.used(by: database), used < written {
            log.critical(
                "the end of the store's log could not be read: the last changes may be lost",
                metadata: ["file": "\(path)-wal", "pages": "\(written)", "readable": "\(used)"])
        }
        guard try !Schema.isCurrent(database) else { return database }
        try Schema.migrate(database)
        // The file alone says of which version it is: a package with an older daemon looks there before it is
        // installed.
        fold(database, log)
        return database
    }

    /// Indexes say nothing that the tables do not: damaged ones are made anew, and cost nobody anything. One that is
    /// not ours goes: it may allow less than the tables do.
    private static func mendIndexes(of database: Database) throws {
        try database.transaction {
            for name in try Schema.foreignIndexes(in: database, besides: Schema.sound(like: database)) {
                // SQLite quotes the name.
                guard case .text(let drop) = try database.value("SELECT printf('DROP INDEX \"%w\"', ?1)", .text(name)) else {
                    continue
                }
                try database.run(script: drop)
            }
            try database.run(script: "REINDEX")
        }
        let left = try database.value("PRAGMA integrity_check(1)")
        guard left == .text("ok") else { throw DatabaseError.damage("\(left)") }
    }

    /// A name for what is kept aside, which nothing has yet: it carries the time and, if need be, a number.
    private static func nameAside(_ path: String, _ why: String) -> String {
        let stamp = time(nil)
        var target = "\(path).\(why)-\(stamp)"
        var number = 1
        while !isFree(target) || SystemFile.isNoFile(target) {
            number += 1
            target = "\(path).\(why)-\(stamp)-\(number)"
        }
        return target
    }

    /// Moves what is no file out of the places of what is kept beside a store: SQLite would wait for a pipe for ever,
    /// and write into a device.
    private static func clearPlaces(beside path: String, _ log: Logger) throws {
        let ours = suffixes.dropFirst() + [begunSuffix, copySuffix].flatMap { kind in suffixes.map { kind + $0 } }
        for place in ours.map({ path + $0 }) where SystemFile.isNoFile(place) {
            let aside = nameAside(place, "no-file")
            try SystemFile.move(place, to: aside)
            log.critical(
                "what was in the place of the store's log or of a copy is no file, and was moved: the last changes may be lost",
                metadata: ["place": "\(place)", "kept": "\(aside)"])
        }
    }

    private static func moveAside(_ path: String) throws -> String {
        let target = nameAside(path, "damaged")
        for suffix in suffixes where SystemFile.exists(path + suffix) {
            try SystemFile.move(path + suffix, to: target + suffix)
        }
        return target
    }

    // MARK: LedgerStore

    /// What is stored. A row that makes no sense is set aside (Docs/Storage.md), said in the log, and costs nobody else
    /// anything: the bond behind it stays as it is.
    public func load() throws -> StoredState {
        var damages: [Rows.Damage] = []
        func rows<Value>(_ table: String, _ decode: (SQLRow) throws -> Value) throws -> [Value] {
            var values: [Value] = []
            try forEachRow(of: table, damages: &damages) { values.append(try decode($0)) }
            return values
        }
        var state = StoredState(
            accessories: try rows("accessory") { try Rows.accessory($0, in: database) }, grants: [],
            intents: try rows("bondIntent") { try Rows.intent($0, in: database) })
        let known = Set(state.accessories.map(\.id))
        state.grants = try rows("accessGrant") { row in
            let grant = try Rows.grant(row, in: database)
            guard known.contains(grant.accessory) else {
                throw Rows.Nonsense("accessory \(grant.accessory): is not in the store")
            }
            return grant
        }
        try database.forEachRow(of: "audit", try damagedLines()) { number, row in
            damages.append(
                Rows.Damage(table: "audit", number: number, row: row, why: "its number, its time or a text is out of range"))
        }
        try setAside(damages)
        try Numbers.mend(in: database, log)
        return state
    }

    /// Reads a table's rows one after the other; what one that makes no sense was is added to `damages`.
    private func forEachRow(of table: String, damages: inout [Rows.Damage], _ body: (SQLRow) throws -> Void) throws {
        try database.forEachRow(of: table, try database.integers("SELECT rowid FROM \(table) ORDER BY rowid", [])) { number, row in
            do {
                guard let row else { throw Rows.Nonsense("a value is longer than \(Database.longestValue) bytes") }
                try body(row)
            } catch let error as Rows.Nonsense {
                damages.append(Rows.Damage(table: table, number: number, row: row, why: "\(error)"))
            }
        }
    }

    private func setAside(_ damages: [Rows.Damage]) throws {
        guard !damages.isEmpty else { return }
        for damage in damages {
            log.critical(
                "a row of the store is damaged and was set aside",
                metadata: ["file": "\(path)", "table": "\(damage.table)", "row": "\(damage.number)", "why": "\(damage.why)"])
        }
        try database.withLongValues {
            try database.transaction(of: "setAside") {
                // Grants refer to accessories: they go first.
                for damage in damages.sorted(by: { $0.table < $1.table }).sorted(by: { $0.isGrant && !$1.isGrant }) {
                    try Rows.put(damage, in: database)
                    try database.execute("DELETE FROM \(damage.table) WHERE rowid = ?", .integer(damage.number))
                }
            }
        }
    }

    /// One transaction. Once it is on disk, a change of who may use what is folded from the log into the file.
    ///
    /// - Throws: what SQLite says; nothing has changed then.
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
            for intent in change.noted { try Rows.put(intent, in: database) }
            for intent in change.finished { try Rows.delete(intent, in: database) }
            return try Self.add(change.lines, to: database)
        }
        if change.steps.contains(where: \.changesAccess) { Self.fold(database, log) }
        return numbers
    }

    /// Folds the log into the file: what is granted does not hang on a log that may be damaged.
    private static func fold(_ database: Database, _ log: Logger) {
        do {
            try database.checkpoint()
        } catch {
            log.warning("the store's log could not be folded in", metadata: ["error": "\(error)"])
        }
    }

    /// Notes an intent; one of the same address, kind and purpose is replaced.
    ///
    /// - Throws: what SQLite says.
    public func note(_ intent: BondIntent) throws {
        try database.transaction { try Rows.put(intent, in: database) }
    }

    /// Drops an intent by its address, kind and purpose; nothing happens when there is none.
    ///
    /// - Throws: what SQLite says.
    public func forget(_ intent: BondIntent) throws {
        try database.transaction { try Rows.delete(intent, in: database) }
    }

    /// Counts up on disk: a number that was given is not given again, whether it was used or not.
    ///
    /// - Throws: what SQLite says.
    public func nextGrantID() throws -> Int64 { try Numbers.next(.grant, in: database) }

    /// Counts up on disk, as `nextGrantID` does.
    ///
    /// - Throws: what SQLite says.
    public func nextAwareDevice() throws -> UInt64 { UInt64(try Numbers.next(.awareDevice, in: database)) }
}

// What a network's joining must undo after a crash; at most one.
extension GrantStore: JoinJournal {
    /// Replaces the record on disk; nil drops it.
    ///
    /// - Throws: what SQLite says.
    public func write(_ record: JoinRecord?) throws { try Self.write(record, into: database) }

    private static func write(_ record: JoinRecord?, into database: Database) throws {
        let content = try record.map { try Rows.content(of: $0).written(by: database) }
        try database.transaction {
            try database.execute("DELETE FROM joinRecord")
            if let content { try database.execute("INSERT INTO joinRecord (content) VALUES (?)", .text(content)) }
        }
    }

    /// The record of a network that an earlier run may have left joined; nil when there is none. One that makes no
    /// sense is set aside.
    ///
    /// - Throws: what SQLite says.
    public func read() throws -> JoinRecord? {
        var record: JoinRecord?
        var damages: [Rows.Damage] = []
        try forEachRow(of: "joinRecord", damages: &damages) { record = try Rows.joinRecord($0, in: database) }
        try setAside(damages)
        return record
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

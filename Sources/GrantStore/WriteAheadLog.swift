// SPDX-License-Identifier: Apache-2.0
// SQLite's log beside the store, looked at from outside: what was written there and can no longer be read is dropped by
// SQLite without a word, and that word is ours to say.

internal import SystemFiles

enum WriteAheadLog {
    /// SQLite folds it in when it has a thousand pages; a reader may keep it from that for a while.
    private static let largest = 256 << 20

    /// Pages that were written into the log since it was begun anew; nil without a log. (SQLite, "WAL-mode File
    /// Format", 4.1: a header of 32 bytes with the page size at 8 and two salts at 16; frames of 24 bytes and a page,
    /// the salts at 8.)
    static func frames(of path: String) -> Int? {
        guard let log = try? SystemFile.contents(path + "-wal", limit: largest), log.count >= 32 else { return nil }
        func number(_ offset: Int) -> Int { log[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }
        let page = number(8)
        let salts = log[16..<24]
        guard (512...65_536).contains(page) else { return (log.count - 32) / (24 + 4096) }
        var count = 0
        // What stands behind the last commit was never promised: only whole frames up to one that commits count.
        var committed = 0
        var offset = 32
        while offset + 24 + page <= log.count {
            guard log[offset + 8..<offset + 16].elementsEqual(salts) else { break }
            count += 1
            if number(offset + 4) != 0 { committed = count }
            offset += 24 + page
        }
        return committed
    }

    /// Pages of the log that SQLite reads.
    static func used(by database: Database) throws(DatabaseError) -> Int {
        guard let row = try database.rows("PRAGMA wal_checkpoint(PASSIVE)").first, case .integer(let pages) = row.values[1]
        else { return 0 }
        return Int(pages)
    }
}

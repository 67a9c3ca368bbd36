// SPDX-License-Identifier: Apache-2.0
// Which numbers of a file are believed, and the counters that give new ones. A damaged number must neither end the
// daemon nor the counting: a counter that stands at the end of its range would refuse every set-up from then on.

internal import Logging

enum Numbers {
    /// Numbers of grants, of Wi-Fi Aware devices and of lines: far more than there will be, and far from the end.
    static let given: ClosedRange<Int64> = 1...1 << 48
    /// Seconds since 1970, up to the year 9999.
    static let times: ClosedRange<Int64> = 0...253_402_300_799

    /// A counter, and where the numbers stand that it has given.
    struct Counter {
        let name: String
        let used: String

        static let grant = Counter(name: "grant", used: "SELECT max(id) FROM accessGrant")
        static let awareDevice = Counter(name: "awareDevice", used: "SELECT max(awareDevice) FROM accessGrant")
        static let all = [grant, awareDevice]
    }

    /// Counts up on disk: a number that was given is not given again.
    static func next(_ counter: Counter, in database: Database) throws -> Int64 {
        try database.transaction {
            let value = try database.integer(
                "UPDATE counter SET value = value + 1 WHERE name = ? RETURNING value", .text(counter.name))
            guard let value, given.contains(value) else {
                throw DatabaseError.damage("the counter \(counter.name) stands at \(value.map { "\($0)" } ?? "nothing")")
            }
            return value
        }
    }

    /// Sets counters right that are missing, out of range or behind what is in use. Called once, before any is used,
    /// and after what makes no sense has been set aside.
    static func mend(in database: Database, _ log: Logger) throws {
        for counter in Counter.all {
            let used = max(0, try database.integer(counter.used) ?? 0)
            let value = try database.integer("SELECT value FROM counter WHERE name = ?", .text(counter.name))
            if let value, value >= used, value < given.upperBound { continue }
            log.critical(
                "a counter of the store is damaged, and goes on from what is in use",
                metadata: ["counter": "\(counter.name)", "value": "\(value.map { "\($0)" } ?? "none")", "used": "\(used)"])
            try database.transaction {
                try database.execute(
                    "INSERT INTO counter (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    .text(counter.name), .integer(used))
            }
        }
        for table in ["audit", "setAside"] {
            let last = try database.integer("SELECT seq FROM sqlite_sequence WHERE name = ?", .text(table)) ?? 0
            guard last < 0 || last >= given.upperBound else { continue }
            log.critical("the counter of the store's \(table) is damaged", metadata: ["value": "\(last)"])
            try database.transaction {
                try database.execute(
                    "UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(id), 0) FROM \(table)) WHERE name = ?", .text(table))
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// The tables, as a list of migrations: never edited, only added to. Docs/Storage.md explains every column.

enum Schema {
    private struct Migration {
        let name: String
        let script: String
    }

    private static let migrations: [Migration] = [
        Migration(
            name: "1 accessories and grants",
            script: """
                CREATE TABLE accessory (
                    id TEXT PRIMARY KEY NOT NULL,
                    displayName TEXT NOT NULL,
                    address TEXT,
                    addressKind TEXT,
                    isBonded INTEGER NOT NULL,
                    descriptor TEXT NOT NULL,
                    image BLOB,
                    ssid BLOB,
                    created INTEGER NOT NULL,
                    UNIQUE (address, addressKind)
                ) STRICT;
                CREATE TABLE accessGrant (
                    id INTEGER PRIMARY KEY NOT NULL,
                    app TEXT NOT NULL,
                    accessory TEXT NOT NULL REFERENCES accessory (id),
                    state TEXT NOT NULL,
                    isEnabled INTEGER NOT NULL,
                    created INTEGER NOT NULL,
                    lastUsed INTEGER,
                    UNIQUE (app, accessory)
                ) STRICT;
                CREATE TABLE bondIntent (
                    address TEXT NOT NULL,
                    addressKind TEXT NOT NULL,
                    device TEXT,
                    purpose TEXT NOT NULL,
                    trace TEXT,
                    PRIMARY KEY (address, addressKind, purpose)
                ) STRICT;
                CREATE TABLE counter (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT;
                INSERT INTO counter VALUES ('grant', 0);
                """),
        Migration(name: "2 bridged transports", script: "ALTER TABLE accessory ADD COLUMN classicAddress TEXT"),
        Migration(
            name: "3 audit trail",
            script: """
                CREATE TABLE audit (
                    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
                    time INTEGER NOT NULL,
                    event TEXT NOT NULL,
                    app TEXT,
                    accessory TEXT,
                    who TEXT NOT NULL,
                    why TEXT NOT NULL
                ) STRICT;
                """),
        Migration(
            name: "4 Wi-Fi",
            script: """
                ALTER TABLE accessory ADD COLUMN awareDevice INTEGER;
                INSERT INTO counter VALUES ('awareDevice', 0);
                CREATE TABLE joinRecord (content TEXT NOT NULL) STRICT;
                """),
        // Of older accessories nobody noted whose bond it was: they go on as they were.
        Migration(
            name: "5 whose bond it is, and what it was known by",
            script: """
                ALTER TABLE accessory ADD COLUMN ownsBond INTEGER NOT NULL DEFAULT 1;
                ALTER TABLE accessory ADD COLUMN ownsClassicBond INTEGER NOT NULL DEFAULT 1;
                ALTER TABLE accessory ADD COLUMN traits TEXT NOT NULL DEFAULT '{}';
                CREATE TABLE setAside (
                    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
                    time INTEGER NOT NULL,
                    what TEXT NOT NULL,
                    why TEXT NOT NULL,
                    content TEXT NOT NULL
                ) STRICT;
                CREATE INDEX auditByEvent ON audit (event, id);
                """),
        // From here on `user_version` counts. The library that counted before kept this table: a daemon of that time
        // looks there, and says that a newer one wrote the file.
        Migration(
            name: "6 user_version",
            script: """
                CREATE TABLE IF NOT EXISTS grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
                INSERT INTO grdb_migrations VALUES ('6 user_version');
                """),
        // Older stores do not name the adapter: the adapter that has the bond counts.
        Migration(
            name: "7 adapters",
            script: """
                ALTER TABLE accessory ADD COLUMN adapter TEXT;
                ALTER TABLE bondIntent RENAME TO olderIntent;
                CREATE TABLE bondIntent (
                    address TEXT NOT NULL,
                    addressKind TEXT NOT NULL,
                    adapter TEXT NOT NULL,
                    device TEXT,
                    purpose TEXT NOT NULL,
                    trace TEXT,
                    PRIMARY KEY (address, addressKind, adapter, purpose)
                ) STRICT;
                INSERT INTO bondIntent SELECT address, addressKind, '', device, purpose, trace FROM olderIntent;
                DROP TABLE olderIntent;
                """),
        // Older versions did not note which app's descriptor a shared accessory has: each app keeps
        // what it had.
        Migration(
            name: "8 terms of grants",
            script: """
                ALTER TABLE accessGrant ADD COLUMN descriptor TEXT NOT NULL DEFAULT '{}';
                ALTER TABLE accessGrant ADD COLUMN isInherited INTEGER NOT NULL DEFAULT 0;
                ALTER TABLE accessGrant ADD COLUMN traits TEXT NOT NULL DEFAULT '{}';
                ALTER TABLE accessGrant ADD COLUMN ssid BLOB;
                ALTER TABLE accessGrant ADD COLUMN awareDevice INTEGER;
                ALTER TABLE accessGrant ADD COLUMN classicAddress TEXT;
                ALTER TABLE accessGrant ADD COLUMN ownsClassicBond INTEGER NOT NULL DEFAULT 0;
                ALTER TABLE accessGrant ADD COLUMN hasBluetooth INTEGER NOT NULL DEFAULT 0;
                UPDATE accessGrant SET
                    (descriptor, ssid, awareDevice, classicAddress, ownsClassicBond, hasBluetooth) =
                        (SELECT descriptor, ssid, awareDevice, classicAddress, ownsClassicBond, address IS NOT NULL
                         FROM accessory WHERE id = accessory),
                    isInherited = (SELECT count(*) > 1 FROM accessGrant AS other WHERE other.accessory = accessGrant.accessory)
                    WHERE accessory IN (SELECT id FROM accessory);
                ALTER TABLE accessory DROP COLUMN descriptor;
                ALTER TABLE accessory DROP COLUMN ssid;
                ALTER TABLE accessory DROP COLUMN awareDevice;
                ALTER TABLE accessory DROP COLUMN classicAddress;
                ALTER TABLE accessory DROP COLUMN ownsClassicBond;
                """),
    ]

    /// Whether this daemon knows all that the file may hold.
    static func isKnown(in database: Database) throws(DatabaseError) -> Bool {
        let counted = Int(try database.integer("PRAGMA user_version") ?? 0)
        guard counted <= migrations.count else { return false }
        let known = Set(migrations.map { SQLValue.text($0.name) })
        return try names(in: database).filter { !known.contains($0) }.allSatisfy { name in
            // Where they do not count any more, what is no migration's name is damage, and no newer daemon's.
            guard counted > 0, case .text(let name) = name else { return counted > 0 }
            return name.split(separator: " ").first.flatMap { Int($0) }.map { $0 <= migrations.count } ?? true
        }
    }

    /// Whether nothing is to be brought up to date.
    static func isCurrent(_ database: Database) throws(DatabaseError) -> Bool { try version(of: database) == migrations.count }

    /// What is wrong with the tables of a file, by the migrations that it says it has seen; nil when nothing is. More
    /// than is needed is no fault; whether it can be used with that is tried (`Rehearsal`).
    static func fault(in database: Database, besides sound: Database) throws(DatabaseError) -> String? {
        let ours = Set(try tables(in: sound))
        for table in try tables(in: database) where !ours.contains(table) {
            // Its rows would keep ours from being deleted.
            let named = try database.rows("SELECT \"table\" FROM pragma_foreign_key_list(?1)", .text(table)).map {
                "\($0.values[0])"
            }
            if let other = named.first(where: { name in ours.contains { $0.lowercased() == name.lowercased() } }) {
                return "table \(table): none of ours, and refers to \(other)"
            }
        }
        // What is no table, but goes by the name of one, has its columns, and cannot be written.
        let there = Set(try tables(in: database))
        for table in ours.sorted() {
            guard there.contains(table) else { return "table \(table): missing" }
            let missing = Set(try columns(of: table, in: sound)).subtracting(try columns(of: table, in: database))
            guard missing.isEmpty else { return "table \(table): \(missing.sorted().joined(separator: ", ")): missing or changed" }
        }
        return nil
    }

    /// Indexes of our tables that are not ours, by their names.
    static func foreignIndexes(in database: Database, besides sound: Database) throws(DatabaseError) -> [String] {
        let indexes = "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
        let ours = Set(try sound.rows(indexes).map { "\($0.values[0])" })
        let tables = Set(try tables(in: sound))
        return try database.rows(indexes).filter { tables.contains("\($0.values[1])") }.map { "\($0.values[0])" }
            .filter { !ours.contains($0) }
    }

    /// What makes the tables that we know, and their indexes, as the file has it.
    static func statements(of database: Database) throws(DatabaseError) -> [String] {
        let ours = Set(try tables(in: sound(migrations.count)))
        // Tables before their indexes.
        return try database.rows(
            "SELECT tbl_name, sql FROM sqlite_schema WHERE type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type DESC"
        ).filter { ours.contains("\($0.values[0])") }.map { "\($0.values[1])" }
    }

    /// An empty store, in memory, by the migrations that a file says it has seen.
    static func sound(like database: Database) throws(DatabaseError) -> Database { try sound(try version(of: database)) }

    /// An empty store of a version, in memory.
    private static func sound(_ version: Int) throws(DatabaseError) -> Database {
        let database = try Database(path: Database.inMemory)
        for migration in migrations.prefix(version) { try database.run(script: migration.script) }
        return database
    }

    private static func tables(in database: Database) throws(DatabaseError) -> [String] {
        try database.rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'").compactMap { row in
            if case .text(let name) = row.values[0] { name } else { nil }
        }
    }

    /// Name, place and type of each column.
    private static func columns(of table: String, in database: Database) throws(DatabaseError) -> [String] {
        try database.rows("SELECT name, cid, type, pk FROM pragma_table_info(?1)", .text(table)).map { row in
            row.values.map { "\($0)" }.joined(separator: " ")
        }
    }

    /// Brings the tables up to date, each step whole or not at all.
    ///
    /// - Throws: `DatabaseError`; one that `isDamage` where the tables are not those of the version that the file says
    ///   it has.
    static func migrate(_ database: Database) throws {
        for number in try version(of: database)..<migrations.count {
            do {
                try database.transaction {
                    try database.run(script: migrations[number].script)
                    try database.run(script: "PRAGMA user_version = \(number + 1)")
                }
            } catch let error as DatabaseError where error.isContradiction {
                throw DatabaseError.damage("migration \(migrations[number].name): \(error.message)")
            }
        }
    }

    /// How many migrations the file has seen.
    private static func version(of database: Database) throws(DatabaseError) -> Int {
        let number = Int(try database.integer("PRAGMA user_version") ?? 0)
        return number > 0 ? number : try names(in: database).count
    }

    /// What an older daemon noted of its migrations.
    private static func names(in database: Database) throws(DatabaseError) -> [SQLValue] {
        guard try database.integer("SELECT 1 FROM sqlite_schema WHERE name = 'grdb_migrations'") != nil else { return [] }
        return try database.rows("SELECT identifier FROM grdb_migrations").map { $0.values[0] }
    }
}

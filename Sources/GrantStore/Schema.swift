// SPDX-License-Identifier: Apache-2.0
// The tables. A change to them takes the next version number. Docs/Storage.md explains every column.

enum Schema {
    /// SQLite's `user_version` of a store. Lower numbers belong to stores from before the first release.
    static let version = 13

    private static let script = """
        CREATE TABLE accessory (
            id TEXT PRIMARY KEY NOT NULL,
            displayName TEXT NOT NULL,
            address TEXT,
            addressKind TEXT,
            adapter TEXT,
            isBonded INTEGER NOT NULL,
            ownsBond INTEGER NOT NULL,
            traits TEXT NOT NULL,
            image BLOB,
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
            descriptor TEXT NOT NULL,
            hasBluetooth INTEGER NOT NULL,
            traits TEXT NOT NULL,
            ssid BLOB,
            awareDevice INTEGER,
            classicAddress TEXT,
            ownsClassicBond INTEGER NOT NULL,
            limits TEXT NOT NULL,
            user INTEGER,
            reported TEXT,
            UNIQUE (app, accessory)
        ) STRICT;
        CREATE TABLE mutedApp (app TEXT PRIMARY KEY NOT NULL, since INTEGER NOT NULL, who TEXT NOT NULL) STRICT;
        CREATE TABLE claim (
            list TEXT NOT NULL,
            entry TEXT NOT NULL,
            app TEXT NOT NULL,
            accessory TEXT NOT NULL,
            isAuthenticated INTEGER NOT NULL,
            time INTEGER NOT NULL,
            PRIMARY KEY (list, entry)
        ) STRICT;
        CREATE TABLE bondIntent (
            address TEXT NOT NULL,
            addressKind TEXT NOT NULL,
            adapter TEXT NOT NULL,
            device TEXT,
            purpose TEXT NOT NULL,
            trace TEXT,
            PRIMARY KEY (address, addressKind, adapter, purpose)
        ) STRICT;
        CREATE TABLE joinRecord (content TEXT NOT NULL) STRICT;
        CREATE TABLE elapsedClock (
            boot TEXT NOT NULL,
            sinceBoot REAL NOT NULL,
            wall REAL,
            elapsed REAL NOT NULL,
            isSettled INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE counter (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT;
        CREATE TABLE audit (
            id INTEGER PRIMARY KEY NOT NULL,
            time INTEGER NOT NULL,
            event TEXT NOT NULL,
            app TEXT,
            accessory TEXT,
            who TEXT NOT NULL,
            why TEXT NOT NULL
        ) STRICT;
        CREATE INDEX auditByEvent ON audit (event, id);
        CREATE TABLE setAside (
            id INTEGER PRIMARY KEY NOT NULL,
            time INTEGER NOT NULL,
            what TEXT NOT NULL,
            why TEXT NOT NULL,
            content TEXT NOT NULL
        ) STRICT;
        PRAGMA user_version = \(version);
        """

    /// An empty store, in memory.
    static func emptyStore() throws(DatabaseError) -> Database {
        let database = try Database(path: Database.inMemory)
        try database.run(script: script)
        return database
    }

    /// Whether the tables and their indexes are exactly those of `script`. Other tables, triggers and views do no harm:
    /// the daemon never uses them.
    static func matches(_ database: Database) throws(DatabaseError) -> Bool {
        let objects = "SELECT tbl_name, type, name, sql FROM sqlite_schema WHERE type IN ('table', 'index')"
        let expected = try emptyStore().rows(objects).map(\.values)
        let tables = Set(expected.map { $0[0] })
        let found = try database.rows(objects).map(\.values).filter { tables.contains($0[0]) }
        return Set(found) == Set(expected)
    }
}

// SPDX-License-Identifier: Apache-2.0
// The tables, as a list of migrations: never edited, only added to. Docs/Storage.md explains every column.

internal import GRDB

enum Schema {
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1 accessories and grants") { database in
            try database.execute(
                sql: """
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
                    """)
        }
        migrator.registerMigration("2 bridged transports") { database in
            try database.execute(sql: "ALTER TABLE accessory ADD COLUMN classicAddress TEXT")
        }
        migrator.registerMigration("3 audit trail") { database in
            try database.execute(
                sql: """
                    CREATE TABLE audit (
                        id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
                        time INTEGER NOT NULL,
                        event TEXT NOT NULL,
                        app TEXT,
                        accessory TEXT,
                        who TEXT NOT NULL,
                        why TEXT NOT NULL
                    ) STRICT;
                    """)
        }
        migrator.registerMigration("4 Wi-Fi") { database in
            try database.execute(
                sql: """
                    ALTER TABLE accessory ADD COLUMN awareDevice INTEGER;
                    INSERT INTO counter VALUES ('awareDevice', 0);
                    CREATE TABLE joinRecord (content TEXT NOT NULL) STRICT;
                    """)
        }
        migrator.registerMigration("5 whose bond it is, and what it was known by") { database in
            // Of older accessories nobody noted whose bond it was: they go on as they were.
            try database.execute(
                sql: """
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
                    """)
        }
        return migrator
    }
}

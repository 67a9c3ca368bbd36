-- A store as a daemon with 8 migrations left it. StoreFaultTests brings it up to date.
BEGIN TRANSACTION;
CREATE TABLE accessGrant (
                    id INTEGER PRIMARY KEY NOT NULL,
                    app TEXT NOT NULL,
                    accessory TEXT NOT NULL REFERENCES accessory (id),
                    state TEXT NOT NULL,
                    isEnabled INTEGER NOT NULL,
                    created INTEGER NOT NULL,
                    lastUsed INTEGER, descriptor TEXT NOT NULL DEFAULT '{}', isInherited INTEGER NOT NULL DEFAULT 0, traits TEXT NOT NULL DEFAULT '{}', ssid BLOB, awareDevice INTEGER, classicAddress TEXT, ownsClassicBond INTEGER NOT NULL DEFAULT 0, hasBluetooth INTEGER NOT NULL DEFAULT 0,
                    UNIQUE (app, accessory)
                ) STRICT;
INSERT INTO "accessGrant" VALUES(1,'com.example.dice','6F9619FF-8B86-D011-B42D-00C04FC964F1','authorized',1,1700000000,9,'{"bluetoothServiceUUID":"180F","bluetoothNameSubstring":"Dice"}',0,'{}',NULL,NULL,'00:11:22:33:44:55',1,1);
INSERT INTO "accessGrant" VALUES(3,'com.example.camera','6F9619FF-8B86-D011-B42D-00C04FC964F2','awaitingAuthorization',0,1700000001,NULL,'{"ssid":[67,97,109]}',0,'{}',X'43616D',4,NULL,1,0);
CREATE TABLE accessory (
                    id TEXT PRIMARY KEY NOT NULL,
                    displayName TEXT NOT NULL,
                    address TEXT,
                    addressKind TEXT,
                    isBonded INTEGER NOT NULL,
                    image BLOB,
                    created INTEGER NOT NULL, ownsBond INTEGER NOT NULL DEFAULT 1, traits TEXT NOT NULL DEFAULT '{}', adapter TEXT,
                    UNIQUE (address, addressKind)
                ) STRICT;
INSERT INTO "accessory" VALUES('6F9619FF-8B86-D011-B42D-00C04FC964F1','Würfel 🎲','C0:FF:EE:00:00:01','random',1,X'FFD8FFE0',1700000000,0,'{"services": ["180F"]}','00:1A:7D:DA:71:13');
INSERT INTO "accessory" VALUES('6F9619FF-8B86-D011-B42D-00C04FC964F2','Camera',NULL,NULL,0,NULL,1700000001,1,'{}',NULL);
CREATE TABLE audit (
                    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
                    time INTEGER NOT NULL,
                    event TEXT NOT NULL,
                    app TEXT,
                    accessory TEXT,
                    who TEXT NOT NULL,
                    why TEXT NOT NULL
                ) STRICT;
INSERT INTO "audit" VALUES(1,1700000000,'granted','com.example.dice','6F9619FF-8B86-D011-B42D-00C04FC964F1','uid 0','picked');
CREATE TABLE bondIntent (
                    address TEXT NOT NULL,
                    addressKind TEXT NOT NULL,
                    adapter TEXT NOT NULL,
                    device TEXT,
                    purpose TEXT NOT NULL,
                    trace TEXT,
                    PRIMARY KEY (address, addressKind, adapter, purpose)
                ) STRICT;
INSERT INTO "bondIntent" VALUES('C0:FF:EE:00:00:02','random','00:1A:7D:DA:71:13','/org/bluez/hci0/dev_x','removal',NULL);
CREATE TABLE counter (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT;
INSERT INTO "counter" VALUES('grant',3);
INSERT INTO "counter" VALUES('awareDevice',4);
CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
INSERT INTO "grdb_migrations" VALUES('1 accessories and grants');
INSERT INTO "grdb_migrations" VALUES('2 bridged transports');
INSERT INTO "grdb_migrations" VALUES('3 audit trail');
INSERT INTO "grdb_migrations" VALUES('4 Wi-Fi');
INSERT INTO "grdb_migrations" VALUES('5 whose bond it is, and what it was known by');
INSERT INTO "grdb_migrations" VALUES('6 user_version');
CREATE TABLE joinRecord (content TEXT NOT NULL) STRICT;
INSERT INTO "joinRecord" VALUES('{"enabled":[],"interface":"wlan0","joined":"j","network":"Cam","owner":":1.2","previous":"home","service":"fi.w1.wpa_supplicant1"}');
CREATE TABLE setAside (
                    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
                    time INTEGER NOT NULL,
                    what TEXT NOT NULL,
                    why TEXT NOT NULL,
                    content TEXT NOT NULL
                ) STRICT;
CREATE INDEX auditByEvent ON audit (event, id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('audit',1);
COMMIT;
PRAGMA user_version = 8;

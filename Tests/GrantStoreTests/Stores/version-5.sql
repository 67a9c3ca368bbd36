-- A store as the daemon wrote it while GRDB counted its migrations: the schema as that made it, and rows as Foundation's encoder wrote
-- them. GrantStoreTests reads it.
BEGIN TRANSACTION;
CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
INSERT INTO grdb_migrations VALUES('1 accessories and grants');
INSERT INTO grdb_migrations VALUES('2 bridged transports');
INSERT INTO grdb_migrations VALUES('3 audit trail');
INSERT INTO grdb_migrations VALUES('4 Wi-Fi');
INSERT INTO grdb_migrations VALUES('5 whose bond it is, and what it was known by');
CREATE TABLE accessory (
    id TEXT PRIMARY KEY NOT NULL,
    displayName TEXT NOT NULL,
    address TEXT,
    addressKind TEXT,
    isBonded INTEGER NOT NULL,
    descriptor TEXT NOT NULL,
    image BLOB,
    ssid BLOB,
    created INTEGER NOT NULL, classicAddress TEXT, awareDevice INTEGER, ownsBond INTEGER NOT NULL DEFAULT 1, ownsClassicBond INTEGER NOT NULL DEFAULT 1, traits TEXT NOT NULL DEFAULT '{}',
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
INSERT INTO counter VALUES('grant',0);
INSERT INTO counter VALUES('awareDevice',0);
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    time INTEGER NOT NULL,
    event TEXT NOT NULL,
    app TEXT,
    accessory TEXT,
    who TEXT NOT NULL,
    why TEXT NOT NULL
) STRICT;
CREATE TABLE joinRecord (content TEXT NOT NULL) STRICT;
CREATE TABLE setAside (
    id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    time INTEGER NOT NULL,
    what TEXT NOT NULL,
    why TEXT NOT NULL,
    content TEXT NOT NULL
) STRICT;
DELETE FROM sqlite_sequence;
CREATE INDEX auditByEvent ON audit (event, id);
INSERT INTO accessory VALUES('7C9E6679-7425-40DE-944B-E07FC1F90AE7','Würfel 🎲','C0:FF:EE:00:00:01','random',1,'{"bluetoothRange":"immediate","supportedOptions":2,"wifiAwareModelNameMatch":{"options":8,"string":"a\/b \"c\""},"bluetoothNameSubstring":"Dice","bluetoothServiceUUID":"0000180F-0000-1000-8000-00805F9B34FB","bluetoothManufacturerDataMask":[255,0],"bluetoothCompanyIdentifier":65535,"bluetoothNameSubstringCompareOptions":1,"wifiAwareServiceName":"_dice._tcp","bluetoothManufacturerDataBlob":[1,0],"ofANewerDaemon":{"x":[1,2.5,null,true]}}',X'ffd8ffe0',X'4400ff',1700000000,NULL,NULL,1,1,'{"companies":[76],"services":["0000180F-0000-1000-8000-00805F9B34FB"]}');
INSERT INTO accessGrant VALUES(1,'com.example.dice','7C9E6679-7425-40DE-944B-E07FC1F90AE7','authorized',1,7,9);
INSERT INTO accessGrant VALUES(2,'com.example.other','7C9E6679-7425-40DE-944B-E07FC1F90AE7','awaitingAuthorization',0,8,NULL);
INSERT INTO bondIntent VALUES('4C:00:00:00:00:01','random','/org/bluez/hci0/dev_4C_00_00_00_00_01','pairing','{"name":"Würfel","olderBonds":["\/org\/bluez\/hci0\/dev_1"]}');
INSERT INTO joinRecord VALUES('{"service":"fi.w1.wpa_supplicant1","owner":":1.5","interface":"wlan0","network":"4469","joined":"","previous":"","enabled":["a\/b"]}');
INSERT INTO audit VALUES(1,7,'granted','com.example.dice','7C9E6679-7425-40DE-944B-E07FC1F90AE7','uid 1000','picked');
UPDATE counter SET value = 7 WHERE name = 'grant';
COMMIT;

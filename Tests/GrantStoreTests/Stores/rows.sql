-- Rows of all kinds, as the daemon writes them.
INSERT INTO accessory (id, displayName, address, addressKind, adapter, isBonded, ownsBond, traits, image, created) VALUES
    ('6F9619FF-8B86-D011-B42D-00C04FC964F1', 'Würfel 🎲', 'C0:FF:EE:00:00:01', 'random', '00:1A:7D:DA:71:13', 1, 0,
     '{"services": ["180F"]}', X'FFD8FFE0', 1700000000),
    ('6F9619FF-8B86-D011-B42D-00C04FC964F2', 'Camera', NULL, NULL, NULL, 0, 1, '{}', NULL, 1700000001);
INSERT INTO accessGrant (id, app, accessory, state, isEnabled, created, lastUsed, descriptor, hasBluetooth, traits, ssid, awareDevice,
    classicAddress, ownsClassicBond, limits, user) VALUES
    (1, 'com.example.dice', '6F9619FF-8B86-D011-B42D-00C04FC964F1', 'authorized', 1, 1700000000, 9,
     '{"bluetoothServiceUUID":"180F","bluetoothNameSubstring":"Dice","access":"listed","characteristics":["180F/2A19#2:read+listen"]}', 1, '{}', NULL, NULL, '00:11:22:33:44:55', 1, '{"excluded":[7],"observed":1}', 1000),
    (3, 'com.example.camera', '6F9619FF-8B86-D011-B42D-00C04FC964F2', 'awaitingAuthorization', 0, 1700000001, NULL,
     '{"ssid":[67,97,109]}', 0, '{}', X'43616D', 4, NULL, 1, '{"ends":["elapsed 3600.5 1h","wall 1700000000.0 18:00"],"warned":1,"access":"180F/2A19:read"}', NULL);
INSERT INTO elapsedClock VALUES ('boot', 1.5, 1700000000.25, 12.0, 1);
INSERT INTO claim VALUES ('spring', 'SN-1', 'com.example.dice', '6F9619FF-8B86-D011-B42D-00C04FC964F1', 0, 1700000000);
INSERT INTO bondIntent (address, addressKind, adapter, device, purpose) VALUES
    ('C0:FF:EE:00:00:02', 'random', '00:1A:7D:DA:71:13', '/org/bluez/hci0/dev_x', 'removal');
INSERT INTO counter VALUES ('grant', 3), ('awareDevice', 4);
INSERT INTO joinRecord VALUES ('{"enabled":[],"interface":"wlan0","joined":"j","network":"Cam","owner":":1.2","previous":"home",'
    || '"service":"fi.w1.wpa_supplicant1"}');
INSERT INTO audit (time, event, app, accessory, who, why) VALUES
    (1700000000, 'granted', 'com.example.dice', '6F9619FF-8B86-D011-B42D-00C04FC964F1', 'uid 0', 'picked');

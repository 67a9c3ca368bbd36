// SPDX-License-Identifier: Apache-2.0
// Stores as the world may hand them over: of every older version, of a newer one, damaged in each page, in each column
// and in the schema. A store always opens, or says why it must not; what it loads is what was written, or was set
// aside; and from then on it works.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Foundation
@testable import GrantStore
import Logging
import SystemFiles
import TestSupport
import Testing

/// The version of the store that this daemon writes.
private let newest = 8

@Suite struct StoreFaultTests {
    private let directory: TemporaryDirectory
    private let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private var path: String { directory.path + "/grants.sqlite" }

    init() throws {
        directory = try TemporaryDirectory(inMemory: true)
    }

    private func open() throws -> GrantStore { try GrantStore(directory: directory.path, log: log) }

    private static func script(_ version: Int) throws -> String {
        try String(
            contentsOfFile: #filePath.replacing("StoreFaultTests.swift", with: "Stores/version-\(version).sql"), encoding: .utf8)
    }

    /// The file as a daemon of that version left it.
    private static func file(_ version: Int, _ more: String = "") throws -> [UInt8] {
        let directory = try TemporaryDirectory(inMemory: true)
        let path = directory.path + "/grants.sqlite"
        do {
            let database = try Database(path: path)
            try database.run(script: "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = OFF")
            try database.run(script: try script(version))
            try database.run(script: more)
        }
        return try SystemFile.contents(path)
    }

    private func begin(with bytes: [UInt8]) throws {
        for name in try SystemFile.names(in: directory.path) { try SystemFile.remove(directory.path + "/" + name) }
        try SystemFile.write(bytes, to: path)
    }

    /// A set-up and all that belongs to it, as the next person would have it.
    private func checkThatItWorks(_ store: GrantStore) throws {
        if store.keptAside != nil {
            let first = try #require(try store.page(of: AuditQuery(), from: 0, atMost: 1).entries.first)
            #expect(first.event == .storeReplaced && first.who == "accessorysetupd")
            let words = "the store was damaged and is kept aside: "
            #expect(first.why.hasPrefix(words) && first.why.count < 600, "\(first.why)")
        }
        let used = try store.load().grants.map(\.id)
        let accessory = Accessory(
            id: .random(), displayName: "New", address: BluetoothAddress("C0:FF:EE:00:00:99", kind: .random), isBonded: true,
            created: 1)
        let id = try store.nextGrantID()
        #expect(id > used.max() ?? 0)
        #expect(try store.nextAwareDevice() > 0)
        let grant = Grant(
            id: id, app: AppID("com.example.new")!, accessory: accessory.id, state: .authorized,
            terms: Grant.Terms(DiscoveryDescriptor()), created: 1)
        let line = AuditEntry(time: 2, event: .granted, app: grant.app, accessory: accessory.id, who: "test", why: "works")
        #expect(try store.commit(StoreChange([.put(accessory), .grant(grant)], lines: [line])).allSatisfy { $0 > 0 })
        try store.write(nil)
        let state = try open().load()
        #expect(state.accessories.contains(accessory) && state.grants.contains(grant))
    }

    /// Whatever the store says that it has can be changed and removed, and is gone then.
    private func checkThatAllCanGo(_ store: GrantStore) throws {
        let state = try store.load()
        try store.commit(StoreChange(state.accessories.map { .put($0) }))
        try store.commit(
            StoreChange(
                state.grants.map { .revoke($0.id) } + state.accessories.map { .delete($0.id) }, finishing: state.intents))
        let left = try open().load()
        #expect(left.accessories.isEmpty && left.grants.isEmpty && left.intents.isEmpty)
    }

    // MARK: Versions

    @Test(arguments: 1...newest) func everyOlderStoreIsBroughtUpToDate(version: Int) throws {
        try begin(with: try Self.file(version))
        let store = try open()
        #expect(store.keptAside == nil)
        // `user_version` in SQLite's header, while the store is in use: the package's preinst reads it there.
        #expect(try SystemFile.contents(path)[60..<64] == [0, 0, 0, UInt8(newest)])
        let state = try store.load()
        if version != 5 {
            #expect(state.accessories.map(\.displayName).sorted() == ["Camera", "Würfel 🎲"])
            #expect(state.grants.map(\.id) == [1, 3] && state.grants.map(\.isEnabled) == [true, false])
            let die = try #require(state.accessories.first { $0.address != nil })
            let terms = state.grants.map(\.terms)
            #expect(terms[0].descriptor.serviceUUID == BluetoothUUID("180F") && die.ownsBond == (version < 5))
            #expect(terms.allSatisfy { !$0.isInherited })
            #expect(terms[1].ssid == SSID("Cam") && terms[1].awareDevice == (version >= 4 ? 4 : nil))
            #expect((terms[0].classicAddress != nil) == (version >= 2) && (terms[0].ownsClassicBond || version < 2))
            #expect(try store.page(of: AuditQuery(), from: 0, atMost: 9).entries.map(\.why) == (version >= 3 ? ["picked"] : []))
            #expect(try store.read()?.network == (version >= 4 ? "Cam" : nil))
            #expect(try store.nextGrantID() == 4)
            #expect(try store.nextAwareDevice() == (version >= 4 ? 5 : 1))
        }
        #expect(state.intents.count == 1)
        let adapter = version >= 7 ? BluetoothAddress("00:1A:7D:DA:71:13", kind: .public) : nil
        #expect(state.intents[0].adapter == adapter && state.accessories.allSatisfy { $0.address == nil || $0.adapter == adapter })
        try checkThatItWorks(store)
    }

    /// Whatever it has beside it, and however it keeps its journal.
    @Test(arguments: ["WAL", "DELETE"]) func aNewerStoreIsLeftByteForByte(journal: String) throws {
        let other = try TemporaryDirectory(inMemory: true)
        let theirs = other.path + "/grants.sqlite"
        do {
            let database = try Database(path: theirs)
            try database.run(script: "PRAGMA journal_mode = \(journal); PRAGMA foreign_keys = OFF")
            try database.run(script: try Self.script(newest))
            try database.run(script: "ALTER TABLE accessory ADD COLUMN future TEXT; PRAGMA user_version = \(newest + 1)")
            // As a daemon that was killed leaves it: with its log.
            for name in try SystemFile.names(in: other.path) where !name.hasSuffix("-shm") {
                try SystemFile.copy(other.path + "/" + name, to: directory.path + "/" + name)
            }
        }
        let names = try SystemFile.names(in: directory.path)
        #expect(names == (journal == "WAL" ? ["grants.sqlite", "grants.sqlite-wal"] : ["grants.sqlite"]))
        let before = try names.map { try SystemFile.contents(directory.path + "/" + $0) }
        #expect { try open() } throws: { if case .newer = $0 as? GrantStoreError { true } else { false } }
        #expect(try SystemFile.names(in: directory.path) == names)
        #expect(try names.map { try SystemFile.contents(directory.path + "/" + $0) } == before)
    }

    // MARK: Damage

    /// A store with enough in it for several pages of each kind.
    private static func full() throws -> [UInt8] {
        let lines = (0..<300).map {
            "INSERT INTO audit (time, event, app, who, why) VALUES (\($0), 'used', 'com.example.dice', 'uid 0', 'read \($0)');"
        }
        let accessories = (10..<60).map { number in
            """
            INSERT INTO accessory (id, displayName, address, addressKind, isBonded, descriptor, created) VALUES
                ('6F9619FF-8B86-D011-B42D-00C04FC964\(number)', 'Die \(number)', 'C0:FF:EE:00:01:\(number)', 'random', 1, '{}', 1);
            INSERT INTO accessGrant VALUES
                (\(number), 'com.example.dice', '6F9619FF-8B86-D011-B42D-00C04FC964\(number)', 'authorized', 1, 1, NULL);
            """
        }
        return try file(7, (lines + accessories).joined() + "UPDATE counter SET value = 60 WHERE name = 'grant';")
    }

    /// Each page, damaged in several ways.
    @Test func eachPageMayBeDamaged() throws {
        let whole = try Self.full()
        try begin(with: whole)
        let sound = try open().load()
        let pages = whole.count / 4096
        #expect(pages > 20)
        var (kept, mended) = (0, 0)
        for page in 0..<pages {
            for kind in 0..<4 {
                var bytes = whole
                var random = SeededNumbers(UInt64(page * 4 + kind))
                let range = page * 4096..<page * 4096 + 4096
                switch kind {
                case 0: bytes.replaceSubrange(range, with: [UInt8](repeating: 0, count: 4096))
                case 1: for place in range { bytes[place] = UInt8(truncatingIfNeeded: random.next()) }
                // Some bits, where cells and their pointers stand.
                case 2: for _ in 0..<8 { bytes[range.lowerBound + Int(random.next() % 4096)] ^= 1 << UInt8(random.next() % 8) }
                default: bytes.removeLast(bytes.count - range.lowerBound)
                }
                try begin(with: bytes)
                let store: GrantStore
                do {
                    store = try open()
                } catch let error as GrantStoreError {
                    // A flipped bit of the version: it cannot be told from a newer one.
                    guard case .newer = error, page == 0 else { throw error }
                    #expect(try SystemFile.contents(path) == bytes)
                    continue
                }
                if let aside = store.keptAside {
                    kept += 1
                    #expect(try SystemFile.contents(aside) == bytes)
                    #expect(try store.load().accessories.isEmpty)
                } else {
                    mended += 1
                    let state = try store.load()
                    // What is loaded was there: flipped bits may spell another name, and no accessory or grant more.
                    #expect(Set(state.grants.map(\.id)).isSubset(of: sound.grants.map(\.id)) || kind == 2)
                    #expect(state.accessories.count <= sound.accessories.count && state.grants.count <= sound.grants.count)
                }
                try checkThatItWorks(store)
            }
        }
        #expect(kept > pages && mended > 0)
    }

    /// Each column of each table, with values that no daemon writes. The tables lose what SQLite would check itself.
    @Test func eachColumnMayBeDamaged() throws {
        let values = [
            "1e300", "-9223372036854775808", "CAST(x'610062' AS TEXT)", "x'00FF'", "zeroblob(70000)", "'{'",
            "'{\"services\":[\"a\\u0000b\"],\"bluetoothCompanyIdentifier\":-1}'", "'[1,2]'",
        ]
        let names = try Database(path: ":memory:")
        try names.run(script: "PRAGMA foreign_keys = OFF;" + (try Self.script(newest)))
        var (tried, aside) = (0, 0)
        for table in ["accessory", "accessGrant", "bondIntent", "counter", "audit", "joinRecord", "setAside"] {
            let columns = try names.rows("SELECT name FROM pragma_table_info(?1)", .text(table)).map { "\($0.values[0])" }
            let made = "\(try names.value("SELECT sql FROM sqlite_schema WHERE name = ?1", .text(table)))"
            let loose = made.replacing("TABLE \(table)", with: "TABLE loose").replacing("STRICT", with: "")
                .replacing("NOT NULL", with: "")
            for column in columns {
                for value in values {
                    tried += 1
                    let damaged = try? Self.file(
                        newest,
                        """
                        INSERT INTO setAside (time, what, why, content) VALUES (1, 'a', 'b', 'c');
                        \(loose);
                        INSERT INTO loose SELECT * FROM \(table);
                        UPDATE loose SET \(column) = \(value) WHERE rowid = 1;
                        PRAGMA foreign_keys = OFF;
                        PRAGMA legacy_alter_table = ON;
                        DROP TABLE \(table);
                        ALTER TABLE loose RENAME TO \(table);
                        """)
                    // A key that must be a number.
                    guard let damaged else { continue }
                    try begin(with: damaged)
                    let store = try open()
                    _ = try store.load()
                    _ = try store.read()
                    if store.keptAside == nil { aside += 1 }
                    for entry in try store.page(of: AuditQuery(), from: Int64.min, atMost: 99).entries {
                        #expect(Numbers.given.contains(entry.id))
                    }
                }
            }
        }
        #expect(aside > tried / 2)
    }

    /// The same where SQLite's own rules hold: as an admin's slip with a shell would leave it.
    @Test func eachColumnMayBeChangedByHand() throws {
        let values = [
            "NULL", "-1", "9223372036854775807", "281474976710657", "''", "'nonsense'", "x'00FF'", "CAST(x'610062' AS TEXT)",
            "CAST(x'FFFE' AS TEXT)", "printf('%.*c', 70000, 'x')", "printf('%.*c', 20000000, 'x')", "zeroblob(70000)",
            "zeroblob(20000000)",
        ]
        let names = try Database(path: Database.inMemory)
        try names.run(script: "PRAGMA foreign_keys = OFF;" + (try Self.script(newest)))
        var taken = 0
        for table in ["accessory", "accessGrant", "bondIntent", "counter", "audit", "joinRecord", "sqlite_sequence"] {
            let columns = try names.rows("SELECT name FROM pragma_table_info(?1)", .text(table)).map { "\($0.values[0])" }
            for column in columns {
                for value in values + ["lower(\(column))"] {
                    let change = "UPDATE \(table) SET \(column) = \(value)"
                    guard let bytes = try? Self.file(newest, change) else { continue }
                    taken += 1
                    try begin(with: bytes)
                    let store = try open()
                    #expect(store.keptAside == nil, "\(change)")
                    let state = try store.load()
                    _ = try store.read()
                    for grant in state.grants {
                        #expect(Numbers.given.contains(grant.id) && Numbers.times.contains(grant.created), "\(change)")
                        #expect(state.accessories.contains { $0.id == grant.accessory }, "\(change)")
                    }
                    try checkThatItWorks(store)
                    try checkThatAllCanGo(store)
                }
            }
        }
        #expect(taken > 100)
    }

    /// As deep as JSON may go, and as wide.
    @Test(arguments: [
        "accessGrant SET descriptor", "accessGrant SET traits", "accessory SET traits", "bondIntent SET trace",
        "joinRecord SET content",
    ])
    func longJSONIsSetAside(column: String) throws {
        try begin(
            with: try Self.file(
                newest, "UPDATE \(column) = '{\"x\":[0' || replace(printf('%.*c', 4000000, '-'), '-', ',1') || ']}'"))
        let store = try open()
        #expect(store.keptAside == nil)
        let state = try store.load()
        #expect(state.accessories.isEmpty == column.hasPrefix("accessory") && state.grants.isEmpty == column.hasPrefix("acc"))
        #expect(try store.read() == nil || !column.hasPrefix("joinRecord"))
        try checkThatItWorks(store)
    }

    /// What the daemon needs of the tables is missing, or they are not those of their version.
    @Test(arguments: [
        "DROP TABLE audit", "DROP TABLE counter", "ALTER TABLE accessory RENAME COLUMN traits TO trait",
        "ALTER TABLE accessGrant DROP COLUMN lastUsed", "PRAGMA user_version = 3",
        "PRAGMA user_version = -3; DROP TABLE grdb_migrations",
        "ALTER TABLE joinRecord RENAME TO real; CREATE VIEW joinRecord AS SELECT * FROM real",
        "CREATE TABLE other (a REFERENCES accessory (id)); INSERT INTO other SELECT id FROM accessory",
        "DROP TABLE bondIntent; CREATE TABLE bondIntent (address TEXT NOT NULL, addressKind TEXT NOT NULL, "
            + "adapter TEXT NOT NULL, device TEXT, purpose TEXT NOT NULL, trace TEXT, "
            + "PRIMARY KEY (address, addressKind, adapter, purpose)) STRICT, WITHOUT ROWID",
        "DROP TABLE joinRecord; CREATE TABLE joinRecord (content TEXT NOT NULL CHECK (length(content) < 3)) STRICT",
        "DROP TABLE setAside; CREATE TABLE setAside (id INTEGER PRIMARY KEY NOT NULL, time INTEGER NOT NULL, "
            + "what TEXT NOT NULL UNIQUE, why TEXT NOT NULL, content TEXT NOT NULL)",
    ]) func aStoreWithOtherTablesIsKeptAside(change: String) throws {
        try begin(with: try Self.file(newest))
        let joined = try #require(try open().read())
        let bytes = try Self.file(newest, change)
        try begin(with: bytes)
        let store = try open()
        let aside = try #require(store.keptAside)
        #expect(try SystemFile.contents(aside) == bytes)
        // The way home does not end with the grants.
        #expect(try store.read() == (change.contains("joinRecord") ? nil : joined))
        try checkThatItWorks(store)
    }

    /// Somebody has put more into the file than we need, and nobody loses anything by it.
    @Test(arguments: [
        "ALTER TABLE accessory ADD COLUMN note TEXT", "ALTER TABLE accessGrant ADD COLUMN note TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE bondIntent ADD COLUMN note TEXT; ALTER TABLE joinRecord ADD COLUMN note TEXT",
        "ALTER TABLE counter ADD COLUMN note TEXT; ALTER TABLE audit ADD COLUMN note TEXT",
        "CREATE TABLE other (a TEXT); CREATE INDEX others ON other (a)", "CREATE UNIQUE INDEX odd ON accessGrant (id % 3)",
        "CREATE UNIQUE INDEX \"o\"\"dd\" ON bondIntent (device)", "CREATE INDEX odd ON accessory (displayName)",
        "CREATE UNIQUE INDEX odd ON audit (event)", "DROP INDEX auditByEvent",
    ]) func moreThanIsNeededDoesNoHarm(change: String) throws {
        try begin(with: try Self.file(newest))
        let before = try open().load()
        try begin(with: try Self.file(newest, change))
        let store = try open()
        #expect(store.keptAside == nil)
        let state = try store.load()
        #expect(state.accessories == before.accessories && state.grants == before.grants && state.intents == before.intents)
        try checkThatItWorks(store)
        try checkThatAllCanGo(store)
    }

    /// Somebody has put triggers into the file: what is revoked is, and what is switched off stays so.
    @Test func whatTheFileWantsToHaveDoneIsNotDone() throws {
        try begin(
            with: try Self.file(
                newest,
                """
                CREATE TRIGGER never BEFORE DELETE ON accessGrant BEGIN SELECT RAISE(IGNORE); END;
                CREATE TRIGGER gift AFTER INSERT ON audit BEGIN UPDATE accessGrant SET isEnabled = 1; END;
                """))
        let store = try open()
        let line = AuditEntry(time: 2, event: .revoked, app: nil, who: "test", why: "triggers")
        try store.commit(StoreChange([.revoke(1)], lines: [line]))
        #expect(try store.load().grants.map(\.id) == [3])
        #expect(try store.load().grants.map(\.isEnabled) == [false])
        try checkThatItWorks(store)
    }

    /// A daemon was killed while it put a damaged store aside: what SQLite would delete follows.
    @Test func aLogWithoutItsFileIsKeptAside() throws {
        let bytes = Array("the log of a store that was put aside".utf8)
        try SystemFile.write(bytes, to: path + "-wal")
        let store = try open()
        #expect(try SystemFile.contents(try #require(store.keptAside) + "-wal") == bytes)
        try checkThatItWorks(store)
    }

    /// A daemon was killed while it put a new store in the place of a damaged one: the next finds either, whole.
    @Test func aNewStoreThatWasBegunIsTakenOverWhenTheDamagedOneIsGone() throws {
        let record = JoinRecord(service: "iwd", owner: ":1.7", interface: "wlan0", network: "/net/1")
        let damaged = Array("no store at all".utf8)
        try SystemFile.write(damaged, to: path)
        try {
            let store = try open()
            try store.write(record)
            let lines = try store.page(of: AuditQuery(), from: 0, atMost: 10).entries
            #expect(lines.map(\.why) == ["the store was damaged and is kept aside: file is not a database"])
        }()
        let begun = path + ".begun"
        let whole = try SystemFile.contents(path)

        // Beside the damaged one it may not be whole.
        try SystemFile.write(damaged, to: path)
        try SystemFile.write(whole.prefix(whole.count / 2), to: begun)
        try {
            let store = try open()
            #expect(try SystemFile.contents(#require(store.keptAside)) == damaged)
            #expect(try store.read() == nil)
        }()
        #expect(!SystemFile.exists(begun))

        // The damaged one's log is still to be kept aside; then nothing is.
        for log in [damaged, nil] {
            try SystemFile.move(path, to: path + ".before")
            try SystemFile.write(whole, to: begun)
            if let log { try SystemFile.write(log, to: path + "-wal") }
            let store = try open()
            if let log { #expect(try SystemFile.contents(#require(store.keptAside) + "-wal") == log) }
            #expect(try store.read() == record)
            #expect(!SystemFile.exists(begun))
            try checkThatItWorks(store)
        }
    }

    /// Somebody's tool has given the store SQLite's other mode, and was killed while it wrote: what was there before
    /// is in a journal beside the file, and comes back.
    @Test func aRollbackJournalIsTakenForWhatItIs() throws {
        try begin(with: try Self.full())
        let before = try open().load()
        var files: [String: [UInt8]] = [:]
        do {
            let tool = try Database(path: path)
            try tool.run(
                script: "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN; UPDATE audit SET why = hex(zeroblob(2000))")
            for name in ["grants.sqlite", "grants.sqlite-journal"] {
                files[name] = try SystemFile.contents(directory.path + "/" + name)
            }
        }
        let journal = try #require(files["grants.sqlite-journal"])
        #expect(journal.count > 10_000)

        func put(_ store: [UInt8]?, _ journal: [UInt8]) throws {
            try begin(with: journal)
            try SystemFile.move(path, to: path + "-journal")
            if let store { try SystemFile.write(store, to: path) }
        }
        for journal in [journal, Array("no journal at all".utf8)] {
            try put(journal.count > 10_000 ? files["grants.sqlite"]! : try Self.full(), journal)
            let store = try open()
            #expect(store.keptAside == nil)
            let state = try store.load()
            #expect(state.accessories == before.accessories && state.grants == before.grants && state.intents == before.intents)
            #expect(!SystemFile.exists(path + "-journal"))
            try checkThatItWorks(store)
        }

        // Kept with the store that is damaged, or is not there: it is no journal of the new one's.
        for file in [Array("no store at all".utf8), nil] {
            try put(file, journal)
            let store = try open()
            let aside = try #require(store.keptAside)
            #expect(try SystemFile.contents(aside + "-journal") == journal)
            try checkThatItWorks(store)
        }
    }

    /// Indexes are made anew; nobody loses anything.
    @Test func aDamagedIndexIsMadeAnew() throws {
        let whole = try Self.full()
        try begin(with: whole)
        let sound = try open().load()
        var mended = 0
        // The text of one key in an index: the page is sound for `quick_check`, and the index wrong.
        for key in ["C0:FF:EE:00:01:33", "com.example.dice6F9619FF"] {
            var from = whole.startIndex
            while let place = whole[from...].firstRange(of: Array(key.utf8))?.lowerBound {
                from = place + 1
                var bytes = whole
                bytes[place] = UInt8(ascii: "Z")
                try begin(with: bytes)
                let store = try open()
                let state = try store.load()
                guard store.keptAside == nil, state.accessories.count == sound.accessories.count else { continue }
                if state.grants == sound.grants, state.accessories == sound.accessories { mended += 1 }
                try checkThatItWorks(store)
            }
        }
        #expect(mended > 10)
    }
}

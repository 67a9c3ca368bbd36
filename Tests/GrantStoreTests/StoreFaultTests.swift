// SPDX-License-Identifier: Apache-2.0
// Stores as the world may hand them over: of another version, damaged in each page, in each column and in the schema. A
// store always opens, or is refused with a reason. It loads or sets aside each row; and from then on it works.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Foundation
@testable import GrantStore
import Logging
import SystemFiles
import TestSupport
import Testing

@Suite struct StoreFaultTests {
    private let directory: TemporaryDirectory
    private let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private var path: String { directory.path + "/grants.sqlite" }

    init() throws {
        directory = try TemporaryDirectory(inMemory: true)
    }

    private func open() throws -> GrantStore { try GrantStore(directory: directory.path, log: log) }

    private static let rows = #filePath.replacing("StoreFaultTests.swift", with: "Stores/rows.sql")

    /// A store with rows of all kinds, changed by a script.
    private static func file(_ change: String = "") throws -> [UInt8] {
        let directory = try TemporaryDirectory(inMemory: true)
        let path = directory.path + "/grants.sqlite"
        try SystemFile.write(Schema.emptyStore().serialized(), to: path)
        do {
            let database = try Database(path: path)
            try database.foldLogOnClose()
            try database.run(script: "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = OFF")
            try database.run(script: try String(contentsOfFile: rows, encoding: .utf8))
            try database.run(script: change)
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
            let words = "the store was unreadable and was set aside: "
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

    /// Everything in the store can be changed and removed, and is gone then.
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

    @Test func theStoreIsReadAsWritten() throws {
        try begin(with: try Self.file())
        let store = try open()
        #expect(store.keptAside == nil)
        // `user_version` in SQLite's header, while the store is in use: the package's preinst reads it there.
        #expect(try SystemFile.contents(path)[60..<64] == [0, 0, 0, UInt8(Schema.version)])
        let state = try store.load()
        #expect(state.accessories.map(\.displayName).sorted() == ["Camera", "Würfel 🎲"])
        #expect(state.grants.map(\.id) == [1, 3] && state.grants.map(\.isEnabled) == [true, false])
        let die = try #require(state.accessories.first { $0.address != nil })
        let terms = state.grants.map(\.terms)
        #expect(terms[0].descriptor.serviceUUID == BluetoothUUID("180F") && !die.ownsBond)
        #expect(terms[1].ssid == SSID("Cam") && terms[1].awareDevice == 4)
        #expect(terms[0].classicAddress != nil && terms[0].ownsClassicBond)
        #expect(try store.page(of: AuditQuery(), from: 0, atMost: 9).entries.map(\.why) == ["picked"])
        #expect(try store.read()?.network == "Cam")
        #expect(try store.nextGrantID() == 4)
        #expect(try store.nextAwareDevice() == 5)
        #expect(state.intents.map(\.adapter) == [BluetoothAddress("00:1A:7D:DA:71:13", kind: .public)])
        try checkThatItWorks(store)
    }

    /// There is one schema. Earlier ones were never released.
    @Test(arguments: ["8", "0", "-3"]) func aStoreOfAnotherVersionIsKeptAside(version: String) throws {
        let bytes = try Self.file("PRAGMA user_version = \(version)")
        try begin(with: bytes)
        let store = try open()
        #expect(try SystemFile.contents(try #require(store.keptAside)) == bytes)
        // The way home is not lost with the grants.
        #expect(try store.read()?.network == "Cam")
        let lines = try store.page(of: AuditQuery(), from: 0, atMost: 10).entries
        #expect(
            lines.map(\.why) == [
                "the store was unreadable and was set aside: its version is \(version), and this daemon reads only \(Schema.version)"
            ])
        try checkThatItWorks(store)
    }

    /// Also with a log beside it, and in SQLite's other mode.
    @Test(arguments: ["WAL", "DELETE"]) func aNewerStoreIsLeftByteForByte(journal: String) throws {
        try begin(with: try Self.file())
        do {
            let database = try Database(path: path)
            try database.run(script: "PRAGMA journal_mode = \(journal); PRAGMA foreign_keys = OFF")
            try database.run(
                script: "ALTER TABLE accessory ADD COLUMN future TEXT; PRAGMA user_version = \(Schema.version + 1)")
        }
        let names = try SystemFile.names(in: directory.path).filter { !$0.hasSuffix("-shm") }
        #expect(names == (journal == "WAL" ? ["grants.sqlite", "grants.sqlite-wal"] : ["grants.sqlite"]))
        let before = try names.map { try SystemFile.contents(directory.path + "/" + $0) }
        #expect { try open() } throws: { if case .newer = $0 as? GrantStoreError { true } else { false } }
        #expect(try SystemFile.names(in: directory.path).filter { !$0.hasSuffix("-shm") } == names)
        #expect(try names.map { try SystemFile.contents(directory.path + "/" + $0) } == before)
    }

    // MARK: Damage

    /// A store with several pages of each kind.
    private static func full() throws -> [UInt8] {
        let lines = (0..<300).map {
            "INSERT INTO audit (time, event, app, who, why) VALUES (\($0), 'used', 'com.example.dice', 'uid 0', 'read \($0)');"
        }
        let accessories = (10..<60).map { number in
            """
            INSERT INTO accessory VALUES
                ('6F9619FF-8B86-D011-B42D-00C04FC964\(number)', 'Die \(number)', 'C0:FF:EE:00:01:\(number)', 'random', NULL, 1, 1,
                 '{}', NULL, 1);
            INSERT INTO accessGrant VALUES
                (\(number), 'com.example.dice', '6F9619FF-8B86-D011-B42D-00C04FC964\(number)', 'authorized', 1, 1, NULL, '{}', 1, '{}',
                 NULL, NULL, NULL, 0, '{}', NULL, NULL);
            """
        }
        return try file((lines + accessories).joined() + "UPDATE counter SET value = 60 WHERE name = 'grant';")
    }

    /// Each page, damaged in several ways.
    @Test func eachPageMayBeDamaged() throws {
        let whole = try Self.full()
        try begin(with: whole)
        let sound = try open().load()
        let pages = whole.count / 4096
        #expect(pages > 20)
        var kept = 0
        for page in 0..<pages {
            for kind in 0..<4 {
                var bytes = whole
                var random = SeededNumbers(UInt64(page * 4 + kind))
                let range = page * 4096..<page * 4096 + 4096
                switch kind {
                case 0: bytes.replaceSubrange(range, with: [UInt8](repeating: 0, count: 4096))
                case 1: for place in range { bytes[place] = UInt8(truncatingIfNeeded: random.next()) }
                // Some bits, where cells and their pointers are.
                case 2: for _ in 0..<8 { bytes[range.lowerBound + Int(random.next() % 4096)] ^= 1 << UInt8(random.next() % 8) }
                default: bytes.removeLast(bytes.count - range.lowerBound)
                }
                try begin(with: bytes)
                let store: GrantStore
                do {
                    store = try open()
                } catch let error as GrantStoreError {
                    // A flipped bit of the version is indistinguishable from a newer one.
                    guard case .newer = error, page == 0 else { throw error }
                    #expect(try SystemFile.contents(path) == bytes)
                    continue
                }
                if let aside = store.keptAside {
                    kept += 1
                    #expect(try SystemFile.contents(aside) == bytes)
                    #expect(try store.load().accessories.isEmpty)
                } else {
                    let state = try store.load()
                    // Flipped bits may spell another name, and never one accessory or grant more.
                    #expect(Set(state.grants.map(\.id)).isSubset(of: sound.grants.map(\.id)) || kind == 2)
                    #expect(state.accessories.count <= sound.accessories.count && state.grants.count <= sound.grants.count)
                }
                try checkThatItWorks(store)
            }
        }
        #expect(kept > pages)
    }

    /// Each column of each table, changed as an admin's slip with a shell would leave it.
    @Test func eachColumnMayBeChangedByHand() throws {
        let values = [
            "NULL", "-1", "9223372036854775807", "281474976710657", "''", "'nonsense'", "x'00FF'", "CAST(x'610062' AS TEXT)",
            "CAST(x'FFFE' AS TEXT)", "printf('%.*c', 70000, 'x')", "zeroblob(70000)", "'{'", "'[1,2]'", "'{\"services\":1}'",
        ]
        let names = try Schema.emptyStore()
        var taken = 0
        for table in ["accessory", "accessGrant", "bondIntent", "counter", "audit", "joinRecord", "elapsedClock"] {
            let columns = try names.rows("SELECT name FROM pragma_table_info(?1)", .text(table)).map { "\($0.values[0])" }
            for column in columns {
                for value in values + ["lower(\(column))"] {
                    let change = "UPDATE \(table) SET \(column) = \(value)"
                    guard let bytes = try? Self.file(change) else { continue }
                    taken += 1
                    try begin(with: bytes)
                    let store = try open()
                    #expect(store.keptAside == nil, "\(change)")
                    let state = try store.load()
                    _ = try store.read()
                    for grant in state.grants {
                        #expect(Rows.identifiers.contains(grant.id) && Rows.times.contains(grant.created), "\(change)")
                        #expect(state.accessories.contains { $0.id == grant.accessory }, "\(change)")
                    }
                    for entry in try store.page(of: AuditQuery(), from: Int64.min, atMost: 99).entries {
                        #expect(Rows.identifiers.contains(entry.id) && entry.why.utf8.count < 20_000, "\(change)")
                    }
                    try checkThatItWorks(store)
                    try checkThatAllCanGo(store)
                }
            }
        }
        #expect(taken > 100)
    }

    @Test(arguments: [
        "accessGrant SET descriptor", "accessGrant SET traits", "accessory SET traits", "bondIntent SET trace",
        "joinRecord SET content",
    ])
    func longJSONIsSetAside(column: String) throws {
        try begin(
            with: try Self.file("UPDATE \(column) = '{\"x\":[0' || replace(printf('%.*c', 4000000, '-'), '-', ',1') || ']}'"))
        let store = try open()
        #expect(store.keptAside == nil)
        let state = try store.load()
        #expect(state.accessories.isEmpty == column.hasPrefix("accessory") && state.grants.isEmpty == column.hasPrefix("acc"))
        #expect(try store.read() == nil || !column.hasPrefix("joinRecord"))
        try checkThatItWorks(store)
    }

    @Test(arguments: [
        "DROP TABLE audit", "DROP TABLE counter", "ALTER TABLE accessory RENAME COLUMN traits TO trait",
        "ALTER TABLE accessGrant DROP COLUMN lastUsed", "ALTER TABLE accessory ADD COLUMN note TEXT",
        "ALTER TABLE joinRecord RENAME TO real; CREATE VIEW joinRecord AS SELECT * FROM real",
        "DROP TABLE joinRecord; CREATE TABLE joinRecord (content TEXT NOT NULL CHECK (length(content) < 3)) STRICT",
        "CREATE UNIQUE INDEX odd ON accessGrant (id % 3)", "DROP INDEX auditByEvent",
    ]) func aStoreWithOtherTablesIsKeptAside(change: String) throws {
        let bytes = try Self.file(change)
        try begin(with: bytes)
        let store = try open()
        #expect(try SystemFile.contents(try #require(store.keptAside)) == bytes)
        #expect((try store.read() == nil) == change.contains("joinRecord"))
        try checkThatItWorks(store)
    }

    /// Neither tables of other programs nor triggers and views have an effect: a revoked grant is gone, and a disabled
    /// one stays so.
    @Test func whatElseIsInTheFileHasNoEffect() throws {
        try begin(
            with: try Self.file(
                """
                CREATE TRIGGER never BEFORE DELETE ON accessGrant BEGIN SELECT RAISE(IGNORE); END;
                CREATE TRIGGER gift AFTER INSERT ON audit BEGIN UPDATE accessGrant SET isEnabled = 1; END;
                CREATE TABLE other (a TEXT); CREATE INDEX others ON other (a); CREATE VIEW grants AS SELECT * FROM accessGrant;
                """))
        let store = try open()
        #expect(store.keptAside == nil)
        let line = AuditEntry(time: 2, event: .revoked, app: nil, who: "test", why: "triggers")
        try store.commit(StoreChange([.revoke(1)], lines: [line]))
        #expect(try store.load().grants.map(\.id) == [3])
        #expect(try store.load().grants.map(\.isEnabled) == [false])
        try checkThatItWorks(store)
    }

    /// SQLite would delete the log, or apply it to the new store.
    @Test(arguments: ["-wal", "-journal"]) func aLogWithoutItsStoreIsKeptAside(suffix: String) throws {
        let bytes = Array("the log of a store that is gone".utf8)
        try SystemFile.write(bytes, to: path + suffix)
        let store = try open()
        #expect(try SystemFile.contents(try #require(store.keptAside) + suffix) == bytes)
        try checkThatItWorks(store)
    }

    /// A daemon that was killed while it put a new store in the place of a damaged one left either, whole.
    @Test func aPendingStoreTakesItsPlaceWhenTheDamagedOneIsGone() throws {
        let record = JoinRecord(service: "iwd", owner: ":1.7", interface: "wlan0", network: "/net/1")
        let damaged = Array("no store at all".utf8)
        let pending = path + ".pending"
        try SystemFile.write(damaged, to: path)
        do {
            let store = try open()
            try store.write(record)
            let lines = try store.page(of: AuditQuery(), from: 0, atMost: 10).entries
            #expect(lines.map(\.why) == ["the store was unreadable and was set aside: file is not a database"])
        }
        let whole = try SystemFile.contents(path)

        try SystemFile.write(damaged, to: path)
        try SystemFile.write(whole, to: pending)
        try SystemFile.write(whole.prefix(100), to: pending + ".new")
        do {
            let store = try open()
            #expect(try SystemFile.contents(#require(store.keptAside)) == damaged)
            #expect(try store.read() == nil)
        }

        try SystemFile.move(path, to: path + ".before")
        try SystemFile.write(whole, to: pending)
        do {
            let store = try open()
            #expect(try store.keptAside == nil && store.read() == record)
            try store.write(nil)
        }

        // Beside a sound store it is obsolete.
        try SystemFile.write(whole, to: pending)
        #expect(try open().read() == nil)
        #expect(!SystemFile.exists(pending) && !SystemFile.exists(pending + ".new"))
    }

    /// The store may be on a disk that is not mounted yet; nothing else may take its place.
    @Test func aLinkThatLeadsNowhereIsRefused() throws {
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: directory.path + "/elsewhere")
        #expect { try open() } throws: { "\($0)".contains("is not a regular file") }
        #expect(try SystemFile.names(in: directory.path) == ["grants.sqlite"])
    }
}

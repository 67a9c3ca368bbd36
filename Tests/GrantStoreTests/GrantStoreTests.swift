// SPDX-License-Identifier: Apache-2.0
// The store on a real disk: everything written is read again, and a damaged file is kept aside.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Foundation
@testable import GrantStore
import Logging
import TestSupport
import Testing

@Suite struct GrantStoreTests {
    private let directory: TemporaryDirectory
    private let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    init() throws {
        directory = try TemporaryDirectory()
    }

    private func open() throws -> GrantStore { try GrantStore(directory: directory.path + "/state", log: log) }

    private func terms() throws -> Grant.Terms {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = BluetoothUUID("180F")
        descriptor.companyIdentifier = CompanyIdentifier(0xFFFF)
        descriptor.manufacturerData = try MaskedData(blob: [1, 0], mask: [0xFF, 0])
        descriptor.name.substring = "Dice"
        descriptor.name.options = [.caseInsensitive]
        descriptor.range = .immediate
        descriptor.supportedOptions = .pairingLE
        descriptor.access = .hear
        descriptor.maxDevices = 20
        var terms = Grant.Terms(
            descriptor, hasBluetooth: true,
            traits: Accessory.Traits(services: [BluetoothUUID("FFF0")!], companies: []),
            ssid: SSID([0x44, 0x00, 0xFF])!, awareDevice: 3,
            classicAddress: BluetoothAddress("00:11:22:33:44:55", kind: .public), ownsClassicBond: true)
        terms.excluded = [0xC0FF_EE00_0009]
        return terms
    }

    @Test(arguments: [
        DiscoveryDescriptor.Access.full, .read, .hear,
        .use(.listed(CharacteristicList([CharacteristicAccess("180F/2A19#2:read+listen")!]))),
    ])
    func everyAccessIsThereAgain(_ access: DiscoveryDescriptor.Access) throws {
        let accessory = try accessory()
        var terms = try terms()
        terms.descriptor.access = access
        let store = try open()
        let grant = Grant(
            id: try store.nextGrantID(), app: AppID("com.example.dice")!, accessory: accessory.id, state: .authorized, terms: terms,
            created: 1)
        try store.commit(StoreChange([.put(accessory), .grant(grant)]))
        #expect(try store.load().grants.map(\.terms.descriptor.access) == [access])
    }

    private func accessory() throws -> Accessory {
        Accessory(
            id: .random(), displayName: "Würfel 🎲", address: BluetoothAddress("C0:FF:EE:00:00:01", kind: .random),
            adapter: BluetoothAddress("00:1A:7D:DA:71:13", kind: .public), isBonded: true,
            image: ProductImage([0xFF, 0xD8, 0xFF, 0xE0]), created: 1_700_000_000)
    }

    @Test func everythingIsThereAgain() throws {
        let accessory = try accessory()
        let intent = BondIntent(
            BluetoothPeer(
                BluetoothAddress("C0:FF:EE:00:00:02", kind: .random)!,
                adapter: BluetoothAddress("00:1A:7D:DA:71:13", kind: .public)), device: RadioDeviceID("/org/bluez/hci0/dev_x"),
            purpose: .pairing)
        var grant: Grant?
        do {
            let store = try open()
            var new = Grant(
                id: try store.nextGrantID(), app: AppID("com.example.dice")!, accessory: accessory.id, state: .authorized,
                terms: try terms(), user: .max, created: 7)
            new.isObserved = true
            grant = new
            try store.persist(intent)
            try store.commit(StoreChange([.put(accessory), .grant(new)]))
        }
        let state = try open().load()
        #expect(state.accessories == [accessory])
        #expect(state.grants == [try #require(grant)])
        #expect(state.intents == [intent])
        let mode = try FileManager.default.attributesOfItem(atPath: directory.path + "/state")[.posixPermissions] as? Int
        #expect(mode == 0o700)
    }

    @Test func aCommitIsWholeOrNothing() throws {
        let store = try open()
        let accessory = try accessory()
        let orphan = Grant(
            id: 1, app: AppID("a")!, accessory: .random(), state: .authorized, terms: Grant.Terms(DiscoveryDescriptor()), created: 0
        )
        // The second step breaks a foreign key: the first must not survive it.
        #expect(throws: (any Error).self) { try store.commit(StoreChange([.put(accessory), .grant(orphan)])) }
        #expect(try store.load().accessories.isEmpty)
    }

    @Test func aGrantAndItsIntentChangeTogether() throws {
        let store = try open()
        let accessory = try accessory()
        let intent = BondIntent(BluetoothPeer(accessory.address!, adapter: nil), device: nil, purpose: .pairing)
        try store.persist(intent)
        let broken = Grant(
            id: 1, app: AppID("a")!, accessory: .random(), state: .authorized, terms: Grant.Terms(DiscoveryDescriptor()), created: 0
        )
        #expect(throws: (any Error).self) { try store.commit(StoreChange([.grant(broken)], finishing: [intent])) }
        #expect(try store.load().intents == [intent])
        try store.commit(StoreChange([.put(accessory)], finishing: [intent]))
        #expect(try store.load().intents.isEmpty)
    }

    @Test func aClaimIsMadeOnceAndWithItsGrant() throws {
        let accessory = try accessory()
        let app = AppID("com.example.dice")!
        let claim = Claim(.init(list: "spring", entry: "SN-1"), app: app, accessory: accessory.id, isAuthenticated: true, time: 8)
        let grant = Grant(
            id: 1, app: app, accessory: accessory.id, state: .authorized, terms: Grant.Terms(DiscoveryDescriptor()), created: 0)
        do {
            let store = try open()
            try store.commit(StoreChange([.put(accessory), .grant(grant)], claim: claim))
            #expect(try store.load().claims == [claim])
            // The same entry again: neither the claim nor its grant is written.
            let another = Accessory(
                id: .random(), displayName: accessory.displayName, address: nil, adapter: nil, isBonded: false, image: nil,
                created: 9)
            #expect(throws: (any Error).self) { try store.commit(StoreChange([.put(another)], claim: claim)) }
            #expect(try store.load().accessories == [accessory])
            try store.commit(StoreChange([.revoke(1), .delete(accessory.id)]))
        }
        #expect(try open().load().claims == [claim])
    }

    @Test func grantNumbersAreNeverUsedTwice() throws {
        let accessory = try accessory()
        let first = try open().nextGrantID()
        let store = try open()
        let second = try store.nextGrantID()
        try store.commit(
            StoreChange(
                [
                    .put(accessory),
                    .grant(
                        Grant(
                            id: second, app: AppID("a")!, accessory: accessory.id, state: .authorized,
                            terms: Grant.Terms(DiscoveryDescriptor()), created: 0)),
                ]))
        try store.commit(StoreChange([.revoke(second), .delete(accessory.id)]))
        #expect(first < second)
        #expect(try store.nextGrantID() > second)
    }

    @Test func theTrailIsBoundedAndRefusalsHaveTheirOwnShare() throws {
        let store = try open()
        let entry = { (number: Int, event: AuditEntry.Event) in
            AuditEntry(time: Int64(number), event: event, app: AppID("a.b"), who: "uid 1000", why: "\(number)")
        }
        let first = try store.append([entry(0, .granted)])
        let refused = try store.append((1...GrantStore.refusalsKept + 50).map { entry($0, .refused) })
        var query = AuditQuery()
        query.limit = 100_000
        #expect(try store.lines(query).count == GrantStore.refusalsKept + 1)
        #expect(try store.lines(query).first?.event == .granted)
        // Each line has the number that it was given.
        #expect(refused.count == GrantStore.refusalsKept + 50)
        #expect(try store.lines(query).map(\.id) == first + refused.suffix(GrantStore.refusalsKept))
        // One app's actions have a bound of their own, and push no change of access out.
        _ = try store.append((1...GrantStore.actionsKept + 50).map { entry($0, .pickerShown) })
        #expect(try store.lines(query).count == 1 + GrantStore.refusalsKept + GrantStore.actionsKeptPerApp)
        _ = try store.append(
            (1...GrantStore.actionsKept + 50).map {
                AuditEntry(time: Int64($0), event: .used, app: AppID("a.b\($0 % 20)"), who: "uid 1000", why: "\($0)")
            })
        #expect(try store.lines(query).count == 1 + GrantStore.refusalsKept + GrantStore.actionsKept)
        #expect(try store.lines(query).first?.event == .granted)
        query.limit = 3
        #expect(try store.lines(query).map(\.time) == [10_048, 10_049, 10_050])
        query.since = 10_050
        #expect(try store.lines(query).map(\.why) == ["10050"])
        query.app = AppID("c.d")
        #expect(try store.lines(query).isEmpty)
    }

    @Test func theTrailIsReadForwardFromANumber() throws {
        let store = try open()
        let numbers = try store.append(
            (1...30).map { number in
                AuditEntry(
                    time: Int64(number), event: .granted, app: AppID(number % 2 == 0 ? "a.b" : "c.d"), who: "uid 0",
                    why: "\(number)")
            })
        var query = AuditQuery()
        query.limit = 10
        #expect(try store.lines(query).map(\.id) == Array(numbers[20...]))
        // From a number on, the oldest lines come first, and each next page begins after the last one.
        var read: [Int64] = []
        query.from = 0
        while case let page = try store.lines(query).map(\.id), let last = page.last {
            #expect(page.count == 10)
            read += page
            query.from = last + 1
        }
        #expect(read == numbers)
        #expect(try store.append([AuditEntry(time: 31, event: .granted, who: "uid 0", why: "31")]) == [query.from])
        #expect(try store.lines(query).map(\.why) == ["31"])
        query.from = numbers[9]
        query.app = AppID("a.b")
        #expect(try store.lines(query).map(\.time) == [10, 12, 14, 16, 18, 20, 22, 24, 26, 28])
        query.since = 25
        #expect(try store.lines(query).map(\.time) == [26, 28, 30])
        query.from = .max
        #expect(try store.lines(query).isEmpty)
    }

    @Test(arguments: ["not a database at all", ""])
    func aDamagedFileIsKeptAside(text: String) throws {
        try directory.write("state/grants.sqlite", String(repeating: text, count: 400))
        let store = try open()
        #expect(try store.load().accessories.isEmpty)
        // An empty file is an empty database for SQLite; a store is never empty.
        let kept = try #require(store.keptAside)
        #expect(try String(contentsOfFile: kept, encoding: .utf8) == String(repeating: text, count: 400))
    }

    @Test func damagedPagesAreNoticed() throws {
        do {
            let store = try open()
            for number in 0..<200 {
                var accessory = try accessory()
                accessory.address = BluetoothAddress(value: UInt64(number), kind: .public)
                try store.commit(StoreChange([.put(accessory)]))
            }
        }
        let path = directory.path + "/state/grants.sqlite"
        try overwrite(path, at: 8192, with: Data(repeating: 0xA5, count: 16384))
        let damaged = try Data(contentsOf: URL(fileURLWithPath: path))
        let store = try open()
        let aside = try #require(store.keptAside)
        #expect(try Data(contentsOf: URL(fileURLWithPath: aside)) == damaged)
        #expect(try store.load().accessories.isEmpty)
    }

    private func overwrite(_ path: String, at offset: UInt64, with bytes: Data) throws {
        let handle = try #require(FileHandle(forUpdatingAtPath: path))
        try handle.seek(toOffset: offset)
        try handle.write(contentsOf: bytes)
        try handle.close()
    }

    /// The file is kept byte for byte, also with a log beside it.
    @Test(arguments: [false, true]) func aDamagedFileIsNotWrittenTo(hasLog: Bool) throws {
        let source = directory.path + "/state/grants.sqlite"
        do {
            let store = try open()
            for number in 0..<40 {
                var accessory = try accessory()
                accessory.address = BluetoothAddress(value: UInt64(number), kind: .public)
                let app = try #require(AppID("a.b"))
                try store.commit(
                    StoreChange(
                        [
                            .put(accessory),
                            .grant(
                                Grant(
                                    id: Int64(number), app: app, accessory: accessory.id, state: .authorized,
                                    terms: Grant.Terms(DiscoveryDescriptor()), created: 0)),
                        ]))
            }
            try store.persist(
                BondIntent(
                    BluetoothPeer(BluetoothAddress(value: 1, kind: .public), adapter: nil), device: nil, purpose: .pairing))
            try FileManager.default.createDirectory(atPath: directory.path + "/copy", withIntermediateDirectories: true)
            for suffix in hasLog ? ["", "-wal"] : [""] {
                try FileManager.default.copyItem(atPath: source + suffix, toPath: directory.path + "/copy/grants.sqlite" + suffix)
            }
        }
        let path = directory.path + "/copy/grants.sqlite"
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        var setAside = 0
        for page in stride(from: 0, to: whole.count, by: 4096) {
            let state = directory.path + "/state-\(page)"
            try FileManager.default.copyItem(atPath: directory.path + "/copy", toPath: state)
            try overwrite(state + "/grants.sqlite", at: UInt64(page), with: Data(repeating: 0xA5, count: 512))
            let damaged = try Data(contentsOf: URL(fileURLWithPath: state + "/grants.sqlite"))
            guard let aside = try GrantStore(directory: state, log: log).keptAside else { continue }
            setAside += 1
            #expect(try Data(contentsOf: URL(fileURLWithPath: aside)) == damaged, "page \(page / 4096)")
            // SQLite makes an empty log when it opens a file without one.
            let log = try? Data(contentsOf: URL(fileURLWithPath: aside + "-wal"))
            #expect(
                try log ?? Data()
                    == (hasLog ? Data(contentsOf: URL(fileURLWithPath: state + "/../copy/grants.sqlite-wal")) : Data()))
        }
        #expect(setAside > 3)
    }

    @Test func onlyTheDamagedRowIsSetAside() throws {
        let path = directory.path + "/state/grants.sqlite"
        let good = try accessory()
        var bad = try accessory()
        bad.address = BluetoothAddress(value: 9, kind: .public)
        do {
            let store = try open()
            for (number, accessory) in [good, bad].enumerated() {
                try store.commit(
                    StoreChange(
                        [
                            .put(accessory),
                            .grant(
                                Grant(
                                    id: Int64(number + 1), app: try #require(AppID("a.b")), accessory: accessory.id,
                                    state: .authorized,
                                    terms: Grant.Terms(DiscoveryDescriptor()), created: 0)),
                        ]))
            }
        }
        let database = try Database(path: path)
        try database.execute("UPDATE accessory SET address = 'nonsense' WHERE id = ?", .text(bad.id.rawValue))
        try database.execute("INSERT INTO bondIntent VALUES ('11:22:33:44:55:66', 'public', '', NULL, 'pairinh', NULL)")
        let state = try open().load()
        #expect(state.accessories.map(\.id) == [good.id] && state.grants.map(\.id) == [1] && state.intents.isEmpty)
        let kept = try database.rows("SELECT what FROM setAside ORDER BY what").map { $0.values[0] }
        #expect(kept == [.text("accessGrant"), .text("accessory"), .text("bondIntent")])
        // The place is free again.
        bad.displayName = "again"
        try open().commit(StoreChange([.put(bad)]))
    }

    @Test func aGrantIsInTheFileItself() throws {
        let path = directory.path + "/state/grants.sqlite"
        let store = try open()
        let accessory = try accessory()
        let app = try #require(AppID("a.b"))
        try store.commit(
            StoreChange(
                [
                    .put(accessory),
                    .grant(
                        Grant(
                            id: 1, app: app, accessory: accessory.id, state: .authorized, terms: Grant.Terms(DiscoveryDescriptor()),
                            created: 0)),
                ]))
        // Without the log.
        let copy = directory.path + "/alone.sqlite"
        try FileManager.default.copyItem(atPath: path, toPath: copy)
        #expect(try Database(path: copy).integer("SELECT COUNT(*) FROM accessGrant") == 1)
    }

    @Test func aDirectoryThatCannotBeMadeIsAnError() throws {
        try directory.write("file", "x")
        #expect { try GrantStore(directory: directory.path + "/file/state", log: log) } throws: { "\($0)".contains("/file/state") }
    }
}

extension GrantStore {
    /// All lines that a query asks for, read as the daemon reads them: in pages.
    fileprivate func lines(_ query: AuditQuery) throws -> [AuditEntry] {
        var pages = try AuditPages(of: self, query, of: 7)
        var lines: [AuditEntry] = []
        while let page = try pages.next() { lines += page }
        return lines
    }
}

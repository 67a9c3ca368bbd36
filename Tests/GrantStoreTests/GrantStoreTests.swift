// The store on a real disk: what is written is there again, damage is kept aside, and a newer file is left alone.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Foundation
import GRDB
import GrantStore
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

    private func accessory() throws -> Accessory {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = BluetoothUUID("180F")
        descriptor.companyIdentifier = CompanyIdentifier(0xFFFF)
        descriptor.manufacturerData = try MaskedData(blob: [1, 0], mask: [0xFF, 0])
        descriptor.nameSubstring = "Dice"
        descriptor.nameCompareOptions = [.caseInsensitive]
        descriptor.range = .immediate
        descriptor.supportedOptions = .pairingLE
        return Accessory(
            id: .random(), displayName: "Würfel 🎲", address: BluetoothAddress("C0:FF:EE:00:00:01", kind: .random), isBonded: true,
            descriptor: descriptor, image: ProductImage([0xFF, 0xD8, 0xFF, 0xE0]), ssid: SSID([0x44, 0x00, 0xFF])!,
            created: 1_700_000_000)
    }

    @Test func everythingIsThereAgain() throws {
        let accessory = try accessory()
        let intent = BondIntent(
            address: BluetoothAddress("C0:FF:EE:00:00:02", kind: .random)!, device: RadioDeviceID("/org/bluez/hci0/dev_x"),
            purpose: .pairing)
        var grant: Grant?
        do {
            let store = try open()
            let new = Grant(
                id: try store.nextGrantID(), app: AppID("com.example.dice")!, accessory: accessory.id, state: .authorized,
                created: 7)
            grant = new
            try store.note(intent)
            try store.commit([.put(accessory), .grant(new)], finishing: [])
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
        let orphan = Grant(id: 1, app: AppID("a")!, accessory: .random(), state: .authorized, created: 0)
        // The second step breaks a foreign key: the first must not survive it.
        #expect(throws: (any Error).self) { try store.commit([.put(accessory), .grant(orphan)], finishing: []) }
        #expect(try store.load().accessories.isEmpty)
    }

    @Test func aGrantAndItsIntentChangeTogether() throws {
        let store = try open()
        let accessory = try accessory()
        let intent = BondIntent(address: accessory.address!, device: nil, purpose: .pairing)
        try store.note(intent)
        let broken = Grant(id: 1, app: AppID("a")!, accessory: .random(), state: .authorized, created: 0)
        #expect(throws: (any Error).self) { try store.commit([.grant(broken)], finishing: [intent]) }
        #expect(try store.load().intents == [intent])
        try store.commit([.put(accessory)], finishing: [intent])
        #expect(try store.load().intents.isEmpty)
    }

    @Test func grantNumbersAreNeverUsedTwice() throws {
        let accessory = try accessory()
        let first = try open().nextGrantID()
        let store = try open()
        let second = try store.nextGrantID()
        try store.commit(
            [
                .put(accessory),
                .grant(Grant(id: second, app: AppID("a")!, accessory: accessory.id, state: .authorized, created: 0)),
            ], finishing: [])
        try store.commit([.revoke(second), .delete(accessory.id)], finishing: [])
        #expect(first < second)
        #expect(try store.nextGrantID() > second)
    }

    @Test func theTrailIsBoundedAndRefusalsHaveTheirOwnShare() throws {
        let store = try open()
        let entry = { (number: Int, event: AuditEntry.Event) in
            AuditEntry(time: Int64(number), event: event, app: AppID("a.b"), who: "somebody", why: "\(number)")
        }
        try store.append([entry(0, .granted)])
        try store.append((1...GrantStore.refusalsKept + 50).map { entry($0, .refused) })
        var query = AuditQuery()
        query.limit = 100_000
        #expect(try store.entries(query).count == GrantStore.refusalsKept + 1)
        #expect(try store.entries(query).first?.event == .granted)
        try store.append((1...GrantStore.actionsKept + 50).map { entry($0, .used) })
        #expect(try store.entries(query).count == GrantStore.refusalsKept + GrantStore.actionsKept)
        query.limit = 3
        #expect(try store.entries(query).map(\.time) == [10_048, 10_049, 10_050])
        query.since = 10_050
        #expect(try store.entries(query).map(\.why) == ["10050"])
        query.app = AppID("c.d")
        #expect(try store.entries(query).isEmpty)
    }

    @Test(arguments: ["not a database at all", ""])
    func aDamagedFileIsKeptAside(text: String) throws {
        try directory.write("state/grants.sqlite", String(repeating: text, count: 400))
        let store = try open()
        #expect(try store.load().accessories.isEmpty)
        // An empty file is an empty database for SQLite, not a damaged one.
        guard !text.isEmpty else { return #expect(store.keptAside == nil) }
        let kept = try #require(store.keptAside)
        #expect(try String(contentsOfFile: kept, encoding: .utf8) == String(repeating: text, count: 400))
    }

    @Test func damagedPagesAreNoticed() throws {
        do {
            let store = try open()
            for number in 0..<200 {
                var accessory = try accessory()
                accessory.address = BluetoothAddress(value: UInt64(number), kind: .public)
                try store.commit([.put(accessory)], finishing: [])
            }
        }
        let path = directory.path + "/state/grants.sqlite"
        let handle = try #require(FileHandle(forUpdatingAtPath: path))
        try handle.seek(toOffset: 8192)
        try handle.write(contentsOf: Data(repeating: 0xA5, count: 16384))
        try handle.close()
        let store = try open()
        #expect(store.keptAside != nil)
        #expect(try store.load().accessories.isEmpty)
    }

    @Test func aNewerFileIsRefusedAndLeftAlone() throws {
        do { _ = try open() }
        let path = directory.path + "/state/grants.sqlite"
        do {
            let queue = try DatabaseQueue(path: path)
            try queue.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('99 from the future')") }
        }
        #expect { try open() } throws: { "\($0)".contains("newer") }
        #expect(FileManager.default.fileExists(atPath: path))
    }

    @Test func aDirectoryThatCannotBeMadeIsAnError() throws {
        try directory.write("file", "x")
        #expect { try GrantStore(directory: directory.path + "/file/state", log: log) } throws: { "\($0)".contains("/file/state") }
    }
}

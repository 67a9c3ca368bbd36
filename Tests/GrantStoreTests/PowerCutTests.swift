// SPDX-License-Identifier: Apache-2.0
// The store after a power cut at each operation on the disk: every committed change is there, the current one is there
// as a whole or not at all, and the trail says exactly the same. Unsynced writes may have reached the disk completely,
// in part or not at all.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import CPowerCut
import CSQLite
import Foundation
@testable import GrantStore
import Logging
import TestSupport
import Testing

/// A disk, as operations leave it.
private struct Disk {
    /// The synced bytes of a file, and the unsynced writes since.
    private struct File {
        var bytes: [UInt8] = []
        var unsynced: [powercut_operation] = []
    }
    private var files: [String: File]

    /// - Parameter store: the bytes of a store that is whole and synced.
    init(_ store: [UInt8]) { files = ["grants.sqlite": File(bytes: store)] }

    enum Unsynced: CaseIterable { case lost, written, some }

    mutating func apply(_ operation: powercut_operation) {
        guard let name = operation.name.map({ String(cString: $0) }) else { return }
        switch powercut_kind(UInt32(operation.kind)) {
        case powercut_delete: files[name] = nil
        case powercut_sync:
            var file = files[name] ?? File()
            for write in file.unsynced { Self.put(write, into: &file.bytes, sectors: { _ in true }) }
            file.unsynced = []
            files[name] = file
        default: files[name, default: File()].unsynced.append(operation)
        }
    }

    /// The files after the power is back.
    func files(_ unsynced: Unsynced, _ random: inout SeededNumbers) -> [String: [UInt8]] {
        var found: [String: [UInt8]] = [:]
        for (name, file) in files.sorted(by: { $0.key < $1.key }) where !name.hasSuffix("-shm") {
            var bytes = file.bytes
            for write in file.unsynced {
                switch unsynced {
                case .lost: break
                case .written: Self.put(write, into: &bytes, sectors: { _ in true })
                case .some: Self.put(write, into: &bytes, sectors: { _ in random.next() % 2 == 0 })
                }
            }
            found[name] = bytes
        }
        return found
    }

    /// The disk writes sectors of 512 bytes, each whole or not at all.
    private static func put(_ write: powercut_operation, into bytes: inout [UInt8], sectors: (Int) -> Bool) {
        let offset = Int(write.offset)
        guard write.kind == Int32(powercut_write.rawValue) else {
            guard sectors(0) else { return }
            if bytes.count > offset { bytes.removeLast(bytes.count - offset) }
            return bytes.append(contentsOf: repeatElement(0, count: offset - bytes.count))
        }
        let end = offset + Int(write.length)
        for start in stride(from: offset / 512 * 512, to: end, by: 512) where sectors(start) {
            let range = max(start, offset)..<min(start + 512, end)
            if bytes.count < range.upperBound { bytes.append(contentsOf: repeatElement(0, count: range.upperBound - bytes.count)) }
            for place in range { bytes[place] = write.bytes[place - offset] }
        }
    }
}

/// Numbers that are the same for each run.
struct SeededNumbers: RandomNumberGenerator {
    private var state: UInt64
    init(_ seed: UInt64) { state = seed }
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}

// One directory is watched at a time.
@Suite(.serialized) struct PowerCutTests {
    private let directory: TemporaryDirectory
    private let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private let app = AppID("com.example.dice")!

    init() throws {
        directory = try TemporaryDirectory(inMemory: true)
    }

    private func open() throws -> GrantStore { try GrantStore(directory: directory.path, log: log) }

    /// The content of a store, as text that can be compared.
    private func content(of store: GrantStore) throws -> String {
        let state = try store.load()
        let pages = try store.page(of: AuditQuery(), from: 0, atMost: 1000).entries
        return [
            state.accessories.map { "\($0.id) \($0.displayName)" }.sorted().description,
            state.grants.sorted { $0.id < $1.id }.map { "\($0.id) \($0.accessory) \($0.isEnabled)" }.description,
            state.intents.map { "\($0.address) \($0.purpose)" }.sorted().description,
            pages.map { "\($0.event) \($0.why)" }.description, "\(try store.read()?.network ?? "-")",
        ].joined(separator: "\n")
    }

    /// One change after the other, as a daemon makes them.
    private func changes() -> [(GrantStore) throws -> Void] {
        var changes: [(GrantStore) throws -> Void] = []
        for number in 1...4 {
            let address = BluetoothAddress("C0:FF:EE:00:00:0\(number)", kind: .random)!
            let accessory = Accessory(
                id: .random(), displayName: "Würfel \(number)", address: address, isBonded: true,
                image: ProductImage([0xFF, 0xD8, 0xFF, 0xE0] + [UInt8](repeating: 1, count: 9000)),
                created: 1)
            let pairing = BondIntent(BluetoothPeer(address, adapter: nil), device: nil, purpose: .pairing)
            let grant = Grant(
                id: Int64(number), app: app, accessory: accessory.id, state: .authorized, terms: Grant.Terms(DiscoveryDescriptor()),
                created: 1)
            func line(_ event: AuditEntry.Event) -> AuditEntry {
                AuditEntry(time: 1, event: event, app: app, accessory: accessory.id, who: "test", why: "\(event) \(number)")
            }
            changes.append { try $0.persist(pairing) }
            changes.append {
                try $0.commit(
                    StoreChange([.put(accessory), .grant(grant)], finishing: [pairing], lines: [line(.paired), line(.granted)]))
            }
            changes.append { store in
                var grant = grant
                grant.isEnabled = false
                try store.commit(StoreChange([.grant(grant)], lines: [line(.disabled)]))
            }
            changes.append { store in
                try store.write(
                    JoinRecord(
                        service: "s", owner: "o", interface: "i", network: "network \(number)", joined: "j", previous: "p",
                        enabled: []))
            }
            changes.append { try $0.write(nil) }
            guard number % 2 == 0 else { continue }
            let removal = BondIntent(BluetoothPeer(address, adapter: nil), device: nil, purpose: .removal)
            changes.append {
                try $0.commit(
                    StoreChange([.revoke(grant.id), .delete(accessory.id)], adding: [removal], lines: [line(.revoked)]))
            }
            changes.append { try $0.delete(removal) }
        }
        return changes
    }

    @Test func committedChangesSurviveAPowerCut() throws {
        // A new store replaces nothing or a damaged one as a whole, by a rename (SystemFile.replace).
        do { _ = try open() }
        let empty = try Data(contentsOf: URL(fileURLWithPath: directory.path + "/grants.sqlite"))
        powercut_watch(directory.path)
        defer { powercut_watch(nil) }
        var contents: [String] = []
        do {
            let store = try open()
            contents.append(try content(of: store))
            powercut_note()
            for change in changes() {
                try change(store)
                powercut_note()
                contents.append(try content(of: store))
            }
        }
        let count = Int(powercut_count())
        let operations = (0..<count).map { powercut_get(Int32($0)) }
        #expect(operations.count { $0.kind == Int32(powercut_sync.rawValue) } > contents.count)

        // Operations elsewhere are not recorded.
        let restored = try TemporaryDirectory(inMemory: true)
        var random = SeededNumbers(7)
        var disk = Disk(Array(empty))
        var promised = 0
        var cuts = 0
        for operation in operations {
            disk.apply(operation)
            if operation.kind == Int32(powercut_mark.rawValue) { promised += 1 }
            for unsynced in Disk.Unsynced.allCases {
                cuts += 1
                let path = restored.path + "/\(cuts)"
                try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
                for (name, bytes) in disk.files(unsynced, &random) {
                    try Data(bytes).write(to: URL(fileURLWithPath: path + "/" + name))
                }
                let store = try GrantStore(directory: path, log: log)
                #expect(store.keptAside == nil)
                let found = try content(of: store)
                let allowed = contents[max(promised - 1, 0)...min(promised, contents.count - 1)]
                #expect(allowed.contains(found), "cut \(cuts), after \(promised - 1) changes, \(unsynced)")
                let names = Set(try FileManager.default.contentsOfDirectory(atPath: path))
                #expect(names.isSubset(of: ["grants.sqlite", "grants.sqlite-wal", "grants.sqlite-shm"]), "\(names)")
                try FileManager.default.removeItem(atPath: path)
            }
        }
        print("\(cuts) power cuts")
    }

    /// A change is refused as a whole on a full or failing disk, and accepted once there is room.
    @Test(arguments: [SQLITE_FULL, SQLITE_IOERR | 4 << 8, SQLITE_IOERR | 3 << 8, SQLITE_READONLY])
    func aFailingDiskChangesNothing(code: Int32) throws {
        powercut_watch(directory.path)
        defer { powercut_watch(nil) }
        let store = try open()
        for change in changes() {
            let before = try content(of: store)
            var operations: Int32 = 0
            while true {
                powercut_fail_after(operations, code)
                let isTaken = (try? change(store)) != nil
                powercut_fail_after(-1, SQLITE_OK)
                if isTaken { break }
                #expect(try content(of: store) == before, "after \(operations) operations")
                operations += 1
            }
            #expect(try content(of: store) != before)
        }
        let last = try content(of: store)
        #expect(try content(of: open()) == last)
    }
}

// SPDX-License-Identifier: Apache-2.0
// The store's file, damaged in every way: bytes, pages, cells, columns and counters of a real store change before it is
// opened. It opens, is kept aside byte for byte, or is refused and left alone. A store that opens loads the same twice,
// and never gives a number twice.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Glibc
import Logging
import SystemFiles

@testable import GrantStore

private let log = Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }
private let names = ["grants.sqlite", "grants.sqlite-wal"]

/// A store with rows of all kinds, as it lies on the disk while it is open: with a log beside it.
private let real: [[UInt8]] = {
    let directory = scratch + "/real"
    do {
        let store = try GrantStore(directory: directory, log: log)
        for number in 1...3 {
            try store.commit(
                StoreChange([
                    .put(try accessory(number)), .grant(try grant(try store.nextGrantID(), number, "com.example.dice")),
                ]))
        }
        let address = BluetoothAddress(value: 0xC0FF_EE00_0009, kind: .random)
        try store.persist(
            BondIntent(
                BluetoothPeer(address, adapter: nil), device: RadioDeviceID("/org/bluez/hci0/dev_9"), purpose: .pairing,
                trace: BondIntent.Trace(name: "Dice", olderBonds: ["/org/bluez/hci0/dev_1"])))
        try store.write(JoinRecord(service: "net.connman.iwd", owner: ":1.2", interface: "wlan0", network: "44", enabled: ["a"]))
        for _ in 1...3 { _ = try store.nextAwareDevice() }
        _ = try store.append([
            AuditEntry(time: 1, event: .granted, app: AppID("com.example.dice"), who: "uid 1000", why: "picked")
        ])
        return try names.map { try SystemFile.contents("\(directory)/\($0)") }
    } catch {
        found("no store: \(error)")
    }
}()

private func terms(_ number: Int) throws -> Grant.Terms {
    var descriptor = DiscoveryDescriptor()
    descriptor.serviceUUID = BluetoothUUID("180F")
    descriptor.manufacturerData = try MaskedData(blob: [1, 0], mask: [0xFF, 0])
    descriptor.wifiAware = WiFiAware()
    descriptor.wifiAware?.modelName = WiFiAware.Match(string: "a/b", options: [.anchored])
    return Grant.Terms(
        descriptor, traits: Accessory.Traits(descriptor), ssid: SSID("Dice"), awareDevice: UInt64(number),
        classicAddress: BluetoothAddress(value: 7, kind: .public))
}

private func accessory(_ number: Int) throws -> Accessory {
    Accessory(
        id: AccessoryID("12345678-1234-1234-1234-00000000000\(number % 10)")!, displayName: "Dice \(number)",
        address: BluetoothAddress(value: 0xC0FF_EE00_0000 + UInt64(number), kind: .random), isBonded: true,
        image: ProductImage([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]), created: 1_700_000_000)
}

private func grant(_ id: Int64, _ number: Int, _ app: String) throws -> Grant {
    Grant(id: id, app: AppID(app)!, accessory: try accessory(number).id, state: .authorized, terms: try terms(number), created: 1)
}

private let columns: [(table: String, column: String)] =
    [
        "id", "displayName", "address", "addressKind", "isBonded", "image", "created", "ownsBond", "traits",
    ].map { ("accessory", $0) }
    + [
        "id", "app", "accessory", "state", "isEnabled", "created", "lastUsed", "descriptor", "traits", "ssid",
        "awareDevice", "classicAddress", "ownsClassicBond", "hasBluetooth", "user",
    ].map { ("accessGrant", $0) }
    + ["address", "addressKind", "device", "purpose", "trace"].map { ("bondIntent", $0) }
    + [("joinRecord", "content"), ("counter", "value"), ("counter", "name"), ("audit", "event"), ("audit", "time")]

private let texts = [
    "", "{}", "[]", "{\"services\":[\"180F\"]}", "{\"ssid\":[1,2,300]}",
    "{\"bluetoothManufacturerDataBlob\":[1],"
        + "\"bluetoothManufacturerDataMask\":[1,2]}", "{\"wifiAwareModelNameMatch\":{\"string\":\"a\",\"options\":99999999999}}",
    "authorized", "C0:FF:EE:00:00:01", "public", "random", "pairing", "removal", "12345678-1234-1234-1234-000000000001",
    "com.example.dice", "grant", "awareDevice", "{\"name\":\"x\",\"olderBonds\":[]}", "{\"service\":1}", "null", "{",
]

func openStore(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    let directory = scratch + "/state"
    defer { empty(directory) }
    do {
        try SystemFile.makeDirectory(directory, mode: 0o700)
        let before = try damage(directory, &input)
        try examine(directory, before)
    } catch {
        found("the fuzzer's own: \(error)")
    }
}

private func empty(_ directory: String) {
    for name in (try? SystemFile.names(in: directory)) ?? [] { unlink("\(directory)/\(name)") }
}

/// Makes a damaged copy of the real store, and returns the contents of its files.
private func damage(_ directory: String, _ input: inout Input) throws -> [String: [UInt8]] {
    var files = real
    if input.oneIn(2) { files[1] = [] }
    let kind = input.byte() % 4
    if kind != 0 { try change(rowsIn: directory, &files, &input) }
    if kind != 1 {
        for _ in 0..<input.number(below: 8) {
            let which = files[1].isEmpty || !input.oneIn(4) ? 0 : 1
            strike(&files[which], &input)
        }
    }
    var before: [String: [UInt8]] = [:]
    for (name, bytes) in zip(names, files) where !(name.hasSuffix("-wal") && bytes.isEmpty) {
        try SystemFile.write(bytes, to: "\(directory)/\(name)")
        before[name] = bytes
    }
    return before
}

private func strike(_ file: inout [UInt8], _ input: inout Input) {
    guard !file.isEmpty else { return }
    let page = 4096
    let offset = (input.number(below: 256) * page + input.number(below: page)) % file.count
    switch input.byte() % 8 {
    case 0: file.removeSubrange(offset...)
    case 1:
        let from = offset / page * page
        for index in from..<min(file.count, from + page) { file[index] = 0xA5 }
    case 2:
        // One page in the place of another.
        let (from, to) = (offset / page * page, input.number(below: 16) * page)
        for index in 0..<page where max(from, to) + index < file.count { file[to + index] = file[from + index] }
    case 3: file[input.number(below: min(100, file.count))] = input.byte()
    case 4: file[offset] ^= 1 << (input.byte() % 8)
    default:
        for (index, byte) in input.bytes(1 + input.number(below: 8)).enumerated() where offset + index < file.count {
            file[offset + index] = byte
        }
    }
}

/// Other values in some columns, written by SQLite itself.
private func change(rowsIn directory: String, _ files: inout [[UInt8]], _ input: inout Input) throws {
    let path = directory + "/grants.sqlite"
    for (name, bytes) in zip(names, files) { try SystemFile.write(bytes, to: "\(directory)/\(name)") }
    do {
        let database = try Database(path: path)
        try database.execute("PRAGMA synchronous = OFF")
        try database.execute("PRAGMA foreign_keys = OFF")
        for _ in 0...input.number(below: 4) {
            let (table, column) = input.pick(columns)
            let value: SQLValue =
                switch input.byte() % 6 {
                case 0: .null
                case 1: .integer(Int64(bitPattern: input.uint64()))
                case 2: .blob(input.bytes())
                case 3: .text(input.text())
                default: .text(input.pick(texts))
                }
            let row = input.number(below: 4)
            let isAll = row == 0 ? "" : " WHERE rowid = \(row)"
            // A change that SQLite itself refuses is no damage.
            switch input.byte() % 8 {
            case 0: try? database.execute("DELETE FROM \(table)\(isAll)")
            case 1: try? database.execute("PRAGMA user_version = \(Int32(truncatingIfNeeded: input.uint64() & 0xFF) - 100)")
            default: try? database.execute("UPDATE OR IGNORE \(table) SET \(column) = ?\(isAll)", value)
            }
        }
        if files[1].isEmpty { try database.checkpoint() }
        files = names.map { (try? SystemFile.contents("\(directory)/\($0)")) ?? [] }
    }
    empty(directory)
}

private func examine(_ directory: String, _ before: [String: [UInt8]]) throws {
    let store: GrantStore
    do {
        store = try GrantStore(directory: directory, log: log)
    } catch let error as GrantStoreError {
        // It is not damaged, or the damage cannot be seen: it stays as it is.
        if case .newer = error { expectLeft(directory, before, "") }
        return
    } catch {
        return
    }
    if let kept = store.keptAside {
        expectLeft(directory, before, String(kept.dropFirst(directory.utf8.count + 1 + names[0].utf8.count)))
    }
    let first: StoredState
    // Damage that shows only now is an error.
    do { first = try store.load() } catch { return }
    let second = try store.load()
    expect(
        first.accessories == second.accessories && first.grants == second.grants && first.intents == second.intents,
        "the store loads differently again")
    expect(Set(first.grants.map(\.id)).count == first.grants.count, "two grants of one number")
    expect(first.grants.allSatisfy { $0.id > 0 }, "a grant whose number makes no object's name")
    expect(
        Set(first.accessories.map(\.id)).count == first.accessories.count, "two accessories of one identity")
    _ = try? store.read()
    goOn(store, first)
}

/// Every file that there was is there, under its name with `suffix`, byte for byte.
private func expectLeft(_ directory: String, _ before: [String: [UInt8]], _ suffix: String) {
    for (name, bytes) in before {
        let kept = name.hasSuffix("-wal") ? "\(names[0])\(suffix)-wal" : names[0] + suffix
        let now = try? SystemFile.contents("\(directory)/\(kept)")
        expect(now == bytes, "\(name) is not kept as it was, but \(now.map { "with other bytes (\($0.count))" } ?? "gone")")
    }
}

/// One more set-up, with unused numbers.
private func goOn(_ store: GrantStore, _ state: StoredState) {
    do {
        let number = try store.nextGrantID()
        expect(!state.grants.contains { $0.id == number }, "grant \(number) is given twice")
        let next = try store.nextGrantID()
        expect(next > number, "after grant \(number) comes \(next)")
        let device = try store.nextAwareDevice()
        expect(device != 0 && !state.grants.contains { $0.terms.awareDevice == device }, "device \(device) is given twice")
        var new = try accessory(9)
        new.address = BluetoothAddress(value: 0xAAAA, kind: .public)
        let grant = try grant(next, 9, "com.example.new")
        try store.commit(StoreChange([.put(new), .grant(grant)]))
        let after = try store.load()
        expect(after.accessories.contains(new) && after.grants.contains(grant), "what was written is not there")
        expect(state.grants.allSatisfy(after.grants.contains), "what was there is gone")
        _ = try store.append([AuditEntry(time: 1, event: .granted, app: nil, who: "", why: "")])
    } catch {
        // SQLite cannot write a change because of the damage, and says so; nothing has changed then.
    }
}

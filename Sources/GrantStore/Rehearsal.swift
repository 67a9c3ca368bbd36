// SPDX-License-Identifier: Apache-2.0
// What the daemon will want to do with its tables, done once with empty ones that are made as the file makes them: what
// has been changed in their schema (a rule more, a column that must have a value, rows without numbers) shows when the
// store is opened, and not when the next accessory is paired already.

internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import Logging

enum Rehearsal {
    /// Writes, reads, changes and deletes of everything two, in tables in memory.
    ///
    /// - Parameter statements: what makes the tables and their indexes.
    /// - Returns: what cannot be done; nil when all can.
    static func fault(of statements: [String]) -> String? {
        do {
            let database = try Database(path: Database.inMemory)
            for statement in statements { try database.execute(statement) }
            for counter in Numbers.Counter.all {
                try database.execute("INSERT INTO counter (name, value) VALUES (?1, 0)", .text(counter.name))
            }
            return try play(GrantStore(over: database))
        } catch let error as DatabaseError {
            return error.message
        } catch {
            return "\(error)"
        }
    }

    private static func play(_ store: GrantStore) throws -> String? {
        var state = StoredState(accessories: [], grants: [], intents: [])
        var lines: [AuditEntry] = []
        for number in [1, 2] as [UInt8] {
            let adapter = BluetoothAddress("00:00:00:00:01:0\(number)", kind: .public)
            let address = BluetoothAddress("C0:00:00:00:00:0\(number)", kind: .random)
            let accessory = Accessory(
                id: .random(), displayName: "Rehearsal", address: address, adapter: adapter, isBonded: true, created: 1)
            guard let address, let app = AppID("rehearsal") else { return "no address and no app" }
            let terms = Grant.Terms(
                DiscoveryDescriptor(), ssid: SSID([number]), awareDevice: try store.nextAwareDevice(),
                classicAddress: BluetoothAddress("00:00:00:00:00:0\(number)", kind: .public))
            let grant = Grant(
                id: try store.nextGrantID(), app: app, accessory: accessory.id, state: .authorized, terms: terms, created: 1,
                lastUsed: 1)
            state.accessories.append(accessory)
            state.grants.append(grant)
            for purpose in [BondIntent.Purpose.pairing, .removal] {
                state.intents.append(
                    BondIntent(
                        BluetoothPeer(address, adapter: adapter), device: RadioDeviceID("/"), purpose: purpose,
                        trace: BondIntent.Trace(name: "Rehearsal", olderBonds: [])))
            }
            lines.append(AuditEntry(time: 1, event: .granted, app: app, accessory: accessory.id, who: "rehearsal", why: "-"))
        }
        let record = JoinRecord(service: "s", owner: "o", interface: "i", network: "n")
        let puts = state.accessories.map { Ledger.Step.put($0) } + state.grants.map { .grant($0) }
        // The second time they are there already.
        for _ in 0..<2 { try store.commit(StoreChange(puts, noting: state.intents)) }
        _ = try store.append(lines)
        try store.write(record)
        for number in [1, 2] as [Int64] {
            try Rows.put(Rows.Damage(table: "audit", number: number, row: nil, why: "rehearsal"), in: store.database)
        }
        let loaded = try store.load()
        let page = try store.page(of: AuditQuery(), from: 0, atMost: lines.count)
        let differs = [
            ("accessories", Set(loaded.accessories) != Set(state.accessories)), ("grants", Set(loaded.grants) != Set(state.grants)),
            ("bonds that are under way", Set(loaded.intents) != Set(state.intents)),
            ("the joined network", try store.read() != record), ("the trail", page.entries.count != lines.count),
        ]
        if let what = differs.first(where: \.1)?.0 { return "\(what): what is written is not what is read" }
        try store.write(nil)
        try store.commit(
            StoreChange(
                state.grants.map { .revoke($0.id) } + state.accessories.map { .delete($0.id) }, finishing: state.intents))
        let left = try store.load()
        guard left.accessories.isEmpty, left.grants.isEmpty, left.intents.isEmpty else { return "what is deleted is still there" }
        return nil
    }
}

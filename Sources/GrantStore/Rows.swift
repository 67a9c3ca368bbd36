// SPDX-License-Identifier: Apache-2.0
// From rows to the model's values and back. A row that makes no sense is an error that names it, never a guess.

internal import AccessoryEngine
internal import AccessoryModel
internal import Glibc

enum Rows {
    /// Why a row makes no sense.
    struct Nonsense: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    /// A row that makes no sense, as it stands.
    struct Damage {
        let table: String
        let number: Int64
        let why: String
        let content: String

        /// Of a value that makes no sense so many bytes are kept.
        private static let kept = 4096

        /// - Parameter row: nil when it has a value that is too long to be read.
        init(table: String, number: Int64, row: SQLRow?, why: String) {
            self.table = table
            self.number = number
            self.why = why
            content =
                row.map { row in
                    zip(row.columns, row.values).map { "\($0)=\($1.start(Self.kept))" }.joined(separator: "\n")
                } ?? ""
        }

        var isGrant: Bool { table == "accessGrant" }
    }

    /// A column's value, nil for NULL; what a damaged file has there instead is no reason to stop.
    private static func optional<Value>(
        _ row: SQLRow, _ column: String, _ what: String, _ read: (SQLValue) -> Value?
    ) throws(Nonsense) -> Value? {
        let value = row[column]
        if value == .null { return nil }
        guard let result = read(value) else { throw Nonsense("\(column): not \(what)") }
        return result
    }

    /// - Parameter bytes: its length at most; what is longer could not leave on the bus, or would fill it.
    private static func text(
        ifAny row: SQLRow, _ column: String, atMost bytes: Int = Limits.textBytes
    ) throws(Nonsense) -> String? {
        try optional(row, column, "a text of its length") { value in
            if case .text(let text) = value, isText(text), text.utf8.count <= bytes { text } else { nil }
        }
    }

    /// Whether a text can leave on the bus, whose texts end at a NUL.
    static func isText(_ text: String) -> Bool { !text.utf8.contains(0) }

    private static func number(
        ifAny row: SQLRow, _ column: String, _ range: ClosedRange<Int64>
    ) throws(Nonsense) -> Int64? {
        try optional(row, column, "a number of its range") { value in
            if case .integer(let number) = value, range.contains(number) { number } else { nil }
        }
    }

    private static func bytes(ifAny row: SQLRow, _ column: String) throws(Nonsense) -> [UInt8]? {
        try optional(row, column, "bytes") { if case .blob(let bytes) = $0 { bytes } else { nil } }
    }

    private static func needed<Value>(_ value: Value?, _ column: String) throws(Nonsense) -> Value {
        guard let value else { throw Nonsense("\(column): is missing") }
        return value
    }

    private static func text(_ row: SQLRow, _ column: String) throws(Nonsense) -> String {
        try needed(text(ifAny: row, column), column)
    }

    /// A value that others are found by: written as we write it, or what is changed later would be another one.
    private static func key<Value: CustomStringConvertible>(
        _ text: String, _ what: String, _ read: (String) -> Value?
    ) throws(Nonsense) -> Value {
        guard let value = read(text), "\(value)" == text else { throw Nonsense("\(text): not \(what)") }
        return value
    }

    private static func json(_ row: SQLRow, _ column: String, in database: Database) throws(Nonsense) -> JSONColumn? {
        try text(ifAny: row, column, atMost: .max).map { text throws(Nonsense) in try JSONColumn(text, column, in: database) }
    }

    private static func number(_ row: SQLRow, _ column: String, _ range: ClosedRange<Int64>) throws(Nonsense) -> Int64 {
        try needed(number(ifAny: row, column, range), column)
    }

    private static func truth(_ row: SQLRow, _ column: String) throws(Nonsense) -> Bool { try number(row, column, 0...1) != 0 }

    // MARK: Reading

    static func accessory(_ row: SQLRow, in database: Database) throws -> Accessory {
        return Accessory(
            id: try key(text(row, "id"), "a UUID") { AccessoryID($0) }, displayName: try text(row, "displayName"),
            address: try address(row), adapter: try adapter(row), isBonded: try truth(row, "isBonded"),
            image: try bytes(ifAny: row, "image").flatMap { ProductImage($0) }, ownsBond: try truth(row, "ownsBond"),
            traits: try StoredTraits.read(needed(json(row, "traits", in: database), "traits")),
            created: try number(row, "created", Numbers.times))
    }

    static func grant(_ row: SQLRow, in database: Database) throws -> Grant {
        let app = try text(row, "app")
        let accessory = try text(row, "accessory")
        let state = try text(row, "state")
        guard let app = AppID(app) else { throw Nonsense("app \(app): not an identifier") }
        guard let state = AuthorizationState(rawValue: state) else { throw Nonsense("state \(state): is none") }
        return Grant(
            id: try number(row, "id", Numbers.given), app: app,
            accessory: try key(accessory, "an accessory's UUID") { AccessoryID($0) }, state: state,
            isEnabled: try truth(row, "isEnabled"), terms: try terms(row, in: database),
            created: try number(row, "created", Numbers.times), lastUsed: try number(ifAny: row, "lastUsed", Numbers.times))
    }

    private static func terms(_ row: SQLRow, in database: Database) throws -> Grant.Terms {
        var ssid: SSID?
        if let bytes = try bytes(ifAny: row, "ssid") {
            ssid = SSID(bytes)
            if ssid == nil { throw Nonsense("the SSID is not valid") }
        }
        return Grant.Terms(
            try StoredDescriptor.read(needed(json(row, "descriptor", in: database), "descriptor")),
            hasBluetooth: try truth(row, "hasBluetooth"), isInherited: try truth(row, "isInherited"),
            traits: try StoredTraits.read(needed(json(row, "traits", in: database), "traits")), ssid: ssid,
            awareDevice: try number(ifAny: row, "awareDevice", Numbers.given).map { UInt64($0) },
            classicAddress: try text(ifAny: row, "classicAddress").map { text throws(Nonsense) in
                try key(text, "a classic address") { BluetoothAddress($0, kind: .public) }
            }, ownsClassicBond: try truth(row, "ownsClassicBond"))
    }

    static func intent(_ row: SQLRow, in database: Database) throws -> BondIntent {
        let purpose = try text(row, "purpose")
        guard let address = try address(row) else { throw Nonsense("no address") }
        guard let purpose = BondIntent.Purpose(rawValue: purpose) else { throw Nonsense("purpose \(purpose): is none") }
        var trace: BondIntent.Trace?
        if let json = try json(row, "trace", in: database) {
            trace = BondIntent.Trace(
                name: try json.needed("name"), olderBonds: Set(try needed(json.texts("olderBonds"), "olderBonds")))
        }
        return BondIntent(
            BluetoothPeer(address, adapter: try adapter(row)), device: try text(ifAny: row, "device").map { RadioDeviceID($0) },
            purpose: purpose, trace: trace)
    }

    private static func address(_ row: SQLRow) throws(Nonsense) -> BluetoothAddress? {
        guard let text = try text(ifAny: row, "address") else { return nil }
        let kind = try Self.text(ifAny: row, "addressKind") ?? ""
        guard let kind = BluetoothAddress.Kind(rawValue: kind) else { throw Nonsense("\(kind): no kind of address") }
        return try key(text, "an address") { BluetoothAddress($0, kind: kind) }
    }

    /// Empty in place of NULL where it is part of a key.
    private static func adapter(_ row: SQLRow) throws(Nonsense) -> BluetoothAddress? {
        guard let text = try text(ifAny: row, "adapter"), !text.isEmpty else { return nil }
        return try key(text, "an address") { BluetoothAddress($0, kind: .public) }
    }

    static func joinRecord(_ row: SQLRow, in database: Database) throws(Nonsense) -> JoinRecord {
        let json = try needed(json(row, "content", in: database), "content")
        return JoinRecord(
            service: try json.needed("service"), owner: try json.needed("owner"), bus: try json.text("bus") ?? "",
            interface: try json.needed("interface"), network: try json.needed("network"), joined: try json.needed("joined"),
            previous: try json.needed("previous"), enabled: try needed(json.texts("enabled"), "enabled"),
            known: try json.texts("known") ?? [])
    }

    // MARK: Writing

    static func put(_ accessory: Accessory, in database: Database) throws {
        let traits = try StoredTraits.content(of: accessory.traits).written(by: database)
        // An upsert: REPLACE would delete the row first, and grants refer to it.
        try database.execute(
            """
            INSERT INTO accessory (id, displayName, address, addressKind, isBonded, image, created, ownsBond, traits, adapter)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET displayName = excluded.displayName, address = excluded.address,
                addressKind = excluded.addressKind, isBonded = excluded.isBonded, image = excluded.image,
                created = excluded.created, ownsBond = excluded.ownsBond, traits = excluded.traits, adapter = excluded.adapter
            """, .text(accessory.id.rawValue), .text(accessory.displayName), SQLValue(accessory.address?.description),
            SQLValue(accessory.address?.kind.rawValue), SQLValue(accessory.isBonded),
            SQLValue(accessory.image.map { Array($0.bytes) }), SQLValue(accessory.created),
            SQLValue(accessory.ownsBond), .text(traits), SQLValue(accessory.adapter?.description))
    }

    static func put(_ grant: Grant, in database: Database) throws {
        let terms = grant.terms
        try database.execute(
            """
            INSERT INTO accessGrant (id, app, accessory, state, isEnabled, created, lastUsed, descriptor, isInherited, traits,
                ssid, awareDevice, classicAddress, ownsClassicBond, hasBluetooth)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET state = excluded.state, isEnabled = excluded.isEnabled, lastUsed = excluded.lastUsed,
                descriptor = excluded.descriptor, isInherited = excluded.isInherited, traits = excluded.traits,
                ssid = excluded.ssid, awareDevice = excluded.awareDevice, classicAddress = excluded.classicAddress,
                ownsClassicBond = excluded.ownsClassicBond, hasBluetooth = excluded.hasBluetooth
            """, .integer(grant.id), .text(grant.app.rawValue), .text(grant.accessory.rawValue), .text(grant.state.rawValue),
            SQLValue(grant.isEnabled), .integer(grant.created), SQLValue(grant.lastUsed),
            .text(try StoredDescriptor.content(of: terms.descriptor).written(by: database)), SQLValue(terms.isInherited),
            .text(try StoredTraits.content(of: terms.traits).written(by: database)), SQLValue(terms.ssid?.bytes),
            SQLValue(terms.awareDevice.map { Int64(bitPattern: $0) }), SQLValue(terms.classicAddress?.description),
            SQLValue(terms.ownsClassicBond), SQLValue(terms.hasBluetooth))
    }

    static func put(_ intent: BondIntent, in database: Database) throws(DatabaseError) {
        let trace = intent.trace.map { trace in
            JSONValue.object(["name": .text(trace.name), "olderBonds": JSONValue(trace.olderBonds.sorted())])
        }
        try database.execute(
            "INSERT OR REPLACE INTO bondIntent (address, addressKind, adapter, device, purpose, trace) VALUES (?, ?, ?, ?, ?, ?)",
            .text(intent.address.description),
            .text(intent.address.kind.rawValue), .text(intent.adapter?.description ?? ""), SQLValue(intent.device?.rawValue),
            .text(intent.purpose.rawValue),
            SQLValue(try trace?.written(by: database)))
    }

    static func put(_ damage: Damage, in database: Database) throws(DatabaseError) {
        try database.execute(
            "INSERT INTO setAside (time, what, why, content) VALUES (?, ?, ?, ?)", SQLValue(time(nil)), .text(damage.table),
            .text(damage.why), .text(damage.content))
    }

    static func delete(_ intent: BondIntent, in database: Database) throws(DatabaseError) {
        try database.execute(
            "DELETE FROM bondIntent WHERE address = ? AND addressKind = ? AND adapter = ? AND purpose = ?",
            .text(intent.address.description), .text(intent.address.kind.rawValue), .text(intent.adapter?.description ?? ""),
            .text(intent.purpose.rawValue))
    }

    static func content(of record: JoinRecord) -> JSONValue {
        .object([
            "service": .text(record.service), "owner": .text(record.owner), "bus": .text(record.bus),
            "interface": .text(record.interface), "network": .text(record.network), "joined": .text(record.joined),
            "previous": .text(record.previous), "enabled": JSONValue(record.enabled), "known": JSONValue(record.known),
        ])
    }
}

/// What an accessory was known by, as JSON.
enum StoredTraits {
    static func content(of model: Accessory.Traits) -> JSONValue {
        var content: [String: JSONValue] = [:]
        if !model.services.isEmpty { content["services"] = JSONValue(model.services.map(\.description).sorted()) }
        if !model.companies.isEmpty { content["companies"] = JSONValue(model.companies.map(\.value).sorted()) }
        return .object(content)
    }

    static func read(_ json: JSONColumn) throws(Rows.Nonsense) -> Accessory.Traits {
        Accessory.Traits(
            services: try (json.texts("services") ?? []).map { text throws(Rows.Nonsense) in
                guard let service = BluetoothUUID(text) else { throw Rows.Nonsense("services: \(text): not a UUID") }
                return service
            },
            companies: (try json.numbers("companies", UInt16.self) ?? []).map { CompanyIdentifier($0) })
    }
}

/// A descriptor as JSON, with the session API's keys.
enum StoredDescriptor {
    static func content(of model: DiscoveryDescriptor) -> JSONValue {
        func match(_ model: WiFiAware.Match?) -> JSONValue {
            model.map { .object(["string": .text($0.string), "options": JSONValue($0.options.rawValue)]) } ?? .null
        }
        return .object([
            "bluetoothCompanyIdentifier": JSONValue(model.companyIdentifier?.value),
            "bluetoothManufacturerDataBlob": JSONValue(model.manufacturerData?.blob),
            "bluetoothManufacturerDataMask": JSONValue(model.manufacturerData?.mask),
            "bluetoothServiceUUID": JSONValue(model.serviceUUID?.description),
            "bluetoothServiceDataBlob": JSONValue(model.serviceData?.blob),
            "bluetoothServiceDataMask": JSONValue(model.serviceData?.mask),
            "bluetoothNameSubstring": JSONValue(model.nameSubstring),
            "bluetoothNameSubstringCompareOptions":
                JSONValue(model.nameCompareOptions.isEmpty ? nil : model.nameCompareOptions.rawValue),
            "bluetoothRange": JSONValue(model.range == .default ? nil : model.range.rawValue),
            "ssid": JSONValue(model.ssid),
            "ssidPrefix": JSONValue(model.ssidPrefix),
            "supportedOptions": JSONValue(model.supportedOptions.isEmpty ? nil : model.supportedOptions.rawValue),
            "wifiAwareServiceName": JSONValue(model.wifiAware?.serviceName),
            "wifiAwareServiceRole": JSONValue(model.wifiAware?.serviceRole?.rawValue),
            "wifiAwareModelNameMatch": match(model.wifiAware?.modelName),
            "wifiAwareVendorNameMatch": match(model.wifiAware?.vendorName),
        ])
    }

    /// - Throws: also for bytes whose mask has another length.
    static func read(_ json: JSONColumn) throws(Rows.Nonsense) -> DiscoveryDescriptor {
        func bytes(_ key: String) throws(Rows.Nonsense) -> [UInt8]? { try json.numbers(key, UInt8.self) }
        func known<Value>(_ key: String, _ read: (String) -> Value?) throws(Rows.Nonsense) -> Value? {
            guard let text = try json.text(key) else { return nil }
            guard let value = read(text) else { throw Rows.Nonsense("\(key): \(text) is none") }
            return value
        }
        func masked(_ key: String) throws(Rows.Nonsense) -> MaskedData? {
            guard let blob = try bytes(key + "Blob"), let mask = try bytes(key + "Mask") else { return nil }
            do throws(MaskedData.Problem) {
                return try MaskedData(blob: blob, mask: mask)
            } catch {
                throw Rows.Nonsense("\(key)Mask: \(error)")
            }
        }
        func match(_ key: String) throws(Rows.Nonsense) -> WiFiAware.Match? {
            guard let json = try json.object(key) else { return nil }
            return WiFiAware.Match(
                string: try json.needed("string"), options: CompareOptions(rawValue: try json.number("options", Int.self) ?? 0))
        }
        var model = DiscoveryDescriptor()
        model.companyIdentifier = try json.number("bluetoothCompanyIdentifier", UInt16.self).map { CompanyIdentifier($0) }
        model.serviceUUID = try known("bluetoothServiceUUID") { BluetoothUUID($0) }
        model.manufacturerData = try masked("bluetoothManufacturerData")
        model.serviceData = try masked("bluetoothServiceData")
        model.nameSubstring = try json.text("bluetoothNameSubstring")
        model.nameCompareOptions = CompareOptions(
            rawValue: try json.number("bluetoothNameSubstringCompareOptions", Int.self) ?? 0)
        model.range = try known("bluetoothRange") { DiscoveryDescriptor.Range(rawValue: $0) } ?? .default
        model.ssid = try bytes("ssid")
        model.ssidPrefix = try bytes("ssidPrefix")
        model.supportedOptions = SupportOptions(rawValue: try json.number("supportedOptions", Int.self) ?? 0)
        var aware = WiFiAware()
        aware.serviceName = try json.text("wifiAwareServiceName")
        aware.serviceRole = try known("wifiAwareServiceRole") { WiFiAware.Role(rawValue: $0) }
        aware.modelName = try match("wifiAwareModelNameMatch")
        aware.vendorName = try match("wifiAwareVendorNameMatch")
        if aware != WiFiAware() { model.wifiAware = aware }
        return model
    }
}

// SPDX-License-Identifier: Apache-2.0
// From rows to the model's values and back. A row that is not as the daemon writes it is an error that names the
// column.

internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import Glibc

/// Why a row is invalid.
struct InvalidRow: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// An invalid row, for the table `setAside`.
struct RejectedRow {
    let table: String
    let number: Int64
    let reason: String
    let content: String

    /// In bytes, of each value.
    private static let maxValueLength = 4096

    /// - Parameter row: with its `rowid` as `rowNumber`.
    init(table: String, row: SQLRow, reason: String) {
        self.table = table
        self.reason = reason
        number = if case .integer(let number) = row["rowNumber"] { number } else { 0 }
        content = zip(row.columns, row.values).map { "\($0)=\($1.prefix(Self.maxValueLength))" }.joined(separator: "\n")
    }
}

/// Reads a column, or a member of a JSON object in one. A value of another type or range makes the row invalid.
extension SQLRow {
    /// The value; nil for NULL.
    private func optional<Value>(_ column: String, _ type: String, _ read: (SQLValue) throws -> Value?) throws -> Value? {
        let value = self[column]
        if value == .null { return nil }
        guard let result = try read(value) else { throw InvalidRow("\(column): not \(type)") }
        return result
    }

    private func required<Value>(_ column: String, _ value: Value?) throws -> Value {
        guard let value else { throw InvalidRow("\(column): is missing") }
        return value
    }

    func text(ifAny column: String) throws -> String? { try optional(column, "a text of the permitted length") { Rows.text($0) } }

    func text(_ column: String) throws -> String { try required(column, text(ifAny: column)) }

    func number(ifAny column: String, _ range: ClosedRange<Int64>) throws -> Int64? {
        try optional(column, "a number in the permitted range") { value in
            if case .integer(let number) = value, range.contains(number) { number } else { nil }
        }
    }

    func number(_ column: String, _ range: ClosedRange<Int64>) throws -> Int64 {
        try required(column, number(ifAny: column, range))
    }

    func number<Number: FixedWidthInteger & SendableMetatype>(ifAny column: String, _ type: Number.Type) throws -> Number? {
        try optional(column, "a number in the permitted range", Rows.number)
    }

    func truth(_ column: String) throws -> Bool { try number(column, 0...1) != 0 }

    func bytes(ifAny column: String) throws -> [UInt8]? {
        try optional(column, "bytes") { if case .blob(let bytes) = $0 { bytes } else { nil } }
    }

    /// A text in the spelling of the daemon: a key in another one would not be found again.
    func key<Value: CustomStringConvertible>(
        ifAny column: String, _ type: String, _ read: (String) -> Value?
    ) throws -> Value? {
        try text(ifAny: column).map { text in
            guard let value = read(text), "\(value)" == text else { throw InvalidRow("\(column): \(text): not \(type)") }
            return value
        }
    }

    func key<Value: CustomStringConvertible>(_ column: String, _ type: String, _ read: (String) -> Value?) throws -> Value {
        try required(column, key(ifAny: column, type, read))
    }

    /// One of a few words.
    func word<Value>(ifAny column: String, _ read: (String) -> Value?) throws -> Value? {
        try text(ifAny: column).map { text in
            guard let value = read(text) else { throw InvalidRow("\(column): \(text): unknown") }
            return value
        }
    }

    func word<Value>(_ column: String, _ read: (String) -> Value?) throws -> Value {
        try required(column, word(ifAny: column, read))
    }

    func object(ifAny column: String, in database: Database) throws -> SQLRow? {
        try optional(column, "a JSON object") { try database.members(of: $0) }
    }

    func object(_ column: String, in database: Database) throws -> SQLRow {
        try required(column, object(ifAny: column, in: database))
    }

    func list<Element>(
        ifAny column: String, in database: Database, _ read: (SQLValue) -> Element?
    ) throws -> [Element]? {
        try optional(column, "a JSON list of the permitted elements") { value in
            guard let elements = try database.elements(of: value) else { return nil }
            let list = elements.compactMap(read)
            return list.count == elements.count ? list : nil
        }
    }

    func list<Element>(_ column: String, in database: Database, _ read: (SQLValue) -> Element?) throws -> [Element] {
        try required(column, list(ifAny: column, in: database, read))
    }
}

enum Rows {
    /// Numbers of grants, Wi-Fi Aware devices and lines of the trail: far more than there will be, and far from the end
    /// of the type.
    static let identifiers: ClosedRange<Int64> = 1...1 << 48
    /// Seconds since 1970, up to the year 9999.
    static let times: ClosedRange<Int64> = 0...253_402_300_799

    /// A text that can be sent on the bus, where a NUL would end it; nil for any other value.
    static func text(_ value: SQLValue, maxLength: Int = Limits.textBytes) -> String? {
        guard case .text(let text) = value, text.utf8.count <= maxLength, !text.utf8.contains(0) else { return nil }
        return text
    }

    static func number<Number: FixedWidthInteger>(_ value: SQLValue) -> Number? {
        if case .integer(let number) = value { Number(exactly: number) } else { nil }
    }

    // MARK: Reading

    static func accessory(_ row: SQLRow, in database: Database) throws -> Accessory {
        Accessory(
            id: try row.key("id", "a UUID") { AccessoryID($0) }, displayName: try row.text("displayName"),
            address: try address(row), adapter: try adapter(row), isBonded: try row.truth("isBonded"),
            image: try row.bytes(ifAny: "image").flatMap { ProductImage($0) }, ownsBond: try row.truth("ownsBond"),
            traits: try StoredTraits.read(row.object("traits", in: database), in: database),
            created: try row.number("created", times))
    }

    static func grant(_ row: SQLRow, in database: Database) throws -> Grant {
        var grant = Grant(
            id: try row.number("id", identifiers), app: try row.word("app") { AppID($0) },
            accessory: try row.key("accessory", "a UUID") { AccessoryID($0) },
            state: try row.word("state") { AuthorizationState(rawValue: $0) }, isEnabled: try row.truth("isEnabled"),
            terms: try terms(row, in: database), user: try row.number(ifAny: "user", UInt32.self),
            created: try row.number("created", times), lastUsed: try row.number(ifAny: "lastUsed", times))
        grant.isObserved = try row.object("limits", in: database).number(ifAny: "observed", 1...1) != nil
        return grant
    }

    private static func terms(_ row: SQLRow, in database: Database) throws -> Grant.Terms {
        let ssid = try row.bytes(ifAny: "ssid")
        guard ssid == nil || ssid.flatMap({ SSID($0) }) != nil else { throw InvalidRow("ssid: not an SSID") }
        var terms = Grant.Terms(
            try StoredDescriptor.read(row.object("descriptor", in: database), in: database),
            hasBluetooth: try row.truth("hasBluetooth"),
            traits: try StoredTraits.read(row.object("traits", in: database), in: database), ssid: ssid.flatMap { SSID($0) },
            awareDevice: try row.number(ifAny: "awareDevice", identifiers).map { UInt64($0) },
            classicAddress: try row.key(ifAny: "classicAddress", "an address") { BluetoothAddress($0, kind: .public) },
            ownsClassicBond: try row.truth("ownsClassicBond"),
            reported: try row.object(ifAny: "reported", in: database).map(reported))
        try StoredLimits.read(row.object("limits", in: database), into: &terms, in: database)
        return terms
    }

    private static func reported(_ content: SQLRow) throws -> ReportedIdentity {
        var endpoint: NetworkEndpoint?
        if let host = try content.text(ifAny: "host") {
            endpoint = try content.number(ifAny: "port", UInt16.self).flatMap { NetworkEndpoint(host: host, port: $0) }
            if endpoint == nil { throw InvalidRow("reported: \(host): not an endpoint") }
        }
        guard let reported = ReportedIdentity(identifier: try content.text("identifier"), endpoint: endpoint) else {
            throw InvalidRow("reported: not an identifier")
        }
        return reported
    }

    static func intent(_ row: SQLRow, in database: Database) throws -> BondIntent {
        guard let address = try address(row) else { throw InvalidRow("address: is missing") }
        return BondIntent(
            BluetoothPeer(address, adapter: try adapter(row)), device: try row.text(ifAny: "device").map { RadioDeviceID($0) },
            purpose: try row.word("purpose") { BondIntent.Purpose(rawValue: $0) },
            trace: try row.object(ifAny: "trace", in: database).map { trace in
                BondIntent.Trace(
                    name: try trace.text("name"), olderBonds: Set(try trace.list("olderBonds", in: database) { text($0) }))
            })
    }

    static func mutedApp(_ row: SQLRow) throws -> MutedApp {
        MutedApp(app: try row.word("app") { AppID($0) }, since: try row.number("since", times), who: try row.text("who"))
    }

    static func claim(_ row: SQLRow) throws -> Claim {
        Claim(
            .init(list: try row.text("list"), entry: try row.text("entry")),
            app: try row.word("app") { AppID($0) }, accessory: try row.key("accessory", "a UUID") { AccessoryID($0) },
            isAuthenticated: try row.truth("isAuthenticated"), time: try row.number("time", times))
    }

    private static func address(_ row: SQLRow) throws -> BluetoothAddress? {
        guard row["address"] != .null else { return nil }
        let kind = try row.word("addressKind") { BluetoothAddress.Kind(rawValue: $0) }
        return try row.key("address", "an address") { BluetoothAddress($0, kind: kind) }
    }

    /// Empty instead of NULL as part of a key.
    private static func adapter(_ row: SQLRow) throws -> BluetoothAddress? {
        guard row["adapter"] != .text("") else { return nil }
        return try row.key(ifAny: "adapter", "an address") { BluetoothAddress($0, kind: .public) }
    }

    static func clock(_ row: SQLRow) throws -> ElapsedClock.Anchor {
        func seconds(_ column: String) throws -> Double {
            guard case .real(let time) = row[column], time.isFinite else { throw InvalidRow("\(column): not a number") }
            return time
        }
        return ElapsedClock.Anchor(
            boot: try row.text("boot"), sinceBoot: try seconds("sinceBoot"),
            wall: row["wall"] == .null ? nil : try seconds("wall"),
            elapsed: try seconds("elapsed"), isSettled: try row.truth("isSettled"))
    }

    static func joinRecord(_ row: SQLRow, in database: Database) throws -> JoinRecord {
        let record = try row.object("content", in: database)
        return JoinRecord(
            service: try record.text("service"), owner: try record.text("owner"), bus: try record.text(ifAny: "bus") ?? "",
            interface: try record.text("interface"), network: try record.text("network"), joined: try record.text("joined"),
            previous: try record.text("previous"), enabled: try record.list("enabled", in: database) { text($0) },
            preexisting: try record.list(ifAny: "known", in: database) { text($0) } ?? [])
    }

    // MARK: Writing

    static func put(_ accessory: Accessory, in database: Database) throws {
        // REPLACE would delete the row first, and grants refer to it.
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
            SQLValue(accessory.ownsBond), SQLValue(StoredTraits.content(of: accessory.traits).text),
            SQLValue(accessory.adapter?.description))
    }

    static func put(_ grant: Grant, in database: Database) throws {
        let terms = grant.terms
        try database.execute(
            """
            INSERT INTO accessGrant (id, app, accessory, state, isEnabled, created, lastUsed, descriptor, traits,
                ssid, awareDevice, classicAddress, ownsClassicBond, hasBluetooth, limits, user, reported)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET state = excluded.state, isEnabled = excluded.isEnabled, lastUsed = excluded.lastUsed,
                descriptor = excluded.descriptor, traits = excluded.traits,
                ssid = excluded.ssid, awareDevice = excluded.awareDevice, classicAddress = excluded.classicAddress,
                ownsClassicBond = excluded.ownsClassicBond, hasBluetooth = excluded.hasBluetooth, limits = excluded.limits,
                user = excluded.user, reported = excluded.reported
            """, .integer(grant.id), .text(grant.app.rawValue), .text(grant.accessory.rawValue), .text(grant.state.rawValue),
            SQLValue(grant.isEnabled), .integer(grant.created), SQLValue(grant.lastUsed),
            SQLValue(StoredDescriptor.content(of: terms.descriptor).text),
            SQLValue(StoredTraits.content(of: terms.traits).text), SQLValue(terms.ssid?.bytes),
            SQLValue(terms.awareDevice.map { Int64(bitPattern: $0) }), SQLValue(terms.classicAddress?.description),
            SQLValue(terms.ownsClassicBond), SQLValue(terms.hasBluetooth), SQLValue(StoredLimits.content(of: grant).text),
            SQLValue(grant.user.map(Int64.init)), SQLValue(terms.reported.map(content)?.text))
    }

    private static func content(of reported: ReportedIdentity) -> StoredJSON {
        StoredJSON([
            "identifier": StoredJSON(reported.identifier), "host": StoredJSON(reported.endpoint?.host),
            "port": StoredJSON(reported.endpoint?.port),
        ])
    }

    static func put(_ muted: MutedApp, in database: Database) throws(DatabaseError) {
        try database.execute(
            "INSERT OR REPLACE INTO mutedApp (app, since, who) VALUES (?, ?, ?)", .text(muted.app.rawValue), .integer(muted.since),
            .text(muted.who))
    }

    /// Fails for an entry that is used already.
    static func put(_ claim: Claim, in database: Database) throws(DatabaseError) {
        try database.execute(
            "INSERT INTO claim (list, entry, app, accessory, isAuthenticated, time) VALUES (?, ?, ?, ?, ?, ?)",
            .text(claim.key.list), .text(claim.key.entry), .text(claim.app.rawValue), .text(claim.accessory.rawValue),
            SQLValue(claim.isAuthenticated), .integer(claim.time))
    }

    static func put(_ intent: BondIntent, in database: Database) throws(DatabaseError) {
        let trace = intent.trace.map { trace in
            StoredJSON(["name": StoredJSON(trace.name), "olderBonds": StoredJSON(trace.olderBonds.sorted())])
        }
        try database.execute(
            "INSERT OR REPLACE INTO bondIntent (address, addressKind, adapter, device, purpose, trace) VALUES (?, ?, ?, ?, ?, ?)",
            .text(intent.address.description),
            .text(intent.address.kind.rawValue), .text(intent.adapter?.description ?? ""), SQLValue(intent.device?.rawValue),
            .text(intent.purpose.rawValue),
            SQLValue(trace?.text))
    }

    static func put(_ row: RejectedRow, in database: Database) throws(DatabaseError) {
        try database.execute(
            "INSERT INTO setAside (time, what, why, content) VALUES (?, ?, ?, ?)", SQLValue(time(nil)), .text(row.table),
            .text(row.reason), .text(row.content))
    }

    static func delete(_ intent: BondIntent, in database: Database) throws(DatabaseError) {
        try database.execute(
            "DELETE FROM bondIntent WHERE address = ? AND addressKind = ? AND adapter = ? AND purpose = ?",
            .text(intent.address.description), .text(intent.address.kind.rawValue), .text(intent.adapter?.description ?? ""),
            .text(intent.purpose.rawValue))
    }

    static func put(_ clock: ElapsedClock.Anchor, in database: Database) throws(DatabaseError) {
        try database.execute("DELETE FROM elapsedClock")
        try database.execute(
            "INSERT INTO elapsedClock (boot, sinceBoot, wall, elapsed, isSettled) VALUES (?, ?, ?, ?, ?)", .text(clock.boot),
            .real(clock.sinceBoot), clock.wall.map { .real($0) } ?? .null, .real(clock.elapsed), SQLValue(clock.isSettled))
    }

    static func put(_ record: JoinRecord, in database: Database) throws(DatabaseError) {
        let content = StoredJSON([
            "service": StoredJSON(record.service), "owner": StoredJSON(record.owner), "bus": StoredJSON(record.bus),
            "interface": StoredJSON(record.interface), "network": StoredJSON(record.network), "joined": StoredJSON(record.joined),
            "previous": StoredJSON(record.previous), "enabled": StoredJSON(record.enabled), "known": StoredJSON(record.preexisting),
        ])
        try database.execute("INSERT INTO joinRecord (content) VALUES (?)", SQLValue(content.text))
    }
}

/// The services and companies of an accessory, as JSON.
enum StoredTraits {
    static func content(of model: Accessory.Traits) -> StoredJSON {
        StoredJSON([
            "services": StoredJSON(model.services.isEmpty ? nil : model.services.map(\.description).sorted()),
            "companies": StoredJSON(model.companies.isEmpty ? nil : model.companies.map(\.value).sorted()),
        ])
    }

    static func read(_ content: SQLRow, in database: Database) throws -> Accessory.Traits {
        Accessory.Traits(
            services: try content.list(ifAny: "services", in: database) { Rows.text($0).flatMap { BluetoothUUID($0) } } ?? [],
            companies: try content.list(ifAny: "companies", in: database) { Rows.number($0).map { CompanyIdentifier($0) } } ?? [])
    }
}

/// The limits of a grant, as JSON.
enum StoredLimits {
    static func content(of grant: Grant) -> StoredJSON {
        let terms = grant.terms
        var ends: [String]?
        var isWarned = false
        var ended: [String]?
        switch terms.time {
        case .none: break
        case .running(let running, let hasWarned):
            isWarned = hasWarned
            ends = running.map { end in
                switch end.due {
                case .elapsed(let time): "elapsed \(time) \(end.rule)"
                case .wall(let time): "wall \(time) \(end.rule)"
                }
            }
        case .ended(let rules): ended = rules.map(\.description)
        }
        return StoredJSON([
            "excluded": StoredJSON(terms.excluded.isEmpty ? nil : terms.excluded.sorted()), "ends": StoredJSON(ends),
            "warned": StoredJSON(isWarned ? 1 : nil), "ended": StoredJSON(ended),
            "access": StoredJSON(terms.ceiling == .full ? nil : terms.ceiling.text),
            "observed": StoredJSON(grant.isObserved ? 1 : nil as Int?),
        ])
    }

    /// `elapsed` or `wall`, the seconds, and the rule.
    private static func end(_ text: String) -> GrantEnd? {
        let parts = text.split(separator: " ", maxSplits: 2)
        guard parts.count == 3, let time = Double(parts[1]), time.isFinite, let rule = EndRule(String(parts[2])) else { return nil }
        switch parts[0] {
        case "elapsed": return GrantEnd(rule, due: .elapsed(time))
        case "wall": return GrantEnd(rule, due: .wall(time))
        default: return nil
        }
    }

    static func read(_ content: SQLRow, into terms: inout Grant.Terms, in database: Database) throws {
        terms.excluded = Set(try content.list(ifAny: "excluded", in: database, Rows.number) ?? [])
        if let text = try content.text(ifAny: "access") {
            // An empty list opens nothing.
            guard let ceiling = text.isEmpty ? .listed(CharacteristicList([])) : AccessLimit(text) else {
                throw InvalidRow("access: \(text.prefix(40))")
            }
            terms.ceiling = ceiling
        }
        let ends = try content.list(ifAny: "ends", in: database) { Rows.text($0).flatMap(end) }
        let ended = try content.list(ifAny: "ended", in: database) { Rows.text($0).flatMap { EndRule($0) } }
        switch (ends, ended) {
        case (nil, nil): terms.time = .none
        case (let ends?, nil) where !ends.isEmpty:
            terms.time = .running(ends, hasWarned: try content.number(ifAny: "warned", Int.self) == 1)
        case (nil, let ended?): terms.time = .ended(ended)
        default: throw InvalidRow("ends: empty, or ended too")
        }
    }
}

/// A descriptor as JSON, with the session API's keys.
enum StoredDescriptor {
    static func content(of model: DiscoveryDescriptor) -> StoredJSON {
        func match(_ model: WiFiAware.Match?) -> StoredJSON {
            guard let model else { return StoredJSON(nil as String?) }
            return StoredJSON(["string": StoredJSON(model.string), "options": StoredJSON(model.options.rawValue)])
        }
        return StoredJSON([
            "bluetoothCompanyIdentifier": StoredJSON(model.companyIdentifier?.value),
            "bluetoothManufacturerDataBlob": StoredJSON(model.manufacturerData?.blob),
            "bluetoothManufacturerDataMask": StoredJSON(model.manufacturerData?.mask),
            "bluetoothServiceUUID": StoredJSON(model.serviceUUID?.description),
            "bluetoothServiceDataBlob": StoredJSON(model.serviceData?.blob),
            "bluetoothServiceDataMask": StoredJSON(model.serviceData?.mask),
            "bluetoothNameSubstring": StoredJSON(model.name.substring),
            "bluetoothNameSubstringCompareOptions":
                StoredJSON(model.name.options.isEmpty ? nil : model.name.options.rawValue),
            "bluetoothRange": StoredJSON(model.range == .default ? nil : model.range.rawValue),
            "ssid": StoredJSON(model.ssid),
            "ssidPrefix": StoredJSON(model.ssidPrefix),
            "access": StoredJSON(model.access == .full ? nil : model.access.word.rawValue),
            "characteristics": StoredJSON(model.access.list?.entries.map(\.description)),
            "maxDevices": StoredJSON(model.maxDevices),
            "supportedOptions": StoredJSON(model.supportedOptions.isEmpty ? nil : model.supportedOptions.rawValue),
            "wifiAwareServiceName": StoredJSON(model.wifiAware?.serviceName),
            "wifiAwareServiceRole": StoredJSON(model.wifiAware?.serviceRole?.rawValue),
            "wifiAwareModelNameMatch": match(model.wifiAware?.modelName),
            "wifiAwareVendorNameMatch": match(model.wifiAware?.vendorName),
        ])
    }

    static func read(_ content: SQLRow, in database: Database) throws -> DiscoveryDescriptor {
        func bytes(_ key: String) throws -> [UInt8]? { try content.list(ifAny: key, in: database, Rows.number) }
        func options(_ key: String) throws -> Int { try content.number(ifAny: key, Int.self) ?? 0 }
        func masked(_ key: String) throws -> MaskedData? {
            guard let blob = try bytes(key + "Blob"), let mask = try bytes(key + "Mask") else { return nil }
            do throws(MaskedData.Problem) {
                return try MaskedData(blob: blob, mask: mask)
            } catch {
                throw InvalidRow("\(key)Mask: \(error)")
            }
        }
        func match(_ key: String) throws -> WiFiAware.Match? {
            try content.object(ifAny: key, in: database).map { match in
                WiFiAware.Match(
                    string: try match.text("string"),
                    options: CompareOptions(rawValue: try match.number(ifAny: "options", Int.self) ?? 0))
            }
        }
        var model = DiscoveryDescriptor()
        model.companyIdentifier = try content.number(ifAny: "bluetoothCompanyIdentifier", UInt16.self).map { CompanyIdentifier($0) }
        model.serviceUUID = try content.word(ifAny: "bluetoothServiceUUID") { BluetoothUUID($0) }
        model.manufacturerData = try masked("bluetoothManufacturerData")
        model.serviceData = try masked("bluetoothServiceData")
        model.name.substring = try content.text(ifAny: "bluetoothNameSubstring")
        model.name.options = CompareOptions(rawValue: try options("bluetoothNameSubstringCompareOptions"))
        model.range = try content.word(ifAny: "bluetoothRange") { DiscoveryDescriptor.Range(rawValue: $0) } ?? .default
        model.access = try access(content, in: database)
        model.maxDevices = try content.number(ifAny: "maxDevices", Int.self)
        model.ssid = try bytes("ssid")
        model.ssidPrefix = try bytes("ssidPrefix")
        model.supportedOptions = SupportOptions(rawValue: try options("supportedOptions"))
        var aware = WiFiAware()
        aware.serviceName = try content.text(ifAny: "wifiAwareServiceName")
        aware.serviceRole = try content.word(ifAny: "wifiAwareServiceRole") { WiFiAware.Role(rawValue: $0) }
        aware.modelName = try match("wifiAwareModelNameMatch")
        aware.vendorName = try match("wifiAwareVendorNameMatch")
        if aware != WiFiAware() { model.wifiAware = aware }
        return model
    }

    private static func access(_ content: SQLRow, in database: Database) throws -> DiscoveryDescriptor.Access {
        switch try content.word(ifAny: "access", { DiscoveryDescriptor.Access.Word(rawValue: $0) }) ?? .full {
        case .full: .full
        case .read: .read
        case .hear: .hear
        case .listed:
            .use(
                .listed(
                    CharacteristicList(
                        try content.list("characteristics", in: database) { Rows.text($0).flatMap { CharacteristicAccess($0) } })))
        }
    }
}

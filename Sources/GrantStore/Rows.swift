// SPDX-License-Identifier: Apache-2.0
// From rows to the model's values and back. A row that makes no sense is an error that names it, never a guess.

internal import AccessoryEngine
internal import AccessoryModel
internal import Foundation
internal import GRDB

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

        /// - Parameter row: with its `rowid` as `rowNumber`.
        init(table: String, row: Row, why: String) {
            self.table = table
            self.why = why
            number = Int64.fromDatabaseValue(row["rowNumber"] as DatabaseValue) ?? 0
            content = row.map { "\($0)=\($1)" }.joined(separator: "\n")
        }

        var isGrant: Bool { table == "accessGrant" }
    }

    /// A column's value; what a damaged file has there instead is no reason to stop.
    private static func value<Value: DatabaseValueConvertible>(_ row: Row, _ column: String, _ type: Value.Type) throws -> Value {
        guard let value = Value.fromDatabaseValue(row[column] as DatabaseValue) else {
            throw Nonsense("\(column): not of type \(Value.self)")
        }
        return value
    }

    private static func optional<Value: DatabaseValueConvertible>(_ row: Row, _ column: String, _ type: Value.Type) throws -> Value?
    {
        (row[column] as DatabaseValue).isNull ? nil : try value(row, column, type)
    }

    // MARK: Reading

    static func accessory(_ row: Row) throws -> Accessory {
        let text = try value(row, "id", String.self)
        guard let id = AccessoryID(text) else { throw Nonsense("id \(text): not a UUID") }
        let ssid = try optional(row, "ssid", Data.self)
        let classic = try optional(row, "classicAddress", String.self)
        let descriptor = try value(row, "descriptor", String.self)
        let traits = try value(row, "traits", String.self)
        return Accessory(
            id: id, displayName: try value(row, "displayName", String.self), address: try address(row),
            isBonded: try value(row, "isBonded", Bool.self),
            descriptor: try JSONDecoder().decode(StoredDescriptor.self, from: Data(descriptor.utf8)).model,
            image: try optional(row, "image", Data.self).flatMap { ProductImage(Array($0)) },
            ssid: try ssid.map { bytes in
                guard let ssid = SSID(Array(bytes)) else { throw Nonsense("the SSID is not valid") }
                return ssid
            },
            classicAddress: try classic.map { text in
                guard let address = BluetoothAddress(text, kind: .public) else {
                    throw Nonsense("classic address \(text) is not valid")
                }
                return address
            }, awareDevice: try optional(row, "awareDevice", Int64.self).map { UInt64(bitPattern: $0) },
            ownsBond: try value(row, "ownsBond", Bool.self), ownsClassicBond: try value(row, "ownsClassicBond", Bool.self),
            traits: try JSONDecoder().decode(StoredTraits.self, from: Data(traits.utf8)).model,
            created: try value(row, "created", Int64.self))
    }

    static func grant(_ row: Row) throws -> Grant {
        let app = try value(row, "app", String.self)
        let accessory = try value(row, "accessory", String.self)
        let state = try value(row, "state", String.self)
        guard let app = AppID(app) else { throw Nonsense("app \(app): not an identifier") }
        guard let accessory = AccessoryID(accessory) else { throw Nonsense("accessory \(accessory): not a UUID") }
        guard let state = AuthorizationState(rawValue: state) else { throw Nonsense("state \(state): is none") }
        return Grant(
            id: try value(row, "id", Int64.self), app: app, accessory: accessory, state: state,
            isEnabled: try value(row, "isEnabled", Bool.self), created: try value(row, "created", Int64.self),
            lastUsed: try optional(row, "lastUsed", Int64.self))
    }

    static func intent(_ row: Row) throws -> BondIntent {
        let purpose = try value(row, "purpose", String.self)
        let device = try optional(row, "device", String.self)
        guard let address = try address(row) else { throw Nonsense("no address") }
        guard let purpose = BondIntent.Purpose(rawValue: purpose) else { throw Nonsense("purpose \(purpose): is none") }
        let trace = try optional(row, "trace", String.self)
        return BondIntent(
            address: address, device: device.map { RadioDeviceID($0) }, purpose: purpose,
            trace: try trace.map { try JSONDecoder().decode(BondIntent.Trace.self, from: Data($0.utf8)) })
    }

    private static func address(_ row: Row) throws -> BluetoothAddress? {
        guard let text = try optional(row, "address", String.self) else { return nil }
        let kind = try optional(row, "addressKind", String.self) ?? ""
        guard let kind = BluetoothAddress.Kind(rawValue: kind), let address = BluetoothAddress(text, kind: kind) else {
            throw Nonsense("address \(text) is not valid")
        }
        return address
    }

    // MARK: Writing

    static func put(_ accessory: Accessory, in database: Database) throws {
        let descriptor = String(decoding: try JSONEncoder().encode(StoredDescriptor(accessory.descriptor)), as: UTF8.self)
        // An upsert: REPLACE would delete the row first, and grants refer to it.
        try database.execute(
            sql: """
                INSERT INTO accessory VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET displayName = excluded.displayName, address = excluded.address,
                    addressKind = excluded.addressKind, isBonded = excluded.isBonded, descriptor = excluded.descriptor,
                    image = excluded.image, ssid = excluded.ssid, created = excluded.created,
                    classicAddress = excluded.classicAddress, awareDevice = excluded.awareDevice,
                    ownsBond = excluded.ownsBond, ownsClassicBond = excluded.ownsClassicBond, traits = excluded.traits
                """,
            arguments: [
                accessory.id.rawValue, accessory.displayName, accessory.address?.description, accessory.address?.kind.rawValue,
                accessory.isBonded, descriptor, accessory.image.map { Data($0.bytes) }, accessory.ssid.map { Data($0.bytes) },
                accessory.created, accessory.classicAddress?.description,
                accessory.awareDevice.map { Int64(bitPattern: $0) }, accessory.ownsBond, accessory.ownsClassicBond,
                String(decoding: try JSONEncoder().encode(StoredTraits(accessory.traits)), as: UTF8.self),
            ])
    }

    static func put(_ grant: Grant, in database: Database) throws {
        try database.execute(
            sql: """
                INSERT INTO accessGrant VALUES (?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET state = excluded.state, isEnabled = excluded.isEnabled, lastUsed = excluded.lastUsed
                """,
            arguments: [
                grant.id, grant.app.rawValue, grant.accessory.rawValue, grant.state.rawValue, grant.isEnabled, grant.created,
                grant.lastUsed,
            ])
    }

    static func put(_ intent: BondIntent, in database: Database) throws {
        try database.execute(
            sql: "INSERT OR REPLACE INTO bondIntent VALUES (?, ?, ?, ?, ?)",
            arguments: [
                intent.address.description, intent.address.kind.rawValue, intent.device?.rawValue, intent.purpose.rawValue,
                try intent.trace.map { String(decoding: try JSONEncoder().encode($0), as: UTF8.self) },
            ])
    }

    static func delete(_ intent: BondIntent, in database: Database) throws {
        try database.execute(
            sql: "DELETE FROM bondIntent WHERE address = ? AND addressKind = ? AND purpose = ?",
            arguments: [intent.address.description, intent.address.kind.rawValue, intent.purpose.rawValue])
    }
}

/// What an accessory was known by, as JSON.
struct StoredTraits: Codable {
    var services: [String]?
    var companies: [UInt16]?

    init(_ model: Accessory.Traits) {
        services = model.services.isEmpty ? nil : model.services.map(\.description).sorted()
        companies = model.companies.isEmpty ? nil : model.companies.map(\.value).sorted()
    }

    var model: Accessory.Traits {
        Accessory.Traits(
            services: (services ?? []).compactMap { BluetoothUUID($0) }, companies: (companies ?? []).map { CompanyIdentifier($0) })
    }
}

/// A descriptor as JSON, with the session API's keys: readable with any SQLite shell, and open for keys to come.
struct StoredDescriptor: Codable {
    var bluetoothCompanyIdentifier: UInt16?
    var bluetoothManufacturerDataBlob: [UInt8]?
    var bluetoothManufacturerDataMask: [UInt8]?
    var bluetoothServiceUUID: String?
    var bluetoothServiceDataBlob: [UInt8]?
    var bluetoothServiceDataMask: [UInt8]?
    var bluetoothNameSubstring: String?
    var bluetoothNameSubstringCompareOptions: Int?
    var bluetoothRange: String?
    var ssid: [UInt8]?
    var ssidPrefix: [UInt8]?
    var supportedOptions: Int?
    var wifiAwareServiceName: String?
    var wifiAwareServiceRole: String?
    var wifiAwareModelNameMatch: StoredMatch?
    var wifiAwareVendorNameMatch: StoredMatch?

    struct StoredMatch: Codable {
        var string: String
        var options: Int

        init(_ model: WiFiAware.Match) {
            string = model.string
            options = model.options.rawValue
        }

        var model: WiFiAware.Match { WiFiAware.Match(string: string, options: CompareOptions(rawValue: options)) }
    }

    init(_ model: DiscoveryDescriptor) {
        bluetoothCompanyIdentifier = model.companyIdentifier?.value
        bluetoothManufacturerDataBlob = model.manufacturerData?.blob
        bluetoothManufacturerDataMask = model.manufacturerData?.mask
        bluetoothServiceUUID = model.serviceUUID?.description
        bluetoothServiceDataBlob = model.serviceData?.blob
        bluetoothServiceDataMask = model.serviceData?.mask
        bluetoothNameSubstring = model.nameSubstring
        bluetoothNameSubstringCompareOptions = model.nameCompareOptions.isEmpty ? nil : model.nameCompareOptions.rawValue
        bluetoothRange = model.range == .default ? nil : model.range.rawValue
        ssid = model.ssid
        ssidPrefix = model.ssidPrefix
        supportedOptions = model.supportedOptions.isEmpty ? nil : model.supportedOptions.rawValue
        wifiAwareServiceName = model.wifiAware?.serviceName
        wifiAwareServiceRole = model.wifiAware?.serviceRole?.rawValue
        wifiAwareModelNameMatch = (model.wifiAware?.modelName).map(StoredMatch.init)
        wifiAwareVendorNameMatch = (model.wifiAware?.vendorName).map(StoredMatch.init)
    }

    var model: DiscoveryDescriptor {
        get throws {
            var model = DiscoveryDescriptor()
            model.companyIdentifier = bluetoothCompanyIdentifier.map { CompanyIdentifier($0) }
            model.serviceUUID = bluetoothServiceUUID.flatMap { BluetoothUUID($0) }
            if let blob = bluetoothManufacturerDataBlob, let mask = bluetoothManufacturerDataMask {
                model.manufacturerData = try MaskedData(blob: blob, mask: mask)
            }
            if let blob = bluetoothServiceDataBlob, let mask = bluetoothServiceDataMask {
                model.serviceData = try MaskedData(blob: blob, mask: mask)
            }
            model.nameSubstring = bluetoothNameSubstring
            model.nameCompareOptions = CompareOptions(rawValue: bluetoothNameSubstringCompareOptions ?? 0)
            model.range = bluetoothRange.flatMap { DiscoveryDescriptor.Range(rawValue: $0) } ?? .default
            model.ssid = ssid
            model.ssidPrefix = ssidPrefix
            model.supportedOptions = SupportOptions(rawValue: supportedOptions ?? 0)
            var aware = WiFiAware()
            aware.serviceName = wifiAwareServiceName
            aware.serviceRole = wifiAwareServiceRole.flatMap { WiFiAware.Role(rawValue: $0) }
            aware.modelName = wifiAwareModelNameMatch?.model
            aware.vendorName = wifiAwareVendorNameMatch?.model
            if aware != WiFiAware() { model.wifiAware = aware }
            return model
        }
    }
}

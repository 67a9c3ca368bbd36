// From rows to the model's values and back. A row that makes no sense is an error that names it, never a guess.

internal import AccessoryEngine
internal import AccessoryModel
internal import Foundation
internal import GRDB

enum Rows {
    struct Damage: Error, CustomStringConvertible {
        let description: String
    }

    // MARK: Reading

    static func accessory(_ row: Row) throws -> Accessory {
        let text: String = row["id"]
        guard let id = AccessoryID(text) else { throw Damage(description: "accessory \(text): not a UUID") }
        let image: Data? = row["image"]
        let ssid: Data? = row["ssid"]
        let classic: String? = row["classicAddress"]
        let descriptor: String = row["descriptor"]
        return Accessory(
            id: id, displayName: row["displayName"], address: try address(row, "accessory \(text)"), isBonded: row["isBonded"],
            descriptor: try JSONDecoder().decode(StoredDescriptor.self, from: Data(descriptor.utf8)).model,
            image: image.flatMap { ProductImage(Array($0)) },
            ssid: try ssid.map { bytes in
                guard let ssid = SSID(Array(bytes)) else { throw Damage(description: "accessory \(id): the SSID is not valid") }
                return ssid
            },
            classicAddress: try classic.map { text in
                guard let address = BluetoothAddress(text, kind: .public) else {
                    throw Damage(description: "accessory \(id): classic address \(text) is not valid")
                }
                return address
            }, awareDevice: (row["awareDevice"] as Int64?).map { UInt64(bitPattern: $0) }, created: row["created"])
    }

    static func grant(_ row: Row) throws -> Grant {
        let id: Int64 = row["id"]
        let app: String = row["app"]
        let accessory: String = row["accessory"]
        let state: String = row["state"]
        guard let app = AppID(app), let accessory = AccessoryID(accessory), let state = AuthorizationState(rawValue: state) else {
            throw Damage(description: "grant \(id): app, accessory or state is not valid")
        }
        return Grant(
            id: id, app: app, accessory: accessory, state: state, isEnabled: row["isEnabled"], created: row["created"],
            lastUsed: row["lastUsed"])
    }

    static func intent(_ row: Row) throws -> BondIntent {
        let purpose: String = row["purpose"]
        let device: String? = row["device"]
        guard let address = try address(row, "bondIntent"), let purpose = BondIntent.Purpose(rawValue: purpose) else {
            throw Damage(description: "bondIntent: purpose \(purpose) is not valid")
        }
        let trace: String? = row["trace"]
        return BondIntent(
            address: address, device: device.map { RadioDeviceID($0) }, purpose: purpose,
            trace: try trace.map { try JSONDecoder().decode(BondIntent.Trace.self, from: Data($0.utf8)) })
    }

    private static func address(_ row: Row, _ what: String) throws -> BluetoothAddress? {
        guard let text: String = row["address"] else { return nil }
        let kind: String = row["addressKind"] ?? ""
        guard let kind = BluetoothAddress.Kind(rawValue: kind), let address = BluetoothAddress(text, kind: kind) else {
            throw Damage(description: "\(what): address \(text) is not valid")
        }
        return address
    }

    // MARK: Writing

    static func put(_ accessory: Accessory, in database: Database) throws {
        let descriptor = String(decoding: try JSONEncoder().encode(StoredDescriptor(accessory.descriptor)), as: UTF8.self)
        // An upsert: REPLACE would delete the row first, and grants refer to it.
        try database.execute(
            sql: """
                INSERT INTO accessory VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET displayName = excluded.displayName, address = excluded.address,
                    addressKind = excluded.addressKind, isBonded = excluded.isBonded, descriptor = excluded.descriptor,
                    image = excluded.image, ssid = excluded.ssid, created = excluded.created,
                    classicAddress = excluded.classicAddress, awareDevice = excluded.awareDevice
                """,
            arguments: [
                accessory.id.rawValue, accessory.displayName, accessory.address?.description, accessory.address?.kind.rawValue,
                accessory.isBonded, descriptor, accessory.image.map { Data($0.bytes) }, accessory.ssid.map { Data($0.bytes) },
                accessory.created, accessory.classicAddress?.description,
                accessory.awareDevice.map { Int64(bitPattern: $0) },
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

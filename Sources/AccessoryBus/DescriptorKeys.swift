// SPDX-License-Identifier: Apache-2.0
// The keys of a descriptor (Docs/Interfaces/Session.md), a row for each: how it is read and how it is written, beside
// each other. A new key is a row here; Docs/Contributing.md lists the other files.

public import AccessoryModel
public import DBusKit

extension DiscoveryDescriptor {
    /// The descriptor with the session API's keys, `a{sv}`.
    public var wire: DBusValue { .vardict(DescriptorKeys.encode(self)) }
}

enum DescriptorKeys {
    /// One key, or two that belong together.
    private struct Row: Sendable {
        let read: @Sendable (inout KeyedValues, inout DiscoveryDescriptor) throws(BusError) -> Void
        let write: @Sendable (DiscoveryDescriptor) -> [String: DBusValue?]

        init(
            _ read: @escaping @Sendable (inout KeyedValues, inout DiscoveryDescriptor) throws(BusError) -> Void,
            _ write: @escaping @Sendable (DiscoveryDescriptor) -> [String: DBusValue?]
        ) {
            self.read = read
            self.write = write
        }
    }

    /// - Throws: `InvalidRequest` for a wrong type, or a value that no descriptor can have.
    static func decode(_ keys: inout KeyedValues) throws(BusError) -> DiscoveryDescriptor {
        var descriptor = DiscoveryDescriptor()
        for row in rows { try row.read(&keys, &descriptor) }
        return descriptor
    }

    /// The keys that are set.
    static func encode(_ descriptor: DiscoveryDescriptor) -> [String: DBusValue] {
        var values: [String: DBusValue] = [:]
        for row in rows {
            for (key, value) in row.write(descriptor) { values[key] = value }
        }
        return values
    }

    private static let rows: [Row] =
        [
            Row(
                { keys, descriptor throws(BusError) in
                    descriptor.companyIdentifier = try keys.number("bluetoothCompanyIdentifier", UInt16.self, "q")
                        .map { CompanyIdentifier($0) }
                }, { ["bluetoothCompanyIdentifier": $0.companyIdentifier.map { .uint16($0.value) }] }),
            Row(
                { keys, descriptor throws(BusError) in
                    guard let text = try keys.string("bluetoothServiceUUID") else { return }
                    guard let uuid = BluetoothUUID(text) else {
                        throw .invalid(keys.name("bluetoothServiceUUID"), text, "not a UUID of 16, 32 or 128 bits")
                    }
                    descriptor.serviceUUID = uuid
                }, { ["bluetoothServiceUUID": $0.serviceUUID.map { .string($0.description) }] }),
            Row(
                { keys, descriptor throws(BusError) in
                    descriptor.manufacturerData = try maskedData(&keys, "bluetoothManufacturerData")
                }, { maskedData($0.manufacturerData, "bluetoothManufacturerData") }),
            Row(
                { keys, descriptor throws(BusError) in
                    descriptor.serviceData = try maskedData(&keys, "bluetoothServiceData")
                }, { maskedData($0.serviceData, "bluetoothServiceData") }),
            Row(
                { keys, descriptor throws(BusError) in descriptor.nameSubstring = try keys.string("bluetoothNameSubstring") },
                { ["bluetoothNameSubstring": $0.nameSubstring.map { .string($0) }] }),
            Row(
                { keys, descriptor throws(BusError) in
                    descriptor.nameCompareOptions = try keys.options(
                        "bluetoothNameSubstringCompareOptions", CompareOptions.names)
                }, { ["bluetoothNameSubstringCompareOptions": words($0.nameCompareOptions, CompareOptions.names)] }),
            Row(
                { keys, descriptor throws(BusError) in
                    descriptor.range = try keys.word("bluetoothRange", [.default, .immediate]) ?? .default
                }, { ["bluetoothRange": $0.range == .default ? nil : .string($0.range.rawValue)] }),
            Row(
                { keys, descriptor throws(BusError) in descriptor.ssid = try keys.bytesOrText("ssid") },
                { ["ssid": $0.ssid.map { .bytes($0) }] }),
            Row(
                { keys, descriptor throws(BusError) in descriptor.ssidPrefix = try keys.bytesOrText("ssidPrefix") },
                { ["ssidPrefix": $0.ssidPrefix.map { .bytes($0) }] }),
            Row(
                { keys, descriptor throws(BusError) in
                    descriptor.supportedOptions = try keys.options("supportedOptions", SupportOptions.names)
                }, { ["supportedOptions": words($0.supportedOptions, SupportOptions.names)] }),
            Row(
                { keys, descriptor throws(BusError) in
                    var aware = WiFiAware()
                    aware.serviceName = try keys.string("wifiAwareServiceName")
                    aware.serviceRole = try keys.word("wifiAwareServiceRole", [.subscriber, .publisher])
                    aware.modelName = try match(&keys, "wifiAwareModelNameMatch")
                    aware.vendorName = try match(&keys, "wifiAwareVendorNameMatch")
                    descriptor.wifiAware = aware == WiFiAware() ? nil : aware
                },
                {
                    [
                        "wifiAwareServiceName": ($0.wifiAware?.serviceName).map { .string($0) },
                        "wifiAwareServiceRole": ($0.wifiAware?.serviceRole).map { .string($0.rawValue) },
                        "wifiAwareModelNameMatch": ($0.wifiAware?.modelName).map(match),
                        "wifiAwareVendorNameMatch": ($0.wifiAware?.vendorName).map(match),
                    ]
                }),
        ]

    // MARK: Blob and mask

    private static func maskedData(_ keys: inout KeyedValues, _ prefix: String) throws(BusError) -> MaskedData? {
        let blob = try keys.bytes(prefix + "Blob")
        let mask = try keys.bytes(prefix + "Mask")
        guard blob != nil || mask != nil else { return nil }
        guard let blob else { throw .invalid(keys.name(prefix + "Mask"), Hex.text(mask ?? []), "needs \(prefix)Blob") }
        guard let mask else { throw .invalid(keys.name(prefix + "Blob"), Hex.text(blob), "needs \(prefix)Mask") }
        do {
            return try MaskedData(blob: blob, mask: mask)
        } catch {
            switch error {
            case .empty: throw .invalid(keys.name(prefix + "Blob"), "[]", "is empty")
            case .lengthsDiffer:
                throw .invalid(keys.name(prefix + "Mask"), "\(mask.count) bytes", "the blob has \(blob.count) bytes")
            case .blobBitOutsideMask(let index):
                throw .invalid(
                    keys.name(prefix + "Blob"), Hex.text(blob), "byte \(index) has a bit outside the mask and can never match")
            }
        }
    }

    private static func maskedData(_ data: MaskedData?, _ prefix: String) -> [String: DBusValue?] {
        [prefix + "Blob": data.map { .bytes($0.blob) }, prefix + "Mask": data.map { .bytes($0.mask) }]
    }

    // MARK: Options and comparisons

    /// The names of the options that are set; nil for none.
    private static func words<Options: OptionSet>(_ options: Options, _ names: [(String, Options)]) -> DBusValue?
    where Options.Element == Options {
        let words = names.filter { options.contains($0.1) }.map(\.0)
        return words.isEmpty ? nil : .strings(words)
    }

    private static func match(_ keys: inout KeyedValues, _ key: String) throws(BusError) -> WiFiAware.Match? {
        guard let value = keys.take(key) else { return nil }
        guard let fields = value.structureValue, fields.count == 2, let text = fields[0].stringValue else {
            throw keys.wrongType(key, value, "(sas)")
        }
        var inner = try KeyedValues(.vardict(["options": fields[1]]), keys.name(key))
        return WiFiAware.Match(string: text, options: try inner.options("options", CompareOptions.names))
    }

    private static func match(_ match: WiFiAware.Match) -> DBusValue {
        .structure([.string(match.string), words(match.options, CompareOptions.names) ?? .strings([])])
    }
}

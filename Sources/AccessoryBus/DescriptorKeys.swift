// SPDX-License-Identifier: Apache-2.0
// The keys of a descriptor (Docs/Interfaces/Session.md), a row for each. A new key is a row here; Docs/Contributing.md
// lists the other files.

public import AccessoryModel
public import DBusKit

extension DiscoveryDescriptor {
    /// The descriptor with the session API's keys, `a{sv}`.
    public var wire: DBusValue { DescriptorKeys(self).wire }
    /// The same without its type.
    var keys: [String: DBusValue] { wire.vardictValue ?? [:] }
}

/// A descriptor as an app writes it: a service may be no UUID, and data may not fit its mask.
public struct DescriptorKeys: WireRequest, Hashable {
    /// All other traits; without service, data and access.
    public var traits = DiscoveryDescriptor()
    /// The word of `DiscoveryDescriptor.access`.
    public var access = DiscoveryDescriptor.Access.Word.full
    /// The characteristics of `listed`; empty for any other access.
    public var characteristics: [CharacteristicAccess] = []
    /// `DiscoveryDescriptor.serviceUUID`.
    public var serviceUUID: UUIDText?
    /// `DiscoveryDescriptor.manufacturerData`.
    public var manufacturerData = BlobAndMask()
    /// `DiscoveryDescriptor.serviceData`.
    public var serviceData = BlobAndMask()

    public init() {}
    public static let recordName = "descriptor"
    public static let table = WireTable<Self>(traitRows + dataRows)
    private static let traitRows: [WireTable<Self>.Field] = [
        .init("bluetoothCompanyIdentifier", \.traits.companyIdentifier, company),
        .init("bluetoothServiceUUID", \.serviceUUID, .uuid),
        .init("bluetoothNameSubstring", \.traits.name.substring, .text),
        .init("bluetoothNameSubstringCompareOptions", \.traits.name.options, .words),
        .init("bluetoothRange", \.traits.range, WireType.choice.leftOut(where: .default)),
        .init("access", \.access, WireType.choice.leftOut(where: .full)), .init("maxDevices", \.traits.maxDevices, .uint32),
        .init("characteristics", \.characteristics, .characteristics),
        .init("ssid", \.traits.ssid, .bytesOrText),
        .init("ssidPrefix", \.traits.ssidPrefix, .bytesOrText), .init("supportedOptions", \.traits.supportedOptions, .words),
        .init("wifiAwareServiceName", \.traits.aware.serviceName, .text),
        .init("wifiAwareServiceRole", \.traits.aware.serviceRole, .choice),
        .init("wifiAwareModelNameMatch", \.traits.aware.modelName, .match),
        .init("wifiAwareVendorNameMatch", \.traits.aware.vendorName, .match),
    ]
    private static let dataRows: [WireTable<Self>.Field] = [
        .init(manufacturer + "Blob", \.manufacturerData.blob, .bytes),
        .init(manufacturer + "Mask", \.manufacturerData.mask, .bytes),
        .init(service + "Blob", \.serviceData.blob, .bytes), .init(service + "Mask", \.serviceData.mask, .bytes),
    ]
    private static let company = WireType<UInt16>.unsigned("q", DBusValue.uint16).converted({ CompanyIdentifier($0) }, \.value)
    private static let manufacturer = "bluetoothManufacturerData"
    private static let service = "bluetoothServiceData"

    init(_ descriptor: DiscoveryDescriptor) {
        traits = descriptor
        (traits.serviceUUID, traits.manufacturerData, traits.serviceData, traits.access) = (nil, nil, nil, .full)
        access = descriptor.access.word
        characteristics = descriptor.access.list?.entries ?? []
        serviceUUID = descriptor.serviceUUID.map { UUIDText($0.description) }
        manufacturerData = BlobAndMask(blob: descriptor.manufacturerData?.blob, mask: descriptor.manufacturerData?.mask)
        serviceData = BlobAndMask(blob: descriptor.serviceData?.blob, mask: descriptor.serviceData?.mask)
    }

    public func checked() throws(WireProblem) -> DiscoveryDescriptor {
        var descriptor = traits
        descriptor.serviceUUID = serviceUUID?.value
        descriptor.manufacturerData = try manufacturerData.checked(Self.manufacturer)
        descriptor.serviceData = try serviceData.checked(Self.service)
        descriptor.access = try checkedAccess()
        return descriptor
    }

    private func checkedAccess() throws(WireProblem) -> DiscoveryDescriptor.Access {
        if access != .listed, let first = characteristics.first {
            throw WireProblem(first, "needs access listed", at: "characteristics")
        }
        switch access {
        case .full: return .full
        case .read: return .read
        case .hear: return .hear
        case .listed:
            guard !characteristics.isEmpty else { throw WireProblem("listed", "needs characteristics", at: "access") }
            return .use(.listed(CharacteristicList(characteristics)))
        }
    }
}

/// The text of a UUID, or any other; equal to the same UUID in another form.
public struct UUIDText: Hashable, Sendable {
    /// As it was given.
    public let text: String
    let value: BluetoothUUID?

    /// Stores its argument.
    public init(_ text: String) {
        self.text = text
        value = BluetoothUUID(text)
    }

    public static func == (left: Self, right: Self) -> Bool { left.value == right.value }
    public func hash(into hasher: inout Hasher) { hasher.combine(value) }
}

/// `MaskedData` that may lack a part, or have parts that do not fit.
public struct BlobAndMask: Hashable, Sendable {
    /// `MaskedData.blob`.
    public var blob: [UInt8]?
    /// `MaskedData.mask`.
    public var mask: [UInt8]?

    fileprivate func checked(_ key: String) throws(WireProblem) -> MaskedData? {
        guard blob != nil || mask != nil else { return nil }
        guard let blob else { throw WireProblem(Hex.text(mask ?? []), "needs \(key)Blob", at: key + "Mask") }
        guard let mask else { throw WireProblem(Hex.text(blob), "needs \(key)Mask", at: key + "Blob") }
        do {
            return try MaskedData(blob: blob, mask: mask)
        } catch {
            switch error {
            case .empty: throw WireProblem("[]", "is empty", at: key + "Blob")
            case .lengthsDiffer:
                throw WireProblem("\(mask.count) bytes", "the blob has \(blob.count) bytes", at: key + "Mask")
            case .blobBitOutsideMask(let index):
                throw WireProblem(
                    Hex.text(blob), "byte \(index) has a bit outside the mask and can never match", at: key + "Blob")
            }
        }
    }
}

extension WireType<UUIDText> {
    fileprivate static var uuid: Self {
        WireType<String>.text.refusing {
            BluetoothUUID($0) == nil ? WireProblem($0, "not a UUID of 16, 32 or 128 bits") : nil
        }.converted({ UUIDText($0).value == nil ? nil : UUIDText($0) }, \.text)
    }
}

extension WireType<[CharacteristicAccess]> {
    /// `a(ssuas)`: service, characteristic, instance with 0 for all, and uses; left out where it is empty.
    static var characteristics: Self {
        let uses = WireType<CharacteristicUses>.words
        @Sendable func read(_ entry: DBusValue) throws(WireProblem) -> CharacteristicAccess? {
            guard let fields = entry.structureValue, fields.count == 4, let service = fields[0].stringValue,
                let characteristic = fields[1].stringValue, let instance = fields[2].integerValue, fields[3].stringsValue != nil
            else { return nil }
            let uuids = try [service, characteristic].map { text throws(WireProblem) in
                try WireType<UUIDText>.uuid.read(.string(text)).value
            }
            guard let service = uuids[0], let characteristic = uuids[1] else { return nil }
            let range = Limits.characteristicInstance
            guard range.contains(instance) else {
                throw WireProblem(instance, "an instance must be \(range.lowerBound) to \(range.upperBound)")
            }
            let identity = CharacteristicIdentity(service: service, characteristic: characteristic, instance: instance)
            let uses = try uses.read(fields[3])
            guard !uses.isEmpty else { throw WireProblem(identity, "has no uses") }
            return CharacteristicAccess(identity, uses)
        }
        return WireType(
            "a(ssuas)", .texts,
            { entries in
                .array(
                    of: "(ssuas)",
                    entries.map { entry in
                        let identity = entry.identity
                        return .structure([
                            .string(identity.service.description), .string(identity.characteristic.description),
                            .uint32(UInt32(clamping: identity.instance)), .strings(entry.uses.words),
                        ])
                    })
            },
            { value in
                guard let entries = value.arrayValue else { return nil }
                let known = entries.compactMap { try? read($0) }
                return known.count == entries.count ? known : nil
            },
            refuse: { value in
                guard let entries = value.arrayValue else { return nil }
                guard entries.count <= Limits.characteristics else {
                    return WireProblem("\(entries.count) entries", "more than \(Limits.characteristics)")
                }
                for entry in entries { do throws(WireProblem) { _ = try read(entry) } catch { return error } }
                return nil
            }
        ).leftOut(where: [])
    }
}

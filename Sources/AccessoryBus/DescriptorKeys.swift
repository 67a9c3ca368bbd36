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
    /// All other traits; without service and data.
    public var traits = DiscoveryDescriptor()
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
        .init("bluetoothNameSubstring", \.traits.nameSubstring, .text),
        .init("bluetoothNameSubstringCompareOptions", \.traits.nameCompareOptions, .words),
        .init("bluetoothRange", \.traits.range, WireType.choice.leftOut(where: .default)),
        .init("access", \.traits.access, WireType.choice.leftOut(where: .full)), .init("maxDevices", \.traits.maxDevices, .uint32),
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
        (traits.serviceUUID, traits.manufacturerData, traits.serviceData) = (nil, nil, nil)
        serviceUUID = descriptor.serviceUUID.map { UUIDText($0.description) }
        manufacturerData = BlobAndMask(blob: descriptor.manufacturerData?.blob, mask: descriptor.manufacturerData?.mask)
        serviceData = BlobAndMask(blob: descriptor.serviceData?.blob, mask: descriptor.serviceData?.mask)
    }

    public func checked() throws(WireProblem) -> DiscoveryDescriptor {
        var descriptor = traits
        descriptor.serviceUUID = serviceUUID?.value
        descriptor.manufacturerData = try manufacturerData.checked(Self.manufacturer)
        descriptor.serviceData = try serviceData.checked(Self.service)
        return descriptor
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

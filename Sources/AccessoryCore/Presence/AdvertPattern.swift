// SPDX-License-Identifier: Apache-2.0
// The patterns by which a controller can recognize the adverts of observed accessories by itself. A pattern compares
// bytes from a fixed place in one field of an advert, and so is weaker than a descriptor.

public import AccessoryModel

/// Bytes at a place in an advert's field. (BlueZ, doc/org.bluez.AdvertisementMonitor.rst, `Patterns`)
public struct AdvertPattern: Hashable, Sendable, Comparable {
    /// The index in the field's data where the bytes begin.
    public let start: UInt8
    /// The field's type. (Assigned Numbers, 2.3)
    public let type: UInt8
    /// 1 to 31 bytes.
    public let content: [UInt8]

    /// Patterns that one monitor can have. (Linux, `HCI_MAX_ADV_MONITOR_NUM_PATTERNS`)
    public static let limit = 16

    private init(_ type: UInt8, _ content: [UInt8]) {
        start = 0
        self.type = type
        self.content = Array(content.prefix(31))
    }

    /// By type, then by bytes.
    public static func < (a: Self, b: Self) -> Bool {
        (a.type, a.start) != (b.type, b.start)
            ? (a.type, a.start) < (b.type, b.start) : a.content.lexicographicallyPrecedes(b.content)
    }

    /// The patterns of which each advert that matches a descriptor has one. Empty for a descriptor without Bluetooth.
    ///
    /// - Returns: also whether they miss no advert. A service may also be the second in its list, where no pattern
    ///   finds it.
    public static func patterns(of descriptor: DiscoveryDescriptor) -> (patterns: [AdvertPattern], areComplete: Bool) {
        if let company = descriptor.companyIdentifier {
            let bytes = littleEndian(UInt64(company.value), 2)
            return ([AdvertPattern(0xFF, bytes + exact(descriptor.manufacturerData))], true)
        }
        guard let service = descriptor.serviceUUID else { return ([], true) }
        let (bytes, lists, type) = fields(of: service)
        let data = AdvertPattern(type, bytes + exact(descriptor.serviceData))
        guard descriptor.serviceData == nil else { return ([data], true) }
        return (lists.map { AdvertPattern($0, bytes) } + [data], false)
    }

    /// The bytes before the first one that the mask does not count in full.
    private static func exact(_ data: MaskedData?) -> [UInt8] {
        guard let data else { return [] }
        return zip(data.blob, data.mask).prefix { $0.1 == 0xFF }.map(\.0)
    }

    private static func littleEndian(_ value: UInt64, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * UInt64($0))) }
    }

    /// A service as adverts write it, and the types of the fields that have it: lists, incomplete and complete, and
    /// service data.
    private static func fields(of service: BluetoothUUID) -> (bytes: [UInt8], lists: [UInt8], data: UInt8) {
        let short = service.high >> 32
        guard service == BluetoothUUID(short: UInt32(short)) else {
            return (littleEndian(service.low, 8) + littleEndian(service.high, 8), [0x06, 0x07], 0x21)
        }
        guard short > 0xFFFF else { return (littleEndian(short, 2), [0x02, 0x03], 0x16) }
        return (littleEndian(short, 4), [0x04, 0x05], 0x20)
    }
}

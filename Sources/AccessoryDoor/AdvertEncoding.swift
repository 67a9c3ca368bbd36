// SPDX-License-Identifier: Apache-2.0
// Adverts for clients. bluetoothd keeps the parts of an advert, not its bytes: they are put together again, so that a
// client's parser finds the same parts. (Core Specification Supplement, Part A)

internal import AccessoryModel
internal import BlueZInterfaces
internal import ESPHomeAPI

extension Properties<Device1> {
    /// Properties that come from adverts.
    static let advertised: Set<String> = Set(
        [Device1.rssi, .manufacturerData, .serviceData, .uuids, .name, .txPower, .advertisingFlags].map(\.name))

    /// The longest advert on the air (Core Specification 5.4, Vol 6, Part B, 2.3.4.9).
    private static let maxAdvertBytes = 1650

    /// The structures of an advert with the device's present parts. A part that fits no structure is left out.
    var advertisingData: [UInt8] {
        var data: [UInt8] = []
        func add(_ type: UInt8, _ bytes: [UInt8]) {
            guard !bytes.isEmpty, bytes.count < 255, data.count + bytes.count + 2 <= Self.maxAdvertBytes else { return }
            data += [UInt8(bytes.count + 1), type] + bytes
        }
        if let advertisingFlags { add(0x01, [advertisingFlags]) }
        let services = serviceUUIDs
        for (size, type) in [(2, 0x03), (4, 0x05), (16, 0x07)] as [(Int, UInt8)] {
            add(type, services.map(\.shortestBytes).filter { $0.count == size }.flatMap { $0 })
        }
        if let name { add(0x09, Array(name.utf8)) }
        if let txPower { add(0x0A, [UInt8(bitPattern: Int8(clamping: txPower))]) }
        for (uuid, bytes) in serviceData.sorted(by: { $0.key < $1.key }) {
            let uuid = uuid.shortestBytes
            add(uuid.count == 2 ? 0x16 : uuid.count == 4 ? 0x20 : 0x21, uuid + bytes)
        }
        for (company, bytes) in manufacturerData.sorted(by: { $0.key < $1.key }) {
            add(0xFF, [UInt8(company.value & 0xFF), UInt8(company.value >> 8)] + bytes)
        }
        return data
    }

    /// The advert by its parts; nil for a device that was not heard.
    var parsedAdvertisement: ServerMessage.ParsedAdvertisement? {
        guard let address, let rssi else { return nil }
        var advert = ServerMessage.ParsedAdvertisement(
            address: address.value, name: name ?? "", rssi: rssi, isRandom: address.kind == .random)
        advert.services = serviceUUIDs.map(\.description)
        advert.serviceData = serviceData.sorted { $0.key < $1.key }.map { .init(key: $0.key.description, data: $0.value) }
        advert.manufacturerData = manufacturerData.sorted { $0.key < $1.key }.map { .init(key: "0x\($0.key)", data: $0.value) }
        return advert
    }

    /// The advert as bytes; nil for a device that was not heard.
    var rawAdvertisement: ServerMessage.RawAdvertisement? {
        guard let address, let rssi else { return nil }
        return .init(address: address.value, rssi: rssi, isRandom: address.kind == .random, data: advertisingData)
    }
}

extension BluetoothUUID {
    /// 2, 4 or 16 bytes, the least significant first, as on the air.
    fileprivate var shortestBytes: [UInt8] {
        guard low == BluetoothUUID(short: 0).low, high & 0xFFFF_FFFF == 0x1000 else {
            return [low, high].flatMap { number in (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(8 * $0)) } }
        }
        let short = UInt32(high >> 32)
        return (0..<(short > 0xFFFF ? 4 : 2)).map { UInt8(truncatingIfNeeded: short >> UInt32(8 * $0)) }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Adverts made of bluetoothd's properties: the parser of another side finds the same parts. And the queue in which they
// wait.

@testable import AccessoryDoor
import AccessoryModel
import BlueZInterfaces
import BlueZObjects
import DBusKit
import ESPHomeAPI
import TestSupport
import Testing

private let path: ObjectPath = "/org/bluez/hci0/dev_1"

private func device(_ properties: [String: DBusValue]) -> Properties<Device1> {
    var tree = BlueZTree()
    tree.add(
        path, Device1.interface,
        ["Address": .string("C0:FF:EE:00:00:01"), "AddressType": .string("random")].merging(properties) { $1 })
    return tree.device(path)!
}

private func manufacturer(_ data: [UInt16: [UInt8]]) -> DBusValue {
    .dictionary(key: "q", value: "v", data.map { .init(.uint16($0), .variant(.bytes($1))) })
}

/// The parts of an advert, as a client's parser finds them.
private struct ParsedStructures: Equatable {
    var flags: UInt8?
    var services: Set<BluetoothUUID> = []
    var name: String?
    var txPower: Int8?
    var serviceData: [BluetoothUUID: [UInt8]] = [:]
    var manufacturerData: [UInt16: [UInt8]] = [:]

    init() {}

    /// Nil for bytes that are no structures, or with a type that comes twice where it may not.
    init?(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while let length = rest.popFirst() {
            guard length > 1, rest.count >= Int(length) else { return nil }
            let type = rest.removeFirst()
            let data = Array(rest.prefix(Int(length) - 1))
            rest = rest.dropFirst(Int(length) - 1)
            switch type {
            case 0x01 where flags == nil && data.count == 1: flags = data[0]
            case 0x03: guard add(data, 2) else { return nil }
            case 0x05: guard add(data, 4) else { return nil }
            case 0x07: guard add(data, 16) else { return nil }
            case 0x09 where name == nil: name = String(decoding: data, as: UTF8.self)
            case 0x0A where txPower == nil && data.count == 1: txPower = Int8(bitPattern: data[0])
            case 0x16, 0x20, 0x21:
                let size = type == 0x16 ? 2 : type == 0x20 ? 4 : 16
                guard data.count >= size, serviceData.updateValue(Array(data[size...]), forKey: Self.uuid(data[..<size])) == nil
                else { return nil }
            case 0xFF:
                guard data.count >= 2,
                    manufacturerData.updateValue(Array(data[2...]), forKey: UInt16(data[0]) | UInt16(data[1]) << 8) == nil
                else { return nil }
            default: return nil
            }
        }
    }

    private mutating func add(_ data: [UInt8], _ size: Int) -> Bool {
        guard data.count.isMultiple(of: size) else { return false }
        for start in stride(from: 0, to: data.count, by: size) {
            guard services.insert(Self.uuid(data[start..<start + size])).inserted else { return false }
        }
        return true
    }

    private static func uuid(_ bytes: ArraySlice<UInt8>) -> BluetoothUUID {
        let digits = bytes.reversed().map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        guard bytes.count == 16 else { return BluetoothUUID(digits)! }
        var text = digits
        for offset in [20, 16, 12, 8] { text.insert("-", at: text.index(text.startIndex, offsetBy: offset)) }
        return BluetoothUUID(text)!
    }
}

@Suite struct AdvertEncodingTests {
    private static let long = "e56a082e-c49b-47ca-a2ab-389127b8abe3"

    @Test func anAdvertWithEverything() {
        let data = device([
            "AdvertisingFlags": .bytes([6]), "UUIDs": .strings(["180F", Self.long, "12345678", "1800"]), "Name": .string("Würfel"),
            "TxPower": .int16(-8), "ServiceData": .vardict(["180F": .bytes([1, 2]), Self.long: .bytes([])]),
            "ManufacturerData": manufacturer([0x4C: [3], 0x0102: []]),
        ]).advertisingData
        let uuid: [UInt8] = [0xE3, 0xAB, 0xB8, 0x27, 0x91, 0x38, 0xAB, 0xA2, 0xCA, 0x47, 0x9B, 0xC4, 0x2E, 0x08, 0x6A, 0xE5]
        let expected: [[UInt8]] = [
            [2, 0x01, 6], [5, 0x03, 0x0F, 0x18, 0x00, 0x18], [5, 0x05, 0x78, 0x56, 0x34, 0x12], [17, 0x07] + uuid,
            [8, 0x09] + Array("Würfel".utf8), [2, 0x0A, 0xF8], [5, 0x16, 0x0F, 0x18, 1, 2], [17, 0x21] + uuid,
            [4, 0xFF, 0x4C, 0x00, 3], [3, 0xFF, 0x02, 0x01],
        ]
        #expect(data == expected.flatMap { $0 })
    }

    @Test func anAdvertOfNothing() {
        #expect(device([:]).advertisingData == [])
        #expect(device([:]).rawAdvertisement == nil && device([:]).parsedAdvertisement == nil, "it was not heard")
        #expect(
            device(["RSSI": .int16(-70)]).rawAdvertisement
                == .init(address: 0xC0FF_EE00_0001, rssi: -70, isRandom: true, data: []))
        #expect(device(["RSSI": .int16(-70), "AddressType": .string("public")]).rawAdvertisement?.isRandom == false)
        #expect(device(["RSSI": .int16(-70), "Address": .string("none")]).rawAdvertisement == nil)
        #expect(device(["AdvertisingFlags": .bytes([]), "Name": .string(""), "UUIDs": .strings(["none"])]).advertisingData == [])
    }

    /// A structure has at most 255 bytes with its type.
    @Test func partsThatFitNoStructure() {
        let longest = [UInt8](repeating: 9, count: 252)
        #expect(device(["ManufacturerData": manufacturer([1: longest])]).advertisingData == [255, 0xFF, 1, 0] + longest)
        #expect(device(["ManufacturerData": manufacturer([1: longest + [9], 2: [3]])]).advertisingData == [4, 0xFF, 2, 0, 3])
        let name = String(repeating: "n", count: 254)
        #expect(device(["Name": .string(name)]).advertisingData.count == 256)
        #expect(device(["Name": .string(name + "n")]).advertisingData == [])
        #expect(device(["TxPower": .int16(-4000)]).advertisingData == [2, 0x0A, 0x80])
        #expect(device(["TxPower": .int16(4000)]).advertisingData == [2, 0x0A, 0x7F])
    }

    @Test func anAdvertHasAtMost1650Bytes() {
        // Parts that fill it to the last byte: 6 of 256 bytes, one of 114.
        var data = Dictionary(uniqueKeysWithValues: (0..<6).map { (UInt16($0), [UInt8](repeating: 1, count: 252)) })
        data[6] = [UInt8](repeating: 1, count: 110)
        #expect(device(["ManufacturerData": manufacturer(data)]).advertisingData.count == 1650)
        data[6] = [UInt8](repeating: 1, count: 111)
        data[7] = [1]
        let encoded = device(["ManufacturerData": manufacturer(data)]).advertisingData
        #expect(encoded.count == 6 * 256 + 5 && ParsedStructures(encoded)?.manufacturerData[7] == [1], "a smaller part still fits")
    }

    @Test func everyPartIsFoundAgain() throws {
        var random = SeededGenerator(state: 4)
        for _ in 0..<2000 {
            var parts = ParsedStructures()
            var properties: [String: DBusValue] = [:]
            func bytes(_ limit: Int) -> [UInt8] {
                (0..<Int.random(in: 0...limit, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
            }
            func uuid() -> BluetoothUUID {
                switch Int.random(in: 0..<3, using: &random) {
                case 0: BluetoothUUID(short: UInt32.random(in: 0...0xFFFF, using: &random))
                case 1: BluetoothUUID(short: UInt32.random(in: 0x1_0000...UInt32.max, using: &random))
                default:
                    BluetoothUUID(high: .random(in: 0...(.max), using: &random), low: .random(in: 0...(.max), using: &random))
                }
            }
            if Bool.random(using: &random) {
                parts.flags = UInt8.random(in: 0...255, using: &random)
                properties["AdvertisingFlags"] = .bytes([parts.flags ?? 0])
            }
            parts.services = Set((0..<Int.random(in: 0...6, using: &random)).map { _ in uuid() })
            properties["UUIDs"] = .strings(parts.services.map(\.description))
            if Bool.random(using: &random) {
                parts.name = ["Die", "Würfel", "骰子", "D\u{202E}ie"].randomElement(using: &random)
                properties["Name"] = .string(parts.name ?? "")
            }
            if Bool.random(using: &random) {
                parts.txPower = Int8.random(in: -128...127, using: &random)
                properties["TxPower"] = .int16(Int16(parts.txPower ?? 0))
            }
            for _ in 0..<Int.random(in: 0...3, using: &random) { parts.serviceData[uuid()] = bytes(100) }
            properties["ServiceData"] = .vardict(
                Dictionary(uniqueKeysWithValues: parts.serviceData.map { ($0.key.description, .bytes($0.value)) }))
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                parts.manufacturerData[UInt16.random(in: 0...0xFFFF, using: &random)] = bytes(200)
            }
            properties["ManufacturerData"] = manufacturer(parts.manufacturerData)
            let data = device(properties).advertisingData
            #expect(ParsedStructures(data) == parts && data.count <= 1650)
        }
    }
}

@Suite struct AdvertQueueTests {
    private var queue = AdvertQueue()

    private func path(_ number: Int) -> ObjectPath { ObjectPath("/org/bluez/hci0/dev_\(number)")! }

    private mutating func add(_ number: Int, _ name: String, rssi: Int16 = -50) {
        queue.add(device(["RSSI": .int16(rssi), "Name": .string(name)]), of: path(number))
    }

    private mutating func take() -> [String] { queue.takeAll().map { "\($0.name ?? "") \($0.rssi ?? 0)" } }

    @Test mutating func strengthsReplaceEachOther() {
        add(1, "a", rssi: -50)
        add(2, "b", rssi: -60)
        add(1, "a", rssi: -55)
        #expect(take() == ["a -55", "b -60"])
        #expect(queue.isEmpty && take() == [])
    }

    @Test mutating func contentsInTurnAreAllHeard() {
        for name in ["a", "b", "a", "a", "b"] { add(1, name) }
        #expect(take() == ["a -50", "b -50", "a -50", "b -50"])
    }

    @Test mutating func oneThatIsRemovedIsForgottenWhole() {
        add(1, "a")
        add(2, "b")
        add(1, "c")
        queue.remove(path(1))
        queue.remove(path(3))
        #expect(!queue.isEmpty)
        add(2, "b", rssi: -40)
        add(1, "d")
        #expect(take() == ["b -40", "d -50"])
    }

    @Test mutating func pastTheLimitTheOldestGo() {
        for number in 0..<AdvertQueue.limit { add(number, "a\(number)") }
        add(0, "a0", rssi: -20)
        add(1000, "new")
        // Positions are right after the loss.
        add(200, "a200", rssi: -30)
        add(5, "a5", rssi: -30)
        let taken = take()
        #expect(taken.count == AdvertQueue.limit * 3 / 4 + 2 && taken.first == "a128 -50")
        #expect(taken.suffix(2) == ["new -50", "a5 -30"] && taken.contains("a200 -30") && !taken.contains("a200 -50"))
    }

    @Test mutating func theQueueIsBounded() {
        for number in 0..<5000 { add(number % 3000, "\(number % 7)") }
        let taken = take()
        #expect((AdvertQueue.limit / 2...AdvertQueue.limit).contains(taken.count) && taken.last == "\(4999 % 7) -50")
    }
}

// SPDX-License-Identifier: Apache-2.0
// Messages and their bytes. messages.json has the same messages with their fields by name; Tests/Clients/test_messages
// compares it with aioesphomeapi's own description, so that numbers of messages and fields are right on both sides.

@testable import ESPHomeAPI
import Foundation
import TestSupport
import Testing

/// messages.json.
private struct Messages: Decodable {
    struct Row: Decodable {
        let `case`: String
        let type: UInt16
        let bytes: String

        var body: [UInt8] {
            let digits = bytes.compactMap(\.hexDigitValue)
            return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
        }
    }

    let server: [Row]
    let client: [Row]

    static func read() throws -> Messages {
        let path = #filePath.replacing("MessageTests.swift", with: "messages.json")
        return try JSONDecoder().decode(Messages.self, from: Data(contentsOf: URL(fileURLWithPath: path)))
    }
}

private let dice: UInt64 = 0xC0FF_EE00_0001
private let last: UInt64 = 0xFFFF_FFFF_FFFF

private func uuid(_ short: UInt64) -> ServerMessage.UUID128 { .init(high: short << 32 | 0x1000, low: 0x8000_0080_5F9B_34FB) }

private let serverMessages: [String: ServerMessage] = [
    "hello": .hello(name: "gateway", serverInfo: "accessory-door 1.2.3"),
    "authenticated": .authenticated,
    "disconnect": .disconnect,
    "disconnected": .disconnected,
    "ping": .ping,
    "pong": .pong,
    "deviceInfo": .deviceInfo(.init(name: "gateway", address: "02:00:00:AA:BB:CC", version: "1.2.3")),
    "entitiesDone": .entitiesDone,
    "advertisement": .advertisement(advert),
    "an advertisement without anything": .advertisement(.init(address: 1, name: "", rssi: 127, isRandom: false)),
    "connected": .connection(address: dice, isConnected: true, mtu: 517, error: .none),
    "connection refused": .connection(address: last, isConnected: false, mtu: 0, error: .notConnected),
    "connection lost": .connection(address: dice, isConnected: false, mtu: 0, error: .terminatedByPeer),
    "services": .services(address: dice, services),
    "no services": .services(address: dice, []),
    "servicesDone": .servicesDone(address: dice),
    "read": .read(address: dice, handle: 18, [100]),
    "an empty value": .read(address: dice, handle: 18, []),
    "notified": .notified(address: dice, handle: 18, (0..<52).map { UInt8($0 * 5) }),
    "freeConnections": .freeConnections(free: 1, limit: 3, allocated: [dice, last]),
    "all connections free": .freeConnections(free: 3, limit: 3, allocated: []),
    "failed": .failed(address: dice, handle: 18, .error),
    "failed without a link": .failed(address: dice, handle: 0, .notConnected),
    "wrote": .wrote(address: dice, handle: 18),
    "notify": .notify(address: dice, handle: 0x1_0000),
    "paired": .paired(address: dice, isPaired: false, .notSupported),
    "unpaired": .unpaired(address: dice, hasWorked: true, .none),
    "clearedCache": .clearedCache(address: dice, hasWorked: true, .connectionCancelled),
    "rawAdvertisements": .rawAdvertisements([
        .init(address: dice, rssi: -50, isRandom: true, data: [2, 1, 6]),
        .init(address: last, rssi: -128, isRandom: false, data: [3, 0xFF, 0x4C, 0]),
        .init(address: 2, rssi: 0, isRandom: false, data: []),
    ]),
    "encryptionKeySet": .encryptionKeySet(hasWorked: false),
    "an idle scanner": .scanner(.idle, mode: .passive),
    "a running scanner": .scanner(.running, mode: .active),
    "connectionParameters": .connectionParameters(address: dice, .notSupported),
]

private let advert: ServerMessage.ParsedAdvertisement = {
    var advert = ServerMessage.ParsedAdvertisement(address: dice, name: "Würfel", rssi: -71, isRandom: true)
    advert.services = ["0000180f-0000-1000-8000-00805f9b34fb", ""]
    advert.serviceData = [.init(key: "0000180f-0000-1000-8000-00805f9b34fb", data: [1, 0, 255])]
    advert.manufacturerData = [.init(key: "0x004C", data: [16, 5]), .init(key: "0xFFFF", data: [])]
    return advert
}()

private let services: [ServerMessage.Service] = [
    .init(
        uuid: uuid(0x180F), handle: 16,
        characteristics: [
            .init(
                uuid: uuid(0x2A19), handle: 18, properties: 0xBA,
                descriptors: [
                    .init(uuid: uuid(0x2902), handle: 19), .init(uuid: .init(high: 0, low: 0), handle: 0xFFFF),
                ]), .init(uuid: .init(high: .max, low: 1), handle: 300, properties: 0, descriptors: []),
        ]), .init(uuid: .init(high: 1, low: 0), handle: 400, characteristics: []),
]

private let clientRequests: [String: ClientRequest] = [
    "hello": .hello(clientInfo: "Home Assistant 2026.1"),
    "authentication": .authentication,
    "disconnect": .disconnect,
    "disconnected": .disconnected,
    "ping": .ping,
    "pong": .pong,
    "deviceInfo": .deviceInfo,
    "listEntities": .listEntities,
    "subscribe to raw adverts": .subscribeAdvertisements(isRaw: true),
    "subscribe to parsed adverts": .subscribeAdvertisements(isRaw: false),
    "connect": .device(address: dice, .connect),
    "connect with cache": .device(address: dice, .connect),
    "connect without cache": .device(address: last, .connect),
    "disconnect a device": .device(address: dice, .disconnect),
    "pair": .device(address: dice, .pair),
    "unpair": .device(address: dice, .unpair),
    "clearCache": .device(address: dice, .clearCache),
    "getServices": .getServices(address: dice),
    "read": .read(address: dice, handle: 18),
    "write": .write(address: dice, handle: 18, needsResponse: true, [1, 2, 3]),
    "write without response": .write(address: dice, handle: 18, needsResponse: false, [UInt8](repeating: 7, count: 200)),
    "readDescriptor": .readDescriptor(address: dice, handle: 19),
    "writeDescriptor": .writeDescriptor(address: dice, handle: 19, [1, 0]),
    "notify": .notify(address: dice, handle: 18, isEnabled: true),
    "notify no more": .notify(address: dice, handle: 18, isEnabled: false),
    "subscribeFreeConnections": .subscribeFreeConnections,
    "unsubscribeAdvertisements": .unsubscribeAdvertisements,
    "setEncryptionKey": .setEncryptionKey,
    "search passively": .setScannerMode(.passive),
    "search actively": .setScannerMode(.active),
    "setConnectionParameters": .setConnectionParameters(address: dice),
    "a message of other devices": .other(type: 33),
]

@Suite struct ServerMessageTests {
    @Test func messagesHaveTheBytesOfTheFile() throws {
        let rows = try Messages.read().server
        #expect(Set(rows.map(\.case)) == Set(serverMessages.keys) && rows.count == serverMessages.count)
        for row in rows {
            let message = try #require(serverMessages[row.case])
            #expect(message.type == row.type && message.body == row.body, "\(row.case)")
        }
    }

    @Test func noMessageIsMissing() {
        let types: [UInt16] = [
            2, 4, 5, 6, 7, 8, 10, 19, 67, 69, 71, 72, 74, 79, 81, 82, 83, 84, 85, 86, 88, 93, 125, 126, 146,
        ]
        #expect(Set(serverMessages.values.map(\.type)) == Set(types))
    }

    /// bluetoothd gives a strength of 16 bits.
    @Test(arguments: [-32_768, -129, -1, 0, 127, 32_767]) func strengthsBeyondThoseOfTheAir(_ rssi: Int) throws {
        let body = ServerMessage.rawAdvertisements([.init(address: 1, rssi: rssi, isRandom: false, data: [])]).body
        let written = try ProtobufReader(ProtobufReader(body[...]).bytes(1)[...]).number(2)
        #expect(Int(written >> 1) ^ -Int(written & 1) == rssi)
    }
}

@Suite struct ClientRequestTests {
    @Test func bytesOfTheFileAreTheRequests() throws {
        let rows = try Messages.read().client
        #expect(Set(rows.map(\.case)) == Set(clientRequests.keys) && rows.count == clientRequests.count)
        for row in rows { #expect(ClientRequest(type: row.type, row.body[...]) == clientRequests[row.case], "\(row.case)") }
    }

    /// A message without fields has its defaults.
    @Test func everyMessageWithoutFields() {
        for type in UInt16(0)...300 { #expect(ClientRequest(type: type, []) != nil, "\(type)") }
        #expect(ClientRequest(type: 68, []) == .device(address: 0, .connect))
        #expect(ClientRequest(type: 75, []) == .write(address: 0, handle: 0, needsResponse: false, []))
        #expect(ClientRequest(type: 1, []) == .hello(clientInfo: ""))
        #expect(ClientRequest(type: 0xFFFF, []) == .other(type: 0xFFFF))
    }

    @Test func aMalformedMessageIsNoneOfAnyType() {
        for type in UInt16(0)...300 { #expect(ClientRequest(type: type, [0x08]) == nil, "\(type)") }
    }

    /// Newer clients send more.
    @Test func fieldsThatNoneKnowsChangeNothing() throws {
        let more: [UInt8] = [0xC2, 0x3E, 0x02, 9, 9, 0xC8, 0x3E, 0x07, 0xD5, 0x3E, 1, 2, 3, 4]
        for row in try Messages.read().client {
            #expect(ClientRequest(type: row.type, (row.body + more)[...]) == clientRequests[row.case], "\(row.case)")
            #expect(ClientRequest(type: row.type, (more + row.body)[...]) == clientRequests[row.case], "\(row.case)")
        }
    }

    @Test func numbersBeyondTheirEnumerations() {
        #expect(ClientRequest(type: 68, [0x10, 0x07]) == .device(address: 0, .other(7)))
        #expect(
            ClientRequest(type: 68, [0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01])
                == .device(address: 0, .other(.max)))
        #expect(ClientRequest(type: 127, [0x08, 0x02]) == .setScannerMode(.passive))
        // Other flags of the subscription, which may come.
        #expect(ClientRequest(type: 66, [0x08, 0x02]) == .subscribeAdvertisements(isRaw: false))
        #expect(ClientRequest(type: 66, [0x08, 0x03]) == .subscribeAdvertisements(isRaw: true))
    }

    /// No truncation of a good message is taken for another message with more than it says.
    @Test func truncatedMessages() throws {
        for row in try Messages.read().client {
            for count in 0..<row.body.count {
                let request = ClientRequest(type: row.type, row.body[..<count])
                guard case .write(let address, let handle, _, let value)? = request else { continue }
                #expect([0, dice].contains(address) && [0, 18].contains(handle) && value.isEmpty)
            }
        }
    }
}

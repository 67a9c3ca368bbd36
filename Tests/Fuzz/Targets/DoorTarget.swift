// SPDX-License-Identifier: Apache-2.0
// The bytes of a client of the door. A stranger's go into the channel: without the key no byte becomes a request. Those
// of a client with the key go through encryption into a session with a small tree, whose objects, calls and timers are
// at the word of the input. A request has at most one answer, a call is for an object that exists, links and calls are
// bounded, and the client reads each message as it was meant.

import AccessoryModel
import BlueZInterfaces
import BlueZObjects
import DBusKit
import ESPHomeAPI
import NoiseProtocol
import TestSupport

@testable import AccessoryDoor

private let keyBytes = [UInt8](repeating: 7, count: 32)
private let key = PreSharedKey(base64: "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=")!
private let keyID = KeyID(app: "com.example.dice", fingerprint: key.fingerprint)
private let firstAddress: UInt64 = 0xC0FF_EE00_0001
private let secondDevice: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_02"
private let adapters: [ObjectPath] = ["/org/bluez/hci0", "/org/bluez/hci1"]
private let maxLinks = 2

/// The numbers of a Bluetooth proxy's requests.
private let requestTypes: [UInt16] = [
    68, 70, 73, 75, 76, 77, 78, 80, 66, 87, 127, 145, 124, 1, 3, 5, 6, 7, 8, 9, 11, 33,
]

func talkToDoor(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    if input.oneIn(3) {
        talkWithoutKey(&input)
    } else {
        var client = KeyedClient()
        for _ in 0..<64 where !input.isAtEnd && !client.hasEnded { client.step(&input) }
        client.finish()
    }
}

// MARK: - Without the key

private func talkWithoutKey(_ input: inout Input) {
    var channel = SecureChannel(name: "gateway", address: "02:00:00:AA:BB:CC")
    let others = (key: NoiseClient(key: [UInt8](repeating: 8, count: 32)), hello: input.oneIn(2))
    // The beginning of a client with another key, or none.
    var rest = others.hello ? [1, 0, 0] + FrameReader.frame([0] + others.key.handshake) : []
    rest += input.everything()
    var ends = 0
    var sent = 0
    while !rest.isEmpty {
        let count = min(rest.count, 1 + Int(rest[0]) % 97)
        for output in channel.receive(rest[..<count], keys: { [(keyID, key)] }) {
            expect(ends == 0, "something follows the end")
            switch output {
            case .send(let frame): sent += frame.count
            case .greeted, .request: found("a stranger is taken for a client: \(output)")
            case .end: ends += 1
            }
        }
        expect(channel.bytes(of: .ping).isEmpty, "a message to a stranger")
        rest.removeFirst(count)
    }
    expect(sent < 256, "\(sent) bytes for a stranger")
}

// MARK: - With the key

private struct KeyedClient {
    private var channel = SecureChannel(name: "gateway", address: "02:00:00:AA:BB:CC")
    private var noise = NoiseClient(key: keyBytes)
    private var session = ProxySession(
        .init(info: .init(name: "gateway", address: "02:00:00:AA:BB:CC", version: "1"), maxLinks: maxLinks))
    private var tree = BlueZTree()
    private var calls: [ProxySession.CallID: ProxySession.Call] = [:]
    private var timers: Set<ProxySession.Timer> = []
    /// Requests without an answer, by address and handle; 0 stands for the services.
    private var asked: [[UInt64]: Int] = [:]
    private(set) var hasEnded = false

    init() {
        tree.load(bluezObjects[0])
        add(secondDevice, Device1.interface, ["Address": .string("C0:FF:EE:00:00:02"), "RSSI": .int16(-60)])
        _ = channel.receive([1, 0, 0], keys: { [] })
        let outputs = channel.receive(FrameReader.frame([0] + noise.handshake), keys: { [(keyID, key)] })
        guard case .send(let frame)? = outputs.first, outputs.last == .greeted(keyID), noise.finish(Array(frame.dropFirst(4)))
        else {
            found("a client with the key is refused")
        }
    }

    private mutating func add(_ path: ObjectPath, _ interface: String, _ properties: [String: DBusValue]) {
        tree.add(path, .dictionary(key: "s", value: "a{sv}", [.init(.string(interface), .vardict(properties))]))
    }

    // MARK: Events

    mutating func step(_ input: inout Input) {
        switch input.byte() % 16 {
        case 0...6: request(&input)
        case 7...9: answer(&input)
        case 10:
            guard let timer = timers.sorted(by: { $0.delay < $1.delay }).first else { return }
            timers.remove(timer)
            handle(timer == .retryScan ? .retryScan : .flush(isCongested: input.oneIn(4)))
        case 11:
            let path = input.pick(adapters)
            if input.oneIn(4) {
                tree.remove(path, [Adapter1.interface])
            } else {
                add(path, Adapter1.interface, ["Powered": .boolean(!input.oneIn(3))])
            }
            handle(.stateChanged)
        case 12:
            if input.oneIn(2) { tree = BlueZTree() } else { tree.load(bluezObjects[0]) }
            handle(input.oneIn(2) ? .objects(.loaded) : .stateChanged)
        case 13: attribute(&input)
        default: change(input.oneIn(2) ? secondDevice : device, &input)
        }
    }

    private mutating func change(_ path: ObjectPath, _ input: inout Input) {
        if input.oneIn(6) {
            tree.remove(path, [Device1.interface])
            return handle(.objects(.device(path, changed: ["Connected"])))
        }
        if !tree.has(path, Device1.interface) { add(path, Device1.interface, ["Address": .string("C0:FF:EE:00:00:02")]) }
        var properties: [String: DBusValue] = [:]
        for _ in 0..<1 + input.number(below: 4) {
            let (name, type) = input.pick(bluezWords.keys)
            properties[name] = input.oneIn(8) ? input.anyValue(bluezWords) : input.value(type, bluezWords)
        }
        tree.change(path, Device1.interface, properties, invalidated: input.oneIn(8) ? ["RSSI"] : [])
        handle(.objects(.device(path, changed: Set(properties.keys))))
    }

    private mutating func attribute(_ input: inout Input) {
        let interface = input.pick([GattService1.interface, GattCharacteristic1.interface, GattDescriptor1.interface])
        let path = input.path(bluezWords)
        switch input.byte() % 4 {
        case 0: handle(.objects(.value(path, input.bytes())))
        case 1:
            tree.remove(path, [interface])
            handle(.objects(.attribute(path, isGone: true)))
        default:
            add(path, interface, ["UUID": .string(input.pick(["2902", "2a19", "no UUID"])), "Flags": .strings(["notify"])])
            handle(.objects(.attribute(path, isGone: false)))
        }
    }

    private mutating func answer(_ input: inout Input) {
        let waiting = calls.keys.sorted()
        guard !waiting.isEmpty else { return }
        let id = input.pick(waiting)
        let member = calls[id]?.member ?? ""
        calls[id] = nil
        if input.oneIn(3) {
            return handle(.answered(id, .failure(BusError(name: input.pick(errors), message: input.text()))))
        }
        handle(
            .answered(
                id, .success(input.oneIn(6) ? [input.anyValue(bluezWords)] : member == "ReadValue" ? [.bytes(input.bytes())] : [])))
    }

    private mutating func request(_ input: inout Input) {
        let type = input.oneIn(16) ? UInt16(truncatingIfNeeded: input.uint64()) : input.pick(requestTypes)
        let body = input.oneIn(8) ? input.bytes() : fields(&input)
        let header = [UInt8(type >> 8), UInt8(type & 0xFF), 0, 0]
        let outputs = channel.receive(FrameReader.frame(noise.encrypt(header + body)), keys: { [] })
        expect(outputs.count == 1, "\(outputs.count) results of one message")
        for output in outputs {
            switch output {
            case .send, .greeted: found("\(output) after the handshake")
            case .end: hasEnded = true
            case .request(let request):
                count(request)
                handle(.request(request))
            }
        }
    }

    /// A message's fields, mostly of the kinds that requests have.
    private func fields(_ input: inout Input) -> [UInt8] {
        var body: [UInt8] = []
        func varint(_ value: UInt64) {
            var value = value
            while value >= 0x80 {
                body.append(UInt8(truncatingIfNeeded: value) | 0x80)
                value >>= 7
            }
            body.append(UInt8(value))
        }
        varint(1 << 3)
        varint(input.oneIn(8) ? input.uint64() : firstAddress + UInt64(input.number(below: 2)))
        for field in 2..<2 + UInt64(input.number(below: 4)) {
            if input.oneIn(4) {
                let bytes = input.bytes()
                varint(field << 3 | 2)
                varint(UInt64(bytes.count))
                body += bytes
            } else {
                varint(field << 3)
                varint(input.oneIn(8) ? input.uint64() : UInt64(input.number(below: 16)))
            }
        }
        return body
    }

    // MARK: Effects

    private mutating func count(_ request: ClientRequest) {
        switch request {
        case .read(let address, let handle), .readDescriptor(let address, let handle), .write(let address, let handle, _, _),
            .writeDescriptor(let address, let handle, _), .notify(let address, let handle, _):
            asked[[address, UInt64(handle)], default: 0] += 1
        case .getServices(let address): asked[[address, 0], default: 0] += 1
        default: break
        }
    }

    private mutating func handle(_ event: ProxySession.Event) {
        for effect in session.handle(event, tree) { check(effect) }
        expect(session.links.count <= maxLinks, "\(session.links.count) links")
        expect(calls.count <= ProxySession.maxCalls + maxLinks + adapters.count, "\(calls.count) calls that wait")
        for link in session.links.values { expect(tree.has(link.path, Device1.interface), "a link to \(link.path), which is gone") }
        expect(session.adverts.isEmpty || timers.contains(.flush), "adverts that none sends")
        expect(!session.scans.values.contains(.failed) || timers.contains(.retryScan), "a search that none tries again")
    }

    private mutating func check(_ effect: ProxySession.Effect) {
        switch effect {
        case .end: hasEnded = true
        case .schedule(let timer): timers.insert(timer)
        case .flushNow: timers.insert(.flush)
        case .call(let id, let call):
            expect(calls.updateValue(call, forKey: id) == nil, "the number \(id) again")
            expect(tree.has(call.path, call.interface), "\(call.member) of \(call.path), which has no \(call.interface)")
        case .send(let message): check(message)
        }
    }

    private mutating func check(_ message: ServerMessage) {
        let frame = channel.bytes(of: message)
        let body = message.body
        guard body.count <= ServerMessage.maxBytes else { return expect(frame.isEmpty, "a message that is too long") }
        let read = noise.decrypt(Array(frame.dropFirst(3)))
        expect(
            read?.prefix(2) == [UInt8(message.type >> 8), UInt8(message.type & 0xFF)]
                && read?.dropFirst(4).elementsEqual(body) == true,
            "a message that the client cannot read")
        switch message {
        case .read(let address, let handle, _), .wrote(let address, let handle), .notify(let address, let handle),
            .failed(let address, let handle, _):
            answered(address, handle)
        case .servicesDone(let address): answered(address, 0)
        case .freeConnections(let free, let limit, let allocated):
            expect(limit == maxLinks && free + allocated.count == limit, "\(free) of \(limit) links are free, not \(allocated)")
        case .connection(let address, false, _, _) where session.links[address] == nil:
            // That answers all that the former link was asked.
            asked = asked.filter { $0.key[0] != address }
        case .rawAdvertisements(let adverts):
            for advert in adverts { expect(advert.data.count <= 1650, "an advert of \(advert.data.count) bytes") }
        default: break
        }
    }

    private mutating func answered(_ address: UInt64, _ handle: UInt32) {
        asked[[address, UInt64(handle)], default: 0] -= 1
        expect(asked[[address, UInt64(handle)], default: 0] >= 0, "a second answer about \(address).\(handle)")
    }

    /// bluetoothd answers everything, and ends: no link is left.
    mutating func finish() {
        // Nothing follows the end of a connection.
        guard !hasEnded else { return }
        for _ in 0..<8 {
            for id in calls.keys.sorted() {
                calls[id] = nil
                handle(.answered(id, .failure(BusError(name: "org.bluez.Error.Failed", message: ""))))
            }
        }
        tree = BlueZTree()
        handle(.stateChanged)
        expect(session.links.isEmpty && !session.isBusy, "\(session.links.count) links are left")
    }
}

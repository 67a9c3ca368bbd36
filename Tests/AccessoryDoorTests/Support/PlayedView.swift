// SPDX-License-Identifier: Apache-2.0
// A session with the view's objects in the test's hand. Effects are written down in words, so that a test is a table of
// events and effects.

@testable import AccessoryDoor
import AccessoryModel
import BlueZInterfaces
import BlueZObjects
import DBusKit
import ESPHomeAPI

/// The objects of org.bluez, and a client of the door.
struct PlayedView {
    static let adapter: ObjectPath = "/org/bluez/hci0"
    static let gateway = ProxySession.Gateway(
        info: .init(name: "gateway", address: "02:00:00:AA:BB:CC", version: "1.2.3"), maxLinks: 3)

    var tree = BlueZTree()
    var session: ProxySession
    /// Calls that are not answered.
    private(set) var calls: [ProxySession.CallID: ProxySession.Call] = [:]

    /// An adapter with power, and devices with these numbers as addresses.
    init(devices: [Int] = [1], maxLinks: Int = 3, isGreeted: Bool = true) {
        var gateway = Self.gateway
        gateway.maxLinks = maxLinks
        session = ProxySession(gateway)
        tree.add(Self.adapter, Adapter1.interface, ["Powered": .boolean(true)])
        for device in devices { addDevice(device) }
        if isGreeted { _ = handle(.request(.hello(clientInfo: "test"))) }
    }

    static func path(_ device: Int, on adapter: ObjectPath = adapter) -> ObjectPath {
        adapter / "dev_\(BluetoothAddress(value: UInt64(device), kind: .random).description.replacing(":", with: "_"))"
    }

    // MARK: Objects

    mutating func addDevice(_ device: Int, on adapter: ObjectPath = adapter, rssi: Int16? = -50) {
        var properties: [String: DBusValue] = [
            "Address": .string(BluetoothAddress(value: UInt64(device), kind: .random).description),
            "AddressType": .string("random"),
            "Connected": .boolean(false), "ServicesResolved": .boolean(false),
        ]
        if let rssi { properties["RSSI"] = .int16(rssi) }
        tree.add(Self.path(device, on: adapter), Device1.interface, properties)
    }

    /// A service (1) with a characteristic (2, its value 3) that has a configuration (4) and a description (5), and
    /// another (6, 7) without.
    mutating func addServices(of device: Int, mtu: UInt16 = 247) {
        let service = Self.path(device) / "service0001"
        tree.add(service, GattService1.interface, ["UUID": .string("180F"), "Primary": .boolean(true)])
        for (name, uuid, flags) in [
            ("char0002", "2A19", ["read", "write", "notify"]), ("char0006", "2A1A", ["write-without-response"]),
        ] {
            tree.add(
                service / name, GattCharacteristic1.interface,
                ["UUID": .string(uuid), "Flags": .strings(flags), "MTU": .uint16(mtu)])
        }
        for (name, uuid) in [("desc0004", "2902"), ("desc0005", "2901")] {
            tree.add(service / "char0002" / name, GattDescriptor1.interface, ["UUID": .string(uuid)])
        }
    }

    static func characteristic(_ device: Int, _ name: String = "char0002") -> ObjectPath { path(device) / "service0001" / name }

    mutating func remove(_ device: Int) -> [ProxySession.Effect] {
        let path = Self.path(device)
        for name in ["char0002/desc0004", "char0002/desc0005", "char0002", "char0006", ""] {
            let part = name.isEmpty ? path / "service0001" : ObjectPath("\(path)/service0001/\(name)")!
            tree.remove(part, [GattService1.interface, GattCharacteristic1.interface, GattDescriptor1.interface])
        }
        tree.remove(path, [Device1.interface])
        return handle(.objects(.device(path, changed: ["Connected"])))
    }

    mutating func change(_ device: Int, _ properties: [String: DBusValue]) -> [ProxySession.Effect] {
        tree.change(Self.path(device), Device1.interface, properties, invalidated: [])
        return handle(.objects(.device(Self.path(device), changed: Set(properties.keys))))
    }

    mutating func setPower(_ isPowered: Bool, _ adapter: ObjectPath = adapter) -> [ProxySession.Effect] {
        tree.change(adapter, Adapter1.interface, ["Powered": .boolean(isPowered)], invalidated: [])
        return handle(.stateChanged)
    }

    // MARK: Events

    mutating func handle(_ event: ProxySession.Event) -> [ProxySession.Effect] {
        if case .answered(let id, _) = event { calls[id] = nil }
        let effects = session.handle(event, tree)
        for case .call(let id, let call) in effects { calls[id] = call }
        return effects
    }

    mutating func request(_ request: ClientRequest) -> [ProxySession.Effect] { handle(.request(request)) }

    /// Answers the oldest waiting call of this member.
    mutating func answer(_ member: String, _ result: Result<[DBusValue], BusError> = .success([])) -> [ProxySession.Effect] {
        guard let id = calls.keys.sorted().first(where: { calls[$0]?.member == member }) else { return [] }
        return handle(.answered(id, result))
    }

    /// Brings the link with a device up, with services.
    mutating func connect(_ device: Int = 1) -> [ProxySession.Effect] {
        _ = request(.device(address: UInt64(device), .connect))
        addServices(of: device)
        tree.change(
            Self.path(device), Device1.interface, ["Connected": .boolean(true), "ServicesResolved": .boolean(true)], invalidated: []
        )
        return answer("Connect")
    }
}

extension BlueZTree {
    mutating func add(_ path: ObjectPath, _ interface: String, _ properties: [String: DBusValue]) {
        add(path, .dictionary(key: "s", value: "a{sv}", [.init(.string(interface), .vardict(properties))]))
    }
}

extension ObjectPath {
    /// A path below.
    static func / (path: ObjectPath, name: String) -> ObjectPath { path.appending(name)! }
}

extension [ProxySession.Effect] {
    /// The effects in words.
    var words: [String] { map(\.words) }
}

extension ProxySession.Effect {
    /// The effect in words: calls with their object's last part; addresses and handles as numbers.
    var words: String {
        switch self {
        case .call(_, let call): "\(call.member) \(call.path.rawValue.split(separator: "/").last ?? "")"
        case .schedule(let timer): "\(timer)"
        case .flushNow: "flush now"
        case .end: "end"
        case .send(let message): message.words
        }
    }
}

extension ServerMessage {
    fileprivate var words: String {
        switch self {
        case .connection(let address, true, let mtu, let error): "connected \(address), mtu \(mtu), \(error.rawValue)"
        case .connection(let address, false, _, let error): "not connected \(address): \(error.rawValue)"
        case .failed(let address, let handle, let error): "failed \(address).\(handle): \(error.rawValue)"
        case .read(let address, let handle, let value): "read \(address).\(handle) \(value)"
        case .notified(let address, let handle, let value): "notified \(address).\(handle) \(value)"
        case .wrote(let address, let handle): "wrote \(address).\(handle)"
        case .notify(let address, let handle): "notify \(address).\(handle)"
        case .services(let address, let services): "services \(address) \(services.map(\.handle))"
        case .servicesDone(let address): "services done \(address)"
        case .freeConnections(let free, let limit, let allocated): "free \(free)/\(limit) \(allocated)"
        case .scanner(let state, _): "scanner \(state)"
        case .rawAdvertisements(let adverts): "raw \(adverts.map(\.address))"
        case .advertisement(let advert): "parsed \(advert.address)"
        case .paired(_, let isPaired, let error): "paired \(isPaired): \(error.rawValue)"
        case .unpaired(_, let hasWorked, let error): "unpaired \(hasWorked): \(error.rawValue)"
        case .clearedCache(_, let hasWorked, let error): "cleared \(hasWorked): \(error.rawValue)"
        case .connectionParameters(_, let error): "parameters: \(error.rawValue)"
        default: String("\(self)".prefix { $0 != "(" })
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Messages of apps to the view's socket, from the first byte of authentication on, while org.bluez behind it signals
// and answers anything, and grants come and go. Nothing of an accessory that is not granted ever reaches a client.

import AccessoryModel
import BlueZView
import CallerIdentity
import Foundation
import Logging

@testable import DBusKit

private let log = Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }
/// The name of a device that no app has; it occurs nowhere else.
private let secret = "Nobody's Business"
private let hidden: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_99"

private let clientWords =
    bluezWords
    + Vocabulary(
        texts: [
            "type='signal'", "type='signal',sender='org.bluez'", "org.bluez", "org.freedesktop.DBus", ":view.1",
            "org.accessorysetup1", "org.bluez.Device1", "Connected", "Powered", "org.bluez.Adapter1",
            "type='signal',interface='org.freedesktop.DBus.Properties',path_namespace='/org/bluez/hci0'",
        ], paths: [hidden, Bus.path, "/org/accessorysetup1/view"],
        keys: [("offset", "q"), ("type", "s"), ("Transport", "s"), ("Pattern", "s"), ("DuplicateData", "b")])

/// Destination, interface, member, types of arguments, and whether it is of devices (2), characteristics (3), the
/// adapter (1) or something else.
private let clientCalls: [(String, String, String, String, Int)] = [
    ("org.freedesktop.DBus", "org.freedesktop.DBus", "AddMatch", "s", 0),
    ("org.freedesktop.DBus", "org.freedesktop.DBus", "RemoveMatch", "s", 0),
    ("org.freedesktop.DBus", "org.freedesktop.DBus", "GetNameOwner", "s", 0),
    ("org.freedesktop.DBus", "org.freedesktop.DBus", "NameHasOwner", "s", 0),
    ("org.freedesktop.DBus", "org.freedesktop.DBus", "RequestName", "su", 0),
    ("org.freedesktop.DBus", "org.freedesktop.DBus", "ListNames", "", 0),
    ("org.freedesktop.DBus", "org.freedesktop.DBus", "GetConnectionCredentials", "s", 0),
    ("org.freedesktop.DBus", "org.freedesktop.DBus", "StartServiceByName", "su", 0),
    ("org.bluez", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", "", 0),
    ("org.bluez", "org.freedesktop.DBus.Introspectable", "Introspect", "", 2),
    ("org.bluez", "org.freedesktop.DBus.Properties", "Get", "ss", 2),
    ("org.bluez", "org.freedesktop.DBus.Properties", "GetAll", "s", 2),
    ("org.bluez", "org.freedesktop.DBus.Properties", "Set", "ssv", 2),
    ("org.bluez", "org.freedesktop.DBus.Properties", "GetAll", "s", 1),
    ("org.bluez", "org.bluez.Adapter1", "StartDiscovery", "", 1),
    ("org.bluez", "org.bluez.Adapter1", "StopDiscovery", "", 1),
    ("org.bluez", "org.bluez.Adapter1", "SetDiscoveryFilter", "a{sv}", 1),
    ("org.bluez", "org.bluez.Adapter1", "RemoveDevice", "o", 1),
    ("org.bluez", "org.bluez.Device1", "Connect", "", 2), ("org.bluez", "org.bluez.Device1", "Disconnect", "", 2),
    ("org.bluez", "org.bluez.Device1", "Pair", "", 2),
    ("org.bluez", "org.bluez.GattCharacteristic1", "ReadValue", "a{sv}", 3),
    ("org.bluez", "org.bluez.GattCharacteristic1", "WriteValue", "aya{sv}", 3),
    ("org.bluez", "org.bluez.GattCharacteristic1", "StartNotify", "", 3),
    ("org.bluez", "org.bluez.GattCharacteristic1", "StopNotify", "", 3),
    ("org.bluez", "org.bluez.GattCharacteristic1", "AcquireWrite", "a{sv}", 3),
    ("org.bluez", "org.bluez.GattCharacteristic1", "AcquireNotify", "a{sv}", 3),
    ("org.accessorysetup1", "org.freedesktop.DBus.Properties", "Get", "ss", 4),
    ("org.accessorysetup1", "org.accessorysetup1.View", "ActFor", "ss", 4),
    ("org.accessorysetup1", "org.accessorysetup1.Manager", "CreateSession", "a{sv}", 5),
]

private final class Authority: ViewAuthority, ViewService {
    func clientConnects() {}
    var isGranted = true
    var isApp = true
    let name = "org.accessorysetup1"
    let viewXML = "<node/>"
    var adapter: ObjectPath? = "/org/bluez/hci0"

    func app(of caller: PinnedCaller) throws(IdentityFailure) -> ViewIdentity? {
        isApp ? ViewIdentity(app: AppID("com.example.dice")!, goesByExecutable: false) : nil
    }
    func devices(of app: AppID) -> [GrantedDevice] {
        isGranted
            ? [
                GrantedDevice(
                    accessory: AccessoryID("12345678-1234-1234-1234-123456789abc")!, name: "Dice",
                    paths: ["/org/bluez/hci0/dev_C0_FF_EE_00_00_01"])
            ] : []
    }
    func heard(by app: AppID) -> Set<ObjectPath>? { nil }
    func setListening(_ apps: Set<AppID>) {}
    func isInput(_ accessory: AccessoryID) -> Bool { false }
    func isLowEnergyOnly(_ accessory: AccessoryID) -> Bool { true }
    func used(_ accessory: AccessoryID, by app: AppID, _ caller: PinnedCaller, as what: String) {}
    func linkEndedAtOnce(_ accessory: AccessoryID) -> String? { nil }
    func refused(_ accessory: AccessoryID, to app: AppID, _ caller: PinnedCaller, why: String) {}
    func refused(_ caller: PinnedCaller?, why: String) {}
    func adopt(_ peer: Connection, _ caller: PinnedCaller) {}
    func receive(_ message: Message, from peer: Connection) {
        guard message.wantsReply, let path = message.path, let answer = message.errorReply(.unknownObject(path)) else { return }
        answer.setSender(name)
        peer.send(answer)
    }
    func dismiss(_ peer: Connection) {}
}

/// The world with one more device, which no app has.
private let objectsWithHidden: [DBusValue] = {
    guard case .dictionary(let key, let value, let entries) = bluezObjects[0] else { return bluezObjects }
    let device: [DBusValue.Entry] = [
        .init(
            .objectPath(hidden),
            .dictionary(
                key: "s", value: "a{sv}",
                [
                    .init(
                        .string("org.bluez.Device1"), .vardict(["Name": .string(secret), "Connected": .boolean(true)]))
                ]))
    ]
    return [.dictionary(key: key, value: value, entries + device)]
}()

/// A client's socket.
private final class Client {
    let socket: Int32
    var isOpen = true
    private var received: [UInt8] = []
    private var hasBegun = false
    private(set) var serial: UInt32 = 0

    init(_ path: String) { socket = connect(to: path) }
    deinit { close(socket) }

    func say(_ bytes: [UInt8]) {
        _ = bytes.withUnsafeBytes { send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)) }
    }

    func call(_ message: Message) {
        serial += 1
        guard let bytes = message.wireFormat(serial: serial), !message.signature.utf8.contains(UInt8(ascii: "h")) else { return }
        say(bytes)
    }

    /// Reads the received bytes, and looks into them.
    func hear() {
        received += receiveAll(socket, &isOpen)
        if !hasBegun {
            // Lines of authentication; the first message follows the last line.
            while let end = received.firstIndex(of: 10), received.first != UInt8(ascii: "l"), received.first != UInt8(ascii: "B") {
                received.removeSubrange(...end)
            }
            hasBegun = received.first == UInt8(ascii: "l") || received.first == UInt8(ascii: "B")
            guard hasBegun else { return }
        }
        expect(!contains(received, Array(secret.utf8)), "a client hears of an accessory that is nobody's")
        for message in messages(in: &received) where message.kind == .signal {
            let isHidden = message.path.map { $0 == hidden || $0.isBelow(hidden) } ?? false
            expect(!isHidden, "a client hears a signal of what is nobody's")
        }
    }
}

private func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool { Data(bytes).range(of: Data(part)) != nil }

func sendToView(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    let bus = PlayedBus.shared
    let loop = MainLoop()
    // Calls that still wait hold their connection until their time is over.
    defer { bus.reset(loop) }
    var service = PlayedService(bluezWords, owners: ["org.bluez": ":1.2"])
    service.types = bluezTypes
    service.usual = { $0.member == "GetManagedObjects" ? objectsWithHidden : bluezAnswer($0) }
    let authority = Authority()
    let path = scratch + "/view"
    var limits = ViewLimits()
    limits.user.matchRules = 8
    limits.user.callsInFlight = 8
    guard let connection = try? Connection(bus.address, loop: loop),
        let view = try? BlueZView(
            .path(path), on: connection, bus: bus.address, authority: authority, service: authority, limits: limits, log: log)
    else { found("no view") }
    settle(loop, &service)
    var clients = [Client(path)]
    if !input.oneIn(6) { begin(clients[0]) }
    for _ in 0..<24 where !input.isAtEnd {
        settle(loop, &service)
        for client in clients { client.hear() }
        clients.removeAll { !$0.isOpen }
        guard !clients.isEmpty else { break }
        step(&input, &clients, authority, view, &service)
    }
    settle(loop, &service)
    for client in clients { client.hear() }
    unlink(path)
    withExtendedLifetime(view) {}
}

private func begin(_ client: Client) {
    client.say([0] + Array("AUTH EXTERNAL \(Hex.text("\(getuid())".utf8))\r\nBEGIN\r\n".utf8))
    guard let hello = try? Message.call(to: Bus.name, path: Bus.path, interface: Bus.name, member: "Hello") else { return }
    client.call(hello)
}

private func step(
    _ input: inout Input, _ clients: inout [Client], _ authority: Authority, _ view: BlueZView, _ service: inout PlayedService
) {
    let client = input.pick(clients)
    switch input.byte() % 16 {
    case 0, 1: service.answerAll()
    case 2: service.answerOne(&input)
    case 3, 4:
        guard let line = PlayedBus.shared.lines.isEmpty ? nil : input.pick(PlayedBus.shared.lines) else { return }
        service.sendSignal(&input, on: line)
    case 5:
        switch input.byte() % 4 {
        case 0: authority.isGranted.toggle()
        case 1: authority.isApp.toggle()
        case 2: authority.adapter = input.pick(["/org/bluez/hci0", "/org/bluez/hci1", nil])
        default: break
        }
        view.updateScopes()
    case 6:
        if clients.count < 3 {
            let new = Client(scratch + "/view")
            clients.append(new)
            begin(new)
        } else {
            clients.removeAll { $0 === client }
        }
    case 7: client.say(input.bytes())
    case 8:
        client.say(
            Array(
                input.pick([
                    "AUTH\r\n", "AUTH ANONYMOUS\r\n", "AUTH EXTERNAL 30\r\n", "NEGOTIATE_UNIX_FD\r\n", "BEGIN\r\n", "CANCEL\r\n",
                    "ERROR\r\n", "DATA 30\r\n", "\0AUTH EXTERNAL 30\r\nBEGIN\r\n",
                ]).utf8))
    default: sendCall(&input, from: client)
    }
}

private func sendCall(_ input: inout Input, from client: Client) {
    let (destination, interface, member, types, kind) = input.pick(clientCalls)
    var path: ObjectPath =
        switch kind {
        case 1: "/org/bluez/hci0"
        case 2: device
        case 3: "/org/bluez/hci0/dev_C0_FF_EE_00_00_01/service000a/char000c"
        case 4: "/org/accessorysetup1/view"
        case 5: "/org/accessorysetup1"
        default: destination == Bus.name ? Bus.path : "/"
        }
    if input.oneIn(6) { path = input.path(clientWords) }
    guard
        let call = try? Message.call(
            to: input.oneIn(12) ? ":bluez.1" : destination, path: path, interface: interface, member: member,
            input.arguments(types, clientWords))
    else { return }
    if input.oneIn(10) { call.expectNoReply() }
    client.call(call)
}

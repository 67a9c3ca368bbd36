// SPDX-License-Identifier: Apache-2.0
// A view of the test's own on a private bus: for behaviour that the real one, with the simulator behind it, does not
// show or shows only in rare moments: values before the answer that allows them, odd errors, requests of others in the
// way, refusals.

import DBusKit
import Foundation
import TestSupport

/// The reaction to a call, in this order.
enum Step: Sendable {
    case answer([DBusValue])
    case fail(String, String)
    /// The characteristic sends a value.
    case value([UInt8])
    /// The characteristic reports the length of packets.
    case mtu(DBusValue)
    /// The services go, one after the other, and the link after that.
    case linkLost
    /// The services go, and the link stands.
    case servicesGone
}

/// Plays org.bluez with one device, and org.accessorysetup1's list of peripherals.
final class FakeView {
    static let identifier = UUID()
    static let device: ObjectPath = "/org/bluez/hci0/dev_C0"
    static let service: ObjectPath = "/org/bluez/hci0/dev_C0/service000a"
    static let characteristic: ObjectPath = "/org/bluez/hci0/dev_C0/service000a/char000c"

    private let bus: PrivateBus
    private let thread: LoopThread<FakeViewService>

    /// - Parameter play: gets a call's member and how often it was called before; nil for the usual answer.
    init(_ play: @escaping @Sendable (String, Int) -> [Step]?) async throws {
        bus = try PrivateBus()
        let started = Mailbox()
        thread = try LoopThread(name: "fake-view") { [address = bus.address] loop in
            let service = FakeViewService(loop, play)
            started.put((try? service.start(address)) != nil ? "started" : "failed")
            return service
        }
        try await started.wait("started")
    }

    var address: String { bus.address }

    /// The characteristic reports that no client has its descriptor for writing any more.
    func emitReleased() {
        thread.perform { $0.change(FakeView.characteristic, "GattCharacteristic1", ["WriteAcquired": .boolean(false)]) }
    }
}

/// Lives on the fake view's thread.
private final class FakeViewService {
    private let loop: MainLoop
    private let play: (String, Int) -> [Step]?
    private var connection: Connection?
    private var counts: [String: Int] = [:]

    init(_ loop: MainLoop, _ play: @escaping (String, Int) -> [Step]?) {
        self.loop = loop
        self.play = play
    }

    func start(_ address: String) throws {
        let connection = try Connection(.server(address), loop: loop)
        connection.onCall = { [unowned self] in serve($0) }
        self.connection = connection
        try connection.requestName("org.bluez")
        try connection.requestName("org.accessorysetup1")
    }

    private func serve(_ call: Message) -> Bool {
        let member = call.member ?? ""
        let count = counts[member, default: 0]
        counts[member] = count + 1
        var works = false
        for step in play(member, count) ?? usual(member) {
            switch step {
            case .answer(let values):
                works = true
                if let reply = try? call.reply(values) { connection?.send(reply) }
            case .fail(let name, let text):
                if let reply = call.errorReply(BusError(name: name, message: text)) { connection?.send(reply) }
            case .linkLost:
                removeServices()
                change(FakeView.device, "Device1", ["Connected": .boolean(false), "ServicesResolved": .boolean(false)])
            case .servicesGone: removeServices()
            case .mtu(let value): change(FakeView.characteristic, "GattCharacteristic1", ["MTU": value])
            case .value(let bytes): change(FakeView.characteristic, "GattCharacteristic1", ["Value": .bytes(bytes)])
            }
        }
        if member == "Connect", works {
            change(FakeView.device, "Device1", ["Connected": .boolean(true), "ServicesResolved": .boolean(true)])
        }
        return true
    }

    private func usual(_ member: String) -> [Step] {
        switch member {
        case "Get":
            let fields: [DBusValue] = [
                .string(FakeView.identifier.uuidString), .objectPath(FakeView.device), .string("Die"),
            ]
            return [.answer([.variant(.array(of: "(sos)", [.structure(fields)]))])]
        case "GetManagedObjects":
            return [
                .answer([
                    .dictionary(
                        key: "o", value: "a{sa{sv}}",
                        [
                            object("/org/bluez/hci0", "Adapter1", ["Powered": .boolean(true)]),
                            object(FakeView.device, "Device1", ["Connected": .boolean(false)]),
                            object(FakeView.service, "GattService1", ["UUID": .string("180f")]),
                            object(
                                FakeView.characteristic, "GattCharacteristic1",
                                ["UUID": .string("2a19"), "Flags": .strings(["read", "notify"]), "MTU": .uint16(185)]),
                        ])
                ])
            ]
        default: return [.answer([])]
        }
    }

    private func object(_ path: ObjectPath, _ interface: String, _ properties: [String: DBusValue]) -> DBusValue.Entry {
        .init(
            .objectPath(path),
            .dictionary(key: "s", value: "a{sv}", [.init(.string("org.bluez." + interface), .vardict(properties))]))
    }

    private func removeServices() {
        for (path, interface) in [
            (FakeView.characteristic, "GattCharacteristic1"), (FakeView.service, "GattService1"),
        ] {
            let arguments: [DBusValue] = [.objectPath(path), .strings(["org.bluez." + interface])]
            if let signal = try? Message.signal(
                path: "/", interface: Bus.objectManager, member: "InterfacesRemoved", arguments)
            {
                connection?.send(signal)
            }
        }
    }

    func change(_ path: ObjectPath, _ interface: String, _ changes: [String: DBusValue]) {
        let arguments: [DBusValue] = [.string("org.bluez." + interface), .vardict(changes), .strings([])]
        guard
            let signal = try? Message.signal(
                path: path, interface: Bus.properties, member: "PropertiesChanged", arguments)
        else { return }
        connection?.send(signal)
    }
}

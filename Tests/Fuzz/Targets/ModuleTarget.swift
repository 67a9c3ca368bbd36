// SPDX-License-Identifier: Apache-2.0
// A daemon's messages to the module for apps: sessions, events, properties and answers of any type, of an older daemon,
// a newer one, or none. Every completion handler is called once, and nothing comes after `invalidated`.

import Dispatch
import Foundation
import Synchronization

@testable import AccessorySetupKit
@testable import DBusKit

private let session: ObjectPath = "/org/accessorysetup1/session/1"
private let accessory: ObjectPath = "/org/accessorysetup1/accessory/12345678_1234_1234_1234_123456789abc"

private let moduleWords =
    sessionWords
    + Vocabulary(
        texts: [
            "activated", "invalidated", "accessoryAdded", "accessoryRemoved", "accessoryChanged", "accessoryDiscovered",
            "pickerDidPresent", "pickerDidDismiss", "pickerSetupBridging", "pickerSetupFailed", "pickerSetupPairing",
            "pickerSetupRename", "presenceChanged", "migrationComplete", "authorized", "awaitingAuthorization", "unauthorized",
            "org.accessorysetup1.Error.UserCancelled", "wlan0",
        ],
        interfaces: ["org.accessorysetup1.Accessory", "org.accessorysetup1.Network", "org.accessorysetup1.Session"],
        keys: [
            ("accessory", "o"), ("properties", "a{sv}"), ("picker", "o"), ("error", "s"), ("message", "s"), ("DisplayName", "s"),
            ("State", "s"), ("BluetoothIdentifier", "s"), ("BluetoothTransportBridgingIdentifier", "ay"), ("Ssid", "ay"),
            ("WiFiAwarePairedDeviceID", "t"), ("Descriptor", "a{sv}"), ("Device", "o"), ("Interface", "s"), ("Accessories", "ao"),
            ("advertisement", "a{sv}"), ("localName", "s"), ("serviceUUIDs", "as"), ("serviceData", "a{say}"),
            ("manufacturerData", "a{qay}"), ("txPower", "n"), ("rssi", "n"), ("networkRssi", "n"), ("security", "s"),
            ("band", "s"),
        ])

private func moduleAnswer(_ call: Message) -> [DBusValue]? {
    switch call.member {
    case "CreateSession": return [.objectPath(session)]
    case "ShowPicker": return [.objectPath("/org/accessorysetup1/picker/1")]
    case "GetManagedObjects":
        let properties: [String: DBusValue] = [
            "DisplayName": .string("Dice"), "State": .string("authorized"), "Ssid": .bytes([0x44]),
            "BluetoothIdentifier": .string("12345678-1234-1234-1234-123456789abc"), "Device": .objectPath("/"),
            "Descriptor": .vardict(["bluetoothServiceUUID": .string("180F")]),
        ]
        func object(_ path: ObjectPath, _ interface: String, _ values: [String: DBusValue]) -> DBusValue.Entry {
            .init(.objectPath(path), .dictionary(key: "s", value: "a{sv}", [.init(.string(interface), .vardict(values))]))
        }
        return [
            .dictionary(
                key: "o", value: "a{sa{sv}}",
                [
                    object(session, "org.accessorysetup1.Session", ["Accessories": .objectPaths([accessory])]),
                    object(accessory, "org.accessorysetup1.Accessory", properties),
                ])
        ]
    default: return []
    }
}

/// The events that an app has heard.
private final class Heard: Sendable {
    struct State {
        var hasEnded = false
        var isLate = false
        /// How often each completion handler was called.
        var answers: [Int: Int] = [:]
    }

    let state = Mutex(State())

    func receive(_ event: ASAccessoryEvent) {
        // As apps do: everything is looked at.
        _ = event.accessory.map { "\($0.displayName) \($0.state) \($0.descriptor)" }
        _ = event.error.map { "\($0)" }
        state.withLock { state in
            if state.hasEnded { state.isLate = true }
            if event.eventType == .invalidated { state.hasEnded = true }
        }
    }

    func completion(_ number: Int) -> @Sendable ((any Error)?) -> Void {
        { [self] _ in state.withLock { $0.answers[number, default: 0] += 1 } }
    }
}

/// Calls that are made on the module's thread are done when this returns.
private func waitForModule() {
    let isDone = DispatchSemaphore(value: 0)
    guard (try? SessionRegistry.perform { _ in isDone.signal() }) != nil else { found("no thread") }
    guard isDone.wait(timeout: .now() + 240) == .success else { found("AccessorySetupKit's thread stands still") }
}

func sendToModule(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    let bus = PlayedBus.shared
    let queue = DispatchQueue(label: "fuzz.app")
    let heard = Heard()
    let app = ASAccessorySession(bus: "\(bus.address)")
    app.activate(on: queue) { heard.receive($0) }
    waitForModule()
    var service = PlayedService(moduleWords, owners: ["org.accessorysetup1": ":1.2"])
    service.types = ["CreateSession": "o", "GetManagedObjects": "a{oa{sa{sv}}}", "ShowPicker": "o"]
    service.usual = moduleAnswer
    service.signals = [
        (session, "org.accessorysetup1.Session", "Event", "sa{sv}"),
        (session, "org.accessorysetup1.Session", "Event", "sa{sv}"),
        (accessory, "org.accessorysetup1.Session", "Event", "sa{sv}"),
    ]
    var requests = 0
    settle(&service)
    if !input.oneIn(8) {
        for _ in 0..<2 {
            service.answerAll()
            settle(&service)
        }
        if let line = bus.lines.first { activate(on: line) }
        settle(&service)
    }
    for _ in 0..<16 where !input.isAtEnd {
        guard let line = bus.lines.first(where: \.isOpen) else { break }
        switch input.byte() % 8 {
        case 0, 1: service.answerAll()
        case 2: service.answerOne(&input)
        case 3, 4:
            request(app, input.byte(), heard.completion(requests))
            requests += 1
        default: for _ in 0...input.number(below: 3) { service.sendSignal(&input, on: line) }
        }
        settle(&service)
    }
    app.invalidate()
    waitForModule()
    settle(&service)
    bus.reset()
    waitForModule()
    // The session's own queue is aimed at this one.
    for _ in 0..<2 { queue.sync {} }
    heard.state.withLock { state in
        expect(state.hasEnded && !state.isLate, state.hasEnded ? "an event after `invalidated`" : "no `invalidated`")
        for number in 0..<requests {
            expect(state.answers[number] == 1, "a completion handler was called \(state.answers[number] ?? 0) times")
        }
    }
}

private func activate(on line: PlayedBus.Line) {
    let event: [DBusValue] = [.string("activated"), .vardict([:])]
    guard
        let signal = try? Message.signal(path: session, interface: "org.accessorysetup1.Session", member: "Event", event)
    else { return }
    signal.setSender(":1.2")
    PlayedBus.shared.say(signal, on: line)
}

private func request(_ app: ASAccessorySession, _ choice: UInt8, _ completion: @escaping @Sendable ((any Error)?) -> Void) {
    let descriptor = ASDiscoveryDescriptor()
    descriptor.bluetoothServiceUUID = CBUUID(string: "180F")
    let image = UIImage()
    switch (choice % 8, app.accessories.first) {
    case (0, _), (1, _):
        app.showPicker(
            for: [ASPickerDisplayItem(name: "Dice", productImage: image, descriptor: descriptor)], completionHandler: completion)
    case (2, _): app.finishPickerDiscovery(completionHandler: completion)
    case (3, let accessory?): app.removeAccessory(accessory, completionHandler: completion)
    case (4, let accessory?): app.renameAccessory(accessory, options: [], completionHandler: completion)
    case (5, let accessory?): app.failAuthorization(for: accessory, completionHandler: completion)
    case (6, let accessory?):
        app.finishAuthorization(for: accessory, settings: ASAccessorySettings(), completionHandler: completion)
    default: app.showPicker(completionHandler: completion)
    }
}

private func settle(_ service: inout PlayedService) {
    waitForModule()
    let bus = PlayedBus.shared
    service.receive(bus.hear())
    for line in bus.lines { service.receive(bus.waitForAll(on: line).map { (line, $0) }) }
}

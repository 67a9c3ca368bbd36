// SPDX-License-Identifier: Apache-2.0
// Messages of bluetoothd and the Wi-Fi services to the daemon's radios, in any order and of any type: while the
// services are looked for, and during scans, pairings and joins, whatever they answer.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Logging

@testable import BlueZRadio
@testable import DBusKit
@testable import WiFiRadio

private let log = Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }

let bluezWords = Vocabulary(
    texts: [
        "Dice", "C0:FF:EE:00:00:01", "public", "random", "0000180f-0000-1000-8000-00805f9b34fb",
        "00002a19-0000-1000-8000-00805f9b34fb", "00001812-0000-1000-8000-00805f9b34fb", "read", "write", "notify",
        "write-without-response", "local", "remote", "hci0", "le", "bredr",
    ],
    paths: [
        "/", "/org/bluez", "/org/bluez/hci0", "/org/bluez/hci1", "/org/bluez/hci0/dev_C0_FF_EE_00_00_01",
        "/org/bluez/hci0/dev_C0_FF_EE_00_00_02", "/org/bluez/hci0/dev_C0_FF_EE_00_00_01/service000a",
        "/org/bluez/hci0/dev_C0_FF_EE_00_00_01/service000a/char000c",
        "/org/bluez/hci0/dev_C0_FF_EE_00_00_01/service000a/char000c/desc000e",
    ],
    interfaces: [
        "org.bluez.Device1", "org.bluez.Adapter1", "org.bluez.GattService1", "org.bluez.GattCharacteristic1",
        "org.bluez.GattDescriptor1", "org.bluez.Battery1", "org.bluez.Input1", "org.bluez.AgentManager1",
        "org.freedesktop.DBus.Properties",
    ],
    keys: [
        ("Address", "s"), ("AddressType", "s"), ("Name", "s"), ("Alias", "s"), ("Paired", "b"), ("Bonded", "b"), ("Trusted", "b"),
        ("Connected", "b"), ("ServicesResolved", "b"), ("RSSI", "n"), ("TxPower", "n"), ("UUIDs", "as"),
        ("ManufacturerData", "a{qv}"), ("ServiceData", "a{sv}"), ("Adapter", "o"), ("Powered", "b"), ("Discovering", "b"),
        ("UUID", "s"), ("Primary", "b"), ("Includes", "ao"), ("Flags", "as"), ("Value", "ay"), ("Notifying", "b"), ("MTU", "q"),
        ("Percentage", "y"), ("Class", "u"), ("Appearance", "q"), ("AdvertisingFlags", "ay"), ("NotifyAcquired", "b"),
        ("WriteAcquired", "b"), ("Service", "o"), ("Characteristic", "o"), ("Device", "o"), ("Handle", "q"),
    ])

let device: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_01"

private func object(_ path: ObjectPath, _ interface: String, _ values: [String: DBusValue]) -> DBusValue.Entry {
    .init(
        .objectPath(path), .dictionary(key: "s", value: "a{sv}", [.init(.string("org.bluez.\(interface)"), .vardict(values))]))
}

/// An adapter and one device, with a service that can be read and notifies.
let bluezObjects: [DBusValue] = [
    .dictionary(
        key: "o", value: "a{sa{sv}}",
        [
            object("/org/bluez/hci0", "Adapter1", ["Powered": .boolean(true), "Address": .string("00:00:00:00:00:01")]),
            object(
                device, "Device1",
                [
                    "Address": .string("C0:FF:EE:00:00:01"), "AddressType": .string("random"), "Name": .string("Dice"),
                    "Paired": .boolean(true), "Connected": .boolean(true), "ServicesResolved": .boolean(true),
                    "Adapter": .objectPath("/org/bluez/hci0"), "UUIDs": .strings(["0000180f-0000-1000-8000-00805f9b34fb"]),
                ]),
            object(
                "/org/bluez/hci0/dev_C0_FF_EE_00_00_01/service000a", "GattService1",
                ["UUID": .string("0000180f-0000-1000-8000-00805f9b34fb"), "Primary": .boolean(true)]),
            object(
                "/org/bluez/hci0/dev_C0_FF_EE_00_00_01/service000a/char000c", "GattCharacteristic1",
                [
                    "UUID": .string("00002a19-0000-1000-8000-00805f9b34fb"), "MTU": .uint16(185),
                    "Flags": .strings(["read", "write", "write-without-response", "notify"]),
                ]),
            object(
                "/org/bluez/hci0/dev_C0_FF_EE_00_00_01/service000a/char000c/desc000e", "GattDescriptor1",
                ["UUID": .string("00002901-0000-1000-8000-00805f9b34fb")]),
        ])
]

let bluezTypes = [
    "GetManagedObjects": "a{oa{sa{sv}}}", "GetAll": "a{sv}", "Get": "v", "ReadValue": "ay", "AcquireWrite": "hq",
    "AcquireNotify": "hq", "Introspect": "s", "ConnectDevice": "o", "GetDiscoveryFilters": "as",
]

func bluezAnswer(_ call: Message) -> [DBusValue]? {
    switch call.member {
    case "GetManagedObjects": bluezObjects
    case "GetAll": [.vardict(["Connected": .boolean(true), "ServicesResolved": .boolean(true), "Paired": .boolean(true)])]
    case "Get": [.variant(.boolean(true))]
    case "ReadValue": [.bytes([42])]
    case "ConnectDevice": [.objectPath(device)]
    default: []
    }
}

/// Runs the loop and answers the bus' own part until nothing more happens.
func settle(_ loop: MainLoop, _ service: inout PlayedService) {
    var quiet = 0
    for _ in 0..<32 where quiet < 2 {
        loop.iterate(mayBlock: false)
        let heard = PlayedBus.shared.hear()
        service.receive(heard)
        quiet = heard.isEmpty ? quiet + 1 : 0
    }
}

/// Whether the prompts and ends that the radio reports keep their order: an attempt ends once.
private final class RadioWatcher: RadioObserver {
    var isPairing = false
    var ended = 0
    func radioChanged(_ state: RadioState, reason: String) { expect(!reason.isEmpty, "the radio changes without a reason") }
    func adaptersChanged() {}
    func discoveryFailed(_ failure: RadioFailure) {}
    func heard(_ changes: [HeardDevice]) {
        for change in changes {
            expect(change.rssi.map { (-128...127).contains($0) } ?? true, "a strength of \(change.rssi ?? 0)")
            let entries = Limits.advertEntriesPerDevice
            guard let content = change.content else { continue }
            expect(
                content.serviceUUIDs.count <= entries && content.serviceData.count <= entries
                    && content.manufacturerData.count <= entries, "more of a device than is kept")
        }
    }
    func lost(_ address: BluetoothAddress) {}
    func monitoringChanged() {}
    func monitorChanged(_ address: BluetoothAddress) {}
    func monitorEnded(_ address: BluetoothAddress) {}
    func pairingPrompted(_ prompt: PairingPrompt) {}
    func bridgingStarted() {}
    func pairingEnded(_ result: Result<PairedIdentity, RadioFailure>) {
        ended += 1
    }
    func deviceChanged(_ address: BluetoothAddress?) {}
}

func sendToRadio(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    let bus = PlayedBus.shared
    let loop = MainLoop()
    defer { bus.reset(loop) }
    var service = PlayedService(bluezWords, owners: ["org.bluez": ":1.2"])
    service.types = bluezTypes
    service.usual = bluezAnswer
    guard let connection = try? Connection(bus.address, loop: loop),
        let radio = try? BlueZRadio(on: connection, adapters: [], inputDirectory: scratch, log: log)
    else { found("no radio") }
    // It holds the radio's objects, and they hold it.
    defer { connection.onCall = nil }
    let watcher = RadioWatcher()
    radio.observer = watcher
    radio.start()
    settle(loop, &service)
    var need: DiscoveryToken?
    var asked = 0
    for _ in 0..<24 where !input.isAtEnd {
        guard let line = bus.lines.first else { break }
        switch input.byte() % 12 {
        case 0, 1: service.answerAll()
        case 2: service.answerOne(&input)
        case 3: need = radio.discover()
        case 4: need = nil
        case 5:
            asked += 1
            radio.pair(RadioDeviceID(device.rawValue), support: input.pick([[], .transportBridging, .hid]))
        case 6: radio.answer(input.pick([.accept, .reject, .passkey(1), .pin("0000")]))
        case 7: radio.cancelPairing()
        case 8:
            let peer = BluetoothPeer(BluetoothAddress("C0:FF:EE:00:00:01", kind: .random)!, adapter: nil)
            radio.removeBond(peer, device: nil, wasPairing: false) { _ in }
            _ = (radio.bonds, radio.link(with: peer), radio.device(for: peer))
            radio.setAlias(peer, input.text(bluezWords))
        case 9:
            // BlueZ asks the agent.
            let (member, types) = input.pick([
                ("RequestConfirmation", "ou"), ("RequestPasskey", "o"), ("RequestPinCode", "o"), ("DisplayPasskey", "ouq"),
                ("DisplayPinCode", "os"), ("RequestAuthorization", "o"), ("AuthorizeService", "os"), ("Cancel", ""),
                ("Release", ""),
            ])
            guard
                let call = try? Message.call(
                    to: ":1.1", path: PairingAgent.path, interface: "org.bluez.Agent1", member: member,
                    input.arguments(types, bluezWords))
            else { continue }
            call.setSender(input.oneIn(8) ? ":1.66" : service.owners["org.bluez"] ?? ":1.2")
            bus.say(call, on: line)
        default: service.sendSignal(&input, on: line)
        }
        settle(loop, &service)
        expect(watcher.ended <= asked, "pairing has ended \(watcher.ended) times, and began \(asked) times")
    }
    _ = consume need
    withExtendedLifetime(radio) {}
}

// MARK: Wi-Fi

private final class NoJournal: JoinJournal {
    var record: JoinRecord?
    func write(_ record: JoinRecord?) throws { self.record = record }
    func read() throws -> JoinRecord? { record }
}

private final class NetworkWatcher: NetworkRadioObserver {
    func networkRadioChanged(_ state: RadioState, reason: String) { expect(!reason.isEmpty, "Wi-Fi changes without a reason") }
    func heard(networks: [WiFiNetwork]) {
        expect(Set(networks.map(\.ssid)).count == networks.count, "a network comes twice")
    }
    func heard(services: [AwareService]) {}
    func scanFailed(_ failure: RadioFailure) {}
    func networkLost(reason: String) {}
    func earlierNetworkLeft(_ ssid: SSID) {}
}

private let wifiWords =
    networkWords
    + Vocabulary(
        texts: ["wlan0", "lo"], paths: [],
        interfaces: [
            "fi.w1.wpa_supplicant1", "fi.w1.wpa_supplicant1.Interface", "fi.w1.wpa_supplicant1.BSS",
            "fi.w1.wpa_supplicant1.Network", "org.freedesktop.NetworkManager", "org.freedesktop.NetworkManager.Device",
            "org.freedesktop.NetworkManager.Device.Wireless", "org.freedesktop.NetworkManager.AccessPoint",
            "org.freedesktop.NetworkManager.Connection.Active", "net.connman.iwd.Station", "net.connman.iwd.Network",
            "net.connman.iwd.Device", "net.connman.iwd.KnownNetwork", "net.connman.iwd.AgentManager",
        ])

private let introspection = """
    <node><interface name="fi.w1.wpa_supplicant1.Interface"><method name="NANSubscribe"/></interface></node>
    """

private func wifiAnswer(_ call: Message) -> [DBusValue]? {
    let path = call.path?.rawValue ?? ""
    switch call.member {
    case "Introspect": return [.string(introspection)]
    case "NANSubscribe", "NANPublish": return [.uint32(1)]
    case "AddNetwork": return [.objectPath("/fi/w1/wpa_supplicant1/Interfaces/0/Networks/1")]
    case "GetManagedObjects":
        return [.dictionary(key: "o", value: "a{sa{sv}}", [])]
    case "GetAll" where path == "/fi/w1/wpa_supplicant1":
        return [.vardict(["Interfaces": .objectPaths(["/fi/w1/wpa_supplicant1/Interfaces/0"])])]
    case "GetAll" where path.hasSuffix("/Interfaces/0"):
        return [.vardict(["Ifname": .string("wlan0"), "State": .string("disconnected")])]
    case "GetAll": return [.vardict(["SSID": .bytes([0x44]), "Signal": .int16(-50)])]
    case "Get": return [.variant(.objectPaths(["/fi/w1/wpa_supplicant1/Interfaces/0/BSSs/1"]))]
    default: return []
    }
}

func sendToWiFi(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    let bus = PlayedBus.shared
    let loop = MainLoop()
    defer { bus.reset(loop) }
    let all = ["fi.w1.wpa_supplicant1": ":1.4", "org.freedesktop.NetworkManager": ":1.2", "net.connman.iwd": ":1.3"]
    let there = input.byte() % 8
    var service = PlayedService(
        wifiWords,
        owners: all.filter { name, _ in
            switch name {
            case "fi.w1.wpa_supplicant1": there != 2 && there != 3
            case "org.freedesktop.NetworkManager": there == 1 || there == 2 || there == 7
            default: there == 3 || there == 7
            }
        })
    service.types = [
        "GetManagedObjects": "a{oa{sa{sv}}}", "GetAll": "a{sv}", "Get": "v", "Introspect": "s", "NANSubscribe": "u",
        "NANPublish": "u", "AddNetwork": "o", "GetDevices": "ao", "GetAllDevices": "ao", "GetAllAccessPoints": "ao",
        "AddAndActivateConnection2": "ooa{sv}", "GetOrderedNetworks": "a(on)", "GetHiddenAccessPoints": "a(sns)",
        "GetSettings": "a{sa{sv}}", "ActivateConnection": "o",
    ]
    service.usual = wifiAnswer
    let interface: ObjectPath = "/fi/w1/wpa_supplicant1/Interfaces/0"
    service.signals = [
        (interface, "fi.w1.wpa_supplicant1.Interface", "NANDiscoveryResult", "a{sv}"),
        (interface, "fi.w1.wpa_supplicant1.Interface", "NANReplied", "a{sv}"),
        (interface, "fi.w1.wpa_supplicant1.Interface", "NANSubscribeTerminated", "us"),
        (interface, "fi.w1.wpa_supplicant1.Interface", "ScanDone", "b"),
        ("/fi/w1/wpa_supplicant1", "fi.w1.wpa_supplicant1", "InterfaceAdded", "oa{sv}"),
        ("/fi/w1/wpa_supplicant1", "fi.w1.wpa_supplicant1", "InterfaceRemoved", "o"),
        (
            "/org/freedesktop/NetworkManager/Devices/3", "org.freedesktop.NetworkManager.Device", "StateChanged", "uuu"
        ),
        ("/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager", "DeviceAdded", "o"),
    ]
    guard let connection = try? Connection(bus.address, loop: loop),
        let radio = try? WiFiRadio(on: connection, interface: nil, routeDirectory: scratch, journal: NoJournal(), log: log)
    else { found("no Wi-Fi") }
    defer { connection.onCall = nil }
    let watcher = NetworkWatcher()
    radio.observer = watcher
    radio.start()
    settle(loop, &service)
    var need: DiscoveryToken?
    var joins = 0
    var ends = 0
    for _ in 0..<24 where !input.isAtEnd {
        guard let line = bus.lines.first else { break }
        switch input.byte() % 10 {
        case 0, 1, 2: service.answerAll()
        case 3: service.answerOne(&input)
        case 4:
            var aware = WiFiAware()
            aware.serviceName = "_dice._tcp"
            aware.serviceRole = input.pick([.publisher, .subscriber, nil])
            need = radio.scan(probing: [SSID("Dice")!], aware: [aware])
        case 5: need = nil
        case 6:
            joins += 1
            let passphrase = input.oneIn(2) ? NetworkJoin.Passphrase("12345678") : nil
            radio.join(NetworkJoin(ssid: SSID("Dice")!, passphrase: passphrase, isHidden: input.oneIn(2))) { _ in ends += 1 }
        case 7: radio.leave {}
        default: service.sendSignal(&input, on: line)
        }
        settle(loop, &service)
        expect(ends <= joins, "joining has ended \(ends) times, and began \(joins) times")
    }
    _ = consume need
    withExtendedLifetime(radio) {}
}

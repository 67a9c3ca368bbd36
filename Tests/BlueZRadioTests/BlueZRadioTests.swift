// SPDX-License-Identifier: Apache-2.0
// The BlueZ adapter against the simulator on a private bus: states, discovery by token, adverts in pieces, pairing in
// every mode and with every fault, bonds that go.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import DBusKit
import Foundation
import Logging
import TestSupport
import Testing

@testable import BlueZRadio

private final class Witness: RadioObserver {
    var states: [RadioState] = []
    var failures: [RadioFailure] = []
    var heard: [BluetoothAddress: Advertisement] = [:]
    var batches = 0
    var lost: Set<BluetoothAddress> = []
    var prompts: [PairingPrompt] = []
    var bridgings = 0
    var results: [Result<PairedIdentity, RadioFailure>] = []
    var onPrompt: ((PairingPrompt) -> Void)?

    func radioChanged(_ state: RadioState, reason: String) { states.append(state) }
    func discoveryFailed(_ failure: RadioFailure) { failures.append(failure) }
    func heard(_ changes: [HeardDevice]) {
        batches += 1
        for change in changes { heard[change.address] = change.content ?? heard[change.address] }
    }
    func lost(_ address: BluetoothAddress) { lost.insert(address) }
    func monitoringChanged() {}
    func monitorChanged(_ address: BluetoothAddress) {}
    func monitorEnded(_ address: BluetoothAddress) {}
    func adaptersChanged() {}
    func bridgingStarted() { bridgings += 1 }
    func pairingPrompted(_ prompt: PairingPrompt) {
        prompts.append(prompt)
        onPrompt?(prompt)
    }
    func pairingEnded(_ result: Result<PairedIdentity, RadioFailure>) { results.append(result) }
    func deviceChanged(_ address: BluetoothAddress?) {}

    func advert(_ address: String) -> Advertisement? { heard.values.first { $0.address.description == address } }
}

/// Keeps errors.
private struct ErrorLog: LogHandler {
    // @unchecked Sendable: used on the test's thread only.
    final class Lines: @unchecked Sendable { var errors: [String] = [] }

    let lines: Lines
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.error

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        lines.errors.append("\(event.message) \(event.metadata ?? [:])")
    }
}

/// The reader of adverts.
private enum Reader: CaseIterable {
    /// Our own reader, as in the daemon.
    case feed
    case libdbus
    /// Our own reader until it meets a malformed message.
    case libdbusAfterNonsense
}

private final class Stage {
    let bus: PrivateBus
    private let nonsense: PlayedBus
    let simulator: ChildProcess
    let directory: TemporaryDirectory
    let loop = MainLoop()
    let control: Connection
    let radio: BlueZRadio
    let witness = Witness()
    private let lines = ErrorLog.Lines()
    /// Errors in the log.
    var errors: [String] { lines.errors }

    init(_ scenario: String, _ reader: Reader = .feed) throws {
        bus = try PrivateBus()
        nonsense = try PlayedBus(on: loop)
        nonsense.say("OK 0123\r\nthis is no D-Bus message at all")
        directory = try TemporaryDirectory()
        let file = try directory.write("scenario.json", scenario)
        simulator = try ChildProcess(
            "accessory-sim", ["--bus", bus.address, "--input-directory", directory.path + "/input", file])
        try simulator.waitForLine(containing: "ready")
        control = try Connection(.server(bus.address), loop: loop)
        let connection = try Connection(.server(bus.address), loop: loop, reading: .adaptive(pause: .milliseconds(5)))
        radio = try BlueZRadio(
            on: connection, adapters: [], inputDirectory: directory.path + "/input",
            feed: reader == .feed ? .server(bus.address) : reader == .libdbus ? nil : nonsense.address,
            log: Logger(label: "test") { [lines] _ in ErrorLog(lines: lines) })
        radio.observer = witness
        radio.start()
    }

    func wait(_ condition: () -> Bool, _ what: String = "", location: SourceLocation = #_sourceLocation) {
        let happened = loop.run(until: condition, timeout: .hang)
        #expect(happened, "\(what)", sourceLocation: location)
    }

    func play(_ action: String, _ target: String = "") throws {
        _ = try control.callAndWait(
            "org.accessorysetup.Simulator1", "/org/accessorysetup/simulator", "org.accessorysetup.Simulator1", "Do",
            [.string(action), .string(target)])
    }

    var bonds: [String] {
        get throws {
            try control.callAndWait(
                "org.accessorysetup.Simulator1", "/org/accessorysetup/simulator", "org.accessorysetup.Simulator1", "Bonds")[0]
                .stringsValue ?? []
        }
    }

    /// The first accessory's object.
    static let device: ObjectPath = "/org/bluez/hci0/dev_C0_00_00_00_00_01"

    /// A property of its object.
    func property(_ name: String) -> DBusValue? {
        try? control.callAndWait("org.bluez", Self.device, Bus.properties, "Get", [.string("org.bluez.Device1"), .string(name)])[0]
    }

    var isDiscovering: Bool {
        let value = try? control.callAndWait(
            "org.bluez", "/org/bluez/hci0", Bus.properties, "Get", [.string("org.bluez.Adapter1"), .string("Discovering")])
        return value?.first?.booleanValue ?? false
    }
}

private func accessory(_ more: String = "", address: String = "C0:00:00:00:00:01", id: String = "a") -> String {
    """
    { "id": "\(id)", "address": "\(address)", "adverts": [ { "name": "A", "serviceUUIDs": ["180F"], "interval": 0.05 } ] \(more) }
    """
}

@Suite(.serialized) struct BlueZRadioTests {
    @Test func theStateFollowsTheServiceAndTheAdapter() throws {
        let stage = try Stage("{}")
        stage.wait { stage.witness.states == [.ready] }
        for (action, target, state) in [
            ("adapterPowerOff", "hci0", RadioState.off), ("adapterPowerOn", "hci0", .ready), ("adapterRemoved", "hci0", .absent),
            ("adapterAdded", "hci0", .ready), ("serviceStopped", "", .absent), ("serviceStarted", "", .ready),
        ] {
            try stage.play(action, target)
            stage.wait({ stage.witness.states.last == state }, "\(action)")
        }
    }

    /// Each search that begins or ends has BlueZ' objects read, and the bus lets so many calls wait for an answer.
    @Test(arguments: Reader.allCases) fileprivate func searchesThatComeAndGoReadNoMoreThanBlueZAnswers(reader: Reader) throws {
        let stage = try Stage("{ \"accessories\": [\(accessory())] }", reader)
        stage.wait { stage.radio.state == .ready }
        for _ in 0..<300 { _ = stage.radio.discover() }
        var isRead = false
        stage.radio.refresh { isRead = true }
        stage.wait { isRead }
        #expect(stage.errors == [])
        // And the next one finds the accessory.
        let need = stage.radio.discover()
        stage.wait { stage.witness.advert("C0:00:00:00:00:01") != nil }
        withExtendedLifetime(need) {}
    }

    /// In a crowd they are tens of megabytes.
    @Test(arguments: [Reader.feed, .libdbus]) fileprivate func aSearchHasTheObjectsReadOnce(reader: Reader) throws {
        let stage = try Stage("{ \"accessories\": [\(accessory())] }", reader)
        stage.wait { stage.radio.state == .ready }
        let monitor = try Connection(.server(stage.bus.address), loop: stage.loop)
        var readings = 0
        monitor.onCall = { _ in
            readings += 1
            return true
        }
        _ = try monitor.callAndWait(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Monitoring", "BecomeMonitor",
            [.strings(["type='method_call',path='/',member='GetManagedObjects'"]), .uint32(0)])
        let need = stage.radio.discover()
        stage.wait { stage.witness.advert("C0:00:00:00:00:01") != nil }
        // This reading follows all readings for the search.
        var isRead = false
        stage.radio.refresh { isRead = true }
        stage.wait { isRead && readings >= 2 }
        #expect(readings == 2)
        withExtendedLifetime(need) {}
    }

    @Test(arguments: Reader.allCases) fileprivate func twoNeedsShareOneDiscovery(reader: Reader) throws {
        let stage = try Stage("{ \"accessories\": [\(accessory())] }", reader)
        stage.wait { stage.radio.state == .ready }
        #expect(!stage.isDiscovering)
        var first: DiscoveryToken? = stage.radio.discover()
        var second: DiscoveryToken? = stage.radio.discover()
        stage.wait { stage.isDiscovering }
        first = nil
        stage.wait { stage.witness.advert("C0:00:00:00:00:01") != nil }
        #expect(stage.isDiscovering)
        second = nil
        stage.wait { !stage.isDiscovering }
        // A new need starts it again.
        first = stage.radio.discover()
        stage.wait { stage.isDiscovering }
        _ = consume first
        _ = consume second
    }

    @Test(arguments: Reader.allCases) fileprivate func discoveryComesBackWithTheAdapter(reader: Reader) throws {
        let stage = try Stage("{ \"accessories\": [\(accessory())] }", reader)
        let token = stage.radio.discover()
        stage.wait { stage.isDiscovering }
        for (down, up, target) in [("adapterPowerOff", "adapterPowerOn", "hci0"), ("serviceStopped", "serviceStarted", "")] {
            try stage.play(down, target)
            stage.wait { stage.radio.state != .ready }
            try stage.play(up, target)
            stage.wait({ stage.isDiscovering }, "after \(up)")
        }
        _ = consume token
    }

    @Test(arguments: Reader.allCases) fileprivate func piecesAreOneAdvert(reader: Reader) throws {
        let stage = try Stage(
            """
            { "accessories": [ { "id": "a", "address": "C0:00:00:00:00:01", "adverts": [
                { "serviceUUIDs": ["180F"], "rssi": -40, "scanResponse": { "name": "Dice", "txPower": 4 } },
                { "from": 0.3, "serviceData": { "FE00": "0102" }, "manufacturerData": { "FFFF": "AB" }, "rssi": null } ] } ] }
            """, reader)
        let token = stage.radio.discover()
        stage.wait {
            guard let advert = stage.witness.advert("C0:00:00:00:00:01") else { return false }
            return advert.localName == "Dice" && advert.serviceUUIDs == [BluetoothUUID(short: 0x180F)] && advert.txPower == 4
                && advert.serviceData == [BluetoothUUID(short: 0xFE00): [1, 2]]
                && advert.manufacturerData == [CompanyIdentifier(0xFFFF): [0xAB]]
        }
        _ = consume token
    }

    /// A payload that changes by a bit and back is reported each time, and again in the next search.
    @Test(arguments: Reader.allCases) fileprivate func payloadsThatChangeAreReported(reader: Reader) throws {
        let stage = try Stage(
            """
            { "accessories": [ { "id": "a", "address": "C0:00:00:00:00:01", "adverts": [
                { "interval": 0.6, "manufacturerData": { "FFFF": "0102" }, "serviceData": { "FE00": "0202" } },
                { "interval": 0.6, "from": 0.1, "manufacturerData": { "FFFF": "0102" }, "serviceData": { "FE00": "0202" } },
                { "interval": 0.6, "from": 0.3, "manufacturerData": { "FFFF": "0103" }, "serviceData": { "FE00": "0302" } } ] } ] }
            """, reader)
        for _ in 0..<2 {
            stage.witness.heard = [:]
            let token = stage.radio.discover()
            for number in [2, 3, 2, 3] as [UInt8] {
                stage.wait {
                    guard let advert = stage.witness.advert("C0:00:00:00:00:01") else { return false }
                    return advert.manufacturerData == [CompanyIdentifier(0xFFFF): [1, number]]
                        && advert.serviceData == [BluetoothUUID(short: 0xFE00): [number, 2]]
                }
            }
            _ = consume token
        }
    }

    @Test(arguments: Reader.allCases) fileprivate func adaptersThatGoTakeTheirDevicesAlong(reader: Reader) throws {
        let stage = try Stage("{ \"accessories\": [\(accessory())] }", reader)
        let token = stage.radio.discover()
        stage.wait { stage.witness.advert("C0:00:00:00:00:01") != nil }
        try stage.play("adapterRemoved", "hci0")
        stage.wait { stage.radio.state == .absent && stage.witness.lost.count == 1 }
        _ = consume token
    }

    struct PairingCase: Sendable {
        let pairing: String
        let answer: PromptAnswer?
        let isPaired: Bool
        init(_ pairing: String, _ answer: PromptAnswer?, _ isPaired: Bool) {
            (self.pairing, self.answer, self.isPaired) = (pairing, answer, isPaired)
        }
    }

    @Test(arguments: [
        PairingCase(#""mode": "justWorks""#, nil, true),
        PairingCase(#""mode": "displayPasskey", "passkey": 42"#, .passkey(42), true),
        PairingCase(#""mode": "displayPasskey", "passkey": 42"#, .passkey(43), false),
        PairingCase(#""mode": "displayPasskey""#, .reject, false),
        PairingCase(#""mode": "enterPasskey""#, nil, true),
        PairingCase(#""mode": "numericComparison""#, .accept, true),
        PairingCase(#""mode": "numericComparison""#, .reject, false),
        PairingCase(#""mode": "numericComparison", "confirms": false"#, .accept, false),
        PairingCase(#""mode": "pin", "pin": "8888""#, .pin("8888"), true),
        PairingCase(#""mode": "pin", "pin": "8888""#, .pin("0000"), false),
        PairingCase(#""mode": "none""#, nil, false),
        PairingCase(#""fault": "refuse""#, nil, false),
        PairingCase(#""fault": "drop""#, nil, false),
        PairingCase(#""fault": "vanish""#, nil, false),
        PairingCase(#""fault": "slow", "delay": 0.3"#, nil, true),
        PairingCase(#""mode": "numericComparison", "fault": "wrongKey""#, .accept, false),
    ])
    func pairs(_ test: PairingCase) throws {
        let stage = try Stage("{ \"accessories\": [\(accessory(", \"pairing\": { \(test.pairing) }"))] }")
        let token = stage.radio.discover()
        stage.wait { stage.witness.advert("C0:00:00:00:00:01") != nil }
        stage.witness.onPrompt = { prompt in
            if prompt.needsAnswer, let answer = test.answer { stage.radio.answer(answer) }
        }
        let device = try #require(stage.witness.advert("C0:00:00:00:00:01")?.device)
        stage.radio.pair(device, support: [])
        stage.wait { stage.witness.results.count == 1 }
        #expect(((try? stage.witness.results[0].get()) != nil) == test.isPaired)
        #expect(try stage.bonds.isEmpty != test.isPaired)
        guard test.isPaired else { return }
        #expect(try stage.witness.results[0].get().address.description == "C0:00:00:00:00:01")
        var removed = false
        stage.radio.removeBond(
            BluetoothPeer(BluetoothAddress("C0:00:00:00:00:01", kind: .random)!, adapter: nil), device: nil,
            wasPairing: false
        ) {
            removed = (try? $0.get()) != nil
        }
        stage.wait { removed }
        #expect(try stage.bonds.isEmpty)
        _ = consume token
    }

    /// `Paired` is true while the link lasts. No bond exists, and the next setup pairs the device again.
    @Test func keysThatAreNotKeptAreNoBond() throws {
        let stage = try Stage("{ \"accessories\": [\(accessory(", \"pairing\": { \"bonding\": false }"))] }")
        let token = stage.radio.discover()
        stage.wait { stage.witness.advert("C0:00:00:00:00:01") != nil }
        let device = try #require(stage.witness.advert("C0:00:00:00:00:01")?.device)
        for count in 1...2 {
            stage.radio.pair(device, support: [])
            stage.wait { stage.witness.results.count == count }
            #expect(try !stage.witness.results[count - 1].get().wasPairedBefore)
            #expect(stage.property("Paired")?.booleanValue == true && stage.property("Bonded")?.booleanValue == false)
            var isRead = false
            stage.radio.refresh { isRead = true }
            stage.wait { isRead }
            #expect(stage.radio.bonds.isEmpty)
        }
        _ = consume token
    }

    /// The removal of an object is signalled over another connection than answers, and may be about the object before:
    /// bluetoothd then pairs the new one, and must not be left pairing.
    @Test func aPairingOfARemovedObjectIsCancelled() throws {
        let stage = try Stage(
            "{ \"accessories\": [\(accessory(", \"pairing\": { \"fault\": \"slow\", \"delay\": 60, \"faultCount\": 1 }"))] }")
        let token = stage.radio.discover()
        stage.wait { stage.witness.advert("C0:00:00:00:00:01") != nil }
        let connection = try Connection(.server(stage.bus.address), loop: stage.loop)
        let agent = try PairingAgent()
        var results: [Result<PairedIdentity, RadioFailure>] = []
        func attempt() -> PairingAttempt {
            let attempt = PairingAttempt(
                of: Stage.device, on: connection, agent: agent, log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                isConnected: { stage.property("Connected")?.booleanValue == true }, onPrompt: { _ in }
            ) { results.append($0.map(\.identity)) }
            attempt.handle(.begin(isPaired: false))
            return attempt
        }
        let first = attempt()
        stage.wait { stage.property("Connected")?.booleanValue == true }
        first.handle(.objectRemoved)
        stage.wait { results.count == 1 }
        #expect((try? results[0].get()) == nil)
        // The device is neither busy nor paired.
        let second = attempt()
        stage.wait { results.count == 2 }
        #expect(try !results[1].get().wasPairedBefore)
        withExtendedLifetime((first, second)) {}
        _ = consume token
    }

    @Test func aPrivateAddressBecomesTheIdentity() throws {
        let stage = try Stage("{ \"accessories\": [\(accessory(", \"addressType\": \"rpa\""))] }")
        let token = stage.radio.discover()
        stage.wait { !stage.witness.heard.isEmpty }
        let advert = try #require(stage.witness.heard.values.first)
        #expect(advert.address.isResolvablePrivate)
        stage.radio.pair(advert.device, support: [])
        stage.wait { stage.witness.results.count == 1 }
        let identity = try stage.witness.results[0].get()
        #expect(identity.address.description == "C0:00:00:00:00:01" && identity.device == advert.device)
        #expect(stage.radio.device(for: identity.peer) == advert.device)
        _ = consume token
    }

    /// The classic side at the same address: paired, covered by cross-transport keys, or not there at all.
    @Test(arguments: [
        (#""transport": "dual""#, true), (#""transport": "dual", "crossTransportKeys": true"#, true),
        (#""transport": "le""#, false),
    ])
    func bridges(more: String, isBridged: Bool) throws {
        let stage = try Stage("{ \"accessories\": [\(accessory(", \"addressType\": \"public\", \(more)"))] }")
        let token = stage.radio.discover()
        stage.wait { !stage.witness.heard.isEmpty }
        stage.radio.pair(try #require(stage.witness.heard.values.first?.device), support: [.pairingLE, .transportBridging])
        stage.wait { stage.witness.results.count == 1 }
        #expect(stage.witness.bridgings == 1)
        let identity = try? stage.witness.results[0].get()
        #expect(identity?.classicAddress?.description == (isBridged ? "C0:00:00:00:00:01" : nil))
        // Without its classic side the accessory does not stay paired.
        #expect(try stage.bonds.isEmpty != isBridged)
        // Apps connect for attributes, which are on the other side.
        if isBridged { stage.wait { stage.property("PreferredBearer")?.stringValue == "le" } }
        _ = consume token
    }

    @Test func bridgesToAnotherAddress() throws {
        let classic = accessory(
            ", \"addressType\": \"public\", \"transport\": \"bredr\"", address: "00:11:22:33:44:55", id: "c")
        let stage = try Stage("{ \"accessories\": [\(accessory()), \(classic)] }")
        var token: DiscoveryToken? = stage.radio.discover()
        stage.wait { !stage.witness.heard.isEmpty }
        // A classic device is not heard over low energy.
        #expect(stage.witness.advert("00:11:22:33:44:55") == nil)
        stage.radio.pair(try #require(stage.witness.heard.values.first?.device), support: [.pairingLE])
        stage.wait { stage.witness.results.count == 1 }
        token = nil
        stage.wait { !stage.isDiscovering }
        let identity = try stage.witness.results[0].get()
        var bridged: [Result<BluetoothAddress, RadioFailure>] = []
        stage.radio.bridge(identity.peer, classic: BluetoothAddress("00:11:22:33:44:55", kind: .public)) { bridged.append($0) }
        stage.wait { bridged.count == 1 }
        #expect(try bridged[0].get().description == "00:11:22:33:44:55")
        #expect(try stage.bonds.sorted() == ["a", "c"])
        stage.wait { !stage.isDiscovering }
        // Called off while it searches for one that is not there.
        stage.radio.bridge(identity.peer, classic: BluetoothAddress("00:11:22:33:44:66", kind: .public)) { bridged.append($0) }
        stage.wait { stage.isDiscovering }
        stage.radio.cancelPairing()
        stage.wait { bridged.count == 2 && !stage.isDiscovering }
        #expect((try? bridged[1].get()) == nil)
        _ = consume token
    }

    @Test(arguments: [true, false])
    func setsInputDevicesUp(isInput: Bool) throws {
        let stage = try Stage("{ \"accessories\": [\(accessory(", \"input\": \(isInput)"))] }")
        let token = stage.radio.discover()
        stage.wait { !stage.witness.heard.isEmpty }
        let device = try #require(stage.witness.heard.values.first?.device)
        stage.radio.pair(device, support: [.pairingLE, .hid])
        stage.wait { stage.witness.results.count == 1 }
        #expect(((try? stage.witness.results[0].get()) != nil) == isInput)
        #expect(try stage.bonds.isEmpty != isInput)
        guard isInput else { return }
        let trusted = try stage.control.callAndWait(
            "org.bluez", ObjectPath(device.rawValue)!, Bus.properties, "Get", [.string("org.bluez.Device1"), .string("Trusted")])
        #expect(trusted[0].booleanValue == true)
        _ = consume token
    }

    @Test func setsTheAlias() throws {
        let stage = try Stage("{ \"accessories\": [\(accessory())] }")
        let token = stage.radio.discover()
        stage.wait { !stage.witness.heard.isEmpty }
        let device = try #require(stage.witness.heard.values.first)
        stage.radio.setAlias(BluetoothPeer(device.address, adapter: device.adapter), "Kitchen")
        stage.wait {
            let alias = try? stage.control.callAndWait(
                "org.bluez", ObjectPath(device.device.rawValue)!, Bus.properties, "Get",
                [.string("org.bluez.Device1"), .string("Alias")])
            return alias?[0].stringValue == "Kitchen"
        }
        _ = consume token
    }

    @Test func pairingIsCancelledWithoutTouchingBonds() throws {
        let stage = try Stage("{ \"accessories\": [\(accessory(", \"pairing\": { \"mode\": \"numericComparison\" }"))] }")
        let token = stage.radio.discover()
        stage.wait { !stage.witness.heard.isEmpty }
        // Nothing runs: nothing is sent, and above all no bond is removed.
        stage.radio.cancelPairing()
        stage.radio.pair(try #require(stage.witness.heard.values.first?.device), support: [])
        stage.wait { stage.witness.prompts.count == 1 }
        stage.radio.cancelPairing()
        stage.wait { stage.witness.results.count == 1 }
        guard case .failure(let failure) = stage.witness.results[0] else { return #expect(Bool(false), "paired") }
        #expect(failure.reason == .cancelled)
        _ = consume token
    }

    @Test(arguments: ["serviceStopped", "adapterRemoved", "adapterPowerOff"])
    func aRadioThatGoesEndsThePairing(action: String) throws {
        let stage = try Stage("{ \"accessories\": [\(accessory(", \"pairing\": { \"fault\": \"silent\" }"))] }")
        let token = stage.radio.discover()
        stage.wait { !stage.witness.heard.isEmpty }
        stage.radio.pair(try #require(stage.witness.heard.values.first?.device), support: [])
        try stage.play(action, "hci0")
        stage.wait { stage.witness.results.count == 1 && stage.radio.state != .ready }
        #expect((try? stage.witness.results[0].get()) == nil)
        _ = consume token
    }

    @Test func aStrangerIsNoAgentsMaster() throws {
        let stage = try Stage("{ \"accessories\": [\(accessory(", \"pairing\": { \"mode\": \"numericComparison\" }"))] }")
        let token = stage.radio.discover()
        stage.wait { !stage.witness.heard.isEmpty }
        let device = try #require(stage.witness.heard.values.first?.device)
        stage.radio.pair(device, support: [])
        stage.wait { stage.witness.prompts.count == 1 }
        let radioName = try #require(
            try stage.control.callAndWait(Bus.name, Bus.path, Bus.name, "ListNames")[0].stringsValue?
                .first { name in
                    let reply = try? stage.control.callAndWait(
                        name, "/org/accessorysetup1/agent", "org.bluez.Agent1", "RequestConfirmation",
                        [.objectPath(ObjectPath(device.rawValue)!), .uint32(1)], timeout: .milliseconds(200))
                    return reply != nil
                } ?? "none")
        #expect(radioName == "none")
        #expect(stage.witness.prompts.count == 1)
        _ = consume token
    }
}

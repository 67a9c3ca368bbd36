// SPDX-License-Identifier: Apache-2.0
// Links of one client: every event in every phase, and requests about attributes.

@testable import AccessoryDoor
import BlueZInterfaces
import BlueZObjects
import DBusKit
import ESPHomeAPI
import Testing

extension BusError {
    static func bluez(_ name: String, _ message: String = "") -> BusError {
        BusError(name: "org.bluez.Error.\(name)", message: message)
    }
}

@Suite struct LinkPhaseTests {
    enum Phase: CaseIterable { case none, connecting, resolving, connected, disconnecting }

    enum Event: CaseIterable {
        case connect, connectAnswered, connectAnsweredWithServices, connectFailed, servicesResolved, linkLost, revoked, bluezGone
        case disconnect, disconnectAnswered, disconnectFailed
        case read, write, notify, getServices
    }

    private static func view(in phase: Phase) -> PlayedView {
        var view = PlayedView()
        _ = view.request(.subscribeFreeConnections)
        switch phase {
        case .none: break
        case .connecting: _ = view.request(.device(address: 1, .connect))
        case .resolving:
            _ = view.request(.device(address: 1, .connect))
            _ = view.change(1, ["Connected": .boolean(true)])
            _ = view.answer("Connect")
        case .connected: _ = view.connect()
        case .disconnecting:
            _ = view.connect()
            _ = view.request(.device(address: 1, .disconnect))
        }
        return view
    }

    private static func play(_ event: Event, _ view: inout PlayedView) -> [ProxySession.Effect] {
        switch event {
        case .connect: return view.request(.device(address: 1, .connect))
        case .connectAnswered:
            // bluetoothd signals the link before it answers.
            view.tree.change(PlayedView.path(1), Device1.interface, ["Connected": .boolean(true)], invalidated: [])
            return view.answer("Connect")
        case .connectAnsweredWithServices:
            view.addServices(of: 1)
            view.tree.change(
                PlayedView.path(1), Device1.interface, ["Connected": .boolean(true), "ServicesResolved": .boolean(true)],
                invalidated: [])
            return view.answer("Connect")
        case .connectFailed: return view.answer("Connect", .failure(.bluez("Failed", "le-connection-abort-by-local")))
        case .servicesResolved: return view.change(1, ["Connected": .boolean(true), "ServicesResolved": .boolean(true)])
        case .linkLost: return view.change(1, ["Connected": .boolean(false), "ServicesResolved": .boolean(false)])
        case .revoked: return view.remove(1)
        case .bluezGone:
            view.tree = BlueZTree()
            return view.handle(.stateChanged)
        case .disconnect: return view.request(.device(address: 1, .disconnect))
        case .disconnectAnswered: return view.answer("Disconnect")
        case .disconnectFailed: return view.answer("Disconnect", .failure(.bluez("NotConnected")))
        case .read: return view.request(.read(address: 1, handle: 3))
        case .write: return view.request(.write(address: 1, handle: 3, needsResponse: true, [1]))
        case .notify: return view.request(.notify(address: 1, handle: 3, isEnabled: true))
        case .getServices: return view.request(.getServices(address: 1))
        }
    }

    private static let free = "free 3/3 []"
    private static let device = "dev_00_00_00_00_00_01"
    /// Without a link that can be used.
    private static let refusals: [Event: [String]] = [
        .read: ["failed 1.3: -1"], .write: ["failed 1.3: -1"], .notify: ["failed 1.3: -1"], .getServices: ["failed 1.0: -1"],
    ]
    /// The object is gone: 22 is the host's end of a link.
    private static let ends: [Event: [String]] = [
        .revoked: ["not connected 1: 22", free], .bluezGone: ["not connected 1: 22", free],
    ]

    /// An event that a phase does not name has no effect in it.
    private static let table: [Phase: [Event: [String]]] = [
        .none: refusals.merging(
            [.connect: ["Connect \(device)", "free 2/3 [1]"], .disconnect: ["not connected 1: 0"]], uniquingKeysWith: { $1 }),
        .connecting: refusals.merging(ends, uniquingKeysWith: { $1 }).merging(
            [
                .connectAnsweredWithServices: ["connected 1, mtu 247, 0"], .connectFailed: ["not connected 1: 133", free],
                .disconnect: ["Disconnect \(device)"],
            ], uniquingKeysWith: { $1 }),
        .resolving: refusals.merging(ends, uniquingKeysWith: { $1 }).merging(
            [
                .servicesResolved: ["connected 1, mtu 23, 0"], .linkLost: ["not connected 1: 62", free],
                .disconnect: ["Disconnect \(device)"],
            ], uniquingKeysWith: { $1 }),
        .connected: ends.merging(
            [
                .connect: ["connected 1, mtu 247, 0"], .linkLost: ["not connected 1: 19", free],
                .disconnect: ["Disconnect \(device)"],
                .read: ["ReadValue char0002"], .write: ["WriteValue char0002"], .notify: ["StartNotify char0002"],
                .getServices: ["services 1 [1]", "services done 1"],
            ], uniquingKeysWith: { $1 }),
        .disconnecting: refusals.merging(ends, uniquingKeysWith: { $1 }).merging(
            [
                .connect: ["not connected 1: 132"], .disconnectAnswered: ["not connected 1: 0", free],
                .disconnectFailed: ["not connected 1: 0", free],
            ], uniquingKeysWith: { $1 }),
    ]

    @Test(arguments: Phase.allCases, Event.allCases) func everyEventInEveryPhase(_ phase: Phase, _ event: Event) {
        var view = Self.view(in: phase)
        #expect(Self.play(event, &view).words == Self.table[phase]?[event] ?? [])
    }

    /// Two events: after each the client can connect again, and is then connected as the first time.
    @Test(arguments: Phase.allCases, Event.allCases) func afterEveryEventANewLinkWorks(_ phase: Phase, _ event: Event) {
        var view = Self.view(in: phase)
        _ = Self.play(event, &view)
        _ = view.request(.device(address: 1, .disconnect))
        _ = view.answer("Disconnect")
        view.tree = PlayedView().tree
        // Late answers to calls of the former link.
        let former = view.calls.keys
        #expect(view.request(.device(address: 1, .connect)).words == ["Connect \(Self.device)", "free 2/3 [1]"])
        for call in former.sorted() { #expect(view.handle(.answered(call, .failure(.bluez("Failed")))) == []) }
        #expect(Self.play(.connectAnsweredWithServices, &view).words == ["connected 1, mtu 247, 0"])
    }
}

@Suite struct LinkTests {
    private var view = PlayedView()

    @Test mutating func anAddressWithoutAnObject() {
        #expect(view.request(.device(address: 2, .connect)).words == ["not connected 2: 62"])
        #expect(view.request(.device(address: 1 << 48 | 1, .connect)).words == ["not connected \(1 << 48 | 1): 62"])
        #expect(view.calls.isEmpty)
    }

    @Test mutating func noFreeLink() {
        view = PlayedView(devices: [1, 2, 3], maxLinks: 2)
        for device in 1...2 as ClosedRange<UInt64> { _ = view.request(.device(address: device, .connect)) }
        #expect(view.request(.device(address: 3, .connect)).words == ["not connected 3: 128"])
        #expect(view.request(.subscribeFreeConnections).words == ["free 0/2 [1, 2]"])
        #expect(view.remove(1).words == ["not connected 1: 22", "free 1/2 [2]"])
        #expect(view.request(.device(address: 3, .connect)).words.last == "free 0/2 [2, 3]")
    }

    @Test mutating func theReportOfFreeLinksIsForThoseWhoWantIt() {
        #expect(view.request(.device(address: 1, .connect)).words == ["Connect dev_00_00_00_00_00_01"])
        #expect(view.remove(1).words == ["not connected 1: 22"])
    }

    @Test mutating func theAdapterThatHearsItBestConnects() {
        let second: ObjectPath = "/org/bluez/hci1"
        view.tree.add(second, Adapter1.interface, ["Powered": .boolean(true)])
        view.addDevice(1, on: second, rssi: -40)
        _ = view.request(.device(address: 1, .connect))
        #expect(view.calls.values.map(\.path) == [PlayedView.path(1, on: second)])
        // One without a strength is heard least.
        view = PlayedView(devices: [])
        view.addDevice(1, on: second, rssi: nil)
        view.addDevice(1, rssi: -127)
        _ = view.request(.device(address: 1, .connect))
        #expect(view.calls.values.map(\.path) == [PlayedView.path(1)])
    }

    @Test mutating func anAnswerWithoutALinkIsAFailure() {
        _ = view.request(.device(address: 1, .connect))
        #expect(view.answer("Connect").words == ["not connected 1: 62"])
    }

    @Test mutating func aLateAnswerIsNotTheNextLinks() {
        _ = view.request(.device(address: 1, .connect))
        _ = view.request(.device(address: 1, .disconnect))
        #expect(view.answer("Disconnect").words == ["not connected 1: 0"])
        _ = view.request(.device(address: 1, .connect))
        // bluetoothd answers the first `Connect` last.
        #expect(view.answer("Connect", .failure(.bluez("Failed", "le-connection-abort-by-local"))) == [])
        _ = view.change(1, ["Connected": .boolean(true), "ServicesResolved": .boolean(true)])
        #expect(view.answer("Connect").words == ["connected 1, mtu 23, 0"])
    }

    @Test mutating func aReadOfTheFormerLinkIsNotAnswered() {
        _ = view.connect()
        _ = view.request(.read(address: 1, handle: 3))
        _ = view.change(1, ["Connected": .boolean(false)])
        _ = view.connect()
        #expect(view.request(.read(address: 1, handle: 3)).words == ["ReadValue char0002"])
        #expect(view.answer("ReadValue", .success([.bytes([1])])) == [])
        #expect(view.answer("ReadValue", .success([.bytes([2])])).words == ["read 1.3 [2]"])
    }

    @Test mutating func requestsThatAPickerServes() {
        for device in [1, 99] as [UInt64] {
            #expect(view.request(.device(address: device, .pair)).words == ["paired false: 6"])
            #expect(view.request(.device(address: device, .unpair)).words == ["unpaired false: 6"])
            #expect(view.request(.device(address: device, .clearCache)).words == ["cleared false: 6"])
            #expect(view.request(.device(address: device, .other(77))) == [])
            #expect(view.request(.setConnectionParameters(address: device)).words == ["parameters: 6"])
        }
        #expect(view.request(.setEncryptionKey) == [.send(.encryptionKeySet(hasWorked: false))])
        #expect(view.calls.isEmpty)
    }

    @Test(
        arguments: [
            ("NotConnected", "", -1), ("InProgress", "", 0x84), ("Canceled", "", 0x100), ("AuthenticationCanceled", "", 0x100),
            ("ConnectionAttemptFailed", "", 0x3E), ("Failed", "Not connected", -1), ("Failed", "other", 0x85),
            ("Unknown", "", 0x85),
            ("Failed", "Operation failed with ATT error: 0x0e", 0x0E), ("NotPermitted", "Read not permitted", 0x02),
            ("NotSupported", "", 0x06), ("NotAuthorized", "", 0x08), ("InvalidArguments", "Invalid offset", 0x07),
        ] as [(String, String, Int)])
    func errorsOfBlueZ(_ name: String, _ message: String, _ code: Int) {
        #expect(GATTError(.bluez(name, message)).rawValue == code)
    }

    @Test func errorsOfTheView() {
        #expect(GATTError(.unknownObject("/a")) == .invalidHandle)
        #expect(GATTError(.limitsExceeded("")) == .noResources)
        #expect(GATTError(.accessDenied("")) == .error)
        #expect(GATTError(BusError(name: "org.freedesktop.DBus.Error.NoReply", message: "")) == .error)
    }
}

@Suite struct AttributeRequestTests {
    private var view = PlayedView()

    init() { _ = view.connect() }

    @Test mutating func servicesAreThoseOfTheDevice() {
        view.addDevice(2)
        view.addServices(of: 2)
        let effects = view.request(.getServices(address: 1))
        guard case .send(.services(1, let services))? = effects.first, effects.count == 2 else {
            Issue.record("\(effects)")
            return
        }
        let uuid = { (short: UInt64) in ServerMessage.UUID128(high: short << 32 | 0x1000, low: 0x8000_0080_5F9B_34FB) }
        #expect(
            services == [
                .init(
                    uuid: uuid(0x180F), handle: 1,
                    characteristics: [
                        .init(
                            uuid: uuid(0x2A19), handle: 3, properties: 0x1A,
                            descriptors: [.init(uuid: uuid(0x2902), handle: 4), .init(uuid: uuid(0x2901), handle: 5)]),
                        .init(uuid: uuid(0x2A1A), handle: 7, properties: 0x04, descriptors: []),
                    ])
            ])
    }

    @Test mutating func servicesOneByOneAndInOrder() {
        for number in stride(from: 0x0F, through: 0x2F, by: 0x10) {
            let path = PlayedView.path(1) / "service00\(number == 0x0F ? "0f" : String(number, radix: 16))"
            view.tree.add(path, GattService1.interface, ["UUID": .string("1800")])
            _ = view.handle(.objects(.attribute(path, isGone: false)))
        }
        #expect(
            view.request(.getServices(address: 1)).words
                == ["services 1 [1]", "services 1 [15]", "services 1 [31]", "services 1 [47]", "services done 1"])
    }

    /// Objects without a UUID, or with names that have no handle.
    @Test mutating func malformedAttributesAreLeftOut() {
        let device = PlayedView.path(1)
        view.tree.add(device / "service0100", GattService1.interface, ["UUID": .string("none")])
        view.tree.add(device / "service", GattService1.interface, ["UUID": .string("1800")])
        view.tree.add(device / "service0100" / "char0101", GattCharacteristic1.interface, ["UUID": .string("2A19")])
        view.tree.add(device / "service0001" / "char", GattCharacteristic1.interface, ["UUID": .string("2A19")])
        _ = view.handle(.objects(.loaded))
        #expect(view.request(.getServices(address: 1)).words == ["services 1 [1]", "services done 1"])
        #expect(view.request(.read(address: 1, handle: 0x102)).words == ["failed 1.258: 1"])
    }

    @Test mutating func aServiceTooLongForAFrame() {
        let service = PlayedView.path(1) / "service1000"
        view.tree.add(service, GattService1.interface, ["UUID": .string("1800")])
        for handle in 0x1001..<0x1001 + 6000 {
            view.tree.add(
                service / "char\(String(handle, radix: 16))", GattCharacteristic1.interface,
                ["UUID": .string("12345678-1234-1234-1234-123456789abc")])
        }
        _ = view.handle(.objects(.loaded))
        #expect(view.request(.getServices(address: 1)).words == ["failed 1.0: 128"])
    }

    @Test mutating func readsAndWrites() throws {
        #expect(view.request(.read(address: 1, handle: 3)).words == ["ReadValue char0002"])
        #expect(view.answer("ReadValue", .success([.bytes([100])])).words == ["read 1.3 [100]"])
        #expect(view.request(.readDescriptor(address: 1, handle: 5)).words == ["ReadValue desc0005"])
        #expect(view.answer("ReadValue", .success([.bytes([])])).words == ["read 1.5 []"])
        for (needsResponse, kind) in [(true, "request"), (false, "command")] {
            #expect(
                view.request(.write(address: 1, handle: 7, needsResponse: needsResponse, [1, 2])).words == ["WriteValue char0006"])
            let call = try #require(view.calls.values.first)
            #expect(call.arguments == [.bytes([1, 2]), .vardict(["type": .string(kind)])])
            #expect(call.interface == GattCharacteristic1.interface && call.path == PlayedView.characteristic(1, "char0006"))
            #expect(view.answer("WriteValue").words == ["wrote 1.7"])
        }
        #expect(view.request(.writeDescriptor(address: 1, handle: 5, [3])).words == ["WriteValue desc0005"])
        #expect(view.calls.values.map(\.arguments) == [[.bytes([3]), .vardict([:])]])
        #expect(view.answer("WriteValue", .failure(.bluez("NotPermitted", "Write not permitted"))).words == ["failed 1.5: 3"])
    }

    /// An answer of another type than bytes.
    @Test mutating func aMalformedAnswerIsAnEmptyValue() {
        for values in [[], [.string("x")], [.bytes([1]), .bytes([2])]] as [[DBusValue]] {
            _ = view.request(.read(address: 1, handle: 3))
            #expect(view.answer("ReadValue", .success(values)).words == ["read 1.3 \(values.first?.bytesValue ?? [])"])
        }
    }

    @Test(arguments: [0, 1, 2, 6, 8, 0xFFFF, .max] as [UInt32]) mutating func handlesOfNothing(_ handle: UInt32) {
        let refusal = ["failed 1.\(handle): 1"]
        #expect(view.request(.read(address: 1, handle: handle)).words == refusal)
        #expect(view.request(.readDescriptor(address: 1, handle: handle)).words == refusal)
        #expect(view.request(.write(address: 1, handle: handle, needsResponse: true, [])).words == refusal)
        #expect(view.request(.writeDescriptor(address: 1, handle: handle, [])).words == refusal)
        #expect(view.request(.notify(address: 1, handle: handle, isEnabled: true)).words == refusal)
    }

    @Test mutating func a65thCallIsBusy() {
        for _ in 0..<64 { #expect(view.request(.read(address: 1, handle: 3)).words == ["ReadValue char0002"]) }
        #expect(view.request(.read(address: 1, handle: 3)).words == ["failed 1.3: 132"])
        #expect(view.request(.write(address: 1, handle: 3, needsResponse: false, [])).words == ["failed 1.3: 132"])
        #expect(view.request(.notify(address: 1, handle: 3, isEnabled: true)).words == ["failed 1.3: 132"])
        view.addDevice(2)
        #expect(view.request(.device(address: 2, .connect)).words == ["not connected 2: 128"])
        // The end of a link always goes out.
        #expect(view.request(.device(address: 1, .disconnect)).words == ["Disconnect dev_00_00_00_00_00_01"])
        _ = view.answer("Disconnect")
        // The calls of the former link still wait for their answers.
        #expect(view.request(.device(address: 1, .connect)).words == ["not connected 1: 128"])
        for _ in 0..<64 { #expect(view.answer("ReadValue") == []) }
        #expect(view.request(.device(address: 1, .connect)).words == ["Connect dev_00_00_00_00_00_01"])
    }

    @Test mutating func notificationsOnAndOff() {
        let path = PlayedView.characteristic(1)
        #expect(view.handle(.objects(.value(path, [1]))) == [], "not asked for")
        #expect(view.request(.notify(address: 1, handle: 3, isEnabled: true)).words == ["StartNotify char0002"])
        #expect(view.handle(.objects(.value(path, [2]))).words == ["notified 1.3 [2]"], "it may precede the answer")
        #expect(view.answer("StartNotify").words == ["notify 1.3"])
        #expect(view.handle(.objects(.value(path, [3]))).words == ["notified 1.3 [3]"])
        #expect(view.handle(.objects(.value(PlayedView.characteristic(1, "char0006"), [4]))) == [])
        #expect(view.handle(.objects(.value(PlayedView.characteristic(2), [4]))) == [])
        #expect(view.request(.notify(address: 1, handle: 3, isEnabled: true)).words == ["notify 1.3"], "they are on")
        #expect(view.request(.notify(address: 1, handle: 3, isEnabled: false)).words == ["StopNotify char0002"])
        #expect(view.handle(.objects(.value(path, [5]))) == [])
        #expect(view.answer("StopNotify", .failure(.bluez("Failed"))).words == ["notify 1.3"], "they are off all the same")
        #expect(view.request(.notify(address: 1, handle: 3, isEnabled: false)).words == ["notify 1.3"], "they were off")
        #expect(view.request(.notify(address: 1, handle: 5, isEnabled: true)).words == ["failed 1.5: 1"], "a descriptor")
        #expect(view.request(.notify(address: 1, handle: 4, isEnabled: true)).words == ["failed 1.4: 1"])
    }

    @Test mutating func aRefusedSubscription() {
        _ = view.request(.notify(address: 1, handle: 3, isEnabled: true))
        #expect(view.answer("StartNotify", .failure(.bluez("NotSupported"))).words == ["failed 1.3: 6"])
        #expect(view.handle(.objects(.value(PlayedView.characteristic(1), [1]))) == [])
        #expect(view.request(.notify(address: 1, handle: 3, isEnabled: true)).words == ["StartNotify char0002"])
    }

    @Test mutating func offBeforeTheAnswer() {
        _ = view.request(.notify(address: 1, handle: 3, isEnabled: true))
        #expect(view.request(.notify(address: 1, handle: 3, isEnabled: false)).words == ["StopNotify char0002"])
        #expect(view.answer("StartNotify").words == ["notify 1.3"])
        #expect(view.answer("StopNotify").words == ["notify 1.3"])
        #expect(view.handle(.objects(.value(PlayedView.characteristic(1), [1]))) == [])
    }

    @Test mutating func offAndOnBeforeTheAnswer() {
        for isOn in [true, false, true] { _ = view.request(.notify(address: 1, handle: 3, isEnabled: isOn)) }
        #expect(view.answer("StartNotify", .failure(.bluez("Failed"))).words == ["failed 1.3: 133"])
        #expect(view.answer("StopNotify").words == ["notify 1.3"])
        #expect(view.answer("StartNotify").words == ["notify 1.3"])
        #expect(view.handle(.objects(.value(PlayedView.characteristic(1), [1]))).words == ["notified 1.3 [1]"])
    }

    /// bluetoothd writes the configuration itself.
    @Test mutating func theClientsOwnConfiguration() {
        #expect(view.request(.readDescriptor(address: 1, handle: 4)).words == ["read 1.4 [0, 0]"])
        #expect(view.request(.writeDescriptor(address: 1, handle: 4, [1, 0])).words == ["StartNotify char0002"])
        #expect(view.answer("StartNotify").words == ["wrote 1.4"])
        #expect(view.request(.readDescriptor(address: 1, handle: 4)).words == ["read 1.4 [1, 0]"])
        #expect(view.request(.writeDescriptor(address: 1, handle: 4, [2, 0])).words == ["wrote 1.4"], "indications are the same")
        // The request and the write, in either order.
        #expect(view.request(.notify(address: 1, handle: 3, isEnabled: true)).words == ["notify 1.3"])
        for value in [[0, 0], [], [4, 0]] as [[UInt8]] {
            #expect(view.request(.writeDescriptor(address: 1, handle: 4, value)).words.count == 1)
        }
        #expect(view.answer("StopNotify").words == ["wrote 1.4"])
        #expect(view.request(.readDescriptor(address: 1, handle: 4)).words == ["read 1.4 [0, 0]"])
    }

    @Test mutating func attributesThatChangeDuringTheLink() {
        _ = view.request(.notify(address: 1, handle: 3, isEnabled: true))
        _ = view.answer("StartNotify")
        let path = PlayedView.characteristic(1)
        view.tree.remove(path, [GattCharacteristic1.interface])
        _ = view.handle(.objects(.attribute(path, isGone: true)))
        #expect(view.request(.read(address: 1, handle: 3)).words == ["failed 1.3: 1"])
        #expect(view.handle(.objects(.value(path, [1]))) == [])
        view.addServices(of: 1)
        _ = view.handle(.objects(.attribute(path, isGone: false)))
        #expect(view.request(.notify(address: 1, handle: 3, isEnabled: true)).words == ["StartNotify char0002"], "a new one")
        view.tree.remove(path, [GattCharacteristic1.interface])
        _ = view.handle(.objects(.loaded))
        #expect(view.request(.read(address: 1, handle: 3)).words == ["failed 1.3: 1"])
    }

    @Test mutating func theNextLinkBeginsWithoutNotifications() {
        _ = view.request(.notify(address: 1, handle: 3, isEnabled: true))
        _ = view.change(1, ["Connected": .boolean(false)])
        _ = view.connect()
        #expect(view.answer("StartNotify") == [])
        #expect(view.handle(.objects(.value(PlayedView.characteristic(1), [1]))) == [])
    }
}

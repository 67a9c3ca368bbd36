// SPDX-License-Identifier: Apache-2.0
// Random events in a session: requests of a client, answers and errors of bluetoothd, devices and adapters that come
// and go. Whatever happens, requests have one answer, links are within their limit, and calls are for objects that
// exist.

@testable import AccessoryDoor
import BlueZInterfaces
import BlueZObjects
import DBusKit
import ESPHomeAPI
import TestSupport
import Testing

/// A session with an observer of its effects.
private struct Observed {
    private static let devices = 1...4
    private static let adapters: [ObjectPath] = [PlayedView.adapter, "/org/bluez/hci1"]
    private static let maxLinks = 2

    var view: PlayedView
    private var random: SeededGenerator
    private let seed: UInt64
    private var timers: Set<String> = []
    /// Requests that wait for their answer, by address and handle.
    private var asked: [String: Int] = [:]
    private var latest = "nothing"

    init(seed: UInt64) {
        self.seed = seed
        random = SeededGenerator(state: seed)
        view = PlayedView(devices: Array(Self.devices), maxLinks: Self.maxLinks)
        view.tree.add(Self.adapters[1], Adapter1.interface, ["Powered": .boolean(true)])
    }

    private mutating func pick<Element>(_ list: [Element]) -> Element { list.randomElement(using: &random)! }
    private mutating func oneIn(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }

    private func fail(_ text: String) { Issue.record("seed \(seed), after \(latest): \(text)") }

    // MARK: Events

    mutating func step() {
        let device = Int.random(in: Self.devices, using: &random)
        switch Int.random(in: 0..<14, using: &random) {
        case 0...5: request(UInt64(device))
        case 6...8: answer()
        case 9: note("a change") { $0.view.change(device, $0.properties()) }
        case 10:
            let isGone = oneIn(2)
            if isGone {
                note("the end of \(device)") { $0.view.remove(device) }
            } else if view.tree.device(PlayedView.path(device)) == nil {
                view.addDevice(device)
                note("the return of \(device)") { $0.view.change(device, ["RSSI": .int16(-50)]) }
            }
        case 11:
            let (adapter, isPowered) = (pick(Self.adapters), oneIn(2))
            note("power \(isPowered) of \(adapter)") { $0.view.setPower(isPowered, adapter) }
        case 12:
            guard let timer = timers.sorted().randomElement(using: &random) else { return }
            timers.remove(timer)
            let isCongested = oneIn(4)
            note(timer) { $0.view.handle(timer == "flush" ? .flush(isCongested: isCongested) : .retryScan) }
        default:
            guard view.tree.device(PlayedView.path(device)) != nil else { return }
            let path = PlayedView.characteristic(device)
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                view.addServices(of: device)
                note("services of \(device)") { $0.view.handle(.objects(.attribute(path, isGone: false))) }
            case 1:
                view.tree.remove(path, [GattCharacteristic1.interface])
                note("no characteristic of \(device)") { $0.view.handle(.objects(.attribute(path, isGone: true))) }
            case 2: note("objects anew") { $0.view.handle(.objects(.loaded)) }
            default: note("a value of \(device)") { $0.view.handle(.objects(.value(path, [1]))) }
            }
        }
    }

    private mutating func properties() -> [String: DBusValue] {
        pick([
            ["Connected": .boolean(true)], ["Connected": .boolean(true), "ServicesResolved": .boolean(true)],
            ["Connected": .boolean(false), "ServicesResolved": .boolean(false)], ["RSSI": .int16(-40)], ["Name": .string("Dice")],
        ])
    }

    private mutating func request(_ address: UInt64) {
        let handle = pick([3, 3, 3, 4, 5, 7, 9] as [UInt32])
        let isOn = oneIn(2)
        let request: ClientRequest = pick([
            .device(address: address, .connect), .device(address: address, .connect), .device(address: address, .disconnect),
            .getServices(address: address), .read(address: address, handle: handle),
            .readDescriptor(address: address, handle: handle),
            .write(address: address, handle: handle, needsResponse: isOn, [1]),
            .writeDescriptor(address: address, handle: handle, [isOn ? 1 : 0, 0]),
            .notify(address: address, handle: handle, isEnabled: isOn),
            .subscribeFreeConnections, .subscribeAdvertisements(isRaw: isOn), .unsubscribeAdvertisements, .ping,
            .device(address: address, .pair), .setScannerMode(.active), .other(type: 33),
        ])
        switch request {
        case .read, .readDescriptor, .write, .writeDescriptor, .notify: asked["\(address).\(handle)", default: 0] += 1
        case .getServices: asked["\(address).0", default: 0] += 1
        default: break
        }
        note("\(request)") { $0.view.request(request) }
    }

    private mutating func answer() {
        guard let id = view.calls.keys.sorted().randomElement(using: &random), let call = view.calls[id] else { return }
        let result: Result<[DBusValue], BusError> =
            oneIn(3)
            ? .failure(pick([.bluez("Failed"), .bluez("NotConnected"), .bluez("InProgress"), .limitsExceeded("")]))
            : .success([.bytes([1])])
        if case .success = result, call.member == "Connect", view.tree.device(call.path) != nil, !oneIn(4) {
            view.tree.change(
                call.path, Device1.interface, ["Connected": .boolean(true), "ServicesResolved": .boolean(oneIn(2))], invalidated: []
            )
        }
        note("an answer to \(call.member)") { $0.view.handle(.answered(id, result)) }
    }

    // MARK: Effects

    private mutating func note(_ event: String, _ body: (inout Observed) -> [ProxySession.Effect]) {
        latest = event
        for effect in body(&self) { check(effect) }
        checkState()
    }

    private mutating func check(_ effect: ProxySession.Effect) {
        switch effect {
        case .end: fail("the end, which the client did not ask for")
        case .schedule(let timer): timers.insert("\(timer)")
        case .flushNow: timers.insert("flush")
        case .call(_, let call):
            let owner = Self.devices.map { PlayedView.path($0) }.first { call.path == $0 || call.path.isBelow($0) } ?? call.path
            if !view.tree.has(owner, Device1.interface), !view.tree.has(owner, Adapter1.interface) {
                fail("\(call.member) of \(call.path), which does not exist")
            }
        case .send(let message): check(message)
        }
    }

    private mutating func check(_ message: ServerMessage) {
        switch message {
        case .read(let address, let handle, _), .wrote(let address, let handle), .notify(let address, let handle),
            .failed(let address, let handle, _):
            answered("\(address).\(handle)")
        case .servicesDone(let address): answered("\(address).0")
        case .connection(let address, let isConnected, _, _):
            // Requests of the former link have had their answer with that.
            if !isConnected, view.session.links[address] == nil { asked = asked.filter { !$0.key.hasPrefix("\(address).") } }
            if isConnected, view.tree.device(PlayedView.path(Int(address)))?.areServicesResolved != true {
                if case .connected? = view.session.links[address]?.phase {} else { fail("connected to \(address)") }
            }
        case .freeConnections(let free, let limit, let allocated):
            if free + allocated.count != limit || limit != Self.maxLinks {
                fail("\(free) of \(limit) links are free, not \(allocated)")
            }
        case .notified(let address, let handle, _):
            if view.session.links[address]?.notifying.contains(PlayedView.characteristic(Int(address))) != true || handle != 3 {
                fail("a value of \(address).\(handle), which was not asked for")
            }
        default: break
        }
    }

    private mutating func answered(_ request: String) {
        asked[request, default: 0] -= 1
        if asked[request, default: 0] < 0 { fail("a second answer: \(request)") }
    }

    private func checkState() {
        let session = view.session
        if session.links.count > Self.maxLinks { fail("\(session.links.count) links") }
        for (address, link) in session.links where view.tree.device(link.path) == nil {
            fail("a link to \(address), which is gone")
        }
        if view.calls.count > ProxySession.maxCalls + Self.maxLinks + Self.adapters.count { fail("\(view.calls.count) calls") }
        if !session.adverts.isEmpty, !timers.contains("flush") { fail("adverts that none sends") }
        if session.scans.values.contains(.failed), !timers.contains("retryScan") { fail("a search that none tries again") }
        let powered = view.tree.adapters.filter { view.tree.properties(of: $0, Adapter1.self)?.isPowered == true }
        if Set(session.scans.keys) != Set(session.subscription == .none ? [] : powered) {
            fail("searches on \(session.scans.keys)")
        }
    }

    /// All calls are answered, all devices go: nothing is left.
    mutating func finish() {
        for _ in 0..<8 {
            for id in view.calls.keys.sorted() {
                note("the last answers") { $0.view.handle(.answered(id, .failure(.bluez("Failed")))) }
            }
        }
        if !view.calls.isEmpty { fail("\(view.calls.count) calls at the end") }
        if view.session.isBusy { fail("it is busy at the end") }
        for device in Self.devices { note("the end") { $0.view.remove(device) } }
        if !view.session.links.isEmpty { fail("links at the end") }
    }
}

@Suite struct RandomSessionTests {
    @Test(arguments: 0..<40 as Range<UInt64>) func everyPromiseHolds(_ seed: UInt64) {
        var observed = Observed(seed: seed)
        for _ in 0..<1500 { observed.step() }
        observed.finish()
    }
}

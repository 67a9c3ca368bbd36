// SPDX-License-Identifier: Apache-2.0
// The values behind a link: its machine, its request queue and its notification states.

import BlueZInterfaces
internal import BlueZObjects
import DBusKit
import Testing

@testable import CoreBluetooth

@Suite struct LinkMachineTests {
    private static let device: ObjectPath = "/org/bluez/hci0/dev_C0"
    private var machine = LinkMachine(device)
    private var now = LinkMachine.Surroundings(isPoweredOn: true, tree: tree(), now: 0)

    private static func tree(isConnected: Bool? = false) -> BlueZTree {
        var tree = BlueZTree()
        guard let isConnected else { return tree }
        tree.add(
            device,
            .dictionary(
                key: "s", value: "a{sv}",
                [.init(.string(Device1.interface), .vardict(["Connected": .boolean(isConnected)]))]))
        return tree
    }

    /// The effects' names.
    private mutating func handle(_ event: LinkMachine.Event) -> [String] {
        machine.handle(event, now).map { String("\($0)".prefix { $0 != "(" }) }
    }

    private mutating func connect(reconnects: Bool = false) {
        _ = handle(.connect(reconnects: reconnects, delay: 0))
        _ = handle(.connectAnswered(nil))
    }

    @Test mutating func aLinkFromTheFirstAttemptToItsEnd() {
        #expect(handle(.connect(reconnects: false, delay: 0)) == ["publishConnecting", "cancelRetry", "hold", "connect"])
        #expect(handle(.connectAnswered(nil)) == ["beginRequests", "publishConnected"])
        #expect(handle(.cancel) == ["disconnect"])
        #expect(handle(.disconnectAnswered) == ["publishDisconnected"])
        #expect(handle(.disconnectAnswered) == [])
        #expect(machine.state == .idle)
    }

    @Test mutating func anAttemptFollowsTheAdvertisement() {
        _ = handle(.connect(reconnects: false, delay: 0))
        #expect(handle(.connectAnswered(.bluezFailed)) == ["release", "schedule"])
        #expect(machine.needsDiscovery)
        now.now = 10
        #expect(handle(.advertised) == ["schedule"], "not at once while it advertises and refuses")
        now.now = 10_000_000
        #expect(handle(.advertised) == ["cancelRetry", "hold", "connect"], "at once after silence")
        now.tree = Self.tree(isConnected: true)
        #expect(handle(.deviceChanged(["Connected"])) == ["beginRequests", "publishConnected"])
        #expect(handle(.connectAnswered(.bluezFailed)) == [])
        #expect(!machine.needsDiscovery)
    }

    @Test mutating func anObjectIsSearchedFor() {
        now.tree = Self.tree(isConnected: nil)
        #expect(handle(.connect(reconnects: false, delay: 0)) == ["publishConnecting", "cancelRetry"])
        #expect(machine.state == .waiting(isSearching: true))
        #expect(handle(.cancel) == ["cancelRetry", "publishDisconnected"])
    }

    @Test mutating func aLostLinkIsMadeAgainWhereTheAppAskedForThat() {
        connect(reconnects: true)
        #expect(
            handle(.deviceChanged(["Connected"]))
                == ["release", "endRequests", "publishDisconnected", "cancelRetry", "hold", "connect"])
        connect()
        #expect(handle(.deviceChanged(["Connected"])) == ["release", "endRequests", "publishDisconnected"])
    }

    @Test mutating func withoutPowerTheWishStays() {
        now.isPoweredOn = false
        #expect(handle(.connect(reconnects: false, delay: 0)) == ["publishConnecting"])
        now.isPoweredOn = true
        #expect(handle(.poweredOn) == ["cancelRetry", "hold", "connect"])
        now.isPoweredOn = false
        #expect(handle(.radioLost(CBError(.unknown, ""))) == ["release"])
        #expect(machine.state == .waiting(isSearching: false))
    }

    @Test mutating func connectingWhileDisconnecting() {
        connect()
        _ = handle(.cancel)
        #expect(handle(.connect(reconnects: false, delay: 0)) == [])
        #expect(
            handle(.disconnectAnswered)
                == ["publishDisconnected", "publishConnecting", "cancelRetry", "hold", "connect"])
    }

    @Test mutating func theEndOfAGrant() {
        #expect(handle(.revoked) == [])
        #expect(handle(.cancel) == ["publishIdle"])
        _ = handle(.connect(reconnects: true, delay: 0))
        #expect(handle(.revoked) == ["cancelRetry", "release", "publishFailure"])
        connect(reconnects: true)
        #expect(handle(.revoked) == ["release", "endRequests", "publishDisconnected"])
    }

    @Test mutating func anotherObject() {
        connect(reconnects: true)
        #expect(handle(.granted("/org/bluez/hci0/dev_C1")) == [], "while the old object exists")
        now.tree = Self.tree(isConnected: nil)
        #expect(
            handle(.granted("/org/bluez/hci0/dev_C1"))
                == ["release", "endRequests", "publishDisconnected", "cancelRetry", "cancelRetry"])
        #expect(machine.path == "/org/bluez/hci0/dev_C1" && machine.needsDiscovery)
    }
}

extension BusError {
    fileprivate static var bluezFailed: BusError {
        BusError(name: "org.bluez.Error.Failed", message: "le-connection-abort-by-local")
    }
}

@Suite struct RequestQueueTests {
    @Test func oneRequestIsCurrentAndTheRestKeepsItsOrder() throws {
        var queue = RequestQueue<Int>()
        for number in 0..<600 { try queue.add(number) }
        for number in 0..<599 {
            let (next, second) = (queue.next(), queue.next())
            #expect(next == number && second == nil)
            queue.finish()
        }
        let last = queue.next()
        #expect(!queue.isIdle && last == 599)
        try queue.add(600)
        let unanswered = queue.close()
        #expect(unanswered == [599, 600])
        #expect(throws: RequestQueue<Int>.Refusal.closed) { try queue.add(1) }
    }

    @Test func aFullQueueRefuses() throws {
        var queue = RequestQueue<Int>()
        for number in 0..<RequestQueue<Int>.maxPending { try queue.add(number) }
        #expect(throws: RequestQueue<Int>.Refusal.full) { try queue.add(1) }
    }
}

@Suite struct NotificationStatesTests {
    private var states = NotificationStates()

    @Test mutating func valuesBeforeTheAnswerWait() {
        #expect(states.received([1], of: "/a") == false)
        states.starting("/a")
        #expect(states.received([2], of: "/a") == false)
        #expect(states.started("/a") == [[2]])
        #expect(states.received([3], of: "/a") == true)
        states.stopped("/a")
        #expect(states.received([4], of: "/a") == false)
    }

    @Test mutating func theEchoOfARead() {
        states.beginRead("/a")
        #expect(states.endRead() == nil)
        states.starting("/a")
        _ = states.started("/a")
        states.beginRead("/a")
        #expect(states.received([1], of: "/a") == true)
        #expect(states.endRead() == [1])
        #expect(states.endRead() == nil)
    }
}

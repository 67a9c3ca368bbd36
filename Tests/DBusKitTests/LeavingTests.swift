// SPDX-License-Identifier: Apache-2.0
// Connections that one process leaves and another takes up: here both are one, and the bus between them is a real one.

import DBusKit
import Glibc
import TestSupport
import Testing

@Suite(.serialized) struct LeavingTests {
    private static let ended = BusError.standard("NoReply", "ended")

    private let bus: PrivateBus
    private let loop = MainLoop()
    private let service: Connection

    init() throws {
        bus = try PrivateBus()
        service = try Connection(.server(bus.address), loop: loop)
    }

    /// - Parameter begun: the client's actions before it leaves.
    private func leave(
        _ begun: (Connection) throws -> Void = { _ in }
    ) throws -> (socket: FileDescriptor, left: LeftConnection) {
        let client = try Connection(.server(bus.address), loop: loop)
        try begun(client)
        return try #require(client.leave(answering: Self.ended))
    }

    @Test func aBusNoticesNothing() throws {
        let (socket, left) = try leave()
        let resumed = try Connection(resuming: socket, left, peer: nil, loop: loop)
        #expect(resumed.uniqueName == left.uniqueName)
        let owner = try resumed.callAndWait(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(left.uniqueName)])
        #expect(owner == [.string(left.uniqueName)])
    }

    @Test func rulesThatTheBusKnowsNeedNotBeAskedForAnew() throws {
        let (socket, left) = try leave { client in
            _ = client.subscribe(sender: service.uniqueName, interface: "a.b", member: "S") { _ in }
            _ = try client.callAndWait(Bus.name, Bus.path, Bus.name, "GetId")
        }
        // Between two processes it waits in the socket.
        service.send(try Message.signal(path: "/", interface: "a.b", member: "S", [.uint32(1)]))
        _ = try service.callAndWait(Bus.name, Bus.path, Bus.name, "GetId")
        let resumed = try Connection(resuming: socket, left, peer: nil, loop: loop)
        var heard: [DBusValue] = []
        let after = resumed.subscribe(sender: service.uniqueName, interface: "a.b", member: "S", busKnows: true) {
            heard += (try? $0.arguments()) ?? []
        }
        #expect(loop.run(until: { heard == [.uint32(1)] }, timeout: .hang))
        after.cancel()
    }

    @Test func aLateAnswerIsNotTakenForAnother() throws {
        var calls: [Message] = []
        service.onCall = {
            calls.append($0)
            return true
        }
        var name = ""
        func call(on connection: Connection, _ completion: @escaping (Result<[DBusValue], BusError>) -> Void) {
            connection.call(service.uniqueName, "/", "a.b", "C", completion: completion)
            name = connection.uniqueName
        }
        let (socket, left) = try leave { client in
            call(on: client) { _ in }
            #expect(loop.run(until: { calls.count == 1 }, timeout: .hang))
        }
        let resumed = try Connection(resuming: socket, left, peer: nil, loop: loop)
        var answers: [DBusValue] = []
        // As many as that process may have numbered.
        for _ in 0..<8 { call(on: resumed) { answers += (try? $0.get()) ?? [.string("failed")] } }
        #expect(loop.run(until: { calls.count == 9 }, timeout: .hang))
        service.send(try calls[0].reply([.string("late")]))
        for each in calls.dropFirst() { service.send(try each.reply([.string("asked")])) }
        #expect(loop.run(until: { answers.count == 8 }, timeout: .hang))
        #expect(answers == Array(repeating: .string("asked"), count: 8))
        #expect(name == left.uniqueName)
    }

    @Test(arguments: ["half a message", "l\u{7}\u{1}\u{1}", "l\u{1}\u{1}\u{9}"])
    func halfAMessageIsNotGoneOnWith(text: String) throws {
        let (_, left) = try leave()
        var pair: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
        let (own, other) = (FileDescriptor(owning: pair[0]), FileDescriptor(owning: pair[1]))
        #expect(send(other.rawValue, text, text.utf8.count, 0) == text.utf8.count)
        #expect(throws: BusError.self) { try Connection(resuming: own, left, peer: PeerLimits(), loop: loop) }
    }

    @Test func aConnectionThatIsGoneCannotBeLeft() throws {
        let client = try Connection(.server(bus.address), loop: loop)
        bus.end()
        #expect(loop.run(until: { !client.isConnected }, timeout: .hang))
        #expect(client.leave(answering: Self.ended) == nil)
    }
}

// SPDX-License-Identifier: Apache-2.0
// Messages passed on under other names, through a real bus, which takes no message that is not well made: of all
// lengths, so that some go out at once and some by libdbus.

import DBusKit
import TestSupport
import Testing

@Suite(.serialized) struct PassingTests {
    private let bus: PrivateBus
    private let loop = MainLoop()
    private let service: Connection
    private let client: Connection

    init() throws {
        bus = try PrivateBus()
        service = try Connection(.server(bus.address), loop: loop)
        client = try Connection(.server(bus.address), loop: loop)
    }

    /// As if it had been received.
    private func received(_ message: Message) throws -> Message {
        let bytes = try #require(message.wireFormat)
        return try #require(Message.demarshal(bytes))
    }

    private static let lengths = [0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 1000, 8000, 8192, 9000, 100_000]

    @Test func callsAndAnswersKeepTheirArguments() throws {
        service.onCall = { [service] call in
            // The arguments come back as another service's answer would.
            guard let arguments = try? call.arguments(limits: .generous), let own = try? call.reply(arguments),
                let bytes = own.wireFormat, let answer = Message.demarshal(bytes), let sender = call.sender
            else { return false }
            #expect(call.interface == "a.b" && call.member == "C" && call.wantsReply)
            service.pass(answer, answering: call, from: service.uniqueName, to: sender)
            return true
        }
        for length in Self.lengths {
            for path: ObjectPath in ["/", "/a/b1", ObjectPath("/" + String(repeating: "x", count: 2000))!] {
                let arguments: [DBusValue] = [
                    .string(String(repeating: "é", count: length)), .vardict(["k": .uint16(7)]),
                    .bytes((0..<length).map { UInt8($0 & 255) }),
                ]
                let call = try Message.call(to: "x.y", path: path, interface: "a.b", member: "C", arguments)
                if length % 2 == 1 { call.expectNoReply() }
                var answer: Message??
                _ = client.pass(try received(call), to: service.uniqueName) { answer = $0 }
                #expect(loop.run(until: { answer != nil }, timeout: .hang))
                let reply = try #require(answer ?? nil)
                #expect(reply.kind == .reply && reply.sender == service.uniqueName && reply.destination == client.uniqueName)
                #expect(try reply.arguments(limits: .generous) == arguments)
            }
        }
    }

    @Test func errorsKeepTheirNames() throws {
        service.onCall = { [service] call in
            guard let bytes = call.errorReply(BusError(name: "a.b.No", message: "why"))?.wireFormat,
                let answer = Message.demarshal(bytes), let sender = call.sender
            else { return false }
            service.pass(answer, answering: call, from: service.uniqueName, to: sender)
            return true
        }
        var answer: Message??
        let call = try received(try Message.call(to: "x.y", path: "/", interface: "a.b", member: "C"))
        _ = client.pass(call, to: service.uniqueName) { answer = $0 }
        #expect(loop.run(until: { answer != nil }, timeout: .hang))
        #expect((answer ?? nil)?.error == BusError(name: "a.b.No", message: "why"))
    }

    @Test func signalsKeepTheirOrder() throws {
        var heard: [Int] = []
        let subscription = client.subscribe(sender: service.uniqueName, interface: "a.b", member: "S") { message in
            heard.append((try? message.arguments(limits: .generous))?.first?.integerValue.map { Int($0) } ?? -1)
        }
        // Once this is answered the bus has the rule.
        _ = try client.callAndWait(Bus.name, Bus.path, Bus.name, "GetId")
        for number in 0..<2000 {
            let length = number % 50 == 0 ? 20_000 : number % 40
            let signal = try Message.signal(
                path: "/a", interface: "a.b", member: "S", [.int32(Int32(number)), .string(String(repeating: "x", count: length))])
            service.pass(signal: try received(signal), from: service.uniqueName)
        }
        #expect(loop.run(until: { heard.count == 2000 }, timeout: .hang))
        #expect(heard == Array(0..<2000))
        subscription.cancel()
    }

    @Test func aBusThatGoesAnswersWithNothing() throws {
        var answers = 0
        let call = try received(try Message.call(to: "x.y", path: "/", interface: "a.b", member: "C"))
        service.onCall = { _ in true }
        _ = client.pass(call, to: service.uniqueName) { if $0 == nil { answers += 1 } }
        bus.end()
        #expect(loop.run(until: { answers == 1 && !client.isConnected }, timeout: .hang))
        _ = client.pass(call, to: service.uniqueName) { if $0 == nil { answers += 1 } }
        #expect(loop.run(until: { answers == 2 }, timeout: .hang))
    }
}

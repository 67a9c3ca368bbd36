// SPDX-License-Identifier: Apache-2.0
// Connections on a real bus: calls, time-outs, cancellation, order of signals, forged senders, names, descriptors, the
// exported tree.

import DBusKit
import TestSupport
import Testing

/// An object for tests, with a property, methods that answer, fail, wait and drop, and a visibility.
private final class Thing: ExportedObject {
    let path: ObjectPath
    var interfaces: [ExportedInterface] = []
    var seenBy: Set<String>?
    var held: [MethodCall] = []
    var level: UInt32 = 1

    static let xml = """
        <node><interface name="test.Thing">
          <method name="Echo"><arg type="v" name="in" direction="in"/><arg type="v" name="out" direction="out"/></method>
          <method name="Fail"/><method name="Hold"/><method name="Drop"/><method name="Secret"/>
          <method name="File"><arg type="h" name="file" direction="in"/><arg type="h" name="back" direction="out"/></method>
          <property name="Level" type="u" access="readwrite"/>
          <property name="Hidden" type="s" access="read"/>
          <signal name="Tick"><arg type="u" name="number"/></signal>
        </interface></node>
        """

    init(_ path: ObjectPath) throws {
        self.path = path
        var interface = ExportedInterface(try InterfaceDescription.parse(xml: Self.xml)[0])
        interface.method("Echo") { call in call.reply(.variant(call.arguments[0].unwrapped)) }
        interface.method("Fail") { _ throws(BusError) in throw BusError(name: "test.Error.No", message: "no") }
        interface.method("Hold") { [unowned self] call in held.append(call) }
        interface.method("Drop") { _ in }
        interface.method("Secret") { call in call.reply() }
        interface.method("File") { call in call.reply(call.arguments[0]) }
        interface.property("Level") { [unowned self] _ in .uint32(level) }
        interface.property("Hidden") { _ in .string("x") }
        interface.writable("Level") { [unowned self] value, _ throws(BusError) in
            guard let new = value.integerValue, new < 10 else { throw .invalidArguments("Level: too high") }
            level = UInt32(new)
        }
        interface.restrict(["Hidden", "Secret"]) { _, _ in .hidden }
        interfaces = [interface]
    }

    func isVisible(to caller: String) -> Bool { seenBy?.contains(caller) ?? true }
}

/// A bus, a server and a client on one loop.
private final class Stage {
    let bus: PrivateBus
    let loop = MainLoop()
    let server: Connection
    let client: Connection
    let tree: ObjectServer
    let thing: Thing

    init(reading: Connection.Reading = .immediate) throws {
        bus = try PrivateBus()
        server = try Connection(.server(bus.address), loop: loop)
        client = try Connection(.server(bus.address), loop: loop, reading: reading)
        tree = ObjectServer(on: server, root: "/test")
        thing = try Thing("/test/thing")
        tree.export(thing)
        let tree = tree
        server.onCall = { tree.serve($0) }
    }

    /// Calls and runs the loop until the answer is there.
    func call(
        _ interface: String, _ member: String, _ arguments: [DBusValue] = [], path: ObjectPath = "/test/thing",
        timeout: Duration = .seconds(10)
    )
        throws -> Result<[DBusValue], BusError>
    {
        var answer: Result<[DBusValue], BusError>?
        client.call(server.uniqueName, path, interface, member, arguments, timeout: timeout) { answer = $0 }
        #expect(loop.run(until: { answer != nil }, timeout: .hang))
        return try #require(answer)
    }

    func errorName(_ interface: String, _ member: String, _ arguments: [DBusValue] = [], path: ObjectPath = "/test/thing") throws
        -> String?
    {
        if case .failure(let error) = try call(interface, member, arguments, path: path) { error.name } else { nil }
    }
}

@Suite(.serialized) struct ConnectionTests {
    @Test func callsAreAnswered() throws {
        let stage = try Stage()
        #expect(try stage.call("test.Thing", "Echo", [.variant(.string("ü"))]).get() == [.variant(.string("ü"))])
        #expect(try stage.errorName("test.Thing", "Fail") == "test.Error.No")
        // A handler that forgets its caller: the caller gets an answer all the same.
        #expect(try stage.errorName("test.Thing", "Drop") == "org.freedesktop.DBus.Error.Failed")
    }

    @Test func whatIsNotThereIsSaid() throws {
        let stage = try Stage()
        #expect(try stage.errorName("test.Thing", "Nothing") == "org.freedesktop.DBus.Error.UnknownMethod")
        #expect(try stage.errorName("test.Other", "Echo") == "org.freedesktop.DBus.Error.UnknownInterface")
        #expect(try stage.errorName("test.Thing", "Echo", path: "/test/other") == "org.freedesktop.DBus.Error.UnknownObject")
        #expect(try stage.errorName("test.Thing", "Echo", [.string("x")]) == "org.freedesktop.DBus.Error.InvalidArgs")
        #expect(try stage.errorName("test.Thing", "Secret") == "org.freedesktop.DBus.Error.UnknownMethod")
    }

    @Test func propertiesAreTyped() throws {
        let stage = try Stage()
        let all = try stage.call(Bus.properties, "GetAll", [.string("test.Thing")]).get()[0].vardictValue
        #expect(all == ["Level": .uint32(1)])
        _ = try stage.call(Bus.properties, "Set", [.string("test.Thing"), .string("Level"), .variant(.uint32(5))]).get()
        #expect(stage.thing.level == 5)
        #expect(
            try stage.errorName(Bus.properties, "Set", [.string("test.Thing"), .string("Level"), .variant(.string("5"))])
                == "org.freedesktop.DBus.Error.InvalidArgs")
        #expect(
            try stage.errorName(Bus.properties, "Set", [.string("test.Thing"), .string("Level"), .variant(.uint32(50))])
                == "org.freedesktop.DBus.Error.InvalidArgs")
        #expect(
            try stage.errorName(Bus.properties, "Get", [.string("test.Thing"), .string("Hidden")])
                == "org.freedesktop.DBus.Error.UnknownProperty")
        #expect(stage.thing.level == 5)
    }

    @Test func anInvisibleObjectDoesNotExist() throws {
        let stage = try Stage()
        stage.thing.seenBy = []
        #expect(try stage.errorName("test.Thing", "Echo", [.variant(.byte(1))]) == "org.freedesktop.DBus.Error.UnknownObject")
        #expect(try stage.errorName(Bus.introspectable, "Introspect") == "org.freedesktop.DBus.Error.UnknownObject")
        stage.thing.seenBy = [stage.client.uniqueName]
        let xml = try stage.call(Bus.introspectable, "Introspect").get()[0].stringValue ?? ""
        #expect(xml.contains("Level") && !xml.contains("Hidden") && !xml.contains("Secret"))
        #expect(try InterfaceDescription.parse(xml: xml).contains { $0.name == "test.Thing" && $0.method("Echo") != nil })
    }

    @Test func callsTimeOut() throws {
        let stage = try Stage()
        guard case .failure(let error) = try stage.call("test.Thing", "Hold", timeout: .milliseconds(50)) else {
            return #expect(Bool(false))
        }
        #expect(error.isStandard("NoReply"))
        // The late answer has no effect.
        stage.thing.held[0].reply()
        #expect(try stage.call("test.Thing", "Echo", [.variant(.byte(1))]).get().count == 1)
    }

    @Test func aCancelledCallIsSilent() throws {
        let stage = try Stage()
        var answered = false
        let pending = stage.client.call(stage.server.uniqueName, "/test/thing", "test.Thing", "Hold") { _ in answered = true }
        #expect(stage.loop.run(until: { stage.thing.held.count == 1 }, timeout: .hang))
        pending?.cancel()
        stage.thing.held[0].reply()
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        #expect(!answered)
    }

    @Test(arguments: [false, true])
    func manyObjectsAreAskedAtOnce(adaptive: Bool) throws {
        let stage = try Stage(reading: adaptive ? .adaptive(pause: .milliseconds(5)) : .immediate)
        let things = try (0..<50).map { try Thing(try #require(ObjectPath("/test/many/\($0)"))) }
        for (level, thing) in things.enumerated() where level != 7 {
            thing.level = UInt32(level)
            stage.tree.export(thing)
        }
        var levels: [Int: Int] = [:]
        var ends = 0
        stage.client.callEach(
            stage.server.uniqueName, things.map(\.path), Bus.properties, "Get", [.string("test.Thing"), .string("Level")]
        ) { index, answer in
            #expect(levels[index] == nil && ends == 0)
            levels[index] = (try? answer.arguments())?.first?.integerValue
        } completion: {
            ends += 1
        }
        #expect(ends == 0)
        #expect(stage.loop.run(until: { ends > 0 }, timeout: .hang))
        // The one that is not there has answered with an error.
        #expect(levels == Dictionary(uniqueKeysWithValues: (0..<50).filter { $0 != 7 }.map { ($0, $0) }))
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        #expect(ends == 1)
    }

    @Test func oneTimerWaitsForAllAnswers() throws {
        let stage = try Stage()
        var answers = 0
        var ends = 0
        func hold(_ paths: [ObjectPath], _ destination: String? = nil) {
            stage.client.callEach(
                destination ?? stage.server.uniqueName, paths, "test.Thing", "Hold", timeout: .milliseconds(50)
            ) { _, _ in
                answers += 1
            } completion: {
                ends += 1
            }
        }
        hold(["/test/thing", "/test/thing"])
        #expect(stage.loop.run(until: { ends == 1 }, timeout: .hang))
        // Late answers are dropped.
        #expect(stage.loop.run(until: { stage.thing.held.count == 2 }, timeout: .hang))
        for call in stage.thing.held { call.reply() }
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        #expect(answers == 0 && ends == 1)
        // No owner of the name, and an owner without an answer.
        hold([])
        hold(["/test/thing"], "no name")
        #expect(ends == 1)
        #expect(stage.loop.run(until: { ends == 3 }, timeout: .hang))
        #expect(answers == 0)
    }

    @Test(arguments: [false, true])
    func aBusThatGoesEndsTheWait(adaptive: Bool) throws {
        let stage = try Stage(reading: adaptive ? .adaptive(pause: .milliseconds(20)) : .immediate)
        var ends = 0
        let paths = [ObjectPath](repeating: "/test/thing", count: 20)
        stage.client.callEach(stage.server.uniqueName, paths, "test.Thing", "Hold") { _, _ in
            Issue.record("nobody answers")
        } completion: {
            ends += 1
        }
        #expect(stage.loop.run(until: { stage.thing.held.count == 20 }, timeout: .hang))
        stage.bus.end()
        #expect(stage.loop.run(until: { ends == 1 }, timeout: .hang))
        // And so does one that has gone already.
        stage.client.callEach(stage.server.uniqueName, paths, "test.Thing", "Hold") { _, _ in
        } completion: {
            ends += 1
        }
        #expect(stage.loop.run(until: { ends == 2 }, timeout: .hang))
    }

    @Test(arguments: [
        Connection.Reading.immediate, .adaptive(pause: .milliseconds(5)), .streamed(StreamPace(pause: .milliseconds(2))),
    ])
    func signalsArriveInOrder(reading: Connection.Reading) throws {
        let stage = try Stage(reading: reading)
        var numbers: [Int] = []
        let subscription = stage.client.subscribe(sender: stage.server.uniqueName, interface: "test.Thing", member: "Tick") {
            message in
            if let number = (try? message.arguments())?.first?.integerValue { numbers.append(number) }
        }
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        for number in 0..<2000 {
            stage.tree.emit(path: "/test/thing", interface: "test.Thing", member: "Tick", to: nil, [.uint32(UInt32(number))])
        }
        #expect(stage.loop.run(until: { numbers.count == 2000 }, timeout: .hang))
        #expect(numbers == Array(0..<2000))
        subscription.cancel()
        stage.tree.emit(path: "/test/thing", interface: "test.Thing", member: "Tick", to: nil, [.uint32(1)])
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        #expect(numbers.count == 2000)
    }

    /// libdbus drops its watches while the connection waits out a pause.
    @Test(arguments: [Connection.Reading.adaptive(pause: .milliseconds(20)), .streamed(StreamPace(pause: .milliseconds(20)))])
    func aBusThatGoesInABusyStreamIsNoticed(reading: Connection.Reading) throws {
        let stage = try Stage(reading: reading)
        var gone = false
        var heard = 0
        stage.client.onDisconnect = { gone = true }
        let subscription = stage.client.subscribe(sender: stage.server.uniqueName, interface: "test.Thing", member: "Tick") { _ in
            heard += 1
            if heard == 20 { stage.bus.end() }
        }
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        for _ in 0..<500 {
            stage.tree.emit(path: "/test/thing", interface: "test.Thing", member: "Tick", to: nil, [.uint32(0)])
        }
        #expect(stage.loop.run(until: { gone }, timeout: .hang) && heard >= 20)
        // Sending finds the socket closed too, and has nothing left to drop.
        stage.client.send(try Message.signal(path: "/test", interface: "test.Thing", member: "Tick"))
        stage.loop.iterate(mayBlock: false)
        subscription.cancel()
    }

    /// Hears two signals, which are a stream, so that the next ones wait for an hour: whatever is read then was read
    /// without the timer.
    private func stageInAPause() throws -> (stage: Stage, heard: Heard) {
        let stage = try Stage(reading: .streamed(StreamPace(pause: .seconds(3600))))
        let heard = Heard()
        _ = stage.client.subscribe(sender: stage.server.uniqueName, interface: "test.Thing", member: "Tick") { message in
            if let number = (try? message.arguments())?.first?.integerValue { heard.numbers.append(number) }
        }
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        for number in 1...2 {
            tick(stage, number)
            #expect(stage.loop.run(until: { heard.numbers.last == number }, timeout: .hang))
        }
        return (stage, heard)
    }

    private final class Heard {
        var numbers: [Int] = []
    }

    private func tick(_ stage: Stage, _ number: Int) {
        stage.tree.emit(path: "/test/thing", interface: "test.Thing", member: "Tick", to: nil, [.uint32(UInt32(number))])
    }

    /// Sends a signal that waits in the client's socket.
    private func send(_ number: Int, _ stage: Stage, unreadIn heard: Heard) throws {
        tick(stage, number)
        stage.server.flush()
        var entry = pollfd(fd: try #require(stage.client.socket), events: Int16(POLLIN), revents: 0)
        #expect(poll(&entry, 1, 20_000) == 1)
        for _ in 0..<3 { stage.loop.iterate(mayBlock: false) }
        #expect(!heard.numbers.contains(number))
    }

    @Test func anAnswerWaitsForNoPause() throws {
        let (stage, heard) = try stageInAPause()
        try send(3, stage, unreadIn: heard)
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        // Earlier signals are delivered before the answer.
        #expect(heard.numbers == [1, 2, 3])
        // And in the stream that goes on, by the other way to call.
        tick(stage, 4)
        stage.server.flush()
        let message = try Message.call(
            to: stage.server.uniqueName, path: "/test/thing", interface: "test.Thing", member: "Echo", [.variant(.byte(1))])
        var isAnswered = false
        _ = stage.client.forward(message) { _ in isAnswered = true }
        #expect(stage.loop.run(until: { isAnswered }, timeout: .hang))
        #expect(heard.numbers == [1, 2, 3, 4])
    }

    @Test func nothingPausesWhileAnAnswerIsAwaited() throws {
        let (stage, heard) = try stageInAPause()
        var isAnswered = false
        stage.client.call(stage.server.uniqueName, "/test/thing", "test.Thing", "Hold") { _ in isAnswered = true }
        for number in 3...50 {
            tick(stage, number)
            #expect(stage.loop.run(until: { heard.numbers.last == number }, timeout: .hang))
        }
        #expect(stage.loop.run(until: { stage.thing.held.count == 1 }, timeout: .hang))
        stage.thing.held[0].reply()
        #expect(stage.loop.run(until: { isAnswered }, timeout: .hang))
        #expect(heard.numbers == Array(1...50))
    }

    @Test func whatWaitsInAPauseCanBeReadAtOnce() throws {
        let (stage, heard) = try stageInAPause()
        try send(3, stage, unreadIn: heard)
        stage.client.catchUp()
        #expect(heard.numbers == [1, 2, 3])
    }

    @Test func aForgedSenderIsNotHeard() throws {
        let stage = try Stage()
        let forger = try Connection(.server(stage.bus.address), loop: stage.loop)
        var heard = 0
        _ = stage.client.subscribe(sender: stage.server.uniqueName, interface: "test.Thing", member: "Tick") { _ in heard += 1 }
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        // Straight to the connection: no match rule stands in the way.
        forger.send(
            try Message.signal(
                path: "/test/thing", interface: "test.Thing", member: "Tick", to: stage.client.uniqueName, [.uint32(666)]))
        stage.tree.emit(path: "/test/thing", interface: "test.Thing", member: "Tick", to: nil, [.uint32(1)])
        #expect(stage.loop.run(until: { heard == 1 }, timeout: .hang))
        forger.flush()
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        #expect(heard == 1)
    }

    @Test func unicastSignalsReachOneConnection() throws {
        let stage = try Stage()
        let other = try Connection(.server(stage.bus.address), loop: stage.loop)
        var mine = 0
        var theirs = 0
        _ = stage.client.subscribe(sender: stage.server.uniqueName, interface: "test.Thing", member: "Tick") { _ in mine += 1 }
        _ = other.subscribe(sender: stage.server.uniqueName, interface: "test.Thing", member: "Tick") { _ in theirs += 1 }
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        stage.tree.emit(path: "/test/thing", interface: "test.Thing", member: "Tick", to: stage.client.uniqueName, [.uint32(1)])
        #expect(stage.loop.run(until: { mine == 1 }, timeout: .hang))
        stage.tree.emit(path: "/test/thing", interface: "test.Thing", member: "Tick", to: nil, [.uint32(2)])
        #expect(stage.loop.run(until: { mine == 2 && theirs == 1 }, timeout: .hang))
    }

    @Test func namesAreOwnedAndFollowed() throws {
        let stage = try Stage()
        var owners: [String?] = []
        let watch = stage.client.watchName("test.name") { owners.append($0) }
        #expect(stage.loop.run(until: { owners == [nil] }, timeout: .hang))
        do {
            let owner = try Connection(.server(stage.bus.address), loop: stage.loop)
            try owner.requestName("test.name")
            #expect(throws: BusError.self) { try stage.server.requestName("test.name") }
            #expect(stage.loop.run(until: { owners.count == 2 }, timeout: .hang))
            #expect(owners[1] == owner.uniqueName)
        }
        #expect(stage.loop.run(until: { owners.count == 3 }, timeout: .hang))
        #expect(owners[2] == nil)
        watch.cancel()
    }

    @Test func descriptorsTravelAndAreClosed() throws {
        let stage = try Stage()
        // By its name among all that other tests of this process have open.
        let name = "travels-\(UInt64.random(in: 0...UInt64.max))"
        do {
            let file = try #require(FileDescriptor.sealed(Array("hello".utf8), name: name))
            let back = try stage.call("test.Thing", "File", [.fileDescriptor(file)]).get()
            #expect(back[0].fileDescriptorValue?.readFile(limit: 10) == Array("hello".utf8))
            #expect(back[0].fileDescriptorValue?.readFile(limit: 4) == nil)
            #expect(openDescriptors(of: name) >= 2)
        }
        #expect(openDescriptors(of: name) == 0)
    }

    private func openDescriptors(of name: String) -> Int {
        let open = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return open.count { descriptor in
            let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")
            return target?.contains(name) == true
        }
    }

    @Test func objectManagerShowsWhatTheCallerSees() throws {
        let stage = try Stage()
        let root = try Thing("/test")
        stage.tree.export(root)
        let second = try Thing("/test/second")
        second.seenBy = []
        stage.tree.export(second)
        let reply = try stage.call(Bus.objectManager, "GetManagedObjects", path: "/test").get()
        #expect(reply[0].entries?.compactMap { $0.key.objectPathValue } == ["/test/thing"])
        var removed: [ObjectPath] = []
        _ = stage.client.subscribe(
            sender: stage.server.uniqueName, path: "/test", interface: Bus.objectManager, member: "InterfacesRemoved"
        ) {
            if let path = (try? $0.arguments())?.first?.objectPathValue { removed.append(path) }
        }
        _ = try stage.call("test.Thing", "Echo", [.variant(.byte(1))])
        stage.tree.withdraw("/test/thing", to: .only([stage.client.uniqueName]))
        #expect(stage.loop.run(until: { removed == ["/test/thing"] }, timeout: .hang))
    }

    @Test func aBusThatGoesIsNoticed() throws {
        let stage = try Stage()
        var gone = false
        stage.client.onDisconnect = { gone = true }
        var answer: Result<[DBusValue], BusError>?
        stage.client.call(stage.server.uniqueName, "/test/thing", "test.Thing", "Hold") { answer = $0 }
        #expect(stage.loop.run(until: { stage.thing.held.count == 1 }, timeout: .hang))
        stage.bus.end()
        #expect(stage.loop.run(until: { gone }, timeout: .hang))
        #expect(stage.loop.run(until: { answer != nil }, timeout: .hang))
        // A later call fails; it does not hang.
        var late: Result<[DBusValue], BusError>?
        stage.client.call("a.b", "/", "a.b", "C") { late = $0 }
        #expect(stage.loop.run(until: { late != nil }, timeout: .hang))
    }

    @Test func connectionsThatAreBegunTogetherAreThreeOfTheirOwn() throws {
        let bus = try PrivateBus()
        let loop = MainLoop()
        let first = try Connection.Opening(.server(bus.address))
        let second = try Connection.Opening(.server(bus.address))
        let third = try Connection.Opening(.server(bus.address))
        let names = try [Connection(second, loop: loop), Connection(third, loop: loop), Connection(first, loop: loop)].map(
            \.uniqueName)
        #expect(Set(names).count == 3)
        #expect(!names.contains(""))
    }

    @Test func aBusThatGoesBeforeHelloIsAnError() throws {
        let bus = try PrivateBus()
        let opening = try Connection.Opening(.server(bus.address))
        bus.end()
        do {
            _ = try Connection(opening, loop: MainLoop())
            Issue.record("there is no bus")
        } catch {
            #expect(error.name.hasPrefix("org.freedesktop.DBus.Error."))
        }
    }

    @Test func badAddressesAreErrors() {
        let loop = MainLoop()
        for address in ["", "nonsense", "unix:path=/nonexistent", "unix:path=/x\0y"] {
            #expect(throws: BusError.self) { try Connection(.server(address), loop: loop) }
        }
    }
}

import Foundation

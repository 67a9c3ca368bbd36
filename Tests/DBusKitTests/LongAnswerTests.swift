// SPDX-License-Identifier: Apache-2.0
// Long answers: others are served while one is made, and signals to who waits for it follow it.

import DBusKit
import TestSupport
import Testing

/// An object that takes a millisecond to look at: sixteen such objects are more than one turn of the loop gives to a
/// list.
private final class Slow: ExportedObject {
    let path: ObjectPath
    private let loop: MainLoop
    var isHeld = true
    /// Called when it is looked at.
    var onLook: (() -> Void)?
    private(set) var interfaces: [ExportedInterface] = []
    static let xml = """
        <node><interface name="test.Slow">
          <method name="Hold"><arg type="au" name="numbers" direction="out"/></method>
          <method name="Count"><arg type="u" name="number" direction="in"/><arg type="au" name="numbers" direction="out"/></method>
          <property name="Number" type="u" access="read"/>
          <signal name="Tick"><arg type="u" name="number"/></signal>
        </interface></node>
        """

    init(_ number: Int, _ loop: MainLoop) throws {
        path = try #require(ObjectPath("/test/slow/\(number)"))
        self.loop = loop
        var interface = ExportedInterface(try InterfaceDescription.parse(xml: Self.xml)[0])
        interface.property("Number") { [unowned self] _ in
            wait()
            return .uint32(UInt32(number))
        }
        // Parts with nothing in them, until there is a last one.
        interface.method("Hold") { [unowned self] call in
            call.reply(inParts: "u") { [unowned self] () throws(BusError) in isHeld ? [] : nil }
        }
        interface.method("Count") { [unowned self] call in
            var numbers = (0..<UInt32(call.arguments[0].integerValue ?? 0))[...]
            call.reply(inParts: "u") { [unowned self] () throws(BusError) in
                guard let number = numbers.popFirst() else { return nil }
                wait()
                guard number < 90 else { throw .failed("ninety is enough") }
                return [.uint32(number)]
            }
        }
        interfaces = [interface]
    }

    private func wait() {
        onLook?()
        onLook = nil
        let end = loop.now + 1_000
        while loop.now < end {}
    }

    func isVisible(to caller: String) -> Bool { true }
}

/// A server with a hundred slow objects, one who lists them, and another client.
private final class Stage {
    let bus: PrivateBus
    let loop = MainLoop()
    let server: Connection
    let lister: Connection
    let other: Connection
    let tree: ObjectServer
    /// The received answers and signals, in order.
    private(set) var story: [String] = []
    private var subscription: Subscription?

    init() throws {
        bus = try PrivateBus()
        server = try Connection(.server(bus.address), loop: loop)
        lister = try Connection(.server(bus.address), loop: loop)
        other = try Connection(.server(bus.address), loop: loop)
        tree = ObjectServer(on: server, root: "/test")
        for number in 0..<100 { tree.export(try Slow(number, loop)) }
        let tree = tree
        server.onCall = { tree.serve($0) }
        subscription = lister.subscribe(sender: server.uniqueName, interface: "test.Slow", member: "Tick") { [unowned self] in
            story.append("tick \((try? $0.arguments())?.first?.integerValue ?? -1)")
        }
    }

    func call(
        by client: Connection, _ interface: String, _ member: String, _ arguments: [DBusValue] = [], path: ObjectPath,
        then: @escaping () -> Void = {}
    ) {
        client.call(server.uniqueName, path, interface, member, arguments, timeout: .seconds(60)) { [unowned self] result in
            switch result {
            case .success(let values):
                let count = values.first?.entries?.count ?? values.first?.arrayValue?.count
                story.append(count.map { "\(member): \($0)" } ?? member)
            case .failure(let error): story.append("\(member): \(error.message)")
            }
            then()
        }
    }

    func list(by client: Connection) { call(by: client, Bus.objectManager, "GetManagedObjects", path: "/test") }

    /// Does something in a turn of the loop between two parts of the next list.
    func whileListing(_ body: @escaping () -> Void) {
        let slow = tree.object(at: "/test/slow/1") as? Slow
        slow?.onLook = { [unowned self] in
            loop.soon { [unowned self] in
                story.append("meanwhile")
                body()
            }
        }
    }

    func tick(_ number: UInt32) {
        tree.emit(
            path: "/test/slow/0", interface: "test.Slow", member: "Tick", to: lister.uniqueName, [.uint32(number)])
    }

    func run(until count: Int) {
        let isComplete = loop.run(until: { story.count >= count }, timeout: .hang)
        #expect(isComplete)
    }
}

@Suite(.serialized) struct LongAnswerTests {
    @Test func othersAreServedMeanwhile() throws {
        let stage = try Stage()
        stage.whileListing {}
        stage.list(by: stage.lister)
        stage.run(until: 2)
        #expect(stage.story == ["meanwhile", "GetManagedObjects: 100"])
    }

    @Test func signalsFollowTheListThatTheyChange() throws {
        let stage = try Stage()
        stage.whileListing {
            stage.tick(1)
            stage.tick(2)
        }
        stage.list(by: stage.lister)
        stage.run(until: 4)
        #expect(stage.story == ["meanwhile", "GetManagedObjects: 100", "tick 1", "tick 2"])
        stage.tick(3)
        stage.run(until: 5)
        #expect(stage.story.last == "tick 3")
    }

    /// The signals that wait for a caller are bounded: past the bound its list is made at once, and nothing is lost.
    @Test func manySignalsHurryTheList() throws {
        let stage = try Stage()
        stage.whileListing {
            for number in 0..<2_000 { stage.tick(UInt32(number)) }
        }
        stage.list(by: stage.lister)
        stage.run(until: 2_002)
        #expect(stage.story[1] == "GetManagedObjects: 100")
        #expect(Array(stage.story[2...]) == (0..<2_000).map { "tick \($0)" })
    }

    @Test func eachCallerHasAFewAtATime() throws {
        let stage = try Stage()
        let slow = try #require(stage.tree.object(at: "/test/slow/1") as? Slow)
        for _ in 0..<10 { stage.call(by: stage.lister, "test.Slow", "Hold", path: slow.path) }
        stage.run(until: 2)
        // Another caller has places of its own.
        stage.call(by: stage.other, "test.Slow", "Hold", path: slow.path) { slow.isHeld = false }
        stage.call(by: stage.lister, "test.Slow", "Hold", path: slow.path) { slow.isHeld = false }
        stage.run(until: 12)
        #expect(stage.story.count { $0.contains("are being made already") } == 3)
        #expect(stage.story.count { $0 == "Hold: 0" } == 9)
    }

    @Test func whatIsMadeForOneThatHasGoneIsForgotten() throws {
        let stage = try Stage()
        stage.whileListing {
            stage.tick(1)
            stage.tree.callerGone(stage.lister.uniqueName)
            stage.tick(2)
        }
        stage.list(by: stage.lister)
        stage.run(until: 2)
        #expect(stage.story == ["meanwhile", "tick 2"])
    }

    @Test func aHandlerAnswersInParts() throws {
        let stage = try Stage()
        stage.call(by: stage.lister, "test.Slow", "Count", [.uint32(50)], path: "/test/slow/1")
        stage.run(until: 1)
        // One that fails on the way is one error, not half an answer.
        stage.call(by: stage.lister, "test.Slow", "Count", [.uint32(100)], path: "/test/slow/1")
        stage.run(until: 2)
        #expect(stage.story == ["Count: 50", "Count: ninety is enough"])
    }

    @Test func aParentOfManyIsIntrospectedInParts() throws {
        let stage = try Stage()
        var xml = ""
        stage.lister.call(stage.server.uniqueName, "/test/slow", Bus.introspectable, "Introspect") {
            xml = (try? $0.get())?.first?.stringValue ?? "none"
        }
        #expect(stage.loop.run(until: { !xml.isEmpty }, timeout: .hang))
        #expect(xml.matches(of: /<node name=/).count == 100)
    }
}

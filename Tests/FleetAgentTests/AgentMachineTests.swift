// SPDX-License-Identifier: Apache-2.0
// The agent's core as a value, in situations that the simulated fleet (Tests/FleetSimulation) has found.

import FleetAgent
import FleetProtocol
import JSONText
import MQTTClient
import Testing

@Suite struct AgentMachineTests {
    private let topics = FleetTopics(fleet: "hall", gateway: "door")!

    /// A machine whose daemon is loaded and whose connection is compared.
    private func machine(_ memory: AgentMemory = AgentMemory(), objects: [String: JSON] = [:]) -> AgentMachine {
        var machine = AgentMachine(GatewayIdentity(topics, operators: []), memory, seed: 1)
        _ = machine.start()
        _ = machine.handle(.loaded(objects), now: 0)
        connect(&machine)
        return machine
    }

    private func connect(_ machine: inout AgentMachine) {
        _ = machine.handle(.connected, now: 0)
        _ = machine.handle(.received(MQTTMessage(topics.topic(FleetTopics.marker), [])), now: 0)
    }

    private func seen(trail: Int, id: Int, time: Int? = nil, request: Int? = nil) -> AgentEvent {
        var members: [String: JSON] = ["trail": JSON(trail), "id": JSON(id)]
        members["time"] = time.map { JSON($0) }
        members["request"] = request.map { JSON($0) }
        return .received(
            MQTTMessage(topics.topic(FleetTopics.auditSeen), Array(JSON.object(members).writtenInOneLine.utf8), isRetained: true))
    }

    private func line(_ id: Int, time: Int) -> AuditedLine {
        AuditedLine(id: id, time: time, json: ["id": JSON(id), "time": JSON(time)])
    }

    /// Numbers of trails and lines that are sent.
    private func lines(_ effects: [AgentEffect]) -> [[Int?]] {
        effects.compactMap { effect in
            guard case .publish(let message, _) = effect, message.topic == topics.topic(FleetTopics.audit),
                let value = try? JSON(parsing: message.payload)
            else { return nil }
            return [value["trail"]?.int, value["previous"]?.int, value["id"]?.int]
        }
    }

    private func reads(_ effects: [AgentEffect]) -> [Int] {
        effects.compactMap { if case .readAudit(let from, _) = $0 { from } else { nil } }
    }

    // MARK: The trail

    @Test func linesThatWereSentToNoCollectorAreSentAgain() {
        var machine = machine()
        // The broker has an old mark, and no collector is connected.
        #expect(reads(machine.handle(seen(trail: 1, id: 0, request: 1), now: 0)) == [0])
        #expect(lines(machine.handle(.auditRead([line(1, time: 5), line(2, time: 6)], from: 0), now: 0)).count == 2)
        // The collector returns, and has line 1 from before: line 2 is not on its way to it.
        #expect(reads(machine.handle(seen(trail: 1, id: 1, time: 5, request: 2), now: 0)) == [1])
        let again = machine.handle(.auditRead([line(1, time: 5), line(2, time: 6)], from: 1), now: 0)
        #expect(lines(again) == [[1, 1, 2]])
    }

    @Test func aConfirmationDoesNotSendLinesAgain() {
        var machine = machine()
        _ = machine.handle(seen(trail: 1, id: 0, request: 1), now: 0)
        _ = machine.handle(.auditRead([line(1, time: 5), line(2, time: 6)], from: 0), now: 0)
        let effects = machine.handle(seen(trail: 1, id: 1, time: 5, request: 1), now: 0)
        #expect(reads(effects) == [])
        #expect(effects.contains { if case .saveAudit(AuditMark(trail: 1, id: 1, time: 5)) = $0 { true } else { false } })
    }

    @Test func linesThatCouldNotBeReadAreReadAMinuteLater() {
        var machine = machine()
        #expect(reads(machine.handle(seen(trail: 1, id: 0, request: 1), now: 0)) == [0])
        #expect(reads(machine.handle(.tick, now: 60)) == [], "they are being read")
        _ = machine.handle(.auditRead(nil, from: 0), now: 61)
        #expect(reads(machine.handle(.tick, now: 120)) == [0])
        #expect(lines(machine.handle(.auditRead([line(1, time: 5)], from: 0), now: 121)) == [[1, 0, 1]])
        #expect(reads(machine.handle(.tick, now: 180)) == [])
    }

    @Test func aLaterTrailThatTheJournalHasLostIsTakenFromTheCollector() {
        var machine = machine()
        #expect(reads(machine.handle(seen(trail: 3, id: 7, time: 50, request: 1), now: 0)) == [7])
        let same = machine.handle(.auditRead([line(7, time: 50), line(8, time: 51)], from: 7), now: 0)
        #expect(lines(same) == [[3, 7, 8]])
    }

    @Test func anotherStoreIsRecognizedByTheTimeThatTheCollectorHas() {
        var machine = machine()
        _ = machine.handle(seen(trail: 3, id: 7, time: 50, request: 1), now: 0)
        #expect(reads(machine.handle(.auditRead([line(7, time: 90)], from: 7), now: 0)) == [0])
        #expect(lines(machine.handle(.auditRead([line(1, time: 80)], from: 0), now: 0)) == [[4, 0, 1]])
    }

    // MARK: Reports

    @Test func aChangeWhileAMessageIsOnItsWayIsSentAfterIt() {
        func reported(_ effects: [AgentEffect]) -> [MessageToken] {
            effects.compactMap { effect in
                guard case .publish(_, let token) = effect, case .reported("grant/1", _) = token else { return nil }
                return token
            }
        }
        var machine = machine(objects: ["grant/1": ["Enabled": JSON(true)]])
        // The first report was sent at the comparison.
        #expect(reported(machine.handle(.changed("grant/1", ["Enabled": JSON(false)]), now: 0)) == [])
        #expect(reported(machine.handle(.changed("grant/1", ["Enabled": JSON(true), "Name": "Die"]), now: 0)) == [])
        var other = AgentMachine(GatewayIdentity(topics, operators: []), AgentMemory(), seed: 1)
        _ = other.handle(.loaded(["grant/1": ["Enabled": JSON(true)]]), now: 0)
        _ = other.handle(.connected, now: 0)
        let first = reported(other.handle(.received(MQTTMessage(topics.topic(FleetTopics.marker), [])), now: 0))
        #expect(first.count == 1)
        #expect(reported(machine.handle(.acknowledged(first[0], isAccepted: true), now: 0)).count == 1)
    }

    @Test func tenThousandObjectsAreAllReported() {
        let objects = Dictionary(uniqueKeysWithValues: (0..<10_000).map { ("grant/\($0)", JSON.object(["Number": JSON($0)])) })
        var machine = AgentMachine(GatewayIdentity(topics, operators: []), AgentMemory(), seed: 1)
        _ = machine.handle(.loaded(objects), now: 0)
        _ = machine.handle(.connected, now: 0)
        var sent: Set<MessageToken> = []
        var onTheirWay = machine.handle(.received(MQTTMessage(topics.topic(FleetTopics.marker), [])), now: 0)
        while !onTheirWay.isEmpty {
            let effect = onTheirWay.removeFirst()
            guard case .publish(_, let token) = effect, case .reported = token else { continue }
            #expect(sent.insert(token).inserted)
            onTheirWay += machine.handle(.acknowledged(token, isAccepted: true), now: 0)
        }
        // The two kinds of documents, too.
        #expect(sent.count == objects.count + 2)
    }
}

@Suite struct CollectedTrailTests {
    private func line(_ trail: Int, _ previous: Int, _ id: Int) -> JSON {
        ["trail": JSON(trail), "previous": JSON(previous), "id": JSON(id), "time": JSON(100 + id)]
    }

    @Test func eachLineIsTakenOnceAndInOrder() {
        var trail = CollectedTrail()
        #expect(trail.receive(line(1, 0, 1)) == .next)
        #expect(trail.receive(line(1, 0, 1)) == .known)
        #expect(trail.receive(line(1, 2, 3)) == .gap)
        #expect(trail.receive(line(1, 3, 4)) == .known)
        #expect(trail.receive(line(1, 1, 2)) == .next)
        #expect(trail.receive(line(1, 2, 3)) == .next)
        // A new store.
        #expect(trail.receive(line(2, 4, 5)) == .gap)
        #expect(trail.receive(line(2, 0, 1)) == .next)
        // Late lines of the old one.
        #expect(trail.receive(line(1, 3, 4)) == .gap)
        #expect(trail.receive(line(1, 4, 5)) == .known)
    }

    @Test func eachRequestHasAnotherNumber() {
        var trail = CollectedTrail()
        trail.connect(request: 10)
        let first = trail.seen
        _ = trail.receive(line(1, 0, 1))
        #expect(trail.seen["request"] == first["request"])
        _ = trail.receive(line(1, 2, 3))
        #expect(trail.seen["request"] != first["request"])
        let second = trail.seen
        trail.askAgain()
        #expect(trail.seen["request"] != second["request"])
    }
}

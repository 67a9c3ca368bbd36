// SPDX-License-Identifier: Apache-2.0
// The operator: collects the trails as accessoryctl does, signs commands and documents, sends old ones again, and
// watches the reports.

import DBusKit
import FleetAgent
import FleetProtocol
import JSONText
import MQTTClient

/// The operator of the fleet, with one connection.
final class Operator {
    private let world: World
    private let gateways: [SimulatedGateway]
    private let indices: [String: Int]
    private var connection: MQTTConnection?
    private var number = 0
    /// Whether the retained messages have been received.
    private(set) var isReady = false
    private(set) var trails: Trails
    private(set) var reports: [Report]
    private var issuer: Issuer

    /// As far as it was stored, and lines that wait for that.
    struct Trails {
        var collected: [CollectedTrail]
        var lines: [[TrailLine]]
        /// Lines that are stored at the end of the loop's turn.
        var new: [(gateway: Int, line: TrailLine)] = []
        /// As in `collected`, with the lines that wait.
        var ahead: [CollectedTrail]
        var total = 0
        var requests = 0
    }

    /// A gateway's state at the broker.
    struct Report {
        var status: [UInt8] = []
        var objects: [String: [UInt8]] = [:]
    }

    private struct Issuer {
        var random: SplitMix
        /// Signed commands for repetitions.
        var recent: [MQTTMessage] = []
        var next = 0
        var versions: [DesiredDocument.Kind: Int] = [:]
        var texts: [DesiredDocument.Kind: [[UInt8]]] = [:]
        /// Gateways that should have the newest document.
        var addressed: [DesiredDocument.Kind: Set<Int>] = [:]
    }

    private static let clientID = "operator"
    private static let answer = FleetTopics.answer + clientID
    private static let marker = FleetTopics.prefix(of: World.fleet) + "\(FleetTopics.operators)/\(clientID)"

    init(_ world: World, _ gateways: [SimulatedGateway], seed: UInt64) {
        self.world = world
        self.gateways = gateways
        indices = Dictionary(uniqueKeysWithValues: gateways.enumerated().map { ($1.name, $0) })
        let none = [CollectedTrail](repeating: CollectedTrail(), count: gateways.count)
        trails = Trails(collected: none, lines: Array(repeating: [], count: gateways.count), ahead: none)
        reports = Array(repeating: Report(), count: gateways.count)
        issuer = Issuer(random: SplitMix(seed: seed))
    }

    // MARK: The connection

    func connect() {
        var settings = world.broker
        settings.clientID = Self.clientID
        number += 1
        let present = number
        connection = MQTTConnection(settings, loop: world.loop) { [weak self] event in
            guard let self, self.number == present else { return }
            self.heard(event)
        }
    }

    /// The program is killed, and begins anew: lines that were not stored are lost.
    func restart() {
        world.count("operator's restarts")
        connection = nil
        away()
    }

    private func away() {
        number += 1
        isReady = false
        trails.new = []
        trails.ahead = trails.collected
        let present = number
        // Before or after the gateways.
        let pause = Int.random(in: 0...8000, using: &issuer.random) / world.pace
        world.loop.after(.milliseconds(pause)) { [weak self] in
            if self?.number == present { self?.connect() }
        }
    }

    private func heard(_ event: MQTTEvent) {
        switch event {
        case .connected: connected()
        case .subscribed, .acknowledged, .alive: break
        case .received(let message): received(message)
        case .ended:
            connection = nil
            away()
        }
    }

    private func connected() {
        reports = Array(repeating: Report(), count: gateways.count)
        let ends = [FleetTopics.audit, Self.answer, FleetTopics.status, FleetTopics.reported + "#"]
        connection?.subscribe(ends.map { FleetTopics.prefix(of: World.fleet) + "+/" + $0 } + [Self.marker])
        publish(MQTTMessage(Self.marker, []))
    }

    private func publish(_ message: MQTTMessage) { _ = connection?.publish(message) }

    private func received(_ message: MQTTMessage) {
        if message.topic == Self.marker { return ready() }
        guard let (name, end) = FleetTopics.parse(message.topic, fleet: World.fleet), let index = indices[name] else { return }
        if end == FleetTopics.audit {
            collect(index, message.payload)
        } else if end == Self.answer {
            guard let answer = (try? JSON(parsing: message.payload)).flatMap({ CommandAnswer($0) }) else { return }
            world.ledger.answer(answer, from: name, world)
        } else if end == FleetTopics.status {
            reports[index].status = message.payload
        } else {
            let object = String(end.dropFirst(FleetTopics.reported.count))
            reports[index].objects[object] = message.payload.isEmpty ? nil : message.payload
        }
    }

    private func ready() {
        isReady = true
        trails.requests += 1 << 20
        for index in gateways.indices {
            trails.ahead[index].connect(request: trails.requests)
            ask(index)
        }
    }

    // MARK: The trails

    private func ask(_ index: Int) {
        let payload = Array(trails.ahead[index].seen.writtenInOneLine.utf8)
        publish(MQTTMessage(gateways[index].topics.topic(FleetTopics.auditSeen), payload, isRetained: true))
    }

    /// The lines that were asked for may have been lost, too.
    func askAgain() {
        guard isReady else { return }
        for index in gateways.indices where trails.ahead[index].hasAsked {
            trails.ahead[index].askAgain()
            ask(index)
        }
    }

    private func collect(_ index: Int, _ payload: [UInt8]) {
        guard let line = try? JSON(parsing: payload) else { return world.violate("\(gateways[index].name): a line is not JSON") }
        switch trails.ahead[index].receive(line) {
        case .known: world.count("lines again")
        case .gap:
            world.count("gaps")
            ask(index)
        case .next:
            guard let store = line["store"]?.int, let id = line["id"]?.int else { return }
            if trails.new.isEmpty { world.loop.atEndOfTurn { [weak self] in self?.store() } }
            trails.new.append((index, TrailLine(store: Int32(store), id: Int32(id))))
        }
    }

    private func store() {
        var changed: Set<Int> = []
        for (index, line) in trails.new {
            trails.lines[index].append(line)
            changed.insert(index)
        }
        trails.total += trails.new.count
        trails.new = []
        for index in changed.sorted() {
            trails.collected[index] = trails.ahead[index]
            ask(index)
        }
    }

    // MARK: Commands and documents

    /// Signs and sends a new command, or one of the earlier ones again.
    func command(isNew: Bool) {
        guard isReady else { return }
        guard isNew || issuer.recent.isEmpty else {
            world.ledger.repeats()
            return publish(issuer.recent[Int.random(in: issuer.recent.indices, using: &issuer.random)])
        }
        // One gateway has a tenth of all commands, so that it has to forget some.
        let isFirst = Int.random(in: 0..<10, using: &issuer.random) == 0
        let index = isFirst ? 0 : Int.random(in: gateways.indices, using: &issuer.random)
        let grant = FleetCommand.Action.GrantName(Int.random(in: 1...4, using: &issuer.random))
        let action: FleetCommand.Action = Bool.random(using: &issuer.random) ? .enable(grant) : .disable(grant)
        let numbers = [issuer.random.next(), issuer.random.next()]
        let id = numbers.map { String(repeating: "0", count: $0.leadingZeroBitCount / 4) + String($0, radix: 16) }.joined()
        guard
            let selector = try? GatewaySelector([gateways[index].name]),
            let text = try? FleetCommand.sign(
                action, id: id, fleet: World.fleet, gateways: selector, now: wallClock(), with: world.operatorKey)
        else { return world.violate("a command cannot be signed") }
        var message = MQTTMessage(gateways[index].topics.topic(FleetTopics.command + action.verb), text)
        message.responseTopic = gateways[index].topics.topic(Self.answer)
        message.correlation = Array(id.utf8)
        message.expiry = UInt32(FleetCommand.maxLife)
        world.ledger.issue(id, to: gateways[index].name)
        publish(message)
        if issuer.recent.count < 2000 {
            issuer.recent.append(message)
        } else {
            issuer.recent[issuer.next % 2000] = message
        }
        issuer.next += 1
    }

    /// Signs a new document, and sends it to some gateways.
    func document(to count: Int) {
        guard isReady, let kind = DesiredDocument.Kind.allCases.randomElement(using: &issuer.random) else { return }
        let version = (issuer.versions[kind] ?? 0) + 1
        guard let all = try? GatewaySelector(["*"]),
            let text = try? DesiredDocument.sign(
                kind, fleet: World.fleet, version: version, validity: wallClock() - 10..<wallClock() + 86_400, gateways: all,
                files: ["some.conf": "# version \(version)\n"], with: world.operatorKey)
        else { return world.violate("a document cannot be signed") }
        issuer.versions[kind] = version
        issuer.texts[kind, default: []].append(text)
        for index in some(count) {
            issuer.addressed[kind, default: []].insert(index)
            send(text, kind, to: index)
        }
    }

    /// Sends old documents, as a broker that is not honest, or was restored, could.
    func oldDocument(to count: Int) {
        guard isReady else { return }
        for index in some(count) {
            guard let kind = DesiredDocument.Kind.allCases.randomElement(using: &issuer.random),
                let text = issuer.texts[kind]?.randomElement(using: &issuer.random)
            else { continue }
            world.count("old documents")
            issuer.addressed[kind, default: []].insert(index)
            send(text, kind, to: index)
        }
    }

    private func some(_ count: Int) -> [Int] {
        (0..<count).map { _ in Int.random(in: gateways.indices, using: &issuer.random) }
    }

    private func send(_ text: [UInt8], _ kind: DesiredDocument.Kind, to index: Int) {
        publish(MQTTMessage(gateways[index].topics.topic(FleetTopics.desired + kind.rawValue), text, isRetained: true))
    }

    /// Sends the newest documents to all gateways that have one.
    func newestDocuments() {
        for (kind, indices) in issuer.addressed {
            guard let text = issuer.texts[kind]?.last else { continue }
            for index in indices { send(text, kind, to: index) }
        }
    }

    // MARK: Comparing

    /// A difference between a gateway and its state here; nil for none.
    func difference(_ index: Int) -> String? {
        let (gateway, report) = (gateways[index], reports[index])
        for (kind, indices) in issuer.addressed where indices.contains(index) {
            let version = gateway.daemon.inForce[kind] ?? 0
            if version != issuer.versions[kind] { return "\(kind) \(version), and not \(issuer.versions[kind] ?? 0), is in force" }
        }
        guard (try? JSON(parsing: report.status))?["state"] == "online" else { return "not online" }
        let expected = gateway.expected
        for end in Set(expected.keys).union(report.objects.keys) {
            let (wanted, present) = (expected[end]?.members, report.objects[end])
            guard let wanted, let present, let members = (try? JSON(parsing: present))?.members else {
                return "\(end): \(present == nil ? "missing" : "not gone")"
            }
            let isKind = DesiredDocument.Kind(rawValue: end) != nil
            guard wanted.allSatisfy({ members[$0] == $1 }), isKind || members.count == wanted.count + 1 else {
                return "\(end): \(String(decoding: present, as: UTF8.self)), and not \(JSON.object(wanted).writtenInOneLine)"
            }
        }
        return nil
    }

    /// Lines that the collector does not have yet; nil when it has all.
    func missingLines(_ index: Int) -> String? {
        let (last, present) = (gateways[index].daemon.lastLine, trails.lines[index].last)
        return present == last ? nil : "the last line is \(last), the collector has \(present.map { "\($0)" } ?? "none")"
    }

    /// The first line that is not in order; nil for a trail without gaps and repetitions.
    func disorder(_ index: Int) -> String? {
        var before = TrailLine(store: 0, id: 0)
        for line in trails.lines[index] {
            let isNext = line.store == before.store ? line.id == before.id + 1 : line.store > before.store && line.id == 1
            guard isNext else { return "\(line) follows \(before)" }
            before = line
        }
        return nil
    }
}

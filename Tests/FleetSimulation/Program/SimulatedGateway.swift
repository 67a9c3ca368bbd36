// SPDX-License-Identifier: Apache-2.0
// A gateway: the agent's core, a real connection, a fake daemon, and a journal in memory. The effects are performed as
// AgentRunner does, except that the agent can die before, in or after any.

import DBusKit
import FleetAgent
import FleetProtocol
import JSONText
import MQTTClient

/// The parts of the simulation that gateways share.
final class World {
    let loop: MainLoop
    let broker: MQTTSettings
    let operatorKey: PrivateKey
    /// Pauses between attempts to connect are divided by it.
    let pace: Int
    let ledger = Ledger()
    /// Gateways whose state at the broker is compared.
    var compared = 0
    var violations: [String] = []
    var counts: [String: Int] = [:]

    init(_ loop: MainLoop, _ broker: MQTTSettings, _ key: PrivateKey, pace: Int) {
        self.loop = loop
        self.broker = broker
        operatorKey = key
        self.pace = pace
    }

    func violate(_ text: String) {
        if violations.count < 50 { violations.append(text) }
    }

    func count(_ what: String) { counts[what, default: 0] += 1 }

    static let fleet = "sim"
}

/// The end of an agent's life, which the seed decides.
struct Doom {
    enum Moment: String, CaseIterable { case before, within, after }

    /// At an effect of this kind.
    let kind: EffectKind
    let moment: Moment
    /// The power is cut, rather than the agent killed: writes that nothing waits for are lost.
    let isPowerCut: Bool
}

/// The effects, without their arguments.
enum EffectKind: String, CaseIterable {
    case connect, disconnect, subscribe, unsubscribe, publish, readAudit, saveAudit, begin, perform, finish, apply, report

    init(_ effect: AgentEffect) {
        self =
            switch effect {
            case .connect: .connect
            case .disconnect: .disconnect
            case .subscribe: .subscribe
            case .unsubscribe: .unsubscribe
            case .publish: .publish
            case .readAudit: .readAudit
            case .saveAudit: .saveAudit
            case .begin: .begin
            case .perform: .perform
            case .finish: .finish
            case .apply: .apply
            case .report: .report
            }
    }
}

/// One gateway.
final class SimulatedGateway {
    let name: String
    let topics: FleetTopics
    private let world: World
    private let identity: GatewayIdentity
    private(set) var daemon: FakeDaemon
    private var journal = FakeJournal()
    private var agent: RunningAgent?
    /// Counts the agent's lives: events for an earlier one are dropped.
    private var life = 0
    private(set) var faults = Faults()

    struct Faults {
        var doom: Doom?
        var isPartitioned = false
        var isSlow = false
        /// Seconds by which the clock is ahead.
        var clock = 0
        var isDiskFull = false
    }

    private struct RunningAgent {
        var machine: AgentMachine
        var connection: MQTTConnection?
        /// Counts the connections.
        var number = 0
        var tokens: [Int32: MessageToken] = [:]
        var isCompared = false
        var isLoaded = false

        mutating func event(_ event: MQTTEvent) -> AgentEvent? { AgentEvent(event, &tokens) }
    }

    init(_ number: Int, _ world: World) {
        name = "gateway-\(number)"
        self.world = world
        guard let topics = FleetTopics(fleet: World.fleet, gateway: name) else { preconditionFailure("\(name) is no name") }
        self.topics = topics
        identity = GatewayIdentity(topics, operators: [world.operatorKey.publicKey], version: "0.1.0")
        daemon = FakeDaemon(now: wallClock())
    }

    // MARK: The agent's life

    func start(seed: UInt64) {
        guard agent == nil else { return }
        life += 1
        agent = RunningAgent(machine: AgentMachine(identity, journal.memory, seed: seed))
        perform(agent?.machine.start() ?? [])
        load()
    }

    /// The agent dies without a word.
    private func die(_ doom: Doom) {
        life += 1
        if agent?.isCompared == true { world.compared -= 1 }
        agent = nil
        faults.doom = nil
        if doom.isPowerCut { journal.cutPower() }
        world.count("\(doom.isPowerCut ? "power cuts" : "kills") \(doom.moment) \(doom.kind)")
        onDeath?(self)
    }

    var onDeath: ((SimulatedGateway) -> Void)?

    func doom(_ doom: Doom?) { faults.doom = doom }

    private func handle(_ event: AgentEvent) {
        guard let effects = agent?.machine.handle(event, now: wallClock() + faults.clock) else { return }
        noteState()
        perform(effects)
    }

    private func noteState() {
        guard let isCompared = agent?.machine.isCompared, isCompared != agent?.isCompared else { return }
        agent?.isCompared = isCompared
        world.compared += isCompared ? 1 : -1
    }

    /// Calls `body` later, unless the agent has died until then.
    private func later(after delay: Duration? = nil, _ body: @escaping (SimulatedGateway) -> Void) {
        let present = life
        let call = { [weak self] in
            guard let self, self.life == present else { return }
            body(self)
        }
        if let delay { world.loop.after(delay, call) } else { world.loop.soon(call) }
    }

    // MARK: Effects

    private func perform(_ effects: [AgentEffect]) {
        let present = life
        for effect in effects {
            let doom = faults.doom?.kind == EffectKind(effect) ? faults.doom : nil
            if doom != nil { faults.doom = nil }
            if let doom, doom.moment == .before { return die(doom) }
            perform(effect, doom)
            guard present == life else { return }
            if let doom { return die(doom) }
        }
    }

    private func perform(_ effect: AgentEffect, _ doom: Doom?) {
        switch effect {
        case .connect(let pause): later(after: .milliseconds(pause / world.pace)) { $0.connect() }
        case .disconnect(let reason):
            world.count("disconnections by the agent: \(reason)")
            agent?.connection?.disconnect()
        case .subscribe(let filters, let subscription): agent?.connection?.subscribe(filters, to: subscription)
        case .unsubscribe(let filter): agent?.connection?.unsubscribe(filter)
        case .publish(let message, let token):
            if let number = agent?.connection?.publish(message), token != .other { agent?.tokens[number] = token }
        case .readAudit(let number, let limit):
            later { gateway in
                let daemon = gateway.daemon
                gateway.handle(.auditRead(daemon.isRunning ? daemon.lines(from: number, limit: limit) : nil, from: number))
            }
        case .saveAudit(let mark): store(.audit(mark))
        case .begin(let record):
            let isStored = store(.begin(record))
            if doom == nil { handle(.begun(record.id, isStored: isStored)) }
        case .perform(let id, let action, _): command(id, action)
        case .finish(let answer): store(.finish(answer))
        case .apply(let document): apply(document, doom)
        case .report(let text, let isProblem):
            if isProblem { world.count("reports: " + text.prefix { $0 != ":" }) }
        }
    }

    @discardableResult
    private func store(_ change: AgentMemory.Change) -> Bool {
        guard !faults.isDiskFull else { return false }
        journal.store(change)
        return true
    }

    private func command(_ id: String, _ action: FleetCommand.Action) {
        let (run, isRunning) = (daemon.run, daemon.isRunning)
        let end = daemon.perform(action, now: wallClock())
        if end != nil { world.ledger.performed(id, by: name, world) }
        later { gateway in
            if let end { gateway.changed(end) }
            let outcome: CommandAnswer.Outcome = end == nil ? .failed : gateway.daemon.run == run ? .done : .unknown
            gateway.handle(.performed(CommandAnswer(id, outcome, outcome == .failed ? isRunning ? "no grant" : "absent" : "")))
        }
    }

    /// The version is recorded first, and the files are in force after that: an agent may die in between.
    private func apply(_ document: DesiredDocument, _ doom: Doom?) {
        let last = journal.memory.applied[document.kind]?.version ?? 0
        if document.version < max(last, daemon.inForce[document.kind] ?? 0) {
            world.violate("\(name): \(document.kind) \(document.version) after \(last)")
        }
        guard store(.applied(document.kind, AppliedVersion(version: document.version, hash: document.hash))) else {
            world.count("documents on a full disk")
            return handle(.applied(document, .failed("the disk is full")))
        }
        if doom?.moment == .within { return }
        daemon.use(document)
        guard doom == nil else { return }
        world.count("documents applied")
        later { $0.changed(document.kind.rawValue) }
        handle(.applied(document, .applied))
    }

    // MARK: The broker

    private func connect() {
        guard !faults.isPartitioned else { return handle(.ended("the network is down")) }
        guard let machine = agent?.machine else { return }
        var settings = world.broker
        settings.clientID = name
        settings.will = machine.will
        agent?.tokens = [:]
        agent?.number += 1
        let (present, number) = (life, agent?.number)
        agent?.connection = MQTTConnection(settings, loop: world.loop) { [weak self] event in
            guard let self, self.life == present, self.agent?.number == number else { return }
            self.heard(event)
        }
        agent?.connection?.isReading = !faults.isSlow
    }

    private func heard(_ event: MQTTEvent) {
        if case .ended = event {
            guard agent?.connection != nil else { return }
            agent?.connection = nil
        }
        if let event = agent?.event(event) { handle(event) }
    }

    func partition(_ isPartitioned: Bool) {
        faults.isPartitioned = isPartitioned
        guard isPartitioned, agent?.connection != nil else { return }
        // The socket closes without a goodbye.
        agent?.number += 1
        agent?.connection = nil
        handle(.ended("the network is down"))
    }

    func slow(_ isSlow: Bool) {
        faults.isSlow = isSlow
        agent?.connection?.isReading = !isSlow
    }

    func setClock(_ seconds: Int) { faults.clock = seconds }
    func fillDisk(_ isFull: Bool) { faults.isDiskFull = isFull }

    /// About once a minute.
    func tick() { handle(.tick) }

    // MARK: The daemon

    private func load() {
        later { gateway in
            guard gateway.daemon.isRunning else { return }
            gateway.agent?.isLoaded = true
            gateway.handle(.loaded(gateway.daemon.objects))
        }
    }

    private func changed(_ end: String) {
        guard agent?.isLoaded == true, daemon.isRunning else { return }
        let present = life
        handle(.changed(end, daemon.objects[end]))
        if life == present { handle(.audited) }
    }

    /// Something happens at the gateway.
    func live(_ random: inout SplitMix) {
        guard daemon.isRunning else { return }
        let end = daemon.live(&random, now: wallClock())
        later { $0.changed(end) }
    }

    func stopDaemon() {
        guard daemon.isRunning else { return }
        daemon.stop()
        agent?.isLoaded = false
        handle(.daemonGone)
    }

    func startDaemon(losesStore: Bool) {
        guard !daemon.isRunning else { return }
        if losesStore { daemon.loseStore(now: wallClock()) }
        daemon.start()
        load()
    }

    /// The members of the reports that the broker should have.
    var expected: [String: JSON] {
        var objects = daemon.objects
        for kind in DesiredDocument.Kind.allCases {
            var members = objects[kind.rawValue]?.members ?? [:]
            members["version"] = JSON(daemon.inForce[kind] ?? 0)
            objects[kind.rawValue] = .object(members)
        }
        return objects
    }
}

/// A journal in memory, whose entries are durable as AgentJournal's are.
struct FakeJournal {
    private(set) var memory = AgentMemory()
    /// The mark that a power cut leaves: marks are written to the disk with the next entry of another kind.
    private var mark = AuditMark()

    mutating func store(_ change: AgentMemory.Change) {
        memory.apply(change)
        if case .audit = change { return }
        mark = memory.audit
    }

    mutating func cutPower() { memory.audit = mark }
}

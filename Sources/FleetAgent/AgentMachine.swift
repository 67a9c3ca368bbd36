// SPDX-License-Identifier: Apache-2.0
// The agent's core: a value that takes events of the broker, the daemon and the disk, and answers with effects. It
// decides about the connection, and hands everything else to the owner of the matter.

public import FleetProtocol
internal import JSONText
public import MQTTClient

/// Which gateway this is, and whose orders it takes.
public struct GatewayIdentity: Sendable {
    public let topics: FleetTopics
    public let labels: Set<String>
    /// Keys of the operators; each may sign.
    public let operators: [PublicKey]
    /// For the operators' secrets; nil where there is none.
    public let key: PrivateKey?
    /// The agent's version.
    public let version: String

    public init(
        _ topics: FleetTopics, labels: Set<String> = [], operators: [PublicKey], key: PrivateKey? = nil, version: String = ""
    ) {
        self.topics = topics
        self.labels = labels
        self.operators = operators
        self.key = key
        self.version = version
    }
}

/// The core of one gateway's agent.
public struct AgentMachine {
    private enum Link {
        /// A connection is being made, or will be after a pause; so many have ended in a row.
        case away(ended: Int)
        /// The broker sends the messages that it retains.
        case comparing
        case up
    }

    private enum Daemon: String {
        case absent
        case running
    }

    private let gateway: GatewayIdentity
    private var link = Link.away(ended: 0)
    private var daemon = Daemon.absent
    private var reported = ReportedState()
    private var audit: AuditQueue
    private var commands: CommandLedger
    private var desired: DesiredState
    /// The daemon's part of the reports on documents, by kind.
    private var facts: [DesiredDocument.Kind: [String: JSON]] = [:]
    private var random: SplitMix

    /// - Parameters:
    ///   - memory: from the journal.
    ///   - seed: of the pauses between attempts to connect, which must differ between gateways.
    public init(_ gateway: GatewayIdentity, _ memory: AgentMemory, seed: UInt64) {
        self.gateway = gateway
        audit = AuditQueue(memory.audit)
        commands = CommandLedger(memory.commands)
        desired = DesiredState(memory.applied)
        random = SplitMix(seed: seed)
    }

    /// The first effects.
    public mutating func start() -> [AgentEffect] {
        commands.interrupted.flatMap { commands.performed($0, gateway.topics) } + [.connect(after: 0)]
    }

    /// The message that the broker publishes when the connection is lost.
    public var will: MQTTMessage { status("offline") }

    private func status(_ state: String) -> MQTTMessage {
        var members: [String: JSON] = ["state": JSON(state), "version": JSON(gateway.version)]
        if state == "online" { members["daemon"] = JSON(daemon.rawValue) }
        return MQTTMessage(
            gateway.topics.topic(FleetTopics.status), Array(JSON.object(members).writtenInOneLine.utf8), isRetained: true)
    }

    /// The last messages of an agent that stops.
    public func farewell() -> [AgentEffect] { isConnected ? [.publish(status("offline"), .other)] : [] }

    private var isConnected: Bool {
        if case .away = link { false } else { true }
    }

    /// Whether the state at the broker is known, and differences are sent.
    public var isCompared: Bool {
        if case .up = link { true } else { false }
    }

    /// Takes an event.
    ///
    /// - Parameter now: seconds since 1970, by a clock that may be wrong and may be set.
    public mutating func handle(_ event: AgentEvent, now: Int) -> [AgentEffect] {
        var effects: [AgentEffect] = []
        switch event {
        case .connected: effects = connected()
        case .subscribed(let isGranted):
            if !isGranted { effects = [.disconnect("the broker refuses the topics of this gateway")] }
        case .ended(let reason): effects = ended(reason)
        case .received(let message): effects = received(message, now: now)
        case .acknowledged(.reported(let end, let digest), let isAccepted):
            reported.acknowledged(end, digest)
            if !isAccepted { effects = [.report("the broker refuses \(end)", isProblem: true)] }
        case .acknowledged(.other, _): break
        case .loaded(let objects): effects = loaded(objects)
        case .changed(let end, let object): change(end, object)
        case .secret(let picker, let secret): effects = reveal(picker, secret)
        case .daemonGone: effects = daemonGone()
        case .audited: effects = audit.news()
        case .auditRead(let lines, let from): effects = audit.received(lines, from: from, gateway.topics)
        case .begun(let id, let isStored): effects = commands.begun(id, isStored: isStored, gateway.topics)
        case .performed(let answer): effects = commands.performed(answer, gateway.topics)
        case .applied(let document, let outcome):
            effects = desired.applied(document, outcome)
            reportDesired(document.kind)
        case .tick:
            effects = desired.tick(gateway, now: now)
            // Most minutes change nothing.
            if !effects.isEmpty { for kind in DesiredDocument.Kind.allCases { reportDesired(kind) } }
            effects += audit.tick()
        }
        if isConnected { effects += commands.next() }
        if case .up = link { effects += reported.next(gateway.topics) }
        return effects
    }

    // MARK: The broker

    private mutating func connected() -> [AgentEffect] {
        link = .comparing
        reported.connect()
        return [
            .publish(status("online"), .other), .subscribe([gateway.topics.topic("#")], to: .newFromOthers),
            .subscribe(Self.comparedTopics.map(gateway.topics.topic), to: .everything),
            .publish(MQTTMessage(gateway.topics.topic(FleetTopics.marker), []), .other),
        ]
    }

    /// The topics with retained messages, and the marker. A subscription costs the broker a kilobyte or more: these end
    /// once the state is known, and one remains.
    private static let comparedTopics = [
        FleetTopics.desired + "+", FleetTopics.auditSeen, FleetTopics.reported + "#", FleetTopics.marker,
    ]

    private mutating func ended(_ reason: String) -> [AgentEffect] {
        var earlier = 0
        if case .away(let ended) = link { earlier = ended }
        link = .away(ended: earlier + 1)
        audit.disconnected()
        // All gateways lose a broker at the same moment, and must not return at the same moment.
        let longest = min(8000 << min(earlier, 3), 60_000)
        let pause = longest / 16 + Int(random.next() % UInt64(longest))
        // An unreachable broker is one line, not one for each attempt.
        let report = earlier == 0 ? [AgentEffect.report("no connection to the broker: \(reason)", isProblem: true)] : []
        return report + [.connect(after: pause)]
    }

    private mutating func received(_ message: MQTTMessage, now: Int) -> [AgentEffect] {
        guard isConnected, let end = gateway.topics.end(of: message.topic) else { return [] }
        if end == FleetTopics.marker { return compared() }
        if end == FleetTopics.auditSeen { return confirmed(message.payload) }
        if end.hasPrefix(FleetTopics.reported) {
            if case .comparing = link { reported.retained(String(end.dropFirst(FleetTopics.reported.count)), message.payload) }
            return []
        }
        if end.hasPrefix(FleetTopics.command) {
            // A command that the broker has kept says nothing about the operator's present wish.
            guard !message.isRetained else { return [.report("command refused: it was retained", isProblem: true)] }
            return commands.received(message, verb: String(end.dropFirst(FleetTopics.command.count)), gateway, now: now)
        }
        guard end.hasPrefix(FleetTopics.desired),
            let kind = DesiredDocument.Kind(rawValue: String(end.dropFirst(FleetTopics.desired.count)))
        else { return [] }
        defer { reportDesired(kind) }
        return desired.received(message.payload, kind, gateway, now: now)
    }

    private mutating func confirmed(_ payload: [UInt8]) -> [AgentEffect] {
        // Beyond these numbers is no trail: a sum must not overflow.
        let numbers = 0...(1 << 52)
        guard let value = try? JSON(parsing: payload), let trail = value["trail"]?.int, let id = value["id"]?.int,
            numbers.contains(trail), numbers.contains(id)
        else { return [] }
        return audit.confirmed(AuditMark(trail: trail, id: id, time: value["time"]?.int ?? 0), request: value["request"]?.int)
    }

    /// The broker has sent all messages that it retains.
    private mutating func compared() -> [AgentEffect] {
        guard case .comparing = link else { return [] }
        link = .up
        reported.compare()
        return Self.comparedTopics.map { .unsubscribe(gateway.topics.topic($0)) }
            + [.report("connected to the broker", isProblem: false)]
    }

    // MARK: The daemon

    private mutating func loaded(_ objects: [String: JSON]) -> [AgentEffect] {
        var objects = objects
        for kind in DesiredDocument.Kind.allCases {
            facts[kind] = objects[kind.rawValue]?.members ?? [:]
            objects[kind.rawValue] = report(kind)
        }
        reported.load(objects)
        guard daemon == .absent else { return audit.news() }
        daemon = .running
        return (isConnected ? [.publish(status("online"), .other)] : []) + audit.set(isReadable: true)
    }

    private mutating func change(_ end: String, _ object: JSON?) {
        guard let kind = DesiredDocument.Kind(rawValue: end) else { return reported.change(end, object) }
        facts[kind] = object?.members ?? [:]
        reportDesired(kind)
    }

    private func report(_ kind: DesiredDocument.Kind) -> JSON {
        .object((facts[kind] ?? [:]).merging(desired.report(kind)) { _, own in own })
    }

    private mutating func reportDesired(_ kind: DesiredDocument.Kind) { reported.change(kind.rawValue, report(kind)) }

    private mutating func daemonGone() -> [AgentEffect] {
        guard daemon == .running else { return [] }
        daemon = .absent
        reported.unload()
        _ = audit.set(isReadable: false)
        return isConnected ? [.publish(status("online"), .other)] : []
    }

    /// Each operator can read a copy, and nothing on the way can.
    private func reveal(_ picker: Int, _ secret: JSON) -> [AgentEffect] {
        guard isConnected else { return [] }
        let text = Array(secret.writtenInOneLine.utf8)
        let copies = gateway.operators.compactMap { key in
            key.seal(text).map { JSON.object(["for": JSON(key.id), "sealed": JSON($0)]) }
        }
        var message = MQTTMessage(
            gateway.topics.topic(FleetTopics.secret + "\(picker)"), Array(JSON.array(copies).writtenInOneLine.utf8))
        message.expiry = 60
        return [.publish(message, .other)]
    }
}

/// Numbers that look random, from a seed. (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators)
public struct SplitMix: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// - Parameter seed: any number; equal ones give equal numbers.
    public init(seed: UInt64) { state = seed }

    /// The next 64 bits.
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}

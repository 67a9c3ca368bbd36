// SPDX-License-Identifier: Apache-2.0
// The inputs and outputs of the agent's core. The core has no clock, no disk and no connection: a test can play ten
// thousand gateways, and stop one before and after each effect.

public import FleetProtocol
public import JSONText
public import MQTTClient

/// An input of `AgentMachine`.
public enum AgentEvent: Sendable {
    /// A connection to the broker exists.
    case connected
    /// The broker has answered the subscription.
    case subscribed(isGranted: Bool)
    /// The connection is over, or could not be made.
    case ended(String)
    case received(MQTTMessage)
    /// The broker has answered a message.
    case acknowledged(MessageToken, isAccepted: Bool)
    /// All objects of the daemon, by the ends of their topics.
    case loaded([String: JSON])
    /// An object has changed, or is gone (nil).
    case changed(String, JSON?)
    /// A secret of a picker's question, for the operators' eyes.
    case secret(picker: Int, JSON)
    /// The daemon has gone; its objects may be others when it returns.
    case daemonGone
    /// The trail may have new lines.
    case audited
    /// Lines that were asked for by `readAudit`, from that number on, oldest first; nil when they could not be read.
    case auditRead([AuditedLine]?, from: Int)
    /// A command's beginning is, or is not, in the journal.
    case begun(String, isStored: Bool)
    /// The daemon has answered a command.
    case performed(CommandAnswer)
    /// A document was checked, and perhaps applied.
    case applied(DesiredDocument, DocumentOutcome)
    /// About once a minute.
    case tick
}

extension AgentEvent {
    /// The event that a report of the connection is for the core; nil for an acknowledgement without a token.
    ///
    /// - Parameter tokens: of messages without an acknowledgement, by their numbers.
    public init?(_ event: MQTTEvent, _ tokens: inout [Int32: MessageToken]) {
        switch event {
        case .connected: self = .connected
        // An idle gateway wakes up for both at once.
        case .alive: self = .tick
        case .subscribed(let isGranted): self = .subscribed(isGranted: isGranted)
        case .received(let message): self = .received(message)
        case .acknowledged(let number, let isAccepted):
            guard let token = tokens.removeValue(forKey: number) else { return nil }
            self = .acknowledged(token, isAccepted: isAccepted)
        case .ended(let reason): self = .ended(reason)
        }
    }
}

/// The result of checking and writing a document's files.
public enum DocumentOutcome: Hashable, Sendable {
    /// Its files are in force.
    case applied
    /// Nothing has changed, for these reasons, which will be the same another time.
    case refused([String])
    /// The files could not be written for this reason, which may pass.
    case failed(String)
}

/// An output of `AgentMachine`, to be performed in order.
public enum AgentEffect: Sendable {
    /// Connect to the broker, after so many milliseconds.
    case connect(after: Int)
    /// End the connection; `ended` follows.
    case disconnect(String)
    case subscribe([String], to: MQTTSubscription)
    case unsubscribe(String)
    case publish(MQTTMessage, MessageToken)
    /// Read lines of the trail from this number on.
    case readAudit(from: Int, limit: Int)
    /// Store how far the collector has the trail. It may be lost: the collector says it again.
    case saveAudit(AuditMark)
    /// Store that a command begins, on the disk, before anything else happens.
    case begin(CommandRecord)
    /// Perform a command whose beginning was stored, for the operator with this key.
    case perform(String, FleetCommand.Action, signer: String)
    /// Store a command's answer.
    case finish(CommandAnswer)
    /// Check a document, and apply it.
    case apply(DesiredDocument)
    /// For the log.
    case report(String, isProblem: Bool)
}

/// Identifies a message by its kind, for its acknowledgement.
public enum MessageToken: Hashable, Sendable {
    /// The end of the topic, and the digest of the payload.
    case reported(String, String)
    case other
}

/// A line of the audit trail.
public struct AuditedLine: Hashable, Sendable {
    public let id: Int
    /// Seconds since 1970.
    public let time: Int
    /// All keys (`Admin.GetAudit`).
    public let json: [String: JSON]

    public init(id: Int, time: Int, json: [String: JSON]) {
        self.id = id
        self.time = time
        self.json = json
    }
}

/// How far the collector has the trail.
public struct AuditMark: Hashable, Sendable {
    /// Counts the trails: a new store begins with line 1 again.
    public var trail: Int
    /// The last line; 0 for none.
    public var id: Int
    /// Its time, by which another trail's line of the same number is recognized; 0 when unknown.
    public var time: Int

    public init(trail: Int = 1, id: Int = 0, time: Int = 0) {
        self.trail = trail
        self.id = id
        self.time = time
    }

    /// Whether another mark of the same trail is at the same line, as far as both times are known.
    func isSame(as other: AuditMark) -> Bool {
        id == other.id && (time == other.time || time == 0 || other.time == 0)
    }
}

/// A command as the journal has it.
public struct CommandRecord: Hashable, Sendable {
    public let id: String
    /// The end of the command's life: seconds since 1970.
    public let expires: Int
    /// Where the answer goes: the end of a topic of this gateway's; empty for nowhere.
    public let responseEnd: String
    /// Bytes that the answer repeats.
    public let correlation: [UInt8]
    /// Nil while it is performed.
    public var answer: CommandAnswer?

    public init(id: String, expires: Int, responseEnd: String, correlation: [UInt8], answer: CommandAnswer? = nil) {
        self.id = id
        self.expires = expires
        self.responseEnd = responseEnd
        self.correlation = correlation
        self.answer = answer
    }
}

/// The agent's memory over restarts, as the journal has it.
public struct AgentMemory: Hashable, Sendable {
    public var audit = AuditMark()
    public var commands = CommandMemory()
    /// The last applied documents: version and hash.
    public var applied: [DesiredDocument.Kind: AppliedVersion] = [:]

    public init() {}

    /// A change, as one line of the journal has it.
    public enum Change: Hashable, Sendable {
        /// A command begins.
        case begin(CommandRecord)
        case finish(CommandAnswer)
        case audit(AuditMark)
        case applied(DesiredDocument.Kind, AppliedVersion)
        /// No command that ends at or before this time is accepted.
        case floor(Int)
    }

    /// Applies a change, in the order of the journal.
    public mutating func apply(_ change: Change) {
        switch change {
        case .begin(let record): commands.add(record)
        case .finish(let answer): commands.finish(answer)
        case .audit(let mark): audit = mark
        case .applied(let kind, let version): applied[kind] = version
        case .floor(let time): commands.floor = max(commands.floor, time)
        }
    }
}

/// The commands that a gateway remembers.
public struct CommandMemory: Hashable, Sendable {
    private static let kept = 1024

    private var byID: [String: CommandRecord] = [:]
    private var order: [String] = []
    /// No command that ends at or before this time is accepted: its record may be gone.
    public internal(set) var floor = 0

    /// Oldest first.
    public var records: [CommandRecord] { order.compactMap { byID[$0] } }

    public init() {}

    /// The record of an identifier.
    public subscript(_ id: String) -> CommandRecord? { byID[id] }

    /// Adds a command that begins, and forgets the oldest finished one when there are too many.
    mutating func add(_ record: CommandRecord) {
        guard byID.updateValue(record, forKey: record.id) == nil else { return }
        order.append(record.id)
        guard order.count > Self.kept, let oldest = order.firstIndex(where: { byID[$0]?.answer != nil }) else { return }
        floor = max(floor, byID.removeValue(forKey: order.remove(at: oldest))?.expires ?? 0)
    }

    /// Adds a command's answer.
    mutating func finish(_ answer: CommandAnswer) { byID[answer.id]?.answer = answer }

    /// Removes a command that has not begun after all.
    mutating func forget(_ id: String) {
        byID[id] = nil
        order.removeAll { $0 == id }
    }
}

/// An applied document.
public struct AppliedVersion: Hashable, Sendable {
    public let version: Int
    public let hash: String

    public init(version: Int, hash: String) {
        self.version = version
        self.hash = hash
    }
}

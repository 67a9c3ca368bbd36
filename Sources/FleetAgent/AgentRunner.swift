// SPDX-License-Identifier: Apache-2.0
// Performs the effects of the agent's core: the broker, the daemon, the journal and the files, on one loop.

public import DBusKit
internal import FleetProtocol
internal import Glibc
public import Logging
internal import MQTTClient
internal import SystemFiles

/// The agent of one gateway.
public final class AgentRunner {
    private let settings: FleetSettings
    private let loop: MainLoop
    private let log: Logger
    private let journal: AgentJournal
    private let files: DesiredFiles
    private var machine: AgentMachine
    private var daemon: DaemonLink?
    private var broker: MQTTConnection?
    private var tokens: [Int32: MessageToken] = [:]
    private var timer: LoopSource?

    /// - Parameters:
    ///   - bus: the connection to the daemon's bus.
    ///   - directory: the agent's state. The daemon must be able to read `policy.d` and `apps` in it.
    /// - Throws: `SystemFileError` if the journal cannot be used.
    public init(_ settings: FleetSettings, bus: Connection, directory: String, loop: MainLoop, log: Logger) throws {
        self.settings = settings
        self.loop = loop
        self.log = log
        files = DesiredFiles(root: directory)
        let secret = directory + "/private"
        try SystemFile.makeDirectory(secret, mode: 0o700)
        journal = try AgentJournal(path: secret + "/journal", now: Self.now)
        machine = AgentMachine(settings.gateway, journal.memory, seed: UInt64.random(in: .min ... .max))
        daemon = DaemonLink(
            bus, loop, handler: { [weak self] in self?.handle($0) },
            report: { [weak self] in self?.log.warning("the daemon's objects cannot be read", metadata: ["reason": "\($0)"]) })
    }

    /// Begins.
    public func start() {
        perform(machine.start())
    }

    /// Says goodbye to the broker.
    public func end() {
        perform(machine.farewell())
        timer?.cancel()
        guard let broker else { return }
        _ = loop.run(until: { !broker.isCongested }, timeout: .seconds(2))
        self.broker = nil
        broker.disconnect()
    }

    private static var now: Int { time(nil) }

    private func handle(_ event: AgentEvent) { perform(machine.handle(event, now: Self.now)) }

    private func perform(_ effects: [AgentEffect]) {
        for effect in effects { perform(effect) }
    }

    private func perform(_ effect: AgentEffect) {
        switch effect {
        case .connect(let pause):
            timer?.cancel()
            timer = loop.after(.milliseconds(pause)) { [weak self] in self?.connect() }
        case .disconnect(let reason):
            log.warning("disconnecting from the broker", metadata: ["reason": "\(reason)"])
            broker?.disconnect()
        case .subscribe(let filters, let subscription): broker?.subscribe(filters, to: subscription)
        case .unsubscribe(let filter): broker?.unsubscribe(filter)
        case .publish(let message, let token):
            if let number = broker?.publish(message), token != .other { tokens[number] = token }
        case .readAudit(let number, let limit): daemon?.readAudit(from: number, limit: limit)
        case .saveAudit(let mark): store { () throws(SystemFileError) in try journal.record(mark) }
        case .begin(let record):
            handle(.begun(record.id, isStored: store { () throws(SystemFileError) in try journal.begin(record) }))
        case .perform(let id, let action, let signer):
            log.notice("command", metadata: ["id": "\(id)", "verb": "\(action.verb)", "operator": "\(signer)"])
            daemon?.perform(id, action, for: signer)
        case .finish(let answer): store { () throws(SystemFileError) in try journal.finish(answer) }
        case .apply(let document):
            let outcome = files.apply(document) { () throws(SystemFileError) in
                try journal.record(document.kind, AppliedVersion(version: document.version, hash: document.hash))
            }
            handle(.applied(document, outcome))
        case .report(let text, let isProblem): isProblem ? log.warning("\(text)") : log.notice("\(text)")
        }
    }

    @discardableResult
    private func store(_ body: () throws(SystemFileError) -> Void) -> Bool {
        do throws(SystemFileError) {
            try body()
            return true
        } catch {
            log.error("the journal cannot be written", metadata: ["reason": "\(error)"])
            return false
        }
    }

    // MARK: The broker

    private func connect() {
        tokens = [:]
        var broker = settings.broker
        broker.will = machine.will
        self.broker = MQTTConnection(broker, loop: loop) { [weak self] in self?.heard($0) }
    }

    private func heard(_ event: MQTTEvent) {
        if case .ended = event {
            guard broker != nil else { return }
            broker = nil
        }
        if let event = AgentEvent(event, &tokens) { handle(event) }
    }
}

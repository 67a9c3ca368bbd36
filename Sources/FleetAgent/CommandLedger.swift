// SPDX-License-Identifier: Apache-2.0
// Commands, each performed at most once: its identifier is on the disk before the daemon is called, and its answer
// after that. A repeated identifier gets the stored answer.

internal import FleetProtocol
internal import JSONText
internal import MQTTClient

/// The commands that the gateway remembers.
struct CommandLedger {
    enum Limits {
        /// Commands that are being performed.
        static let running = 64
        /// Answers that wait for a connection.
        static let waiting = 256
        /// Seconds by which the gateway's clock may be behind the operator's.
        static let clock = 60
        /// Seconds for which the broker keeps an answer.
        static let answerLife: UInt32 = 300
        static let correlation = 256
    }

    private var memory: CommandMemory
    /// Commands whose beginning is being stored.
    private var actions: [String: FleetCommand] = [:]
    private var running: Set<String> = []
    /// Answers that were not sent for want of a connection.
    private var waiting: [MQTTMessage] = []

    init(_ memory: CommandMemory) { self.memory = memory }

    /// The answers to commands that the end of an earlier run has interrupted.
    var interrupted: [CommandAnswer] {
        memory.records.filter { $0.answer == nil && !running.contains($0.id) }
            .map { CommandAnswer($0.id, .unknown, "the agent was interrupted: it may have happened, once") }
    }

    /// A command has arrived.
    mutating func received(_ message: MQTTMessage, verb: String, _ gateway: GatewayIdentity, now: Int) -> [AgentEffect] {
        let responseEnd = message.responseTopic.flatMap { gateway.topics.end(of: $0) } ?? ""
        let correlation = Array((message.correlation ?? []).prefix(Limits.correlation))
        func refuse(_ id: String, _ reason: String) -> [AgentEffect] {
            let record = CommandRecord(id: id, expires: 0, responseEnd: responseEnd, correlation: correlation)
            return [.report("command refused: \(reason)", isProblem: true)]
                + send(CommandAnswer(id, .refused, reason), to: record, gateway.topics)
        }
        let command: FleetCommand
        do throws(FleetProblem) {
            // Without a topic of this gateway's there is no answer: it must not be made to write elsewhere.
            if message.responseTopic != nil, !Self.isResponse(responseEnd) {
                throw FleetProblem("the response topic is not below answer/")
            }
            command = try FleetCommand(message.payload, verb: verb, keys: gateway.operators, own: gateway.key)
            guard command.fleet == gateway.topics.fleet else { throw FleetProblem("fleet: \(command.fleet): another fleet") }
            guard command.gateways.fits(gateway.topics.gateway, labels: gateway.labels) else {
                throw FleetProblem("gateways: \(command.gateways): not for this gateway")
            }
        } catch {
            return refuse("", "\(error)")
        }
        if let known = memory[command.id] {
            guard let answer = known.answer else { return [] }
            let record = CommandRecord(id: known.id, expires: known.expires, responseEnd: responseEnd, correlation: correlation)
            return send(answer, to: record, gateway.topics)
        }
        guard command.validity.upperBound > now else {
            return refuse(command.id, "exp: the command has expired by this gateway's clock")
        }
        guard command.validity.lowerBound <= now + Limits.clock else {
            return refuse(command.id, "iat: the command is from the future by this gateway's clock")
        }
        guard command.validity.upperBound > memory.floor else {
            return refuse(command.id, "exp: older than commands that were forgotten")
        }
        guard running.count < Limits.running else { return refuse(command.id, "\(Limits.running) commands are being performed") }
        let record = CommandRecord(
            id: command.id, expires: command.validity.upperBound, responseEnd: responseEnd, correlation: correlation)
        memory.add(record)
        actions[command.id] = command
        running.insert(command.id)
        return [.begin(record)]
    }

    private static func isResponse(_ end: String) -> Bool {
        end.hasPrefix(FleetTopics.answer) && end.utf8.count <= 256 && !end.utf8.contains { [0x2B, 0x23, 0].contains($0) }
    }

    /// The beginning is, or is not, on the disk.
    mutating func begun(_ id: String, isStored: Bool, _ topics: FleetTopics) -> [AgentEffect] {
        guard let command = actions.removeValue(forKey: id), let record = memory[id] else { return [] }
        guard isStored else {
            running.remove(id)
            memory.forget(id)
            return send(CommandAnswer(id, .refused, "the journal cannot be written"), to: record, topics)
        }
        return [.perform(id, command.action, signer: command.signer)]
    }

    /// The daemon has answered.
    mutating func performed(_ answer: CommandAnswer, _ topics: FleetTopics) -> [AgentEffect] {
        guard let record = memory[answer.id], record.answer == nil else { return [] }
        running.remove(answer.id)
        memory.finish(answer)
        return [.finish(answer)] + send(answer, to: record, topics)
    }

    private mutating func send(_ answer: CommandAnswer, to record: CommandRecord, _ topics: FleetTopics) -> [AgentEffect] {
        guard Self.isResponse(record.responseEnd) else { return [] }
        var message = MQTTMessage(topics.topic(record.responseEnd), Array(answer.json.writtenInOneLine.utf8))
        message.correlation = record.correlation.isEmpty ? nil : record.correlation
        message.expiry = Limits.answerLife
        waiting.append(message)
        if waiting.count > Limits.waiting { waiting.removeFirst() }
        return []
    }

    /// The answers that can be sent now.
    mutating func next() -> [AgentEffect] {
        defer { waiting = [] }
        return waiting.map { .publish($0, .other) }
    }
}

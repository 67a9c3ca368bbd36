// SPDX-License-Identifier: Apache-2.0
// An operator's connection to the broker, for commands that ask and wait.

internal import DBusKit
internal import FleetProtocol
internal import Glibc
internal import JSONText
internal import MQTTClient

/// A connection that one command uses.
final class FleetClient {
    let directory: OperatorDirectory
    let loop = MainLoop()
    private let clientID: String
    private var connection: MQTTConnection?
    private var isConnected = false
    private var failure: String?
    /// Gets each message of the fleet, with gateway and topic's end.
    var onMessage: ((_ gateway: String, _ end: String, MQTTMessage) -> Void)?
    /// Called when the connection is over.
    var onEnd: ((String) -> Void)?
    private var isMarked = false

    /// Connects.
    ///
    /// - Throws: when the broker cannot be reached.
    init(_ directory: OperatorDirectory) throws {
        self.directory = directory
        clientID = "operator-\(Digest.newIdentifier().prefix(12))"
        try connect()
    }

    /// Connects again, after the end of a connection.
    func connect() throws {
        isConnected = false
        failure = nil
        connection = MQTTConnection(try directory.settings(clientID: clientID), loop: loop) { [weak self] in self?.handle($0) }
        _ = loop.run(until: { isConnected || failure != nil }, timeout: .seconds(30))
        guard isConnected else {
            throw OperatorDirectory.Problem("the broker \(directory.broker) cannot be reached: \(failure ?? "no answer")")
        }
    }

    private func handle(_ event: MQTTEvent) {
        switch event {
        case .connected: isConnected = true
        case .subscribed(let isGranted): if !isGranted { failure = "the broker refuses the topics of operators" }
        case .acknowledged, .alive: break
        case .received(let message):
            if message.topic == marker { isMarked = true }
            guard let (gateway, end) = FleetTopics.parse(message.topic, fleet: directory.fleet) else { return }
            onMessage?(gateway, end, message)
        case .ended(let reason):
            failure = reason
            connection = nil
            onEnd?(reason)
        }
    }

    private var marker: String { FleetTopics.prefix(of: directory.fleet) + "\(FleetTopics.operators)/\(clientID)" }

    /// Subscribes to the ends of topics, with wildcards, of some gateways, and receives the retained messages.
    ///
    /// - Parameter gateways: a level of a topic: a name, or `+`.
    func subscribe(_ ends: [String], of gateways: [String]) throws {
        isMarked = false
        let filters = gateways.flatMap { gateway in ends.map { FleetTopics.prefix(of: directory.fleet) + "\(gateway)/\($0)" } }
        connection?.subscribe(filters + [marker])
        publish(MQTTMessage(marker, []))
        try wait(until: { isMarked }, seconds: 30, "the broker does not answer")
    }

    /// Waits, while messages are received.
    ///
    /// - Throws: after this time, or when the connection is over.
    func wait(until condition: () -> Bool, seconds: Int, _ problem: String) throws {
        _ = loop.run(until: { condition() || failure != nil }, timeout: .seconds(seconds))
        if condition() { return }
        throw OperatorDirectory.Problem(failure.map { "the connection to the broker has ended: \($0)" } ?? problem)
    }

    @discardableResult
    func publish(_ message: MQTTMessage) -> Bool { connection?.publish(message) != nil }

    /// Sends waiting messages, and disconnects.
    func end() {
        _ = loop.run(until: { connection?.isCongested != true }, timeout: .seconds(5))
        onEnd = nil
        connection?.disconnect()
    }

    // MARK: Commands

    /// Has a gateway perform an action, and waits for its answer.
    ///
    /// - Throws: when there is none before the command has expired.
    func perform(_ action: FleetCommand.Action, at name: String) throws -> CommandAnswer {
        let gateway = try directory.gateway(name)
        let topics = try directory.topics(of: gateway.name)
        let id = Digest.newIdentifier()
        let response = FleetTopics.answer + clientID
        var answer: CommandAnswer?
        let before = onMessage
        defer { onMessage = before }
        onMessage = { from, end, message in
            if from == name, end == response, message.correlation == Array(id.utf8) {
                answer = (try? JSON(parsing: message.payload)).flatMap { CommandAnswer($0) }
            }
            before?(from, end, message)
        }
        try subscribe([response], of: [name])
        let text = try FleetCommand.sign(
            action, id: id, fleet: directory.fleet, gateways: try GatewaySelector([name]), now: time(nil), for: gateway.key,
            with: directory.key)
        var message = MQTTMessage(topics.topic(FleetTopics.command + action.verb), text)
        message.responseTopic = topics.topic(response)
        message.correlation = Array(id.utf8)
        message.expiry = UInt32(FleetCommand.maxLife)
        publish(message)
        try wait(
            until: { answer != nil }, seconds: FleetCommand.maxLife + 5,
            "\(name) did not answer: if it was connected, the command may have happened, once")
        guard let answer else { throw OperatorDirectory.Problem("no answer") }
        return answer
    }
}

/// The retained state of gateways, as messages arrive.
struct FleetState {
    struct Gateway {
        var status: JSON?
        /// By the ends of topics, without `reported/`.
        var reported: [String: JSON] = [:]

        /// The objects of a kind, such as `grant`, by the last level of their topics.
        func objects(_ kind: String) -> [(id: String, JSON)] {
            reported.compactMap { end, object in
                end.hasPrefix(kind + "/") ? (String(end.dropFirst(kind.count + 1)), object) : nil
            }
            .sorted { $0.0 < $1.0 }
        }
    }

    private(set) var gateways: [String: Gateway] = [:]

    /// - Returns: whether the message is about the state.
    @discardableResult
    mutating func receive(_ gateway: String, _ end: String, _ message: MQTTMessage) -> Bool {
        let value = message.payload.isEmpty ? nil : try? JSON(parsing: message.payload)
        if end == FleetTopics.status {
            gateways[gateway, default: Gateway()].status = value
        } else if end.hasPrefix(FleetTopics.reported) {
            gateways[gateway, default: Gateway()].reported[String(end.dropFirst(FleetTopics.reported.count))] = value
        } else {
            return false
        }
        return true
    }
}

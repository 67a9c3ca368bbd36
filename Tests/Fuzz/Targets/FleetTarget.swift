// SPDX-License-Identifier: Apache-2.0
// A hostile broker's bytes: JSON, signed texts, and an agent that gets any message, any content with a good signature,
// and any order of answers. No message goes to a topic of another gateway's, nothing is performed that was not signed
// and stored before, nothing twice, and no version grows backwards.

import FleetProtocol
import JSONText
import MQTTClient

@testable import FleetAgent

private let key = PrivateKey(base64: "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=")!
private let topics = FleetTopics(fleet: "hall", gateway: "gw-1")!
private let gateway = GatewayIdentity(topics, labels: ["ward"], operators: [key.publicKey], key: key)

func listenToBroker(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    switch input.number(below: 3) {
    case 0: readJSON(input.everything())
    case 1:
        let text = input.everything()
        for type in DocumentType.allCases {
            expect((try? SignedDocument.open(text, as: type, keys: [key.publicKey])) == nil, "a signature that nothing has made")
        }
    default:
        var agent = FuzzedAgent()
        for _ in 0..<96 where !input.isAtEnd { agent.step(&input) }
    }
}

private func readJSON(_ text: [UInt8]) {
    guard let value = try? JSON(parsing: text) else { return }
    let written = value.writtenInOneLine
    expect(
        (try? JSON(parsing: Array(written.utf8))) == value || written.contains("e"), "JSON that reads differently again: \(written)"
    )
}

private struct FuzzedAgent {
    private var machine = AgentMachine(gateway, AgentMemory(), seed: 1)
    private var isConnected = false
    private var stored: Set<String> = []
    private var performed: Set<String> = []
    private var versions: [DesiredDocument.Kind: Int] = [:]
    /// Events that the world owes.
    private var owed: [AgentEvent] = []
    private var number = 0

    mutating func step(_ input: inout Input) {
        let now = 1000 + input.number(below: 8) * 30
        let event: AgentEvent
        switch input.number(below: 12) {
        case 0: event = isConnected ? .ended("lost") : .connected
        case 1 where !owed.isEmpty: event = owed.remove(at: input.number(below: owed.count))
        case 2: event = .loaded(["grant/1": ["App": JSON(input.text())], "policy": [:]])
        case 3: event = .changed("grant/\(input.number(below: 3))", input.oneIn(2) ? nil : ["App": JSON(input.text())])
        case 4: event = .daemonGone
        case 5: event = .audited
        case 6: event = .tick
        case 7: event = .subscribed(isGranted: !input.oneIn(4))
        case 8, 9: event = .received(signed(&input))
        default:
            let end = input.pick([
                "cmd/disable", "desired/policy", "audit-seen", "reported/grant/1", "reported-marker", "cmd/", "x",
            ])
            event = .received(
                MQTTMessage(topics.topic(end), input.oneIn(2) ? marks(&input) : input.bytes(), isRetained: input.oneIn(3)))
        }
        if case .connected = event { isConnected = true }
        if case .ended = event { isConnected = false }
        if case .applied(let document, .applied) = event {
            expect(
                document.version >= versions[document.kind] ?? 0,
                "version \(document.version) after \(versions[document.kind] ?? 0)")
            versions[document.kind] = document.version
        }
        for effect in machine.handle(event, now: now) { check(effect, &input) }
    }

    private func marks(_ input: inout Input) -> [UInt8] {
        Array(#"{"trail":\#(input.number(below: 3)),"id":\#(input.number(below: 9)),"request":\#(input.number(below: 3))}"#.utf8)
    }

    /// With the operator's signature, and any content.
    private mutating func signed(_ input: inout Input) -> MQTTMessage {
        let version = JSON(input.number(below: 6))
        let times: [String: JSON] = [
            "fleet": "hall", "gateways": ["*"], "nbf": .integer(1000), "iat": .integer(1100), "exp": .integer(1150),
            "version": version,
        ]
        var claims = times
        claims["files"] = ["a.conf": JSON(input.text())]
        claims["iat"] = nil
        var (type, end) = (DocumentType.policy, "desired/policy")
        if input.oneIn(2) {
            (type, end) = (.command, "cmd/disable")
            claims = times
            (claims["version"], claims["nbf"]) = (nil, nil)
            claims["verb"] = "disable"
            claims["id"] = JSON("0123456789abcde\(input.number(below: 4))")
            claims["args"] = ["grant": JSON(input.number(below: 3))]
        }
        if input.oneIn(4) { claims[input.text()] = JSON(input.text()) }
        var message = MQTTMessage(topics.topic(end), SignedDocument.sign(.object(claims), as: type, with: key))
        message.responseTopic = input.pick([nil, topics.topic("answer/x"), topics.topic("status"), "as/1/hall/gw-2/answer/x"])
        return message
    }

    private mutating func check(_ effect: AgentEffect, _ input: inout Input) {
        switch effect {
        case .publish(let message, let token):
            expect(isConnected, "a message without a connection")
            expect(topics.end(of: message.topic) != nil, "a message to \(message.topic)")
            expect(!message.topic.contains(where: { $0 == "+" || $0 == "#" }), "a message to \(message.topic)")
            owed.append(.acknowledged(token, isAccepted: !input.oneIn(8)))
        case .begin(let record):
            let isStored = !input.oneIn(8)
            if isStored { stored.insert(record.id) }
            owed.append(.begun(record.id, isStored: isStored))
        case .perform(let id, _, _):
            expect(stored.contains(id), "\(id) is performed, and was not stored")
            expect(performed.insert(id).inserted, "\(id) is performed twice")
            owed.append(.performed(CommandAnswer(id, .done)))
        case .apply(let document):
            owed.append(.applied(document, input.pick([.applied, .applied, .refused(["no"]), .failed("full")])))
        case .readAudit(let from, let limit):
            let lines = (max(from, 1)..<(from + 1 + input.number(below: limit + 1))).map {
                AuditedLine(id: $0, time: $0, json: ["id": JSON($0)])
            }
            owed.append(.auditRead(input.oneIn(8) ? nil : lines, from: from))
        default: break
        }
        if owed.count > 64 { owed.removeFirst(owed.count - 64) }
    }
}

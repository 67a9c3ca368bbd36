// SPDX-License-Identifier: Apache-2.0
// The gateway's state at the broker: one retained message for each object, sent when it differs from the broker's.

internal import FleetProtocol
internal import JSONText
internal import MQTTClient

/// The objects, and how far the broker has them. Ends of topics are without `reported/`.
struct ReportedState {
    /// Messages without an acknowledgement.
    private static let inFlight = 100
    /// Retained messages that are remembered while they are received.
    private static let retained = 50_000

    /// The payloads that the broker should have; nil before the daemon's objects are loaded, when nothing is sent.
    private(set) var wanted: [String: [UInt8]]?
    /// Digests of the payloads that the broker has.
    private var known: [String: String] = [:]
    /// Objects that may differ, in order, of which the first `begun` were looked at.
    private var queue: [String] = []
    private var begun = 0
    private var queued: Set<String> = []
    /// Objects that have changed while a message about them was on its way.
    private var changed: Set<String> = []
    private var sent: [String: String] = [:]

    /// The payload of an object: its members, and a hash over them.
    static func payload(_ object: JSON) -> [UInt8] {
        var members = object.members ?? ["value": object]
        members["hash"] = JSON(String(Digest.text(Array(object.writtenInOneLine.utf8)).prefix(16)))
        return Array(JSON.object(members).writtenInOneLine.utf8)
    }

    private static func digest(_ payload: [UInt8]) -> String { String(Digest.text(payload).prefix(16)) }

    // MARK: The daemon's side

    /// All objects: those that are missing are gone.
    mutating func load(_ objects: [String: JSON]) {
        let payloads = objects.mapValues { Self.payload($0) }
        for end in Set(payloads.keys).union((wanted ?? [:]).keys).union(known.keys).sorted() { enqueue(end) }
        wanted = payloads
    }

    mutating func change(_ end: String, _ object: JSON?) {
        guard wanted != nil else { return }
        wanted?[end] = object.map { Self.payload($0) }
        enqueue(end)
    }

    /// The objects are unknown: those at the broker stay.
    mutating func unload() { wanted = nil }

    private mutating func enqueue(_ end: String) {
        if queued.insert(end).inserted { queue.append(end) }
    }

    // MARK: The broker's side

    /// A connection begins: the broker's messages are unknown.
    mutating func connect() {
        known = [:]
        sent = [:]
        changed = []
        queue = []
        begun = 0
        queued = []
    }

    /// The broker has retained this.
    mutating func retained(_ end: String, _ payload: [UInt8]) {
        guard known.count < Self.retained else { return }
        known[end] = payload.isEmpty ? nil : Self.digest(payload)
    }

    /// All retained messages have been received.
    mutating func compare() {
        guard let wanted else { return }
        for end in Set(wanted.keys).union(known.keys).sorted() { enqueue(end) }
    }

    mutating func acknowledged(_ end: String, _ digest: String) {
        guard sent[end] == digest else { return }
        sent[end] = nil
        if changed.remove(end) != nil { enqueue(end) }
    }

    /// The next messages.
    mutating func next(_ topics: FleetTopics) -> [AgentEffect] {
        guard let wanted, !queue.isEmpty else { return [] }
        var effects: [AgentEffect] = []
        while sent.count < Self.inFlight, begun < queue.count {
            let end = queue[begun]
            begun += 1
            queued.remove(end)
            // One at a time: the broker then has the newest last, and changes in between are one.
            guard sent[end] == nil else {
                changed.insert(end)
                continue
            }
            let payload = wanted[end] ?? []
            let digest = payload.isEmpty ? nil : Self.digest(payload)
            guard digest != known[end] else { continue }
            // As if it had arrived: after a loss of the connection all are compared again.
            known[end] = digest
            sent[end] = digest ?? ""
            effects.append(
                .publish(
                    MQTTMessage(topics.topic(FleetTopics.reported + end), payload, isRetained: true), .reported(end, digest ?? "")))
        }
        // The rest moves once for many messages, not at each.
        if begun == queue.count || begun > 1000 {
            queue.removeFirst(begun)
            begun = 0
        }
        return effects
    }
}

// SPDX-License-Identifier: Apache-2.0
// The delivery of the audit trail: the daemon's trail itself is the queue. The operator's collector says up to which
// line it has stored the trail, and the agent sends the lines after that one. Each names the line before it, so that
// the collector notices a gap, and asks again.

internal import FleetProtocol
internal import JSONText
internal import MQTTClient

/// The lines on their way.
struct AuditQueue {
    private enum State {
        /// There is no connection, no daemon, or no collector.
        case stopped
        /// So many lines from this number on are being read. Whether there was news meanwhile.
        case reading(from: Int, limit: Int, hasNews: Bool)
        /// Everything was sent that there was, or that may be on its way; whether the trail has more.
        case idle(hasMore: Bool)
    }

    /// Lines that the collector has not confirmed.
    private static let onTheirWay = 64

    /// The last confirmed line.
    private(set) var mark: AuditMark
    /// Unconfirmed lines, in order.
    private var sent: [AuditMark] = []
    private var state = State.stopped
    private var isReadable = false
    private var isCollected = false
    /// The collector's last request for lines that may be lost.
    private var request: Int?

    init(_ mark: AuditMark) { self.mark = mark }

    private var last: AuditMark { sent.last ?? mark }

    // MARK: Begin and end

    /// The connection is over: lines on their way are sent again.
    mutating func disconnected() {
        isCollected = false
        sent = []
        state = .stopped
    }

    /// The daemon has come or gone.
    mutating func set(isReadable: Bool) -> [AgentEffect] {
        self.isReadable = isReadable
        guard isReadable else {
            state = .stopped
            return []
        }
        return news()
    }

    /// There may be new lines.
    mutating func news() -> [AgentEffect] {
        if case .reading(let from, let limit, _) = state {
            state = .reading(from: from, limit: limit, hasNews: true)
            return []
        }
        return read()
    }

    /// A minute has passed, at which lines are read that could not be.
    mutating func tick() -> [AgentEffect] {
        guard case .idle(true) = state else { return [] }
        return read()
    }

    /// The last sent line is read again: it shows whether the trail is still the same.
    private mutating func read() -> [AgentEffect] {
        guard isReadable, isCollected else { return [] }
        guard sent.count < Self.onTheirWay else {
            state = .idle(hasMore: true)
            return []
        }
        let limit = Self.onTheirWay - sent.count + 1
        state = .reading(from: last.id, limit: limit, hasNews: false)
        return [.readAudit(from: last.id, limit: limit)]
    }

    // MARK: The collector

    /// The collector has stored the trail up to a line.
    ///
    /// - Parameter request: another one than before when the collector was away, and lines on their way may be lost.
    mutating func confirmed(_ seen: AuditMark, request: Int?) -> [AgentEffect] {
        isCollected = true
        let isConfirmation = request == self.request
        self.request = request
        if isConfirmation, seen.trail == mark.trail, let index = sent.firstIndex(where: { $0.isSame(as: seen) }) {
            mark = sent[index]
            sent.removeFirst(index + 1)
            guard case .idle(true) = state else { return [.saveAudit(mark)] }
            return [.saveAudit(mark)] + read()
        }
        // It has another state than is known here, or has lost lines: they are sent anew.
        sent = []
        if seen.trail < mark.trail {
            mark = AuditMark(trail: mark.trail)
        } else if seen.trail > mark.trail || !mark.isSame(as: seen) {
            // A later trail was begun by this gateway, too, whose journal has lost that.
            mark = seen
        }
        return read()
    }

    // MARK: The trail

    /// - Parameters:
    ///   - from: the number that was asked for.
    ///   - lines: nil when they could not be read.
    mutating func received(_ lines: [AuditedLine]?, from: Int, _ topics: FleetTopics) -> [AgentEffect] {
        guard case .reading(from, let limit, let hasNews) = state else { return [] }
        guard var lines else {
            // The daemon has gone, will signal the next line, or can answer in a minute.
            state = .idle(hasMore: true)
            return []
        }
        let isFull = lines.count >= limit
        if last.id > 0 {
            let isSame = lines.first.map { $0.id > last.id || last.time == 0 || $0.time == last.time } ?? false
            guard isSame else {
                mark = AuditMark(trail: mark.trail + 1)
                sent = []
                return [.saveAudit(mark), .report("the audit trail has begun anew", isProblem: false)] + read()
            }
            if lines.first?.id == last.id { lines.removeFirst() }
        }
        var effects: [AgentEffect] = []
        for line in lines {
            var members = line.json
            members["trail"] = JSON(mark.trail)
            members["previous"] = JSON(last.id)
            let payload = Array(JSON.object(members).writtenInOneLine.utf8)
            effects.append(.publish(MQTTMessage(topics.topic(FleetTopics.audit), payload), .other))
            sent.append(AuditMark(trail: mark.trail, id: line.id, time: line.time))
        }
        state = .idle(hasMore: false)
        return isFull || hasNews ? effects + read() : effects
    }
}

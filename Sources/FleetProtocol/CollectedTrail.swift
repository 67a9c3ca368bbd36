// SPDX-License-Identifier: Apache-2.0
// The collector's half of the delivery of audit trails: which line of a gateway's is the next, and which reveals that
// lines are missing. Each line names the one before it, so that every line is taken once, and in order.

public import JSONText

/// How far a collector has a gateway's trail.
public struct CollectedTrail: Hashable, Sendable {
    /// The meaning of a line for the collector.
    public enum Verdict: Hashable, Sendable {
        /// To be stored, and then confirmed with `seen`.
        case next
        /// Lines before it are missing: to be asked for with `seen`.
        case gap
        /// It was stored before, or is no line, or the missing lines were asked for.
        case known
    }

    /// Counts the gateway's trails: a new store begins with line 1 again.
    public private(set) var trail = 1
    /// The last line; 0 for none.
    public private(set) var id = 0
    /// Its time, by which the gateway recognizes it.
    public private(set) var time = 0
    /// The last line came out of turn, and the missing ones were asked for.
    public private(set) var hasAsked = false
    /// Changes when lines that were sent may be lost: only then is `seen` more than a confirmation.
    private var request = 0

    /// Of a gateway without a line.
    public init() {}

    /// - Parameter line: the last one that was stored. Nil for a value that is no line.
    public init?(last line: JSON) {
        guard let trail = line["trail"]?.int, let id = line["id"]?.int else { return nil }
        self.trail = trail
        self.id = id
        time = line["time"]?.int ?? 0
    }

    /// The retained message by which the gateway learns which lines are stored; it sends those after them.
    public var seen: JSON { ["trail": JSON(trail), "id": JSON(id), "time": JSON(time), "request": JSON(request)] }

    /// A connection begins: all lines that were sent before may be lost.
    ///
    /// - Parameter request: a number that earlier connections did not have, such as a random one, up to 2^52.
    public mutating func connect(request: Int) {
        self.request = request
        hasAsked = false
    }

    /// The missing lines did not come.
    public mutating func askAgain() { request += 1 }

    /// A line has arrived.
    public mutating func receive(_ line: JSON) -> Verdict {
        guard let number = line["trail"]?.int, let id = line["id"]?.int, let previous = line["previous"]?.int else { return .known }
        let isNext = number == trail && previous == self.id && id > self.id
        // A gateway whose store was lost begins anew.
        let isNewTrail = number > trail && previous == 0
        guard isNext || isNewTrail else {
            // Lines that came before, or that were sent before a gap was known.
            if hasAsked || number == trail && id <= self.id { return .known }
            hasAsked = true
            request += 1
            return .gap
        }
        (trail, self.id, time, hasAsked) = (number, id, line["time"]?.int ?? 0, false)
        return .next
    }
}

// SPDX-License-Identifier: Apache-2.0
// The end of a grant: the rules by which it ends, their text, and how far each has come. Time is counted by
// `ElapsedClock`, so that neither a restart nor a wrong clock moves an end.

/// A rule by which a grant ends. Its text is the same in items, policy files, tools and the store: `90s`, `15min`,
/// `8h`, `7d`, `2w`, a time of day `18:00`, or `idle 30d`.
public enum EndRule: Hashable, Sendable, CustomStringConvertible {
    /// So many seconds after it begins, within `Limits.grantDuration`.
    case duration(seconds: Int)
    /// The next time that the machine's local clock shows this time, in minutes since midnight.
    case timeOfDay(minutes: Int)
    /// So many days after the app last used the accessory, within `Limits.idleDays`.
    case idle(days: Int)

    private static let units: [(name: String, seconds: Int)] = [
        ("s", 1), ("min", 60), ("h", 3600), ("d", 86400), ("w", 604_800),
    ]
    /// Weeks are for input alone: 7 days stay 7 days.
    private static let shownUnits = units.dropLast()

    /// Nil for another text, and for a value out of range.
    public init?(_ text: String) {
        if text.hasPrefix("idle ") {
            guard let seconds = Self.seconds(String(text.dropFirst(5))), seconds % 86400 == 0,
                Limits.idleDays.contains(seconds / 86400)
            else { return nil }
            self = .idle(days: seconds / 86400)
            return
        }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        if parts.count == 2, parts.allSatisfy({ $0.utf8.count == 2 }), let hour = Self.number(parts[0]), hour < 24,
            let minute = Self.number(parts[1]), minute < 60
        {
            self = .timeOfDay(minutes: hour * 60 + minute)
            return
        }
        guard let seconds = Self.seconds(text), Limits.grantDuration.contains(seconds) else { return nil }
        self = .duration(seconds: seconds)
    }

    /// A span of time with its unit: `90s`, `15min`, `8h`, `7d`, `2w`; nil for another text.
    private static func seconds(_ text: String) -> Int? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text.dropFirst(digits.count)
        guard digits.utf8.count <= 9, let count = number(digits), let (_, seconds) = units.first(where: { $0.name == unit })
        else { return nil }
        return count * seconds
    }

    private static func number(_ text: Substring) -> Int? {
        text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(text) : nil
    }

    /// Its text, with the largest unit that fits.
    public var description: String {
        switch self {
        case .duration(let seconds):
            let (name, unit) = Self.shownUnits.last { seconds % $0.seconds == 0 } ?? Self.units[0]
            return "\(seconds / unit)\(name)"
        case .timeOfDay(let minutes):
            func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
            return "\(two(minutes / 60)):\(two(minutes % 60))"
        case .idle(let days): return "idle \(days)d"
        }
    }
}

/// A moment, as ends of grants count it.
public struct Moment: Hashable, Sendable {
    /// Seconds that have passed for this machine, switched off or not, whatever its wall clock says (`ElapsedClock`).
    public var elapsed: Double
    /// Seconds since 1970, corrected while the wall clock is known to be wrong.
    public var wall: Double

    /// Stores its arguments.
    public init(elapsed: Double, wall: Double) {
        self.elapsed = elapsed
        self.wall = wall
    }
}

/// One end of a grant that is under way.
public struct GrantEnd: Hashable, Sendable {
    /// Where it is due.
    public enum Due: Hashable, Sendable {
        /// In seconds of `Moment.elapsed`.
        case elapsed(Double)
        /// In seconds of `Moment.wall`: a time of day.
        case wall(Double)
    }

    /// The rule that it follows.
    public let rule: EndRule
    /// When it is due.
    public private(set) var due: Due

    /// Stores its arguments.
    public init(_ rule: EndRule, due: Due) {
        self.rule = rule
        self.due = due
    }

    /// Begins at a moment.
    ///
    /// - Parameter next: the next time that the wall clock shows a time of day, in seconds since 1970, strictly after
    ///   `start.wall`.
    public init(_ rule: EndRule, at start: Moment, next: (_ minutes: Int) -> Double) {
        self.rule = rule
        switch rule {
        case .duration(let seconds): due = .elapsed(start.elapsed + Double(seconds))
        case .timeOfDay(let minutes): due = .wall(next(minutes))
        case .idle(let days): due = .elapsed(start.elapsed + Double(days) * 86400)
        }
    }

    /// Seconds until it is due; not positive once it is.
    public func remaining(at now: Moment) -> Double {
        switch due {
        case .elapsed(let time): time - now.elapsed
        case .wall(let time): time - now.wall
        }
    }

    /// The app has used the accessory. Within a minute nothing changes: an app that reads all the time makes no
    /// signals.
    fileprivate mutating func used(at now: Moment) {
        guard case .idle(let days) = rule, case let whole = Double(days) * 86400, whole - remaining(at: now) >= 60 else { return }
        due = .elapsed(now.elapsed + whole)
    }
}

/// The ends of a grant.
public enum TimeLimit: Hashable, Sendable {
    /// It does not end by itself.
    case none
    /// It ends with the first end, of at most one for each kind of rule; `hasWarned` once the app knows that it is
    /// near.
    case running([GrantEnd], hasWarned: Bool)
    /// It has ended, and opens nothing until it is renewed; it had these rules.
    case ended([EndRule])

    /// Begins at a moment.
    ///
    /// - Parameter next: as for `GrantEnd`.
    public init(_ rules: [EndRule], at start: Moment, next: (_ minutes: Int) -> Double) {
        self = rules.isEmpty ? .none : .running(rules.map { GrantEnd($0, at: start, next: next) }, hasWarned: false)
    }

    /// Its rules, whether or not it has ended.
    public var rules: [EndRule] {
        switch self {
        case .none: []
        case .running(let ends, _): ends.map(\.rule)
        case .ended(let rules): rules
        }
    }

    /// Whether it has ended.
    public var hasEnded: Bool { if case .ended = self { true } else { false } }

    /// The same for an accessory that has lost its bond: once it is paired again, a grant that has ended ends again.
    public var overdue: TimeLimit {
        guard case .ended(let rules) = self else { return self }
        return .running(rules.map { GrantEnd($0, due: .elapsed(0)) }, hasWarned: true)
    }

    /// Seconds until it ends; nil for one that does not, or has.
    public func remaining(at now: Moment) -> Double? {
        guard case .running(let ends, _) = self else { return nil }
        return ends.map { $0.remaining(at: now) }.min()
    }

    /// Seconds before the end at which the app is warned: a tenth of the whole, within `Limits.endWarning`.
    public var lead: Double {
        let spans = rules.compactMap { rule -> Double? in
            switch rule {
            case .duration(let seconds): Double(seconds)
            case .idle(let days): Double(days) * 86400
            case .timeOfDay: nil
            }
        }
        let range = Limits.endWarning
        return min(max((spans.min() ?? range.upperBound * 10) / 10, range.lowerBound), range.upperBound)
    }

    /// Ends no later than `seconds` from now: a rule of the policy. A time that has been bounded already stays so.
    public func bounded(by seconds: Int, at now: Moment) -> TimeLimit {
        let bound = GrantEnd(.duration(seconds: seconds), due: .elapsed(now.elapsed + Double(seconds)))
        switch self {
        case .ended: return self
        case .none: return .running([bound], hasWarned: false)
        case .running(let ends, let hasWarned):
            // An idle end moves with each use, so it bounds nothing.
            let isBounded = ends.contains { end in
                if case .idle = end.rule { false } else { end.remaining(at: now) <= Double(seconds) }
            }
            guard !isBounded else { return self }
            let idle = ends.filter { if case .idle = $0.rule { true } else { false } }
            return .running(idle + [bound], hasWarned: hasWarned)
        }
    }

    /// The app has used the accessory: idle days begin anew.
    public func used(at now: Moment) -> TimeLimit {
        guard case .running(var ends, let hasWarned) = self else { return self }
        for index in ends.indices { ends[index].used(at: now) }
        let moved = TimeLimit.running(ends, hasWarned: hasWarned)
        // Far from its end again, it will need another warning.
        guard hasWarned, let remaining = moved.remaining(at: now), remaining > moved.lead else { return moved }
        return .running(ends, hasWarned: false)
    }
}

/// The choice of the person who picks an offer.
public struct PickChoice: Hashable, Sendable {
    /// When the grant ends; nil for the app's end.
    public var end: EndChoice?
    /// The most that the app may do; nil for all that it asks for.
    public var access: AccessLimit?

    /// As the app asks.
    public init() {}
}

/// The options of `RenewAccess`.
public struct RenewalOptions: Hashable, Sendable {
    /// The end that the app asks for; nil for the same as before.
    public var end: EndRule?
    /// Ends among which the person may choose; empty for no choice.
    public var endChoices: [EndChoice] = []

    /// The same end as before, without a choice.
    public init() {}
}

/// A choice of the person's about the end of a grant: an end, or none.
public enum EndChoice: Hashable, Sendable, CustomStringConvertible {
    case none
    case end(EndRule)

    /// `none`, or the text of an end; nil for another text.
    public init?(_ text: String) {
        if text == "none" {
            self = .none
        } else if let rule = EndRule(text) {
            self = .end(rule)
        } else {
            return nil
        }
    }

    /// Its text.
    public var description: String { if case .end(let rule) = self { rule.description } else { "none" } }

    /// The rule; nil for no end.
    public var rule: EndRule? { if case .end(let rule) = self { rule } else { nil } }
}

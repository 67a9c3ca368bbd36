// SPDX-License-Identifier: Apache-2.0
// Decides which observed accessories are present, and when the radio searches for them: a link, a joined network or an
// advert makes an accessory present; the end of a link makes it absent after a grace, and silence after two windows of
// discovery (Docs/Presence.md).

public import AccessoryModel

/// The presence of all observed accessories as a value: events in, effects out. Times are monotonic seconds.
public struct PresenceMachine: Sendable {
    /// An accessory that a grant observes, or a device of an observed kind.
    public struct Subject: Hashable, Sendable {
        /// The grant that observes it.
        public let grant: Int64
        /// A device of a kind; nil for an accessory.
        public let device: BluetoothAddress?

        /// - Parameter device: nil for an accessory.
        public init(_ grant: Int64, device: BluetoothAddress? = nil) {
            self.grant = grant
            self.device = device
        }
    }

    /// The accessories that a grant observes.
    public enum Target: Hashable, Sendable {
        /// One accessory; adverts count if the app has it by Bluetooth.
        case accessory(hasBluetooth: Bool)
        /// All devices of a kind, at most so many.
        case kind(atMost: Int)
    }

    /// The events. One about a subject that is not observed changes nothing.
    public enum Event: Hashable, Sendable {
        /// All observed grants, by their numbers, and those whose accessory has a link now.
        case observing([Int64: Target], linked: Set<Int64>)
        /// An advert, by any search.
        case heard(Subject, rssi: Int?)
        /// The accessory has a link, or the machine is on its network.
        case held(Subject, by: PresenceReason)
        /// The link, or the network, is no more.
        case released(Subject, by: PresenceReason)
        /// A monitor hears it, and will report its end.
        case monitored(Subject)
        /// The radio has dropped it, so that a monitor cannot report its end.
        case dropped(Subject)
        /// A monitor no longer hears it; or a device of a kind does not belong to it any more.
        case gone(Subject)
        /// Bluetooth can be used, or not.
        case radio(isReady: Bool)
        /// The controller reports adverts by itself, with the kinds that it misses no device of; nil when it does no
        /// longer.
        case monitoring(kinds: Set<Int64>?)
        /// The window brings nothing.
        case searchFailed
        /// The time of `setTimer` has come.
        case due
    }

    /// The effects, to be performed in order.
    public enum Effect: Hashable, Sendable {
        /// It has become present, or absent.
        case publish(Subject, PresenceState)
        case beginSearch
        case endSearch
        /// `due` at this time, in place of any earlier timer.
        case setTimer(Double)
        case cancelTimer
    }

    private struct Track: Sendable {
        /// Links and networks.
        var holders: Set<PresenceReason> = []
        var signal = Signal.silent
        var interval = Interval.guessed(Limits.presenceWindow.lowerBound)
        var monitor = Monitor.unknown
        var rssi: Int?
        var last = PresenceReason.lost

        var wasMissed: Bool {
            switch signal {
            case .heard(_, let misses): misses > 0
            case .silent: holders.isEmpty
            case .fading: false
            }
        }

        var state: PresenceState {
            if case .silent = signal, holders.isEmpty { return PresenceState(isPresent: false, reason: last, rssi: nil) }
            return PresenceState(isPresent: true, reason: last, rssi: rssi)
        }
    }

    /// The last report of a monitor. An accessory that was found once needs no windows: its adverts match a pattern.
    private enum Monitor: Hashable, Sendable {
        case unknown, found, lost
    }

    private enum Signal: Hashable, Sendable {
        case silent
        /// Heard last at this time, and missed in so many windows since.
        case heard(at: Double, misses: Int)
        /// Present until this time, unless it is heard after the other time.
        case fading(until: Double, deafUntil: Double)
    }

    /// Seconds between two adverts.
    private enum Interval: Hashable, Sendable {
        /// Not known yet; doubled by each window without an advert.
        case guessed(Double)
        case measured(Double)

        var seconds: Double {
            switch self {
            case .guessed(let seconds), .measured(let seconds): seconds
            }
        }
    }

    private enum Search: Sendable {
        case unneeded
        case pause(until: Double)
        case window(Window)
    }

    private struct Window: Sendable {
        let begin: Double
        let end: Double
        /// The time of the last advert, and the longest time between two.
        var heard: [Subject: (last: Double, gap: Double?)] = [:]
    }

    private let duty: Double
    private var targets: [Int64: Target] = [:]
    private var tracks: [Subject: Track] = [:]
    private var search = Search.unneeded
    private var isReady = false
    /// The kinds that monitors report completely; nil without monitors.
    private var monitoredKinds: Set<Int64>?
    /// When the time that windows have used is paid for, and when a window began last out of turn.
    private var budget = (paid: 0.0, early: -Limits.presenceEarlyWindow)
    /// The next window is to begin out of turn.
    private var isUrgent = false
    private var timer: Double?

    /// Seconds for which an accessory stays present after its link has ended.
    public static let grace = 10.0
    /// Seconds after which an advert counts no more where no window can say so.
    public static let silence = 60.0
    /// Seconds in which the radio reports a change.
    private static let reportDelay = 0.3
    /// Whole windows in a row without an advert until an accessory is absent.
    private static let mostMisses = 2

    /// - Parameter duty: percent of the time that windows may take, 0 to 100.
    public init(duty: Int) {
        self.duty = Double(min(max(duty, 0), 100)) / 100
    }

    // MARK: Questions

    /// The states under a grant: that of an accessory, or those of the present devices of a kind.
    public func states(of grant: Int64) -> [(Subject, PresenceState)] {
        switch targets[grant] {
        case nil: []
        case .accessory: tracks[Subject(grant)].map { [(Subject(grant), $0.state)] } ?? []
        case .kind:
            tracks.filter { $0.key.grant == grant }.map { ($0.key, $0.value.state) }
                .sorted { ($0.0.device ?? .none) < ($1.0.device ?? .none) }
        }
    }

    /// Whether an accessory, or this device of a kind, is present.
    public func isPresent(_ subject: Subject) -> Bool { tracks[subject]?.state.isPresent == true }

    /// Whether an accessory, or a device of a kind, is present.
    public func isPresent(_ grant: Int64) -> Bool { states(of: grant).contains { $0.1.isPresent } }

    // MARK: Events

    /// Takes an event in.
    public mutating func handle(_ event: Event, now: Double) -> [Effect] {
        var effects: [Effect] = []
        switch event {
        case .observing(let new, let linked): observe(new, linked, &effects)
        case .heard(let subject, let rssi):
            hear(subject, rssi, now, &effects)
            // Adverts come by the thousand. One that changes nothing makes no time earlier.
            if effects.isEmpty, !isSearching { return [] }
        case .held(let subject, let holder):
            update(subject, &effects) { track in
                track.holders.insert(holder)
                track.signal = .silent
            }
        case .released(let subject, let holder):
            guard tracks[subject]?.holders.contains(holder) == true else { break }
            update(subject, &effects) { track in
                track.holders.remove(holder)
                guard track.holders.isEmpty else { return }
                // A monitor does not report again that it hears a device which it has not lost during a link.
                let isFound = track.monitor == .found
                track.signal =
                    isFound ? .heard(at: now, misses: 0) : .fading(until: now + Self.grace, deafUntil: now + Self.reportDelay)
            }
            isUrgent = true
        case .monitored(let subject):
            update(subject, &effects) { track in
                track.monitor = .found
                if track.holders.isEmpty { track.signal = .heard(at: now, misses: 0) }
            }
        case .dropped(let subject):
            guard tracks[subject]?.monitor == .found else { break }
            unmonitor(subject, until: now + Self.grace)
            isUrgent = true
        case .gone(let subject):
            update(subject, &effects) { track in
                if track.monitor == .found { track.monitor = .lost }
                track.signal = .silent
            }
        case .radio(let new):
            guard new != isReady else { break }
            isReady = new
            guard !isReady else {
                isUrgent = true
                break
            }
            for subject in tracks.keys { unmonitor(subject, until: now + Self.grace) }
        case .monitoring(let kinds):
            guard kinds != monitoredKinds else { break }
            monitoredKinds = kinds
            guard kinds == nil else { break }
            for subject in tracks.keys { tracks[subject]?.monitor = .unknown }
            isUrgent = true
        case .searchFailed:
            if case .window(let window) = search {
                search = .pause(until: max(budget.paid, window.end))
                effects.append(.endSearch)
            }
        case .due: timer = nil
        }
        expire(now, &effects)
        advance(now, &effects)
        isUrgent = false
        schedule(now, &effects)
        return effects
    }

    private mutating func observe(_ new: [Int64: Target], _ linked: Set<Int64>, _ effects: inout [Effect]) {
        tracks = tracks.filter { new[$0.key.grant] == targets[$0.key.grant] }
        let former = targets
        targets = new
        for (grant, target) in new where former[grant] != target {
            if case .accessory = target { tracks[Subject(grant)] = Track() }
            if linked.contains(grant) { update(Subject(grant), &effects) { $0.holders.insert(.link) } }
            if target != .accessory(hasBluetooth: false) { isUrgent = true }
        }
    }

    private mutating func hear(_ subject: Subject, _ rssi: Int?, _ now: Double, _ effects: inout [Effect]) {
        switch targets[subject.grant] {
        case .accessory(true) where subject.device == nil: break
        case .kind(let most) where subject.device != nil:
            guard tracks[subject] == nil else { break }
            guard tracks.keys.count(where: { $0.grant == subject.grant }) < most else { return }
            tracks[subject] = Track()
        default: return
        }
        // Of a link that has just ended, the radio may report the change as if it were an advert.
        if case .fading(_, let end) = tracks[subject]?.signal, now < end { return }
        update(subject, &effects) { track in
            track.rssi = rssi ?? track.rssi
            // Where windows have missed it, they may have been too short. A window that hears it twice corrects that.
            if track.wasMissed, case .measured(let seconds) = track.interval {
                track.interval = .measured(min(2 * seconds, Limits.presenceWindow.upperBound))
            }
            if track.holders.isEmpty { track.signal = .heard(at: now, misses: 0) }
        }
        guard case .window(var window) = search else { return }
        let former = window.heard[subject]
        window.heard[subject] = (now, former.map { max($0.gap ?? 0, now - $0.last) })
        search = .window(window)
    }

    /// Changes a track, and publishes its state where it is another one. A device of a kind that is absent is
    /// forgotten.
    private mutating func update(_ subject: Subject, _ effects: inout [Effect], _ body: (inout Track) -> Void) {
        guard var track = tracks[subject] else { return }
        let wasPresent = track.state.isPresent
        body(&track)
        if track.holders.contains(.link) {
            track.last = .link
        } else if track.holders.contains(.network) {
            track.last = .network
        } else if case .heard = track.signal {
            track.last = .advert
        }
        let state = track.state
        tracks[subject] = subject.device != nil && !state.isPresent ? nil : track
        if state.isPresent != wasPresent { effects.append(.publish(subject, state)) }
    }

    /// A monitor's reports do not count any more, and the accessory is present only for a time unless it is heard.
    private mutating func unmonitor(_ subject: Subject, until end: Double) {
        tracks[subject]?.monitor = .unknown
        if case .heard = tracks[subject]?.signal { tracks[subject]?.signal = .fading(until: end, deafUntil: 0) }
    }

    private mutating func expire(_ now: Double, _ effects: inout [Effect]) {
        let isReady = isReady
        for (subject, track) in tracks {
            guard let end = expiry(of: subject, track), end <= now else { continue }
            let hasBluetooth = targets[subject.grant] != .accessory(hasBluetooth: false)
            update(subject, &effects) { track in
                track.signal = .silent
                if !isReady, hasBluetooth { track.last = .lost }
            }
        }
    }

    /// When a signal ends by time alone: that of an accessory which neither a monitor nor windows would miss.
    private func expiry(of subject: Subject, _ track: Track) -> Double? {
        switch track.signal {
        case .fading(let end, _): return end
        case .heard(let time, _):
            let isMissed = duty > 0 && needsWindows(subject, track)
            return track.monitor == .found || isMissed ? nil : time + Self.silence
        case .silent: return nil
        }
    }

    // MARK: Windows

    /// Accessories that only windows can show.
    private var sought: [Subject] {
        tracks.filter { $0.value.holders.isEmpty && needsWindows($0.key, $0.value) }.map(\.key)
    }

    private func needsWindows(_ subject: Subject, _ track: Track) -> Bool {
        switch targets[subject.grant] {
        case .accessory(true)?: track.monitor == .unknown
        case .kind?: track.monitor == .unknown && monitoredKinds?.contains(subject.grant) != true
        case .accessory(false)?, nil: false
        }
    }

    private var seeksKind: Bool {
        targets.contains { grant, target in
            if case .kind = target { monitoredKinds?.contains(grant) != true } else { false }
        }
    }
    private var isSearching: Bool { if case .window = search { true } else { false } }
    private var needsWindows: Bool { duty > 0 && isReady && (seeksKind || !sought.isEmpty) }

    /// Long enough for the slowest accessory.
    private var windowLength: Double {
        let slowest = sought.compactMap { tracks[$0]?.interval.seconds }.max() ?? 0
        return min(max(slowest, Limits.presenceWindow.lowerBound), Limits.presenceWindow.upperBound)
    }

    private mutating func advance(_ now: Double, _ effects: inout [Effect]) {
        guard needsWindows else {
            if case .window = search { effects.append(.endSearch) }
            return search = .unneeded
        }
        if isUrgent, now - budget.early >= Limits.presenceEarlyWindow {
            if case .window = search {
            } else {
                budget = (0, now)
                search = .pause(until: now)
            }
        }
        if case .unneeded = search { search = .pause(until: max(now, budget.paid)) }
        if case .window(let window) = search {
            guard window.end <= now || hasHeardAll(in: window) else { return }
            if window.end <= now { finish(window, &effects) }
            search = .pause(until: max(now, budget.paid))
            // Windows without a pause between them are one search.
            if duty == 1, needsWindows { return begin(now) }
            effects.append(.endSearch)
            if !needsWindows { return search = .unneeded }
        }
        guard case .pause(let end) = search, end <= now else { return }
        begin(now)
        effects.append(.beginSearch)
    }

    private mutating func begin(_ now: Double) {
        let length = windowLength
        budget.paid = now + length / duty
        search = .window(Window(begin: now, end: now + length))
    }

    /// Whether a window can bring nothing more: each accessory was heard, and its interval is known to be short.
    private func hasHeardAll(in window: Window) -> Bool {
        guard !seeksKind, duty < 1, windowLength == Limits.presenceWindow.lowerBound else { return false }
        return sought.allSatisfy { subject in
            if case .measured = tracks[subject]?.interval { window.heard[subject] != nil } else { false }
        }
    }

    /// A whole window is over: counts the accessories that it has missed, and learns intervals.
    private mutating func finish(_ window: Window, _ effects: inout [Effect]) {
        for subject in sought {
            guard let track = tracks[subject] else { continue }
            let heard = window.heard[subject]
            update(subject, &effects) { track in
                if let heard { track.interval = Self.interval(track.interval, gap: heard.gap) }
                guard heard == nil, case .heard(let time, let misses) = track.signal else { return }
                track.signal = misses + 1 < Self.mostMisses ? .heard(at: time, misses: misses + 1) : .silent
            }
            // An accessory that is absent is sought by its interval too.
            if heard == nil, case .guessed(let seconds) = track.interval, tracks[subject] != nil {
                tracks[subject]?.interval = .guessed(min(2 * seconds, Limits.presenceWindow.upperBound))
            }
        }
    }

    /// An interval after a window with an advert: a shorter one is believed by halves.
    private static func interval(_ old: Interval, gap: Double?) -> Interval {
        guard let gap else { return .measured(old.seconds) }
        let kept = if case .measured(let old) = old { old / 2 } else { 0.0 }
        let limits = Limits.presenceWindow
        return .measured(min(max(1.25 * gap, kept, limits.lowerBound), limits.upperBound))
    }

    // MARK: The timer

    /// Sets the timer anew where it would come too late, and cancels one that is not needed.
    private mutating func schedule(_ now: Double, _ effects: inout [Effect]) {
        var due = tracks.compactMap(expiry).min()
        switch search {
        case .unneeded: break
        case .pause(let end): due = min(due ?? end, end)
        case .window(let window): due = min(due ?? window.end, window.end)
        }
        guard let due else {
            if timer != nil { effects.append(.cancelTimer) }
            return timer = nil
        }
        if let timer, timer <= due { return }
        timer = due
        effects.append(.setTimer(due))
    }
}

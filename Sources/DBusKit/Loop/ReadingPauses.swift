// SPDX-License-Identifier: Apache-2.0
// The pauses of a descriptor's reader: while much arrives the descriptor is not waited for, but read by a timer. A
// `ReadingPace` decides how long; the timer exists in a pause only.

/// Has a descriptor read after pauses, until little arrives. On the thread of its `MainLoop`.
public final class ReadingPauses {
    private let loop: MainLoop
    private var pace: any ReadingPace
    private let read: () -> Int
    private let listen: () -> Void
    private var timer: LoopSource?

    /// - Parameters:
    ///   - read: called after a pause; how many messages it took. It may end the pauses.
    ///   - listen: called when pauses are over, to wait for the descriptor again.
    public init(on loop: MainLoop, _ pace: any ReadingPace, read: @escaping () -> Int, listen: @escaping () -> Void) {
        self.loop = loop
        self.pace = pace
        self.read = read
        self.listen = listen
    }

    deinit {
        end()
    }

    /// Whether the descriptor is not to be waited for.
    public var isPausing: Bool { timer != nil }

    /// Called after a reading without a pause before it.
    ///
    /// - Returns: whether pauses have begun, and the descriptor is not to be waited for until `listen` is called.
    public func begin(after taken: Int) -> Bool {
        guard timer == nil, let pause = pace.pause(after: taken, at: loop.now) else { return false }
        wait(pause)
        return true
    }

    /// Ends the pauses; `listen` is not called.
    public func end() {
        timer?.cancel()
        timer = nil
    }

    private func wait(_ pause: Duration) {
        timer = loop.after(pause) { [weak self] in self?.pauseIsOver() }
    }

    private func pauseIsOver() {
        let ended = timer
        let taken = read()
        // The reading may have ended the pauses, or begun new ones.
        guard let ended, timer === ended else { return }
        timer = nil
        if let next = pace.pause(after: taken, at: loop.now) { wait(next) } else { listen() }
    }
}

// MARK: - Paces

/// Decides after each reading whether the next one waits.
public protocol ReadingPace {
    /// - Parameters:
    ///   - taken: messages that were read.
    ///   - now: when, in microseconds.
    /// - Returns: how long to wait before the next reading; nil when the descriptor is to be waited for.
    mutating func pause(after taken: Int, at now: Int64) -> Duration?
}

/// For messages that no program waits for: the same pause after each reading of several messages, half as long after
/// one that found the socket full, whose sender may have kept others, and hardly any after the second such one in a
/// row.
struct BatchPace: ReadingPace {
    private let pause: Duration
    private var last = Last.partial

    private enum Last {
        case partial, full, followedByShortPause
    }

    private static let shortest = Duration.milliseconds(1)
    /// As many messages as a full socket has at least.
    static let full = 140
    /// Bytes of a message, of which so many fit.
    private static let messageBytes = 450

    init(pause: Duration) {
        self.pause = pause
    }

    mutating func pause(after taken: Int, at _: Int64) -> Duration? {
        // Little after a short pause may still be much after a long one.
        let isBusy = last == .followedByShortPause || Self.isBusy(taken)
        // One burst of a hundred devices fills the socket, too; its rest can wait.
        last = taken < Self.full ? .partial : last == .partial ? .full : .followedByShortPause
        return switch last {
        case .followedByShortPause: Self.shortest
        case .full: pause / 2
        case .partial: isBusy ? pause : nil
        }
    }

    /// Messages as the socket counts them: fewer long ones fill it.
    ///
    /// - Parameter bytes: that were there to be read.
    static func load(messages: Int, bytes: Int) -> Int { isBusy(messages) ? max(messages, bytes / messageBytes) : messages }

    /// Whether so many messages in one reading are worth a pause.
    private static func isBusy(_ taken: Int) -> Bool { taken > 2 }
}

/// For streams that an app follows: the same pause while more than one message in an interval arrives. A slower stream
/// is never delayed, and neither are the first messages of a burst.
public struct StreamPace: ReadingPace, Sendable {
    private let pause: Int64
    private let interval: Int64
    /// The time that the last messages may take at the slowest pace with pauses, less the time that has passed. It
    /// spans two pauses at most, so that one in which few messages arrive by chance is not the last.
    private var ahead: Int64 = 0
    /// The time of the last reading.
    private var last: Int64 = 0

    /// A Bluetooth link is served every 7.5 ms or more, and bluetoothd passes on the messages of one such event within
    /// a fraction of a millisecond: this much later loses nothing, and gathers them.
    public static let betweenLinkEvents = Duration.milliseconds(2)

    /// - Parameters:
    ///   - pause: in whole milliseconds.
    ///   - interval: between two messages of a stream that is slow; at most the pause. Nil for the pause.
    public init(pause: Duration = betweenLinkEvents, interval: Duration? = nil) {
        self.pause = Int64(pause / .microseconds(1))
        self.interval = Int64((interval ?? pause) / .microseconds(1))
    }

    /// As the protocol has it.
    public mutating func pause(after taken: Int, at now: Int64) -> Duration? {
        guard taken > 0 else { return nil }
        ahead = max(0, ahead - (now - last)) + Int64(taken) * interval
        let isFast = ahead > pause
        ahead = min(ahead, 2 * pause)
        last = now
        return isFast ? .microseconds(pause) : nil
    }
}

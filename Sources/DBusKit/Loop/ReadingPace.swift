// SPDX-License-Identifier: Apache-2.0
// How long a socket may wait to be read while much comes over it, so that one wakeup serves many messages: decided by
// how much one reading takes, or by how fast it comes. Values that are given the time and decide; `ReadingPauses`
// waits.

/// Says after each reading whether the next one waits.
public protocol ReadingPace {
    /// - Parameters:
    ///   - taken: messages that were read.
    ///   - now: when, in microseconds.
    /// - Returns: how long to wait before the next reading; nil when the descriptor is to be waited for.
    mutating func pause(after taken: Int, at now: Int64) -> Duration?
}

/// For news that nobody waits for: pauses when a reading takes several messages, longer the less comes, and so that
/// what arrives meanwhile fits into the socket's buffer, else its sender would have to keep it.
struct BatchPace: ReadingPace {
    private let longest: Duration
    /// As many messages as one reading should bring.
    private let most: Int
    /// As many as the last readings brought, the latest counting most. Messages may come in waves, and one full reading
    /// is no flood.
    private var mean = 0
    /// Messages in the reading before.
    private var former = 0
    /// The pause before this reading; nil when there was none.
    private var pause: Duration?

    init(longest: Duration, most: Int) {
        self.longest = longest
        self.most = most
    }

    mutating func pause(after taken: Int, at _: Int64) -> Duration? {
        guard let last = pause else {
            guard Self.isBusy(taken) else { return nil }
            mean = most
            former = 0
            pause = longest
            return longest
        }
        defer { former = taken }
        guard Self.isBusy(max(taken, former)) else {
            pause = nil
            return nil
        }
        mean = (mean * 3 + taken) / 4
        // The time in which so many come, approached in steps.
        let wanted = min(max(last * most / max(mean, 1), last / 2, .milliseconds(1)), last * 2, longest)
        // Timers go by whole ones, and one serves pauses that are alike.
        let next = Duration.milliseconds(Int64(wanted / .milliseconds(1)))
        pause = next
        return next
    }

    /// Messages as the socket counts them: long ones fill it sooner, and a reading that brought few of those is full,
    /// too.
    ///
    /// - Parameter bytes: that were there to be read.
    static func load(messages: Int, bytes: Int) -> Int { isBusy(messages) ? max(messages, bytes / usualMessage) : messages }

    /// Bytes of a message of which `most` fit.
    private static let usualMessage = 400

    /// Whether so many messages in one reading are worth a pause.
    private static func isBusy(_ taken: Int) -> Bool { taken > 2 }
}

/// For streams that somebody follows: pauses while more comes than one message in an interval, and always as long. What
/// is slower is never delayed, and neither are the first messages of what comes at once.
public struct StreamPace: ReadingPace, Sendable {
    private let pause: Int64
    private let interval: Int64
    /// The time that the last messages may take at the slowest pace with pauses, less the time that has gone. Two
    /// pauses are remembered, so that one in which little comes by chance is not the last.
    private var ahead: Int64 = 0
    /// When something was read last.
    private var last: Int64 = 0

    /// A Bluetooth link is served every 7.5 ms or more, and bluetoothd hands on what one such event brought within a
    /// fraction of a millisecond: this much later loses nothing, and gathers it.
    public static let usual = Duration.milliseconds(2)

    /// - Parameters:
    ///   - pause: in whole milliseconds.
    ///   - interval: between two messages of a stream that is slow; at most the pause. Nil for the pause.
    public init(pause: Duration = usual, interval: Duration? = nil) {
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

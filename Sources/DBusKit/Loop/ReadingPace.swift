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
/// what arrives meanwhile fits into the socket's buffer, else its sender would have to keep it. How many fit depends on
/// how long they are, and a sender that has to keep some fills the buffer again at once: each reading brings as much
/// then, however long the pause. So now and then a shorter one is tried, and if that brings nearly as much, shorter
/// ones, until nothing is kept any more.
struct BatchPace: ReadingPace {
    private let longest: Duration
    /// As many messages as one reading should bring at most.
    private let most: Int
    /// As many as one should bring now: fewer after a time in which the sender kept some.
    private var wanted: Int
    /// As many as the last readings brought, the latest counting most. Messages may come in waves, and one full reading
    /// is no flood.
    private var mean = 0
    /// Messages in the reading before.
    private var former = 0
    /// The pause before this reading; nil when there was none.
    private var pause: Duration?
    /// The shorter pause before this reading was tried.
    private var trial: Trial?
    /// Readings that might be full, until one is tried.
    private var untilTrial = Self.betweenTrials

    private struct Trial {
        /// The pause to go back to.
        let usual: Duration
        /// A reading that brings so much was not of what came in the pause.
        let kept: Int
    }

    private static let shortest = Duration.milliseconds(1)
    private static let betweenTrials = 8

    init(longest: Duration, most: Int) {
        self.longest = longest
        self.most = most
        wanted = most
    }

    mutating func pause(after taken: Int, at _: Int64) -> Duration? {
        guard let last = pause else {
            guard Self.isBusy(taken) else { return nil }
            mean = wanted
            former = 0
            pause = longest
            return longest
        }
        defer { former = taken }
        // Little in a short pause may still be much in a long one.
        guard trial != nil || last * 2 <= longest || Self.isBusy(max(taken, former)) else {
            pause = nil
            return nil
        }
        let next = afterTrial(taken, last) ?? usual(taken, last)
        pause = next
        return next
    }

    /// The pause after one that was tried; nil where none was.
    private mutating func afterTrial(_ taken: Int, _ last: Duration) -> Duration? {
        guard let trial else { return nil }
        self.trial = nil
        untilTrial = Self.betweenTrials
        // Silence is never much, whatever it is compared with.
        if Self.isBusy(taken), taken >= trial.kept {
            // What was usual is what fits. From here on half of that is much more than can have come.
            wanted = max(mean * 3 / 4, 1)
            self.trial = Trial(usual: trial.usual, kept: mean / 2)
            return whole(last / 2)
        }
        // Nothing was kept, so that this is how fast it comes.
        wanted = min(wanted + wanted / 16 + 1, most)
        return whole(min(max(last * wanted / max(taken, 1), last), trial.usual))
    }

    private mutating func usual(_ taken: Int, _ last: Duration) -> Duration {
        mean = (mean * 3 + taken) / 4
        // The time in which so many come, approached in steps.
        let next = whole(min(max(last * wanted / max(mean, 1), last / 2), last * 2, longest))
        // A buffer that is as full as its sender keeps it counts for a third of that at least.
        if taken >= most / 4 { untilTrial -= 1 }
        guard untilTrial <= 0, next > Self.shortest else { return next }
        trial = Trial(usual: next, kept: mean * 3 / 4)
        return whole(next / 2)
    }

    /// Timers go by whole milliseconds, and one serves pauses that are alike.
    private func whole(_ pause: Duration) -> Duration { max(.milliseconds(Int64(pause / .milliseconds(1))), Self.shortest) }

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

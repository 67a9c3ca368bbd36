// SPDX-License-Identifier: Apache-2.0
// When a busy socket is read: the paces as values that are given the time, and the pauses that they ask for.

import TestSupport
import Testing

@testable import DBusKit

@Suite struct StreamPaceTests {
    /// Readings of so many messages, each so many microseconds after the one before: which are followed by a pause.
    private func pauses(_ readings: [(after: Int64, taken: Int)]) -> [Bool] {
        var pace = StreamPace(pause: .milliseconds(2))
        var now: Int64 = 1_000_000_000
        return readings.map { reading in
            now += reading.after
            let pause = pace.pause(after: reading.taken, at: now)
            #expect(pause == nil || pause == .milliseconds(2))
            return pause != nil
        }
    }

    @Test(arguments: [2000, 2500, 7500, 1_000_000] as [Int64]) func aSlowStreamIsNotDelayed(interval: Int64) {
        #expect(!pauses(Array(repeating: (interval, 1), count: 100)).contains(true))
    }

    @Test(arguments: [1, 100, 1000, 1900] as [Int64]) func aFastOneIsReadAfterPauses(interval: Int64) {
        #expect(pauses([(0, 1), (interval, 1), (2000, 2), (2060, 2)]) == [false, true, true, true])
    }

    @Test func oneMessageInAPauseMayBeChance() {
        #expect(pauses([(0, 1), (1080, 1), (2060, 1), (2060, 2), (2060, 1), (2060, 2)]) == [false, true, true, true, true, true])
    }

    @Test func thePauseAfterTheLastMessageIsTheLast() {
        #expect(pauses([(0, 1), (100, 1), (2060, 4), (2060, 0)]) == [false, true, true, false])
    }

    /// The messages of one connection event of the radio, again and again: the first one is never delayed.
    @Test func burstsBeginAtOnce() {
        let burst: [(after: Int64, taken: Int)] = [(7500, 1), (100, 1), (2060, 4), (2060, 0)]
        #expect(pauses(burst + burst) == [false, true, true, false, false, true, true, false])
    }

    /// With an interval of its own: five values at once, or two each 15 ms, are no stream; more than that is, until no
    /// more comes than one in an interval.
    @Test func aStreamMayBeFasterThanItsPauses() {
        func pauses(_ readings: [(after: Int64, taken: Int)]) -> [Bool] {
            var pace = StreamPace(pause: .milliseconds(10), interval: .milliseconds(2))
            var now: Int64 = 1_000_000_000
            return readings.map { reading in
                now += reading.after
                return pace.pause(after: reading.taken, at: now) != nil
            }
        }
        #expect(!pauses(Array(repeating: (2000, 1), count: 100)).contains(true))
        #expect(!pauses((0..<50).flatMap { _ in [(15_000, 1), (100, 1)] }).contains(true))
        #expect(!pauses((0..<20).flatMap { _ in [(10_000, 1)] + Array(repeating: (50, 1), count: 4) }).contains(true))
        let stream = pauses((0..<20).map { _ in (1000, 1) } + Array(repeating: (10_000, 10), count: 20))
        #expect(stream.suffix(20) == Array(repeating: true, count: 20)[...])
        let slower = pauses([(0, 20)] + Array(repeating: (10_000, 3), count: 10))
        #expect(slower.first == true && slower.last == false)
    }

    @Test func aStreamThatBecomesSlowIsForgotten() {
        let slow = pauses([(0, 10)] + Array(repeating: (2500, 1), count: 20))
        #expect(slow.first == true && !slow.suffix(15).contains(true))
    }
}

@Suite struct BatchPaceTests {
    private static let usual = Duration.milliseconds(60)
    private static let half = Duration.milliseconds(30)
    private static let short = Duration.milliseconds(1)

    /// The pauses after these readings.
    private func pauses(_ readings: [Int]) -> [Duration?] {
        var pace = BatchPace(pause: Self.usual)
        return readings.map { pace.pause(after: $0, at: 0) }
    }

    @Test func littleBeginsNone() {
        #expect(pauses([0, 1, 2, 3, 2, 2]) == [nil, nil, nil, Self.usual, nil, nil])
    }

    @Test func pausesAreAlike() {
        #expect(pauses([3, 100, 30, 3, 139, 2]) == [Self.usual, Self.usual, Self.usual, Self.usual, Self.usual, nil])
    }

    /// After a short pause little may still be much.
    @Test func aSocketThatStaysFullIsReadAgainAtOnce() {
        #expect(pauses([140, 1024, 140, 0, 0]) == [Self.half, Self.short, Self.short, Self.usual, nil])
    }

    @Test func theRestOfOneBurstWaits() {
        #expect(pauses([167, 33, 167, 33]) == [Self.half, Self.usual, Self.half, Self.usual])
    }

    /// A socket's buffer holds 40 messages of 3 KB. Were that taken for little, the bus would keep the others.
    @Test func longMessagesFillASocketToo() {
        #expect(pauses(Array(repeating: BatchPace.load(messages: 40, bytes: 40 * 3_000), count: 2)) == [Self.half, Self.short])
        #expect(BatchPace.load(messages: 120, bytes: 120 * 300) == 120)
        #expect(BatchPace.load(messages: 1, bytes: 1 << 20) == 1)
    }

    /// Something stood still for a minute: the sender's queue is read, however little fits into the socket.
    @Test(arguments: [140, 160, 280], [0.5, 2, 5, 50]) func theQueueOfTheSenderIsRead(room: Int, rate: Double) {
        var pace = BatchPace(pause: Self.usual)
        var waiting = 60_000 * rate
        var time = 0.0
        var readings = 0
        while time < 60_000 {
            let taken = min(Double(room), waiting.rounded(.down))
            waiting -= taken
            readings += 1
            let pause = max((pace.pause(after: Int(taken), at: 0) ?? .zero) / .milliseconds(1), 1)
            time += pause
            waiting += rate * pause
        }
        #expect(waiting <= 100 * rate, "\(waiting)")
        // No more often than it takes, and each pause.
        #expect(Double(readings) < 120_000 * rate / Double(room) + 3_000, "\(readings)")
    }
}

@Suite struct ReadingPausesTests {
    /// Returns the answers of a script.
    private struct Script: ReadingPace {
        var lines: [Duration?]

        mutating func pause(after _: Int, at _: Int64) -> Duration? { lines.removeFirst() }
    }

    private final class Reader {
        var pauses: ReadingPauses?
        var readings = 0
        var listenings = 0
        var onRead: () -> Void = {}

        init(_ loop: MainLoop, _ lines: [Duration?]) {
            pauses = ReadingPauses(
                on: loop, Script(lines: lines),
                read: { [unowned self] in
                    readings += 1
                    onRead()
                    return 1
                }, listen: { [unowned self] in listenings += 1 })
        }

        var isPausing: Bool { pauses?.isPausing == true }
    }

    private let loop = MainLoop()

    @Test func pausesEndWithTheStream() {
        let reader = Reader(loop, [nil, .milliseconds(1), .milliseconds(1), .milliseconds(2), nil])
        #expect(reader.pauses?.begin(after: 1) == false && !reader.isPausing)
        #expect(reader.pauses?.begin(after: 1) == true && reader.isPausing)
        #expect(loop.run(until: { reader.listenings > 0 }, timeout: .hang))
        #expect(reader.readings == 3 && reader.listenings == 1 && !reader.isPausing)
    }

    @Test func aReadingMayEndThem() {
        let reader = Reader(loop, [.milliseconds(1)])
        reader.onRead = { reader.pauses?.end() }
        #expect(reader.pauses?.begin(after: 1) == true)
        #expect(loop.run(until: { reader.readings == 1 }, timeout: .hang))
        #expect(reader.listenings == 0 && !reader.isPausing)
    }

    /// And begin new ones, which go on.
    @Test func aReadingMayBeginThemAnew() {
        let reader = Reader(loop, [.milliseconds(1), .milliseconds(1), nil])
        reader.onRead = {
            guard reader.readings == 1 else { return }
            reader.pauses?.end()
            #expect(reader.pauses?.begin(after: 1) == true)
        }
        #expect(reader.pauses?.begin(after: 1) == true)
        #expect(loop.run(until: { reader.listenings > 0 }, timeout: .hang))
        #expect(reader.readings == 2 && !reader.isPausing)
    }

    @Test func theyEndWithTheirOwner() {
        let reader = Reader(loop, [.milliseconds(1)])
        #expect(reader.pauses?.begin(after: 1) == true)
        reader.pauses = nil
        var isLater = false
        loop.after(.milliseconds(2)) { isLater = true }
        #expect(loop.run(until: { isLater }, timeout: .hang))
        #expect(reader.readings == 0)
    }
}

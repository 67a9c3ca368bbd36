// SPDX-License-Identifier: Apache-2.0
// When a busy socket is read: the paces as values that are given the time, and the pauses that they ask for.

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

    /// What one connection event of the radio brings, again and again: its first message is never delayed.
    @Test func burstsBeginAtOnce() {
        let burst: [(after: Int64, taken: Int)] = [(7500, 1), (100, 1), (2060, 4), (2060, 0)]
        #expect(pauses(burst + burst) == [false, true, true, false, false, true, true, false])
    }

    @Test func aStreamThatBecomesSlowIsForgotten() {
        let slow = pauses([(0, 10)] + Array(repeating: (2500, 1), count: 20))
        #expect(slow.first == true && !slow.suffix(15).contains(true))
    }
}

@Suite struct BatchPaceTests {
    private var pace = BatchPace(longest: .milliseconds(20), most: 64)

    private mutating func pause(after taken: Int) -> Duration? { pace.pause(after: taken, at: 0) }

    @Test mutating func itIsLongerTheLessComes() {
        #expect(pause(after: 2) == nil)
        #expect(pause(after: 3) == .milliseconds(20))
        #expect(pause(after: 64) == .milliseconds(20))
        for _ in 0..<10 { _ = pause(after: 1000) }
        #expect(pause(after: 1000) == .milliseconds(1))
        for _ in 0..<30 { _ = pause(after: 64) }
        #expect(pause(after: 64) == .milliseconds(1))
        for _ in 0..<30 { _ = pause(after: 3) }
        #expect(pause(after: 3) == .milliseconds(20))
    }

    @Test mutating func aWaveIsNoFlood() {
        _ = pause(after: 64)
        for _ in 0..<20 {
            #expect(pause(after: 100)! >= .milliseconds(15))
            #expect(pause(after: 0)! >= .milliseconds(15))
        }
    }

    @Test mutating func twoReadingsOfLittleEndIt() {
        _ = pause(after: 64)
        #expect(pause(after: 2) == nil)
        _ = pause(after: 64)
        _ = pause(after: 64)
        #expect(pause(after: 2) != nil)
        #expect(pause(after: 2) == nil)
        #expect(pause(after: 64) == .milliseconds(20))
    }
}

@Suite struct ReadingPausesTests {
    /// Says what it was told to say.
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
        #expect(loop.run(until: { reader.listenings > 0 }, timeout: .seconds(10)))
        #expect(reader.readings == 3 && reader.listenings == 1 && !reader.isPausing)
    }

    @Test func aReadingMayEndThem() {
        let reader = Reader(loop, [.milliseconds(1)])
        reader.onRead = { reader.pauses?.end() }
        #expect(reader.pauses?.begin(after: 1) == true)
        #expect(loop.run(until: { reader.readings == 1 }, timeout: .seconds(10)))
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
        #expect(loop.run(until: { reader.listenings > 0 }, timeout: .seconds(10)))
        #expect(reader.readings == 2 && !reader.isPausing)
    }

    @Test func theyEndWithTheirOwner() {
        let reader = Reader(loop, [.milliseconds(1)])
        #expect(reader.pauses?.begin(after: 1) == true)
        reader.pauses = nil
        var isLater = false
        loop.after(.milliseconds(2)) { isLater = true }
        #expect(loop.run(until: { isLater }, timeout: .seconds(10)))
        #expect(reader.readings == 0)
    }
}

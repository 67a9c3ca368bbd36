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

    /// What one connection event of the radio brings, again and again: its first message is never delayed.
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
    /// The pause after these readings, of which the first is busy and begins the pauses; nil when one of them ended
    /// them.
    private func pause(after readings: [Int]) -> Duration? {
        var pace = BatchPace(longest: .milliseconds(60), most: 120)
        var pause = pace.pause(after: 3, at: 0)
        #expect(pause == .milliseconds(60))
        for taken in readings where pause != nil { pause = pace.pause(after: taken, at: 0) }
        return pause
    }

    /// A socket, and a sender that keeps what does not fit into it.
    private struct Bus {
        var pace = BatchPace(longest: .milliseconds(60), most: 120)
        /// As many as fit.
        let room: Int
        /// What there is to be read, in the socket and at the sender.
        var waiting = 0
        var readings = 0

        /// For so many seconds so much comes on average in each millisecond, all of a wave at its end.
        mutating func pass(_ seconds: Int, rate: Double, wave: Double = 1) {
            var pause = pace.pause(after: 3, at: 0) ?? .zero
            var time = 0.0
            var waves = 0
            while time < Double(seconds) * 1000 {
                time += max(pause / .milliseconds(1), 1)
                let ended = Int(time / wave)
                waiting += Int(rate * wave * Double(ended)) - Int(rate * wave * Double(waves))
                waves = ended
                let taken = min(room, waiting)
                waiting -= taken
                readings += 1
                pause = pace.pause(after: taken, at: 0) ?? .zero
            }
        }
    }

    /// What comes steadily or in waves is read in portions, and a shorter pause is tried seldom.
    @Test(arguments: [(5, 1, 45), (1, 1, 18), (2, 50, 40)])
    func aSteadyStreamIsReadInPortions(rate: Double, wave: Double, readings: Int) {
        var bus = Bus(room: 160)
        bus.pass(10, rate: rate, wave: wave)
        #expect(bus.waiting == 0 && bus.readings <= 10 * readings, "\(bus)")
    }

    /// Something stood still for a minute: what the sender keeps is read, however little fits into the socket.
    @Test(arguments: [30, 40, 60, 100, 119, 120, 160], [0.5, 2, 5])
    func whatTheSenderKeepsIsRead(room: Int, rate: Double) {
        var bus = Bus(room: room, waiting: Int(60_000 * rate))
        bus.pass(30, rate: rate)
        // What comes in a tenth of a second.
        #expect(bus.waiting <= Int(100 * rate), "\(bus)")
        bus.readings = 0
        bus.pass(10, rate: rate)
        // Not with many more readings than it takes, and a trial now and then.
        #expect(bus.waiting <= Int(100 * rate) && Double(bus.readings) <= 10_000 * rate / Double(room) * 2.5 + 250, "\(bus)")
    }

    @Test func aFloodIsReadAtOnce() throws {
        #expect(pause(after: .init(repeating: 1024, count: 10)) == .milliseconds(1))
        #expect(pause(after: .init(repeating: 1024, count: 10) + .init(repeating: 20, count: 30)) == .milliseconds(60))
    }

    /// A socket's buffer holds 40 messages of 3 KB. Were that taken for little, pauses would become longer, and what
    /// comes would wait in the bus.
    @Test func longMessagesAreAFloodToo() throws {
        let full = BatchPace.load(messages: 40, bytes: 40 * 3_000)
        #expect(pause(after: .init(repeating: full, count: 10)) == .milliseconds(1))
        #expect(BatchPace.load(messages: 120, bytes: 120 * 300) == 120)
        #expect(BatchPace.load(messages: 1, bytes: 1 << 20) == 1)
    }

    @Test func quietEndsThePauses() {
        #expect(pause(after: [0]) == nil && pause(after: [2]) == nil)
        #expect(pause(after: [100, 0]) != nil && pause(after: [100, 0, 2]) == nil)
    }

    /// An idle daemon does not wake up: whatever came before, nothing for a while is the end of the pauses.
    @Test(arguments: 1...200)
    func silenceEndsThePausesWhateverCameBefore(seed: Int) {
        var pace = BatchPace(longest: .milliseconds(60), most: 120)
        var number = UInt64(seed)
        var highest = 1
        for step in 0..<400 {
            number = number &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            if step % 40 == 0 { highest = [1, 4, 12, 40, 160, 1024][Int(number >> 33) % 6] }
            _ = pace.pause(after: Int(number >> 33) % (highest + 1), at: 0)
        }
        let pauses = (0..<60).map { _ in pace.pause(after: 0, at: 0) }
        #expect(pauses.last == .some(nil))
    }

    @Test func littleBeginsNone() {
        var pace = BatchPace(longest: .milliseconds(60), most: 120)
        #expect(pace.pause(after: 2, at: 0) == nil)
        #expect(pace.pause(after: 3, at: 0) == .milliseconds(60))
        #expect(pace.pause(after: 2, at: 0) == nil)
        #expect(pace.pause(after: 2, at: 0) == nil)
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

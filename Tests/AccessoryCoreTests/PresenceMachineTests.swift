// SPDX-License-Identifier: Apache-2.0
// Presence as a value: when an accessory is present and absent, how long and how often windows are, and when nothing at
// all is to happen.

import AccessoryCore
import AccessoryModel
import TestSupport
import Testing

/// A machine with a clock that the test moves.
private struct Played {
    private(set) var machine: PresenceMachine
    private(set) var now = 1000.0
    private(set) var timer: Double?
    private(set) var isSearching = false
    /// Seconds of all windows so far.
    private(set) var searched = 0.0
    private(set) var published: [(PresenceMachine.Subject, PresenceState)] = []

    init(duty: Int = 2, _ targets: [Int64: PresenceMachine.Target] = [1: .accessory(hasBluetooth: true)]) {
        machine = PresenceMachine(duty: duty)
        handle(.radio(isReady: true))
        handle(.observing(targets, linked: []))
    }

    mutating func handle(_ event: PresenceMachine.Event) {
        for effect in machine.handle(event, now: now) {
            switch effect {
            case .publish(let subject, let state): published.append((subject, state))
            case .beginSearch:
                #expect(!isSearching)
                isSearching = true
            case .endSearch:
                #expect(isSearching)
                isSearching = false
            case .setTimer(let time): timer = time
            case .cancelTimer: timer = nil
            }
        }
    }

    /// Lets time pass; meanwhile an accessory is heard at each multiple of its interval.
    mutating func pass(_ seconds: Double, hearing subject: PresenceMachine.Subject? = nil, every interval: Double = 0.1) {
        let end = now + seconds
        while now < end {
            let advert = subject == nil ? end : Double(Int(now / interval + 1e-6) + 1) * interval
            let next = min(end, advert, timer ?? end)
            if isSearching { searched += next - now }
            now = next
            if let due = timer, due <= now {
                timer = nil
                handle(.due)
            }
            if let subject, now == advert, isSearching { handle(.heard(subject, rssi: -50)) }
        }
    }

    var states: [Bool] { published.map(\.1.isPresent) }
}

private let one = PresenceMachine.Subject(1)
private let device = BluetoothAddress(value: 7, kind: .random)

@Suite struct PresenceMachineTests {
    @Test func nothingIsDoneForNothing() {
        var played = Played([:])
        #expect(played.timer == nil && !played.isSearching)
        played.handle(.observing([1: .accessory(hasBluetooth: false)], linked: []))
        #expect(played.timer == nil && !played.isSearching)
        played.handle(.observing([1: .accessory(hasBluetooth: true)], linked: [1]))
        #expect(played.timer == nil && !played.isSearching && played.states == [true])
        played.handle(.observing([:], linked: []))
        #expect(played.timer == nil)
    }

    @Test func twoWindowsInARowDecide() {
        var played = Played()
        #expect(played.isSearching)
        played.pass(1, hearing: one)
        #expect(played.states == [true])
        #expect(played.machine.states(of: 1).first?.1 == PresenceState(isPresent: true, reason: .advert, rssi: -50))
        played.pass(100)
        #expect(played.states == [true])
        played.pass(100)
        #expect(played.states == [true, false])
        #expect(played.machine.states(of: 1).first?.1 == PresenceState(isPresent: false, reason: .advert, rssi: nil))
    }

    @Test func oneMissedWindowIsForgotten() {
        var played = Played()
        for _ in 0..<10 {
            played.pass(70)
            played.pass(70, hearing: one)
        }
        #expect(played.states == [true])
    }

    @Test(arguments: [1, 2, 5, 10, 50]) func windowsStayWithinTheDuty(_ duty: Int) {
        var played = Played(duty: duty)
        played.pass(20_000)
        #expect(played.searched <= 20_000 * Double(duty) / 100 + Limits.presenceWindow.upperBound)
        #expect(played.searched >= 20_000 * Double(duty) / 100 * 0.9)
        // An accessory that is heard at once needs less.
        var near = Played(duty: duty)
        near.pass(20_000, hearing: one)
        #expect(near.searched < played.searched / 2)
    }

    @Test func aDutyOfAllIsOneSearch() {
        var played = Played(duty: 100)
        played.pass(1000, hearing: one, every: 5)
        #expect(played.isSearching && played.searched == 1000 && played.states == [true])
    }

    @Test func withoutADutyOnlySilenceDecides() {
        var played = Played(duty: 0)
        #expect(!played.isSearching && played.timer == nil)
        played.handle(.heard(one, rssi: nil))
        played.pass(59)
        #expect(played.states == [true])
        played.pass(2)
        #expect(played.states == [true, false] && played.timer == nil && played.searched == 0)
    }

    @Test(arguments: [0.1, 1.0, 2.5, 5.0, 10.0]) func slowAdvertisersStayPresent(_ interval: Double) {
        var played = Played(duty: 10)
        played.pass(2000, hearing: one, every: interval)
        // It is found, and windows become long enough to hear it each time.
        let before = played.states.count
        #expect(played.states.last == true)
        played.pass(5000, hearing: one, every: interval)
        #expect(played.states.count == before)
    }

    @Test func aLinkNeedsNoWindowAndEndsWithAGrace() {
        var played = Played()
        played.pass(0.5)
        played.handle(.held(one, by: .link))
        #expect(!played.isSearching && played.timer == nil && played.states == [true])
        played.pass(100)
        played.handle(.released(one, by: .link))
        // A window at once.
        #expect(played.isSearching)
        played.pass(9.9)
        #expect(played.states == [true])
        played.pass(0.2)
        #expect(played.states == [true, false])
        #expect(played.published.last?.1.reason == .link)
    }

    @Test func anAdvertWithinTheGraceIsNoEvent() {
        var played = Played()
        played.handle(.held(one, by: .link))
        played.pass(100)
        played.handle(.released(one, by: .link))
        // The end of the link itself, as the radio reports it.
        played.handle(.heard(one, rssi: nil))
        played.pass(1.3, hearing: one, every: 0.5)
        played.pass(20)
        #expect(played.states == [true])
        #expect(played.machine.states(of: 1).first?.1.reason == .advert)
    }

    @Test func linksThatFlapCostOneWindowAMinute() {
        var played = Played()
        let start = played.searched
        for _ in 0..<100 {
            played.handle(.held(one, by: .link))
            played.pass(1)
            played.handle(.released(one, by: .link))
            played.pass(1)
        }
        #expect(played.searched - start < 10)
    }

    @Test func aNetworkCountsAsWell() {
        var played = Played([1: .accessory(hasBluetooth: false)])
        played.handle(.heard(one, rssi: -50))
        #expect(played.states == [])
        played.handle(.held(one, by: .network))
        #expect(played.published.last?.1.reason == .network)
        played.handle(.released(one, by: .network))
        played.pass(11)
        #expect(played.states == [true, false] && played.searched == 0)
    }

    @Test func withoutARadioAllIsLost() {
        var played = Played()
        played.pass(1, hearing: one)
        played.handle(.radio(isReady: false))
        #expect(!played.isSearching)
        played.pass(11)
        #expect(played.states == [true, false] && played.timer == nil)
        #expect(played.published.last?.1.reason == .lost)
        played.handle(.radio(isReady: true))
        played.pass(70, hearing: one)
        #expect(played.states == [true, false, true])
    }

    @Test func monitorsReplaceWindows() {
        var played = Played()
        played.pass(1, hearing: one)
        played.handle(.monitoring(kinds: []))
        // Not found by the monitor yet: its adverts may match no pattern.
        #expect(played.isSearching)
        played.handle(.monitored(one))
        #expect(!played.isSearching)
        played.pass(1000)
        #expect(played.states == [true] && played.timer == nil)
        played.handle(.gone(one))
        #expect(played.states == [true, false])
        played.pass(1000)
        #expect(!played.isSearching && played.timer == nil)
        played.handle(.monitored(one))
        #expect(played.states == [true, false, true])
        played.handle(.monitoring(kinds: nil))
        #expect(played.isSearching)
        played.pass(300)
        #expect(played.states == [true, false, true, false])
    }

    @Test func anAccessoryThatNoMonitorFindsHasWindows() {
        var played = Played()
        played.handle(.monitoring(kinds: []))
        played.pass(200, hearing: one)
        #expect(played.states == [true])
        #expect(played.searched > 1)
        played.pass(200)
        #expect(played.states == [true, false])
    }

    @Test func aMonitorThatHasLostItIsNotTheOnlyOneThatCounts() {
        var played = Played()
        played.handle(.monitoring(kinds: []))
        played.handle(.monitored(one))
        played.handle(.gone(one))
        // Another program's search.
        played.handle(.heard(one, rssi: -60))
        #expect(played.states == [true, false, true])
        played.pass(61)
        #expect(played.states == [true, false, true, false] && played.timer == nil)
    }

    /// A monitor reports nothing new at the end of a link in which it has not lost the device.
    @Test func aFoundAccessoryIsPresentAfterALink() {
        var played = Played()
        played.handle(.monitoring(kinds: []))
        played.handle(.monitored(one))
        played.handle(.held(one, by: .link))
        played.handle(.released(one, by: .link))
        played.pass(1000)
        #expect(played.states == [true] && !played.isSearching)
        played.handle(.held(one, by: .link))
        played.handle(.gone(one))
        played.handle(.released(one, by: .link))
        played.pass(8)
        #expect(played.states == [true])
        played.pass(3)
        #expect(played.states == [true, false])
    }

    @Test func monitorsOfAKindThatMissNoDevice() {
        var played = Played([1: .kind(atMost: 2), 2: .kind(atMost: 2)])
        let (first, second) = (PresenceMachine.Subject(1, device: device), PresenceMachine.Subject(2, device: device))
        played.handle(.monitoring(kinds: [1]))
        #expect(played.isSearching)
        played.handle(.monitoring(kinds: [1, 2]))
        #expect(!played.isSearching)
        for subject in [first, second] { played.handle(.heard(subject, rssi: -50)) }
        played.handle(.monitored(first))
        // The other one is of another program's search.
        played.pass(61)
        #expect(played.states == [true, true, false])
        played.handle(.gone(first))
        #expect(played.states == [true, true, false, false] && played.timer == nil)
    }

    @Test func aDeviceThatTheRadioDropsIsSoughtAgain() {
        var played = Played()
        played.handle(.monitoring(kinds: []))
        played.handle(.dropped(one))
        played.handle(.monitored(one))
        played.pass(70)
        #expect(!played.isSearching)
        played.handle(.dropped(one))
        #expect(played.isSearching && played.states == [true])
        played.pass(2, hearing: one)
        played.pass(9)
        #expect(played.states == [true])
        played.handle(.monitored(one))
        played.handle(.dropped(one))
        played.pass(11)
        #expect(played.states == [true, false])
    }

    @Test func withoutBluetoothNoMonitorCounts() {
        var played = Played()
        played.handle(.monitoring(kinds: []))
        played.handle(.monitored(one))
        played.handle(.radio(isReady: false))
        played.pass(11)
        #expect(played.states == [true, false])
        played.handle(.radio(isReady: true))
        played.pass(55)
        #expect(played.isSearching)
    }

    @Test func aKindHasAtMostSoManyDevices() {
        var played = Played([1: .kind(atMost: 2)])
        for number in 1...3 as ClosedRange<UInt64> {
            played.handle(.heard(.init(1, device: BluetoothAddress(value: number, kind: .random)), rssi: nil))
        }
        #expect(played.machine.states(of: 1).count == 2 && played.states == [true, true])
        // Kinds are never complete: another device may come.
        #expect(played.isSearching)
        played.pass(300)
        #expect(played.machine.states(of: 1).isEmpty && played.states.count == 4)
    }

    @Test func aSearchThatFailsIsNoMiss() {
        var played = Played()
        played.pass(1, hearing: one)
        for _ in 0..<5 {
            played.pass(66)
            if played.isSearching { played.handle(.searchFailed) }
            #expect(!played.isSearching)
        }
        #expect(played.timer != nil)
    }

    @Test func strangersChangeNothing() {
        var played = Played()
        played.handle(.heard(.init(2), rssi: -40))
        played.handle(.heard(.init(1, device: device), rssi: -40))
        played.handle(.held(.init(2), by: .link))
        played.handle(.gone(.init(3)))
        #expect(played.published.isEmpty)
    }

    /// Whatever comes, in whatever order: a timer is set exactly where something is due, and states alternate.
    @Test func anyOrderOfEvents() {
        var generator = SeededGenerator(state: 39)
        for duty in [0, 2, 100] {
            var played = Played(duty: duty)
            let targets: [[Int64: PresenceMachine.Target]] = [
                [:], [1: .accessory(hasBluetooth: true)], [1: .accessory(hasBluetooth: true), 2: .kind(atMost: 1)],
                [1: .accessory(hasBluetooth: false)],
            ]
            for _ in 0..<3000 {
                let subject = Bool.random(using: &generator) ? one : .init(2, device: device)
                switch Int.random(in: 0..<10, using: &generator) {
                case 0: played.handle(.observing(targets.randomElement(using: &generator)!, linked: []))
                case 1: played.handle(.held(one, by: .link))
                case 2: played.handle(.released(one, by: .link))
                case 3: played.handle(.radio(isReady: Bool.random(using: &generator)))
                case 4: played.handle(.monitoring(kinds: [nil, [], [2]].randomElement(using: &generator)!))
                case 5: played.handle([.gone(subject), .dropped(subject), .monitored(subject)].randomElement(using: &generator)!)
                case 6: played.handle(.searchFailed)
                case 7: played.handle(.heard(subject, rssi: -50))
                default: played.pass(Double.random(in: 0.1...50, using: &generator), hearing: subject)
                }
            }
            played.handle(.observing([:], linked: []))
            #expect(played.timer == nil && !played.isSearching)
        }
    }
}

@Suite struct WakeLimitTests {
    @Test func pausesGrowUntilTheAppComes() {
        var limit = WakeLimit()
        #expect(limit.wake(now: 0) == nil)
        #expect(limit.wake(now: 10) == 60)
        #expect(limit.wake(now: 60) == nil)
        #expect(limit.wake(now: 100) == 180)
        var (now, wakes) = (180.0, 0)
        while now < 180 + 24 * 3600 {
            if let later = limit.wake(now: now) { now = later } else { wakes += 1 }
        }
        #expect((24...30).contains(wakes))
    }

    @Test func aSessionEndsThem() {
        var limit = WakeLimit()
        #expect(limit.wake(now: 0) == nil && limit.wake(now: 60) == nil)
        limit.activated(now: 70)
        #expect(limit.wake(now: 100) == 130)
        #expect(limit.wake(now: 130) == nil)
        #expect(limit.wake(now: 131) == 190)
    }
}

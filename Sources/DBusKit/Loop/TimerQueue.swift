// SPDX-License-Identifier: Apache-2.0
// The timers of a main loop, in the order of their times.

struct TimerQueue {
    /// When a timer is due, in microseconds of the loop's clock. The number orders timers that are due at once.
    struct Key: Comparable {
        let due: Int64
        let number: UInt64

        static func < (a: Key, b: Key) -> Bool { a.due != b.due ? a.due < b.due : a.number < b.number }
    }

    private struct Timer {
        let key: Key
        let interval: Int64
        let source: LoopSource
    }

    /// The next one last, so that it is removed without moving the others.
    private var timers: [Timer] = []
    private var number: UInt64 = 0

    /// When the next one is due; nil without timers.
    var next: Int64? { timers.last?.key.due }

    /// A key for a timer that is about to be added.
    mutating func key(due: Int64) -> Key {
        number += 1
        return Key(due: due, number: number)
    }

    mutating func add(_ source: LoopSource, _ key: Key, interval: Int64) {
        timers.insert(Timer(key: key, interval: interval, source: source), at: place(of: key))
    }

    mutating func remove(_ key: Key) {
        let place = place(of: key)
        if place < timers.count, timers[place].key == key { timers.remove(at: place) }
    }

    /// The next timer due at `time`, removed; nil when none is.
    mutating func removeFirst(due time: Int64) -> (source: LoopSource, interval: Int64)? {
        guard let last = timers.last, last.key.due <= time else { return nil }
        timers.removeLast()
        return (last.source, last.interval)
    }

    mutating func removeAll() -> [LoopSource] {
        defer { timers = [] }
        return timers.map(\.source)
    }

    /// The first place of a key that is not later.
    private func place(of key: Key) -> Int {
        var (low, high) = (0, timers.count)
        while low < high {
            let middle = (low + high) / 2
            if timers[middle].key > key { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

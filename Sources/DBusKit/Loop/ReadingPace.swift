// SPDX-License-Identifier: Apache-2.0
// How long a socket may wait to be read while much comes over it, so that one wakeup serves many messages: longer the less comes, and so
// that what arrives meanwhile fits into the socket's buffer, else its sender would have to keep it.

struct ReadingPace {
    private let longest: Duration
    /// Messages in one reading that are too many for the pause before it.
    private let most: Int
    /// How long to wait before the next reading.
    private(set) var pause: Duration

    init(longest: Duration, most: Int) {
        self.longest = longest
        self.most = most
        pause = longest
    }

    /// Whether so many messages in one reading are worth a pause.
    static func isBusy(_ taken: Int) -> Bool { taken > 2 }

    /// - Parameter taken: messages that were read after the last pause.
    /// - Returns: false when little comes, and the descriptor is to be waited for.
    mutating func goesOn(after taken: Int) -> Bool {
        guard Self.isBusy(taken) else { return false }
        let next = taken > most ? pause / 2 : taken < most / 4 ? pause * 2 : pause
        pause = min(max(next, .milliseconds(1)), longest)
        return true
    }
}

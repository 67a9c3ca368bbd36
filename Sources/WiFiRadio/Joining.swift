// SPDX-License-Identifier: Apache-2.0
// What is awaited of a Wi-Fi service and ends once, and the joining of a network, which is more than that: attempts,
// what each has failed of, and how long they may take together.

internal import AccessoryEngine
internal import DBusKit
internal import Logging

/// Something that is awaited and ends once: with a result, by time-out, or because the service goes. While it lasts it
/// keeps the subscriptions that it needs.
class Awaited<Value> {
    fileprivate let loop: MainLoop
    private let tooLate: Value
    private var subscriptions: [Subscription?] = []
    private var timer: LoopSource?
    private var completion: ((Value) -> Void)?

    init(_ loop: MainLoop, timeout: Duration, late: Value, completion: @escaping (Value) -> Void) {
        self.loop = loop
        tooLate = late
        self.completion = completion
        wait(timeout)
    }

    fileprivate final func wait(_ time: Duration) {
        timer = loop.after(time) { [weak self] in self?.expire() }
    }

    /// It has taken too long.
    func expire() { end(tooLate) }

    var isPending: Bool { completion != nil }

    /// Keeps these, and those from before no longer.
    func follow(_ new: [Subscription?]) {
        for subscription in subscriptions { subscription?.cancel() }
        subscriptions = new
    }

    func end(_ value: Value) {
        guard let completion else { return }
        self.completion = nil
        timer?.cancel()
        follow([])
        completion(value)
    }
}

/// The joining of a network, in one attempt or more.
final class Joining: Awaited<Result<Void, RadioFailure>> {
    private let log: Logger
    private let late: RadioFailure
    /// It may have to be looked for first.
    private let isHidden: Bool
    private let secondUntil: Int64
    private var isSecond = false
    private var timesAside = 0
    private var limit: LoopSource?
    /// The machine is on the network, and waits for its address.
    private(set) var isConnected = false
    private var isExtended = false
    /// Which attempt this is: what comes of an earlier one counts no longer.
    private(set) var attempt = 1
    /// Why an attempt failed that was on the air.
    private var heard: RadioFailure?
    private static let mostAside = 2

    init(
        _ loop: MainLoop, begun: Int64, late: RadioFailure, isHidden: Bool, log: Logger,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        self.log = log
        self.late = late
        self.isHidden = isHidden
        secondUntil = begun + Int64((WiFiTimes.join - WiFiTimes.secondJoin) / .microseconds(1))
        super.init(loop, timeout: WiFiTimes.join - .microseconds(loop.now - begun), late: .failure(late), completion: completion)
    }

    /// An attempt has failed: it is begun `again`, if there is time, once where frames that were lost look like that,
    /// too. One before which the service has put another connection counts for none, and says nothing of the network.
    /// The time-out stays where it was.
    func failed(_ failure: RadioFailure, again: (Joining) -> Void) {
        guard isPending else { return }
        endLimit()
        let isAside = failure == .putAside
        let isAllowed = isAside ? timesAside < Self.mostAside : (failure.mayBeLostFrames || failure == late) && !isSecond
        if !isAside { heard = failure }
        guard isAllowed, loop.now <= secondUntil else { return end(.failure(heard ?? failure)) }
        if isAside { timesAside += 1 } else { isSecond = true }
        attempt += 1
        isConnected = false
        log.info("a network was not joined, and is tried once more", metadata: ["reason": "\(failure)"])
        again(self)
    }

    /// An attempt has begun that may come to no end by itself, and there is time for another. After a while, where
    /// `isStuck` answers that it is, it is to be ended by `stop`, which calls what it is given once that is done; then
    /// it is begun `again`.
    func limit(
        again: @escaping (Joining) -> Void, isStuck: @escaping (_ answer: @escaping (Bool) -> Void) -> Void,
        stop: @escaping (_ done: @escaping () -> Void) -> Void
    ) {
        guard isPending, !isSecond, !isHidden else { return }
        endLimit()
        let number = attempt
        limit = loop.after(WiFiTimes.connecting) { [weak self] in
            isStuck { [weak self] isStuck in
                guard let self, self.isPending, self.attempt == number, isStuck else { return }
                self.attempt += 1
                stop { self.failed(self.late, again: again) }
            }
        }
    }

    /// The attempt has brought the machine onto the network, and only the address is missing: that may take longer.
    func connected() { isConnected = true }

    override func expire() {
        guard isConnected, !isExtended else { return super.expire() }
        isExtended = true
        wait(WiFiTimes.address)
    }

    private func endLimit() {
        limit?.cancel()
        limit = nil
    }

    override func end(_ value: Result<Void, RadioFailure>) {
        endLimit()
        super.end(value)
    }
}

extension RadioFailure {
    static let serviceGone = RadioFailure(.unavailable, "the Wi-Fi service is gone")
    static let wrongPassphrase = RadioFailure(.refused, "the passphrase is wrong")
    static let refusedOrPassphrase = RadioFailure(.refused, "the network refused, or the passphrase is wrong")
    static let noAnswerOrPassphrase = RadioFailure(
        .timeout, "the network did not answer in time, or the passphrase is wrong")
    /// iwd has one word for all of these.
    static let refusedOrNoAnswerOrPassphrase = RadioFailure(
        .refused, "the network refused or does not answer, or the passphrase is wrong")
    static let refusedOrNoAnswer = RadioFailure(.connection, "the network refused, or does not answer")
    static let putAside = RadioFailure(.connection, "the Wi-Fi service puts another connection before it")
    static let passphraseWanted = RadioFailure(.refused, "the network wants a passphrase")
    static let joinTimeoutOrPassphrase = RadioFailure(
        .timeout, "the network was not joined in time: out of range, or the passphrase is wrong, or it does not answer")
    static let joinTimeout = RadioFailure(.timeout, "the network was not joined in time: out of range, or it does not answer")

    /// Whether frames that were lost look like that, too. An access point that is slow to answer hears the question
    /// twice and begins its handshake anew, while this side is done with it: both wait in vain until the access point
    /// gives up, as it does for a wrong passphrase. (Seen with hostapd 2.10 on a busy machine: “received EAPOL-Key msg
    /// 4/4 in invalid state”.)
    var mayBeLostFrames: Bool {
        [.wrongPassphrase, .refusedOrPassphrase, .noAnswerOrPassphrase, .refusedOrNoAnswerOrPassphrase, .refusedOrNoAnswer]
            .contains(self)
    }
}

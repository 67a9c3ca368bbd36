// SPDX-License-Identifier: Apache-2.0
// Pending results that end once, and the attempts of a join: `JoinAttempts` decides, as a value, whether a failed
// attempt is followed by another; `Joining` owns the timers and the attempt that runs.

internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit
internal import Logging

/// A pending result that ends once: with a value, by time-out, or because the service is gone. It holds the
/// subscriptions that lead to the value.
class Awaited<Value> {
    private var subscriptions: [Subscription?] = []
    private var timer: LoopSource?
    private var completion: ((Value) -> Void)?

    /// - Parameter timeout: nil for none.
    init(_ loop: MainLoop, timeout: Duration?, late: Value, completion: @escaping (Value) -> Void) {
        self.completion = completion
        timer = timeout.map { loop.after($0) { [weak self] in self?.end(late) } }
    }

    var isPending: Bool { completion != nil }

    /// Replaces the subscriptions.
    func follow(_ new: [Subscription?]) {
        for subscription in subscriptions { subscription?.cancel() }
        subscriptions = new
    }

    func end(_ value: Value) { detach()?(value) }

    /// Ends without a value.
    ///
    /// - Returns: the completion that was not called; nil after the end.
    @discardableResult
    func detach() -> ((Value) -> Void)? {
        defer { completion = nil }
        timer?.cancel()
        follow([])
        return completion
    }
}

/// The attempts of a join as a value.
struct JoinAttempts: Hashable {
    enum State: Hashable {
        case first(isConnected: Bool)
        case second(isConnected: Bool, after: RadioFailure)
        /// The time is over; the machine is on the network and waits for an address.
        case awaitingAddress
        case over
    }

    enum Event: Hashable {
        /// The machine is on the network, and only an address is missing.
        case connected
        case joined
        /// - isTimeLeft: whether there is time for another attempt.
        case failed(RadioFailure, isTimeLeft: Bool)
        case timeUp
    }

    enum Effect: Hashable {
        case attempt
        /// Continue for the time of an address.
        case extend
        /// Nil for success.
        case end(RadioFailure?)
    }

    private(set) var state = State.first(isConnected: false)
    /// The failure of a join that takes too long.
    let late: RadioFailure

    init(late: RadioFailure) {
        self.late = late
    }

    var isSecond: Bool { if case .second = state { true } else { false } }

    mutating func handle(_ event: Event) -> [Effect] {
        switch (state, event) {
        case (.over, _): return []
        case (.first, .connected): state = .first(isConnected: true)
        case (.second(_, let failure), .connected): state = .second(isConnected: true, after: failure)
        case (.awaitingAddress, .connected): break
        case (_, .joined): return end(nil)
        case (.first, .failed(let failure, isTimeLeft: true)) where failure.mayPass || failure == late:
            state = .second(isConnected: false, after: failure)
            return [.attempt]
        // The network's own answer says more than another connection.
        case (.second(_, let before), .failed(.displaced, _)): return end(before)
        case (_, .failed(let failure, _)): return end(failure)
        case (.first(isConnected: true), .timeUp), (.second(isConnected: true, _), .timeUp):
            state = .awaitingAddress
            return [.extend]
        case (_, .timeUp): return end(late)
        }
        return []
    }

    private mutating func end(_ failure: RadioFailure?) -> [Effect] {
        state = .over
        return [.end(failure)]
    }
}

/// One attempt to join; ends once.
final class JoinAttempt: Awaited<Result<Void, RadioFailure>> {
    private let loop: MainLoop
    private var limit: LoopSource?
    /// No other attempt can follow.
    let isSecond: Bool
    private let isLimited: Bool
    private let onConnected: () -> Void
    /// The machine is on the network, and waits for an address.
    private(set) var isConnected = false

    /// - Parameter isHidden: the network may have to be searched for first, which takes longer.
    init(
        _ loop: MainLoop, isSecond: Bool, isHidden: Bool, onConnected: @escaping () -> Void,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        self.loop = loop
        self.isSecond = isSecond
        isLimited = !isSecond && !isHidden
        self.onConnected = onConnected
        super.init(loop, timeout: nil, late: .failure(.joinTimeout), completion: completion)
    }

    func connected() {
        guard !isConnected else { return }
        isConnected = true
        onConnected()
    }

    /// Ends an attempt that is stuck.
    ///
    /// - Parameters:
    ///   - isStuck: asked once, after the time that a connection may take.
    ///   - stop: has the service abort the attempt, and continues when that is done.
    func limit(
        isStuck: @escaping (_ answer: @escaping (Bool) -> Void) -> Void, stop: @escaping (_ done: @escaping () -> Void) -> Void
    ) {
        guard isPending, isLimited else { return }
        limit = loop.after(WiFiTimes.connecting) { [weak self] in
            isStuck { isStuck in
                // Answers to the abortion do not count.
                guard isStuck, let completion = self?.detach() else { return }
                stop { completion(.failure(.stuck)) }
            }
        }
    }

    func failed(_ failure: RadioFailure) { end(.failure(failure)) }

    @discardableResult
    override func detach() -> ((Result<Void, RadioFailure>) -> Void)? {
        limit?.cancel()
        return super.detach()
    }
}

/// Runs the attempts of a join.
final class Joining {
    private var attempts: JoinAttempts
    private let loop: MainLoop
    private let log: Logger
    /// A second attempt must begin before this time of the monotonic clock, in microseconds.
    private let secondUntil: Int64
    private let isHidden: Bool
    private let begin: (JoinAttempt) -> Void
    private let completion: (Result<Void, RadioFailure>) -> Void
    private var current: JoinAttempt?
    private var timer: LoopSource?

    init(
        _ request: JoinRequest, _ loop: MainLoop, _ log: Logger, attempt: @escaping (JoinAttempt) -> Void,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        self.loop = loop
        self.log = log
        begin = attempt
        self.completion = completion
        isHidden = request.join.isHidden
        secondUntil = request.begun + Int64((WiFiTimes.join - WiFiTimes.secondJoin) / .microseconds(1))
        // With WPA3 a wrong passphrase can look like silence: services keep trying.
        attempts = JoinAttempts(late: request.join.passphrase == nil ? .joinTimeout : .joinTimeoutOrPassphrase)
        wait(WiFiTimes.join - .microseconds(loop.now - request.begun))
    }

    func start() { perform([.attempt]) }

    /// Ends the join from outside.
    func end(_ result: Result<Void, RadioFailure>) {
        switch result {
        case .success: handle(.joined)
        case .failure(let failure): handle(.failed(failure, isTimeLeft: false))
        }
    }

    private func wait(_ time: Duration) {
        timer = loop.after(time) { [weak self] in self?.handle(.timeUp) }
    }

    private func handle(_ event: JoinAttempts.Event) { perform(attempts.handle(event)) }

    private func perform(_ effects: [JoinAttempts.Effect]) {
        for effect in effects {
            switch effect {
            case .attempt: attempt()
            case .extend: wait(WiFiTimes.address)
            case .end(let failure):
                timer?.cancel()
                current?.detach()
                current = nil
                completion(failure.map { .failure($0) } ?? .success(()))
            }
        }
    }

    private func attempt() {
        let attempt = JoinAttempt(loop, isSecond: attempts.isSecond, isHidden: isHidden) { [weak self] in
            self?.handle(.connected)
        } completion: { [weak self] result in
            guard let self else { return }
            switch result {
            case .success: self.handle(.joined)
            case .failure(let failure):
                let failure = failure == .stuck ? self.attempts.late : failure
                self.log.info("an attempt to join a network failed", metadata: ["reason": "\(failure)"])
                self.handle(.failed(failure, isTimeLeft: self.loop.now <= self.secondUntil))
            }
        }
        current = attempt
        begin(attempt)
    }
}

extension RadioFailure {
    static let serviceGone = RadioFailure(.unavailable, "the Wi-Fi service is gone")
    static let wrongPassphrase = RadioFailure(.refused, "the passphrase is wrong")
    static let refusedOrPassphrase = RadioFailure(.refused, "the network refused, or the passphrase is wrong")
    static let noAnswerOrPassphrase = RadioFailure(
        .timeout, "the network did not answer in time, or the passphrase is wrong")
    /// iwd has one error for these causes.
    static let refusedOrNoAnswerOrPassphrase = RadioFailure(
        .refused, "the network refused or does not answer, or the passphrase is wrong")
    static let refusedOrNoAnswer = RadioFailure(.connection, "the network refused, or does not answer")
    /// iwd reconnects a network that it knows, and NetworkManager follows.
    static let displaced = RadioFailure(.connection, "the Wi-Fi service preferred another connection")
    static let passphraseWanted = RadioFailure(.refused, "the network requires a passphrase")
    static let joinTimeoutOrPassphrase = RadioFailure(
        .timeout, "timed out joining the network: it is out of range, the passphrase is wrong, or it does not answer")
    static let joinTimeout = RadioFailure(.timeout, "timed out joining the network: it is out of range or does not answer")
    /// An attempt was ended here; replaced by the failure of a join that takes too long.
    fileprivate static let stuck = RadioFailure(.timeout, "stuck")

    /// Whether a second attempt can succeed. Lost frames look like a refusal, too: an access point that is slow to
    /// answer receives the request twice and restarts its handshake, while this side has completed it; both wait until
    /// the access point gives up, as it does for a wrong passphrase. (Seen with hostapd 2.10 on a busy machine:
    /// “received EAPOL-Key msg 4/4 in invalid state”.)
    var mayPass: Bool {
        [
            .wrongPassphrase, .refusedOrPassphrase, .noAnswerOrPassphrase, .refusedOrNoAnswerOrPassphrase, .refusedOrNoAnswer,
            .displaced,
        ].contains(self)
    }
}

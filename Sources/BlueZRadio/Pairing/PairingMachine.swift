// SPDX-License-Identifier: Apache-2.0
// One pairing as a value, from registering the agent to the identity of the device. It ends exactly once, whatever
// bluetoothd, the adapter, the accessory or the person do meanwhile.

internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

struct PairingMachine: Equatable {
    enum State: Equatable {
        case new
        case registering(isCancelled: Bool)
        /// `Pair()` is pending.
        case pairing(attempt: Int)
        /// `CancelPairing` was sent, and `Pair()` is still pending.
        case cancelling(Cause)
        /// The link broke: waits until it is down.
        case retrying(attempt: Int, polls: Int)
        /// Paired: the properties are being read. `CancelPairing` may have removed a bond that had just been made.
        case reading(wasPairedBefore: Bool, wasCancelled: Bool)
        case ended
    }

    /// Why a pending `Pair()` is cancelled.
    enum Cause: Equatable { case person, noLink, noAnswer, objectGone }

    enum Event {
        /// The first event.
        case begin(isPaired: Bool)
        case registered(BusError?)
        case pairEnded(BusError?)
        case read(Result<Properties<Device1>, BusError>)
        /// The person has answered a prompt: from now on bluetoothd is waited for.
        case answered
        case cancel
        /// The radio cannot be used any more.
        case abort(RadioFailure)
        /// bluetoothd has removed the device's object. The signal may be late, and about the object before this one.
        case objectRemoved
        case expired(Timer, Progress)
    }

    /// The progress that the time limits depend on, at the time of the event.
    struct Progress: Equatable {
        /// The device is connected.
        var isConnected = false
        /// The agent was asked, so that there was a link.
        var hasPrompted = false
        /// The person has to answer, or to act at the accessory.
        var awaitsPerson = false
    }

    enum Timer: Hashable { case link, answer, retry, cancellation }

    enum Effect: Equatable {
        case register, pair, cancelPairing, read
        case start(Timer, Duration)
        /// The person's answer is not needed any more.
        case dropQuestion
        case end(Result<Outcome, RadioFailure>)
    }

    /// A successful pairing.
    struct Outcome: Equatable {
        let identity: PairedIdentity
        /// The keys are kept.
        let isBonded: Bool
        /// It was paired before, and its advert excludes a classic side.
        let isLowEnergyOnly: Bool
        /// bluetoothd lets the side be chosen that a connection is made to.
        let choosesBearer: Bool
    }

    private(set) var state = State.new
    private let device: RadioDeviceID

    init(_ device: RadioDeviceID) { self.device = device }

    /// How long the link may take to come up, the person's time excluded.
    private static let linkTimeout = Duration.seconds(20)
    /// How long bluetoothd may take from the first attempt, or from the person's answer, to the end or the next
    /// question. The kernel gives a silent accessory up after 30 s only.
    private static let answerTimeout = Duration.seconds(25)
    /// How long a cancelled `Pair()` may take to return, and how long where the person has waited already.
    private static let cancelTimeout = Duration.seconds(5)
    private static let lateCancelTimeout = Duration.seconds(2)
    private static let retryInterval = Duration.milliseconds(250)
    private static let maxPolls = 20
    /// Connections break in busy air.
    private static let maxAttempts = 3

    mutating func handle(_ event: Event) -> [Effect] {
        switch (state, event) {
        case (.ended, _): return []
        case (.new, .begin(isPaired: true)): return read(wasPairedBefore: true, wasCancelled: false)
        case (.new, .begin(isPaired: false)):
            state = .registering(isCancelled: false)
            return [.register]
        case (.registering(let isCancelled), .registered(let error)):
            if let error, error.bluez != .alreadyExists { return end(RadioFailure(pairing: error)) }
            if isCancelled { return end(RadioFailure(.cancelled, "cancelled")) }
            return pair(attempt: 1) + [.start(.link, Self.linkTimeout), .start(.answer, Self.answerTimeout)]
        case (.registering, .cancel):
            state = .registering(isCancelled: true)
            return []

        case (.pairing, .pairEnded(nil)): return read(wasPairedBefore: false, wasCancelled: false)
        case (.cancelling, .pairEnded(nil)): return read(wasPairedBefore: false, wasCancelled: true)
        case (.pairing(let attempt), .pairEnded(let error?)): return failed(error, attempt)
        case (.cancelling(let cause), .pairEnded(let error?)): return cancelled(cause, error)
        case (.pairing, .answered): return [.start(.answer, Self.answerTimeout)]

        case (.pairing, .cancel), (.cancelling(.noLink), .cancel), (.cancelling(.noAnswer), .cancel),
            (.cancelling(.objectGone), .cancel):
            return [.dropQuestion] + cancel(.person)
        case (.retrying, .cancel): return end(RadioFailure(.cancelled, "cancelled"))

        case (.pairing, .expired(.link, let progress)) where !progress.isConnected && !progress.hasPrompted: return cancel(.noLink)
        case (.retrying, .expired(.link, let progress)) where !progress.isConnected && !progress.hasPrompted:
            return end(Self.noLink(isCertain: true))
        case (.pairing, .expired(.answer, let progress)) where !progress.awaitsPerson: return cancel(.noAnswer)
        case (.retrying, .expired(.answer, let progress)) where !progress.awaitsPerson: return end(Self.noAnswer)
        case (.cancelling(let cause), .expired(.cancellation, _)): return end(Self.unconfirmed(cause))
        case (.retrying(let attempt, let polls), .expired(.retry, let progress)):
            guard progress.isConnected, polls < Self.maxPolls else { return pair(attempt: attempt + 1) }
            state = .retrying(attempt: attempt, polls: polls + 1)
            return [.start(.retry, Self.retryInterval)]

        case (_, .abort(let failure)): return end(failure)
        // The object may be the one before this: so the pairing is cancelled, and bluetoothd's answer decides.
        case (.pairing, .objectRemoved): return cancel(.objectGone)
        case (.registering, .objectRemoved), (.retrying, .objectRemoved): return end(Self.gone(.connection))
        // A bond may exist.
        case (.reading, .objectRemoved): return end(Self.gone(.other))

        case (.reading(let wasPairedBefore, let wasCancelled), .read(let result)):
            return identified(result, wasPairedBefore, wasCancelled)
        default: return []
        }
    }

    private mutating func pair(attempt: Int) -> [Effect] {
        state = .pairing(attempt: attempt)
        return [.pair]
    }

    private mutating func failed(_ error: BusError, _ attempt: Int) -> [Effect] {
        switch error.bluez {
        case .alreadyExists: return read(wasPairedBefore: true, wasCancelled: false)
        case .connectionAttemptFailed where attempt < Self.maxAttempts:
            state = .retrying(attempt: attempt, polls: 1)
            return [.start(.retry, Self.retryInterval)]
        // Without an answer bluetoothd may go on pairing.
        default: return (error.leavesOpen ? [.cancelPairing] : []) + end(RadioFailure(pairing: error))
        }
    }

    /// `CancelPairing` without a pending `Pair()` would remove the bond, so it is sent only while one is.
    private mutating func cancel(_ cause: Cause) -> [Effect] {
        state = .cancelling(cause)
        let timeout = cause == .person || cause == .noLink ? Self.cancelTimeout : Self.lateCancelTimeout
        return [.cancelPairing, .start(.cancellation, timeout)]
    }

    private mutating func cancelled(_ cause: Cause, _ error: BusError) -> [Effect] {
        guard error.bluez != .alreadyExists else { return read(wasPairedBefore: true, wasCancelled: true) }
        switch cause {
        case .person: return end(RadioFailure(.cancelled, "cancelled"))
        case .noLink: return end(Self.noLink(isCertain: !error.leavesOpen))
        case .noAnswer, .objectGone: return end(RadioFailure(pairing: error))
        }
    }

    private static func unconfirmed(_ cause: Cause) -> RadioFailure {
        switch cause {
        case .person: RadioFailure(.cancelled, "cancelled; bluetoothd did not confirm")
        case .noLink: noLink(isCertain: false)
        case .noAnswer: noAnswer
        case .objectGone: gone(.other)
        }
    }

    /// - Parameter isCertain: whether bluetoothd has confirmed that no bond exists.
    private static func noLink(isCertain: Bool) -> RadioFailure {
        RadioFailure(isCertain ? .connection : .timeout, "the accessory did not answer: no link within 20 s")
    }
    private static let noAnswer = RadioFailure(.timeout, "neither the accessory nor bluetoothd answered in time")
    private static func gone(_ reason: RadioFailure.Reason) -> RadioFailure { RadioFailure(reason, "the accessory is gone") }

    private mutating func read(wasPairedBefore: Bool, wasCancelled: Bool) -> [Effect] {
        state = .reading(wasPairedBefore: wasPairedBefore, wasCancelled: wasCancelled)
        return [.read]
    }

    /// The address may be another one after pairing: the identity address instead of a private one.
    private mutating func identified(
        _ result: Result<Properties<Device1>, BusError>, _ wasPairedBefore: Bool, _ wasCancelled: Bool
    ) -> [Effect] {
        if case .failure(let error) = result, error.leavesOpen { return end(RadioFailure(pairing: error)) }
        let properties = (try? result.get()) ?? Properties()
        guard !wasCancelled || properties.isPaired else {
            return end(RadioFailure(.other, "the pairing was cancelled just as it succeeded"))
        }
        guard let address = properties.address else {
            return end(RadioFailure(.other, "the accessory went away right after pairing"))
        }
        state = .ended
        let outcome = Outcome(
            identity: PairedIdentity(address: address, device: device, wasPairedBefore: wasPairedBefore),
            isBonded: BlueZVersions.isBonded(paired: true, bonded: properties.isBonded),
            isLowEnergyOnly: wasPairedBefore && BlueZVersions.hasNoClassicSide(properties),
            choosesBearer: BlueZVersions.choosesBearer(properties))
        return [.end(.success(outcome))]
    }

    private mutating func end(_ failure: RadioFailure) -> [Effect] {
        state = .ended
        return [.end(.failure(failure))]
    }
}

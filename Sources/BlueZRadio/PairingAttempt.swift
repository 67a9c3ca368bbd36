// SPDX-License-Identifier: Apache-2.0
// One pairing, from registering the agent to the identity of the device: it ends exactly once, whatever bluetoothd, the
// adapter, the accessory or the person do meanwhile.

internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

final class PairingAttempt {
    private enum State: String {
        case registering, pairing, retrying, reading, ended
    }

    let device: ObjectPath
    private let connection: Connection
    private let agent: PairingAgent
    private let log: Logger
    private let isConnected: () -> Bool
    private let completion: (Result<PairedIdentity, RadioFailure>) -> Void
    private var state = State.registering
    private var wasPairedBefore = false
    private var isCancelled = false
    /// bluetoothd was asked to call it off: had it just ended well, that has taken the bond away.
    private var wasCalledOff = false
    private var attempts = 0
    private var timer: LoopSource?
    private var linkTimer: LoopSource?
    private var answerTimer: LoopSource?
    /// Whether bluetoothd may be pairing: it was told to, and has not said how it ended.
    private var mayPair = false
    /// It was paired before, and its advert says that it has no classic side.
    private(set) var isLowEnergyOnly = false
    /// Which side a connection is made to can be chosen.
    private(set) var choosesBearer = false
    /// The keys are kept, as far as bluetoothd says.
    private(set) var isBonded = true
    /// No link came up in time.
    private var isSilent = false
    private var call: PendingCall?

    /// How long the link may take to come up: an accessory that has gone silent is not waited for. The person's time
    /// does not count.
    private static let linkTimeout = Duration.seconds(20)
    /// How long bluetoothd may take from the first attempt, or from the person's answer, to the end or the next
    /// question. An accessory that stops in the middle is given up by the kernel after 30 s, which is too long for who
    /// waits.
    private static let answerTimeout = Duration.seconds(25)
    /// How long it may take to confirm that it is called off after that.
    private static let lateCancelTimeout = Duration.seconds(2)
    /// How long a cancelled `Pair()` may take to say so.
    private static let cancelTimeout = Duration.seconds(5)
    /// Connections break in busy air: try again, but not for ever.
    private static let maximumAttempts = 3

    init(
        _ device: ObjectPath, on connection: Connection, agent: PairingAgent, log: Logger, isConnected: @escaping () -> Bool,
        completion: @escaping (Result<PairedIdentity, RadioFailure>) -> Void
    ) {
        self.device = device
        self.connection = connection
        self.agent = agent
        self.log = log
        self.isConnected = isConnected
        self.completion = completion
    }

    func begin(isPaired: Bool) {
        guard !isPaired else {
            wasPairedBefore = true
            return readIdentity()
        }
        agent.device = device
        call = connection.call(
            .agentRegistration, at: BlueZ.manager, [.objectPath(PairingAgent.path), .string(Agent1.keyboardDisplay)]
        ) { [self] result in
            guard state == .registering else { return }
            if case .failure(let error) = result, error.bluez != .alreadyExists {
                return end(.failure(RadioFailure(pairing: error)))
            }
            guard !isCancelled else { return end(.failure(RadioFailure(.cancelled, "cancelled"))) }
            pair()
        }
    }

    private func pair() {
        attempts += 1
        change(.pairing, "attempt \(attempts)")
        mayPair = true
        if linkTimer == nil {
            linkTimer = connection.loop.after(Self.linkTimeout) { [weak self] in self?.linkIsLate() }
            awaitAnswer()
        }
        call = connection.call(.pairing, at: device) { [self] result in
            guard state == .pairing else { return }
            if case .failure(let error) = result, error.leavesOpen {} else { mayPair = false }
            switch result {
            case .success:
                readIdentity()
            case .failure(let error) where error.bluez == .alreadyExists:
                wasPairedBefore = true
                readIdentity()
            case .failure(let error)
            where error.bluez == .connectionAttemptFailed && attempts < Self.maximumAttempts && !isCancelled && !isSilent:
                retry()
            case .failure(let error):
                if mayPair, !isCancelled, !isSilent { cancelOnRadio() }
                end(
                    .failure(
                        isSilent ? silence : isCancelled ? RadioFailure(.cancelled, "cancelled") : RadioFailure(pairing: error))
                )
            }
        }
    }

    /// Without bluetoothd's word nobody knows whether there is a bond.
    private var silence: RadioFailure {
        RadioFailure(mayPair ? .timeout : .connection, "the accessory does not answer: no link came up within 20 s")
    }

    private func awaitAnswer() {
        answerTimer?.cancel()
        answerTimer = connection.loop.after(Self.answerTimeout) { [weak self] in self?.answerIsLate() }
    }

    /// The person has answered: from now on it is bluetoothd that is waited for.
    func answered() {
        if state == .pairing { awaitAnswer() }
    }

    private func answerIsLate() {
        guard !agent.waitsForPerson, !isCancelled, !isSilent, state == .pairing || state == .retrying else { return }
        let failure = RadioFailure(.timeout, "neither the accessory nor bluetoothd answered in time")
        guard state == .pairing else { return end(.failure(failure)) }
        cancelOnRadio()
        timer?.cancel()
        timer = connection.loop.after(Self.lateCancelTimeout) { [self] in end(.failure(failure)) }
    }

    private func linkIsLate() {
        guard !isConnected(), !agent.wasAsked, !isCancelled else { return }
        switch state {
        case .pairing:
            isSilent = true
            cancelOnRadio()
            timer = connection.loop.after(Self.cancelTimeout) { [self] in end(.failure(silence)) }
        case .retrying: end(.failure(silence))
        case .registering, .reading, .ended: break
        }
    }

    /// Waits until the broken link is really down, then tries again.
    private func retry() {
        change(.retrying, "the connection failed")
        var turns = 0
        timer = connection.loop.every(.milliseconds(250)) { [self] in
            turns += 1
            guard state == .retrying else { return false }
            if isConnected(), turns < 20 { return true }
            pair()
            return false
        }
    }

    /// Calls the pairing off. `CancelPairing` without a pending `Pair()` would remove the bond, so it is sent only
    /// while one is.
    func cancel() {
        guard !isCancelled, state != .ended else { return }
        isCancelled = true
        agent.dropQuestion()
        switch state {
        case .pairing:
            cancelOnRadio()
            timer = connection.loop.after(Self.cancelTimeout) { [self] in
                end(.failure(RadioFailure(.cancelled, "cancelled; bluetoothd did not confirm")))
            }
        case .retrying:
            end(.failure(RadioFailure(.cancelled, "cancelled")))
        case .registering, .reading, .ended:
            break
        }
    }

    /// The radio went away under the pairing, or the device's object; there may be a bond by then.
    func abort(_ failure: RadioFailure) {
        let isOpen = (mayPair || state == .reading) && failure.reason == .connection
        end(.failure(isOpen ? RadioFailure(.other, failure.message) : failure))
    }

    /// BlueZ has said that the device's object is gone. That may have been said late, of one before the one that is
    /// paired now: so the pairing is called off, and the answer to it is waited for.
    func objectIsGone() {
        let failure = RadioFailure(.connection, "the accessory is gone")
        guard state == .pairing, mayPair else { return abort(failure) }
        guard !wasCalledOff else { return }
        cancelOnRadio()
        timer?.cancel()
        timer = connection.loop.after(Self.lateCancelTimeout) { [self] in abort(failure) }
    }

    private func cancelOnRadio() {
        wasCalledOff = true
        connection.call(.pairingCancel, at: device) { [log] result in
            if case .failure(let error) = result { log.debug("CancelPairing failed", metadata: ["error": "\(error)"]) }
        }
    }

    /// The address may be another one after pairing: the identity address instead of a private one.
    private func readIdentity() {
        change(.reading, "paired")
        timer?.cancel()
        call = connection.call(.pairedIdentity, at: device) { [self] result in
            guard state == .reading else { return }
            if case .failure(let error) = result, error.leavesOpen { return end(.failure(RadioFailure(pairing: error))) }
            let properties = Properties<Device1>((try? result.get())?.first?.vardictValue ?? [:])
            guard !wasCalledOff || properties.isPaired else {
                return end(.failure(RadioFailure(.other, "the pairing was called off at its very end")))
            }
            isLowEnergyOnly = wasPairedBefore && BlueZVersions.hasNoClassicSide(properties)
            choosesBearer = BlueZVersions.choosesBearer(properties)
            isBonded = BlueZVersions.isBonded(paired: true, bonded: properties.isBonded)
            if !isBonded { log.notice("paired without a bond: the accessory, or bluetoothd, does not keep the keys") }
            guard let address = properties.address else {
                return end(.failure(RadioFailure(.other, "the accessory went away right after pairing")))
            }
            end(
                .success(
                    PairedIdentity(
                        address: address, device: RadioDeviceID(device.rawValue), wasPairedBefore: wasPairedBefore)))
        }
    }

    private func end(_ result: Result<PairedIdentity, RadioFailure>) {
        guard state != .ended else { return }
        change(.ended, "\(result)")
        timer?.cancel()
        linkTimer?.cancel()
        answerTimer?.cancel()
        call?.cancel()
        call = nil
        agent.dropQuestion()
        agent.device = nil
        if !wasPairedBefore {
            connection.call(.agentEnd, at: BlueZ.manager, [.objectPath(PairingAgent.path)]) { _ in }
        }
        completion(result)
    }

    private func change(_ new: State, _ reason: String) {
        log.debug("pairing \(state.rawValue) → \(new.rawValue)", metadata: ["reason": "\(reason)"])
        state = new
    }
}

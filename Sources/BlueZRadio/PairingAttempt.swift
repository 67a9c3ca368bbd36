// SPDX-License-Identifier: Apache-2.0
// One pairing, from registering the agent to the identity of the device: it ends exactly once, whatever bluetoothd, the
// adapter, the accessory or the person do meanwhile.

internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
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
    private var attempts = 0
    private var timer: LoopSource?
    private var linkTimer: LoopSource?
    /// No link came up in time.
    private var isSilent = false
    private var call: PendingCall?

    /// How long the link may take to come up: an accessory that has gone silent is not waited for. The person's time
    /// does not count.
    private static let linkTimeout = Duration.seconds(30)
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
            .agentRegistration, at: BlueZ.manager, [.objectPath(PairingAgent.path), .string(PairingAgent.capability)]
        ) { [self] result in
            guard state == .registering else { return }
            if case .failure(let error) = result, !BlueZ.isError(error, "AlreadyExists") {
                return end(.failure(BlueZ.pairingFailure(error)))
            }
            guard !isCancelled else { return end(.failure(RadioFailure(.cancelled, "cancelled"))) }
            pair()
        }
    }

    private func pair() {
        attempts += 1
        change(.pairing, "attempt \(attempts)")
        if linkTimer == nil { linkTimer = connection.loop.after(Self.linkTimeout) { [weak self] in self?.linkIsLate() } }
        call = connection.call(.pairing, at: device) { [self] result in
            guard state == .pairing else { return }
            switch result {
            case .success:
                readIdentity()
            case .failure(let error) where BlueZ.isError(error, "AlreadyExists"):
                wasPairedBefore = true
                readIdentity()
            case .failure(let error)
            where BlueZ.isError(error, "ConnectionAttemptFailed") && attempts < Self.maximumAttempts && !isCancelled && !isSilent:
                retry()
            case .failure(let error):
                if error.isStandard("NoReply") { cancelOnRadio() }
                end(
                    .failure(
                        isSilent ? Self.silence : isCancelled ? RadioFailure(.cancelled, "cancelled") : BlueZ.pairingFailure(error))
                )
            }
        }
    }

    private static let silence = RadioFailure(.connection, "the accessory does not answer: no link came up within 30 s")

    private func linkIsLate() {
        guard !isConnected(), !agent.wasAsked, !isCancelled else { return }
        switch state {
        case .pairing:
            isSilent = true
            cancelOnRadio()
            timer = connection.loop.after(Self.cancelTimeout) { [self] in end(.failure(Self.silence)) }
        case .retrying: end(.failure(Self.silence))
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

    /// The radio went away under the pairing.
    func abort(_ failure: RadioFailure) {
        end(.failure(failure))
    }

    private func cancelOnRadio() {
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
            let properties = (try? result.get())?.first?.vardictValue ?? [:]
            let kind = properties["AddressType"]?.stringValue.flatMap { BluetoothAddress.Kind(rawValue: $0) } ?? .public
            guard let address = properties["Address"]?.stringValue.flatMap({ BluetoothAddress($0, kind: kind) }) else {
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

// SPDX-License-Identifier: Apache-2.0
// Performs a `PairingMachine`: its calls to bluetoothd, its timers and the agent, all of which end with it.

internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

/// One pairing of a device.
final class PairingAttempt: PairingStep {
    typealias Outcome = PairingMachine.Outcome

    let device: ObjectPath
    private let connection: Connection
    private let agent: PairingAgent
    private let log: Logger
    private let isConnected: () -> Bool
    private let onPrompt: (PairingPrompt) -> Void
    private let completion: (Result<Outcome, RadioFailure>) -> Void
    private let timers: Timers<PairingMachine.Timer>
    private var machine: PairingMachine
    /// The call that the machine waits for.
    private var call: PendingCall?

    /// - Parameters:
    ///   - isConnected: whether the device has a link now.
    ///   - completion: called exactly once.
    init(
        of device: ObjectPath, on connection: Connection, agent: PairingAgent, log: Logger, isConnected: @escaping () -> Bool,
        onPrompt: @escaping (PairingPrompt) -> Void, completion: @escaping (Result<Outcome, RadioFailure>) -> Void
    ) {
        self.device = device
        self.connection = connection
        self.agent = agent
        self.log = log
        self.isConnected = isConnected
        self.onPrompt = onPrompt
        self.completion = completion
        timers = Timers(on: connection.loop)
        machine = PairingMachine(RadioDeviceID(device.rawValue))
    }

    var adapter: ObjectPath { device.parent }
    var attempt: PairingAttempt? { self }
    func cancel() { handle(.cancel) }
    func abort(_ failure: RadioFailure) { handle(.abort(failure)) }

    func handle(_ event: PairingMachine.Event) {
        let former = machine.state
        let effects = machine.handle(event)
        if machine.state != former { log.debug("pairing \(former) → \(machine.state)") }
        for effect in effects { perform(effect) }
    }

    private func perform(_ effect: PairingMachine.Effect) {
        switch effect {
        case .register:
            agent.begin(for: device, onPrompt: onPrompt)
            let arguments: [DBusValue] = [.objectPath(PairingAgent.path), .string(Agent1.keyboardDisplay)]
            call = connection.call(.agentRegistration, at: BlueZ.manager, arguments) { [weak self] in
                self?.handle(.registered($0.error))
            }
        case .pair: call = connection.call(.pairing, at: device) { [weak self] in self?.handle(.pairEnded($0.error)) }
        case .cancelPairing:
            connection.call(.pairingCancel, at: device) { [log] result in
                if let error = result.error { log.debug("CancelPairing failed", metadata: ["error": "\(error)"]) }
            }
        case .read:
            timers.cancelAll()
            call = connection.call(.pairedIdentity, at: device) { [weak self] result in
                self?.handle(.read(result.map { Properties($0.first?.vardictValue ?? [:]) }))
            }
        case .start(let timer, let delay):
            timers.start(timer, after: delay) { [weak self] in
                guard let self else { return }
                let progress = PairingMachine.Progress(
                    isConnected: isConnected(), hasPrompted: agent.hasPrompted, awaitsPerson: agent.awaitsPerson)
                handle(.expired(timer, progress))
            }
        case .dropQuestion: agent.cancelPrompt()
        case .end(let result): end(result)
        }
    }

    private func end(_ result: Result<Outcome, RadioFailure>) {
        timers.cancelAll()
        call?.cancel()
        call = nil
        if agent.device == device {
            agent.end()
            connection.call(.agentEnd, at: BlueZ.manager, [.objectPath(PairingAgent.path)]) { _ in }
        }
        log.debug("the pairing has ended", metadata: ["result": "\(result)"])
        if case .success(let outcome) = result, !outcome.isBonded {
            log.notice("paired without a bond: the accessory or bluetoothd did not keep the keys")
        }
        completion(result)
    }
}

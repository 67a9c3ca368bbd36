// SPDX-License-Identifier: Apache-2.0
// The classic side of a dual-mode accessory: searched for where its address is another one, paired (or covered by
// cross-transport keys already), and trusted, so that its profiles connect without a prompt.

internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

final class ClassicBridge: PairingStep {
    private enum State {
        case new
        case searching
        /// `isLate` once the attempt was cancelled because it took too long.
        case pairing(PairingAttempt, isLate: Bool)
        case trusting
        case ended
    }

    private enum Timer { case search, pairing }

    let adapter: ObjectPath
    private let address: BluetoothAddress
    private let connection: Connection
    private let agent: PairingAgent
    private let log: Logger
    private let device: () -> ObjectPath?
    private let endSearch: () -> Void
    private let onPrompt: (PairingPrompt) -> Void
    private let completion: (Result<BluetoothAddress, RadioFailure>) -> Void
    private let timers: Timers<Timer>
    private var state = State.new

    /// An inquiry takes 10.24 s (Core 5.4, Vol 3, Part C, 9.2.1.2); one that has just begun may be another program's.
    private static let maxPolls = 60

    /// - Parameters:
    ///   - address: the classic address.
    ///   - device: BlueZ' object for it, once there is one.
    ///   - endSearch: ends the search for it: BlueZ has one search for each connection.
    ///   - completion: called exactly once, with the address.
    init(
        on adapter: ObjectPath, address: BluetoothAddress, connection: Connection, agent: PairingAgent, log: Logger,
        device: @escaping () -> ObjectPath?, endSearch: @escaping () -> Void, onPrompt: @escaping (PairingPrompt) -> Void,
        completion: @escaping (Result<BluetoothAddress, RadioFailure>) -> Void
    ) {
        self.adapter = adapter
        self.address = address
        self.connection = connection
        self.agent = agent
        self.log = log
        self.device = device
        self.endSearch = endSearch
        self.onPrompt = onPrompt
        self.completion = completion
        timers = Timers(on: connection.loop)
    }

    var attempt: PairingAttempt? { if case .pairing(let attempt, _) = state { attempt } else { nil } }

    func begin() {
        if let path = device() { return pair(path) }
        state = .searching
        log.debug("the classic address differs: searching")
        // The last filter of a connection wins; the scan for low energy sets its own again.
        connection.call(.classicFilter, at: adapter, [.vardict(["Transport": .string("bredr")])]) { _ in }
        connection.call(.classicSearch, at: adapter) { [weak self] result in
            guard let self, case .searching = state, let error = result.error, error.bluez != .inProgress else { return }
            fail(.other, "could not search for the classic side: \(error.message)")
        }
        timers.poll(.search, times: Self.maxPolls) { [weak self] in
            guard let self, let path = device() else { return false }
            endSearch()
            pair(path)
            return true
        } onTimeout: { [weak self] in
            self?.fail(.connection, "the classic side was not found")
        }
    }

    /// Of a device that is paired over low energy, `Pair()` pairs the other transport; with cross-transport keys it
    /// answers `AlreadyExists`.
    private func pair(_ path: ObjectPath) {
        let attempt = PairingAttempt(
            of: path, on: connection, agent: agent, log: log, isConnected: { false },
            onPrompt: { [weak self] prompt in
                // The accessory has answered: from now on the time limits of the attempt count.
                self?.timers.cancel(.pairing)
                self?.onPrompt(prompt)
            },
            completion: { [weak self] result in self?.paired(path, result) })
        state = .pairing(attempt, isLate: false)
        timers.start(.pairing, after: BlueZVersions.classicPairingTimeout) { [weak self] in
            guard let self, case .pairing(let attempt, _) = state else { return }
            state = .pairing(attempt, isLate: true)
            attempt.cancel()
        }
        attempt.handle(.begin(isPaired: false))
    }

    private func paired(_ path: ObjectPath, _ result: Result<PairingAttempt.Outcome, RadioFailure>) {
        guard case .pairing(_, let isLate) = state else { return }
        switch result {
        case .success(let outcome) where outcome.isLowEnergyOnly: fail(.connection, "the accessory has no classic side")
        case .success(let outcome): trust(path, outcome)
        case .failure where isLate: fail(.timeout, "the classic side could not be paired: it did not answer")
        case .failure(let failure): fail(failure.reason, "the classic side could not be paired: \(failure.message)")
        }
    }

    private func trust(_ path: ObjectPath, _ outcome: PairingAttempt.Outcome) {
        timers.cancelAll()
        state = .trusting
        connection.trust(path) { [weak self] failure in
            guard let self else { return }
            if failure == nil, outcome.choosesBearer { preferLowEnergy(path) }
            end(failure.map { .failure($0) } ?? .success(address))
        }
    }

    /// Apps connect for attributes; the classic side's profiles are connected by bluetoothd or by the accessory.
    private func preferLowEnergy(_ path: ObjectPath) {
        connection.call(.preferredBearer, at: path, [.variant(.string("le"))]) { [log] result in
            if let error = result.error { log.debug("PreferredBearer not set", metadata: ["error": "\(error)"]) }
        }
    }

    func cancel() {
        if let attempt { attempt.cancel() } else { fail(.cancelled, "cancelled") }
    }

    func abort(_ failure: RadioFailure) {
        if let attempt { attempt.abort(failure) } else { end(.failure(failure)) }
    }

    private func fail(_ reason: RadioFailure.Reason, _ message: String) { end(.failure(RadioFailure(reason, message))) }

    private func end(_ result: Result<BluetoothAddress, RadioFailure>) {
        if case .ended = state { return }
        if case .searching = state { endSearch() }
        timers.cancelAll()
        state = .ended
        log.debug("bridging has ended", metadata: ["result": "\(result)"])
        completion(result)
    }
}

extension Connection {
    /// Lets a device's services connect without a prompt.
    func trust(_ device: ObjectPath, completion: @escaping (RadioFailure?) -> Void) {
        call(.trust, at: device, [.variant(.boolean(true))]) { result in
            completion(result.error.map { RadioFailure(.other, "the accessory could not be trusted: \($0.message)") })
        }
    }
}

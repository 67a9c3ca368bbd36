// SPDX-License-Identifier: Apache-2.0
// The classic side of a dual-mode accessory: found where its address is another one, paired (or covered by
// cross-transport keys already), and trusted, so that its profiles connect without a question.

internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

final class ClassicBridge {
    private enum State: String {
        case created, searching, pairing, trusting, ended
    }

    let adapter: ObjectPath
    private let address: BluetoothAddress
    private let connection: Connection
    private let agent: PairingAgent
    private let log: Logger
    private let device: () -> ObjectPath?
    private let endSearch: () -> Void
    private let completion: (Result<BluetoothAddress, RadioFailure>) -> Void
    private var state = State.created
    private var attempt: PairingAttempt?
    private var search: LoopSource?
    private var watchdog: LoopSource?
    private var isLate = false

    /// An inquiry takes 10.24 s (Core 5.4, Vol 3, Part C, 9.2.1.2); one that has just begun may be another program's.
    private static let searchTurns = 60
    private static let searchInterval = Duration.milliseconds(250)

    /// - Parameters:
    ///   - address: the classic address.
    ///   - device: BlueZ' object for it, as soon as there is one.
    ///   - endSearch: ends the search for it: BlueZ has one search for each connection.
    init(
        on adapter: ObjectPath, address: BluetoothAddress, connection: Connection, agent: PairingAgent, log: Logger,
        device: @escaping () -> ObjectPath?, endSearch: @escaping () -> Void,
        completion: @escaping (Result<BluetoothAddress, RadioFailure>) -> Void
    ) {
        self.adapter = adapter
        self.address = address
        self.connection = connection
        self.agent = agent
        self.log = log
        self.device = device
        self.endSearch = endSearch
        self.completion = completion
    }

    func isPairing(_ device: ObjectPath) -> Bool { attempt?.device == device }

    func begin() {
        if let path = device() { return pair(path) }
        change(.searching, "the classic address is another one")
        // The last filter of a connection wins; whoever scans for low energy sets its own again.
        connection.call(.classicFilter, at: adapter, [.vardict(["Transport": .string("bredr")])]) { _ in }
        connection.call(.classicSearch, at: adapter) { [weak self] result in
            guard let self, self.state == .searching, case .failure(let error) = result else { return }
            guard error.bluez != .inProgress else { return }
            self.end(.failure(RadioFailure(.other, "no search for the classic side: \(error.message)")))
        }
        var turns = 0
        search = connection.loop.every(Self.searchInterval) { [weak self] in
            guard let self, self.state == .searching else { return false }
            if let path = self.device() {
                self.stopSearch()
                self.pair(path)
                return false
            }
            turns += 1
            guard turns < Self.searchTurns else {
                self.end(.failure(RadioFailure(.connection, "the classic side was not found")))
                return false
            }
            return true
        }
    }

    private func stopSearch() {
        search?.cancel()
        search = nil
        endSearch()
    }

    private func pair(_ path: ObjectPath) {
        change(.pairing, "found")
        // Paired over low energy only, `Pair()` pairs the other transport; with cross-transport keys it answers
        // `AlreadyExists`.
        let attempt = PairingAttempt(path, on: connection, agent: agent, log: log, isConnected: { false }) { [weak self] result in
            guard let self, self.state == .pairing else { return }
            self.watchdog?.cancel()
            switch result {
            case .success where self.attempt?.isLowEnergyOnly == true:
                self.end(.failure(RadioFailure(.connection, "the accessory has no classic side")))
            case .success: self.trust(path)
            case .failure where self.isLate:
                self.end(.failure(RadioFailure(.timeout, "the classic side could not be paired: it did not answer")))
            case .failure(let failure):
                self.end(.failure(RadioFailure(failure.reason, "the classic side could not be paired: \(failure.message)")))
            }
        }
        self.attempt = attempt
        // Once the person is asked, the agent's own time counts.
        watchdog = connection.loop.after(BlueZVersions.classicPairingTimeout) { [weak self] in
            self?.isLate = true
            self?.attempt?.cancel()
        }
        attempt.begin(isPaired: false)
    }

    /// The accessory answered, and a person is asked: what takes long now is the person.
    func prompted() { watchdog?.cancel() }

    /// The person has answered.
    func answered() { attempt?.answered() }

    private func trust(_ path: ObjectPath) {
        change(.trusting, "paired")
        connection.trust(path) { [weak self] failure in
            guard let self else { return }
            if failure == nil, self.attempt?.choosesBearer == true { self.preferLowEnergy(path) }
            self.end(failure.map { .failure($0) } ?? .success(self.address))
        }
    }

    /// Apps connect for attributes; the classic side's profiles are connected by bluetoothd or by the accessory.
    private func preferLowEnergy(_ path: ObjectPath) {
        connection.call(.preferredBearer, at: path, [.variant(.string("le"))]) { [log] result in
            if case .failure(let error) = result { log.debug("PreferredBearer not set", metadata: ["error": "\(error)"]) }
        }
    }

    func cancel() {
        if let attempt, state == .pairing { return attempt.cancel() }
        end(.failure(RadioFailure(.cancelled, "cancelled")))
    }

    /// The radio went away under it.
    func abort(_ failure: RadioFailure) {
        if let attempt, state == .pairing { return attempt.abort(failure) }
        end(.failure(failure))
    }

    /// BlueZ has dropped an object.
    func lost(_ path: ObjectPath) {
        if attempt?.device == path { attempt?.objectIsGone() }
    }

    private func end(_ result: Result<BluetoothAddress, RadioFailure>) {
        guard state != .ended else { return }
        if state == .searching { stopSearch() }
        watchdog?.cancel()
        change(.ended, "\(result)")
        completion(result)
    }

    private func change(_ new: State, _ reason: String) {
        log.debug("bridging \(state.rawValue) → \(new.rawValue)", metadata: ["reason": "\(reason)"])
        state = new
    }
}

extension Connection {
    /// Lets a device's services connect without asking.
    func trust(_ device: ObjectPath, completion: @escaping (RadioFailure?) -> Void) {
        call(.trust, at: device, [.variant(.boolean(true))]) { result in
            if case .failure(let error) = result {
                completion(RadioFailure(.other, "the accessory could not be trusted: \(error.message)"))
            } else {
                completion(nil)
            }
        }
    }
}

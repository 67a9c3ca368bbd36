// SPDX-License-Identifier: Apache-2.0
// The setup of one accessory at a time: pairing, then its classic side and its use as an input device, and the removal
// of a pairing that failed.

internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

/// One step of a setup, which ends exactly once.
protocol PairingStep: AnyObject {
    var adapter: ObjectPath { get }
    /// The attempt to pair a device, while it lasts.
    var attempt: PairingAttempt? { get }
    func cancel()
    /// The radio cannot be used any more.
    func abort(_ failure: RadioFailure)
}

/// The owner of the work for one accessory.
final class Pairings {
    /// News for the radio.
    enum Event {
        case prompted(PairingPrompt)
        case bridgingStarted
        /// Pairing has replaced a private address by the identity address.
        case replaced(BluetoothAddress)
        case ended(Result<PairedIdentity, RadioFailure>)
    }

    private enum State {
        case idle
        /// bluetoothd removes the device, or has just removed it: the next advert makes its object anew.
        case expecting(RadioDeviceID, SupportOptions)
        /// The step may have ended: then the device is being removed.
        case running(any PairingStep)
        /// The bond is being removed, because a later step failed.
        case undoing
    }

    private let connection: Connection
    private let log: Logger
    private let devices: DeviceTable
    private let adapters: AdapterTable
    private let discovery: Discovery
    private let inputDirectory: String
    private let agent: PairingAgent
    private let onEvent: (Event) -> Void
    private let timer: Timers<Bool>
    private var state = State.idle
    lazy var failed = FailedPairings(
        on: connection, devices: devices, adapters: adapters, log: log,
        isBeingPaired: { [weak self] in self?.isPairing($0) == true })
    lazy var lateLinks = LateLinks(on: connection) { [weak self] device in
        guard let self, let entry = devices[device], !entry.advertisement.isPaired, !isPairing(device) else { return }
        log.notice("disconnecting a link that no program is waiting for")
        failed.remove(device, isOurs: false) {}
    }

    /// How long a device that is to be paired may take to be heard again.
    private static let returnTimeout = Duration.seconds(10)
    private static let busy = RadioFailure(.busy, "another pairing is running")

    init(
        on connection: Connection, devices: DeviceTable, adapters: AdapterTable, discovery: Discovery, agent: PairingAgent,
        inputDirectory: String, log: Logger, onEvent: @escaping (Event) -> Void
    ) {
        self.connection = connection
        self.devices = devices
        self.adapters = adapters
        self.discovery = discovery
        self.inputDirectory = inputDirectory
        self.log = log
        self.onEvent = onEvent
        self.agent = agent
        timer = Timers(on: connection.loop)
    }

    // MARK: Requests

    func pair(_ device: RadioDeviceID, support: SupportOptions) {
        guard case .idle = state else {
            connection.loop.soon { [weak self] in self?.onEvent(.ended(.failure(Self.busy))) }
            return
        }
        if let entry = devices[device.rawValue], !entry.isBeingRemoved { return pair(entry, support) }
        log.debug("pairing is waiting to hear the device again")
        state = .expecting(device, support)
        timer.start(true, after: Self.returnTimeout) { [weak self] in
            self?.end(.failure(RadioFailure(.connection, "the accessory is gone: it was not heard again within 10 s")))
        }
    }

    func bridge(
        _ peer: BluetoothPeer, classic: BluetoothAddress?,
        completion: @escaping (Result<BluetoothAddress, RadioFailure>) -> Void
    ) {
        guard case .idle = state else { return completion(.failure(Self.busy)) }
        startBridge(peer, classic: classic) { [weak self] result in
            self?.state = .idle
            completion(result)
        }
    }

    func answer(_ answer: PromptAnswer) {
        agent.answer(answer)
        attempt?.handle(.answered)
    }

    func cancel() {
        switch state {
        case .idle, .undoing: break
        case .expecting: end(.failure(RadioFailure(.cancelled, "cancelled")))
        case .running(let step): step.cancel()
        }
    }

    // MARK: Changes of the radio

    func serviceChanged(_ owner: String?) {
        agent.owner = owner
        lateLinks.endAll()
        abort(RadioFailure(.unavailable, "bluetoothd is gone"))
    }

    /// Ends the work on an adapter that is not among the usable ones.
    func use(_ usable: Set<ObjectPath>, reason: String) {
        guard case .running(let step) = state, !usable.contains(step.adapter) else { return }
        step.abort(RadioFailure(.unavailable, reason))
    }

    /// The radio, or the adapter at work, cannot be used any more.
    func abort(_ failure: RadioFailure) {
        switch state {
        case .idle, .undoing: break
        case .expecting: end(.failure(failure))
        case .running(let step): step.abort(failure)
        }
    }

    func deviceAdded(_ device: Device) {
        if device.advertisement.isConnected { lateLinks.connected(device.path) }
        if case .expecting(device.advertisement.device, let support) = state { pair(device, support) }
    }

    func deviceRemoved(_ path: ObjectPath) {
        if isPairing(path) { attempt?.handle(.objectRemoved) }
    }

    // MARK: Steps

    private var attempt: PairingAttempt? { if case .running(let step) = state { step.attempt } else { nil } }

    private func isPairing(_ device: ObjectPath) -> Bool { attempt?.device == device }

    private func pair(_ entry: Device, _ support: SupportOptions) {
        timer.cancelAll()
        lateLinks.end(entry.path)
        let attempt = PairingAttempt(
            of: entry.path, on: connection, agent: agent, log: log,
            isConnected: { [weak entry] in entry?.advertisement.isConnected == true },
            onPrompt: { [weak self] in self?.onEvent(.prompted($0)) },
            completion: { [weak self] in self?.paired(entry, support, $0) })
        state = .running(attempt)
        attempt.handle(.begin(isPaired: entry.advertisement.isPaired))
    }

    private func paired(_ entry: Device, _ support: SupportOptions, _ result: Result<PairingAttempt.Outcome, RadioFailure>) {
        switch result {
        case .success(let outcome):
            var identity = outcome.identity
            identity.adapter = entry.advertisement.adapter
            let former = entry.advertisement.address
            devices.setAddress(identity.address, of: entry)
            if former != identity.address { onEvent(.replaced(former)) }
            // The signal may be on its way.
            entry.advertisement.isPaired = outcome.isBonded
            support.contains(.transportBridging) ? bridge(entry, identity, support) : setUpInput(entry, identity, support)
        // The device belongs to the program that pairs it.
        case .failure(let failure) where failure.reason == .busy: end(.failure(failure))
        case .failure(let failure):
            failed.removeUnpaired(entry.path) { [weak self] in self?.end(.failure(failure)) }
        }
    }

    private func bridge(_ entry: Device, _ identity: PairedIdentity, _ support: SupportOptions) {
        onEvent(.bridgingStarted)
        startBridge(identity.peer, classic: nil) { [weak self] result in
            guard let self else { return }
            switch result {
            case .success(let classic):
                let bridged = PairedIdentity(
                    address: identity.address, adapter: identity.adapter, device: identity.device,
                    wasPairedBefore: identity.wasPairedBefore, classicAddress: classic)
                setUpInput(entry, bridged, support)
            case .failure(let failure): undo(entry, identity, failure)
            }
        }
    }

    private func startBridge(
        _ peer: BluetoothPeer, classic: BluetoothAddress?,
        completion: @escaping (Result<BluetoothAddress, RadioFailure>) -> Void
    ) {
        guard let device = devices.device(for: peer), case let adapter = device.adapter, adapters.contains(adapter)
        else { return completion(.failure(RadioFailure(.connection, "the accessory is gone"))) }
        let target = classic ?? peer.address
        let bridge = ClassicBridge(
            on: adapter, address: target, connection: connection, agent: agent, log: log,
            device: { [devices] in
                target.value == peer.address.value ? device.path : devices.device(valued: target.value, on: adapter)?.path
            },
            endSearch: { [discovery] in discovery.endOther(on: adapter) },
            onPrompt: { [weak self] in self?.onEvent(.prompted($0)) },
            completion: { [discovery] result in
                discovery.renewFilter()
                completion(result)
            })
        state = .running(bridge)
        bridge.begin()
    }

    private func setUpInput(_ entry: Device, _ identity: PairedIdentity, _ support: SupportOptions) {
        guard support.contains(.hid) else { return end(.success(identity)) }
        let setup = InputDeviceSetup(of: entry.path, address: identity.address, directory: inputDirectory, on: connection) {
            [weak self] failure in
            if let failure { self?.undo(entry, identity, failure) } else { self?.end(.success(identity)) }
        }
        state = .running(setup)
        setup.begin()
    }

    /// The accessory is paired and lacks a required feature: its bond is removed, unless it is older.
    private func undo(_ entry: Device, _ identity: PairedIdentity, _ failure: RadioFailure) {
        guard !identity.wasPairedBefore else { return end(.failure(failure)) }
        state = .undoing
        failed.remove(entry.path, isOurs: true) { [weak self] in
            guard let self else { return }
            // `other` has the engine keep its record of the bond, for a daemon that ends before the retry.
            end(.failure(failed.isLeft(entry.path) ? RadioFailure(.other, failure.message) : failure))
        }
    }

    private func end(_ result: Result<PairedIdentity, RadioFailure>) {
        timer.cancelAll()
        state = .idle
        discovery.renewFilter()
        onEvent(.ended(result))
    }
}

// SPDX-License-Identifier: Apache-2.0
// BlueZ as the engine's radio, on a bus connection of its own: composes the owners of objects, discovery, adverts and
// pairing, and reports to the engine. Which accessories are offered is decided there.

public import AccessoryCore
public import AccessoryEngine
public import AccessoryModel
public import DBusKit
public import Logging

internal import BlueZInterfaces
internal import CallsOut

/// The Bluetooth radio of BlueZ (org.bluez), on all adapters that the configuration allows.
public final class BlueZRadio: Radio {
    private struct Options {
        let connection: Connection
        let log: Logger
        let inputDirectory: String
        let feed: Connection.Address?
        let monitors: MonitorUse
    }

    /// The state that the observer has been notified of.
    private struct Published {
        var state = RadioState.absent
        var adapters: [RadioAdapter] = []
    }

    /// Held weakly; called on the main loop's thread.
    public weak var observer: (any RadioObserver)? {
        didSet { handOver.observer = observer }
    }
    private let options: Options
    private var connection: Connection { options.connection }
    private var log: Logger { options.log }
    private let agent: PairingAgent
    private let adapterTable: AdapterTable
    private let devices = DeviceTable()
    private var published = Published()
    private lazy var discovery = Discovery(
        on: connection, log: log, onNeedChange: { [weak self] in self?.needChanged($0) },
        onFailure: { [weak self] in self?.observer?.discoveryFailed($0) })
    private lazy var handOver = HandOver(of: devices, on: connection.loop)
    private lazy var objects = ObjectReader(
        on: connection, feed: options.feed, devices: devices, adapters: adapterTable, handOver: handOver, log: log,
        onEvent: { [weak self] in self?.handle($0) })
    private lazy var followed = FollowedDevices(
        on: connection, devices, adapterTable, handOver, onLinkChange: { [weak self] in self?.observer?.deviceChanged($0) },
        onHeard: { [weak self] in self?.observer?.heard([$0]) })
    private lazy var monitors = AdvertMonitors(
        on: connection, options.monitors, log: log, onEvent: { [weak self] in self?.handle($0) })
    private lazy var pairings = Pairings(
        on: connection, devices: devices, adapters: adapterTable, discovery: discovery, agent: agent,
        inputDirectory: options.inputDirectory, log: log, onEvent: { [weak self] in self?.handle($0) })

    /// - Parameters:
    ///   - connection: one of the radio's own; agent, discovery filter and pairing belong to the connection that asks.
    ///   - adapters: names (`hci1`) or addresses of the adapters to use; without one all are used.
    ///   - inputDirectory: where the kernel lists input devices.
    ///   - feed: the bus that `connection` is on, for a connection that only listens for adverts; nil does without.
    ///   - monitors: the controllers that compare the adverts of observed accessories.
    public init(
        on connection: Connection, adapters: [String], inputDirectory: String = "/sys/class/input",
        feed: Connection.Address? = nil, monitors: MonitorUse = .offloaded, log: Logger
    ) throws(BusError) {
        options = Options(connection: connection, log: log, inputDirectory: inputDirectory, feed: feed, monitors: monitors)
        adapterTable = AdapterTable(allowing: Set(adapters))
        agent = try PairingAgent()
    }

    /// Follows bluetoothd on the bus, and its objects while it runs.
    public func start() {
        let server = ObjectServer(on: connection, root: PairingAgent.path)
        server.export(agent)
        connection.onCall = { [unowned self] in monitors.serve($0) || server.serve($0) }
        objects.start()
    }

    // MARK: Radio

    /// `absent` until bluetoothd was looked for.
    public var state: RadioState { published.state }

    /// All adapters, by their names.
    public var adapters: [RadioAdapter] { published.adapters }

    /// Whether the state has been read: the service was looked for, and its objects read if it runs.
    public var isSettled: Bool { objects.isSettled }

    /// `StartDiscovery` with our filter (org.bluez.Adapter), while a token lives.
    public func discover() -> DiscoveryToken { discovery.token() }

    /// Follows the devices' signals without `StartDiscovery`.
    public func listen() -> DiscoveryToken { discovery.token(searching: false) }

    /// Pairs (org.bluez.Device), then pairs the classic side and waits for the input device, as `support` says. A
    /// device whose pairing failed is removed from BlueZ, unless it is bonded all the same. A device without an object,
    /// such as one that was just removed, may take 10 s to be heard again.
    public func pair(_ device: RadioDeviceID, support: SupportOptions) { pairings.pair(device, support: support) }

    /// Pairs the classic side, on the adapter that has the accessory. `busy` while anything else is paired.
    public func bridge(
        _ peer: BluetoothPeer, classic: BluetoothAddress?,
        completion: @escaping (Result<BluetoothAddress, RadioFailure>) -> Void
    ) {
        pairings.bridge(peer, classic: classic, completion: completion)
    }

    /// Answers BlueZ's agent call; without effect when none is pending.
    public func answer(_ answer: PromptAnswer) { pairings.answer(answer) }

    /// Cancels the pairing, be it of the device, of its classic side or of its input device.
    public func cancelPairing() { pairings.cancel() }

    /// Sets BlueZ's `Alias` (org.bluez.Device); a failure is only logged.
    public func setAlias(_ peer: BluetoothPeer, _ name: String) {
        guard let device = devices.device(for: peer) else { return }
        connection.call(.alias, at: device.path, [.variant(.string(name))]) { [log] result in
            if let error = result.error { log.debug("Alias not set", metadata: ["error": "\(error)"]) }
        }
    }

    /// `RemoveDevice` (org.bluez.Adapter). `unavailable` when the adapter is gone.
    public func removeBond(
        _ peer: BluetoothPeer, device hint: RadioDeviceID?, wasPairing: Bool,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        // An adapter that is gone returns with its bonds.
        guard let owner = objects.owner, adapterTable.hasAdapter(of: peer) else {
            return completion(.failure(RadioFailure(.unavailable, "bluetoothd or its adapter is gone")))
        }
        let hinted = hint.flatMap { devices[$0.rawValue] }.flatMap { peer.shares($0.advertisement.adapter) ? $0 : nil }
        let entry = devices.device(for: peer) ?? hinted
        if wasPairing, let path = entry?.path ?? hint.flatMap({ ObjectPath($0.rawValue) }) {
            pairings.lateLinks.watch(path, of: owner)
        }
        guard let entry else { return completion(.success(())) }
        guard adapterTable.contains(entry.adapter) else {
            return completion(.failure(RadioFailure(.unavailable, "the adapter is gone")))
        }
        devices.requestRemoval(of: entry.path, by: .bondRemoval, at: entry.adapter, over: connection) { result in
            switch result.error {
            case nil: completion(.success(()))
            case let error? where error.bluez == .doesNotExist: completion(.success(()))
            case let error?: completion(.failure(RadioFailure(.other, "\(error)")))
            }
        }
    }

    /// Devices that BlueZ calls paired, as they were last read.
    public var bonds: [RadioBond] { devices.bonds }

    /// Reads all objects of BlueZ anew; completed at once when it is not running.
    public func refresh(_ completion: @escaping () -> Void) { objects.readAll(completion) }

    /// The object path; nil when BlueZ has no object for it.
    public func device(for peer: BluetoothPeer) -> RadioDeviceID? {
        devices.device(for: peer).map { RadioDeviceID($0.path.rawValue) }
    }

    /// `Connected` and the percentage of org.bluez.Battery1, as they were read last: an idle radio follows neither.
    public func link(with peer: BluetoothPeer) -> RadioLink {
        var link = RadioLink()
        guard let device = devices.device(for: peer) else { return link }
        link.name = device.advertisement.localName
        guard device.advertisement.isConnected else { return link }
        link.isConnected = true
        link.battery = device.battery
        return link
    }

    /// A match rule for each device's object.
    public func follow(_ peers: [BluetoothPeer]) { followed.follow(peers, of: objects.owner) }

    /// A monitor on each adapter whose controller compares adverts by itself (org.bluez.AdvertisementMonitorManager).
    public func monitor(_ patterns: [AdvertPattern]) {
        monitors.setPatterns(patterns)
        updateMonitors(adapterTable.usable)
    }

    /// Whether bluetoothd has activated a monitor.
    public var isMonitoring: Bool { monitors.isActive }

    /// `DeviceFound` without `DeviceLost`, of a device that has an object.
    public func isMonitored(_ address: BluetoothAddress) -> Bool {
        devices.objects(at: address).contains { monitors.hears($0.path) }
    }

    /// The object of the adapter that apps see that have no accessory on another one; nil without an adapter.
    public var adapter: ObjectPath? { adapterTable.primary }

    /// An adapter's object; `adapter` where the address is nil. Nil while the adapter is absent.
    public func object(of address: BluetoothAddress?) -> ObjectPath? {
        address.map { adapterTable.object(of: $0) } ?? adapterTable.primary
    }

    // MARK: Changes

    private func handle(_ event: ObjectReader.Event) {
        followed.update(owner: objects.owner)
        switch event {
        case .serviceChanged(let owner):
            pairings.serviceChanged(owner)
            publish(reason: owner == nil ? "bluetoothd is not running" : "bluetoothd has started")
            observer?.deviceChanged(nil)
        case .adaptersChanged(let reason): publish(reason: reason)
        case .discoveringChanged(let adapter, let isDiscovering): discovery.discoveringChanged(adapter, isDiscovering)
        case .deviceAdded(let device):
            pairings.deviceAdded(device)
            if monitors.hears(device.path) { observer?.monitorChanged(device.advertisement.address) }
        case .deviceRemoved(let device):
            pairings.deviceRemoved(device.path)
            monitors.deviceRemoved(device.path)
        case .lost(let address): observer?.lost(address)
        case .deviceChanged(let address): observer?.deviceChanged(address)
        }
    }

    private func handle(_ event: AdvertMonitors.Event) {
        switch event {
        case .activityChanged: observer?.monitoringChanged()
        case .deviceUnknown(let path):
            // Without any power the state of the radio says it all.
            if let device = devices[path], state == .ready { observer?.monitorEnded(device.advertisement.address) }
        case .deviceChanged(let path):
            // One without an object is reported with that.
            if let device = devices[path], state == .ready { observer?.monitorChanged(device.advertisement.address) }
        }
    }

    private func updateMonitors(_ powered: Set<ObjectPath>) {
        monitors.update(powered: powered, isPresent: { adapterTable.contains($0) }, of: objects.owner)
    }

    private func handle(_ event: Pairings.Event) {
        switch event {
        case .prompted(let prompt): observer?.pairingPrompted(prompt)
        case .bridgingStarted: observer?.bridgingStarted()
        case .replaced(let address): observer?.lost(address)
        case .ended(let result): observer?.pairingEnded(result)
        }
    }

    /// Reports changes of the adapters, and ends the pairing on an adapter that cannot be used any more.
    private func publish(reason: String) {
        devices.adapters = adapterTable.radioAdapters
        let usable = adapterTable.choosePrimary()
        discovery.use(usable)
        pairings.use(usable, reason: reason)
        let former = published
        published = Published(state: adapterTable.state, adapters: devices.adapters.values.sorted { $0.name < $1.name })
        if state != former.state {
            if state != .ready { pairings.abort(RadioFailure(.unavailable, reason)) }
            observer?.radioChanged(state, reason: reason)
        }
        updateMonitors(usable)
        guard adapters != former.adapters else { return }
        // Another adapter may still hear a device that this one does not.
        if discovery.isNeeded { handOver.handContent() }
        observer?.adaptersChanged()
        pairings.failed.retryAll()
    }

    private func needChanged(_ isNeeded: Bool) {
        if isNeeded {
            let isFollowing = handOver.isRunning
            handOver.begin()
            // A device whose strength does not change is signalled once in a search.
            if isFollowing { objects.readAll() } else { objects.followAdverts(true) }
        } else {
            objects.followAdverts(false)
            handOver.end()
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// The objects of bluetoothd: the owner of the name, readings of all objects, and the signals in between. Properties are
// kept in the two tables; their meaning is decided elsewhere.

internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

/// Keeps the tables of adapters and devices up to date while bluetoothd runs.
final class ObjectReader {
    /// A change that the tables already have.
    enum Event {
        /// bluetoothd has started, or is gone. The tables are empty.
        case serviceChanged(owner: String?)
        /// Adapters may have changed, and their devices have been read; the reason is for people.
        case adaptersChanged(reason: String)
        case discoveringChanged(ObjectPath, Bool)
        case deviceAdded(Device)
        case deviceRemoved(Device)
        /// No object has this address any more.
        case lost(BluetoothAddress)
        /// The object for an address, or its link, has changed; nil for all devices.
        case deviceChanged(BluetoothAddress?)
    }

    /// The objects whose signals a connection carries. While adverts are needed, those of devices come over the feed,
    /// so that none overtakes another; those of adapters always come in order with the answers to calls.
    private struct ObjectScope: OptionSet {
        let rawValue: Int
        static let devices = ObjectScope(rawValue: 1)
        static let adapters = ObjectScope(rawValue: 2)
    }

    /// One reading of all objects. Requests during it are served by the next one, as its result may be too old for
    /// them.
    private final class Reading {
        var completions: [() -> Void]
        var later: [() -> Void] = []

        init(for completions: [() -> Void]) { self.completions = completions }

        /// Begins anew, which serves the later requests as well.
        func restart() {
            completions += later
            later = []
        }

        func end() { for completion in completions { completion() } }
    }

    /// bluetoothd while it runs.
    private struct Service {
        let owner: String
        var subscriptions: [Subscription] = []
        var reading: Reading?
        /// Since adapters were read once, signals report all changes.
        var hasReadAdapters = false
    }

    /// Whether the service was looked for, and its objects read if it runs.
    private(set) var isSettled = false
    private let connection: Connection
    private let log: Logger
    private let devices: DeviceTable
    private let adapters: AdapterTable
    private let handOver: HandOver
    private let feedAddress: Connection.Address?
    private let onEvent: (Event) -> Void
    private let retry: Retry
    private var nameWatch: Subscription?
    private var service: Service?
    private lazy var signals = DeviceSignals(
        on: connection, feed: feedAddress, into: devices, handOver, log: log,
        DeviceSignals.Handlers(
            onLinkChange: { [weak self] in self?.onEvent(.deviceChanged($0)) },
            onAdded: { [weak self] in self?.added(.devices, $0) },
            onRemoved: { [weak self] in self?.removed(.devices, $0) },
            onSwitch: { [weak self] in self?.readAll() }))

    /// - Parameters:
    ///   - feed: the bus for a connection that only listens for adverts; nil reads them over `connection`.
    ///   - handOver: receives the devices that were heard.
    init(
        on connection: Connection, feed: Connection.Address?, devices: DeviceTable, adapters: AdapterTable, handOver: HandOver,
        log: Logger, onEvent: @escaping (Event) -> Void
    ) {
        self.connection = connection
        feedAddress = feed
        self.devices = devices
        self.adapters = adapters
        self.handOver = handOver
        self.log = log
        self.onEvent = onEvent
        retry = Retry(1...16, connection.loop.once)
    }

    /// bluetoothd's unique name; nil while it does not run.
    var owner: String? { service?.owner }
    /// Whether a reading is pending, which reports adapters together with their devices.
    private var isReading: Bool { service?.reading != nil }

    func start() {
        nameWatch = connection.watchName(BlueZ.service) { [weak self] in self?.ownerChanged($0) }
    }

    /// Adverts are needed from now on, or no longer.
    func followAdverts(_ areNeeded: Bool) {
        let wasFed = areNeeded ? false : signals.stop()
        if areNeeded { signals.listen(to: owner) }
        // Devices that were added and removed without a subscription, or signals that the feed has not delivered.
        if areNeeded || wasFed, owner != nil { readAll() }
    }

    private func ownerChanged(_ new: String?) {
        guard new != owner else {
            if new == nil { isSettled = true }
            return
        }
        for subscription in service?.subscriptions ?? [] { subscription.cancel() }
        service?.reading?.restart()
        service = new.map { Service(owner: $0) }
        signals.listen(to: nil)
        adapters.removeAll()
        devices.removeAll()
        onEvent(.serviceChanged(owner: new))
        guard let new else { return }
        let subscriptions = [
            subscribe(to: "InterfacesAdded", of: new) { $0.added($0.ownScope, $1) },
            subscribe(to: "InterfacesRemoved", of: new) { $0.removed($0.ownScope, $1) },
            connection.subscribe(
                sender: new, interface: Bus.properties, member: "PropertiesChanged", argument0: Adapter1.interface
            ) { [weak self] in self?.adapterChanged($0) },
        ]
        service?.subscriptions = subscriptions
        if handOver.isRunning { signals.listen(to: new) }
        readAll()
    }

    private func subscribe(
        to member: String, of owner: String, _ handler: @escaping (ObjectReader, Message) -> Void
    ) -> Subscription {
        connection.subscribe(sender: owner, path: BlueZ.root, interface: Bus.objectManager, member: member) {
            [weak self] message in
            if let self { handler(self, message) }
        }
    }

    /// The objects whose signals come over the radio's own connection now.
    private var ownScope: ObjectScope { signals.feed == nil ? [.devices, .adapters] : .adapters }

    // MARK: Readings

    /// Reads all objects, at the start and after signals may have been missed. One reading is made at a time: searches
    /// may begin and end faster than bluetoothd answers.
    func readAll(_ completion: @escaping () -> Void = {}) {
        guard service != nil else { return completion() }
        if let reading = service?.reading { return reading.later.append(completion) }
        begin(Reading(for: [completion]))
    }

    private func begin(_ reading: Reading) {
        service?.reading = reading
        reading.restart()
        guard let feed = signals.feed else { return read(ownScope, over: nil, reading) { [weak self] in self?.end(reading) } }
        // The devices first: an adapter counts once its devices are read. In a crowd all objects are tens of megabytes,
        // so that adapters that were read already are not read again.
        read(.devices, over: feed, reading) { [weak self] in
            guard let self else { return }
            guard service?.hasReadAdapters == true else { return read(ownScope, over: nil, reading) { self.end(reading) } }
            onEvent(.adaptersChanged(reason: "the adapter is present"))
            end(reading)
        }
    }

    private func end(_ reading: Reading) {
        service?.reading = nil
        if !reading.later.isEmpty { begin(Reading(for: reading.later)) }
        reading.end()
    }

    private func read(_ scope: ObjectScope, over feed: SignalFeed?, _ reading: Reading, _ completion: @escaping () -> Void) {
        let presentFeed = signals.feed
        let onAnswer: (Result<Message, BusError>) -> Void = { [weak self] result in
            // The next bluetoothd has a reading of its own.
            guard let self, service?.reading === reading else { return reading.end() }
            // Signals of another connection may be newer.
            guard signals.feed === presentFeed else { return begin(reading) }
            defer { completion() }
            switch result {
            case .failure(let error):
                log.error("BlueZ' objects cannot be read", metadata: ["error": "\(error)"])
                retry.schedule { [weak self] in self?.readAll() }
            case .success(let reply):
                retry.reset()
                replace(scope, by: reply)
            }
            if scope.contains(.adapters) { isSettled = true }
        }
        if let feed {
            feed.ask(.radioObjects, at: BlueZ.root, completion: onAnswer)
        } else {
            connection.ask(.radioObjects, at: BlueZ.root, completion: onAnswer)
        }
    }

    /// Merges the answer of `GetManagedObjects`, and drops all other objects.
    private func replace(_ scope: ObjectScope, by reply: Message) {
        var paths: Set<String> = []
        reply.withArguments { objects in
            objects.forEachEntry { entry in
                guard let path = entry.string.flatMap({ ObjectPath($0) }) else { return }
                entry.next()
                paths.insert(path.rawValue)
                merge(scope, path, &entry, isNew: false)
            }
        }
        if scope.contains(.devices) {
            for address in devices.keep(only: paths) { onEvent(.lost(address)) }
        }
        if scope.contains(.adapters) {
            adapters.keep(only: paths)
            service?.hasReadAdapters = true
            onEvent(.adaptersChanged(reason: "the adapter is present"))
        }
        onEvent(.deviceChanged(nil))
        handOver.schedule()
    }

    /// Merges an object's interfaces (`a{sa{sv}}` under the cursor).
    private func merge(_ scope: ObjectScope, _ path: ObjectPath, _ interfaces: inout ValueCursor, isNew: Bool) {
        var (hasDevice, battery): (Bool, Int?) = (false, nil)
        interfaces.forEachEntry { entry in
            if scope.contains(.adapters), entry.isString(equalTo: Adapter1.interface) {
                entry.next()
                mergeAdapter(path, &entry)
            } else if scope.contains(.devices), entry.isString(equalTo: Device1.interface) {
                entry.next()
                devices.merge(path, &entry, isNew: isNew)
                hasDevice = true
            } else if scope.contains(.devices), entry.isString(equalTo: Battery1.interface) {
                entry.next()
                entry.forEachProperty(of: Battery1.self) { _, value in battery = value.byte.map { min(Int($0), 100) } }
            }
        }
        // The battery's interface stands before the device's, or is added later.
        if hasDevice || battery != nil { devices[path]?.battery = battery }
    }

    private func mergeAdapter(_ path: ObjectPath, _ properties: inout ValueCursor) {
        if let isDiscovering = adapters.merge(path, &properties) { onEvent(.discoveringChanged(path, isDiscovering)) }
    }

    // MARK: Signals

    private func added(_ scope: ObjectScope, _ message: Message) {
        message.withArguments { arguments in
            guard let path = arguments.string.flatMap({ ObjectPath($0) }) else { return }
            arguments.next()
            let isNewAdapter = !adapters.contains(path)
            merge(scope, path, &arguments, isNew: true)
            // The devices that the adapter remembers are added after it.
            if isNewAdapter, adapters.contains(path) { readAll() }
            guard scope.contains(.devices), let device = devices[path] else { return }
            onEvent(.deviceChanged(device.advertisement.address))
            handOver.schedule()
            onEvent(.deviceAdded(device))
        }
    }

    private func removed(_ scope: ObjectScope, _ message: Message) {
        guard let (path, names) = message.removedInterfaces else { return }
        if scope.contains(.adapters), names.contains(Adapter1.interface), adapters.remove(path) {
            onEvent(.adaptersChanged(reason: "the adapter \(path) was removed"))
        }
        guard scope.contains(.devices) else { return }
        if names.contains(Battery1.interface), let device = devices[path] {
            device.battery = nil
            onEvent(.deviceChanged(device.advertisement.address))
        }
        guard names.contains(Device1.interface), let removed = devices.remove(path) else { return }
        onEvent(.deviceRemoved(removed.device))
        let address = removed.device.advertisement.address
        if removed.isHeardStill { handOver.schedule() } else { onEvent(.lost(address)) }
        onEvent(.deviceChanged(address))
    }

    private func adapterChanged(_ message: Message) {
        guard let path = message.path, adapters.contains(path) else { return }
        message.withArguments { arguments in
            arguments.next()
            mergeAdapter(path, &arguments)
        }
        guard !isReading else { return }
        onEvent(.adaptersChanged(reason: adapters.isPowered(path) ? "the adapter \(path) has power" : "the adapter \(path) is off"))
    }
}

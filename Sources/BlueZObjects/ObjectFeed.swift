// SPDX-License-Identifier: Apache-2.0
// The objects of org.bluez, loaded whole and kept up by signals on one connection. (BlueZ, org.bluez.Adapter(5),
// org.bluez.Device(5), org.bluez.GattCharacteristic(5))

internal import BlueZInterfaces
public import DBusKit

/// A change of the objects; the tree has it already.
public enum ObjectChange: Sendable {
    /// All objects were read anew: anything may have changed.
    case loaded
    /// Properties of a device, or the device itself.
    case device(ObjectPath, changed: Set<String>)
    /// BlueZ' reason for a link's end, before that is signalled. Since BlueZ 5.83.
    case endAnnounced(ObjectPath, reason: String)
    /// A service, characteristic or descriptor was added or removed.
    case attribute(ObjectPath, isGone: Bool)
    /// A characteristic has this value now.
    case value(ObjectPath, [UInt8])
    /// BlueZ has read the descriptor for writing to a characteristic to its end.
    case released(ObjectPath)
}

/// The object tree of one connection: to the scoped view, or to a bus with org.bluez.
public final class ObjectFeed {
    /// Reports to the owner.
    public enum Event {
        /// Another process owns the name: the objects of the former one are gone.
        case replaced
        /// The owner, the loading or the adapter may have changed.
        case stateChanged
        /// The view takes the process for no app.
        case refused
        case changed(ObjectChange)
    }

    /// How far the objects are known.
    public enum State {
        case unknown
        /// org.bluez has no owner.
        case absent
        /// `GetManagedObjects` is in flight. Signals that arrive meanwhile may be newer than its answer.
        case loading(PendingCall?, [(ObjectFeed) -> Void])
        /// It failed, and is called again after a pause; until then signals are applied.
        case unreadable(LoopSource)
        case loaded
    }

    private static let maxHeldSignals = 16_384
    private static let reloadPause = Duration.seconds(1)

    private let connection: Connection
    private let loop: MainLoop
    private let onEvent: (Event) -> Void
    private var nameWatch: Subscription?
    private var subscriptions: [Subscription] = []
    public private(set) var state = State.unknown
    public private(set) var tree = BlueZTree()
    /// The path of the latest signal.
    private var latestPath: ObjectPath?

    /// Begins to follow; `end()` ends it.
    public init(_ connection: Connection, _ loop: MainLoop, onEvent: @escaping (Event) -> Void) {
        self.connection = connection
        self.loop = loop
        self.onEvent = onEvent
        nameWatch = connection.watchName(BlueZ.service) { [weak self] in self?.ownerChanged($0) }
    }

    /// Forgets all objects, and follows no more.
    public func end() {
        nameWatch?.cancel()
        unload()
    }

    private func unload() {
        for subscription in subscriptions { subscription.cancel() }
        subscriptions = []
        tree = BlueZTree()
        setState(.absent)
    }

    private func setState(_ new: State) {
        switch state {
        case .loading(let call, _): call?.cancel()
        case .unreadable(let timer): timer.cancel()
        case .unknown, .absent, .loaded: break
        }
        state = new
    }

    private func ownerChanged(_ owner: String?) {
        unload()
        guard let owner else { return onEvent(.stateChanged) }
        onEvent(.replaced)
        subscriptions = [
            connection.subscribe(sender: owner, path: "/", interface: Bus.objectManager, member: "InterfacesAdded") {
                [weak self] message in
                guard let added = message.addedInterfaces(limits: .generous) else { return }
                self?.apply { $0.added(added.path, added.interfaces) }
            },
            connection.subscribe(sender: owner, path: "/", interface: Bus.objectManager, member: "InterfacesRemoved") {
                [weak self] message in
                guard let removed = message.removedInterfaces else { return }
                self?.apply { $0.removed(removed.path, removed.names) }
            },
            connection.subscribe(sender: owner, interface: Bus.properties, member: "PropertiesChanged") { [weak self] in
                self?.propertiesChanged($0)
            },
            connection.subscribe(sender: owner, interface: Device1.interface, member: Device1.Member.disconnected) {
                [weak self] message in
                guard let path = message.path, let reason = (try? message.arguments())?.first?.stringValue else { return }
                self?.apply { $0.publish(.endAnnounced(path, reason: reason)) }
            },
        ]
        load()
    }

    // MARK: Loading

    private func load() {
        setState(.loading(nil, []))
        let call = connection.call(BlueZ.service, "/", Bus.objectManager, "GetManagedObjects", limits: .generous) {
            [weak self] in self?.loaded($0)
        }
        state = .loading(call, [])
    }

    private func loaded(_ result: Result<[DBusValue], BusError>) {
        guard case .loading(_, let signals) = state else { return }
        switch result {
        case .success(let values):
            tree.load(values.first)
            state = .loaded
            for signal in signals { signal(self) }
            publish(.loaded)
            onEvent(.stateChanged)
        case .failure(let error) where error.isStandard("AccessDenied"): onEvent(.refused)
        case .failure: state = .unreadable(loop.after(Self.reloadPause) { [weak self] in self?.load() })
        }
    }

    /// Applies a signal, now or once the objects are loaded.
    private func apply(_ signal: @escaping (ObjectFeed) -> Void) {
        guard case .loading(let call, var signals) = state else { return signal(self) }
        guard signals.count < Self.maxHeldSignals else { return }
        // The state must not hold a second reference during the append, which would copy all elements.
        state = .unknown
        signals.append(signal)
        state = .loading(call, signals)
    }

    private func publish(_ event: ObjectChange) { onEvent(.changed(event)) }

    // MARK: Signals

    private func propertiesChanged(_ message: Message) {
        guard let path = path(of: message) else { return }
        if let value = Self.valueAlone(message) { return apply { $0.publish(.value(path, value)) } }
        guard let (interface, changed, invalidated) = message.changedProperties else { return }
        apply { $0.changed(path, interface, changed, invalidated) }
    }

    /// A message's path. Many signals in a row come from one object, and a path costs as much to make as the rest.
    private func path(of message: Message) -> ObjectPath? {
        if let latestPath, message.hasPath(latestPath) { return latestPath }
        latestPath = message.path
        return latestPath
    }

    /// A characteristic's value, where the signal has nothing else: nearly all signals are such, thousands a second.
    private static func valueAlone(_ message: Message) -> [UInt8]? {
        guard message.hasFirstText(GattCharacteristic1.interface) else { return nil }
        var value: [UInt8]?
        var hasMore = false
        message.withArguments { cursor in
            cursor.next()
            cursor.forEachEntry { entry in
                guard entry.isString("Value") else {
                    hasMore = true
                    return
                }
                entry.next()
                entry.withVariant { value = $0.bytes }
            }
        }
        return hasMore ? nil : value
    }

    private func added(_ path: ObjectPath, _ interfaces: DBusValue) {
        let names = interfaces.entries?.compactMap(\.key.stringValue) ?? []
        let isFirstAdapter = names.contains(Adapter1.interface) && tree.adapter == nil
        tree.add(path, interfaces)
        if isFirstAdapter { return load() }
        if names.contains(Device1.interface), let device = tree.device(path) {
            var changed: Set<String> = ["Connected", "ServicesResolved", "Name"]
            // An object without a strength was loaded from disk, not discovered.
            if device.rssi != nil { changed.insert("RSSI") }
            publish(.device(path, changed: changed))
        } else if names.contains(where: { $0.hasPrefix("org.bluez.Gatt") }) {
            publish(.attribute(path, isGone: false))
        }
    }

    private func removed(_ path: ObjectPath, _ names: [String]) {
        tree.remove(path, names)
        if names.contains(Device1.interface) {
            publish(.device(path, changed: ["Connected"]))
        } else if names.contains(where: { $0.hasPrefix("org.bluez.Gatt") }) {
            publish(.attribute(path, isGone: true))
        }
        if names.contains(Adapter1.interface) { onEvent(.stateChanged) }
    }

    private func changed(
        _ path: ObjectPath, _ interface: String, _ changed: [String: DBusValue], _ invalidated: [String]
    ) {
        let wasPowered = interface == Adapter1.interface && tree.isPowered
        tree.change(path, interface, changed, invalidated: invalidated)
        switch interface {
        case GattCharacteristic1.interface:
            if let value = changed["Value"]?.bytesValue { publish(.value(path, value)) }
            if changed["WriteAcquired"]?.booleanValue == false { publish(.released(path)) }
        case Device1.interface: publish(.device(path, changed: Set(changed.keys)))
        case Adapter1.interface:
            // With the first grant the adapter gets its power, and its objects are signalled after that.
            if !wasPowered, tree.isPowered { load() } else { onEvent(.stateChanged) }
        default: break
        }
    }
}

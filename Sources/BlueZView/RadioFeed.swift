// SPDX-License-Identifier: Apache-2.0
// The view's own subscriptions to org.bluez, while a client needs them: the name's owner, the adapters, the objects
// and the links. Without clients and without lingering links only the name's owner remains.

internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit

/// Receives the feed's changes.
protocol RadioFeedObserver: AnyObject {
    /// The service has an owner, and its objects are known (each owner has a new alias), or it has none.
    func serviceChanged()
    /// An adapter has come, has gone, or has other properties.
    func adapterChanged()
    /// `InterfacesAdded`, as it came.
    func objectsAdded(_ path: ObjectPath, _ interfaces: [String: DBusValue])
    /// `InterfacesRemoved`, as it came.
    func objectsRemoved(_ path: ObjectPath, _ interfaces: [String])
    /// A report of a link, as an event for LinkShares.
    func linkHeard(_ event: LinkShares.Event)
    /// `Disconnected`, as received: the reason for a link's end, which is signalled next. Since bluetoothd 5.83.
    func linkEnds(_ device: ObjectPath, _ message: Message)
}

/// The process that owns a name; nil where the bus does not know it.
struct ServiceProcess: Hashable, Sendable {
    var uid: UInt32?
    var pid: UInt32?

    /// Takes the answer of `GetConnectionCredentials`.
    init(_ credentials: [String: DBusValue]) {
        uid = credentials["UnixUserID"]?.integerValue.flatMap { UInt32(exactly: $0) }
        pid = credentials["ProcessID"]?.integerValue.flatMap { UInt32(exactly: $0) }
    }

    init(uid: UInt32, pid: Int32) {
        self.uid = uid
        self.pid = UInt32(exactly: pid)
    }
}

/// The state of org.bluez, on the view's own connection.
final class RadioFeed {
    /// Whether org.bluez is there.
    private enum Service: Equatable {
        /// Not asked for, or not answered yet.
        case unknown
        case absent
        /// Its owner, and the name that our clients know it by.
        case present(owner: String, alias: String)
    }

    private weak var observer: (any RadioFeedObserver)?
    private var service = Service.unknown
    private var known = KnownObjects()

    private let connection: Connection
    private var nameWatch: Subscription?
    private var subscriptions: [Subscription] = []
    private var linkSubscriptions: [ObjectPath: [Subscription]] = [:]
    private var aliases = Aliases()
    private var following = Following.off
    /// Called once adapters and objects are known.
    private var waiting: [() -> Void] = []
    private let processes: ProcessReader

    private enum Following {
        case off
        /// `GetManagedObjects` is in flight.
        case loading
        case on
    }

    /// The service's objects, as signalled by now.
    private struct KnownObjects {
        /// Every adapter's properties.
        var adapters: [ObjectPath: [String: DBusValue]] = [:]
        /// Every object with the interfaces that may be shown.
        private(set) var objects: [ObjectPath: Set<String>] = [:]
        var attributes = Attributes()

        mutating func add(_ path: ObjectPath, _ interfaces: [String: DBusValue]) {
            let names = Set(interfaces.keys).intersection(Scope.shown)
            if !names.isEmpty { objects[path, default: []].formUnion(names) }
            attributes.add(path, interfaces)
            if let adapter = interfaces[Adapter1.interface]?.vardictValue { adapters[path] = adapter }
        }

        /// Adapters stay until their removal is signalled to clients.
        mutating func remove(_ path: ObjectPath, _ names: [String]) {
            if let left = objects[path]?.subtracting(names) { objects[path] = left.isEmpty ? nil : left }
            attributes.remove(path, names)
        }
    }

    /// The names of the service for clients: another one for each owner.
    private struct Aliases {
        var generation = 0
        /// The owner when an earlier run ended: its clients use the last generation.
        var formerOwner: String?

        mutating func next(for owner: String) -> String {
            if owner != formerOwner { (generation, formerOwner) = (generation + 1, nil) }
            return ":bluez.\(generation)"
        }
    }

    init(on connection: Connection) {
        self.connection = connection
        processes = ProcessReader(connection)
    }

    /// Begins with the name's owner.
    func start(observer: any RadioFeedObserver) {
        self.observer = observer
        nameWatch = connection.watchName(BlueZ.service) { [weak self] in self?.ownerChanged($0) }
    }

    /// The name that clients know the service by; nil while it is gone.
    var alias: String? { if case .present(_, let alias) = service { alias } else { nil } }
    /// The unique name of the service on its own bus; nil while it is gone.
    var owner: String? { if case .present(let owner, _) = service { owner } else { nil } }

    /// Every adapter's properties.
    var adapters: [ObjectPath: [String: DBusValue]] { known.adapters }
    /// Every object of the service's with the interfaces that may be shown.
    var objects: [ObjectPath: Set<String>] { known.objects }

    /// A characteristic of a device, as signalled by now; nil for one that is not known.
    func identity(of characteristic: ObjectPath, _ device: ObjectPath) -> CharacteristicIdentity? {
        known.attributes.identity(of: characteristic, device)
    }

    /// The UUID of a device's attribute, as signalled by now; nil for one that is not known.
    func uuid(of attribute: ObjectPath, _ device: ObjectPath) -> BluetoothUUID? { known.attributes.uuid(of: attribute, device) }

    /// Takes signals that wait to be read, before the objects are relied on.
    func catchUp() { connection.catchUp() }

    /// Asks the bus for the process of the service.
    func readProcess(_ completion: @escaping (Result<ServiceProcess, BusError>) -> Void) {
        processes.read(owner ?? BlueZ.service, completion)
    }

    // MARK: Following

    /// Follows adapters and objects while clients need them.
    func followObjects(_ areNeeded: Bool) {
        guard areNeeded != (following != .off) else { return }
        following = areNeeded ? .on : .off
        if areNeeded { load() } else { unload() }
    }

    /// Calls `body` once owner and objects are known, at once if they are.
    func whenReady(_ body: @escaping () -> Void) {
        guard service == .unknown || following == .loading else { return body() }
        waiting.append(body)
    }

    private func ownerChanged(_ new: String?) {
        guard new != owner || service == .unknown else { return }
        let wasPresent = alias != nil
        unload()
        if let new {
            service = .present(owner: new, alias: aliases.next(for: new))
            if wasPresent { observer?.serviceChanged() }
            if following != .off { return load() }
        } else {
            service = .absent
        }
        finishLoading()
        observer?.serviceChanged()
    }

    /// Everything is known, or will not be.
    private func finishLoading() {
        if following == .loading { following = .on }
        let bodies = waiting
        waiting = []
        for body in bodies { body() }
    }

    // MARK: Between two runs

    /// - Parameter devices: whose objects clients know.
    func leave(_ devices: Set<ObjectPath>) -> LeftState {
        let followed = objects.filter { path, _ in devices.contains { $0 == path || path.isBelow($0) } }
        return [
            "Owner": .string(owner ?? ""), "Generation": .uint32(UInt32(aliases.generation)),
            "KnownDevices": .objectPaths(devices.sorted()),
            "Objects": .dictionary(
                key: "o", value: "as", followed.map { .init(.objectPath($0.key), .strings($0.value.sorted())) }),
        ]
    }

    /// Goes on where an earlier run has ended, before anything is known.
    func resume(_ state: LeftState) {
        aliases.generation = state["Generation"]?.integerValue ?? 0
        aliases.formerOwner = state.text("Owner")
    }

    /// Reports objects of known devices that were added and removed between two
    /// runs.
    ///
    /// - Parameter completion: called before that, once it is known.
    func signalMissed(since state: LeftState, _ completion: @escaping () -> Void) {
        connection.call(.viewObjects, at: "/") { [weak self] result in
            completion()
            guard let self, self.owner == self.aliases.formerOwner, let entries = (try? result.get())?.first?.entries else {
                return
            }
            var former: [ObjectPath: Set<String>] = [:]
            for entry in state["Objects"]?.entries ?? [] {
                if let path = entry.key.objectPathValue { former[path] = Set(entry.value.stringsValue ?? []) }
            }
            let devices = state.paths("KnownDevices")
            for entry in entries {
                guard let path = entry.key.objectPathValue, devices.contains(where: { $0 == path || path.isBelow($0) }) else {
                    continue
                }
                let names = former.removeValue(forKey: path) ?? []
                let come = entry.value.dictionary.filter { !names.contains($0.key) }
                if !come.isEmpty { self.observer?.objectsAdded(path, come) }
                let gone = names.subtracting(entry.value.dictionary.keys)
                if !gone.isEmpty { self.observer?.objectsRemoved(path, gone.sorted()) }
            }
            for (path, names) in former.sorted(by: { $1.key < $0.key }) { self.observer?.objectsRemoved(path, names.sorted()) }
        }
    }

    private func load() {
        guard let owner else { return }
        following = .loading
        subscriptions = [
            connection.subscribe(sender: owner, path: "/", interface: Bus.objectManager, member: "InterfacesAdded") { [weak self] in
                self?.interfacesAdded($0)
            },
            connection.subscribe(sender: owner, path: "/", interface: Bus.objectManager, member: "InterfacesRemoved") {
                [weak self] in self?.interfacesRemoved($0)
            },
            connection.subscribe(
                sender: owner, interface: Bus.properties, member: "PropertiesChanged", argument0: Adapter1.interface
            ) { [weak self] in self?.adapterPropertiesChanged($0) },
        ]
        connection.call(.viewObjects, at: "/") { [weak self] result in
            guard let self, self.owner == owner, self.following != .off else { return }
            if case .failure = result { self.loadLater(owner) }
            for entry in (try? result.get())?.first?.entries ?? [] {
                guard let path = entry.key.objectPathValue else { continue }
                self.track(path, entry.value.dictionary)
            }
            self.finishLoading()
            self.observer?.serviceChanged()
        }
    }

    /// Reads the objects again: until then clients have those that were signalled.
    private func loadLater(_ asked: String) {
        connection.loop.after(.seconds(2)) { [weak self] in
            guard let self, self.owner == asked, self.following == .on else { return }
            for subscription in self.subscriptions { subscription.cancel() }
            self.load()
        }
    }

    private func unload() {
        for subscription in subscriptions + linkSubscriptions.values.joined() { subscription.cancel() }
        subscriptions = []
        linkSubscriptions = [:]
        observer?.linkHeard(.allUnfollowed)
        known = KnownObjects()
        if service != .unknown { finishLoading() }
    }

    private func track(_ path: ObjectPath, _ interfaces: [String: DBusValue]) {
        known.add(path, interfaces)
        if linkSubscriptions[path] != nil, let device = interfaces[Device1.interface]?.vardictValue { reportLink(device, path) }
    }

    private func interfacesAdded(_ message: Message) {
        guard following != .loading, let added = message.addedInterfaces() else { return }
        let (path, interfaces) = (added.path, added.interfaces.dictionary)
        let hadAdapter = adapters[path] != nil
        track(path, interfaces)
        if !hadAdapter, adapters[path] != nil { observer?.adapterChanged() }
        observer?.objectsAdded(path, interfaces)
    }

    private func interfacesRemoved(_ message: Message) {
        guard following != .loading, let (path, names) = message.removedInterfaces else { return }
        known.remove(path, names)
        if names.contains(Device1.interface) { observer?.linkHeard(.deviceRemoved(path)) }
        observer?.objectsRemoved(path, names)
        if names.contains(Adapter1.interface), known.adapters.removeValue(forKey: path) != nil { observer?.adapterChanged() }
    }

    private func adapterPropertiesChanged(_ message: Message) {
        guard let path = message.path, adapters[path] != nil, let (_, changed, invalidated) = message.changedProperties else {
            return
        }
        known.adapters[path]?.merge(changed) { _, new in new }
        for name in invalidated { known.adapters[path]?[name] = nil }
        observer?.adapterChanged()
    }

    // MARK: Links

    /// Follows the links of exactly these devices.
    func followLinks(of devices: Set<ObjectPath>) {
        for (path, subscriptions) in linkSubscriptions where !devices.contains(path) {
            for subscription in subscriptions { subscription.cancel() }
            linkSubscriptions[path] = nil
            observer?.linkHeard(.unfollowed(path))
        }
        guard let owner, following != .off else { return }
        for path in devices where linkSubscriptions[path] == nil {
            linkSubscriptions[path] = [
                connection.subscribe(
                    sender: owner, path: path, interface: Bus.properties, member: "PropertiesChanged",
                    argument0: Device1.interface
                ) { [weak self] message in
                    if let changed = message.changedProperties { self?.reportLink(changed.values, path) }
                },
                connection.subscribe(sender: owner, path: path, interface: Device1.interface, member: Device1.Member.disconnected) {
                    [weak self] in self?.observer?.linkEnds(path, $0)
                },
            ]
            if objects[path] != nil { readLink(path) {} }
        }
    }

    /// Asks whether a link is up, and reports it. The answer arrives after all earlier signals.
    func readLink(_ device: ObjectPath, _ completion: @escaping () -> Void) {
        connection.call(.viewLink, at: device) { [weak self] result in
            if let properties = (try? result.get())?.first?.vardictValue { self?.reportLink(properties, device) }
            completion()
        }
    }

    private func reportLink(_ properties: [String: DBusValue], _ device: ObjectPath) {
        observer?.linkHeard(
            .reported(
                device, isConnected: properties["Connected"]?.booleanValue,
                areServicesResolved: properties["ServicesResolved"]?.booleanValue))
    }

    /// Ends a link or an attempt.
    ///
    /// - Parameter completion: called when it has ended, or has not in time.
    func disconnect(_ device: ObjectPath, completion: @escaping () -> Void) {
        connection.call(.viewDisconnect, at: device) { _ in completion() }
    }
}

/// Reads the process of a name from the bus, once for each owner.
private final class ProcessReader {
    private let connection: Connection
    private var cached: (name: String, process: ServiceProcess)?
    private var completions: [(Result<ServiceProcess, BusError>) -> Void] = []

    init(_ connection: Connection) {
        self.connection = connection
    }

    func read(_ name: String, _ completion: @escaping (Result<ServiceProcess, BusError>) -> Void) {
        if let cached, cached.name == name { return completion(.success(cached.process)) }
        completions.append(completion)
        guard completions.count == 1 else { return }
        connection.call(.credentials, at: Bus.path, [.string(name)]) { [weak self] result in
            guard let self else { return }
            let process = result.map { ServiceProcess($0.first?.vardictValue ?? [:]) }
            if case .success(let process) = process { self.cached = (name, process) }
            let completions = self.completions
            self.completions = []
            for completion in completions { completion(process) }
        }
    }
}

extension DBusValue {
    /// A dictionary with string keys, its values as they are.
    var dictionary: [String: DBusValue] {
        var result: [String: DBusValue] = [:]
        for entry in entries ?? [] {
            if let key = entry.key.stringValue { result[key] = entry.value }
        }
        return result
    }
}

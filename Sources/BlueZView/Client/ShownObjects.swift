// SPDX-License-Identifier: Apache-2.0
// The objects of org.bluez that a client sees: adapters and the granted devices, where the link and the discovery are
// its own; and the signals of their changes. It keeps the values that were shown last, so that only changes are
// signalled.

internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

/// The objects of org.bluez as one client sees them.
final class ShownObjects {
    private let connection: ClientConnection
    private let clearance: Clearance
    private let feed: RadioFeed
    private var shownLinks: [ObjectPath: LinkShares.State] = [:]
    /// The adapters that the client knows of, and their properties.
    private var shownAdapters: [ObjectPath: [String: DBusValue]] = [:]
    /// Whether the client follows adapters, and receives their changes.
    private var hasSeenAdapters = false
    /// The client's part of org.bluez.
    private(set) var scope: Scope {
        get { clearance.scope }
        set { clearance.scope = newValue }
    }
    /// The adapters that the client searches with.
    private var discovering: Set<ObjectPath> = []
    /// Devices that the app hears, and the client knows of.
    private var announced: Set<ObjectPath> = []

    init(_ connection: ClientConnection, _ clearance: Clearance, _ feed: RadioFeed) {
        self.connection = connection
        self.clearance = clearance
        self.feed = feed
    }

    /// The name that org.bluez has for clients.
    private var service: String { feed.alias ?? BlueZ.service }

    // MARK: The scope

    /// Sets the client's part of org.bluez.
    ///
    /// - Returns: the devices that could be used and cannot any more, and those that there are now and were not.
    func setScope(_ new: Scope) -> (removed: [ObjectPath], added: Set<ObjectPath>) {
        let old = scope
        scope = new
        scope.keepAdapters(of: old) { feed.adapters[$0] != nil }
        let added = Set(scope.devices.keys.filter { old.devices[$0] == nil })
        recordLinks(of: added)
        for device in announced.subtracting(scope.heard ?? []).sorted() { signalRemoved(device, HeardDevice.interfaces) }
        return (
            old.devices.keys.filter { scope.devices[$0] == nil }.sorted(),
            added.union((scope.heard ?? []).subtracting(old.heard ?? []))
        )
    }

    /// Another client of the app may hold a link already: the objects show it, and its end is signalled.
    func recordLinks(of devices: some Sequence<ObjectPath>) {
        for device in devices { shownLinks[device] = clearance.link(of: device) }
    }

    // MARK: Between two runs

    var left: LeftState {
        var state: LeftState = [
            "Devices": .dictionary(
                key: "o", value: "s",
                scope.devices.sorted { $0.key < $1.key }.map { .init(.objectPath($0.key), .string($0.value.rawValue)) }),
            "Connected": .objectPaths(shownLinks.filter(\.value.isConnected).keys.sorted()),
            "Resolved": .objectPaths(shownLinks.filter(\.value.areServicesResolved).keys.sorted()),
            "HasSeenAdapters": .boolean(hasSeenAdapters), "HasAccessories": .boolean(!scope.isEmpty),
            "Discovering": .objectPaths(discovering.sorted()), "Adapters": .objectPaths(scope.adapters.sorted()),
        ]
        if scope.heard != nil { state["Heard"] = .objectPaths(announced.sorted()) }
        state["ShownAdapters"] = .dictionary(
            key: "o", value: "a{sv}", shownAdapters.map { .init(.objectPath($0.key), .vardict($0.value)) })
        return state
    }

    func resume(_ state: LeftState) {
        scope = Scope()
        scope.adapters = Set(state.paths("Adapters"))
        scope.isEmpty = !state.isTrue("HasAccessories")
        for entry in state["Devices"]?.entries ?? [] {
            if let path = entry.key.objectPathValue { scope.devices[path] = entry.value.stringValue.flatMap { AccessoryID($0) } }
        }
        if state["Heard"] != nil {
            announced = Set(state.paths("Heard"))
            scope.heard = announced
        }
        let (connected, resolved) = (Set(state.paths("Connected")), Set(state.paths("Resolved")))
        for device in scope.devices.keys {
            shownLinks[device] = LinkShares.State(
                isConnected: connected.contains(device), areServicesResolved: resolved.contains(device))
        }
        (hasSeenAdapters, discovering) = (state.isTrue("HasSeenAdapters"), Set(state.paths("Discovering")))
        for entry in state["ShownAdapters"]?.entries ?? [] {
            if let path = entry.key.objectPathValue { shownAdapters[path] = entry.value.vardictValue ?? [:] }
        }
    }

    /// The radio service is gone, with all its objects.
    func reset() {
        shownLinks = [:]
        announced = []
        shownAdapters = [:]
    }

    // MARK: Adapters

    /// An adapter: without an accessory it has no power and no address; whether it searches is the client's own.
    func properties(of adapter: ObjectPath) -> [String: DBusValue] {
        guard scope.hasAdaptersInSight, var properties = feed.adapters[adapter] else {
            return [
                "Address": .string("00:00:00:00:00:00"), "AddressType": .string("public"), "Name": .string("BlueZ"),
                "Alias": .string("BlueZ"), "Class": .uint32(0), "Powered": .boolean(false), "Discoverable": .boolean(false),
                "DiscoverableTimeout": .uint32(0), "Pairable": .boolean(false), "PairableTimeout": .uint32(0),
                "Discovering": .boolean(false), "UUIDs": .strings([]), "Roles": .strings(["central"]),
            ]
        }
        properties["Discovering"] = .boolean(discovering.contains(adapter))
        return properties
    }

    func isPowered(_ adapter: ObjectPath) -> Bool { !scope.isEmpty && properties(of: adapter)["Powered"]?.booleanValue == true }

    /// Notes whether the client searches with an adapter; `signalAdapters` signals it.
    func setDiscovering(_ isDiscovering: Bool, with adapter: ObjectPath) {
        if isDiscovering { discovering.insert(adapter) } else { discovering.remove(adapter) }
    }

    /// The client searches no more.
    func endDiscovery() { discovering = [] }

    /// A discovery ends with the power of its adapter, and with the last accessory.
    func endDiscoveryWithoutPower() { discovering = discovering.filter { scope.adapters.contains($0) && isPowered($0) } }

    /// Signals changes of adapters since the client followed them, those that have gone, and those that have come.
    func signalAdapters() {
        let old = shownAdapters
        shownAdapters = adapterProperties
        guard hasSeenAdapters else { return }
        for path in old.keys.sorted() where shownAdapters[path] == nil {
            emit("/", Bus.objectManager, "InterfacesRemoved", [.objectPath(path), .strings(Self.adapterInterfaces)])
        }
        for (path, new) in shownAdapters.sorted(by: { $0.key < $1.key }) {
            guard let former = old[path] else {
                emit("/", Bus.objectManager, "InterfacesAdded", [.objectPath(path), ObjectTree.value(Self.adapterObject(new))])
                continue
            }
            signalProperties(
                path, Adapter1.interface, new.filter { former[$0.key] != $0.value },
                gone: former.keys.filter { new[$0] == nil }.sorted())
        }
    }

    private var adapterProperties: [ObjectPath: [String: DBusValue]] {
        Dictionary(uniqueKeysWithValues: scope.adapters.map { ($0, properties(of: $0)) })
    }

    private static let adapterInterfaces = [Adapter1.interface, Bus.introspectable, Bus.properties]

    /// Bluetoothd's managers. BluezQt refuses a bluetoothd that does not have both.
    private static let managersObject: [String: DBusValue] = [
        AgentManager1.interface: .vardict([:]), ProfileManager1.interface: .vardict([:]), Bus.introspectable: .vardict([:]),
    ]

    /// The objects that every client has; from now on the client follows the adapters.
    func showAdapters() -> [ObjectPath: [String: DBusValue]] {
        hasSeenAdapters = true
        shownAdapters = adapterProperties
        return commonObjects
    }

    /// The objects that every client has: bluetoothd's managers and the adapters.
    var commonObjects: [ObjectPath: [String: DBusValue]] {
        adapterProperties.mapValues(Self.adapterObject).merging([BlueZ.manager: Self.managersObject]) { adapter, _ in adapter }
    }

    private static func adapterObject(_ properties: [String: DBusValue]) -> [String: DBusValue] {
        [Adapter1.interface: .vardict(properties), Bus.properties: .vardict([:]), Bus.introspectable: .vardict([:])]
    }

    // MARK: Devices

    /// The client's part of the answer to `GetManagedObjects`.
    func objects(_ entries: [DBusValue.Entry]) -> [ObjectPath: [String: DBusValue]] {
        var objects: [ObjectPath: [String: DBusValue]] = [:]
        for entry in entries {
            guard let path = entry.key.objectPathValue else { continue }
            let shown = interfaces(entry.value.dictionary, of: path)
            if !shown.isEmpty { objects[path] = shown }
        }
        return objects
    }

    private func interfaces(_ interfaces: [String: DBusValue], of path: ObjectPath) -> [String: DBusValue] {
        if scope.hears(path) {
            guard let object = HeardDevice.object(interfaces) else { return [:] }
            announced.insert(path)
            return object
        }
        guard let device = scope.device(of: path) else { return [:] }
        var shown: [String: DBusValue] = [:]
        for (name, value) in interfaces where Scope.shown.contains(name) {
            shown[name] = value.vardictValue.map { .vardict(clearance.properties($0, of: name, at: path, device)) } ?? value
        }
        return shown
    }

    // MARK: Signals

    /// Signals the objects that the client may see from now on.
    func signalObjects(_ entries: [DBusValue.Entry], of devices: Set<ObjectPath>) {
        for entry in entries {
            guard let path = entry.key.objectPathValue, let device = device(of: path), devices.contains(device),
                !announced.contains(path)
            else { continue }
            signalAdded(path, entry.value.dictionary)
        }
    }

    /// Signals the client's part of added interfaces.
    func signalAdded(_ path: ObjectPath, _ added: [String: DBusValue]) {
        guard let device = device(of: path), case let shown = interfaces(added, of: path), !shown.isEmpty else { return }
        emit("/", Bus.objectManager, "InterfacesAdded", [.objectPath(path), ObjectTree.value(shown)], about: .device(device))
    }

    /// The device that an object is, or belongs to.
    private func device(of path: ObjectPath) -> ObjectPath? { scope.hears(path) ? path : scope.device(of: path) }

    /// The client asks for the devices itself, or does without.
    func assumeAnnounced() { announced = scope.heard ?? [] }

    /// Signals a device that the app hears, with all its properties.
    func signalHeard(_ device: ObjectPath, _ properties: [String: DBusValue]) {
        if scope.hears(device), !announced.contains(device) { signalAdded(device, [Device1.interface: .vardict(properties)]) }
    }

    /// Passes on changed properties of a device that the app hears.
    func signalHeard(_ message: Message) {
        guard let path = message.path, announced.contains(path), let (_, changes, gone) = message.changedProperties else { return }
        signalProperties(
            path, Device1.interface, HeardDevice.changes(changes), gone: gone.filter(HeardDevice.isAdvertised),
            about: .device(path))
    }

    /// Signals the client's part of removed interfaces.
    func signalRemoved(_ path: ObjectPath, _ removed: [String]) {
        if announced.contains(path) {
            guard removed.contains(Device1.interface) else { return }
            announced.remove(path)
            return emit(
                "/", Bus.objectManager, "InterfacesRemoved", [.objectPath(path), .strings(HeardDevice.interfaces)])
        }
        guard scope.device(of: path) != nil else { return }
        let shown = removed.filter { Scope.shown.contains($0) }
        if !shown.isEmpty { emit("/", Bus.objectManager, "InterfacesRemoved", [.objectPath(path), .strings(shown)]) }
    }

    /// Signals the removal of a device that is out of scope by now: in the order in which a device that is
    /// removed goes.
    func signalGone(_ device: ObjectPath) {
        signalServicesGone(device)
        if shownLinks.removeValue(forKey: device)?.isConnected == true {
            signalProperties(device, Device1.interface, ["Connected": .boolean(false)])
        }
        let gone = feed.objects.filter { $0.key == device || $0.key.isBelow(device) }
        for (path, interfaces) in gone.sorted(by: { $1.key < $0.key }) {
            emit("/", Bus.objectManager, "InterfacesRemoved", [.objectPath(path), .strings(interfaces.sorted())])
        }
    }

    /// Signals the changes of a link since it was shown.
    ///
    /// - Parameter beforeDown: called before the signal that the link is down.
    func signalLink(_ device: ObjectPath, beforeDown: () -> Void) {
        guard scope.devices[device] != nil else { return }
        let old = shownLinks[device] ?? LinkShares.State()
        let new = clearance.link(of: device)
        guard new != old else { return }
        if !new.isConnected { beforeDown() }
        // As from bluetoothd, services go before the link, and come after it.
        if !new.areServicesResolved { signalServicesGone(device) }
        shownLinks[device] = new
        if new.isConnected != old.isConnected {
            signalProperties(device, Device1.interface, ["Connected": .boolean(new.isConnected)])
        }
        if new.areServicesResolved, !old.areServicesResolved {
            signalProperties(device, Device1.interface, ["ServicesResolved": .boolean(true)])
        }
    }

    /// Signals that a link's services are gone, unless the client has heard so.
    func signalServicesGone(_ device: ObjectPath) {
        guard shownLinks[device]?.areServicesResolved == true else { return }
        shownLinks[device]?.areServicesResolved = false
        signalProperties(device, Device1.interface, ["ServicesResolved": .boolean(false)])
    }

    /// A list is held against the characteristics that there are now: signals about them come on another connection.
    func catchUp() { if scope.hasLists { feed.catchUp() } }

    /// Passes on changed properties of a device or of its attributes. Values of attributes are for an app that
    /// holds the link.
    func signalChanged(_ message: Message, of device: ObjectPath) {
        catchUp()
        let isNarrowed = clearance.limit(of: device) != nil
        // Nearly all are values.
        if !isNarrowed, message.hasFirstText(GattCharacteristic1.interface) { return passValue(message, of: device) }
        guard let interface = message.firstText, Scope.shown.contains(interface) else { return }
        if interface == Device1.interface {
            guard let (_, changes, gone) = message.changedProperties else { return }
            // Signalled with the app's view of the link.
            let ofTheLink: Set = ["Connected", "ServicesResolved"]
            return signalProperties(
                device, interface, changes.filter { !ofTheLink.contains($0.key) }, gone: gone.filter { !ofTheLink.contains($0) },
                about: .device(device))
        }
        guard isNarrowed else { return passValue(message, of: device) }
        guard let path = message.path, let (_, changes, gone) = message.changedProperties else { return }
        signalProperties(
            path, interface, clearance.permitted(changes, of: interface, at: path, device, isSignal: true), gone: gone,
            about: .link(device))
    }

    /// Passes on why a link ends, to a client that has not heard of its end. (The app may have given its share back.)
    func passEnd(_ message: Message, of device: ObjectPath) {
        guard scope.devices[device] != nil, shownLinks[device]?.isConnected == true else { return }
        pass(message, about: .device(device))
    }

    private func passValue(_ message: Message, of device: ObjectPath) { pass(message, about: .link(device)) }

    private func pass(_ signal: Message, about matter: Matter) {
        connection.pass(signal: signal, from: [BlueZ.service, service], as: service, about: matter)
    }

    /// - Parameter gone: properties without a value any more, such as a device's signal strength when no client
    ///   searches.
    private func signalProperties(
        _ path: ObjectPath, _ interface: String, _ changes: [String: DBusValue], gone: [String] = [],
        about matter: Matter = .app
    ) {
        guard !changes.isEmpty || !gone.isEmpty else { return }
        emit(path, Bus.properties, "PropertiesChanged", [.string(interface), .vardict(changes), .strings(gone)], about: matter)
    }

    private func emit(
        _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue], about matter: Matter = .app
    ) {
        guard let message = try? Message.signal(path: path, interface: interface, member: member, arguments) else { return }
        connection.broadcast(message, from: [BlueZ.service, service], as: service, about: matter)
    }
}

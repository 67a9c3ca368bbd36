// SPDX-License-Identifier: Apache-2.0
// What a client sees of org.bluez: the adapter and the granted devices, where the link and the discovery are its own;
// and what it is told when that changes. It holds what was shown last, so that only changes are told.

internal import AccessoryModel
internal import DBusKit

/// The objects of org.bluez as one client sees them.
final class ShownObjects {
    private let connection: ClientConnection
    private let identity: ClientIdentity
    private let feed: RadioFeed
    private let links: LinkCoordinator
    private var shownLinks: [ObjectPath: LinkShares.State] = [:]
    private var shownAdapter: [String: DBusValue] = [:]
    /// The adapter that the client knows of.
    private var shownAdapterPath: ObjectPath?
    /// Whether the client follows the adapter, and receives its changes.
    private var hasSeenAdapter = false
    /// What there is for the client.
    private(set) var scope = Scope()
    private var isDiscovering = false

    init(_ connection: ClientConnection, _ identity: ClientIdentity, _ feed: RadioFeed, _ links: LinkCoordinator) {
        self.connection = connection
        self.identity = identity
        self.feed = feed
        self.links = links
    }

    /// The name that org.bluez has for clients.
    private var service: String { feed.alias ?? Scope.service }

    // MARK: The scope

    /// Sets what there is for the client.
    ///
    /// - Returns: the devices that there were and are no more, and those that there are now and were not.
    func setScope(_ new: Scope) -> (removed: [ObjectPath], added: Set<ObjectPath>) {
        let old = scope
        scope = new
        // The daemon may hear later that an adapter has gone, and earlier that one has come.
        if let adapter = scope.adapter, feed.adapters[adapter] == nil { scope.adapter = nil }
        scope.keepAdapter(of: old) { feed.adapters[$0] != nil }
        let added = Set(scope.devices.keys.filter { old.devices[$0] == nil })
        noteLinks(of: added)
        return (old.devices.keys.filter { scope.devices[$0] == nil }.sorted(), added)
    }

    /// The app's links may be there already, by another of its clients: the objects show them, and their end is told.
    func noteLinks(of devices: some Sequence<ObjectPath>) {
        for device in devices { shownLinks[device] = link(of: device) }
    }

    // MARK: Between two runs

    var left: LeftState {
        var state: LeftState = [
            "Devices": .dictionary(
                key: "o", value: "s",
                scope.devices.sorted { $0.key < $1.key }.map { .init(.objectPath($0.key), .string($0.value.rawValue)) }),
            "Connected": .objectPaths(shownLinks.filter(\.value.isConnected).keys.sorted()),
            "Resolved": .objectPaths(shownLinks.filter(\.value.areServicesResolved).keys.sorted()),
            "HasSeenAdapter": .boolean(hasSeenAdapter), "Discovering": .boolean(isDiscovering),
        ]
        state["Adapter"] = scope.adapter.map { .objectPath($0) }
        state["ShownAdapter"] = shownAdapterPath.map { .objectPath($0) }
        state["AdapterProperties"] = .vardict(shownAdapter)
        return state
    }

    func resume(_ state: LeftState) {
        scope = Scope(adapter: state.path("Adapter"))
        for entry in state["Devices"]?.entries ?? [] {
            if let path = entry.key.objectPathValue { scope.devices[path] = entry.value.stringValue.flatMap { AccessoryID($0) } }
        }
        let (connected, resolved) = (Set(state.paths("Connected")), Set(state.paths("Resolved")))
        for device in scope.devices.keys {
            shownLinks[device] = LinkShares.State(
                isConnected: connected.contains(device), areServicesResolved: resolved.contains(device))
        }
        (hasSeenAdapter, isDiscovering) = (state.isTrue("HasSeenAdapter"), state.isTrue("Discovering"))
        shownAdapterPath = state.path("ShownAdapter")
        shownAdapter = state["AdapterProperties"]?.vardictValue ?? [:]
    }

    /// The radio service has gone, and with it what was shown.
    func reset() {
        shownLinks = [:]
        shownAdapter = [:]
        shownAdapterPath = nil
    }

    // MARK: The adapter

    /// The adapter: without an accessory it has no power and no address; whether it searches is the client's own.
    var adapterProperties: [String: DBusValue] {
        guard let adapter = scope.adapter else { return [:] }
        guard scope.hasAdapterInSight, var properties = feed.adapters[adapter] else {
            return [
                "Address": .string("00:00:00:00:00:00"), "AddressType": .string("public"), "Name": .string("BlueZ"),
                "Alias": .string("BlueZ"), "Class": .uint32(0), "Powered": .boolean(false), "Discoverable": .boolean(false),
                "DiscoverableTimeout": .uint32(0), "Pairable": .boolean(false), "PairableTimeout": .uint32(0),
                "Discovering": .boolean(false), "UUIDs": .strings([]), "Roles": .strings(["central"]),
            ]
        }
        properties["Discovering"] = .boolean(isDiscovering)
        return properties
    }

    var isPowered: Bool { !scope.isEmpty && adapterProperties["Powered"]?.booleanValue == true }

    /// Notes whether the client searches; told with the adapter.
    func setDiscovering(_ isDiscovering: Bool) {
        self.isDiscovering = isDiscovering
    }

    /// A discovery ends with the power of the adapter, and with the last accessory.
    func endDiscoveryWithoutPower() {
        if scope.isEmpty || scope.adapter.flatMap({ feed.adapters[$0]?["Powered"]?.booleanValue }) == false {
            isDiscovering = false
        }
    }

    /// Signals changes of the adapter since the client followed it, its replacement and its removal.
    func tellAdapter() {
        let (old, oldPath) = (shownAdapter, shownAdapterPath)
        shownAdapter = adapterProperties
        shownAdapterPath = scope.adapter
        guard hasSeenAdapter else { return }
        if let oldPath, oldPath != shownAdapterPath {
            emit("/", Bus.objectManager, "InterfacesRemoved", [.objectPath(oldPath), .strings(Self.adapterInterfaces)])
        }
        guard let adapter = shownAdapterPath else { return }
        guard adapter == oldPath else {
            for (path, interfaces) in adapterObject {
                emit("/", Bus.objectManager, "InterfacesAdded", [.objectPath(path), ObjectTree.value(interfaces)])
            }
            return
        }
        tellProperties(
            adapter, Scope.adapterInterface, shownAdapter.filter { old[$0.key] != $0.value },
            gone: old.keys.filter { shownAdapter[$0] == nil }.sorted())
    }

    private static let adapterInterfaces = [Scope.adapterInterface, Bus.introspectable, Bus.properties]

    /// Bluetoothd's managers. BluezQt refuses a bluetoothd that does not have both.
    private static let managersObject: [String: DBusValue] = [
        Agent.interface: .vardict([:]), "org.bluez.ProfileManager1": .vardict([:]), Bus.introspectable: .vardict([:]),
    ]

    /// The objects that every client has; from now on the client follows the adapter.
    func showAdapter() -> [ObjectPath: [String: DBusValue]] {
        _ = showAdapterProperties()
        return commonObjects
    }

    /// The objects that every client has: bluetoothd's managers and the adapter.
    var commonObjects: [ObjectPath: [String: DBusValue]] {
        adapterObject.merging([Scope.managers: Self.managersObject]) { adapter, _ in adapter }
    }

    /// The adapter's properties, which are shown by this.
    func showAdapterProperties() -> [String: DBusValue] {
        hasSeenAdapter = true
        shownAdapter = adapterProperties
        shownAdapterPath = scope.adapter
        return shownAdapter
    }

    private var adapterObject: [ObjectPath: [String: DBusValue]] {
        guard let adapter = scope.adapter else { return [:] }
        return [
            adapter: [
                Scope.adapterInterface: .vardict(adapterProperties), Bus.properties: .vardict([:]),
                Bus.introspectable: .vardict([:]),
            ]
        ]
    }

    // MARK: Devices

    /// A link as the client's app sees it.
    func link(of device: ObjectPath) -> LinkShares.State { links.state(of: device, seenBy: identity.app) }

    /// A device's properties with this app's view of the link.
    func properties(_ properties: [String: DBusValue], of device: ObjectPath) -> [String: DBusValue] {
        var shown = properties
        let link = link(of: device)
        if shown["Connected"] != nil { shown["Connected"] = .boolean(link.isConnected) }
        if shown["ServicesResolved"] != nil { shown["ServicesResolved"] = .boolean(link.areServicesResolved) }
        return shown
    }

    /// The client's part of what `GetManagedObjects` answered.
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
        guard let device = scope.device(of: path) else { return [:] }
        var shown = interfaces.filter { Scope.shown.contains($0.key) }
        if let properties = shown[Scope.deviceInterface]?.vardictValue {
            shown[Scope.deviceInterface] = .vardict(self.properties(properties, of: device))
        }
        return shown
    }

    // MARK: What is told

    /// Tells of objects that the client may see from now on, among all there are.
    func tellObjects(_ entries: [DBusValue.Entry], of devices: Set<ObjectPath>) {
        for entry in entries {
            guard let path = entry.key.objectPathValue, let device = scope.device(of: path), devices.contains(device) else {
                continue
            }
            tellAdded(path, entry.value.dictionary)
        }
    }

    /// Tells of interfaces that the radio service has added, as far as they are for the client.
    func tellAdded(_ path: ObjectPath, _ added: [String: DBusValue]) {
        let shown = interfaces(added, of: path)
        guard !shown.isEmpty else { return }
        emit("/", Bus.objectManager, "InterfacesAdded", [.objectPath(path), ObjectTree.value(shown)])
    }

    /// Tells of interfaces that the radio service has removed, as far as they were for the client.
    func tellRemoved(_ path: ObjectPath, _ removed: [String]) {
        guard scope.device(of: path) != nil else { return }
        let shown = removed.filter { Scope.shown.contains($0) }
        if !shown.isEmpty { emit("/", Bus.objectManager, "InterfacesRemoved", [.objectPath(path), .strings(shown)]) }
    }

    /// Tells that a device, which is out of scope by now, is there no more: in the order in which a device that is
    /// removed goes.
    func tellGone(_ device: ObjectPath) {
        tellServicesGone(device)
        if shownLinks.removeValue(forKey: device)?.isConnected == true {
            tellProperties(device, Scope.deviceInterface, ["Connected": .boolean(false)])
        }
        let gone = feed.objects.filter { $0.key == device || $0.key.isBelow(device) }
        for (path, interfaces) in gone.sorted(by: { $1.key < $0.key }) {
            emit("/", Bus.objectManager, "InterfacesRemoved", [.objectPath(path), .strings(interfaces.sorted())])
        }
    }

    /// Tells what has changed of a link since it was shown.
    ///
    /// - Parameter beforeDown: what is to be done before the client hears that the link is down.
    func tellLink(_ device: ObjectPath, beforeDown: () -> Void) {
        guard scope.devices[device] != nil else { return }
        let old = shownLinks[device] ?? LinkShares.State()
        let new = link(of: device)
        guard new != old else { return }
        if !new.isConnected { beforeDown() }
        // As from bluetoothd, services go before the link, and come after it.
        if !new.areServicesResolved { tellServicesGone(device) }
        shownLinks[device] = new
        if new.isConnected != old.isConnected {
            tellProperties(device, Scope.deviceInterface, ["Connected": .boolean(new.isConnected)])
        }
        if new.areServicesResolved, !old.areServicesResolved {
            tellProperties(device, Scope.deviceInterface, ["ServicesResolved": .boolean(true)])
        }
    }

    /// Signals that a link's services are gone, unless the client has heard so.
    func tellServicesGone(_ device: ObjectPath) {
        guard shownLinks[device]?.areServicesResolved == true else { return }
        shownLinks[device]?.areServicesResolved = false
        tellProperties(device, Scope.deviceInterface, ["ServicesResolved": .boolean(false)])
    }

    /// Passes on that properties of a device's have changed, or of what is below it. Values of attributes are for who
    /// holds the link.
    func tellChanged(_ message: Message, of device: ObjectPath) {
        // Nearly all are values.
        if message.hasFirstText(Scope.characteristicInterface) { return tellValue(message, of: device) }
        guard let interface = message.firstText, Scope.shown.contains(interface) else { return }
        if interface == Scope.deviceInterface {
            guard let arguments = try? message.arguments(), arguments.count == 3, let changes = arguments[1].vardictValue,
                let gone = arguments[2].stringsValue
            else { return }
            // These are told as the link is the app's.
            let ofTheLink: Set = ["Connected", "ServicesResolved"]
            return tellProperties(
                device, interface, changes.filter { !ofTheLink.contains($0.key) }, gone: gone.filter { !ofTheLink.contains($0) })
        }
        tellValue(message, of: device)
    }

    /// Passes on why a link ends, to a client that has not heard of its end. (The app may have given its share back.)
    func tellEnd(_ message: Message, of device: ObjectPath) {
        guard scope.devices[device] != nil, shownLinks[device]?.isConnected == true else { return }
        pass(message)
    }

    private func tellValue(_ message: Message, of device: ObjectPath) {
        guard link(of: device).isConnected else { return }
        pass(message)
    }

    private func pass(_ signal: Message) {
        connection.pass(signal: signal, from: [Scope.service, service], as: service)
    }

    /// - Parameter gone: properties that are there no more, such as how strongly a device is heard when nobody
    ///   searches.
    private func tellProperties(
        _ path: ObjectPath, _ interface: String, _ changes: [String: DBusValue], gone: [String] = []
    ) {
        guard !changes.isEmpty || !gone.isEmpty else { return }
        emit(path, Bus.properties, "PropertiesChanged", [.string(interface), .vardict(changes), .strings(gone)])
    }

    private func emit(_ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue]) {
        guard let message = try? Message.signal(path: path, interface: interface, member: member, arguments) else { return }
        connection.broadcast(message, from: [Scope.service, service], as: service)
    }
}

// SPDX-License-Identifier: Apache-2.0
// A manager's connection to the view: made again when it is lost, with all objects loaded before anybody hears that
// Bluetooth is on. It owns what is known of org.bluez and of the grants, and says what has changed. (Docs/View.md)

internal import DBusKit
internal import Foundation

/// What the view shows, kept up.
final class ViewSession {
    /// An accessory that is granted to the app.
    struct Grant: Equatable, Sendable {
        let identifier: UUID
        /// The object that org.bluez has for it, or would have.
        let path: ObjectPath
        let name: String
    }

    /// What has changed.
    enum News {
        /// Whether Bluetooth can be used.
        case state(CBManagerState)
        case grants
        /// All objects were read anew: anything of the tree may be another.
        case loaded
        /// Properties of a device, or the device itself: what they are now is in the tree.
        case device(ObjectPath, changed: Set<String>)
        /// Why a device's link ends, before that is told, in BlueZ' word for it. Old versions do not say so.
        case linkEnds(ObjectPath, reason: String)
        /// A service, characteristic or descriptor has come or gone.
        case attribute(ObjectPath, isGone: Bool)
        /// A characteristic has this value now.
        case value(ObjectPath, [UInt8])
        /// Nobody has the descriptor for writing to a characteristic any more, and what was in it has been read.
        case released(ObjectPath)
    }

    static let daemon = "org.accessorysetup1"
    private static let viewPath: ObjectPath = "/org/accessorysetup1/view"
    private static let viewInterface = "org.accessorysetup1.View"
    private static let mostHeld = 16_384
    /// More than 400 values a second are told a dozen with one wakeup. Together with what the view takes
    /// (`StreamPace.betweenLinkEvents`) they come no later than on Apple's systems, whose links are served every 15 ms at the most
    /// often (Accessory Design Guidelines, Bluetooth, connection parameters).
    private static let pace = StreamPace(pause: .milliseconds(12), interval: .microseconds(2500))

    /// Until objects that could not be read are asked for again.
    private static let reload = Duration.seconds(1)

    /// Whether org.bluez is there.
    private enum Radio: Equatable {
        case unknown
        case absent
        case present(String)
    }

    let address: Connection.Address
    let loop: MainLoop
    private let onNews: (News) -> Void
    private var connection: Connection?
    private var radio = Radio.unknown
    private var nameWatches: [Subscription] = []
    private var radioSubscriptions: [Subscription] = []
    private var viewSubscription: Subscription?
    private(set) var tree = BlueZTree()
    private(set) var grants: [Grant] = []
    private var areGrantsKnown = false
    private var isTreeLoaded = false
    private var isRefused = false
    /// Signals that came while the objects are loaded: they may be newer than those.
    private var held: [() -> Void]?
    private var loading = 0
    /// The path of the signal that came last.
    private var latestPath: ObjectPath?
    private(set) var state = CBManagerState.unknown
    private var retry: LoopSource?
    private var failures = 0
    private var hasEnded = false

    init(_ address: Connection.Address, _ loop: MainLoop, onNews: @escaping (News) -> Void) {
        self.address = address
        self.loop = loop
        self.onNews = onNews
    }

    // MARK: Life

    func start() {
        guard !hasEnded else { return }
        do {
            let connection = try Connection(address, loop: loop, reading: .streamed(Self.pace))
            self.connection = connection
            connection.onDisconnect = { [weak self] in self?.lost() }
            nameWatches = [
                connection.watchName(Self.daemon) { [weak self] in self?.daemonChanged($0) },
                connection.watchName(BlueZTree.service) { [weak self] in self?.radioChanged($0) },
            ]
        } catch {
            lost()
        }
    }

    /// Lets go of the connection, once what was said last has gone out.
    func end() {
        hasEnded = true
        retry?.cancel()
        connection?.flush()
        forget()
    }

    private func forget() {
        for subscription in nameWatches + radioSubscriptions { subscription.cancel() }
        viewSubscription?.cancel()
        nameWatches = []
        radioSubscriptions = []
        viewSubscription = nil
        if let connection {
            connection.onDisconnect = nil
            // It may be in the middle of a message that led here.
            loop.soon { withExtendedLifetime(connection) {} }
        }
        connection = nil
        radio = .unknown
        tree = BlueZTree()
        areGrantsKnown = false
        isTreeLoaded = false
        held = nil
        loading += 1
    }

    /// The daemon has gone, or is not there: it is tried again, ever more seldom up to every 5 s.
    private func lost() {
        guard !hasEnded else { return }
        forget()
        isRefused = false
        tellState()
        tryAgain(atMost: 5)
    }

    private func tryAgain(atMost longest: Double) {
        failures += 1
        retry?.cancel()
        retry = loop.after(.seconds(min(longest, 0.05 * Double(1 << min(failures, 10))))) { [weak self] in
            self?.forget()
            self?.isRefused = false
            self?.start()
        }
    }

    // MARK: State

    private var currentState: CBManagerState? {
        guard connection != nil else { return .resetting }
        if isRefused { return .unauthorized }
        guard areGrantsKnown else { return nil }
        switch radio {
        case .unknown: return nil
        case .absent: return .poweredOff
        case .present:
            guard isTreeLoaded else { return nil }
            guard tree.adapter != nil else { return .unsupported }
            return tree.isPowered ? .poweredOn : .poweredOff
        }
    }

    /// Tells the state when it is known and another one.
    private func tellState() {
        guard let new = currentState, new != state else { return }
        if new == .poweredOn { failures = 0 }
        if connection != nil { Refusal.isStanding = isRefused }
        state = new
        onNews(.state(new))
    }

    // MARK: Grants

    private func daemonChanged(_ owner: String?) {
        viewSubscription?.cancel()
        viewSubscription = nil
        guard let owner, let connection else {
            // Not the view: nothing is granted here.
            areGrantsKnown = true
            return tellState()
        }
        viewSubscription = connection.subscribe(
            sender: owner, path: Self.viewPath, interface: Bus.properties, member: "PropertiesChanged",
            argument0: Self.viewInterface
        ) { [weak self] message in
            guard let arguments = try? message.arguments(limits: .generous), arguments.count == 3 else { return }
            if let list = arguments[1].vardictValue?["Peripherals"] {
                self?.take(list)
            } else {
                self?.readGrants {}
            }
        }
        readGrants {}
    }

    /// Asks the daemon what is granted; `completion` is called when that is known.
    func readGrants(_ completion: @escaping () -> Void) {
        guard let connection else { return completion() }
        connection.call(
            Self.daemon, Self.viewPath, Bus.properties, "Get", [.string(Self.viewInterface), .string("Peripherals")],
            limits: .generous
        ) { [weak self, weak connection] result in
            guard let self, let connection, self.connection === connection else { return completion() }
            switch result {
            case .success(let values): self.take(values.first ?? .array(of: "(sos)", []))
            case .failure(let error) where error.isStandard("AccessDenied"): self.refused()
            case .failure: self.take(.array(of: "(sos)", []))
            }
            completion()
        }
    }

    private func take(_ list: DBusValue) {
        let old = grants
        grants = (list.arrayValue ?? []).compactMap { entry in
            guard let fields = entry.structureValue, fields.count == 3, let text = fields[0].stringValue,
                let identifier = UUID(uuidString: text), let path = fields[1].objectPathValue,
                let name = fields[2].stringValue
            else { return nil }
            return Grant(identifier: identifier, path: path, name: name)
        }
        areGrantsKnown = true
        if grants != old { onNews(.grants) }
        tellState()
    }

    /// No app, or not any more. Whoever is refused stays refused on this connection: a manifest that comes later is
    /// seen by another.
    private func refused() {
        isRefused = true
        areGrantsKnown = true
        grants = []
        tellState()
        tryAgain(atMost: 30)
    }

    // MARK: The radio

    private func radioChanged(_ owner: String?) {
        for subscription in radioSubscriptions { subscription.cancel() }
        radioSubscriptions = []
        tree = BlueZTree()
        isTreeLoaded = false
        radio = owner.map { .present($0) } ?? .absent
        guard let owner, let connection else { return tellState() }
        // Another one in the place of the first: what was there is gone.
        if state == .poweredOn {
            state = .poweredOff
            onNews(.state(.poweredOff))
        }
        radioSubscriptions = [
            connection.subscribe(sender: owner, path: "/", interface: Bus.objectManager, member: "InterfacesAdded") {
                [weak self] message in
                guard let arguments = try? message.arguments(limits: .generous), arguments.count == 2,
                    let path = arguments[0].objectPathValue
                else { return }
                self?.take { $0.added(path, arguments[1]) }
            },
            connection.subscribe(sender: owner, path: "/", interface: Bus.objectManager, member: "InterfacesRemoved") {
                [weak self] message in
                guard let arguments = try? message.arguments(), arguments.count == 2,
                    let path = arguments[0].objectPathValue,
                    let names = arguments[1].stringsValue
                else { return }
                self?.take { $0.removed(path, names) }
            },
            connection.subscribe(sender: owner, interface: Bus.properties, member: "PropertiesChanged") {
                [weak self] message in
                guard let path = self?.path(of: message) else { return }
                if let value = Self.valueAlone(message) { return self?.take { $0.onNews(.value(path, value)) } ?? () }
                guard let arguments = try? message.arguments(), arguments.count == 3, let interface = arguments[0].stringValue,
                    let changed = arguments[1].vardictValue
                else { return }
                let invalidated = arguments[2].stringsValue ?? []
                self?.take { $0.changed(path, interface, changed, invalidated) }
            },
            connection.subscribe(sender: owner, interface: BlueZTree.deviceInterface, member: "Disconnected") {
                [weak self] message in
                guard let path = message.path, let reason = (try? message.arguments())?.first?.stringValue else { return }
                self?.take { $0.onNews(.linkEnds(path, reason: reason)) }
            },
        ]
        load()
    }

    /// A message's path. Many signals after each other come from one object, and a path costs as much to make as the
    /// rest.
    private func path(of message: Message) -> ObjectPath? {
        if let latestPath, message.hasPath(latestPath) { return latestPath }
        latestPath = message.path
        return latestPath
    }

    /// What a characteristic says, when it says nothing else: nearly all signals are such, thousands a second.
    private static func valueAlone(_ message: Message) -> [UInt8]? {
        guard message.hasFirstText(BlueZTree.characteristicInterface) else { return nil }
        var value: [UInt8]?
        var saysMore = false
        message.withArguments { cursor in
            cursor.next()
            cursor.forEachEntry { entry in
                guard entry.isString("Value") else {
                    saysMore = true
                    return
                }
                entry.next()
                entry.withVariant { value = $0.bytes }
            }
        }
        return saysMore ? nil : value
    }

    /// Asks for all objects.
    private func load() {
        guard let connection else { return }
        loading += 1
        let number = loading
        isTreeLoaded = false
        held = []
        connection.call(BlueZTree.service, "/", Bus.objectManager, "GetManagedObjects", limits: .generous) {
            [weak self] result in
            guard let self, self.loading == number else { return }
            switch result {
            case .success(let values):
                self.tree.load(values.first)
                self.finishLoading()
            case .failure(let error) where error.isStandard("AccessDenied"): self.refused()
            case .failure:
                // Where the service has gone, the next owner of the name is asked instead.
                self.held = nil
                self.loop.after(Self.reload) { [weak self] in
                    guard let self, self.loading == number, case .present = self.radio else { return }
                    self.load()
                }
            }
        }
    }

    private func finishLoading() {
        isTreeLoaded = true
        let signals = held ?? []
        held = nil
        for signal in signals { signal() }
        onNews(.loaded)
        tellState()
    }

    /// Takes a signal, now or once the objects are loaded.
    private func take(_ signal: @escaping (ViewSession) -> Void) {
        guard held != nil else { return signal(self) }
        guard held!.count < Self.mostHeld else { return }
        held!.append { [weak self] in
            if let self { signal(self) }
        }
    }

    private func added(_ path: ObjectPath, _ interfaces: DBusValue) {
        let hadAdapter = tree.adapter != nil
        tree.add(path, interfaces)
        if !hadAdapter, tree.adapter != nil { return load() }
        let names = interfaces.entries?.compactMap(\.key.stringValue) ?? []
        if names.contains(BlueZTree.deviceInterface), let device = tree.device(path) {
            var changed: Set<String> = ["Connected", "ServicesResolved", "Name"]
            // An object that comes without one was not heard, but loaded.
            if device.rssi != nil { changed.insert("RSSI") }
            onNews(.device(path, changed: changed))
        } else if names.contains(where: { $0.hasPrefix("org.bluez.Gatt") }) {
            onNews(.attribute(path, isGone: false))
        }
    }

    private func removed(_ path: ObjectPath, _ names: [String]) {
        tree.remove(path, names)
        if names.contains(BlueZTree.deviceInterface) {
            onNews(.device(path, changed: ["Connected"]))
        } else if names.contains(where: { $0.hasPrefix("org.bluez.Gatt") }) {
            onNews(.attribute(path, isGone: true))
        }
        if names.contains(BlueZTree.adapterInterface) { tellState() }
    }

    private func changed(
        _ path: ObjectPath, _ interface: String, _ changed: [String: DBusValue], _ invalidated: [String]
    ) {
        let wasPowered = tree.isPowered
        tree.change(path, interface, changed, invalidated: invalidated)
        switch interface {
        case BlueZTree.characteristicInterface:
            if let value = changed["Value"]?.bytesValue { onNews(.value(path, value)) }
            if changed["WriteAcquired"]?.booleanValue == false { onNews(.released(path)) }
        case BlueZTree.deviceInterface: onNews(.device(path, changed: Set(changed.keys)))
        case BlueZTree.adapterInterface:
            // With the first grant the adapter gets its power, and its objects are told after that.
            if !wasPowered, tree.isPowered { load() } else { tellState() }
        default: break
        }
    }

    // MARK: Calls

    /// Calls org.bluez; without a connection the answer is an error, from the loop.
    @discardableResult
    func call(
        _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
        timeout: Duration = .seconds(60),
        completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) -> PendingCall? {
        guard let connection else {
            loop.soon { completion(.failure(.disconnected("no connection to the view"))) }
            return nil
        }
        return connection.call(
            BlueZTree.service, path, interface, member, arguments, timeout: timeout, completion: completion)
    }
}

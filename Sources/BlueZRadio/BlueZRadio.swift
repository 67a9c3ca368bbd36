// SPDX-License-Identifier: Apache-2.0
// BlueZ as the engine's radio: follows the service, its adapters and its devices on a bus connection of its own, and
// hands adverts over in batches. What BlueZ says of an object is kept here; what it means is decided in the engine.

public import AccessoryEngine
public import AccessoryModel
public import DBusKit
public import Logging

internal import AccessoryCore
internal import BlueZInterfaces
internal import CallsOut

/// The Bluetooth radio of BlueZ (org.bluez), on all adapters that the configuration allows.
public final class BlueZRadio: Radio {
    /// Held weakly; told on the main loop's thread.
    public weak var observer: (any RadioObserver)?
    /// Of all adapters that may be used; `absent` until they were looked for.
    public private(set) var state = RadioState.absent
    /// Whether the state is known rather than assumed: the service was looked for, and its objects read if it is there.
    public private(set) var isSettled = false

    private let connection: Connection
    private let log: Logger
    private let inputDirectory: String
    private let agent: PairingAgent
    private let server: ObjectServer
    private lazy var discovery = Discovery(on: connection, log: log) { [weak self] failure in
        self?.observer?.discoveryFailed(failure)
    }

    private var owner: String?
    private var nameWatch: Subscription?
    private var subscriptions: [Subscription] = []
    private var adapterTable: AdapterTable
    /// Whether the adapters were read once: since then signals report all changes.
    private var knowsAdapters = false
    /// All adapters, as the observer knows them.
    public private(set) var adapters: [RadioAdapter] = []
    private let devices = DeviceTable()
    private let feedAddress: Connection.Address?
    private lazy var signals = DeviceSignals(
        on: connection, feed: feedAddress, into: devices, log: log,
        DeviceSignals.Handlers(
            onNews: { [weak self] in self?.scheduleHandOver() },
            onAdded: { [weak self] in self?.interfacesAdded(.devices, $0) },
            onRemoved: { [weak self] in self?.interfacesRemoved(.devices, $0) },
            onSwitch: { [weak self] in self?.readAll() }))
    /// The work for one accessory; at most one of these at a time.
    private var expected: Expected?
    private var attempt: PairingAttempt?
    private var bridge: ClassicBridge?
    private var inputSetup: InputDeviceSetup?
    private lazy var failedPairings = FailedPairings(
        on: connection, devices: devices, log: log, isReady: { [weak self] in self?.state == .ready },
        adapter: { [weak self] device in self?.adapterTable.contains(device.parent) == true ? device.parent : nil },
        isBeingPaired: { [weak self] in self?.isBeingPaired($0) == true })
    private lazy var lateLinks = LateLinks(on: connection) { [weak self] device in
        guard let self, let entry = devices[device], !entry.advertisement.isPaired, !isBeingPaired(device) else { return }
        log.notice("a link came up that no program waits for: it is ended")
        failedPairings.forget(device, isSure: false) {}
    }
    private let anotherReading: Retry
    /// The reading of all objects that goes on.
    private var reading: Reading?
    private lazy var handOver = HandOver(of: devices, on: connection.loop) { [weak self] in self?.observer?.heard($0) }

    /// A pairing whose device BlueZ is forgetting, or has just forgotten: the next advert makes its object anew.
    private struct Expected {
        let device: RadioDeviceID
        let support: SupportOptions
        let timer: LoopSource
    }

    /// How long a device that is to be paired may take to be heard again.
    private static let returnTimeout = Duration.seconds(10)

    /// - Parameters:
    ///   - connection: one of the radio's own; agent, discovery filter and pairing belong to the connection that asks.
    ///   - adapters: names (`hci1`) or addresses of the adapters to use; without one all are used.
    ///   - inputDirectory: where the kernel lists input devices.
    ///   - feed: the bus that `connection` is on, for a connection that only listens for adverts; nil does without.
    public init(
        on connection: Connection, adapters: [String], inputDirectory: String = "/sys/class/input",
        feed: Connection.Address? = nil, log: Logger
    ) throws(BusError) {
        self.connection = connection
        feedAddress = feed
        self.log = log
        adapterTable = AdapterTable(allowing: Set(adapters))
        self.inputDirectory = inputDirectory
        agent = try PairingAgent()
        anotherReading = Retry(1...16, connection.loop.once)
        server = ObjectServer(on: connection, root: PairingAgent.path)
        server.export(agent)
        connection.onCall = { [server] in server.serve($0) }
        agent.onPrompt = { [weak self] in
            self?.bridge?.prompted()
            self?.observer?.pairingPrompted($0)
        }
    }

    /// Follows bluetoothd on the bus, and its objects once it is there.
    public func start() {
        discovery.onNeedChanged = { [weak self] in self?.needChanged($0) }
        devices.onLinkChange = { [weak self] in self?.observer?.deviceChanged($0) }
        nameWatch = connection.watchName(BlueZ.service) { [weak self] in self?.ownerChanged($0) }
    }

    // MARK: Radio

    /// `StartDiscovery` with our filter (org.bluez.Adapter), until all tokens are gone.
    public func discover() -> DiscoveryToken { discovery.token() }

    /// Pairs (org.bluez.Device), then pairs the classic side and waits for the input device, as `support` says. A
    /// device whose pairing failed is removed from BlueZ, unless it is bonded all the same. A device without an object,
    /// such as one that was just removed, may take 10 s to be heard again.
    public func pair(_ device: RadioDeviceID, support: SupportOptions) {
        guard !isBusy else {
            return later { $0.pairingEnded(.failure(RadioFailure(.busy, "another pairing is running"))) }
        }
        if let entry = devices[device.rawValue], !entry.isBeingRemoved { return pair(entry, support) }
        log.debug("pairing waits for the device to be heard again")
        let timer = connection.loop.after(Self.returnTimeout) { [weak self] in
            self?.giveUpExpected(RadioFailure(.connection, "the accessory is gone: it was not heard again within 10 s"))
        }
        expected = Expected(device: device, support: support, timer: timer)
    }

    private func giveUpExpected(_ failure: RadioFailure) {
        guard let expected else { return }
        expected.timer.cancel()
        self.expected = nil
        ended(.failure(failure))
    }

    private func isBeingPaired(_ device: ObjectPath) -> Bool { attempt?.device == device || bridge?.isPairing(device) == true }

    private func pair(_ entry: Device, _ support: SupportOptions) {
        lateLinks.end(entry.path)
        let attempt = PairingAttempt(
            entry.path, on: connection, agent: agent, log: log,
            isConnected: { [weak entry] in entry?.advertisement.isConnected == true }
        ) { [weak self] result in
            guard let self else { return }
            switch result {
            case .success(var identity):
                identity.adapter = entry.advertisement.adapter
                self.identified(entry, as: identity)
                // Its signal may be on the way still.
                entry.advertisement.isPaired = self.attempt?.isBonded == true
                self.attempt = nil
                self.pairClassic(entry, identity, support)
            case .failure(let failure):
                // What another program is pairing is not ours to remove.
                guard failure.reason != .busy else { return self.ended(result) }
                self.failedPairings.forgetUnpaired(entry.path) { [weak self] in self?.ended(result) }
            }
        }
        self.attempt = attempt
        attempt.begin(isPaired: entry.advertisement.isPaired)
    }

    /// Pairing has replaced a private address by the identity address.
    private func identified(_ entry: Device, as identity: PairedIdentity) {
        let former = entry.advertisement.address
        guard former != identity.address else { return }
        devices.setAddress(identity.address, of: entry)
        observer?.lost(former)
    }

    private var isBusy: Bool { expected != nil || attempt != nil || bridge != nil || inputSetup != nil }

    /// What else belongs to the accessory, one after the other: its classic side, then its use as an input device.
    private func pairClassic(_ entry: Device, _ identity: PairedIdentity, _ support: SupportOptions) {
        guard support.contains(.transportBridging) else { return setUpInput(entry, identity, support) }
        observer?.bridgingStarted()
        bridge(identity.peer, classic: nil) { [weak self] result in
            guard let self else { return }
            switch result {
            case .success(let classic):
                let bridged = PairedIdentity(
                    address: identity.address, adapter: identity.adapter, device: identity.device,
                    wasPairedBefore: identity.wasPairedBefore, classicAddress: classic)
                self.setUpInput(entry, bridged, support)
            case .failure(let failure): self.undo(entry, identity, failure)
            }
        }
    }

    private func setUpInput(_ entry: Device, _ identity: PairedIdentity, _ support: SupportOptions) {
        guard support.contains(.hid) else { return ended(.success(identity)) }
        let setup = InputDeviceSetup(
            entry.path, address: identity.address, directory: inputDirectory, on: connection
        ) { [weak self] failure in
            guard let self else { return }
            self.inputSetup = nil
            if let failure { self.undo(entry, identity, failure) } else { self.ended(.success(identity)) }
        }
        inputSetup = setup
        setup.begin()
    }

    /// The accessory is paired and cannot do what it is wanted for: as if it had not been.
    private func undo(_ entry: Device, _ identity: PairedIdentity, _ failure: RadioFailure) {
        guard !identity.wasPairedBefore else { return ended(.failure(failure)) }
        failedPairings.forget(entry.path, isSure: true) { [weak self] in
            guard let self else { return }
            // A bond that is still there is said to be: who has noted it keeps that, for a daemon that ends before it
            // is gone.
            let isGone = !self.failedPairings.isLeft(entry.path)
            self.ended(.failure(isGone ? failure : RadioFailure(.other, failure.message)))
        }
    }

    /// Pairs the classic side, on the adapter that has the accessory. `busy` while anything else is paired.
    public func bridge(
        _ peer: BluetoothPeer, classic: BluetoothAddress?,
        completion: @escaping (Result<BluetoothAddress, RadioFailure>) -> Void
    ) {
        guard !isBusy else { return completion(.failure(RadioFailure(.busy, "another pairing is running"))) }
        guard let device = devices.device(for: peer), case let adapter = device.adapter, adapterTable.contains(adapter)
        else { return completion(.failure(RadioFailure(.connection, "the accessory is gone"))) }
        let target = classic ?? peer.address
        let bridge = ClassicBridge(
            on: adapter, address: target, connection: connection, agent: agent, log: log,
            device: { [weak self] in
                target.value == peer.address.value
                    ? device.path : self?.devices.device(valued: target.value, on: adapter)?.path
            }, endSearch: { [discovery] in discovery.endOther(on: adapter) }
        ) { [weak self] result in
            self?.bridge = nil
            self?.discovery.renewFilter()
            completion(result)
        }
        self.bridge = bridge
        bridge.begin()
    }

    /// Sets BlueZ's `Alias` (org.bluez.Device); a failure is only logged.
    public func setAlias(_ peer: BluetoothPeer, _ name: String) {
        guard let device = devices.device(for: peer) else { return }
        connection.call(.alias, at: device.path, [.variant(.string(name))]) { [log] result in
            if case .failure(let error) = result { log.debug("Alias not set", metadata: ["error": "\(error)"]) }
        }
    }

    /// The object of the adapter that an app without an accessory on another one is shown; nil without an adapter.
    public var adapter: ObjectPath? { adapterTable.primary }

    /// An adapter's object; `adapter` where the address is not known. Nil while the adapter is not there.
    public func object(of address: BluetoothAddress?) -> ObjectPath? {
        address.map { adapterTable.object(of: $0) } ?? adapterTable.primary
    }

    private func abort(_ failure: RadioFailure) {
        giveUpExpected(failure)
        attempt?.abort(failure)
        bridge?.abort(failure)
        inputSetup?.abort(failure)
    }

    private func ended(_ result: Result<PairedIdentity, RadioFailure>) {
        attempt = nil
        discovery.renewFilter()
        observer?.pairingEnded(result)
    }

    /// Devices that BlueZ calls paired, as they were last read.
    public var bonds: [RadioBond] { devices.bonds }

    /// Reads all objects of BlueZ anew; completed at once when it is not running.
    public func refresh(_ completion: @escaping () -> Void) {
        guard owner != nil else { return completion() }
        readAll(completion)
    }

    /// Answers BlueZ's agent call; nothing happens when none waits.
    public func answer(_ answer: PromptAnswer) {
        agent.answer(answer)
        attempt?.answered()
        bridge?.answered()
    }

    /// Calls off what is being paired, be it the device, its classic side or its input device.
    public func cancelPairing() {
        giveUpExpected(RadioFailure(.cancelled, "cancelled"))
        attempt?.cancel()
        bridge?.cancel()
        inputSetup?.abort(RadioFailure(.cancelled, "cancelled"))
    }

    /// `RemoveDevice` (org.bluez.Adapter). `unavailable` when the adapter has gone.
    public func removeBond(
        _ peer: BluetoothPeer, device hint: RadioDeviceID?, wasPairing: Bool,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        // Whoever has just gone takes its bonds with it, and comes back with them.
        guard owner != nil, adapterTable.hasOne(for: peer) else {
            return completion(.failure(RadioFailure(.unavailable, "bluetoothd or its adapter is gone")))
        }
        let hinted = hint.flatMap { devices[$0.rawValue] }.flatMap { peer.shares($0.advertisement.adapter) ? $0 : nil }
        let known = devices.device(for: peer) ?? hinted
        if wasPairing, let owner, let path = known?.path ?? hint.flatMap({ ObjectPath($0.rawValue) }) {
            lateLinks.watch(path, of: owner)
        }
        guard let entry = known else { return completion(.success(())) }
        guard adapterTable.contains(entry.adapter) else {
            return completion(.failure(RadioFailure(.unavailable, "the adapter is gone")))
        }
        devices.forget(entry.path, by: .bondRemoval, at: entry.adapter, over: connection) { result in
            switch result {
            case .success: completion(.success(()))
            case .failure(let error) where error.bluez == .doesNotExist: completion(.success(()))
            case .failure(let error): completion(.failure(RadioFailure(.other, "\(error)")))
            }
        }
    }

    /// The object path; nil when BlueZ has no object for it.
    public func device(for peer: BluetoothPeer) -> RadioDeviceID? {
        devices.device(for: peer).map { RadioDeviceID($0.path.rawValue) }
    }

    /// `Connected` and the percentage of org.bluez.Battery1, as they were read last: an idle radio follows neither.
    public func link(with peer: BluetoothPeer) -> RadioLink {
        var link = RadioLink()
        guard let device = devices.device(for: peer), device.advertisement.isConnected else { return link }
        link.isConnected = true
        link.battery = device.battery
        return link
    }

    private func later(_ body: @escaping (any RadioObserver) -> Void) {
        connection.loop.soon { [weak self] in
            if let observer = self?.observer { body(observer) }
        }
    }

    // MARK: The service

    private func ownerChanged(_ new: String?) {
        guard new != owner else {
            if new == nil { isSettled = true }
            return
        }
        owner = new
        agent.owner = new
        for subscription in subscriptions { subscription.cancel() }
        subscriptions = []
        reading?.restart()
        reading = nil
        signals.listen(to: nil)
        adapterTable.removeAll()
        lateLinks.endAll()
        knowsAdapters = false
        devices.removeAll()
        abort(RadioFailure(.unavailable, "bluetoothd is gone"))
        settle(reason: new == nil ? "bluetoothd is not running" : "bluetoothd has started")
        observer?.deviceChanged(nil)
        guard let new else { return }
        subscriptions = [
            connection.subscribe(sender: new, path: BlueZ.root, interface: Bus.objectManager, member: "InterfacesAdded") {
                [weak self] in if let self { self.interfacesAdded(self.ownPart, $0) }
            },
            connection.subscribe(sender: new, path: BlueZ.root, interface: Bus.objectManager, member: "InterfacesRemoved") {
                [weak self] in if let self { self.interfacesRemoved(self.ownPart, $0) }
            },
            connection.subscribe(
                sender: new, interface: Bus.properties, member: "PropertiesChanged", argument0: Adapter1.interface
            ) { [weak self] in self?.adapterChanged($0) },
        ]
        if discovery.isNeeded { signals.listen(to: new) }
        readAll()
    }

    /// The signals that a connection carries. While adverts are wanted, signals of devices come with them over the
    /// feed, so that none overtakes another; signals of adapters always come in order with the answers to calls of
    /// adapters.
    private struct Part: OptionSet {
        let rawValue: Int
        static let devices = Part(rawValue: 1)
        static let adapters = Part(rawValue: 2)
    }

    /// The part that comes over the radio's own connection now.
    private var ownPart: Part { signals.feed == nil ? [.devices, .adapters] : .adapters }

    /// Reads all objects, at the start and after anything that may have been missed. One reading goes on at a time, and
    /// all who ask meanwhile have another one made after it: searches may come and go faster than BlueZ answers.
    private func readAll(_ completion: @escaping () -> Void = {}) {
        if let reading { return reading.later.append(completion) }
        begin(Reading(for: [completion]))
    }

    private func begin(_ reading: Reading) {
        self.reading = reading
        reading.restart()
        guard let feed = signals.feed else { return read(ownPart, over: nil, reading) { [weak self] in self?.ended(reading) } }
        // The devices first: an adapter counts once its devices are read. In a crowd all objects are tens of megabytes,
        // so that they are not read a second time for what is known.
        read(.devices, over: feed, reading) { [weak self] in
            guard let self else { return }
            guard self.knowsAdapters else {
                return self.read(self.ownPart, over: nil, reading) { [weak self] in self?.ended(reading) }
            }
            self.settle(reason: "the adapter is there")
            self.ended(reading)
        }
    }

    private func ended(_ reading: Reading) {
        self.reading = nil
        if !reading.later.isEmpty { begin(Reading(for: reading.later)) }
        reading.end()
    }

    private func read(_ part: Part, over feed: SignalFeed?, _ reading: Reading, _ completion: @escaping () -> Void) {
        let askedFeed = signals.feed
        let taken: (Result<Message, BusError>) -> Void = { [weak self] result in
            // Another bluetoothd has a reading of its own.
            guard let self, self.reading === reading else { return reading.end() }
            // What is known by now came on another connection, and may be newer.
            guard self.signals.feed === askedFeed else { return self.begin(reading) }
            defer { completion() }
            switch result {
            case .failure(let error):
                self.log.error("BlueZ' objects cannot be read", metadata: ["error": "\(error)"])
                // No signal says that they are there.
                self.anotherReading.later { [weak self] in
                    if self?.owner != nil { self?.readAll() }
                }
            case .success(let reply):
                self.anotherReading.worked()
                self.take(part, of: reply)
            }
            if part.contains(.adapters) { self.isSettled = true }
        }
        if let feed {
            feed.ask(.radioObjects, at: BlueZ.root, completion: taken)
        } else {
            connection.ask(.radioObjects, at: BlueZ.root, completion: taken)
        }
    }

    private func take(_ part: Part, of reply: Message) {
        var paths: Set<String> = []
        reply.withArguments { objects in
            objects.forEachEntry { entry in
                guard let path = entry.string.flatMap({ ObjectPath($0) }) else { return }
                entry.next()
                paths.insert(path.rawValue)
                put(part, path, &entry, isNew: false)
            }
        }
        if part.contains(.devices) {
            for address in devices.keep(only: paths) { observer?.lost(address) }
        }
        if part.contains(.adapters) {
            adapterTable.keep(only: paths)
            knowsAdapters = true
            settle(reason: "the adapter is there")
        }
        observer?.deviceChanged(nil)
        scheduleHandOver()
    }

    /// Takes over an object's interfaces (`a{sa{sv}}` under the cursor).
    private func put(_ part: Part, _ path: ObjectPath, _ interfaces: inout ValueCursor, isNew: Bool) {
        var (hasDevice, battery): (Bool, Int?) = (false, nil)
        interfaces.forEachEntry { entry in
            if part.contains(.adapters), entry.isString(equalTo: Adapter1.interface) {
                entry.next()
                self.putAdapter(path, &entry)
            } else if part.contains(.devices), entry.isString(equalTo: Device1.interface) {
                entry.next()
                _ = self.devices.put(path, &entry, isNew: isNew)
                hasDevice = true
            } else if part.contains(.devices), entry.isString(equalTo: Battery1.interface) {
                entry.next()
                battery = Self.percentage(&entry)
            }
        }
        // It stands before the device, or comes later by itself.
        if hasDevice || battery != nil { devices[path]?.battery = battery }
    }

    private static func percentage(_ properties: inout ValueCursor) -> Int? {
        var percentage: Int?
        properties.forEachProperty(of: Battery1.self) { _, value in percentage = value.byte.map { min(Int($0), 100) } }
        return percentage
    }

    private func putAdapter(_ path: ObjectPath, _ properties: inout ValueCursor) {
        if let isDiscovering = adapterTable.put(path, &properties) { discovery.discoveringChanged(path, isDiscovering) }
    }

    private func interfacesAdded(_ part: Part, _ message: Message) {
        message.withArguments { arguments in
            guard let path = arguments.string.flatMap({ ObjectPath($0) }) else { return }
            arguments.next()
            let wasKnown = adapterTable.contains(path)
            put(part, path, &arguments, isNew: true)
            // An adapter's remembered devices follow it: it counts once they are read.
            if !wasKnown, adapterTable.contains(path) { readAll() }
            if part.contains(.devices), let device = devices[path] {
                if let observer { observer.deviceChanged(device.advertisement.address) }
                scheduleHandOver()
                if device.advertisement.isConnected { lateLinks.isUp(path) }
                if let expected, expected.device == device.advertisement.device {
                    expected.timer.cancel()
                    self.expected = nil
                    pair(device, expected.support)
                }
            }
        }
    }

    private func interfacesRemoved(_ part: Part, _ message: Message) {
        guard let arguments = try? message.arguments(), arguments.count == 2, let path = arguments[0].objectPathValue,
            let names = arguments[1].stringsValue
        else { return }
        if part.contains(.adapters), names.contains(Adapter1.interface), adapterTable.remove(path) {
            settle(reason: "the adapter \(path) was removed")
        }
        if part.contains(.devices), names.contains(Battery1.interface), let device = devices[path] {
            device.battery = nil
            observer?.deviceChanged(device.advertisement.address)
        }
        guard part.contains(.devices), names.contains(Device1.interface), let removed = devices.remove(path) else { return }
        if attempt?.device == path { attempt?.objectIsGone() }
        bridge?.lost(path)
        let address = removed.device.advertisement.address
        if removed.isHeardStill { scheduleHandOver() } else { observer?.lost(address) }
        observer?.deviceChanged(address)
    }

    private func adapterChanged(_ message: Message) {
        guard let path = message.path, adapterTable.contains(path) else { return }
        message.withArguments { arguments in
            arguments.next()
            putAdapter(path, &arguments)
        }
        // What is being read settles it, together with the devices of an adapter that has just been added.
        guard reading == nil else { return }
        settle(reason: adapterTable.isPowered(path) ? "the adapter \(path) has power" : "the adapter \(path) is off")
    }

    /// Reports changes of the adapters, and ends the pairing on an adapter that cannot be used any more.
    private func settle(reason: String) {
        let rows = adapterTable.rows
        let usable = adapterTable.choose()
        devices.adapters = rows
        discovery.use(usable)
        let busy = attempt?.device.parent ?? bridge?.adapter ?? inputSetup?.device.parent
        if let busy, !usable.contains(busy) { abort(RadioFailure(.unavailable, reason)) }
        let (all, former) = (rows.values.sorted { $0.name < $1.name }, adapters)
        adapters = all
        if case let new = adapterTable.state, new != state {
            state = new
            if new != .ready { abort(RadioFailure(.unavailable, reason)) }
            observer?.radioChanged(new, reason: reason)
        }
        guard all != former else { return }
        // Another adapter may hear what this one does not hear any more.
        if discovery.isNeeded { handOver.handContent() }
        observer?.adaptersChanged()
        // Power went before a failed pairing could be forgotten: now it can.
        if state == .ready { failedPairings.tryAgain() }
    }

    // MARK: Adverts

    private func needChanged(_ isNeeded: Bool) {
        if isNeeded {
            handOver.begin()
            signals.listen(to: owner)
            // Devices that came and went while nothing was listened to.
            if owner != nil { readAll() }
        } else {
            let wasFed = signals.rest()
            handOver.end()
            // Signals that the feed had not passed on yet.
            if wasFed, owner != nil { readAll() }
        }
    }

    private func scheduleHandOver() {
        if discovery.isNeeded { handOver.schedule() }
    }
}

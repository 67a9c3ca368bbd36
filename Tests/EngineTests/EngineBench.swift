// SPDX-License-Identifier: Apache-2.0
// The base of the engine's tests: a radio, a store and a clock that stand still until a test moves them, and a witness
// of the engine's events.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Logging
import Testing

final class ManualRadio: Radio {
    var state = RadioState.ready
    weak var observer: (any RadioObserver)?
    var adapters: [RadioAdapter] = []
    var scans = 0
    var pairing: RadioDeviceID?
    var isCancelled = false
    var removed: [BluetoothAddress] = []
    var removals: Result<Void, RadioFailure> = .success(())
    /// Keeps the answers to removals until `finishRemovals`.
    var holdsRemovals = false
    private var heldRemovals: [(Result<Void, RadioFailure>) -> Void] = []
    var bonds: [RadioBond] = []
    var support: SupportOptions = []
    var bridged: BluetoothAddress?
    var bridging: ((Result<BluetoothAddress, RadioFailure>) -> Void)?
    var aliases: [BluetoothAddress: String] = [:]

    func start() {}
    func follow(_ peers: [BluetoothPeer]) {}
    func monitor(_ patterns: [AdvertPattern]) {}
    var isMonitoring: Bool { false }
    func isMonitored(_ address: BluetoothAddress) -> Bool { false }
    func listen() -> DiscoveryToken { DiscoveryToken {} }
    func discover() -> DiscoveryToken {
        scans += 1
        return DiscoveryToken { [unowned self] in scans -= 1 }
    }
    func pair(_ device: RadioDeviceID, support: SupportOptions) { (pairing, self.support) = (device, support) }
    func bridge(
        _ peer: BluetoothPeer, classic: BluetoothAddress?,
        completion: @escaping (Result<BluetoothAddress, RadioFailure>) -> Void
    ) {
        bridged = classic ?? peer.address
        bridging = completion
    }
    func refresh(_ completion: @escaping () -> Void) { completion() }
    func setAlias(_ peer: BluetoothPeer, _ name: String) { aliases[peer.address] = name }
    func answer(_ answer: PromptAnswer) {}
    func cancelPairing() { isCancelled = true }
    func removeBond(
        _ peer: BluetoothPeer, device: RadioDeviceID?, wasPairing: Bool,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        removed.append(peer.address)
        if holdsRemovals { heldRemovals.append(completion) } else { completion(removals) }
    }
    func finishRemovals() {
        let held = heldRemovals
        heldRemovals = []
        for completion in held { completion(removals) }
    }
    func device(for peer: BluetoothPeer) -> RadioDeviceID? { nil }
    func link(with peer: BluetoothPeer) -> RadioLink { RadioLink() }
}

/// Wi-Fi by hand: requests are written down, and answered when the test says so.
final class ManualNetworks: NetworkRadio {
    var state = RadioState.ready
    weak var observer: (any NetworkRadioObserver)?
    var awareObstacle: String? = "no Wi-Fi Aware here"
    var scans = 0
    var asked: [SSID] = []
    var joins: [NetworkJoin] = []
    var leaves = 0
    private var joining: ((Result<String, RadioFailure>) -> Void)?
    private var leaving: (() -> Void)?

    func start() {}
    func scan(probing names: [SSID], aware: [WiFiAware]) -> DiscoveryToken {
        scans += 1
        asked = names
        return DiscoveryToken { [weak self] in self?.scans -= 1 }
    }
    func join(_ join: NetworkJoin, completion: @escaping (Result<String, RadioFailure>) -> Void) {
        joins.append(join)
        joining = completion
    }
    func leave(completion: @escaping () -> Void) {
        leaves += 1
        leaving = completion
    }
    func joined(_ result: Result<String, RadioFailure> = .success("wlan0")) {
        let completion = joining
        joining = nil
        completion?(result)
    }
    func left() {
        let completion = leaving
        leaving = nil
        completion?()
    }
    func hear(_ names: String..., rssi: Int = -50) {
        observer?.heard(
            networks: names.map { WiFiNetwork(ssid: SSID($0)!, rssi: rssi, security: .wpa2, band: .ghz2) })
    }
}

final class ManualStore: LedgerStore {
    struct Full: Error {}
    let trail = ManualTrail()
    var stored = StoredState()
    var isFull = false { didSet { trail.isFull = isFull } }
    /// Called after each change.
    var onChange: () -> Void = {}
    var grants: Int64 = 0
    func load() throws -> StoredState { stored }
    func commit(_ change: StoreChange) throws -> [Int64] {
        if isFull { throw Full() }
        var ledger = Ledger(accessories: stored.accessories, grants: stored.grants)
        ledger.apply(change.steps)
        stored.accessories = Array(ledger.accessories.values)
        stored.grants = Array(ledger.grants.values)
        stored.clock = change.clock ?? stored.clock
        for intent in change.intents { put(intent) }
        stored.mutedApps.removeAll { $0.app == change.unmuted || $0.app == change.muted?.app }
        if let muted = change.muted { stored.mutedApps.append(muted) }
        stored.intents.removeAll { intent in change.finishedIntents.contains { Self.isOne($0, intent) } }
        let numbers = try trail.append(change.lines)
        onChange()
        return numbers
    }
    func persist(_ intent: BondIntent) throws {
        if isFull { throw Full() }
        put(intent)
        onChange()
    }
    func delete(_ intent: BondIntent) throws {
        if isFull { throw Full() }
        stored.intents.removeAll { Self.isOne($0, intent) }
        onChange()
    }
    /// As in the tables: one of each purpose for an address.
    private static func isOne(_ one: BondIntent, _ other: BondIntent) -> Bool {
        one.address == other.address && one.purpose == other.purpose
    }
    private func put(_ intent: BondIntent) {
        stored.intents.removeAll { Self.isOne($0, intent) }
        stored.intents.append(intent)
    }
    func nextAwareDevice() throws -> UInt64 { 7 }
    func nextGrantID() throws -> Int64 {
        grants += 1
        return grants
    }
}

final class ManualClock: EngineClock {
    final class Timer: EngineTimer {
        let due: Double
        var body: (() -> Void)?
        init(_ due: Double, _ body: @escaping () -> Void) { (self.due, self.body) = (due, body) }
        func cancel() { body = nil }
    }
    var wallTime: Double { 1000 + uptime + wallError }
    var uptime = 0.0
    var timers: [Timer] = []
    /// Seconds by which the wall clock was set wrongly.
    private var wallError = 0.0
    private(set) var watches: [Timer] = []
    var reading: ClockReading { ClockReading(boot: "boot", sinceBoot: uptime, wall: wallTime, isTrusted: true) }
    /// By a clock in UTC.
    func next(_ minutes: Int, after wall: Double) -> Double {
        let day = (wall / 86400).rounded(.down) * 86400 + Double(minutes) * 60
        return day > wall ? day : day + 86400
    }
    func onClockSet(_ body: @escaping () -> Void) -> any EngineTimer {
        watches.append(Timer(0, body))
        return watches[watches.count - 1]
    }
    /// The wall clock is set, and jumps by so many seconds.
    func setWall(by seconds: Double) {
        wallError += seconds
        for watch in watches { watch.body?() }
    }
    func after(_ seconds: Double, _ body: @escaping () -> Void) -> any EngineTimer {
        let timer = Timer(uptime + seconds, body)
        timers.append(timer)
        return timer
    }
    /// The machine sleeps: no timer fires, and the kernel reports it afterwards.
    func suspend(_ seconds: Double) {
        uptime += seconds
        for watch in watches { watch.body?() }
    }
    func advance(_ seconds: Double) {
        let end = uptime + seconds
        while let next = timers.filter({ $0.body != nil && $0.due <= end }).min(by: { $0.due < $1.due }) {
            uptime = next.due
            let body = next.body
            next.body = nil
            body?()
        }
        uptime = end
    }
    var active: Int { timers.count { $0.body != nil } }
}

extension RadioBond {
    /// A bond with a device that has these services.
    init(address: BluetoothAddress, device: RadioDeviceID, name: String, services: Set<BluetoothUUID> = []) {
        var advertisement = Advertisement(device: device, address: address)
        advertisement.localName = name
        advertisement.serviceUUIDs = services
        self.init(advertisement)
    }
}

/// Writes down the events that it receives.
final class Witness {
    private(set) var events: [String] = []
    private(set) var errors: [SetupError.Code] = []
    private(set) var discovered: [DiscoveredAccessory] = []
    private(set) var offers: [[String]] = []
    private(set) var openPickers = 0
    /// Accessories that come and go, and the lines about who may use them.
    private(set) var comings: [String] = []

    func hear(_ news: EngineEvent) {
        switch news {
        case .event(let event, let session):
            events.append("\(session.id):\(event.type.name)")
            if let error = event.error { errors.append(error.code) }
            if let accessory = event.discovered { discovered.append(accessory) }
        case .accessoryAppeared: comings.append("appeared")
        case .accessoryDisappeared: comings.append("disappeared")
        case .audited(let lines): comings += lines.filter { [.granted, .revoked].contains($0.event) }.map(\.event.rawValue)
        case .pickerOpened: openPickers += 1
        case .pickerChanged(let picker): offers.append(picker.presentation.offers.map(\.name))
        case .pickerClosed: openPickers -= 1
        default: break
        }
    }

    func clearEvents() { events = [] }
}

/// A trail that is kept in memory.
final class ManualTrail: AuditTrail {
    private(set) var lines: [AuditEntry] = []
    var isFull = false
    func append(_ entries: [AuditEntry]) throws -> [Int64] {
        if isFull { throw ManualStore.Full() }
        lines += entries
        return entries.indices.map { Int64(lines.count - entries.count + $0 + 1) }
    }
    func firstLine(of query: AuditQuery) throws -> Int64 { 0 }
    func page(of query: AuditQuery, from number: Int64, atMost count: Int) throws -> AuditPage {
        AuditPage(entries: lines, next: nil)
    }
}

extension Ledger {
    /// An accessory as the first of its apps has it.
    func granted(_ id: AccessoryID) -> GrantedAccessory? {
        grants(of: id).first.flatMap { granted(id, to: $0.app) }
    }
}

final class Bench {
    var trail: ManualTrail { store.trail }
    let radio = ManualRadio()
    let networks = ManualNetworks()
    let store: ManualStore
    let clock = ManualClock()
    let witness = Witness()
    let engine: AccessoryEngine
    let service = BluetoothUUID("180F")!
    private var manifests: [AppID: AppManifest] = [:]

    init(store: ManualStore = ManualStore(), radioState: RadioState = .ready, after uptime: Double = 0) throws {
        clock.uptime = uptime
        self.store = store
        radio.state = radioState
        engine = try AccessoryEngine(
            radio: radio, networks: networks, store: store, clock: clock, trail: store.trail,
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        engine.listen { [witness] in witness.hear($0) }
        engine.start()
    }

    func app(_ id: String = "com.example.dice") -> AppManifest {
        var app = AppManifest(id: AppID(id)!, name: "Dice", source: "/apps/\(id).conf")
        app.supports = [.bluetooth, .wifi]
        app.services = [service, BluetoothUUID("FFF0")!]
        return app
    }

    /// Gives an app its manifest; each use is held against it.
    func declare(_ app: AppManifest) {
        manifests[app.id] = app
        engine.setManifests(manifests)
    }

    func session(_ client: String = ":app", app id: String = "com.example.dice", user: UInt32 = 1000) throws -> Session {
        declare(app(id))
        let session = try engine.createSession(client: ClientID(client), app: app(id), party: .user(user))
        try engine.activate(session)
        return session
    }

    func item(_ name: String = "Die", pairs: Bool = true, immediate: Bool = false) -> DisplayItem {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = service
        if pairs { descriptor.supportedOptions = .pairingLE }
        if immediate { descriptor.range = .immediate }
        return DisplayItem(name: name, descriptor: descriptor)
    }

    func hear(_ number: Int, rssi: Int? = -50, changed: Bool = true) {
        var advert = Advertisement(
            device: RadioDeviceID("/dev/\(number)"), address: BluetoothAddress(value: UInt64(number), kind: .public))
        advert.serviceUUIDs = [service]
        advert.rssi = rssi
        radio.observer?.heard([HeardDevice(address: advert.address, rssi: rssi, content: changed ? advert : nil)])
    }

    func paired(_ number: Int, wasPairedBefore: Bool = false) {
        radio.pairing = nil
        radio.observer?.pairingEnded(
            .success(
                PairedIdentity(
                    address: BluetoothAddress(value: UInt64(number), kind: .public), device: RadioDeviceID("/dev/\(number)"),
                    wasPairedBefore: wasPairedBefore)))
    }

    /// A picker with one offer that the person has picked.
    func pickOne() throws -> Session {
        try engine.registerPicker(ClientID(":picker"))
        let session = try session()
        try engine.showPicker(session, items: [item()], settings: PickerSettings())
        hear(1)
        try engine.pick(try #require(engine.picker), offer: try #require(engine.picker?.presentation.offers.first?.id))
        return session
    }
}

extension AccessoryEngine {
    /// Shows a picker, for tests in which no request waits.
    func showPicker(_ session: Session, items: [DisplayItem], settings: PickerSettings) throws(SetupError) {
        var outcome: Result<PickerRun, SetupError>?
        showPicker(session, items: items, settings: settings) { outcome = $0 }
        _ = try outcome?.get()
    }

    func renameAccessory(_ session: Session, _ id: AccessoryID, options: RenameOptions) throws(SetupError) {
        var outcome: Result<PickerRun, SetupError>?
        renameAccessory(session, id, options: options) { outcome = $0 }
        _ = try outcome?.get()
    }

    func updateAuthorization(_ session: Session, _ id: AccessoryID, descriptor: DiscoveryDescriptor) throws(SetupError) {
        var outcome: Result<PickerRun, SetupError>?
        updateAuthorization(session, id, descriptor: descriptor) { outcome = $0 }
        _ = try outcome?.get()
    }
}

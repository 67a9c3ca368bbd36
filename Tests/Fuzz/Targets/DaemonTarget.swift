// SPDX-License-Identifier: Apache-2.0
// Messages into the whole daemon but its edges: calls of apps, pickers, admins and strangers to any member of any
// object with arguments that are mostly of the right types, while the radios hear, prompt, pair and fail at the word of
// the input. A refused call changes nothing, a stranger changes nothing at all, and the stored state is the state at
// work.

import AccessoryBus
import AccessoryCore
import AccessoryEngine
import AccessoryModel
import AdminFiles
import Foundation
import Logging

@testable import AccessoryService
@testable import CallerIdentity
@testable import DBusKit

private let log = Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }

/// Who calls, by the name of the connection.
private enum Kind: String, CaseIterable {
    case stranger = ":1.10"
    case board = ":1.11"
    case dice = ":1.12"
    case picker = ":1.13"
    case admin = ":1.14"
    /// The bus is asked who that is.
    case unknown = ":1.15"

    /// The app's unit, for apps.
    var unit: String? {
        switch self {
        case .board: "board.service"
        case .dice: "dice.service"
        default: nil
        }
    }
}

/// A group that every machine has, in the place of accessory-picker.
private let group = "daemon"

private let manifests: String = {
    let directory = scratch + "/manifests"
    do {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        for app in ["dice", "board"] {
            try """
            [Application]
            Id=com.example.\(app)
            Name=\(app)
            Unit=\(app).service

            [AccessorySetup]
            Supports=Bluetooth;WiFi;
            BluetoothServices=180F;
            BluetoothNames=Dice;
            """.write(toFile: "\(directory)/com.example.\(app).conf", atomically: false, encoding: .utf8)
        }
    } catch {
        found("\(error)")
    }
    return directory
}()

/// Bluetooth at the word of the input.
private final class PlayedRadio: Radio {
    var state = RadioState.ready
    weak var observer: (any RadioObserver)?
    let adapters: [RadioAdapter] = []
    var bonds: [RadioBond] = []
    private(set) var pairing: RadioDeviceID?
    private(set) var isMonitoring = false
    private var monitored: Set<BluetoothAddress> = []
    var completions: [(Bool) -> Void] = []

    static func address(_ number: Int) -> BluetoothAddress { BluetoothAddress(value: UInt64(number), kind: .public) }
    static func device(_ number: Int) -> RadioDeviceID { RadioDeviceID("/org/bluez/hci0/dev_\(number)") }

    func start() {}
    func discover() -> DiscoveryToken { DiscoveryToken {} }
    func follow(_ peers: [BluetoothPeer]) {}
    func listen() -> DiscoveryToken { DiscoveryToken {} }
    func monitor(_ patterns: [AdvertPattern]) {}
    func isMonitored(_ address: BluetoothAddress) -> Bool { isMonitoring && monitored.contains(address) }
    func pair(_ device: RadioDeviceID, support: SupportOptions) { pairing = device }
    func answer(_ answer: PromptAnswer) {}
    func cancelPairing() {}
    func bridge(
        _ peer: BluetoothPeer, classic: BluetoothAddress?,
        completion: @escaping (Result<BluetoothAddress, RadioFailure>) -> Void
    ) {
        completions.append { completion($0 ? .success(Self.address(77)) : .failure(RadioFailure(.refused, "played"))) }
    }
    func setAlias(_ peer: BluetoothPeer, _ name: String) {}
    func removeBond(
        _ peer: BluetoothPeer, device: RadioDeviceID?, wasPairing: Bool,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        completions.append { completion($0 ? .success(()) : .failure(RadioFailure(.unavailable, "played"))) }
    }
    func refresh(_ completion: @escaping () -> Void) { completion() }
    func device(for peer: BluetoothPeer) -> RadioDeviceID? { RadioDeviceID("/org/bluez/hci0/dev_\(peer.address.value)") }
    func link(with peer: BluetoothPeer) -> RadioLink { RadioLink() }

    func toggleMonitoring() {
        isMonitoring.toggle()
        observer?.monitoringChanged()
    }

    func toggleMonitor(of address: BluetoothAddress) {
        monitored.formSymmetricDifference([address])
        observer?.monitorChanged(address)
    }

    func endPairing(_ succeeds: Bool) {
        guard let device = pairing, let number = Int(device.rawValue.split(separator: "_").last ?? "") else { return }
        pairing = nil
        observer?.pairingEnded(
            succeeds
                ? .success(PairedIdentity(address: Self.address(number), device: device, wasPairedBefore: false))
                : .failure(RadioFailure(.refused, "played")))
    }
}

/// Wi-Fi at the word of the input.
private final class PlayedNetworks: NetworkRadio {
    let state = RadioState.ready
    weak var observer: (any NetworkRadioObserver)?
    let awareObstacle: String? = nil
    var completions: [(Bool) -> Void] = []
    func start() {}
    func scan(probing names: [SSID], aware: [WiFiAware]) -> DiscoveryToken { DiscoveryToken {} }
    func join(_ join: NetworkJoin, completion: @escaping (Result<String, RadioFailure>) -> Void) {
        completions.append { completion($0 ? .success("wlan0") : .failure(RadioFailure(.refused, "played"))) }
    }
    func leave(completion: @escaping () -> Void) { completion() }
}

/// The contents of the disk.
private final class PlayedDisk: LedgerStore, AuditTrail {
    struct Full: Error {}
    var ledger: Ledger
    var isFull = false
    private var numbers: Int64 = 100
    init(_ ledger: Ledger) { self.ledger = ledger }
    func load() throws -> StoredState {
        StoredState(accessories: Array(ledger.accessories.values), grants: Array(ledger.grants.values))
    }
    func commit(_ change: StoreChange) throws -> [Int64] {
        if isFull { throw Full() }
        ledger.apply(change.steps)
        return change.lines.map { _ in 1 }
    }
    func persist(_ intent: BondIntent) throws { if isFull { throw Full() } }
    func delete(_ intent: BondIntent) throws { if isFull { throw Full() } }
    func nextGrantID() throws -> Int64 {
        if isFull { throw Full() }
        numbers += 1
        return numbers
    }
    func nextAwareDevice() throws -> UInt64 { UInt64(try nextGrantID()) }
    func append(_ entries: [AuditEntry]) throws -> [Int64] { entries.map { _ in 1 } }
    func firstLine(of query: AuditQuery) throws -> Int64 { 0 }
    func page(of query: AuditQuery, from number: Int64, atMost count: Int) throws -> AuditPage { AuditPage(entries: [], next: nil) }
}

/// Time that passes at the word of the input.
private final class PlayedClock: EngineClock {
    final class Timer: EngineTimer {
        var body: (() -> Void)?
        init(_ body: @escaping () -> Void) { self.body = body }
        func cancel() { body = nil }
    }
    var wallTime: Double { 1000 + uptime }
    var uptime = 0.0
    var reading: ClockReading { ClockReading(boot: "boot", sinceBoot: uptime, wall: wallTime, isTrusted: true) }
    func next(_ minutes: Int, after wall: Double) -> Double { wall + Double(minutes) * 60 }
    func onClockSet(_ body: @escaping () -> Void) -> any EngineTimer { Timer(body) }
    private var timers: [Timer] = []
    func after(_ seconds: Double, _ body: @escaping () -> Void) -> any EngineTimer {
        let timer = Timer(body)
        timers.append(timer)
        return timer
    }
    func fireOne() {
        timers.removeAll { $0.body == nil }
        guard !timers.isEmpty else { return }
        uptime += 1
        let timer = timers.removeFirst()
        let body = timer.body
        timer.body = nil
        body?()
    }
}

private let daemonWords =
    sessionWords
    + Vocabulary(
        texts: ["1:1", "org.accessorysetup1.Grant", "Enabled", "State", "com.example.dice"],
        keys: [("app", "s"), ("since", "x"), ("limit", "u"), ("accessory", "o"), ("offer", "s"), ("follow", "b")])

/// Every member that can be called, and the types of its arguments.
private let members: [(interface: String, member: String, types: String)] = {
    var all: [(String, String, String)] = [
        (Bus.properties, "Get", "ss"), (Bus.properties, "GetAll", "s"), (Bus.properties, "Set", "ssv"),
        (Bus.objectManager, "GetManagedObjects", ""), (Bus.introspectable, "Introspect", ""), (Bus.peer, "Ping", ""),
    ]
    for interface in [
        AccessoryBus.manager, AccessoryBus.session, AccessoryBus.accessory, AccessoryBus.network, AccessoryBus.picker,
        AccessoryBus.grant, AccessoryBus.app, AccessoryBus.admin,
    ] {
        guard let description = try? AccessoryBus.description(of: interface) else { found("no \(interface)") }
        all += description.methods.map { (interface, $0.name, $0.inputSignature) }
    }
    return all
}()

private final class World {
    let loop = MainLoop()
    let radio = PlayedRadio()
    let networks = PlayedNetworks()
    let disk: PlayedDisk
    let clock = PlayedClock()
    let engine: AccessoryEngine
    let service: AccessoryService
    let accessory: Accessory
    var bus: PlayedService
    var line: PlayedBus.Line? { PlayedBus.shared.lines.first }
    /// Calls that are not answered: their numbers, and who called.
    var waiting: [UInt32: Kind] = [:]

    init() throws {
        let connection = try Connection(PlayedBus.shared.address, loop: loop)
        accessory = Accessory(
            id: AccessoryID("12345678-1234-1234-1234-123456789abc")!, displayName: "Die", address: PlayedRadio.address(1),
            isBonded: true, created: 1)
        let grant = Grant(
            id: 1, app: AppID("com.example.dice")!, accessory: accessory.id, state: .authorized,
            terms: Grant.Terms(DiscoveryDescriptor(), ssid: SSID("Dice")), created: 1)
        disk = PlayedDisk(Ledger(accessories: [accessory], grants: [grant]))
        engine = try AccessoryEngine(radio: radio, networks: networks, store: disk, clock: clock, trail: disk, log: log)
        service = AccessoryService(
            engine: engine, manifests: ManifestStore(directories: [manifests], loop: loop, log: log),
            policies: PolicyStore(directories: [manifests + "/none"], loop: nil, log: log),
            resolver: CallerResolver(on: connection),
            connection: connection, pickerGroup: group, log: log)
        bus = PlayedService(daemonWords, owners: [:])
        bus.types = ["GetConnectionCredentials": "a{sv}", "CheckAuthorization": "(bba{ss})", "GetConnectionUnixProcessID": "u"]
        bus.usual = { call in
            switch call.member {
            case "GetConnectionCredentials":
                [.vardict(["ProcessID": .uint32(UInt32(getpid())), "UnixUserID": .uint32(getuid())])]
            case "GetConnectionUnixProcessID": [.uint32(UInt32(getpid()))]
            case "CheckAuthorization": [.structure([.boolean(false), .boolean(false), .dictionary(key: "s", value: "s", [])])]
            default: []
            }
        }
        engine.start()
        service.start()
        for (number, kind) in Kind.allCases.enumerated() where kind != .unknown {
            var caller = Caller(uid: kind == .admin ? 0 : 60_000 + UInt32(number), pid: Int32(number) + 1)
            if kind == .picker, let entry = getgrnam(group) { caller.groups = [entry.pointee.gr_gid] }
            caller.unit = kind.unit
            service.clients.adopt(kind.rawValue, PinnedCaller(caller, began: nil, image: nil), by: .bus)
        }
    }

    /// The daemon's process ends: waiting calls are not answered any more.
    func end() {
        service.connection.localPeers = nil
        service.connection.onCall = nil
        service.connection.refusal = nil
        radio.completions = []
        networks.completions = []
        PlayedBus.shared.reset(loop)
    }

    /// Calls as a caller of one kind. Nil when the call cannot travel.
    @discardableResult
    func call(_ kind: Kind, _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue]) -> UInt32? {
        guard let line, let call = try? Message.call(to: ":1.1", path: path, interface: interface, member: member, arguments)
        else { return nil }
        call.setSender(kind.rawValue)
        let serial = PlayedBus.shared.say(call, on: line)
        guard serial != 0 else { return nil }
        waiting[serial] = kind
        return serial
    }

    /// Runs until nothing more happens, and takes the answers.
    ///
    /// - Returns: the errors, by the calls' numbers.
    @discardableResult
    func settle() -> [UInt32: BusError] {
        var refusals: [UInt32: BusError] = [:]
        var quiet = 0
        for _ in 0..<32 where quiet < 2 {
            loop.iterate(mayBlock: false)
            let heard = PlayedBus.shared.hear()
            for (_, message) in heard where message.kind == .reply || message.kind == .error {
                let number = message.replySerial
                expect(
                    waiting.removeValue(forKey: number)?.rawValue == message.destination,
                    "an answer that nobody waits for: \(number) to \(message.destination ?? "nobody")")
                if let error = message.error { refusals[number] = error }
            }
            bus.receive(heard)
            quiet = heard.isEmpty ? quiet + 1 : 0
        }
        let (mine, stored) = (engine.ledger, disk.ledger)
        expect(mine.accessories == stored.accessories && mine.grants == stored.grants, "what is stored is not what is at work")
        return refusals
    }
}

func callDaemon(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    defer { PlayedBus.shared.reset() }
    do {
        let world = try World()
        world.settle()
        if !input.oneIn(4) { prepare(world) }
        for _ in 0..<24 where !input.isAtEnd { step(world, &input) }
        world.end()
    } catch {
        found("no daemon: \(error)")
    }
}

/// An app with a session and a picker that is shown.
private func prepare(_ world: World) {
    world.call(.picker, AccessoryBus.root, AccessoryBus.manager, "RegisterPicker", [.vardict([:])])
    world.call(.dice, AccessoryBus.root, AccessoryBus.manager, "CreateSession", [.vardict([:])])
    world.settle()
    guard let session = world.engine.sessions.keys.first else { found("no session") }
    world.call(.dice, AccessoryBus.sessionPath(session), AccessoryBus.session, "Activate", [])
    world.call(
        .dice, AccessoryBus.sessionPath(session), AccessoryBus.session, "ShowPicker", [usualItems, .vardict([:])])
    world.settle()
}

private let usualItems = DBusValue.array(
    of: "a{sv}", [.vardict(["name": .string("Die"), "descriptor": .vardict(["bluetoothServiceUUID": .string("180F")])])])

private func step(_ world: World, _ input: inout Input) {
    let before = world.engine.ledger
    switch input.byte() % 16 {
    case 0: world.bus.answerAll()
    case 1: world.bus.answerOne(&input)
    case 2, 3: hear(world, &input)
    case 4: world.radio.endPairing(!input.oneIn(3))
    case 5:
        guard world.radio.pairing != nil else { return }
        world.radio.observer?.pairingPrompted(
            input.pick([
                .confirmPasskey(123_456), .enterPasskey, .displayPasskey(1, entered: 2), .enterPIN, .displayPIN("0000"), .consent,
            ]))
    case 6:
        let isDone = !input.oneIn(3)
        let (radio, networks) = (world.radio.completions, world.networks.completions)
        world.radio.completions = []
        world.networks.completions = []
        for completion in radio + networks { completion(isDone) }
    case 7: world.clock.fireOne()
    case 8:
        switch input.byte() % 3 {
        case 0: world.disk.isFull.toggle()
        case 1:
            world.radio.state = input.pick([.ready, .off, .absent])
            world.radio.observer?.radioChanged(world.radio.state, reason: "played")
            world.radio.toggleMonitoring()
        default: leave(world, &input)
        }
    default:
        call(world, &input, before)
        return
    }
    world.settle()
}

private func hear(_ world: World, _ input: inout Input) {
    let number = 1 + input.number(below: 4)
    var advert = Advertisement(device: PlayedRadio.device(number), address: PlayedRadio.address(number))
    advert.serviceUUIDs = [BluetoothUUID("180F")!]
    advert.localName = input.text(sessionWords)
    advert.rssi = -50
    world.radio.observer?.heard([HeardDevice(address: advert.address, rssi: -50, content: advert)])
    if input.oneIn(4), let ssid = SSID(input.bytes()) {
        world.networks.observer?.heard(networks: [WiFiNetwork(ssid: ssid, rssi: -50, security: .wpa2, band: .ghz2)])
    }
    if input.oneIn(8) { world.radio.observer?.lost(advert.address) }
    if input.oneIn(8) { world.radio.toggleMonitor(of: advert.address) }
}

/// A connection goes.
private func leave(_ world: World, _ input: inout Input) {
    guard let line = world.line else { return }
    let kind = input.pick(Kind.allCases)
    let arguments: [DBusValue] = [.string(kind.rawValue), .string(kind.rawValue), .string("")]
    guard let signal = try? Message.signal(path: Bus.path, interface: Bus.name, member: "NameOwnerChanged", arguments)
    else { return }
    signal.setSender(Bus.name)
    PlayedBus.shared.say(signal, on: line)
    world.waiting = world.waiting.filter { $0.value != kind }
}

private func path(_ interface: String, _ world: World, _ input: inout Input) -> ObjectPath {
    let session = world.engine.sessions.keys.sorted().first.map { AccessoryBus.sessionPath($0) }
    let picker = world.engine.picker.map { AccessoryBus.pickerPath($0.id) }
    let accessories = world.engine.ledger.accessories.keys.sorted().map { AccessoryBus.accessoryPath($0) }
    let grants = world.engine.ledger.grants.keys.sorted().map { AccessoryBus.grantPath($0) }
    switch interface {
    case AccessoryBus.manager, Bus.objectManager: return AccessoryBus.root
    case AccessoryBus.session: return session ?? AccessoryBus.root
    case AccessoryBus.picker: return picker ?? AccessoryBus.root
    case AccessoryBus.accessory, AccessoryBus.network: return accessories.isEmpty ? AccessoryBus.root : input.pick(accessories)
    case AccessoryBus.grant: return grants.isEmpty ? AccessoryBus.root : input.pick(grants)
    case AccessoryBus.app: return AccessoryBus.appPath("com.example.dice")
    case AccessoryBus.admin: return AccessoryBus.adminPath
    default:
        return input.pick(
            [session, picker].compactMap(\.self) + accessories + grants + [AccessoryBus.root, AccessoryBus.adminPath])
    }
}

private func call(_ world: World, _ input: inout Input, _ before: Ledger) {
    let (interface, member, types) = input.pick(members)
    var kind = input.pick(Kind.allCases)
    // Mostly those who may.
    if !input.oneIn(3) {
        switch interface {
        case AccessoryBus.session: kind = .dice
        case AccessoryBus.picker: kind = .picker
        case AccessoryBus.grant, AccessoryBus.app, AccessoryBus.admin: kind = .admin
        default: break
        }
    }
    var words = daemonWords
    words.paths += world.engine.ledger.accessories.keys.sorted().map { AccessoryBus.accessoryPath($0) }
    words.texts += world.engine.picker?.presentation.offers.map(\.id) ?? []
    let place = input.oneIn(10) ? input.path(words) : path(interface, world, &input)
    var arguments = input.arguments(types, words)
    if member == "ShowPicker", input.oneIn(2) { arguments = [usualItems, .vardict([:])] }
    if member == "Pick", let offer = world.engine.picker?.presentation.offers.first, input.oneIn(2) {
        arguments = [.string(offer.id)]
    }
    let serial = world.call(kind, place, interface, member, arguments)
    let refusals = world.settle()
    let after = world.engine.ledger
    let isSame = before.accessories == after.accessories && before.grants == after.grants
    if kind == .stranger { expect(isSame, "a stranger's \(interface).\(member) changes who has what") }
    if let serial, let error = refusals[serial] { expect(isSame, "\(member) is refused (\(error)), and changes who has what") }
}

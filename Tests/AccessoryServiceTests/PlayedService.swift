// SPDX-License-Identifier: Apache-2.0
// The service on a private bus, over an engine whose edges stand still, and callers of every kind: real connections,
// for which the test supplies the identities.

import AccessoryBus
import AccessoryCore
import AccessoryEngine
import AccessoryModel
@testable import AccessoryService
import AdminFiles
@testable import CallerIdentity
import DBusKit
import Foundation
import Logging
import TestSupport
import Testing

/// A radio that is ready and hears nothing.
private final class StillRadio: Radio {
    let state = RadioState.ready
    weak var observer: (any RadioObserver)?
    let bonds: [RadioBond] = []
    let adapters: [RadioAdapter] = []
    func start() {}
    func discover() -> DiscoveryToken { DiscoveryToken {} }
    func follow(_ peers: [BluetoothPeer]) {}
    func monitor(_ patterns: [AdvertPattern]) {}
    var isMonitoring: Bool { false }
    func isMonitored(_ address: BluetoothAddress) -> Bool { false }
    func listen() -> DiscoveryToken { DiscoveryToken {} }
    func pair(_ device: RadioDeviceID, support: SupportOptions) {}
    func answer(_ answer: PromptAnswer) {}
    func cancelPairing() {}
    func bridge(
        _ peer: BluetoothPeer, classic: BluetoothAddress?,
        completion: @escaping (Result<BluetoothAddress, RadioFailure>) -> Void
    ) { completion(.failure(RadioFailure(.unavailable, "still"))) }
    func setAlias(_ peer: BluetoothPeer, _ name: String) {}
    func removeBond(
        _ peer: BluetoothPeer, device: RadioDeviceID?, wasPairing: Bool,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        completion(.success(()))
    }
    func refresh(_ completion: @escaping () -> Void) { completion() }
    func device(for peer: BluetoothPeer) -> RadioDeviceID? { nil }
    func link(with peer: BluetoothPeer) -> RadioLink { RadioLink() }
}

/// No Wi-Fi.
private final class NoNetworks: NetworkRadio {
    let state = RadioState.absent
    weak var observer: (any NetworkRadioObserver)?
    let awareObstacle: String? = "no Wi-Fi here"
    func start() {}
    func scan(probing names: [SSID], aware: [WiFiAware]) -> DiscoveryToken { DiscoveryToken {} }
    func join(_ join: NetworkJoin, completion: @escaping (Result<String, RadioFailure>) -> Void) {
        completion(.failure(RadioFailure(.unavailable, "still")))
    }
    func leave(completion: @escaping () -> Void) { completion() }
}

/// A store with earlier set-ups, which accepts every request.
private final class StillStore: LedgerStore {
    private let stored: StoredState
    init(_ stored: StoredState) { self.stored = stored }
    func load() throws -> StoredState { stored }
    func commit(_ change: StoreChange) throws -> [Int64] { [] }
    func persist(_ intent: BondIntent) throws {}
    func delete(_ intent: BondIntent) throws {}
    func nextGrantID() throws -> Int64 { 100 }
    func nextAwareDevice() throws -> UInt64 { 100 }
}

/// Time that does not pass.
private final class StillClock: EngineClock {
    private final class Timer: EngineTimer { func cancel() {} }
    let wallTime = 1000.0
    let uptime = 0.0
    let reading = ClockReading(boot: "boot", sinceBoot: 0, wall: 1000, isTrusted: true)
    func next(_ minutes: Int, after wall: Double) -> Double { wall + 60 }
    func onClockSet(_ body: @escaping () -> Void) -> any EngineTimer { Timer() }
    func after(_ seconds: Double, _ body: @escaping () -> Void) -> any EngineTimer { Timer() }
}

/// Who calls.
enum CallerKind: CaseIterable {
    /// No app, no admin, in no group.
    case stranger
    /// An app with a session, to which nothing is granted.
    case app
    /// An app with a session, to which the accessory is granted.
    case appWithGrant
    /// Another connection of that app, which has no session.
    case appWithoutSession
    /// A member of the group, whose picker is shown.
    case picker
    /// A member of the group.
    case otherMember
    /// A member of the group who set the accessory up.
    case owner
    /// An app without a session that runs as the owner, in the group.
    case ownersApp
    /// A process of the owner's that is not in the group.
    case ownerOutside
    case admin

    var isInGroup: Bool { [.picker, .otherMember, .owner, .ownersApp].contains(self) }

    /// The app's unit, for apps.
    var unit: String? {
        switch self {
        case .app, .ownersApp: "board.service"
        case .appWithGrant, .appWithoutSession: "dice.service"
        default: nil
        }
    }
}

/// Where the members of the tables are.
enum Place: CaseIterable {
    case manager
    /// Of the app without a grant.
    case session
    /// Of the app with one.
    case sessionWithGrant
    case accessory
    /// Shown for the app with a grant.
    case picker
    case grant
    case app
    case admin
}

/// The service and its callers.
final class PlayedService {
    /// A group that every machine has, in the place of accessory-picker.
    private static let group = "daemon"
    private static let owner: UInt32 = 50_000

    private let bus: PrivateBus
    private let directory: TemporaryDirectory
    private let loop = MainLoop()
    private let server: Connection
    private let service: AccessoryService
    private var callers: [CallerKind: Connection] = [:]
    private(set) var paths: [Place: ObjectPath] = [:]

    init() throws {
        bus = try PrivateBus()
        directory = try TemporaryDirectory()
        server = try Connection(.server(bus.address), loop: loop)
        for app in ["dice", "board"] {
            try directory.write(
                "com.example.\(app).conf",
                """
                [Application]
                Id=com.example.\(app)
                Name=\(app)
                Unit=\(app).service

                [AccessorySetup]
                Supports=Bluetooth;
                BluetoothServices=180F;
                """)
        }
        let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let accessory = Accessory(
            id: .random(), displayName: "Die", address: BluetoothAddress(value: 1, kind: .public), isBonded: true, created: 1)
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = BluetoothUUID("180F")
        let grant = Grant(
            id: 7, app: try #require(AppID("com.example.dice")), accessory: accessory.id, state: .authorized,
            terms: Grant.Terms(descriptor, hasBluetooth: true), user: Self.owner, created: 1)
        let engine = try AccessoryEngine(
            radio: StillRadio(), networks: NoNetworks(), store: StillStore(StoredState(accessories: [accessory], grants: [grant])),
            clock: StillClock(), log: log)
        service = AccessoryService(
            engine: engine, manifests: ManifestStore(directories: [directory.path], loop: loop, log: log),
            policies: PolicyStore(directories: [directory.path + "/policy.d"], loop: nil, log: log),
            resolver: CallerResolver(on: server), connection: server, pickerGroup: Self.group, log: log)
        engine.start()
        service.start()
        for kind in CallerKind.allCases { try add(kind) }
        paths = [
            .manager: AccessoryBus.root, .accessory: AccessoryBus.accessoryPath(accessory.id),
            .grant: AccessoryBus.grantPath(grant.id),
            .app: AccessoryBus.appPath("com.example.dice"), .admin: AccessoryBus.adminPath,
        ]
        for (place, kind) in [(.session, .app), (.sessionWithGrant, .appWithGrant)] as [(Place, CallerKind)] {
            let session = try call(kind, AccessoryBus.root, AccessoryBus.manager, "CreateSession", [.vardict([:])]).get().first
            paths[place] = try #require(session?.objectPathValue)
        }
        let session = path(.sessionWithGrant)
        _ = try call(.appWithGrant, session, AccessoryBus.session, "Activate").get()
        _ = try call(.picker, AccessoryBus.root, AccessoryBus.manager, "RegisterPicker", [.vardict([:])]).get()
        let item = DBusValue.vardict([
            "name": .string("Die"), "descriptor": .vardict(["bluetoothServiceUUID": .string("180F")]),
        ])
        let picker = try call(
            .appWithGrant, session, AccessoryBus.session, "ShowPicker", [.array(of: "a{sv}", [item]), .vardict([:])])
        paths[.picker] = try #require(try picker.get().first?.objectPathValue)
    }

    func path(_ place: Place) -> ObjectPath { paths[place]! }

    /// A connection that the service takes for one of this kind.
    private func add(_ kind: CallerKind) throws {
        let connection = try Connection(.server(bus.address), loop: loop)
        let number = UInt32(try #require(CallerKind.allCases.firstIndex(of: kind)))
        let uid =
            switch kind {
            case .admin: UInt32(0)
            case .owner, .ownersApp, .ownerOutside: Self.owner
            default: 60_000 + number
            }
        var caller = Caller(uid: uid, pid: Int32(number) + 1)
        if kind.isInGroup { caller.groups = [try #require(getgrnam(Self.group)).pointee.gr_gid] }
        caller.unit = kind.unit
        service.clients.adopt(connection.uniqueName, PinnedCaller(caller, began: nil, image: nil), by: .bus)
        callers[kind] = connection
    }

    /// Calls and runs the loop until the answer is there.
    func call(
        _ kind: CallerKind, _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue] = []
    ) throws -> Result<[DBusValue], BusError> {
        var answer: Result<[DBusValue], BusError>?
        callers[kind]?.call(server.uniqueName, path, interface, member, arguments) { answer = $0 }
        #expect(loop.run(until: { answer != nil }, timeout: .hang))
        return try #require(answer)
    }
}

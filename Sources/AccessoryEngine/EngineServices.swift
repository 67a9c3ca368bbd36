// SPDX-License-Identifier: Apache-2.0
// The parts of the engine that most owners use, constructed once by `AccessoryEngine`.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

/// The engine's connections to the world that most owners use. The store and the trail have owners of their own.
struct EnginePorts {
    let radio: any Radio
    let networkRadio: any NetworkRadio
    let extensions: any DiscoveryExtensions
    let clock: any EngineClock
    let log: Logger
}

/// The engine's parts, in the order of their construction.
struct EngineServices {
    private let ports: EnginePorts
    let time: GrantTime
    let nearness: Matcher.Nearness
    let publisher: EventPublisher
    let audit: AuditWriter
    let sessions: Sessions
    let registry: GrantRegistry
    let bonds: BondKeeper
    let access: AccessChanges
    let mutedApps: MutedApps

    var radio: any Radio { ports.radio }
    var networkRadio: any NetworkRadio { ports.networkRadio }
    var extensions: any DiscoveryExtensions { ports.extensions }
    var clock: any EngineClock { ports.clock }
    var log: Logger { ports.log }

    /// - Throws: the store's error when it cannot be read.
    init(
        _ ports: EnginePorts, _ store: any LedgerStore, _ trail: (any AuditTrail)?, _ nearness: Matcher.Nearness
    ) throws {
        self.ports = ports
        self.nearness = nearness
        let (radio, clock, log) = (ports.radio, ports.clock, ports.log)
        let stored = try store.load()
        time = GrantTime(stored.clock, stored.grants, clock)
        publisher = EventPublisher()
        audit = AuditWriter(trail, publisher, clock, log)
        sessions = Sessions(publisher, log)
        registry = GrantRegistry(
            Ledger(accessories: stored.accessories, grants: stored.grants), Claims(stored.claims), store, sessions, publisher,
            audit, clock, time, log)
        bonds = BondKeeper(stored.intents, radio, store, registry, clock, log)
        access = AccessChanges(registry, bonds, radio, sessions, log)
        mutedApps = MutedApps(stored.mutedApps, store, publisher, audit, clock)
    }
}

/// Handles events one after the other: an event that arises while another is handled waits for its turn, so that the
/// effects of each are performed in order.
final class EventQueue<Event> {
    private var waiting: [Event] = []
    private var isHandling = false

    func add(_ event: Event, handle: (Event) -> Void) {
        waiting.append(event)
        guard !isHandling else { return }
        isHandling = true
        defer { isHandling = false }
        while !waiting.isEmpty { handle(waiting.removeFirst()) }
    }
}

// SPDX-License-Identifier: Apache-2.0
// The half of a central manager on the runtime's thread: routes the app's requests and the view's events to the session
// with the view, the scanner, and one link for each accessory.

internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit
internal import Foundation

/// A manager's client.
final class CentralClient {
    let core: CentralCore
    private(set) var session: ViewSession!
    private unowned let registry: CentralRegistry
    private var scanner: Scanner!
    private var links: [UUID: PeripheralLink] = [:]
    /// The links whose events the app has registered for.
    private var eventFilter: ConnectionEventFilter?
    private var hasRestored = false

    struct ConnectionEventFilter: Sendable {
        /// Nil for any.
        var services: [String]?
        var peripherals: Set<UUID>?
    }

    init(_ core: CentralCore, _ registry: CentralRegistry, _ loop: MainLoop) {
        self.core = core
        self.registry = registry
        session = ViewSession(core.address, loop) { [weak self] in self?.handle($0) }
        scanner = Scanner(core, session) { [weak self] in self?.links.values.contains(where: \.needsDiscovery) ?? false
        }
    }

    var address: Connection.Address { core.address }

    // MARK: Life

    func start() {
        session.start()
    }

    func end() {
        for link in links.values { link.handle(.released) }
        links = [:]
        session.end()
    }

    // MARK: Events

    private func handle(_ event: ViewSession.Event) {
        switch event {
        case .state(let state): stateChanged(state)
        case .grantsChanged: grantsChanged()
        case .changed(let change): handle(change)
        }
    }

    private func handle(_ change: ObjectChange) {
        switch change {
        case .loaded:
            grantsChanged()
            for link in links.values { link.handle(.deviceChanged(["Connected", "ServicesResolved"])) }
        case .device(let path, let changed): deviceChanged(path, changed)
        case .endAnnounced(let path, let reason): links.values.first { $0.path == path }?.handle(.endAnnounced(reason))
        case .attribute(let path, let isGone): link(of: path)?.requests?.attributeChanged(path, isGone: isGone)
        case .value(let path, let value): link(of: path)?.requests?.valueChanged(path, value)
        case .released(let path): link(of: path)?.requests?.released(path)
        }
    }

    private func stateChanged(_ state: CBManagerState) {
        let isOn = state == .poweredOn
        if !isOn {
            scanner.radioLost()
            let error = CBError(.peripheralDisconnected, "Bluetooth is not available")
            for link in links.values { link.handle(.radioLost(error)) }
        }
        if isOn { restore() }
        core.publish { manager in manager.apply(state) }
        guard isOn else { return }
        for link in links.values { link.handle(.poweredOn) }
        searchesChanged()
    }

    private func grantsChanged() {
        let byIdentifier = Dictionary(session.grants.map { ($0.identifier, $0) }) { first, _ in first }
        for link in links.values { link.handle(byIdentifier[link.identifier].map { .granted($0.path) } ?? .revoked) }
        links = links.filter { byIdentifier[$0.key] != nil }
        searchesChanged()
    }

    private func deviceChanged(_ path: ObjectPath, _ changed: Set<String>) {
        guard let grant = session.grants.first(where: { $0.path == path }) else {
            if session.tree.device(path) != nil, !changed.isDisjoint(with: Self.advertised),
                let heard = ViewSession.Grant(heard: path)
            {
                scanner.advertised(heard)
            }
            return
        }
        if changed.contains("Connected") { publishConnectionEvent(grant) }
        let link = links[grant.identifier]
        link?.handle(.deviceChanged(changed))
        if !changed.isDisjoint(with: ["Name", "Alias"]), let name = session.tree.device(path)?.displayName {
            core.publish(grant.identifier) { manager, peripheral in
                guard peripheral.apply(name: name) else { return }
                peripheral.delegate?.peripheralDidUpdateName(peripheral)
            }
        }
        if session.tree.device(path) != nil, !changed.isDisjoint(with: Self.advertised) {
            scanner.advertised(grant)
            link?.handle(.advertised)
        }
        // The discovery also finds objects that BlueZ has removed.
        if link?.needsDiscovery == true { scanner.update() }
    }

    private static let advertised = ["RSSI", "ManufacturerData", "ServiceData", "UUIDs"]

    private func link(of path: ObjectPath) -> PeripheralLink? {
        links.values.first { $0.isConnected && path.isBelow($0.path) }
    }

    // MARK: For links

    func searchesChanged() {
        scanner.update()
    }

    func hold(_ device: ObjectPath) {
        registry.hold(device, self)
    }

    func release(_ device: ObjectPath) -> Bool { registry.release(device, self) }

    // MARK: Restoring

    /// Adopts links that an earlier process of the app has left up. Once, before the first state.
    private func restore() {
        guard !hasRestored else { return }
        hasRestored = true
        guard core.restoreIdentifier != nil else { return }
        var restored: [(UUID, String)] = []
        for grant in session.grants {
            guard let device = session.tree.device(grant.path), device.isConnected else { continue }
            makeLink(grant).handle(.adopted)
            restored.append((grant.identifier, device.displayName ?? grant.name))
        }
        guard !restored.isEmpty else { return }
        let all = restored
        core.publish { manager in
            let peripherals = all.map { identifier, name in
                let peripheral = manager.peripheral(identifier)
                peripheral.apply(name: name)
                peripheral.apply(state: .connected)
                return peripheral
            }
            manager.delegate?.centralManager(
                manager, willRestoreState: [CBCentralManagerRestoredStatePeripheralsKey: peripherals])
        }
    }

    // MARK: The app's requests

    /// The granted accessories among the identifiers, with their names. Asks the daemon, since its signal of a new or
    /// ended grant may not have arrived.
    func names(of identifiers: [UUID], _ answer: @escaping @Sendable ([UUID: String]) -> Void) {
        session.readGrants { [weak self] in answer(self?.names(of: identifiers) ?? [:]) }
    }

    private func names(of identifiers: [UUID]) -> [UUID: String] {
        let wanted = Set(identifiers)
        var names: [UUID: String] = [:]
        for grant in session.grants where wanted.contains(grant.identifier) {
            names[grant.identifier] = session.tree.device(grant.path)?.displayName ?? grant.name
        }
        return names
    }

    /// The accessories to which the app has links and which have one of the given services.
    func connected(withServices services: [String]) -> [UUID: String] {
        var names: [UUID: String] = [:]
        for grant in session.grants {
            guard let device = session.tree.device(grant.path), device.isConnected,
                !Set(services).isDisjoint(with: device.services)
            else { continue }
            names[grant.identifier] = device.displayName ?? grant.name
        }
        return names
    }

    func connect(_ identifier: UUID, reconnects: Bool, delay: Double) {
        guard let link = links[identifier] ?? session.grants.first(where: { $0.identifier == identifier }).map(makeLink) else {
            return core.publishFailure(identifier, CBError(.unknownDevice, "the accessory is not granted to the app"))
        }
        link.handle(.connect(reconnects: reconnects, delay: delay))
    }

    private func makeLink(_ grant: ViewSession.Grant) -> PeripheralLink {
        let link = PeripheralLink(grant, self)
        links[grant.identifier] = link
        return link
    }

    func cancel(_ identifier: UUID) {
        if let link = links[identifier] { return link.handle(.cancel) }
        core.publish(identifier) { _, peripheral in peripheral.apply(state: .disconnected) }
    }

    /// The app has released a peripheral.
    func abandon(_ identifier: UUID) {
        links.removeValue(forKey: identifier)?.handle(.released)
        searchesChanged()
    }

    func beginScan(_ request: Scanner.Request) {
        guard session.state == .poweredOn else { return }
        scanner.begin(request)
    }

    func stopScan() {
        scanner.stop()
    }

    /// The requests of a peripheral's link. The app may ask before it has processed the link's end: without a link each
    /// request is answered with an error.
    func requests(_ identifier: UUID) -> AttributeRequests {
        links[identifier]?.requests ?? AttributeRequests(identifier, "/", core, session, isClosed: true)
    }

    func rssi(_ identifier: UUID) -> Int? {
        links[identifier].flatMap { session.tree.device($0.path)?.rssi }
    }

    /// The most bytes of a write without response; nil while it is not known.
    func maxCommandLength(_ identifier: UUID) -> Int? {
        guard let link = links[identifier], let mtu = session.tree.mtu(of: link.path) ?? link.requests?.mtu else {
            return nil
        }
        return max(23, mtu) - 3
    }

    // MARK: Connection events

    func setEventFilter(_ filter: ConnectionEventFilter?) {
        eventFilter = filter
    }

    private func publishConnectionEvent(_ grant: ViewSession.Grant) {
        guard let eventFilter else { return }
        if let peripherals = eventFilter.peripherals, !peripherals.contains(grant.identifier) { return }
        let device = session.tree.device(grant.path)
        if let services = eventFilter.services, Set(services).isDisjoint(with: device?.services ?? []) { return }
        let event: CBConnectionEvent = device?.isConnected == true ? .peerConnected : .peerDisconnected
        core.publish { manager in
            let peripheral = manager.peripheral(grant.identifier)
            manager.delegate?.centralManager(manager, connectionEventDidOccur: event, for: peripheral)
        }
    }
}

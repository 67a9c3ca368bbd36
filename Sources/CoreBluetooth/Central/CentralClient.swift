// SPDX-License-Identifier: Apache-2.0
// The half of a central manager that lives on the module's thread: it hands the app's wishes and the news of the view
// to who owns the matter: the session with the view, the scanner, and one link for each accessory.

internal import DBusKit
internal import Foundation

/// A manager's client.
final class CentralClient {
    let core: CentralCore
    private(set) var session: ViewSession!
    private unowned let hub: Hub
    private var scanner: Scanner!
    private var links: [UUID: PeripheralLink] = [:]
    /// What the app wants to hear of links as such.
    private var eventFilter: ConnectionEventFilter?
    private var hasRestored = false

    /// Which links the app wants to hear of.
    struct ConnectionEventFilter: Sendable {
        /// Nil for any.
        var services: [String]?
        var peripherals: Set<UUID>?
    }

    init(_ core: CentralCore, _ hub: Hub, _ loop: MainLoop) {
        self.core = core
        self.hub = hub
        session = ViewSession(core.address, loop) { [weak self] in self?.take($0) }
        scanner = Scanner(core, session) { [weak self] in self?.links.values.contains(where: \.needsDiscovery) ?? false
        }
    }

    var address: Connection.Address { core.address }

    // MARK: Life

    func start() {
        session.start()
    }

    func end() {
        for link in links.values { link.abandon() }
        links = [:]
        session.end()
    }

    // MARK: News

    private func take(_ news: ViewSession.News) {
        switch news {
        case .state(let state): stateChanged(state)
        case .grants: grantsChanged()
        case .loaded:
            grantsChanged()
            for link in links.values { link.deviceChanged(["Connected", "ServicesResolved"]) }
        case .device(let path, let changed): deviceChanged(path, changed)
        case .linkEnds(let path, let reason): links.values.first { $0.isUp && $0.path == path }?.ends(reason)
        case .attribute(let path, let isGone): link(of: path)?.requests?.attributeChanged(path, isGone: isGone)
        case .value(let path, let value): link(of: path)?.requests?.valueChanged(path, value)
        case .released(let path): link(of: path)?.requests?.released([path])
        }
    }

    private func stateChanged(_ state: CBManagerState) {
        let isOn = state == .poweredOn
        if !isOn {
            scanner.radioLost()
            let error = CBError(.peripheralDisconnected, "Bluetooth cannot be used at the moment")
            for link in links.values { link.radioLost(error) }
        }
        if isOn { restore() }
        core.tell { manager in manager.apply(state) }
        guard isOn else { return }
        for link in links.values { link.radioCame() }
    }

    private func grantsChanged() {
        let byIdentifier = Dictionary(session.grants.map { ($0.identifier, $0) }) { first, _ in first }
        for link in links.values { link.granted(byIdentifier[link.identifier]) }
        links = links.filter { byIdentifier[$0.key] != nil }
        searchesChanged()
    }

    private func deviceChanged(_ path: ObjectPath, _ changed: Set<String>) {
        guard let grant = session.grants.first(where: { $0.path == path }) else { return }
        if changed.contains("Connected") { tellConnectionEvent(grant) }
        let link = links[grant.identifier]
        link?.deviceChanged(changed)
        if !changed.isDisjoint(with: ["Name", "Alias"]), let name = session.tree.device(path)?.name {
            core.tell(grant.identifier) { manager, peripheral in
                guard peripheral.apply(name: name) else { return }
                peripheral.delegate?.peripheralDidUpdateName(peripheral)
            }
        }
        if session.tree.device(path) != nil,
            !changed.isDisjoint(with: ["RSSI", "ManufacturerData", "ServiceData", "UUIDs"])
        {
            scanner.heard(grant)
            link?.heard()
        }
        // An object that BlueZ has dropped is waited for; one that is back is tried.
        if link?.needsDiscovery == true { scanner.update() }
    }

    private func link(of path: ObjectPath) -> PeripheralLink? {
        links.values.first { $0.isUp && path.isBelow($0.path) }
    }

    // MARK: For links

    func searchesChanged() {
        scanner.update()
    }

    func hold(_ device: ObjectPath) {
        hub.hold(device, self)
    }

    func release(_ device: ObjectPath) -> Bool { hub.release(device, self) }

    // MARK: Restoring

    /// Once, before the first state: links of the app's that an earlier process has left standing.
    private func restore() {
        guard !hasRestored else { return }
        hasRestored = true
        guard core.restoreIdentifier != nil else { return }
        var restored: [(UUID, String)] = []
        for grant in session.grants {
            guard let device = session.tree.device(grant.path), device.isConnected else { continue }
            let link = PeripheralLink(grant, self)
            links[grant.identifier] = link
            link.adopt()
            restored.append((grant.identifier, device.name ?? grant.name))
        }
        guard !restored.isEmpty else { return }
        let all = restored
        core.tell { manager in
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

    // MARK: The app's wishes

    /// Which of these are granted, with their names. Asks the daemon: what the app knows of may be granted, or not any
    /// more, since just now, and the news of it not yet here.
    func names(of identifiers: [UUID], _ answer: @escaping @Sendable ([UUID: String]) -> Void) {
        session.readGrants { [weak self] in answer(self?.names(of: identifiers) ?? [:]) }
    }

    private func names(of identifiers: [UUID]) -> [UUID: String] {
        let wanted = Set(identifiers)
        var names: [UUID: String] = [:]
        for grant in session.grants where wanted.contains(grant.identifier) {
            names[grant.identifier] = session.tree.device(grant.path)?.name ?? grant.name
        }
        return names
    }

    /// Accessories whose links the app has, with one of these services.
    func connected(withServices services: [String]) -> [UUID: String] {
        var names: [UUID: String] = [:]
        for grant in session.grants {
            guard let device = session.tree.device(grant.path), device.isConnected,
                !Set(services).isDisjoint(with: device.services)
            else { continue }
            names[grant.identifier] = device.name ?? grant.name
        }
        return names
    }

    func connect(_ identifier: UUID, reconnects: Bool, delay: Double) {
        if let link = links[identifier] { return link.connect(reconnects: reconnects, delay: delay) }
        guard let grant = session.grants.first(where: { $0.identifier == identifier }) else {
            let error = CBError(.unknownDevice, "the accessory is not granted to the app")
            return core.tell(identifier) { manager, peripheral in
                peripheral.apply(state: .disconnected)
                manager.delegate?.centralManager(manager, didFailToConnect: peripheral, error: error)
            }
        }
        let link = PeripheralLink(grant, self)
        links[identifier] = link
        link.connect(reconnects: reconnects, delay: delay)
    }

    func cancel(_ identifier: UUID) {
        if let link = links[identifier] { return link.cancel() }
        core.tell(identifier) { _, peripheral in peripheral.apply(state: .disconnected) }
    }

    func beginScan(_ request: Scanner.Request) {
        guard session.state == .poweredOn else { return }
        scanner.begin(request)
    }

    func stopScan() {
        scanner.stop()
    }

    /// What the app wants of a peripheral's attributes. Without a link it is answered with an error: the app has asked
    /// when it did not know yet.
    func requests(_ identifier: UUID) -> AttributeRequests {
        links[identifier]?.requests ?? AttributeRequests(withoutLinkOf: identifier, core, session)
    }

    func rssi(_ identifier: UUID) -> Int? {
        links[identifier].flatMap { session.tree.device($0.path)?.rssi }
    }

    /// Bytes of a write without response.
    func longestCommand(_ identifier: UUID) -> Int? {
        guard let link = links[identifier], let mtu = session.tree.mtu(of: link.path) ?? link.requests?.mtu else {
            return nil
        }
        return max(23, mtu) - 3
    }

    // MARK: Links as such

    func setEventFilter(_ filter: ConnectionEventFilter?) {
        eventFilter = filter
    }

    private func tellConnectionEvent(_ grant: ViewSession.Grant) {
        guard let eventFilter else { return }
        if let peripherals = eventFilter.peripherals, !peripherals.contains(grant.identifier) { return }
        let device = session.tree.device(grant.path)
        if let services = eventFilter.services, Set(services).isDisjoint(with: device?.services ?? []) { return }
        let event: CBConnectionEvent = device?.isConnected == true ? .peerConnected : .peerDisconnected
        core.tell(grant.identifier) { manager, peripheral in
            manager.delegate?.centralManager(manager, connectionEventDidOccur: event, for: peripheral)
        }
    }
}

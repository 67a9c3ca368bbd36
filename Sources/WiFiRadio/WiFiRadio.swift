// SPDX-License-Identifier: Apache-2.0
// The machine's Wi-Fi as the engine's network radio. Three services can be installed, one above another: the interface
// belongs to the first of NetworkManager, iwd and wpa_supplicant that manages it, and is followed when that changes.
// `Scanner` scans, `InterfaceLoan` joins and restores, `AwareSearch` discovers Wi-Fi Aware services.

public import AccessoryEngine
public import AccessoryModel
public import DBusKit
public import Logging

/// The machine's Wi-Fi by NetworkManager, iwd or wpa_supplicant, on one interface at a time.
public final class WiFiRadio: NetworkRadio {
    /// Held weakly; called on the main loop's thread.
    public weak var observer: (any NetworkRadioObserver)?
    /// The state of the interface in use; `absent` until the presence of all services has been determined.
    public private(set) var state = RadioState.absent
    /// Whether the state is certain.
    public var isSettled: Bool { services.allSatisfy(\.isSettled) && aware.isSettled }

    private let log: Logger
    private let preferredInterface: String?
    private let routeDirectory: String
    /// The first one that manages an interface has it.
    private let services: [any WiFiService]
    private let server: ObjectServer
    private let aware: AwareSearch
    private let scanner: Scanner
    private let loan: InterfaceLoan
    private var selected: SelectedInterface?

    /// - Parameters:
    ///   - connection: the radio's own: NetworkManager binds a joined network to it.
    ///   - interface: the interface's name (`wlan1`); nil for the only one, or the first without a default route.
    ///   - routeDirectory: the directory of the kernel's routing tables.
    public init(
        on connection: Connection, interface: String?, routeDirectory: String = "/proc/1/net", journal: any JoinJournal, log: Logger
    ) throws(BusError) {
        self.log = log
        self.routeDirectory = routeDirectory
        preferredInterface = interface
        server = ObjectServer(on: connection, root: "/org/accessorysetup1/networkagent")
        let supplicant = Supplicant(on: connection, log: log)
        let iwd = try IWD(on: connection, server: server, log: log)
        services = [NetworkManager(on: connection, over: iwd, or: supplicant, log: log), iwd, supplicant]
        aware = AwareSearch(supplicant, log: log)
        scanner = Scanner(connection.loop, log: log)
        loan = InterfaceLoan(
            connection.loop, bus: connection.busIdentifier, journal: journal, services: services, scanner: scanner, log: log)
        connection.onCall = { [server] in server.serve($0) }
    }

    /// Follows the services, and leaves the network that an earlier run has joined.
    public func start() {
        loan.selected = { [weak self] in self?.selected }
        loan.onEarlierLeft = { [weak self] in self?.observer?.earlierNetworkLeft($0) }
        loan.onRestored = { [weak self] in self?.select() }
        scanner.onNetworks = { [weak self] in self?.observer?.heard(networks: $0) }
        scanner.onFailure = { [weak self] in self?.observer?.scanFailed(RadioFailure(.other, $0)) }
        aware.onServices = { [weak self] in self?.observer?.heard(services: $0) }
        loan.start()
        for service in services {
            service.observer = self
            service.start()
        }
    }

    /// Nil while wpa_supplicant with unsynchronized service discovery serves the interface.
    public var awareObstacle: String? { aware.obstacle(on: selected?.name) }

    // MARK: Which interface, and whose

    private func select() {
        guard services.allSatisfy(\.isSettled) else { return }
        let new = choose()
        guard new != selected else { return loan.restoreOwed() }
        let old = selected
        selected = new
        if old?.service !== new?.service || old?.name != new?.name {
            log.info(
                "Wi-Fi interface", metadata: ["interface": "\(new?.name ?? "none")", "service": "\(new?.service.name ?? "none")"])
        }
        let reason: String
        switch new?.state {
        case .ready: reason = "\(new?.service.name ?? "") serves \(new?.name ?? "")"
        case .off: reason = "\(new?.name ?? "") is switched off"
        case .absent, nil:
            let wanted = preferredInterface.map { "\($0) is not managed by any Wi-Fi service" }
            reason = wanted ?? old.map { "\($0.service.name) or its interface is gone" } ?? "no Wi-Fi service manages an interface"
        }
        let before = state
        state = new?.state ?? .absent
        scanner.use(new?.state == .ready ? new : nil)
        aware.use(new?.name)
        loan.restoreOwed()
        if state != before { observer?.networkRadioChanged(state, reason: reason) }
    }

    private func choose() -> SelectedInterface? {
        var owners: [String: any WiFiService] = [:]
        for service in services {
            let own = service.interfaces.keys.filter { owners[$0] == nil }
            for name in own { owners[name] = service }
            service.setSuperseded(own.isEmpty && !service.interfaces.isEmpty)
        }
        func selected(_ name: String) -> SelectedInterface? {
            owners[name].map {
                SelectedInterface(service: $0, owner: $0.owner, name: name, state: $0.interfaces[name]?.state ?? .absent)
            }
        }
        if let preferredInterface { return selected(preferredInterface) }
        if let interface = loan.interface, let selected = selected(interface) { return selected }
        let names = owners.keys.sorted()
        guard names.count > 1 else { return names.first.flatMap(selected) }
        let uplinks = DefaultRoute.interfaces(in: routeDirectory)
        return (names.first { !uplinks.contains($0) } ?? names.first).flatMap(selected)
    }

    // MARK: Requests

    /// Scans the interface in use until all tokens have ended, with a pause after each scan.
    public func scan(probing names: [SSID], aware services: [WiFiAware]) -> DiscoveryToken {
        // Routes may have changed since the last scan.
        if !scanner.isNeeded { select() }
        let endScan = scanner.need(names)
        let endSearch = aware.need(services)
        return DiscoveryToken {
            endScan()
            endSearch()
        }
    }

    /// Joins a network on the interface in use, once an earlier one has been left.
    public func join(_ join: NetworkJoin, completion: @escaping (Result<String, RadioFailure>) -> Void) {
        loan.join(join, completion: completion)
    }

    /// Restores the interface, if an accessory's network is joined.
    public func leave(completion: @escaping () -> Void) { loan.leave(completion: completion) }
}

extension WiFiRadio: WiFiServiceObserver {
    func serviceChanged() {
        aware.interfacesChanged()
        select()
    }

    func networkLost(by service: any WiFiService, reason: String) {
        guard loan.lost(by: service) else { return }
        log.notice("the joined network is gone", metadata: ["reason": "\(reason)"])
        observer?.networkLost(reason: reason)
    }
}

// SPDX-License-Identifier: Apache-2.0
// The daemon's parts: constructed in one place, connected, run and ended. Objects are exported before the name is
// owned, and the service manager is notified after that.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import AccessoryService
internal import AdminFiles
internal import BlueZRadio
internal import BlueZView
internal import CallerIdentity
internal import DBusKit
internal import Glibc
internal import GrantStore
internal import Logging
internal import ProgramSupport
internal import WiFiRadio

struct Assembly {
    /// The bus closed a connection.
    struct Disconnected: Error, CustomStringConvertible {
        let description = "the bus closed the connection"
    }

    private let options: Options
    private let log: Logger
    private let loop: MainLoop
    private let connections: (service: Connection, radio: Connection, wifi: Connection)
    private let radio: BlueZRadio
    private let wifi: WiFiRadio
    private let engine: AccessoryEngine
    private let manifests: ManifestStore
    private let service: AccessoryService
    private let view: BlueZView?
    private let appSockets: AppSockets?

    /// - Throws: for a mistake in the configuration, or a store or bus that cannot be used.
    init(_ options: Options, _ log: Logger) throws {
        self.options = options
        self.log = log
        let configuration = try options.configuration()
        loop = MainLoop()
        #if DEBUG
            loop.letTimePass { log.debug("test clock: \($0) s") }
        #endif
        let bus = Connection.Address(options.bus)
        let bluezBus = Connection.Address(options.bluezBus ?? options.bus)
        // The buses authenticate the daemon while the store is read.
        let serviceOpening = try Connection.Opening(bus)
        let radioOpening = try Connection.Opening(bluezBus)
        let wifiOpening = try Connection.Opening(bluezBus)
        let store = try GrantStore(directory: options.storeDirectory, log: log)
        // The radio's agent and discovery filter belong to its connection, and a flood of adverts must not delay an
        // app's call. Adverts and scan results wait a few milliseconds, so that one wakeup serves many.
        let pace = Connection.Reading.adaptive(pause: .milliseconds(20))
        connections = try (
            service: Connection(serviceOpening, loop: loop), radio: Connection(radioOpening, loop: loop, reading: pace),
            wifi: Connection(wifiOpening, loop: loop, reading: pace)
        )
        radio = try BlueZRadio(
            on: connections.radio, adapters: configuration.adapters, inputDirectory: options.inputDirectory, feed: bluezBus,
            monitors: configuration.monitors, log: log)
        wifi = try WiFiRadio(
            on: connections.wifi, interface: configuration.wifiInterface, routeDirectory: options.routeDirectory, journal: store,
            log: log)
        var engineConfiguration = AccessoryEngine.Configuration()
        engineConfiguration.nearness = Matcher.Nearness(threshold: configuration.immediateRSSI)
        engineConfiguration.presenceDuty = configuration.presenceDuty
        engine = try AccessoryEngine(
            radio: radio, networks: wifi, store: store, clock: LoopClock(loop), configuration: engineConfiguration, trail: store,
            extensions: ExtensionSockets(
                directory: options.appSocketDirectory, units: options.files.socketUnits, loop: loop), log: log)
        let policies = PolicyStore(
            directories: options.files.policies, loop: loop, log: log, onChange: { [engine] in engine.setPolicy($0) })
        manifests = ManifestStore(directories: options.files.manifests, loop: loop, log: log)
        let inherited = ServiceManager.receiveDescriptors()
        let viewSocket = ViewSocket(options, inherited: inherited, log: log)
        let appSockets = viewSocket.flatMap { _ in
            options.appSocketDirectory.map { AppSockets(directory: $0, inherited: inherited, log: log) }
        }
        self.appSockets = appSockets
        service = AccessoryService(
            engine: engine, manifests: manifests, policies: policies, lockdown: options.files.lockdown,
            resolver: CallerResolver(on: connections.service, needsDescriptor: configuration.needsProcessDescriptor),
            connection: connections.service, socketOfApp: { appSockets?.path(of: $0) }, log: log)
        let authority = EngineViewAuthority(engine: engine, manifests: manifests, radio: radio)
        var limits = ViewLimits()
        limits.linger = Double(configuration.linger)
        view = try viewSocket.map { [loop, service] socket in
            // The view must not share the radio's connection, which reads with pauses.
            try BlueZView(
                socket.address, on: Connection(bluezBus, loop: loop), bus: bluezBus, authority: authority, service: service,
                limits: limits, resuming: Handover.receive(inherited), log: log)
        }
    }

    /// Serves until SIGTERM or SIGINT.
    ///
    /// - Throws: `Disconnected`, and the bus' error if the name cannot be owned.
    func run() throws {
        connect()
        var isDisconnected = false
        for connection in [connections.service, connections.radio, connections.wifi] {
            connection.onDisconnect = {
                isDisconnected = true
                loop.quit()
            }
        }
        for signal in [SIGTERM, SIGINT] {
            loop.onSignal(signal) {
                loop.quit()
                return false
            }
        }
        engine.start()
        // An app's first call must find the adapter. Bounded, because bluetoothd may hang.
        _ = loop.run(until: { radio.isSettled && wifi.isSettled }, timeout: .seconds(2))
        view?.resumeClients()
        try connections.service.requestName(AccessoryBus.name)
        ServiceManager.notify("READY=1")
        ServiceManager.keepAlive(on: loop)
        log.notice(
            "ready", metadata: ["version": "\(Version.current)", "bus": "\(options.bus)", "apps": "\(manifests.apps.count)"])
        loop.run()
        ServiceManager.notify("STOPPING=1")
        end()
        if isDisconnected { throw Disconnected() }
    }

    /// Subscribes the parts to changes of each other. Manifests decide which app a client is, so they change scopes
    /// too.
    private func connect() {
        updateAppSockets()
        engine.listen { [view] event in
            switch event {
            case .access: view?.updateScopes()
            case .hearing(let app): view?.updateHeard(by: app)
            default: break
            }
        }
        manifests.observe { updateAppSockets() }
        service.start()
        manifests.observe { [view] in view?.updateScopes() }
    }

    private func updateAppSockets() {
        if let view { appSockets?.update(manifests.apps, in: view) }
    }

    private func end() {
        engine.finishRemovals()
        // The next run restores an interface that is not back in time.
        var isRestored = false
        engine.leaveNetworks { isRestored = true }
        _ = loop.run(until: { isRestored || !connections.wifi.isConnected }, timeout: .seconds(5))
        engine.writeUses()
        engine.flushAudit()
        // Sessions must be invalidated before the name is released.
        for session in engine.sessions.values.sorted(by: { $0.id < $1.id }) {
            engine.invalidate(session, reason: "the daemon is stopping")
        }
        if let view {
            // Connect may wait for an accessory out of range.
            _ = loop.run(until: { view.callsInFlight == 0 }, timeout: .milliseconds(300))
            Handover.leave(view, log)
        }
        for connection in [connections.service, connections.radio, connections.wifi] where connection.isConnected {
            connection.flush()
        }
    }
}

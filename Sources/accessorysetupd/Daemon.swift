// SPDX-License-Identifier: Apache-2.0
// The daemon: puts the parts together, and tells the view when access has changed. Objects are exported before the name
// is owned, and the service manager hears of us only once it is.

internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryBus
internal import AccessoryModel
internal import AccessoryService
internal import BlueZRadio
internal import BlueZView
internal import AdminFiles
internal import CallerIdentity
internal import DBusKit
internal import Glibc
internal import GrantStore
internal import KeyFiles
internal import Logging
internal import ProgramSupport
internal import SystemFiles
internal import WiFiRadio

@main
struct Daemon {
    private let options: Options

    static func main() {
        let options: Options
        do throws(Options.Problem) {
            options = try Options(arguments: CommandLine.arguments)
        } catch {
            StandardOutput.errorLine("accessorysetupd: \(error)\nTry accessorysetupd --help.")
            exit(EX_USAGE)
        }
        if let answer = options.answer { return StandardOutput.line(answer) }
        exit(Daemon(options: options).run())
    }

    /// Until the daemon is told to end, or cannot go on; the exit status.
    private func run() -> Int32 {
        let level = options.logLevel
        LoggingSystem.bootstrap { LogOutput(label: $0, level: level) }
        let log = Logger(label: "accessorysetupd")
        do {
            return try serve(log) ? EXIT_SUCCESS : EXIT_FAILURE
        } catch let error as any Unmendable where error.needsSomebody {
            log.critical("cannot run: \(error)")
            return EX_CONFIG
        } catch {
            log.critical("cannot run: \(error)")
            return EXIT_FAILURE
        }
    }

    /// Whether it ended because it was told to.
    private func serve(_ log: Logger) throws -> Bool {
        umask(0o077)
        raiseDescriptorLimit(log)
        let configuration = try readConfiguration()
        let loop = MainLoop()
        #if DEBUG
            loop.letTimePass { log.debug("test clock: \($0) s") }
        #endif
        let radioBus = Connection.Address(options.bluezBus ?? options.bus)
        // The bus looks who we are while the store is read.
        let opening = try Connection.Opening(Connection.Address(options.bus))
        let radioOpening = try Connection.Opening(radioBus)
        let wifiOpening = try Connection.Opening(radioBus)
        let store = try GrantStore(directory: storeDirectory, log: log)
        let connection = try Connection(opening, loop: loop)
        // A bus connection of the radio's own: its agent and its discovery filter belong to it, and a flood of adverts
        // waits in its queue, not in front of an app's call. Adverts may wait a few milliseconds so that one wakeup
        // serves many.
        let radioConnection = try Connection(radioOpening, loop: loop, reading: .adaptive(pause: .milliseconds(20)))
        let radio = try BlueZRadio(
            on: radioConnection, adapters: configuration.adapters, inputDirectory: options.inputDirectory, feed: radioBus, log: log)
        // A scan's results come in one go, each as an answer of its own.
        let wifiConnection = try Connection(wifiOpening, loop: loop, reading: .adaptive(pause: .milliseconds(20)))
        let wifi = try WiFiRadio(
            on: wifiConnection, interface: configuration.wifiInterface, routeDirectory: options.routeDirectory, journal: store,
            log: log)
        var engineConfiguration = AccessoryEngine.Configuration()
        engineConfiguration.nearness = Matcher.Nearness(threshold: configuration.immediateRSSI)
        let engine = try AccessoryEngine(
            radio: radio, networks: wifi, store: store, clock: LoopClock(loop), configuration: engineConfiguration, trail: store,
            log: log)
        let policies = PolicyStore(directory: options.policyDirectory, loop: loop, log: log)
        engine.setPolicy(policies.policy)
        policies.onChange = { [unowned engine] in engine.setPolicy($0) }
        let manifests = ManifestStore(
            directories: options.appDirectories.isEmpty ? ManifestStore.standardDirectories : options.appDirectories, loop: loop,
            log: log)
        let service = AccessoryService(
            engine: engine, manifests: manifests, policies: policies, lockdown: options.lockdown,
            resolver: CallerResolver(on: connection, needsDescriptor: configuration.needsProcessDescriptor),
            connection: connection, log: log)

        var given = ServiceManager.takeDescriptors()
        let view = try openView(ViewGate(engine, manifests, radio), service, given, linger: configuration.linger, loop, log)
        let appSockets = view.flatMap { view in
            appSocketDirectory.map { AppSockets($0, view, kept: given, log: log) }
        }
        // Each has its owner by now. A client's socket that is held here would stay open when the client is cut off.
        given = []
        appSockets?.update(manifests.apps)
        service.socketOfApp = { [weak appSockets] in appSockets?.path(of: $0) }
        engine.listen { [weak view] in if case .access = $0 { view?.updateScopes() } }

        var failure: String?
        for lost in [connection, radioConnection, wifiConnection] {
            lost.onDisconnect = {
                failure = "the bus closed the connection"
                loop.quit()
            }
        }
        for signal in [SIGTERM, SIGINT] {
            loop.onSignal(signal) {
                loop.quit()
                return false
            }
        }
        service.start()
        // Manifests say who an app is, so they move the view's edge too.
        let exported = manifests.onChange
        manifests.onChange = { [weak view] in
            appSockets?.update(manifests.apps)
            exported?()
            view?.updateScopes()
        }
        engine.start()
        // An app that calls at once must not be told that there is no Bluetooth while we are still looking. Bounded:
        // bluetoothd may hang.
        _ = loop.run(until: { radio.isSettled && wifi.isSettled }, timeout: .seconds(2))
        view?.resumeClients()
        try connection.requestName(AccessoryBus.name)
        ServiceManager.notify("READY=1")
        ServiceManager.keepAlive(on: loop)
        log.notice(
            "ready", metadata: ["version": "\(Version.current)", "bus": "\(options.bus)", "apps": "\(manifests.apps.count)"])
        loop.run()
        ServiceManager.notify("STOPPING=1")
        // The interface is given back in time; what is left over is given back by the next run.
        var isGivenBack = false
        engine.leaveNetworks { isGivenBack = true }
        _ = loop.run(until: { isGivenBack || !wifiConnection.isConnected }, timeout: .seconds(5))
        engine.writeUses()
        engine.flushAudit()
        // Sessions learn that they are over before the name goes.
        for session in engine.sessions.values.sorted(by: { $0.id < $1.id }) {
            engine.invalidate(session, reason: "the daemon ends")
        }
        if let view {
            // Most calls are answered by then; Connect may wait for an accessory that is far away.
            _ = loop.run(until: { view.callsInFlight == 0 }, timeout: .milliseconds(300))
            Handover.leave(view, log)
        }
        if connection.isConnected { connection.flush() }
        for radio in [radioConnection, wifiConnection] where radio.isConnected { radio.flush() }
        withExtendedLifetime((service, radio, manifests, policies, view, appSockets)) {}
        if let failure {
            log.critical("\(failure)")
            return false
        }
        log.notice("stopped")
        return true
    }

    /// Takes as many descriptors as the limits of the view may need, where it may. The usual 1,024 are for programs
    /// that use select(2), which knows no others; here nothing does.
    private func raiseDescriptorLimit(_ log: Logger) {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < Self.descriptors else { return }
        limit.rlim_cur = min(Self.descriptors, limit.rlim_max)
        if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur == Self.descriptors { return }
        log.notice("there may not be enough descriptors for all apps", metadata: ["limit": "\(limit.rlim_cur)"])
    }

    /// As in the unit (systemd/accessorysetupd.service).
    private static let descriptors: rlim_t = 16_384

    /// The scoped view, where there is a socket for it.
    private func openView(
        _ gate: ViewGate, _ service: AccessoryService, _ given: [(name: String, descriptor: FileDescriptor)], linger: Int,
        _ loop: MainLoop, _ log: Logger
    ) throws -> BlueZView? {
        guard let address = viewAddress(given, log) else { return nil }
        let bus = Connection.Address(options.bluezBus ?? options.bus)
        // A connection of its own: the radio's reads with pauses while adverts pour in.
        let connection = try Connection(bus, loop: loop)
        var limits = ViewLimits()
        limits.linger = Double(linger)
        return try BlueZView(
            address, on: connection, bus: bus, authority: gate, service: service, limits: limits, resuming: Handover.take(given),
            log: log)
    }

    /// Where apps with a socket of their own find it; nil where there is no such place.
    private var appSocketDirectory: String? {
        if let directory = options.appSockets { return directory }
        guard Connection.Address(options.bus) == .system, access(AppSockets.standardDirectory, W_OK) == 0 else { return nil }
        return AppSockets.standardDirectory
    }

    private func viewAddress(_ given: [(name: String, descriptor: FileDescriptor)], _ log: Logger) -> BusServer.Address? {
        if let path = options.viewPath { return .path(path) }
        let inherited = given.filter { !$0.name.hasPrefix(AppSockets.prefix) && !Handover.owns($0.name) }.map(\.descriptor)
        if !inherited.isEmpty { return .listening(inherited) }
        // Without systemd: the usual place, on the system's own bus only. Two daemons on test buses must not fight for
        // it.
        guard Connection.Address(options.bus) == .system else { return nil }
        let directory = "/run/accessory-setup"
        let path = directory + "/bus"
        let sockets = (try? SystemFile.text("/proc/net/unix")) ?? ""
        if sockets.split(separator: "\n").contains(where: { $0.hasSuffix(" \(path)") }) {
            log.warning("no view of org.bluez: somebody else listens there", metadata: ["socket": "\(path)"])
            return nil
        }
        umask(0o022)
        defer { umask(0o077) }
        guard mkdir(directory, 0o755) == 0 || errno == EEXIST, access(directory, W_OK) == 0 else {
            let reason = String(cString: strerror(errno))
            log.warning("no view of org.bluez", metadata: ["directory": "\(directory)", "reason": "\(reason)"])
            return nil
        }
        return .path(path)
    }

    private func readConfiguration() throws -> Configuration {
        if let path = options.config { return try Configuration(path: path) }
        return access(Configuration.standardPath, F_OK) == 0 ? try Configuration(path: Configuration.standardPath) : Configuration()
    }

    private var storeDirectory: String {
        // systemd gives a list when several are configured; ours is the first.
        let given = getenv("STATE_DIRECTORY").map { String(cString: $0) }?.split(separator: ":").first.map(String.init)
        return options.stateDirectory ?? given ?? "/var/lib/accessory-setup"
    }
}

/// A failure of which some kinds are there again at the next start, until somebody does something.
private protocol Unmendable: Error {
    var needsSomebody: Bool { get }
}

extension KeyFileProblem: Unmendable {
    fileprivate var needsSomebody: Bool { true }
}

extension GrantStoreError: Unmendable {
    fileprivate var needsSomebody: Bool { if case .newer = self { true } else { false } }
}

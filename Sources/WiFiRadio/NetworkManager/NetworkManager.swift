// SPDX-License-Identifier: Apache-2.0
// NetworkManager. (D-Bus API reference of NetworkManager 1.42.) It owns the interfaces that it manages, whichever
// supplicant works below it. It may refuse scans that follow each other closely. A connection that is volatile, and
// bound to our connection to the bus, is removed when either ends.

internal import AccessoryEngine
internal import AccessoryModel
internal import CallsOut
internal import DBusKit
internal import Glibc
internal import Logging

final class NetworkManager: ServiceAdapter, WiFiService {
    static let busName = "org.freedesktop.NetworkManager"
    static let root: ObjectPath = "/org/freedesktop/NetworkManager"
    static let device = "org.freedesktop.NetworkManager.Device"
    static let wireless = "org.freedesktop.NetworkManager.Device.Wireless"
    static let active = "org.freedesktop.NetworkManager.Connection.Active"

    private var isReading = false
    private var mustReadAgain = false
    /// Follows the joined network's connection.
    private var joined: Subscription?
    /// Brings the previous connection back.
    private var reconnection: Reconnection?
    /// One of the two works below it.
    private let iwd: IWD
    private let supplicant: Supplicant

    enum DeviceState {
        static let wifi = 2
        static let unmanaged = 10
        static let unavailable = 20
        static let prepare = 40
        static let activated = 100
    }

    init(on connection: Connection, over iwd: IWD, or supplicant: Supplicant, log: Logger) {
        self.iwd = iwd
        self.supplicant = supplicant
        super.init(name: "NetworkManager", busName: Self.busName, on: connection, log: log)
    }

    var isJoined: Bool { joined != nil }

    func dropJoined() {
        joined?.cancel()
        joined = nil
    }

    // MARK: Interfaces

    /// No service ranks higher.
    func supersededChanged() {}

    func follow() {
        reconnection = nil
        let changed: (ObjectPath, [DBusValue]) -> Void = { [weak self] _, _ in self?.readInterfaces() }
        link.subscriptions = [
            link.onSignal(Self.busName, "DeviceAdded", of: Self.root, changed),
            link.onSignal(Self.busName, "DeviceRemoved", of: Self.root, changed),
            link.onSignal(Self.device, "StateChanged") { [weak self] path, arguments in self?.stateChanged(path, arguments) },
        ].compactMap(\.self)
        readInterfaces()
    }

    /// Only states that decide who may use an interface are read: a join passes through many others.
    private func stateChanged(_ path: ObjectPath, _ arguments: [DBusValue]) {
        let states = arguments.prefix(2).compactMap(\.integerValue)
        let isKnown = interfaces.values.contains { $0.path == path }
        if !isKnown || states.contains(where: { $0 <= DeviceState.unavailable }) { readInterfaces() }
        if states.first == DeviceState.prepare { reconnection?.deviceChanged() }
    }

    func readInterfaces() {
        guard !isReading else { return mustReadAgain = true }
        isReading = true
        let owner = owner
        link.call(.managerDevices, at: Self.root) { [weak self] result in
            guard let self else { return }
            guard case .success(let values) = result else { return self.hasRead(owner, result.map { _ in [] }) }
            let devices = (values.first?.arrayValue ?? []).compactMap(\.objectPathValue)
            self.link.properties(.managerDevice, at: devices) { [weak self] in self?.hasRead(owner, $0) }
        }
    }

    private func hasRead(_ asked: String?, _ result: Result<[(path: ObjectPath, values: [String: DBusValue])], BusError>) {
        isReading = false
        if mustReadAgain || asked != owner {
            mustReadAgain = false
            if owner != nil { return readInterfaces() }
        }
        guard owner != nil else { return }
        switch result {
        case .success(let devices):
            readingDone()
            found(devices: devices)
            settle()
        case .failure(let error): readingFailed(error)
        }
    }

    private func found(devices: [(path: ObjectPath, values: [String: DBusValue])]) {
        interfaces = [:]
        for (path, values) in devices where values["DeviceType"]?.integerValue == DeviceState.wifi {
            guard let name = values["Interface"]?.stringValue, let state = values["State"]?.integerValue,
                values["Managed"]?.booleanValue != false, state != DeviceState.unmanaged
            else { continue }
            interfaces[name] = ServedInterface(path: path, state: state == DeviceState.unavailable ? .off : .ready)
        }
        if interfaces.isEmpty { gone("the interface is gone") }
        reconnection?.deviceChanged()
    }

    /// The interface's object in iwd, where iwd works below NetworkManager.
    private func station(below path: ObjectPath) -> ObjectPath? {
        interfaces.first { $0.value.path == path }.flatMap { iwd.interfaces[$0.key]?.path }
    }

    // MARK: Scanning

    func requestScan(_ path: ObjectPath, probing names: [SSID], _ awaited: Awaited<Result<Void, ScanFailure>>) {
        // Over iwd NetworkManager passes scans on, but not while it waits for iwd to connect: for ever, where it missed
        // that (1.42, when it starts at that moment). It does not signal the end of a scan, either.
        if let station = station(below: path) { return iwd.requestScan(station, probing: names, awaited) }
        awaited.follow([
            link.onProperties(of: path, Self.wireless, ["LastScan"]) { [weak awaited] _, values in
                if values["LastScan"] != nil { awaited?.end(.success(())) }
            }
        ])
        var options: [String: DBusValue] = [:]
        // The empty name is for networks that are not hidden.
        if !names.isEmpty { options["ssids"] = .array(of: "ay", [.bytes([])] + names.map { .bytes($0.bytes) }) }
        link.call(.managerScan, at: path, [.vardict(options)]) { [weak awaited] result in
            guard case .failure(let error) = result else { return }
            awaited?.end(.failure(error.name == Self.device + ".NotAllowed" ? .busy : .failed("\(error)")))
        }
    }

    /// The clock of `LastSeen`.
    private static var secondsSinceBoot: Int {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return time.tv_sec
    }

    /// The user of this process; nil for one without an account.
    private static var user: String? { getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) } }

    func readNetworks(
        _ path: ObjectPath, since begun: Int64, completion: @escaping (Result<[WiFiNetwork], ScanFailure>) -> Void
    ) {
        // Over iwd `LastSeen` is the time at which a network was first reported.
        if let station = station(below: path) { return iwd.readNetworks(station, since: begun, completion: completion) }
        var points: [ObjectPath] = []
        link.ask(.managerPoints, at: path) { argument in
            points = argument.objectPaths ?? []
        } completion: { [weak self] error in
            guard let self, error == nil else { return completion(.failure(.unread(error))) }
            self.link.read(.managerPoint, at: points) {
                ManagedNetwork.scanResult(&$0)
            } completion: { [weak self] results in
                let earliest = Self.secondsSinceBoot - (self?.age(since: begun) ?? 0)
                completion(.success(results.filter { $0.lastSeen >= earliest }.map(\.network)))
            }
        }
    }

    func readCurrent(_ path: ObjectPath, completion: @escaping (WiFiNetwork?) -> Void) {
        activeConnection(of: path) { [weak self] result in
            guard let self, let point = (try? result.get())??.values["SpecificObject"]?.objectPathValue else {
                return completion(nil)
            }
            self.link.read(.managerPoint, at: [point]) {
                ManagedNetwork.scanResult(&$0)?.network
            } completion: {
                completion($0.first)
            }
        }
    }

    /// The active connection of a device, also one that is being activated; nil for none.
    func activeConnection(
        of path: ObjectPath,
        completion: @escaping (Result<(path: ObjectPath, values: [String: DBusValue])?, BusError>) -> Void
    ) {
        link.properties(.managerDevice, at: path) { [weak self] result in
            guard let self, let values = result.value(orElse: { completion(.failure($0)) }) else { return }
            guard let active = values["ActiveConnection"]?.objectPathValue, active != "/" else { return completion(.success(nil)) }
            self.link.properties(.managerActive, at: active) { result in completion(result.map { (active, $0) }) }
        }
    }

    // MARK: Joining

    func checkJoining(_ path: ObjectPath, completion: @escaping (RadioFailure?) -> Void) {
        if let station = station(below: path) { iwd.checkJoining(station, completion: completion) } else { completion(nil) }
    }

    func begin(_ request: JoinRequest) {
        var record = request.empty
        // State that cannot be read now could not be restored.
        let failed = { (error: BusError) in request.fail(error.failure(of: "NetworkManager")) }
        activeConnection(of: request.path) { [weak self] result in
            guard let self, let before = result.value(orElse: failed) else { return }
            let previous = before?.values["Connection"]?.objectPathValue ?? self.reconnection?.target
            record.previous = previous?.rawValue ?? ""
            self.reconnection = nil
            self.iwd.knownNetworks(named: request.join.ssid) { [weak self] result in
                guard let self, let preexisting = result.value(orElse: failed) else { return }
                record.preexisting = preexisting
                self.readSecurity(of: request) { [weak self] security in
                    let settings = ManagedNetwork.settings(
                        request.join, security: security, interface: request.interface, user: Self.user)
                    self?.attempt(request) { [weak self] attempt in
                        self?.afterReconnection(attempt, record, request) {
                            self?.activate(settings, record, request, attempt)
                        }
                    }
                }
            }
        }
    }

    /// The protection of the network, which NetworkManager's settings have to contain.
    private func readSecurity(of request: JoinRequest, completion: @escaping (NetworkSecurity?) -> Void) {
        guard request.join.passphrase != nil else { return completion(.open) }
        readNetworks(request.path, since: 0) { result in
            let suitable =
                (try? result.get())?.filter { $0.ssid == request.join.ssid && $0.security.map(request.join.suits) == true } ?? []
            completion(WiFiNetwork.merged(suitable).first?.security)
        }
    }

    private func activate(_ settings: DBusValue, _ record: JoinRecord, _ request: JoinRequest, _ attempt: JoinAttempt) {
        guard attempt.isPending else { return }
        if let failure = request.record(record) { return attempt.failed(failure) }
        let options: [String: DBusValue] = ["persist": .string("volatile"), "bind-activation": .string("dbus-client")]
        link.call(.managerJoin, at: Self.root, [settings, .objectPath(request.path), .objectPath("/"), .vardict(options)]) {
            [weak self, weak attempt] result in
            guard let self, let attempt else { return }
            switch result {
            case .failure(let error):
                // The error's message can quote a setting.
                attempt.failed(RadioFailure(.refused, "NetworkManager refused the connection (\(error.name))"))
            case .success(let values):
                guard values.count >= 2, let active = values[1].objectPathValue else {
                    return attempt.failed(RadioFailure(.other, "NetworkManager created no connection"))
                }
                var made = record
                made.joined = active.rawValue
                // For an orderly end; after a crash NetworkManager removes the connection itself.
                _ = request.record(made)
                self.follow(active, request, attempt)
            }
        }
    }

    private func follow(_ active: ObjectPath, _ request: JoinRequest, _ attempt: JoinAttempt) {
        let path = request.path
        let isOverIWD = station(below: path) != nil
        var progress = ManagedAttempt(isOverIWD: isOverIWD)
        let changed = { [weak self, weak attempt] (state: Int?) in
            guard let self, let attempt, attempt.isPending, let verdict = progress.verdict(on: state) else { return }
            if case .success = verdict {
                self.joined = self.link.onSignal(Self.active, "StateChanged", of: active) { [weak self] _, arguments in
                    guard arguments.first?.integerValue == ManagedNetwork.deactivated else { return }
                    self?.lost("NetworkManager ended the connection")
                }
            }
            attempt.end(verdict)
        }
        attempt.follow([
            link.onSignal(Self.device, "StateChanged", of: path) { [weak attempt] _, arguments in
                progress.deviceChanged(arguments.map(\.integerValue))
                if progress.isConnected { attempt?.connected() }
            },
            link.onSignal(Self.active, "StateChanged", of: active) { _, arguments in changed(arguments.first?.integerValue) },
        ])
        // Changes from before the subscriptions.
        link.properties(.managerActive, at: active) { result in
            if case .success(let values) = result { changed(values["State"]?.integerValue ?? ManagedNetwork.deactivated) }
        }
        attempt.limit { [weak self, weak attempt] answer in
            // wpa_supplicant can be idle also where NetworkManager considers it connected.
            if isOverIWD { return answer(attempt?.isConnected == false) }
            self?.supplicant.isAtRest(on: request.interface, answer)
        } stop: { [weak self] done in
            self?.deactivate(active) { _ in done() }
        }
    }

    /// After a failed attempt iwd reconnects the previous network by itself, and NetworkManager follows; an attempt
    /// that begins meanwhile is aborted. So a second attempt waits for the end of that.
    private func afterReconnection(
        _ attempt: JoinAttempt, _ record: JoinRecord, _ request: JoinRequest, then next: @escaping () -> Void
    ) {
        guard attempt.isSecond, station(below: request.path) != nil, record.previous != "" else { return next() }
        let awaited = Awaited<Void>(loop, timeout: WiFiTimes.beforeSecondJoin, late: (), completion: next)
        awaited.follow([
            link.onSignal(Self.device, "StateChanged", of: request.path) { _, arguments in
                // Retained by this closure until it ends.
                if arguments.first?.integerValue == DeviceState.activated { awaited.end(()) }
            }
        ])
        link.properties(.managerDevice, at: request.path) { result in
            if (try? result.get())?["State"]?.integerValue == DeviceState.activated { awaited.end(()) }
        }
    }

    // MARK: Restoring

    /// iwd would keep the accessory's network, and stay on it. Once it has forgotten the network, it reconnects the
    /// previous one, and NetworkManager finds it there. Asked only later, it would disconnect while NetworkManager
    /// begins to follow it (seen: no connection, or the accessory's again).
    func forgetUnderlying(_ record: JoinRecord) { iwd.forget(record) { _ in } }

    func restore(_ record: JoinRecord, completion: @escaping (Bool) -> Void) {
        stopFollowing()
        guard record.owner == owner else {
            return iwd.forget(record) { [weak self] isForgotten in
                guard let self, isForgotten else { return completion(isForgotten) }
                self.reconnection = Reconnection(self, record, afterRestart: true)
                completion(true)
            }
        }
        restoreConnection(record) { [weak self] isRestored in
            guard let self, isRestored else { return completion(isRestored) }
            self.iwd.forget(record, completion: completion)
        }
    }

    private func restoreConnection(_ record: JoinRecord, completion: @escaping (Bool) -> Void) {
        guard let path = interfaces[record.interface]?.path else { return completion(true) }
        let reconnect = { [weak self] in
            guard let self, record.previous != "" else { return completion(true) }
            self.reconnection = Reconnection(self, record, afterRestart: false, started: completion)
        }
        if let active = ObjectPath(record.joined) { return deactivate(active) { $0 ? reconnect() : completion(false) } }
        // It can have made the connection without an answer.
        let name = record.ssid.map(ManagedNetwork.name)
        activeConnection(of: path) { [weak self] result in
            guard let self, let active = result.value(orElse: { _ in completion(false) }) else { return }
            guard let active, active.values["Connection"]?.objectPathValue?.rawValue != record.previous,
                active.values["Id"]?.stringValue == name
            else { return reconnect() }
            self.deactivate(active.path) { $0 ? reconnect() : completion(false) }
        }
    }

    /// Deactivates a connection, and continues once it is inactive, or has not become so in time.
    func deactivate(_ active: ObjectPath, then next: @escaping (Bool) -> Void) {
        let awaited = Awaited<Bool>(loop, timeout: WiFiTimes.call, late: false, completion: next)
        awaited.follow([
            link.onSignal(Self.active, "StateChanged", of: active) { _, arguments in
                // Retained by this closure until it ends.
                if arguments.first?.integerValue == ManagedNetwork.deactivated { awaited.end(true) }
            }
        ])
        link.call(.deactivateConnection, at: Self.root, [.objectPath(active)]) { result in
            guard case .failure(let error) = result else { return }
            awaited.end(error.meansGone || error.name == Self.busName + ".ConnectionNotActive")
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// NetworkManager. (D-Bus API reference of NetworkManager 1.42.) It owns the interfaces that it manages, whichever
// supplicant works below it. It may refuse scans that follow each other closely; a connection that is made volatile and
// bound to our connection to the bus vanishes by itself when we do.

internal import AccessoryEngine
internal import AccessoryModel
internal import CallsOut
internal import DBusKit
internal import Glibc
internal import Logging

final class NetworkManager: WiFiService {
    let common: ServiceCommon
    static let busName = "org.freedesktop.NetworkManager"
    static let root: ObjectPath = "/org/freedesktop/NetworkManager"
    static let device = "org.freedesktop.NetworkManager.Device"
    static let wireless = "org.freedesktop.NetworkManager.Device.Wireless"
    static let accessPoint = "org.freedesktop.NetworkManager.AccessPoint"
    static let active = "org.freedesktop.NetworkManager.Connection.Active"

    private var isReading = false
    private var mustReadAgain = false
    /// Follows the joined network's connection, while it is.
    private var joined: Subscription?

    /// The way to the connection from before: which, or nil for NetworkManager's choice; who follows its activation;
    /// and the next attempt, or the end of this.
    private var wayHome: (previous: ObjectPath?, following: Subscription?, another: LoopSource?)?
    /// What it had joined for us when it ended, until the next one is on its way to what it finds by itself.
    private var strayed: JoinRecord?
    /// What may work below it, and keeps networks of its own.
    private let iwd: IWD
    /// So may this.
    private let supplicant: Supplicant

    /// How often the connection from before is begun, and the pause after an attempt that has failed.
    private static let returns = 4
    private static let betweenReturns = Duration.seconds(2)
    /// How long a way back may take: more than the 45 s that NetworkManager waits for an address.
    private static let longestReturn = Duration.seconds(50)

    private enum DeviceState {
        static let wifi = 2
        static let unmanaged = 10
        static let unavailable = 20
        static let prepare = 40
        static let activated = 100
    }

    init(on connection: Connection, over iwd: IWD, or supplicant: Supplicant, log: Logger) {
        self.iwd = iwd
        self.supplicant = supplicant
        common = ServiceCommon(name: "NetworkManager", busName: Self.busName, on: connection, log: log)
    }

    var isJoined: Bool { joined != nil }

    func dropJoined() {
        joined?.cancel()
        joined = nil
    }

    // MARK: Interfaces

    /// It is above all others.
    func shadowChanged() {}

    func follow() {
        // The way of another one.
        endWayHome()
        let changed: (ObjectPath, [DBusValue]) -> Void = { [weak self] _, _ in self?.read() }
        link.subscriptions = [
            link.onSignal(Self.busName, "DeviceAdded", of: Self.root, changed),
            link.onSignal(Self.busName, "DeviceRemoved", of: Self.root, changed),
            link.onSignal(Self.device, "StateChanged") { [weak self] path, arguments in self?.stateChanged(path, arguments) },
        ].compactMap(\.self)
        read()
    }

    /// Only states that say something about who may use an interface: joining and leaving pass through many others.
    private func stateChanged(_ path: ObjectPath, _ arguments: [DBusValue]) {
        let states = arguments.prefix(2).compactMap(\.integerValue)
        let isKnown = paths.values.contains(path)
        if !isKnown || states.contains(where: { $0 <= DeviceState.unavailable }) { read() }
        if states.first == DeviceState.prepare { followOwnReturn() }
    }

    private func read() {
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

    func readAgain() { read() }

    private func hasRead(_ asked: String?, _ result: Result<[(path: ObjectPath, values: [String: DBusValue])], BusError>) {
        isReading = false
        if mustReadAgain || asked != owner {
            mustReadAgain = false
            if owner != nil { return read() }
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
        paths = [:]
        interfaces = [:]
        for (path, values) in devices where values["DeviceType"]?.integerValue == DeviceState.wifi {
            guard let name = values["Interface"]?.stringValue, let state = values["State"]?.integerValue,
                values["Managed"]?.booleanValue != false, state != DeviceState.unmanaged
            else { continue }
            paths[name] = path
            interfaces[name] = state == DeviceState.unavailable ? .off : .ready
        }
        if paths.isEmpty { gone("the interface is gone") }
        followOwnReturn()
    }

    // MARK: Scanning

    func requestScan(_ path: ObjectPath, asking names: [SSID], _ awaited: Awaited<Result<Void, ScanFailure>>) {
        // Over iwd NetworkManager passes a scan on, but none while it waits for iwd to connect: for ever where it has
        // missed that (1.42, when it starts at that moment). It does not tell of the end, either.
        if let station = station(below: path) { return iwd.requestScan(station, asking: names, awaited) }
        awaited.follow([
            link.onProperties(of: path, Self.wireless, ["LastScan"]) { [weak awaited] _, values in
                if values["LastScan"] != nil { awaited?.end(.success(())) }
            }
        ])
        var options: [String: DBusValue] = [:]
        // The empty name is everybody's.
        if !names.isEmpty { options["ssids"] = .array(of: "ay", [.bytes([])] + names.map { .bytes($0.bytes) }) }
        link.call(.managerScan, at: path, [.vardict(options)]) { [weak awaited] result in
            guard case .failure(let error) = result else { return }
            awaited?.end(.failure(error.name == Self.device + ".NotAllowed" ? .busy : .failed("\(error)")))
        }
    }

    /// As NetworkManager counts: `LastSeen` of its access points.
    private static var secondsSinceBoot: Int {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return time.tv_sec
    }

    /// Whose process this is; nil where no account says.
    private static var user: String? { getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) } }

    /// What iwd has of this interface, where it is what NetworkManager has below it.
    private func station(below path: ObjectPath) -> ObjectPath? {
        paths.first { $0.value == path }.flatMap { iwd.paths[$0.key] }
    }

    func read(
        _ path: ObjectPath, since begun: Int64, completion: @escaping (Result<[WiFiNetwork], ScanFailure>) -> Void
    ) {
        // When NetworkManager has first heard of a network from iwd is all that it says of those, and it reads the list
        // after a scan as we do.
        if let station = station(below: path) { return iwd.read(station, since: begun, completion: completion) }
        var points: [ObjectPath] = []
        link.ask(.managerPoints, at: path) { argument in
            points = argument.objectPaths ?? []
        } completion: { [weak self] error in
            guard let self, error == nil else { return completion(.failure(.unread(error))) }
            self.link.read(.managerPoint, at: points) {
                ManagedNetwork.sighting(&$0)
            } completion: { [weak self] sightings in
                let earliest = Self.secondsSinceBoot - (self?.age(since: begun) ?? 0)
                completion(.success(sightings.filter { $0.lastSeen >= earliest }.map(\.network)))
            }
        }
    }

    func readCurrent(_ path: ObjectPath, completion: @escaping (WiFiNetwork?) -> Void) {
        active(on: path) { [weak self] result in
            guard let self, let point = (try? result.get())??.values["SpecificObject"]?.objectPathValue else {
                return completion(nil)
            }
            self.link.read(.managerPoint, at: [point]) {
                ManagedNetwork.sighting(&$0)?.network
            } completion: {
                completion($0.first)
            }
        }
    }

    // MARK: Joining

    func join(
        _ join: NetworkJoin, on interface: String, begun: Int64, note: @escaping (JoinRecord) throws -> Void,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        guard let path = paths[interface], let owner else { return completion(.failure(.serviceGone)) }
        let begin = { [weak self] in self?.join(join, on: interface, path, owner, begun, note, completion) }
        guard station(below: path) != nil else { return begin() ?? () }
        iwd.refusal { refusal in
            if let refusal { return completion(.failure(refusal)) }
            begin()
        }
    }

    private func join(
        _ join: NetworkJoin, on interface: String, _ path: ObjectPath, _ owner: String, _ begun: Int64,
        _ note: @escaping (JoinRecord) throws -> Void, _ completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        var record = JoinRecord(service: busName, owner: owner, interface: interface, network: Hex.text(join.ssid.bytes))
        // What is not known now could not be given back.
        let failed = { (error: BusError) in completion(.failure(error.failure(of: "NetworkManager"))) }
        active(on: path) { [weak self] result in
            guard let self, let before = result.value(orElse: failed) else { return }
            let previous = before?.values["Connection"]?.objectPathValue ?? self.wayHome?.previous
            record.previous = previous?.rawValue ?? ""
            self.endWayHome()
            self.strayed = nil
            self.iwd.known(join.ssid) { [weak self] result in
                guard let self, let known = result.value(orElse: failed) else { return }
                record.known = known
                self.security(of: join, path) { [weak self] security in
                    guard let self else { return }
                    let settings = ManagedNetwork.settings(
                        join, security: security, interface: interface, user: Self.user)
                    self.activate(settings, path, record, note, self.awaitJoin(join, begun: begun, completion))
                }
            }
        }
    }

    /// What a device is connected by, or about to be; nil for nothing.
    private func active(
        on path: ObjectPath,
        completion: @escaping (Result<(path: ObjectPath, values: [String: DBusValue])?, BusError>) -> Void
    ) {
        link.properties(.managerDevice, at: path) { [weak self] result in
            guard let self, let values = result.value(orElse: { completion(.failure($0)) }) else { return }
            guard let active = values["ActiveConnection"]?.objectPathValue, active != "/" else { return completion(.success(nil)) }
            self.link.properties(.managerActive, at: active) { result in completion(result.map { (active, $0) }) }
        }
    }

    /// How the network is protected, which a connection has to say here.
    private func security(of join: NetworkJoin, _ path: ObjectPath, completion: @escaping (NetworkSecurity?) -> Void) {
        guard join.passphrase != nil else { return completion(.open) }
        read(path, since: 0) { result in
            let suitable = (try? result.get())?.filter { $0.ssid == join.ssid && $0.security.map(join.suits) == true } ?? []
            completion(WiFiNetwork.merged(suitable).first?.security)
        }
    }

    private func activate(
        _ settings: DBusValue, _ path: ObjectPath, _ record: JoinRecord, _ note: @escaping (JoinRecord) throws -> Void,
        _ joining: Joining
    ) {
        do { try note(record) } catch {
            return joining.end(.failure(RadioFailure(.other, "the record of the joining could not be written: \(error)")))
        }
        let options: [String: DBusValue] = ["persist": .string("volatile"), "bind-activation": .string("dbus-client")]
        link.call(.managerJoin, at: Self.root, [settings, .objectPath(path), .objectPath("/"), .vardict(options)]) {
            [weak self, weak joining] result in
            guard let self, let joining else { return }
            switch result {
            case .failure(let error):
                // Its message may quote a setting.
                joining.end(.failure(RadioFailure(.refused, "NetworkManager refused the connection (\(error.name))")))
            case .success(let values):
                guard values.count >= 2, let active = values[1].objectPathValue else {
                    return joining.end(.failure(RadioFailure(.other, "NetworkManager made no connection")))
                }
                var made = record
                made.joined = active.rawValue
                // That is for a clean end: after a crash NetworkManager takes the connection away by itself.
                try? note(made)
                let again = { [weak self] (joining: Joining) -> Void in
                    if joining.isPending { self?.activate(settings, path, record, note, joining) }
                }
                self.follow(active, path, joining) { [weak self] joining in self?.whenHome(record, path) { again(joining) } }
                let isOverIWD = self.station(below: path) != nil
                joining.limit(again: again) { [weak self, weak joining] answer in
                    // wpa_supplicant may rest also where NetworkManager takes it to be on the network still.
                    if isOverIWD { return answer(joining?.isConnected == false) }
                    self?.supplicant.isAtRest(on: record.interface, answer)
                } stop: { [weak self] done in
                    // It is home again by no will of iwd's then.
                    self?.deactivate(active) { _ in done() }
                }
            }
        }
    }

    /// From a network that could not be joined iwd goes home by itself, and NetworkManager follows it. What is begun
    /// meanwhile is ended for that, or aborted: another attempt waits for the end of it, as long as there is time.
    private func whenHome(_ record: JoinRecord, _ path: ObjectPath, then next: @escaping () -> Void) {
        guard station(below: path) != nil, record.previous != "" else { return next() }
        let awaited = Awaited<Void>(loop, timeout: WiFiTimes.beforeSecondJoin, late: (), completion: next)
        awaited.follow([
            link.onSignal(Self.device, "StateChanged", of: path) { _, arguments in
                // Held here until it ends.
                if arguments.first?.integerValue == DeviceState.activated { awaited.end(()) }
            }
        ])
        link.properties(.managerDevice, at: path) { result in
            if (try? result.get())?["State"]?.integerValue == DeviceState.activated { awaited.end(()) }
        }
    }

    /// - Parameter again: makes another connection, when this one has failed.
    private func follow(
        _ active: ObjectPath, _ path: ObjectPath, _ joining: Joining, again: @escaping (Joining) -> Void
    ) {
        let number = joining.attempt
        var attempt = ManagedAttempt(isOverIWD: station(below: path) != nil)
        let changed = { [weak self, weak joining] (state: Int?) in
            guard let self, let joining, joining.isPending, joining.attempt == number,
                let verdict = attempt.verdict(on: state)
            else { return }
            switch verdict {
            case .success:
                self.joined = self.link.onSignal(Self.active, "StateChanged", of: active) { [weak self] _, arguments in
                    guard arguments.first?.integerValue == ManagedNetwork.deactivated else { return }
                    self?.lost("NetworkManager has ended the connection")
                }
                joining.end(.success(()))
            case .failure(let failure): joining.failed(failure, again: again)
            }
        }
        joining.follow([
            link.onSignal(Self.device, "StateChanged", of: path) { [weak joining] _, arguments in
                attempt.deviceChanged(arguments.map(\.integerValue))
                if attempt.isConnected { joining?.connected() }
            },
            link.onSignal(Self.active, "StateChanged", of: active) { _, arguments in changed(arguments.first?.integerValue) },
        ])
        // It may have happened already; what comes later is told anyway.
        link.properties(.managerActive, at: active) { result in
            if case .success(let values) = result { changed(values["State"]?.integerValue ?? ManagedNetwork.deactivated) }
        }
    }

    /// iwd keeps the network, and stays on it. Once it has forgotten that, it goes home by itself, and NetworkManager
    /// finds it there. Asked only when that one is back, iwd would leave the network while NetworkManager begins to
    /// follow it: seen to end with a way home that failed, or with a connection to the accessory that stayed.
    func restoreBelow(_ record: JoinRecord) { iwd.forgetJoined(record) { _ in } }

    func restore(_ record: JoinRecord, completion: @escaping (Bool) -> Void) {
        stopFollowing()
        guard record.owner == owner else {
            return iwd.forgetJoined(record) { [weak self] isForgotten in
                guard let self, isForgotten else { return completion(isForgotten) }
                self.strayed = record
                self.followOwnReturn()
                completion(true)
            }
        }
        restoreConnection(record) { [weak self] isRestored in
            guard let self, isRestored else { return completion(isRestored) }
            self.iwd.forgetJoined(record, completion: completion)
        }
    }

    private func restoreConnection(_ record: JoinRecord, completion: @escaping (Bool) -> Void) {
        guard let path = paths[record.interface] else { return completion(true) }
        let back = { [weak self] in
            guard let self else { return completion(true) }
            self.goBack(record, completion)
        }
        if let active = ObjectPath(record.joined) { return deactivate(active) { $0 ? back() : completion(false) } }
        // It may have made the connection and not said so.
        ours(record, path) { [weak self] result in
            guard let self, let active = result.value(orElse: { _ in completion(false) }) else { return }
            guard let active else { return back() }
            self.deactivate(active) { $0 ? back() : completion(false) }
        }
    }

    /// The active connection of an interface, if it is one that we made for a network.
    private func ours(_ record: JoinRecord, _ path: ObjectPath, completion: @escaping (Result<ObjectPath?, BusError>) -> Void) {
        let name = record.ssid.map(ManagedNetwork.name)
        active(on: path) { result in
            completion(
                result.map { active in
                    guard let active, active.values["Connection"]?.objectPathValue?.rawValue != record.previous,
                        active.values["Id"]?.stringValue == name
                    else { return nil }
                    return active.path
                })
        }
    }

    /// To the connection from before.
    private func goBack(_ record: JoinRecord, _ completion: @escaping (Bool) -> Void) {
        guard let previous = ObjectPath(record.previous) else { return completion(true) }
        goBack(to: previous, record.interface, attempts: Self.returns, joined: record.joined, completion)
    }

    /// - Parameters:
    ///   - previous: nil for the one that NetworkManager finds best.
    ///   - completion: gets whether the interface is on its way, or on another.
    private func goBack(
        to previous: ObjectPath?, _ interface: String, attempts: Int, joined: String, _ completion: @escaping (Bool) -> Void
    ) {
        guard let path = paths[interface] else { return completion(true) }
        link.properties(.managerDevice, at: path) { [weak self] result in
            guard let self, let values = result.value(orElse: { _ in completion(false) }) else { return }
            // NetworkManager may be on its way back already; by itself it comes back only to what connects by itself.
            let active = values["ActiveConnection"]?.objectPathValue ?? "/"
            guard active == "/" else {
                guard active.rawValue != joined else { return completion(false) }
                self.followReturn(active, to: previous, interface, attempts: attempts)
                return completion(true)
            }
            self.link.call(
                .managerReturn, at: Self.root, [.objectPath(previous ?? "/"), .objectPath(path), .objectPath("/")]
            ) { [weak self] result in
                switch result {
                case .success(let values):
                    if let self, let active = values.first?.objectPathValue {
                        self.followReturn(active, to: previous, interface, attempts: attempts)
                    }
                    completion(true)
                case .failure(let error):
                    self?.log.warning("the connection from before does not come back", metadata: ["error": "\(error)"])
                    completion(false)
                }
            }
        }
    }

    /// What has begun may fail, where it falls into the end of what was before: over iwd it was seen to, and then
    /// NetworkManager stays where it is. It may also come to no end (1.42 over iwd, which had connected by itself at
    /// that moment: it is disconnected, and NetworkManager waits): then it is ended, and begun anew.
    private func followReturn(_ active: ObjectPath, to previous: ObjectPath?, _ interface: String, attempts: Int) {
        let changed = { [weak self] (state: Int) in
            guard let self, self.wayHome?.following != nil else { return }
            if state == ManagedNetwork.activated { return self.endWayHome() }
            guard state == ManagedNetwork.deactivated else { return }
            self.endWayHome()
            guard attempts > 1 else { return self.log.warning("the connection from before does not come back") }
            self.goBackLater(to: previous, interface, attempts: attempts - 1)
        }
        endWayHome()
        strayed = nil
        let following = link.onSignal(Self.active, "StateChanged", of: active) { _, arguments in
            if let state = arguments.first?.integerValue { changed(state) }
        }
        let end = loop.after(Self.longestReturn) { [weak self] in
            self?.log.warning("the connection from before takes too long, and is begun anew")
            self?.deactivate(active) { _ in }
        }
        wayHome = (previous, following, end)
        // What happened before the subscription.
        link.properties(.managerActive, at: active) { [weak self] result in
            guard let values = try? result.get() else { return }
            // Somebody has chosen another.
            if let previous, let connection = values["Connection"]?.objectPathValue, connection != previous {
                self?.endWayHome()
            }
            changed(values["State"]?.integerValue ?? ManagedNetwork.deactivated)
        }
    }

    private func goBackLater(to previous: ObjectPath?, _ interface: String, attempts: Int) {
        let another = loop.after(Self.betweenReturns) { [weak self] in
            self?.goBack(to: previous, interface, attempts: attempts, joined: "") { _ in }
        }
        wayHome = (previous, nil, another)
    }

    /// One that was ended while a network was joined for us finds the way home by itself, and may fail: supplicants go
    /// on with that network, and 1.42 takes the end of it for that of its own attempt, wants another passphrase, and
    /// tries no more. So its first attempt is followed as if it were ours. Where there is none, it has not begun yet,
    /// or failed before anybody looked: then another is begun after a moment. Where nothing is in range for that, its
    /// next one is looked at.
    private func followOwnReturn() {
        guard let record = strayed, interfaces[record.interface] == .ready, let path = paths[record.interface] else { return }
        active(on: path) { [weak self] result in
            guard let self, self.strayed == record, case .success(let active) = result else { return }
            // What it makes of a network of iwd's has the network's name.
            let id = active?.values["Id"]?.stringValue
            if let active, id != record.ssid.map(ManagedNetwork.name), id != record.ssid?.text {
                let connection = active.values["Connection"]?.objectPathValue
                self.followReturn(active.path, to: connection, record.interface, attempts: Self.returns)
            } else if self.wayHome?.another?.isActive != true {
                self.goBackLater(to: nil, record.interface, attempts: Self.returns)
            }
        }
    }

    private func endWayHome() {
        wayHome?.following?.cancel()
        wayHome?.another?.cancel()
        wayHome = nil
    }

    /// Deactivates a connection; continues once it is over, or was over before, with whether it is.
    private func deactivate(_ active: ObjectPath, then next: @escaping (Bool) -> Void) {
        let awaited = Awaited<Bool>(link.connection.loop, timeout: WiFiTimes.call, late: false, completion: next)
        awaited.follow([
            link.onSignal(Self.active, "StateChanged", of: active) { _, arguments in
                // Held here until it ends.
                if arguments.first?.integerValue == ManagedNetwork.deactivated { awaited.end(true) }
            }
        ])
        link.call(.managerLeave, at: Self.root, [.objectPath(active)]) { result in
            guard case .failure(let error) = result else { return }
            awaited.end(error.saysGone || error.name == Self.busName + ".ConnectionNotActive")
        }
    }
}

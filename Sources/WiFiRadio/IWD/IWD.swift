// SPDX-License-Identifier: Apache-2.0
// iwd. (doc/*-api.txt in iwd's sources.) It identifies networks by text, so a network whose name is not UTF-8 does not
// exist for it, nor does a hidden one until it is probed by name. It asks an agent of ours for passphrases, and stores
// them once they have worked, so a network that it did not know before must be forgotten when it is left.

internal import AccessoryEngine
internal import AccessoryModel
internal import CallsOut
internal import DBusKit
internal import Logging

final class IWD: ServiceAdapter, WiFiService {
    static let busName = "net.connman.iwd"
    static let manager: ObjectPath = "/net/connman/iwd"
    static let station = "\(stationKey)"
    static let device = "\(deviceKey)"
    static let network = "\(networkKey)"
    static let knownNetwork = "net.connman.iwd.KnownNetwork"

    /// The same, to be compared with the words of a message.
    private static let stationKey: StaticString = "net.connman.iwd.Station"
    private static let deviceKey: StaticString = "net.connman.iwd.Device"
    private static let networkKey: StaticString = "net.connman.iwd.Network"

    private let agent: NetworkAgent
    /// Follows the joined network.
    private var joined: Subscription?

    typealias Objects = [ObjectPath: [String: [String: DBusValue]]]

    init(on connection: Connection, server: ObjectServer, log: Logger) throws(BusError) {
        agent = try NetworkAgent()
        super.init(name: "iwd", busName: Self.busName, on: connection, log: log)
        server.export(agent)
    }

    var isJoined: Bool { joined != nil }

    func dropJoined() {
        joined?.cancel()
        joined = nil
    }

    // MARK: Interfaces

    func follow() {
        agent.owner = owner
        link.subscriptions = [
            link.onMessage(Bus.objectManager, "InterfacesAdded", of: "/") { [weak self] message in
                // Networks are added with every scan; they are read when they are needed.
                var isDevice = false
                message.withArguments { argument in
                    argument.next()
                    argument.forEachEntry(among: [Self.stationKey, Self.deviceKey]) { _, _ in isDevice = true }
                }
                if isDevice { self?.readInterfaces() }
            },
            link.onSignal(Bus.objectManager, "InterfacesRemoved", of: "/") { [weak self] _, arguments in
                let names = arguments.last?.stringsValue ?? []
                if names.contains(Self.station) || names.contains(Self.device) { self?.readInterfaces() }
            },
            link.onProperties(Self.device, ["Powered"]) { [weak self] _, values in
                if values["Powered"] != nil { self?.readInterfaces() }
            },
        ].compactMap(\.self)
        readInterfaces()
    }

    func supersededChanged() {
        for subscription in link.subscriptions { subscription.cancel() }
        link.subscriptions = []
        if !isSuperseded { follow() }
    }

    func readInterfaces() {
        objects { [weak self] result in
            guard let self, self.owner != nil, let objects = result.value(orElse: self.readingFailed) else { return }
            self.readingDone()
            self.interfaces = [:]
            for (path, interfaces) in objects {
                guard let device = interfaces[Self.device], let name = device["Name"]?.stringValue else { continue }
                let isOn = device["Powered"]?.booleanValue == true
                // A powered device without a station is an access point, or managed by another program.
                guard interfaces[Self.station] != nil || !isOn else { continue }
                self.interfaces[name] = ServedInterface(path: path, state: isOn ? .ready : .off)
            }
            if self.interfaces.isEmpty { self.gone("the interface is gone") }
            self.settle()
        }
    }

    private func objects(_ completion: @escaping (Result<Objects, BusError>) -> Void) {
        link.call(.iwdObjects, at: "/") { completion($0.map(Self.objects)) }
    }

    private static func objects(_ values: [DBusValue]) -> Objects {
        var objects: Objects = [:]
        for entry in values.first?.entries ?? [] {
            guard let path = entry.key.objectPathValue else { continue }
            var interfaces: [String: [String: DBusValue]] = [:]
            for inner in entry.value.entries ?? [] {
                if let name = inner.key.stringValue { interfaces[name] = inner.value.vardictValue ?? [:] }
            }
            objects[path] = interfaces
        }
        return objects
    }

    // MARK: Scanning

    /// iwd takes no names: it probes the hidden networks that it knows.
    func requestScan(_ path: ObjectPath, probing names: [SSID], _ awaited: Awaited<Result<Void, ScanFailure>>) {
        // The end of a scan that was running before does not count.
        var hasBegun = false
        awaited.follow([
            link.onProperties(of: path, Self.station, ["Scanning"]) { [weak awaited] _, values in
                guard let isScanning = values["Scanning"]?.booleanValue else { return }
                if isScanning { hasBegun = true } else if hasBegun { awaited?.end(.success(())) }
            }
        ])
        link.call(.iwdScan, at: path) { [weak awaited] result in
            switch result {
            case .success: hasBegun = true
            case .failure(let error):
                let isBusy = [".Busy", ".InProgress"].contains { error.name == Self.busName + $0 }
                awaited?.end(.failure(isBusy ? .busy : .failed("\(error)")))
            }
        }
    }

    /// The entire list: iwd drops networks that it has not heard for half a minute.
    func readNetworks(
        _ path: ObjectPath, since begun: Int64, completion: @escaping (Result<[WiFiNetwork], ScanFailure>) -> Void
    ) {
        var strengths: [(path: ObjectPath, strength: Int)] = []
        link.ask(.iwdNetworks, at: path) { rows in
            rows.forEachElement { row in
                row.withStructure { field in
                    guard let path = field.objectPath, field.next(), let strength = field.integer, !field.next() else { return }
                    strengths.append((path, strength))
                }
            }
        } completion: { [weak self] error in
            guard let self, error == nil else { return completion(.failure(.unread(error))) }
            guard !strengths.isEmpty else { return completion(.success([])) }
            self.readObjects { result in
                completion(
                    result.map { networks in
                        strengths.compactMap { path, strength in
                            guard var network = networks[path] else { return nil }
                            network.rssi = strength / 100
                            return network
                        }
                    })
            }
        }
    }

    /// The networks by their objects. iwd reports neither the version of WPA nor the band.
    private func readObjects(_ completion: @escaping (Result<[ObjectPath: WiFiNetwork], ScanFailure>) -> Void) {
        var networks: [ObjectPath: WiFiNetwork] = [:]
        link.ask(.iwdObjects, at: "/") { objects in
            objects.forEachEntry { object in
                guard let path = object.objectPath else { return }
                object.next()
                networks[path] = Self.network(&object)
            }
        } completion: { error in
            completion(error == nil ? .success(networks) : .failure(.unread(error)))
        }
    }

    func readCurrent(_ path: ObjectPath, completion: @escaping (WiFiNetwork?) -> Void) {
        link.properties(.iwdStation, at: path) { [weak self] result in
            guard let self, let current = (try? result.get())?["ConnectedNetwork"]?.objectPathValue else {
                return completion(nil)
            }
            self.readObjects { completion((try? $0.get())?[current]) }
        }
    }

    /// Decodes the interfaces of an object; nil where the object is not a network.
    private static func network(_ interfaces: inout ValueCursor) -> WiFiNetwork? {
        var name: String?
        var type: String?
        interfaces.forEachEntry(among: [networkKey]) { _, properties in
            (name, type) = (nil, nil)
            properties.forEachEntry(among: ["Name", "Type"]) { key, value in
                let text = value.type == .string ? value.string : nil
                if key == 0 { name = text } else { type = text }
            }
        }
        return name.flatMap { SSID($0) }.map { WiFiNetwork(ssid: $0, rssi: nil, security: security(type), band: nil) }
    }

    /// The object of a join's network, which need not have been heard yet: the path ends in the bytes of the name and
    /// the kind of protection (src/network.c, `iwd_network_get_path`).
    struct Target {
        private let station: ObjectPath
        private let element: String

        init(_ join: NetworkJoin, _ name: String, on station: ObjectPath) {
            self.station = station
            element = "\(Hex.text(Array(name.utf8)).lowercased())_\(join.passphrase == nil ? "open" : "psk")"
        }

        func isAt(_ path: ObjectPath) -> Bool {
            path.isBelow(station) && path.rawValue.split(separator: "/").last?.lowercased() == element
        }
    }

    private static func security(_ type: String?) -> NetworkSecurity {
        switch type {
        case "open": .open
        case "wep": .wep
        case "8021x", "hotspot": .enterprise
        default: .psk
        }
    }

    // MARK: Joining

    /// An iwd that configures addresses takes the default route and the name servers that the network offers. The
    /// settings against that are in files of root's; D-Bus has (2.3) an agent that configures the addresses of all
    /// networks, for which the daemon has no capability.
    func checkJoining(_ path: ObjectPath, completion: @escaping (RadioFailure?) -> Void) {
        link.call(.iwdInfo, at: Self.manager) { result in
            let failed = { (error: BusError) in completion(error.failure(of: "iwd")) }
            guard let values = result.value(orElse: failed) else { return }
            // An iwd without the property does not configure addresses.
            guard values.first?.vardictValue?["NetworkConfigurationEnabled"]?.booleanValue == true else { return completion(nil) }
            completion(
                RadioFailure(
                    .other, "iwd would take the network's routes and name servers (EnableNetworkConfiguration in its main.conf)"))
        }
    }

    func begin(_ request: JoinRequest) {
        let (join, path) = (request.join, request.path)
        guard let name = join.ssid.text else {
            return request.fail(RadioFailure(.other, "iwd cannot join a network whose name is not UTF-8"))
        }
        if join.passphrase?.key != nil {
            return request.fail(RadioFailure(.other, "iwd takes a passphrase, not the 64 digits of a key"))
        }
        objects { [weak self] result in
            // State that cannot be read now could not be restored.
            let failed = { (error: BusError) in request.fail(error.failure(of: "iwd")) }
            guard let self, let objects = result.value(orElse: failed) else { return }
            let namesakes = objects.filter { $0.key.isBelow(path) && $0.value[Self.network]?["Name"]?.stringValue == name }
                .mapValues { Self.security($0[Self.network]?["Type"]?.stringValue) }
            // iwd probes a hidden network only where it has no network of that name.
            if let failure = join.obstacle(among: Set(namesakes.values), source: "iwd's list") { return request.fail(failure) }
            let network = namesakes.first { join.suits($0.value) }?.key
            var record = request.empty
            record.joined = network?.rawValue ?? ""
            record.previous = objects[path]?[Self.station]?["ConnectedNetwork"]?.objectPathValue?.rawValue ?? ""
            // A network that was known before stays known.
            record.enabled = Self.knownNetworks(named: name, in: objects).map(\.rawValue)
            if let failure = request.record(record) { return request.fail(failure) }
            self.connect(request, name, network)
        }
    }

    private func connect(_ request: JoinRequest, _ name: String, _ network: ObjectPath?) {
        let target = Target(request.join, name, on: request.path)
        agent.answer = request.join.passphrase.map { (target, $0.text) }
        agent.wasAsked = false
        var isRegistered = false
        attempt(request) { [weak self] result in
            guard let self else { return }
            self.agent.answer = nil
            self.link.call(.iwdAgentEnd, at: Self.manager, [.objectPath(self.agent.path)]) { _ in }
            if case .success = result { self.follow(request.path, target) }
        } _: { [weak self] attempt in
            guard let self else { return }
            if isRegistered { return self.connect(request.join, name, network, request.path, attempt) }
            self.link.call(.iwdAgentRegistration, at: Self.manager, [.objectPath(self.agent.path)]) {
                [weak self, weak attempt] result in
                guard let self, let attempt else { return }
                if let error = result.error, !error.name.hasSuffix(".AlreadyExists") {
                    return attempt.failed(self.failure(error, request.join))
                }
                isRegistered = true
                self.connect(request.join, name, network, request.path, attempt)
            }
        }
    }

    private func connect(
        _ join: NetworkJoin, _ name: String, _ network: ObjectPath?, _ path: ObjectPath, _ attempt: JoinAttempt
    ) {
        let done = { [weak self, weak attempt] (result: Result<[DBusValue], BusError>) in
            guard let self, let attempt else { return }
            if let error = result.error { attempt.failed(self.failure(error, join)) } else { attempt.end(.success(())) }
        }
        guard let network else {
            // Not in the list: hidden, or not heard yet. This call scans for it.
            return link.call(.iwdJoinHidden, at: path, [.string(name)], completion: done)
        }
        attempt.limit {
            $0(true)
        } stop: { [weak self] done in
            self?.link.call(.iwdDisconnect, at: path) { _ in done() }
        }
        link.call(.iwdJoin, at: network, completion: done)
    }

    private func failure(_ error: BusError, _ join: NetworkJoin) -> RadioFailure {
        switch error.name {
        case Self.busName + ".NoAgent",
            Self.busName + ".Aborted" where join.passphrase == nil:
            .passphraseWanted
        case Self.busName + ".Failed" where agent.wasAsked: .refusedOrNoAnswerOrPassphrase
        case Self.busName + ".NotFound", Self.busName + ".ServiceSetOverlap":
            RadioFailure(.connection, "no such network is in range")
        case Self.busName + ".Failed": .refusedOrNoAnswer
        default: RadioFailure(.connection, "the network could not be joined: \(error)")
        }
    }

    /// When the joined network is gone, iwd connects to any network that it knows, including that one for a while. The
    /// network is identified by its path: by the time of an answer, iwd can be on another one.
    private func follow(_ path: ObjectPath, _ target: Target) {
        let changed = { [weak self] (value: DBusValue?) in
            guard let self, self.joined != nil else { return }
            guard let now = value?.objectPathValue else { return self.setAway(true) }
            if target.isAt(now) { self.setAway(false) } else { self.lost("iwd connected to a different network") }
        }
        joined = link.onProperties(of: path, Self.station, ["ConnectedNetwork"]) { _, values in
            if let value = values["ConnectedNetwork"] { changed(value) }
        }
        // Changes from before the subscription.
        link.properties(.iwdStation, at: path) { if case .success(let values) = $0 { changed(values["ConnectedNetwork"]) } }
    }

    private static func knownNetworks(named name: String, in objects: Objects) -> [ObjectPath] {
        objects.filter { $0.value[knownNetwork]?["Name"]?.stringValue == name }.map(\.key).sorted { $0.rawValue < $1.rawValue }
    }

    // MARK: Restoring

    /// Also after a restart of iwd, which stores its networks on disk.
    func restore(_ record: JoinRecord, completion: @escaping (Bool) -> Void) {
        stopFollowing()
        guard owner != nil, let name = record.ssid?.text else { return completion(true) }
        objects { [weak self] result in
            guard let self, let objects = result.value(orElse: { _ in completion(false) }) else { return }
            let ours = Self.added(since: record, name, in: objects)
            // Forgetting the connected network disconnects it, too.
            self.forget(ours) { [weak self] isForgotten in
                guard isForgotten else { return completion(false) }
                guard let self, let path = self.interfaces[record.interface]?.path else { return completion(true) }
                let reconnect = { [weak self] in
                    if let previous = ObjectPath(record.previous), objects[previous]?[Self.network] != nil {
                        self?.reconnect(previous)
                    }
                    completion(true)
                }
                guard ours.isEmpty, objects[path]?[Self.station]?["ConnectedNetwork"]?.objectPathValue?.rawValue == record.joined
                else { return reconnect() }
                self.link.call(.iwdDisconnect, at: path) { result in
                    let isOver = result.error.map { $0.meansGone || $0.name == Self.busName + ".NotConnected" } ?? true
                    isOver ? reconnect() : completion(false)
                }
            }
        }
    }

    private func reconnect(_ previous: ObjectPath) {
        link.call(.reconnectPreviousNetwork, at: previous) { [weak self] result in
            if let error = result.error {
                self?.log.info("iwd selects the previous network by itself", metadata: ["error": "\(error)"])
            }
        }
    }

    /// The known networks of a record's name that iwd did not know when the record was written.
    private static func added(since record: JoinRecord, _ name: String, in objects: Objects) -> [ObjectPath] {
        knownNetworks(named: name, in: objects).filter { !(record.enabled + record.preexisting).contains($0.rawValue) }
    }

    private func forget(_ networks: [ObjectPath], completion: @escaping (Bool) -> Void) {
        perform(.iwdForget, networks[...], ignoring: Self.busName + ".NotFound", completion: completion)
    }

    // MARK: Below NetworkManager

    /// The paths of the known networks of a name; none where iwd is not running.
    func knownNetworks(named ssid: SSID, completion: @escaping (Result<[String], BusError>) -> Void) {
        guard owner != nil, let name = ssid.text else { return completion(.success([])) }
        objects { completion($0.map { Self.knownNetworks(named: name, in: $0).map(\.rawValue) }) }
    }

    /// Forgets a record's network, passphrase included, if it was not known before. NetworkManager does so itself,
    /// unless it was killed.
    func forget(_ record: JoinRecord, completion: @escaping (Bool) -> Void) {
        guard owner != nil, let name = record.ssid?.text else { return completion(true) }
        objects { [weak self] result in
            guard let self, let objects = result.value(orElse: { _ in completion(false) }) else { return }
            self.forget(Self.added(since: record, name, in: objects), completion: completion)
        }
    }
}

/// Answers iwd's requests for a passphrase, and only those for the network that is being joined.
final class NetworkAgent: ExportedObject {
    let path: ObjectPath = "/org/accessorysetup1/networkagent"
    private(set) var interfaces: [ExportedInterface] = []
    var owner: String?
    /// The network that is being joined, with its passphrase.
    var answer: (target: IWD.Target, passphrase: String)?
    var wasAsked = false

    init() throws(BusError) {
        var interface = ExportedInterface(try InterfaceDescription.parse(xml: Self.xml)[0])
        interface.method("Release") { call throws(BusError) in call.reply() }
        interface.method("Cancel") { call throws(BusError) in call.reply() }
        interface.method("RequestPassphrase") { [unowned self] call throws(BusError) in
            guard let answer, let network = call.arguments.first?.objectPathValue, answer.target.isAt(network) else {
                throw BusError(name: "net.connman.iwd.Agent.Error.Canceled", message: "no passphrase was given for this network")
            }
            wasAsked = true
            call.reply(.string(answer.passphrase))
        }
        interfaces = [interface]
    }

    func isVisible(to caller: String) -> Bool { caller == owner }

    private static let xml = """
        <node><interface name="net.connman.iwd.Agent">
          <method name="Release"/>
          <method name="RequestPassphrase"><arg type="o" direction="in" name="network"/><arg type="s" direction="out" name="passphrase"/></method>
          <method name="Cancel"><arg type="s" direction="in" name="reason"/></method>
        </interface></node>
        """
}

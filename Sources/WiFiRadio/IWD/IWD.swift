// SPDX-License-Identifier: Apache-2.0
// iwd. (doc/*-api.txt in iwd's sources.) It knows networks by text: one whose name is not UTF-8 is not there for it,
// nor is one that hides its name until it is asked for. It asks an agent of ours for passphrases and keeps them once
// they have worked, so a network that was not known before is forgotten when it is left.

internal import AccessoryEngine
internal import AccessoryModel
internal import CallsOut
internal import DBusKit
internal import Logging

final class IWD: WiFiService {
    let common: ServiceCommon
    static let busName = "net.connman.iwd"
    static let manager: ObjectPath = "/net/connman/iwd"
    static let station = "\(stationKey)"
    static let device = "\(deviceKey)"
    static let network = "\(networkKey)"
    static let knownNetwork = "net.connman.iwd.KnownNetwork"

    /// The same, to be compared with what a message says.
    private static let stationKey: StaticString = "net.connman.iwd.Station"
    private static let deviceKey: StaticString = "net.connman.iwd.Device"
    private static let networkKey: StaticString = "net.connman.iwd.Network"

    private let agent: NetworkAgent
    /// Follows the joined network, while it is.
    private var joined: Subscription?

    typealias Objects = [ObjectPath: [String: [String: DBusValue]]]

    init(on connection: Connection, server: ObjectServer, log: Logger) throws(BusError) {
        agent = try NetworkAgent()
        common = ServiceCommon(name: "iwd", busName: Self.busName, on: connection, log: log)
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
                // Networks come and go with every scan; they are read when they are needed.
                var isOurs = false
                message.withArguments { argument in
                    argument.next()
                    argument.forEachEntry(among: [Self.stationKey, Self.deviceKey]) { _, _ in isOurs = true }
                }
                if isOurs { self?.read() }
            },
            link.onSignal(Bus.objectManager, "InterfacesRemoved", of: "/") { [weak self] _, arguments in
                let names = arguments.last?.stringsValue ?? []
                if names.contains(Self.station) || names.contains(Self.device) { self?.read() }
            },
            link.onProperties(Self.device, ["Powered"]) { [weak self] _, values in if values["Powered"] != nil { self?.read() } },
        ].compactMap(\.self)
        read()
    }

    func shadowChanged() {
        for subscription in link.subscriptions { subscription.cancel() }
        link.subscriptions = []
        if !isShadowed { follow() }
    }

    private func read() {
        objects { [weak self] result in
            guard let self, self.owner != nil, let objects = result.value(orElse: self.readingFailed) else { return }
            self.readingDone()
            self.paths = [:]
            self.interfaces = [:]
            for (path, interfaces) in objects {
                guard let device = interfaces[Self.device], let name = device["Name"]?.stringValue else { continue }
                let isOn = device["Powered"]?.booleanValue == true
                // Without power there is no station; with power and without one it is an access point, or somebody
                // else's.
                guard interfaces[Self.station] != nil || !isOn else { continue }
                self.paths[name] = path
                self.interfaces[name] = isOn ? .ready : .off
            }
            if self.paths.isEmpty { self.gone("the interface is gone") }
            self.settle()
        }
    }

    func readAgain() { read() }

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

    /// iwd asks for no names: it knows which hidden networks it knows.
    func requestScan(_ path: ObjectPath, asking names: [SSID], _ awaited: Awaited<Result<Void, ScanFailure>>) {
        // The end of a scan that was running before is not ours.
        var hasBegun = false
        awaited.follow([
            onScanning(path) { [weak awaited] isScanning in
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

    /// Tells of the begin and the end of each scan, whoever asks for it.
    private func onScanning(_ path: ObjectPath, _ body: @escaping (Bool) -> Void) -> Subscription? {
        link.onProperties(of: path, Self.station, ["Scanning"]) { _, values in
            if let isScanning = values["Scanning"]?.booleanValue { body(isScanning) }
        }
    }

    /// All that it lists: it forgets by itself what it has not heard for half a minute.
    func read(
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
            self.readNetworks { result in
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

    /// The networks that it has objects of. iwd says neither which WPA it is nor on which band.
    private func readNetworks(_ completion: @escaping (Result<[ObjectPath: WiFiNetwork], ScanFailure>) -> Void) {
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
            self.readNetworks { completion((try? $0.get())?[current]) }
        }
    }

    /// What an object's interfaces say of the network that it is; nil for what is none.
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

    /// Where iwd has the object of a join's network, also of one that it has not heard yet: the path ends in the name's
    /// bytes and the kind of protection (src/network.c, `iwd_network_get_path`).
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

    func join(
        _ join: NetworkJoin, on interface: String, begun: Int64, note: @escaping (JoinRecord) throws -> Void,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        guard let path = paths[interface], let owner else { return completion(.failure(.serviceGone)) }
        guard let name = join.ssid.text else {
            return completion(.failure(RadioFailure(.other, "iwd cannot join a network whose name is not UTF-8")))
        }
        if join.passphrase?.key != nil {
            return completion(.failure(RadioFailure(.other, "iwd takes a passphrase, not the 64 digits of a key")))
        }
        refusal { [weak self] refusal in
            if let refusal { return completion(.failure(refusal)) }
            self?.join(join, name, on: interface, path, owner, begun, note, completion)
        }
    }

    /// Why it joins no network; nil when it does. With addresses it takes the default route and the name servers that
    /// the network offers. Settings against that are in files of root's; what D-Bus has (2.3) is an agent for all
    /// networks that sets addresses in its place, for which the daemon has no capability.
    func refusal(completion: @escaping (RadioFailure?) -> Void) {
        link.call(.iwdInfo, at: Self.manager) { result in
            let failed = { (error: BusError) in completion(error.failure(of: "iwd")) }
            guard let values = result.value(orElse: failed) else { return }
            // Without a word for it, it has none.
            guard values.first?.vardictValue?["NetworkConfigurationEnabled"]?.booleanValue == true else { return completion(nil) }
            completion(
                RadioFailure(
                    .other, "iwd would take the network's routes and name servers (EnableNetworkConfiguration in its main.conf)"))
        }
    }

    private func join(
        _ join: NetworkJoin, _ name: String, on interface: String, _ path: ObjectPath, _ owner: String, _ begun: Int64,
        _ note: @escaping (JoinRecord) throws -> Void, _ completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        objects { [weak self] result in
            // What is not known now could not be given back.
            let failed = { (error: BusError) in completion(.failure(error.failure(of: "iwd"))) }
            guard let self, let objects = result.value(orElse: failed) else { return }
            let known = Self.known(name, in: objects)
            let twins = objects.filter { $0.key.isBelow(path) && $0.value[Self.network]?["Name"]?.stringValue == name }
                .mapValues { Self.security($0[Self.network]?["Type"]?.stringValue) }
            // iwd asks for a hidden network only where it has none of that name.
            if let failure = join.obstacle(among: Set(twins.values), source: "iwd's list") { return completion(.failure(failure)) }
            let network = twins.first { join.suits($0.value) }?.key
            let record = JoinRecord(
                service: self.busName, owner: owner, interface: interface, network: Hex.text(join.ssid.bytes),
                joined: network?.rawValue ?? "",
                previous: objects[path]?[Self.station]?["ConnectedNetwork"]?.objectPathValue?.rawValue ?? "",
                // A network that was known before stays known.
                enabled: known.map(\.rawValue))
            do { try note(record) } catch {
                return completion(
                    .failure(RadioFailure(.other, "the record of the joining could not be written: \(error)")))
            }
            self.connect(join, begun, name, network, path, completion)
        }
    }

    private func connect(
        _ join: NetworkJoin, _ begun: Int64, _ name: String, _ network: ObjectPath?, _ path: ObjectPath,
        _ completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        let target = Target(join, name, on: path)
        let joining = awaitJoin(join, begun: begun) { [weak self] result in
            guard let self else { return }
            self.agent.answer = nil
            self.link.call(.iwdAgentEnd, at: Self.manager, [.objectPath(self.agent.path)]) { _ in }
            if case .success = result { self.follow(path, target) }
            completion(result)
        }
        agent.answer = join.passphrase.map { (target, $0.text) }
        agent.wasAsked = false
        link.call(.iwdAgentRegistration, at: Self.manager, [.objectPath(agent.path)]) { [weak self, weak joining] result in
            guard let self, let joining else { return }
            if case .failure(let error) = result, !error.name.hasSuffix(".AlreadyExists") {
                return joining.end(.failure(self.failure(error, join)))
            }
            self.attempt(join, name, network, path, joining)
        }
    }

    private func attempt(
        _ join: NetworkJoin, _ name: String, _ network: ObjectPath?, _ path: ObjectPath, _ joining: Joining
    ) {
        let again = { [weak self] (joining: Joining) -> Void in self?.attempt(join, name, network, path, joining) }
        let number = joining.attempt
        let done: (Result<[DBusValue], BusError>) -> Void = { [weak self, weak joining] result in
            guard let self, let joining, joining.attempt == number else { return }
            guard let error = result.error else { return joining.end(.success(())) }
            joining.failed(self.failure(error, join), again: again)
        }
        if let network {
            joining.limit(again: again, isStuck: { $0(true) }) { [weak self] done in
                self?.link.call(.iwdDisconnect, at: path) { _ in done() }
            }
            link.call(.iwdJoin, at: network, completion: done)
        } else {
            // Not in the list: hidden, or to be scanned for, which this does too.
            link.call(.iwdJoinHidden, at: path, [.string(name)], completion: done)
        }
    }

    private func failure(_ error: BusError, _ join: NetworkJoin) -> RadioFailure {
        switch error.name {
        case Self.busName + ".NoAgent",
            Self.busName + ".Aborted" where join.passphrase == nil:
            .passphraseWanted
        case Self.busName + ".Failed" where agent.wasAsked:
            .refusedOrNoAnswerOrPassphrase
        case Self.busName + ".NotFound", Self.busName + ".ServiceSetOverlap":
            RadioFailure(.connection, "there is no such network in range")
        case Self.busName + ".Failed": .refusedOrNoAnswer
        default: RadioFailure(.connection, "the network could not be joined: \(error)")
        }
    }

    /// iwd goes to whatever it knows when the joined network is gone; to that one it comes back by itself, for a while.
    /// It is followed from the moment it is joined, and known by its path: asked for, it may be another one already.
    ///
    private func follow(_ path: ObjectPath, _ target: Target) {
        let changed = { [weak self] (value: DBusValue?) in
            guard let self, self.joined != nil else { return }
            guard let now = value?.objectPathValue else { return self.noteAway(true) }
            if target.isAt(now) { self.noteAway(false) } else { self.lost("iwd has gone to another network") }
        }
        joined = link.onProperties(of: path, Self.station, ["ConnectedNetwork"]) { _, values in
            if let value = values["ConnectedNetwork"] { changed(value) }
        }
        // What happened before the subscription.
        link.properties(.iwdStation, at: path) { if case .success(let values) = $0 { changed(values["ConnectedNetwork"]) } }
    }

    private static func known(_ name: String, in objects: Objects) -> [ObjectPath] {
        objects.filter { $0.value[knownNetwork]?["Name"]?.stringValue == name }.map(\.key).sorted { $0.rawValue < $1.rawValue }
    }

    /// Also after a restart of iwd: what it knows is on its disk.
    func restore(_ record: JoinRecord, completion: @escaping (Bool) -> Void) {
        stopFollowing()
        guard owner != nil, let name = record.ssid?.text else { return completion(true) }
        objects { [weak self] result in
            guard let self, let objects = result.value(orElse: { _ in completion(false) }) else { return }
            let ours = Self.ours(record, name, in: objects)
            // Forgetting the connected one disconnects, too.
            self.forget(ours[...]) { [weak self] isForgotten in
                guard isForgotten else { return completion(false) }
                guard let self, let path = self.paths[record.interface] else { return completion(true) }
                let back = { [weak self] in
                    guard let self, let previous = ObjectPath(record.previous), objects[previous]?[Self.network] != nil else {
                        return completion(true)
                    }
                    self.link.call(.iwdReturn, at: previous) { [weak self] result in
                        if case .failure(let error) = result {
                            self?.log.info("iwd looks for the network from before by itself", metadata: ["error": "\(error)"])
                        }
                    }
                    completion(true)
                }
                guard ours.isEmpty, objects[path]?[Self.station]?["ConnectedNetwork"]?.objectPathValue?.rawValue == record.joined
                else { return back() }
                self.link.call(.iwdDisconnect, at: path) { result in
                    let isOver = result.error.map { $0.saysGone || $0.name == Self.busName + ".NotConnected" } ?? true
                    isOver ? back() : completion(false)
                }
            }
        }
    }

    /// What it knows of a record's network since that was written.
    private static func ours(_ record: JoinRecord, _ name: String, in objects: Objects) -> [ObjectPath] {
        known(name, in: objects).filter { !(record.enabled + record.known).contains($0.rawValue) }
    }

    /// Nothing is below it.
    func restoreBelow(_ record: JoinRecord) {}

    // MARK: Below NetworkManager

    /// What it knows of a network before NetworkManager joins that through it; nothing where it is not there.
    func known(_ ssid: SSID, completion: @escaping (Result<[String], BusError>) -> Void) {
        guard owner != nil, let name = ssid.text else { return completion(.success([])) }
        objects { completion($0.map { Self.known(name, in: $0).map(\.rawValue) }) }
    }

    /// Forgets the network of a record that it did not know before, passphrase and all. NetworkManager has it do so by
    /// itself; unless it has ended without that.
    ///
    /// - Parameter completion: gets whether it has.
    func forgetJoined(_ record: JoinRecord, completion: @escaping (Bool) -> Void) {
        guard owner != nil, let name = record.ssid?.text else { return completion(true) }
        objects { [weak self] result in
            guard let self, let objects = result.value(orElse: { _ in completion(false) }) else { return }
            self.forget(Self.ours(record, name, in: objects)[...], completion: completion)
        }
    }

    /// - Parameter completion: gets whether all of them are.
    private func forget(_ networks: ArraySlice<ObjectPath>, completion: @escaping (Bool) -> Void) {
        guard let first = networks.first else { return completion(true) }
        link.call(.iwdForget, at: first) { [weak self] result in
            let isForgotten = result.error.map { $0.saysGone || $0.name == Self.busName + ".NotFound" } ?? true
            guard let self, isForgotten else { return completion(false) }
            self.forget(networks.dropFirst(), completion: completion)
        }
    }
}

/// Whom iwd asks for a passphrase. It answers iwd only, and only while a network is being joined.
final class NetworkAgent: ExportedObject {
    let path: ObjectPath = "/org/accessorysetup1/networkagent"
    private(set) var interfaces: [ExportedInterface] = []
    var owner: String?
    /// The network that is being joined, and its passphrase.
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

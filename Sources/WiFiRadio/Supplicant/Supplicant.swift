// SPDX-License-Identifier: Apache-2.0
// wpa_supplicant by itself, without a network manager above it. (doc/dbus.doxygen in hostap's sources; D-Bus names are
// its own.) It takes SSIDs as bytes. A network that we add lives in its memory only; selecting it switches all others
// off, so those are noted and switched on again.

internal import AccessoryEngine
internal import AccessoryModel
internal import CallsOut
internal import DBusKit
internal import Logging

final class Supplicant: WiFiService {
    let common: ServiceCommon
    static let busName = "fi.w1.wpa_supplicant1"
    static let root: ObjectPath = "/fi/w1/wpa_supplicant1"
    static let interface = "fi.w1.wpa_supplicant1.Interface"
    static let bss = "fi.w1.wpa_supplicant1.BSS"
    static let network = "fi.w1.wpa_supplicant1.Network"

    private var watches: [ObjectPath: Subscription] = [:]
    /// Which of the asked names have their turn: a scan takes four at most, and one of them is everybody.
    private var turn = 0
    /// The interface that has joined a network, while it has.
    private var joined: ObjectPath?

    /// Names that one scan asks for, besides everybody.
    private static let namesPerScan = 3

    init(on connection: Connection, log: Logger) {
        common = ServiceCommon(name: "wpa_supplicant", busName: Self.busName, on: connection, log: log)
    }

    var isJoined: Bool { joined != nil }

    func dropJoined() {
        joined = nil
    }

    // MARK: Interfaces

    func follow() {
        for watch in watches.values { watch.cancel() }
        watches = [:]
        link.subscriptions = [
            link.onSignal(Self.busName, "InterfaceAdded", of: Self.root) { [weak self] _, arguments in
                if let path = arguments.first?.objectPathValue { self?.added(path) {} }
            },
            link.onSignal(Self.busName, "InterfaceRemoved", of: Self.root) { [weak self] _, arguments in
                if let path = arguments.first?.objectPathValue { self?.removed(path) }
            },
        ].compactMap(\.self)
        readAgain()
    }

    func readAgain() {
        let owner = owner
        link.properties(.supplicantInterfaces, at: Self.root) { [weak self] result in
            guard let self, self.owner == owner, let values = result.value(orElse: self.readingFailed) else { return }
            self.readingDone()
            let found = (values["Interfaces"]?.arrayValue ?? []).compactMap(\.objectPathValue)
            var missing = found.count
            guard missing > 0 else { return self.settle() }
            for path in found {
                self.added(path) { [weak self] in
                    missing -= 1
                    if missing == 0 { self?.settle() }
                }
            }
        }
    }

    func shadowChanged() {
        for path in paths.values { added(path) {} }
    }

    private func added(_ path: ObjectPath, completion: @escaping () -> Void) {
        watches.removeValue(forKey: path)?.cancel()
        if !isShadowed {
            // Before its properties are read: nothing is missed in between.
            watches[path] = link.onProperties(of: path, Self.interface, ["State"]) { [weak self] _, values in
                self?.changed(path, values)
            }
        }
        link.properties(.supplicantInterface, at: path) { [weak self] result in
            defer { completion() }
            guard let self, let values = result.value(orElse: self.readingFailed), let name = values["Ifname"]?.stringValue
            else { return }
            self.paths[name] = path
            self.stateChanged(values["State"]?.stringValue, of: name)
            if self.isSettled { self.onChange?() }
        }
    }

    private func removed(_ path: ObjectPath) {
        guard let name = paths.first(where: { $0.value == path })?.key else { return }
        paths[name] = nil
        interfaces[name] = nil
        watches.removeValue(forKey: path)?.cancel()
        gone("\(name) is gone")
        onChange?()
    }

    private func stateChanged(_ state: String?, of name: String) {
        guard let state else { return }
        interfaces[name] = state == "interface_disabled" ? .off : .ready
    }

    private func changed(_ path: ObjectPath, _ values: [String: DBusValue]) {
        guard let name = paths.first(where: { $0.value == path })?.key else { return }
        let before = interfaces[name]
        stateChanged(values["State"]?.stringValue, of: name)
        // It looks for the joined network for ever.
        if joined == path, let state = values["State"]?.stringValue { noteAway(state != "completed") }
        if interfaces[name] != before { onChange?() }
    }

    // MARK: Scanning

    func requestScan(_ path: ObjectPath, asking names: [SSID], _ awaited: Awaited<Result<Void, ScanFailure>>) {
        awaited.follow([
            link.onSignal(Self.interface, "ScanDone", of: path) { [weak awaited] _, arguments in
                awaited?.end(arguments.first?.booleanValue == false ? .failure(.failed("the scan failed")) : .success(()))
            }
        ])
        var options: [String: DBusValue] = ["Type": .string("active"), "AllowRoam": .boolean(false)]
        if !names.isEmpty {
            let asked = (0..<min(names.count, Self.namesPerScan)).map { names[(turn + $0) % names.count] }
            turn = (turn + asked.count) % names.count
            // The empty name is everybody's.
            options["SSIDs"] = .array(of: "ay", [.bytes([])] + asked.map { .bytes($0.bytes) })
        }
        link.call(.supplicantScan, at: path, [.vardict(options)]) { [weak awaited] result in
            // Busy: a scan of somebody else's runs, which asks for no hidden names.
            if case .failure(let error) = result {
                awaited?.end(.failure(error.name == Self.interface + ".ScanError" ? .busy : .failed("\(error)")))
            }
        }
    }

    func read(
        _ path: ObjectPath, since begun: Int64, completion: @escaping (Result<[WiFiNetwork], ScanFailure>) -> Void
    ) {
        var points: [ObjectPath] = []
        link.ask(.supplicantPoints, at: path) { value in
            points = value.objectPaths ?? []
        } completion: { [weak self] error in
            guard let self, error == nil else { return completion(.failure(.unread(error))) }
            self.link.read(.supplicantPoint, at: points) {
                SupplicantNetwork.sighting(&$0)
            } completion: { [weak self] sightings in
                let age = self?.age(since: begun) ?? 0
                completion(.success(sightings.filter { $0.age <= age }.map(\.network)))
            }
        }
    }

    func readCurrent(_ path: ObjectPath, completion: @escaping (WiFiNetwork?) -> Void) {
        link.properties(.supplicantInterface, at: path) { [weak self] result in
            guard let self, let point = (try? result.get())?["CurrentBSS"]?.objectPathValue else { return completion(nil) }
            self.link.read(.supplicantPoint, at: [point]) {
                SupplicantNetwork.sighting(&$0)?.network
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
        var record = JoinRecord(service: busName, owner: owner, interface: interface, network: Hex.text(join.ssid.bytes))
        // What is not known now could not be given back.
        let failed = { (error: BusError) in completion(.failure(error.failure(of: "wpa_supplicant"))) }
        link.properties(.supplicantInterface, at: path) { [weak self] result in
            guard let self, let values = result.value(orElse: failed) else { return }
            let others = Self.networks(values)
            record.previous = values["CurrentNetwork"]?.objectPathValue.flatMap { $0 == "/" ? nil : $0.rawValue } ?? ""
            self.link.properties(.supplicantNetwork, at: others) { [weak self] result in
                guard let self, let found = result.value(orElse: failed) else { return }
                record.enabled = found.filter { $0.values["Enabled"]?.booleanValue == true }.map(\.path.rawValue)
                record.known = others.map(\.rawValue)
                // Before there is a network of ours: after a crash it is the one that was not known.
                do { try note(record) } catch {
                    return completion(
                        .failure(RadioFailure(.other, "the record of the joining could not be written: \(error)")))
                }
                let knowsSAE = SupplicantNetwork.knowsSAE(values)
                self.add(join, path, begun, record, knowsSAE, note, completion)
            }
        }
    }

    private static func networks(_ values: [String: DBusValue]) -> [ObjectPath] {
        (values["Networks"]?.arrayValue ?? []).compactMap(\.objectPathValue)
    }

    private func add(
        _ join: NetworkJoin, _ path: ObjectPath, _ begun: Int64, _ record: JoinRecord, _ knowsSAE: Bool,
        _ note: @escaping (JoinRecord) throws -> Void, _ completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        var record = record
        let arguments = SupplicantNetwork.arguments(join, knowsSAE: knowsSAE)
        link.call(.supplicantAdd, at: path, [.vardict(arguments)]) { [weak self] result in
            guard let self else { return }
            guard let network = (try? result.get())?.first?.objectPathValue else {
                var reason = "wpa_supplicant refused"
                // Its message may quote what it was given. (What was added all the same goes when all is given back.)
                if case .failure(let error) = result { reason = "wpa_supplicant refused the network (\(error.name))" }
                return completion(.failure(RadioFailure(.refused, reason)))
            }
            record.joined = network.rawValue
            do { try note(record) } catch {
                self.link.call(.supplicantRemove, at: path, [.objectPath(network)]) { _ in }
                return completion(.failure(RadioFailure(.other, "the record of the joining could not be written: \(error)")))
            }
            let joining = self.awaitJoin(join, begun: begun) { [weak self] result in
                if case .success = result { self?.joined = path }
                completion(result)
            }
            self.select(network, path, joining)
        }
    }

    /// Also once more: selecting it ends the time for which wpa_supplicant leaves a network alone that has failed.
    private func select(_ network: ObjectPath, _ path: ObjectPath, _ joining: Joining) {
        let attempt = SupplicantAttempt()
        var isOver = false
        let judge = { [weak self, weak joining] (values: [String: DBusValue]) in
            guard let self, let joining, !isOver, let verdict = attempt.verdict(on: values, network: network) else { return }
            isOver = true
            switch verdict {
            case .success: joining.end(verdict)
            case .failure(let failure): joining.failed(failure) { self.select(network, path, $0) }
            }
        }
        joining.follow([
            link.onProperties(of: path, Self.interface, SupplicantAttempt.properties) { [weak self, weak joining] _, values in
                judge(values)
                guard attempt.isToBeAsked, joining?.isPending == true else { return }
                self?.link.properties(.supplicantInterface, at: path) { result in
                    guard case .success(let values) = result else { return }
                    judge(values.filter { ["CurrentNetwork", "State"].contains($0.key) })
                }
            }
        ])
        link.call(.supplicantSelect, at: path, [.objectPath(network)]) { [weak joining] result in
            guard case .failure(let error) = result else { return attempt.isSelected = true }
            joining?.end(.failure(RadioFailure(.refused, "wpa_supplicant does not select the network: \(error)")))
        }
    }

    func restore(_ record: JoinRecord, completion: @escaping (Bool) -> Void) {
        stopFollowing()
        // Another wpa_supplicant: it has read its own networks again, and knows nothing of ours.
        guard let owner, record.owner == owner, let path = paths[record.interface] else { return completion(true) }
        if let network = ObjectPath(record.joined) { return remove([network], record, path, completion) }
        // It was about to be added: what came since, by this name.
        link.properties(.supplicantInterface, at: path) { [weak self] result in
            guard let self, let values = result.value(orElse: { _ in completion(false) }) else { return }
            let new = Self.networks(values).filter { !record.known.contains($0.rawValue) }
            self.remove(new, record, path, completion)
        }
    }

    /// Removes those of these networks that are ours, then switches the others on; also when ours went in an earlier
    /// attempt, or when its path has been given to another network since.
    private func remove(
        _ networks: [ObjectPath], _ record: JoinRecord, _ path: ObjectPath, _ completion: @escaping (Bool) -> Void
    ) {
        link.properties(.supplicantNetwork, at: networks) { [weak self] result in
            guard let self, let found = result.value(orElse: { _ in completion(false) }) else { return }
            self.remove(found.filter { SupplicantNetwork.isNamed($0.values, hex: record.network) }.map(\.path)[...], path) {
                [weak self] isDone in
                guard let self, isDone else { return completion(false) }
                self.enable(record.enabled[...], completion: completion)
            }
        }
    }

    private func remove(_ networks: ArraySlice<ObjectPath>, _ path: ObjectPath, _ completion: @escaping (Bool) -> Void) {
        guard let first = networks.first else { return completion(true) }
        link.call(.supplicantRemove, at: path, [.objectPath(first)]) { [weak self] result in
            let isRemoved = result.error.map { $0.saysGone || $0.name == Self.busName + ".NetworkUnknown" } ?? true
            guard let self, isRemoved else { return completion(false) }
            self.remove(networks.dropFirst(), path, completion)
        }
    }

    /// One after the other; the first that is switched on while nothing is connected sets off a scan.
    ///
    /// - Parameter completion: gets whether all are on that are there.
    private func enable(_ networks: ArraySlice<String>, completion: @escaping (Bool) -> Void) {
        guard let first = networks.first else { return completion(true) }
        guard let path = ObjectPath(first) else { return enable(networks.dropFirst(), completion: completion) }
        link.call(.supplicantEnable, at: path, [.variant(.boolean(true))]) { [weak self] result in
            guard let self, result.error?.saysGone ?? true else { return completion(false) }
            self.enable(networks.dropFirst(), completion: completion)
        }
    }

    /// Nothing is below it.
    func restoreBelow(_ record: JoinRecord) {}

    // MARK: Below NetworkManager

    /// - Parameter answer: gets whether it is known to have nothing to do on an interface, and to wait for nothing.
    func isAtRest(on interface: String, _ answer: @escaping (Bool) -> Void) {
        guard let path = paths[interface] else { return answer(false) }
        link.properties(.supplicantInterface, at: path) { result in
            let state = (try? result.get())?["State"]?.stringValue
            answer(state == "disconnected" || state == "inactive")
        }
    }
}

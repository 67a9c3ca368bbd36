// SPDX-License-Identifier: Apache-2.0
// wpa_supplicant without a network manager above it. (doc/dbus.doxygen in hostap's sources.) It takes SSIDs as bytes. A
// network that is added over D-Bus lives in its memory only. Selecting a network disables all others, so the enabled
// ones are recorded, and enabled again.

internal import AccessoryEngine
internal import AccessoryModel
internal import CallsOut
internal import DBusKit
internal import Logging

final class Supplicant: ServiceAdapter, WiFiService {
    static let busName = "fi.w1.wpa_supplicant1"
    static let root: ObjectPath = "/fi/w1/wpa_supplicant1"
    static let interface = "fi.w1.wpa_supplicant1.Interface"
    static let network = "fi.w1.wpa_supplicant1.Network"

    private var watches: [ObjectPath: Subscription] = [:]
    /// The first hidden name of the next scan.
    private var turn = 0
    /// The interface that has joined a network.
    private var joined: ObjectPath?

    /// A scan takes four names, of which the empty one is for networks that are not hidden.
    private static let hiddenNamesPerScan = 3

    init(on connection: Connection, log: Logger) {
        super.init(name: "wpa_supplicant", busName: Self.busName, on: connection, log: log)
    }

    var isJoined: Bool { joined != nil }

    func dropJoined() { joined = nil }

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
        readInterfaces()
    }

    func readInterfaces() {
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

    func supersededChanged() {
        for interface in interfaces.values { added(interface.path) {} }
    }

    private func added(_ path: ObjectPath, completion: @escaping () -> Void) {
        watches.removeValue(forKey: path)?.cancel()
        if !isSuperseded {
            // Before the properties are read, so that no change is missed.
            watches[path] = link.onProperties(of: path, Self.interface, ["State"]) { [weak self] _, values in
                self?.changed(path, values)
            }
        }
        link.properties(.supplicantInterface, at: path) { [weak self] result in
            defer { completion() }
            guard let self, let values = result.value(orElse: self.readingFailed), let name = values["Ifname"]?.stringValue,
                let state = values["State"]?.stringValue
            else { return }
            self.interfaces[name] = ServedInterface(path: path, state: Self.state(state))
            if self.isSettled { self.observer?.serviceChanged() }
        }
    }

    private func name(_ path: ObjectPath) -> String? { interfaces.first { $0.value.path == path }?.key }

    private func removed(_ path: ObjectPath) {
        guard let name = name(path) else { return }
        interfaces[name] = nil
        watches.removeValue(forKey: path)?.cancel()
        gone("\(name) is gone")
        observer?.serviceChanged()
    }

    private static func state(_ state: String) -> RadioState { state == "interface_disabled" ? .off : .ready }

    private func changed(_ path: ObjectPath, _ values: [String: DBusValue]) {
        guard let name = name(path), let state = values["State"]?.stringValue else { return }
        // It searches for the joined network for ever.
        if joined == path { setAway(state != "completed") }
        guard interfaces[name]?.state != Self.state(state) else { return }
        interfaces[name]?.state = Self.state(state)
        observer?.serviceChanged()
    }

    // MARK: Scanning

    func requestScan(_ path: ObjectPath, probing names: [SSID], _ awaited: Awaited<Result<Void, ScanFailure>>) {
        awaited.follow([
            link.onSignal(Self.interface, "ScanDone", of: path) { [weak awaited] _, arguments in
                awaited?.end(arguments.first?.booleanValue == false ? .failure(.failed("the scan failed")) : .success(()))
            }
        ])
        var options: [String: DBusValue] = ["Type": .string("active"), "AllowRoam": .boolean(false)]
        if !names.isEmpty {
            let asked = (0..<min(names.count, Self.hiddenNamesPerScan)).map { names[(turn + $0) % names.count] }
            turn = (turn + asked.count) % names.count
            options["SSIDs"] = .array(of: "ay", [.bytes([])] + asked.map { .bytes($0.bytes) })
        }
        link.call(.supplicantScan, at: path, [.vardict(options)]) { [weak awaited] result in
            // Refused while another program's scan runs, which does not probe hidden names.
            if case .failure(let error) = result {
                awaited?.end(.failure(error.name == Self.interface + ".ScanError" ? .busy : .failed("\(error)")))
            }
        }
    }

    func readNetworks(
        _ path: ObjectPath, since begun: Int64, completion: @escaping (Result<[WiFiNetwork], ScanFailure>) -> Void
    ) {
        var points: [ObjectPath] = []
        link.ask(.supplicantPoints, at: path) { value in
            points = value.objectPaths ?? []
        } completion: { [weak self] error in
            guard let self, error == nil else { return completion(.failure(.unread(error))) }
            self.link.read(.supplicantPoint, at: points) {
                SupplicantNetwork.scanResult(&$0)
            } completion: { [weak self] results in
                let age = self?.age(since: begun) ?? 0
                completion(.success(results.filter { $0.age <= age }.map(\.network)))
            }
        }
    }

    func readCurrent(_ path: ObjectPath, completion: @escaping (WiFiNetwork?) -> Void) {
        link.properties(.supplicantInterface, at: path) { [weak self] result in
            guard let self, let point = (try? result.get())?["CurrentBSS"]?.objectPathValue else { return completion(nil) }
            self.link.read(.supplicantPoint, at: [point]) {
                SupplicantNetwork.scanResult(&$0)?.network
            } completion: {
                completion($0.first)
            }
        }
    }

    // MARK: Joining

    func begin(_ request: JoinRequest) {
        var record = request.empty
        // State that cannot be read now could not be restored.
        let failed = { (error: BusError) in request.fail(error.failure(of: "wpa_supplicant")) }
        link.properties(.supplicantInterface, at: request.path) { [weak self] result in
            guard let self, let values = result.value(orElse: failed) else { return }
            let others = Self.networks(values)
            record.previous = values["CurrentNetwork"]?.objectPathValue.flatMap { $0 == "/" ? nil : $0.rawValue } ?? ""
            self.link.properties(.supplicantNetwork, at: others) { [weak self] result in
                guard let self, let found = result.value(orElse: failed) else { return }
                record.enabled = found.filter { $0.values["Enabled"]?.booleanValue == true }.map(\.path.rawValue)
                record.preexisting = others.map(\.rawValue)
                // Before the network is added: after a crash, it is the one that is not in the record.
                if let failure = request.record(record) { return request.fail(failure) }
                self.add(request, record, SupplicantNetwork.arguments(request.join, knowsSAE: SupplicantNetwork.knowsSAE(values)))
            }
        }
    }

    private static func networks(_ values: [String: DBusValue]) -> [ObjectPath] {
        (values["Networks"]?.arrayValue ?? []).compactMap(\.objectPathValue)
    }

    private func add(_ request: JoinRequest, _ record: JoinRecord, _ arguments: [String: DBusValue]) {
        var record = record
        link.call(.supplicantAdd, at: request.path, [.vardict(arguments)]) { [weak self] result in
            guard let self else { return }
            guard let network = (try? result.get())?.first?.objectPathValue else {
                // The error's message can quote the passphrase. A network that was added nevertheless is removed when
                // the record is restored.
                let reason = result.error.map { "wpa_supplicant refused the network (\($0.name))" }
                return request.fail(RadioFailure(.refused, reason ?? "wpa_supplicant refused"))
            }
            record.joined = network.rawValue
            if let failure = request.record(record) {
                self.link.call(.supplicantRemove, at: request.path, [.objectPath(network)]) { _ in }
                return request.fail(failure)
            }
            self.attempt(request) { [weak self] result in
                if case .success = result { self?.joined = request.path }
            } _: { [weak self] attempt in
                self?.select(network, request.path, attempt)
            }
        }
    }

    /// Selecting a network again ends the time for which wpa_supplicant ignores a network that has failed.
    private func select(_ network: ObjectPath, _ path: ObjectPath, _ attempt: JoinAttempt) {
        let progress = SupplicantAttempt()
        let judge = { [weak attempt] (values: [String: DBusValue]) in
            if let attempt, attempt.isPending, let verdict = progress.verdict(on: values, network: network) { attempt.end(verdict) }
        }
        attempt.follow([
            link.onProperties(of: path, Self.interface, SupplicantAttempt.properties) { [weak self, weak attempt] _, values in
                judge(values)
                guard progress.isToBeAsked, attempt?.isPending == true else { return }
                self?.link.properties(.supplicantInterface, at: path) { result in
                    guard case .success(let values) = result else { return }
                    judge(values.filter { ["CurrentNetwork", "State"].contains($0.key) })
                }
            }
        ])
        link.call(.supplicantSelect, at: path, [.objectPath(network)]) { [weak attempt] result in
            guard case .failure(let error) = result else { return progress.isSelected = true }
            attempt?.failed(RadioFailure(.refused, "wpa_supplicant does not select the network: \(error)"))
        }
    }

    // MARK: Restoring

    func restore(_ record: JoinRecord, completion: @escaping (Bool) -> Void) {
        stopFollowing()
        // Another wpa_supplicant has read its configuration anew, and has no network of ours.
        guard let owner, record.owner == owner, let path = interfaces[record.interface]?.path else { return completion(true) }
        if let network = ObjectPath(record.joined) { return remove([network], record, path, completion) }
        // It was about to be added: every later one of this name.
        link.properties(.supplicantInterface, at: path) { [weak self] result in
            guard let self, let values = result.value(orElse: { _ in completion(false) }) else { return }
            self.remove(Self.networks(values).filter { !record.preexisting.contains($0.rawValue) }, record, path, completion)
        }
    }

    /// Removes the networks among these that are ours, then enables the others. The path of one that an earlier attempt
    /// removed can have been given to another network since.
    private func remove(
        _ networks: [ObjectPath], _ record: JoinRecord, _ path: ObjectPath, _ completion: @escaping (Bool) -> Void
    ) {
        link.properties(.supplicantNetwork, at: networks) { [weak self] result in
            guard let self, let found = result.value(orElse: { _ in completion(false) }) else { return }
            let ours = found.filter { SupplicantNetwork.isNamed($0.values, hex: record.network) }.map(\.path)
            let unknown = Self.busName + ".NetworkUnknown"
            self.perform(.supplicantRemove, ours[...], at: { _ in path }, { [.objectPath($0)] }, ignoring: unknown) {
                [weak self] in
                guard let self, $0 else { return completion(false) }
                // The first that is enabled while the interface is disconnected causes a scan.
                let others = record.enabled.compactMap { ObjectPath($0) }
                self.perform(
                    .supplicantEnable, others[...], at: { $0 }, { _ in [.variant(.boolean(true))] }, completion: completion)
            }
        }
    }

    // MARK: Below NetworkManager

    /// - Parameter answer: gets true where an interface is known to be idle.
    func isAtRest(on interface: String, _ answer: @escaping (Bool) -> Void) {
        guard let path = interfaces[interface]?.path else { return answer(false) }
        link.properties(.supplicantInterface, at: path) { result in
            let state = (try? result.get())?["State"]?.stringValue
            answer(state == "disconnected" || state == "inactive")
        }
    }
}

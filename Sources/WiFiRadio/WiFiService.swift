// SPDX-License-Identifier: Apache-2.0
// A Wi-Fi service as the radio uses it. One folder beside this file has the adapter for each of the three; everything
// that does not depend on the service is in the base class and in the protocol's extension.

internal import AccessoryEngine
internal import AccessoryModel
internal import CallsOut
internal import DBusKit
internal import Logging

/// The requirements of an adapter: each service does these in its own way.
protocol WiFiService: ServiceAdapter {
    /// The service has appeared on the bus: subscribes to its signals and reads its interfaces. Ends with `settle`.
    func follow()
    /// Reads the interfaces again, after a failure.
    func readInterfaces()
    /// `isSuperseded` has changed.
    func supersededChanged()
    /// Requests a scan; `awaited` ends with the scan.
    func requestScan(_ path: ObjectPath, probing names: [SSID], _ awaited: Awaited<Result<Void, ScanFailure>>)
    /// Reads the access points heard since a time of the monotonic clock, in microseconds.
    func readNetworks(
        _ path: ObjectPath, since begun: Int64, completion: @escaping (Result<[WiFiNetwork], ScanFailure>) -> Void)
    /// Reads the network that an interface is connected to. Completed once, with nil where the service does not say.
    func readCurrent(_ path: ObjectPath, completion: @escaping (WiFiNetwork?) -> Void)
    /// Checks whether joining is safe on an interface. Completed once, with the reason if it is not.
    func checkJoining(_ path: ObjectPath, completion: @escaping (RadioFailure?) -> Void)
    /// Joins a network. Every change must be recorded before it is made; after a failure the caller restores the last
    /// record.
    func begin(_ request: JoinRequest)
    /// Undoes the changes in a record: removes the accessory's network and reconnects the previous one.
    ///
    /// - Parameter completion: called once; false where the service did not do it, and must be asked again.
    func restore(_ record: JoinRecord, completion: @escaping (Bool) -> Void)
    /// The service is not running. Has the service below it forget the accessory's network, where there is one.
    func forgetUnderlying(_ record: JoinRecord)
    /// Whether a joined network is followed.
    var isJoined: Bool { get }
    /// Stops following the joined network.
    func dropJoined()
}

/// Receives the changes of all services.
protocol WiFiServiceObserver: AnyObject {
    /// The owner, the interfaces or their states have changed.
    func serviceChanged()
    /// The joined network is gone, and the service does not reconnect to it.
    func networkLost(by service: any WiFiService, reason: String)
}

/// An interface that a service manages.
struct ServedInterface: Equatable {
    let path: ObjectPath
    var state: RadioState
}

/// The state that every adapter has.
class ServiceAdapter {
    /// For people.
    let name: String
    let link: ServiceLink
    let log: Logger
    weak var observer: (any WiFiServiceObserver)?
    /// Whether the presence of the service, and its interfaces, have been determined.
    fileprivate(set) var isSettled = false
    /// By name; only those that the service manages itself.
    var interfaces: [String: ServedInterface] = [:]
    /// All interfaces of this service are managed by a service that ranks higher. Signals that arrive with each scan
    /// of that service must then not wake the daemon.
    fileprivate(set) var isSuperseded = false
    fileprivate(set) var joining: Joining?
    private var scanning: Awaited<Result<Void, ScanFailure>>?
    private var grace: LoopSource?
    fileprivate let rereading: Retry

    init(name: String, busName: String, on connection: Connection, log: Logger) {
        self.name = name
        link = ServiceLink(connection, busName)
        rereading = Retry(1...16, connection.loop.once)
        self.log = log
    }

    var busName: String { link.busName }
    /// The service's connection to the bus; nil while the service is not running.
    var owner: String? { link.owner }
    var loop: MainLoop { link.connection.loop }

    func settle() {
        isSettled = true
        observer?.serviceChanged()
    }

    func readingDone() { rereading.finish() }

    /// Fails everything that is pending; the service or its interface is gone.
    fileprivate func failPending(_ reason: String) {
        scanning?.end(.failure(.failed(reason)))
        joining?.end(.failure(RadioFailure(.unavailable, reason)))
    }

    fileprivate func beginScan(_ awaited: Awaited<Result<Void, ScanFailure>>?) { scanning = awaited }

    fileprivate func endGrace() {
        grace?.cancel()
        grace = nil
    }

    fileprivate func beginGrace(_ body: @escaping () -> Void) {
        if grace == nil { grace = loop.after(WiFiTimes.grace, body) }
    }

    /// Makes a call for each object, one after another. An object that is gone counts as done.
    ///
    /// - Parameters:
    ///   - ignoring: another error that counts as done.
    ///   - completion: gets false after the first failure.
    func perform(
        _ call: CallOut, _ objects: ArraySlice<ObjectPath>, at path: @escaping (ObjectPath) -> ObjectPath = { $0 },
        _ arguments: @escaping (ObjectPath) -> [DBusValue] = { _ in [] }, ignoring: String = "",
        completion: @escaping (Bool) -> Void
    ) {
        guard let first = objects.first else { return completion(true) }
        link.call(call, at: path(first), arguments(first)) { [weak self] result in
            let isDone = result.error.map { $0.meansGone || $0.name == ignoring } ?? true
            guard let self, isDone else { return completion(false) }
            self.perform(call, objects.dropFirst(), at: path, arguments, ignoring: ignoring, completion: completion)
        }
    }

    /// How many seconds ago an access point may have been heard to count as heard since then.
    func age(since begun: Int64) -> Int { Int((loop.now - begun) / 1_000_000) + WiFiTimes.slack }
}

extension WiFiService {
    func start() {
        link.start { [weak self] in
            guard let self else { return }
            self.readingDone()
            self.gone("\(self.name) is gone")
            self.interfaces = [:]
            if self.owner == nil { self.settle() } else { self.follow() }
        }
    }

    func setSuperseded(_ isSuperseded: Bool) {
        guard isSuperseded != self.isSuperseded else { return }
        self.isSuperseded = isSuperseded
        if owner != nil { supersededChanged() }
    }

    /// Schedules another reading of the interfaces. Until then the previous ones count.
    func readingFailed(_ error: BusError) {
        log.warning("\(name) does not list its interfaces", metadata: ["error": "\(error)"])
        rereading.schedule { [weak self] in
            if let self, self.owner != nil { self.readInterfaces() }
        }
        settle()
    }

    /// The service or its interface is gone.
    func gone(_ reason: String) {
        failPending(reason)
        if isJoined { lost(reason) }
    }

    func lost(_ reason: String) {
        stopFollowing()
        observer?.networkLost(by: self, reason: reason)
    }

    func stopFollowing() {
        endGrace()
        dropJoined()
    }

    /// The joined network has become unreachable, or reachable again. Services search for it themselves for a while.
    func setAway(_ isAway: Bool) {
        guard isAway else { return endGrace() }
        beginGrace { [weak self] in self?.lost("the network was out of range for too long") }
    }

    func checkJoining(_ path: ObjectPath, completion: @escaping (RadioFailure?) -> Void) { completion(nil) }

    func forgetUnderlying(_ record: JoinRecord) {}

    /// Scans once. Completed once, with the networks in range.
    ///
    /// - Parameter names: networks that may be hidden, and must be probed by name.
    func scan(
        _ interface: String, probing names: [SSID], completion: @escaping (Result<[WiFiNetwork], ScanFailure>) -> Void
    ) {
        guard let path = interfaces[interface]?.path else { return completion(.failure(.failed("\(interface) is gone"))) }
        let begun = loop.now
        let awaited = Awaited<Result<Void, ScanFailure>>(
            loop, timeout: WiFiTimes.scan, late: .failure(.failed("the scan did not end"))
        ) { [weak self] result in
            guard let self else { return }
            self.beginScan(nil)
            if case .failure(let failure) = result { return completion(.failure(failure)) }
            self.readNetworks(path, since: begun, completion: completion)
        }
        beginScan(awaited)
        requestScan(path, probing: names, awaited)
    }

    /// Joins a network, if that is safe.
    ///
    /// - Parameters:
    ///   - begun: the time of the app's request, in microseconds of the monotonic clock; the time-out counts from it.
    ///   - record: writes the changes to undo to disk, and returns the failure if it cannot.
    ///   - completion: called once.
    func join(
        _ join: NetworkJoin, on interface: String, begun: Int64, record: @escaping (JoinRecord) -> RadioFailure?,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        guard let path = interfaces[interface]?.path, let owner else { return completion(.failure(.serviceGone)) }
        let request = JoinRequest(
            join: join, interface: interface, path: path, begun: begun,
            empty: JoinRecord(service: busName, owner: owner, interface: interface, network: Hex.text(join.ssid.bytes)),
            record: record, completion: completion)
        checkJoining(path) { [weak self] obstacle in
            if let obstacle { request.fail(obstacle) } else { self?.begin(request) }
        }
    }

    /// Makes attempts to join until one succeeds, the app's time is over, or another cannot help.
    ///
    /// - Parameters:
    ///   - attempt: begins an attempt; it must end its argument.
    ///   - ended: called before the request is completed.
    func attempt(
        _ request: JoinRequest, ended: @escaping (Result<Void, RadioFailure>) -> Void = { _ in },
        _ attempt: @escaping (JoinAttempt) -> Void
    ) {
        let joining = Joining(request, loop, log, attempt: attempt) { [weak self] result in
            self?.joining = nil
            ended(result)
            request.completion(result)
        }
        self.joining = joining
        joining.start()
    }
}

/// A request to join a network on one of the service's interfaces.
struct JoinRequest {
    let join: NetworkJoin
    let interface: String
    /// The interface's object.
    let path: ObjectPath
    /// In microseconds of the monotonic clock.
    let begun: Int64
    /// The record of this join without anything to undo.
    let empty: JoinRecord
    /// Writes a record to disk; returns why it could not be written.
    let record: (JoinRecord) -> RadioFailure?
    let completion: (Result<Void, RadioFailure>) -> Void

    func fail(_ failure: RadioFailure) { completion(.failure(failure)) }
}

extension JoinRecord {
    /// The joined network.
    var ssid: SSID? { Hex.bytes(network).flatMap { SSID($0) } }
}

/// Why a scan has no result.
enum ScanFailure: Error {
    /// Another scan is running, or the service limits the rate: the next request must wait.
    case busy
    case failed(String)

    /// - Parameter error: nil where the service is gone.
    static func unread(_ error: BusError?) -> ScanFailure {
        .failed("the results of the scan cannot be read: \(error?.description ?? "the service is gone")")
    }
}

enum WiFiTimes {
    /// A call that is answered at once.
    static let call = Duration.seconds(10)
    /// A scan: real ones take 1 to 10 s.
    static let scan = Duration.seconds(20)
    /// A join, with the scan before it. D-Bus libraries give a call up after 25 s; the machine must be back on its own
    /// network by then. With a service that does not answer meanwhile, the app has its answer within 30 s.
    static let join = Duration.seconds(18)
    /// The part that the scan may take.
    static let look = Duration.seconds(6)
    /// Added where the machine is on the network, and only the address is missing.
    static let address = Duration.seconds(3)
    /// Must be left for a second attempt: a scan, and a handshake.
    static let secondJoin = Duration.seconds(8)
    /// How long a second attempt may wait for the machine to be back on its own network.
    static let beforeSecondJoin = Duration.seconds(4)
    /// An attempt without a connection after this time is ended. iwd needs 5 s to detect a wrong passphrase, and can
    /// wait for ever: it resumes a PMKSA that the kernel has dropped, scans, and misses the end of that scan (2.3 with
    /// WPA3, on a busy machine). wpa_supplicant can be idle while NetworkManager waits for it: it mistakes the
    /// connection's scan for one that only lists networks (2.11, after another one was aborted).
    static let connecting = Duration.seconds(7)
    /// How long a joined network may be out of range: an accessory restarts when it gets its settings.
    static let grace = Duration.seconds(10)
    /// Seconds before the begin of a scan at which a network still counts as heard by it.
    static let slack = 1
}

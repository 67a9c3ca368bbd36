// SPDX-License-Identifier: Apache-2.0
// What the radio asks of a Wi-Fi service, whichever it is; one folder beside this file adapts each of them. And what
// all adapters do alike: following the service's name, reading properties, waiting for one thing at a time.

internal import AccessoryEngine
internal import AccessoryModel
internal import CallsOut
internal import DBusKit
internal import Logging

/// A Wi-Fi service on the bus, in its own way: an adapter has all of these, or it does not compile. What all do alike
/// is in the extension.
protocol WiFiService: AnyObject {
    /// What all of them have.
    var common: ServiceCommon { get }
    /// Whether a network is joined and followed.
    var isJoined: Bool { get }

    /// The service is there, or another one is: its signals are subscribed to, and its interfaces read; `settle` ends
    /// this.
    func follow()

    /// See `isShadowed`.
    func shadowChanged()

    /// Asks for a scan; `awaited` ends with it.
    func requestScan(_ path: ObjectPath, asking names: [SSID], _ awaited: Awaited<Result<Void, ScanFailure>>)

    /// Reads the access points that were seen `since` then, in microseconds of the monotonic clock.
    func read(
        _ path: ObjectPath, since begun: Int64, completion: @escaping (Result<[WiFiNetwork], ScanFailure>) -> Void)

    /// Reads the network that an interface is on. Completed once, with nil where the service does not say.
    func readCurrent(_ path: ObjectPath, completion: @escaping (WiFiNetwork?) -> Void)

    /// Joins a network. Completed once; after a failure what was changed is to be restored from the last record.
    ///
    /// - Parameters:
    ///   - begun: when the app asked, in microseconds of the monotonic clock: its time-out runs since then.
    ///   - note: records the changes to undo, before they are made.
    func join(
        _ join: NetworkJoin, on interface: String, begun: Int64, note: @escaping (JoinRecord) throws -> Void,
        completion: @escaping (Result<Void, RadioFailure>) -> Void)

    /// Takes back what a record says: the joined network goes, and what was there before comes back. Completed once
    /// what is to be asked was asked, with whether it was done: if not, it is to be tried again.
    func restore(_ record: JoinRecord, completion: @escaping (Bool) -> Void)

    /// The service is gone, and when it comes back is not known. What works below it, and has what a record says of it,
    /// takes that back at once.
    func restoreBelow(_ record: JoinRecord)

    /// Reads the interfaces anew.
    func readAgain()

    /// The joined network is followed no longer.
    func dropJoined()
}

/// What every Wi-Fi service has: its name and link, its interfaces, and what is awaited of it.
final class ServiceCommon {
    /// For people.
    let name: String
    let link: ServiceLink
    let log: Logger
    fileprivate(set) var isSettled = false
    fileprivate var interfaces: [String: RadioState] = [:]
    fileprivate var paths: [String: ObjectPath] = [:]
    fileprivate var onChange: (() -> Void)?
    fileprivate var onPaths: (() -> Void)?
    fileprivate var onLost: ((String) -> Void)?
    fileprivate var isShadowed = false
    fileprivate var joining: Joining?
    fileprivate var scanning: Awaited<Result<Void, ScanFailure>>?
    fileprivate var grace: LoopSource?
    fileprivate let anotherReading: Retry

    init(name: String, busName: String, on connection: Connection, log: Logger) {
        self.name = name
        link = ServiceLink(connection, busName)
        anotherReading = Retry(1...16, connection.loop.once)
        self.log = log
    }
}

extension WiFiService {
    var name: String { common.name }
    var link: ServiceLink { common.link }
    var log: Logger { common.log }
    var busName: String { link.busName }
    /// The service's connection to the bus; nil when it is not there.
    var owner: String? { link.owner }
    var loop: MainLoop { link.connection.loop }
    /// Whether it is known to be there or not, with its interfaces.
    var isSettled: Bool { common.isSettled }

    /// The interfaces that it manages, by name; not those that it leaves to others.
    var interfaces: [String: RadioState] {
        get { common.interfaces }
        set { common.interfaces = newValue }
    }

    /// Their objects.
    var paths: [String: ObjectPath] {
        get { common.paths }
        set {
            let old = common.paths
            common.paths = newValue
            if newValue != old { common.onPaths?() }
        }
    }

    /// Something of the above has changed.
    var onChange: (() -> Void)? {
        get { common.onChange }
        set { common.onChange = newValue }
    }

    var onPaths: (() -> Void)? {
        get { common.onPaths }
        set { common.onPaths = newValue }
    }

    /// The network that was joined is gone, and the service does not come back to it by itself.
    var onLost: ((String) -> Void)? {
        get { common.onLost }
        set { common.onLost = newValue }
    }

    /// All of its interfaces are managed by a service above it. Then nothing is listened to that comes with every scan
    /// of that one: an idle daemon sleeps.
    var isShadowed: Bool {
        get { common.isShadowed }
        set {
            guard newValue != common.isShadowed else { return }
            common.isShadowed = newValue
            if owner != nil { shadowChanged() }
        }
    }

    /// The joining that is awaited.
    var joining: Joining? {
        get { common.joining }
        set { common.joining = newValue }
    }

    func stopFollowing() {
        common.grace?.cancel()
        common.grace = nil
        dropJoined()
    }

    func start() {
        link.start { [weak self] in
            guard let self else { return }
            self.readingDone()
            self.gone("\(self.name) is gone")
            self.paths = [:]
            self.interfaces = [:]
            if self.owner == nil { self.settle() } else { self.follow() }
        }
    }

    func settle() {
        common.isSettled = true
        onChange?()
    }

    /// The interfaces could not be read: again, after longer and longer pauses, while the service is there. Meanwhile
    /// what was known counts.
    func readingFailed(_ error: BusError) {
        log.warning("\(name) does not say which interfaces it has", metadata: ["error": "\(error)"])
        common.anotherReading.later { [weak self] in
            if let self, self.owner != nil { self.readAgain() }
        }
        settle()
    }

    func readingDone() { common.anotherReading.end() }

    /// The service or its interface is gone: nothing that is awaited will come.
    func gone(_ reason: String) {
        common.scanning?.end(.failure(.failed(reason)))
        joining?.end(.failure(RadioFailure(.unavailable, reason)))
        if isJoined { lost(reason) }
    }

    func lost(_ reason: String) {
        stopFollowing()
        onLost?(reason)
    }

    /// The joined network is away, or back. Services look for it by themselves for a while.
    func noteAway(_ isAway: Bool) {
        if !isAway {
            common.grace?.cancel()
            common.grace = nil
        } else if common.grace == nil {
            common.grace = loop.after(WiFiTimes.grace) { [weak self] in self?.lost("the network was not there any more") }
        }
    }

    /// Scans once. Completed once, with what is in range now; the service's going is a failure.
    ///
    /// - Parameter names: networks that may be hidden, to be asked for by name.
    func scan(
        _ interface: String, asking names: [SSID], completion: @escaping (Result<[WiFiNetwork], ScanFailure>) -> Void
    ) {
        guard let path = paths[interface] else { return completion(.failure(.failed("\(interface) is gone"))) }
        let begun = loop.now
        let awaited = Awaited<Result<Void, ScanFailure>>(
            loop, timeout: WiFiTimes.scan, late: .failure(.failed("the scan did not end"))
        ) { [weak self] result in
            guard let self else { return }
            self.common.scanning = nil
            if case .failure(let failure) = result { return completion(.failure(failure)) }
            self.read(path, since: begun, completion: completion)
        }
        common.scanning = awaited
        requestScan(path, asking: names, awaited)
    }

    /// How many seconds ago something may have been seen to count as seen since then.
    func age(since begun: Int64) -> Int { Int((loop.now - begun) / 1_000_000) + WiFiTimes.slack }

    /// Waits for a network to be joined.
    func awaitJoin(_ join: NetworkJoin, begun: Int64, _ completion: @escaping (Result<Void, RadioFailure>) -> Void) -> Joining {
        // A wrong passphrase of WPA3 may look like that: services go on trying.
        let late = join.passphrase == nil ? RadioFailure.joinTimeout : .joinTimeoutOrPassphrase
        let joining = Joining(loop, begun: begun, late: late, isHidden: join.isHidden, log: log) { [weak self] result in
            self?.joining = nil
            completion(result)
        }
        self.joining = joining
        return joining
    }
}

extension JoinRecord {
    /// The joined network.
    var ssid: SSID? { Hex.bytes(network).flatMap { SSID($0) } }
}

/// Why a scan brought nothing.
enum ScanFailure: Error {
    /// Another scan runs, or the service wants a pause: the next attempt comes after one.
    case busy
    case failed(String)

    /// What a scan has found could not be read; without an error, because the service is gone.
    static func unread(_ error: BusError?) -> ScanFailure {
        .failed("what the scan has found cannot be read: \(error?.description ?? "the service is gone")")
    }
}

enum WiFiTimes {
    /// A call that is answered at once.
    static let call = Duration.seconds(10)
    /// A scan: real ones take 1 to 10 s.
    static let scan = Duration.seconds(20)
    /// Joining: so much less than the 25 s after which D-Bus libraries give a call up that the machine is back on its
    /// own network by then; and with a service that answers nothing meanwhile, the app is told within 30 s.
    static let join = Duration.seconds(18)
    /// How much of that may pass with a scan before.
    static let look = Duration.seconds(6)
    /// How much more, where the machine is on the network by then, and only its address is missing.
    static let address = Duration.seconds(3)
    /// What has to be left of that for a second attempt: a scan, and a handshake.
    static let secondJoin = Duration.seconds(8)
    /// How much of that may pass before it begins.
    static let beforeSecondJoin = Duration.seconds(4)
    /// How long it may take to connect to a network that was heard. iwd needs 5 s to find that a passphrase is wrong,
    /// and may wait for ever: it asks the kernel for one that the kernel has forgotten, scans, and misses the end of
    /// that (2.3 with WPA3, on a busy machine). wpa_supplicant may rest while NetworkManager waits for it: it takes a
    /// scan that belongs to the connection for one that only lists networks (2.11, where another was dropped before).
    static let connecting = Duration.seconds(7)
    /// How long a joined network may be away before it is given up: an accessory that was told its settings starts
    /// again.
    static let grace = Duration.seconds(10)
    /// Seen this long before a scan began, a network still counts as seen by it.
    static let slack = 1
}

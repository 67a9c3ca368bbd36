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

    /// Reads what was seen `since` then, in microseconds of the monotonic clock.
    func read(
        _ path: ObjectPath, since begun: Int64, completion: @escaping (Result<[WiFiNetwork], ScanFailure>) -> Void)

    /// Joins a network. Completed once; after a failure what was changed is to be restored from the last record.
    ///
    /// - Parameter note: writes down what is to be undone, before it is done.
    func join(
        _ join: NetworkJoin, on interface: String, note: @escaping (JoinRecord) throws -> Void,
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
    func awaitJoin(_ join: NetworkJoin, _ completion: @escaping (Result<Void, RadioFailure>) -> Void) -> Joining {
        // A wrong passphrase of WPA3 may look like that: services go on trying.
        let late = join.passphrase == nil ? RadioFailure.joinTimeout : .joinTimeoutOrPassphrase
        let joining = Joining(loop, late: late, isHidden: join.isHidden, log: log) { [weak self] result in
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

/// A service's name on the bus and its owner's objects.
final class ServiceLink {
    let connection: Connection
    let busName: String
    private(set) var owner: String?
    private(set) var isKnown = false
    /// Signals of the present owner; gone with it.
    var subscriptions: [Subscription] = []
    private var watch: Subscription?

    init(_ connection: Connection, _ busName: String) {
        self.connection = connection
        self.busName = busName
    }

    /// - Parameter changed: called with the first answer and with every change of the owner.
    func start(changed: @escaping () -> Void) {
        watch = connection.watchName(busName) { [weak self] owner in
            guard let self, !self.isKnown || owner != self.owner else { return }
            self.isKnown = true
            for subscription in self.subscriptions { subscription.cancel() }
            self.subscriptions = []
            self.owner = owner
            changed()
        }
    }

    func call(
        _ call: CallOut, at path: ObjectPath, _ arguments: [DBusValue] = [],
        completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) {
        guard let owner else {
            connection.loop.soon { completion(.failure(.disconnected("the service is gone"))) }
            return
        }
        connection.call(call, of: owner, at: path, arguments, completion: completion)
    }

    /// All properties of an interface of an object; none of an object that has gone.
    func properties(
        _ call: CallOut, at path: ObjectPath, completion: @escaping (Result<[String: DBusValue], BusError>) -> Void
    ) {
        self.call(call, at: path) { result in
            switch result {
            case .success(let values): completion(.success(values.first?.vardictValue ?? [:]))
            case .failure(let error): completion(error.saysGone ? .success([:]) : .failure(error))
            }
        }
    }

    /// What `read` makes of the properties of each object, in the objects' order; called once all have answered. The
    /// cursor stands on the properties. An object that has gone, or of which `read` makes nothing, is left out.
    func read<Value>(
        _ call: CallOut, at paths: [ObjectPath], _ read: @escaping (inout ValueCursor) -> Value?,
        completion: @escaping ([Value]) -> Void
    ) {
        guard let owner, !paths.isEmpty else { return completion([]) }
        var found = [Value?](repeating: nil, count: paths.count)
        connection.askEach(call, of: owner, at: paths) { index, answer in
            answer.withArguments { properties in
                properties.enterVariants()
                found[index] = read(&properties)
            }
        } completion: {
            completion(found.compactMap(\.self))
        }
    }

    /// Makes a call and hands over the answer unread: the cursor stands on its first argument. `read` is called for an
    /// answer, `completion` always, with the error if there was one.
    func ask(
        _ call: CallOut, at path: ObjectPath, read: @escaping (inout ValueCursor) -> Void,
        completion: @escaping (BusError?) -> Void
    ) {
        guard let owner else {
            connection.loop.soon { completion(.disconnected("the service is gone")) }
            return
        }
        connection.ask(call, of: owner, at: path) { result in
            switch result {
            case .success(let answer):
                answer.withArguments { argument in
                    argument.enterVariants()
                    read(&argument)
                }
                completion(nil)
            case .failure(let error): completion(error)
            }
        }
    }

    /// The properties of several objects, in their order, none of those that have gone; called once all have answered.
    func properties(
        _ call: CallOut, at paths: [ObjectPath],
        completion: @escaping (Result<[(path: ObjectPath, values: [String: DBusValue])], BusError>) -> Void
    ) {
        guard !paths.isEmpty else { return completion(.success([])) }
        var found = [[String: DBusValue]](repeating: [:], count: paths.count)
        var missing = paths.count
        var failure: BusError?
        for (index, path) in paths.enumerated() {
            properties(call, at: path) { result in
                switch result {
                case .success(let values): found[index] = values
                case .failure(let error): failure = error
                }
                missing -= 1
                guard missing == 0 else { return }
                completion(failure.map { .failure($0) } ?? .success(Array(zip(paths, found)).map { (path: $0, values: $1) }))
            }
        }
    }

    /// Changed properties of an object, or of all objects. What a scan changes comes by the hundred, so only what is
    /// asked for is read.
    ///
    /// - Parameters:
    ///   - names: the properties that matter.
    ///   - handler: gets those of them that have changed, which may be none.
    func onProperties(
        of path: ObjectPath? = nil, _ interface: String, _ names: [StaticString],
        _ handler: @escaping (ObjectPath, [String: DBusValue]) -> Void
    ) -> Subscription? {
        guard let owner else { return nil }
        return connection.subscribe(
            sender: owner, path: path, interface: Bus.properties, member: "PropertiesChanged", argument0: interface
        ) { message in
            if let values = message.changedProperties(among: names), let path = message.path { handler(path, values) }
        }
    }

    /// Signals, unread.
    func onMessage(
        _ interface: String, _ member: String, of path: ObjectPath? = nil, _ handler: @escaping (Message) -> Void
    ) -> Subscription? {
        owner.map { connection.subscribe(sender: $0, path: path, interface: interface, member: member, handler: handler) }
    }

    func onSignal(
        _ interface: String, _ member: String, of path: ObjectPath? = nil, _ handler: @escaping (ObjectPath, [DBusValue]) -> Void
    ) -> Subscription? {
        onMessage(interface, member, of: path) { message in
            guard let path = message.path, let arguments = try? message.arguments(limits: .generous) else { return }
            handler(path, arguments)
        }
    }
}

extension Result where Failure == BusError {
    /// What it failed of.
    var error: BusError? { if case .failure(let error) = self { error } else { nil } }

    /// The value; without one the error is told.
    func value(orElse tell: (BusError) -> Void) -> Success? {
        switch self {
        case .success(let value): return value
        case .failure(let error):
            tell(error)
            return nil
        }
    }
}

extension BusError {
    /// Whether an object is not there any more: services say it in different ways.
    var saysGone: Bool { ["UnknownObject", "UnknownMethod", "UnknownInterface"].contains { isStandard($0) } }

    /// What a call has failed of, for who waits for what it is part of. Its message may quote what was asked.
    func failure(of service: String) -> RadioFailure {
        isStandard("NoReply")
            ? RadioFailure(.timeout, "\(service) did not answer in time") : RadioFailure(.other, "\(service) refused (\(name))")
    }
}

extension Message {
    /// What a `PropertiesChanged` says of the properties that are named; nil when it is none by its types. One that is
    /// told without a value is gone: its value is an empty text.
    func changedProperties(among names: [StaticString]) -> [String: DBusValue]? {
        var values: [String: DBusValue] = [:]
        var isComplete = false
        withArguments { argument in
            argument.next()
            let isDictionary = argument.forEachEntry(among: names) { name, value in
                values["\(names[name])"] = value.value(limits: .generous)
            }
            guard isDictionary, argument.next() else { return }
            argument.forEachElement { element in
                if let name = element.word(among: names) { values["\(names[name])"] = .string("") }
            }
            isComplete = !argument.next()
        }
        return isComplete ? values : nil
    }
}

/// Something that is awaited and ends once: with a result, by time-out, or because the service goes. While it lasts it
/// keeps the subscriptions that it needs.
class Awaited<Value> {
    fileprivate let loop: MainLoop
    private let tooLate: Value
    private var subscriptions: [Subscription?] = []
    private var timer: LoopSource?
    private var completion: ((Value) -> Void)?

    init(_ loop: MainLoop, timeout: Duration, late: Value, completion: @escaping (Value) -> Void) {
        self.loop = loop
        tooLate = late
        self.completion = completion
        wait(timeout)
    }

    fileprivate final func wait(_ time: Duration) {
        timer = loop.after(time) { [weak self] in self?.expire() }
    }

    /// It has taken too long.
    func expire() { end(tooLate) }

    var isPending: Bool { completion != nil }

    /// Keeps these, and those from before no longer.
    func follow(_ new: [Subscription?]) {
        for subscription in subscriptions { subscription?.cancel() }
        subscriptions = new
    }

    func end(_ value: Value) {
        guard let completion else { return }
        self.completion = nil
        timer?.cancel()
        follow([])
        completion(value)
    }
}

/// The joining of a network, in one attempt or more.
final class Joining: Awaited<Result<Void, RadioFailure>> {
    private let log: Logger
    private let late: RadioFailure
    /// It may have to be looked for first.
    private let isHidden: Bool
    private let secondUntil: Int64
    private var isSecond = false
    private var timesAside = 0
    private var limit: LoopSource?
    /// The machine is on the network, and waits for its address.
    private var isConnected = false
    private var isExtended = false
    /// Which attempt this is: what comes of an earlier one counts no longer.
    private(set) var attempt = 1
    /// Why an attempt failed that was on the air.
    private var heard: RadioFailure?
    private static let mostAside = 2

    init(
        _ loop: MainLoop, late: RadioFailure, isHidden: Bool, log: Logger,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        self.log = log
        self.late = late
        self.isHidden = isHidden
        secondUntil = loop.now + Int64((WiFiTimes.join - WiFiTimes.secondJoin) / .microseconds(1))
        super.init(loop, timeout: WiFiTimes.join, late: .failure(late), completion: completion)
    }

    /// An attempt has failed: it is begun `again`, if there is time, once where frames that were lost look like that,
    /// too. One before which the service has put another connection counts for none, and says nothing of the network.
    /// The time-out stays where it was.
    func failed(_ failure: RadioFailure, again: (Joining) -> Void) {
        guard isPending else { return }
        endLimit()
        let isAside = failure == .putAside
        let isAllowed = isAside ? timesAside < Self.mostAside : (failure.mayBeLostFrames || failure == late) && !isSecond
        if !isAside { heard = failure }
        guard isAllowed, loop.now <= secondUntil else { return end(.failure(heard ?? failure)) }
        if isAside { timesAside += 1 } else { isSecond = true }
        attempt += 1
        isConnected = false
        log.info("a network was not joined, and is tried once more", metadata: ["reason": "\(failure)"])
        again(self)
    }

    /// An attempt has begun that may come to no end by itself, and there is time for another. After a while, where
    /// `isStuck` answers that it is, it is to be ended by `stop`, which calls what it is given once that is done; then
    /// it is begun `again`.
    func limit(
        again: @escaping (Joining) -> Void, isStuck: @escaping (_ answer: @escaping (Bool) -> Void) -> Void,
        stop: @escaping (_ done: @escaping () -> Void) -> Void
    ) {
        guard isPending, !isSecond, !isHidden else { return }
        endLimit()
        let number = attempt
        limit = loop.after(WiFiTimes.connecting) { [weak self] in
            isStuck { [weak self] isStuck in
                guard let self, self.isPending, self.attempt == number, !self.isConnected, isStuck else { return }
                self.attempt += 1
                stop { self.failed(self.late, again: again) }
            }
        }
    }

    /// The attempt has brought the machine onto the network, and only the address is missing: that may take longer.
    func connected() {
        isConnected = true
        endLimit()
    }

    override func expire() {
        guard isConnected, !isExtended else { return super.expire() }
        isExtended = true
        wait(WiFiTimes.address)
    }

    private func endLimit() {
        limit?.cancel()
        limit = nil
    }

    override func end(_ value: Result<Void, RadioFailure>) {
        endLimit()
        super.end(value)
    }
}

extension RadioFailure {
    static let serviceGone = RadioFailure(.unavailable, "the Wi-Fi service is gone")
    static let wrongPassphrase = RadioFailure(.refused, "the passphrase is wrong")
    static let refusedOrPassphrase = RadioFailure(.refused, "the network refused, or the passphrase is wrong")
    static let noAnswerOrPassphrase = RadioFailure(
        .timeout, "the network did not answer in time, or the passphrase is wrong")
    /// iwd has one word for all of these.
    static let refusedOrNoAnswerOrPassphrase = RadioFailure(
        .refused, "the network refused or does not answer, or the passphrase is wrong")
    static let refusedOrNoAnswer = RadioFailure(.connection, "the network refused, or does not answer")
    static let putAside = RadioFailure(.connection, "the Wi-Fi service puts another connection before it")
    static let passphraseWanted = RadioFailure(.refused, "the network wants a passphrase")
    static let joinTimeoutOrPassphrase = RadioFailure(
        .timeout, "the network was not joined in time: out of range, or the passphrase is wrong, or it does not answer")
    static let joinTimeout = RadioFailure(.timeout, "the network was not joined in time: out of range, or it does not answer")

    /// Whether frames that were lost look like that, too. An access point that is slow to answer hears the question
    /// twice and begins its handshake anew, while this side is done with it: both wait in vain until the access point
    /// gives up, as it does for a wrong passphrase. (Seen with hostapd 2.10 on a busy machine: “received EAPOL-Key msg
    /// 4/4 in invalid state”.)
    var mayBeLostFrames: Bool {
        [.wrongPassphrase, .refusedOrPassphrase, .noAnswerOrPassphrase, .refusedOrNoAnswerOrPassphrase, .refusedOrNoAnswer]
            .contains(self)
    }
}

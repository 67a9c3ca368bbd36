// SPDX-License-Identifier: Apache-2.0
// What the radio asks of a Wi-Fi service, whichever it is; one folder beside this file adapts each of them. And what
// all adapters do alike: following the service's name, reading properties, waiting for one thing at a time.

internal import AccessoryEngine
internal import AccessoryModel
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
    func read(_ path: ObjectPath, since begun: Int64, completion: @escaping ([WiFiNetwork]) -> Void)

    /// Joins a network. Completed once; after a failure what was changed is to be restored from the last record.
    ///
    /// - Parameter note: writes down what is to be undone, before it is done.
    func join(
        _ join: NetworkJoin, on interface: String, note: @escaping (JoinRecord) throws -> Void,
        completion: @escaping (Result<Void, RadioFailure>) -> Void)

    /// Takes back what a record says: the joined network goes, and what was there before comes back. Completed once
    /// what is to be asked was asked.
    func restore(_ record: JoinRecord, completion: @escaping () -> Void)

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
    fileprivate var joining: Awaited<Result<Void, RadioFailure>>?
    fileprivate var scanning: Awaited<Result<Void, ScanFailure>>?
    fileprivate var grace: LoopSource?

    init(name: String, busName: String, on connection: Connection, log: Logger) {
        self.name = name
        link = ServiceLink(connection, busName)
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
    var joining: Awaited<Result<Void, RadioFailure>>? {
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
            self.read(path, since: begun) { completion(.success($0)) }
        }
        common.scanning = awaited
        requestScan(path, asking: names, awaited)
    }

    /// How many seconds ago something may have been seen to count as seen since then.
    func age(since begun: Int64) -> Int { Int((loop.now - begun) / 1_000_000) + WiFiTimes.slack }

    /// Waits for a network to be joined.
    func awaitJoin(
        _ join: NetworkJoin, _ completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) -> Awaited<Result<Void, RadioFailure>> {
        // A wrong passphrase of WPA3 may look like that: services go on trying.
        let late = join.passphrase == nil ? RadioFailure.joinTimeout : .joinTimeoutOrPassphrase
        let awaited = Awaited<Result<Void, RadioFailure>>(loop, timeout: WiFiTimes.join, late: .failure(late)) {
            [weak self] result in
            self?.joining = nil
            completion(result)
        }
        joining = awaited
        return awaited
    }
}

/// Why a scan brought nothing.
enum ScanFailure: Error {
    /// Another scan runs, or the service wants a pause: the next attempt comes after one.
    case busy
    case failed(String)
}

enum WiFiTimes {
    /// A call that is answered at once.
    static let call = Duration.seconds(10)
    /// A scan: real ones take 1 to 10 s.
    static let scan = Duration.seconds(20)
    /// Joining: less than the 25 s after which D-Bus libraries give a call up.
    static let join = Duration.seconds(22)
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
        _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
        timeout: Duration = WiFiTimes.call,
        completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) {
        guard let owner else {
            connection.loop.soon { completion(.failure(.disconnected("the service is gone"))) }
            return
        }
        connection.call(owner, path, interface, member, arguments, timeout: timeout, limits: .generous, completion: completion)
    }

    /// All properties of an interface of an object; empty when it has gone.
    func properties(_ path: ObjectPath, _ interface: String, completion: @escaping ([String: DBusValue]) -> Void) {
        call(path, Bus.properties, "GetAll", [.string(interface)]) { result in
            completion((try? result.get())?.first?.vardictValue ?? [:])
        }
    }

    /// What `read` makes of the properties of each object, in the objects' order; called once all have answered. The
    /// cursor stands on the properties. An object that has gone, or of which `read` makes nothing, is left out.
    func read<Value>(
        _ paths: [ObjectPath], _ interface: String, _ read: @escaping (inout ValueCursor) -> Value?,
        completion: @escaping ([Value]) -> Void
    ) {
        guard let owner, !paths.isEmpty else { return completion([]) }
        var found = [Value?](repeating: nil, count: paths.count)
        connection.callEach(owner, paths, Bus.properties, "GetAll", [.string(interface)], timeout: WiFiTimes.call) {
            index, answer in
            answer.withArguments { properties in
                properties.enterVariants()
                found[index] = read(&properties)
            }
        } completion: {
            completion(found.compactMap(\.self))
        }
    }

    /// Calls a method and hands over the answer unread: the cursor stands on its first argument. `read` is called for
    /// an answer with arguments, `completion` always.
    func ask(
        _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
        read: @escaping (inout ValueCursor) -> Void, completion: @escaping () -> Void
    ) {
        guard let owner, let call = try? Message.call(to: owner, path: path, interface: interface, member: member, arguments)
        else {
            connection.loop.soon(completion)
            return
        }
        connection.call(call, timeout: WiFiTimes.call) { result in
            (try? result.get())?.withArguments { argument in
                argument.enterVariants()
                read(&argument)
            }
            completion()
        }
    }

    /// The properties of several objects, in their order; called once all have answered.
    func properties(
        _ paths: [ObjectPath], _ interface: String,
        completion: @escaping ([(path: ObjectPath, values: [String: DBusValue])]) -> Void
    ) {
        guard !paths.isEmpty else { return completion([]) }
        var found = [[String: DBusValue]](repeating: [:], count: paths.count)
        var missing = paths.count
        for (index, path) in paths.enumerated() {
            properties(path, interface) { values in
                found[index] = values
                missing -= 1
                if missing == 0 { completion(Array(zip(paths, found)).map { (path: $0, values: $1) }) }
            }
        }
    }

    func set(_ path: ObjectPath, _ interface: String, _ property: String, _ value: DBusValue, completion: @escaping () -> Void) {
        call(path, Bus.properties, "Set", [.string(interface), .string(property), .variant(value)]) { _ in completion() }
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
final class Awaited<Value> {
    var subscriptions: [Subscription?] = []
    private var timer: LoopSource?
    private var completion: ((Value) -> Void)?

    init(_ loop: MainLoop, timeout: Duration, late: Value, completion: @escaping (Value) -> Void) {
        self.completion = completion
        timer = loop.after(timeout) { [weak self] in self?.end(late) }
    }

    var isPending: Bool { completion != nil }

    func end(_ value: Value) {
        guard let completion else { return }
        self.completion = nil
        timer?.cancel()
        for subscription in subscriptions { subscription?.cancel() }
        subscriptions = []
        completion(value)
    }
}

extension RadioFailure {
    static let serviceGone = RadioFailure(.unavailable, "the Wi-Fi service is gone")
    static let wrongPassphrase = RadioFailure(.refused, "the passphrase is wrong")
    static let passphraseWanted = RadioFailure(.refused, "the network wants a passphrase")
    static let joinTimeoutOrPassphrase = RadioFailure(
        .timeout, "the network was not joined in time: out of range, or the passphrase is wrong, or it does not answer")
    static let joinTimeout = RadioFailure(.timeout, "the network was not joined in time: out of range, or it does not answer")
}

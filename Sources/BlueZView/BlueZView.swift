// SPDX-License-Identifier: Apache-2.0
// The scoped view: a socket that looks like the system bus to an app and carries org.bluez with the app's own
// accessories in it, our own name, and nothing else. Clients are admitted and removed here, and changes of the radio
// service and of links are passed to all clients.

public import AccessoryModel
public import CallerIdentity
public import DBusKit
public import Logging

/// Decides on the accessories that the view shows.
public protocol ViewAuthority: AnyObject {
    /// A client connects: the manifests that were written by now count.
    func clientConnects()
    /// The app that a caller speaks for now; nil for one that is no app.
    ///
    /// - Throws: when the process executes another program by now.
    func app(of caller: PinnedCaller) throws(IdentityFailure) -> ViewIdentity?
    /// The accessories that are granted to an app and not switched off.
    func devices(of app: AppID) -> [GrantedDevice]
    /// The objects of the devices that an app hears by its grants for kinds; nil for an app without one.
    func heard(by app: AppID) -> Set<ObjectPath>?
    /// The apps with a client that uses org.bluez now.
    func setListening(_ apps: Set<AppID>)
    /// Whether an accessory is an input device: its link is used although no app holds it.
    func isInput(_ accessory: AccessoryID) -> Bool
    /// Whether an accessory certainly has no classic side: its address is a random one.
    func isLowEnergyOnly(_ accessory: AccessoryID) -> Bool
    /// The adapter that is shown to an app without an accessory on another one.
    var adapter: ObjectPath? { get }
    /// An app used an accessory, for the first time on this connection.
    func used(_ accessory: AccessoryID, by app: AppID, _ caller: PinnedCaller, as use: String)
    /// An app was refused a use of an accessory that its grant does not open.
    func refused(_ accessory: AccessoryID, to app: AppID, _ caller: PinnedCaller, why: String)
    /// A link came up for an app, and ended before the app could use it.
    ///
    /// - Returns: the likely reason and the way out, for people; nil where there is none to be named.
    func linkEndedAtOnce(_ accessory: AccessoryID) -> String?
    /// A client was refused as a whole; `caller` is nil when it is not even known.
    func refused(_ caller: PinnedCaller?, why: String)
}

/// The app that a caller speaks for.
public struct ViewIdentity: Hashable, Sendable {
    /// The app, by its manifest.
    public let app: AppID
    /// Only its executable makes it the app, so it must go on executing that.
    public let goesByExecutable: Bool
    /// How it connects from elsewhere, by its own socket; nil for any other app.
    public let remote: RemoteApp?

    /// - Parameter goesByExecutable: whether only its executable makes it the app.
    public init(app: AppID, goesByExecutable: Bool, remote: RemoteApp? = nil) {
        self.app = app
        self.goesByExecutable = goesByExecutable
        self.remote = remote
    }
}

/// Our own name, for clients that do not come over the bus.
public protocol ViewService: AnyObject {
    /// The well-known name.
    var name: String { get }
    /// The XML that describes `org.accessorysetup1.View`.
    var viewXML: String { get }
    /// A client has come that may call.
    func adopt(_ peer: Connection, _ caller: PinnedCaller)
    /// Answers an adopted client's call.
    func receive(_ message: Message, from peer: Connection)
    /// An adopted client has gone.
    func dismiss(_ peer: Connection)
}

/// The view's limits; Docs/Limits.md has the numbers.
public struct ViewLimits: Hashable, Sendable {
    /// Places that all users share.
    public struct Places: Hashable, Sendable {
        /// Connections, in all and of one user.
        public var clients = 256
        public var clientsPerUser = 64
        /// Connections before Hello, in all and of one user.
        public var strangers = 64
        public var strangersPerUser = 8
        /// Connections of apps that may send long messages, with images; in all and of one user.
        public var longMessageClients = 48
        public var longMessageClientsPerUser = 16
        /// Unread bytes of all clients together; beyond them the client with most of the user with most is
        /// disconnected.
        public var unreadBytes = 64 << 20
    }

    /// One user's share.
    public struct User: Hashable, Sendable {
        public var matchRules = 1024
        /// Connections with match rules for signals of org.bluez.
        public var listeners = 16
        /// Unanswered calls to org.bluez.
        public var callsInFlight = 512
        /// Descriptors of AcquireWrite and AcquireNotify.
        public var descriptors = 128
    }

    public var places = Places()
    public var user = User()
    /// Seconds until Hello.
    public var timeToHello = 5.0
    /// Bytes of a long message.
    public var longMessageBytes = 4 << 20
    /// Unread bytes of one client; beyond them it is disconnected.
    public var unreadBytes = 4 << 20
    /// Seconds that an app's links outlive its last connection.
    public var linger = 30.0

    /// The numbers of Docs/Limits.md.
    public init() {}
}

/// The view: its socket, and the clients on it. Used on the thread of its main loop only.
public final class BlueZView {
    private let environment: ViewEnvironment
    private let server: BusServer
    /// Those of apps' own sockets.
    private var servers: [AppID: BusServer] = [:]
    private let names: ClientNames
    /// The state of an earlier run, until its clients are resumed.
    private var left: (state: LeftState, baggage: Baggage)?
    private let loop: MainLoop
    private var admission: Admission
    private var clients: [String: ViewClient] = [:]
    private var shares: [Party: Share] = [:]
    private let reception: Reception
    /// Those that clients spoke for when it was looked at last.
    private var apps: Set<AppID> = []
    /// Checks the unread bytes of all clients, at the end of the turn.
    private var relief: LoopSource?

    private var links: LinkCoordinator { environment.links }

    /// Opens the socket, and goes on with the clients of an earlier run at `resumeClients`.
    ///
    /// - Parameters:
    ///   - address: where clients connect.
    ///   - connection: to the bus that carries org.bluez, for the view's own use.
    ///   - bus: the same bus: each client is one of its own there, so that the radio service counts for it.
    ///   - authority: decides on the accessories that are shown.
    ///   - service: our own name.
    ///   - handover: the state of an earlier run, if any.
    /// - Throws: when the socket cannot be had.
    public init(
        _ address: BusServer.Address, on connection: Connection, bus: Connection.Address, authority: any ViewAuthority,
        service: any ViewService, limits: ViewLimits = ViewLimits(), resuming handover: ViewHandover? = nil, log: Logger
    ) throws(BusError) {
        loop = connection.loop
        reception = Reception(connection.loop)
        left = handover.flatMap { handover in
            LeftState(bytes: handover.state).map { ($0, Baggage(handover.descriptors)) }
        }
        let names = ClientNames(after: left?.state["Names"]?.integerValue ?? 0)
        self.names = names
        server = try BusServer(address, loop: loop) { names.next() }
        let feed = RadioFeed(on: connection)
        environment = ViewEnvironment(
            authority: authority, service: service, feed: feed,
            links: LinkCoordinator(feed, loop: loop, linger: .seconds(limits.linger), log: log),
            queue: ServiceQueue { [loop] in loop.after(.milliseconds(1), $0) }, limits: limits, bus: bus,
            identifier: server.identifier, log: log)
        admission = Admission(limits.places)
        server.onConnection = { [weak self] in self?.admit($0, to: nil) }
        links.start(observer: self)
        if let left { feed.resume(left.state) }
        feed.start(observer: self)
    }

    // MARK: Between two runs

    /// Calls of clients that are not answered yet.
    public var callsInFlight: Int { clients.values.reduce(0) { $0 + $1.callsInFlight } }

    /// Leaves the clients to the next run. Those that cannot be left hear that all is gone, and are disconnected; so do
    /// all where nothing keeps their sockets. The view is not used afterwards.
    ///
    /// - Returns: nil when there is nothing to leave.
    public func leave(isKept: Bool) -> ViewHandover? {
        var baggage = Baggage()
        var states: [LeftState] = []
        var devices: Set<ObjectPath> = []
        for client in clients.values.sorted(by: { $0.name < $1.name }) {
            let followed = client.followedDevices ?? []
            if isKept, let state = client.leave(&baggage) {
                states.append(state)
                devices.formUnion(followed)
            } else {
                client.endForRestart()
            }
        }
        let shares = links.left
        guard isKept, !states.isEmpty || !shares.isEmpty else { return nil }
        var state = environment.feed.leave(devices)
        state["Names"] = .uint32(UInt32(names.made))
        state["Clients"] = .states(states)
        state["Shares"] = .states(shares)
        return state.bytes.map { ViewHandover(state: $0, descriptors: Array(baggage.descriptors.values)) }
    }

    /// Goes on with the clients of an earlier run, once grants and objects are known.
    public func resumeClients() {
        guard let left else { return }
        environment.feed.followObjects(true)
        environment.feed.whenReady { [weak self] in
            self?.environment.feed.signalMissed(since: left.state) { self?.resumeClients(left.state, left.baggage) }
        }
    }

    private func resumeClients(_ state: LeftState, _ baggage: Baggage) {
        left = nil
        let shares = state.states("Shares")
        links.resume(shares)
        let states = state.states("Clients")
        for client in states { resume(client, baggage) }
        environment.log.notice("resumed clients of the view", metadata: ["clients": "\(clients.count) of \(states.count)"])
        let present = Set(clients.values.compactMap(\.app))
        for app in Set(shares.compactMap { $0.text("App").flatMap { AppID($0) } }).subtracting(present).sorted() {
            links.handle(.appGone(app))
        }
        serviceChanged()
        updateScopes()
    }

    private func resume(_ state: LeftState, _ baggage: Baggage) {
        let app = state.text("App").flatMap { AppID($0) }
        guard let (socket, left) = baggage.unpackConnection(state["Connection"]),
            let peer = try? Connection(resuming: socket, left, peer: PeerLimits(), loop: loop)
        else { return }
        guard app.map({ servers[$0] != nil }) ?? true, let client = admit(peer, to: app) else { return peer.close() }
        guard client.resume(state, baggage) else {
            client.endForRestart()
            return remove(left.uniqueName)
        }
    }

    // MARK: Coming and going

    /// Serves an app at its own socket as well: its clients are that app.
    ///
    /// - Throws: when the socket cannot be served.
    public func listen(on socket: FileDescriptor, for app: AppID) throws(BusError) {
        let server = try BusServer(.listening([socket]), loop: loop) { [names] in names.next() }
        server.onConnection = { [weak self] in self?.admit($0, to: app) }
        servers[app] = server
    }

    /// Closes an app's own socket; the connections that came by it end.
    public func stopListening(for app: AppID) {
        servers[app] = nil
        for client in clients.values where client.socket == app { client.cutOff("the app no longer has a socket") }
    }

    /// - Parameter app: whose own socket it is.
    /// - Returns: nil for one that is refused.
    @discardableResult
    private func admit(_ peer: Connection, to app: AppID?) -> ViewClient? {
        environment.authority.clientConnects()
        let caller: PinnedCaller
        do throws(IdentityFailure) {
            guard let socket = peer.socket else { throw IdentityFailure(description: "no socket") }
            caller = try CallerResolver.resolve(socket: socket, of: app)
        } catch {
            return refuse(peer, why: "\(error)")
        }
        let name = peer.uniqueName
        let party = Party(caller.caller)
        switch admission.admit(name, of: party) {
        case .refused(let why): return refuse(peer, why: why)
        case .admitted(let victim?):
            clients[victim]?.cutOff("its slot was needed for another user")
            remove(victim)
        case .admitted(nil): break
        }
        let share = shares[party] ?? Share(of: party, environment.limits.user)
        shares[party] = share
        let client = ViewClient(peer, caller, share, environment, observer: self)
        clients[name] = client
        allowLongMessages(name)
        peer.onCall = { [weak client, reception] call in
            if let client { reception.enqueue(call, from: client) }
            return true
        }
        peer.onDisconnect = { [weak self] in self?.remove(name) }
        return client
    }

    private func refuse(_ peer: Connection, why: String) -> ViewClient? {
        environment.log.warning("client of the view refused", metadata: ["reason": "\(why)"])
        environment.authority.refused(nil, why: "the view: \(why)")
        peer.close()
        return nil
    }

    private func remove(_ name: String) {
        guard let client = clients.removeValue(forKey: name) else { return }
        admission.left(name)
        reception.remove(client)
        client.connectionClosed()
        if !clients.values.contains(where: { $0.party == client.party }) {
            shares[client.party] = nil
            reception.remove(client.party)
        }
        links.handle(.clientGone(client: name))
        clientNeedsChanged()
    }

    /// Only apps may send long messages.
    private func allowLongMessages(_ name: String) {
        guard let client = clients[name], client.app != nil, admission.allowLongMessages(name) else { return }
        client.limitMessages(to: environment.limits.longMessageBytes)
    }

    /// Who is no app any more makes room for others.
    private func shareLongMessages() {
        for (name, client) in clients where client.app == nil && admission.revokeLongMessages(name) {
            client.limitMessages(to: PeerLimits().messageBytes)
        }
        for name in clients.keys { allowLongMessages(name) }
    }

    // MARK: All clients

    private func relieve() {
        relief = nil
        while let name = admission.slowestReader(clients.mapValues(\.unreadBytes)) {
            clients[name]?.cutOff(
                "it is not reading, like other clients: \(environment.limits.places.unreadBytes) bytes are queued in total")
            remove(name)
        }
    }

    /// Grants, manifests or the radio have changed: clients are cut off from accessories without a grant before this
    /// returns.
    public func updateScopes() {
        for client in clients.values { client.updateScope() }
        shareLongMessages()
        links.endShares { device, app in environment.authority.devices(of: app).contains { $0.paths.contains(device) } }
        clientNeedsChanged()
    }

    /// An app hears other devices now.
    public func updateHeard(by app: AppID) {
        for client in clients.values where client.app == app { client.bluez.updateScope() }
    }

    /// An app is gone with its last client; also when that one does not speak for it any more, because it has become
    /// another program or has died with calls on the way.
    private func updateApps() {
        let present = Set(clients.values.compactMap(\.app))
        for app in apps.subtracting(present).sorted() { links.handle(.appGone(app)) }
        for app in present.subtracting(apps).sorted() { links.handle(.appPresent(app)) }
        apps = present
    }
}

/// The unique names of clients, none of which is given twice.
private final class ClientNames {
    private(set) var made: Int

    init(after made: Int) {
        self.made = made
    }

    func next() -> String {
        made += 1
        return ":view.\(made)"
    }
}

extension BlueZView: ViewClientObserver {
    func clientGreeted(_ name: String) {
        admission.greeted(name)
    }

    /// Checked later: no client may be removed in the middle of another's signal.
    func clientHasBacklog() {
        relief = relief ?? loop.after(.zero) { [weak self] in self?.relieve() }
    }

    /// Follows the devices that clients and their links need.
    func clientNeedsChanged() {
        updateApps()
        environment.authority.setListening(Set(clients.values.lazy.filter(\.bluez.isEngaged).compactMap(\.app)))
        let used = clients.values.compactMap(\.followedDevices)
        let held = links.heldDevices
        environment.feed.followObjects(!used.isEmpty || !held.isEmpty || left != nil)
        environment.feed.followLinks(of: used.reduce(into: held) { $0.formUnion($1) })
    }

    func catchUpOthers(of name: String) {
        guard clients.count > 1, let app = clients[name]?.app else { return }
        for other in clients.values where other.app == app && other.name != name { other.bluez.catchUp() }
    }
}

extension BlueZView: RadioFeedObserver {
    func serviceChanged() {
        for client in clients.values { client.serviceChanged() }
        clientNeedsChanged()
    }

    func adapterChanged() {
        for client in clients.values { client.updateScope() }
    }

    func objectsAdded(_ path: ObjectPath, _ interfaces: [String: DBusValue]) {
        for client in clients.values { client.bluez.objectsAdded(path, interfaces) }
    }

    func objectsRemoved(_ path: ObjectPath, _ interfaces: [String]) {
        for client in clients.values { client.bluez.objectsRemoved(path, interfaces) }
    }

    func linkHeard(_ event: LinkShares.Event) {
        switch event {
        // Values that arrived before it would be dropped after it.
        case .reported(_, isConnected: false?, _), .deviceRemoved: for client in clients.values { client.bluez.catchUp() }
        default: break
        }
        links.handle(event)
    }

    func linkEnds(_ device: ObjectPath, _ message: Message) {
        environment.links.beforeEnd(device) { [weak self] in
            for client in self?.clients.values ?? [:].values { client.bluez.linkEnds(device, message) }
        }
    }
}

extension BlueZView: LinkObserver {
    func linkChanged(_ device: ObjectPath) {
        for client in clients.values { client.bluez.linkChanged(device) }
    }

    func lingerEnded() {
        clientNeedsChanged()
    }
}

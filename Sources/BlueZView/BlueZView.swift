// The scoped view: a socket that looks like the system bus to an app and carries org.bluez with the app's own accessories in it, our
// own name, and nothing else. Here are the door (who comes in, how many) and what concerns all clients; ViewClient is one of them.

public import AccessoryModel
public import CallerIdentity
public import DBusKit
public import Logging

/// Who decides what the view shows.
public protocol ViewAuthority: AnyObject {
    /// The app that a caller speaks for now; nil for one that is no app.
    ///
    /// - Throws: when it no longer is what it was.
    func app(of caller: PinnedCaller) throws(IdentityFailure) -> ViewIdentity?
    /// What is granted to an app and not switched off.
    func devices(of app: AppID) -> [GrantedDevice]
    /// Whether an accessory is an input device: its link is used although no app holds it.
    func isInput(_ accessory: AccessoryID) -> Bool
    /// The adapter in use.
    var adapter: ObjectPath? { get }
    /// An app used an accessory, for the first time on this connection.
    func used(_ accessory: AccessoryID, by app: AppID, _ caller: PinnedCaller, as what: String)
    /// A client was refused as a whole; `caller` is nil when it is not even known.
    func refused(_ caller: PinnedCaller?, why: String)
}

/// The app that a caller speaks for.
public struct ViewIdentity: Hashable, Sendable {
    public let app: AppID
    /// Only because of what it executes, so it must go on executing that.
    public let goesByExecutable: Bool

    public init(app: AppID, goesByExecutable: Bool) {
        self.app = app
        self.goesByExecutable = goesByExecutable
    }
}

/// Our own name, for clients that do not come over the bus.
public protocol ViewService: AnyObject {
    var name: String { get }
    func adopt(_ peer: Connection, _ caller: PinnedCaller)
    func take(_ message: Message, from peer: Connection)
    func dismiss(_ peer: Connection)
}

/// What the view grants its clients at most; Docs/Limits.md has the numbers.
public struct ViewLimits: Hashable, Sendable {
    public var clients = 256
    public var clientsPerUser = 64
    /// Connections that have not said hello: in all, and of one user.
    public var strangers = 64
    public var strangersPerUser = 8
    /// Seconds to say it in.
    public var timeToHello = 5.0
    public var matchRules = 512
    /// Calls to org.bluez that are not answered yet.
    public var callsInFlight = 128
    /// Descriptors handed out by one client's AcquireWrite and AcquireNotify.
    public var relays = 32
    /// Bytes that wait for a client to read them; with more it is cut off.
    public var unreadBytes = 4 << 20
    /// Seconds that an app's links outlive its last connection.
    public var linger = 30.0

    public init() {}
}

public final class BlueZView {
    let authority: any ViewAuthority
    let service: any ViewService
    let feed: RadioFeed
    let links: LinkCoordinator
    let limits: ViewLimits
    let log: Logger
    /// The bus that carries org.bluez.
    let bus: Connection.Address
    private let server: BusServer
    private let loop: MainLoop
    private var clients: [String: ViewClient] = [:]
    private var admitted = 0

    /// - Parameters:
    ///   - connection: to the bus that carries org.bluez, for the view's own use.
    ///   - bus: the same bus: each client is one of its own there, so that the radio service counts for it.
    /// - Throws: when the socket cannot be had.
    public init(
        _ address: BusServer.Address, on connection: Connection, bus: Connection.Address, authority: any ViewAuthority,
        service: any ViewService, limits: ViewLimits = ViewLimits(), log: Logger
    ) throws(BusError) {
        self.authority = authority
        self.service = service
        self.limits = limits
        self.log = log
        self.bus = bus
        loop = connection.loop
        feed = RadioFeed(on: connection, log: log)
        links = LinkCoordinator(feed, loop: connection.loop, linger: .seconds(limits.linger), log: log)
        var made = 0
        server = try BusServer(address, loop: connection.loop) {
            made += 1
            return ":view.\(made)"
        }
        server.onConnection = { [weak self] in self?.admit($0) }
        links.start(observer: self)
        feed.start(observer: self)
    }

    var identifier: String { server.identifier }

    // MARK: The door

    private func admit(_ peer: Connection) {
        let caller: PinnedCaller
        do throws(IdentityFailure) {
            guard let socket = peer.socket else { throw IdentityFailure(description: "no socket") }
            caller = try CallerResolver.resolve(socket: socket)
            let uid = caller.caller.uid
            guard clients.values.count(where: { $0.pinned.caller.uid == uid }) < limits.clientsPerUser else {
                throw IdentityFailure(description: "user \(uid) has \(limits.clientsPerUser) connections already")
            }
            let strangers = clients.values.filter { !$0.isRegistered }
            guard strangers.count(where: { $0.pinned.caller.uid == uid }) < limits.strangersPerUser else {
                throw IdentityFailure(
                    description: "user \(uid) has \(limits.strangersPerUser) connections that have not said hello")
            }
            if strangers.count >= limits.strangers || clients.count >= limits.clients, !makeRoom(for: uid) {
                throw IdentityFailure(description: "\(limits.clients) clients are here already")
            }
        } catch {
            log.warning("client of the view refused", metadata: ["reason": "\(error)"])
            authority.refused(nil, why: "the view: \(error)")
            return peer.close()
        }
        admitted += 1
        let client = ViewClient(peer, caller, number: admitted, self)
        clients[peer.uniqueName] = client
        let name = peer.uniqueName
        peer.onCall = { [weak client] message in
            client?.take(message)
            return true
        }
        peer.onDisconnect = { [weak self] in self?.gone(name) }
        client.patience = loop.after(.seconds(limits.timeToHello)) { [weak client] in
            client?.cut("it did not say hello in time")
        }
    }

    /// Has somebody go for a user's connection, when all places are taken: first who has not said hello, then the latest connection of the
    /// user who has most, if that is more than this one. Nobody can keep others out by coming often.
    private func makeRoom(for uid: UInt32) -> Bool {
        let counts = Dictionary(grouping: clients.values) { $0.pinned.caller.uid }.mapValues(\.count)
        let strangers = clients.values.filter { !$0.isRegistered }
        let most = counts.max { ($0.value, $1.key) < ($1.value, $0.key) }
        let victim: ViewClient?
        if let stranger = strangers.max(by: {
            (counts[$0.pinned.caller.uid] ?? 0, $1.number) < (counts[$1.pinned.caller.uid] ?? 0, $0.number)
        }) {
            victim = stranger
        } else if let most, most.value > counts[uid, default: 0] + 1 {
            victim = clients.values.filter { $0.pinned.caller.uid == most.key }.max { $0.number < $1.number }
        } else {
            victim = nil
        }
        guard let victim else { return false }
        victim.cut("its place was needed for another user")
        clients[victim.name] = nil
        leave(victim)
        return true
    }

    /// A client has said hello: its app's links need no longer wait for it.
    func registered(_ client: ViewClient) {
        service.adopt(client.peer, client.pinned)
        log.debug("client of the view", metadata: ["client": "\(client.name)", "caller": "\(client.pinned.caller.summary)"])
    }

    private func gone(_ name: String) {
        guard let client = clients.removeValue(forKey: name) else { return }
        leave(client)
    }

    private func leave(_ client: ViewClient) {
        client.end()
        if client.isRegistered { service.dismiss(client.peer) }
        links.handle(.clientGone(client: client.name))
        if let app = client.app, !clients.values.contains(where: { $0.app == app }) { links.handle(.appGone(app)) }
        followLinks()
    }

    // MARK: What concerns all

    /// Grants, manifests or the radio have changed: everybody's view follows at once.
    public func refresh() {
        for client in clients.values { client.refresh() }
        links.endShares { device, app in authority.devices(of: app).contains { $0.paths.contains(device) } }
        followLinks()
    }

    /// Follows what clients need, and nothing when none does.
    func followLinks() {
        let engaged = clients.values.filter(\.isEngaged)
        for app in engaged.compactMap(\.app) { links.handle(.appEngaged(app)) }
        let kept = links.lingeringDevices
        feed.want(!engaged.isEmpty || !kept.isEmpty)
        feed.follow(engaged.reduce(into: kept) { $0.formUnion($1.scope.devices.keys) })
    }
}

extension BlueZView: RadioFeedObserver {
    func serviceChanged() {
        for client in clients.values { client.serviceChanged() }
        followLinks()
    }

    func adapterChanged(_ path: ObjectPath) {
        for client in clients.values { client.refresh() }
    }

    func objectsAdded(_ path: ObjectPath, _ interfaces: [String: DBusValue]) {
        for client in clients.values { client.objectsAdded(path, interfaces) }
    }

    func objectsRemoved(_ path: ObjectPath, _ interfaces: [String]) {
        for client in clients.values { client.objectsRemoved(path, interfaces) }
    }

    func linkHeard(_ event: LinkShares.Event) {
        links.handle(event)
    }
}

extension BlueZView: LinkObserver {
    func linkChanged(_ device: ObjectPath) {
        for client in clients.values { client.linkChanged(device) }
    }

    func lingerEnded() {
        followLinks()
    }
}

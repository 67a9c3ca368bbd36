// SPDX-License-Identifier: Apache-2.0
// A client's connection to the app's socket: it performs the effects of its `ProxySession` on org.bluez, and feeds the
// session with objects and answers. The daemon knows the client by key and address, for the trail.

internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit
internal import InternetAddresses
internal import ESPHomeAPI

/// The data path of one client.
final class ProxyConnection {
    /// More than 400 values a second are read a dozen with one wakeup.
    private static let pace = StreamPace(pause: .milliseconds(12), interval: .microseconds(2500))
    /// Longer than any client waits.
    private static let callTime = Duration.seconds(60)
    /// For giving links back after the client's end.
    private static let farewellTime = Duration.seconds(10)

    private unowned let client: DoorClient
    private let app: RemoteApp
    private unowned let server: DoorServer
    private let loop: MainLoop
    private let connection: Connection
    private var session: ProxySession
    private var feed: ObjectFeed?
    private var timers: [ProxySession.Timer: LoopSource] = [:]
    /// Requests from before the objects are known: a client may connect to an accessory with its first message.
    private var early: [ClientRequest] = []

    /// - Throws: when the socket takes no connection now.
    init(
        _ client: DoorClient, _ app: RemoteApp, _ key: KeyID, _ server: DoorServer
    ) throws(BusError) {
        self.client = client
        self.app = app
        self.server = server
        loop = server.loop
        session = ProxySession(server.gateway)
        connection = Connection(
            greeting: try Connection.Opening(.server("unix:path=\(app.socket)")), loop: loop, reading: .streamed(Self.pace)
        ) { _ in }
        connection.onDisconnect = { [weak self] in self?.client.end("the daemon closed the connection") }
        // Before all else: whatever is used is then recorded with the client.
        let peer: [DBusValue] = [.string(key.fingerprint), .string(client.address.description)]
        connection.call(RemoteApp.daemon, RemoteApp.viewPath, RemoteApp.viewInterface, "ActFor", peer) { [weak self] result in
            if let error = result.error { self?.client.end("the daemon refused it: \(error.message)") }
        }
        feed = ObjectFeed(connection, loop) { [weak self] event in
            switch event {
            case .changed(let change): self?.handle(.objects(change))
            case .replaced, .stateChanged: self?.handle(.stateChanged)
            case .refused: self?.client.end("the app is not permitted any more")
            }
            self?.takeEarly()
        }
    }

    func holds(_ path: ObjectPath) -> Bool { session.links.values.contains { $0.path == path } }

    func handle(_ event: ProxySession.Event) {
        // Nothing follows the end.
        guard let feed else { return }
        for effect in session.handle(event, feed.tree) { perform(effect) }
    }

    /// A message of the client.
    func take(_ request: ClientRequest) {
        guard let feed else { return }
        guard feed.isKnown else {
            early.append(request)
            return early.count > ProxySession.maxCalls ? client.end("it sends too much") : ()
        }
        handle(.request(request))
    }

    private func takeEarly() {
        guard feed?.isKnown == true else { return }
        for request in early { handle(.request(request)) }
        early = []
    }

    private func perform(_ effect: ProxySession.Effect) {
        switch effect {
        case .send(let message): client.send(message)
        case .call(let id, let call): perform(call, id)
        case .schedule(let timer):
            guard timers[timer] == nil else { return }
            timers[timer] = loop.after(timer.delay) { [weak self] in
                guard let self else { return }
                timers[timer] = nil
                handle(timer == .flush ? .flush(isCongested: client.isCongested) : .retryScan)
            }
        case .flushNow: handle(.flush(isCongested: client.isCongested))
        case .end: client.end(nil)
        }
    }

    private func perform(_ call: ProxySession.Call, _ id: ProxySession.CallID) {
        // A link is the app's: it stays up for its other clients.
        if call.member == Device1.Member.disconnect, isHeldByOthers(call.path) {
            loop.soon { [weak self] in self?.handle(.answered(id, .success([]))) }
            return
        }
        connection.call(
            BlueZ.service, call.path, call.interface, call.member, call.arguments, timeout: Self.callTime
        ) { [weak self] in self?.handle(.answered(id, $0)) }
    }

    private func isHeldByOthers(_ path: ObjectPath) -> Bool { app.clients.contains { $0 !== client && $0.holds(path) } }

    /// Gives the client's links back and closes the connection.
    func end() {
        guard let feed else { return }
        for timer in timers.values { timer.cancel() }
        self.feed = nil
        feed.end()
        connection.onDisconnect = nil
        // The connection lives until the last answer: the view forgets the calls of a client that is gone.
        for link in session.links.values where !isHeldByOthers(link.path) {
            server.linksToGiveBack += 1
            connection.call(
                BlueZ.service, link.path, Device1.interface, Device1.Member.disconnect, timeout: Self.farewellTime
            ) { [connection, server] _ in withExtendedLifetime(connection) { server.linksToGiveBack -= 1 } }
        }
        // It may be in the middle of a message that led here.
        loop.soon { [connection] in withExtendedLifetime(connection) {} }
    }
}

extension ObjectFeed {
    /// Whether the tree has all objects, or there are none.
    fileprivate var isKnown: Bool {
        switch state {
        case .unknown, .loading: false
        case .absent, .unreadable, .loaded: true
        }
    }
}

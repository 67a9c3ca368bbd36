// SPDX-License-Identifier: Apache-2.0
// Carries out the decisions of LinkShares: asks the radio service to end links, times the linger of apps without a
// connection, and reports changed links to the view. The only owner of the shares.

internal import AccessoryModel
internal import DBusKit
internal import Logging

/// Receives changes of links.
protocol LinkObserver: AnyObject {
    /// A link looks different to some app.
    func linkChanged(_ device: ObjectPath)
    /// An app's links are no longer kept for it.
    func lingerEnded()
}

/// The links to devices, and the apps' shares in them.
final class LinkCoordinator {
    private var shares = LinkShares()
    private var lingerTimers: [AppID: LoopSource] = [:]
    /// How often links have come up: a client's `Connect` that fails may have had one.
    private var timesUp: [ObjectPath: Int] = [:]
    /// Devices whose link is being ended.
    private var disconnecting: [ObjectPath: Disconnecting] = [:]

    private struct Disconnecting {
        /// The calls of `Disconnect` that are not answered yet.
        var calls = 0
        /// Signals that must reach clients before the link's end.
        var ends: [() -> Void] = []
        /// The work that waits until clients have heard of the link's end.
        var waiting: [() -> Void] = []
    }

    private let feed: RadioFeed
    private let loop: MainLoop
    private let linger: Duration
    private let log: Logger
    private weak var observer: (any LinkObserver)?

    /// - Parameter linger: how long an app's shares outlive its last connection.
    init(_ feed: RadioFeed, loop: MainLoop, linger: Duration, log: Logger) {
        self.feed = feed
        self.loop = loop
        self.linger = linger
        self.log = log
    }

    /// Begins to report changes.
    func start(observer: any LinkObserver) {
        self.observer = observer
    }

    // MARK: Looking

    /// A link as an app sees it: up while it is up and the app holds it.
    func state(of device: ObjectPath, seenBy app: AppID?) -> LinkShares.State { shares.state(of: device, seenBy: app) }

    /// Whether a link is up, for any holder.
    func isUp(_ device: ObjectPath) -> Bool { shares.isUp(device) }

    /// How often a link has come up since the view began.
    func timesUp(_ device: ObjectPath) -> Int { timesUp[device, default: 0] }

    /// Devices that apps hold links to, which must be followed.
    var heldDevices: Set<ObjectPath> { shares.heldDevices }

    // MARK: Events

    /// Handles an event and performs its effects.
    ///
    /// - Parameter whenDropped: called when the links are down that this ends, or do not go down in time; at once when
    ///   it ends none.
    /// - Returns: the answer to an event that asks for something.
    @discardableResult
    func handle(_ event: LinkShares.Event, whenDropped: @escaping () -> Void = {}) -> LinkShares.Answer? {
        if case .reported(let device, true, _) = event, !shares.isUp(device) { timesUp[device, default: 0] += 1 }
        let decision = shares.handle(event)
        var left = decision.effects.count { if case .drop = $0 { true } else { false } }
        let dropsAny = left > 0
        for effect in decision.effects {
            perform(effect) {
                left -= 1
                if left == 0 { whenDropped() }
            }
        }
        if !dropsAny { whenDropped() }
        return decision.answer
    }

    // MARK: Disconnecting

    /// Until as many calls of `endDisconnect`, clients neither hear of this link nor get it.
    func beginDisconnect(_ device: ObjectPath) {
        disconnecting[device, default: Disconnecting()].calls += 1
    }

    /// A `Disconnect` is answered. Changes are signalled once the radio service has reported the link: clients
    /// close a connection when they hear on another one that the link is down, and the answer must be there by then.
    func endDisconnect(_ device: ObjectPath) {
        feed.readLink(device) { [self] in
            disconnecting[device]?.calls -= 1
            guard let ended = disconnecting[device], ended.calls == 0 else { return }
            disconnecting[device] = nil
            for body in ended.ends { body() }
            observer?.linkChanged(device)
            for body in ended.waiting { body() }
        }
    }

    /// Calls `body`, which signals why a link ends, before the link's end is signalled: at once while no `Disconnect`
    /// is being answered.
    func beforeEnd(_ device: ObjectPath, _ body: @escaping () -> Void) {
        guard disconnecting[device] != nil else { return body() }
        disconnecting[device]?.ends.append(body)
    }

    /// Calls `body` once no `Disconnect` is being answered, at once if none is: before that an app would hear that
    /// it still holds the link.
    func whenDisconnected(_ device: ObjectPath, _ body: @escaping () -> Void) {
        guard disconnecting[device] != nil else { return body() }
        disconnecting[device]?.waiting.append(body)
    }

    /// Takes the shares from apps that may not have them any more.
    func endShares(unless isGranted: (ObjectPath, AppID) -> Bool) {
        for (device, app) in shares.shares where !isGranted(device, app) { handle(.grantEnded(device, app)) }
    }

    // MARK: Between two runs

    /// The shares that apps have.
    var left: [LeftState] {
        shares.shares.map { device, app in
            [
                "Device": .objectPath(device), "App": .string(app.rawValue),
                "Resolved": .boolean(shares.state(of: device, seenBy: app).areServicesResolved),
                "Clients": .strings(shares.connections(of: app, to: device).sorted()),
            ]
        }
    }

    /// Takes shares up that apps had when an earlier run ended. Whether the links are up is read afterwards.
    func resume(_ left: [LeftState]) {
        for share in left {
            guard let device = share.path("Device"), let app = share.text("App").flatMap({ AppID($0) }) else { continue }
            handle(.reported(device, isConnected: true, areServicesResolved: share.isTrue("Resolved")))
            // An app whose connections have all gone has its share, too.
            for name in [""] + (share["Clients"]?.stringsValue ?? []) {
                let client = LinkShares.Client(name: name, app: app)
                handle(.connectRequested(device, client))
                handle(.connectAnswered(device, client, hasWorked: true))
                handle(.connectConfirmed(device, client, isGranted: true))
            }
            handle(.clientGone(client: ""))
        }
    }

    private func perform(_ effect: LinkShares.Effect, whenDropped: @escaping () -> Void) {
        switch effect {
        case .signal(let device): if disconnecting[device] == nil { observer?.linkChanged(device) }
        case .drop(let device, let reason):
            log.info("link dropped", metadata: ["reason": "\(reason)"])
            log.debug("link dropped", metadata: ["device": "\(device)"])
            // bluetoothd takes seconds for this, and meanwhile answers `Connect` with the dying link.
            beginDisconnect(device)
            feed.disconnect(device) { [weak self] in
                self?.endDisconnect(device)
                whenDropped()
            }
        case .callOff(let device):
            guard feed.owner != nil else { return }
            log.info("cancelled a connection attempt", metadata: ["reason": "the client is gone, or may no longer connect"])
            log.debug("cancelled a connection attempt", metadata: ["device": "\(device)"])
            // BlueZ, org.bluez.Device(5): `Disconnect` cancels a `Connect` that is under way.
            feed.disconnect(device) {}
        case .startLinger(let app):
            lingerTimers[app]?.cancel()
            lingerTimers[app] = loop.after(linger) { [weak self] in self?.endLinger(app) }
        case .stopLinger(let app): lingerTimers.removeValue(forKey: app)?.cancel()
        }
    }

    private func endLinger(_ app: AppID) {
        lingerTimers[app] = nil
        handle(.lingerEnded(app))
        observer?.lingerEnded()
    }
}

// SPDX-License-Identifier: Apache-2.0
// The holders of each link, as a value: events of the radio service and of apps in, effects out. A
// link has one state on the air and as many holders as apps have connected; it goes down with the last holder, unless
// others wait for it: a `Connect` that is under way, or that has worked and is not confirmed yet, is as good as a share
// to all others. Each event has its rule in each state.

internal import AccessoryModel
internal import DBusKit

/// The links of all devices that clients of the view can reach, and the shares that apps have in them.
struct LinkShares: Hashable, Sendable {
    /// A link as the radio service reports it, or as one app sees it.
    struct State: Hashable, Sendable {
        /// `Connected` of org.bluez.Device1.
        var isConnected = false
        /// `ServicesResolved` of org.bluez.Device1.
        var areServicesResolved = false
    }

    /// A connection to the view that speaks for an app.
    struct Client: Hashable, Sendable {
        /// Its unique name in the view, `:view.1`.
        let name: String
        let app: AppID
    }

    /// Events of links.
    enum Event: Hashable, Sendable {
        /// The radio service reports a link; nil for a property that is not in the report.
        case reported(ObjectPath, isConnected: Bool?, areServicesResolved: Bool?)
        /// The device's object is gone.
        case deviceRemoved(ObjectPath)
        /// No more reports of this device follow, because no client needs them.
        case unfollowed(ObjectPath)
        /// No more reports of any device follow: no client needs them, or the radio service is gone.
        case allUnfollowed
        /// A client calls `Connect`. Answered by `held` or `forward`; a forwarded call ends by exactly one
        /// `connectAnswered` or `connectAbandoned`.
        case connectRequested(ObjectPath, Client)
        /// The radio service has answered a client's `Connect`, or can answer no more. One that has worked ends by
        /// exactly one `connectConfirmed`, unless the client is gone by then.
        case connectAnswered(ObjectPath, Client, hasWorked: Bool)
        /// The answer to a client's `Connect` is obsolete: the client is gone, or may not connect any more.
        case connectAbandoned(ObjectPath, Client)
        /// The radio service has said, after a client's `Connect` worked, how the link is. Answered by `held`,
        /// `notGranted` or `broken`.
        case connectConfirmed(ObjectPath, Client, isGranted: Bool)
        /// An app calls `Disconnect`. Answered by `forward`, `released` or `notConnected`.
        case disconnectRequested(ObjectPath, AppID)
        /// An app may no longer use a device: its grant was revoked or switched off, or its manifest is gone.
        case grantEnded(ObjectPath, AppID)
        /// A client is cut off from a device, whatever its app may.
        case clientCutOff(ObjectPath, client: String)
        /// A connection to the view is closed.
        case clientGone(client: String)
        /// An app has could not connect to the view any more.
        case appGone(AppID)
        /// An app has a connection to the view (again).
        case appPresent(AppID)
        /// An app's time without a connection is over.
        case lingerEnded(AppID)
        /// An app is about to look for these devices of its own; `inputs` are input devices, which are in use without
        /// any app.
        case discoveryRequested([ObjectPath], AppID, inputs: Set<ObjectPath>)
    }

    /// The answer to a client's request.
    enum Answer: Hashable, Sendable {
        /// The app holds the link: `Connect` has worked.
        case held
        /// The radio service is to be asked.
        case forward
        /// The app has given its share back, and others have theirs or wait for it: `Disconnect` has worked.
        case released
        /// The app has no share in this link, and others have one or wait for it.
        case notConnected
        /// The grant ended while the radio service connected.
        case notGranted
        /// The link was up, and is down again.
        case broken
    }

    /// Tasks of the coordinator, in this order.
    enum Effect: Hashable, Sendable {
        /// Signal the link's changes to each client.
        case signal(ObjectPath)
        /// End a link that is up, without holders and without attempts.
        case drop(ObjectPath, because: DropReason)
        /// End an attempt, or a new link, that has no client any more.
        case callOff(ObjectPath)
        /// Begin an app's time without a connection, anew if it has begun. Ends by `lingerEnded`, unless it is stopped
        /// before.
        case startLinger(AppID)
        case stopLinger(AppID)
    }

    /// Why a link is ended.
    enum DropReason: Hashable, Sendable, CustomStringConvertible {
        case appGone(AppID)
        case grantEnded(AppID)
        case grantEndedMeanwhile
        case unusedAfterAttempts
        case discovery(AppID)

        var description: String {
            switch self {
            case .appGone(let app): "\(app) is gone"
            case .grantEnded(let app): "\(app) may no longer use it"
            case .grantEndedMeanwhile: "the grant was revoked in the meantime"
            case .unusedAfterAttempts: "its holders released it, and further attempts failed"
            case .discovery(let app): "it is not in use, and \(app) is searching for its accessories"
            }
        }
    }

    /// The consequences of an event.
    struct Decision: Hashable, Sendable {
        /// For the events that ask for one.
        var answer: Answer?
        var effects: [Effect] = []
    }

    private struct Link: Hashable, Sendable {
        var state = State()
        /// The apps that have a share, each with those of its connections that have asked for it and are still here:
        /// none for an app whose connections have all gone since. There are holders only while the link is up.
        var holders: [AppID: Set<String>] = [:]
        /// Only attempts keep it up: it is dropped after the last one, unless an app holds it
        /// then.
        var isUpForAttempts = false
    }

    /// A client's calls of `Connect` that have no outcome yet.
    private struct Attempts: Hashable, Sendable {
        /// How many the radio service has not answered.
        var underWay = 0
        /// How many have worked, while it is asked how the link is.
        var toConfirm = 0

        var areOver: Bool { underWay == 0 && toConfirm == 0 }
    }

    private var links: [ObjectPath: Link] = [:]
    /// Of clients that have some.
    private var attempts: [ObjectPath: [Client: Attempts]] = [:]
    /// Apps without a connection whose shares are kept for a while.
    private var lingering: Set<AppID> = []

    // MARK: Looking

    /// A link as an app sees it: up while it is up and the app holds it.
    func state(of device: ObjectPath, seenBy app: AppID?) -> State {
        guard let app, let link = links[device], link.holders[app] != nil else { return State() }
        return link.state
    }

    /// Whether a link is up, for any holder.
    func isUp(_ device: ObjectPath) -> Bool { links[device]?.state.isConnected == true }

    /// Whether an app has a share in a link. (Then the link is up.)
    func holds(_ device: ObjectPath, _ app: AppID) -> Bool { links[device]?.holders[app] != nil }

    /// The connections of an app that have asked for a link that it holds.
    func connections(of app: AppID, to device: ObjectPath) -> Set<String> { links[device]?.holders[app] ?? [] }

    /// All shares there are, by device and app.
    var shares: [(device: ObjectPath, app: AppID)] {
        links.sorted { $0.key < $1.key }.flatMap { device, link in link.holders.keys.sorted().map { (device, $0) } }
    }

    /// Devices that apps hold links to. They must be followed, even while no client uses org.bluez: a share is kept for
    /// an app that only listens, and for one that has no connection for a while.
    var heldDevices: Set<ObjectPath> { Set(links.filter { !$0.value.holders.isEmpty }.keys) }

    // MARK: Events

    mutating func handle(_ event: Event) -> Decision {
        switch event {
        case .reported(let device, let isConnected, let areServicesResolved):
            Decision(
                effects: change(device) { link in
                    if let areServicesResolved { link.state.areServicesResolved = areServicesResolved }
                    if let isConnected { link.state.isConnected = isConnected }
                    // An app that wants the link again connects again.
                    if !link.state.isConnected { (link.holders, link.isUpForAttempts) = ([:], false) }
                })
        case .deviceRemoved(let device): Decision(effects: change(device) { $0 = Link() })
        case .unfollowed(let device): removeLinks { $0 == device }
        case .allUnfollowed: removeLinks { _ in true }
        case .connectRequested(let device, let client): requestConnect(device, client)
        case .connectAnswered(let device, let client, let hasWorked): answerConnect(device, client, hasWorked)
        case .connectAbandoned(let device, let client): Decision(effects: abandonConnect(device, client))
        case .connectConfirmed(let device, let client, let isGranted): confirmConnect(device, client, isGranted)
        case .disconnectRequested(let device, let app): requestDisconnect(device, app)
        case .grantEnded(let device, let app): Decision(effects: release(device, app, because: .grantEnded(app)))
        case .clientCutOff(let device, let client): Decision(effects: cutOff(client, from: device))
        case .clientGone(let client):
            Decision(effects: Set(links.keys).union(attempts.keys).sorted().flatMap { cutOff(client, from: $0) })
        case .appGone(let app): startLinger(app)
        case .appPresent(let app): Decision(effects: lingering.remove(app) == nil ? [] : [.stopLinger(app)])
        case .lingerEnded(let app): endLinger(app)
        case .discoveryRequested(let devices, let app, let inputs): freeForDiscovery(devices, app, inputs)
        }
    }

    /// Without signals: no client has these devices, or all receive the end of the radio service. A
    /// `Connect` that is not answered goes on to count until its client gives it up.
    private mutating func removeLinks(where isRemoved: (ObjectPath) -> Bool) -> Decision {
        links = links.filter { !isRemoved($0.key) }
        return Decision()
    }

    private mutating func requestConnect(_ device: ObjectPath, _ client: Client) -> Decision {
        guard holds(device, client.app) else {
            attempts[device, default: [:]][client, default: Attempts()].underWay += 1
            return Decision(answer: .forward)
        }
        links[device]?.holders[client.app]?.insert(client.name)
        return Decision(answer: .held)
    }

    private mutating func answerConnect(_ device: ObjectPath, _ client: Client, _ hasWorked: Bool) -> Decision {
        guard endAttempt(device, client, \.underWay) else { return Decision() }
        guard hasWorked else { return Decision(effects: dropIfUpForAttempts(device)) }
        attempts[device, default: [:]][client, default: Attempts()].toConfirm += 1
        return Decision()
    }

    private mutating func abandonConnect(_ device: ObjectPath, _ client: Client) -> [Effect] {
        endAttempt(device, client, \.underWay) ? callOffIfUnused(device) : []
    }

    /// An attempt of a client that was cut off meanwhile has been called off, and is not confirmed.
    private mutating func confirmConnect(_ device: ObjectPath, _ client: Client, _ isGranted: Bool) -> Decision {
        guard endAttempt(device, client, \.toConfirm) else { return Decision(answer: .notGranted) }
        guard isGranted else { return Decision(answer: .notGranted, effects: dropIfUnused(device, .grantEndedMeanwhile)) }
        guard isUp(device) else { return Decision(answer: .broken) }
        return Decision(
            answer: .held,
            effects: change(device) { link in
                link.holders[client.app, default: []].insert(client.name)
                link.isUpForAttempts = false
            })
    }

    /// The last app's `Disconnect` is the radio service's to do; so is that of an app that alone connects, or whose
    /// device another program has connected.
    private mutating func requestDisconnect(_ device: ObjectPath, _ app: AppID) -> Decision {
        let isOthers = links[device]?.holders.keys.contains { $0 != app } ?? false
        let isAwaited = attempts[device]?.keys.contains { $0.app != app } ?? false
        guard isOthers || isAwaited else { return Decision(answer: .forward) }
        guard holds(device, app) else { return Decision(answer: .notConnected) }
        return Decision(
            answer: .released,
            effects: change(device) { link in
                link.holders[app] = nil
                link.isUpForAttempts = link.holders.isEmpty
            })
    }

    /// The share is the app's, and stays; but this client is no longer one that uses it.
    private mutating func cutOff(_ client: String, from device: ObjectPath) -> [Effect] {
        for app in links[device]?.holders.keys.sorted() ?? [] { links[device]?.holders[app]?.remove(client) }
        guard let left = attempts[device]?.filter({ $0.key.name != client }), left != attempts[device] else { return [] }
        attempts[device] = left.isEmpty ? nil : left
        return callOffIfUnused(device)
    }

    /// An app's shares outlive its last connection for a while, so that a script of single calls works.
    private mutating func startLinger(_ app: AppID) -> Decision {
        guard links.values.contains(where: { $0.holders[app] != nil }) else { return Decision() }
        lingering.insert(app)
        return Decision(effects: [.startLinger(app)])
    }

    private mutating func endLinger(_ app: AppID) -> Decision {
        guard lingering.remove(app) != nil else { return Decision() }
        return Decision(effects: links.keys.sorted().flatMap { release($0, app, because: .appGone(app)) })
    }

    /// A connected device does not advertise, so an unused link would hide it: one left by the pairing, by
    /// a connection that the app has lost, or of the time before the daemon was started again.
    private mutating func freeForDiscovery(_ devices: [ObjectPath], _ app: AppID, _ inputs: Set<ObjectPath>) -> Decision {
        var effects: [Effect] = []
        for device in devices.sorted() where attempts[device] == nil {
            guard let link = links[device], link.state.isConnected, !link.holders.keys.contains(where: { $0 != app }) else {
                continue
            }
            if let connections = link.holders[app] {
                if connections.isEmpty { effects += release(device, app, because: .discovery(app)) }
            } else if !inputs.contains(device) {
                effects += dropIfUnused(device, .discovery(app))
            }
        }
        return Decision(effects: effects)
    }

    // MARK: Shared by events

    /// An app gives its share back; with the last one the link is dropped.
    private mutating func release(_ device: ObjectPath, _ app: AppID, because reason: DropReason) -> [Effect] {
        guard holds(device, app) else { return [] }
        return change(device) { $0.holders[app] = nil } + dropIfUnused(device, reason)
    }

    /// Who waits for the link has it for now.
    private mutating func dropIfUnused(_ device: ObjectPath, _ reason: DropReason) -> [Effect] {
        guard let link = links[device], link.state.isConnected, link.holders.isEmpty else { return [] }
        links[device]?.isUpForAttempts = attempts[device] != nil
        return attempts[device] == nil ? [.drop(device, because: reason)] : []
    }

    private mutating func dropIfUpForAttempts(_ device: ObjectPath) -> [Effect] {
        guard attempts[device] == nil, links[device]?.isUpForAttempts == true else { return [] }
        return dropIfUnused(device, .unusedAfterAttempts)
    }

    /// Without this the radio service would go on connecting, or stay connected, although no app waits for the link
    /// or holds it.
    private mutating func callOffIfUnused(_ device: ObjectPath) -> [Effect] {
        guard attempts[device] == nil, links[device]?.holders.isEmpty ?? true else { return [] }
        links[device]?.isUpForAttempts = false
        return [.callOff(device)]
    }

    /// - Returns: whether there was one.
    private mutating func endAttempt(_ device: ObjectPath, _ client: Client, _ kind: WritableKeyPath<Attempts, Int>) -> Bool {
        guard var left = attempts[device]?[client], left[keyPath: kind] > 0 else { return false }
        left[keyPath: kind] -= 1
        attempts[device]?[client] = left.areOver ? nil : left
        if attempts[device]?.isEmpty == true { attempts[device] = nil }
        return true
    }

    private mutating func change(_ device: ObjectPath, _ body: (inout Link) -> Void) -> [Effect] {
        let old = links[device] ?? Link()
        var new = old
        body(&new)
        guard new != old else { return [] }
        links[device] = new
        return [.signal(device)]
    }
}

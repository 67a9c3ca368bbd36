// SPDX-License-Identifier: Apache-2.0
// A client's org.bluez: each call is checked against the scope, and answered from the feed, forwarded over the
// client's own connection, or refused. When a grant ends, its devices are cut off before that returns.

internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

/// Serves a client's calls to org.bluez.
final class BlueZProxy {
    private let environment: ViewEnvironment
    private let connection: ClientConnection
    private let identity: ClientIdentity
    let clearance: Clearance
    private let share: Share
    let shown: ShownObjects
    private let upstream: Upstream
    private let sessions: GATTSessions
    private weak var observer: (any ViewClientObserver)?
    private var engagement = Engagement.none

    private enum Engagement: Equatable {
        /// The client has neither called org.bluez nor asked for its signals.
        case none
        /// It has, and the service has been absent since.
        case awaitingService
        /// While objects are read, with the devices to announce after another reading.
        case following(unread: Set<ObjectPath>?)
        /// The service was lost or replaced: adapter and devices must be announced anew.
        case replaced
    }

    /// The latest call and its verdict: most clients repeat it.
    private var latestCall: RoutedCall?
    private var agent = Agent()

    private var isFollowing: Bool { if case .following = engagement { true } else { false } }
    /// See `Engagement.following`; nil while no objects are read.
    private var unread: Set<ObjectPath>? {
        get { if case .following(let devices) = engagement { devices } else { nil } }
        set { if isFollowing { engagement = .following(unread: newValue) } }
    }

    private var feed: RadioFeed { environment.feed }
    private var links: LinkCoordinator { environment.links }
    private var scope: Scope { shown.scope }
    private var service: String { feed.alias ?? BlueZ.service }

    init(
        _ environment: ViewEnvironment, _ connection: ClientConnection, _ identity: ClientIdentity,
        _ clearance: Clearance, _ share: Share, observer: any ViewClientObserver
    ) {
        self.environment = environment
        self.connection = connection
        self.identity = identity
        self.clearance = clearance
        self.share = share
        self.observer = observer
        shown = ShownObjects(connection, clearance, environment.feed)
        upstream = Upstream(
            to: environment.bus, loop: connection.loop, environment.queue, share, log: environment.log)
        sessions = GATTSessions(share, clearance, loop: connection.loop)
    }

    /// Whether the client receives signals of org.bluez.
    var isEngaged: Bool { engagement != .none }

    /// The devices that exist for the client.
    var devices: Dictionary<ObjectPath, AccessoryID>.Keys { scope.devices.keys }

    /// The client is disconnected: all that it began ends.
    func connectionClosed() {
        closeUpstream()
        sessions.closeDescriptors()
    }

    // MARK: Calls

    /// The client calls the service, or asks for its signals.
    ///
    /// - Parameter completion: called once the client receives signals and the service's presence is known.
    func engage(completion: @escaping () -> Void) {
        if !isEngaged {
            // Its scope must be known before anything is followed for it.
            updateScope()
            engagement = .awaitingService
            shown.recordLinks(of: scope.devices.keys)
            observer?.clientNeedsChanged()
            feed.whenReady { [weak self] in
                guard let self else { return }
                if self.feed.alias != nil, !self.isFollowing { self.updateScope() }
                _ = self.shown.showAdapters()
            }
        } else if connection.isListening, !upstream.isSubscribed {
            openUpstream()
        }
        feed.whenReady(completion)
    }

    /// Takes a call, and answers it once the service's presence is known.
    func serve(_ call: Message) {
        do throws(BusError) {
            try share.reserve(.calls)
            engage { [weak self, share] in
                share.release(.calls)
                self?.dispatch(call)
            }
        } catch {
            connection.fail(call, error, from: Bus.name)
        }
    }

    private func dispatch(_ call: Message) {
        shown.catchUp()
        guard feed.alias != nil else {
            return connection.fail(
                call, .standard("ServiceUnknown", "The name org.bluez was not provided by any .service files"), from: Bus.name)
        }
        if engagement == .awaitingService || !identity.isAccepted { updateScope() }
        if let refusal = identity.refusal { return connection.fail(call, .accessDenied("\(refusal)"), from: service) }
        guard let (path, member, verdict) = verdict(on: call) else { return }
        if let (why, device) = narrowing(of: call, path, member, verdict) { return refuse(call, narrowed: why, device) }
        switch verdict {
        case .refused(let error): refuse(call, error)
        case .managedObjects: answerManagedObjects(call)
        case .introspection: reply(to: call, [.string(ObjectTree.introspection(of: path, scope))])
        case .adapterProperty(let adapter): answerAdapterProperty(call, adapter)
        case .agent: answerAgent(call, member)
        case .discovery: answerDiscovery(call, path, member)
        case .connect(let device): links.whenDisconnected(device) { [weak self] in self?.connect(call, device) }
        case .disconnect(let device): upstream.afterWaiting(about: device) { [weak self] in self?.disconnect(call, device) }
        case .deviceProperty(let device): answerDeviceProperty(call, device)
        case .heardProperty(let device): answerHeardProperty(call, device)
        case .deviceSetting(let device): answerDeviceSetting(call, device)
        case .pairing(let device): answerPairing(call, device)
        case .passed(let device): pass(call, about: device)
        case .attribute(let device), .acquisition(let device): passToAttribute(call, path, member, device)
        }
    }

    private func verdict(on call: Message) -> (ObjectPath, String, Scope.Verdict)? {
        if let latestCall, latestCall.isSame(as: call) { return (latestCall.path, latestCall.member, latestCall.verdict) }
        guard let path = call.path, let member = call.member else { return nil }
        let interface = call.interface
        let verdict = scope.verdict(path: path, interface: interface, member: member)
        latestCall = RoutedCall(path: path, interface: interface, member: member, verdict: verdict)
        return (path, member, verdict)
    }

    func reply(to call: Message, _ arguments: [DBusValue]) {
        connection.reply(to: call, arguments, from: service, about: .app)
    }

    func refuse(_ call: Message, _ error: BusError) {
        environment.log.debug(
            "call refused",
            metadata: [
                "client": "\(connection.name)", "call": "\(call.member ?? "")", "path": "\(call.path ?? "/")",
                "error": "\(error.name)",
            ])
        connection.fail(call, error, from: service)
    }

    /// Why a grant that does not open everything does not permit a call, which would be permitted otherwise.
    private func narrowing(
        of call: Message, _ path: ObjectPath, _ member: String, _ verdict: Scope.Verdict
    ) -> (why: BusError, device: ObjectPath)? {
        if case .refused = verdict { return nil }
        guard !scope.limits.isEmpty, let device = scope.device(of: path) else { return nil }
        return clearance.refusal(ofCall: path, call.interface, member, device).map { ($0, device) }
    }

    /// Refuses a call that the grant does not permit, and records that.
    func refuse(_ call: Message, narrowed why: BusError, _ device: ObjectPath) {
        if let accessory = scope.devices[device] { identity.recordRefusal(of: accessory, why: why.message) }
        refuse(call, why)
    }

    private func recordUse(of device: ObjectPath, as use: String) {
        if let accessory = scope.devices[device] { identity.recordUse(of: accessory, as: use) }
    }

    // MARK: Passing on

    /// Passes a call on and its answer back.
    ///
    /// - Parameters:
    ///   - device: the call's device; nil for the adapter and for all objects.
    ///   - matter: the subject of its answer, if not the device.
    ///   - lane: the calls that it stands behind.
    ///   - other: sent in the call's place.
    ///   - need: the matter that must still be allowed when its turn has come.
    ///   - adapting: makes the client's answer of the service's.
    func pass(
        _ call: Message, about device: ObjectPath?, as matter: Matter? = nil, in lane: ServiceQueue.Lane = .service,
        saying other: Message? = nil, needing need: Matter? = nil,
        adapting: @escaping (Message) throws(BusError) -> Message = { $0 }
    ) {
        forward(call, about: device, in: lane, saying: other, needing: need) { [weak self] answer in
            guard let self else { return }
            do throws(BusError) {
                self.answer(call, try adapting(answer), about: matter ?? device.map { .device($0) } ?? .app)
            } catch {
                self.connection.fail(call, error, from: self.service)
            }
        }
    }

    private func answer(_ call: Message, _ answer: Message, about matter: Matter) {
        connection.pass(answer, answering: call, from: service, about: matter)
    }

    /// Passes a call on, and answers it where that fails.
    ///
    /// - Parameter onReply: gets the service's reply, and answers the client.
    func forward(
        _ call: Message, about device: ObjectPath?, in lane: ServiceQueue.Lane = .service, saying other: Message? = nil,
        needing need: Matter? = nil, onReply: @escaping (Message) -> Void
    ) {
        do throws(BusError) {
            let mayStart = { [clearance] in need.flatMap { clearance.refusal(of: $0) } }
            try upstream.forward(other ?? call, about: device, in: lane, mayStart: mayStart) { [weak self] outcome in
                // Signals before the answer come first, also for a client that listens on a connection of its own.
                if let self {
                    self.observer?.catchUpOthers(of: self.connection.name)
                    self.shown.catchUp()
                }
                if case .reply(let answer) = outcome { onReply(answer) } else { self?.answerFailure(call, outcome) }
            }
        } catch {
            refuse(call, error)
        }
    }

    private func answerFailure(_ call: Message, _ outcome: Upstream.Outcome) {
        switch outcome {
        case .reply(let answer), .error(let answer): self.answer(call, answer, about: .app)
        case .noReply: connection.fail(call, .standard("NoReply", "org.bluez has gone"), from: service)
        case .abandoned(let error):
            // The last grant has ended while all objects were read: the adapter is left. Clients would take an error
            // for the end of the service, and never ask again.
            if scope.devices.isEmpty, feed.alias != nil, isForAllObjects(call) { return answerManagedObjects(call) }
            connection.fail(call, error, from: service)
        }
    }

    private func passToAttribute(_ call: Message, _ path: ObjectPath, _ member: String, _ device: ObjectPath) {
        var need = Matter.link(device)
        if case .use(let use) = CallNeed(path, call.interface, member, device) { need = .use(use) }
        if let why = clearance.refusal(of: need) { return refuse(call, why) }
        recordUse(of: device, as: member)
        // The app receives the answer to a write although it has released the link meanwhile.
        let matter: Matter = GATTSessions.reveals(member) ? need : .device(device)
        pass(call, about: device, as: matter, in: .link(device), needing: need) { [weak self] answer throws(BusError) in
            guard let self else { return answer }
            if let why = self.clearance.refusal(of: matter) {
                if member == "StartNotify" { self.upstream.stopNotifying(path) }
                throw why
            }
            return try self.sessions.answered(answer, to: call, path, member, device)
        }
    }

    // MARK: Links

    /// An app that connects holds the link from then on, beside other apps.
    private func connect(_ call: Message, _ device: ObjectPath) {
        guard let app = identity.app else { return }
        recordUse(of: device, as: "Connect")
        let client = LinkShares.Client(name: connection.name, app: app)
        guard links.handle(.connectRequested(device, client)) == .forward else { return reply(to: call, []) }
        // Of a connected device bluetoothd might connect the classic side instead (BlueZVersions.swift): it is only
        // asked whether the link is up.
        let isUp = links.isUp(device) && scope.devices[device].map { environment.authority.isLowEnergyOnly($0) } == true
        let timesUp = links.timesUp(device)
        do throws(BusError) {
            let asked = isUp ? try CallOut.viewLink.method.message(at: device) : call
            try upstream.forward(asked, about: device, in: nil) { [weak self] outcome in
                self?.connectEnded(call, device, client, outcome, timesUp: timesUp) { error in
                    if isUp { self?.connect(call, device) } else { self?.refuse(call, error) }
                }
            }
        } catch {
            links.handle(.connectAnswered(device, client, hasWorked: false))
            refuse(call, error)
        }
    }

    /// - Parameters:
    ///   - timesUp: how often the link had come up when the client asked for it.
    ///   - onBroken: called when `Connect` has worked, and the link is down.
    private func connectEnded(
        _ call: Message, _ device: ObjectPath, _ client: LinkShares.Client, _ outcome: Upstream.Outcome, timesUp: Int,
        onBroken: @escaping (BusError) -> Void
    ) {
        guard case .reply = outcome else {
            if case .abandoned = outcome {
                links.handle(.connectAbandoned(device, client))
            } else {
                links.handle(.connectAnswered(device, client, hasWorked: false))
            }
            guard case .error(let answer) = outcome else { return answerFailure(call, outcome) }
            // The signals of a link that came up and ended come on another connection than the answer.
            return feed.readLink(device) { [weak self] in
                guard let self else { return }
                guard self.links.timesUp(device) > timesUp, let accessory = self.scope.devices[device],
                    let reason = self.environment.authority.linkEndedAtOnce(accessory), let error = answer.error
                else { return self.answerFailure(call, outcome) }
                self.refuse(call, BusError(name: error.name, message: "\(error.message): \(reason)"))
            }
        }
        links.handle(.connectAnswered(device, client, hasWorked: true))
        // The link is read on the connection that receives its signals: no older signal can arrive after the answer.
        feed.readLink(device) { [weak self] in
            guard let self else { return }
            let isGranted = self.scope.devices[device] != nil && self.identity.app == client.app
            switch self.links.handle(.connectConfirmed(device, client, isGranted: isGranted)) {
            case .held:
                self.observer?.clientNeedsChanged()
                self.reply(to: call, [])
            case .broken: onBroken(.bluez(.failed, "the link dropped immediately"))
            default: self.refuse(call, .unknownObject(device))
            }
        }
    }

    /// An app that disconnects gives its share of the link back; the last one ends it. As from bluetoothd, the
    /// services' end comes first, then the answer, and then the link's end.
    private func disconnect(_ call: Message, _ device: ObjectPath) {
        // It may have waited.
        if let why = clearance.refusal(of: .device(device)) { return refuse(call, why) }
        guard let app = identity.app else { return }
        links.beginDisconnect(device)
        switch links.handle(.disconnectRequested(device, app)) {
        case .released:
            shown.signalServicesGone(device)
            reply(to: call, [])
        case .notConnected: refuse(call, .bluez(.notConnected, "Not Connected"))
        default: return passDisconnect(call, device)
        }
        links.endDisconnect(device)
    }

    private func passDisconnect(_ call: Message, _ device: ObjectPath) {
        do throws(BusError) {
            try upstream.forward(call, about: device, in: nil) { [weak self, links] outcome in
                if case .reply(let answer) = outcome, let self {
                    self.shown.signalServicesGone(device)
                    self.answer(call, answer, about: .app)
                } else {
                    self?.answerFailure(call, outcome)
                }
                links.endDisconnect(device)
            }
        } catch {
            refuse(call, error)
            links.endDisconnect(device)
        }
    }

    /// A link's end is signalled next: pending messages of the radio service must be passed on before.
    func catchUp() {
        if upstream.isSubscribed { upstream.catchUp() }
        sessions.catchUp()
    }

    /// A link has changed for some app: signals it if that is this one, and ends the sessions of a lost link.
    func linkChanged(_ device: ObjectPath) {
        guard isEngaged else { return }
        shown.signalLink(device) { endSessions(of: device) }
    }

    /// Passes on why a link ends.
    func linkEnds(_ device: ObjectPath, _ message: Message) {
        guard isEngaged else { return }
        shown.passEnd(message, of: device)
    }

    private func endSessions(of device: ObjectPath) {
        for characteristic in sessions.endAll(of: device) { upstream.stopNotifying(characteristic) }
    }

    // MARK: Objects

    private func answerAgent(_ call: Message, _ member: String) {
        do throws(BusError) {
            try agent.handle(member, try call.arguments())
            reply(to: call, [])
        } catch {
            refuse(call, error)
        }
    }

    private func answerManagedObjects(_ call: Message) {
        let common = shown.showAdapters()
        guard !scope.devices.isEmpty || scope.heard?.isEmpty == false else { return reply(to: call, [ObjectTree.value(common)]) }
        pass(call, about: nil, in: .objects) { [shown] answer throws(BusError) in
            let devices = shown.objects(try answer.arguments(limits: .generous).first?.entries ?? [])
            return try call.reply([ObjectTree.value(shown.commonObjects.merging(devices) { _, device in device })])
        }
    }

    private func isForAllObjects(_ call: Message) -> Bool {
        if case .managedObjects? = verdict(on: call)?.2 { true } else { false }
    }

    // MARK: Discovery

    private func answerDiscovery(_ call: Message, _ adapter: ObjectPath, _ member: String) {
        guard shown.isPowered(adapter) else { return refuse(call, .notReady) }
        if member == "SetDiscoveryFilter" { return setFilter(call) }
        guard member == "StartDiscovery", let app = identity.app else { return passDiscovery(call, adapter, member) }
        let inputs = Set(scope.devices.filter { environment.authority.isInput($0.value) }.keys)
        // A short search must not be over before the links that hide devices are down.
        links.handle(.discoveryRequested(Array(scope.devices.keys), app, inputs: inputs)) { [weak self] in
            self?.passDiscovery(call, adapter, member)
        }
    }

    private func setFilter(_ call: Message) {
        do throws(BusError) {
            guard call.signature == "a{sv}" else {
                throw .invalidArguments("SetDiscoveryFilter takes (a{sv}), not (\(call.signature))")
            }
            guard let path = call.path else { return }
            let filter = try DiscoveryFilter(try call.arguments().first)
            let other = try CallOut.viewDiscoveryFilter.method.message(at: path, [.vardict(filter.values)])
            pass(call, about: nil, saying: other)
        } catch {
            refuse(call, error)
        }
    }

    private func passDiscovery(_ call: Message, _ adapter: ObjectPath, _ member: String) {
        forward(call, about: nil) { [weak self] answer in
            guard let self else { return }
            self.answer(call, answer, about: .app)
            // Clients wait for the answer first, as from bluetoothd.
            if member == "StartDiscovery" || member == "StopDiscovery" {
                self.shown.setDiscovering(member == "StartDiscovery", with: adapter)
                self.shown.signalAdapters()
            }
        }
    }

    // MARK: Changes

    /// The radio service has added interfaces.
    func objectsAdded(_ path: ObjectPath, _ interfaces: [String: DBusValue]) {
        if isEngaged { shown.signalAdded(path, interfaces) }
    }

    /// The radio service has removed interfaces.
    func objectsRemoved(_ path: ObjectPath, _ interfaces: [String]) {
        if isEngaged { shown.signalRemoved(path, interfaces) }
    }

    /// The radio service has gone, or is another one: nothing that was begun there is left.
    func serviceReplaced() {
        upstream.abandonCalls(.standard("NoReply", "org.bluez has gone"))
        closeUpstream()
        shown.reset()
        agent = Agent()
        if isEngaged { engagement = .replaced }
    }

    /// Reads the grants again: devices without a grant are cut off before this returns.
    func updateScope() {
        let app = identity.app
        identity.reconsider()
        // Who spoke for an app and does not any more may have been its last client.
        defer { if app != nil, identity.app != app { observer?.clientNeedsChanged() } }
        latestCall = nil
        let hadDevices = !scope.isEmpty
        let change = shown.setScope(
            Scope(adapter: environment.authority.adapter, granted: identity.grantedDevices, heard: identity.heardDevices))
        guard isEngaged else { return }
        for device in change.removed { cutOff(device) }
        if !scope.limits.isEmpty {
            for characteristic in sessions.endForbidden() { upstream.stopNotifying(characteristic) }
        }
        if scope.isEmpty, hadDevices { closeUpstream() }
        openUpstream()
        announce(change.added)
        shown.endDiscoveryWithoutPower()
        if feed.alias != nil { shown.signalAdapters() }
    }

    /// Announces devices that come into the client's scope. At first the client asks for them itself.
    private func announce(_ added: Set<ObjectPath>) {
        guard feed.alias != nil, engagement != .replaced || !scope.adapters.isEmpty else { return }
        let former = engagement
        if !isFollowing { engagement = .following(unread: nil) }
        let devices = former == .replaced ? Set(scope.devices.keys).union(scope.heard ?? []) : added
        guard former != .awaitingService else { return shown.assumeAnnounced() }
        if !devices.isEmpty { readObjects(of: devices) }
    }

    private static let fewDevices = 32

    /// Reads the objects to announce, once at a time: in a crowd devices come in bursts. A device that is heard has one
    /// object: a few are cheaper to read than everything.
    private func readObjects(of devices: Set<ObjectPath>) {
        if let waiting = unread { return unread = waiting.union(devices) }
        guard upstream.isOpen else { return }
        unread = []
        if devices.count <= Self.fewDevices, devices.allSatisfy(scope.hears) {
            return upstream.properties(of: devices.sorted()) { [weak self] in
                self?.shown.signalHeard($0, $1)
            } completion: {
                [weak self] in
                self?.haveRead()
            }
        }
        upstream.managedObjects { [weak self] objects in
            self?.shown.signalObjects(objects, of: devices)
            self?.haveRead()
        }
    }

    private func haveRead() {
        let later = unread ?? []
        unread = nil
        if !later.isEmpty { readObjects(of: later) }
    }

    /// Cuts a device off that is out of scope: calls, the link, notifications, descriptors, and then the objects.
    private func cutOff(_ device: ObjectPath) {
        upstream.abandonCalls(about: device, .unknownObject(device))
        links.handle(.clientCutOff(device, client: connection.name))
        endSessions(of: device)
        upstream.unsubscribe(from: device)
        shown.signalGone(device)
    }

    private func openUpstream() {
        guard !scope.isEmpty, let owner = feed.owner, upstream.open(onDisconnect: { [weak self] in self?.closeUpstream() }) else {
            return
        }
        // Without match rules the signals are not needed.
        guard connection.isListening else { return }
        upstream.subscribe(to: scope.devices.keys, of: owner) { [weak self] in self?.shown.signalChanged($0, of: $1) }
        listen(to: owner)
    }

    /// Follows all devices where the app hears kinds. One rule for each would be a thousand for the bus.
    private func listen(to owner: String, busKnows: Bool = false) {
        guard scope.heard != nil else { return upstream.stopListening() }
        upstream.listen(to: owner, busKnows: busKnows) { [weak self] in self?.shown.signalHeard($0) }
    }

    // MARK: Between two runs

    /// Leaves all that the client has begun to the next run; nil when that is not possible.
    func leave(_ baggage: inout Baggage) -> LeftState? {
        guard isEngaged else { return [:] }
        upstream.abandonCalls(ClientConnection.restarting)
        guard let connection = upstream.leave(&baggage) else { return nil }
        var state = shown.left
        for part in [connection, sessions.leave(&baggage)] { state.merge(part) { $1 } }
        state["Agent"] = agent.path.map { .objectPath($0) }
        return state
    }

    /// - Returns: false when something that the client relies on is lost.
    func resume(_ state: LeftState, _ baggage: Baggage) -> Bool {
        guard state["Devices"] != nil else { return true }
        engagement = .following(unread: nil)
        agent = Agent(path: state.path("Agent"))
        shown.resume(state)
        sessions.resume(state, baggage)
        let owner = feed.owner ?? BlueZ.service
        guard
            upstream.resume(
                state, baggage, devices: connection.isListening ? Array(scope.devices.keys) : [], of: owner,
                onDisconnect: { [weak self] in self?.closeUpstream() },
                { [weak self] in self?.shown.signalChanged($0, of: $1) })
        else { return false }
        if connection.isListening, upstream.isOpen { listen(to: owner, busKnows: true) }
        return true
    }

    /// The client hears that all that it has is gone, before its connection closes.
    func endAll() {
        guard isEngaged else { return }
        upstream.abandonCalls(ClientConnection.restarting)
        for device in shown.setScope(Scope()).removed { cutOff(device) }
        shown.signalAdapters()
    }

    private func closeUpstream() {
        upstream.close()
        unread = nil
        sessions.clearNotifications()
        shown.endDiscovery()
    }
}

/// A call's header and verdict.
private struct RoutedCall {
    let path: ObjectPath
    let interface: String?
    let member: String
    let verdict: Scope.Verdict

    func isSame(as call: Message) -> Bool {
        guard call.hasPath(path), call.hasMember(member) else { return false }
        return interface.map { call.hasInterface($0) } ?? !call.namesInterface
    }
}

// SPDX-License-Identifier: Apache-2.0
// A client's org.bluez: each call is checked against the scope, and answered from the feed, forwarded over the
// client's own connection, or refused. When a grant ends, its devices are cut off before that returns.

internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit
internal import Logging

/// Serves a client's calls to org.bluez.
final class BlueZProxy {
    let environment: ViewEnvironment
    let connection: ClientConnection
    let identity: ClientIdentity
    let clearance: Clearance
    private let share: Share
    let shown: ShownObjects
    let upstream: Upstream
    let sessions: GATTSessions
    private(set) weak var observer: (any ViewClientObserver)?
    private var engagement = Engagement.none

    private enum Engagement: Equatable {
        /// The client has neither called org.bluez nor asked for its signals.
        case none
        /// It has, and the service has been absent since.
        case awaitingService
        /// It is signalled changes; while objects are read, with the devices to announce after another reading.
        case following(unread: Set<ObjectPath>?)
        /// The service was lost or replaced: adapter and devices must be announced anew.
        case replaced
        /// The client is disconnected. A call that it made before may come to its turn afterwards.
        case ended
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

    var feed: RadioFeed { environment.feed }
    var links: LinkCoordinator { environment.links }
    var scope: Scope { shown.scope }
    var service: String { feed.alias ?? BlueZ.service }

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
    var isEngaged: Bool { engagement != .none && !hasEnded }
    /// Whether the client is disconnected: nothing may be begun for it any more.
    var hasEnded: Bool { engagement == .ended }

    /// The devices that exist for the client.
    var devices: Dictionary<ObjectPath, AccessoryID>.Keys { scope.devices.keys }

    /// The client is disconnected: all that it began ends.
    func connectionClosed() {
        closeUpstream()
        engagement = .ended
        sessions.closeDescriptors()
    }

    // MARK: Calls

    /// The client calls the service, or asks for its signals.
    ///
    /// - Parameter completion: called once the client receives signals and the service's presence is known.
    func engage(completion: @escaping () -> Void) {
        if !isEngaged, !hasEnded {
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
        guard !hasEnded else { return }
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

    func recordUse(of device: ObjectPath, as use: String) {
        if let accessory = scope.devices[device] { identity.recordUse(of: accessory, as: use) }
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

    func answerManagedObjects(_ call: Message) {
        let common = shown.showAdapters()
        guard !scope.devices.isEmpty || scope.heard?.isEmpty == false else { return reply(to: call, [ObjectTree.value(common)]) }
        pass(call, about: nil, in: .objects) { [shown] answer throws(BusError) in
            let devices = shown.objects(try answer.arguments(limits: .generous).first?.entries ?? [])
            return try call.reply([ObjectTree.value(shown.commonObjects.merging(devices) { _, device in device })])
        }
    }

    func isForAllObjects(_ call: Message) -> Bool {
        if case .managedObjects? = verdict(on: call)?.2 { true } else { false }
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
        guard !hasEnded, !scope.isEmpty, let owner = feed.owner,
            upstream.open(onDisconnect: { [weak self] in self?.closeUpstream() })
        else {
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

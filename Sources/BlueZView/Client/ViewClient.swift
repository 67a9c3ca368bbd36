// SPDX-License-Identifier: Apache-2.0
// One client of the view: routes its calls to the bus driver, to org.bluez or to our own service. Before Hello only the
// bus driver answers.

internal import AccessoryModel
internal import CallerIdentity
internal import DBusKit
internal import Logging

/// The view, for its clients.
protocol ViewClientObserver: AnyObject {
    func clientGreeted(_ name: String)
    /// Many bytes are unread.
    func clientHasBacklog()
    /// The client needs other devices followed.
    func clientNeedsChanged()
    /// The app's other connections must receive pending signals first.
    func catchUpOthers(of name: String)
}

/// A connection to the view.
final class ViewClient {
    private let peer: Connection
    private let pinned: PinnedCaller
    private let share: Share
    private let environment: ViewEnvironment
    private let connection: ClientConnection
    private let identity: ClientIdentity
    private let bus: BusDriver
    let bluez: BlueZProxy
    private let peripherals: ViewObject
    private weak var observer: (any ViewClientObserver)?
    private var helloDeadline: LoopSource?
    private var hasSaidHello = false

    init(
        _ peer: Connection, _ pinned: PinnedCaller, _ share: Share, _ environment: ViewEnvironment,
        observer: any ViewClientObserver
    ) {
        self.peer = peer
        self.pinned = pinned
        self.share = share
        self.environment = environment
        self.observer = observer
        identity = ClientIdentity(pinned, of: peer.uniqueName, on: peer.loop, environment.authority, environment.log)
        let clearance = Clearance(identity, environment.links, environment.feed)
        connection = ClientConnection(peer, environment.limits, share, clearance, environment.log, observer: observer)
        let bluez = BlueZProxy(environment, connection, identity, clearance, share, observer: observer)
        self.bluez = bluez
        bus = BusDriver(environment, connection, identity) { [weak bluez] in bluez?.engage(completion: $0) }
        peripherals = ViewObject(connection, identity, environment.service)
        helloDeadline = peer.loop.after(.seconds(environment.limits.timeToHello)) { [weak connection] in
            connection?.cutOff("it did not call Hello in time")
        }
        identity.onRefused = { [weak self] in
            self?.updateScope()
            // It may have been its app's last client.
            self?.observer?.clientNeedsChanged()
        }
    }

    /// Whose share it has.
    var party: Party { share.party }

    /// Its unique name in the view.
    var name: String { connection.name }

    /// Its calls that are not answered yet.
    var callsInFlight: Int { peer.unanswered.count }

    /// The app that it speaks for; nil for one that is none.
    var app: AppID? { identity.app }

    /// The app whose own socket it came by.
    var socket: AppID? { pinned.caller.socket }

    /// The devices that are to be followed for it; nil when it does not use org.bluez.
    var followedDevices: Set<ObjectPath>? { bluez.isEngaged ? Set(bluez.devices) : nil }

    /// Bytes that wait for it to read them.
    var unreadBytes: Int { peer.outgoingBytes }

    /// Limits its later messages.
    func limitMessages(to bytes: Int) {
        peer.limitMessages(to: bytes)
    }

    /// Its connection is not read for now.
    func holdReading() { peer.holdReading() }
    func resumeReading() { peer.resumeReading() }

    // MARK: Between two runs

    /// Leaves the client to the next run; nil when that is not possible.
    func leave(_ baggage: inout Baggage) -> LeftState? {
        guard hasSaidHello, identity.refusal == nil, let begun = bluez.leave(&baggage) else { return nil }
        bus.signalOwnName(isPresent: false)
        guard var state = connection.leave(&baggage) else { return nil }
        for part in [begun, bus.left, peripherals.left] { state.merge(part) { $1 } }
        state["Process"] = process
        state["App"] = socket.map { .string($0.rawValue) }
        return state
    }

    /// Goes on with a client that an earlier run has left.
    ///
    /// - Returns: false when something that it relies on is lost, or it is another program by now.
    func resume(_ state: LeftState, _ baggage: Baggage) -> Bool {
        guard state["Process"] == process else { return false }
        helloDeadline?.cancel()
        hasSaidHello = true
        connection.resume(state)
        bus.resume(state)
        peripherals.resume(state)
        environment.service.adopt(peer, pinned)
        observer?.clientGreeted(name)
        guard bluez.resume(state, baggage) else { return false }
        bus.signalOwnName(isPresent: true)
        return true
    }

    /// Ends the connection of a client that the next run does not go on with: it hears that all is gone first.
    func endForRestart() {
        if hasSaidHello {
            bluez.endAll()
            bus.signalOwnName(isPresent: false)
        }
        _ = peer.leave(answering: ClientConnection.restarting)
        peer.close()
    }

    /// Identifies its process, also against a later one with the same number, and its program.
    private var process: DBusValue {
        .structure([.uint64(pinned.began ?? 0), .string(pinned.caller.executable ?? "")])
    }

    // MARK: Going

    /// Ends the connection; the rest follows when it is closed.
    func cutOff(_ reason: String) {
        connection.cutOff(reason)
    }

    /// Ends all that it began.
    func connectionClosed() {
        helloDeadline?.cancel()
        bluez.connectionClosed()
        connection.closed()
        if hasSaidHello { environment.service.dismiss(peer) }
    }

    // MARK: Calls

    /// Has a call go to the one it is for.
    func serve(_ call: Message) {
        guard hasSaidHello else { return greet(call) }
        if call.hasInterface(Bus.peer) { return bus.answerPeer(call) }
        switch bus.receiver(of: call) {
        case .bus: bus.serve(call)
        case .bluez: bluez.serve(call)
        case .service where call.hasPath(ViewObject.path): servePeripherals(call)
        case .service: environment.service.receive(call, from: peer)
        case .unknown(let name): bus.refuseUnknownName(call, to: name)
        }
    }

    private func servePeripherals(_ call: Message) {
        // It may be another program by now, and then none of the app's.
        if !identity.isAccepted { updateScope() }
        peripherals.serve(call)
    }

    private func greet(_ call: Message) {
        guard bus.greet(call) else { return cutOff("it did not begin with Hello") }
        hasSaidHello = true
        helloDeadline?.cancel()
        environment.service.adopt(peer, pinned)
        environment.log.debug(
            "client of the view", metadata: ["client": "\(connection.name)", "caller": "\(pinned.caller.summary)"])
        observer?.clientGreeted(name)
    }

    // MARK: Changes

    /// Grants or the app may have changed: the client is cut off from accessories without a grant before this
    /// returns.
    func updateScope() {
        bluez.updateScope()
        peripherals.update()
    }

    /// The radio service has come, gone, or been replaced.
    func serviceChanged() {
        if bus.hasNewServiceOwner {
            bluez.serviceReplaced()
            bus.signalServiceOwner()
        }
        updateScope()
    }
}

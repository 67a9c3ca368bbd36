// One client of the view: where its calls go, what it asked to hear, and the edge of what it may reach (Scope). What it says to
// org.bluez and hears from there is in ViewClient+BlueZ; what the bus itself would answer in ViewClient+Bus.

internal import AccessoryModel
internal import CallerIdentity
internal import DBusKit
internal import Logging

final class ViewClient {
    let peer: Connection
    let pinned: PinnedCaller
    unowned let view: BlueZView
    /// It has said hello.
    private(set) var isRegistered = false
    var patience: LoopSource?
    var rules: [MatchRule] = []

    /// The app that it speaks for; nil for one that is none.
    var identity: ViewIdentity?
    var app: AppID? { identity?.app }
    /// It is no longer what it was when it connected, and nothing is for it any more.
    var exile: IdentityFailure?
    var scope = Scope()
    /// It has called org.bluez: from then on it is told what changes there.
    var isEngaged = false
    /// Its first call was served.
    var isOpened = false
    /// Its own connection to the bus that carries org.bluez.
    var upstream: Connection?
    var subscriptions: [ObjectPath: Subscription] = [:]
    var calls: [Int: CallInFlight] = [:]
    var callsMade = 0
    /// Calls that wait until the service is known.
    var callsWaiting = 0
    /// Characteristics that it asked to be notified of.
    var notifying: Set<ObjectPath> = []
    var relays: [Relay] = []
    var isDiscovering = false
    /// What it was told of the links last, and of the adapter.
    var shownLinks: [ObjectPath: LinkShares.State] = [:]
    var shownAdapter: [String: DBusValue] = [:]
    /// The name it knows org.bluez by.
    var knownService: String?
    var used: Set<AccessoryID> = []

    struct CallInFlight {
        let message: Message
        let device: ObjectPath?
        /// On the client's own connection to the bus.
        let serial: UInt32
        var connects: Bool { message.member == "Connect" && message.interface ?? Scope.deviceInterface == Scope.deviceInterface }
    }

    struct Relay {
        let characteristic: ObjectPath
        let relay: DescriptorRelay
    }

    /// Counted up: who came later has the higher one.
    let number: Int

    init(_ peer: Connection, _ pinned: PinnedCaller, number: Int, _ view: BlueZView) {
        self.number = number
        self.peer = peer
        self.pinned = pinned
        self.view = view
        knownService = view.feed.alias
        identity = try? view.authority.app(of: pinned)
        peer.detouredSender = Self.serviceAlias
        peer.onDetoured = { [weak self] in self?.checkReading() }
    }

    var name: String { peer.uniqueName }

    // MARK: Coming and going

    /// Ends the connection; the rest follows when it is closed.
    func cut(_ reason: String) {
        view.log.warning("client of the view cut off", metadata: ["client": "\(name)", "reason": "\(reason)"])
        peer.close()
    }

    /// The connection is closed.
    func end() {
        patience?.cancel()
        closeUpstream()
        for relay in relays { relay.relay.close() }
        relays = []
    }

    // MARK: Calls

    func take(_ message: Message) {
        guard isRegistered else {
            guard message.member == "Hello", message.interface == nil || message.interface == Bus.name,
                message.destination == nil || message.destination == Bus.name
            else {
                answer(message, .accessDenied("the first message is Hello"), from: Bus.name)
                return cut("it did not begin with Hello")
            }
            isRegistered = true
            patience?.cancel()
            reply(message, [.string(name)], from: Bus.name)
            signal(Bus.name, "NameAcquired", [.string(name)])
            return view.registered(self)
        }
        if message.interface == Bus.peer { return takePeerCall(message) }
        switch message.destination {
        case nil, Bus.name: takeBusCall(message)
        case Scope.service, view.feed.alias: takeBlueZCall(message)
        case view.service.name, Self.serviceAlias: view.service.take(message, from: peer)
        case let other?:
            answer(message, .standard("ServiceUnknown", "The name \(other) was not provided by any .service files"), from: Bus.name)
        }
    }

    /// Whoever it is for: it asks whether somebody is at the other end.
    private func takePeerCall(_ message: Message) {
        switch message.member {
        case "Ping": reply(message, [], from: Bus.name)
        case "GetMachineId": reply(message, [.string(Bus.machineID)], from: Bus.name)
        case let other: answer(message, .unknownMethod("no such method: \(Bus.peer).\(other ?? "")"), from: Bus.name)
        }
    }

    /// The unique name that our own service goes by here.
    static let serviceAlias = ":accessorysetup.1"

    // MARK: Sending

    /// Sends what is for this client alone.
    func send(_ message: Message, from sender: String) {
        message.setSender(sender)
        message.setDestination(name)
        deliver(message)
    }

    /// Sends a signal that everybody gets who asked for it.
    func broadcast(_ message: Message, from names: Set<String>, as sender: String) {
        guard rules.contains(where: { $0.matches(message, from: names) }) else { return }
        message.setSender(sender)
        deliver(message)
    }

    private func deliver(_ message: Message) {
        peer.send(message)
        checkReading()
    }

    /// Who does not read is not kept; the others are.
    private func checkReading() {
        if peer.outgoingBytes > view.limits.unreadBytes { cut("it does not read: \(peer.outgoingBytes) bytes wait for it") }
    }

    func reply(_ call: Message, _ arguments: [DBusValue], from sender: String) {
        guard call.wantsReply else { return }
        do {
            send(try call.reply(arguments), from: sender)
        } catch {
            answer(call, error, from: sender)
        }
    }

    func answer(_ call: Message, _ error: BusError, from sender: String) {
        guard call.wantsReply, let message = call.errorReply(error) else { return }
        send(message, from: sender)
    }

    /// A signal of the bus' own, for this client.
    private func signal(_ interface: String, _ member: String, _ arguments: [DBusValue]) {
        guard let message = try? Message.signal(path: Bus.path, interface: interface, member: member, arguments) else { return }
        send(message, from: Bus.name)
    }

    /// Tells that a name has another owner.
    func ownerChanged(_ name: String, from old: String, to new: String) {
        guard
            let message = try? Message.signal(
                path: Bus.path, interface: Bus.name, member: "NameOwnerChanged", [.string(name), .string(old), .string(new)])
        else { return }
        broadcast(message, from: [Bus.name], as: Bus.name)
    }
}

// SPDX-License-Identifier: Apache-2.0
// A connection to a bus: libdbus for the wire (`Transport`). Signals go to subscriptions, calls to the object server,
// an answer to its caller.

internal import CDBus
internal import Effects

/// A private connection to a message bus, used on the thread of its `MainLoop` only.
public final class Connection {
    /// How eagerly the socket is read.
    public enum Reading: Sendable {
        /// As soon as something arrives.
        case immediate
        /// As soon as something arrives; but after a reading of several messages, or while many answers are awaited
        /// (`callEach`), the next one waits for this long. A busy socket then costs a fraction of the wakeups, and a
        /// quiet one is not delayed.
        case adaptive(pause: Duration)
        /// As soon as something arrives; but while more signals arrive than the pace allows, the next reading waits for
        /// its pause after the last one. While an answer is awaited here, nothing waits.
        case streamed(StreamPace)
    }

    /// The name that the bus gave us, `:1.42`; empty until the bus has answered the greeting.
    public private(set) var uniqueName: String
    /// Called once when the bus disconnects.
    public var onDisconnect: (() -> Void)?
    /// Takes method calls; false when no object answers, and libdbus replies `UnknownMethod`.
    public var onCall: ((Message) -> Bool)?
    /// Names that are reached past the bus: connections to a socket of our own.
    public var localPeers: ((String) -> Connection?)?
    /// Asked about each signal and answer before it leaves, whichever way it takes: nil lets it leave, an error says
    /// why not. In place of an answer the error leaves. (Errors are not asked about: they disclose no accessory.)
    public var refusal: ((Message) -> BusError?)?
    /// Whether `callAndWait` lets the service ask a person for a password meanwhile.
    public var allowsInteraction = false
    /// Whether the bus (or the peer) is connected; never true again afterwards.
    public private(set) var isConnected = true
    let transport: Transport
    var subscriptions = Subscriptions()
    /// The other end of a socket of ours; nil for a bus.
    let peer: Peer?
    var answers = PendingAnswers()
    private var numbers = MessageNumbers()

    /// Where it is served; everything that it calls is called there.
    public var loop: MainLoop { transport.loop }
    var raw: OpaquePointer { transport.raw }

    /// Connects and says hello, waiting for both.
    ///
    /// - Throws: the bus' error, or `org.freedesktop.DBus.Error.BadAddress`.
    public convenience init(_ address: Address, loop: MainLoop, reading: Reading = .immediate) throws(BusError) {
        try self.init(try Opening(address), loop: loop, reading: reading)
    }

    /// Says hello on a connection that was begun, waiting for the bus.
    ///
    /// - Throws: the bus' error.
    public init(_ opening: consuming Opening, loop: MainLoop, reading: Reading = .immediate) throws(BusError) {
        let raw = try opening.register()
        transport = Transport(raw, on: loop, reading: reading)
        uniqueName = dbus_bus_get_unique_name(raw).map { String(cString: $0) } ?? ""
        peer = nil
        acceptMessagesOfABus()
        transport.begin(for: self)
    }

    /// Says hello on a connection that was begun, and waits for nothing: later calls follow the greeting.
    ///
    /// - Parameter greeted: gets the bus' answer, once.
    public init(
        greeting opening: consuming Opening, loop: MainLoop, reading: Reading = .immediate,
        greeted: @escaping (Result<Void, BusError>) -> Void
    ) {
        transport = Transport(opening.take(), on: loop, reading: reading)
        uniqueName = ""
        peer = nil
        acceptMessagesOfABus()
        transport.begin(for: self)
        call(BusCall.hello.method, at: Bus.path) { [weak self] result in
            self?.uniqueName = (try? result.get())?.first?.stringValue ?? ""
            greeted(result.map { _ in })
        }
    }

    private func acceptMessagesOfABus() {
        // The most that a message may carry; the bus has a limit of its own, often lower.
        dbus_connection_set_max_message_unix_fds(raw, 64)
        // While more than this is kept unhandled, nothing is read, answers neither: more than all may have waiting.
        dbus_connection_set_max_received_size(raw, 128 << 20)
    }

    /// The other end of a socket, from its first byte on; no bus stands behind it.
    init(peer raw: OpaquePointer, named name: String, handshake: any PeerHandshake, limits: PeerLimits, loop: MainLoop) {
        transport = Transport(raw, on: loop, reading: .immediate)
        uniqueName = name
        let peer = Peer(takesDescriptors: true)
        self.peer = peer
        limit(to: limits)
        // The socket exists: the connection was just made.
        peer.greeting = Greeting(on: transport.socket ?? -1, handshake, loop: loop) { [weak self] in self?.greeted($0) }
    }

    /// Takes up the connection that an earlier process has left: to a peer with these limits, or to a bus.
    init(resuming raw: OpaquePointer, _ left: LeftConnection, peer limits: PeerLimits?, reading: Reading, loop: MainLoop) {
        transport = Transport(raw, on: loop, reading: reading)
        uniqueName = left.uniqueName
        peer = limits.map { _ in Peer(takesDescriptors: left.takesDescriptors) }
        numbers = MessageNumbers(after: left.lastSerial)
        if let limits { limit(to: limits) } else { acceptMessagesOfABus() }
        transport.begin(for: self)
    }

    // MARK: Sending

    /// Queues a message for sending.
    public func send(_ message: Message) {
        if let why = whyNot(message) {
            guard let error = message.errorInPlace(why) else { return }
            return send(error)
        }
        if let other = receiver(of: message) {
            other.send(message)
            other.peer?.onLocalDelivery?()
            return
        }
        if let peer, !peer.takesDescriptors, message.hasDescriptors {
            // Left out, it would be waited for.
            guard let refusal = message.errorInPlace(.noDescriptors) else { return }
            return send(refusal)
        }
        peer?.unanswered.remove(dbus_message_get_reply_serial(message.raw))
        numbers.number(message)
        dbus_connection_send(raw, message.raw, nil)
    }

    /// Why a message may not leave; nil when it may.
    private func whyNot(_ message: Message) -> BusError? {
        guard let refusal, [.signal, .reply].contains(message.kind) else { return nil }
        return refusal(message)
    }

    /// The connection to a destination that is reached past the bus.
    private func receiver(of message: Message) -> Connection? {
        guard let localPeers, let destination = dbus_message_get_destination(message.raw),
            let other = localPeers(String(cString: destination))
        else { return nil }
        if let name = other.peer?.localPeerSender { message.setSender(name) }
        return other
    }

    /// Ends the connection; `onDisconnect` is called from the loop.
    public func close() {
        endGreeting()
        dbus_connection_close(raw)
    }

    private func limit(to limits: PeerLimits) {
        limitMessages(to: limits.messageBytes)
        dbus_connection_set_max_message_unix_fds(raw, limits.messageDescriptors)
        dbus_connection_set_max_received_unix_fds(raw, limits.messageDescriptors)
    }

    /// How long a message of a peer may be, from the next one on; a longer one ends the connection.
    public func limitMessages(to bytes: Int) {
        dbus_connection_set_max_message_size(raw, bytes)
        // Past this the socket is not read until earlier messages were handled.
        dbus_connection_set_max_received_size(raw, bytes)
    }

    /// Bytes that wait for the socket.
    public var outgoingBytes: Int { dbus_connection_get_outgoing_size(raw) }

    /// The socket, to be asked about, not used.
    public var socket: Int32? { transport.socket }

    /// Sends all queued messages, waiting for the socket; for programs that are about to end.
    public func flush() {
        dbus_connection_flush(raw)
    }

    /// Calls a method. `completion` is called exactly once, from the loop, unless the call is cancelled first.
    ///
    /// - Parameter timeout: after this long the answer is `org.freedesktop.DBus.Error.NoReply`.
    @discardableResult
    public func call(
        _ message: Message, timeout: Duration = .seconds(25),
        completion: @escaping (Result<Message, BusError>) -> Void
    ) -> PendingCall {
        if let other = receiver(of: message) { return other.call(message, timeout: timeout, completion: completion) }
        let effect = Effect(.call, message.calledMethod)
        let pending = PendingCall(effect.answering(completion))
        var handle: OpaquePointer?
        numbers.number(message)
        if dbus_connection_send_with_reply(raw, message.raw, &handle, timeout.milliseconds) == 0 || handle == nil {
            loop.soon { pending.finish(.failure(.disconnected("not connected to the bus"))) }
            return pending
        }
        effect.done { flush() }
        answers.add(pending)
        transport.expectAnswer()
        pending.onFinish = { [weak self] in self?.answers.remove($0) }
        pending.adopt(handle!)
        return pending
    }

    /// Passes a call on: `completion` gets the answer as it came, an error too, or nil when the bus disconnects. There
    /// is no time-out; `forget` ends the wait. Cheaper than `call`, for calls by the thousand.
    public func forward(_ message: Message, completion: @escaping (Message?) -> Void) -> UInt32 {
        forward(message, Effect(.call, message.calledMethod), completion)
    }

    func forward(_ message: Message, _ effect: Effect, _ completion: @escaping (Message?) -> Void) -> UInt32 {
        var serial: UInt32 = 0
        numbers.number(message)
        guard isConnected, dbus_connection_send(raw, message.raw, &serial) != 0 else {
            loop.soon { completion(nil) }
            return 0
        }
        effect.done { flush() }
        answers.addForwarded(serial, effect.answering(completion))
        transport.expectAnswer()
        return serial
    }

    /// Forgets a call that was passed on: a late answer is dropped.
    public func forget(_ serial: UInt32) {
        _ = answers.removeForwarded(serial)
    }

    /// Leaves a peer's messages in the socket until `resumeReading`, which should follow soon: meanwhile its
    /// disconnection is not seen.
    public func holdReading() { transport.hold() }

    /// Reads again.
    public func resumeReading() { transport.resume() }

    /// Reads pending messages, before an event of another connection is passed on.
    public func catchUp() { transport.catchUp() }

    /// Writes a message's number where libdbus must not count.
    func number(_ message: Message) { numbers.number(message) }

    /// The number of the last message that was numbered here.
    var lastSerial: UInt32 { numbers.last }

    // MARK: A peer

    /// Whether a peer's greeting is over, and messages follow.
    var isGreeted: Bool { peer?.greeting == nil }

    private func greeted(_ end: Greeting.End) {
        if case .begins(let agrees) = end { peer?.takesDescriptors = agrees }
        endGreeting()
        if case .failed = end { close() }
    }

    /// From now on libdbus reads.
    private func endGreeting() {
        guard let peer, peer.greeting != nil else { return }
        peer.greeting = nil
        transport.begin(for: self)
    }

    /// Of a peer: its calls that have no answer yet.
    public var unanswered: Set<UInt32> { peer?.unanswered ?? [] }

    /// Of a peer: the sender of messages that arrive past the bus.
    public var localPeerSender: String? {
        get { peer?.localPeerSender }
        set { peer?.localPeerSender = newValue }
    }

    /// Of a peer: takes its signals, which have no sender and so no subscription.
    public var onPeerSignal: ((Message) -> Void)? {
        get { peer?.onSignal }
        set { peer?.onSignal = newValue }
    }

    /// Of a peer: called after each message that was sent to it past the bus.
    public var onLocalDelivery: (() -> Void)? {
        get { peer?.onLocalDelivery }
        set { peer?.onLocalDelivery = newValue }
    }

    // MARK: Receiving

    /// Takes a message from the transport: a signal, an answer to a forwarded call, a peer's call.
    func receive(_ message: OpaquePointer) {
        switch dbus_message_get_type(message) {
        case DBUS_MESSAGE_TYPE_SIGNAL: receive(signal: message)
        case DBUS_MESSAGE_TYPE_METHOD_CALL:
            if dbus_message_get_no_reply(message) == 0 { peer?.unanswered.insert(dbus_message_get_serial(message)) }
            _ = onCall?(Message(retaining: message))
        default: answers.removeForwarded(dbus_message_get_reply_serial(message))?(Message(retaining: message))
        }
    }

    private func receive(signal: OpaquePointer) {
        guard dbus_message_is_signal(signal, "org.freedesktop.DBus.Local", "Disconnected") != 0 else {
            let message = Message(retaining: signal)
            return peer?.onSignal?(message) ?? deliver(message)
        }
        isConnected = false
        let (forwarded, calls) = answers.removeAll()
        for completion in forwarded { completion(nil) }
        for call in calls { call.finish(.failure(.disconnected("the bus closed the connection"))) }
        onDisconnect?()
        onDisconnect = nil
    }
}

extension Connection {
    /// The other end of a socket of ours.
    final class Peer {
        /// Until it ends, libdbus does not read.
        var greeting: Greeting?
        /// Whether the peer has agreed to descriptors; with a bus libdbus sees to it.
        var takesDescriptors: Bool
        var unanswered: Set<UInt32> = []
        var localPeerSender: String?
        var onLocalDelivery: (() -> Void)?
        var onSignal: ((Message) -> Void)?

        init(takesDescriptors: Bool) {
            self.takesDescriptors = takesDescriptors
        }
    }
}

/// The numbers of messages, where libdbus does not count them. On a connection that an earlier process has left it
/// would count anew, and a late answer to a call of that process would be taken for one to ours.
private struct MessageNumbers {
    /// 0 while libdbus counts; above its own numbers, which begin at 1.
    private(set) var last: UInt32 = 0
    private let numbersAll: Bool

    init() { numbersAll = false }

    init(after last: UInt32) {
        self.last = last
        numbersAll = true
    }

    mutating func number(_ message: Message) {
        guard numbersAll, dbus_message_get_serial(message.raw) == 0 else { return }
        last &+= 1
        dbus_message_set_serial(message.raw, 1 << 31 | last)
    }

}

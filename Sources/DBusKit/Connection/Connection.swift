// SPDX-License-Identifier: Apache-2.0
// A connection to a bus: libdbus for the wire, its watches and timeouts as sources of the main loop. Messages are taken
// in order by one pump; signals go to subscriptions, calls to the object server, replies to whoever waits for them.

internal import CDBus
internal import CGLib
internal import Effects

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

/// A private connection to a message bus, used on the thread of its `MainLoop` only.
public final class Connection {
    /// How eagerly the socket is read.
    public enum Reading: Sendable {
        /// As soon as something arrives.
        case immediate
        /// As soon as something arrives; but when a drain returned several messages, or many answers are awaited
        /// (`callEach`), the next drain waits, for this long at most and shorter the busier it is. A busy stream then
        /// costs a fraction of the wakeups, and a quiet one is not delayed.
        case adaptive(pause: Duration)
        /// As soon as something arrives; but while signals come at more than the pace allows, the next drain waits for
        /// its pause after the last one. While an answer is awaited here, nothing waits.
        case streamed(StreamPace)
    }

    /// Where it is served; everything that it calls is called there.
    public let loop: MainLoop
    /// The name the bus gave us, `:1.42`.
    public let uniqueName: String
    /// Called once when the bus goes away.
    public var onDisconnect: (() -> Void)?
    /// Takes method calls; false means that nobody answers, and libdbus says `UnknownMethod`.
    public var onCall: ((Message) -> Bool)?
    /// Names that are reached past the bus: connections to a socket of our own.
    public var detour: ((String) -> Connection?)?
    /// Asked about each signal and answer before it goes out, whichever way it takes: nil to let it leave, or why it
    /// may not. In place of an answer the error leaves. (Errors are not asked about: they say nothing of accessories.)
    public var refusal: ((Message) -> BusError?)?
    /// Calls that wait say that a person may be asked for a password meanwhile.
    public var allowsInteraction = false
    /// For a peer: the name that what came by a detour is from, and what is done after each message that did.
    public var detouredSender: String?
    /// Called on a peer after each message that was sent to it by a detour.
    public var onDetoured: (() -> Void)?

    let raw: OpaquePointer
    private let reading: Reading
    private var watches: [OpaquePointer: LoopSource] = [:]
    private var timeouts: [OpaquePointer: LoopSource] = [:]
    private var dispatchSource: LoopSource?
    private var pauses: ReadingPauses?
    /// The watch whose descriptor is not waited for in a pause; nil once libdbus has dropped it.
    private var pausedWatch: OpaquePointer?
    private var isDispatching = false
    /// Dispatching follows: it need not be scheduled.
    private var isReading = false
    let subscriptions = Subscriptions()
    /// Calls without an answer yet: libdbus would let them wait for their time-outs when the bus goes.
    private var waiting: [ObjectIdentifier: PendingCall] = [:]
    private var forwarded = ForwardedCalls()
    /// Signals that came so far.
    private var signals = 0
    /// Messages that were numbered here, not by libdbus.
    var passed: UInt32 = 0
    /// Of a peer: its calls that have no answer yet.
    public private(set) var unanswered: Set<UInt32> = []
    /// Taken up from an earlier process: libdbus would count anew, and a late answer to one of its calls would be taken
    /// for that to one of ours.
    private var numbersAll = false
    /// Whether the bus (or the peer) is there; never true again once it is gone.
    public private(set) var isConnected = true
    /// Of a peer that has not begun to send messages: until then libdbus does not read.
    private var greeting: Greeting?
    /// Whether descriptors may be sent: a peer has to agree, with a bus libdbus sees to it.
    private(set) var takesDescriptors = true
    /// A peer of our own: nothing on it is for libdbus to answer.
    private let isPeer: Bool
    /// Messages of some size that a socket's buffer holds.
    private static let most = 64

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
        self.loop = loop
        self.reading = reading
        raw = try opening.register()
        isPeer = false
        uniqueName = dbus_bus_get_unique_name(raw).map { String(cString: $0) } ?? ""
        takeWhatABusSends()
        integrate()
    }

    private func takeWhatABusSends() {
        // The most that a message may carry; the bus has a limit of its own, often lower.
        dbus_connection_set_max_message_unix_fds(raw, 64)
        // While more than this is kept of what came, nothing is read, answers neither: more than all may have waiting.
        dbus_connection_set_max_received_size(raw, 128 << 20)
    }

    /// The other end of a `BusServer`'s socket, from its first byte on; there is no bus behind it.
    init(peer raw: OpaquePointer, named name: String, at identifier: String, limits: PeerLimits, loop: MainLoop) {
        self.loop = loop
        self.raw = raw
        isPeer = true
        reading = .immediate
        uniqueName = name
        limit(to: limits)
        // There is a socket: the connection was just made.
        greeting = Greeting(on: socket ?? -1, identifier, loop: loop) { [weak self] in self?.greeted($0) }
    }

    /// Takes up the connection that an earlier process has left: to a peer with these limits, or to a bus.
    init(resuming raw: OpaquePointer, _ left: LeftConnection, peer limits: PeerLimits?, reading: Reading, loop: MainLoop) {
        self.loop = loop
        self.raw = raw
        self.reading = reading
        isPeer = limits != nil
        uniqueName = left.uniqueName
        takesDescriptors = left.takesDescriptors
        passed = left.lastSerial
        numbersAll = true
        if let limits { limit(to: limits) } else { takeWhatABusSends() }
        integrate()
    }

    /// Whether the peer has said all that comes before messages.
    var isGreeted: Bool { greeting == nil }

    deinit {
        for source in watches.values { source.cancel() }
        for source in timeouts.values { source.cancel() }
        dispatchSource?.cancel()
        pauses?.end()
        dbus_connection_set_watch_functions(raw, nil, nil, nil, nil, nil)
        dbus_connection_set_timeout_functions(raw, nil, nil, nil, nil, nil)
        dbus_connection_set_dispatch_status_function(raw, nil, nil, nil)
        dbus_connection_remove_filter(raw, Self.filter, Unmanaged.passUnretained(self).toOpaque())
        dbus_connection_close(raw)
        dbus_connection_unref(raw)
    }

    // MARK: Sending

    /// Queues a message for sending.
    public func send(_ message: Message) {
        if let why = whyNot(message) {
            guard let error = message.errorInPlace(why) else { return }
            return send(error)
        }
        if let peer = peer(for: message) {
            peer.send(message)
            peer.onDetoured?()
            return
        }
        if !takesDescriptors, message.hasDescriptors {
            // Left out, it would be waited for.
            guard let refusal = message.errorInPlace(.noDescriptors) else { return }
            return send(refusal)
        }
        noteAnswer(to: dbus_message_get_reply_serial(message.raw))
        number(message)
        dbus_connection_send(raw, message.raw, nil)
    }

    /// Why a message may not leave; nil when it may.
    func whyNot(_ message: Message) -> BusError? {
        guard let refusal, [.signal, .reply].contains(message.kind) else { return nil }
        return refusal(message)
    }

    /// A call of the peer's is answered.
    func noteAnswer(to serial: UInt32) {
        if isPeer, serial != 0 { unanswered.remove(serial) }
    }

    func number(_ message: Message) {
        if numbersAll, dbus_message_get_serial(message.raw) == 0 { dbus_message_set_serial(message.raw, nextPassedSerial()) }
    }

    /// Who is behind a destination that the bus does not know.
    private func peer(for message: Message) -> Connection? {
        guard let detour, let destination = dbus_message_get_destination(message.raw),
            let peer = detour(String(cString: destination))
        else { return nil }
        if let name = peer.detouredSender { message.setSender(name) }
        return peer
    }

    /// Writes the outgoing queue as far as the socket takes it, and reads nothing.
    func writeOut() {
        for watch in watches.keys where dbus_watch_get_flags(watch) & DBUS_WATCH_WRITABLE.rawValue != 0 {
            dbus_watch_handle(watch, DBUS_WATCH_WRITABLE.rawValue)
        }
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
        // Past this the socket is not read until what came before was taken.
        dbus_connection_set_max_received_size(raw, bytes)
    }

    /// Bytes that wait for the socket.
    public var outgoingBytes: Int { dbus_connection_get_outgoing_size(raw) }

    /// The socket, to be asked about, not used.
    public var socket: Int32? {
        var descriptor: Int32 = -1
        return dbus_connection_get_unix_fd(raw, &descriptor) == 0 ? nil : descriptor
    }

    /// Sends what is queued, waiting for the socket; for programs that are about to end.
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
        if let peer = peer(for: message) { return peer.call(message, timeout: timeout, completion: completion) }
        let effect = Effect(.call, message.calledMethod)
        let pending = PendingCall(effect.answering(completion))
        var handle: OpaquePointer?
        let milliseconds = Int32(
            clamping: timeout.components.seconds * 1000 + timeout.components.attoseconds / 1_000_000_000_000_000)
        number(message)
        if dbus_connection_send_with_reply(raw, message.raw, &handle, max(1, milliseconds)) == 0 || handle == nil {
            loop.soon { pending.finish(.failure(.disconnected("not connected to the bus"))) }
            return pending
        }
        effect.done { flush() }
        waiting[ObjectIdentifier(pending)] = pending
        answerIsAwaited()
        pending.onFinish = { [weak self] in self?.waiting[$0] = nil }
        pending.adopt(handle!)
        return pending
    }

    /// Passes a call on: `completion` gets the answer as it came, an error too, or nil when the bus has gone. There is
    /// no time-out; `forget` ends the wait. Cheaper than `call`, for who passes on thousands.
    public func forward(_ message: Message, completion: @escaping (Message?) -> Void) -> UInt32 {
        let effect = Effect(.call, message.calledMethod)
        var serial: UInt32 = 0
        number(message)
        guard isConnected, dbus_connection_send(raw, message.raw, &serial) != 0 else {
            loop.soon { completion(nil) }
            return 0
        }
        effect.done { flush() }
        expectAnswer(serial, effect.answering(completion))
        return serial
    }

    /// Waits for the answer to a call that was written.
    func expectAnswer(_ serial: UInt32, _ completion: @escaping (Message?) -> Void) {
        forwarded.add(serial, completion)
        answerIsAwaited()
    }

    /// The number of a message that is written past libdbus, whose own numbers are counted from 1.
    func nextPassedSerial() -> UInt32 {
        passed &+= 1
        return 1 << 31 | passed
    }

    /// Forgets a call that was passed on: a late answer is dropped.
    public func forget(_ serial: UInt32) {
        forwarded.forget(serial)
    }

    // MARK: A peer's first words

    private func greeted(_ end: Greeting.End) {
        if case .begins(let agrees) = end { takesDescriptors = agrees }
        endGreeting()
        if case .failed = end { close() }
    }

    /// From now on libdbus reads.
    private func endGreeting() {
        guard greeting != nil else { return }
        greeting = nil
        integrate()
    }

    // MARK: The pump

    private static let filter: DBusHandleMessageFunction = { _, message, data in
        Unmanaged<Connection>.fromOpaque(data!).takeUnretainedValue().handle(message!)
    }

    private func handle(_ message: OpaquePointer) -> DBusHandlerResult {
        switch dbus_message_get_type(message) {
        case 1:
            guard let onCall, onCall(Message(retaining: message)) else { return DBUS_HANDLER_RESULT_NOT_YET_HANDLED }
            return DBUS_HANDLER_RESULT_HANDLED
        case 4:
            handle(signal: message)
            return DBUS_HANDLER_RESULT_HANDLED
        default:
            return DBUS_HANDLER_RESULT_NOT_YET_HANDLED
        }
    }

    private func handle(signal message: OpaquePointer) {
        signals += 1
        guard dbus_message_is_signal(message, "org.freedesktop.DBus.Local", "Disconnected") != 0 else {
            return subscriptions.deliver(signal: message)
        }
        isConnected = false
        for completion in forwarded.removeAll() { completion(nil) }
        for call in Array(waiting.values) { call.finish(.failure(.disconnected("the bus closed the connection"))) }
        onDisconnect?()
        onDisconnect = nil
    }

    private func integrate() {
        let me = Unmanaged.passUnretained(self).toOpaque()
        let pace: (any ReadingPace)? =
            switch reading {
            case .immediate: nil
            case .adaptive(let longest): BatchPace(longest: longest, most: Self.most)
            case .streamed(let pace): pace
            }
        if let pace {
            pauses = ReadingPauses(
                on: loop, pace, read: { [weak self] in self?.drain() ?? 0 }, listen: { [weak self] in self?.resume() })
        }
        dbus_connection_add_filter(raw, Self.filter, me, nil)
        dbus_connection_set_watch_functions(
            raw,
            { watch, data in
                Unmanaged<Connection>.fromOpaque(data!).takeUnretainedValue().update(watch: watch!)
                return 1
            },
            { watch, data in Unmanaged<Connection>.fromOpaque(data!).takeUnretainedValue().drop(watch: watch!) },
            { watch, data in Unmanaged<Connection>.fromOpaque(data!).takeUnretainedValue().update(watch: watch!) },
            me, nil)
        dbus_connection_set_timeout_functions(
            raw,
            { timeout, data in
                Unmanaged<Connection>.fromOpaque(data!).takeUnretainedValue().update(timeout: timeout!)
                return 1
            },
            { timeout, data in Unmanaged<Connection>.fromOpaque(data!).takeUnretainedValue().remove(timeout: timeout!) },
            { timeout, data in Unmanaged<Connection>.fromOpaque(data!).takeUnretainedValue().update(timeout: timeout!) },
            me, nil)
        dbus_connection_set_dispatch_status_function(
            raw,
            { _, status, data in
                guard status == DBUS_DISPATCH_DATA_REMAINS else { return }
                Unmanaged<Connection>.fromOpaque(data!).takeUnretainedValue().scheduleDispatch()
            }, me, nil)
        // What arrived while we said hello.
        if dbus_connection_get_dispatch_status(raw) == DBUS_DISPATCH_DATA_REMAINS { scheduleDispatch() }
    }

    private func update(watch: OpaquePointer) {
        remove(watch: watch)
        let flags = dbus_watch_get_flags(watch)
        guard dbus_watch_get_enabled(watch) != 0 else { return }
        let readable = DBUS_WATCH_READABLE.rawValue
        let writable = DBUS_WATCH_WRITABLE.rawValue
        if watch == pausedWatch { return }
        var condition = G_IO_ERR.rawValue | G_IO_HUP.rawValue
        if flags & readable != 0 { condition |= G_IO_IN.rawValue }
        if flags & writable != 0 { condition |= G_IO_OUT.rawValue }
        watches[watch] = loop.onReady(dbus_watch_get_unix_fd(watch), GIOCondition(rawValue: condition)) { [weak self] ready in
            var what: UInt32 = 0
            if ready.rawValue & G_IO_IN.rawValue != 0 { what |= readable }
            if ready.rawValue & G_IO_OUT.rawValue != 0 { what |= writable }
            if ready.rawValue & G_IO_ERR.rawValue != 0 { what |= DBUS_WATCH_ERROR.rawValue }
            if ready.rawValue & G_IO_HUP.rawValue != 0 { what |= DBUS_WATCH_HANGUP.rawValue }
            guard let self else { return false }
            self.handle(watch, what)
            return true
        }
    }

    private func remove(watch: OpaquePointer) {
        watches.removeValue(forKey: watch)?.cancel()
    }

    /// libdbus frees the watch after this.
    private func drop(watch: OpaquePointer) {
        remove(watch: watch)
        guard watch == pausedWatch else { return }
        pauses?.end()
        pausedWatch = nil
    }

    /// Waits for the descriptor again.
    private func resume() {
        pauses?.end()
        guard let watch = pausedWatch else { return }
        pausedWatch = nil
        update(watch: watch)
    }

    private func handle(_ watch: OpaquePointer, _ what: UInt32) {
        let before = counted
        let messages = read(watch, what)
        if what & DBUS_WATCH_READABLE.rawValue != 0 { pauseReading(watch, after: taken(messages, before)) }
    }

    /// Much comes: reads after pauses instead of at every message, and goes back to the descriptor when it is quiet.
    private func pauseReading(_ watch: OpaquePointer, after taken: Int) {
        guard watches[watch] != nil, pauses?.begin(after: taken) == true else { return }
        remove(watch: watch)
        pausedWatch = watch
    }

    /// Many messages are about to come: where reading is adaptive, the first does not have to show it.
    func expectMany() {
        guard case .adaptive = reading, let readableWatch else { return }
        pauseReading(readableWatch, after: Self.most)
    }

    /// Of a peer: leaves what it sends in the socket until `resumeReading`, which is to follow soon: that it has gone
    /// is not seen meanwhile.
    public func holdReading() {
        guard pausedWatch == nil, let readableWatch else { return }
        remove(watch: readableWatch)
        pausedWatch = readableWatch
    }

    /// Reads again.
    public func resumeReading() { resume() }

    /// Somebody waits for an answer: a stream's pause would delay it.
    private func answerIsAwaited() {
        if case .streamed = reading, pausedWatch != nil { resume() }
    }

    /// Reads pending messages, before news from another connection is passed on.
    public func catchUp() {
        guard !isDispatching else { return }
        if pausedWatch != nil {
            _ = drain()
        } else if bytesThatWait() > 0, let readableWatch {
            _ = read(readableWatch, DBUS_WATCH_READABLE.rawValue)
        }
    }

    private var readableWatch: OpaquePointer? {
        watches.keys.first { dbus_watch_get_flags($0) & DBUS_WATCH_READABLE.rawValue != 0 }
    }

    private func read(_ watch: OpaquePointer, _ what: UInt32) -> Int {
        isReading = true
        dbus_watch_handle(watch, what)
        isReading = false
        return dispatchAll()
    }

    /// The signals that came so far; nil while an answer is awaited.
    private var counted: Int? { forwarded.isEmpty && waiting.isEmpty ? signals : nil }

    /// What a reading counts for the pace: of a stream its signals, and nothing while an answer is awaited, or with
    /// one.
    ///
    /// - Parameter before: what was counted before it.
    private func taken(_ messages: Int, _ before: Int?) -> Int {
        guard case .streamed = reading else { return messages }
        guard let before, let counted else { return 0 }
        return counted - before
    }

    /// Reads until the socket is empty, but not for ever: the loop's other sources must have their turn. libdbus takes
    /// 2 KiB at a time.
    private func drain() -> Int {
        let before = counted
        // So few were all that there was; or else the next reading has the rest.
        let few = if case .streamed = reading { 2 } else { 0 }
        var total = 0
        let bytes = bytesThatWait()
        while total < 512, let watch = pausedWatch, dbus_watch_get_enabled(watch) != 0 {
            let messages = read(watch, DBUS_WATCH_READABLE.rawValue)
            total += messages
            if messages <= few { break }
        }
        return if case .streamed = reading { taken(total, before) } else { BatchPace.load(messages: total, bytes: bytes) }
    }

    /// How much the socket holds.
    private func bytesThatWait() -> Int {
        var descriptor: CInt = -1
        var bytes: CInt = 0
        guard dbus_connection_get_socket(raw, &descriptor) != 0, ioctl(descriptor, UInt(FIONREAD), &bytes) == 0 else { return 0 }
        return Int(bytes)
    }

    private func update(timeout: OpaquePointer) {
        remove(timeout: timeout)
        guard dbus_timeout_get_enabled(timeout) != 0 else { return }
        timeouts[timeout] = loop.every(.milliseconds(Int64(dbus_timeout_get_interval(timeout)))) { [weak self] in
            dbus_timeout_handle(timeout)
            self?.dispatchAll()
            return true
        }
    }

    private func remove(timeout: OpaquePointer) {
        timeouts.removeValue(forKey: timeout)?.cancel()
    }

    private func scheduleDispatch() {
        guard !isReading, !isDispatching, dispatchSource == nil else { return }
        dispatchSource = loop.soon { [weak self] in
            self?.dispatchSource = nil
            self?.dispatchAll()
        }
    }

    private func takesDirectly(_ message: OpaquePointer) -> Bool {
        switch dbus_message_get_type(message) {
        case 1: isPeer && onCall != nil
        case 2, 3: forwarded.isWaiting(for: dbus_message_get_reply_serial(message))
        case 4: true
        default: false
        }
    }

    private func takeDirectly(_ message: OpaquePointer) {
        switch dbus_message_get_type(message) {
        case 1:
            if dbus_message_get_no_reply(message) == 0 { unanswered.insert(dbus_message_get_serial(message)) }
            _ = onCall?(Message(retaining: message))
        case 4: handle(signal: message)
        default: forwarded.remove(dbus_message_get_reply_serial(message))?(Message(retaining: message))
        }
    }

    @discardableResult
    func dispatchAll() -> Int {
        // libdbus forbids re-entrance; a handler that runs the loop comes back here.
        guard !isDispatching else { return 0 }
        isDispatching = true
        // A handler may drop the last reference to the connection.
        dbus_connection_ref(raw)
        let held = raw
        defer { dbus_connection_unref(held) }
        var count = 0
        // What can be is taken straight from the queue: dispatching would look for a waiting call, copy the list of
        // filters, and take the connection's lock several times more. Everything else needs what dispatching does.
        while let message = dbus_connection_borrow_message(raw) {
            if takesDirectly(message) {
                dbus_connection_steal_borrowed_message(raw, message)
                takeDirectly(message)
                dbus_message_unref(message)
            } else {
                dbus_connection_return_message(raw, message)
                dbus_connection_dispatch(raw)
            }
            count += 1
        }
        isDispatching = false
        return count
    }
}

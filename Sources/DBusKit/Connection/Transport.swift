// SPDX-License-Identifier: Apache-2.0
// libdbus' connection on a main loop: its watches and timeouts as sources of the loop, when the socket is read, and the
// one pump that takes messages in order.

internal import CDBus
internal import Glibc

/// Reads and writes for a `Connection`, and hands messages to it.
final class Transport {
    private enum Activity { case idle, reading, dispatching }

    let raw: OpaquePointer
    let loop: MainLoop
    private let reading: Connection.Reading
    private weak var receiver: Connection?
    private var watches: [OpaquePointer: LoopSource] = [:]
    private var timeouts: [OpaquePointer: LoopSource] = [:]
    private var dispatchSource: LoopSource?
    private var pauses: ReadingPauses?
    /// The watch whose descriptor is not waited for in a pause; nil once libdbus has dropped it.
    private var pausedWatch: OpaquePointer?
    private var activity = Activity.idle
    /// Not while a peer is greeted. libdbus ends the process where a filter is removed that was not added.
    private var hasBegun = false
    /// Signals received so far.
    private var signals = 0

    init(_ raw: OpaquePointer, on loop: MainLoop, reading: Connection.Reading) {
        self.raw = raw
        self.loop = loop
        self.reading = reading
    }

    deinit {
        for source in watches.values { source.cancel() }
        for source in timeouts.values { source.cancel() }
        dispatchSource?.cancel()
        pauses?.end()
        dbus_connection_set_watch_functions(raw, nil, nil, nil, nil, nil)
        dbus_connection_set_timeout_functions(raw, nil, nil, nil, nil, nil)
        dbus_connection_set_dispatch_status_function(raw, nil, nil, nil)
        if hasBegun { dbus_connection_remove_filter(raw, Self.filter, Unmanaged.passUnretained(self).toOpaque()) }
        dbus_connection_close(raw)
        dbus_connection_unref(raw)
    }

    private static func from(_ data: UnsafeMutableRawPointer?) -> Transport {
        // Never nil, and valid until `deinit` takes the callbacks away.
        Unmanaged<Transport>.fromOpaque(data!).takeUnretainedValue()
    }

    private static let filter: DBusHandleMessageFunction = { _, message, data in
        Transport.from(data).handle(message!) ? DBUS_HANDLER_RESULT_HANDLED : DBUS_HANDLER_RESULT_NOT_YET_HANDLED
    }

    /// Begins to read and write.
    func begin(for receiver: Connection) {
        self.receiver = receiver
        hasBegun = true
        let pace: (any ReadingPace)? =
            switch reading {
            case .immediate: nil
            case .adaptive(let pause): BatchPace(pause: pause)
            case .streamed(let pace): pace
            }
        if let pace {
            pauses = ReadingPauses(
                on: loop, pace, read: { [weak self] in self?.drain() ?? 0 }, listen: { [weak self] in self?.resume() })
        }
        let me = Unmanaged.passUnretained(self).toOpaque()
        dbus_connection_add_filter(raw, Self.filter, me, nil)
        dbus_connection_set_watch_functions(
            raw,
            { watch, data in
                Transport.from(data).update(watch: watch!)
                return 1
            }, { watch, data in Transport.from(data).drop(watch: watch!) },
            { watch, data in Transport.from(data).update(watch: watch!) }, me, nil)
        dbus_connection_set_timeout_functions(
            raw,
            { timeout, data in
                Transport.from(data).update(timeout: timeout!)
                return 1
            }, { timeout, data in Transport.from(data).remove(timeout: timeout!) },
            { timeout, data in Transport.from(data).update(timeout: timeout!) }, me, nil)
        dbus_connection_set_dispatch_status_function(
            raw,
            { _, status, data in
                if status == DBUS_DISPATCH_DATA_REMAINS { Transport.from(data).scheduleDispatch() }
            }, me, nil)
        // Messages that arrived during the greeting.
        if dbus_connection_get_dispatch_status(raw) == DBUS_DISPATCH_DATA_REMAINS { scheduleDispatch() }
    }

    /// Writes the outgoing queue as far as the socket takes it, and reads nothing.
    func writeOut() {
        for watch in watches.keys where dbus_watch_get_flags(watch) & DBUS_WATCH_WRITABLE.rawValue != 0 {
            dbus_watch_handle(watch, DBUS_WATCH_WRITABLE.rawValue)
        }
    }

    /// The socket, for questions to the kernel alone.
    var socket: Int32? {
        var descriptor: Int32 = -1
        return dbus_connection_get_unix_fd(raw, &descriptor) == 0 ? nil : descriptor
    }

    // MARK: Sources

    /// libdbus' flags and those of poll(2).
    private static let conditions = [
        (DBUS_WATCH_READABLE.rawValue, UInt32(POLLIN)), (DBUS_WATCH_WRITABLE.rawValue, UInt32(POLLOUT)),
        (DBUS_WATCH_ERROR.rawValue, UInt32(POLLERR)), (DBUS_WATCH_HANGUP.rawValue, UInt32(POLLHUP)),
    ]

    private func update(watch: OpaquePointer) {
        remove(watch: watch)
        guard dbus_watch_get_enabled(watch) != 0, watch != pausedWatch else { return }
        let flags = dbus_watch_get_flags(watch)
        var wanted: UInt32 = 0
        for (flag, event) in Self.conditions where flags & flag != 0 { wanted |= event }
        watches[watch] = loop.onReady(dbus_watch_get_unix_fd(watch), wanted) { [weak self] events in
            guard let self else { return false }
            var happened: UInt32 = 0
            for (flag, event) in Self.conditions where events & event != 0 { happened |= flag }
            let before = countedSignals
            let messages = read(watch, happened)
            if happened & DBUS_WATCH_READABLE.rawValue != 0 { pauseReading(watch, after: load(messages, since: before)) }
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

    // MARK: When the socket is read

    private var readableWatch: OpaquePointer? {
        watches.keys.first { dbus_watch_get_flags($0) & DBUS_WATCH_READABLE.rawValue != 0 }
    }

    private func stopListening(_ watch: OpaquePointer) {
        remove(watch: watch)
        pausedWatch = watch
    }

    /// Waits for the descriptor again.
    func resume() {
        pauses?.end()
        guard let watch = pausedWatch else { return }
        pausedWatch = nil
        update(watch: watch)
    }

    /// Leaves messages in the socket until `resume`.
    func hold() {
        if pausedWatch == nil, let readableWatch { stopListening(readableWatch) }
    }

    /// Much arrives: reads after pauses instead of at every message, and returns to the descriptor when it is quiet.
    private func pauseReading(_ watch: OpaquePointer, after load: Int) {
        if watches[watch] != nil, pauses?.begin(after: load) == true { stopListening(watch) }
    }

    /// Many messages are about to arrive: where reading is adaptive, the first does not have to show it.
    func expectMany() {
        if case .adaptive = reading, let readableWatch { pauseReading(readableWatch, after: BatchPace.full - 1) }
    }

    /// A program waits for an answer: a stream's pause would delay it.
    func expectAnswer() {
        if case .streamed = reading, pausedWatch != nil { resume() }
    }

    /// Reads pending messages, before an event of another connection is passed on.
    func catchUp() {
        guard activity != .dispatching else { return }
        if pausedWatch != nil {
            _ = drain()
        } else if bytesInSocket() > 0, let readableWatch {
            _ = read(readableWatch, DBUS_WATCH_READABLE.rawValue)
        }
    }

    private func read(_ watch: OpaquePointer, _ flags: UInt32) -> Int {
        // A handler may have run the loop.
        let outer = activity
        activity = .reading
        dbus_watch_handle(watch, flags)
        activity = outer
        return dispatchAll()
    }

    /// The signals received so far; nil while an answer is awaited.
    private var countedSignals: Int? { receiver?.answers.isEmpty == true ? signals : nil }

    /// How much a reading counts for the pace: all of its messages, and of a stream its signals, or nothing while an
    /// answer is awaited or was among them.
    ///
    /// - Parameter before: the counted signals before it.
    private func load(_ messages: Int, since before: Int?) -> Int {
        guard case .streamed = reading else { return messages }
        guard let before, let after = countedSignals else { return 0 }
        return after - before
    }

    /// Reads until the socket is empty, but not for ever: the loop's other sources must have their turn. libdbus takes
    /// 2 KiB at a time.
    private func drain() -> Int {
        let before = countedSignals
        // So few were all that was there; otherwise the next reading has the rest.
        let few = if case .streamed = reading { 2 } else { 0 }
        var total = 0
        let bytes = bytesInSocket()
        while total < 512, let watch = pausedWatch, dbus_watch_get_enabled(watch) != 0 {
            let messages = read(watch, DBUS_WATCH_READABLE.rawValue)
            total += messages
            if messages <= few { break }
        }
        return if case .streamed = reading { load(total, since: before) } else { BatchPace.load(messages: total, bytes: bytes) }
    }

    private func bytesInSocket() -> Int {
        var bytes: CInt = 0
        guard let socket, ioctl(socket, UInt(FIONREAD), &bytes) == 0 else { return 0 }
        return Int(bytes)
    }

    // MARK: The pump

    private func scheduleDispatch() {
        guard activity == .idle, dispatchSource == nil else { return }
        dispatchSource = loop.soon { [weak self] in
            self?.dispatchSource = nil
            self?.dispatchAll()
        }
    }

    /// Takes all messages that libdbus has read; how many.
    @discardableResult
    func dispatchAll() -> Int {
        // libdbus forbids re-entrance; a handler that runs the loop returns here. It may also release the connection.
        guard activity == .idle, let receiver else { return 0 }
        activity = .dispatching
        defer { activity = .idle }
        var count = 0
        // Where possible a message is taken straight from the queue: dispatching would look for a waiting call, copy
        // the list of filters, and take the connection's lock several times more.
        while let message = dbus_connection_borrow_message(raw) {
            if isTakenDirectly(message, receiver) {
                dbus_connection_steal_borrowed_message(raw, message)
                receive(message)
                dbus_message_unref(message)
            } else {
                dbus_connection_return_message(raw, message)
                dbus_connection_dispatch(raw)
            }
            count += 1
        }
        return count
    }

    private func isTakenDirectly(_ message: OpaquePointer, _ receiver: Connection) -> Bool {
        switch dbus_message_get_type(message) {
        // On a socket of ours nothing is for libdbus to answer.
        case DBUS_MESSAGE_TYPE_METHOD_CALL: receiver.peer != nil && receiver.onCall != nil
        case DBUS_MESSAGE_TYPE_METHOD_RETURN, DBUS_MESSAGE_TYPE_ERROR:
            receiver.answers.isForwarded(dbus_message_get_reply_serial(message))
        case DBUS_MESSAGE_TYPE_SIGNAL: true
        default: false
        }
    }

    /// Takes a message from libdbus' dispatching; false for one that libdbus answers.
    private func handle(_ message: OpaquePointer) -> Bool {
        switch dbus_message_get_type(message) {
        case DBUS_MESSAGE_TYPE_METHOD_CALL: return receiver?.onCall?(Message(retaining: message)) ?? false
        case DBUS_MESSAGE_TYPE_SIGNAL:
            receive(message)
            return true
        default: return false
        }
    }

    private func receive(_ message: OpaquePointer) {
        if dbus_message_get_type(message) == DBUS_MESSAGE_TYPE_SIGNAL { signals += 1 }
        receiver?.receive(message)
    }
}

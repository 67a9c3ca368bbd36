// SPDX-License-Identifier: Apache-2.0
// The one thread: GLib's main loop with a context of its own for timers and Unix signals, and a set of descriptors that
// the kernel keeps. Watches and timeouts of the bus are among them. Everything that lives on it is a plain,
// non-Sendable object: the compiler then keeps it on the thread that made it, without hops and without locks
// (Docs/Decisions/0003).

internal import CGLib
internal import CSystem
#if DEBUG
    internal import Glibc
#endif

/// GLib's main loop, private to the thread that creates and runs it.
public final class MainLoop {
    private let context: OpaquePointer
    private let descriptors: DescriptorSet
    /// What GLib waits for by itself: its bell, which wakes it up, and seldom more.
    private var polled = [GPollFD](repeating: GPollFD(), count: 8)
    private var isRunning = false
    /// The turns that were begun so far: what is asked of the system once in each is known by this.
    public private(set) var turn = 0
    private var endOfTurn: [() -> Void] = []
    #if DEBUG
        /// All timers, where tests let time pass; what is done with is dropped at times.
        private var timers: [UnsafeMutablePointer<GSource>] = []
        private var passed: Int64 = 0
        /// Whether `pass` works: timers that are made from then on are kept for it.
        public var letsTimePass = false
    #endif

    /// A loop that nothing runs yet, with a context of its own.
    public init() {
        context = g_main_context_new()
        var priority: gint = 0
        var timeout: gint = 0
        g_main_context_acquire(context)
        g_main_context_prepare(context, &priority)
        // The first is the bell; there is nothing else in a new context.
        g_main_context_query(context, priority, &timeout, &polled, gint(polled.count))
        g_main_context_release(context)
        descriptors = DescriptorSet(bell: polled[0].fd)
    }

    deinit {
        g_main_context_unref(context)
    }

    /// Runs until `quit()`. Sources fire on the calling thread.
    public func run() {
        isRunning = true
        while isRunning { iterate() }
    }

    /// Ends `run()` after the sources that are firing.
    public func quit() {
        isRunning = false
    }

    /// One turn of the loop; waits for a source to be ready when `mayBlock`.
    public func iterate(mayBlock: Bool = true) {
        turn += 1
        // As g_main_context_iteration() does it, but for the wait.
        g_main_context_acquire(context)
        defer { g_main_context_release(context) }
        var priority: gint = 0
        var timeout: gint = 0
        g_main_context_prepare(context, &priority)
        var count = g_main_context_query(context, priority, &timeout, &polled, gint(polled.count))
        while count > polled.count {
            polled = [GPollFD](repeating: GPollFD(), count: Int(count))
            count = g_main_context_query(context, priority, &timeout, &polled, count)
        }
        if !mayBlock { timeout = 0 }
        if count > 1 || descriptors.raw < 0 {
            poll(Int(count), timeout)
            timeout = 0
        }
        descriptors.wait(timeout) { hasRung in
            if hasRung { polled[0].revents = gushort(G_IO_IN.rawValue) }
            // Which of GLib's sources are ready; they are served after the descriptors.
            g_main_context_check(context, priority, &polled, count)
        }
        g_main_context_dispatch(context)
        while !endOfTurn.isEmpty {
            let bodies = endOfTurn
            endOfTurn = []
            for body in bodies { body() }
        }
    }

    /// Calls `body` once, when everything is served that this turn of the loop found ready; for who is called in a
    /// turn, and would say once what many messages of it bring. No wakeup comes of it.
    public func atEndOfTurn(_ body: @escaping () -> Void) {
        endOfTurn.append(body)
    }

    /// Waits for what only poll(2) can wait for (files, which are always ready), and for the set.
    private func poll(_ count: Int, _ timeout: gint) {
        var others = polled[..<count] + [GPollFD(fd: descriptors.raw, events: gushort(G_IO_IN.rawValue), revents: 0)]
        others.withUnsafeMutableBufferPointer { _ = g_poll($0.baseAddress!, guint($0.count), timeout) }
        for index in 0..<count { polled[index].revents = others[index].revents }
    }

    /// Runs the loop until `condition` holds or `timeout` is over; for programs that have nothing else to do meanwhile.
    ///
    /// - Returns: whether the condition held.
    public func run(until condition: () -> Bool, timeout: Duration) -> Bool {
        var expired = false
        let timer = after(timeout) { expired = true }
        defer { timer.cancel() }
        while !condition() {
            if expired { return false }
            iterate()
        }
        return true
    }

    /// Microseconds of the monotonic clock.
    public var now: Int64 {
        #if DEBUG
            Int64(g_get_monotonic_time()) + passed
        #else
            Int64(g_get_monotonic_time())
        #endif
    }

    #if DEBUG
        /// For tests of what takes long: with `ACCESSORY_TEST_CLOCK` in the environment a second passes at each
        /// SIGUSR1.
        ///
        /// - Parameter report: gets how many seconds have passed, once everything that was due in the last one is done.
        public func letTimePass(_ report: @escaping (Int) -> Void) {
            guard getenv("ACCESSORY_TEST_CLOCK") != nil else { return }
            letsTimePass = true
            var seconds = 0
            // In steps, so that a timer that fires four times a second fires four times.
            func take(steps: Int) {
                pass(.milliseconds(250))
                // Timers that are due now fire before the next step.
                after(.zero) {
                    guard steps == 1 else { return take(steps: steps - 1) }
                    seconds += 1
                    report(seconds)
                }
            }
            onSignal(SIGUSR1) {
                take(steps: 4)
                return true
            }
        }

        /// Lets time pass at once for everything that waits for it here.
        public func pass(_ time: Duration) {
            let micros = Int64(Self.milliseconds(time)) * 1000
            passed += micros
            dropEndedTimers()
            for timer in timers { g_source_set_ready_time(timer, max(0, g_source_get_ready_time(timer) - gint64(micros))) }
        }

        private func note(timer: UnsafeMutablePointer<GSource>) {
            guard letsTimePass else { return }
            if timers.count % 64 == 63 { dropEndedTimers() }
            timers.append(g_source_ref(timer))
        }

        private func dropEndedTimers() {
            let (ended, active) = (
                timers.filter { g_source_is_destroyed($0) != 0 }, timers.filter { g_source_is_destroyed($0) == 0 }
            )
            for timer in ended { g_source_unref(timer) }
            timers = active
        }
    #endif

    /// Calls `body` once, after at least `delay`.
    @discardableResult
    public func after(_ delay: Duration, _ body: @escaping () -> Void) -> LoopSource {
        attach(timer(delay)) {
            body()
            return false
        }
    }

    /// Calls `body` once, after at least so many seconds, and returns what calls that off.
    public func once(after seconds: Double, _ body: @escaping () -> Void) -> () -> Void {
        let source = after(.seconds(seconds), body)
        return { source.cancel() }
    }

    private func timer(_ interval: Duration) -> UnsafeMutablePointer<GSource> {
        let timer = g_timeout_source_new(Self.milliseconds(interval))!
        #if DEBUG
            note(timer: timer)
        #endif
        return timer
    }

    /// Calls `body` every `interval` until it returns false.
    @discardableResult
    public func every(_ interval: Duration, _ body: @escaping () -> Bool) -> LoopSource {
        attach(timer(interval), body)
    }

    /// Calls `body` once, when the sources that are ready now have been served.
    @discardableResult
    public func soon(_ body: @escaping () -> Void) -> LoopSource {
        // Default priority instead of the idle one: under load an idle source might wait for ever.
        let source = g_idle_source_new()!
        g_source_set_priority(source, G_PRIORITY_DEFAULT)
        return attach(source) {
            body()
            return false
        }
    }

    /// Calls `body` on a Unix signal, on the loop's thread, until it returns false. Other threads must not take it.
    @discardableResult
    public func onSignal(_ number: Int32, _ body: @escaping () -> Bool) -> LoopSource {
        // GLib has a thread for this, and ends the program where none can be made.
        guard let signal = SignalDescriptor(number) else { return attach(g_unix_signal_source_new(number), body) }
        return onReadable(signal.rawValue) { signal.take() ? body() : true }
    }

    /// Calls `body` while `descriptor` is readable (and on hang-up or error), until it returns false.
    @discardableResult
    public func onReadable(_ descriptor: Int32, _ body: @escaping () -> Bool) -> LoopSource {
        onReady(descriptor, GIOCondition(rawValue: G_IO_IN.rawValue | G_IO_HUP.rawValue | G_IO_ERR.rawValue)) { _ in
            body()
        }
    }

    /// Calls `body` while `descriptor` takes data (and on hang-up or error), until it returns false.
    @discardableResult
    public func onWritable(_ descriptor: Int32, _ body: @escaping () -> Bool) -> LoopSource {
        onReady(descriptor, GIOCondition(rawValue: G_IO_OUT.rawValue | G_IO_HUP.rawValue | G_IO_ERR.rawValue)) { _ in
            body()
        }
    }

    func onReady(_ descriptor: Int32, _ condition: GIOCondition, _ body: @escaping (GIOCondition) -> Bool)
        -> LoopSource
    {
        let watch = descriptors.add(descriptor, UInt32(condition.rawValue)) { body(GIOCondition(rawValue: $0)) }
        if let watch { return LoopSource(watch) }
        let source = g_unix_fd_source_new(descriptor, condition)!
        let handle = LoopSource(source)
        let box = Unmanaged.passRetained(DescriptorBody(body))
        let callback: @convention(c) (gint, GIOCondition, gpointer?) -> gboolean = { _, ready, data in
            Unmanaged<DescriptorBody>.fromOpaque(data!).takeUnretainedValue().body(ready) ? 1 : 0
        }
        // GLib calls the function with the type of the source's kind; GSourceFunc is only its placeholder.
        g_source_set_callback(source, unsafeBitCast(callback, to: GSourceFunc.self), box.toOpaque()) { data in
            Unmanaged<DescriptorBody>.fromOpaque(data!).release()
        }
        g_source_attach(source, context)
        return handle
    }

    private func attach(_ source: UnsafeMutablePointer<GSource>, _ body: @escaping () -> Bool) -> LoopSource {
        let handle = LoopSource(source)
        let box = Unmanaged.passRetained(SourceBody(body))
        g_source_set_callback(
            source,
            { data in Unmanaged<SourceBody>.fromOpaque(data!).takeUnretainedValue().body() ? 1 : 0 },
            box.toOpaque(),
            { data in Unmanaged<SourceBody>.fromOpaque(data!).release() })
        g_source_attach(source, context)
        return handle
    }

    private static func milliseconds(_ duration: Duration) -> UInt32 {
        let (seconds, attoseconds) = duration.components
        let whole = max(0, seconds) * 1000 + max(0, attoseconds) / 1_000_000_000_000_000
        return UInt32(clamping: whole)
    }
}

/// A source of the loop: a timer, a signal, a descriptor. It goes on until cancelled or done; dropping the handle does
/// not end it.
public final class LoopSource {
    private enum Kind {
        case source(UnsafeMutablePointer<GSource>)
        case descriptor(DescriptorSet.Watch)
    }

    private var kind: Kind?

    init(_ source: UnsafeMutablePointer<GSource>) {
        kind = .source(source)
    }

    init(_ watch: DescriptorSet.Watch) {
        kind = .descriptor(watch)
    }

    deinit {
        if case .source(let source) = kind { g_source_unref(source) }
    }

    /// Whether the source can still fire.
    public var isActive: Bool {
        switch kind {
        case .source(let source): g_source_is_destroyed(source) == 0
        case .descriptor(let watch): watch.body != nil
        case nil: false
        }
    }

    /// Ends the source; that of a descriptor before this is closed. Safe at any time, also from its own body.
    public func cancel() {
        let kind = kind
        self.kind = nil
        switch kind {
        case .source(let source):
            g_source_destroy(source)
            g_source_unref(source)
        case .descriptor(let watch): watch.cancel()
        case nil: break
        }
    }
}

/// A signal that comes by a descriptor, for as long as this lives.
private final class SignalDescriptor {
    let rawValue: Int32
    private let number: Int32

    init?(_ number: Int32) {
        self.number = number
        rawValue = csystem_signal(number)
        if rawValue < 0 { return nil }
    }

    deinit {
        csystem_signal_end(number)
        _ = FileDescriptor(owning: rawValue)
    }

    func take() -> Bool { csystem_signal_take(rawValue) != 0 }
}

private final class SourceBody {
    let body: () -> Bool
    init(_ body: @escaping () -> Bool) { self.body = body }
}

private final class DescriptorBody {
    let body: (GIOCondition) -> Bool
    init(_ body: @escaping (GIOCondition) -> Bool) { self.body = body }
}

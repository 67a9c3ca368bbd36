// SPDX-License-Identifier: Apache-2.0
// The one thread's loop: descriptors that the kernel keeps, timers, and jobs for later. Everything that lives on it is
// a plain, non-Sendable object: the compiler then keeps it on the thread that made it, without hops and without locks
// (Docs/Decisions/0003).

internal import CSystem
internal import Glibc

/// The loop of the thread that creates and runs it.
public final class MainLoop {
    private let descriptors = DescriptorSet()
    private var timers = TimerQueue()
    /// Called once each, in their order.
    private var jobs: [LoopSource] = []
    private var isRunning = false
    /// Turns begun so far: for facts that the system is asked for once in each.
    public private(set) var turn = 0
    private var endOfTurn: [() -> Void] = []
    /// Microseconds that a test has let pass.
    private var passed: Int64 = 0

    /// A loop that nothing runs yet.
    public init() {}

    deinit {
        for source in timers.removeAll() + jobs + descriptors.removeAll() { source.end() }
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
        var due: [LoopSource] = []
        var time: Int64 = 0
        descriptors.wait(mayBlock ? longestWait : 0) {
            // Sources that become ready while descriptors are served have the next turn.
            time = now
            (due, jobs) = (jobs, [])
        }
        fireTimers(due: time)
        for job in due where job.isActive {
            _ = job.fire()
            job.end()
        }
        while !endOfTurn.isEmpty {
            let bodies = endOfTurn
            endOfTurn = []
            for body in bodies { body() }
        }
    }

    /// In milliseconds; negative for no end.
    private var longestWait: Int32 {
        guard jobs.isEmpty else { return 0 }
        // Rounded up: a timer never fires early.
        return timers.next.map { Int32(clamping: max(0, ($0 - now + 999) / 1000)) } ?? -1
    }

    /// Fires each timer that is due at `time`, once.
    private func fireTimers(due time: Int64) {
        while let (source, interval) = timers.removeFirst(due: time) {
            guard source.fire() else {
                source.end()
                continue
            }
            // Later than `time`, whatever the interval: the next turn has it.
            schedule(source, at: max(now + interval, time + 1), interval)
        }
    }

    /// Calls `body` once, when this turn of the loop has served every source that it found ready: for one report of
    /// many messages. It causes no wakeup.
    public func atEndOfTurn(_ body: @escaping () -> Void) {
        endOfTurn.append(body)
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
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000 + passed
    }

    #if DEBUG
        /// For tests of long waits: with `ACCESSORY_TEST_CLOCK` in the environment a second passes at each SIGUSR1.
        ///
        /// - Parameter report: gets how many seconds have passed, once everything that was due in the last one is done.
        public func letTimePass(_ report: @escaping (Int) -> Void) {
            guard getenv("ACCESSORY_TEST_CLOCK") != nil else { return }
            var seconds = 0
            // In steps, so that a timer that fires four times a second fires four times.
            func step(_ left: Int) {
                pass(.milliseconds(250))
                // Timers that are due now fire before the next step.
                after(.zero) {
                    guard left == 1 else { return step(left - 1) }
                    seconds += 1
                    report(seconds)
                }
            }
            onSignal(SIGUSR1) {
                step(4)
                return true
            }
        }

        /// Lets time pass at once for everything that waits for it here.
        public func pass(_ time: Duration) {
            passed += Self.microseconds(time)
        }
    #endif

    /// Calls `body` once, after at least `delay`.
    @discardableResult
    public func after(_ delay: Duration, _ body: @escaping () -> Void) -> LoopSource {
        every(delay) {
            body()
            return false
        }
    }

    /// Calls `body` once, after at least so many seconds, and returns a closure that cancels it.
    public func once(after seconds: Double, _ body: @escaping () -> Void) -> () -> Void {
        let source = after(.seconds(seconds), body)
        return { source.cancel() }
    }

    /// Calls `body` every `interval` until it returns false.
    @discardableResult
    public func every(_ interval: Duration, _ body: @escaping () -> Bool) -> LoopSource {
        let interval = Self.microseconds(interval)
        let source = LoopSource(.job, of: self) { _ in body() }
        schedule(source, at: now + interval, interval)
        return source
    }

    private func schedule(_ source: LoopSource, at due: Int64, _ interval: Int64) {
        let key = timers.key(due: due)
        source.kind = .timer(key)
        timers.add(source, key, interval: interval)
    }

    /// Calls `body` once, when the sources that are ready now have been served.
    @discardableResult
    public func soon(_ body: @escaping () -> Void) -> LoopSource {
        let source = LoopSource(.job, of: self) { _ in
            body()
            return false
        }
        jobs.append(source)
        return source
    }

    /// Calls `body` on a Unix signal, on the loop's thread, until it returns false. Other threads must block it.
    @discardableResult
    public func onSignal(_ number: Int32, _ body: @escaping () -> Bool) -> LoopSource {
        let signal = SignalDescriptor(number)
        guard signal.rawValue >= 0 else { return soon {} }
        return onReadable(signal.rawValue) { signal.receive() ? body() : true }
    }

    /// Calls `body` each time the wall clock was set, and after the system was suspended. Nothing happens where the
    /// system has no more descriptors.
    public func onClockSet(_ body: @escaping () -> Void) -> LoopSource {
        let descriptor = FileDescriptor(owning: csystem_clock_set())
        guard descriptor.rawValue >= 0 else { return soon {} }
        return onReadable(descriptor.rawValue) {
            csystem_clock_set_take(descriptor.rawValue)
            body()
            return true
        }
    }

    /// Calls `body` while `descriptor` is readable (and on hang-up or error), until it returns false.
    @discardableResult
    public func onReadable(_ descriptor: Int32, _ body: @escaping () -> Bool) -> LoopSource {
        onReady(descriptor, UInt32(POLLIN)) { _ in body() }
    }

    /// Calls `body` while `descriptor` takes data (and on hang-up or error), until it returns false.
    @discardableResult
    public func onWritable(_ descriptor: Int32, _ body: @escaping () -> Bool) -> LoopSource {
        onReady(descriptor, UInt32(POLLOUT)) { _ in body() }
    }

    /// Calls `body` with the events that have happened, as bits of poll(2).
    func onReady(_ descriptor: Int32, _ events: UInt32, _ body: @escaping (UInt32) -> Bool) -> LoopSource {
        let source = LoopSource(.descriptor(descriptor, events), of: self, body)
        descriptors.add(source, descriptor)
        return source
    }

    /// A source has been cancelled.
    func remove(_ source: LoopSource) {
        switch source.kind {
        case .timer(let key): timers.remove(key)
        case .descriptor(let descriptor, _): descriptors.remove(source, descriptor)
        case .job: jobs.removeAll { $0 === source }
        }
    }

    private static func microseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        // At most some 300,000 years.
        return max(0, min(seconds, Int64.max >> 20)) * 1_000_000 + max(0, attoseconds) / 1_000_000_000_000
    }
}

/// A signal that arrives by a descriptor, for as long as this lives. Without a free descriptor the signal keeps its
/// default action.
private final class SignalDescriptor {
    let rawValue: Int32
    private let number: Int32

    init(_ number: Int32) {
        self.number = number
        rawValue = csystem_signal(number)
    }

    deinit {
        csystem_signal_end(number)
        _ = FileDescriptor(owning: rawValue)
    }

    func receive() -> Bool { csystem_signal_take(rawValue) != 0 }
}

// SPDX-License-Identifier: Apache-2.0
// A thread that owns a main loop, for programs whose own threads are not ours to choose (client libraries). Its
// resident is made, stays and ends there; other threads reach it only by handing over closures.

internal import CGLib
internal import Glibc
internal import Synchronization

/// A thread with a `MainLoop` of its own, and one object that lives on it.
///
/// The thread ends when the last reference to the `LoopThread` goes, after everything handed over before has been done.
/// While nothing happens it sleeps in `epoll_wait(2)` without a time-out.
///
/// Why this is safe without a word to the compiler: the main loop and the resident are local to the thread's function
/// and never stored anywhere else. The only objects that two threads touch are the inbox, which is a lock around a list
/// of `@Sendable` closures, and a pipe.
public final class LoopThread<Resident>: Sendable {
    private let inbox: Inbox<Resident>

    /// Starts the thread.
    ///
    /// - Parameters:
    ///   - name: shown by `ps` and debuggers; the system keeps its first 15 bytes.
    ///   - make: makes the resident, on the thread.
    /// - Throws: `Failed` when the system has no more threads or descriptors.
    public init(name: String, _ make: @escaping @Sendable (MainLoop) -> Resident) throws(BusError) {
        let inbox = try Inbox<Resident>()
        self.inbox = inbox
        let body = ThreadBody {
            let loop = MainLoop()
            let resident = make(loop)
            let source = loop.onReadable(inbox.bell.rawValue) {
                let (jobs, isClosed) = inbox.empty()
                for job in jobs { job(resident) }
                if isClosed { loop.quit() }
                return !isClosed
            }
            loop.run()
            source.cancel()
            withExtendedLifetime(resident) {}
        }
        let box = Unmanaged.passRetained(body)
        var failure: UnsafeMutablePointer<GError>?
        let thread = g_thread_try_new(
            name,
            { data in
                // Never nil: it is the box above.
                Unmanaged<ThreadBody>.fromOpaque(data!).takeRetainedValue().run()
                return nil
            }, box.toOpaque(), &failure)
        guard let thread else {
            box.release()
            defer { g_clear_error(&failure) }
            throw .failed(failure.map { String(cString: $0.pointee.message) } ?? "no thread")
        }
        // It goes on by itself; this is only our reference to its handle.
        g_thread_unref(thread)
    }

    deinit {
        inbox.close()
    }

    /// Runs `job` on the thread, after all jobs that were handed over before. Never runs it inline.
    public func perform(_ job: @escaping @Sendable (Resident) -> Void) {
        inbox.put(job)
    }
}

/// The thread's jobs, and the bell that announces them.
private final class Inbox<Resident>: Sendable {
    typealias Job = @Sendable (Resident) -> Void

    private struct Contents {
        var jobs: [Job] = []
        var isClosed = false
    }

    private let contents = Mutex(Contents())
    let bell: FileDescriptor
    private let rope: FileDescriptor

    init() throws(BusError) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw .failed("no pipe: \(String(cString: strerror(errno)))") }
        bell = FileDescriptor(owning: ends[0])
        rope = FileDescriptor(owning: ends[1])
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
    }

    func put(_ job: @escaping Job) {
        let isFirst = contents.withLock { contents in
            contents.jobs.append(job)
            return contents.jobs.count == 1
        }
        if isFirst { ring() }
    }

    func close() {
        contents.withLock { $0.isClosed = true }
        ring()
    }

    func empty() -> ([Job], isClosed: Bool) {
        // Silenced before the jobs are removed: a ring after this is for later jobs.
        var bytes = [UInt8](repeating: 0, count: 16)
        _ = read(bell.rawValue, &bytes, bytes.count)
        return contents.withLock { contents in
            defer { contents.jobs = [] }
            return (contents.jobs, contents.isClosed)
        }
    }

    private func ring() {
        // A pipe that is full is as good as rung.
        var byte: UInt8 = 1
        _ = write(rope.rawValue, &byte, 1)
    }
}

/// The new thread's function.
private final class ThreadBody {
    private let body: () -> Void

    init(_ body: @escaping () -> Void) {
        self.body = body
    }

    func run() {
        // Signals are for the program's own threads.
        var all = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_BLOCK, &all, nil)
        body()
    }
}

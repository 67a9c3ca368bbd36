// SPDX-License-Identifier: Apache-2.0
// The processes of the machine, and whether the lock-down's filter of system calls applies to each.

internal import Glibc
internal import SystemFiles

/// A running process.
public struct RunningProcess: Hashable, Sendable {
    /// Its number.
    public let pid: Int32
    /// Its parent's number; 1 also if the parent has ended.
    public let parent: Int32
    /// Its user.
    public let uid: UInt32
    /// At most 15 bytes, chosen by the process itself.
    public let name: String
    /// Its service or scope of the system manager; nil for none.
    public let unit: String?
    /// Whether it has a filter of system calls (seccomp(2)); only a tracer can see which.
    public let isFiltered: Bool
    /// Its start time, in clock ticks since boot.
    public let beginning: UInt64
    /// Whether it runs systemd's own code, which no user can change or trace. An example is "(sd-pam)", which waits for
    /// the end of a user's manager, and starts before the filter is set.
    public let isServiceManagers: Bool

    /// For tests.
    public init(
        pid: Int32, parent: Int32, uid: UInt32 = 0, name: String = "", unit: String?, isFiltered: Bool, beginning: UInt64,
        isServiceManagers: Bool = false
    ) {
        self.pid = pid
        self.parent = parent
        self.uid = uid
        self.name = name
        self.unit = unit
        self.isFiltered = isFiltered
        self.beginning = beginning
        self.isServiceManagers = isServiceManagers
    }

    /// All running processes by number, without kernel threads, zombies, process 1 and this process.
    ///
    /// - Throws: if the list of processes cannot be read.
    public static func all() throws -> [RunningProcess] {
        let numbers = try SystemFile.names(in: "/proc").compactMap { Int32($0) }.sorted()
        return numbers.filter { $0 != 1 && $0 != getpid() }.compactMap(read)
    }

    /// Nil for a process that has ended, and for a kernel thread.
    private static func read(_ pid: Int32) -> RunningProcess? {
        guard let status = ProcessStatus("/proc/\(pid)"), status["State"].first != "Z", let beginning = ProcessFacts.beginning(pid),
            let parent = status["PPid"].first.flatMap({ Int32($0) }), let uid = status["Uid"].first.flatMap({ UInt32($0) }),
            let cgroup = try? SystemFile.text("/proc/\(pid)/cgroup")
        else { return nil }
        guard !ProcessFacts.isKernelThread(pid) else { return nil }
        // The files in the directory belong to root if only root may trace the process.
        var file = stat()
        let isOurs = stat("/proc/\(pid)/status", &file) == 0 && file.st_uid == 0
        return RunningProcess(
            pid: pid, parent: parent, uid: uid, name: status["Name"].joined(separator: " "),
            unit: ProcessFacts.anyUnit(cgroup: cgroup),
            isFiltered: status["Seccomp"].first.map { $0 != "0" } ?? false, beginning: beginning,
            isServiceManagers: isOurs && ProcessFacts.executable(pid).map(systemd.contains) ?? false)
    }

    /// The programs that run before a service's own; the executor since systemd 255.
    private static let systemd = ["/usr/lib/systemd/systemd", "/usr/lib/systemd/systemd-executor"]

    /// The time on the clock of `beginning`.
    public static var now: UInt64 { ProcessFacts.ticksSinceBoot }
}

/// The processes that may have Bluetooth sockets although the lock-down is on.
public struct UnlockedProcesses: Sendable {
    /// Why a process may have Bluetooth sockets.
    public enum Filter: String, Hashable, Sendable {
        /// It has no filter at all.
        case none
        /// It, or its parent, started before the lock-down: its filter may be another.
        case earlier
    }

    /// By number.
    public let found: [(process: RunningProcess, filter: Filter)]

    private enum State {
        case closed, excepted
        case unlocked(Filter)
    }

    /// - Parameters:
    ///   - since: the time when systemd had read the drop-ins, in clock ticks since boot: 0 if they existed at boot,
    ///     nil if unknown.
    ///   - exceptions: services that keep Bluetooth sockets, with all their children; `name@.service` for its
    ///     instances.
    public init(among processes: [RunningProcess], since: UInt64?, exceptions: [String]) {
        let byNumber = Dictionary(processes.map { ($0.pid, $0) }) { first, _ in first }
        var states: [Int32: State] = [:]

        func state(of process: RunningProcess) -> State {
            if let state = states[process.pid] { return state }
            // Reused numbers could make a cycle of parents.
            states[process.pid] = .closed
            let parent = byNumber[process.parent].map(state)
            var result = State.closed
            if Self.isExcepted(process.unit, exceptions) {
                result = .excepted
            } else if case .excepted? = parent {
                result = .excepted
            } else if !process.isFiltered {
                // Children inherit filters: systemd started this one before it set its own filter.
                if process.isServiceManagers, case .closed? = parent { result = .closed } else { result = .unlocked(.none) }
            } else if since.map({ process.beginning <= $0 }) ?? true {
                result = .unlocked(.earlier)
            } else if case .unlocked? = parent {
                result = .unlocked(.earlier)
            }
            states[process.pid] = result
            return result
        }

        found = processes.compactMap { process in
            if case .unlocked(let filter) = state(of: process) { (process, filter) } else { nil }
        }
    }

    private static func isExcepted(_ unit: String?, _ exceptions: [String]) -> Bool {
        guard let unit else { return false }
        if exceptions.contains(unit) { return true }
        guard let at = unit.firstIndex(of: "@"), unit.hasSuffix(".service") else { return false }
        return exceptions.contains("\(unit[...at]).service")
    }
}

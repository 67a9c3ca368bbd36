// SPDX-License-Identifier: Apache-2.0
// All processes of the machine as the lock-down sees them: which have the filter of system calls that services begin
// with, and of which it is not known.

internal import Glibc
internal import SystemFiles

/// A process that runs.
public struct RunningProcess: Hashable, Sendable {
    /// Its number.
    public let pid: Int32
    /// Its parent's; 1 also for one whose parent has ended.
    public let parent: Int32
    /// Its user.
    public let uid: UInt32
    /// As the kernel abbreviates it: 15 bytes, of the process' own choice.
    public let name: String
    /// The service or scope of the system manager that it is in; nil for none.
    public let unit: String?
    /// Whether any filter of system calls holds it (seccomp(2)); which one, only a tracer learns.
    public let isFiltered: Bool
    /// When it began, in clock ticks since the machine did.
    public let beginning: UInt64
    /// Whether it is systemd's own code that no user can change: its program, out of reach for a tracer without rights.
    /// Such is "(sd-pam)", which waits for the end of a user's manager, and was made before the filter.
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

    /// All that run, in the order of their numbers: without the kernel's own, those that have ended, the first, which
    /// starts all others, and the one that asks.
    ///
    /// - Throws: when the list of processes cannot be read.
    public static func all() throws -> [RunningProcess] {
        let numbers = try SystemFile.names(in: "/proc").compactMap { Int32($0) }.sorted()
        return numbers.filter { $0 != 1 && $0 != getpid() }.compactMap(read)
    }

    /// Nil for one that has ended meanwhile, or is the kernel's.
    private static func read(_ pid: Int32) -> RunningProcess? {
        guard let status = ProcessStatus("/proc/\(pid)"), status["State"].first != "Z", let beginning = ProcessFacts.beginning(pid),
            let parent = status["PPid"].first.flatMap({ Int32($0) }), let uid = status["Uid"].first.flatMap({ UInt32($0) }),
            let cgroup = try? SystemFile.text("/proc/\(pid)/cgroup")
        else { return nil }
        guard !ProcessFacts.isKernelThread(pid) else { return nil }
        // Whose files are, other than the directory, is root where only root may trace.
        var file = stat()
        let isOurs = stat("/proc/\(pid)/status", &file) == 0 && file.st_uid == 0
        return RunningProcess(
            pid: pid, parent: parent, uid: uid, name: status["Name"].joined(separator: " "),
            unit: ProcessFacts.anyUnit(cgroup: cgroup),
            isFiltered: status["Seccomp"].first.map { $0 != "0" } ?? false, beginning: beginning,
            isServiceManagers: isOurs && ProcessFacts.executable(pid).map(systemd.contains) ?? false)
    }

    /// What runs before a service's own program does, and the latter since systemd 255.
    private static let systemd = ["/usr/lib/systemd/systemd", "/usr/lib/systemd/systemd-executor"]

    /// Now, as `beginning` counts.
    public static var now: UInt64 { ProcessFacts.ticksSinceBoot }
}

/// The processes that may still have Bluetooth sockets while the lock-down is on.
public struct UnlockedProcesses: Sendable {
    /// What is known.
    public enum Filter: String, Hashable, Sendable {
        /// It has no filter at all.
        case none
        /// It has one, but began before the lock-down did, or was begun by such a one: the filter may be another.
        case earlier
    }

    /// Those, in the order of their numbers.
    public let found: [(process: RunningProcess, filter: Filter)]

    private enum State {
        case closed, excepted
        case unlocked(Filter)
    }

    /// - Parameters:
    ///   - since: when systemd had read the drop-ins, in clock ticks since the machine began: 0 where it was locked
    ///     down from the beginning, nil where that is not known.
    ///   - exceptions: services that keep Bluetooth sockets, with all that they start; `name@.service` for its
    ///     instances.
    public init(among processes: [RunningProcess], since: UInt64?, exceptions: [String]) {
        let known = Dictionary(processes.map { ($0.pid, $0) }) { first, _ in first }
        var states: [Int32: State] = [:]

        func state(of process: RunningProcess) -> State {
            if let state = states[process.pid] { return state }
            // Against a circle, which numbers that come round could make between two looks.
            states[process.pid] = .closed
            let parent = known[process.parent].map(state)
            var result = State.closed
            if Self.isExcepted(process.unit, exceptions) {
                result = .excepted
            } else if case .excepted? = parent {
                result = .excepted
            } else if !process.isFiltered {
                // A filter passes to all children: a child without its parent's was made before that, by systemd.
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

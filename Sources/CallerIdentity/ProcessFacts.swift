// SPDX-License-Identifier: Apache-2.0
// The kernel's data on a process from /proc: its executable, its control group, and whether it runs inside a Flatpak or
// a snap. Callers must pin the process before reading, and check afterwards that it is alive.

public import AccessoryModel
internal import DBusKit
internal import Glibc
internal import KeyFiles
internal import SystemFiles

/// The kernel's data on a process (proc(5)).
public enum ProcessFacts {
    /// In bytes; `.flatpak-info` has a few hundred.
    private static let maxInfoSize = 64 << 10

    /// A process as a caller, for developers.
    ///
    /// - Throws: if the process does not exist, or may not be inspected.
    public static func caller(pid: Int32) throws(IdentityFailure) -> Caller {
        guard let uid = ProcessStatus("/proc/\(pid)")?["Uid"].dropFirst().first.flatMap({ UInt32($0) })
        else { throw IdentityFailure(description: "no process \(pid)") }
        var caller = Caller(uid: uid, pid: pid)
        if let text = try? SystemFile.text("/proc/\(pid)/attr/current") {
            caller.securityLabel = Caller.SecurityLabel(label(String(text.split(whereSeparator: \.isNewline).first ?? "")))
        }
        try read(pid, into: &caller)
        return caller
    }

    /// - Parameter procfs: `/proc`, or its substitute in tests.
    static func read(_ pid: Int32, into caller: inout Caller, procfs: String = "/proc") throws(IdentityFailure) {
        let process = "\(procfs)/\(pid)"
        caller.executable = executable(pid, procfs: procfs)
        if let text = try? SystemFile.text(process + "/cgroup") {
            caller.unit = unit(cgroup: text)
            // Root made the system's units, so a snap's service is as trustworthy as any other.
            caller.snap.name = snap(label: caller.unit)
            caller.snap.isService = caller.snap.name != nil
            caller.snap.isInScope = isInSnapScope(text)
            caller.container = container(cgroup: text)
        }
        if let name = snap(label: caller.securityLabel?.text), !caller.snap.isService { caller.snap.name = name }
        caller.securityLabel?.isChosen = labelsAreChosen(procfs)
        let status = ProcessStatus(process)
        caller.isContained = isContained(process, status, of: caller.uid, procfs: procfs)
        // A caller on an app's own socket needs no readable root directory.
        if caller.socket == nil { caller.flatpak = try flatpak(process, &caller) }
        guard caller.groups.isEmpty, let status else { return }
        caller.groups = Set((status["Gid"] + status["Groups"]).compactMap { UInt32($0) })
    }

    /// The path of a process' program; nil if it is unreadable, was replaced, or leads to another file here. A user who
    /// may make namespaces (on most systems every user) can mount a program over any path, which the kernel then
    /// reports: only the file itself identifies the program.
    static func executable(_ pid: Int32, procfs: String = "/proc") -> String? {
        let link = "\(procfs)/\(pid)/exe"
        guard let path = target(of: link), let running = image(link), running == image(path) else { return nil }
        return path
    }

    /// The identity of a file, independent of its path.
    struct Image: Hashable {
        let device: UInt64
        let inode: UInt64
    }

    /// The file that a process executes; nil if unreadable.
    static func image(_ pid: Int32) -> Image? { image("/proc/\(pid)/exe") }

    private static func image(_ path: String) -> Image? {
        var status = stat()
        return stat(path, &status) == 0 ? Image(device: UInt64(status.st_dev), inode: UInt64(status.st_ino)) : nil
    }

    // MARK: Life

    /// A process descriptor is readable once its process has ended.
    static func isAlive(_ process: FileDescriptor) -> Bool {
        var entry = pollfd(fd: process.rawValue, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, 0) == 0
    }

    /// The users of a process: real, effective, saved and of the file system; nil if it does not exist.
    static func users(_ pid: Int32, procfs: String = "/proc") -> Set<UInt32>? {
        ProcessStatus("\(procfs)/\(pid)").map { Set($0["Uid"].compactMap { UInt32($0) }) }
    }

    /// The start time of a process, in clock ticks since boot; nil if it does not exist.
    static func beginning(_ pid: Int32) -> UInt64? { field(22, of: pid) }

    /// Whether it is a thread of the kernel (PF_KTHREAD of its flags).
    static func isKernelThread(_ pid: Int32) -> Bool { field(9, of: pid).map { $0 & 0x20_0000 != 0 } ?? false }

    /// A field of proc_pid_stat(5), which counts from 1; nil if the process does not exist.
    private static func field(_ number: Int, of pid: Int32) -> UInt64? {
        guard let text = try? SystemFile.text("/proc/\(pid)/stat"), let name = text.lastIndex(of: ")")
        else { return nil }
        // The second field, the name, may contain spaces and brackets.
        let fields = text[text.index(after: name)...].split(separator: " ")
        return fields.count > number - 3 ? UInt64(fields[number - 3]) : nil
    }

    static var ticksSinceBoot: UInt64 {
        var now = timespec()
        clock_gettime(CLOCK_BOOTTIME, &now)
        let ticks = UInt64(sysconf(Int32(_SC_CLK_TCK)))
        return UInt64(now.tv_sec) * ticks + UInt64(now.tv_nsec) * ticks / 1_000_000_000
    }

    // MARK: Namespaces

    /// CAP_SYS_ADMIN (capabilities(7)): with it, a process of the machine can enter every mount namespace.
    private static let entersNamespaces: UInt64 = 1 << 21

    /// Whether a process is in a user, mount or pid namespace of its own. The daemon may not see the namespaces of
    /// other users' processes (namespaces(7)); their user and pid namespaces show in `uid_map` and `NSpid`. A process
    /// of root with CAP_SYS_ADMIN can enter every mount namespace, so only without it the mount namespace matters.
    static func isContained(_ process: String, _ status: ProcessStatus?, of uid: UInt32, procfs: String) -> Bool {
        guard let status, status["NSpid"].count == 1, let users = try? SystemFile.text(process + "/uid_map"),
            users == (try? SystemFile.text(procfs + "/self/uid_map"))
        else { return true }
        if let theirs = target(of: process + "/ns/user"), theirs != target(of: procfs + "/self/ns/user") { return true }
        if let theirs = target(of: process + "/ns/mnt") {
            return ![target(of: procfs + "/self/ns/mnt"), target(of: procfs + "/1/ns/mnt")].contains(theirs)
        }
        return uid == 0 && (status["CapEff"].first.flatMap { UInt64($0, radix: 16) } ?? 0) & entersNamespaces == 0
    }

    /// The target of a symbolic link; nil if it is not a link or not readable.
    private static func target(of link: String) -> String? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let length = buffer.withUnsafeMutableBytes { readlink(link, $0.baseAddress!, $0.count) }
        return length > 0 && length < buffer.count ? String(decoding: buffer.prefix(length), as: UTF8.self) : nil
    }

    // MARK: Units

    /// The system unit of a control group: the first service or scope below a slice of the system. Users choose the
    /// names of user units, so these identify no app.
    static func unit(cgroup: String) -> String? {
        let parts = path(cgroup)
        guard parts.first?.hasSuffix(".slice") == true, parts.first != "user.slice" else { return nil }
        return unit(in: parts)
    }

    /// The unit of the system manager that a control group belongs to, including sessions and users' managers.
    static func anyUnit(cgroup: String) -> String? { unit(in: path(cgroup)) }

    private static func unit(in parts: [Substring]) -> String? {
        parts.first { $0.hasSuffix(".service") || $0.hasSuffix(".scope") }.map(unescape)
    }

    /// The container of a control group that only root could make, as text: `podman 0123456789ab`. Docker, containerd,
    /// CRI-O and podman name scopes after the engine and the container's number, nspawn and LXC after the machine. The
    /// first match counts, because the container chooses the names below it.
    static func container(cgroup: String) -> String? {
        let parts = path(cgroup)
        guard parts.first != "user.slice" else { return nil }
        for part in parts {
            for (prefix, suffix, engine) in engines where part.hasPrefix(prefix) && part.hasSuffix(suffix) {
                let name = part.dropFirst(prefix.count).dropLast(suffix.count)
                return "\(engine) \(name.count == 64 ? name.prefix(12) : name)"
            }
        }
        return nil
    }

    /// Prefix and suffix of the names of containers' control groups.
    private static let engines = [
        ("libpod-", ".scope", "podman"), ("docker-", ".scope", "docker"), ("cri-containerd-", ".scope", "containerd"),
        ("crio-", ".scope", "CRI-O"), ("machine-", ".scope", "machine"), ("lxc.payload.", "", "LXC"),
    ]

    private static func path(_ cgroup: String) -> [Substring] {
        cgroup.split(separator: "\n").first { $0.hasPrefix("0::/") }?.dropFirst(3).split(separator: "/") ?? []
    }

    /// In control groups, systemd escapes only a leading underscore of a unit's name.
    private static func unescape(_ name: Substring) -> String {
        String(name.hasPrefix("_") ? name.dropFirst() : name)
    }

    // MARK: Security labels and snaps

    /// A label without AppArmor's mode; nil for an unconfined process.
    static func label(_ text: String) -> String? {
        var name = text[...]
        // "snap.dice.play (enforce)"
        if text.hasSuffix(")"), let mode = text.lastIndex(of: " "), text[mode...].hasPrefix(" (") { name = text[..<mode] }
        return name.isEmpty || name == "unconfined" ? nil : String(name)
    }

    /// A label from the kernel, which may end with a NUL.
    static func label(_ bytes: [UInt8]) -> String? { label(String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)) }

    /// AppArmor's label of a snap's program is `snap.NAME.PROGRAM`.
    static func snap(label: String?) -> String? {
        guard let parts = label?.split(separator: "."), parts.count >= 3, parts[0] == "snap" else { return nil }
        return String(parts[1])
    }

    /// snapd tracks its programs in scopes `snap.NAME.PROGRAM-UUID.scope` and units `snap.NAME.PROGRAM.service`. Every
    /// user can make such a scope below user.slice, so it identifies no app; but a process in one must not match by its
    /// executable.
    static func isInSnapScope(_ cgroup: String) -> Bool { path(cgroup).contains { snap(label: String($0)) != nil } }

    /// Whether a process may choose its label: with AppArmor, an unconfined process may change to any profile unless
    /// the kernel restricts that (apparmor.d(7), change_profile; since Linux 6.7). SELinux and Smack decide by policy.
    static func labelsAreChosen(_ procfs: String, modules: String = "/sys/module") -> Bool {
        guard let enabled = try? SystemFile.text(modules + "/apparmor/parameters/enabled"),
            enabled.hasPrefix("Y")
        else { return false }
        let restricted = try? SystemFile.text(procfs + "/sys/kernel/apparmor_restrict_unprivileged_unconfined")
        return restricted?.hasPrefix("1") != true
    }

    // MARK: Flatpaks

    /// The Flatpak by `/.flatpak-info` in the process' root, as the portals determine it. A process in the sandbox
    /// cannot change that file; but a user who may make namespaces can make such a root, so more is needed to match
    /// (`AppMatching`). Without the file the process is in no Flatpak; after any other error it is unknown.
    private static func flatpak(_ process: String, _ caller: inout Caller) throws(IdentityFailure) -> String? {
        let root = open(process + "/root", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard root >= 0 else {
            let reason = errno
            if reason == EACCES || reason == EPERM {
                // Unit, label, user and groups are still valid. By its executable it matches no app: it might be in any
                // Flatpak.
                caller.unreadable = .process
                return nil
            }
            throw IdentityFailure(description: "process \(caller.pid) cannot be inspected: \(String(cString: strerror(reason)))")
        }
        defer { close(root) }
        let file = openat(root, ".flatpak-info", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard file >= 0 else {
            if errno == ENOENT { return nil }
            if errno == EACCES || errno == EPERM {
                // flatpak makes it readable for its user only. As above.
                caller.unreadable = .flatpak
                return nil
            }
            throw IdentityFailure(
                description: "process \(caller.pid): its Flatpak cannot be read: \(String(cString: strerror(errno)))")
        }
        let descriptor = FileDescriptor(owning: file)
        guard let bytes = descriptor.readFile(limit: maxInfoSize),
            let info = try? KeyFile(contents: String(decoding: bytes, as: UTF8.self), path: ".flatpak-info"),
            let name = (try? info.string("Application", "name")) ?? nil, !name.isEmpty
        else { throw IdentityFailure(description: "process \(caller.pid): its Flatpak has no name") }
        return name
    }
}

/// The lines of a process' `status` file (proc_pid_status(5)).
struct ProcessStatus {
    private let text: String

    /// - Parameter process: its directory; the result is nil if it does not exist.
    init?(_ process: String) {
        guard let text = try? SystemFile.text(process + "/status") else { return nil }
        self.text = text
    }

    /// The words after a key; empty for an absent key.
    subscript(key: String) -> [Substring] {
        let line = text.split(separator: "\n").first { $0.hasPrefix(key + ":") }
        return line.map { Array($0.split(whereSeparator: \.isWhitespace).dropFirst()) } ?? []
    }
}

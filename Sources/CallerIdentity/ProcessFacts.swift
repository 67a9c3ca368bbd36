// SPDX-License-Identifier: Apache-2.0
// What the kernel says of a process through /proc: its executable, its control group, and whether it runs inside a
// Flatpak or a snap. Whoever reads these has pinned the process before, and sees afterwards that it still lives.

public import AccessoryModel
internal import DBusKit
internal import Glibc
internal import KeyFiles
internal import SystemFiles

/// What the kernel says of a process (proc(5)).
public enum ProcessFacts {
    /// A Flatpak's information is a few hundred bytes.
    private static let largestInfo = 64 << 10

    /// A process that is no caller on the bus, for a developer who wants to know how it would be seen.
    ///
    /// - Throws: when there is no such process, or it may not be looked at.
    public static func caller(pid: Int32) throws(IdentityFailure) -> Caller {
        guard let uid = ProcessStatus("/proc/\(pid)")?["Uid"].dropFirst().first.flatMap({ UInt32($0) })
        else { throw IdentityFailure(description: "there is no process \(pid)") }
        var caller = Caller(uid: uid, pid: pid)
        if let text = try? SystemFile.text("/proc/\(pid)/attr/current") {
            caller.securityLabel = label(String(text.split(whereSeparator: \.isNewline).first ?? ""))
        }
        try read(pid, into: &caller)
        return caller
    }

    /// - Parameter procfs: `/proc`, or in tests a directory like it.
    static func read(_ pid: Int32, into caller: inout Caller, procfs: String = "/proc") throws(IdentityFailure) {
        let process = "\(procfs)/\(pid)"
        caller.executable = executable(pid, procfs: procfs)
        if let text = try? SystemFile.text(process + "/cgroup") {
            caller.unit = unit(cgroup: text)
            // A unit of the system's was made by root: systemd vouches for the snap's service as for any other.
            caller.snap = snap(label: caller.unit)
            caller.isSnapService = caller.snap != nil
            caller.isInSnapScope = isInSnapScope(text)
            caller.container = container(cgroup: text)
        }
        if let name = snap(label: caller.securityLabel), !caller.isSnapService { caller.snap = name }
        caller.choosesLabel = caller.securityLabel != nil && labelsAreChosen(procfs)
        let status = ProcessStatus(process)
        caller.isContained = isContained(process, status, of: caller.uid, procfs: procfs)
        // A root directory that cannot be read is no reason to refuse a caller that its socket identifies.
        if caller.socket == nil { caller.flatpak = try flatpak(process, &caller) }
        guard caller.groups.isEmpty, let status else { return }
        caller.groups = Set((status["Gid"] + status["Groups"]).compactMap { UInt32($0) })
    }

    /// What a process executes; nil when it may not be known, was replaced, or when its path is another file here.
    /// Whoever may make namespaces (on most systems everybody) can mount a program of their own over any path, and that
    /// is the name which the kernel then tells: only the file itself shows which program runs.
    static func executable(_ pid: Int32, procfs: String = "/proc") -> String? {
        let link = "\(procfs)/\(pid)/exe"
        guard let path = target(of: link), let running = image(link), running == image(path) else { return nil }
        return path
    }

    /// A file, whatever it is called.
    struct Image: Hashable {
        let device: UInt64
        let inode: UInt64
    }

    /// The file that a process executes; nil when it may not be known.
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

    /// The users that a process acts as: real, effective, saved and of the file system; nil when there is none.
    static func users(_ pid: Int32, procfs: String = "/proc") -> Set<UInt32>? {
        ProcessStatus("\(procfs)/\(pid)").map { Set($0["Uid"].compactMap { UInt32($0) }) }
    }

    /// When a process began, in clock ticks since the machine did; nil when there is none.
    static func beginning(_ pid: Int32) -> UInt64? { field(22, of: pid) }

    /// Whether it is a thread of the kernel (PF_KTHREAD of its flags).
    static func isKernelThread(_ pid: Int32) -> Bool { field(9, of: pid).map { $0 & 0x20_0000 != 0 } ?? false }

    /// A field of proc_pid_stat(5), which counts from 1; nil when there is no such process.
    private static func field(_ number: Int, of pid: Int32) -> UInt64? {
        guard let text = try? SystemFile.text("/proc/\(pid)/stat"), let name = text.lastIndex(of: ")")
        else { return nil }
        // The name, which may hold spaces and brackets, is the second.
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

    /// Whether a process is in a user, mount or pid namespace of its own. The namespaces of other users' processes are
    /// not for the daemon to see (namespaces(7)). Then the map of users and the list of numbers show the first and the
    /// last, and of root's in the machine's own only one with CAP_SYS_ADMIN is known to have the run of its files.
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

    /// Where a symbolic link leads; nil for no link, and for one that may not be read.
    private static func target(of link: String) -> String? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let length = buffer.withUnsafeMutableBytes { readlink(link, $0.baseAddress!, $0.count) }
        return length > 0 && length < buffer.count ? String(decoding: buffer.prefix(length), as: UTF8.self) : nil
    }

    // MARK: Units

    /// The system unit of a control group: the first service, scope or the like below system.slice. User units are the
    /// user's own to name, so they identify nobody here.
    static func unit(cgroup: String) -> String? {
        let parts = path(cgroup)
        guard parts.first?.hasSuffix(".slice") == true, parts.first != "user.slice" else { return nil }
        return unit(in: parts)
    }

    /// The unit of the system manager's that a control group belongs to, whichever process named it: also a session, or
    /// a user's manager.
    static func anyUnit(cgroup: String) -> String? { unit(in: path(cgroup)) }

    private static func unit(in parts: [Substring]) -> String? {
        parts.first { $0.hasSuffix(".service") || $0.hasSuffix(".scope") }.map(unescape)
    }

    /// The container of a control group that no user could have made, for people: `podman 0123456789ab`. Docker,
    /// containerd, CRI-O and podman name scopes after the engine and the container's number, nspawn and LXC after the
    /// machine.
    /// The first match counts: a container chooses the names below it.
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

    /// How they name the control groups of containers.
    private static let engines = [
        ("libpod-", ".scope", "podman"), ("docker-", ".scope", "docker"), ("cri-containerd-", ".scope", "containerd"),
        ("crio-", ".scope", "CRI-O"), ("machine-", ".scope", "machine"), ("lxc.payload.", "", "LXC"),
    ]

    private static func path(_ cgroup: String) -> [Substring] {
        cgroup.split(separator: "\n").first { $0.hasPrefix("0::/") }?.dropFirst(3).split(separator: "/") ?? []
    }

    /// systemd escapes nothing else in the names of units in control groups than a leading underscore.
    private static func unescape(_ name: Substring) -> String {
        String(name.hasPrefix("_") ? name.dropFirst() : name)
    }

    // MARK: Security labels and snaps

    /// A label without AppArmor's mode; nil for what is not confined.
    static func label(_ text: String) -> String? {
        var name = text[...]
        // The mode is the last word: "snap.dice.play (enforce)".
        if text.hasSuffix(")"), let mode = text.lastIndex(of: " "), text[mode...].hasPrefix(" (") { name = text[..<mode] }
        return name.isEmpty || name == "unconfined" ? nil : String(name)
    }

    /// A label as the kernel hands it out, perhaps with a NUL behind it.
    static func label(_ bytes: [UInt8]) -> String? { label(String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)) }

    /// AppArmor's label of a snap's program is `snap.NAME.PROGRAM`.
    static func snap(label: String?) -> String? {
        guard let parts = label?.split(separator: "."), parts.count >= 3, parts[0] == "snap" else { return nil }
        return String(parts[1])
    }

    /// snapd tracks its programs in scopes `snap.NAME.PROGRAM-UUID.scope` and units `snap.NAME.PROGRAM.service`.
    /// Anybody can make such a scope below user.slice, so this gives nothing and only takes away: who is there is no
    /// app by what it executes.
    static func isInSnapScope(_ cgroup: String) -> Bool { path(cgroup).contains { snap(label: String($0)) != nil } }

    /// Whether a process may choose its label: under AppArmor any that nothing confines may change to any profile,
    /// unless the kernel restricts that (apparmor.d(7), change_profile; the switch is there since Linux 6.7). SELinux
    /// and Smack ask their policy.
    static func labelsAreChosen(_ procfs: String, modules: String = "/sys/module") -> Bool {
        guard let enabled = try? SystemFile.text(modules + "/apparmor/parameters/enabled"),
            enabled.hasPrefix("Y")
        else { return false }
        let restricted = try? SystemFile.text(procfs + "/sys/kernel/apparmor_restrict_unprivileged_unconfined")
        return restricted?.hasPrefix("1") != true
    }

    // MARK: Flatpaks

    /// The Flatpak that a process says it runs in: its root has `/.flatpak-info`, as the portals look for it. Nobody
    /// inside can change that; but whoever may make namespaces can make such a root, so it takes more to be that app
    /// (`AppMatching`). No such file means no Flatpak; anything else that goes wrong means that we do not know.
    private static func flatpak(_ process: String, _ caller: inout Caller) throws(IdentityFailure) -> String? {
        let root = open(process + "/root", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard root >= 0 else {
            let reason = errno
            if reason == EACCES || reason == EPERM {
                // Without the right to look, a unit or a label is still somebody's word that counts, and so are its
                // user and groups. Else it is no app: it might be any Flatpak's.
                caller.isOpaque = true
                return nil
            }
            throw IdentityFailure(description: "process \(caller.pid) cannot be looked at: \(String(cString: strerror(reason)))")
        }
        defer { close(root) }
        let file = openat(root, ".flatpak-info", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard file >= 0 else {
            if errno == ENOENT { return nil }
            if errno == EACCES || errno == EPERM {
                // Its user's alone to read, as flatpak makes it. As above, and by its executable it is nobody either.
                caller.isInUnreadableFlatpak = true
                return nil
            }
            throw IdentityFailure(
                description: "process \(caller.pid): its Flatpak cannot be read: \(String(cString: strerror(errno)))")
        }
        let descriptor = FileDescriptor(owning: file)
        guard let bytes = descriptor.readFile(limit: largestInfo),
            let info = try? KeyFile(contents: String(decoding: bytes, as: UTF8.self), path: ".flatpak-info"),
            let name = (try? info.string("Application", "name")) ?? nil, !name.isEmpty
        else { throw IdentityFailure(description: "process \(caller.pid): its Flatpak says no name") }
        return name
    }
}

/// The lines of a process' `status` file (proc_pid_status(5)).
struct ProcessStatus {
    private let text: String

    /// - Parameter process: its directory. Nil when there is none.
    init?(_ process: String) {
        guard let text = try? SystemFile.text(process + "/status") else { return nil }
        self.text = text
    }

    /// The words of a line behind its key; empty for a key that is absent.
    subscript(key: String) -> [Substring] {
        let line = text.split(separator: "\n").first { $0.hasPrefix(key + ":") }
        return line.map { Array($0.split(whereSeparator: \.isWhitespace).dropFirst()) } ?? []
    }
}

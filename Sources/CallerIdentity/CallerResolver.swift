// Who is calling: asked once per connection, from the kernel by way of the bus, with the process pinned so that its number cannot be
// taken over by another. On doubt the caller is nobody.

public import AccessoryModel
internal import CSystem
public import DBusKit
internal import Foundation
public import Logging

/// Why a caller could not be identified.
public struct IdentityFailure: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
}

public final class CallerResolver {
    private let connection: Connection
    private let log: Logger

    public init(on connection: Connection, log: Logger) {
        self.connection = connection
        self.log = log
    }

    /// Resolves the process behind a unique name. `completion` is called exactly once.
    public func resolve(_ name: String, completion: @escaping (Result<Caller, IdentityFailure>) -> Void) {
        connection.call(Bus.name, Bus.path, Bus.name, "GetConnectionCredentials", [.string(name)]) { [self] result in
            guard let credentials = (try? result.get())?.first?.vardictValue,
                let pid = credentials["ProcessID"]?.integerValue.flatMap({ Int32(exactly: $0) }),
                let uid = credentials["UnixUserID"]?.integerValue.flatMap({ UInt32(exactly: $0) })
            else { return completion(.failure(IdentityFailure(description: "the bus does not say who \(name) is"))) }
            let given = credentials["ProcessFD"]?.fileDescriptorValue
            // Without a descriptor from the bus the number may have been reused between the connection and now: open one, read,
            // and see that the name still belongs to the same, living process.
            guard let process = given ?? Self.open(pid) else {
                return completion(.failure(IdentityFailure(description: "process \(pid) is gone")))
            }
            var caller = Caller(uid: uid, pid: pid)
            caller.groups = Set((credentials["UnixGroupIDs"]?.arrayValue ?? []).compactMap(\.integerValue).map { UInt32($0) })
            ProcessFacts.read(pid, into: &caller)
            guard Self.isAlive(process) else {
                return completion(.failure(IdentityFailure(description: "process \(pid) ended while it was looked up")))
            }
            guard given == nil else { return completion(.success(caller)) }
            connection.call(Bus.name, Bus.path, Bus.name, "GetConnectionUnixProcessID", [.string(name)]) { again in
                let same = (try? again.get())?.first?.integerValue == Int(pid)
                guard same, Self.isAlive(process) else {
                    return completion(.failure(IdentityFailure(description: "process \(pid) changed while it was looked up")))
                }
                completion(.success(caller))
            }
        }
    }

    private static func open(_ pid: Int32) -> FileDescriptor? {
        let descriptor = csystem_pidfd_open(pid)
        return descriptor < 0 ? nil : FileDescriptor(owning: descriptor)
    }

    /// A process descriptor is readable once its process has ended.
    private static func isAlive(_ process: FileDescriptor) -> Bool {
        var entry = pollfd(fd: process.rawValue, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, 0) == 0
    }
}

/// What /proc says of a process.
enum ProcessFacts {
    static func read(_ pid: Int32, into caller: inout Caller) {
        if let executable = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/exe"),
            // A file that was replaced says nothing of who runs now.
            !executable.hasSuffix(" (deleted)")
        {
            caller.executable = executable
        }
        if let text = try? String(contentsOfFile: "/proc/\(pid)/cgroup", encoding: .utf8) { caller.unit = unit(cgroup: text) }
        guard caller.groups.isEmpty, let status = try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8) else {
            return
        }
        for line in status.split(separator: "\n") where line.hasPrefix("Groups:") || line.hasPrefix("Gid:") {
            for word in line.split(whereSeparator: \.isWhitespace).dropFirst() {
                if let group = UInt32(word) { caller.groups.insert(group) }
            }
        }
    }

    /// The system unit of a control group: the first service, scope or the like below system.slice. User units are the user's own
    /// to name, so they identify nobody here.
    static func unit(cgroup: String) -> String? {
        guard let line = cgroup.split(separator: "\n").first(where: { $0.hasPrefix("0::/") }) else { return nil }
        let parts = line.dropFirst(3).split(separator: "/")
        guard parts.first?.hasSuffix(".slice") == true, parts.first != "user.slice" else { return nil }
        return parts.first { $0.hasSuffix(".service") || $0.hasSuffix(".scope") }.map(unescape)
    }

    /// systemd escapes nothing else in the names of units in control groups than a leading underscore.
    private static func unescape(_ name: Substring) -> String {
        String(name.hasPrefix("_") ? name.dropFirst() : name)
    }
}

/// Which app a caller speaks for.
public enum AppMatching {
    /// The one app whose manifest fits.
    ///
    /// - Throws: why there is none, for the developer who reads the refusal.
    public static func app(of caller: Caller, in store: ManifestStore) throws(IdentityFailure) -> AppManifest {
        let seen =
            "uid \(caller.uid), executable \(caller.executable ?? "unreadable"), unit \(caller.unit ?? "none")"
        // Strongest first: a unit is systemd's word, an executable only says which program it is.
        let byUnit = store.apps.values.filter { app in caller.unit.map { app.units.contains($0) } ?? false }
        let fitting = byUnit.isEmpty ? store.apps.values.filter { fits($0, caller) } : byUnit
        guard fitting.count <= 1 else {
            let files = fitting.map(\.source).sorted().joined(separator: ", ")
            throw IdentityFailure(description: "seen as \(seen): more than one manifest fits: \(files)")
        }
        guard let app = fitting.first else {
            let directory = store.directories.last ?? ""
            let line = caller.unit.map { "Unit=\($0)" } ?? "Executable=\(caller.executable ?? "/path/to/the/app")"
            throw IdentityFailure(
                description: "seen as \(seen): no manifest fits; a file \(directory)/ID.conf with \(line) would")
        }
        return app
    }

    private static func fits(_ app: AppManifest, _ caller: Caller) -> Bool {
        guard let executable = caller.executable else { return false }
        let names = app.executables.contains { $0 == executable || realPath($0) == executable }
        return names && (app.users.isEmpty || app.users.contains { userID($0) == caller.uid })
    }

    private static func realPath(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    private static func userID(_ user: String) -> UInt32? {
        UInt32(user) ?? getpwnam(user).map { $0.pointee.pw_uid }
    }
}

// Which app a caller speaks for: the one whose manifest fits what the kernel says of it.

public import AccessoryModel
internal import Glibc

/// Which app a caller speaks for.
public enum AppMatching {
    /// What a match rests on, strongest first.
    public enum Basis: String, Hashable, Sendable {
        case label = "security label"
        case flatpak = "Flatpak"
        case snap
        case unit
        /// Weak: anybody who can run the program as that user speaks for the app.
        case executable
    }

    /// The one app whose manifest fits, and by what.
    public struct Match: Hashable, Sendable {
        public let app: AppManifest
        public let basis: Basis
    }

    /// - Throws: why there is none, for the developer who reads the refusal.
    public static func match(_ caller: Caller, in store: ManifestStore) throws(IdentityFailure) -> Match {
        let seen = caller.summary
        let (fitting, basis) = fitting(caller, in: store)
        guard fitting.count <= 1 else {
            let files = fitting.map(\.source).sorted().joined(separator: ", ")
            throw IdentityFailure(description: "seen as \(seen): more than one manifest fits: \(files)")
        }
        guard let app = fitting.first else {
            let directory = store.directories.last ?? ""
            let obstacle =
                caller.isOpaque
                ? "; its executable could not be read: the daemon may not look into other users' processes, and goes by Executable= "
                    + "and Flatpak= only with the drop-in identify-by-executable.conf, see accessory-setup-manifest(5)" : ""
            throw IdentityFailure(
                description:
                    "seen as \(seen): no manifest fits; a file \(directory)/ID.conf with \(line(for: caller)) would\(obstacle)")
        }
        return Match(app: app, basis: basis)
    }

    /// The line of a manifest that would fit.
    private static func line(for caller: Caller) -> String {
        if let flatpak = caller.flatpak { return "Flatpak=\(flatpak)" }
        if let snap = caller.snap { return "Snap=\(snap)" }
        if let unit = caller.unit { return "Unit=\(unit)" }
        if caller.isOpaque { return "Unit=NAME.service (for an app that runs as that service)" }
        return "Executable=\(caller.executable ?? "/path/to/the/app")"
    }

    /// Strongest first: the kernel's word, the sandbox's, systemd's; an executable only says which program it is. Who runs inside a
    /// sandbox is that and nothing else: an executable in there has any name it likes.
    private static func fitting(_ caller: Caller, in store: ManifestStore) -> ([AppManifest], Basis) {
        func named(_ name: String?, _ names: KeyPath<AppManifest, Set<String>>) -> [AppManifest] {
            guard let name else { return [] }
            return store.apps.values.filter { $0[keyPath: names].contains(name) }
        }
        let byLabel = named(caller.securityLabel, \.securityLabels)
        if !byLabel.isEmpty { return (byLabel, .label) }
        if caller.flatpak != nil { return (named(caller.flatpak, \.flatpaks), .flatpak) }
        if caller.snap != nil { return (named(caller.snap, \.snaps), .snap) }
        let byUnit = named(caller.unit, \.units)
        if !byUnit.isEmpty || caller.isOpaque { return (byUnit, .unit) }
        return (store.apps.values.filter { fits($0, caller) }, .executable)
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

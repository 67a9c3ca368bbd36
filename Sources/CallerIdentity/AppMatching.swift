// SPDX-License-Identifier: Apache-2.0
// Which app a caller speaks for: the one whose manifest fits what the kernel says of it.

public import AccessoryModel
public import AdminFiles
internal import Glibc

/// Which app a caller speaks for.
public enum AppMatching {
    /// What a match rests on, strongest first.
    public enum Basis: String, Hashable, Sendable {
        /// The admin's word: the caller came by the app's own socket.
        case socket
        /// The kernel's word, where a process cannot choose it.
        case label = "security label"
        /// systemd's: a system service of the snap's, or the label as above.
        case snap
        /// systemd's.
        case unit
        /// Weak, as a process may have made it so itself: only for the users that the manifest names.
        case flatpak = "Flatpak"
        case chosenLabel = "security label that it may have chosen"
        /// Weak: anybody who can run the program as that user speaks for the app.
        case executable
    }

    /// The one app whose manifest fits, and by what.
    public struct Match: Hashable, Sendable {
        /// The app that the caller speaks for.
        public let app: AppManifest
        /// The strongest ground that it fits on.
        public let basis: Basis
    }

    /// - Throws: why there is none, for the developer who reads the refusal.
    public static func match(_ caller: Caller, in store: ManifestStore) throws(IdentityFailure) -> Match {
        if let id = caller.socket {
            guard let app = store.apps[id], app.socket != nil else {
                throw IdentityFailure(description: "no manifest has the socket of \(id) any more")
            }
            return Match(app: app, basis: .socket)
        }
        let seen = caller.summary
        let (fitting, basis) = fitting(caller, in: store)
        guard fitting.count <= 1 else {
            let files = fitting.map(\.source).sorted().joined(separator: ", ")
            throw IdentityFailure(description: "seen as \(seen): more than one manifest fits: \(files)")
        }
        guard let app = fitting.first else {
            let directory = store.directories.last ?? ""
            let isNamed = !unrestricted(caller, in: store).isEmpty
            let weakness =
                isNamed
                ? "; a manifest names it without User=, and what a process can make itself counts for the users named there only"
                : ""
            let would = "a file \(directory)/ID.conf with \(line(for: caller)) would"
            throw IdentityFailure(
                description: "seen as \(seen): no manifest fits\(weakness); \(would)\(obstacle(for: caller))")
        }
        return Match(app: app, basis: basis)
    }

    /// Why it is not known for what it may be.
    private static func obstacle(for caller: Caller) -> String {
        if caller.isOpaque {
            return "; its executable could not be read: the daemon may not look into other users' processes, and goes by "
                + "Executable= only with the drop-in identify-by-executable.conf, by Flatpak= with identify-by-flatpak.conf "
                + "besides, see accessory-setup-manifest(5)"
        }
        if caller.isInUnreadableFlatpak {
            return "; the daemon may not read which Flatpak it is in, and goes by Flatpak= only with the drop-in "
                + "identify-by-flatpak.conf, see accessory-setup-manifest(5)"
        }
        return ""
    }

    /// The line of a manifest that would fit.
    private static func line(for caller: Caller) -> String {
        if caller.isContained { return "Socket=yes (and the directory of that socket mounted into the container)" }
        // Most scopes are named anew at every start: a login's, for example.
        if let unit = caller.unit, !unit.hasSuffix(".scope") { return "Unit=\(unit)" }
        if let flatpak = caller.flatpak { return "Flatpak=\(flatpak) and User=\(caller.uid)" }
        if let snap = caller.snap { return "Snap=\(snap)" + (caller.choosesLabel ? " and User=\(caller.uid)" : "") }
        if caller.isInUnreadableFlatpak { return "Flatpak=NAME and User=\(caller.uid)" }
        if caller.isOpaque { return "Unit=NAME.service (for an app that runs as that service)" }
        return "Executable=\(caller.executable ?? "/path/to/the/app")"
    }

    /// Strongest first: the kernel's word, systemd's, then what a process may have made itself, and what it executes.
    /// Who runs inside a sandbox, or says so, is that and no other app by its executable: that has any name it likes in
    /// there.
    private static func fitting(_ caller: Caller, in store: ManifestStore) -> ([AppManifest], Basis) {
        func named(_ name: String?, _ names: KeyPath<AppManifest, Set<String>>) -> [AppManifest] {
            guard let name else { return [] }
            return store.apps.values.filter { $0[keyPath: names].contains(name) }
        }
        func namedForUser(_ name: String?, _ names: KeyPath<AppManifest, Set<String>>) -> [AppManifest] {
            named(name, names).filter { isFor(caller, $0) && !$0.users.isEmpty }
        }
        if !caller.choosesLabel {
            let byLabel = named(caller.securityLabel, \.securityLabels)
            if !byLabel.isEmpty { return (byLabel, .label) }
        }
        if caller.snap != nil, caller.isSnapService || !caller.choosesLabel { return (named(caller.snap, \.snaps), .snap) }
        let byUnit = named(caller.unit, \.units)
        if !byUnit.isEmpty { return (byUnit, .unit) }
        if caller.flatpak != nil { return (namedForUser(caller.flatpak, \.flatpaks), .flatpak) }
        if caller.choosesLabel {
            let byLabel = namedForUser(caller.securityLabel, \.securityLabels)
            if !byLabel.isEmpty { return (byLabel, .chosenLabel) }
            if caller.snap != nil { return (namedForUser(caller.snap, \.snaps), .chosenLabel) }
        }
        if caller.isOpaque || caller.isInUnreadableFlatpak || caller.isInSnapScope { return ([], .unit) }
        return (store.apps.values.filter { fits($0, caller) }, .executable)
    }

    /// Manifests that name what the caller says of itself, for no user.
    private static func unrestricted(_ caller: Caller, in store: ManifestStore) -> [AppManifest] {
        store.apps.values.filter { app in
            app.users.isEmpty
                && (caller.flatpak.map(app.flatpaks.contains) == true
                    || caller.choosesLabel
                        && (caller.snap.map(app.snaps.contains) == true
                            || caller.securityLabel.map(app.securityLabels.contains) == true))
        }
    }

    private static func isFor(_ caller: Caller, _ app: AppManifest) -> Bool {
        app.users.isEmpty || app.users.contains { userID($0) == caller.uid }
    }

    private static func fits(_ app: AppManifest, _ caller: Caller) -> Bool {
        guard let executable = caller.executable else { return false }
        let names = app.executables.contains { $0 == executable || realPath($0) == executable }
        return names && isFor(caller, app)
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

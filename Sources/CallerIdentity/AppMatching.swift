// SPDX-License-Identifier: Apache-2.0
// The app of a caller: the one whose manifest matches the kernel's data on the process.

public import AccessoryModel
public import AdminFiles
internal import Glibc

/// Matches callers with manifests.
public enum AppMatching {
    /// The evidence of a match, strongest first.
    public enum Basis: String, Hashable, Sendable {
        /// From the admin: the caller connected to the app's own socket.
        case socket
        /// From the kernel, if a process cannot choose it.
        case label = "security label"
        /// From systemd, for a system service of the snap, or the label as above.
        case snap
        /// From systemd.
        case unit
        /// Weak, as a process may have set it itself: only for the users in the manifest.
        case flatpak = "Flatpak"
        case chosenLabel = "possibly self-chosen security label"
        /// Weak: every process of that user that runs the program is the app.
        case executable
    }

    /// The app of a caller, and the evidence.
    public struct Match: Hashable, Sendable {
        /// The caller's app.
        public let app: AppManifest
        /// The strongest evidence.
        public let basis: Basis
    }

    /// - Throws: the reason for the app's developer, and a line for the manifest that would match.
    public static func match(_ caller: Caller, in store: ManifestStore) throws(IdentityFailure) -> Match {
        if let id = caller.socket {
            guard let app = store.apps[id], app.socket != nil else {
                throw IdentityFailure(description: "the manifest of \(id) no longer has a socket")
            }
            return Match(app: app, basis: .socket)
        }
        let seen = caller.summary
        let (fitting, basis) = fitting(caller, in: store)
        guard fitting.count <= 1 else {
            let files = fitting.map(\.source).sorted().joined(separator: ", ")
            throw IdentityFailure(description: "identified as \(seen): more than one manifest matches: \(files)")
        }
        guard let app = fitting.first else {
            let directory = store.directories.last ?? ""
            let isNamed = !unrestricted(caller, in: store).isEmpty
            let weakness =
                isNamed
                ? "; a manifest names it without User=, but identities that a process can set itself count only for the users in User="
                : ""
            let would = "a manifest \(directory)/ID.conf with \(line(for: caller)) would match"
            throw IdentityFailure(
                description: "identified as \(seen): no manifest matches\(weakness); \(would)\(obstacle(for: caller))")
        }
        return Match(app: app, basis: basis)
    }

    /// Whether a caller is an app by any manifest, also where more than one fits.
    public static func fits(_ caller: Caller, in store: ManifestStore) -> Bool {
        caller.socket != nil || !fitting(caller, in: store).0.isEmpty
    }

    /// The missing permission of the daemon, if any.
    private static func obstacle(for caller: Caller) -> String {
        if caller.unreadable == .process {
            return "; its executable could not be read: the daemon may not inspect other users' processes, and supports "
                + "Executable= only with the drop-in identify-by-executable.conf, and Flatpak= only with identify-by-flatpak.conf "
                + "in addition, see accessory-setup-manifest(5)"
        }
        if caller.unreadable == .flatpak {
            return "; the daemon may not read its Flatpak, and supports Flatpak= only with the drop-in "
                + "identify-by-flatpak.conf, see accessory-setup-manifest(5)"
        }
        return ""
    }

    /// The line of a manifest that would match.
    private static func line(for caller: Caller) -> String {
        if caller.isContained { return "Socket=yes (and the directory of that socket mounted into the container)" }
        // Most scopes have another name at every start.
        if let unit = caller.unit, !unit.hasSuffix(".scope") { return "Unit=\(unit)" }
        if let flatpak = caller.flatpak { return "Flatpak=\(flatpak) and User=\(caller.uid)" }
        if let snap = caller.snap.name { return "Snap=\(snap)" + (isLabelChosen(caller) ? " and User=\(caller.uid)" : "") }
        if caller.unreadable == .flatpak { return "Flatpak=NAME and User=\(caller.uid)" }
        if caller.unreadable == .process { return "Unit=NAME.service (for an app that runs as that service)" }
        return "Executable=\(caller.executable ?? "/path/to/the/app")"
    }

    /// Strongest first: evidence from the kernel and from systemd, then evidence that a process may have set itself,
    /// and its executable. A process that is, or claims to be, in a sandbox never matches by its executable, which may
    /// have any path in there.
    private static func fitting(_ caller: Caller, in store: ManifestStore) -> ([AppManifest], Basis) {
        func named(_ name: String?, _ names: KeyPath<AppManifest.Identities, Set<String>>) -> [AppManifest] {
            guard let name else { return [] }
            return store.apps.values.filter { $0.identities[keyPath: names].contains(name) }
        }
        func namedForUser(_ name: String?, _ names: KeyPath<AppManifest.Identities, Set<String>>) -> [AppManifest] {
            named(name, names).filter { isFor(caller, $0) && !$0.identities.users.isEmpty }
        }
        if !isLabelChosen(caller) {
            let byLabel = named(caller.securityLabel?.text, \.securityLabels)
            if !byLabel.isEmpty { return (byLabel, .label) }
        }
        if caller.snap.name != nil, caller.snap.isService || !isLabelChosen(caller) {
            return (named(caller.snap.name, \.snaps), .snap)
        }
        let byUnit = named(caller.unit, \.units)
        if !byUnit.isEmpty { return (byUnit, .unit) }
        if caller.flatpak != nil { return (namedForUser(caller.flatpak, \.flatpaks), .flatpak) }
        if isLabelChosen(caller) {
            let byLabel = namedForUser(caller.securityLabel?.text, \.securityLabels)
            if !byLabel.isEmpty { return (byLabel, .chosenLabel) }
            if caller.snap.name != nil { return (namedForUser(caller.snap.name, \.snaps), .chosenLabel) }
        }
        if caller.unreadable != nil || caller.snap.isInScope { return ([], .unit) }
        return (store.apps.values.filter { fits($0, caller) }, .executable)
    }

    /// Manifests without `User=` that name an identity which the caller may have set itself.
    private static func unrestricted(_ caller: Caller, in store: ManifestStore) -> [AppManifest] {
        store.apps.values.filter { app in
            app.identities.users.isEmpty
                && (caller.flatpak.map(app.identities.flatpaks.contains) == true
                    || isLabelChosen(caller)
                        && (caller.snap.name.map(app.identities.snaps.contains) == true
                            || caller.securityLabel.map { app.identities.securityLabels.contains($0.text) } == true))
        }
    }

    private static func isLabelChosen(_ caller: Caller) -> Bool { caller.securityLabel?.isChosen == true }

    private static func isFor(_ caller: Caller, _ app: AppManifest) -> Bool {
        app.identities.users.isEmpty || app.identities.users.contains { userID($0) == caller.uid }
    }

    private static func fits(_ app: AppManifest, _ caller: Caller) -> Bool {
        guard let executable = caller.executable else { return false }
        let names = app.identities.executables.contains { $0 == executable || realPath($0) == executable }
        return names && isFor(caller, app)
    }

    private static func realPath(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// The users whose processes may be the app, as far as its manifest names users.
    public static func users(of app: AppManifest) -> Set<UInt32> {
        Set(app.identities.users.compactMap(userID)).union([app.socket?.user].compactMap(\.self))
    }

    private static func userID(_ user: String) -> UInt32? {
        UInt32(user) ?? getpwnam(user).map { $0.pointee.pw_uid }
    }
}

// SPDX-License-Identifier: Apache-2.0
// The sockets of apps that have one of their own (`Socket=yes`): made, permitted, served and closed as the manifests
// say. An admin mounts a socket's directory into the app's container, so the directory stays; the service manager keeps
// the listening socket over a restart, so that connections from the container wait instead of failing.

internal import AccessoryModel
internal import AdminFiles
internal import BlueZView
internal import CSystem
internal import DBusKit
internal import Glibc
internal import Logging
internal import ProgramSupport

final class AppSockets {
    static let standardDirectory = "/run/accessory-setup/app"
    /// Of the descriptors that the service manager keeps.
    static let prefix = "app-"

    private struct Listening {
        var permitted: AppSocket
        let socket: FileDescriptor
    }

    private let directory: String
    private let view: BlueZView
    private let log: Logger
    private var listening: [AppID: Listening] = [:]
    /// From the run before, until the manifests were read.
    private var kept: [AppID: FileDescriptor]

    /// - Parameter kept: what the service manager has kept, by the names that it has there.
    init(_ directory: String, _ view: BlueZView, kept: [(name: String, descriptor: FileDescriptor)], log: Logger) {
        self.directory = directory
        self.view = view
        self.log = log
        self.kept = Dictionary(
            kept.compactMap { name, descriptor in
                guard name.hasPrefix(Self.prefix), let app = AppID(String(name.dropFirst(Self.prefix.count))) else { return nil }
                return (app, descriptor)
            }, uniquingKeysWith: { first, _ in first })
    }

    /// Where an app's socket is; nil for one that has none.
    func path(of app: String) -> String? { AppID(app).flatMap { listening[$0] == nil ? nil : path(of: $0) } }

    /// Takes over what the manifests say now.
    func update(_ apps: [AppID: AppManifest]) {
        for app in listening.keys.sorted() where apps[app]?.socket == nil { close(app) }
        for app in kept.keys.sorted() where apps[app]?.socket == nil { ServiceManager.forget(Self.prefix + app.rawValue) }
        for (app, manifest) in apps.sorted(by: { $0.key < $1.key }) {
            guard let wanted = manifest.socket, listening[app]?.permitted != wanted else { continue }
            do throws(Failure) {
                try open(app, wanted)
            } catch {
                log.error("no socket for app", metadata: ["app": "\(app)", "reason": "\(error.reason)"])
            }
        }
        kept = [:]
    }

    private struct Failure: Error {
        let reason: String

        init(_ what: String) {
            reason = "\(what): \(String(cString: strerror(errno)))"
        }
    }

    private func path(of app: AppID) -> String { "\(directory)/\(app.rawValue)/bus" }

    private func open(_ app: AppID, _ wanted: AppSocket) throws(Failure) {
        if var known = listening[app] {
            try permit(path(of: app), wanted)
            known.permitted = wanted
            listening[app] = known
            return
        }
        var socket = kept[app]
        // A container that may write to its directory may have put anything there.
        if socket == nil || (try? permit(path(of: app), wanted)) == nil { socket = try make(app, wanted) }
        guard let socket, (try? view.listen(on: socket, for: app)) != nil else { throw Failure("cannot listen") }
        listening[app] = Listening(permitted: wanted, socket: socket)
        log.info("socket for app", metadata: ["app": "\(app)", "socket": "\(path(of: app))"])
    }

    /// Makes the socket where only the daemon writes and renames it into place once its permissions are set: whatever a
    /// container has put there is replaced, never followed.
    private func make(_ app: AppID, _ wanted: AppSocket) throws(Failure) -> FileDescriptor {
        let folder = "\(directory)/\(app.rawValue)"
        umask(0o022)
        let isThere = mkdir(folder, 0o755) == 0 || errno == EEXIST
        umask(0o077)
        guard isThere else { throw Failure(folder) }
        let inside = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard inside >= 0 else { throw Failure(folder) }
        defer { Glibc.close(inside) }
        let new = "\(directory)/.new"
        let descriptor = csystem_listen(new, 0o600)
        guard descriptor >= 0 else { throw Failure(new) }
        let socket = FileDescriptor(owning: descriptor)
        do throws(Failure) {
            try permit(new, wanted)
            guard renameat(AT_FDCWD, new, inside, "bus") == 0 else { throw Failure(path(of: app)) }
        } catch {
            unlink(new)
            throw error
        }
        if kept[app] != nil { ServiceManager.forget(Self.prefix + app.rawValue) }
        ServiceManager.keep(socket, named: Self.prefix + app.rawValue)
        return socket
    }

    private func permit(_ path: String, _ wanted: AppSocket) throws(Failure) {
        guard csystem_permit(path, wanted.user, wanted.group.map(Int64.init) ?? -1, UInt32(wanted.mode)) == 0 else {
            throw Failure(path)
        }
    }

    private func close(_ app: AppID) {
        listening[app] = nil
        view.stopListening(for: app)
        unlink(path(of: app))
        ServiceManager.forget(Self.prefix + app.rawValue)
        log.info("no socket for app any more", metadata: ["app": "\(app)"])
    }
}

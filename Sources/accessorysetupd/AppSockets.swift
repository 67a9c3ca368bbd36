// SPDX-License-Identifier: Apache-2.0
// Sockets of single apps (`Socket=yes`), as the manifests demand. An admin mounts a socket's directory into the app's
// container, so the directory stays. The service manager keeps the listening socket over a restart, so that connections
// from the container wait instead of failing.

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
    /// Prefix of the names at the service manager.
    static let prefix = "app-"

    private struct Listening {
        var permitted: AppSocket
        let socket: FileDescriptor
    }

    private let directory: String
    private let log: Logger
    private var listening: [AppID: Listening] = [:]
    /// Sockets of the previous run, until the first update.
    private var kept: [AppID: FileDescriptor]

    /// - Parameter inherited: all descriptors from the service manager, with their names.
    init(directory: String, inherited: [(name: String, descriptor: FileDescriptor)], log: Logger) {
        self.directory = directory
        self.log = log
        self.kept = Dictionary(
            inherited.compactMap { name, descriptor in
                guard name.hasPrefix(Self.prefix), let app = AppID(String(name.dropFirst(Self.prefix.count))) else { return nil }
                return (app, descriptor)
            }, uniquingKeysWith: { first, _ in first })
    }

    /// The path of an app's socket; nil for an app without one.
    func path(of app: String) -> String? { AppID(app).flatMap { listening[$0] == nil ? nil : path(of: $0) } }

    /// Opens, changes and closes sockets of the view as the manifests demand.
    func update(_ apps: [AppID: AppManifest], in view: BlueZView) {
        for app in listening.keys.sorted() where apps[app]?.socket == nil { close(app, in: view) }
        for app in kept.keys.sorted() where apps[app]?.socket == nil { ServiceManager.discard(Self.prefix + app.rawValue) }
        for (app, manifest) in apps.sorted(by: { $0.key < $1.key }) {
            guard let wanted = manifest.socket, listening[app]?.permitted != wanted else { continue }
            do throws(Failure) {
                try open(app, wanted, in: view)
            } catch {
                log.error("no socket for app", metadata: ["app": "\(app)", "reason": "\(error.reason)"])
            }
        }
        kept = [:]
    }

    private struct Failure: Error {
        let reason: String

        init(_ subject: String) {
            reason = "\(subject): \(String(cString: strerror(errno)))"
        }
    }

    private func path(of app: AppID) -> String { "\(directory)/\(app.rawValue)/bus" }

    private func open(_ app: AppID, _ wanted: AppSocket, in view: BlueZView) throws(Failure) {
        if var current = listening[app] {
            try permit(path(of: app), wanted)
            current.permitted = wanted
            listening[app] = current
            return
        }
        var socket = kept[app]
        // The container may be able to write to its directory, and may have replaced the socket.
        if socket == nil || (try? permit(path(of: app), wanted)) == nil { socket = try make(app, wanted) }
        guard let socket, (try? view.listen(on: socket, for: app)) != nil else { throw Failure("cannot listen") }
        listening[app] = Listening(permitted: wanted, socket: socket)
        log.info("socket for app", metadata: ["app": "\(app)", "socket": "\(path(of: app))"])
    }

    /// Makes the socket in a directory that only the daemon can write to, and renames it into place after its
    /// permissions are set: a file of the container in that place is replaced, never followed.
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
        if kept[app] != nil { ServiceManager.discard(Self.prefix + app.rawValue) }
        ServiceManager.keep(socket, named: Self.prefix + app.rawValue)
        return socket
    }

    private func permit(_ path: String, _ wanted: AppSocket) throws(Failure) {
        guard csystem_permit(path, wanted.user, wanted.group.map(Int64.init) ?? -1, UInt32(wanted.mode)) == 0 else {
            throw Failure(path)
        }
    }

    private func close(_ app: AppID, in view: BlueZView) {
        listening[app] = nil
        view.stopListening(for: app)
        unlink(path(of: app))
        ServiceManager.discard(Self.prefix + app.rawValue)
        log.info("closed socket for app", metadata: ["app": "\(app)"])
    }
}

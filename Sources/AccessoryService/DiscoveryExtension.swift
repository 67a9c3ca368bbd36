// SPDX-License-Identifier: Apache-2.0
// Apps' discovery extensions, each on a connection of its own to the socket that the manifest names. A listening socket
// does not say which program will answer, so identity comes from the socket's place: only the app's users and the
// superuser may have made it, or any directory above it (Docs/Decisions/0042).

internal import AccessoryBus
public import AccessoryEngine
public import AccessoryModel
internal import AdminFiles
internal import CallerIdentity
internal import CallsOut
public import DBusKit
internal import Glibc

/// Connects to apps' extensions.
public final class ExtensionSockets: DiscoveryExtensions {
    private let directory: String?
    private let units: [String]
    private let loop: MainLoop

    /// - Parameters:
    ///   - directory: of apps' own sockets; nil without one.
    ///   - units: the directories of systemd's units; the first file of a name counts.
    public init(directory: String?, units: [String], loop: MainLoop) {
        self.directory = directory
        self.units = units
        self.loop = loop
    }

    public func check(_ app: AppManifest) throws(SetupError) { _ = try path(of: app) }

    public func connect(_ app: AppManifest) throws(SetupError) -> any ExtensionLink {
        let path = try path(of: app)
        var limits = PeerLimits()
        limits.messageBytes = Limits.imageBytes + limits.messageBytes
        do throws(BusError) {
            return ExtensionConnection(try Connection(toPeerAt: path, limits: limits, loop: loop))
        } catch {
            throw Self.absent(app, "Extension", error.message)
        }
    }

    public func wake(_ app: AppManifest) throws(SetupError) {
        let path = try path(of: app, "Wake", app.wakeSocket)
        do throws(BusError) {
            try Connection.knock(at: path)
        } catch {
            throw Self.absent(app, "Wake", error.message)
        }
    }

    private static func absent(_ app: AppManifest, _ key: String, _ reason: String) -> SetupError {
        SetupError(.extensionNotFound, "\(key)= in \(app.source): \(reason)")
    }

    /// - Throws: `ExtensionNotFound` for a socket that is absent, or that another user could have made, and for a unit
    ///   without a path.
    private func path(of app: AppManifest) throws(SetupError) -> String {
        try path(of: app, "Extension", app.discoveryExtension)
    }

    private func path(
        of app: AppManifest, _ key: String, _ place: AppManifest.SocketPlace?
    ) throws(SetupError) -> String {
        guard let place else { throw Self.absent(app, key, "is missing") }
        let path: String
        var prefix = ""
        switch place {
        case .path(let absolute): path = absolute
        case .file(let name):
            guard let directory else { throw Self.absent(app, key, "\(name): there is no directory of apps' own sockets") }
            path = "\(directory)/\(app.id)/\(name)"
        case .unit(let name):
            do throws(SocketUnit.Problem) {
                path = try SocketUnit.path(of: name, in: units)
            } catch {
                throw Self.absent(app, key, "\(error)")
            }
            prefix = "\(name): "
        }
        var owners = AppMatching.users(of: app)
        owners.formUnion([0, geteuid()])
        if let problem = Self.problem(with: path, owners) { throw Self.absent(app, key, prefix + problem) }
        return path
    }

    /// Why another user could have put a socket there; nil where none could. Each part is looked at by its name: a part
    /// that only the owners may change stays the same until the connection.
    private static func problem(with path: String, _ owners: Set<UInt32>) -> String? {
        let parts = path.split(separator: "/")
        var place = ""
        for (index, part) in parts.enumerated() {
            place += "/" + part
            var status = stat()
            guard part != "..", part != ".", lstat(place, &status) == 0 else { return "\(place): is missing" }
            let (kind, isLast) = (status.st_mode & S_IFMT, index == parts.count - 1)
            guard kind == (isLast ? S_IFSOCK : S_IFDIR) else { return "\(place): is not a \(isLast ? "socket" : "directory")" }
            guard owners.contains(status.st_uid) else {
                return "\(place): belongs to uid \(status.st_uid), not to root or a user of the app"
            }
            // In a sticky directory only its owner can exchange the next part, and that owner is checked.
            guard isLast || status.st_mode & 0o022 == 0 || status.st_mode & S_ISVTX != 0 else {
                return "\(place): other users may write to it"
            }
        }
        return parts.isEmpty ? "\(path): is not a socket" : nil
    }
}

/// A connection to an extension.
private final class ExtensionConnection: ExtensionLink {
    private let connection: Connection
    private var onReport: ((ExtensionReport) -> Void)?

    /// Until the connection is closed in any case.
    private static let farewell = Duration.seconds(1)

    init(_ connection: Connection) { self.connection = connection }

    func start(_ settings: PickerSettings, onReport: @escaping (ExtensionReport) -> Void) {
        self.onReport = onReport
        connection.onDisconnect = { [weak self] in self?.closed() }
        connection.onPeerSignal = { [weak self] in self?.take($0) }
        connection.onCall = { [weak self] call in
            guard let self, let refusal = call.errorReply(.standard("UnknownMethod", "the daemon has no methods here")) else {
                return false
            }
            self.connection.send(refusal)
            self.onReport?(.other)
            return true
        }
        let settings = PickerSettings(discoveryTimeout: settings.discoveryTimeout)
        connection.call(.extensionStart, at: AccessoryBus.extensionPath, [settings.wire]) { [weak self] answer in
            switch answer {
            case .success: self?.onReport?(.started)
            // The other way to hear of the end comes after this one.
            case .failure where self?.connection.isConnected == false: self?.closed()
            case .failure(let error): self?.end(.connectionFailed, "StartDiscovery: \(ShownName.marked(error.message))")
            }
        }
    }

    func stop() {
        onReport = nil
        let connection = connection
        let timer = connection.loop.after(Self.farewell) { connection.close() }
        connection.call(.extensionStop, at: AccessoryBus.extensionPath) { _ in
            timer.cancel()
            connection.close()
        }
    }

    private func closed() { end(.connectionFailed, "its connection has closed") }

    private func end(_ code: SetupError.Code, _ reason: String) {
        onReport?(.ended(SetupError(code, "extension: \(String(reason.prefix(Limits.nameBytes)))")))
    }

    private func take(_ signal: Message) {
        guard let onReport, signal.hasInterface(AccessoryBus.discoveryExtension) else { return }
        do throws(BusError) {
            let arguments = try signal.arguments()
            if signal.hasMember("ItemLost"), signal.hasSignature("s"), let identifier = arguments.first?.stringValue {
                onReport(.lost(identifier))
            } else if signal.hasMember("ItemFound") || signal.hasMember("ItemChanged"), signal.hasSignature("a{sv}") {
                onReport(.present(try ReportedItemKeys.decode(arguments[0], "item")))
            } else {
                end(.invalidRequest, "not a signal of \(AccessoryBus.discoveryExtension)")
            }
        } catch {
            end(.invalidRequest, ShownName.marked(error.message))
        }
    }
}

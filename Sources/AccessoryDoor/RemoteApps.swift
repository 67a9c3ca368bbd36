// SPDX-License-Identifier: Apache-2.0
// All apps elsewhere: the sockets that the door may use, and the key of each. Nothing is remembered: a socket that goes
// takes its app along, and a key file that changes cuts off the clients that had the former key.

internal import AccessoryModel
internal import DBusKit
internal import InternetAddresses
internal import Glibc
internal import Logging
internal import NoiseProtocol
internal import SystemFiles

/// The apps by identifier.
final class RemoteApps {
    private let directory: String
    private let loop: MainLoop
    private let log: Logger
    private var apps: [String: RemoteApp] = [:]
    private var sockets: DirectoryWatch?
    private var keyFiles: DirectoryWatch?
    private var watchedFolders: [String] = []
    private var watchedKeys: [String] = []
    /// The latest problem of each app's key, which is logged once.
    private var problems: [String: String] = [:]

    /// - Parameter directory: of apps' own sockets, as `ID/bus`.
    init(directory: String, _ loop: MainLoop, _ log: Logger) {
        self.directory = directory
        self.loop = loop
        self.log = log
    }

    func start() { update() }

    func end() {
        for app in apps.values { app.end() }
        apps = [:]
    }

    subscript(_ id: String) -> RemoteApp? { apps[id] }

    /// The keys of the apps that may connect from this address.
    func keys(for address: InternetAddress) -> [(KeyID, PreSharedKey)] {
        apps.values.compactMap { app in
            guard let key = app.key, let id = app.keyID, app.terms?.permits(address) == true else { return nil }
            return (id, key)
        }
    }

    // MARK: Sockets

    private func update() {
        var names: [String] = []
        // A new watch has missed the changes before it, which the next list shows.
        repeat {
            names = ((try? SystemFile.names(in: directory)) ?? []).filter { AppID($0) != nil }.sorted()
        } while watch([directory] + names.map { "\(directory)/\($0)" })
        let present = Set(names.filter { access("\(directory)/\($0)/bus", W_OK) == 0 })
        for id in apps.keys.sorted() where !present.contains(id) {
            apps.removeValue(forKey: id)?.end()
            log.info("app is gone", metadata: ["app": "\(id)"])
        }
        for id in present.sorted() where apps[id] == nil {
            let app = RemoteApp(id, socket: "\(directory)/\(id)/bus", loop, log)
            app.onChange = { [weak self] in self?.readKeys() }
            apps[id] = app
        }
        readKeys()
    }

    /// - Returns: whether other folders were watched before.
    private func watch(_ folders: [String]) -> Bool {
        guard folders != watchedFolders else { return false }
        watchedFolders = folders
        // The sockets are renamed into place, so that no file is waited for.
        let watch = DirectoryWatch(folders, suffix: "/", loop: loop)
        watch.onChange = { [weak self] in self?.update() }
        sockets = watch
        if !watch.renew() { log.error("cannot watch the directory of sockets", metadata: ["directory": "\(directory)"]) }
        return true
    }

    // MARK: Keys

    private func readKeys() {
        // Before the files are read, so that no change is missed.
        watchKeys(Set(apps.values.compactMap { $0.terms?.keyFile }.compactMap(Self.folder)).sorted())
        var owners: [PreSharedKey: String] = [:]
        for app in apps.values.sorted(by: { $0.id < $1.id }) {
            var key: PreSharedKey?
            var problem: String?
            if let file = app.terms?.keyFile {
                do throws(KeyProblem) {
                    key = try Self.key(in: file)
                    if let owner = key.flatMap({ owners[$0] }) { throw KeyProblem("is also the key of \(owner)") }
                } catch {
                    key = nil
                    problem = "\(file): \(error.reason)"
                }
            }
            if let key { owners[key] = app.id }
            report(problem, of: app.id)
            if key != app.key, let key {
                log.notice("app may connect", metadata: ["app": "\(app.id)", "key": "\(key.fingerprint)"])
            }
            app.key = key
            app.cutOff()
        }
    }

    private static func folder(_ file: String) -> String? {
        file.lastIndex(of: "/").map { $0 == file.startIndex ? "/" : String(file[..<$0]) }
    }

    private func watchKeys(_ folders: [String]) {
        guard folders != watchedKeys else { return }
        watchedKeys = folders
        let watch = DirectoryWatch(folders, suffix: "", loop: loop)
        watch.onChange = { [weak self] in self?.readKeys() }
        keyFiles = watch
        _ = watch.renew()
    }

    private func report(_ problem: String?, of app: String) {
        guard problem != problems[app] else { return }
        problems[app] = problem
        if let problem { log.error("app cannot connect", metadata: ["app": "\(app)", "key": "\(problem)"]) }
    }

    private struct KeyProblem: Error {
        let reason: String
        init(_ reason: String) { self.reason = reason }
    }

    private static func key(in file: String) throws(KeyProblem) -> PreSharedKey {
        let bytes: [UInt8]
        do throws(SystemFileError) {
            bytes = try SystemFile.contents(file, limit: 256)
        } catch {
            throw KeyProblem(error.reason)
        }
        guard let mode = SystemFile.mode(file), mode & 0o007 == 0 else { throw KeyProblem("other users can read or write it") }
        let text = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
        guard let key = PreSharedKey(base64: text) else { throw KeyProblem("is not 32 bytes in base64") }
        return key
    }
}

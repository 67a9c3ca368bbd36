// SPDX-License-Identifier: Apache-2.0
// All manifests of the machine: the vendor's directory, overridden file by file by that of a fleet's agent, and both by
// the admin's; all are watched.

public import AccessoryModel
public import DBusKit
public import KeyFiles
public import Logging

/// The manifests, read at once and again after every change of their directories.
public final class ManifestStore {
    /// Apps without problems, by identifier.
    public private(set) var apps: [AppID: AppManifest] = [:]
    /// Problems, by file.
    public private(set) var problems: [String: [KeyFileProblem]] = [:]
    /// The weakest first: the admin's is the last one.
    public let directories: [String]

    private let log: Logger
    private var reading: RepeatedReading?
    private var observers: [() -> Void] = []
    /// Work for after the next reading.
    private var waiting: [() -> Void] = []

    /// The vendor's directory, that of a fleet's agent, and the admin's.
    public static let standardDirectories = [
        "/usr/share/accessory-setup/apps", "/var/lib/accessory-fleet/apps", "/etc/accessory-setup/apps",
    ]

    /// - Parameters:
    ///   - directories: files of later ones override those of earlier ones. They need not exist.
    ///   - loop: for watching.
    public init(directories: [String], loop: MainLoop, log: Logger) {
        self.directories = directories
        self.log = log
        reading = RepeatedReading(directories, "manifests", loop: loop, log: log) { [weak self] in self?.load(&$0) }
        reading?.read()
    }

    /// Has `body` called after each change of apps or problems, in the order of registration.
    public func observe(_ body: @escaping () -> Void) { observers.append(body) }

    /// Reads pending changes, before a program is matched with manifests.
    public func flush() {
        reading?.flush()
    }

    /// Calls `body` after files that are open for writing have been read: when they are closed, or after 5 s.
    ///
    /// - Returns: false if none is open, or too many callers wait; `body` is not called then.
    public func wait(_ body: @escaping () -> Void) -> Bool {
        guard reading?.isUnfinished == true, waiting.count < Self.maxWaiting else { return false }
        waiting.append(body)
        return true
    }

    private static let maxWaiting = 256

    private func load(_ files: inout RememberedFiles) {
        var paths: [String: String] = [:]
        for directory in directories {
            let names = (try? files.names(in: directory)) ?? []
            for name in names where name.hasSuffix(".conf") { paths[name] = "\(directory)/\(name)" }
        }
        var apps: [AppID: AppManifest] = [:]
        var problems: [String: [KeyFileProblem]] = [:]
        for path in paths.values.sorted() {
            switch ManifestReader.read(path: path, &files) {
            case .success(let manifest): apps[manifest.id] = manifest
            case .failure(let found): problems[path] = found.list
            }
        }
        for (path, list) in problems where self.problems[path] != list {
            for problem in list { log.error("manifest refused: \(problem)") }
        }
        if apps != self.apps { log.info("manifests read", metadata: ["apps": "\(apps.count)", "refused": "\(problems.count)"]) }
        let changed = apps != self.apps || problems != self.problems
        self.apps = apps
        self.problems = problems
        if changed { for observer in observers { observer() } }
        guard reading?.isUnfinished != true else { return }
        let bodies = waiting
        waiting = []
        for body in bodies { body() }
    }

    /// One manifest, valid or not.
    public struct Entry: Hashable, Sendable {
        /// The identifier; for a manifest with problems, the file's name without `.conf`.
        public let id: String
        /// The app's name for people; empty for a manifest with problems.
        public let name: String
        /// The file's path.
        public let source: String
        /// With file, line and key; empty for a valid manifest.
        public let problems: [String]
        /// Nil for a manifest with problems.
        public let manifest: AppManifest?
    }

    /// Every manifest, including those with problems.
    public var entries: [Entry] {
        apps.values.map { Entry(id: $0.id.rawValue, name: $0.name, source: $0.source, problems: [], manifest: $0) }
            + problems.map { path, list in
                let file = path.split(separator: "/").last.map { $0.dropLast(".conf".count) } ?? ""
                return Entry(id: String(file), name: "", source: path, problems: list.map(\.description), manifest: nil)
            }
    }
}

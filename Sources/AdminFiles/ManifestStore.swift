// SPDX-License-Identifier: Apache-2.0
// All manifests of the machine: the vendor's directory, overridden file by file by the admin's, both watched.

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
    /// Called when apps or problems have changed.
    public var onChange: (() -> Void)?
    /// Vendor first, admin last.
    public let directories: [String]

    private let log: Logger
    private var reading: RepeatedReading?
    /// The work that waits for the next reading.
    private var waiting: [() -> Void] = []

    /// The vendor's directory, then the admin's.
    public static let standardDirectories = ["/usr/share/accessory-setup/apps", "/etc/accessory-setup/apps"]

    /// - Parameters:
    ///   - directories: where files are, later ones going before earlier ones. They need not exist.
    ///   - loop: where changes are heard of.
    public init(directories: [String], loop: MainLoop, log: Logger) {
        self.directories = directories
        self.log = log
        reading = RepeatedReading(directories, "manifests", loop: loop, log: log) { [weak self] in self?.load(&$0) }
        reading?.read()
    }

    /// Reads pending changes, before a program is matched with manifests.
    public func flush() {
        reading?.flush()
    }

    /// Calls `body` once the files that are being written have been read: when they are closed, or after
    /// 5 s.
    ///
    /// - Returns: whether one is; otherwise `body` is not called.
    public func wait(_ body: @escaping () -> Void) -> Bool {
        guard reading?.isUnfinished == true, waiting.count < Self.mostWaiting else { return false }
        waiting.append(body)
        return true
    }

    private static let mostWaiting = 256

    private func load(_ files: inout RememberedFiles) {
        var paths: [String: String] = [:]
        for directory in directories {
            let names = (try? files.names(in: directory)) ?? []
            // A later directory's file of the same name takes the place of the earlier one's.
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
        if changed { onChange?() }
        guard reading?.isUnfinished != true else { return }
        let bodies = waiting
        waiting = []
        for body in bodies { body() }
    }

    /// One manifest, good or bad.
    public struct Entry: Hashable, Sendable {
        /// The identifier; of a manifest with problems, its file's name without `.conf`.
        public let id: String
        /// For people; empty for a manifest with problems.
        public let name: String
        /// The file's path.
        public let source: String
        /// What is wrong with it, with file, line and key; empty for one that counts.
        public let problems: [String]
        /// What it says; nil for a manifest with problems.
        public let manifest: AppManifest?
    }

    /// Every manifest; one that could not be read goes by its file's name.
    public var entries: [Entry] {
        apps.values.map { Entry(id: $0.id.rawValue, name: $0.name, source: $0.source, problems: [], manifest: $0) }
            + problems.map { path, list in
                let file = path.split(separator: "/").last.map { $0.dropLast(".conf".count) } ?? ""
                return Entry(id: String(file), name: "", source: path, problems: list.map(\.description), manifest: nil)
            }
    }
}

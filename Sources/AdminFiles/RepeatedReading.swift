// SPDX-License-Identifier: Apache-2.0
// Reads an admin's files, again after every change of their directories, and again soon while one cannot be read or
// watched.

internal import DBusKit
internal import Logging
internal import SystemFiles

final class RepeatedReading {
    private let kind: String
    private let loop: MainLoop
    private let log: Logger
    private let body: (inout RememberedFiles) -> Void
    private var files = RememberedFiles()
    private let watch: DirectoryWatch
    private var again: LoopSource?
    private var reported: [String: SystemFileError] = [:]
    private var isWatched = true

    /// - Parameters:
    ///   - kind: the kind of files, for the log.
    ///   - body: reads them.
    init(
        _ directories: [String], _ kind: String, loop: MainLoop, log: Logger, body: @escaping (inout RememberedFiles) -> Void
    ) {
        self.kind = kind
        self.loop = loop
        self.log = log
        self.body = body
        watch = DirectoryWatch(directories, suffix: ".conf", loop: loop)
        watch.onChange = { [weak self] in self?.read() }
    }

    deinit {
        again?.cancel()
    }

    /// Whether a file is open for writing, and will be read when it is closed.
    var isUnfinished: Bool { !watch.filesBeingWritten.isEmpty }

    /// Reads pending changes now.
    func flush() {
        watch.flush()
    }

    /// Reads all files now.
    func read() {
        again?.cancel()
        again = nil
        // First, so that no later change is missed.
        let isWatched = watch.renew()
        files.begin(at: loop.now, beingWritten: watch.filesBeingWritten)
        body(&files)
        files.end()
        report(isWatched)
        guard !files.unreadable.isEmpty || !isWatched else { return }
        again = loop.after(RememberedFiles.pause) { [weak self] in self?.read() }
    }

    private func report(_ isWatched: Bool) {
        for (path, error) in files.unreadable.sorted(by: { $0.key < $1.key }) where reported[path] != error {
            log.warning("could not read \(kind); the previous ones stay in effect", metadata: ["reason": "\(error)"])
        }
        reported = files.unreadable
        if self.isWatched, !isWatched { log.warning("could not watch \(kind); reading them every few seconds") }
        self.isWatched = isWatched
    }
}

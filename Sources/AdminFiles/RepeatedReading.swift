// SPDX-License-Identifier: Apache-2.0
// Reads an admin's files, again after every change of their directories, and again soon while something of them cannot
// be read or watched.

internal import DBusKit
internal import Logging
internal import SystemFiles

final class RepeatedReading {
    private let what: String
    private let loop: MainLoop
    private let log: Logger
    private let body: (inout RememberedFiles) -> Void
    private var files = RememberedFiles()
    private let watch: DirectoryWatch
    private var again: LoopSource?
    private var told: [String: SystemFileError] = [:]
    private var isWatched = true

    /// - Parameters:
    ///   - what: what these files are, for the log.
    ///   - body: reads them.
    init(
        _ directories: [String], _ what: String, loop: MainLoop, log: Logger, body: @escaping (inout RememberedFiles) -> Void
    ) {
        self.what = what
        self.loop = loop
        self.log = log
        self.body = body
        watch = DirectoryWatch(directories, loop: loop)
        watch.onChange = { [weak self] in self?.read() }
    }

    deinit {
        again?.cancel()
    }

    /// Whether a file is being written, and will be read when it is closed.
    var isUnfinished: Bool { !watch.filesBeingWritten.isEmpty }

    /// Reads them now if they have changed since they were read.
    func flush() {
        watch.flush()
    }

    /// Reads them now.
    func read() {
        again?.cancel()
        again = nil
        // First this: what changes from here on is told.
        let isWatched = watch.renew()
        files.begin(at: loop.now, beingWritten: watch.filesBeingWritten)
        body(&files)
        files.end()
        tell(isWatched)
        guard !files.unreadable.isEmpty || !isWatched else { return }
        again = loop.after(RememberedFiles.pause) { [weak self] in self?.read() }
    }

    private func tell(_ isWatched: Bool) {
        for (path, error) in files.unreadable.sorted(by: { $0.key < $1.key }) where told[path] != error {
            log.warning("\(what) cannot be read just now, and count as they were", metadata: ["reason": "\(error)"])
        }
        told = files.unreadable
        if self.isWatched, !isWatched { log.warning("\(what) cannot be watched, and are looked at every few seconds") }
        self.isWatched = isWatched
    }
}

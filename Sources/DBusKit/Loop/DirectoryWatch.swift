// SPDX-License-Identifier: Apache-2.0
// Watches directories of small files that an admin, a package manager or another service writes. It reports changes
// once the directory is quiet, and the files that are still being written.

internal import CSystem
internal import Glibc

/// A watch on directories, which need not exist yet.
public final class DirectoryWatch {
    /// Called after changes.
    public var onChange: (() -> Void)?
    private let directories: [String]
    private let suffix: String
    private let loop: MainLoop
    private var descriptor: Int32 = -1
    private var source: LoopSource?
    private var pause: LoopSource?
    /// Ends the wait for a file that is not closed.
    private var patience: LoopSource?
    private var paths: [Int32: String] = [:]
    /// Files that are open for writing, by the events so far, with the time of the first one (microseconds).
    private var open: [String: Int64] = [:]

    /// A file that stays open longer is read all the same.
    private static let maxWait: Duration = .seconds(5)
    private static let maxWaitMicroseconds: Int64 = 5_000_000

    private static let events = UInt32(
        IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF
    )

    /// `renew()` starts the watch.
    ///
    /// - Parameter suffix: a change of a file with this suffix is reported once the file is closed.
    public init(_ directories: [String], suffix: String, loop: MainLoop) {
        self.directories = directories
        self.suffix = suffix
        self.loop = loop
    }

    deinit {
        source?.cancel()
        pause?.cancel()
        patience?.cancel()
        if descriptor >= 0 { close(descriptor) }
    }

    /// Watches each directory, or while it does not exist the nearest one above it, so that its creation is noticed.
    /// Directories that have lost their place, such as one that was exchanged for another, are no longer watched: files
    /// that are written there are no files of the directory.
    ///
    /// - Returns: whether all are watched; the kernel limits descriptors and watches.
    public func renew() -> Bool {
        guard descriptor >= 0 || begin() else { return false }
        var isWatched = true
        var current: [Int32: String] = [:]
        for directory in directories {
            var path = directory
            while true {
                let watch = inotify_add_watch(descriptor, path, Self.events)
                if watch >= 0 { current[watch] = path }
                if watch >= 0 { break }
                if errno == ENOSPC || errno == ENOMEM { isWatched = false }
                guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { break }
                path = String(path[..<slash])
            }
        }
        for (watch, path) in paths where current[watch] != path {
            if current[watch] == nil { inotify_rm_watch(descriptor, watch) }
            open = open.filter { !Self.isFile($0.key, in: path) }
        }
        paths = current
        return isWatched
    }

    private static func isFile(_ path: String, in directory: String) -> Bool {
        path.lastIndex(of: "/").map { path[..<$0] == directory } ?? false
    }

    /// Files that are open for writing.
    public var filesBeingWritten: Set<String> {
        open = open.filter { loop.now - $0.value < Self.maxWaitMicroseconds }
        return Set(open.keys)
    }

    /// Reports pending changes now.
    public func flush() {
        readEvents()
        guard pause != nil else { return }
        report()
    }

    private func begin() -> Bool {
        descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
        guard descriptor >= 0 else { return false }
        source = loop.onReadable(descriptor) { [weak self] in
            self?.readEvents()
            return self != nil
        }
        return true
    }

    private func report() {
        pause?.cancel()
        pause = nil
        onChange?()
    }

    private func readEvents() {
        guard descriptor >= 0 else { return }
        var buffer = [UInt8](repeating: 0, count: 4096)
        var hasChanged = false
        while case let count = read(descriptor, &buffer, buffer.count), count > 0 {
            var rest = buffer[..<count]
            while let event = Event(removingFrom: &rest) {
                if isChange(event) { hasChanged = true }
            }
        }
        guard hasChanged else { return }
        // Package managers write many files: report them once.
        pause?.cancel()
        pause = loop.after(.milliseconds(100)) { [weak self] in self?.report() }
    }

    /// Whether the directory must be read now. A file that is open for writing is read when it is closed.
    private func isChange(_ event: Event) -> Bool {
        // The end of a watch, by `renew` or after an event that says why.
        if event.has(IN_IGNORED) { return false }
        guard let directory = paths[event.watch], !event.name.isEmpty else { return true }
        let path = "\(directory)/\(event.name)"
        guard event.has(IN_MODIFY) || event.has(IN_CREATE) && Self.isNewFile(path) else {
            if !event.has(IN_ATTRIB) { open[path] = nil }
            return true
        }
        // Other files, and those of a parent directory, do not delay reading.
        guard directories.contains(directory), event.name.hasSuffix(suffix) else { return false }
        open[path] = open[path] ?? loop.now
        limitWait()
        return false
    }

    /// Reports files that stay open, too.
    private func limitWait() {
        guard patience == nil else { return }
        patience = loop.after(Self.maxWait) { [weak self] in
            guard let self else { return }
            self.patience = nil
            self.report()
            if !self.filesBeingWritten.isEmpty { self.limitWait() }
        }
    }

    /// A link is complete from the beginning, and no close event follows.
    private static func isNewFile(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && status.st_nlink == 1
    }
}

/// One of inotify(7)'s events.
private struct Event {
    let watch: Int32
    private let mask: UInt32
    /// In the watched directory; empty for the directory itself.
    let name: String

    /// Removes the first event from the bytes.
    init?(removingFrom bytes: inout ArraySlice<UInt8>) {
        let header = MemoryLayout<inotify_event>.size
        guard bytes.count >= header else { return nil }
        let event = bytes.withUnsafeBytes { $0.loadUnaligned(as: inotify_event.self) }
        guard bytes.count >= header + Int(event.len) else { return nil }
        watch = event.wd
        mask = event.mask
        name = String(decoding: bytes.dropFirst(header).prefix(Int(event.len)).prefix { $0 != 0 }, as: UTF8.self)
        bytes = bytes.dropFirst(header + Int(event.len))
    }

    func has(_ kind: Int32) -> Bool { mask & UInt32(bitPattern: kind) != 0 }
}

// SPDX-License-Identifier: Apache-2.0
// Watches directories of small files that an admin or a package manager writes, and says once, when it is quiet, that
// they changed.

internal import CSystem
internal import DBusKit
internal import Glibc

final class DirectoryWatch {
    /// Called when something has changed.
    var onChange: (() -> Void)?
    private let directories: [String]
    private let loop: MainLoop
    private var descriptor: Int32 = -1
    private var source: LoopSource?
    private var pause: LoopSource?

    /// Watches nothing yet.
    init(_ directories: [String], loop: MainLoop) {
        self.directories = directories
        self.loop = loop
    }

    deinit {
        source?.cancel()
        pause?.cancel()
        if descriptor >= 0 { close(descriptor) }
    }

    /// Watches each directory, or while it does not exist the nearest one above it, so that its creation is noticed.
    ///
    /// - Returns: whether all of them are; the kernel has only so many descriptors and watches to give.
    func renew() -> Bool {
        guard descriptor >= 0 || open() else { return false }
        let events = UInt32(
            IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)
        var isWatched = true
        for directory in directories {
            var path = directory
            while inotify_add_watch(descriptor, path, events) < 0 {
                if errno == ENOSPC || errno == ENOMEM { isWatched = false }
                guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { break }
                path = String(path[..<slash])
            }
        }
        return isWatched
    }

    private func open() -> Bool {
        descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
        guard descriptor >= 0 else { return false }
        source = loop.onReadable(descriptor) { [weak self] in
            guard let self else { return false }
            var buffer = [UInt8](repeating: 0, count: 4096)
            while read(self.descriptor, &buffer, buffer.count) > 0 {}
            // Package managers write many files: read them once, when it is quiet.
            self.pause?.cancel()
            self.pause = self.loop.after(.milliseconds(100)) { [weak self] in self?.onChange?() }
            return true
        }
        return true
    }
}

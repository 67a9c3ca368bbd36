// SPDX-License-Identifier: Apache-2.0
// The admin's small files, as they were read last. A file that cannot be read for a moment (no descriptor is free, the
// disk has an error, an editor replaces the file) keeps its last content and is read again soon, so that a transient
// error removes no app and no rule.

internal import Glibc
internal import SystemFiles

struct RememberedFiles {
    private var names: [String: [String]] = [:]
    private var contents: [String: [UInt8]] = [:]
    /// The time since when a known path is missing, in microseconds.
    private var missing: [String: Int64] = [:]
    /// Paths that did not exist at the last successful reading.
    private var absent: Set<String> = []
    /// Paths of the current reading.
    private var requested: Set<String> = []
    private var now: Int64 = 0

    /// Files that are open for writing: new ones are ignored, others keep their last content.
    private var beingWritten: Set<String> = []

    /// Paths that could not be read for a moment, with the reason.
    private(set) var unreadable: [String: SystemFileError] = [:]

    /// The time that a path may be missing while it is replaced, and the time to the next reading.
    static let pause: Duration = .seconds(5)
    private static let microseconds: Int64 = 5_000_000
    /// A manifest or a policy file has a few kilobytes.
    static let maxSize = 1 << 20

    /// Begins a reading.
    ///
    /// - Parameters:
    ///   - now: microseconds of a monotonic clock.
    ///   - beingWritten: the paths of files that are not closed yet.
    mutating func begin(at now: Int64, beingWritten: Set<String>) {
        self.now = now
        self.beingWritten = beingWritten
        requested = []
        unreadable = [:]
    }

    /// Ends a reading: forgets all paths that it did not request.
    mutating func end() {
        names = names.filter { requested.contains($0.key) }
        contents = contents.filter { requested.contains($0.key) }
        missing = missing.filter { requested.contains($0.key) }
        absent.formIntersection(requested)
    }

    /// The names in a directory, in order.
    ///
    /// - Throws: if it cannot be read, and could not before.
    mutating func names(in path: String) throws(SystemFileError) -> [String] {
        requested.insert(path)
        do throws(SystemFileError) {
            let found = try SystemFile.names(in: path)
            let whole = found.filter { contents["\(path)/\($0)"] != nil || !beingWritten.contains("\(path)/\($0)") }
            names[path] = whole
            missing[path] = nil
            absent.remove(path)
            return whole
        } catch {
            if isTransient(error, at: path, wasThere: names[path] != nil), let earlier = names[path] { return earlier }
            names[path] = nil
            if error.isMissing { absent.insert(path) }
            // A transient error does not make a missing directory an unreadable one.
            throw unreadable[path] != nil && absent.contains(path) ? SystemFileError(path, code: ENOENT) : error
        }
    }

    /// The content of a file of at most 1 MiB.
    ///
    /// - Throws: if it cannot be read, and could not before.
    mutating func contents(of path: String) throws(SystemFileError) -> [UInt8] {
        requested.insert(path)
        if beingWritten.contains(path), let earlier = contents[path] { return earlier }
        do throws(SystemFileError) {
            let found = try SystemFile.contents(path, limit: Self.maxSize)
            contents[path] = found
            missing[path] = nil
            return found
        } catch {
            if isTransient(error, at: path, wasThere: contents[path] != nil), let earlier = contents[path] { return earlier }
            contents[path] = nil
            throw error
        }
    }

    /// Whether the error may be transient.
    private mutating func isTransient(_ error: SystemFileError, at path: String, wasThere: Bool) -> Bool {
        if error.isMissing {
            // Between removal of the old file and creation of the new one. A removed file is missing for longer.
            guard wasThere, now - missing[path, default: now] < Self.microseconds else { return false }
            missing[path] = missing[path] ?? now
        } else {
            guard Self.transientErrors.contains(error.code) else { return false }
        }
        unreadable[path] = error
        return true
    }

    /// Errors that are not the file's.
    private static let transientErrors: Set<Int32> = [
        EAGAIN, EBUSY, EINTR, EIO, EMFILE, ENFILE, ENOBUFS, ENOLCK, ENOMEM, ESTALE, ETIMEDOUT,
    ]
}

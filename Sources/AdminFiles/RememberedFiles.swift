// SPDX-License-Identifier: Apache-2.0
// The admin's small files, remembered as they were read last. What cannot be read just now (no descriptor is free, the
// disk has an error, somebody is replacing the file) counts as it was, and is looked at again soon: a moment's trouble
// takes no app and no rule away.

internal import Glibc
internal import SystemFiles

struct RememberedFiles {
    private var names: [String: [String]] = [:]
    private var contents: [String: [UInt8]] = [:]
    /// Since when something is missing that was there, in microseconds.
    private var missing: [String: Int64] = [:]
    /// Paths that did not exist at the last successful look.
    private var absent: Set<String> = []
    /// What the reading that goes on has asked for.
    private var asked: Set<String> = []
    private var now: Int64 = 0

    /// Files that are being written: new ones do not count yet, others count as they were.
    private var beingWritten: Set<String> = []

    /// What could not be read just now, by path, with the reason.
    private(set) var unreadable: [String: SystemFileError] = [:]

    /// How long something may be missing that is being replaced, and when to look again.
    static let pause: Duration = .seconds(5)
    private static let microseconds: Int64 = 5_000_000
    /// A manifest or a policy file has a few kilobytes.
    static let largest = 1 << 20

    /// A reading begins.
    ///
    /// - Parameters:
    ///   - now: microseconds of a monotonic clock.
    ///   - beingWritten: the paths of files that are not closed yet.
    mutating func begin(at now: Int64, beingWritten: Set<String> = []) {
        self.now = now
        self.beingWritten = beingWritten
        asked = []
        unreadable = [:]
    }

    /// A reading has ended: what it did not ask for is forgotten.
    mutating func end() {
        names = names.filter { asked.contains($0.key) }
        contents = contents.filter { asked.contains($0.key) }
        missing = missing.filter { asked.contains($0.key) }
        absent.formIntersection(asked)
    }

    /// The names in a directory, in order.
    ///
    /// - Throws: when it cannot be read, and could not before.
    mutating func names(in path: String) throws(SystemFileError) -> [String] {
        asked.insert(path)
        do throws(SystemFileError) {
            let found = try SystemFile.names(in: path)
            let whole = found.filter { contents["\(path)/\($0)"] != nil || !beingWritten.contains("\(path)/\($0)") }
            names[path] = whole
            missing[path] = nil
            absent.remove(path)
            return whole
        } catch {
            if mayPass(error, at: path, wasThere: names[path] != nil), let earlier = names[path] { return earlier }
            names[path] = nil
            if error.isMissing { absent.insert(path) }
            // A transient error does not make a missing directory an unreadable one.
            throw unreadable[path] != nil && absent.contains(path) ? SystemFileError(path, code: ENOENT) : error
        }
    }

    /// What is in a file of 1 MiB at most.
    ///
    /// - Throws: when it cannot be read, and could not before.
    mutating func contents(of path: String) throws(SystemFileError) -> [UInt8] {
        asked.insert(path)
        if beingWritten.contains(path), let earlier = contents[path] { return earlier }
        do throws(SystemFileError) {
            let found = try SystemFile.contents(path, limit: Self.largest)
            contents[path] = found
            missing[path] = nil
            return found
        } catch {
            if mayPass(error, at: path, wasThere: contents[path] != nil), let earlier = contents[path] { return earlier }
            contents[path] = nil
            throw error
        }
    }

    /// Whether it is worth another look.
    private mutating func mayPass(_ error: SystemFileError, at path: String, wasThere: Bool) -> Bool {
        if error.isMissing {
            // Between the end of the old file and the beginning of the new one; who goes for good is missing longer.
            guard wasThere, now - missing[path, default: now] < Self.microseconds else { return false }
            missing[path] = missing[path] ?? now
        } else {
            guard Self.passing.contains(error.code) else { return false }
        }
        unreadable[path] = error
        return true
    }

    /// Errors that say nothing of the file.
    private static let passing: Set<Int32> = [
        EAGAIN, EBUSY, EINTR, EIO, EMFILE, ENFILE, ENOBUFS, ENOLCK, ENOMEM, ESTALE, ETIMEDOUT,
    ]
}

// SPDX-License-Identifier: Apache-2.0
// Small files and directories, by path, through the C library: Foundation is five times the size of the daemon
// (Docs/Decisions/0017-without-foundation.md).

internal import Effects
public import Glibc

/// Why a file could not be used.
public struct SystemFileError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path of the call.
    public let path: String
    /// The C library's number (errno(3)).
    public let code: Int32

    /// Whether the file does not exist.
    public var isMissing: Bool { code == ENOENT }

    /// The C library's message, such as "No such file or directory".
    public var reason: String { code == Self.pipe ? "Is a pipe" : String(cString: strerror(code)) }

    /// Not a number of errno(3): a pipe is in the file's place.
    static let pipe: Int32 = -1

    /// Path and reason.
    public var description: String { "\(path): \(reason)" }

    /// - Parameter code: errno(3)'s number; nil for the current `errno`.
    public init(_ path: String, code: Int32? = nil) {
        self.code = code ?? errno
        self.path = path
    }
}

/// Files by path. Errors are `SystemFileError`.
public enum SystemFile {
    /// The content of a file, including files of the kernel without a size. It never blocks.
    ///
    /// - Parameters:
    ///   - limit: bytes; a longer file is an error (`EFBIG`).
    ///   - waits: allows a pipe or a terminal, which is read to its end.
    /// - Throws: if it does not exist, is not a file, may not be read or is too long.
    public static func contents(
        _ path: String, limit: Int = 64 << 20, orWaits waits: Bool = false
    ) throws(SystemFileError) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (waits ? 0 : O_NONBLOCK))
        guard file >= 0 else { throw SystemFileError(path) }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0 else { throw SystemFileError(path) }
        guard waits || status.st_mode & S_IFMT != S_IFIFO else { throw SystemFileError(path, code: SystemFileError.pipe) }
        var bytes = [UInt8](repeating: 0, count: min(limit + 1, max(4096, Int(status.st_size) + 1)))
        var count = 0
        while true {
            let got = bytes.withUnsafeMutableBytes { read(file, $0.baseAddress! + count, $0.count - count) }
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else { throw SystemFileError(path) }
            guard got > 0 else { break }
            count += got
            guard count <= limit else { throw SystemFileError(path, code: EFBIG) }
            if count == bytes.count { bytes.append(contentsOf: repeatElement(0, count: min(count, limit + 1 - count))) }
        }
        bytes.removeLast(bytes.count - count)
        return bytes
    }

    /// The content of a file as text; invalid UTF-8 becomes U+FFFD.
    ///
    /// - Throws: as `contents`.
    public static func text(_ path: String, limit: Int = 64 << 20) throws(SystemFileError) -> String {
        String(decoding: try contents(path, limit: limit), as: UTF8.self)
    }

    /// Writes a file in place: readers may see a part. See `replace`.
    ///
    /// - Parameter mode: of a new file, less the process' mask.
    /// - Throws: if it cannot be written.
    public static func write(_ bytes: some Collection<UInt8>, to path: String, mode: mode_t = 0o666) throws(SystemFileError) {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
        guard file >= 0 else { throw SystemFileError(path) }
        defer { close(file) }
        try write(bytes, into: file, path)
    }

    /// Replaces or makes a file atomically, also with regard to power cuts. The new one is on the disk when the call
    /// returns.
    ///
    /// - Parameter mode: of the file.
    /// - Throws: if it cannot be written; the old one stays then, unless only its directory could not be synced.
    public static func replace(_ path: String, with bytes: some Collection<UInt8>, mode: mode_t) throws(SystemFileError) {
        let draft = Self.draft(of: path)
        do throws(SystemFileError) {
            let file = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode)
            guard file >= 0 else { throw SystemFileError(draft) }
            defer { close(file) }
            guard fchmod(file, mode) == 0 else { throw SystemFileError(draft) }
            try write(bytes, into: file, draft)
            guard fsync(file) == 0 else { throw SystemFileError(draft) }
            try move(draft, to: path)
        } catch {
            _ = Glibc.remove(draft)
            throw error
        }
        try syncDirectory(of: path)
    }

    /// Removes the draft of a `replace` that was killed.
    public static func removeDraft(of path: String) {
        if exists(draft(of: path)) { try? remove(draft(of: path)) }
    }

    private static func draft(of path: String) -> String { path + ".new" }

    /// Syncs the directory of a file, after files in it were made, renamed or removed.
    ///
    /// - Throws: if the directory cannot be read or synced.
    public static func syncDirectory(of path: String) throws(SystemFileError) {
        let slash = path.lastIndex(of: "/")
        let directory = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let file = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard file >= 0 else { throw SystemFileError(directory) }
        defer { close(file) }
        // Some file systems cannot, and need not.
        guard fsync(file) == 0 || errno == EINVAL else { throw SystemFileError(directory) }
    }

    private static func write(_ bytes: some Collection<UInt8>, into file: CInt, _ path: String) throws(SystemFileError) {
        let effect = Effect(.file, "write \(name(path))")
        defer { effect.done() }
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            if written < 0, errno == EINTR { continue }
            guard written > 0 else { throw SystemFileError(path) }
            rest = rest.dropFirst(written)
        }
    }

    /// The last part of a path, for the list of effects.
    static func name(_ path: String) -> Substring {
        path[(path.lastIndex(of: "/").map(path.index(after:)) ?? path.startIndex)...]
    }

    /// Bytes of a file; nil if it does not exist.
    public static func size(_ path: String) -> Int? {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_size) : nil
    }

    /// The permission bits of a file; nil if it does not exist.
    public static func mode(_ path: String) -> mode_t? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode & 0o7777 : nil
    }

    /// Whether the path is of something other than a file: a directory, a pipe, a device, a link to none.
    public static func isNoFile(_ path: String) -> Bool {
        var status = stat()
        guard lstat(path, &status) == 0 else { return false }
        return stat(path, &status) != 0 || status.st_mode & S_IFMT != S_IFREG
    }

    /// Whether the path leads to something that exists.
    public static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// - Throws: if the mode cannot be changed.
    public static func setMode(_ path: String, _ mode: mode_t) throws(SystemFileError) {
        let effect = Effect(.file, "setMode \(name(path))")
        defer { effect.done() }
        guard chmod(path, mode) == 0 else { throw SystemFileError(path) }
    }

    /// Makes a directory and its parents.
    ///
    /// - Parameter mode: of new directories, less the process' mask.
    /// - Throws: if one cannot be made, or its path is not a directory.
    public static func makeDirectory(_ path: String, mode: mode_t = 0o777) throws(SystemFileError) {
        let effect = Effect(.file, "makeDirectory \(name(path))")
        defer { effect.done() }
        if mkdir(path, mode) == 0 { return }
        let code = errno
        if code == ENOENT, let slash = path.lastIndex(of: "/"), slash > path.startIndex {
            try makeDirectory(String(path[..<slash]), mode: mode)
            guard mkdir(path, mode) == 0 || errno == EEXIST else { throw SystemFileError(path) }
        } else if code != EEXIST {
            throw SystemFileError(path, code: code)
        }
        var status = stat()
        guard stat(path, &status) == 0 else { throw SystemFileError(path) }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw SystemFileError(path, code: ENOTDIR) }
    }

    /// The names in a directory, in order, without `.` and `..`.
    ///
    /// - Throws: if it does not exist or may not be read.
    public static func names(in path: String) throws(SystemFileError) -> [String] {
        guard let directory = opendir(path) else { throw SystemFileError(path) }
        defer { closedir(directory) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(directory) else { break }
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        guard errno == 0 else { throw SystemFileError(path) }
        return names.sorted()
    }

    /// Renames, over an existing file.
    ///
    /// - Throws: if the file cannot be renamed.
    public static func move(_ path: String, to target: String) throws(SystemFileError) {
        let effect = Effect(.file, "move \(name(path))")
        defer { effect.done() }
        guard rename(path, target) == 0 else { throw SystemFileError(path) }
    }

    /// Removes a file or an empty directory.
    ///
    /// - Throws: if it does not exist or cannot be removed.
    public static func remove(_ path: String) throws(SystemFileError) {
        let effect = Effect(.file, "remove \(name(path))")
        defer { effect.done() }
        guard Glibc.remove(path) == 0 else { throw SystemFileError(path) }
    }
}

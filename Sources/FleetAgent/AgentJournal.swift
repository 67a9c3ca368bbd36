// SPDX-License-Identifier: Apache-2.0
// The agent's memory on the disk: a file of JSON lines that is appended to, and written anew at each start and when it
// has grown. A command's beginning and end, and a document's version, are on the disk before anything depends on them.

internal import Effects
public import FleetProtocol
internal import Glibc
internal import JSONText
public import SystemFiles

/// The journal, and the memory that it holds.
public final class AgentJournal {
    private typealias Entry = AgentMemory.Change

    /// In bytes: many times the memory's size.
    private static let maxSize = 2 << 20

    private let path: String
    private var file: Int32
    private var size = 0
    public private(set) var memory = AgentMemory()

    /// Opens or makes the journal.
    ///
    /// - Parameter now: seconds since 1970: where lines of the journal cannot be read, no command is accepted that may
    ///   have been among them.
    /// - Throws: if the file cannot be read or written.
    public init(path: String, now: Int) throws(SystemFileError) {
        self.path = path
        file = -1
        let text = try Self.contents(path)
        // A power cut leaves at most a part of the last line.
        var lines = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        lines.removeLast()
        for line in lines {
            memory.apply(Self.entry(Array(line)) ?? .floor(now + FleetCommand.maxLife))
        }
        try rewrite()
    }

    deinit {
        if file >= 0 { close(file) }
    }

    private static func contents(_ path: String) throws(SystemFileError) -> [UInt8] {
        do throws(SystemFileError) {
            return try SystemFile.contents(path)
        } catch {
            guard error.isMissing else { throw error }
            return []
        }
    }

    // MARK: Changes

    /// A command begins.
    ///
    /// - Throws: if that is not on the disk. The command must not begin then.
    public func begin(_ record: CommandRecord) throws(SystemFileError) { try append(.begin(record), isDurable: true) }

    /// - Throws: if it is not on the disk.
    public func finish(_ answer: CommandAnswer) throws(SystemFileError) { try append(.finish(answer), isDurable: true) }

    /// - Throws: if it is not on the disk.
    public func record(_ kind: DesiredDocument.Kind, _ version: AppliedVersion) throws(SystemFileError) {
        try append(.applied(kind, version), isDurable: true)
    }

    /// It may be lost in a power cut.
    ///
    /// - Throws: if it cannot be written.
    public func record(_ mark: AuditMark) throws(SystemFileError) { try append(.audit(mark), isDurable: false) }

    private func append(_ entry: Entry, isDurable: Bool) throws(SystemFileError) {
        // Where a line was written in part, or the disk refused it, the file begins anew.
        if file < 0 || size > Self.maxSize { try rewrite() }
        let effect = Effect(.file, "append \(Self.name(of: entry))")
        defer { effect.done() }
        let line = Self.line(entry)
        let written = line.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
        guard written == line.count, !isDurable || fdatasync(file) == 0 else {
            let error = SystemFileError(path, code: written == line.count || written < 0 ? errno : ENOSPC)
            close(file)
            file = -1
            throw error
        }
        size += line.count
        memory.apply(entry)
    }

    private func rewrite() throws(SystemFileError) {
        if file >= 0 { close(file) }
        file = -1
        var entries: [Entry] = [.floor(memory.commands.floor), .audit(memory.audit)]
        entries += memory.applied.sorted { $0.key.rawValue < $1.key.rawValue }.map { .applied($0.key, $0.value) }
        for record in memory.commands.records {
            entries.append(.begin(record))
            if let answer = record.answer { entries.append(.finish(answer)) }
        }
        let bytes = entries.flatMap { Self.line($0) }
        try SystemFile.replace(path, with: bytes, mode: 0o600)
        file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC)
        guard file >= 0 else { throw SystemFileError(path) }
        size = bytes.count
    }

    // MARK: Lines

    private static func name(of entry: Entry) -> String {
        switch entry {
        case .begin: "begin"
        case .finish: "finish"
        case .audit: "audit"
        case .applied: "applied"
        case .floor: "floor"
        }
    }

    private static func line(_ entry: Entry) -> [UInt8] {
        let value: JSON =
            switch entry {
            case .begin(let record):
                [
                    "id": JSON(record.id), "expires": JSON(record.expires), "to": JSON(record.responseEnd),
                    "correlation": .array(record.correlation.map { JSON(Int($0)) }),
                ]
            case .finish(let answer): answer.json
            case .audit(let mark): ["trail": JSON(mark.trail), "id": JSON(mark.id), "time": JSON(mark.time)]
            case .applied(let kind, let version):
                ["kind": JSON(kind.rawValue), "version": JSON(version.version), "hash": JSON(version.hash)]
            case .floor(let time): JSON(time)
            }
        return Array((JSON.object([name(of: entry): value]).writtenInOneLine + "\n").utf8)
    }

    private static func entry(_ line: [UInt8]) -> Entry? {
        guard let members = (try? JSON(parsing: line))?.members, members.count == 1, let (name, value) = members.first else {
            return nil
        }
        switch name {
        case "begin":
            guard let id = value["id"]?.string, let expires = value["expires"]?.int, let end = value["to"]?.string,
                let bytes = value["correlation"]?.elements
            else { return nil }
            let correlation = bytes.compactMap { $0.int.flatMap { UInt8(exactly: $0) } }
            return .begin(CommandRecord(id: id, expires: expires, responseEnd: end, correlation: correlation))
        case "finish": return CommandAnswer(value).map { .finish($0) }
        case "audit":
            guard let trail = value["trail"]?.int, let id = value["id"]?.int, let time = value["time"]?.int else { return nil }
            return .audit(AuditMark(trail: trail, id: id, time: time))
        case "applied":
            guard let kind = value["kind"]?.string.flatMap({ DesiredDocument.Kind(rawValue: $0) }),
                let version = value["version"]?.int, let hash = value["hash"]?.string
            else { return nil }
            return .applied(kind, AppliedVersion(version: version, hash: hash))
        case "floor": return value.int.map { .floor($0) }
        default: return nil
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Files on a real disk: a replacement is complete, or the old file stays.

import Glibc
import SystemFiles
import TestSupport
import Testing

@Suite struct SystemFileTests {
    private let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
    }

    private var path: String { directory.path + "/file" }

    @Test func aFileIsReplaced() throws {
        try SystemFile.replace(path, with: "first".utf8, mode: 0o640)
        try SystemFile.replace(path, with: "second".utf8, mode: 0o604)
        #expect(try SystemFile.text(path) == "second" && SystemFile.mode(path) == 0o604)
        #expect(try SystemFile.names(in: directory.path) == ["file"])
    }

    /// A failed replacement leaves the old file and no draft.
    @Test func whatCannotBeReplacedStays() throws {
        try SystemFile.write("old".utf8, to: path)
        try SystemFile.makeDirectory(path + ".new/full")
        #expect(throws: SystemFileError.self) { try SystemFile.replace(path, with: "new".utf8, mode: 0o600) }
        #expect(try SystemFile.text(path) == "old")

        let target = directory.path + "/directory"
        try SystemFile.makeDirectory(target + "/full")
        #expect(throws: SystemFileError.self) { try SystemFile.replace(target, with: "new".utf8, mode: 0o600) }
        #expect(!SystemFile.exists(target + ".new"))
    }

    /// The pipe has no reader and no writer, so a blocking open would hang.
    @Test func noPipeIsWaitedFor() throws {
        #expect(mkfifo(path, 0o600) == 0 && mkfifo(path + ".new", 0o600) == 0)
        let error = #expect(throws: SystemFileError.self) { try SystemFile.contents(path) }
        #expect(error?.description == "\(path): Is a pipe" && SystemFile.isNoFile(path))
        #expect(throws: SystemFileError.self) { try SystemFile.replace(path, with: "new".utf8, mode: 0o600) }
        #expect(SystemFile.isNoFile(path))
    }

    /// The draft never follows a link.
    @Test func aLinkIsNotFollowed() throws {
        let other = directory.path + "/other"
        try SystemFile.write("theirs".utf8, to: other)
        #expect(symlink(other, path + ".new") == 0)
        #expect(throws: SystemFileError.self) { try SystemFile.replace(path, with: "new".utf8, mode: 0o600) }
        #expect(try SystemFile.text(other) == "theirs")
        // Refused once; the link is gone, and the next one succeeds.
        try SystemFile.replace(path, with: "new".utf8, mode: 0o600)
        #expect(try SystemFile.text(path) == "new")
    }

    @Test func aDirectoryIsSynced() throws {
        try SystemFile.syncDirectory(of: path)
        #expect { try SystemFile.syncDirectory(of: path + "/deeper") } throws: { "\($0)".contains("/file") }
    }
}

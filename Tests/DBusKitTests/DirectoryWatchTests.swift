// SPDX-License-Identifier: Apache-2.0
// Watched directories whose place another directory takes.

import DBusKit
import Foundation
import TestSupport
import Testing

@Suite struct DirectoryWatchTests {
    private let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
    }

    private func move(_ name: String, to other: String) throws {
        try FileManager.default.moveItem(atPath: "\(directory.path)/\(name)", toPath: "\(directory.path)/\(other)")
    }

    @Test func aDirectoryThatLostItsPlaceIsNotWatched() throws {
        let loop = MainLoop()
        try directory.write("apps/a.conf", "a")
        try directory.write("next/a.conf", "a")
        let watch = DirectoryWatch([directory.path + "/apps"], suffix: ".conf", loop: loop)
        var changes = 0
        watch.onChange = { changes += watch.renew() ? 1 : 0 }
        #expect(watch.renew())
        // The file is open while the directories change places, and another one afterwards.
        let early = try #require(fopen(directory.path + "/apps/b.conf", "w"))
        defer { fclose(early) }
        // A change besides, which the watch reports.
        try directory.write("apps/other", "")
        #expect(loop.run(until: { changes > 0 }, timeout: .hang))
        #expect(watch.filesBeingWritten == [directory.path + "/apps/b.conf"])
        changes = 0
        try move("apps", to: "before")
        try move("next", to: "apps")
        #expect(loop.run(until: { changes > 0 }, timeout: .hang))
        let late = try #require(fopen(directory.path + "/before/c.conf", "w"))
        defer { fclose(late) }
        fputs("c", late)
        fflush(late)
        // Events come in their order: after this one, those of the open files have come.
        changes = 0
        try directory.write("apps/other", "")
        #expect(loop.run(until: { changes > 0 }, timeout: .hang))
        #expect(watch.filesBeingWritten == [])
        // The directory that has taken the place is watched.
        let file = try #require(fopen(directory.path + "/apps/d.conf", "w"))
        changes = 0
        try directory.write("apps/other", "again")
        #expect(loop.run(until: { changes > 0 }, timeout: .hang))
        #expect(watch.filesBeingWritten == [directory.path + "/apps/d.conf"])
        fclose(file)
        changes = 0
        #expect(loop.run(until: { changes > 0 }, timeout: .hang))
        #expect(watch.filesBeingWritten == [])
    }
}

// SPDX-License-Identifier: Apache-2.0
// Detection of containers with an unprivileged daemon's view of root's processes: in a substitute of /proc, because
// these tests may see more.

import Foundation
import TestSupport
import Testing

@testable import CallerIdentity

@Suite struct ContainerTests {
    private static let all = "000001ffffffffff"
    private static let machine = "         0          0 4294967295\n"

    private let directory: TemporaryDirectory
    private var procfs: String { directory.path }

    init() throws {
        directory = try TemporaryDirectory()
        try put("self", users: Self.machine, links: ["user": "user:[1]", "mnt": "mnt:[2]"])
        try put("1", users: Self.machine, links: [:])
    }

    private func put(
        _ process: String, numbers: String = "7", users: String, capabilities: String = all, links: [String: String]
    ) throws {
        let path = "\(procfs)/\(process)"
        try FileManager.default.createDirectory(atPath: path + "/ns", withIntermediateDirectories: true)
        try "Name:\tsh\nNSpid:\t\(numbers)\nCapEff:\t\(capabilities)\n".write(
            toFile: path + "/status", atomically: false, encoding: .utf8)
        try users.write(toFile: path + "/uid_map", atomically: false, encoding: .utf8)
        for (name, target) in links {
            try FileManager.default.createSymbolicLink(atPath: "\(path)/ns/\(name)", withDestinationPath: target)
        }
    }

    private func isContained(_ process: String, of uid: UInt32 = 0) -> Bool {
        let path = "\(procfs)/\(process)"
        return ProcessFacts.isContained(path, ProcessStatus(path), of: uid, procfs: procfs)
    }

    @Test func rootOfTheMachineIsNot() throws {
        try put("7", users: Self.machine, links: [:])
        #expect(!isContained("7"))
    }

    /// An ordinary user has no capabilities to lose.
    @Test func aUserOfTheMachineIsNot() throws {
        try put("7", users: Self.machine, capabilities: "0000000000000000", links: [:])
        #expect(!isContained("7", of: 1000))
        try put("8", users: "         0       1000          1\n", links: [:])
        #expect(isContained("8", of: 1000))
    }

    @Test(arguments: [
        ("7\t1", machine, all), ("7", "         0     100000      65536\n", all), ("7", "         0       1000          1\n", all),
        // As podman and docker leave their containers' root, and as bubblewrap does.
        ("7", machine, "00000000800405fb"), ("7", machine, "00000000a80425fb"), ("7", machine, "0000000000000000"),
        ("7", "", all), ("", machine, all), ("7", machine, ""),
    ]) func aContainersRootIs(numbers: String, users: String, capabilities: String) throws {
        try put("7", numbers: numbers, users: users, capabilities: capabilities, links: [:])
        #expect(isContained("7"))
    }

    /// Where the daemon may look: a user namespace that maps each uid to itself, another root.
    @Test(arguments: [
        ("user:[1]", "mnt:[2]", false), ("user:[1]", "mnt:[3]", false), ("user:[9]", "mnt:[2]", true),
        ("user:[1]", "mnt:[9]", true),
    ]) func namespacesAreCompared(user: String, mount: String, isContained: Bool) throws {
        try FileManager.default.createSymbolicLink(atPath: "\(procfs)/1/ns/mnt", withDestinationPath: "mnt:[3]")
        try put("7", users: Self.machine, links: ["user": user, "mnt": mount])
        #expect(self.isContained("7") == isContained)
    }

    @Test func whoHasGoneIs() { #expect(isContained("9")) }
}

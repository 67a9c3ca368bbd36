// SPDX-License-Identifier: Apache-2.0
// Real processes for tests: a private bus, the simulator, the daemon. Each is ended with its test, and every wait is
// for a line or an event, with a limit that only a hang reaches.

public import Foundation
import Synchronization

/// Children that live: a test that leaks one must not leave it behind when the tests end.
private enum LiveProcesses {
    private static let identifiers = Mutex<Set<pid_t>>([])
    private static let atExit: Void = {
        _ = atexit { LiveProcesses.identifiers.withLock { for identifier in $0 { kill(identifier, SIGKILL) } } }
    }()

    static func add(_ identifier: pid_t) {
        _ = atExit
        _ = identifiers.withLock { $0.insert(identifier) }
    }

    static func remove(_ identifier: pid_t) { _ = identifiers.withLock { $0.remove(identifier) } }
}

/// A program under test; its output is kept line by line.
public final class ChildProcess {
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    public let identifier: Int32
    private let name: String
    private let output: Int32
    private var status: Int32?
    private var buffer: [UInt8] = []
    public private(set) var lines: [String] = []

    /// - Parameter program: an absolute path, or a name beside the tests' own executable.
    public init(_ program: String, _ arguments: [String], environment: [String: String] = [:]) throws {
        let path = program.hasPrefix("/") ? program : Programs.directory + "/" + program
        name = path.split(separator: "/").last.map(String.init) ?? path
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw Failure(description: "no pipe") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // Tests run on threads that block all signals, and a child would inherit that: it could not be ended.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 2)
        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0)=\($1)" }
        var words = ([path] + arguments).map { strdup($0) } + [nil]
        var settings = variables.map { strdup($0) } + [nil]
        defer { for text in words + settings { free(text) } }
        var child: pid_t = 0
        let failure = posix_spawn(&child, path, &actions, &attributes, &words, &settings)
        close(ends[1])
        output = ends[0]
        identifier = child
        guard failure == 0 else {
            close(ends[0])
            status = -1
            throw Failure(description: "\(path): \(String(cString: strerror(failure)))")
        }
        LiveProcesses.add(child)
    }

    deinit {
        end()
        close(output)
    }

    /// Reads until a line contains `text`; earlier lines stay in `lines`.
    @discardableResult
    public func waitForLine(containing text: String, within limit: Duration = .hang) throws -> String {
        var seen = 0
        let end = Date().addingTimeInterval(Double(limit.components.seconds))
        while true {
            while seen < lines.count {
                if lines[seen].contains(text) { return lines[seen] }
                seen += 1
            }
            let left = end.timeIntervalSinceNow
            var entry = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
            guard left > 0, poll(&entry, 1, Int32(left * 1000)) > 0, readMore() else {
                throw Failure(description: "no line with “\(text)” from \(name): \(lines)")
            }
        }
    }

    private func readMore() -> Bool {
        var chunk = [UInt8](repeating: 0, count: 4096)
        let count = read(output, &chunk, chunk.count)
        guard count > 0 else { return false }
        buffer += chunk[..<count]
        while let end = buffer.firstIndex(of: 10) {
            lines.append(String(decoding: buffer[..<end], as: UTF8.self))
            buffer.removeSubrange(...end)
        }
        return true
    }

    /// Ends the process, gently unless `signal` says otherwise.
    public func end(_ signal: Int32 = SIGTERM) {
        guard status == nil else { return }
        kill(identifier, signal)
        reap()
    }

    /// Waits for the process to end by itself.
    ///
    /// - Returns: its exit status; 128 + n for signal n.
    public func waitForExit() -> Int32 {
        while readMore() {}
        return reap()
    }

    @discardableResult
    private func reap() -> Int32 {
        if let status { return status }
        var raw: Int32 = 0
        while waitpid(identifier, &raw, 0) < 0, errno == EINTR {}
        LiveProcesses.remove(identifier)
        let result = raw & 0x7F == 0 ? (raw >> 8) & 0xFF : 128 + (raw & 0x7F)
        status = result
        return result
    }
}

/// Where the programs under test are: beside the tests.
public enum Programs {
    public static var directory: String {
        URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent().path
    }

    /// The top of the checkout.
    public static var repository: String {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().path
    }
}

/// A directory that is gone after the test.
public final class TemporaryDirectory {
    public let path: String

    /// - Parameter inMemory: where syncing costs nothing, for tests that do nothing else.
    public init(inMemory: Bool = false) throws {
        path = (inMemory ? "/dev/shm/" : NSTemporaryDirectory()) + "accessory-test-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    @discardableResult
    public func write(_ name: String, _ text: String) throws -> String {
        let file = path + "/" + name
        try FileManager.default.createDirectory(
            atPath: (file as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
        try text.write(toFile: file, atomically: false, encoding: .utf8)
        return file
    }
}

/// A message bus of the test's own.
public final class PrivateBus {
    public let address: String
    private let daemon: ChildProcess

    public init() throws {
        let configuration = Programs.repository + "/Tests/Support/private-bus.conf"
        daemon = try ChildProcess("/usr/bin/dbus-daemon", ["--config-file=\(configuration)", "--nofork", "--print-address=1"])
        address = try daemon.waitForLine(containing: "unix:")
    }

    public func end() { daemon.end() }
}

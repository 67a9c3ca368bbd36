// SPDX-License-Identifier: Apache-2.0
// A child process that the kernel ends with this one, and its output.

internal import CSystem
internal import DBusKit
internal import Glibc
internal import SystemFiles

final class ChildProcess {
    /// One of the output descriptors, 1 or 2, and bytes from it.
    typealias Output = (Int32, ArraySlice<UInt8>) -> Void

    let pid: pid_t
    /// The exit status as a shell reports it; nil while the process runs.
    private(set) var status: Int32?
    private let output: [(number: Int32, pipe: FileDescriptor)]
    private let take: Output?
    private let loop: MainLoop
    private var sources: [LoopSource] = []

    /// - Parameters:
    ///   - isApart: in a session of its own, out of reach of the terminal's signals, and with no input.
    ///   - last: the signal that it receives when this process is killed.
    ///   - take: gets the output; nil for this process' own.
    /// - Throws: if it cannot be executed.
    init(_ path: String, _ arguments: [String], isApart: Bool, last: Int32, on loop: MainLoop, take: Output? = nil) throws {
        var files: [Int32] = [0, 1, 2]
        var owned: [FileDescriptor] = []
        var output: [(number: Int32, pipe: FileDescriptor)] = []
        if isApart {
            let input = FileDescriptor(owning: open("/dev/null", O_RDONLY | O_CLOEXEC))
            owned.append(input)
            files[0] = input.rawValue
        }
        if take != nil {
            for number: Int32 in [1, 2] {
                var ends: [Int32] = [-1, -1]
                guard pipe(&ends) == 0 else { throw SystemFileError(path) }
                for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
                _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
                output.append((number, FileDescriptor(owning: ends[0])))
                owned.append(FileDescriptor(owning: ends[1]))
                files[Int(number)] = ends[1]
            }
        }
        var vector = (["\(path)"] + arguments).map { strdup($0) } + [nil]
        defer { for each in vector { free(each) } }
        var process: Int32 = 0
        let code = csystem_spawn(path, &vector, files, isApart ? 1 : 0, last, &process)
        withExtendedLifetime(owned) {}
        guard code == 0 else { throw SystemFileError(path, code: code) }
        pid = process
        self.output = output
        self.take = take
        self.loop = loop
        resume()
    }

    deinit { pause() }

    /// Leaves its output in the pipes: the process waits once they are full.
    func pause() {
        for source in sources { source.cancel() }
        sources = []
    }

    /// Reads its output, again after `pause`.
    func resume() {
        guard sources.isEmpty, status == nil else { return }
        sources = output.map { number, pipe in
            loop.onReadable(pipe.rawValue) { [unowned self] in read(number, pipe, 16 << 10) }
        }
    }

    /// Passes on a part of the output.
    ///
    /// - Returns: whether there may be more later.
    private func read(_ number: Int32, _ pipe: FileDescriptor, _ size: Int) -> Bool {
        var buffer = [UInt8](repeating: 0, count: size)
        let count = Glibc.read(pipe.rawValue, &buffer, buffer.count)
        if count > 0 { take?(number, buffer[..<count]) }
        return count > 0 || count < 0 && [EAGAIN, EINTR].contains(errno)
    }

    /// The process has ended with a status of wait(2): passes on the rest of its output.
    func ended(_ wait: Int32) {
        pause()
        for (number, pipe) in output {
            // Its own children may hold the other end, and write on.
            var size: Int32 = 0
            if ioctl(pipe.rawValue, UInt(FIONREAD), &size) == 0 { _ = read(number, pipe, Int(size)) }
        }
        status = wait & 0x7F == 0 ? wait >> 8 & 0xFF : 128 + (wait & 0x7F)
    }

    func signal(_ number: Int32) {
        if status == nil { kill(pid, number) }
    }
}

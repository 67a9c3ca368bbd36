// SPDX-License-Identifier: Apache-2.0
// The broker's process, which the driver starts: `!start` on standard output asks for it, and the answer is a line with
// its number on standard input.

import DBusKit
import Glibc

/// Seconds since 1970.
func wallClock() -> Int { time(nil) }

/// The process of mosquitto.
final class Broker {
    private let loop: MainLoop
    /// 0 while it is not running.
    private(set) var process: Int32 = 0
    private(set) var isStopped = false
    private var input: [UInt8] = []

    init(_ loop: MainLoop) {
        self.loop = loop
        loop.onReadable(0) { [weak self] in self?.read() ?? false }
    }

    private func read() -> Bool {
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = Glibc.read(0, &bytes, bytes.count)
        // The driver is gone, and the broker with it.
        guard count > 0 else { exit(2) }
        for byte in bytes.prefix(count) {
            guard byte == UInt8(ascii: "\n") else {
                input.append(byte)
                continue
            }
            process = Int32(String(decoding: input, as: UTF8.self)) ?? 0
            input = []
        }
        return true
    }

    func start() { say("!start") }

    /// Kills it, and starts it again after this time.
    func restart(after delay: Duration) {
        guard process > 0 else { return }
        kill(process, SIGKILL)
        process = 0
        isStopped = false
        loop.after(delay) { [weak self] in self?.start() }
    }

    /// Lets it stand still, or go on.
    func stop(_ isStopped: Bool) {
        guard process > 0, isStopped != self.isStopped else { return }
        self.isStopped = isStopped
        kill(process, isStopped ? SIGSTOP : SIGCONT)
    }

    /// Resident memory in megabytes.
    var memory: Int { Self.memory(of: "\(process)") }
    static var ownMemory: Int { memory(of: "self") }

    private static func memory(of process: String) -> Int {
        guard let file = fopen("/proc/\(process)/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        guard fgets(&line, 256, file) != nil else { return 0 }
        let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let words = text.split(separator: " ")
        return words.count > 1 ? (Int(words[1]) ?? 0) * 4096 / 1_000_000 : 0
    }
}

/// Prints a line at once.
func say(_ text: String) {
    let bytes = Array((text + "\n").utf8)
    _ = write(1, bytes, bytes.count)
}

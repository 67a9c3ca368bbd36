// SPDX-License-Identifier: Apache-2.0
// What the service manager hears of a daemon: that it is ready, that it ends, and that its loop still turns.

public import DBusKit

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

/// What the service manager wants to know (sd_notify(3)); nothing happens where there is none.
public enum ServiceManager {
    /// - Parameter state: assignments as in sd_notify(3), for example `READY=1`.
    public static func notify(_ state: String) {
        guard let path = getenv("NOTIFY_SOCKET").map({ String(cString: $0) }) else { return }
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        guard UnixDatagram.connect(descriptor, to: path) else { return }
        _ = state.withCString { send(descriptor, $0, strlen($0), Int32(MSG_NOSIGNAL)) }
    }

    /// Tells the service manager twice in each interval of its watchdog that the loop turns, if it asked for that
    /// (sd_watchdog_enabled(3)). A timer of the loop itself: a loop that hangs misses it.
    public static func keepAlive(on loop: MainLoop) {
        guard let interval = watchdogInterval else { return }
        loop.every(interval / 2) {
            notify("WATCHDOG=1")
            return true
        }
    }

    private static var watchdogInterval: Duration? {
        guard let microseconds = getenv("WATCHDOG_USEC").flatMap({ Int64(String(cString: $0)) }), microseconds > 0 else {
            return nil
        }
        // The variables may have been meant for the process that started us.
        if let process = getenv("WATCHDOG_PID"), Int32(String(cString: process)) != getpid() { return nil }
        return max(.microseconds(microseconds), .milliseconds(2))
    }
}

// SPDX-License-Identifier: Apache-2.0
// Notifications to the service manager: ready, stopping, watchdog; and the descriptors that it stores for the daemon.

internal import CSystem
public import DBusKit
internal import Glibc

/// The service manager (sd_notify(3)). Without one, calls have no effect.
public enum ServiceManager {
    /// - Parameter state: assignments as in sd_notify(3), for example `READY=1`.
    public static func notify(_ state: String) {
        withSocket { descriptor in _ = state.withCString { send(descriptor, $0, strlen($0), Int32(MSG_NOSIGNAL)) } }
    }

    private static func withSocket(_ body: (Int32) -> Void) {
        guard let path = getenv("NOTIFY_SOCKET").map({ String(cString: $0) }) else { return }
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        guard UnixDatagram.connect(descriptor, to: path) else { return }
        body(descriptor)
    }

    // MARK: Descriptors

    /// Stores a descriptor at the service manager for the next run (`FileDescriptorStoreMax=`).
    ///
    /// - Parameter name: at most 255 characters of ASCII, no colon.
    public static func keep(_ descriptor: FileDescriptor, named name: String) {
        withSocket { _ = csystem_send_descriptor($0, "FDSTORE=1\nFDNAME=\(name)", descriptor.rawValue) }
    }

    /// Whether a service manager may store descriptors.
    public static var isThere: Bool { getenv("NOTIFY_SOCKET") != nil }

    /// Waits at most two seconds until the service manager has processed all notifications, which it could not
    /// attribute to a process that has ended (sd_notify_barrier(3)).
    public static func waitUntilTaken() {
        guard let (own, other) = FileDescriptor.packetPair() else { return }
        var sent: FileDescriptor? = other
        withSocket { socket in _ = sent.map { csystem_send_descriptor(socket, "BARRIER=1", $0.rawValue) } }
        // The service manager has the last copy now.
        sent = nil
        var end = pollfd(fd: own.rawValue, events: 0, revents: 0)
        _ = poll(&end, 1, 2000)
    }

    /// Closes stored descriptors of this name.
    public static func discard(_ name: String) {
        notify("FDSTOREREMOVE=1\nFDNAME=\(name)")
    }

    /// The descriptors from the service manager: those of socket units and stored ones (sd_listen_fds(3)). The
    /// environment is cleared, so that child processes do not use them.
    public static func receiveDescriptors() -> [(name: String, descriptor: FileDescriptor)] {
        let names = getenv("LISTEN_FDNAMES").map { String(cString: $0) } ?? ""
        let named = names.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        defer { for each in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] { unsetenv(each) } }
        guard getenv("LISTEN_PID").flatMap({ pid_t(String(cString: $0)) }) == getpid(),
            let count = getenv("LISTEN_FDS").flatMap({ Int32(String(cString: $0)) }), (1...65_536).contains(count)
        else { return [] }
        return (0..<count).map { number in
            // After the three standard ones.
            let descriptor = number + 3
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
            return (named.indices.contains(Int(number)) ? named[Int(number)] : "", FileDescriptor(owning: descriptor))
        }
    }

    // MARK: The watchdog

    /// Notifies the watchdog twice in each interval, if it is enabled (sd_watchdog_enabled(3)). A timer of the loop
    /// does it: a loop that hangs must miss it.
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
        // The variables may be for the parent process.
        if let process = getenv("WATCHDOG_PID"), Int32(String(cString: process)) != getpid() { return nil }
        return max(.microseconds(microseconds), .milliseconds(2))
    }
}

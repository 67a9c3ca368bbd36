// SPDX-License-Identifier: Apache-2.0
// The extension's program: it serves `org.accessorysetup1.Extension` on the socket that systemd passes to it.

internal import DBusKit
internal import Foundation

/// A program that finds an app's accessories while its picker is shown.
///
/// The type that conforms is the program's `@main`. systemd starts the program when the daemon connects to the socket
/// that `Extension=` in the app's manifest names, and passes the socket to it (systemd.socket(5), `Accept=no`). All
/// methods are called on the main thread, whose dispatch queue is served meanwhile.
///
/// Source: Apple's documentation of `DDDiscoveryExtension`.
public protocol DDDiscoveryExtension: SendableMetatype {
    /// Made once, when the program starts.
    init()
    /// Begins to search, and to report to the session.
    func startDiscovery(session: DDDiscoverySession)
    /// Ends the search: the person has picked, or the picker is gone.
    func stopDiscovery(session: DDDiscoverySession)
    /// Never called on Linux.
    func didReceiveEvent(_ event: DDDeviceEvent)
}

extension DDDiscoveryExtension {
    /// Does nothing.
    public func didReceiveEvent(_ event: DDDeviceEvent) {}

    /// Serves the daemon. Without a socket from systemd the program ends with status 64, and without a thread with 71.
    public static func main() {
        MainActor.assumeIsolated {
            let body = Self()
            Discovery.current = Discovery(
                start: { body.startDiscovery(session: $0) }, stop: { body.stopDiscovery(session: $0) })
        }
        guard let socket = passedSocket() else {
            complain("systemd has passed no socket (LISTEN_FDS)")
            exit(EX_USAGE)
        }
        do {
            try ExtensionServer.start(on: socket)
        } catch {
            complain("\(error)")
            exit(EX_OSERR)
        }
        dispatchMain()
    }

    /// The socket of sd_listen_fds(3).
    private static func passedSocket() -> FileDescriptor? {
        let environment = ProcessInfo.processInfo.environment
        guard environment["LISTEN_PID"] == "\(getpid())", environment["LISTEN_FDS"] == "1" else { return nil }
        // After the three standard ones. Programs that this one starts must not have it.
        let descriptor: Int32 = 3
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        return FileDescriptor(owning: descriptor)
    }

    private static func complain(_ text: String) {
        FileHandle.standardError.write(Data("\(ProcessInfo.processInfo.processName): \(text)\n".utf8))
    }
}

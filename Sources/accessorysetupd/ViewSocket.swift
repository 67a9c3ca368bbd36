// SPDX-License-Identifier: Apache-2.0
// The address of the scoped view: a socket from systemd, the path of `--view`, or the standard path.

internal import BlueZView
internal import DBusKit
internal import Glibc
internal import Logging
internal import SystemFiles

struct ViewSocket {
    let address: BusServer.Address

    private static let directory = "/run/accessory-setup"

    /// Nil if the view is not to be served.
    ///
    /// - Parameter inherited: all descriptors from the service manager, with their names.
    init?(_ options: Options, inherited: [(name: String, descriptor: FileDescriptor)], log: Logger) {
        if let path = options.viewPath {
            address = .path(path)
            return
        }
        let listening = inherited.filter { !$0.name.hasPrefix(AppSockets.prefix) && !Handover.owns($0.name) }.map(\.descriptor)
        if !listening.isEmpty {
            address = .listening(listening)
            return
        }
        // Without systemd, for the system's own bus only: two daemons on test buses must not compete for the path.
        guard Connection.Address(options.bus) == .system else { return nil }
        let path = Self.directory + "/bus"
        let sockets = (try? SystemFile.text("/proc/net/unix")) ?? ""
        if sockets.split(separator: "\n").contains(where: { $0.hasSuffix(" \(path)") }) {
            log.warning("no view of org.bluez: another process listens on its socket", metadata: ["socket": "\(path)"])
            return nil
        }
        umask(0o022)
        defer { umask(0o077) }
        guard mkdir(Self.directory, 0o755) == 0 || errno == EEXIST, access(Self.directory, W_OK) == 0 else {
            let reason = String(cString: strerror(errno))
            log.warning("no view of org.bluez", metadata: ["directory": "\(Self.directory)", "reason": "\(reason)"])
            return nil
        }
        address = .path(path)
    }
}

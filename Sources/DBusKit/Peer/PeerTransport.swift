// SPDX-License-Identifier: Apache-2.0
// A libdbus connection on a socket that libdbus has neither accepted nor authenticated. libdbus has no call for that:
// it makes a connection with a socket of its own, authenticated as this process, and that descriptor then becomes the
// other socket (dup3(2)).

internal import CDBus
internal import CSystem
internal import Glibc

enum PeerTransport {
    /// Reads and writes until both ends have said all: there is nothing to wait for.
    private static let turns = 16

    private final class Stage {
        var watch: OpaquePointer?
        var connection: OpaquePointer?
    }

    /// - Parameter socket: connected, and not blocking. The connection gets a descriptor of its own for it.
    /// - Throws: when there is no descriptor for it.
    static func open(_ socket: Int32) throws(BusError) -> OpaquePointer {
        // Another process would have to find this name and connect before the next line; then it is not used.
        let name = "accessory-setup-\(UInt64.random(in: .min ... .max))-\(UInt64.random(in: .min ... .max))"
        var failure = CDBus.DBusError()
        dbus_error_init(&failure)
        guard let server = dbus_server_listen("unix:abstract=\(name)", &failure) else { throw BusError(taking: &failure) }
        defer {
            dbus_server_disconnect(server)
            dbus_server_unref(server)
        }
        let stage = Stage()
        let data = Unmanaged.passUnretained(stage).toOpaque()
        dbus_server_set_watch_functions(
            server,
            { watch, data in
                Unmanaged<Stage>.fromOpaque(data!).takeUnretainedValue().watch = watch
                return 1
            }, nil, nil, data, nil)
        dbus_server_set_new_connection_function(
            server,
            { _, connection, data in
                dbus_connection_ref(connection)
                Unmanaged<Stage>.fromOpaque(data!).takeUnretainedValue().connection = connection
            }, data, nil)
        let ours = csystem_connect_abstract(name)
        guard ours >= 0 else { throw .failed("no socket: \(String(cString: strerror(errno)))") }
        defer { close(ours) }
        let user = String(geteuid()).utf8.map { "3\($0 - 0x30)" }.joined()
        let words = "\0AUTH EXTERNAL \(user)\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n"
        guard words.utf8.count == write(ours, words, words.utf8.count), let watch = stage.watch else {
            throw .failed("the socket takes nothing")
        }
        dbus_watch_handle(watch, DBUS_WATCH_READABLE.rawValue)
        guard let connection = stage.connection else { throw .failed("no descriptor is free") }
        dbus_connection_set_exit_on_disconnect(connection, 0)
        var peer = csystem_peer()
        var descriptor: CInt = -1
        if dbus_connection_get_socket(connection, &descriptor) != 0, csystem_peer_credentials(descriptor, &peer) == 0,
            peer.pid == getpid()
        {
            for _ in 0..<turns where dbus_connection_get_is_authenticated(connection) == 0 {
                dbus_connection_read_write(connection, 0)
            }
            if dbus_connection_get_is_authenticated(connection) != 0, csystem_become(descriptor, socket) == 0 {
                withExtendedLifetime(stage) {}
                return connection
            }
        }
        dbus_connection_close(connection)
        dbus_connection_unref(connection)
        throw .failed("the connection is not our own")
    }
}

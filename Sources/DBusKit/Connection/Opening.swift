// SPDX-License-Identifier: Apache-2.0
// A connection that has been begun: the bus identifies us while the caller does something else. A daemon that opens
// several starts sooner so.

internal import CDBus

extension Connection {
    /// A socket that is connected to a bus, with the first word said and nothing waited for.
    public struct Opening: ~Copyable {
        private let raw: OpaquePointer

        /// - Throws: the bus' error, or `org.freedesktop.DBus.Error.BadAddress`.
        public init(_ address: Address) throws(BusError) {
            var failure = CDBus.DBusError()
            dbus_error_init(&failure)
            let raw: OpaquePointer? =
                switch address {
                // A session bus may have to be started: that is libdbus' business, and it waits for the bus then.
                case .session: dbus_bus_get_private(DBUS_BUS_SESSION, &failure)
                case .system, .server:
                    address.text.utf8.contains(0) ? nil : dbus_connection_open_private(address.text, &failure)
                }
            guard let raw else { throw BusError(taking: &failure) }
            // libdbus would end the process when the bus goes; that is for us to decide.
            dbus_connection_set_exit_on_disconnect(raw, 0)
            dbus_connection_read_write(raw, 0)
            self.raw = raw
        }

        deinit {
            dbus_connection_close(raw)
            dbus_connection_unref(raw)
        }

        /// The connection is the caller's, which says hello.
        consuming func take() -> OpaquePointer {
            let raw = raw
            discard self
            return raw
        }

        /// Says hello and waits for the answer; the connection is the caller's then.
        consuming func register() throws(BusError) -> OpaquePointer {
            var failure = CDBus.DBusError()
            dbus_error_init(&failure)
            guard dbus_bus_register(raw, &failure) != 0 else {
                _ = consume self
                throw BusError(taking: &failure)
            }
            let raw = raw
            discard self
            return raw
        }
    }
}

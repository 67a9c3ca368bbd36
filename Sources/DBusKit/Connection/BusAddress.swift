// SPDX-License-Identifier: Apache-2.0
// Which bus a program means, as its options say it.

internal import Glibc

extension Connection {
    /// Which bus.
    public enum Address: Hashable, Sendable, CustomStringConvertible {
        case system
        case session
        /// A D-Bus server address, for example `unix:path=/run/user/1000/bus`.
        case server(String)

        /// `system`, `session` or a server address.
        public init(_ text: String) {
            switch text {
            case "system": self = .system
            case "session": self = .session
            default: self = .server(text)
            }
        }

        /// The text that the initializer reads.
        public var description: String {
            switch self {
            case .system: "system"
            case .session: "session"
            case .server(let address): address
            }
        }

        /// The server address that libdbus takes for it.
        var text: String {
            func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
            return switch self {
            case .system: variable("DBUS_SYSTEM_BUS_ADDRESS") ?? "unix:path=/var/run/dbus/system_bus_socket"
            case .session: variable("DBUS_SESSION_BUS_ADDRESS") ?? "autolaunch:"
            case .server(let text): text
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Where the scoped view is (Docs/View.md): as the environment says, else at its usual place.

internal import DBusKit
internal import Foundation

/// The address of the view.
enum ViewAddress {
    private static let usual = "/run/accessory-setup/bus"

    /// `ACCESSORY_SETUP_BUS`, else `DBUS_SYSTEM_BUS_ADDRESS`, else the usual socket where there is one, else the system
    /// bus.
    static var current: Connection.Address {
        let environment = ProcessInfo.processInfo.environment
        if let address = environment["ACCESSORY_SETUP_BUS"], !address.isEmpty { return .init(address) }
        if environment["DBUS_SYSTEM_BUS_ADDRESS"] != nil { return .system }
        return FileManager.default.fileExists(atPath: usual) ? .server("unix:path=\(usual)") : .system
    }
}

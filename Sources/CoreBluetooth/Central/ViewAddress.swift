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
        address(
            in: ProcessInfo.processInfo.environment, hasUsualSocket: FileManager.default.fileExists(atPath: usual))
    }

    static func address(in environment: [String: String], hasUsualSocket: Bool) -> Connection.Address {
        if let address = environment["ACCESSORY_SETUP_BUS"], !address.isEmpty { return .init(address) }
        // The variable sets the address of the system bus.
        if environment["DBUS_SYSTEM_BUS_ADDRESS"]?.isEmpty == false { return .system }
        return hasUsualSocket ? .server("unix:path=\(usual)") : .system
    }
}

// SPDX-License-Identifier: Apache-2.0
// The common base class of the managers of both roles: whether Bluetooth can be used, and whether the app may use it.

public import Foundation

/// Whether Bluetooth can be used.
///
/// Source: Apple's documentation of `CBManagerState`; the raw values are Apple's.
public enum CBManagerState: Int, Sendable {
    /// Not known yet; an update follows.
    case unknown = 0
    /// The connection to the daemon was lost; an update follows once it is back.
    case resetting = 1
    /// There is no adapter, or no daemon to connect to; an update follows once there is. A ``CBPeripheralManager`` is
    /// always so.
    case unsupported = 2
    /// No manifest of this machine fits the program: it is no app.
    case unauthorized = 3
    /// The adapter has no power, BlueZ is not running, or nothing is granted to the app.
    case poweredOff = 4
    /// Bluetooth can be used, and all granted accessories are known.
    case poweredOn = 5
}

/// Whether the app may use Bluetooth.
///
/// Source: Apple's documentation of `CBManagerAuthorization`; the raw values are Apple's.
public enum CBManagerAuthorization: Int, Sendable {
    /// Not used on Linux.
    case notDetermined = 0
    /// Not used on Linux.
    case restricted = 1
    /// The daemon takes the program for no app.
    case denied = 2
    /// The app may use everything that is granted to it. This is the value until the daemon refuses the app.
    case allowedAlways = 3
}

/// The common part of the managers.
///
/// Source: Apple's documentation of `CBManager`.
open class CBManager: NSObject {
    /// For the two managers of this module only.
    init(ofRole role: Role) {
        super.init()
    }

    /// The roles of Bluetooth that have a manager.
    enum Role { case central, peripheral }

    /// Whether Bluetooth can be used, as of the last callback.
    ///
    /// Source: Apple's documentation of `CBManager.state`.
    open var state: CBManagerState { .unknown }

    /// Whether the app may use Bluetooth, as last reported to the managers of the process.
    ///
    /// Source: Apple's documentation of `CBManager.authorization`.
    open class var authorization: CBManagerAuthorization { Refusal.isStanding ? .denied : .allowedAlways }

    /// Whether the app may use Bluetooth, as last reported to this manager.
    ///
    /// Source: Apple's documentation of `CBManager.authorization`.
    open var authorization: CBManagerAuthorization { state == .unauthorized ? .denied : .allowedAlways }
}

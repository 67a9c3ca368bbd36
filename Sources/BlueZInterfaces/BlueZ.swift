// SPDX-License-Identifier: Apache-2.0
// The names of bluetoothd on the bus and its errors, once for the radio, the view and the module for apps. The
// simulator has its own. (BlueZ, doc/org.bluez.*.rst)

public import DBusKit

/// bluetoothd's service and its fixed objects.
public enum BlueZ {
    /// The well-known name, which begins the names of its interfaces and errors.
    public static let service = "org.bluez"
    /// The object manager.
    public static let root: ObjectPath = "/"
    /// The object that bluetoothd has its managers at; adapters are below it.
    public static let manager: ObjectPath = "/org/bluez"
}

/// An error of bluetoothd: the last part of `org.bluez.Error.…`.
public enum BlueZError: String, Sendable {
    case alreadyConnected = "AlreadyConnected"
    case alreadyExists = "AlreadyExists"
    case authenticationCanceled = "AuthenticationCanceled"
    case authenticationFailed = "AuthenticationFailed"
    case authenticationRejected = "AuthenticationRejected"
    case authenticationTimeout = "AuthenticationTimeout"
    case canceled = "Canceled"
    case connectionAttemptFailed = "ConnectionAttemptFailed"
    case doesNotExist = "DoesNotExist"
    case failed = "Failed"
    case improperlyConfigured = "ImproperlyConfigured"
    case inProgress = "InProgress"
    case invalidArguments = "InvalidArguments"
    case invalidOffset = "InvalidOffset"
    case invalidValueLength = "InvalidValueLength"
    case notAuthorized = "NotAuthorized"
    case notAvailable = "NotAvailable"
    case notConnected = "NotConnected"
    case notPermitted = "NotPermitted"
    case notReady = "NotReady"
    case notSupported = "NotSupported"
    case rejected = "Rejected"

    private static let prefix = "org.bluez.Error."

    /// The error's name on the bus.
    public var name: String { Self.prefix + rawValue }

    /// - Parameter name: an error's name on the bus; nil for one that is not in the list.
    public init?(name: String) {
        guard name.hasPrefix(Self.prefix) else { return nil }
        self.init(rawValue: String(name.dropFirst(Self.prefix.count)))
    }
}

extension BusError {
    /// An error as bluetoothd would send it.
    public static func bluez(_ error: BlueZError, _ message: String) -> BusError { BusError(name: error.name, message: message) }

    /// The error of bluetoothd; nil for one of the bus, or one that is not in the list.
    public var bluez: BlueZError? { BlueZError(name: name) }
}

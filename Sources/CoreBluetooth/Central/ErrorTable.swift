// SPDX-License-Identifier: Apache-2.0
// Errors of the bus as Apple's errors: one table for BlueZ' errors, its reasons of failed connections and the codes of
// the attribute protocol in its messages (BlueZ, src/error.h and create_gatt_dbus_error in src/gatt-client.c).

internal import BlueZInterfaces
internal import DBusKit

enum ErrorTable {
    /// Reads the error of a request about an attribute.
    static func attributeError(_ error: BusError) -> any Error & Sendable {
        error.attributeCode.map { CBATTError(raw: $0, text(error)) } ?? linkError(error)
    }

    /// Reads the error of a request about a link.
    static func linkError(_ error: BusError) -> any Error & Sendable { CBError(code(error), text(error)) }

    private static func text(_ error: BusError) -> String { error.message.isEmpty ? error.name : error.message }

    private static let bluezCodes: [BlueZError: CBError.Code] = [
        .alreadyConnected: .connectionFailed,
        .authenticationCanceled: .operationCancelled,
        .authenticationFailed: .peerRemovedPairingInformation,
        .authenticationRejected: .peerRemovedPairingInformation,
        .authenticationTimeout: .encryptionTimedOut,
        .connectionAttemptFailed: .connectionFailed,
        .doesNotExist: .unknownDevice,
        .inProgress: .connectionFailed,
        .invalidArguments: .invalidParameters,
        .notAvailable: .operationNotSupported,
        .notConnected: .notConnected,
        .notPermitted: .operationNotSupported,
        .notReady: .notConnected,
        .notSupported: .operationNotSupported,
    ]

    private static let names: [String: CBError.Code] = [
        "org.freedesktop.DBus.Error.AccessDenied": .unknownDevice,
        "org.freedesktop.DBus.Error.Disconnected": .peripheralDisconnected,
        "org.freedesktop.DBus.Error.InvalidArgs": .invalidParameters,
        "org.freedesktop.DBus.Error.LimitsExceeded": .outOfSpace,
        "org.freedesktop.DBus.Error.NoReply": .connectionTimeout,
        "org.freedesktop.DBus.Error.ServiceUnknown": .peripheralDisconnected,
        "org.freedesktop.DBus.Error.Timeout": .connectionTimeout,
        "org.freedesktop.DBus.Error.UnknownMethod": .invalidHandle,
        "org.freedesktop.DBus.Error.UnknownObject": .invalidHandle,
    ]

    /// Ends of the reasons that BlueZ gives for a connection that failed, after `le-connection-` and `br-connection-`.
    private static let reasons: [String: CBError.Code] = [
        "already-connected": .connectionFailed, "adapter-not-powered": .notConnected,
        "concurrent-connection-limit": .connectionLimitReached, "invalid-arguments": .invalidParameters,
        "key-missing": .peerRemovedPairingInformation, "not-supported": .operationNotSupported,
        "page-timeout": .connectionTimeout,
        "timeout": .connectionTimeout,
    ]

    private static func code(_ error: BusError) -> CBError.Code {
        if let reason = reason(error.message) { return reasons[reason] ?? .connectionFailed }
        if error.message == "Not connected" || error.message == "Not Connected" { return .notConnected }
        return error.bluez.flatMap { bluezCodes[$0] } ?? names[error.name] ?? .unknown
    }

    private static func reason(_ message: String) -> String? {
        for kind in ["le-connection-", "br-connection-"] where message.hasPrefix(kind) {
            return String(message.dropFirst(kind.count))
        }
        return nil
    }

    /// The link has ended by itself.
    ///
    /// - Parameter reason: BlueZ' word for it (org.bluez.Device, `Disconnected`, since 5.83); nil when it said nothing.
    static func linkEnd(_ reason: String?) -> CBError {
        switch reason {
        case "org.bluez.Reason.Timeout": CBError(.connectionTimeout, "the connection to the peripheral timed out")
        case "org.bluez.Reason.Remote": CBError(.peripheralDisconnected, "the peripheral disconnected")
        case "org.bluez.Reason.Authentication":
            CBError(.peerRemovedPairingInformation, "the peripheral no longer has the keys")
        case "org.bluez.Reason.Local": CBError(.peripheralDisconnected, "this machine disconnected")
        case "org.bluez.Reason.Suspend": CBError(.peripheralDisconnected, "this machine was suspended")
        default: CBError(.peripheralDisconnected, "the link to the peripheral was lost")
        }
    }

    /// Whether another attempt to connect is useless. All other errors are retried.
    static func endsConnecting(_ error: BusError) -> Bool {
        if reason(error.message) == "key-missing" { return true }
        return switch error.bluez {
        case .authenticationFailed, .authenticationRejected, .notPermitted: true
        default: error.isStandard("AccessDenied")
        }
    }

    /// Whether another client's request blocks this one for a moment.
    static func isBusy(_ error: BusError) -> Bool {
        error.bluez == .inProgress || error.bluez == .notPermitted && error.message == "Write acquired"
    }
}

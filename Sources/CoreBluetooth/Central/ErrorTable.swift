// SPDX-License-Identifier: Apache-2.0
// What errors of the bus become for the app: one table for BlueZ' names, its reasons of connections and the codes of
// the attribute protocol in its messages (BlueZ, src/error.h and create_gatt_dbus_error in src/gatt-client.c).

internal import DBusKit

/// The one place where an error's name is read.
enum ErrorTable {
    /// Reads BlueZ' and the bus' errors.
    static func error(_ error: BusError) -> any Error & Sendable {
        let text = error.message.isEmpty ? error.name : error.message
        if let code = attributeCode(error) { return CBATTError(raw: code, text) }
        return CBError(code(error), text)
    }

    /// Codes of the attribute protocol that BlueZ has a text for, in lower case.
    private static let attributeTexts: [String: Int] = [
        "org.bluez.error.notpermitted: read not permitted": 0x02,
        "org.bluez.error.notpermitted: write not permitted": 0x03,
        "org.bluez.error.notpermitted: not paired": 0x05,
        "org.bluez.error.invalidarguments: invalid offset": 0x07,
        "org.bluez.error.invalidarguments: invalid length": 0x0D,
    ]

    /// Codes of the attribute protocol that BlueZ has a name for, whatever the text.
    private static let attributeNames: [String: Int] = [
        "org.bluez.Error.NotAuthorized": 0x08, "org.bluez.Error.InvalidOffset": 0x07,
        "org.bluez.Error.InvalidValueLength": 0x0D,
        "org.bluez.Error.ImproperlyConfigured": 0xFD,
    ]

    private static func attributeCode(_ error: BusError) -> Int? {
        if let code = attributeTexts["\(error.name): \(error.message)".lowercased()] ?? attributeNames[error.name] {
            return code
        }
        // "Operation failed with ATT error: 0x80"
        guard error.name == "org.bluez.Error.Failed", let digits = error.message.split(separator: " ").last,
            error.message.contains("ATT error: 0x")
        else { return nil }
        return Int(digits.dropFirst(2), radix: 16)
    }

    private static let names: [String: CBError.Code] = [
        "org.bluez.Error.AlreadyConnected": .connectionFailed,
        "org.bluez.Error.AuthenticationCanceled": .operationCancelled,
        "org.bluez.Error.AuthenticationFailed": .peerRemovedPairingInformation,
        "org.bluez.Error.AuthenticationRejected": .peerRemovedPairingInformation,
        "org.bluez.Error.AuthenticationTimeout": .encryptionTimedOut,
        "org.bluez.Error.ConnectionAttemptFailed": .connectionFailed,
        "org.bluez.Error.DoesNotExist": .unknownDevice,
        "org.bluez.Error.InProgress": .connectionFailed,
        "org.bluez.Error.InvalidArguments": .invalidParameters,
        "org.bluez.Error.NotAvailable": .operationNotSupported,
        "org.bluez.Error.NotConnected": .notConnected,
        "org.bluez.Error.NotPermitted": .operationNotSupported,
        "org.bluez.Error.NotReady": .notConnected,
        "org.bluez.Error.NotSupported": .operationNotSupported,
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
        return names[error.name] ?? .unknown
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
        case "org.bluez.Reason.Timeout": CBError(.connectionTimeout, "nothing was heard of the peripheral for too long")
        case "org.bluez.Reason.Remote": CBError(.peripheralDisconnected, "the peripheral has ended the link")
        case "org.bluez.Reason.Authentication":
            CBError(.peerRemovedPairingInformation, "the peripheral does not know the keys any more")
        case "org.bluez.Reason.Local": CBError(.peripheralDisconnected, "this machine has ended the link")
        case "org.bluez.Reason.Suspend": CBError(.peripheralDisconnected, "this machine sleeps")
        default: CBError(.peripheralDisconnected, "the link to the peripheral broke")
        }
    }

    /// Whether another attempt to connect makes no sense: everything else is tried again.
    static func endsConnecting(_ error: BusError) -> Bool {
        if reason(error.message) == "key-missing" { return true }
        return [
            "org.bluez.Error.AuthenticationFailed", "org.bluez.Error.AuthenticationRejected",
            "org.bluez.Error.NotPermitted",
            "org.freedesktop.DBus.Error.AccessDenied",
        ].contains(error.name)
    }

    /// Whether somebody else's request is in the way, for a moment.
    static func isBusy(_ error: BusError) -> Bool {
        error.name == "org.bluez.Error.InProgress"
            || error.name == "org.bluez.Error.NotPermitted" && error.message == "Write acquired"
    }
}

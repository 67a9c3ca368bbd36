// SPDX-License-Identifier: Apache-2.0
// BlueZ' names on the bus, and what its errors mean to us. (doc/org.bluez.*.rst in BlueZ' sources)

internal import AccessoryEngine
internal import DBusKit

enum BlueZ {
    static let service = "org.bluez"
    static let adapter = "org.bluez.Adapter1"
    static let device = "org.bluez.Device1"
    static let agentManager = "org.bluez.AgentManager1"
    static let agent = "org.bluez.Agent1"
    static let root: ObjectPath = "/"
    static let manager: ObjectPath = "/org/bluez"

    static let rejected = BusError(name: "org.bluez.Error.Rejected", message: "rejected")
    static let cancelled = BusError(name: "org.bluez.Error.Canceled", message: "cancelled")

    /// Whether `error` is `org.bluez.Error.<name>`.
    static func isError(_ error: BusError, _ name: String) -> Bool { error.name == "org.bluez.Error.\(name)" }

    /// A failed `Pair()`, by error name; texts are for people only.
    static func pairingFailure(_ error: BusError) -> RadioFailure {
        switch error.name {
        case "org.bluez.Error.AuthenticationFailed": RadioFailure(.refused, "the accessory refused, or the keys did not fit")
        case "org.bluez.Error.AuthenticationRejected": RadioFailure(.refused, "the accessory rejected the pairing")
        case "org.bluez.Error.AuthenticationCanceled":
            RadioFailure(.connection, "the pairing was broken off: the accessory went away or did not answer")
        case "org.bluez.Error.AuthenticationTimeout": RadioFailure(.timeout, "the accessory did not answer in time")
        case "org.bluez.Error.ConnectionAttemptFailed": RadioFailure(.connection, "no connection to the accessory")
        case "org.bluez.Error.NotReady": RadioFailure(.unavailable, "the adapter is off")
        case "org.bluez.Error.InProgress": RadioFailure(.busy, "another program is pairing this accessory")
        case "org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Timeout":
            RadioFailure(.timeout, "bluetoothd did not answer in time")
        case "org.freedesktop.DBus.Error.InconsistentMessage": RadioFailure(.other, "bluetoothd's answer makes no sense: \(error)")
        case "org.freedesktop.DBus.Error.UnknownObject": RadioFailure(.connection, "the accessory is gone")
        case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.Disconnected",
            "org.freedesktop.DBus.Error.NameHasNoOwner":
            RadioFailure(.unavailable, "bluetoothd is gone")
        default: RadioFailure(.other, "\(error)")
        }
    }
}

extension BusError {
    /// Whether nobody knows what became of the call: there was no answer, or one that makes no sense.
    var leavesOpen: Bool { ["NoReply", "Timeout", "InconsistentMessage", "LimitsExceeded"].contains { isStandard($0) } }
}

extension Result where Failure == BusError {
    /// The same, of an answer.
    var leavesOpen: Bool { if case .failure(let error) = self { error.leavesOpen } else { false } }
}

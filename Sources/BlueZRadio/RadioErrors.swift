// SPDX-License-Identifier: Apache-2.0
// The meaning of bluetoothd's errors to the radio.

internal import AccessoryEngine
internal import BlueZInterfaces
internal import DBusKit

extension RadioFailure {
    /// A failed `Pair()`, by error name; texts are for people only.
    init(pairing error: BusError) {
        let standard = "org.freedesktop.DBus.Error."
        self =
            switch (error.bluez, error.name.hasPrefix(standard) ? error.name.dropFirst(standard.count) : "") {
            case (.authenticationFailed, _): RadioFailure(.refused, "the accessory refused, or the keys did not match")
            case (.authenticationRejected, _): RadioFailure(.refused, "the accessory rejected the pairing")
            case (.authenticationCanceled, _):
                RadioFailure(.connection, "the pairing was aborted: the accessory went away or did not answer")
            case (.authenticationTimeout, _): RadioFailure(.timeout, "the accessory did not answer in time")
            case (.connectionAttemptFailed, _): RadioFailure(.connection, "could not connect to the accessory")
            case (.notReady, _): RadioFailure(.unavailable, "the adapter is off")
            case (.inProgress, _): RadioFailure(.busy, "another program is pairing this accessory")
            case (_, "NoReply"), (_, "Timeout"): RadioFailure(.timeout, "bluetoothd did not answer in time")
            case (_, "InconsistentMessage"): RadioFailure(.other, "bluetoothd's answer is malformed: \(error)")
            case (_, "UnknownObject"): RadioFailure(.connection, "the accessory is gone")
            case (_, "ServiceUnknown"), (_, "Disconnected"), (_, "NameHasNoOwner"):
                RadioFailure(.unavailable, "bluetoothd is gone")
            default: RadioFailure(.other, "\(error)")
            }
    }
}

extension BusError {
    /// Whether the call may have had its effect: there was no answer, or a malformed one.
    var leavesOpen: Bool { ["NoReply", "Timeout", "InconsistentMessage", "LimitsExceeded"].contains { isStandard($0) } }
}

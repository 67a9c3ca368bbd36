// SPDX-License-Identifier: Apache-2.0
// The meaning of bluetoothd's errors to the radio.

internal import AccessoryEngine
internal import BlueZInterfaces
internal import DBusKit

extension RadioFailure {
    /// A failed `Pair()`, by error name; texts are for people only.
    init(pairing error: BusError) {
        self =
            switch error.bluez {
            case .authenticationFailed: RadioFailure(.refused, "the accessory refused, or the keys did not fit")
            case .authenticationRejected: RadioFailure(.refused, "the accessory rejected the pairing")
            case .authenticationCanceled:
                RadioFailure(.connection, "the pairing was broken off: the accessory went away or did not answer")
            case .authenticationTimeout: RadioFailure(.timeout, "the accessory did not answer in time")
            case .connectionAttemptFailed: RadioFailure(.connection, "no connection to the accessory")
            case .notReady: RadioFailure(.unavailable, "the adapter is off")
            case .inProgress: RadioFailure(.busy, "another program is pairing this accessory")
            case nil: RadioFailure(bus: error)
            default: RadioFailure(.other, "\(error)")
            }
    }

    /// An error of the bus instead of an answer.
    private init(bus error: BusError) {
        let isStandard = { (names: String...) in names.contains { error.isStandard($0) } }
        self =
            if isStandard("NoReply", "Timeout") {
                RadioFailure(.timeout, "bluetoothd did not answer in time")
            } else if isStandard("InconsistentMessage") {
                RadioFailure(.other, "bluetoothd's answer is malformed: \(error)")
            } else if isStandard("UnknownObject") {
                RadioFailure(.connection, "the accessory is gone")
            } else if isStandard("ServiceUnknown", "Disconnected", "NameHasNoOwner") {
                RadioFailure(.unavailable, "bluetoothd is gone")
            } else {
                RadioFailure(.other, "\(error)")
            }
    }
}

extension BusError {
    /// Whether the call may have had its effect: there was no answer, or a malformed one.
    var leavesOpen: Bool { ["NoReply", "Timeout", "InconsistentMessage", "LimitsExceeded"].contains { isStandard($0) } }
}

extension Result where Failure == BusError {
    /// Whether the call may have had its effect.
    var leavesOpen: Bool { if case .failure(let error) = self { error.leavesOpen } else { false } }
}

extension Result {
    /// The failure; nil for a success.
    var error: Failure? { if case .failure(let error) = self { error } else { nil } }
}

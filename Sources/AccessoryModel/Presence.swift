// SPDX-License-Identifier: Apache-2.0
// Whether observed accessories are in range, as apps learn it.

/// Why an accessory is present, or was last. The raw values are the words of the bus.
public enum PresenceReason: String, Hashable, Sendable {
    /// It was heard.
    case advert
    /// It has a link with this machine, made by any program.
    case link
    /// The machine is on its network.
    case network
    /// It was not present yet, or nothing can be said without a radio.
    case lost
}

/// Whether an observed accessory is in range.
public struct PresenceState: Hashable, Sendable {
    /// Whether it is.
    public let isPresent: Bool
    /// Why; for one that is absent, why it was present last.
    public let reason: PresenceReason
    /// dBm, as it was heard last; nil when unknown, and for one that is absent.
    public let rssi: Int?

    /// Stores its arguments.
    ///
    /// - Parameter rssi: dBm; nil when unknown.
    public init(isPresent: Bool, reason: PresenceReason, rssi: Int?) {
        self.isPresent = isPresent
        self.reason = reason
        self.rssi = rssi
    }
}

/// The news of `presenceChanged`.
public struct PresenceNews: Hashable, Sendable {
    /// Whether the accessory, or the device, is present.
    public let state: PresenceState
    /// The device of a kind; nil for an accessory, and for a kind without a device.
    public let device: BluetoothAddress?

    /// Stores its arguments.
    ///
    /// - Parameter device: nil for an accessory.
    public init(state: PresenceState, device: BluetoothAddress?) {
        self.state = state
        self.device = device
    }
}

// SPDX-License-Identifier: Apache-2.0
// The presence of an observed accessory. Not among Apple's types.

internal import AccessoryBus
internal import AccessoryModel

/// Whether an observed accessory is in range. Linux only.
public struct ASAccessoryPresence: Hashable, Sendable {
    /// Why an accessory is present, or was last.
    public enum Reason: String, Hashable, Sendable {
        /// It was heard.
        case advert
        /// It has a link with this machine, made by any program.
        case link
        /// This machine is on its network.
        case network
        /// It was not present yet, or Bluetooth has gone.
        case lost
    }

    /// Whether it is in range.
    public let isPresent: Bool
    /// Why; for one that is absent, why it was present last.
    public let reason: Reason
    /// Its signal strength, dBm; nil when unknown, and for one that is absent.
    public let rssi: Int?
    /// The address of the device, where the accessory is a kind; nil for a single accessory, and for a kind without a
    /// device in range.
    public let device: String?

    /// - Returns: nil for the details of another event.
    init?(_ details: EventDetails) {
        guard let isPresent = details.isPresent else { return nil }
        self.isPresent = isPresent
        reason = details.reason.flatMap { Reason(rawValue: $0.rawValue) } ?? .lost
        rssi = details.rssi
        device = details.device
    }
}

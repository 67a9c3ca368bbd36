// SPDX-License-Identifier: Apache-2.0
// Whether an app hears a device by its grant for a kind, and the obstacle if not. `Hearing` admits devices by it, and
// `explain` prints it.

public import AccessoryModel

/// Why a grant opens nothing now.
public enum GrantObstacle: Hashable, Sendable {
    /// An admin has switched it off.
    case disabled
    /// Its time is over.
    case ended
    /// The bond is missing.
    case unauthorized
    /// It does not include the technology.
    case notIncluded
    /// A rule denies the accessory, or the kind.
    case denied(AccessPolicy.Denial)
    /// The app's manifest does not declare it, for the reason given.
    case undeclared(String)
}

/// The decision about one device under one grant for a kind that matches it.
public enum KindVerdict: Hashable, Sendable {
    /// It is among the devices of the kind.
    case heard
    /// It becomes one with its next advert, while the app listens.
    case open
    /// An older grant for a kind, with this number, matches it too, and decides alone.
    case olderGrant(Int64)
    /// It is excluded from the kind.
    case excluded
    /// A rule denies the device.
    case denied(AccessPolicy.Denial)
    /// The kind has as many devices as it may have.
    case full(atMost: Int)
    /// The grant opens nothing now.
    case closed(GrantObstacle)

    /// As an admin reads it, with the way to open it.
    ///
    /// - Parameters:
    ///   - grant: the number of the grant.
    ///   - device: the address of the device.
    public func words(grant: Int64, device: BluetoothAddress) -> String {
        switch self {
        case .heard: "the app hears it"
        case .open: "the app hears it while it uses the view, or observes the presence of the kind"
        case .olderGrant(let older): "grant \(older) is older, matches too, and decides"
        case .excluded: "it is excluded: accessoryctl include \(grant) \(device) opens it"
        case .denied(let denial): "rule \(denial.name) in \(denial.source) denies the device: changing the rule opens it"
        case .full(let most):
            "the kind is full (maxDevices \(most)): it is heard once a device leaves, or after accessoryctl exclude \(grant) ADDRESS"
        case .closed(.disabled): "the grant is disabled: accessoryctl enable \(grant) opens it"
        case .closed(.ended): "the grant has ended: accessoryctl limit \(grant) END opens it for more time"
        case .closed(.unauthorized): "the grant is unauthorized: the app asks for a picker, and a person permits it again"
        case .closed(.notIncluded): "the grant includes no Bluetooth"
        case .closed(.denied(let denial)): "rule \(denial.name) in \(denial.source) denies the kind: changing the rule opens it"
        case .closed(.undeclared(let reason)): "the manifest does not open it: \(reason)"
        }
    }
}

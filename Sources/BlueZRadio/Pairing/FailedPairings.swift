// SPDX-License-Identifier: Apache-2.0
// Removal of devices whose pairing failed. A removal that fails is retried when the adapter is back, or after longer
// and longer pauses.

internal import AccessoryEngine
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

/// Removes devices whose pairing failed; the one owner of those that could not be removed yet.
final class FailedPairings {
    private let connection: Connection
    private let log: Logger
    private let devices: DeviceTable
    private let adapters: AdapterTable
    private let isBeingPaired: (ObjectPath) -> Bool
    private let retry: Retry
    private var leftovers = Leftovers()

    /// - Parameter isBeingPaired: whether a device must stay, because it is paired again.
    init(
        on connection: Connection, devices: DeviceTable, adapters: AdapterTable, log: Logger,
        isBeingPaired: @escaping (ObjectPath) -> Bool
    ) {
        self.connection = connection
        self.devices = devices
        self.adapters = adapters
        self.log = log
        self.isBeingPaired = isBeingPaired
        retry = Retry(2...64, connection.loop.once)
    }

    /// Whether a removal failed, so that there may be a bond of ours.
    func isLeft(_ device: ObjectPath) -> Bool { leftovers.contains(device) }

    /// Removes a device that is not paired: it may have lost its services (`BlueZVersions`), and a link that is still
    /// up keeps the accessory from advertising. The next advert makes the object anew.
    ///
    /// A bond that exists although ours failed is another program's, and stays.
    func removeUnpaired(_ device: ObjectPath, completion: @escaping () -> Void) {
        connection.call(.pairedCheck, at: device) { [weak self] result in
            guard let self else { return completion() }
            switch result {
            case .success(let values) where values.first?.booleanValue == true: completion()
            case .failure(let error) where error.leavesOpen:
                // bluetoothd is stuck, and the person waits.
                removeLater(device, isOurs: false)
                completion()
            default: remove(device, isOurs: false, completion: completion)
            }
        }
    }

    /// Removes a device with its bond.
    ///
    /// - Parameter isOurs: whether a bond is ours, now and at a retry.
    func remove(_ device: ObjectPath, isOurs: Bool, completion: @escaping () -> Void) {
        // Also a device that is not in the table: signals may be late.
        let adapter = device.parent
        guard adapters.state == .ready, adapters.contains(adapter) else {
            removeLater(device, isOurs: isOurs)
            return completion()
        }
        devices.requestRemoval(of: device, by: .failedRemoval, at: adapter, over: connection) { [weak self] result in
            switch result {
            case .success: self?.retry.reset()
            case .failure(let error) where error.bluez == .doesNotExist || error.isStandard("UnknownObject"): break
            case .failure(let error):
                self?.log.debug("RemoveDevice failed", metadata: ["error": "\(error)"])
                self?.removeLater(device, isOurs: isOurs)
            }
            completion()
        }
    }

    private func removeLater(_ device: ObjectPath, isOurs: Bool) {
        leftovers.add(device, isOurs: isOurs)
        if adapters.state == .ready { retry.schedule { [weak self] in self?.retryAll() } }
    }

    /// Retries all removals, if the radio is ready.
    func retryAll() {
        guard adapters.state == .ready else { return }
        for (device, isOurs) in leftovers.drain() where !isBeingPaired(device) {
            if isOurs { remove(device, isOurs: true) {} } else { removeUnpaired(device) {} }
        }
    }
}

/// The devices that are still to be removed.
struct Leftovers {
    /// The devices, and whether their bond is ours.
    private var devices: [ObjectPath: Bool] = [:]

    func contains(_ device: ObjectPath) -> Bool { devices[device] != nil }

    /// A bond that was ours stays so.
    mutating func add(_ device: ObjectPath, isOurs: Bool) {
        devices[device] = isOurs || devices[device] == true
    }

    /// Empties the list. A removal that fails again is added again.
    mutating func drain() -> [ObjectPath: Bool] {
        defer { devices = [:] }
        return devices
    }
}

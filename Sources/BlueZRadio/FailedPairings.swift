// SPDX-License-Identifier: Apache-2.0
// What failed pairings leave behind: BlueZ is to forget the device, and is asked again, while it cannot, when the
// adapter is back or after longer and longer pauses.

internal import AccessoryEngine
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

/// Has BlueZ forget devices whose pairing failed; the one owner of what could not be forgotten yet.
final class FailedPairings {
    private let connection: Connection
    private let log: Logger
    private let devices: DeviceTable
    /// The adapter that has a device, while there is one.
    private let adapter: (ObjectPath) -> ObjectPath?
    private let isReady: () -> Bool
    private let isBeingPaired: (ObjectPath) -> Bool
    private var leftovers = Leftovers()
    private let retry: Retry

    init(
        on connection: Connection, devices: DeviceTable, log: Logger, isReady: @escaping () -> Bool,
        adapter: @escaping (ObjectPath) -> ObjectPath?, isBeingPaired: @escaping (ObjectPath) -> Bool
    ) {
        self.connection = connection
        self.devices = devices
        retry = Retry(2...64, connection.loop.once)
        self.log = log
        self.isReady = isReady
        self.adapter = adapter
        self.isBeingPaired = isBeingPaired
    }

    /// Whether BlueZ could not forget it, so that a bond of ours may still be there.
    func isLeft(_ device: ObjectPath) -> Bool { leftovers.contains(device) }

    /// Has BlueZ forget a device whose pairing failed, before anybody tries again: it may have lost its services
    /// (`BlueZVersions`), and a link that is still up keeps the accessory from advertising. The next advert makes the
    /// object anew.
    ///
    /// A bond that is there although ours failed is another program's, and stays.
    func forgetUnpaired(_ device: ObjectPath, completion: @escaping () -> Void) {
        connection.call(.pairedCheck, at: device) { [weak self] result in
            guard let self else { return completion() }
            switch result {
            case .success(let values):
                guard values.first?.booleanValue != true else { return completion() }
                self.forget(device, isSure: false, completion: completion)
            case .failure(let error) where error.leavesOpen:
                // It is stuck, and the person waits.
                self.forgetLater(device, isSure: false)
                completion()
            case .failure: self.forget(device, isSure: false, completion: completion)
            }
        }
    }

    /// Has BlueZ forget a device, with its bond.
    ///
    /// - Parameter isSure: whether a bond that is there is ours, now and when it is tried again.
    func forget(_ device: ObjectPath, isSure: Bool, completion: @escaping () -> Void) {
        // Also where it is not known here: what BlueZ says of its objects may come late.
        guard isReady(), let adapter = adapter(device) else {
            forgetLater(device, isSure: isSure)
            return completion()
        }
        devices.forget(device, by: .failedRemoval, at: adapter, over: connection) { [weak self] result in
            switch result {
            case .success: self?.retry.worked()
            case .failure(let error) where error.bluez == .doesNotExist || error.isStandard("UnknownObject"): break
            case .failure(let error):
                self?.log.debug("RemoveDevice failed", metadata: ["error": "\(error)"])
                self?.forgetLater(device, isSure: isSure)
            }
            completion()
        }
    }

    /// A removal has failed: again when the adapter is back, or after longer and longer pauses.
    private func forgetLater(_ device: ObjectPath, isSure: Bool) {
        leftovers.add(device, isSure: isSure)
        if isReady() { retry.later { [weak self] in self?.tryAgain() } }
    }

    /// The radio is ready, perhaps again, or a pause is over: what is left is tried once more.
    func tryAgain() {
        guard isReady() else { return }
        for (device, isSure) in leftovers.take() where !isBeingPaired(device) {
            if isSure { forget(device, isSure: true) {} } else { forgetUnpaired(device) {} }
        }
    }
}

/// The devices that BlueZ has still to forget.
struct Leftovers {
    /// The devices, and whether a bond that is there is ours for sure.
    private var devices: [ObjectPath: Bool] = [:]

    func contains(_ device: ObjectPath) -> Bool { devices[device] != nil }

    /// One that is there already stays what was sure about it.
    mutating func add(_ device: ObjectPath, isSure: Bool) {
        devices[device] = isSure || devices[device] == true
    }

    /// All of them, to be tried: what fails again is added again.
    mutating func take() -> [ObjectPath: Bool] {
        defer { devices = [:] }
        return devices
    }
}

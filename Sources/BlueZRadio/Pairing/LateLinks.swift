// SPDX-License-Identifier: Apache-2.0
// Links of pairings whose daemon died: bluetoothd may have asked the kernel for a link before the device was removed.
// Such a link comes up afterwards, is used by no program, and keeps the accessory from advertising until its power is
// cycled.

internal import BlueZInterfaces
internal import DBusKit

/// Watches devices that were removed, for as long as the kernel tries to connect.
final class LateLinks {
    private let connection: Connection
    private let onLink: (ObjectPath) -> Void
    private let timers: Timers<ObjectPath>
    private var subscriptions: [ObjectPath: Subscription] = [:]

    /// The kernel gives up after 20 s, or 40 s with a second attempt.
    private static let timeout = Duration.seconds(45)

    /// - Parameter onLink: called with a device whose link has come up.
    init(on connection: Connection, onLink: @escaping (ObjectPath) -> Void) {
        self.connection = connection
        self.onLink = onLink
        timers = Timers(on: connection.loop)
    }

    /// - Parameter service: the unique name of bluetoothd.
    func watch(_ device: ObjectPath, of service: String) {
        end(device)
        subscriptions[device] = connection.subscribe(
            sender: service, path: device, interface: Bus.properties, member: "PropertiesChanged", argument0: Device1.interface
        ) { [weak self] message in
            if let changed = message.changedProperties, Properties<Device1>(changed.values).isConnected { self?.connected(device) }
        }
        timers.start(device, after: Self.timeout) { [weak self] in self?.end(device) }
    }

    /// A device has a link.
    func connected(_ device: ObjectPath) {
        if subscriptions[device] != nil { onLink(device) }
    }

    /// bluetoothd is gone, and its links with it.
    func endAll() {
        for device in Array(subscriptions.keys) { end(device) }
    }

    /// The device is paired anew, or the time is over.
    func end(_ device: ObjectPath) {
        subscriptions.removeValue(forKey: device)?.cancel()
        timers.cancel(device)
    }
}

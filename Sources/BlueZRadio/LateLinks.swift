// SPDX-License-Identifier: Apache-2.0
// Links of pairings whose daemon died: bluetoothd may have asked the kernel for a link by the time that the device is
// removed. Such a link comes up afterwards, is used by no program, and keeps the accessory from advertising until its
// power is cycled.

internal import BlueZInterfaces
internal import DBusKit

/// Watches devices that were removed, for as long as the kernel tries to connect.
final class LateLinks {
    private let connection: Connection
    private let onLink: (ObjectPath) -> Void
    private var watches: [ObjectPath: (subscription: Subscription, timer: LoopSource)] = [:]

    /// The kernel gives up after 20 s, or 40 s with a second attempt.
    private static let timeout = Duration.seconds(45)

    /// - Parameter onLink: called with a device whose link has come up.
    init(on connection: Connection, onLink: @escaping (ObjectPath) -> Void) {
        self.connection = connection
        self.onLink = onLink
    }

    /// - Parameter service: the unique name of bluetoothd.
    func watch(_ device: ObjectPath, of service: String) {
        end(device)
        let subscription = connection.subscribe(
            sender: service, path: device, interface: Bus.properties, member: "PropertiesChanged", argument0: Device1.interface
        ) { [weak self] message in
            guard let changed = (try? message.arguments())?.dropFirst().first?.vardictValue,
                Properties<Device1>(changed).isConnected
            else { return }
            self?.isUp(device)
        }
        let timer = connection.loop.after(Self.timeout) { [weak self] in self?.end(device) }
        watches[device] = (subscription, timer)
    }

    /// A device is connected.
    func isUp(_ device: ObjectPath) {
        if watches[device] != nil { onLink(device) }
    }

    /// bluetoothd has gone, and its links with it.
    func endAll() {
        for device in Array(watches.keys) { end(device) }
    }

    /// The device is paired anew, or nothing comes any more.
    func end(_ device: ObjectPath) {
        guard let watch = watches.removeValue(forKey: device) else { return }
        watch.subscription.cancel()
        watch.timer.cancel()
    }
}

// SPDX-License-Identifier: Apache-2.0
// Signals about a few devices while nothing is searched for: their links, and adverts that other programs' searches
// bring. There is a match rule for each object, so that other devices do not wake the daemon.

internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

final class FollowedDevices {
    private let connection: Connection
    private let devices: DeviceTable
    private let adapters: AdapterTable
    private let handOver: HandOver
    private let onLinkChange: (BluetoothAddress) -> Void
    private let onHeard: (HeardDevice) -> Void
    private var peers: [BluetoothPeer] = []
    private var subscriptions: [ObjectPath: Subscription] = [:]
    /// bluetoothd's unique name, of the subscriptions.
    private var owner: String?

    init(
        on connection: Connection, _ devices: DeviceTable, _ adapters: AdapterTable, _ handOver: HandOver,
        onLinkChange: @escaping (BluetoothAddress) -> Void, onHeard: @escaping (HeardDevice) -> Void
    ) {
        self.connection = connection
        self.devices = devices
        self.adapters = adapters
        self.handOver = handOver
        self.onLinkChange = onLinkChange
        self.onHeard = onHeard
    }

    func follow(_ new: [BluetoothPeer], of owner: String?) {
        peers = new
        update(owner: owner)
    }

    /// The objects may be others now.
    func update(owner new: String?) {
        guard !peers.isEmpty || !subscriptions.isEmpty else { return }
        if new != owner { cancel { _ in true } }
        owner = new
        let paths = owner == nil ? [] : Set(peers.flatMap(objects))
        cancel { !paths.contains($0) }
        guard let owner else { return }
        for path in paths where subscriptions[path] == nil {
            subscriptions[path] = connection.subscribe(
                sender: owner, path: path, interface: Bus.properties, member: "PropertiesChanged", argument0: Device1.interface
            ) { [weak self] in self?.changed($0) }
        }
    }

    private func cancel(_ isOver: (ObjectPath) -> Bool) {
        for (path, subscription) in subscriptions where isOver(path) {
            subscription.cancel()
            subscriptions[path] = nil
        }
    }

    /// The device's object, or those that it will have on its adapter, or on any.
    private func objects(of peer: BluetoothPeer) -> [ObjectPath] {
        if let device = devices.device(for: peer) { return [device.path] }
        let element = "dev_" + String(peer.address.description.map { $0 == ":" ? "_" : $0 })
        let homes = peer.adapter.map { [adapters.object(of: $0)] } ?? adapters.radioAdapters.keys.map { $0 }
        return homes.compactMap { $0?.appending(element) }
    }

    private func changed(_ message: Message) {
        // A search reads the same signals, over a connection of its own.
        guard !handOver.isRunning, let device = devices.device(of: message) else { return }
        message.withArguments { arguments in
            device.isHeard = false
            if devices.update(device, &arguments) {
                onLinkChange(device.advertisement.address)
            } else if device.isHeard {
                device.averageStrength()
                onHeard(HeardDevice(address: device.advertisement.address, rssi: device.advertisement.rssi, content: nil))
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Signals about devices while adverts are needed: over a connection that only listens, which is cheap in a busy room,
// or over the radio's own where the other does not work.

internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit
internal import Logging

/// Subscribes to bluetoothd's signals about devices; the one owner of the connection that only listens.
final class DeviceSignals {
    struct Handlers {
        /// The link with a device has come up or ended.
        let onLinkChange: (BluetoothAddress) -> Void
        /// `InterfacesAdded` and `InterfacesRemoved` over the feed. (org.freedesktop.DBus.ObjectManager)
        let onAdded, onRemoved: (Message) -> Void
        /// The signals come over another connection from now on; some may have been missed.
        let onSwitch: () -> Void
    }

    /// Carries all signals about devices, in order, while it is open.
    private(set) var feed: SignalFeed?
    /// The bus of the feed; nil does without.
    private let address: Connection.Address?
    private let connection: Connection
    private let devices: DeviceTable
    private let handOver: HandOver
    private let log: Logger
    private let handlers: Handlers
    /// bluetoothd's unique name, while listening.
    private var owner: String?
    private var subscription: Subscription?
    /// Our own reader failed (no descriptor was free, a message was malformed): until the pause is over libdbus reads.
    private let reopening: Retry

    init(
        on connection: Connection, feed address: Connection.Address?, into devices: DeviceTable, _ handOver: HandOver, log: Logger,
        _ handlers: Handlers
    ) {
        self.connection = connection
        self.address = address
        self.devices = devices
        self.handOver = handOver
        self.log = log
        self.handlers = handlers
        reopening = Retry(2...512, connection.loop.once)
    }

    /// Subscribes to signals of `owner`; nil to none, so that scans of other programs do not wake the daemon.
    func listen(to owner: String?) {
        subscription?.cancel()
        subscription = nil
        let former = feed
        feed = nil
        // Its pending readings are made anew over the next connection.
        defer { former?.close() }
        self.owner = owner
        guard let owner else { return }
        feed = open(owner)
        guard feed == nil else { return }
        subscription = connection.subscribe(
            sender: owner, below: BlueZ.manager, interface: Bus.properties, member: "PropertiesChanged",
            argument0: Device1.interface
        ) { [weak self] in self?.changed($0) }
    }

    /// Ends listening, when adverts are not needed any more.
    ///
    /// - Returns: whether they came over the feed, which may not have delivered everything.
    func stop() -> Bool {
        let wasFed = feed != nil
        if wasFed { reopening.reset() }
        listen(to: nil)
        return wasFed
    }

    private func open(_ owner: String) -> SignalFeed? {
        guard let address, !reopening.isWaiting else { return nil }
        do throws(BusError) {
            let feed = try SignalFeed(
                address, loop: connection.loop,
                stream: SignalFeed.Stream(sender: owner, namespace: BlueZ.manager, interface: Device1.interface),
                pause: .milliseconds(60),
                onChange: { [devices, handlers] source, arguments in
                    if let device = devices.device(of: source), devices.update(device, &arguments) {
                        handlers.onLinkChange(device.advertisement.address)
                    }
                }, onRead: handOver.schedule, onFailure: { [weak self] in self?.failed($0) })
            for (member, handler) in [("InterfacesAdded", handlers.onAdded), ("InterfacesRemoved", handlers.onRemoved)] {
                feed.subscribe(
                    sender: owner, path: BlueZ.root, interface: Bus.objectManager, member: member, handler: handler)
            }
            return feed
        } catch {
            log.notice("adverts are read with libdbus", metadata: ["reason": "\(error)"])
            openLater()
            return nil
        }
    }

    private func failed(_ reason: String) {
        log.warning("the connection for adverts ended; they are read with libdbus", metadata: ["reason": "\(reason)"])
        openLater()
        listen(to: owner)
        handlers.onSwitch()
    }

    private func openLater() {
        reopening.schedule { [weak self] in
            guard let self, let owner = self.owner else { return }
            self.listen(to: owner)
            if self.feed != nil { self.handlers.onSwitch() }
        }
    }

    private func changed(_ message: Message) {
        guard let device = devices.device(of: message) else { return }
        message.withArguments { arguments in
            if devices.update(device, &arguments) { handlers.onLinkChange(device.advertisement.address) }
        }
        handOver.schedule()
    }
}

// SPDX-License-Identifier: Apache-2.0
// All device objects of bluetoothd, by path and by address, and the queues of devices that were heard. The queues are a
// state, not a log: a flood of adverts makes them no longer than bluetoothd's list of devices.

internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit

final class DeviceTable {
    private var devices: [String: Device] = [:]
    /// The same by the fingerprint of the path, for signals. Of paths with one fingerprint only the last is here.
    private var byFingerprint: [UInt64: Device] = [:]
    /// The same by address: a device has an object on each adapter that hears it, or is bonded with it.
    private var byAddress: [BluetoothAddress: [Device]] = [:]
    /// Of devices with several objects, the one that was handed over last.
    private var lastShown: [BluetoothAddress: Device] = [:]
    /// The adapters by their objects. Devices that only other adapters hear are not handed over.
    var adapters: [ObjectPath: RadioAdapter] = [:] {
        didSet { if adapters != oldValue { adaptersChanged() } }
    }
    /// A device that has left its queue, or was dropped, stays in the list until it is drained.
    private var contentQueue: [Device] = []
    private var strengthQueue: [Device] = []

    var hasNewContent: Bool { !contentQueue.isEmpty }
    var hasNewStrengths: Bool { !strengthQueue.isEmpty }

    subscript(path: ObjectPath) -> Device? { devices[path.rawValue] }
    subscript(path: String) -> Device? { devices[path] }

    /// The device of a signal.
    func device(of message: Message) -> Device? {
        if let device = byFingerprint[message.pathFingerprint], message.hasPath(device.path) { return device }
        return message.path.flatMap { self[$0] }
    }

    /// The device of a change on the feed.
    func device(of source: borrowing SignalFeed.Source) -> Device? {
        if let device = byFingerprint[source.fingerprint], source.isObject(device.path) { return device }
        return self[source.objectPath]
    }

    var bonds: [RadioBond] {
        devices.values.filter(\.advertisement.isPaired).map { RadioBond($0.advertisement) }
    }

    /// The device's objects on all adapters.
    func objects(at address: BluetoothAddress) -> [Device] { byAddress[address, default: []] }

    /// The object for a device on its adapter; without an adapter, on the one with a bond, or with most signal.
    func device(for peer: BluetoothPeer) -> Device? {
        best(of: byAddress[peer.address, default: []].filter { peer.shares($0.advertisement.adapter) })
    }

    /// Classic devices have no kind of address to compare.
    func device(valued value: UInt64, on adapter: ObjectPath) -> Device? {
        devices.values.first { $0.adapter == adapter && $0.advertisement.address.value == value }
    }

    /// Replaces a private address by the identity address.
    func setAddress(_ address: BluetoothAddress, of device: Device) {
        guard device.advertisement.address != address else { return }
        leaveAddress(device)
        device.advertisement.address = address
        byAddress[address, default: []].append(device)
    }

    private func leaveAddress(_ device: Device) {
        let address = device.advertisement.address
        byAddress[address]?.removeAll { $0 === device }
        if byAddress[address]?.isEmpty == true { byAddress[address] = nil }
        if lastShown[address] === device { lastShown[address] = nil }
    }

    private func adaptersChanged() {
        for device in devices.values {
            device.advertisement.adapter = adapters[device.adapter]?.address
            guard device.isHeard else { continue }
            device.content.handedOver = 0
            enqueue(device)
        }
    }

    private func mayBeUsed(_ device: Device) -> Bool { adapters[device.adapter].map { $0.isAllowed && $0.isPowered } ?? false }

    /// Bonded objects rank first, then connected ones, then those that are heard, by strength; among equals, the first.
    private func best(of devices: [Device]) -> Device? {
        func rank(_ device: Device) -> (Int, Int) {
            let advertisement = device.advertisement
            let kind = advertisement.isPaired ? 3 : advertisement.isConnected ? 2 : device.isHeard ? 1 : 0
            return (kind, advertisement.rssi ?? -128)
        }
        return devices.count < 2 ? devices.first : devices.sorted { $0.path < $1.path }.max { rank($0) < rank($1) }
    }

    /// Merges an object's properties (`a{sv}` under the cursor); adds the object when it is new.
    ///
    /// - Parameter isNew: whether bluetoothd has just made the object.
    func merge(_ path: ObjectPath, _ properties: inout ValueCursor, isNew: Bool) {
        var addressText: String?
        var kind = BluetoothAddress.Kind.public
        var hasRSSI = false
        properties.forEachProperty(of: Device1.self) { property, value in
            switch property {
            case .address: addressText = value.string
            case .addressType: kind = value.string.flatMap { BluetoothAddress.Kind(rawValue: $0) } ?? .public
            case .rssi: hasRSSI = true
            default: break
            }
        }
        guard let address = addressText.flatMap({ BluetoothAddress($0, kind: kind) }) else { return }
        let device = devices[path.rawValue] ?? add(Device(path: path, address: address))
        setAddress(address, of: device)
        properties.forEachEntry { _ = device.merge(&$0) }
        // In range are devices with a strength, which bluetoothd removes when discovery ends, connected devices, and
        // objects made during discovery (the only sign of a radio without strengths).
        if hasRSSI || device.advertisement.isConnected || isNew && !device.advertisement.isPaired { enqueue(device) }
    }

    private func add(_ device: Device) -> Device {
        device.advertisement.adapter = adapters[device.adapter]?.address
        devices[device.path.rawValue] = device
        byFingerprint[device.path.fingerprint] = device
        byAddress[device.advertisement.address, default: []].append(device)
        return device
    }

    /// Merges a `PropertiesChanged` of a device; the cursor stands on the interface's name.
    ///
    /// - Returns: whether its link has come up or ended.
    @discardableResult
    func update(_ device: Device, _ arguments: inout ValueCursor) -> Bool {
        arguments.next()
        var heard = false
        let wasConnected = device.advertisement.isConnected
        arguments.forEachEntry { entry in
            if device.merge(&entry) { heard = true }
        }
        if heard || device.content.hasChanged { enqueue(device) }
        return device.advertisement.isConnected != wasConnected
    }

    /// Counts temporary devices as heard that never had a strength: of one from before this search bluetoothd sends no
    /// signal, and it drops the object when the device falls silent.
    func hearWithoutStrength() {
        for device in devices.values where device.isTemporary && !device.isHeard && !device.hasStrength { enqueue(device) }
    }

    private func enqueue(_ device: Device) {
        device.isHeard = true
        if device.content.hasChanged || device.content.handedOver == 0 {
            guard device.queue != .content else { return }
            device.queue = .content
            contentQueue.append(device)
        } else if device.queue == .none {
            device.queue = .strength
            strengthQueue.append(device)
        }
    }

    /// Every device with new content since the last call: once, or twice where a payload was replaced meanwhile.
    func drainContent(now: Int64) -> [HeardDevice] {
        var result: [HeardDevice] = []
        for device in contentQueue where device.queue == .content {
            let replaced = device.content.replaced
            guard let heard = handOver(device, withContent: true, now: now) else { continue }
            if let replaced, heard.content != nil {
                result.append(HeardDevice(address: heard.address, rssi: heard.rssi, content: replaced))
            }
            result.append(heard)
        }
        contentQueue.removeAll(keepingCapacity: true)
        return result
    }

    /// Every other device heard since the last call, once. Unchanged content is repeated after a while, for a receiver
    /// that has dropped the device meanwhile.
    func drainStrengths(now: Int64) -> [HeardDevice] {
        let queue = strengthQueue
        strengthQueue.removeAll(keepingCapacity: true)
        return queue.compactMap { device in
            guard device.queue == .strength else { return nil }
            return handOver(device, withContent: now - device.content.handedOver > Self.contentInterval, now: now)
        }
    }

    private func handOver(_ device: Device, withContent: Bool, now: Int64) -> HeardDevice? {
        device.queue = .none
        device.averageStrength()
        if withContent { device.content = Device.Content(handedOver: now) }
        let address = device.advertisement.address
        let objects = byAddress[address, default: []]
        guard objects.count > 1 || !mayBeUsed(device) else {
            return HeardDevice(
                address: address, rssi: device.advertisement.rssi, content: withContent ? device.advertisement : nil)
        }
        guard let best = heardBest(of: objects, at: address, now: now) else { return nil }
        let isNew = lastShown[address] !== best || withContent && device === best
        lastShown[address] = best
        return HeardDevice(address: address, rssi: best.advertisement.rssi, content: isNew ? best.advertisement : nil)
    }

    /// The object that stands for a device that several adapters hear: the one shown before, until it is silent, or
    /// another is clearly nearer.
    private func heardBest(of objects: [Device], at address: BluetoothAddress, now: Int64) -> Device? {
        let heard = objects.filter { mayBeUsed($0) && $0.isHeard }
        guard let best = best(of: heard) else { return nil }
        guard let old = lastShown[address], heard.contains(where: { $0 === old }), !best.advertisement.isPaired,
            !best.advertisement.isConnected, now - old.content.handedOver < 2 * Self.contentInterval,
            let strength = old.advertisement.rssi, best.advertisement.rssi ?? -128 <= strength + Self.margin
        else { return best }
        return old
    }

    private static let contentInterval: Int64 = 5_000_000
    /// How much nearer another adapter must be, dB: strengths vary by as much from packet to packet.
    private static let margin = 6

    /// Calls `RemoveDevice`. The object does not count meanwhile.
    func requestRemoval(
        of path: ObjectPath, by call: CallOut, at adapter: ObjectPath, over connection: Connection,
        completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) {
        let device = self[path]
        device?.isBeingRemoved = true
        connection.call(call, at: adapter, [.objectPath(path)]) { result in
            if let error = result.error, error.bluez != .doesNotExist { device?.isBeingRemoved = false }
            completion(result)
        }
    }

    /// - Returns: the device, and whether another object for it is still heard.
    func remove(_ path: ObjectPath) -> (device: Device, isHeardStill: Bool)? {
        guard let device = drop(path) else { return nil }
        let others = byAddress[device.advertisement.address, default: []].filter { $0.isHeard && mayBeUsed($0) }
        for other in others {
            other.content.handedOver = 0
            enqueue(other)
        }
        return (device, !others.isEmpty)
    }

    private func drop(_ path: ObjectPath) -> Device? {
        let device = devices.removeValue(forKey: path.rawValue)
        byFingerprint[path.fingerprint] = nil
        if let device { leaveAddress(device) }
        device?.queue = .none
        return device
    }

    /// - Returns: the addresses without an object left.
    func keep(only paths: Set<String>) -> [BluetoothAddress] {
        devices.values.filter { !paths.contains($0.path.rawValue) }.compactMap { gone in
            remove(gone.path).flatMap { $0.isHeardStill ? nil : $0.device.advertisement.address }
        }
    }

    func forgetAdverts() {
        clearQueues()
        for device in devices.values { device.forgetAdverts() }
    }

    func removeAll() {
        devices = [:]
        byFingerprint = [:]
        (byAddress, lastShown) = ([:], [:])
        clearQueues()
    }

    private func clearQueues() {
        for device in contentQueue + strengthQueue { device.queue = .none }
        contentQueue = []
        strengthQueue = []
    }
}

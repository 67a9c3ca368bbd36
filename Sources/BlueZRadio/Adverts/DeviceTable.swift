// SPDX-License-Identifier: Apache-2.0
// What BlueZ says of its devices: one row per foreign property that we use, read straight from the wire, be it libdbus'
// or the feed's. This is the path that thousands of adverts a second take.

internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit

/// One device object of BlueZ.
final class Device {
    let path: ObjectPath
    /// The object of its adapter.
    let adapter: ObjectPath
    var advertisement: Advertisement
    /// Heard since discovery began: a device that BlueZ only remembers is not in range.
    var isHeard = false
    /// It was heard with a strength once, and is not heard without one.
    fileprivate var hasStrength = false
    /// BlueZ was asked to forget it: the object will go, and the next advert makes another one.
    fileprivate(set) var isBeingRemoved = false
    /// Percent, when it was looked at last; nil when the device says nothing of it.
    var battery: Int?
    fileprivate(set) var contentChanged = false
    /// The content that was replaced before it was handed over: an accessory that alternates must not lose one of its
    /// adverts to the other because both came in one reading.
    private var replaced: Advertisement?
    fileprivate var isContentQueued = false
    fileprivate var isStrengthQueued = false
    /// When its content was last handed over, microseconds of the monotonic clock.
    fileprivate var contentHandedOver: Int64 = 0
    private var rssiSum = 0
    private var rssiCount = 0
    private var uuidsFingerprint: UInt64 = 0
    /// What BlueZ says of its keys; nil where it says nothing.
    private var isPaired = false
    private var isBonded: Bool?
    private var isTrusted = false
    /// BlueZ forgets it when it is silent for half a minute. (`TemporaryTimeout` in its main.conf)
    fileprivate var isTemporary: Bool { !isPaired && !isTrusted }
    /// What these properties were last read from.
    private var manufacturerMemory = ValueMemory()
    private var serviceMemory = ValueMemory()

    init(path: ObjectPath, address: BluetoothAddress) {
        self.path = path
        adapter = path.parent
        advertisement = Advertisement(device: RadioDeviceID(path.rawValue), address: address)
    }

    /// The mean strength since it was last asked for, dBm.
    fileprivate func averageRSSI() {
        guard rssiCount > 0 else { return }
        advertisement.rssi = Int((Double(rssiSum) / Double(rssiCount)).rounded())
        rssiSum = 0
        rssiCount = 0
    }

    /// The content that was replaced since this was last asked for.
    fileprivate func drainReplaced() -> Advertisement? {
        defer { replaced = nil }
        return replaced
    }

    /// A payload is about to be replaced.
    private func keepContent() {
        if contentChanged, replaced == nil { replaced = advertisement }
    }

    /// Forgets the air, keeps the object.
    func forgetAir() {
        replaced = nil
        let old = advertisement
        advertisement = Advertisement(device: old.device, address: old.address, adapter: old.adapter)
        advertisement.localName = old.localName
        advertisement.isPaired = old.isPaired
        advertisement.isConnected = old.isConnected
        isHeard = false
        contentHandedOver = 0
        uuidsFingerprint = 0
        manufacturerMemory = ValueMemory()
        serviceMemory = ValueMemory()
        rssiSum = 0
        rssiCount = 0
    }

    /// Takes over one property: the cursor stands on its name, the next value is its variant.
    ///
    /// - Returns: whether it is something that only a packet on the air brings.
    func apply<Walker: ValueWalker & ~Copyable>(_ entry: inout Walker) -> Bool {
        switch entry.property(of: Device1.self) {
        case .rssi: return value(&entry) { addSample($0.int16) }
        case .manufacturerData:
            entry.next()
            if !entry.isUnchanged(since: &manufacturerMemory) { entry.withVariant { manufacturerData(&$0) } }
            return true
        case .serviceData:
            entry.next()
            if !entry.isUnchanged(since: &serviceMemory) { entry.withVariant { serviceData(&$0) } }
            return true
        case .uuids: return value(&entry) { uuids(&$0) }
        case .name: return value(&entry) { name(&$0) }
        case .txPower: return value(&entry) { advertisement.txPower = $0.int16.map(Int.init) }
        case .paired: _ = value(&entry) { keys(paired: $0.boolean, bonded: nil) }
        case .connected: _ = value(&entry) { connected($0.boolean ?? advertisement.isConnected) }
        case .bonded: _ = value(&entry) { keys(paired: nil, bonded: $0.boolean) }
        case .trusted: _ = value(&entry) { isTrusted = $0.boolean ?? isTrusted }
        default: break
        }
        return false
    }

    private func keys(paired: Bool?, bonded: Bool?) {
        isPaired = paired ?? isPaired
        isBonded = bonded ?? isBonded
        advertisement.isPaired = BlueZVersions.isBonded(paired: isPaired, bonded: isBonded)
    }

    private func connected(_ isConnected: Bool) {
        guard isConnected != advertisement.isConnected else { return }
        advertisement.isConnected = isConnected
        contentChanged = true
    }

    private func value<Walker: ValueWalker & ~Copyable>(_ entry: inout Walker, _ body: (inout Walker) -> Void) -> Bool {
        entry.next()
        entry.withVariant(body)
        return true
    }

    private func addSample(_ rssi: Int16?) {
        // 127: the radio does not know. Beyond that it is no strength at all: what is shown sorts by it.
        guard let rssi, (-127...126).contains(rssi) else {
            if advertisement.rssi != nil { contentChanged = true }
            advertisement.rssi = nil
            return
        }
        // That it is heard at all, how near it is, is more than a change of strength.
        if advertisement.rssi == nil { contentChanged = true }
        hasStrength = true
        rssiSum += Int(rssi)
        rssiCount += 1
    }

    private func name<Walker: ValueWalker & ~Copyable>(_ value: inout Walker) {
        if let old = advertisement.localName, value.isString(equalTo: old) { return }
        advertisement.localName = value.string
        contentChanged = true
    }

    private func uuids<Walker: ValueWalker & ~Copyable>(_ value: inout Walker) {
        var fingerprint: UInt64 = 1
        value.forEachElement { fingerprint = fingerprint &* 31 &+ $0.fingerprint }
        guard fingerprint != uuidsFingerprint else { return }
        uuidsFingerprint = fingerprint
        value.forEachElement { element in
            guard let uuid = element.string.flatMap({ BluetoothUUID($0) }), !advertisement.serviceUUIDs.contains(uuid),
                advertisement.serviceUUIDs.count < Limits.advertEntriesPerDevice
            else { return }
            advertisement.serviceUUIDs.insert(uuid)
            contentChanged = true
        }
    }

    private func serviceData<Walker: ValueWalker & ~Copyable>(_ value: inout Walker) {
        value.forEachEntry { entry in
            guard let uuid = entry.string.flatMap({ BluetoothUUID($0) }) else { return }
            entry.next()
            entry.withVariant { payload in
                if let old = advertisement.serviceData[uuid], payload.isBytes(old) { return }
                guard let bytes = payload.bytes,
                    advertisement.serviceData[uuid] != nil || advertisement.serviceData.count < Limits.advertEntriesPerDevice
                else { return }
                keepContent()
                advertisement.serviceData[uuid] = bytes
                contentChanged = true
            }
        }
    }

    private func manufacturerData<Walker: ValueWalker & ~Copyable>(_ value: inout Walker) {
        value.forEachEntry { entry in
            guard let company = entry.uint16.map({ CompanyIdentifier($0) }) else { return }
            entry.next()
            entry.withVariant { payload in
                if let old = advertisement.manufacturerData[company], payload.isBytes(old) { return }
                guard let bytes = payload.bytes,
                    advertisement.manufacturerData[company] != nil
                        || advertisement.manufacturerData.count < Limits.advertEntriesPerDevice
                else { return }
                keepContent()
                advertisement.manufacturerData[company] = bytes
                contentChanged = true
            }
        }
    }
}

/// All devices of BlueZ, and the ones that were heard since the last hand-over: a state, not a log, so a flood makes no
/// more of it than there are devices in bluetoothd, which drops what has been silent for half a minute.
final class DeviceTable {
    private var devices: [String: Device] = [:]
    /// The same by the fingerprint of the path, for signals. Paths with one fingerprint share an entry: the last one
    /// has it, and the others are found by name.
    private var byFingerprint: [UInt64: Device] = [:]
    /// The same by address: a device has an object on each adapter that hears it, or is bonded with it.
    private var byAddress: [BluetoothAddress: [Device]] = [:]
    /// Of devices with several objects, the one that was handed over last.
    private var shown: [BluetoothAddress: Device] = [:]
    /// The adapters by their objects. Devices that only other adapters hear are not handed over.
    var adapters: [ObjectPath: RadioAdapter] = [:] {
        didSet { if adapters != oldValue { adaptersChanged() } }
    }
    private var contentQueue: [Device] = []
    private var strengthQueue: [Device] = []

    var hasNewContent: Bool { !contentQueue.isEmpty }
    var hasNewStrengths: Bool { !strengthQueue.isEmpty }

    subscript(path: ObjectPath) -> Device? { devices[path.rawValue] }
    subscript(path: String) -> Device? { devices[path] }

    /// The device that a signal speaks of.
    func device(of message: Message) -> Device? {
        if let device = byFingerprint[message.pathFingerprint], message.hasPath(device.path) { return device }
        return message.path.flatMap { self[$0] }
    }

    /// The device that a change of the feed speaks of.
    func device(of source: borrowing SignalFeed.Source) -> Device? {
        if let device = byFingerprint[source.fingerprint], source.isObject(device.path) { return device }
        return self[source.objectPath]
    }

    var bonds: [RadioBond] {
        devices.values.filter(\.advertisement.isPaired).map { RadioBond($0.advertisement) }
    }

    /// The object for a device on its adapter; where that is not known, on the one with a bond, or with most signal.
    func device(for peer: BluetoothPeer) -> Device? {
        best(of: byAddress[peer.address, default: []].filter { peer.shares($0.advertisement.adapter) })
    }

    /// Classic devices have no kind of address to compare.
    func device(valued value: UInt64, on adapter: ObjectPath) -> Device? {
        devices.values.first { $0.adapter == adapter && $0.advertisement.address.value == value }
    }

    /// Takes over the address that a device turned out to have.
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
        if shown[address] === device { shown[address] = nil }
    }

    private func adaptersChanged() {
        for device in devices.values {
            device.advertisement.adapter = adapters[device.adapter]?.address
            guard device.isHeard else { continue }
            device.contentHandedOver = 0
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

    /// Takes over an object's properties (`a{sv}` under the cursor); makes the object when it is new.
    ///
    /// - Parameter isNew: BlueZ has just made it.
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
        properties.forEachEntry { _ = device.apply(&$0) }
        // In range: what has a signal strength, which BlueZ takes away when discovery ends; what is connected; and what
        // it makes an object of while it discovers (a radio that gives no strength is heard in no other way). The rest
        // is only remembered.
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
    func update<Walker: ValueWalker & ~Copyable>(_ device: Device, _ arguments: inout Walker) -> Bool {
        arguments.next()
        var heard = false
        let wasConnected = device.advertisement.isConnected
        arguments.forEachEntry { entry in
            if device.apply(&entry) { heard = true }
        }
        if heard || device.contentChanged { enqueue(device) }
        return device.advertisement.isConnected != wasConnected
    }

    /// Counts temporary devices as heard that never had a strength: BlueZ signals nothing of one that it knew before
    /// this search, and drops it when it falls silent.
    func hearWithoutStrength() {
        for device in devices.values where device.isTemporary && !device.isHeard && !device.hasStrength { enqueue(device) }
    }

    private func enqueue(_ device: Device) {
        device.isHeard = true
        if device.contentChanged || device.contentHandedOver == 0 {
            guard !device.isContentQueued else { return }
            device.isContentQueued = true
            contentQueue.append(device)
        } else {
            guard !device.isStrengthQueued else { return }
            device.isStrengthQueued = true
            strengthQueue.append(device)
        }
    }

    /// Every device that is new or says something new since the last call: once, or twice where it has replaced a
    /// payload meanwhile.
    func drainContent(now: Int64) -> [HeardDevice] {
        defer { contentQueue.removeAll(keepingCapacity: true) }
        return contentQueue.flatMap { device in
            device.isContentQueued = false
            let replaced = device.drainReplaced()
            guard let news = handOver(device, withContent: true, now: now) else { return [HeardDevice]() }
            guard let replaced, news.content != nil else { return [news] }
            return [HeardDevice(address: news.address, rssi: news.rssi, content: replaced), news]
        }
    }

    /// Every other device heard since the last call, once. Content that did not change is repeated after a while, for a
    /// receiver that has forgotten the device meanwhile.
    func drainStrengths(now: Int64) -> [HeardDevice] {
        defer { strengthQueue.removeAll(keepingCapacity: true) }
        return strengthQueue.compactMap { device in
            device.isStrengthQueued = false
            return handOver(device, withContent: now - device.contentHandedOver > Self.contentInterval, now: now)
        }
    }

    private func handOver(_ device: Device, withContent: Bool, now: Int64) -> HeardDevice? {
        device.averageRSSI()
        if withContent {
            device.contentHandedOver = now
            device.contentChanged = false
        }
        let address = device.advertisement.address
        let objects = byAddress[address, default: []]
        guard objects.count > 1 || !mayBeUsed(device) else {
            return HeardDevice(
                address: address, rssi: device.advertisement.rssi, content: withContent ? device.advertisement : nil)
        }
        guard let best = heardBest(of: objects, at: address, now: now) else { return nil }
        let isNews = shown[address] !== best || withContent && device === best
        shown[address] = best
        return HeardDevice(address: address, rssi: best.advertisement.rssi, content: isNews ? best.advertisement : nil)
    }

    /// The object that stands for a device that several adapters hear: the one shown before, until it is silent, or
    /// another is clearly nearer.
    private func heardBest(of objects: [Device], at address: BluetoothAddress, now: Int64) -> Device? {
        let heard = objects.filter { mayBeUsed($0) && $0.isHeard }
        guard let best = best(of: heard) else { return nil }
        guard let old = shown[address], heard.contains(where: { $0 === old }), !best.advertisement.isPaired,
            !best.advertisement.isConnected, now - old.contentHandedOver < 2 * Self.contentInterval,
            let strength = old.advertisement.rssi, best.advertisement.rssi ?? -128 <= strength + Self.margin
        else { return best }
        return old
    }

    private static let contentInterval: Int64 = 5_000_000
    /// How much nearer another adapter must be, dB: strengths vary by as much from packet to packet.
    private static let margin = 6

    /// Has BlueZ forget a device (`RemoveDevice`), and counts the object as gone meanwhile.
    func requestRemoval(
        of path: ObjectPath, by call: CallOut, at adapter: ObjectPath, over connection: Connection,
        completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) {
        let device = self[path]
        device?.isBeingRemoved = true
        connection.call(call, at: adapter, [.objectPath(path)]) { result in
            if case .failure(let error) = result, error.bluez != .doesNotExist { device?.isBeingRemoved = false }
            completion(result)
        }
    }

    /// - Returns: the object's device, and whether another object for it is heard still.
    func remove(_ path: ObjectPath) -> (device: Device, isHeardStill: Bool)? {
        guard let device = drop(path) else { return nil }
        let others = byAddress[device.advertisement.address, default: []].filter { $0.isHeard && mayBeUsed($0) }
        for other in others {
            other.contentHandedOver = 0
            enqueue(other)
        }
        return (device, !others.isEmpty)
    }

    private func drop(_ path: ObjectPath) -> Device? {
        let device = devices.removeValue(forKey: path.rawValue)
        byFingerprint[path.fingerprint] = nil
        if let device { leaveAddress(device) }
        if let device, device.isContentQueued { contentQueue.removeAll { $0 === device } }
        if let device, device.isStrengthQueued { strengthQueue.removeAll { $0 === device } }
        return device
    }

    /// - Returns: the addresses of devices that no object is left of.
    func keep(only paths: Set<String>) -> [BluetoothAddress] {
        devices.values.filter { !paths.contains($0.path.rawValue) }.compactMap { gone in
            remove(gone.path).flatMap { $0.isHeardStill ? nil : $0.device.advertisement.address }
        }
    }

    func forgetAir() {
        clearQueues()
        for device in devices.values { device.forgetAir() }
    }

    func removeAll() {
        devices = [:]
        byFingerprint = [:]
        (byAddress, shown) = ([:], [:])
        clearQueues()
    }

    private func clearQueues() {
        for device in contentQueue { device.isContentQueued = false }
        for device in strengthQueue { device.isStrengthQueued = false }
        contentQueue = []
        strengthQueue = []
    }
}

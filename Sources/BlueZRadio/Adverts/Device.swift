// SPDX-License-Identifier: Apache-2.0
// One device object of bluetoothd, read straight from the wire, be it libdbus' or the feed's. Thousands of adverts a
// second take this path.

internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

final class Device {
    /// The queue of the table that the device is in.
    enum Queue { case none, strength, content }

    /// The content on its way to the engine.
    struct Content {
        var hasChanged = false
        /// The content before the last change: the adverts of an accessory that alternates may come in one reading.
        var replaced: Advertisement?
        /// Microseconds of the monotonic clock; 0 before the first time.
        var handedOver: Int64 = 0
    }

    /// Strengths since the last mean, dBm.
    private struct Samples {
        var sum = 0
        var count = 0
    }

    private struct Keys {
        var isPaired = false
        /// Nil where bluetoothd does not send it.
        var isBonded: Bool?
        var isTrusted = false
    }

    /// The values that were read last, to skip unchanged ones.
    private struct Memory {
        var manufacturerData = ValueMemory()
        var serviceData = ValueMemory()
        var uuids: UInt64 = 0
    }

    let path: ObjectPath
    /// The object of its adapter.
    let adapter: ObjectPath
    var advertisement: Advertisement
    /// Heard since discovery began: a device that is only remembered is not in range.
    var isHeard = false
    /// Whether the device had a strength once: from then on it is not heard without one.
    private(set) var hasStrength = false
    /// `RemoveDevice` was sent: the next advert makes another object.
    var isBeingRemoved = false
    /// Percent, when it was read last; nil for a device without Battery1.
    var battery: Int?
    var content = Content()
    var queue = Queue.none
    private var samples = Samples()
    private var keys = Keys()
    private var memory = Memory()

    init(path: ObjectPath, address: BluetoothAddress) {
        self.path = path
        adapter = path.parent
        advertisement = Advertisement(device: RadioDeviceID(path.rawValue), address: address)
    }

    /// Whether bluetoothd drops the object after half a minute of silence. (`TemporaryTimeout` in its main.conf)
    var isTemporary: Bool { !keys.isPaired && !keys.isTrusted }

    /// Sets the strength to the mean since the last time.
    func averageStrength() {
        guard samples.count > 0 else { return }
        advertisement.rssi = Int((Double(samples.sum) / Double(samples.count)).rounded())
        samples = Samples()
    }

    /// Forgets all adverts, keeps the object.
    func forgetAdverts() {
        let old = advertisement
        advertisement = Advertisement(device: old.device, address: old.address, adapter: old.adapter)
        advertisement.localName = old.localName
        advertisement.isPaired = old.isPaired
        advertisement.isConnected = old.isConnected
        isHeard = false
        content = Content(hasChanged: content.hasChanged)
        memory = Memory()
        samples = Samples()
    }

    /// Merges one property: the cursor stands on its name, the next value is its variant.
    ///
    /// - Returns: whether only an advert brings the property.
    func merge(_ entry: inout ValueCursor) -> Bool {
        guard let property = entry.property(of: Device1.self) else { return false }
        entry.next()
        switch property {
        case .rssi: entry.withVariant { add($0.int16) }
        case .manufacturerData:
            guard !entry.isUnchanged(since: &memory.manufacturerData) else { break }
            let changed = changes(in: &entry, since: advertisement.manufacturerData) { $0.uint16.map { CompanyIdentifier($0) } }
            for (company, bytes) in changed { advertisement.manufacturerData[company] = bytes }
        case .serviceData:
            guard !entry.isUnchanged(since: &memory.serviceData) else { break }
            let changed = changes(in: &entry, since: advertisement.serviceData) { $0.string.flatMap { BluetoothUUID($0) } }
            for (service, bytes) in changed { advertisement.serviceData[service] = bytes }
        case .uuids: entry.withVariant { addServices(&$0) }
        case .name: entry.withVariant { setName(&$0) }
        case .txPower: entry.withVariant { advertisement.txPower = $0.int16.map(Int.init) }
        case .paired, .bonded, .trusted, .connected:
            entry.withVariant { if let value = $0.boolean { set(property, value) } }
            return false
        default: return false
        }
        return true
    }

    private func set(_ property: Device1, _ value: Bool) {
        switch property {
        case .paired: keys.isPaired = value
        case .bonded: keys.isBonded = value
        case .trusted: keys.isTrusted = value
        default:
            if value != advertisement.isConnected { content.hasChanged = true }
            advertisement.isConnected = value
        }
        if property == .paired || property == .bonded {
            advertisement.isPaired = BlueZVersions.isBonded(paired: keys.isPaired, bonded: keys.isBonded)
        }
    }

    private func add(_ strength: Int16?) {
        // 127 stands for no strength, and other values are none.
        guard let strength, (-127...126).contains(strength) else {
            if advertisement.rssi != nil { content.hasChanged = true }
            advertisement.rssi = nil
            return
        }
        // The first strength is more than a change of strength.
        if advertisement.rssi == nil { content.hasChanged = true }
        hasStrength = true
        samples.sum += Int(strength)
        samples.count += 1
    }

    private func setName(_ value: inout ValueCursor) {
        if let old = advertisement.localName, value.isString(equalTo: old) { return }
        advertisement.localName = value.string
        content.hasChanged = true
    }

    private func addServices(_ value: inout ValueCursor) {
        var fingerprint: UInt64 = 1
        value.forEachElement { fingerprint = fingerprint &* 31 &+ $0.fingerprint }
        guard fingerprint != memory.uuids else { return }
        memory.uuids = fingerprint
        value.forEachElement { element in
            guard let uuid = element.string.flatMap({ BluetoothUUID($0) }), !advertisement.serviceUUIDs.contains(uuid),
                advertisement.serviceUUIDs.count < Limits.advertEntriesPerDevice
            else { return }
            advertisement.serviceUUIDs.insert(uuid)
            content.hasChanged = true
        }
    }

    /// The payloads that differ from the old ones, within the limit on entries. The content before them is kept, if it
    /// was not handed over yet.
    private func changes<Key: Hashable>(
        in entry: inout ValueCursor, since old: [Key: [UInt8]], _ key: (inout ValueCursor) -> Key?
    ) -> [(Key, [UInt8])] {
        var changes: [(Key, [UInt8])] = []
        var added = 0
        entry.withVariant { value in
            value.forEachEntry { entry in
                guard let key = key(&entry) else { return }
                entry.next()
                entry.withVariant { payload in
                    let former = old[key]
                    if let former, payload.isBytes(former) { return }
                    guard former != nil || old.count + added < Limits.advertEntriesPerDevice, let bytes = payload.bytes
                    else { return }
                    if former == nil { added += 1 }
                    changes.append((key, bytes))
                }
            }
        }
        guard !changes.isEmpty else { return [] }
        if content.hasChanged, content.replaced == nil { content.replaced = advertisement }
        content.hasChanged = true
        return changes
    }
}

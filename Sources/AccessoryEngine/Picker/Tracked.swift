// SPDX-License-Identifier: Apache-2.0
// Devices, networks and services that a picker tracks.

internal import AccessoryCore
internal import AccessoryModel

/// One thing in range. A class, so that the thousands of updates that change only its strength change it in place.
final class Tracked<Content> {
    var content: Content
    /// The item that it matches; nil for none.
    var item: Int?
    /// Seconds of the monotonic clock.
    var lastHeard = 0.0
    /// Why it may have to go soon; nil while its adverts match an item.
    var doubt: Doubt?
    /// Scans in a row that it was missing from.
    var misses = 0
    /// Of its offer, counted up in the order of appearance.
    let number: Int
    /// The accessory's identifier once it is set up.
    let identifier: AccessoryID
    /// Why an offer may have to go, and since when, in the time of `lastHeard`.
    enum Doubt {
        /// The radio has dropped the device.
        case dropped(since: Double)
        /// The device says something else.
        case mismatched(since: Double)

        var since: Double {
            switch self {
            case .dropped(let since), .mismatched(let since): since
            }
        }
    }

    private var smoothed: Double?
    /// Smoothed, dBm; nil when unknown.
    private(set) var rssi: Int?

    init(_ content: Content, _ place: OfferNumbering.Place, item: Int? = nil) {
        self.content = content
        self.item = item
        number = place.number
        identifier = place.identifier
    }

    /// Takes in a sample of the strength; without one the strength is unknown.
    ///
    /// - Parameter weight: how much the new sample counts, above 0 to 1.
    func hear(_ sample: Int?, weight: Double) {
        smoothed = sample.map { sample in smoothed.map { $0 + weight * (Double(sample) - $0) } ?? Double(sample) }
        rssi = smoothed.map { Int($0.rounded()) }
    }
}

/// All tracked devices of one kind, by their keys.
struct TrackedSet<Key: Hashable, Content> {
    private var all: [Key: Tracked<Content>] = [:]

    var keys: Set<Key> { Set(all.keys) }
    var values: some Collection<Tracked<Content>> { all.values }
    var count: Int { all.count }
    subscript(_ key: Key) -> Tracked<Content>? { all[key] }

    mutating func add(_ tracked: Tracked<Content>, at key: Key) { all[key] = tracked }

    /// Forgets one; true when an item looks for it.
    mutating func remove(_ key: Key) -> Bool { all.removeValue(forKey: key)?.item != nil }

    /// Removes some; true when an item looks for one of the removed.
    mutating func removeAll(where isGone: (Tracked<Content>) -> Bool = { _ in true }) -> Bool {
        let gone = all.filter { isGone($0.value) }
        for key in gone.keys { all[key] = nil }
        return gone.values.contains { $0.item != nil }
    }

    /// Keeps the `count` that were heard last.
    mutating func keepLatest(_ count: Int) {
        guard all.count > count else { return }
        for (key, _) in all.sorted(by: { $0.value.lastHeard < $1.value.lastHeard }).prefix(all.count - count) { all[key] = nil }
    }
}

/// The key of an accessory in range.
enum TrackedKey: Hashable {
    case device(BluetoothAddress)
    case network(SSID)
    case service(String)
    /// A kind of devices, by the index of its item.
    case kind(Int)
}

/// Numbers and identifiers of accessories in range: an accessory that returns keeps its identifier, within
/// `Limits.trackedDevices`.
struct OfferNumbering {
    struct Place {
        let number: Int
        let identifier: AccessoryID
    }

    private var made = 0
    private var identifiers: [TrackedKey: AccessoryID] = [:]

    /// An accessory is known by another key from now on.
    mutating func move(_ old: TrackedKey, to new: TrackedKey) { identifiers[new] = identifiers.removeValue(forKey: old) }

    mutating func place(_ key: TrackedKey) -> Place {
        made += 1
        let identifier = identifiers[key] ?? .random()
        if identifiers.count < Limits.trackedDevices { identifiers[key] = identifier }
        return Place(number: made, identifier: identifier)
    }
}

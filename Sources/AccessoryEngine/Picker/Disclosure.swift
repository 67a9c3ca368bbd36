// SPDX-License-Identifier: Apache-2.0
// The discoveries of an app that filters its results, and its choice among them.

internal import AccessoryModel

struct Disclosure {
    /// Seconds for the parts of an advert, such as a name in the scan response, to arrive before the app gets the
    /// discovery.
    static let delay = 0.4

    private var fresh: [TrackedKey] = []
    private var disclosed: Set<AccessoryID> = []
    private var chosen: [AccessoryID: DiscoveredItem] = [:]

    var isPending: Bool { !fresh.isEmpty }

    mutating func add(_ key: TrackedKey) { fresh.append(key) }

    /// New discoveries, made by `discovery`.
    mutating func next(_ discovery: (TrackedKey) -> DiscoveredAccessory?) -> [DiscoveredAccessory] {
        let keys = fresh
        fresh = []
        var discoveries: [DiscoveredAccessory] = []
        for key in keys where disclosed.count < Limits.discoveredPerPicker {
            guard let found = discovery(key), disclosed.insert(found.identifier).inserted else { continue }
            discoveries.append(found)
        }
        return discoveries
    }

    func isDisclosed(_ identifier: AccessoryID) -> Bool { disclosed.contains(identifier) }

    mutating func show(_ items: [DiscoveredItem]) {
        for item in items { chosen[item.identifier] = item }
    }

    func item(for identifier: AccessoryID) -> DiscoveredItem? { chosen[identifier] }

    /// Bytes of the images that the app has given along, were these shown too.
    func imageBytes(with new: [DiscoveredItem]) -> Int {
        var images = chosen.mapValues { $0.image?.bytes.count ?? 0 }
        for item in new { images[item.identifier] = item.image?.bytes.count ?? 0 }
        return images.values.reduce(0, +)
    }
}

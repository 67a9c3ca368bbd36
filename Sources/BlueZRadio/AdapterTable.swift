// SPDX-License-Identifier: Apache-2.0
// The adapters of bluetoothd: those that may be used, those that have power, and the state of the radio that follows.

internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

/// All adapters, by object; the one owner of their properties.
final class AdapterTable {
    private struct Properties {
        var isPowered = false
        var address: BluetoothAddress?
    }

    private var adapters: [ObjectPath: Properties] = [:]
    /// Names or addresses of the adapters to use; empty for all.
    private let allowed: Set<String>
    /// The adapter that apps see that have no accessory on another one; nil without an adapter.
    private(set) var primary: ObjectPath?

    init(allowing allowed: Set<String>) {
        self.allowed = allowed
    }

    func contains(_ path: ObjectPath) -> Bool { adapters[path] != nil }
    func isPowered(_ path: ObjectPath) -> Bool { adapters[path]?.isPowered == true }
    func hasAdapter(of peer: BluetoothPeer) -> Bool { adapters.values.contains { peer.shares($0.address) } }
    func object(of address: BluetoothAddress) -> ObjectPath? { adapters.first { $0.value.address == address }?.key }

    /// The adapters whose address has been read.
    var radioAdapters: [ObjectPath: RadioAdapter] {
        var result: [ObjectPath: RadioAdapter] = [:]
        for (path, properties) in adapters {
            guard let address = properties.address else { continue }
            let name = String(path.rawValue.dropFirst(path.parent.rawValue.count + 1))
            let isAllowed = allowed.isEmpty || allowed.contains(name) || allowed.contains(address.description)
            result[path] = RadioAdapter(address: address, name: name, isPowered: properties.isPowered, isAllowed: isAllowed)
        }
        return result
    }

    /// `ready` when an adapter that may be used has power.
    var state: RadioState {
        let allowed = radioAdapters.values.filter(\.isAllowed)
        return allowed.isEmpty ? .absent : allowed.contains(where: \.isPowered) ? .ready : .off
    }

    /// The adapters that may be used and have power.
    var usable: Set<ObjectPath> { Set(radioAdapters.filter { $0.value.isAllowed && $0.value.isPowered }.keys) }

    /// Chooses the primary adapter, which stays while it works.
    ///
    /// - Returns: the adapters that may be used and have power.
    func choosePrimary() -> Set<ObjectPath> {
        let usable = usable
        primary = usable.first { $0 == primary } ?? usable.min() ?? radioAdapters.filter(\.value.isAllowed).keys.min()
        return usable
    }

    /// Merges an adapter's properties (`a{sv}` under the cursor).
    ///
    /// - Returns: `Discovering`; nil where that is not among them.
    func merge(_ path: ObjectPath, _ properties: inout ValueCursor) -> Bool? {
        var changed = adapters[path] ?? Properties()
        var isDiscovering: Bool?
        properties.forEachProperty(of: Adapter1.self) { property, value in
            switch property {
            case .powered: changed.isPowered = value.boolean ?? false
            case .address: changed.address = value.string.flatMap { BluetoothAddress($0, kind: .public) }
            case .discovering: isDiscovering = value.boolean
            }
        }
        adapters[path] = changed
        return isDiscovering
    }

    /// - Returns: whether it was present.
    func remove(_ path: ObjectPath) -> Bool { adapters.removeValue(forKey: path) != nil }
    func keep(only paths: Set<String>) { adapters = adapters.filter { paths.contains($0.key.rawValue) } }
    func removeAll() { adapters = [:] }
}

// SPDX-License-Identifier: Apache-2.0
// Attributes that were added and removed since the app's last `didModifyServices`, as a value, and whether more changes
// are expected: BlueZ shows a change piece by piece, and the app must receive one callback.

internal import DBusKit

/// An unpublished change of a connected accessory's services.
struct DatabaseChange {
    /// The attributes that were removed.
    private(set) var gone: Set<ObjectPath> = []
    private var added: Set<ObjectPath> = []

    /// How long a change that looks complete must stay the same. Removed objects are a new database if the link is
    /// still up after so long.
    static let settling = Duration.milliseconds(300)
    /// How long one that does not look complete. On a slow link there are seconds between two services that BlueZ
    /// finds; on a busy machine, between two of its signals.
    static let maxDiscovery = Duration.seconds(3)

    /// An attribute was added or removed.
    mutating func add(_ path: ObjectPath, isGone: Bool) {
        if isGone {
            added.remove(path)
            gone.insert(path)
        } else {
            added.insert(path)
        }
    }

    /// Whether more changes are expected. BlueZ removes the old services once it has found all new ones: an old one
    /// beside a new one with its UUID is most likely removed next.
    ///
    /// - Parameter services: the accessory's services in BlueZ now.
    func isUnfinished(_ services: [AttributeInfo]) -> Bool {
        let new = Set(services.filter { added.contains($0.path) }.map(\.uuid))
        return gone.isEmpty || services.contains { !added.contains($0.path) && new.contains($0.uuid) }
    }
}

// SPDX-License-Identifier: Apache-2.0
// What has come and gone of an accessory's attributes since its app was last told of other services, as a value. It
// knows whether more is to be expected: BlueZ shows a change piece by piece, and an app is to hear of it once.

internal import DBusKit

/// A change of a connected accessory's services that the app has not been told of.
struct DatabaseChange {
    /// The attributes that have gone.
    private(set) var gone: Set<ObjectPath> = []
    private var come: Set<ObjectPath> = []

    /// How long a change that looks whole must stand still. Removed objects are a new database if the link still
    /// stands after so long.
    static let settling = Duration.milliseconds(300)
    /// How long one that does not. On a slow link there are seconds between two services that BlueZ finds; on a busy
    /// machine, between two of its signals.
    static let longestDiscovery = Duration.seconds(3)

    /// Whether nothing has changed.
    var isEmpty: Bool { gone.isEmpty && come.isEmpty }

    /// An attribute has come or gone.
    mutating func note(_ path: ObjectPath, isGone: Bool) {
        if isGone {
            come.remove(path)
            gone.insert(path)
        } else {
            come.insert(path)
        }
    }

    /// Whether more is to be expected. BlueZ takes away the old services when it has found all of the new: an old one
    /// beside a new one with its UUID is most likely to go.
    ///
    /// - Parameter services: what BlueZ shows of the accessory now.
    func isUnfinished(_ services: [AttributeInfo]) -> Bool {
        let new = Set(services.filter { come.contains($0.path) }.map(\.uuid))
        return gone.isEmpty || services.contains { !come.contains($0.path) && new.contains($0.uuid) }
    }
}

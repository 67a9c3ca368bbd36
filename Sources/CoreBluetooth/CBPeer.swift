// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a link, in either role.

public import Foundation

/// The other end of a link.
///
/// Source: Apple's documentation of `CBPeer`.
open class CBPeer: NSObject, NSCopying {
    private let storedIdentifier: UUID

    init(_ identifier: UUID) {
        storedIdentifier = identifier
    }

    /// The same as `ASAccessory.bluetoothIdentifier`: it stays, on this machine, as long as the grant.
    ///
    /// Source: Apple's documentation of `CBPeer.identifier`.
    open var identifier: UUID { storedIdentifier }

    /// The same object (`NSCopying`): there is one for each peer.
    open func copy(with zone: NSZone? = nil) -> Any { self }
}

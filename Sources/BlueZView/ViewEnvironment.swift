// SPDX-License-Identifier: Apache-2.0
// The parts of the view that all clients share: the authority, the feed of org.bluez, the links, and the limits.

internal import DBusKit
internal import Logging

/// The view for its clients.
struct ViewEnvironment {
    /// Decides on grants.
    let authority: any ViewAuthority
    /// Our own name.
    let service: any ViewService
    let feed: RadioFeed
    let links: LinkCoordinator
    /// Calls on their way to org.bluez.
    let queue: ServiceQueue
    let limits: ViewLimits
    /// The bus that carries org.bluez.
    let bus: Connection.Address
    /// The answer to `GetId`: the identifier of the view as a bus.
    let identifier: String
    let log: Logger
}

// SPDX-License-Identifier: Apache-2.0
// What every client of the view has in common: who decides, what is followed of org.bluez, the links, and the limits.

internal import DBusKit
internal import Logging

/// What a client is given of the view.
struct ViewEnvironment {
    /// Who decides what is shown.
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
    /// What `GetId` answers: the identifier of the view as a bus.
    let identifier: String
    let log: Logger
}

// SPDX-License-Identifier: Apache-2.0
// Limits of one user, over all of the user's connections.

internal import AccessoryModel
internal import DBusKit

/// One user's share of the view's resources.
final class Share {
    enum Resource: Hashable, Sendable {
        case matchRules
        /// Connections that receive signals of org.bluez.
        case listeners
        /// Unanswered calls to org.bluez.
        case calls
        /// Descriptors of AcquireWrite and AcquireNotify.
        case descriptors
    }

    let party: Party
    private let limits: ViewLimits.User
    private var taken: [Resource: Int] = [:]

    init(of party: Party, _ limits: ViewLimits.User) {
        self.party = party
        self.limits = limits
    }

    /// - Throws: `LimitsExceeded`.
    func reserve(_ resource: Resource) throws(BusError) {
        let (limit, things) =
            switch resource {
            case .matchRules: (limits.matchRules, "match rules")
            case .listeners: (limits.listeners, "connections with match rules for org.bluez")
            case .calls: (limits.callsInFlight, "unanswered calls to org.bluez")
            case .descriptors: (limits.descriptors, "descriptors of characteristics")
            }
        guard taken[resource, default: 0] < limit else { throw .limitsExceeded("\(party) has \(limit) \(things)") }
        taken[resource, default: 0] += 1
    }

    /// Reserves resources of an earlier run, whatever the limit is now.
    func resume(_ resource: Resource, _ count: Int) {
        taken[resource, default: 0] += count
    }

    func release(_ resource: Resource, _ count: Int = 1) {
        taken[resource, default: 0] -= count
    }
}

// SPDX-License-Identifier: Apache-2.0
// What the connections of one user have together: limits are for users, because a user may have many connections.

internal import AccessoryModel
internal import DBusKit

/// One user's part of what there is for all.
final class Share {
    /// The resources that are counted.
    enum Good: Hashable, Sendable {
        case matchRules
        /// Connections that receive signals of org.bluez: each of these receives what a user does.
        case listeners
        /// Calls to org.bluez that are not answered yet.
        case calls
        /// Descriptors of AcquireWrite and AcquireNotify.
        case descriptors
    }

    let party: Party
    private let limits: ViewLimits
    private var taken: [Good: Int] = [:]

    init(of party: Party, _ limits: ViewLimits) {
        self.party = party
        self.limits = limits
    }

    /// - Throws: `LimitsExceeded`.
    func take(_ good: Good) throws(BusError) {
        let (limit, what) =
            switch good {
            case .matchRules: (limits.matchRules, "match rules")
            case .listeners: (limits.listeners, "connections with match rules for org.bluez")
            case .calls: (limits.callsInFlight, "calls to org.bluez that are not answered yet")
            case .descriptors: (limits.descriptors, "descriptors of characteristics")
            }
        guard taken[good, default: 0] < limit else { throw .limitsExceeded("\(party) has \(limit) \(what)") }
        taken[good, default: 0] += 1
    }

    /// Takes what an earlier run has granted, whatever the limit is now.
    func resume(_ good: Good, _ count: Int) {
        taken[good, default: 0] += count
    }

    func giveBack(_ good: Good, _ count: Int = 1) {
        taken[good, default: 0] -= count
    }
}

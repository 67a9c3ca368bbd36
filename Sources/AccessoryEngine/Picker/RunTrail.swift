// SPDX-License-Identifier: Apache-2.0
// The lines of one picker run in the audit trail that are written once: offers, and reasons to pick nothing.

internal import AccessoryCore
internal import AccessoryModel

struct RunTrail {
    private let audit: AuditWriter
    private let app: AppID
    private var offers: Set<String> = []
    private var reasons: Set<String> = []

    init(_ audit: AuditWriter, _ app: AppID) {
        self.audit = audit
        self.app = app
    }

    /// Every accessory that was offered. Bounded: a stranger may come by a new address each minute.
    mutating func record(_ shown: [Offer]) {
        for offer in shown where offers.count < Limits.discoveredPerPicker && offers.insert(offer.id).inserted {
            audit.record(
                .offered, app: app, accessory: offer.shared ?? offer.identifier, by: .daemon, why: offer.advertisedName)
        }
    }

    /// Why nothing was picked without a person.
    mutating func record(reasons new: [String]) {
        for reason in new where reasons.insert(reason).inserted { audit.record(.refused, app: app, by: .daemon, why: reason) }
    }
}

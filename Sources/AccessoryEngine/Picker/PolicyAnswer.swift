// SPDX-License-Identifier: Apache-2.0
// The policy's answers to a picker without a person. (Docs/Policy.md)

internal import AccessoryCore
internal import AccessoryModel

/// An answer in a person's place: the nearest accessory that a rule approves is picked, migrations that rules approve
/// are accepted, a name is the app's, and nothing else is answered.
enum PolicyAnswer {
    /// Only a person can answer.
    case cancel
    case migrate(by: Requester)
    case pick(Offer, by: Requester)
    case name(String)

    /// Nil where there is nothing to answer, or not yet.
    ///
    /// - Parameter pick: the accessory that was picked in this run.
    init?(to run: PickerRun, _ policy: AccessPolicy, pick: Offer?) {
        let app = run.session.app
        if case .informing = run.machine.state {
            // Where evidence is missing, only a person can decide.
            let rules = run.migrations.map { target in
                target.evidence == .fits ? policy.approval(ofMigrating: target.candidate, to: app.id) : nil
            }
            guard let first = rules.first, let first, !rules.contains(nil) else {
                self = .cancel
                return
            }
            self = .migrate(by: .rule(name: first.name, source: first.source))
            return
        }
        guard run.presentation.prompt == nil else {
            self = .cancel
            return
        }
        switch run.presentation.stage {
        case .offering:
            let approved = run.presentation.offers.compactMap { offer -> (Offer, AccessPolicy.Approval)? in
                let rule =
                    offer.kind == nil
                    ? policy.approval(of: run.candidate(of: offer), rssi: offer.rssi, to: app.id)
                    : policy.approval(ofKind: run.items[offer.item].descriptor, to: app.id)
                return rule.map { (offer, $0) }
            }
            guard pick == nil, let (offer, rule) = approved.max(by: { Strength.isNearer($1.0.rssi, than: $0.0.rssi) }) else {
                return nil
            }
            self = .pick(offer, by: .rule(name: rule.name, source: rule.source))
        case .renaming: self = .name(pick?.name ?? app.name)
        case .confirming, .failed: self = .cancel
        case .searching, .pairing, .bridging, .done: return nil
        }
    }
}

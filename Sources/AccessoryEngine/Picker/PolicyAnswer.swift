// SPDX-License-Identifier: Apache-2.0
// The policy's answers to a picker without a person. (Docs/Policy.md)

internal import AccessoryCore
internal import AccessoryModel

/// An answer in a person's place: the accessory that a claim list or a rule approves is picked, migrations that rules
/// approve are accepted, a passkey and a name are the entry's, and nothing else is answered.
enum PolicyAnswer {
    /// Only a person can answer.
    case cancel
    case migrate(by: Requester)
    case pick(Offer, Unattended.Verdict)
    case respond(PromptAnswer)
    case name(String)
    /// Nothing is picked while several accessories fit an entry: the reasons.
    case wait([String])

    /// Nil where there is nothing to answer, or not yet.
    ///
    /// - Parameters:
    ///   - pick: the accessory that was picked in this run.
    ///   - entry: the entry of a claim list by which it was.
    init?(to run: PickerRun, _ registry: GrantRegistry, pick: Offer?, entry: ClaimList.Entry?) {
        let app = run.session.app
        if case .informing = run.machine.state {
            // Where evidence is missing, only a person can decide.
            let rules = run.migrations.targets.map { target in
                target.evidence == .fits ? registry.policy.approval(ofMigrating: target.candidate, to: app.id) : nil
            }
            guard let first = rules.first, let first, !rules.contains(nil) else {
                self = .cancel
                return
            }
            self = .migrate(by: .rule(name: first.name, source: first.source))
            return
        }
        if let prompt = run.presentation.prompt {
            // Numbers to compare differ each time, and a number to enter at the accessory needs someone there.
            guard let answer = entry?.answer, prompt.fits(answer) else {
                self = .cancel
                return
            }
            self = .respond(answer)
            return
        }
        switch run.presentation.stage {
        case .offering:
            guard pick == nil else { return nil }
            let (offers, unattended) = (run.presentation.offers, registry.unattended(for: app.id))
            let verdicts = unattended.verdicts(on: offers.map { (run.candidate(of: $0), $0.rssi) })
            if let choice = unattended.choice(verdicts, strengths: offers.map(\.rssi)) {
                self = .pick(offers[choice], verdicts[choice])
                return
            }
            self = .wait(verdicts.compactMap { if case .left(let reason, isAmbiguous: true) = $0 { reason } else { nil } })
        case .renaming: self = .name(entry?.name ?? pick?.name ?? app.name)
        case .confirming, .failed: self = .cancel
        case .searching, .pairing, .bridging, .done: return nil
        }
    }
}

/// An accessory that is being set up by an entry of a claim list.
struct ClaimAttempt {
    let listing: Unattended.Listing
    /// The accessory has asked for the passkey or PIN, and got the entry's.
    var isAnswered = false
}

extension Unattended.Verdict {
    /// Who picks by it.
    var requester: Requester {
        switch self {
        case .listed(let listing): .entry(name: "\(listing.key)", source: listing.list.source)
        case .approved(let rule): .rule(name: rule.name, source: rule.source)
        case .left: .daemon
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Writes the results of a picker run: grants, migrations, names, and revocations. Rules, grants and accessories may
// have changed during the run, so every check is repeated.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

struct SetupWriter {
    let services: EngineServices
    let run: PickerRun

    private var registry: GrantRegistry { services.registry }
    private var bonds: BondKeeper { services.bonds }
    private var app: AppID { run.session.app.id }

    // MARK: Setting up

    /// Writes the grant of a picked offer.
    ///
    /// - Parameters:
    ///   - choice: the person's.
    ///   - attempt: the entry of a claim list by which it was picked.
    /// - Returns: the event for the machine.
    func store(
        _ offer: Offer, _ identity: PairedIdentity?, _ name: String?, _ choice: PickChoice, by requester: Requester,
        _ attempt: ClaimAttempt?
    ) -> SetupMachine.Event {
        do throws(SetupError) {
            let name = name ?? (offer.shared == nil ? attempt?.listing.entry.name : nil)
            let (steps, accessory) = try change(offer, identity, name, choice, requester.user)
            let claim = try attempt.map { attempt throws(SetupError) in try self.claim(attempt, of: accessory) }
            // The grant and the end of the intent are one transaction: after a power cut there is either both or
            // neither.
            let finished = bonds.pairing.map { [$0] } ?? []
            var line: AuditWriter.Line?
            if case .authorization = run.request {
                let before = registry.ledger.grant(of: accessory, to: app)?.terms.access
                let access = run.item(of: offer).descriptor.limit
                let change = access == before ? "" : ", access \(access)"
                line = AuditWriter.Line(.updated, app: app, accessory: accessory, why: "another descriptor" + change)
            }
            let reason = claim.map { "\($0)" } ?? "picked"
            try registry.change(steps, claim: claim, finishing: finished, line: line, reason: reason, by: requester) {
                bonds.written([], finished: finished)
            }
            _ = bonds.endPairing()
            if let name, let peer = registry.ledger.accessories[accessory]?.peer { services.radio.setAlias(peer, name) }
            return .stored(accessory)
        } catch {
            services.log.error("could not store the grant", metadata: ["error": "\(error)"])
            return .storeFailed(error)
        }
    }

    /// The change that a picked offer makes.
    private func change(
        _ offer: Offer, _ identity: PairedIdentity?, _ name: String?, _ choice: PickChoice, _ user: UInt32?
    ) throws(SetupError) -> (steps: [Ledger.Step], accessory: AccessoryID) {
        let item = run.item(of: offer)
        let traits = run.traits(of: offer)
        try refuseDenied(run.candidate(of: offer))
        let awareDevice = offer.aware == nil ? nil : try registry.nextAwareDevice()
        if case .authorization(let id) = run.request {
            // A grant that was revoked meanwhile stays so.
            guard let granted = registry.ledger.granted(id, to: app) else {
                throw SetupError(.userRestricted, "the grant of \(app) was revoked in the meantime")
            }
            let steps = registry.ledger.upgrading(
                granted, to: item.descriptor, offer: offer, identity: identity, awareDevice: awareDevice, traits: traits,
                user: user, ceiling: choice.access ?? .full)
            return (steps, id)
        }
        if let shared = offer.shared, registry.ledger.accessories[shared] == nil {
            throw SetupError(.connectionFailed, "the accessory was removed in the meantime: try again")
        }
        return registry.ledger.adding(
            offer, item: item, identity: identity, name: name, awareDevice: awareDevice, traits: traits, to: app, user: user,
            time: try services.time.limit(rules(of: offer, choice.end)), ceiling: choice.access ?? .full,
            grantID: try registry.nextGrantID(), now: services.clock.now)
    }

    /// The ends of the grant, by the person's choice or as the app and the rules have them.
    private func rules(of offer: Offer, _ end: EndChoice?) -> [EndRule] {
        end.map { $0.rule.map { [$0] } ?? [] } ?? run.terms(of: offer, registry.ledger, registry.policy).ends
    }

    /// Gives a grant its time again.
    ///
    /// - Returns: the event for the machine.
    func renew(_ id: AccessoryID, _ choice: PickChoice, by requester: Requester) -> SetupMachine.Event {
        do throws(SetupError) {
            guard let offer = run.presentation.offers.first, let grant = registry.ledger.grant(of: id, to: app) else {
                return .storeFailed(SetupError(.connectionFailed, "the accessory was removed in the meantime"))
            }
            try PickerRequests.checkRenewal(of: grant)
            let rules = rules(of: offer, choice.end)
            let text = rules.map(\.description).joined(separator: ", ")
            try services.access.setEnd(
                grant, try services.time.limit(rules), reason: rules.isEmpty ? "renewed without an end" : "renewed: \(text)",
                by: requester)
            return .stored(id)
        } catch {
            return .storeFailed(error)
        }
    }

    /// The use of an entry. Without its passkey nothing proves that the accessory is the listed one.
    private func claim(_ attempt: ClaimAttempt, of accessory: AccessoryID) throws(SetupError) -> Claim {
        let listing = attempt.listing
        if listing.entry.answer != nil, !attempt.isAnswered {
            throw SetupError(.userRestricted, "\(listing.key) has a passkey or PIN, and the accessory did not ask for one")
        }
        if let obstacle = registry.unattended(for: app).obstacle(to: listing) { throw SetupError(.userRestricted, obstacle) }
        return Claim(listing.key, app: app, accessory: accessory, isAuthenticated: attempt.isAnswered, time: services.clock.now)
    }

    /// Checks the accessory as it is in range; the store's knowledge is checked when the grant is written.
    private func refuseDenied(_ candidate: AccessoryCandidate) throws(SetupError) {
        guard let denial = registry.policy.denial(of: candidate, to: app) else { return }
        throw SetupError(.userRestricted, "rule \(denial.name) in \(denial.source) denies it")
    }

    // MARK: Taking over

    /// Migrates a known accessory, and publishes the result.
    func migrate(_ target: PickerRun.MigrationTarget, by requester: Requester) {
        do throws(SetupError) {
            if target.evidence == .contradicts {
                throw SetupError(.connectionFailed, "\(target.item.name) does not match the item's descriptor")
            }
            let change = try change(of: target, by: requester.user)
            try registry.change(change.steps, reason: "migrated", by: requester)
            report(.success(change.accessory))
        } catch {
            services.log.error("could not migrate an accessory", metadata: ["error": "\(error)"])
            report(.failure(error))
        }
    }

    /// Reports the outcome of one migration to the app.
    func report(_ outcome: Result<AccessoryID, SetupError>) {
        let session = run.session
        guard session.state == .active else { return }
        var event = SessionEvent(.migrationComplete, picker: run.id)
        switch outcome {
        case .success(let id): event.accessory = registry.ledger.granted(id, to: app)
        case .failure(let error): event.error = error
        }
        services.publisher.publish(.event(event, in: session))
        if event.error == nil {
            services.sessions.publish(SessionEvent(.accessoryAdded, accessory: event.accessory), to: app, except: session)
        }
    }

    private func change(of target: PickerRun.MigrationTarget, by user: UInt32?) throws(SetupError) -> (
        steps: [Ledger.Step], accessory: AccessoryID
    ) {
        let offer = target.offer
        if let peer = offer.peer {
            guard services.radio.bond(with: peer) != nil else {
                throw SetupError(.connectionFailed, "Bluetooth no longer has the pairing with \(target.item.name)")
            }
            guard bonds.intent(with: peer) == nil else {
                throw SetupError(.connectionFailed, "the pairing with \(target.item.name) is being removed")
            }
        }
        try refuseDenied(target.candidate)
        let isApproved = target.evidence == .fits && registry.policy.approval(ofMigrating: target.candidate, to: app) != nil
        if run.client == .policy, !isApproved {
            throw SetupError(.userRestricted, "no rule approves taking over \(target.item.name) without a person")
        }
        // The app has used it all along: there is nothing to confirm.
        var item = target.item
        item.setupOptions = []
        let identity = offer.address.flatMap { address in
            offer.device.map { PairedIdentity(address: address, adapter: offer.adapter, device: $0, wasPairedBefore: true) }
        }
        return registry.ledger.adding(
            offer, item: item, identity: identity, awareDevice: item.migration?.wifiAwarePairedDeviceID,
            traits: target.candidate.advertisement.map { Accessory.Traits($0) } ?? Accessory.Traits(), to: app,
            user: user, time: try services.time.limit(item.end.map { [$0] } ?? []), grantID: try registry.nextGrantID(),
            now: services.clock.now)
    }

    // MARK: Names and revocations

    /// - Returns: the event for the machine.
    func rename(_ id: AccessoryID, _ name: String, by requester: Requester) -> SetupMachine.Event {
        guard let granted = registry.ledger.granted(id, to: app) else { return .accessoryGone }
        do {
            try services.access.rename(
                granted.accessory, to: name, withNetworkOf: run.renamesNetwork ? granted.grant : nil,
                reason: "renamed by the person", by: requester)
            return .renamed
        } catch {
            return .renameFailed(error.message)
        }
    }

    /// Revokes the grant of a run that failed.
    func revokeFailed(_ id: AccessoryID, by requester: Requester) {
        guard let grant = registry.ledger.grant(of: id, to: app) else { return }
        do {
            try services.access.revoke(grant, reason: "not authorized", by: requester)
        } catch {
            services.log.error("could not roll back the grant", metadata: ["error": "\(error)"])
        }
    }
}

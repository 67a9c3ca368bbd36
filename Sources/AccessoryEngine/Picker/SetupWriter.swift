// SPDX-License-Identifier: Apache-2.0
// What a picker run writes down: the grant of what was set up, known accessories that are taken over, names, and what
// is taken back. Rules, grants and accessories may have changed while the person and the radio were at it, so
// everything is asked once more.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

struct SetupWriter {
    let book: Book
    let bonds: BondKeeper
    let access: AccessChanges
    let radio: any Radio
    let sessions: Sessions
    let news: News
    let clock: any EngineClock
    let log: Logger

    // MARK: Setting up

    /// Writes the grant of what was picked.
    ///
    /// - Parameter intent: what was noted before the pairing; it ends in the same transaction.
    /// - Returns: what the machine is to be told.
    func store(
        _ offer: Offer, _ identity: PairedIdentity?, _ name: String?, _ run: PickerRun, _ intent: BondIntent?,
        by requester: Requester
    ) -> SetupMachine.Event {
        do {
            let (steps, accessory) = try change(offer, identity, name, run)
            // The grant and the end of the intent are one transaction: after a power cut there is either both or
            // neither.
            let finished = intent.map { [$0] } ?? []
            var line: AuditWriter.Line?
            if case .authorization = run.request {
                line = AuditWriter.Line(.updated, app: run.session.app.id, accessory: accessory, why: "another descriptor")
            }
            try book.change(steps, finishing: finished, line: line, reason: "picked", by: requester) {
                bonds.written([], finished: finished)
            }
            if let name, let peer = book.ledger.accessories[accessory]?.peer { radio.setAlias(peer, name) }
            return .stored(accessory)
        } catch {
            log.error("the grant could not be written", metadata: ["error": "\(error)"])
            return .storeFailed(error as? SetupError ?? SetupError(.unknown, "the grant could not be written: \(error)"))
        }
    }

    /// What a picked offer changes.
    private func change(_ offer: Offer, _ identity: PairedIdentity?, _ name: String?, _ run: PickerRun) throws -> (
        steps: [Ledger.Step], accessory: AccessoryID
    ) {
        let item = run.item(of: offer)
        let app = run.session.app.id
        let traits = run.traits(of: offer)
        try refuseDenied(run.sighting(of: offer), app)
        let awareDevice = offer.aware == nil ? nil : try book.nextAwareDevice()
        if case .authorization(let id) = run.request {
            // What was taken away meanwhile is not given back.
            guard let granted = book.ledger.granted(id, to: app) else {
                throw SetupError(.userRestricted, "the accessory was taken away from \(app) meanwhile")
            }
            let steps = book.ledger.upgrading(
                granted, to: item.descriptor, offer: offer, identity: identity, awareDevice: awareDevice, traits: traits)
            return (steps, id)
        }
        if let shared = offer.shared, book.ledger.accessories[shared] == nil {
            throw SetupError(.connectionFailed, "the accessory was removed meanwhile: try again")
        }
        return book.ledger.adding(
            offer, item: item, identity: identity, name: name, awareDevice: awareDevice, traits: traits, to: app,
            grantID: try book.nextGrantID(), now: clock.now)
    }

    /// By what is in range; what the store knows besides is held against the rules when the grant is written.
    private func refuseDenied(_ sighting: Sighting, _ app: AppID) throws(SetupError) {
        guard let denial = book.policy.denial(of: sighting, to: app) else { return }
        throw SetupError(.userRestricted, "rule \(denial.name) in \(denial.source) denies it")
    }

    // MARK: Taking over

    /// Takes a known accessory over, and tells the app what became of it.
    func migrate(_ target: PickerRun.MigrationTarget, _ run: PickerRun, by requester: Requester) {
        do {
            if target.evidence == .contradicts {
                throw SetupError(.connectionFailed, "\(target.item.name) is not what the item's descriptor looks for")
            }
            let change = try change(of: target, run)
            try book.change(change.steps, reason: "migrated", by: requester)
            report(.success(change.accessory), run)
        } catch {
            log.error("an accessory could not be migrated", metadata: ["error": "\(error)"])
            report(.failure(error as? SetupError ?? SetupError(.unknown, "the grant could not be written: \(error)")), run)
        }
    }

    /// Reports the outcome of one migration to the app.
    func report(_ outcome: Result<AccessoryID, SetupError>, _ run: PickerRun) {
        let session = run.session
        guard session.state == .active else { return }
        var event = SessionEvent(.migrationComplete, picker: run.id)
        switch outcome {
        case .success(let id): event.accessory = book.ledger.granted(id, to: session.app.id)
        case .failure(let error): event.error = error
        }
        news.tell(.event(event, in: session))
        if event.error == nil {
            sessions.tell(session.app.id, SessionEvent(.accessoryAdded, accessory: event.accessory), but: session)
        }
    }

    private func change(of target: PickerRun.MigrationTarget, _ run: PickerRun) throws -> (
        steps: [Ledger.Step], accessory: AccessoryID
    ) {
        let app = run.session.app.id
        let offer = target.offer
        if let peer = offer.peer {
            guard radio.bond(with: peer) != nil else {
                throw SetupError(.connectionFailed, "Bluetooth has lost the pairing with \(target.item.name)")
            }
            guard bonds.intent(with: peer) == nil else {
                throw SetupError(.connectionFailed, "the pairing with \(target.item.name) is being removed")
            }
        }
        try refuseDenied(target.sighting, app)
        let isApproved = target.evidence == .fits && book.policy.approval(ofMigrating: target.sighting, to: app) != nil
        if run.client == .policy, !isApproved {
            throw SetupError(.userRestricted, "no rule approves that \(target.item.name) is taken over without a person")
        }
        // The app has used it all along: there is nothing to confirm.
        var item = target.item
        item.setupOptions = []
        let identity = offer.address.flatMap { address in
            offer.device.map { PairedIdentity(address: address, adapter: offer.adapter, device: $0, wasPairedBefore: true) }
        }
        return book.ledger.adding(
            offer, item: item, identity: identity, awareDevice: item.migration?.wifiAwarePairedDeviceID,
            traits: target.sighting.advertisement.map { Accessory.Traits($0) } ?? Accessory.Traits(), to: app,
            grantID: try book.nextGrantID(), now: clock.now)
    }

    // MARK: Names, and what is taken back

    /// - Returns: what the machine is to be told.
    func rename(_ id: AccessoryID, _ name: String, _ run: PickerRun, by requester: Requester) -> SetupMachine.Event {
        guard let granted = book.ledger.granted(id, to: run.session.app.id) else { return .accessoryGone }
        do {
            try access.rename(
                granted.accessory, to: name, withNetworkOf: run.renamesNetwork ? granted.grant : nil,
                reason: "renamed by the person", by: requester)
            return .renamed
        } catch {
            return .renameFailed(error.message)
        }
    }

    /// Takes back what was given before the run failed.
    func takeBack(_ id: AccessoryID, _ run: PickerRun, by requester: Requester) {
        guard let grant = book.ledger.grant(of: id, to: run.session.app.id) else { return }
        do {
            try access.revoke(grant, reason: "not authorized", by: requester)
        } catch {
            log.error("the grant could not be taken back", metadata: ["error": "\(error)"])
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// The second half of a run, around the grant: the person's name for the accessory, the app's confirmation, the classic
// side, and accessories that are taken over from before.

internal import AccessoryModel

extension SetupMachine {
    /// A picked (and paired, where needed) accessory is named, or stored.
    mutating func keep(_ offer: Offer, _ identity: PairedIdentity?) -> [Effect] {
        // With the app's confirmation still to come, the name is asked for afterwards: the set-up view follows the
        // confirmation.
        guard offer.setup.contains(.rename), !offer.setup.contains(.confirmAuthorization), offer.shared == nil else {
            return store(offer, identity, name: nil)
        }
        state = .naming(Naming(subject: .new(identity), offer: offer))
        return [.emit(.pickerSetupRename)]
    }

    private mutating func store(_ offer: Offer, _ identity: PairedIdentity?, name: String?) -> [Effect] {
        state = .storing(offer, identity)
        return [.store(offer, identity, name: name)]
    }

    mutating func storing(_ offer: Offer, _ identity: PairedIdentity?, _ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .stored(let accessory):
            guard case .discovery = purpose else { return finish(.done) }
            guard offer.setup.contains(.confirmAuthorization) else {
                return [.emit(.accessoryAdded(accessory))] + complete(accessory, offer)
            }
            state = .confirming(Authorization(accessory: accessory, offer: offer))
            return [.emit(.accessoryAdded(accessory))]
        case .storeFailed(let reason):
            let undoing = identity.map(Self.undoing) ?? []
            guard offer.setup.contains(.pickSeveral), case .discovery = purpose else { return undoing + finish(reason) }
            return undoing + [.emit(.pickerSetupFailed(reason))] + searchOn(after: reason)
        // The person has decided and the accessory agreed: nothing of this takes it back.
        case .cancelled, .calledOff, .deadline, .discoveryFinished, .radioLost, .appGone, .pickerGone, .accessoryGone: return []
        case .offersChanged, .prompted, .bridgingStarted: return []
        default: throw event.refusal
        }
    }

    /// The accessory is the app's: the run ends, or goes on for more.
    private mutating func complete(_ accessory: AccessoryID, _ offer: Offer) -> [Effect] {
        let outcome = Outcome.added(accessory, finishInApp: offer.setup.contains(.finishInApp))
        guard offer.setup.contains(.pickSeveral) else { return conclude(outcome) }
        added.append(outcome)
        return searchOn(after: nil)
    }

    /// The run goes on; its time begins anew.
    private mutating func searchOn(after failure: SetupError?) -> [Effect] {
        state = .discovering(Discovery(hasOffered: true, deadlineRuns: isBounded, failure: failure))
        return [.startScan] + (isBounded ? [.startDeadline] : [])
    }

    /// Migrations that ride along happen now, then the run ends.
    mutating func conclude(_ outcome: Outcome) -> [Effect] {
        guard case .discovery(_, migrates: true) = purpose else { return finish(outcome) }
        state = .migrating(outcome)
        return [.migrate]
    }

    // MARK: The app's confirmation

    mutating func confirming(_ authorization: Authorization, _ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .authorizationFinished(bridges: false, unseen: nil): return confirmed(authorization)
        case .authorizationFinished(let bridges, unseen: nil): return authorize(authorization, bridges)
        case .authorizationFinished(let bridges, let unseen?):
            var asked = authorization
            asked.prompt = .network(unseen)
            state = .consenting(asked, bridges: bridges)
            return []
        default: return try waiting(authorization, event)
        }
    }

    /// The person is asked about the network that the app has named.
    mutating func consenting(_ authorization: Authorization, _ bridges: Bool, _ event: Event) throws(Refusal) -> [Effect] {
        guard case .answered(let answer) = event else { return try waiting(authorization, event) }
        guard case .network(let network) = authorization.prompt, let prompt = authorization.prompt else { throw .notPrompted }
        try Self.check(answer, to: prompt)
        var answered = authorization
        answered.prompt = nil
        guard answer == .reject else { return authorize(answered, bridges) }
        let failure = SetupError(.userCancelled, "the person declined the network \(network)")
        answered.failure = failure
        state = .confirming(answered)
        return [.emit(.pickerSetupFailed(failure))]
    }

    private mutating func authorize(_ authorization: Authorization, _ bridges: Bool) -> [Effect] {
        state = .bridging(authorization)
        return (bridges ? [.emit(.pickerSetupBridging)] : []) + [.authorize(authorization.accessory, bridges: bridges)]
    }

    /// The accessory waits for the app's confirmation, or that for the person.
    private mutating func waiting(_ authorization: Authorization, _ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .cancelled, .calledOff: return [.remove(authorization.accessory)] + finish(Self.cancellation(event))
        case .pickerGone: return [.remove(authorization.accessory)] + finish(Self.pickerGone)
        case .accessoryGone: return finish(SetupError(.connectionFailed, "the app ended the authorization of the accessory"))
        // The accessory goes on waiting: the app may finish when it is back.
        case .appGone: return finish(Self.appGone)
        case .deadline, .discoveryFinished, .radioLost, .offersChanged, .prompted, .bridgingStarted: return []
        default: throw event.refusal
        }
    }

    private mutating func confirmed(_ authorization: Authorization) -> [Effect] {
        let offer = authorization.offer
        guard offer.setup.contains(.rename), offer.shared == nil else { return complete(authorization.accessory, offer) }
        state = .naming(Naming(subject: .stored(authorization.accessory), offer: offer))
        return [.emit(.pickerSetupRename)]
    }

    mutating func bridging(_ authorization: Authorization, _ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .authorized: return confirmed(authorization)
        case .authorizationFailed(let failure):
            var waiting = authorization
            waiting.prompt = nil
            waiting.failure = failure
            // The app may finish again, with another identifier or without one, or fail it.
            state = .confirming(waiting)
            return [.emit(.pickerSetupFailed(failure))]
        case .cancelled, .calledOff: return [.cancelPairing, .remove(authorization.accessory)] + finish(Self.cancellation(event))
        case .pickerGone: return [.cancelPairing, .remove(authorization.accessory)] + finish(Self.pickerGone)
        case .appGone: return [.cancelPairing] + finish(Self.appGone)
        case .accessoryGone: return [.cancelPairing] + finish(Self.accessoryGone)
        case .prompted(let prompt):
            var asked = authorization
            asked.prompt = prompt
            state = .bridging(asked)
            return []
        case .answered(let answer):
            guard let prompt = authorization.prompt, prompt.needsAnswer else { throw .notPrompted }
            try Self.check(answer, to: prompt)
            var answered = authorization
            answered.prompt = nil
            state = .bridging(answered)
            return [.answer(answer)]
        // The radio answers for the attempt itself.
        case .deadline, .discoveryFinished, .radioLost, .offersChanged, .bridgingStarted: return []
        default: throw event.refusal
        }
    }

    // MARK: Names

    mutating func naming(_ naming: Naming, _ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .named(let name):
            switch naming.subject {
            case .new(let identity): return store(naming.offer, identity, name: name)
            case .stored(let accessory):
                state = .renaming(naming)
                return [.rename(accessory, name)]
            }
        case .cancelled, .calledOff: return unnamed(naming, Self.cancellation(event))
        case .appGone: return unnamed(naming, Self.appGone)
        case .pickerGone: return unnamed(naming, Self.pickerGone)
        case .accessoryGone:
            guard case .stored = naming.subject else { throw .notNow }
            return finish(Self.accessoryGone)
        case .deadline, .discoveryFinished, .radioLost, .offersChanged, .prompted, .bridgingStarted: return []
        default: throw event.refusal
        }
    }

    /// No name was given. In a set-up the accessory keeps the one it has: the person has decided to have it.
    private mutating func unnamed(_ naming: Naming, _ reason: SetupError) -> [Effect] {
        switch naming.subject {
        case .new(let identity): return store(naming.offer, identity, name: nil)
        case .stored(let accessory):
            if case .rename = purpose { return finish(reason) }
            return complete(accessory, naming.offer)
        }
    }

    mutating func renaming(_ naming: Naming, _ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .renamed:
            guard case .stored(let accessory) = naming.subject, case .discovery = purpose else { return finish(.done) }
            return complete(accessory, naming.offer)
        case .renameFailed(let reason):
            var again = naming
            again.failure = SetupError(.unknown, "the name could not be written: \(reason)")
            state = .naming(again)
            return []
        case .cancelled, .calledOff, .deadline, .discoveryFinished, .radioLost, .appGone, .pickerGone: return []
        case .accessoryGone: return finish(Self.accessoryGone)
        case .offersChanged, .prompted, .bridgingStarted: return []
        default: throw event.refusal
        }
    }

    // MARK: Migration

    mutating func informing(_ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .answered(.accept):
            state = .migrating(.done)
            return [.migrate]
        case .answered(.reject), .cancelled, .calledOff: return finish(Self.cancellation(event))
        case .answered: throw .wrongAnswer(prompt: .consent)
        case .radioLost(let reason): return finish(SetupError(.pickerRestricted, reason))
        case .appGone: return finish(Self.appGone)
        case .pickerGone: return finish(Self.pickerGone)
        // Silence is not consent: the page stays until the person says something.
        case .deadline, .accessoryGone: return []
        case .discoveryFinished, .offersChanged, .prompted, .bridgingStarted: return []
        default: throw event.refusal
        }
    }

    mutating func renewing(_ accessory: AccessoryID, _ offer: Offer, _ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .picked(offer.id):
            state = .storing(offer, nil)
            return [.renew(accessory)]
        case .picked(let id): throw .notOffered(id)
        case .cancelled, .calledOff: return finish(Self.cancellation(event))
        case .appGone: return finish(Self.appGone)
        case .pickerGone: return finish(Self.pickerGone)
        case .accessoryGone: return finish(Self.accessoryGone)
        // No radio is needed, and silence is not consent.
        case .deadline, .discoveryFinished, .radioLost, .offersChanged, .prompted, .bridgingStarted: return []
        default: throw event.refusal
        }
    }

    mutating func migrating(_ outcome: Outcome, _ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .migrated: return finish(outcome)
        case .cancelled, .calledOff, .deadline, .discoveryFinished, .radioLost, .appGone, .pickerGone, .accessoryGone: return []
        case .offersChanged, .prompted, .bridgingStarted: return []
        default: throw event.refusal
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// The first half of a run: searching, picking, pairing, and calling a pairing off.

internal import AccessoryModel

extension SetupMachine {
    mutating func discovering(_ discovery: Discovery, _ event: Event) throws(Refusal) -> [Effect] {
        var discovery = discovery
        switch event {
        case .offersChanged(let offers):
            discovery.offers = offers
            discovery.hasOffered = discovery.hasOffered || !offers.isEmpty
            var effects: [Effect] = []
            // The deadline passed while there was something to pick, and now there is nothing: search for as long
            // again.
            if offers.isEmpty, isBounded, !discovery.deadlineRuns {
                discovery.deadlineRuns = true
                effects = [.startDeadline]
            }
            state = .discovering(discovery)
            return effects
        case .picked(let id):
            guard let offer = discovery.offers.first(where: { $0.id == id }) else { throw .notOffered(id) }
            let stop: [Effect] = discovery.deadlineRuns ? [.stopDeadline] : []
            guard offer.needsPairing else { return stop + [.stopScan] + keep(offer, nil) }
            state = .pairing(Pairing(offer: offer, offers: discovery.offers))
            return stop + [.emit(.pickerSetupPairing), .pair(offer)]
        case .deadline:
            guard discovery.deadlineRuns else { throw .notNow }
            discovery.deadlineRuns = false
            state = .discovering(discovery)
            return discovery.offers.isEmpty || !added.isEmpty ? end(scanning: discovery, Self.nothingFound) : []
        case .discoveryFinished:
            return discovery.hasOffered && added.isEmpty ? [] : end(scanning: discovery, Self.nothingFound)
        case .cancelled, .calledOff: return end(scanning: discovery, Self.cancellation(event))
        case .radioLost(let reason): return end(scanning: discovery, SetupError(.pickerRestricted, reason))
        case .extensionEnded(let error): return end(scanning: discovery, error)
        case .appGone: return end(scanning: discovery, Self.appGone)
        case .pickerGone: return end(scanning: discovery, Self.pickerGone)
        case .accessoryGone: return end(scanning: discovery, Self.accessoryGone)
        default: throw event.refusal
        }
    }

    mutating func pairing(_ pairing: Pairing, _ event: Event) throws(Refusal) -> [Effect] {
        var pairing = pairing
        switch event {
        case .offersChanged(let offers):
            pairing.offers = offers
            state = .pairing(pairing)
            return []
        case .prompted(let prompt):
            pairing.prompt = prompt
            state = .pairing(pairing)
            return []
        case .answered(let answer):
            guard let prompt = pairing.prompt, prompt.needsAnswer else { throw .notPrompted }
            try Self.check(answer, to: prompt)
            pairing.prompt = nil
            state = .pairing(pairing)
            return [.answer(answer)]
        case .bridgingStarted:
            guard !pairing.isBridging else { throw .notNow }
            pairing.isBridging = true
            pairing.prompt = nil
            state = .pairing(pairing)
            return [.emit(.pickerSetupBridging)]
        case .paired(let identity):
            return [.stopScan] + keep(pairing.offer, identity)
        case .pairingFailed(let failure):
            let searching = pairing.offers.isEmpty && isBounded
            state = .discovering(
                Discovery(offers: pairing.offers, hasOffered: true, deadlineRuns: searching, failure: failure))
            return (searching ? [.startDeadline] : []) + [.emit(.pickerSetupFailed(failure))]
        case .cancelled, .calledOff: return unwind(Self.cancellation(event))
        case .radioLost(let reason): return unwind(SetupError(.connectionFailed, reason))
        case .appGone: return unwind(Self.appGone)
        case .pickerGone: return unwind(Self.pickerGone)
        case .accessoryGone: return unwind(Self.accessoryGone)
        // A timer that fired just before it was stopped; an app that has seen enough.
        case .deadline, .discoveryFinished: return []
        default: throw event.refusal
        }
    }

    mutating func unwinding(_ error: SetupError, _ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .paired(let identity):
            // It succeeded while it was being called off.
            return Self.undoing(identity) + finish(error)
        case .pairingFailed: return finish(error)
        // The run is ending already, with the first reason.
        case .cancelled, .calledOff, .deadline, .discoveryFinished, .radioLost, .appGone, .pickerGone, .accessoryGone: return []
        case .offersChanged, .prompted, .bridgingStarted: return []
        default: throw event.refusal
        }
    }

    static func check(_ answer: PromptAnswer, to prompt: PairingPrompt) throws(Refusal) {
        guard prompt.fits(answer) else { throw .wrongAnswer(prompt: prompt) }
    }

    private static let nothingFound = SetupError(.discoveryTimeout, "no accessory for this app was found in time")

    private mutating func end(scanning discovery: Discovery, _ error: SetupError) -> [Effect] {
        (discovery.deadlineRuns ? [.stopDeadline] : []) + [.stopScan] + finish(error)
    }

    private mutating func unwind(_ error: SetupError) -> [Effect] {
        state = .unwinding(error)
        return [.stopScan, .cancelPairing]
    }
}

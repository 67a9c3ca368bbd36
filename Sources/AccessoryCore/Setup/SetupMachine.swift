// One picker run as a value: events in, effects out; no clock, no radio, no bus. Every event is accepted or refused in every state,
// and what the picker answers is checked against what it was shown.

public import AccessoryModel

/// The setup of one accessory, from the empty picker to the grant.
public struct SetupMachine: Hashable, Sendable {
    /// What happens to a run.
    public enum Event: Hashable, Sendable {
        case begin
        /// All offers, as they are now.
        case offersChanged([Offer])
        /// The person picked this offer.
        case picked(String)
        /// The person answered the prompt.
        case answered(PromptAnswer)
        /// The person gave up.
        case cancelled
        /// The discovery time is over.
        case deadline
        case radioLost(String)
        /// The app's connection or session ended.
        case appGone
        /// No picker program is left to show this to a person.
        case pickerGone
        case prompted(PairingPrompt)
        case paired(PairedIdentity)
        case pairingFailed(String)
        case stored(AccessoryID)
        case storeFailed(String)
    }

    /// What is to be done.
    public enum Effect: Hashable, Sendable {
        case startScan
        case stopScan
        case startDeadline
        case stopDeadline
        /// Write the intent down, then pair. Answered by exactly one `paired` or `pairingFailed`, whatever happens meanwhile.
        case pair(Offer)
        case answer(PromptAnswer)
        case cancelPairing
        /// Undo a bond that nobody will be granted.
        case removeBond(PairedIdentity)
        /// Write the grant. Answered by `stored` or `storeFailed`.
        case store(Offer, PairedIdentity?)
        case emit(AppEvent)
        /// The run is over.
        case end
    }

    /// What the app is told.
    public enum AppEvent: Hashable, Sendable {
        case pickerDidPresent
        case pickerSetupPairing
        case pickerSetupFailed(SetupError)
        case accessoryAdded(AccessoryID)
        case pickerDidDismiss(SetupError?)
    }

    /// Why an event was refused; the machine has not changed.
    public enum Refusal: Error, Hashable, Sendable {
        case notOffered(String)
        case notPrompted
        case wrongAnswer(prompt: PairingPrompt)
        case notNow
        case finished
    }

    public enum State: Hashable, Sendable {
        case created
        case discovering(Discovery)
        case pairing(Pairing)
        /// Pairing is being called off; its end is awaited so that no bond survives unseen.
        case unwinding(SetupError)
        case storing(Offer, PairedIdentity?)
        case finished(Outcome)
    }

    public struct Discovery: Hashable, Sendable {
        public var offers: [Offer] = []
        /// Whether the deadline's timer runs. It does as long as nothing is offered.
        public var deadlineRuns = true
        /// The last attempt to pair failed, and the person was told.
        public var failure: SetupError?
    }

    public struct Pairing: Hashable, Sendable {
        public var offer: Offer
        public var offers: [Offer]
        public var prompt: PairingPrompt?
    }

    public enum Outcome: Hashable, Sendable {
        case added(AccessoryID)
        case ended(SetupError?)
    }

    public private(set) var state: State = .created
    private let isBounded: Bool

    /// - Parameter isBounded: whether discovery ends by itself.
    public init(isBounded: Bool) {
        self.isBounded = isBounded
    }

    public var isFinished: Bool { if case .finished = state { true } else { false } }

    /// Whether this state needs the radio to scan. Pairing does: an accessory that is no longer seen may be dropped by BlueZ.
    public var needsScan: Bool {
        switch state {
        case .discovering, .pairing: true
        case .created, .unwinding, .storing, .finished: false
        }
    }

    // MARK: Events

    /// - Throws: `Refusal`; the state is then as before.
    public mutating func handle(_ event: Event) throws(Refusal) -> [Effect] {
        switch state {
        case .created: try created(event)
        case .discovering(let discovery): try discovering(discovery, event)
        case .pairing(let pairing): try self.pairing(pairing, event)
        case .unwinding(let error): try unwinding(error, event)
        case .storing(let offer, let identity): try storing(offer, identity, event)
        case .finished: throw .finished
        }
    }

    private mutating func created(_ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .begin:
            state = .discovering(Discovery(deadlineRuns: isBounded))
            return [.startScan] + (isBounded ? [.startDeadline] : []) + [.emit(.pickerDidPresent)]
        case .cancelled: return finish(SetupError(.userCancelled, "the person cancelled"))
        case .radioLost(let reason): return finish(SetupError(.pickerRestricted, reason))
        case .appGone: return finish(SetupError(.invalidated, "the app is gone"))
        case .pickerGone: return finish(Self.pickerGone)
        case .deadline, .offersChanged, .prompted, .paired, .pairingFailed, .stored, .storeFailed, .picked, .answered:
            throw .notNow
        }
    }

    private mutating func discovering(_ discovery: Discovery, _ event: Event) throws(Refusal) -> [Effect] {
        var discovery = discovery
        switch event {
        case .offersChanged(let offers):
            discovery.offers = offers
            var effects: [Effect] = []
            // The deadline passed while there was something to pick, and now there is nothing: search for as long again.
            if offers.isEmpty, isBounded, !discovery.deadlineRuns {
                discovery.deadlineRuns = true
                effects = [.startDeadline]
            }
            state = .discovering(discovery)
            return effects
        case .picked(let id):
            guard let offer = discovery.offers.first(where: { $0.id == id }) else { throw .notOffered(id) }
            let stop: [Effect] = discovery.deadlineRuns ? [.stopDeadline] : []
            guard offer.needsPairing else {
                state = .storing(offer, nil)
                return stop + [.stopScan, .store(offer, nil)]
            }
            state = .pairing(Pairing(offer: offer, offers: discovery.offers))
            return stop + [.emit(.pickerSetupPairing), .pair(offer)]
        case .deadline:
            guard discovery.deadlineRuns else { throw .notNow }
            discovery.deadlineRuns = false
            guard discovery.offers.isEmpty else {
                state = .discovering(discovery)
                return []
            }
            state = .discovering(discovery)
            return end(scanning: discovery, SetupError(.discoveryTimeout, "no accessory of this app was found in time"))
        case .cancelled: return end(scanning: discovery, SetupError(.userCancelled, "the person cancelled"))
        case .radioLost(let reason): return end(scanning: discovery, SetupError(.pickerRestricted, reason))
        case .appGone: return end(scanning: discovery, SetupError(.invalidated, "the app is gone"))
        case .pickerGone: return end(scanning: discovery, Self.pickerGone)
        case .answered: throw .notPrompted
        case .begin, .prompted, .paired, .pairingFailed, .stored, .storeFailed: throw .notNow
        }
    }

    private mutating func pairing(_ pairing: Pairing, _ event: Event) throws(Refusal) -> [Effect] {
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
            switch (prompt, answer) {
            case (_, .reject), (.confirmPasskey, .accept), (.consent, .accept), (.enterPasskey, .passkey), (.enterPIN, .pin): break
            default: throw .wrongAnswer(prompt: prompt)
            }
            pairing.prompt = nil
            state = .pairing(pairing)
            return [.answer(answer)]
        case .paired(let identity):
            state = .storing(pairing.offer, identity)
            return [.stopScan, .store(pairing.offer, identity)]
        case .pairingFailed(let reason):
            let failure = SetupError(.connectionFailed, reason)
            let searching = pairing.offers.isEmpty && isBounded
            state = .discovering(Discovery(offers: pairing.offers, deadlineRuns: searching, failure: failure))
            return (searching ? [.startDeadline] : []) + [.emit(.pickerSetupFailed(failure))]
        case .cancelled: return unwind(SetupError(.userCancelled, "the person cancelled"))
        case .radioLost(let reason): return unwind(SetupError(.connectionFailed, reason))
        case .appGone: return unwind(SetupError(.invalidated, "the app is gone"))
        case .pickerGone: return unwind(Self.pickerGone)
        // A timer that fired just before it was stopped.
        case .deadline: return []
        case .picked, .begin, .stored, .storeFailed: throw .notNow
        }
    }

    private mutating func unwinding(_ error: SetupError, _ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .paired(let identity):
            // It succeeded while it was being called off.
            return Self.undoing(identity) + finish(error)
        case .pairingFailed: return finish(error)
        // The run is ending already, with the first reason.
        case .cancelled, .deadline, .radioLost, .appGone, .pickerGone: return []
        case .offersChanged, .prompted: return []
        case .answered: throw .notPrompted
        case .picked, .begin, .stored, .storeFailed: throw .notNow
        }
    }

    private mutating func storing(_ offer: Offer, _ identity: PairedIdentity?, _ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .stored(let accessory):
            state = .finished(.added(accessory))
            return [.emit(.accessoryAdded(accessory)), .emit(.pickerDidDismiss(nil)), .end]
        case .storeFailed(let reason):
            return (identity.map(Self.undoing) ?? []) + finish(SetupError(.unknown, "the grant could not be written: \(reason)"))
        // The person has decided and the accessory agreed: nothing of this takes it back.
        case .cancelled, .deadline, .radioLost, .appGone, .pickerGone: return []
        case .offersChanged, .prompted: return []
        case .answered: throw .notPrompted
        case .picked, .begin, .paired, .pairingFailed: throw .notNow
        }
    }

    // MARK: Ends

    /// A bond that is older than this run is somebody else's.
    private static func undoing(_ identity: PairedIdentity) -> [Effect] {
        identity.wasPairedBefore ? [] : [.removeBond(identity)]
    }

    private static let pickerGone = SetupError(.userCancelled, "the picker is gone")

    private mutating func end(scanning discovery: Discovery, _ error: SetupError) -> [Effect] {
        (discovery.deadlineRuns ? [.stopDeadline] : []) + [.stopScan] + finish(error)
    }

    private mutating func unwind(_ error: SetupError) -> [Effect] {
        state = .unwinding(error)
        return [.stopScan, .cancelPairing]
    }

    private mutating func finish(_ error: SetupError?) -> [Effect] {
        state = .finished(.ended(error))
        return [.emit(.pickerDidDismiss(error)), .end]
    }
}

/// Who a device turned out to be once it was paired.
public struct PairedIdentity: Hashable, Sendable {
    /// The identity address, which outlives private ones.
    public let address: BluetoothAddress
    public let device: RadioDeviceID
    /// The bond is older than this run, so failing does not undo it.
    public let wasPairedBefore: Bool

    public init(address: BluetoothAddress, device: RadioDeviceID, wasPairedBefore: Bool) {
        self.address = address
        self.device = device
        self.wasPairedBefore = wasPairedBefore
    }
}

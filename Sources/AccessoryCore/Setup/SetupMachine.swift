// SPDX-License-Identifier: Apache-2.0
// One picker run as a value: events in, effects out; no clock, no radio, no bus. Every event is accepted or refused in
// every state, and answers must fit the prompts that were shown. The states of a run that searches and
// pairs are in SetupMachine+Discovery.swift, those around the grant (names, the app's confirmation, migration) in
// SetupMachine+Completion.swift.

public import AccessoryModel

/// The setup of one accessory, from the empty picker to the grant; or one of the smaller requests that need a person.
public struct SetupMachine: Hashable, Sendable {
    /// The purpose of a run.
    public enum Purpose: Hashable, Sendable {
        /// Search, pick, set up. Migrations that ride along happen once an accessory was set up.
        case discovery(isBounded: Bool, migrates: Bool)
        /// Search for one accessory of the app's and give it the side that a new descriptor asks for.
        case authorization(isBounded: Bool)
        /// Take known accessories over, if the person accepts it.
        case migration([Offer])
        /// Another name for an accessory.
        case rename(AccessoryID, Offer)
        /// More time for a grant that ends.
        case renewal(AccessoryID, Offer)
    }

    /// The events of a run. Each state handles some and refuses all others.
    public enum Event: Hashable, Sendable {
        /// The run begins. Accepted once, at first.
        case begin

        // The person
        /// This offer is picked.
        case picked(String)
        /// The answer to the prompt.
        case answered(PromptAnswer)
        /// A name.
        case named(String)
        /// The person gave up.
        case cancelled
        /// The app wants no more of its picker.
        case calledOff
        /// No picker program is left to show this to a person.
        case pickerGone

        // The app
        /// It wants no more discovery.
        case discoveryFinished
        /// The app has confirmed the accessory; `bridges` when the classic side is paired first, and a network for one
        /// that no person has seen.
        case authorizationFinished(bridges: Bool, unseen: SSID?)
        /// Its connection or session ended.
        case appGone
        /// Its accessory that this run is about was taken away.
        case accessoryGone

        // The radio, and time
        /// All offers, as they are now.
        case offersChanged([Offer])
        /// Pairing asks the person something, or shows it; replaces the prompt before.
        case prompted(PairingPrompt)
        /// Low energy is paired, classic follows.
        case bridgingStarted
        /// Pairing has succeeded, and this is who the accessory is.
        case paired(PairedIdentity)
        /// Pairing has failed or was called off.
        case pairingFailed(SetupError)
        /// The app's confirmation is on disk, with the classic side paired where it is to be.
        case authorized
        /// The classic side could not be paired, or the confirmation not be written.
        case authorizationFailed(SetupError)
        /// The radio that the run needs cannot be used any more.
        case radioLost(String)
        /// The discovery time is over.
        case deadline
        /// The app's extension has failed.
        case extensionEnded(SetupError)

        // The store
        /// The grant is on disk.
        case stored(AccessoryID)
        /// The grant could not be written, or may not be any more.
        case storeFailed(SetupError)
        /// The name is on disk.
        case renamed
        /// The name could not be written.
        case renameFailed(String)
        /// All migrations are written, or have failed with events of their own.
        case migrated

        /// Why it is refused in a state that does not know it.
        var refusal: Refusal { if case .answered = self { .notPrompted } else { .notNow } }
    }

    /// The effects to perform.
    public enum Effect: Hashable, Sendable {
        /// Have the radio search.
        case startScan
        case stopScan
        /// Begin the discovery time anew. `deadline` says that it is over.
        case startDeadline
        case stopDeadline
        /// Write the intent down, then pair. Answered by exactly one `paired` or `pairingFailed`, whatever happens
        /// meanwhile.
        case pair(Offer)
        /// Give the radio the person's answer to its prompt.
        case answer(PromptAnswer)
        /// Call the pairing off. Its end is still awaited.
        case cancelPairing
        /// Undo a bond without a grant.
        case removeBond(PairedIdentity)
        /// Write the grant, under the person's name for it if there is one. Answered by `stored` or `storeFailed`.
        case store(Offer, PairedIdentity?, name: String?)
        /// Do as the app has confirmed, and where `bridges`, pair the classic side first. Answered by `authorized` or
        /// `authorizationFailed`.
        case authorize(AccessoryID, bridges: Bool)
        /// Answered by `renamed` or `renameFailed`.
        case rename(AccessoryID, String)
        /// Give the app's grant its time again. Answered by `stored` or `storeFailed`.
        case renew(AccessoryID)
        /// Take the app's grant back.
        case remove(AccessoryID)
        /// Write the grants of all migrations. Answered by `migrated`.
        case migrate
        /// Publish an event for the app.
        case emit(AppEvent)
        /// The run is over.
        case end
    }

    /// The events for the app, in the words of `ASAccessoryEventType`.
    public enum AppEvent: Hashable, Sendable {
        case pickerDidPresent
        case pickerSetupPairing
        case pickerSetupBridging
        case pickerSetupRename
        case pickerSetupFailed(SetupError)
        case accessoryAdded(AccessoryID)
        /// Nil for a run that succeeded.
        case pickerDidDismiss(SetupError?)
    }

    /// Why an event was refused; the machine has not changed.
    public enum Refusal: Error, Hashable, Sendable {
        /// There is no such offer, or it has gone.
        case notOffered(String)
        /// Nothing was asked.
        case notPrompted
        /// The answer does not fit the question.
        case wrongAnswer(prompt: PairingPrompt)
        /// The state does not know the event.
        case notNow
        /// The run is over.
        case finished
    }

    /// How far the run is.
    public enum State: Hashable, Sendable {
        /// Nothing was begun.
        case created
        /// Searching, with or without something to pick.
        case discovering(Discovery)
        case pairing(Pairing)
        /// Pairing is being called off; its end is awaited so that no bond survives unseen.
        case unwinding(SetupError)
        /// The person is asked for a name.
        case naming(Naming)
        /// The picked (and paired, where needed) accessory is being stored.
        case storing(Offer, PairedIdentity?)
        /// The accessory waits for the app's confirmation.
        case confirming(Authorization)
        /// The app has confirmed, and the person is asked about the network that it names (`Authorization.prompt`).
        case consenting(Authorization, bridges: Bool)
        /// The app has confirmed, and classic is being paired.
        case bridging(Authorization)
        /// A name is being written.
        case renaming(Naming)
        /// The person is asked whether known accessories may be taken over.
        case informing([Offer])
        /// The person is asked whether a grant goes on.
        case renewing(AccessoryID, Offer)
        /// Known accessories are being taken over; the run then ends so.
        case migrating(Outcome)
        /// The run is over, and how.
        case finished(Outcome)
    }

    /// A search.
    public struct Discovery: Hashable, Sendable {
        /// The offers at this moment.
        public var offers: [Offer] = []
        /// Whether anything was ever offered.
        public var hasOffered = false
        /// Whether the deadline's timer runs: from the beginning until it fires, and again once all that was offered
        /// has gone.
        public var deadlineRuns = true
        /// The failure of the last attempt to pair, which is shown.
        public var failure: SetupError?
    }

    /// An accessory that is being paired.
    public struct Pairing: Hashable, Sendable {
        /// The offer that was picked.
        public var offer: Offer
        /// The offers meanwhile, for when the pairing fails.
        public var offers: [Offer]
        /// The prompt of pairing; nil for none, or after the answer.
        public var prompt: PairingPrompt?
        /// Low energy is paired, and the classic side has its turn.
        public var isBridging = false
    }

    /// A name that the person is asked for.
    public struct Naming: Hashable, Sendable {
        /// Whose name it is to be.
        public enum Subject: Hashable, Sendable {
            /// Paired (or not to be), and not stored yet.
            case new(PairedIdentity?)
            /// Stored.
            case stored(AccessoryID)
        }

        /// Whose name it is to be.
        public var subject: Subject
        /// The offer that was picked, or the accessory as one, to show.
        public var offer: Offer
        /// Why the last name could not be kept.
        public var failure: SetupError?
    }

    /// An accessory that is stored and waits for the app.
    public struct Authorization: Hashable, Sendable {
        /// The accessory; its grant is `awaitingAuthorization`.
        public var accessory: AccessoryID
        /// The offer that was picked, to show.
        public var offer: Offer
        /// The prompt of bridging, or the network to consent to.
        public var prompt: PairingPrompt?
        /// Why the last confirmation came to nothing; nil when there was none. The app may finish again.
        public var failure: SetupError?
    }

    /// How a run ends.
    public enum Outcome: Hashable, Sendable {
        /// An accessory was set up; the person goes on in the app where `finishInApp`.
        case added(AccessoryID, finishInApp: Bool)
        /// Everything else that was asked for was done.
        case done
        /// It ended early: the app gets this error with `pickerDidDismiss`.
        case ended(SetupError)
    }

    /// How far the run is.
    public internal(set) var state: State = .created
    /// The purpose of the run.
    public let purpose: Purpose
    /// Accessories that were set up, in a run that goes on after each (`pickSeveral`).
    public internal(set) var added: [Outcome] = []

    /// A run that `begin` starts.
    public init(_ purpose: Purpose) {
        self.purpose = purpose
    }

    /// Whether the run is over because the person cancelled it, or closed the picker.
    public var isCancelledByPerson: Bool {
        guard case .finished(.ended(let error)) = state else { return false }
        return error == Self.cancellation(.cancelled) || error == Self.pickerGone
    }

    /// Whether this state needs the radio to scan. Pairing does: an accessory that is no longer seen may be dropped by
    /// BlueZ.
    public var needsScan: Bool {
        switch state {
        case .discovering, .pairing: true
        case .created, .unwinding, .naming, .storing, .confirming, .consenting, .bridging, .renaming, .informing, .renewing,
            .migrating, .finished:
            false
        }
    }

    /// Whether an accessory is being paired for the first time; its classic side afterwards does not count.
    public var isPairing: Bool { if case .pairing = state { true } else { false } }

    /// The accessory whose authorization this run waits for.
    public var awaitedAuthorization: AccessoryID? {
        if case .confirming(let authorization) = state { authorization.accessory } else { nil }
    }

    /// Whether the accessory waits for the app's confirmation, or its effects are under way.
    public var isConfirmed: Bool {
        switch state {
        case .confirming, .consenting, .bridging: true
        default: false
        }
    }

    /// The accessory in the store that this run goes on with.
    public var accessory: AccessoryID? {
        switch state {
        case .confirming(let authorization), .consenting(let authorization, _), .bridging(let authorization):
            authorization.accessory
        case .naming(let naming), .renaming(let naming):
            if case .stored(let accessory) = naming.subject { accessory } else { nil }
        case .renewing(let accessory, _): accessory
        case .created, .discovering, .pairing, .unwinding, .storing, .informing, .migrating, .finished: nil
        }
    }

    /// Whether discovery ends by itself.
    var isBounded: Bool {
        switch purpose {
        case .discovery(let isBounded, _), .authorization(let isBounded): isBounded
        case .migration, .rename, .renewal: false
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
        case .naming(let naming): try self.naming(naming, event)
        case .storing(let offer, let identity): try storing(offer, identity, event)
        case .confirming(let authorization): try confirming(authorization, event)
        case .consenting(let authorization, let bridges): try consenting(authorization, bridges, event)
        case .bridging(let authorization): try bridging(authorization, event)
        case .renaming(let naming): try renaming(naming, event)
        case .informing: try informing(event)
        case .renewing(let accessory, let offer): try renewing(accessory, offer, event)
        case .migrating(let outcome): try migrating(outcome, event)
        case .finished: throw .finished
        }
    }

    private mutating func created(_ event: Event) throws(Refusal) -> [Effect] {
        switch event {
        case .begin:
            switch purpose {
            case .discovery, .authorization:
                state = .discovering(Discovery(deadlineRuns: isBounded))
                return [.startScan] + (isBounded ? [.startDeadline] : []) + [.emit(.pickerDidPresent)]
            case .migration(let offers):
                state = .informing(offers)
                return [.emit(.pickerDidPresent)]
            case .rename(let accessory, let offer):
                state = .naming(Naming(subject: .stored(accessory), offer: offer))
                return [.emit(.pickerDidPresent), .emit(.pickerSetupRename)]
            case .renewal(let accessory, let offer):
                state = .renewing(accessory, offer)
                return [.emit(.pickerDidPresent)]
            }
        case .cancelled, .calledOff: return finish(Self.cancellation(event))
        case .radioLost(let reason): return finish(SetupError(.pickerRestricted, reason))
        case .appGone: return finish(Self.appGone)
        case .pickerGone: return finish(Self.pickerGone)
        case .accessoryGone: return finish(Self.accessoryGone)
        default: throw event.refusal
        }
    }

    // MARK: Ends

    /// An older bond belongs to another program.
    static func undoing(_ identity: PairedIdentity) -> [Effect] {
        identity.wasPairedBefore ? [] : [.removeBond(identity)]
    }

    static let pickerGone = SetupError(.userCancelled, "the picker is gone")
    /// One error code for both ways to cancel: by the person, and by the app (`CancelPicker`).
    static func cancellation(_ event: Event) -> SetupError {
        SetupError(.userCancelled, event == .calledOff ? "the app cancelled the picker" : "the person cancelled")
    }
    static let accessoryGone = SetupError(.connectionFailed, "the accessory was removed in the meantime")
    static let appGone = SetupError(.invalidated, "the app is gone")

    /// A run in which accessories were set up ends with these, unless its app is gone.
    mutating func finish(_ error: SetupError) -> [Effect] {
        guard let last = added.last, error != Self.appGone else { return finish(.ended(error)) }
        return conclude(last)
    }

    mutating func finish(_ outcome: Outcome) -> [Effect] {
        state = .finished(outcome)
        if case .ended(let error) = outcome { return [.emit(.pickerDidDismiss(error)), .end] }
        return [.emit(.pickerDidDismiss(nil)), .end]
    }
}

/// Who a device turned out to be once it was paired.
public struct PairedIdentity: Hashable, Sendable {
    /// The identity address, which outlives private ones.
    public let address: BluetoothAddress
    /// The adapter that has the bond; nil when it is not known.
    public var adapter: BluetoothAddress?
    /// The radio's object for it.
    public let device: RadioDeviceID
    /// The bond is older than this run, so failing does not undo it.
    public let wasPairedBefore: Bool
    /// The address of the classic side, if that was paired too.
    public let classicAddress: BluetoothAddress?

    /// The identity, on the adapter that has the bond.
    public var peer: BluetoothPeer { BluetoothPeer(address, adapter: adapter) }

    /// Stores its arguments.
    public init(
        address: BluetoothAddress, adapter: BluetoothAddress? = nil, device: RadioDeviceID, wasPairedBefore: Bool,
        classicAddress: BluetoothAddress? = nil
    ) {
        self.address = address
        self.adapter = adapter
        self.device = device
        self.wasPairedBefore = wasPairedBefore
        self.classicAddress = classicAddress
    }
}

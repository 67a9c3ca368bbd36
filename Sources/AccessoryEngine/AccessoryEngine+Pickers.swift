// SPDX-License-Identifier: Apache-2.0
// The engine's requests about pickers: those of apps, which ask for one, those of the programs that show it, and the
// person's answers.

internal import AccessoryCore
public import AccessoryModel

extension AccessoryEngine {
    /// A program that shows pickers; one that is registered already may give itself another label.
    ///
    /// - Parameters:
    ///   - label: its name for people, which may be shown; nil keeps the present one.
    ///   - lease: seconds after which the registration ends unless renewed, see `Limits.pickerLease`; nil keeps the
    ///     present one, at first that it does not end.
    ///   - isUnattended: whether it answers without a person; nil keeps the present value, at first false.
    ///   - isStandby: whether no person can see it at the moment; nil keeps the present value, at first false.
    ///   - uid: its user; nil where that is not known.
    ///   - user: its user's account name, asked for of a program that is new.
    /// - Throws: `InvalidRequest` past `Limits.pickers`.
    public func registerPicker(
        _ client: ClientID, label: String? = nil, lease: Double? = nil, isUnattended: Bool? = nil, isStandby: Bool? = nil,
        uid: UInt32? = nil, user: @autoclosure () -> String = ""
    ) throws(SetupError) {
        try pickers.programs.register(
            client, label: label, lease: lease, isUnattended: isUnattended, isStandby: isStandby, uid: uid, user: user())
    }
    /// A picker program shows no more pickers; a picker that it shows goes to the next program, or ends (rule 17).
    public func unregisterPicker(_ client: ClientID) { pickers.programs.unregister(client) }

    /// Asks for a picker that finds accessories, takes known ones over, or both; without items, for one with the
    /// accessories that the app's extension finds (`ExtensionNotFound` where there is none).
    ///
    /// - Parameter answer: called once. The run comes between the checks and the first event. An error comes at once
    ///   (`InvalidRequest` for items that are not valid, `PickerAlreadyActive`, `PickerRestricted` without a radio or a
    ///   picker program, `UserRestricted` for items that the admin denies), unless `settings.waitForPicker` lets the
    ///   request wait for another app's picker to end, or for that which restricts pickers. After the person has
    ///   cancelled a picker of the app's, every request waits for a while. A request that waits ends with `Invalidated`
    ///   when its session does, with `UserCancelled` after `cancelPicker`, and with `UserRestricted` after `mute`.
    public func showPicker(
        _ session: Session, items: [DisplayItem], settings: PickerSettings,
        answer: @escaping (Result<PickerRun, SetupError>) -> Void
    ) {
        pickerQueue.request(session, "ShowPicker", wait: settings.waitForPicker, answer: answer) {
            [pickers] accepted throws(SetupError) in
            try pickers.show(session, items: items, settings: settings, accepted: accepted)
        }
    }

    /// Shows accessories that the app has looked at (rule 9).
    ///
    /// - Throws: `InvalidRequest` without such a picker, or for an accessory that was not discovered.
    public func updatePicker(_ session: Session, items: [DiscoveredItem]) throws(SetupError) {
        try pickers.update(session, items: items)
    }

    /// Ends a discovery that has offered nothing (rule 8).
    ///
    /// - Parameter accepted: called between the checks and the first event.
    /// - Throws: `InvalidRequest` without a picker that discovers.
    public func finishPickerDiscovery(_ session: Session, accepted: () -> Void = {}) throws(SetupError) {
        try pickers.finishDiscovery(session, accepted: accepted)
    }

    /// The app cancels its own picker of any kind, which ends as if the person had cancelled. A write in progress
    /// completes.
    ///
    /// - Parameter accepted: called between the checks and the first event.
    /// - Throws: `InvalidRequest` without a picker of this session, or a request for one that waits.
    public func cancelPicker(_ session: Session, accepted: () -> Void = {}) throws(SetupError) {
        if pickerQueue.callOff(session, accepted: accepted) { return }
        try pickers.callOff(session, accepted: accepted)
    }

    /// Has the person rename an accessory of the app's.
    ///
    /// - Parameter answer: as for `showPicker`; `InvalidRequest` for an accessory of another app.
    public func renameAccessory(
        _ session: Session, _ id: AccessoryID, options: RenameOptions,
        answer: @escaping (Result<PickerRun, SetupError>) -> Void
    ) {
        pickerQueue.request(session, "RenameAccessory", answer: answer) { [pickers] accepted throws(SetupError) in
            try pickers.renameAccessory(session, id, options: options, accepted: accepted)
        }
    }

    /// Has the person give an accessory of the app's the side that a new descriptor asks for.
    ///
    /// - Parameter answer: as for `showPicker`; `InvalidRequest` for an accessory of another app.
    public func updateAuthorization(
        _ session: Session, _ id: AccessoryID, descriptor: DiscoveryDescriptor,
        answer: @escaping (Result<PickerRun, SetupError>) -> Void
    ) {
        pickerQueue.request(session, "UpdateAuthorization", answer: answer) { [pickers] accepted throws(SetupError) in
            try pickers.updateAuthorization(session, id, descriptor: descriptor, accepted: accepted)
        }
    }

    /// Has the person give an app's grant that ends its time again, without pairing.
    ///
    /// - Parameter answer: as for `showPicker`; `InvalidRequest` for a grant that does not end, or whose accessory has
    ///   lost its pairing.
    public func renewAccess(
        _ session: Session, _ id: AccessoryID, options: RenewalOptions,
        answer: @escaping (Result<PickerRun, SetupError>) -> Void
    ) {
        pickerQueue.request(session, "RenewAccess", answer: answer) { [pickers] accepted throws(SetupError) in
            try pickers.renewAccess(session, id, options: options, accepted: accepted)
        }
    }

    /// The person picked an offer.
    ///
    /// - Parameter choice: the person's, about the terms.
    /// - Throws: `InvalidRequest` for an unknown offer, a choice that was not offered, or in another state.
    public func pick(_ run: PickerRun, offer: String, _ choice: PickChoice = PickChoice()) throws(SetupError) {
        try pickers.pick(run, offer: offer, choice)
    }

    /// The terms of the grant that a pick would make.
    public func terms(_ run: PickerRun, of offer: Offer) -> OfferTerms { run.terms(of: offer, ledger, policy) }

    /// The person answered a prompt.
    ///
    /// - Throws: `InvalidRequest` for an answer that fits no prompt.
    public func respond(_ run: PickerRun, answer: PromptAnswer) throws(SetupError) { try pickers.respond(run, answer: answer) }

    /// The person gave a name that `ShownName.check` accepts.
    ///
    /// - Throws: `InvalidRequest` when no name was asked for, or a network cannot have it.
    public func rename(_ run: PickerRun, to name: String) throws(SetupError) { try pickers.rename(run, to: name) }

    /// The person closed the picker.
    ///
    /// - Throws: `InvalidRequest` for one that has ended.
    public func cancel(_ run: PickerRun) throws(SetupError) { try pickers.cancel(run) }

    /// The person closed the picker, and does not want to be asked by its app again: its pickers are `UserRestricted`
    /// until `unmute`. Grants stay, and so do approvals by a rule.
    ///
    /// - Throws: `InvalidRequest` for one that has ended, `Unknown` when the store refuses.
    public func mute(_ run: PickerRun) throws(SetupError) { try pickers.mute(run) }

    /// Apps that may not ask, by their identifiers.
    public var mutedApps: [MutedApp] { services.mutedApps.all.values.sorted { $0.app < $1.app } }

    /// A muted app may ask again.
    ///
    /// - Throws: `InvalidRequest` for an app that is not muted, `Unknown` when the store refuses.
    public func unmute(_ app: AppID, by requester: Requester) throws(SetupError) {
        try services.mutedApps.unmute(app, by: requester)
    }

    /// The product image of an offer that is shown.
    ///
    /// - Throws: `InvalidRequest` for an unknown offer.
    public func image(_ run: PickerRun, offer id: String) throws(SetupError) -> ProductImage? {
        guard let offer = run.presentation.offers.first(where: { $0.id == id }) else {
            throw .invalid("offer", id, "is not offered")
        }
        return run.image(of: offer, ledger)
    }

    /// Whether there is a product image for an offer: the stored accessory's, or its item's.
    public func hasImage(_ run: PickerRun, offer: Offer) -> Bool { run.image(of: offer, ledger) != nil }
}

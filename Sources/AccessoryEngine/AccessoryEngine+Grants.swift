// SPDX-License-Identifier: Apache-2.0
// The engine's requests about accessories that are set up: grants, bonds and names, the devices of kinds, the uses by
// apps, and presence.

internal import AccessoryCore
public import AccessoryModel

extension AccessoryEngine {
    // MARK: Accessories and grants

    /// Takes the caller's grant away (rule 13).
    ///
    /// - Parameter completion: called once the bond is gone too, where it goes.
    /// - Throws: `InvalidRequest` for an accessory of another app, `Unknown` when the store refuses.
    public func removeAccessory(_ session: Session, _ id: AccessoryID, completion: @escaping () -> Void) throws(SetupError) {
        guard session.state == .active else { throw session.wrongState("RemoveAccessory") }
        guard let grant = ledger.grant(of: id, to: session.app.id) else {
            throw .invalid("accessory", id, "is not an accessory of \(session.app.id)")
        }
        try services.access.revoke(
            grant, reason: "removed by the app", by: services.sessions.requester(session), completion: completion)
    }

    /// Takes a grant away.
    ///
    /// - Parameter completion: called once the bond is gone too, where it goes.
    /// - Throws: `Unknown` when the store refuses.
    public func revoke(
        _ grant: Grant, reason: String, by requester: Requester, completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        try services.access.revoke(grant, reason: reason, by: requester, completion: completion)
    }

    /// Removes an accessory and all its grants. For a person only the grants that they set up go; the accessory goes
    /// with the last grant.
    ///
    /// - Parameter completion: called once the bond is gone too, where it goes.
    /// - Throws: `Unknown` when the store refuses.
    public func remove(
        _ accessory: Accessory, reason: String, by requester: Requester, completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        try services.access.remove(accessory, reason: reason, by: requester, completion: completion)
    }

    /// As `remove` after a delay, in which apps can still use the accessory and `cancelRemoval` keeps it. A failure is
    /// only logged.
    ///
    /// - Parameter seconds: within `Limits.removalDelay`.
    /// - Throws: `InvalidRequest` for another delay.
    public func scheduleRemoval(
        of accessory: Accessory, in seconds: UInt32, reason: String, by requester: Requester
    ) throws(SetupError) {
        let delays = Limits.removalDelay
        guard delays.contains(seconds) else {
            throw .invalid("seconds", seconds, "must be \(delays.lowerBound) to \(delays.upperBound)")
        }
        removals.schedule(accessory, in: Double(seconds), reason: reason, by: requester)
    }

    /// Keeps an accessory that is to be removed.
    ///
    /// - Parameter user: the person whose removal it is; nil for that of admins.
    /// - Throws: `InvalidRequest` for one that is not.
    public func cancelRemoval(of accessory: Accessory, for user: UInt32?) throws(SetupError) {
        try removals.cancel(accessory, for: user)
    }

    /// The time at which an accessory is removed, in seconds since 1970; nil for one that stays.
    ///
    /// - Parameter user: the person whose removal it is; nil for that of admins.
    public func removalTime(of accessory: AccessoryID, for user: UInt32?) -> Int64? {
        removals.time(of: accessory, for: user)
    }

    /// Carries out the removals that are delayed still: before the daemon ends.
    public func finishRemovals() { removals.performAll() }

    /// Removes the bond with an accessory, whichever program has made it; grants stay, and are `unauthorized` until a
    /// person pairs it again.
    ///
    /// - Parameter completion: called once the bond is gone.
    /// - Throws: `InvalidRequest` for one that is not paired, `Unknown` when the store refuses.
    public func unpair(
        _ accessory: Accessory, reason: String, by requester: Requester, completion: @escaping () -> Void = {}
    ) throws(SetupError) {
        try services.access.unpair(accessory, reason: reason, by: requester, completion: completion)
    }

    /// An admin's switch on a grant.
    ///
    /// - Throws: `Unknown` when the store refuses.
    public func setEnabled(_ grant: Grant, _ isEnabled: Bool, by requester: Requester) throws(SetupError) {
        try services.access.setEnabled(grant, isEnabled, by: requester)
    }

    /// An admin gives a grant another end, counted from now, or none. A grant that has ended is in force again.
    ///
    /// - Throws: `InvalidRequest` for a time of day on a machine that does not know the time, and for a grant whose
    ///   accessory has lost its pairing; `UserRestricted` for one that is switched off or denied; `Unknown` when the
    ///   store refuses.
    public func setEnd(_ grant: Grant, _ end: EndChoice, by requester: Requester) throws(SetupError) {
        if grant.state == .unauthorized { try PickerRequests.checkRenewal(of: grant) }
        let rules = end.rule.map { [$0] } ?? []
        try services.access.setEnd(
            grant, try services.time.limit(rules), reason: end.rule.map { "ends: \($0)" } ?? "does not end", by: requester)
    }

    /// An admin sets the most that the app may do, whichever access its descriptor asks for.
    ///
    /// - Throws: `InvalidRequest` for a kind; for wider access `UserRestricted` where the grant is switched off or
    ///   denied; `Unknown` when the store refuses.
    public func setAccess(_ grant: Grant, _ ceiling: AccessLimit, by requester: Requester) throws(SetupError) {
        try services.access.setAccess(grant, ceiling, by: requester)
    }

    /// When a grant ends, in seconds since 1970; nil for one that does not, or has ended.
    public func end(of grant: Grant) -> Int64? { services.time.end(of: grant) }

    /// Renames an accessory for all apps (rule 14).
    ///
    /// - Throws: `Unknown` when the store refuses.
    public func rename(
        _ accessory: Accessory, to name: String, reason: String, by requester: Requester
    ) throws(SetupError) {
        try services.access.rename(accessory, to: name, reason: reason, by: requester)
    }

    /// The app finishes an authorization that waits for its confirmation (rule 12). The result of bridging comes as an
    /// event.
    ///
    /// - Parameter accepted: called between the checks and the first event.
    /// - Throws: `InvalidRequest` for an accessory that does not wait, or settings that do not fit, `Unknown` when the
    ///   store refuses.
    public func finishAuthorization(
        _ session: Session, _ id: AccessoryID, settings: AuthorizationSettings, accepted: () -> Void = {}
    ) throws(SetupError) {
        try services.access.finishAuthorization(
            session, id, settings: settings, picker: pickers.awaitedConfirmation, accepted: accepted)
    }

    /// The app gives an accessory back that waits for its confirmation.
    ///
    /// - Parameter completion: called once the bond is gone too, where it goes.
    /// - Throws: `InvalidRequest` for an accessory that does not wait, `Unknown` when the store refuses.
    public func failAuthorization(_ session: Session, _ id: AccessoryID, completion: @escaping () -> Void) throws(SetupError) {
        try services.access.failAuthorization(session, id, completion: completion)
    }

    /// A link with an accessory came up for an app, and ended before the app could use it.
    ///
    /// - Returns: the likely reason and the way out, for people; nil for an accessory without a bond.
    public func linkEndedAtOnce(_ id: AccessoryID) -> String? { bondWatch.linkEndedAtOnce(id) }

    /// An app has used an accessory; nothing happens for one that is not the app's.
    public func recordUse(of accessory: AccessoryID, by app: AppID, requester: Requester, as what: String) {
        bondWatch.used(accessory)
        services.registry.recordUse(of: accessory, by: app, requester: requester, as: what)
    }

    /// An app was refused a use of an accessory that its grant does not open.
    ///
    /// - Parameter why: the use, and the access that the grant has.
    public func recordRefusedUse(of accessory: AccessoryID, by app: AppID, requester: Requester, why: String) {
        services.registry.recordRefusedUse(of: accessory, by: app, requester: requester, why: why)
    }

    /// Writes down when grants were last used: before the daemon ends.
    public func writeUses() {
        services.registry.writeUses()
        ends.storeAnchor()
    }

    // MARK: Kinds

    /// The apps with a client that uses the view now: devices of the apps' kinds are followed.
    public func setListening(_ apps: Set<AppID>) { hearing.setPresent(apps) }

    /// The addresses of the devices that an app hears now by its grants for kinds; nil for an app without one.
    public func heard(by app: AppID) -> [BluetoothAddress]? { hearing.members(of: app) }

    /// The devices that an app hears now by one grant, by their addresses; none while the app does not listen.
    public func heard(by grant: Grant) -> [HeardMember] { hearing.members(by: grant) }

    /// Excludes a device from a kind, or includes it again.
    ///
    /// - Parameter address: 48 bits, public or random.
    /// - Throws: `InvalidRequest` for a grant that is not for a kind, an address that is (not) excluded already, and
    ///   past `Limits.excludedDevices`; `Unknown` when the store refuses.
    public func setExcluded(
        _ address: BluetoothAddress, _ isExcluded: Bool, from grant: Grant, by requester: Requester
    ) throws(SetupError) {
        try services.access.setExcluded(address, isExcluded, from: grant, by: requester)
    }

    // MARK: Presence

    /// Begins or ends the observation of an accessory, or of a kind, of the app's. Its present state follows as an
    /// event, in this session.
    ///
    /// - Parameter accepted: called between the checks and the first event.
    /// - Throws: `InvalidRequest` for an accessory of another app, one that cannot be used, and past the limits;
    ///   `UserRestricted` where a rule denies it; `Unknown` when the store refuses.
    public func observePresence(
        _ session: Session, of id: AccessoryID, _ isObserved: Bool, accepted: () -> Void = {}
    ) throws(SetupError) {
        try presence.observe(session, id, isObserved, accepted: accepted)
    }

    /// Whether the accessory of an observed grant is in range; for a kind, whether a device is.
    public func isPresent(_ grant: Grant) -> Bool { presence.isPresent(grant.id) }
}

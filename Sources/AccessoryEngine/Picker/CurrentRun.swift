// SPDX-License-Identifier: Apache-2.0
// The work in progress for the picker that runs: searches, timers, the pairing, and the notes for the audit trail.
// `Pickers` owns it; all of it ends with the run.

internal import AccessoryCore
internal import AccessoryModel

/// A run, and its work in progress.
final class CurrentRun {
    let run: PickerRun
    var discovery: DiscoveryToken?
    var scan: DiscoveryToken?
    /// The search for adverts of accessories that are to be taken over.
    var verification: DiscoveryToken?
    var deadlineTimer: (any EngineTimer)?
    var pruneTimer: (any EngineTimer)?
    var disclosureTimer: (any EngineTimer)?
    /// The intent noted for the pairing that runs.
    var intent: BondIntent?
    /// The bond whose removal a pairing waits for.
    var awaited: BondIntent?
    /// The offer that was picked, the requester, and the offers so far, for the audit trail.
    var picked: Offer?
    var pickedBy = Requester.daemon
    var noted: Set<String> = []
    /// The app's last confirmation.
    var confirmation: (settings: AuthorizationSettings, requester: Requester)?
    /// Whether the app called the picker off: then the app is the requester of the removal.
    var isCalledOff = false

    init(_ run: PickerRun) { self.run = run }
}

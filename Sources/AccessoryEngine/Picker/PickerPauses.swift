// SPDX-License-Identifier: Apache-2.0
// How long an app must wait after a person has cancelled its picker, so that no app asks again and again
// (Docs/Decisions/0037).

internal import AccessoryCore
internal import AccessoryModel

/// An app of a user: pauses and turns are counted for each.
struct Seat: Hashable {
    let party: Party
    let app: AppID

    init(_ session: Session) {
        (party, app) = (session.party, session.app.id)
    }
}

/// Pauses of apps whose last pickers persons have cancelled. Times are monotonic seconds.
struct PickerPauses {
    private struct Pause {
        let begin: Double
        let length: Double
        var end: Double { begin + length }
    }

    private var pauses: [Seat: Pause] = [:]

    /// The end of an app's pause, which may be over; nil without one.
    func end(for seat: Seat) -> Double? { pauses[seat]?.end }

    /// Why an app has to wait although a picker could be shown.
    func reasonToWait(_ session: Session, _ request: String, now: Double) -> SetupError? {
        guard let end = end(for: Seat(session)), now < end else { return nil }
        return SetupError(.pickerRestricted, "\(request): the person has just cancelled a picker of the app")
    }

    /// A run has ended: its cancellation begins a pause or doubles it, and success ends it.
    mutating func record(_ run: PickerRun, now: Double) {
        let seat = Seat(run.session)
        pauses = pauses.filter { now - $0.value.begin < Limits.pickerPauseMemory }
        guard run.machine.isCancelledByPerson, run.client != .policy else {
            if run.presentation.stage == .done { pauses[seat] = nil }
            return
        }
        let lengths = Limits.pickerPause
        let length = pauses[seat].map { min(2 * $0.length, lengths.upperBound) } ?? lengths.lowerBound
        pauses[seat] = Pause(begin: now, length: length)
    }
}

// SPDX-License-Identifier: Apache-2.0
// What the app hears of its picker: the events of the machine in the session API's terms, and the accessories that it
// wants to look at before they are shown.

internal import AccessoryCore
internal import AccessoryModel

/// Tells apps about their pickers.
struct AppTeller {
    let book: Book
    let sessions: Sessions
    let news: News

    /// Tells the run's session, while it is active. An accessory that was added is told to the app's other sessions
    /// too.
    func tell(_ event: SetupMachine.AppEvent, _ run: PickerRun) {
        let session = run.session
        guard session.state == .active else { return }
        var out: SessionEvent
        switch event {
        case .pickerDidPresent: out = SessionEvent(.pickerDidPresent)
        case .pickerSetupPairing: out = SessionEvent(.pickerSetupPairing)
        case .pickerSetupBridging: out = SessionEvent(.pickerSetupBridging)
        case .pickerSetupRename: out = SessionEvent(.pickerSetupRename)
        case .pickerSetupFailed(let error): out = SessionEvent(.pickerSetupFailed, error: error)
        case .accessoryAdded(let id):
            out = SessionEvent(.accessoryAdded, accessory: book.ledger.granted(id, to: session.app.id))
        case .pickerDidDismiss(let error): out = SessionEvent(.pickerDidDismiss, error: error)
        }
        out.picker = run.id
        news.tell(.event(out, in: session))
        guard case .accessoryAdded = event else { return }
        out.picker = nil
        sessions.tell(session.app.id, out, but: session)
    }

    /// Tells what was found and not yet told to an app that filters (rule 9).
    func tellDiscoveries(of run: PickerRun) {
        guard run.session.state == .active else { return }
        for discovery in run.discoveries(book.ledger, book.policy) {
            var event = SessionEvent(.accessoryDiscovered, picker: run.id)
            event.discovered = discovery
            news.tell(.event(event, in: run.session))
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// The picker without a person: answers given beforehand, one line for each thing that happens. For scripts and tests.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import ProgramSupport

final class UnattendedView: PickerView {
    struct Answers {
        let name: String
        let accepts: Bool
        let passkey: UInt32?
        let pin: String?
        /// The accessory's new name; nil keeps its name.
        let rename: String?
    }

    private let answers: Answers
    private let client: () -> PickerClient?
    private var hasPicked = false
    private var answered: String?

    init(_ answers: Answers, _ client: @escaping () -> PickerClient?) {
        self.answers = answers
        self.client = client
    }

    func waiting() { StandardOutput.line("waiting for a picker") }

    func began(_ state: PickerProperties) {
        hasPicked = false
        answered = nil
        StandardOutput.line(Texts.title(state))
        if let besides = Texts.besides(state) { StandardOutput.line(besides) }
        act(state)
    }

    func changed(_ state: PickerProperties, from old: PickerProperties) {
        if state.stage != old.stage, state.stage != "done" { StandardOutput.line(Texts.stage(state)) }
        for offer in state.offers where !old.offers.contains(where: { $0.id == offer.id }) {
            StandardOutput.line("offered: \(Texts.offer(offer))")
        }
        for offer in old.offers where state.stage == "offering" && !state.offers.contains(where: { $0.id == offer.id }) {
            StandardOutput.line("gone: \(Texts.offer(offer))")
        }
        if state.prompt != old.prompt, let prompt = Texts.prompt(state) { StandardOutput.line(prompt) }
        act(state)
    }

    private func act(_ state: PickerProperties) {
        if state.stage == "failed", hasPicked {
            // No person is present to try again.
            client()?.cancel()
            return
        }
        if !hasPicked, state.stage == "offering",
            let offer = state.offers.first(where: { $0.name == answers.name || $0.advertisedName == answers.name })
        {
            hasPicked = true
            StandardOutput.line("picking \(StandardOutput.printable(offer.name))")
            client()?.pick(offer)
        }
        guard let kind = state.isNaming ? "name" : state.prompt.kind else {
            answered = nil
            return
        }
        guard answered != kind else { return }
        answered = kind
        if state.isNaming {
            if let name = answers.rename { client()?.rename(name) } else { client()?.keepName() }
            return
        }
        switch Question(state)?.form {
        case .yesOrNo where state.kind == "migration":
            // The command to pick one is the consent.
            if answers.accepts || state.offers.contains(where: { $0.name == answers.name }) {
                client()?.respond(.accept)
            }
        case .yesOrNo: client()?.respond(answers.accepts ? .accept : .reject)
        case .typed(let entry): client()?.respond(entry.given(answers) ?? .reject)
        case .shown, nil: break
        }
    }

    func refused(_ message: String) { StandardOutput.line("refused: \(message)") }
    func ended(_ state: PickerProperties) { StandardOutput.line(Texts.end(state)) }
}

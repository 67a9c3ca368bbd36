// SPDX-License-Identifier: Apache-2.0
// What the picker shows, derived from the machine's state alone: there is no second account of it that could disagree.

public import AccessoryModel

/// The picker as a person sees it.
public struct PickerPresentation: Hashable, Sendable {
    /// What the person sees. The raw values are the words of `Stage` on the bus (org.accessorysetup1.Picker).
    public enum Stage: String, Hashable, Sendable {
        case searching, offering, confirming, pairing, bridging, renaming, failed, done
    }

    /// What the person sees.
    public var stage: Stage
    /// What there is to pick; once something was picked, that alone. Empty at the end.
    public var offers: [Offer]
    /// What pairing asks of the person or shows, or whether known accessories may be taken over; nil for nothing.
    public var prompt: PairingPrompt?
    /// What went wrong: at the end of the run, or in an attempt after which the person may try again. Nil otherwise.
    public var failure: SetupError?
    /// The person goes on in the app.
    public var finishInApp = false
}

extension SetupMachine {
    /// What the picker shows in this state.
    public var presentation: PickerPresentation {
        switch state {
        case .created: PickerPresentation(stage: .searching, offers: [])
        case .discovering(let discovery):
            PickerPresentation(
                stage: discovery.failure != nil ? .failed : discovery.offers.isEmpty ? .searching : .offering,
                offers: discovery.offers, failure: discovery.failure)
        case .pairing(let pairing):
            PickerPresentation(
                stage: pairing.prompt?.needsAnswer == true ? .confirming : pairing.isBridging ? .bridging : .pairing,
                offers: [pairing.offer], prompt: pairing.prompt)
        case .unwinding(let error): PickerPresentation(stage: .failed, offers: [], failure: error)
        case .storing(let offer, _): PickerPresentation(stage: .pairing, offers: [offer])
        case .confirming(let authorization):
            PickerPresentation(stage: .confirming, offers: [authorization.offer], failure: authorization.failure)
        case .consenting(let authorization, _):
            PickerPresentation(stage: .confirming, offers: [authorization.offer], prompt: authorization.prompt)
        case .bridging(let authorization):
            PickerPresentation(
                stage: authorization.prompt?.needsAnswer == true ? .confirming : .bridging, offers: [authorization.offer],
                prompt: authorization.prompt)
        case .naming(let naming), .renaming(let naming):
            PickerPresentation(stage: .renaming, offers: [naming.offer], failure: naming.failure)
        case .informing(let offers): PickerPresentation(stage: .confirming, offers: offers, prompt: .consent)
        case .migrating(let outcome), .finished(let outcome): Self.presentation(of: outcome)
        }
    }

    private static func presentation(of outcome: Outcome) -> PickerPresentation {
        switch outcome {
        case .added(_, let finishInApp): PickerPresentation(stage: .done, offers: [], finishInApp: finishInApp)
        case .done: PickerPresentation(stage: .done, offers: [])
        case .ended(let error): PickerPresentation(stage: .failed, offers: [], failure: error)
        }
    }
}

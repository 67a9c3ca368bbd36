// SPDX-License-Identifier: Apache-2.0
// The picker's contents, derived from the machine's state alone, so that no second account can disagree.

public import AccessoryModel

/// The picker as a person sees it.
public struct PickerPresentation: Hashable, Sendable {
    /// The stage of the picker. The raw values are the words of `Stage` on the bus (org.accessorysetup1.Picker).
    public enum Stage: String, Hashable, Sendable {
        case searching, offering, confirming, pairing, bridging, renaming, failed, done
    }

    /// The stage.
    public var stage: Stage
    /// The offers; after a pick that one alone. Empty at the end.
    public var offers: [Offer]
    /// The prompt of pairing or of a migration; nil for none.
    public var prompt: PairingPrompt?
    /// The failure of the run, or of an attempt after which the person may try again; nil otherwise.
    public var failure: SetupError?
    /// The person goes on in the app.
    public var finishInApp = false
    /// Accessories that were set up so far, in a run that goes on after each.
    public var added = 0
}

extension SetupMachine {
    /// The presentation of this state.
    public var presentation: PickerPresentation {
        var presentation = presentationOfState
        presentation.added = added.count
        return presentation
    }

    private var presentationOfState: PickerPresentation {
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
        case .renewing(_, let offer): PickerPresentation(stage: .offering, offers: [offer])
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

// What the picker shows, derived from the machine's state alone: there is no second account of it that could disagree.

public import AccessoryModel

/// The picker as a person sees it.
public struct PickerPresentation: Hashable, Sendable {
    public enum Stage: String, Hashable, Sendable {
        case searching, offering, confirming, pairing, bridging, renaming, failed, done
    }

    public var stage: Stage
    public var offers: [Offer]
    public var prompt: PairingPrompt?
    public var failure: SetupError?
}

extension SetupMachine {
    public var presentation: PickerPresentation {
        switch state {
        case .created: PickerPresentation(stage: .searching, offers: [])
        case .discovering(let discovery):
            PickerPresentation(
                stage: discovery.failure != nil ? .failed : discovery.offers.isEmpty ? .searching : .offering,
                offers: discovery.offers, failure: discovery.failure)
        case .pairing(let pairing):
            PickerPresentation(
                stage: pairing.prompt?.needsAnswer == true ? .confirming : .pairing, offers: [pairing.offer], prompt: pairing.prompt
            )
        case .unwinding(let error): PickerPresentation(stage: .failed, offers: [], failure: error)
        case .storing(let offer, _): PickerPresentation(stage: .pairing, offers: [offer])
        case .finished(.added): PickerPresentation(stage: .done, offers: [])
        case .finished(.ended(let error)): PickerPresentation(stage: error == nil ? .done : .failed, offers: [], failure: error)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// The machine's values in words: refusals as the picker program reads them, events as the log does.

internal import AccessoryCore
internal import AccessoryModel

extension SetupMachine.Refusal {
    /// The error that the picker program gets.
    var asSetupError: SetupError {
        switch self {
        case .notOffered(let id): .invalid("offer", id, "is not offered")
        case .notPrompted: SetupError(.invalidRequest, "answer: no question is pending")
        case .wrongAnswer(let prompt): SetupError(.invalidRequest, "answer: does not match the prompt \(prompt.kind)")
        case .notNow: SetupError(.invalidRequest, "not possible at this stage")
        case .finished: SetupError(.invalidRequest, "the picker has ended")
        }
    }
}

extension SetupMachine.Event {
    /// For the log: a word, without names or addresses.
    var reason: String {
        switch self {
        case .begin: "begin"
        case .offersChanged(let offers): "\(offers.count) offers"
        case .picked: "picked"
        case .answered: "answered"
        case .cancelled: "cancelled"
        case .calledOff: "cancelled by the app"
        case .deadline: "deadline"
        case .radioLost(let why): "radio lost: \(why)"
        case .extensionEnded(let why): "extension ended: \(why.message)"
        case .appGone: "app gone"
        case .pickerGone: "picker gone"
        case .prompted(let prompt): "prompt \(prompt.kind)"
        case .paired: "paired"
        case .pairingFailed(let why): "pairing failed: \(why.message)"
        case .stored: "stored"
        case .storeFailed(let why): "store failed: \(why.message)"
        case .named: "named"
        case .discoveryFinished: "discovery finished by the app"
        case .bridgingStarted: "bridging"
        case .authorizationFinished: "authorization finished by the app"
        case .authorized: "authorized"
        case .authorizationFailed(let why): "authorization failed: \(why.message)"
        case .renamed: "renamed"
        case .renameFailed(let why): "rename failed: \(why)"
        case .migrated: "migrated"
        case .accessoryGone: "the accessory was removed"
        }
    }
}

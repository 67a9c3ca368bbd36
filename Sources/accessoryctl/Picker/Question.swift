// SPDX-License-Identifier: Apache-2.0
// The question of a prompt, once for all views: its text, its form, and the answer to send. A new prompt is a case
// here.

internal import AccessoryBus
internal import AccessoryModel
internal import ProgramSupport

struct Question {
    /// How the person answers.
    enum Form {
        /// It is only shown.
        case shown
        case yesOrNo
        case typed(Entry)
    }

    /// A text that the person types.
    struct Entry: Sendable {
        /// Bytes.
        let limit: Int
        /// Whether a key may be part of the text.
        let accepts: @Sendable (UInt8) -> Bool
        /// The answer to send for a text; nil for a text that is none.
        let answer: @Sendable (String) -> PromptAnswer?
        /// The hint after such a text.
        let hint: String
        /// The answer from the command line where no person is present.
        let given: @Sendable (UnattendedView.Answers) -> PromptAnswer?
    }

    let text: String
    let form: Form

    /// The picker's present question; nil for none.
    init?(_ state: PickerProperties) {
        switch state.prompt.kind {
        case "confirm-passkey":
            text = "Does the accessory show \(state.passkey)?"
            form = .yesOrNo
        case "enter-passkey":
            text = "Which number does the accessory show?"
            form = .typed(Self.passkey)
        case "display-passkey":
            text = "Enter \(state.passkey) on the accessory (\(state.prompt.entered ?? 0) of 6 digits)"
            form = .shown
        case "enter-pin":
            text = "What is the accessory's PIN?"
            form = .typed(Self.pin)
        case "display-pin":
            text = "Enter \(StandardOutput.printable(state.prompt.pin ?? "")) on the accessory"
            form = .shown
        case "consent":
            let what = state.offers.count == 1 ? "it" : "all of these"
            let app = StandardOutput.printable(state.appName)
            text =
                state.kind == "migration"
                ? "Allow \(app) to use \(what)?"
                : state.prompt.network.map {
                    "Allow \(app) to join the network \(StandardOutput.printable($0))?"
                } ?? "Allow the accessory to connect?"
            form = .yesOrNo
        default: return nil
        }
    }

    private static let passkey = Entry(
        limit: 6, accepts: { (0x30...0x39).contains($0) },
        answer: { text in
            guard let number = UInt32(text), Limits.passkey.contains(number) else { return nil }
            return .passkey(number)
        }, hint: "enter a number of up to six digits",
        given: { answers in answers.passkey.map { .passkey($0) } })

    private static let pin = Entry(
        limit: Limits.pinBytes.upperBound, accepts: { $0 >= 0x20 && $0 < 0x7F },
        answer: { text in Limits.pinBytes.contains(text.utf8.count) ? .pin(text) : nil },
        hint: "enter 1 to 16 characters", given: { answers in answers.pin.map { .pin($0) } })
}

// The words of the terminal picker, the same in all of its views.

internal import DBusKit
internal import ProgramSupport

enum Texts {
    static func offer(_ offer: OfferLine) -> String {
        var text = StandardOutput.printable(offer.name)
        if !offer.advertisedName.isEmpty { text += "  “\(StandardOutput.printable(offer.advertisedName))”" }
        text += "  " + strength(offer.rssi)
        return text + (offer.isShared ? "  shared with another app" : "  new")
    }

    static func strength(_ rssi: Int?) -> String {
        guard let rssi else { return "signal unknown" }
        let bars = rssi >= -55 ? 4 : rssi >= -67 ? 3 : rssi >= -80 ? 2 : 1
        return String(repeating: "▮", count: bars) + String(repeating: "▯", count: 4 - bars) + " \(rssi) dBm"
    }

    static func title(_ state: PickerState) -> String {
        "\(StandardOutput.printable(state.appName)) would like to set up an accessory"
    }

    static func stage(_ state: PickerState) -> String {
        switch state.stage {
        case "searching": "searching…"
        case "offering": "choose an accessory"
        case "pairing": "pairing…"
        case "confirming": "a question"
        case "failed": "it did not work: \(StandardOutput.printable(state.failure ?? ""))"
        case "done": "ready to use"
        default: state.stage
        }
    }

    /// What the person is asked or told; nil when nothing.
    static func prompt(_ state: PickerState) -> String? {
        switch state.promptKind {
        case "confirm-passkey": "Does the accessory show \(state.passkey)?"
        case "enter-passkey": "Which number does the accessory show?"
        case "display-passkey":
            "Enter \(state.passkey) at the accessory (\(state.prompt["entered"]?.integerValue ?? 0) of 6 digits)"
        case "enter-pin": "Which PIN does the accessory have?"
        case "display-pin": "Enter \(StandardOutput.printable(state.prompt["pin"]?.stringValue ?? "")) at the accessory"
        case "consent": "Allow the accessory to connect?"
        default: nil
        }
    }

    static func end(_ state: PickerState) -> String {
        state.stage == "done"
            ? "ready to use" : "nothing was set up: \(StandardOutput.printable(state.failure ?? "the picker was closed"))"
    }
}

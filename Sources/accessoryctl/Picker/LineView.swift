// SPDX-License-Identifier: Apache-2.0
// The picker on a dumb terminal or through a pipe: a numbered list, answered by lines.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import Glibc
internal import ProgramSupport

final class LineView: PickerView {
    private let client: () -> PickerClient?
    private var state: PickerProperties?
    private var shown: [PickerOffer] = []
    private var input: [UInt8] = []

    init(_ loop: MainLoop, _ client: @escaping () -> PickerClient?) {
        self.client = client
        loop.onReadable(0) { [unowned self] in read() }
    }

    /// Whole lines only; the end of the input is "cancel".
    private func read() -> Bool {
        var buffer = [UInt8](repeating: 0, count: 256)
        let count = Glibc.read(0, &buffer, buffer.count)
        guard count > 0 else {
            client()?.cancel()
            return false
        }
        input += buffer[..<count]
        while let end = input.firstIndex(of: 0x0A) {
            let line = String(decoding: input[..<end], as: UTF8.self).trimmed
            input.removeSubrange(...end)
            answer(line)
        }
        // A line that never ends is not an answer.
        if input.count > 4096 { input = [] }
        return true
    }

    private func answer(_ line: String) {
        guard let state else { return }
        if state.isNaming { return line.isEmpty ? client()?.keepName() ?? () : client()?.rename(line) ?? () }
        if line == "q" { return client()?.cancel() ?? () }
        if line == "mute" { return client()?.mute() ?? () }
        switch Question(state)?.form {
        case .yesOrNo: client()?.respond(["y", "yes"].contains(line.lowercased()) ? .accept : .reject)
        case .typed(let entry):
            guard let answer = entry.answer(line) else { return StandardOutput.line(entry.hint) }
            client()?.respond(answer)
        case .shown, nil:
            // A number, and the end and the access that the person chooses.
            var words = line.split(separator: " ").map(String.init)
            if words.count == 2, words[0] == "list", let number = Int(words[1]), shown.indices.contains(number - 1) {
                for each in shown[number - 1].characteristics { StandardOutput.line("   \(StandardOutput.printable(each))") }
                return
            }
            guard let number = words.first.flatMap({ Int($0) }), shown.indices.contains(number - 1) else {
                return StandardOutput.line(
                    "enter a number from the list, q to cancel, or mute to cancel and not be asked by this app again")
            }
            words.removeFirst()
            let access = words.last == "read" ? words.removeLast() : nil
            client()?.pick(shown[number - 1], end: words.isEmpty ? nil : words.joined(separator: " "), access: access)
        }
    }

    func waiting() { StandardOutput.line("waiting for a picker") }

    func began(_ state: PickerProperties) {
        self.state = state
        shown = []
        StandardOutput.line(Texts.title(state))
        if let besides = Texts.besides(state) { StandardOutput.line(besides) }
        changed(state, from: PickerProperties())
    }

    func changed(_ state: PickerProperties, from old: PickerProperties) {
        self.state = state
        if state.stage != old.stage { StandardOutput.line(Texts.stage(state)) }
        // A list that moves under the person's fingers is no list: numbers stay, new offers are added, and withdrawn
        // ones are reported.
        for offer in state.offers {
            guard let index = shown.firstIndex(where: { $0.id == offer.id }) else {
                shown.append(offer)
                StandardOutput.line(Self.line(offer, shown.count))
                if !offer.endChoices.isEmpty {
                    StandardOutput.line("   ends to choose from, after the number: \(offer.endChoices.joined(separator: ", "))")
                }
                if !offer.accessChoices.isEmpty { StandardOutput.line("   read after the number: the app may read and not write") }
                continue
            }
            // It was said to be gone.
            if !old.offers.contains(where: { $0.id == offer.id }), state.stage == "offering" {
                StandardOutput.line(Self.line(offer, index + 1))
            }
        }
        if state.stage == "offering" || state.stage == "searching" {
            for (index, offer) in shown.enumerated()
            where old.offers.contains(where: { $0.id == offer.id }) && !state.offers.contains(where: { $0.id == offer.id }) {
                StandardOutput.line("\(index + 1)) is gone")
            }
        }
        guard state.prompt != old.prompt || state.isNaming != old.isNaming, let prompt = Texts.prompt(state) else { return }
        var isQuestion = false
        if case .yesOrNo = Question(state)?.form { isQuestion = true }
        StandardOutput.line(prompt + (isQuestion ? " [y/n]" : state.isNaming ? " (an empty line keeps the name)" : ""))
    }

    private static func line(_ offer: PickerOffer, _ number: Int) -> String {
        "\(number)) \(Texts.offer(offer, hint: "list \(number) shows all"))"
    }

    func refused(_ message: String) { StandardOutput.line("not possible: \(message)") }

    func ended(_ state: PickerProperties) {
        self.state = nil
        StandardOutput.line(Texts.end(state))
    }
}

extension String {
    fileprivate var trimmed: String {
        String(drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
    }
}

// SPDX-License-Identifier: Apache-2.0
// A picker as lines of a terminal, as a value: the selected offer is always in sight, no line is wider than the
// terminal, and in a small one the question that a person must answer has priority.

internal import AccessoryBus
internal import AccessoryModel
internal import ProgramSupport
internal import TerminalGraphics

struct PickerScreen {
    /// A terminal's size, in cells.
    struct Size: Equatable {
        var columns = 80
        var rows = 24
    }

    private static let gap = "  "
    /// Cells that a name keeps as long as something else can go.
    private static let leastName = 12
    /// Rows of the remark on an offer's access.
    private static let accessRows = 6

    /// One row less than the terminal's at most: the cursor is below.
    private(set) var lines: [String] = []
    /// The first offer that is shown.
    private(set) var top = 0
    /// Whether the image has room above the lines.
    let hasImage: Bool

    /// - Parameters:
    ///   - end: the end that the person has chosen; nil for the app's.
    ///   - access: the access that the person has chosen; nil for the app's.
    ///   - typed: the answer so far.
    ///   - top: the first offer that was shown.
    ///   - imageRows: rows of an image that would stand above; 0 for none.
    init(
        _ state: PickerProperties, selected: String?, end: String? = nil, access: String? = nil, typed: String, refusal: String?,
        top: Int,
        imageRows: Int,
        in size: Size
    ) {
        var state = state
        if let index = state.offers.firstIndex(where: { $0.id == selected }) {
            if let end { state.offers[index].ends = [end] }
            if access != nil { state.offers[index].access = .read }
        }
        // A line of all columns makes some terminals wrap.
        let columns = max(8, size.columns - 1)
        let room = max(4, size.rows - 1)
        func text(_ words: String, indented: Bool = true) -> [String] {
            Cells.wrap(StandardOutput.inLocale(words), to: columns, indentation: indented ? Self.gap : "")
        }
        let answer = Self.answer(state, typed).map { text($0) } ?? []
        let keys = text(Self.keys(state, state.offers.first { $0.id == selected }))
        var above = [text(Texts.title(state), indented: false), text(Texts.stage(state))]
        if let besides = Texts.besides(state) { above.append(Array(text(besides).prefix(3))) }
        let marked = state.offers.first { $0.id == selected } ?? state.offers.first
        if let marked, let remark = Self.access(marked, hasList: Self.lists(marked, state), { text($0) }) { above.append(remark) }
        var below = refusal.map { [text(StandardOutput.printable($0))] } ?? []
        if !answer.isEmpty { below.insert(answer, at: 0) }

        let needed = min(state.offers.count, 1)
        func height(_ blocks: [[String]], spaced: Bool) -> Int { blocks.reduce(0) { $0 + $1.count + (spaced ? 1 : 0) } }
        // The question and its answer stay; keys, remarks and the heading go where they do not fit.
        var blocks = above + below + [keys]
        let isSpaced = height(blocks, spaced: true) + min(state.offers.count, 4) <= room
        if !isSpaced, height(blocks, spaced: false) + needed > room { blocks.removeLast() }
        while !isSpaced, height(blocks, spaced: false) + needed > room,
            let longest = above.indices.max(by: { above[$0].count < above[$1].count })
        {
            if above[longest].count > 1 { above[longest].removeLast() } else { above.removeFirst() }
            blocks = above + below
        }
        let hasKeys = blocks.count > above.count + below.count
        let taken = height(blocks, spaced: isSpaced)
        hasImage = imageRows > 0 && taken + min(state.offers.count, 3) + imageRows <= room

        let window = max(needed, room - taken - (hasImage ? imageRows : 0))
        let index = state.offers.firstIndex { $0.id == selected } ?? 0
        let shown = min(window, state.offers.count)
        self.top = max(0, min(top, index, state.offers.count - shown))
        if shown > 0, index >= self.top + shown { self.top = index - shown + 1 }

        for block in above { lines += block }
        if isSpaced { lines.append("") }
        lines += Self.rows(state.offers, selected, self.top, shown, columns)
        for block in below { lines += (isSpaced ? [""] : []) + block }
        if hasKeys { lines += (isSpaced ? [""] : []) + keys }
        if lines.count > room { lines = Array(lines.suffix(room)) }
    }

    /// The characteristics that the app would use, in place of the offers.
    ///
    /// - Parameter top: the first row of the list that is shown; bounded by the list.
    init(characteristicsOf offer: PickerOffer, top: Int, in size: Size) {
        let columns = max(8, size.columns - 1)
        let room = max(4, size.rows - 1)
        func text(_ words: String, _ indentation: String) -> [String] {
            Cells.wrap(StandardOutput.inLocale(words), to: columns, indentation: indentation)
        }
        let all = offer.characteristics.enumerated().flatMap { text("\($0 + 1). \(StandardOutput.printable($1))", Self.gap) }
        let heading = text("\(Texts.name(offer)): the app can use only these \(offer.characteristics.count) characteristics", "")
        let keys = text("↑ ↓ scroll   Esc back", Self.gap)
        let around = heading.prefix(max(1, room - keys.count - 1))
        let shown = min(all.count, max(1, room - around.count - keys.count))
        self.top = max(0, min(top, all.count - shown))
        lines = (around + all[self.top..<(self.top + shown)] + keys).suffix(room)
        hasImage = false
    }

    /// The remark on an offer's access: with all characteristics if they fit, else with the first ones after their
    /// count.
    private static func access(_ offer: PickerOffer, hasList: Bool, _ text: (String) -> [String]) -> [String]? {
        var rows: [String]?
        for first in [nil] + (0...Texts.fewCharacteristics).reversed() {
            rows = Texts.access(offer, first: first, hint: hasList ? "c lists all" : nil).map(text)
            guard let rows, rows.count > accessRows else { break }
        }
        return rows.map { Array($0.prefix(accessRows)) }
    }

    /// Whether `c` lists an offer's characteristics.
    static func lists(_ offer: PickerOffer, _ state: PickerProperties) -> Bool {
        offer.access == .listed && !offer.characteristics.isEmpty && state.prompt.kind == nil && !state.isNaming
    }

    private static func answer(_ state: PickerProperties, _ typed: String) -> String? {
        guard let prompt = Texts.prompt(state) else { return nil }
        if case .yesOrNo = Question(state)?.form { return prompt + "  y / n" }
        return prompt + "  " + typed
    }

    private static func keys(_ state: PickerProperties, _ offer: PickerOffer?) -> String {
        guard !state.isNaming else { return "Return done   Esc keep the name" }
        guard state.prompt.kind == nil else { return "Esc cancel" }
        let setUp = state.kind == "renewal" ? "Return allow" : "↑ ↓ choose   Return set up"
        let choices =
            (offer?.endChoices.isEmpty == false ? "   e another end" : "")
            + (offer?.accessChoices.isEmpty == false ? "   r read only" : "")
            + (offer.map { lists($0, state) } == true ? "   c characteristics" : "")
        return setUp + choices + "   Esc cancel   M don't ask again"
    }

    /// The person's next choice of an end: the app's, then each that the offer has.
    static func end(after end: String?, of offer: PickerOffer) -> String? {
        guard let end, let index = offer.endChoices.firstIndex(of: end) else { return offer.endChoices.first }
        return offer.endChoices.indices.contains(index + 1) ? offer.endChoices[index + 1] : nil
    }

    // MARK: The list

    private static func rows(_ offers: [PickerOffer], _ selected: String?, _ top: Int, _ shown: Int, _ columns: Int) -> [String] {
        offers[top..<(top + shown)].enumerated().map { place, offer in
            let hidden = place == 0 && top > 0 ? "↑" : place == shown - 1 && top + shown < offers.count ? "↓" : " "
            guard offer.id == selected else { return hidden + "  " + row(offer, columns - 3) }
            return "\u{1B}[7m" + hidden + "> " + row(offer, columns - 3) + "\u{1B}[0m"
        }
    }

    /// Name, signal and state; where it is narrow, the names are cut, and then the remarks.
    private static func row(_ offer: PickerOffer, _ columns: Int) -> String {
        let (name, mark) = (StandardOutput.inLocale(Texts.name(offer)), StandardOutput.inLocale("…"))
        for detail in Texts.Detail.allCases {
            let rest = StandardOutput.inLocale(Texts.rest(offer, detail))
            let room = columns - Cells.width(of: rest)
            if room >= min(leastName, Cells.width(of: name)) { return Cells.cut(name, to: room, mark: mark) + rest }
        }
        return Cells.cut(name, to: columns, mark: mark)
    }
}

// SPDX-License-Identifier: Apache-2.0
// The picker on a terminal: redrawn in place, chosen with the keyboard. It uses the few control sequences that every
// terminal since the VT100 has, so it works over SSH.

internal import AccessoryBus
internal import AccessoryModel
internal import CSystem
internal import DBusKit
internal import Glibc
internal import ProgramSupport
internal import TerminalGraphics

final class ScreenView: PickerView {
    /// The person's choice until it is made.
    private struct Choice {
        /// The identifier of the selected offer; nil without offers.
        var offer: String?
        /// The end that the person has chosen for it; nil for the app's.
        var end: String?
        /// The access that the person has chosen for it; nil for all that the app asks for.
        var access: String?
        /// The first row of its list of characteristics, while the person looks at that; nil for the offers.
        var list: Int?
    }

    private let client: () -> PickerClient?
    private var state: PickerProperties?
    private var choice = Choice()
    private var typed: [UInt8] = []
    /// The beginning of a key whose rest was not there yet.
    private var unfinished: [UInt8] = []
    private var refusal: String?
    private var drawn = 0
    /// The terminal's size when it was drawn last.
    private var drawnSize = PickerScreen.Size(descriptor: 1)
    /// The first offer that is shown.
    private var top = 0
    private var original = termios()
    private let images = ProductImages()

    init(_ loop: MainLoop, _ client: @escaping () -> PickerClient?) {
        self.client = client
        tcgetattr(0, &original)
        takeKeys()
        // Primary device attributes (DA1): a terminal with sixels reports them.
        StandardOutput.write("\u{1B}[c")
        loop.onReadable(0) { [unowned self] in read() }
        loop.onSignal(SIGWINCH) { [unowned self] in
            draw()
            return true
        }
        // After Ctrl-Z: meanwhile the shell had the terminal.
        loop.onSignal(SIGCONT) { [unowned self] in
            takeKeys()
            drawn = 0
            draw()
            return true
        }
    }

    /// Sets the terminal to keys one by one and unechoed; signals stay, so that Ctrl-C is an interrupt.
    private func takeKeys() {
        var raw = original
        raw.c_lflag &= ~(UInt32(ICANON) | UInt32(ECHO))
        tcsetattr(0, TCSANOW, &raw)
    }

    func restore() {
        tcsetattr(0, TCSANOW, &original)
        StandardOutput.write("\u{1B}[?25h")
    }

    // MARK: Keys

    private func read() -> Bool {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = Glibc.read(0, &buffer, buffer.count)
        guard count > 0 else {
            client()?.cancel()
            return false
        }
        var keys = (unfinished + buffer[..<count])[...]
        unfinished = []
        while let key = keys.first {
            if let length = parseAttributes(keys) {
                keys = keys.dropFirst(length)
            } else if keys.starts(with: [0x1B, 0x5B]), let end = keys.dropFirst(2).firstIndex(where: { 0x40...0x7E ~= $0 }) {
                move(String(decoding: keys[(keys.startIndex + 2)...end], as: UTF8.self))
                keys = keys[(end + 1)...]
            } else if keys.starts(with: [0x1B, 0x5B]) || key == 0x1B && keys.count == 1 && count == buffer.count {
                // The rest of the key's sequence comes with the next reading. A single escape is the key.
                unfinished = Array(keys)
                break
            } else {
                press(key)
                keys = keys.dropFirst()
            }
        }
        draw()
        return true
    }

    /// The answer to DA1: `ESC [ ? 62 ; 4 c`. Returns its length, nil when this is something else.
    private func parseAttributes(_ keys: ArraySlice<UInt8>) -> Int? {
        guard keys.starts(with: [0x1B, 0x5B, 0x3F]), let end = keys.firstIndex(of: UInt8(ascii: "c")) else { return nil }
        images.attributes = String(decoding: keys[(keys.startIndex + 3)..<end], as: UTF8.self).split(separator: ";")
            .compactMap { Int($0) }
        return end - keys.startIndex + 1
    }

    /// Moves the mark by a key that sends `ESC [` and this: the arrows, Page Up and Page Down, Home and End.
    private func move(_ key: String) {
        guard let offers = state?.offers, !offers.isEmpty else { return }
        let all = choice.list == nil ? offers.count : Self.longestList
        let steps = ["A": -1, "B": 1, "5~": -Self.page, "6~": Self.page, "H": -all, "F": all]
        if let list = choice.list { return choice.list = list + (steps[key] ?? 0) }
        let index = offers.firstIndex { $0.id == choice.offer } ?? 0
        choice = Choice(offer: offers[min(max(index + (steps[key] ?? 0), 0), offers.count - 1)].id)
    }

    private static let page = 5
    /// More rows than a list of characteristics has on the narrowest terminal.
    private static let longestList = 4096

    private func press(_ key: UInt8) {
        guard let state else { return }
        let character = Character(UnicodeScalar(key))
        if choice.list != nil { return pressInList(key, character) }
        if state.isNaming { return key == 0x1B ? client()?.keepName() ?? () : typeName(key) }
        if key == 0x1B || (character == "q" && state.prompt.kind == nil) { return client()?.cancel() ?? () }
        if character == "M", state.prompt.kind == nil { return client()?.mute() ?? () }
        switch Question(state)?.form {
        case .yesOrNo:
            if "yY".contains(character) { client()?.respond(.accept) }
            if "nN".contains(character) { client()?.respond(.reject) }
        case .typed(let entry):
            type(key, limit: entry.limit, entry.accepts) { if let answer = entry.answer($0) { client()?.respond(answer) } }
        case .shown, nil:
            if character == "k" { move("A") }
            if character == "j" { move("B") }
            if character == "e", let offer = state.offers.first(where: { $0.id == choice.offer }) {
                choice.end = PickerScreen.end(after: choice.end, of: offer)
            }
            if character == "r", let offer = state.offers.first(where: { $0.id == choice.offer }) {
                choice.access = choice.access == nil ? offer.accessChoices.first : nil
            }
            if character == "c", listedOffer(state) != nil { choice.list = 0 }
            guard key == 0x0A || key == 0x0D, let offer = state.offers.first(where: { $0.id == choice.offer }) else { return }
            refusal = nil
            client()?.pick(offer, end: choice.end, access: choice.access)
        }
    }

    /// Return picks nothing here: it ends the list, as other keys do.
    private func pressInList(_ key: UInt8, _ character: Character) {
        if character == "k" { move("A") }
        if character == "j" { move("B") }
        if "cq".contains(character) || [0x1B, 0x0A, 0x0D].contains(key) { choice.list = nil }
    }

    /// The selected offer, if the person can look at its characteristics.
    private func listedOffer(_ state: PickerProperties) -> PickerOffer? {
        guard choice.access == nil else { return nil }
        return state.offers.first { $0.id == choice.offer && PickerScreen.lists($0, state) }
    }

    private var typedText: String { String(decoding: typed, as: UTF8.self) }

    private func typeName(_ key: UInt8) {
        type(key, limit: Limits.nameBytes, { $0 >= 0x20 }) { name in
            if name.isEmpty { client()?.keepName() } else { client()?.rename(name) }
        }
    }

    /// A key of a text that is typed; Return ends it.
    private func type(_ key: UInt8, limit: Int, _ accepts: (UInt8) -> Bool, submit: (String) -> Void) {
        switch key {
        case 0x7F, 0x08:
            // A letter may be several bytes.
            while let byte = typed.popLast(), byte & 0xC0 == 0x80 {}
        case 0x0A, 0x0D:
            submit(typedText)
            typed = []
        default:
            // A letter has room whole, or not at all.
            let isContinuation = key & 0xC0 == 0x80
            let bytes = key < 0xC0 ? 1 : key < 0xE0 ? 2 : key < 0xF0 ? 3 : 4
            guard accepts(key), isContinuation == (String(validating: typed, as: UTF8.self) == nil) else { return }
            if isContinuation || typed.count + bytes <= limit { typed.append(key) }
        }
    }

    // MARK: The view

    func waiting() { StandardOutput.line("Waiting for an app to ask for an accessory. Press Ctrl-C to quit.") }

    func began(_ state: PickerProperties) {
        choice = Choice(offer: state.offers.first?.id)
        refusal = nil
        (drawn, top) = (0, 0)
        images.removeAll()
        StandardOutput.write("\u{1B}[?25l")
        self.state = state
        draw()
    }

    func changed(_ state: PickerProperties, from old: PickerProperties) {
        self.state = state
        if !state.offers.contains(where: { $0.id == choice.offer }) { choice = Choice(offer: state.offers.first?.id) }
        if state.prompt.kind != old.prompt.kind || state.isNaming != old.isNaming { typed = [] }
        // A question comes before the list.
        if listedOffer(state) == nil { choice.list = nil }
        draw()
    }

    func refused(_ message: String) {
        refusal = message
        choice.list = nil
        draw()
    }

    func ended(_ state: PickerProperties) {
        self.state = nil
        erase()
        StandardOutput.write("\u{1B}[?25h")
        StandardOutput.line(Texts.end(state))
    }

    private func erase() {
        if drawn > 0 { StandardOutput.write("\u{1B}[\(drawn)A") }
        StandardOutput.write("\r\u{1B}[J")
        drawn = 0
    }

    private func draw() {
        guard let state else { return }
        let size = PickerScreen.Size(descriptor: 1)
        let image = selectedImage(state)
        let screen: PickerScreen
        if let list = choice.list, let offer = listedOffer(state) {
            screen = PickerScreen(characteristicsOf: offer, top: list, in: size)
            choice.list = screen.top
        } else {
            screen = PickerScreen(
                state, selected: choice.offer, end: choice.end, access: choice.access, typed: typedText, refusal: refusal, top: top,
                imageRows: image == nil ? 0 : TerminalImage.rows,
                in: size)
            top = screen.top
        }
        // The terminal may have wrapped or lost the lines that it shows.
        if size != drawnSize { StandardOutput.write("\u{1B}[H\u{1B}[J") } else { erase() }
        drawnSize = size
        if let image, screen.hasImage { StandardOutput.write(image.drawing) }
        for line in screen.lines { StandardOutput.line(line) }
        drawn = screen.lines.count + (screen.hasImage ? TerminalImage.rows : 0)
    }

    /// The product image of the selected offer, once it has arrived and can be drawn.
    private func selectedImage(_ state: PickerProperties) -> TerminalImage? {
        guard let offer = state.offers.first(where: { $0.id == choice.offer }), offer.hasImage else { return nil }
        if images.beginRequest(of: offer) {
            client()?.image(of: offer) { [weak self] bytes in
                self?.images.add(bytes, of: offer)
                self?.draw()
            }
        }
        return images.drawing(of: offer)
    }
}

/// Product images of the offers that were selected.
private final class ProductImages {
    private lazy var decoder = ImageDecoder()
    /// By offer; empty until they arrive.
    private var images: [String: [UInt8]] = [:]
    private var drawings: [String: TerminalImage] = [:]
    private var count = 0
    /// The capabilities that the terminal reports.
    var attributes: [Int] = [] { didSet { drawings = [:] } }

    func removeAll() { (images, drawings) = ([:], [:]) }

    func add(_ bytes: [UInt8], of offer: PickerOffer) { images[offer.id] = bytes }

    /// - Returns: whether the image was not requested before.
    func beginRequest(of offer: PickerOffer) -> Bool {
        guard images[offer.id] == nil else { return false }
        images[offer.id] = []
        return true
    }

    /// Nil for an image that has not arrived, or cannot be drawn.
    func drawing(of offer: PickerOffer) -> TerminalImage? {
        if let drawing = drawings[offer.id] { return drawing }
        let graphics = GraphicsProtocol(
            environment: { getenv($0).map { String(cString: $0) } }, attributes: attributes)
        guard let bytes = images[offer.id], !bytes.isEmpty, let bitmap = decoder?.decode(bytes, into: graphics.box) else {
            return nil
        }
        count += 1
        let drawing = TerminalImage(bitmap, as: graphics, id: count)
        StandardOutput.write(drawing.preparation)
        drawings[offer.id] = drawing
        return drawing
    }
}

extension PickerScreen.Size {
    /// The size of the terminal behind a descriptor; 80 × 24 where it does not say.
    init(descriptor: Int32) {
        self.init()
        var size: (columns: Int32, rows: Int32) = (0, 0)
        guard csystem_window_size(descriptor, &size.columns, &size.rows) == 0 else { return }
        (columns, rows) = (Int(size.columns), Int(size.rows))
    }
}

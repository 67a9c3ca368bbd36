// SPDX-License-Identifier: Apache-2.0
// The words of the terminal picker, the same in all of its views.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import ProgramSupport

enum Texts {
    /// The level of detail of an offer's line.
    enum Detail: CaseIterable {
        case all, short, least
    }

    /// - Parameter hint: how the person gets the whole list of characteristics; nil for the list itself.
    static func offer(_ offer: PickerOffer, hint: String? = nil) -> String { name(offer) + rest(offer, .all, hint: hint) }

    /// An offer's names: the app's and the advertised one. In front, where narrow screens do not cut it, the other
    /// name that one of the two resembles.
    static func name(_ offer: PickerOffer) -> String {
        let warning = offer.resembled.map { "looks like “\(StandardOutput.printable($0))”: " } ?? ""
        let name = warning + StandardOutput.printable(offer.name)
        let own = offer.advertisedName.isEmpty ? "" : "  “\(StandardOutput.printable(offer.advertisedName))”"
        return name + own + (offer.addressEnd.map { "  …\($0)" } ?? "")
    }

    /// Signal, network, state and end, which follow the names.
    static func rest(_ offer: PickerOffer, _ detail: Detail, hint: String? = nil) -> String {
        detail == .least ? sides(offer, detail, hint) : sides(offer, detail, hint) + end(offer.ends)
    }

    private static func sides(_ offer: PickerOffer, _ detail: Detail, _ hint: String?) -> String {
        if let devices = offer.maxDevices { return kind(offer, devices, detail) }
        // One that is found in the network alone has no strength.
        var text = "  "
        if offer.endpoint == nil || offer.rssi != nil { text += detail == .all ? strength(offer.rssi) : bars(offer.rssi) ?? "" }
        if let endpoint = offer.endpoint { text += (text == "  " ? "" : "  ") + StandardOutput.printable(endpoint) }
        if offer.network != nil, detail != .least { text += "  " + network(offer) }
        switch detail {
        case .all:
            let state = offer.isShared ? "shared with another app" : offer.isPaired ? "already paired by another program" : "new"
            return text + "  " + state
                + (access(offer, first: hint == nil ? nil : fewCharacteristics, hint: hint).map { "; \($0)" } ?? "")
        case .short:
            let access = offer.access.map { $0 == .read ? ", read only" : $0 == .full ? ", full access" : ", limited" } ?? ""
            return text + "  " + (offer.isShared ? "shared" : offer.isPaired ? "paired" : "new") + access
        case .least: return text
        }
    }

    /// A kind of devices: its extent, and the devices in range.
    private static func kind(_ offer: PickerOffer, _ devices: Int, _ detail: Detail) -> String {
        let names = offer.namesInRange.map { StandardOutput.printable($0) }.joined(separator: ", ")
        let extent = "  hears all such devices, now and later"
        switch detail {
        case .all:
            return extent + ", up to \(devices) at a time; \(offer.devicesInRange ?? 0) in range"
                + (names.isEmpty ? "" : ": \(names)")
        case .short: return extent + "; \(offer.devicesInRange ?? 0) in range"
        case .least: return "  hears all"
        }
    }

    /// The end of the grant.
    static func end(_ rules: [String]) -> String {
        let words = rules.map { rule in
            rule == "none"
                ? "without an end"
                : rule.hasPrefix("idle")
                    ? "ends when unused for \(rule.dropFirst(5))"
                    : rule.dropFirst(2).hasPrefix(":") ? "ends at \(rule)" : "ends after \(rule)"
        }
        return words.isEmpty ? "" : "  " + words.joined(separator: ", ")
    }

    /// Characteristics that a remark on a longer list begins with.
    static let fewCharacteristics = 3

    /// The use that the app gets, where it is not everything. The effects of a read are the accessory's secret.
    ///
    /// - Parameters:
    ///   - first: at most this number of characteristics, after their count; nil for all.
    ///   - hint: how the person gets the others.
    static func access(_ offer: PickerOffer, first: Int? = nil, hint: String? = nil) -> String? {
        switch offer.access {
        case .read: return "the app can read and receive data, not write (an accessory may act when it is read)"
        case .listed:
            let all = offer.characteristics
            let shown = all.prefix(first ?? all.count).map { StandardOutput.printable($0) }
            guard shown.count < all.count else { return "the app can use only: " + shown.joined(separator: ", ") }
            return "the app can use only \(all.count) characteristics" + (hint.map { " (\($0))" } ?? "")
                + (shown.isEmpty ? "" : ": \(shown.joined(separator: ", ")), …")
        case .full: return "the app gets full access: it can read, write and receive data"
        default: return nil
        }
    }

    /// A network: its name if it is not shown already, its protection and its band.
    private static func network(_ offer: PickerOffer) -> String {
        var words = ["Wi-Fi"]
        if let name = offer.network, name != offer.advertisedName { words.append("“\(StandardOutput.printable(name))”") }
        switch offer.security {
        case nil: break
        case .open: words.append("open")
        case .owe: words.append("open, encrypted")
        case .wpa2wpa3: words.append("WPA2/WPA3")
        case .psk: words.append("WPA")
        case .enterprise: words.append("enterprise")
        case .wep, .wpa, .wpa2, .wpa3: words.append(offer.security?.rawValue.uppercased() ?? "")
        }
        if let band = offer.band { words.append(band.rawValue) }
        return words.joined(separator: " ")
    }

    static func strength(_ rssi: Int?) -> String {
        guard let rssi, let bars = bars(rssi) else { return "signal unknown" }
        return bars + " \(rssi) dBm"
    }

    private static func bars(_ rssi: Int?) -> String? {
        guard let rssi else { return nil }
        let bars = rssi >= -55 ? 4 : rssi >= -67 ? 3 : rssi >= -80 ? 2 : 1
        return String(repeating: "▮", count: bars) + String(repeating: "▯", count: 4 - bars)
    }

    static func title(_ state: PickerProperties) -> String {
        let wish =
            switch state.kind {
            case "migration": "would like to use accessories that are already set up"
            case "rename": "would like you to name an accessory"
            case "authorization": "would like additional access to an accessory"
            case "renewal": "would like to go on using an accessory"
            default: "would like to set up an accessory"
            }
        return "\(StandardOutput.printable(state.appName)) \(wish)"
    }

    static func stage(_ state: PickerProperties) -> String {
        switch state.stage {
        case "searching": "searching…"
        case "offering": "choose an accessory"
        case "pairing": "pairing…"
        case "confirming": state.prompt.kind == nil ? "waiting for the app…" : "a question"
        case "bridging": "pairing the classic side…"
        case "renaming": "name the accessory"
        case "failed": "failed: \(StandardOutput.printable(state.prompt.message ?? ""))"
        case "done": "ready to use"
        default: state.stage
        }
    }

    /// The question to the person; nil for none.
    static func prompt(_ state: PickerProperties) -> String? {
        if let question = Question(state) { return question.text }
        guard state.isNaming else { return nil }
        return (state.prompt.message.map { StandardOutput.printable($0) + ". " } ?? "")
            + "What should \(StandardOutput.printable(state.offers.first?.name ?? "it")) be called?"
            + (state.kind == "rename" && state.offers.first?.network != nil ? " Its network is given the same name." : "")
    }

    /// Accessories that are taken over besides; nil for none.
    static func besides(_ state: PickerProperties) -> String? {
        guard !state.prompt.migrations.isEmpty else { return nil }
        let names = state.prompt.migrations.map { StandardOutput.printable($0) }.joined(separator: ", ")
        return "choosing one also gives the app access to accessories that are already paired: \(names)"
    }

    static func end(_ state: PickerProperties) -> String {
        state.stage == "done"
            ? done(state) : "nothing was set up: \(StandardOutput.printable(state.prompt.message ?? "the picker was closed"))"
    }

    private static func done(_ state: PickerProperties) -> String {
        if state.prompt.finishesInApp { return "ready to use: continue in \(StandardOutput.printable(state.appName))" }
        return state.kind == "rename" ? "renamed" : state.kind == "renewal" ? "renewed" : "ready to use"
    }
}

// SPDX-License-Identifier: Apache-2.0
// Pickers of many gateways in one place: the gateways show the pickers of their apps to the operator for as long as
// this command runs. Offers of several gateways to one app are one where the gateways are bonded with an accessory of
// one address, and the offers say the same; otherwise they are separate, even under one name: an advert proves nothing.

internal import ArgumentParser
internal import DBusKit
internal import FleetProtocol
internal import Glibc
internal import JSONText
internal import MQTTClient
internal import ProgramSupport

extension Fleet {
    struct Picker: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows the pickers of the gateways' apps, and answers them.",
            discussion: """
                A line with the number of an offer picks it. Offers of several gateways with one number say the same of one accessory, with which these \
                gateways are bonded; the gateway that hears it best sets it up. “yes” and “no” answer a question, a passkey or PIN is sent encrypted, “name TEXT” names the \
                accessory, and “cancel” ends the picker. With --json, each change is a line with all pickers, and each line of the input is an object: \
                gateway, picker, and one of pick, accept, passkey, pin, name, cancel, mute.
                """)
        @OptionGroup var options: FleetOptions
        @OptionGroup var output: JSONOption
        @Option(
            name: .customLong("gateways"), parsing: .upToNextOption,
            help: "The gateways: names, with * for any characters, and labels after @ (default: all).")
        var selection: [String] = ["*"]
        @Option(help: "Pick the first offer with this name, without a person, and end once it is set up.") var pick: String?
        @Flag(help: "With --pick: accept a number to compare.") var acceptPasskey = false

        func run() throws {
            try Ending.guarding {
                let fleet = try options.open()
                let selector = try GatewaySelector(selection)
                let gateways = try fleet.gateways().filter { selector.fits($0.name, labels: $0.labels) }
                guard !gateways.isEmpty else { throw OperatorDirectory.Problem("no gateway is selected") }
                let session = try FleetPickerSession(
                    fleet, gateways, isJSON: output.json, pick: pick, acceptsPasskey: acceptPasskey)
                try session.run()
            }
        }
    }
}

/// One run of the command.
final class FleetPickerSession {
    /// A picker of a gateway.
    private struct PickerName: Hashable, Comparable {
        let gateway: String
        let number: Int

        static func < (one: Self, other: Self) -> Bool { (one.gateway, one.number) < (other.gateway, other.number) }
    }

    private struct Shown {
        var report: JSON
        var secret: JSON?
        /// The unattended command has answered this already.
        var handled: Set<String> = []
        var stage: String { report["Stage"]?.string ?? "" }
        var offers: [JSON] { report["Offers"]?.elements ?? [] }
    }

    /// An accessory that an app is offered.
    private struct Choice {
        /// The offers of all gateways.
        var offers: [(name: PickerName, offer: JSON)]

        /// The offer of the gateway that hears it best.
        var nearest: (name: PickerName, offer: JSON) {
            offers.reduce(offers[0]) { ($1.offer["rssi"]?.int ?? .min) > ($0.offer["rssi"]?.int ?? .min) ? $1 : $0 }
        }
    }

    /// All that a person sees of an offer with an identity, but its strength: offers of several gateways in which it is
    /// the same are one. A pick means the terms that were shown.
    private struct Proven: Hashable {
        let app: JSON?
        let kind: JSON?
        let prompt: JSON?
        let offer: [String: JSON]
    }

    /// The command without a person.
    private struct Unattended {
        /// The name of the offer to pick.
        let name: String
        let acceptsPasskey: Bool
        /// The pickers in which offers with an identity were picked.
        var picked: [Proven: PickerName] = [:]
    }

    /// Seconds for which the gateways show their pickers here, unless that is renewed.
    private static let lease = 60

    private let fleet: OperatorDirectory
    private let gateways: [String: OperatorDirectory.Gateway]
    private let client: FleetClient
    private let isJSON: Bool
    private var unattended: Unattended?
    private var pickers: [PickerName: Shown] = [:]
    /// Connected gateways whose daemon runs: the broker keeps the pickers of others.
    private var live: Set<String> = []
    private var input = ""
    private var end: (any Error)?
    private var isOver = false
    private let response = FleetTopics.answer + "picker-\(Digest.newIdentifier().prefix(12))"

    init(
        _ fleet: OperatorDirectory, _ gateways: [OperatorDirectory.Gateway], isJSON: Bool, pick: String?, acceptsPasskey: Bool
    ) throws {
        self.fleet = fleet
        self.gateways = Dictionary(uniqueKeysWithValues: gateways.map { ($0.name, $0) })
        self.isJSON = isJSON
        unattended = pick.map { Unattended(name: $0, acceptsPasskey: acceptsPasskey) }
        client = try FleetClient(fleet)
    }

    func run() throws {
        client.onMessage = { [weak self] in self?.receive($0, $1, $2) }
        client.onEnd = { [weak self] reason in self?.fail("the connection to the broker has ended: \(reason)") }
        try client.subscribe(
            [FleetTopics.status, FleetTopics.reported + "picker/+", FleetTopics.secret + "+", response], of: gateways.keys.sorted())
        let (loop, isAttended) = (client.loop, unattended == nil)
        for signal in [SIGINT, SIGTERM] {
            loop.onSignal(signal) { [weak self] in
                self?.isOver = true
                loop.quit()
                return false
            }
        }
        let renewal = loop.every(.seconds(Self.lease / 2)) { [weak self] in
            self?.attend(Self.lease)
            return self != nil
        }
        let reading = isAttended ? readInput() : nil
        attend(Self.lease)
        show()
        if !isOver { loop.run() }
        renewal.cancel()
        reading?.cancel()
        attend(0)
        client.end()
        if let end { throw end }
    }

    private func fail(_ reason: String) {
        end = OperatorDirectory.Problem(reason)
        isOver = true
        client.loop.quit()
    }

    private func attend(_ seconds: Int) {
        for gateway in gateways.keys.sorted() { send(.showPickers(seconds: seconds), to: gateway) }
    }

    private func send(_ action: FleetCommand.Action, to name: String) {
        guard let gateway = gateways[name] else { return }
        do {
            let topics = try fleet.topics(of: name)
            let text = try FleetCommand.sign(
                action, id: Digest.newIdentifier(), fleet: fleet.fleet, gateways: try GatewaySelector([name]), now: time(nil),
                for: gateway.key, with: fleet.key)
            var message = MQTTMessage(topics.topic(FleetTopics.command + action.verb), text)
            message.responseTopic = topics.topic(response)
            message.expiry = UInt32(FleetCommand.maxLife)
            client.publish(message)
        } catch {
            report("\(name): \(error)")
        }
    }

    private func report(_ text: String) { StandardOutput.errorLine(StandardOutput.printable(text)) }

    // MARK: Pickers

    private func receive(_ gateway: String, _ end: String, _ message: MQTTMessage) {
        let value = try? JSON(parsing: message.payload)
        if end == response {
            guard let answer = value.flatMap({ CommandAnswer($0) }), answer.outcome != .done else { return }
            return report("\(gateway): \(answer.outcome.rawValue): \(answer.reason)")
        }
        if end == FleetTopics.status {
            let isLive = value?["state"] == "online" && value?["daemon"] == "running"
            guard isLive != live.contains(gateway) else { return }
            if isLive { live.insert(gateway) } else { live.remove(gateway) }
            show()
            for name in pickers.keys.sorted() where name.gateway == gateway { answerUnattended(name) }
            return
        }
        guard let number = end.split(separator: "/").last.flatMap({ Int($0) }) else { return }
        let name = PickerName(gateway: gateway, number: number)
        if end.hasPrefix(FleetTopics.secret) {
            // For another operator, too.
            let copy = value?.elements?.first { $0["for"] == JSON(fleet.key.publicKey.id) }
            let secret = copy?["sealed"]?.string.flatMap { fleet.key.open($0) }.flatMap { try? JSON(parsing: $0) }
            // It may come before the picker.
            pickers[name, default: Shown(report: .null)].secret = secret
        } else if let value, !message.payload.isEmpty {
            let before = pickers[name]?.report
            guard before != value else { return }
            pickers[name, default: Shown(report: value)].report = value
            if value["Prompt"]?["kind"] == nil { pickers[name]?.secret = nil }
        } else {
            pickers[name] = nil
        }
        show()
        answerUnattended(name)
    }

    /// The pickers of live gateways, in order.
    private var shown: [(name: PickerName, shown: Shown)] {
        pickers.filter { live.contains($0.key.gateway) && $0.value.report != .null }.sorted { $0.key < $1.key }
            .map { (name: $0.key, shown: $0.value) }
    }

    private func answerUnattended(_ name: PickerName) {
        guard let unattended, let shown = pickers[name], live.contains(name.gateway) else { return }
        func once(_ key: String, _ action: FleetCommand.Action, to name: PickerName) {
            guard pickers[name]?.handled.insert(key).inserted == true else { return }
            send(action, to: name.gateway)
        }
        switch shown.stage {
        case "searching", "offering":
            let choice = choices.first { $0.offers.contains { $0.name == name && isWanted($0.offer, unattended.name) } }
            guard let (nearest, offer) = choice?.nearest, let id = offer["id"]?.string else { return }
            if let proven = proven(offer, shown) {
                // Another gateway, which came first, is setting it up.
                if let other = unattended.picked[proven], other != nearest, pickers[other] != nil, live.contains(other.gateway) {
                    return
                }
                self.unattended?.picked[proven] = nearest
            }
            once("pick \(id)", .pick(picker: nearest.number, offer: id, end: "", access: ""), to: nearest)
        case "confirming":
            let kind = shown.report["Prompt"]?["kind"]?.string
            if kind == "consent" || kind == "confirm-passkey" && unattended.acceptsPasskey {
                once("accept", .respond(picker: name.number, .accept(true)), to: name)
            } else if kind != nil {
                once("cancel", .cancel(picker: name.number), to: name)
            }
        case "renaming": once("cancel", .cancel(picker: name.number), to: name)
        case "done":
            isOver = true
            client.loop.quit()
        case "failed":
            let reason = shown.report["Prompt"]?["message"]?.string ?? "the set-up has failed"
            fail("\(name.gateway): \(reason)")
        default: break
        }
    }

    private func isWanted(_ offer: JSON, _ name: String) -> Bool {
        offer["name"] == JSON(name) || offer["advertisedName"] == JSON(name)
    }

    // MARK: Output

    /// The choices, in the order of the numbers under which they are shown.
    private var choices: [Choice] {
        var choices: [Choice] = []
        var places: [Proven: Int] = [:]
        for (name, shown) in shown {
            for offer in shown.offers {
                let proven = proven(offer, shown)
                if let proven, let place = places[proven] {
                    choices[place].offers.append((name, offer))
                } else {
                    if let proven { places[proven] = choices.count }
                    choices.append(Choice(offers: [(name, offer)]))
                }
            }
        }
        return choices
    }

    /// Nil without a bond, and where nothing can be picked any more.
    private func proven(_ offer: JSON, _ shown: Shown) -> Proven? {
        guard var members = offer.members, members["identity"] != nil, ["searching", "offering"].contains(shown.stage) else {
            return nil
        }
        for key in ["id", "rssi", "networkRssi", "hasImage"] { members[key] = nil }
        let report = shown.report
        return Proven(app: report["App"], kind: report["Kind"], prompt: report["Prompt"], offer: members)
    }

    private func show() {
        let known = shown
        if isJSON {
            return StandardOutput.line(
                JSON.array(
                    known.map { name, shown in
                        .object(
                            (shown.report.members ?? [:]).merging(
                                ["gateway": JSON(name.gateway), "picker": JSON(name.number), "secret": shown.secret ?? .null]
                            ) { _, own in own })
                    }
                ).writtenInOneLine)
        }
        guard !known.isEmpty else { return }
        var rows: [PickerName: [(number: Int, offer: JSON)]] = [:]
        for (index, choice) in choices.enumerated() {
            for (name, offer) in choice.offers { rows[name, default: []].append((index + 1, offer)) }
        }
        for (name, shown) in known {
            let app = shown.report["AppName"]?.string ?? ""
            line("\(name.gateway): \(app) (\(shown.report["App"]?.string ?? "")), \(shown.stage)")
            for (number, offer) in rows[name] ?? [] {
                let strength = offer["rssi"]?.int.map { "\($0) dBm" } ?? ""
                line("  \(number)  \(offer["name"]?.string ?? "")  \(offer["advertisedName"]?.string ?? "")  \(strength)")
            }
            if let prompt = shown.report["Prompt"], let kind = prompt["kind"]?.string {
                let secret = shown.secret?["passkey"]?.int.map(Self.passkey) ?? shown.secret?["pin"]?.string ?? ""
                line("  \(kind) \(secret)")
            } else if let reason = shown.report["Prompt"]?["message"]?.string {
                line("  \(reason)")
            }
        }
    }

    /// Six digits.
    private static func passkey(_ number: Int) -> String {
        let digits = "\(number)"
        return String(repeating: "0", count: max(0, 6 - digits.utf8.count)) + digits
    }

    private func line(_ text: String) { StandardOutput.line(StandardOutput.inLocale(StandardOutput.printable(text))) }

    // MARK: Input

    private func readInput() -> LoopSource {
        client.loop.onReadable(0) { [weak self] in
            guard let self else { return false }
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = read(0, &buffer, buffer.count)
            guard count > 0 else {
                self.isOver = true
                self.client.loop.quit()
                return false
            }
            self.input += String(decoding: buffer[..<count], as: UTF8.self)
            while let end = self.input.firstIndex(where: \.isNewline) {
                let text = String(self.input[..<end])
                self.input = String(self.input[self.input.index(after: end)...])
                self.isJSON ? self.obeyJSON(text) : self.obey(text)
            }
            return true
        }
    }

    private func obeyJSON(_ text: String) {
        guard let value = try? JSON(parsing: Array(text.utf8)), let gateway = value["gateway"]?.string,
            let number = value["picker"]?.int
        else {
            return report("not an object with gateway and picker: \(text)")
        }
        if let offer = value["pick"]?.string {
            let (end, access) = (value["end"]?.string ?? "", value["access"]?.string ?? "")
            return send(.pick(picker: number, offer: offer, end: end, access: access), to: gateway)
        }
        if let truth = value["accept"]?.bool { return send(.respond(picker: number, .accept(truth)), to: gateway) }
        if let passkey = value["passkey"]?.int { return send(.respond(picker: number, .passkey(passkey)), to: gateway) }
        if let pin = value["pin"]?.string { return send(.respond(picker: number, .pin(pin)), to: gateway) }
        if let name = value["name"]?.string { return send(.name(picker: number, name), to: gateway) }
        if value["cancel"]?.bool == true { return send(.cancel(picker: number), to: gateway) }
        if value["mute"]?.bool == true { return send(.mute(picker: number), to: gateway) }
        report("none of pick, accept, passkey, pin, name, cancel, mute: \(text)")
    }

    private func obey(_ text: String) {
        let words = text.split(separator: " ", maxSplits: 1).map(String.init)
        guard let first = words.first else { return }
        let asking = shown.first { $0.shown.report["Prompt"]?["kind"] != nil }
        if let (name, shown) = asking {
            let kind = shown.report["Prompt"]?["kind"]?.string ?? ""
            switch (first, kind) {
            case ("yes", _): return send(.respond(picker: name.number, .accept(true)), to: name.gateway)
            case ("no", _): return send(.respond(picker: name.number, .accept(false)), to: name.gateway)
            case (_, "enter-pin"): return send(.respond(picker: name.number, .pin(first)), to: name.gateway)
            case (_, "enter-passkey"):
                guard let passkey = Int(first), (0...999_999).contains(passkey) else { return report("not a passkey: \(first)") }
                return send(.respond(picker: name.number, .passkey(passkey)), to: name.gateway)
            default: break
            }
        }
        if let number = Int(first) {
            let choices = choices
            guard choices.indices.contains(number - 1) else { return report("no offer \(number)") }
            let (name, offer) = choices[number - 1].nearest
            return send(.pick(picker: name.number, offer: offer["id"]?.string ?? "", end: "", access: ""), to: name.gateway)
        }
        guard let name = shown.first?.name else { return report("no picker is open") }
        switch (first, words.count) {
        case ("mute", 1): send(.mute(picker: name.number), to: name.gateway)
        case ("cancel", 1): send(.cancel(picker: name.number), to: name.gateway)
        case ("name", 2): send(.name(picker: name.number, words[1]), to: name.gateway)
        default: report("a number of an offer, yes, no, a passkey, a PIN, name TEXT, cancel, or mute")
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Claim lists: their entries, used and left, and a rehearsal of approvals without a person.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryModel
internal import AdminFiles
internal import ArgumentParser
internal import DBusKit
internal import Glibc
internal import JSONText
internal import Logging
internal import ProgramSupport
internal import RadioSimulator

struct ClaimsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "claims", abstract: "Lists the claim lists, or the entries of one, used and left.",
        discussion: "Exit status: 1 if a file has errors, which are listed too.")
    @OptionGroup var options: BusOptions
    @OptionGroup var output: TableOptions
    @Argument(help: "The list's identifier.") var list: String?

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(options)
            guard let list else { return try write(inventory.admin) }
            let answer = try inventory.connection.callAndWait(
                AccessoryBus.name, AccessoryBus.adminPath, AccessoryBus.admin, "GetClaims", [.string(list)])
            try write(ClaimReport(wire: answer.first?.vardictValue ?? [:]))
        }
    }

    private func write(_ admin: AdminProperties) throws {
        if output.json {
            Output.json(["lists": .array(admin.claimLists.map(\.json)), "problems": JSON(admin.claimProblems.map(\.text))])
        } else {
            let table = try Table(
                ["LIST", "APP", "FROM", "UNTIL", "USED", "COUNT", "ENTRIES", "FILE"],
                admin.claimLists.map { list in
                    [
                        list.id, list.app, Output.time(list.from), Output.time(list.until), "\(list.used)", "\(list.count)",
                        "\(list.entries)", list.source,
                    ]
                }, output)
            output.paged {
                table.write()
                for problem in admin.claimProblems { StandardOutput.line(StandardOutput.printable(problem.text)) }
            }
        }
        guard admin.claimProblems.isEmpty else { throw Ending.failed }
    }

    private func write(_ report: ClaimReport) throws {
        if output.json {
            return Output.json([
                "closed": report.closed.map { JSON($0) } ?? .null, "entries": .array(report.entries.map(\.json)),
            ])
        }
        let table = try Table(["ENTRY", "NAME", "STATE", "USED", "ACCESSORY"], report.entries.map(\.row), output)
        output.paged {
            table.write()
            if let closed = report.closed { StandardOutput.line(StandardOutput.printable("nothing is approved: it \(closed)")) }
        }
    }
}

extension ClaimListEntry {
    fileprivate var json: JSON {
        [
            "id": JSON(id), "app": JSON(app), "source": JSON(source), "from": JSON(from), "until": JSON(until),
            "count": JSON(count),
            "entries": JSON(entries), "used": JSON(used),
        ]
    }
}

extension ClaimReport.Entry {
    fileprivate var json: JSON {
        [
            "entry": JSON(entry), "name": JSON(name), "used": time.map { JSON(Int(clamping: $0)) } ?? .null,
            "accessory": accessory.map { JSON($0) } ?? .null, "unauthenticated": JSON(isUnauthenticated),
        ]
    }

    fileprivate var row: [String] {
        let state = time == nil ? "left" : isUnauthenticated ? "unauthenticated" : "authenticated"
        return [entry, name, state, time.map { Output.time(Int(clamping: $0)) } ?? "", accessory ?? ""]
    }
}

extension Policy {
    struct Test: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Plays a recorded air against the rules and claim lists, and shows which accessories an app would get.",
            discussion: """
                One picker after the other, each without a person, until nothing is approved any more; no entry counts as used. \
                accessoryctl explain --air records an air. Exit status: 0 if the app would get any accessory, 1 otherwise.
                """)
        @Option(
            name: .customLong("policy"),
            help: "A directory of policy files; repeatable, claim lists are in claims.d beside the last one.",
            completion: .directory)
        var policyDirectories: [String] = []
        @Option(
            name: .customLong("apps"), help: "A directory of manifests; repeatable, later ones override.", completion: .directory)
        var directories: [String] = []
        @Option(help: "The time of the test, in seconds since 1970; now by default.") var at: Int64?
        @OptionGroup var output: JSONOption
        @Argument(help: "The app's identifier.", completion: Completions.apps) var app: String
        @Argument(help: "The recorded air: a scenario.", completion: .file(extensions: ["json"])) var air: String

        func run() throws {
            try Ending.guarding {
                let store = Policy.store(of: policyDirectories)
                for problem in store.problems + store.listProblems {
                    StandardOutput.errorLine(StandardOutput.printable("\(problem)"))
                }
                let manifests = ManifestStore(
                    directories: directories.isEmpty ? ManifestStore.standardDirectories : directories, loop: MainLoop(),
                    log: Policy.silence)
                guard let manifest = AppID(app).flatMap({ manifests.apps[$0] }) else {
                    throw BusError.failed("no app has the identifier \(app)")
                }
                let played = play(try Scenario(file: air).accessories.map(Heard.init), manifest, store.policy)
                write(played)
                guard played.contains(where: { $0.turn != nil }) else { throw Ending.failed }
            }
        }

        /// One device, and the verdict on it.
        private struct Heard {
            let id: String
            let candidate: AccessoryCandidate
            let rssi: Int?
            /// The number of the picker that takes it.
            var turn: Int?
            var verdict = ""

            var address: String { candidate.advertisement?.address.description ?? "" }
            var name: String { candidate.advertisement?.localName ?? "" }

            /// With all that it advertises at any time.
            init(_ accessory: Scenario.Accessory) {
                id = accessory.id
                rssi = accessory.adverts.first?.rssi
                // The address of the scenario is the identity; on the air such a device has another, which no list can
                // name.
                let address =
                    accessory.airAddress.type == .rpa
                    ? BluetoothAddress(value: accessory.address.value & ~(0b11 << 46) | 0b01 << 46, kind: .random)
                    : accessory.address
                var advert = Advertisement(device: RadioDeviceID(accessory.id), address: address)
                for part in accessory.adverts.flatMap({ [$0.payload, $0.scanResponse].compactMap(\.self) }) {
                    advert.localName = part.name ?? advert.localName
                    advert.serviceUUIDs.formUnion(part.serviceUUIDs)
                    advert.serviceData.merge(part.serviceData) { $1 }
                    advert.manufacturerData.merge(part.manufacturerData) { $1 }
                }
                candidate = AccessoryCandidate(advertisement: advert)
            }
        }

        private func play(_ air: [Heard], _ manifest: AppManifest, _ policy: AccessPolicy) -> [Heard] {
            let now = at ?? Int64(Glibc.time(nil))
            var matcher = Matcher(manifest.declaredItems.map(\.descriptor))
            var (played, waiting): ([Heard], [Heard]) = ([], [])
            for var heard in air {
                if let advert = heard.candidate.advertisement, matcher.firstMatch(advert, smoothedRSSI: heard.rssi) == nil {
                    heard.verdict = "not offered: \(manifest.source) declares none of its services and companies"
                    played.append(heard)
                } else {
                    waiting.append(heard)
                }
            }
            var claims = Claims()
            while true {
                let unattended = Unattended(policy, claims, manifest.id, now: now)
                let verdicts = unattended.verdicts(on: waiting.map { ($0.candidate, $0.rssi) })
                for (index, verdict) in verdicts.enumerated() { waiting[index].verdict = "\(verdict)" }
                guard policy.refusal(of: manifest.id) == nil,
                    let choice = unattended.choice(verdicts, strengths: waiting.map(\.rssi))
                else { break }
                if case .listed(let listing) = verdicts[choice] {
                    claims.add(Claim(listing.key, app: manifest.id, accessory: .random(), isAuthenticated: false, time: now))
                }
                var taken = waiting.remove(at: choice)
                taken.turn = played.count(where: { $0.turn != nil }) + 1
                played.append(taken)
            }
            if let refusal = policy.refusal(of: manifest.id) {
                for index in waiting.indices { waiting[index].verdict = "not approved: \(refusal)" }
            }
            return played.filter { $0.turn != nil } + waiting + played.filter { $0.turn == nil }
        }

        private func write(_ played: [Heard]) {
            if output.json {
                return Output.json(
                    .array(
                        played.map { heard in
                            [
                                "id": JSON(heard.id), "address": JSON(heard.address), "name": JSON(heard.name),
                                "rssi": heard.rssi.map { .integer($0) } ?? .null,
                                "picker": heard.turn.map { .integer($0) } ?? .null, "verdict": JSON(heard.verdict),
                            ]
                        }))
            }
            for heard in played {
                let strength = heard.rssi.map { "\($0) dBm" } ?? "strength unknown"
                let name = heard.name.isEmpty ? "(no name)" : StandardOutput.printable(heard.name)
                StandardOutput.line((heard.turn.map { "\($0). " } ?? "") + "\(heard.address)  \(name)  \(strength)")
                StandardOutput.line("    " + StandardOutput.printable(heard.verdict))
            }
        }
    }
}

extension ExplainedDeviceEntry {
    /// An accessory of a scenario; nil for a network.
    ///
    /// - Parameter number: makes its identifier.
    func asScenario(_ number: Int) -> JSON? {
        guard let advertisement, let address = BluetoothAddress(self.address, kind: addressType == "public" ? .public : .random)
        else { return nil }
        var advert: [String: JSON] = [
            "rssi": rssi.map { .integer($0) } ?? .null, "serviceUUIDs": JSON(advertisement.serviceUUIDs),
            "serviceData": .object(advertisement.serviceData.mapValues { JSON(Hex.text($0)) }),
            "manufacturerData": .object(
                Dictionary(
                    uniqueKeysWithValues: advertisement.manufacturerData.map {
                        (CompanyIdentifier($0.key).description, JSON(Hex.text($0.value)))
                    })),
        ]
        if let name = advertisement.localName { advert["name"] = JSON(name) }
        if let power = advertisement.txPower { advert["txPower"] = .integer(power) }
        let type = address.kind == .public ? "public" : address.value >> 46 == 0b11 ? "random" : "rpa"
        return [
            "id": JSON("device-\(number)"), "address": JSON(self.address), "addressType": JSON(type),
            "adverts": .array([.object(advert)]),
        ]
    }
}

// SPDX-License-Identifier: Apache-2.0
// The admin's questions about access: the policy files, the audit trail, and why an accessory in range is not offered.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryModel
internal import ArgumentParser
internal import AdminFiles
internal import DBusKit
internal import Glibc
internal import JSONText
internal import Logging
internal import ProgramSupport

struct Policy: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Checks and explains the policy.", subcommands: [Check.self, Explain.self, Test.self])

    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Reports errors in policy files, and the resulting rules.",
            discussion: "Exit status: 0 if there are no errors, 1 otherwise.")
        @Option(
            name: .customLong("policy"), help: "A directory of policy files, as for the daemon's option of this name; repeatable.",
            completion: .directory)
        var directories: [String] = []
        @OptionGroup var output: JSONOption

        func run() throws {
            let store = Policy.store(of: directories)
            if output.json {
                Output.json(Self.json(store))
                guard store.problems.isEmpty, store.listProblems.isEmpty else { throw Ending.failed }
                return
            }
            for problem in store.problems + store.listProblems { StandardOutput.line(StandardOutput.printable("\(problem)")) }
            guard store.problems.isEmpty, store.listProblems.isEmpty else { throw Ending.failed }
            let policy = store.policy
            StandardOutput.line("picker      \(policy.allowed.map { "only " + Policy.list($0) } ?? "every app with a manifest")")
            if !policy.refused.isEmpty { StandardOutput.line("            but not \(Policy.list(policy.refused))") }
            for rule in policy.approvals {
                StandardOutput.line(
                    "approve     \(rule.name): \(rule.app), \(rule.target), from \(rule.minimumRSSI) dBm (\(rule.source))")
            }
            for list in policy.lists {
                StandardOutput.line(
                    "claims      \(list.id): \(list.app), \(list.count) of \(list.entries.count) entries, from "
                        + "\(ClaimList.text(of: list.window.lowerBound)) until \(ClaimList.text(of: list.window.upperBound)) (\(list.source))"
                )
            }
            for rule in policy.denials {
                StandardOutput.line(
                    "deny        \(rule.name): \(rule.apps.map(Policy.list) ?? "every app"), \(rule.target) (\(rule.source))")
            }
            for rule in policy.limits {
                StandardOutput.line(
                    "limit       \(rule.name): \(rule.apps.map(Policy.list) ?? "every app"), \(rule.target): \(rule.text) (\(rule.source))"
                )
            }
            if policy.approvals.isEmpty, policy.lists.isEmpty { StandardOutput.line("approve     nothing: a person picks") }
        }

        /// An app list is null where it is every app.
        private static func json(_ store: PolicyStore) -> JSON {
            let names = { (apps: Set<AppID>?) -> JSON in apps.map { JSON($0.sorted().map(\.rawValue)) } ?? .null }
            return [
                "problems": JSON((store.problems + store.listProblems).map { "\($0)" }),
                "lists": .array(
                    store.policy.lists.map { list in
                        [
                            "id": JSON(list.id), "source": JSON(list.source), "app": JSON(list.app.rawValue),
                            "from": JSON(Int(list.window.lowerBound)), "until": JSON(Int(list.window.upperBound)),
                            "count": JSON(list.count), "entries": JSON(list.entries.count),
                        ]
                    }),
                "allowed": names(store.policy.allowed), "refused": names(store.policy.refused),
                "approvals": .array(store.policy.approvals.map(\.json)),
                "denials": .array(
                    store.policy.denials.map { rule in
                        [
                            "name": JSON(rule.name), "source": JSON(rule.source), "apps": names(rule.apps),
                            "target": JSON("\(rule.target)"),
                        ]
                    }),
                "limits": .array(
                    store.policy.limits.map { rule in
                        [
                            "name": JSON(rule.name), "source": JSON(rule.source), "apps": names(rule.apps),
                            "target": JSON("\(rule.target)"), "limits": JSON(rule.text),
                        ]
                    }),
            ]
        }
    }

    struct Explain: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows whether an app may use an accessory, and the manifest, rule or grant that decides.",
            discussion: "Exit status: 0 if the app may use it, 1 otherwise.")
        @OptionGroup var options: BusOptions
        @OptionGroup var output: JSONOption
        @Argument(help: "The app's identifier.", completion: Completions.apps) var app: String
        @Argument(help: "The accessory's name, address or identifier.", completion: Completions.accessories) var accessory: String

        func run() throws {
            try Ending.guarding {
                let inventory = try Inventory(options)
                let target = try inventory.accessory(accessory)
                let answer = try inventory.connection.callAndWait(
                    AccessoryBus.name, AccessoryBus.adminPath, AccessoryBus.admin, "ExplainAccess",
                    [.string(app), .objectPath(target.path)])
                let access = AccessExplanation(wire: answer.first?.vardictValue ?? [:])
                let grant = inventory.grants.first { $0.path == access.grant }
                if output.json { write(json: access, target, grant, inventory) } else { write(access, target, grant) }
                if !access.mayUse { throw Ending.failed }
            }
        }

        private func write(_ access: AccessExplanation, _ target: Inventory.Accessory, _ grant: Inventory.Grant?) {
            if access.manifest.isEmpty {
                line("manifest    none: no program is \(app)")
            } else {
                line("manifest    \(access.problems.first.map { "refused: \($0)" } ?? access.manifest)")
            }
            line("picker      \(access.pickerRefusal.map { "refused: \($0)" } ?? "allowed")")
            if let denial = access.denial { line("denied      by rule \(denial.name) in \(denial.source)") }
            let state = grant.map {
                "\($0.id), \($0.isEnabled ? $0.state.rawValue : "switched off"), last used \(Output.time($0.lastUsed))"
                    + ($0.isInRange.map { "  \(Output.presence($0))" } ?? "")
            }
            line("grant       \(state ?? "none")")
            if let grant { line("access      \(grant.narrowing ?? "full")") }
            if let end = grant?.end, !end.isEmpty { line("ends        \(end)") }
            for rule in access.limits { line("limit       rule \(rule.name) in \(rule.source): \(rule.limits ?? "")") }
            for rule in access.approvals {
                line("approval    rule \(rule.name) in \(rule.source): \(rule.target), from \(rule.minimumRSSI ?? 0) dBm")
            }
            if let claim = access.claim { line("claim       \(claim)") }
            line("result      \(app) \(access.mayUse ? "may use" : "may not use") \(target.name)")
        }

        private func line(_ text: String) { StandardOutput.line(StandardOutput.printable(text)) }

        private func write(
            json access: AccessExplanation, _ target: Inventory.Accessory, _ grant: Inventory.Grant?, _ inventory: Inventory
        ) {
            Output.json([
                "app": JSON(app), "accessory": JSON(target.id), "mayUse": JSON(access.mayUse),
                "manifest": access.manifest.isEmpty ? .null : JSON(access.manifest), "problems": JSON(access.problems),
                "pickerRefused": access.pickerRefusal.map { JSON($0) } ?? .null, "grant": grant?.json(inventory) ?? .null,
                "claim": access.claim.map { JSON($0) } ?? .null,
                "limits": .array(
                    access.limits.map { rule in
                        ["name": JSON(rule.name), "source": JSON(rule.source), "limits": JSON(rule.limits ?? "")]
                    }),
                "denial": access.denial.map { ["name": JSON($0.name), "source": JSON($0.source)] } ?? .null,
                "approvals": .array(
                    access.approvals.map { rule in
                        [
                            "name": JSON(rule.name), "source": JSON(rule.source), "app": JSON(app), "target": JSON(rule.target),
                            "minimumRSSI": JSON(rule.minimumRSSI ?? 0),
                        ]
                    }),
            ])
        }
    }

    /// Reads these directories; without any, those of the daemon.
    static func store(of directories: [String]) -> PolicyStore {
        PolicyStore(
            directories: directories.isEmpty ? PolicyStore.standardDirectories : directories, loop: nil, log: silence)
    }

    static func list(_ apps: Set<AppID>) -> String { apps.sorted().map(\.rawValue).joined(separator: ", ") }
    static let silence = Logger(label: "policy") { _ in SwiftLogNoOpLogHandler() }
}

extension AccessPolicy.Approval {
    fileprivate var json: JSON {
        [
            "name": JSON(name), "source": JSON(source), "app": JSON(app.rawValue), "target": JSON("\(target)"),
            "minimumRSSI": JSON(minimumRSSI),
        ]
    }
}

struct Audit: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows the audit trail: actions on accessories, with the actor and the reason.",
        discussion: """
            The daemon keeps the last 20,000 changes of access, 10,000 other actions and 2,000 refusals; the journal contains them too.
            """)
    @OptionGroup var options: BusOptions
    @OptionGroup var output: TableOptions
    @Option(help: "Only lines about this app.", completion: Completions.apps) var app: String?
    @Option(help: "Only actions since then: seconds since 1970, an age (90s, 15m, 12h, 7d), today or yesterday.")
    var since: String?
    @Option(help: "At most this number of lines, the newest.") var limit: UInt32 = 1000
    @Flag(
        name: .shortAndLong,
        help: "Continue with new lines until interrupted; with --json, one object per line.")
    var follow = false

    func run() throws {
        try Ending.guarding {
            var filter: [String: DBusValue] = ["limit": .uint32(limit)]
            if let app { filter["app"] = .string(app) }
            if let since {
                guard let time = Self.time(since, now: Double(Glibc.time(nil))) else {
                    throw ValidationError(
                        "--since \(since): neither seconds since 1970 nor a time like 90s, 15m, 12h, 7d, today or yesterday")
                }
                filter["since"] = .uint64(time)
            }
            let connection = try Inventory.connect(options)
            // Before the list is requested: a line that is written in between is signalled, and may be in the list too.
            let following = follow ? try AuditFollowing(connection) : nil
            let reply = try connection.callAndWait(
                AccessoryBus.name, AccessoryBus.adminPath, AccessoryBus.admin, "GetAudit", [.vardict(filter)])
            let lines = AuditLine.list(wire: reply.first)
            if output.json {
                Output.json(.array(lines.map(\.json)))
                try following?.run(after: lines) { line in
                    if app == nil || line.app == app { StandardOutput.line(line.json.writtenInOneLine) }
                }
            } else {
                let table = try Table(["TIME", "EVENT", "APP", "ACCESSORY", "WHO", "WHY"], lines.map(\.row), output)
                guard let following else { return output.paged { table.write() } }
                table.write()
                try following.run(after: lines) { line in
                    if app == nil || line.app == app { table.write(row: line.row) }
                }
            }
        }
    }

    static func time(_ text: String, now: Double) -> UInt64? {
        if let seconds = UInt64(text) { return seconds }
        if let days = ["today": 0, "yesterday": 1][text] {
            var day = time_t(now)
            var parts = tm()
            localtime_r(&day, &parts)
            (parts.tm_hour, parts.tm_min, parts.tm_sec, parts.tm_isdst) = (0, 0, 0, -1)
            parts.tm_mday -= Int32(days)
            return UInt64(max(0, mktime(&parts)))
        }
        let units: [Character: Double] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        guard let unit = text.last.flatMap({ units[$0] }), let number = Double(text.dropLast()), number >= 0, number.isFinite else {
            return nil
        }
        return UInt64(max(0, now - number * unit))
    }
}

struct Explain: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Scans for an app, and shows for each accessory in range whether it is offered, and if not, why.",
        discussion: """
            Uses the items of the app's picker if one is open, else one item for each service and company that its manifest declares.
            """)
    @OptionGroup var options: BusOptions
    @OptionGroup var output: JSONOption
    @Option(help: "The duration of the scan, 1 to 20 seconds.") var seconds = 5.0
    @Flag(help: "Record the air instead: a scenario for policy test and accessory-sim.") var air = false
    @Argument(help: "The app's identifier.", completion: Completions.apps) var app: String

    func run() throws {
        try Ending.guarding {
            let connection = try Inventory.connect(options)
            if !output.json, !air, (0...3600).contains(seconds) {
                StandardOutput.errorLine("listening for \(Int(seconds.rounded(.up))) s…")
            }
            let reply = try connection.callAndWait(
                AccessoryBus.name, AccessoryBus.adminPath, AccessoryBus.admin, "Explain",
                [.vardict(["app": .string(app), "seconds": .double(seconds)])], timeout: .seconds(40))
            let devices = ExplainedDeviceEntry.list(wire: reply.first)
            if air {
                return Output.json(["accessories": .array(devices.enumerated().compactMap { $1.asScenario($0 + 1) })])
            }
            if output.json {
                return Output.json(
                    .array(
                        devices.map { device in
                            [
                                "address": JSON(device.address), "ssid": JSON(device.network ?? ""), "name": JSON(device.name),
                                "rssi": device.rssi.map { .integer($0) } ?? .null, "item": JSON(device.item),
                                "reasons": JSON(device.reasons), "unattended": device.unattended.map { JSON($0) } ?? .null,
                                "kinds": JSON(device.kinds),
                            ]
                        }))
            }
            for device in devices {
                let name = StandardOutput.printable(device.name)
                let strength = device.rssi.map { "\($0) dBm" } ?? "strength unknown"
                let address = device.ssid == nil ? device.address : "Wi-Fi"
                StandardOutput.line("\(address)  \(name.isEmpty ? "(no name)" : name)  \(strength)")
                if !device.item.isEmpty { StandardOutput.line("    matches \(StandardOutput.printable(device.item))") }
                if let unattended = device.unattended {
                    StandardOutput.line("    without a person: \(StandardOutput.printable(unattended))")
                }
                for kind in device.kinds { StandardOutput.line("    kind: \(StandardOutput.printable(kind))") }
                for reason in device.reasons { StandardOutput.line("    not offered: \(StandardOutput.printable(reason))") }
            }
            if devices.isEmpty { StandardOutput.line("nothing was found within \(seconds) s") }
        }
    }
}

extension AuditLine {
    fileprivate var row: [String] { [Output.time(time), event, app, accessory, who, why] }

    fileprivate var json: JSON {
        [
            "id": JSON(Int(clamping: id)), "time": JSON(time), "event": JSON(event), "app": JSON(app), "accessory": JSON(accessory),
            "who": JSON(who), "why": JSON(why),
        ]
    }
}

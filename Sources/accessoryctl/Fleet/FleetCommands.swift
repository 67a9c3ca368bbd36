// SPDX-License-Identifier: Apache-2.0
// The operator's commands about many gateways: look, and act on one.

internal import ArgumentParser
internal import FleetProtocol
internal import JSONText
internal import ProgramSupport

struct Fleet: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Manages many gateways over an MQTT broker.",
        discussion:
            "The gateways run accessory-fleet(8). Everything that they obey is signed with the operator's key, in the fleet's directory.",
        subcommands: [
            Init.self, Add.self, Remove.self, ListGateways.self, Accessories.self, Grants.self, Apply.self, Revoke.self,
            Enable.self,
            Disable.self, RemoveAccessory.self, Rename.self, LockDown.self, Audit.self, Picker.self,
        ])

    /// Reads the state of all gateways.
    static func read(_ options: FleetOptions, _ ends: [String]) throws -> (FleetState, OperatorDirectory) {
        let client = try FleetClient(try options.open())
        var state = FleetState()
        client.onMessage = { state.receive($0, $1, $2) }
        try client.subscribe(ends, of: ["+"])
        client.end()
        return (state, client.directory)
    }

    struct ListGateways: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "Lists the gateways, and whether they are connected and have the newest documents.")
        @OptionGroup var options: FleetOptions
        @OptionGroup var output: TableOptions

        func run() throws {
            try Ending.guarding {
                let (state, fleet) = try Fleet.read(options, [FleetTopics.status, FleetTopics.reported + "#"])
                let names = Set(try fleet.gateways().map(\.name)).union(state.gateways.keys).sorted()
                if output.json {
                    return Output.json(
                        .array(
                            names.map { name in
                                let gateway = state.gateways[name]
                                return [
                                    "gateway": JSON(name), "status": gateway?.status ?? .null,
                                    "policy": gateway?.reported["policy"] ?? .null,
                                    "manifests": gateway?.reported["manifests"] ?? .null,
                                    "manager": gateway?.reported["manager"] ?? .null,
                                    "accessories": JSON(gateway?.objects("accessory").count ?? 0),
                                    "grants": JSON(gateway?.objects("grant").count ?? 0),
                                ]
                            }))
                }
                let table = try Table(
                    ["GATEWAY", "STATE", "DAEMON", "VERSION", "POLICY", "MANIFESTS", "ACCESSORIES", "GRANTS"],
                    names.map { name in
                        let gateway = state.gateways[name]
                        let status = gateway?.status
                        return [
                            name, status?["state"]?.string ?? "never seen", status?["daemon"]?.string ?? "",
                            status?["version"]?.string ?? "",
                            Self.document(gateway?.reported["policy"]), Self.document(gateway?.reported["manifests"]),
                            "\(gateway?.objects("accessory").count ?? 0)", "\(gateway?.objects("grant").count ?? 0)",
                        ]
                    }, output)
                output.paged { table.write() }
            }
        }

        /// The version in force, and how it went with a later one.
        private static func document(_ report: JSON?) -> String {
            guard let report else { return "" }
            let version = report["version"]?.int ?? 0
            let present = version == 0 ? "none" : "\(version)"
            guard let state = report["state"]?.string, state != "applied" else { return present }
            return "\(present), \(report["desired"]?.int ?? 0) \(state)"
        }
    }

    struct Accessories: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Lists the accessories of all gateways.")
        @OptionGroup var options: FleetOptions
        @OptionGroup var output: TableOptions

        func run() throws {
            try Ending.guarding {
                try Fleet.list(
                    "accessory", options, output, ["GATEWAY", "NAME", "ADDRESS", "STATE", "APPS", "ID"]
                ) { id, object in
                    [
                        object["DisplayName"]?.string ?? "", object["Address"]?.string ?? "", object["State"]?.string ?? "",
                        (object["Apps"]?.elements ?? []).compactMap(\.string).joined(separator: ","), id,
                    ]
                }
            }
        }
    }

    struct Grants: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Lists the grants of all gateways.")
        @OptionGroup var options: FleetOptions
        @OptionGroup var output: TableOptions

        func run() throws {
            try Ending.guarding {
                try Fleet.list("grant", options, output, ["GATEWAY", "GRANT", "APP", "ACCESSORY", "STATE", "ACCESS", "ENDS"]) {
                    id, object in
                    let isEnabled = object["Enabled"]?.bool ?? true
                    return [
                        id, object["App"]?.string ?? "", Fleet.accessory(of: object),
                        isEnabled ? object["State"]?.string ?? "" : "disabled", object["Access"]?.string ?? "",
                        object["Ends"]?.int.map { $0 == 0 ? "" : Output.time($0) } ?? "",
                    ]
                }
            }
        }
    }

    /// The identifier in the path of a grant's accessory.
    static func accessory(of grant: JSON) -> String {
        let last = grant["Accessory"]?.string?.split(separator: "/").last ?? ""
        return String(decoding: last.utf8.map { $0 == UInt8(ascii: "_") ? UInt8(ascii: "-") : $0 }, as: UTF8.self)
    }

    private static func list(
        _ kind: String, _ options: FleetOptions, _ output: TableOptions, _ columns: [String], _ row: (String, JSON) -> [String]
    ) throws {
        let (state, _) = try read(options, ["\(FleetTopics.reported)\(kind)/+"])
        let objects = state.gateways.sorted { $0.key < $1.key }.flatMap { name, gateway in
            gateway.objects(kind).map { (name, $0.id, $0.1) }
        }
        if output.json {
            return Output.json(
                .array(
                    objects.map { name, id, object in
                        .object((object.members ?? [:]).merging(["gateway": JSON(name), "id": JSON(id)]) { own, _ in own })
                    }))
        }
        let table = try Table(columns, objects.map { name, id, object in [name] + row(id, object) }, output)
        output.paged { table.write() }
    }

    // MARK: Actions

    /// Performs an action, and prints how it went.
    static func perform(
        _ options: FleetOptions, _ gateway: String, _ done: String, _ make: (FleetClient) throws -> FleetCommand.Action
    ) throws {
        try Ending.guarding {
            let client = try FleetClient(try options.open())
            let answer = try client.perform(try make(client), at: gateway)
            client.end()
            guard answer.outcome == .done else {
                throw OperatorDirectory.Problem(
                    "\(gateway): \(answer.outcome.rawValue): \(StandardOutput.printable(answer.reason))")
            }
            StandardOutput.line("\(gateway): \(done)")
        }
    }

    /// The arguments of commands about a grant.
    struct GrantArguments: ParsableArguments {
        @OptionGroup var options: FleetOptions
        @Argument(help: "The gateway's name.") var gateway: String
        @Argument(help: "The grant's number (accessoryctl fleet grants).") var grant: Int

        func perform(_ done: String, _ action: (FleetCommand.Action.GrantName) -> FleetCommand.Action) throws {
            try Fleet.perform(options, gateway, "grant \(grant) \(done)") { action(try name($0)) }
        }

        /// With the app and the accessory by the last report: the number alone might mean another grant by now.
        private func name(_ client: FleetClient) throws -> FleetCommand.Action.GrantName {
            var state = FleetState()
            client.onMessage = { state.receive($0, $1, $2) }
            try client.subscribe(["\(FleetTopics.reported)grant/\(grant)"], of: [try client.directory.gateway(gateway).name])
            client.onMessage = nil
            guard let object = state.gateways[gateway]?.reported["grant/\(grant)"], let app = object["App"]?.string else {
                throw OperatorDirectory.Problem("\(gateway) has no grant \(grant)")
            }
            return .init(grant, app: app, accessory: accessory(of: object))
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Revokes a grant at a gateway.")
        @OptionGroup var arguments: GrantArguments

        func run() throws { try arguments.perform("revoked") { .revoke($0) } }
    }

    struct Enable: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Enables a grant at a gateway again.")
        @OptionGroup var arguments: GrantArguments

        func run() throws { try arguments.perform("enabled") { .enable($0) } }
    }

    struct Disable: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Disables a grant at a gateway.")
        @OptionGroup var arguments: GrantArguments

        func run() throws { try arguments.perform("disabled") { .disable($0) } }
    }

    struct RemoveAccessory: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove", abstract: "Removes an accessory from a gateway, for all apps, with its bond.")
        @OptionGroup var options: FleetOptions
        @Argument(help: "The gateway's name.") var gateway: String
        @Argument(help: "The accessory's identifier (accessoryctl fleet accessories).") var accessory: String

        func run() throws { try Fleet.perform(options, gateway, "accessory removed") { _ in .remove(accessory: accessory) } }
    }

    struct Rename: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Renames an accessory at a gateway.")
        @OptionGroup var options: FleetOptions
        @Argument(help: "The gateway's name.") var gateway: String
        @Argument(help: "The accessory's identifier (accessoryctl fleet accessories).") var accessory: String
        @Argument(help: "The new name.") var name: String

        func run() throws {
            try Fleet.perform(options, gateway, "accessory renamed") { _ in .rename(accessory: accessory, name: name) }
        }
    }

    struct LockDown: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "lockdown", abstract: "Switches a gateway's lock-down on or off (accessoryctl lockdown).")
        enum Switch: String, ExpressibleByArgument, CaseIterable {
            case on
            case off
        }
        @OptionGroup var options: FleetOptions
        @Argument(help: "The gateway's name.") var gateway: String
        @Argument(help: "on or off.") var state: Switch

        func run() throws {
            try Fleet.perform(options, gateway, "lock-down \(state.rawValue)") { _ in .lockDown(state == .on) }
        }
    }
}

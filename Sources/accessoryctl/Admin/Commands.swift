// SPDX-License-Identifier: Apache-2.0
// The admin's commands: look, revoke, remove.

internal import Glibc
internal import AccessoryBus
internal import AccessoryModel
internal import ArgumentParser
internal import DBusKit
internal import JSONText
internal import ProgramSupport

struct JSONOption: ParsableArguments {
    @Flag(help: "Print JSON instead of a table.")
    var json = false
}

struct Status: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows the state of the daemon, its radios, accessories and grants.",
        discussion: "Only administrators see adapters, accessories and grants.")
    @OptionGroup var options: BusOptions
    @OptionGroup var output: JSONOption

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(visible: options)
            let manager = try inventory.manager()
            if output.json {
                var json: [String: JSON] = [
                    "version": JSON(manager.version), "bluetooth": JSON(manager.bluetooth), "wifi": JSON(manager.wifi),
                    "pickerAvailable": JSON(manager.isPickerAvailable),
                ]
                if inventory.isComplete {
                    json["adapters"] = .array(
                        inventory.adapters.map {
                            [
                                "name": JSON($0.name), "address": JSON($0.address), "powered": JSON($0.isPowered),
                                "allowed": JSON($0.isAllowed),
                            ]
                        })
                    json["accessories"] = JSON(inventory.accessories.count)
                    json["grants"] = JSON(inventory.grants.count)
                    json["mutedApps"] = JSON(manager.mutedApps.map(\.app))
                    json["sessions"] = .array(inventory.sessions.map { ["app": JSON($0.app), "state": JSON($0.state)] })
                }
                Output.json(.object(json))
            } else {
                StandardOutput.line("accessorysetupd \(manager.version)")
                StandardOutput.line("Bluetooth    \(manager.bluetooth)")
                for adapter in inventory.adapters {
                    StandardOutput.line("  \(adapter.name)       \(adapter.address)  \(adapter.state)")
                }
                StandardOutput.line("Wi-Fi        \(manager.wifi)")
                StandardOutput.line("picker       \(manager.isPickerAvailable ? "registered" : "none registered")")
                let held = [inventory.accessories.count, inventory.grants.count, inventory.sessions.count]
                let shown = held.map { inventory.isComplete ? "\($0)" : "for administrators" }
                StandardOutput.line("accessories  \(shown[0])")
                StandardOutput.line("grants       \(shown[1])")
                StandardOutput.line("sessions     \(shown[2])")
                for app in manager.mutedApps { StandardOutput.line("muted        \(StandardOutput.printable(app.app))") }
            }
        }
    }
}

struct List: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the accessories that are set up.")
    @OptionGroup var options: BusOptions
    @OptionGroup var output: TableOptions

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(options, isFresh: true, orOwn: true)
            if output.json { return Output.json(.array(inventory.accessories.map { .object($0.json) })) }
            let presences = inventory.presences
            let table = try Table(
                ["NAME", "ADDRESS", "NETWORK", "STATE", "APPS", "ID"],
                inventory.accessories.map {
                    [
                        $0.name, $0.address, $0.network, Self.state($0, presences[$0.path]), $0.apps.joined(separator: ","), $0.id,
                    ]
                }, output)
            output.paged {
                table.write()
                for accessory in inventory.accessories {
                    for problem in accessory.problems {
                        StandardOutput.line(StandardOutput.printable("\(accessory.name): \(problem)"))
                    }
                }
                if !inventory.isComplete { StandardOutput.line("These are only accessories that you set up.") }
            }
        }
    }

    /// Presence implies `authorized`, and takes its place: the column keeps its width.
    private static func state(_ accessory: Inventory.Accessory, _ isInRange: Bool?) -> String {
        guard accessory.problems.isEmpty else { return "\(accessory.state.rawValue), see below" }
        return isInRange.map(Output.presence) ?? accessory.state.rawValue
    }
}

struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Shows one accessory in detail.")
    @OptionGroup var options: BusOptions
    @OptionGroup var output: JSONOption
    @Argument(help: "The accessory's name, address or identifier.", completion: Completions.accessories) var accessory: String

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(options, isFresh: true, orOwn: true)
            let accessory = try inventory.accessory(accessory)
            let grants = inventory.grants.filter { $0.accessory == accessory.path }
            if output.json {
                var json = accessory.json
                json["grants"] = .array(grants.map { $0.json(inventory) })
                return Output.json(.object(json))
            }
            for (key, value) in [
                ("name", accessory.name), ("id", accessory.id), ("address", accessory.address), ("adapter", accessory.adapter),
                ("state", accessory.state.rawValue),
                ("network", accessory.network),
                ("joined", accessory.interface.isEmpty ? "" : "by \(accessory.interface)"),
                (
                    "device",
                    accessory.address.isEmpty
                        ? "" : accessory.device == "/" ? "currently unknown to BlueZ" : accessory.device.rawValue
                ),
                ("object", accessory.path.rawValue),
            ] where !value.isEmpty {
                StandardOutput.line(key + String(repeating: " ", count: 9 - key.count) + StandardOutput.printable(value))
            }
            for (key, value) in accessory.descriptor.sorted(by: { $0.key < $1.key }) {
                StandardOutput.line("found by \(key) \(StandardOutput.printable(value.text))")
            }
            for problem in accessory.problems { StandardOutput.line("problem  \(StandardOutput.printable(problem))") }
            for grant in grants {
                StandardOutput.line(
                    "grant \(grant.id)  \(grant.app)  \(grant.shownState)  since \(Output.time(grant.created))"
                        + (grant.isInRange.map { "  \(Output.presence($0))" } ?? "")
                        + (grant.end.isEmpty ? "" : "  ends \(grant.end)")
                )
                if let access = grant.narrowing { StandardOutput.line("  access \(StandardOutput.printable(access))") }
            }
        }
    }
}

struct Grants: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the grants: which app may use which accessory.")
    @OptionGroup var options: BusOptions
    @OptionGroup var output: TableOptions

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(options)
            if output.json { return Output.json(.array(inventory.grants.map { $0.json(inventory) })) }
            let table = try Table(
                ["GRANT", "APP", "ACCESSORY", "STATE", "ACCESS", "CREATED", "ENDS"],
                inventory.grants.map {
                    [
                        $0.id, $0.app, inventory.name(of: $0.accessory), $0.isInRange.map(Output.presence) ?? $0.shownState,
                        $0.access.rawValue,
                        Output.time($0.created), $0.end,
                    ]
                }, output)
            output.paged { table.write() }
        }
    }
}

struct Enable: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Enables a grant again.")
    @OptionGroup var options: BusOptions
    @Argument(help: "The grant's number (accessoryctl grants).", completion: Completions.grants) var grant: String

    func run() throws { try Ending.guarding { try Inventory(options).set(grant, isEnabled: true) } }
}

struct Disable: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Disables a grant: the app does not see the accessory until the grant is enabled again.")
    @OptionGroup var options: BusOptions
    @Argument(help: "The grant's number (accessoryctl grants).", completion: Completions.grants) var grant: String

    func run() throws { try Ending.guarding { try Inventory(options).set(grant, isEnabled: false) } }
}

extension Inventory {
    /// The grant of this number.
    func grant(_ id: String) throws(BusError) -> Grant {
        guard let found = grants.first(where: { $0.id == id }) else { throw .failed("no grant \(id)") }
        return found
    }

    fileprivate func set(_ id: String, isEnabled: Bool) throws(BusError) {
        let grant = try grant(id)
        _ = try connection.callAndWait(
            AccessoryBus.name, grant.path, Bus.properties, "Set",
            [.string(AccessoryBus.grant), .string("Enabled"), .variant(.boolean(isEnabled))], timeout: .seconds(40))
        let name = StandardOutput.printable(name(of: grant.accessory))
        StandardOutput.line(
            isEnabled ? "enabled: \(grant.app) may use \(name)" : "disabled: \(grant.app) may no longer use \(name)")
    }
}

struct Revoke: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Revokes a grant; revoking an accessory's last grant also removes its bond.")
    @OptionGroup var options: BusOptions
    @Argument(help: "The grant's number (accessoryctl grants).", completion: Completions.grants) var grant: String

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(options)
            let found = try inventory.grant(grant)
            _ = try inventory.connection.callAndWait(
                AccessoryBus.name, found.path, AccessoryBus.grant, "Revoke", timeout: .seconds(40))
            StandardOutput.line(
                "revoked: \(found.app) may no longer use \(StandardOutput.printable(inventory.name(of: found.accessory)))")
        }
    }
}

struct Limit: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Limits a grant: gives it an end, and narrows the app's access, or takes either back.",
        discussion: "The time counts from now. A grant that has ended is in force again, without pairing.")
    @OptionGroup var options: BusOptions
    @Argument(help: "The grant's number (accessoryctl grants).", completion: Completions.grants) var grant: String
    @Argument(help: "90s, 15min, 8h, 7d, 2w, a time of day (18:00), days without a use (idle 30d), or none.") var end: String?
    @Option(help: "The most that the app may do: full, read, or a list (180F/2A19:read+listen;180A/2A29:read).")
    var access: String?

    func validate() throws {
        if end == nil, access == nil { throw ValidationError("an end or --access is required") }
    }

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(options)
            let found = try inventory.grant(grant)
            // The one that may be refused comes first, so that nothing has changed then.
            let (first, second) = (("SetEnd", end), ("SetAccess", access))
            let isAccessBad = access.map { AccessLimit($0) == nil } ?? false
            for (member, value) in isAccessBad ? [second, first] : [first, second] {
                guard let value else { continue }
                _ = try inventory.connection.callAndWait(
                    AccessoryBus.name, found.path, AccessoryBus.grant, member, [.string(value)], timeout: .seconds(40))
            }
            let name = StandardOutput.printable(inventory.name(of: found.accessory))
            let limits = [access.map { "access \($0)" }, end.map { $0 == "none" ? "no end" : $0 }].compactMap(\.self)
            StandardOutput.line("limited: \(found.app) may use \(name): \(limits.joined(separator: ", "))")
        }
    }
}

struct Devices: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lists the devices that an app hears now by a grant for a kind.",
        discussion:
            "The list is empty while no client of the app uses Bluetooth and the app does not observe the kind. Excluded devices are marked."
    )
    @OptionGroup var options: BusOptions
    @OptionGroup var output: TableOptions
    @Argument(help: "The grant's number (accessoryctl grants).", completion: Completions.grants) var grant: String

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(options)
            let found = try inventory.grant(grant)
            let answer = try inventory.connection.callAndWait(
                AccessoryBus.name, found.path, AccessoryBus.grant, "ListDevices", timeout: .seconds(40))
            let devices = HeardDeviceEntry.list(wire: answer.first)
            if output.json {
                return Output.json(
                    .array(
                        devices.map {
                            .object(["address": .text($0.address), "name": .text($0.name), "excluded": .boolean(false)])
                        }
                            + found.excluded.map { .object(["address": .text($0), "excluded": .boolean(true)]) }))
            }
            let table = try Table(
                ["ADDRESS", "STATE", "NAME"],
                devices.map { [$0.address, "heard", $0.name] } + found.excluded.map { [$0, "excluded", ""] }, output)
            output.paged { table.write() }
        }
    }
}

struct Exclude: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Excludes a device from a grant for a kind: the app does not hear it.")
    @OptionGroup var options: BusOptions
    @Argument(help: "The grant's number (accessoryctl grants).", completion: Completions.grants) var grant: String
    @Argument(help: "The device's address (accessoryctl devices).") var address: String

    func run() throws { try Ending.guarding { try Inventory(options).exclude(address, true, from: grant) } }
}

struct Include: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Includes an excluded device again.")
    @OptionGroup var options: BusOptions
    @Argument(help: "The grant's number (accessoryctl grants).", completion: Completions.grants) var grant: String
    @Argument(help: "The device's address.") var address: String

    func run() throws { try Ending.guarding { try Inventory(options).exclude(address, false, from: grant) } }
}

extension Inventory {
    fileprivate func exclude(_ address: String, _ isExcluded: Bool, from id: String) throws(BusError) {
        let grant = try grant(id)
        _ = try connection.callAndWait(
            AccessoryBus.name, grant.path, AccessoryBus.grant, isExcluded ? "Exclude" : "Include", [.string(address)],
            timeout: .seconds(40))
        StandardOutput.line(
            isExcluded
                ? "excluded: \(grant.app) no longer hears \(address)" : "included: \(grant.app) may hear \(address)")
    }
}

struct Remove: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Removes an accessory with all its grants and its bond.",
        discussion: "A member of accessory-picker removes the grants that they set up; the accessory goes with the last grant.")
    @OptionGroup var options: BusOptions
    @Argument(help: "The accessory's name, address or identifier.", completion: Completions.accessories) var accessory: String

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(options, orOwn: true)
            let found = try inventory.accessory(accessory)
            _ = try inventory.connection.callAndWait(
                AccessoryBus.name, found.path, AccessoryBus.accessory, "Remove", timeout: .seconds(40))
            StandardOutput.line("removed: \(StandardOutput.printable(found.name))")
        }
    }
}

struct Unpair: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Removes the bond with an accessory; its grants are suspended until it is paired again.",
        discussion: "For an accessory that has lost its keys, even if another program has paired it.")
    @OptionGroup var options: BusOptions
    @Flag(help: "Do not ask for confirmation.") var yes = false
    @Argument(help: "The accessory's name, address or identifier.", completion: Completions.accessories) var accessory: String

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(options)
            let found = try inventory.accessory(accessory)
            let name = StandardOutput.printable(found.name)
            guard yes || Self.isConfirmed(name, found.apps) else { throw BusError.failed("nothing was changed") }
            _ = try inventory.connection.callAndWait(
                AccessoryBus.name, found.path, AccessoryBus.accessory, "Unpair", timeout: .seconds(40))
            StandardOutput.line("unpaired: \(name) can be paired again in a picker of \(found.apps.joined(separator: ", "))")
        }
    }

    private static func isConfirmed(_ name: String, _ apps: [String]) -> Bool {
        guard isatty(0) == 1 else { return false }
        StandardOutput.line(
            "Remove the bond with \(name)? \(apps.joined(separator: ", ")) cannot use it until it is paired again. [y/N]")
        return ["y", "yes"].contains(readLine()?.lowercased())
    }
}

struct Rename: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Renames an accessory for all apps.")
    @OptionGroup var options: BusOptions
    @Argument(help: "The accessory's name, address or identifier.", completion: Completions.accessories) var accessory: String
    @Argument(help: "The new name.") var name: String

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(options, orOwn: true)
            let found = try inventory.accessory(accessory)
            _ = try inventory.connection.callAndWait(
                AccessoryBus.name, found.path, AccessoryBus.accessory, "Rename", [.string(name)])
            StandardOutput.line("renamed: \(StandardOutput.printable(found.name)) is now \(StandardOutput.printable(name))")
        }
    }
}

extension Inventory.Accessory {
    var json: [String: JSON] {
        [
            "id": JSON(id), "name": JSON(name), "address": JSON(self.address), "adapter": JSON(self.adapter),
            "state": JSON(self.state.rawValue), "apps": JSON(self.apps), "device": JSON(self.device.rawValue),
            "path": JSON(path.rawValue), "ssid": JSON(network), "interface": JSON(interface),
            "problems": JSON(self.problems), "descriptor": .object(self.descriptor.mapValues(\.json)),
        ]
    }
}

extension Inventory.Grant {
    func json(_ inventory: Inventory) -> JSON {
        [
            "id": JSON(Int(id) ?? 0), "app": JSON(self.app), "accessory": JSON(self.accessory.rawValue),
            "name": JSON(inventory.name(of: self.accessory)), "state": JSON(self.state.rawValue),
            "enabled": JSON(self.isEnabled), "observed": JSON(self.isObserved), "present": JSON(self.isPresent),
            "created": JSON(self.created), "lastUsed": JSON(self.lastUsed),
            "ends": JSON(self.ends), "endRules": JSON(self.endRules),
            "access": JSON(self.access.rawValue), "characteristics": JSON(self.characteristics),
        ]
    }
}

extension DBusValue {
    /// As JSON: bytes become hexadecimal text.
    fileprivate var json: JSON {
        switch self {
        case .string(let text): .text(text)
        case .boolean(let value): .boolean(value)
        case .bytes(let bytes): .text(Hex.text(bytes))
        case .array(_, let values): .array(values.map(\.json))
        case .structure(let fields): .array(fields.map(\.json))
        case .objectPath(let path): .text(path.rawValue)
        default: integerValue.map { .integer($0) } ?? doubleValue.map { .number($0) } ?? .text("\(self)")
        }
    }

    /// For people.
    fileprivate var text: String {
        if let words = stringsValue { return words.joined(separator: " ") }
        switch json {
        case .text(let text): return text
        case let json: return json.written
        }
    }
}

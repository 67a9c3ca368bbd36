// SPDX-License-Identifier: Apache-2.0
// The admin's tool and the terminal picker: one program, a client of the daemon's D-Bus interface like any other.

internal import AccessoryBus
internal import AccessoryModel
internal import ArgumentParser
internal import DBusKit
internal import Glibc
internal import ProgramSupport
internal import SimulatorProgram

@main
struct AccessoryCtl: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accessoryctl",
        abstract: "Manages the accessories and grants of accessorysetupd, and shows its pickers.",
        discussion: """
            Exit status: 0 success, 1 refused or failed, 2 cancelled by the person (picker), 3 the daemon cannot be reached, \
            4 processes are not locked down yet (lockdown status), 64 wrong arguments.
            """,
        version: Version.current,
        subcommands: [
            Status.self, List.self, Show.self, Grants.self, Enable.self, Disable.self, Revoke.self, Remove.self, Unpair.self,
            Rename.self, Limit.self, Devices.self, Exclude.self, Include.self,
            Apps.self, App.self, Unmute.self,
            Manifest.self, WhoAmI.self, Policy.self, ClaimsCommand.self, Explain.self, Audit.self, Lockdown.self, Picker.self,
            Ask.self, Fleet.self,
        ],
        defaultSubcommand: Status.self)

    static func main() {
        // A package has the simulator in this file, too: by another name it is another program.
        if CommandLine.arguments.first?.split(separator: "/").last == "accessory-sim" { return SimulatorProgram.main() }
        let arguments = reordered(Array(CommandLine.arguments.dropFirst()))
        if let problem = mistyped(arguments[...], of: Self.self) {
            StandardOutput.errorLine("accessoryctl: \(problem)")
            Glibc.exit(64)
        }
        main(arguments)
    }

    /// The error for a word that is no command: the parser would take a first one for an argument of `status`.
    private static func mistyped(_ words: ArraySlice<String>, of command: any ParsableCommand.Type) -> String? {
        let subcommands = command.configuration.subcommands
        guard let word = words.first, !word.hasPrefix("-"), !subcommands.isEmpty else { return nil }
        if let found = subcommands.first(where: { $0._commandName == word }) { return mistyped(words.dropFirst(), of: found) }
        let commands = subcommands.map { $0._commandName } + ["help"]
        guard !commands.contains(word) else { return nil }
        let problem = "no command “\(StandardOutput.printable(word))”"
        let near = commands.filter { $0.hasPrefix(word) || distance(word, $0) <= max(1, word.count / 3) }
        guard let hint = near.min(by: { distance(word, $0) < distance(word, $1) }) else {
            return problem + ": accessoryctl --help lists them"
        }
        return problem + "; did you mean “\(hint)”?"
    }

    /// The number of letters to change, insert, delete or swap (Damerau-Levenshtein).
    private static func distance(_ one: String, _ other: String) -> Int {
        let (one, other) = (Array(one), Array(other))
        var rows = [Array(0...other.count)]
        for i in one.indices {
            var row = [i + 1]
            for j in other.indices {
                var cost = min(row[j] + 1, rows[i][j + 1] + 1, rows[i][j] + (one[i] == other[j] ? 0 : 1))
                if i > 0, j > 0, one[i] == other[j - 1], one[i - 1] == other[j] { cost = min(cost, rows[i - 1][j - 1] + 1) }
                row.append(cost)
            }
            rows.append(row)
        }
        return rows[one.count][other.count]
    }

    /// `--bus X status` is as good as `status --bus X`: the parser takes options of a subcommand only behind its name.
    static func reordered(_ arguments: [String]) -> [String] {
        let count = arguments.first == "--bus" ? 2 : arguments.first?.hasPrefix("--bus=") == true ? 1 : 0
        guard count > 0, arguments.count > count, !arguments[count].hasPrefix("-") else { return arguments }
        let groups = configuration.subcommands.filter { !$0.configuration.subcommands.isEmpty }.map { $0._commandName }
        let isGroup = groups.contains(arguments[count]) && arguments.count > count + 1 && !arguments[count + 1].hasPrefix("-")
        let end = count + (isGroup ? 2 : 1)
        return Array(arguments[count..<end] + arguments[..<count] + arguments[end...])
    }
}

/// The options of every subcommand.
struct BusOptions: ParsableArguments {
    @Option(help: "The daemon's bus: system, session, or an address.")
    var bus = "system"
}

/// How a command ends other than well.
enum Ending {
    static let failed = ExitCode(1)
    static let cancelled = ExitCode(2)
    static let unreachable = ExitCode(3)
    static let unlocked = ExitCode(4)

    /// Runs a command; a failure becomes one line and the exit status.
    static func guarding(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch let code as ExitCode {
            throw code
        } catch let error as ValidationError {
            throw error
        } catch let error as BusError {
            StandardOutput.errorLine("accessoryctl: \(explain(error))")
            throw isUnreachable(error) ? unreachable : failed
        } catch {
            StandardOutput.errorLine("accessoryctl: \(error)")
            throw failed
        }
    }

    private static func isUnreachable(_ error: BusError) -> Bool {
        [
            "ServiceUnknown", "NameHasNoOwner", "NoServer", "FileNotFound", "Disconnected", "NoReply", "BadAddress",
            "Spawn.ServiceNotFound",
        ]
        .contains { error.isStandard($0) }
    }

    private static func explain(_ error: BusError) -> String {
        isUnreachable(error)
            ? "accessorysetupd cannot be reached: \(error.message)" : error.message.isEmpty ? error.name : error.message
    }
}

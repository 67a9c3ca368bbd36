// SPDX-License-Identifier: Apache-2.0
// The dice app: a small program over the module AccessorySetupKit, as an app developer would write it. It adds dice, lists them, shows
// what they roll, renames and removes them.

internal import AccessorySetupKit
internal import ArgumentParser
internal import Foundation
internal import ProgramSupport

@main
struct Dice: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dice",
        abstract: "Sets dice up through accessorysetupd and shows their rolls.",
        discussion: "Exit status: 0 success, 1 it did not work (for play and rolls: no rolls arrived), 64 wrong arguments.",
        subcommands: [Play.self, Add.self, List.self, Kinds.self, Rolls.self, Rename.self, Remove.self],
        defaultSubcommand: Play.self)
}

/// What every subcommand takes.
struct Common: ParsableArguments {
    @Option(help: "The bus: system, session, or an address.")
    var bus = "system"

    @Option(help: "Seconds to wait for the person and the dice.")
    var timeout = 120.0

    /// Runs a command on an active session; what goes wrong is said in one line.
    func run(_ body: (DiceApp) throws -> Void) throws {
        do {
            let app = try DiceApp(bus: bus, timeout: timeout)
            try app.begin()
            try body(app)
        } catch {
            StandardOutput.errorLine("dice: \(describe(error))")
            throw ExitCode.failure
        }
    }

    private func describe(_ error: any Error) -> String {
        guard let error = error as? ASError else { return "\(error)" }
        return "\(error.code): \(error.localizedDescription)"
    }
}

struct Failure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

struct Play: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sets a die up if there is none, and prints its rolls.",
        discussion: "A die that was set up before is used again without a picker; --add asks for one more.")
    @OptionGroup var common: Common

    @Option(help: "How many rolls to print.")
    var rolls = 3

    @Option(help: "Seconds of discovery.")
    var discoveryTimeout: Double?

    @Flag(help: "Show the picker even if a die is set up already.")
    var add = false

    @Flag(help: "Wait until a picker program is there before asking for the picker.")
    var waitForPicker = false

    @Flag(help: "Remove the die at the end.")
    var remove = false

    func run() throws {
        try common.run { app in
            var die = app.dice.first
            if let die, !add {
                StandardOutput.line("\(StandardOutput.printable(die.displayName)) was set up before")
            } else {
                if waitForPicker { try app.waitForPicker() }
                die = try app.add(discoveryTimeout: discoveryTimeout)
            }
            guard let die else { throw Failure("no die was set up") }
            try app.printRolls(of: die, count: rolls)
            if remove { try app.remove(die) }
        }
    }
}

struct Add: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Adds a die.")
    @OptionGroup var common: Common
    @Flag(help: "Let the person give it a name.") var rename = false

    func run() throws { try common.run { app in _ = try app.add(discoveryTimeout: nil, rename: rename) } }
}

struct List: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the dice.")
    @OptionGroup var common: Common

    func run() throws {
        try common.run { app in
            for die in app.dice {
                StandardOutput.line(
                    "\(StandardOutput.printable(die.displayName))  \(die.bluetoothIdentifier?.uuidString ?? "")  \(die.state)")
            }
        }
    }
}

struct Kinds: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lists what dice it looks for.",
        discussion: "Those that the Info.plist beside the program declares; without one all.")

    func run() throws {
        for kind in DiceApp.kinds { StandardOutput.line("\(kind.name)  \(kind.service)") }
    }
}

struct Rolls: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Prints what a die rolls.")
    @OptionGroup var common: Common
    @Argument(help: "Its name.") var name: String
    @Option(help: "How many.") var count = 3

    func run() throws { try common.run { app in try app.printRolls(of: try app.die(named: name), count: count) } }
}

struct Rename: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Has the person give a die another name.")
    @OptionGroup var common: Common
    @Argument(help: "Its name now.") var name: String

    func run() throws { try common.run { app in try app.rename(try app.die(named: name)) } }
}

struct Remove: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Removes a die.")
    @OptionGroup var common: Common
    @Argument(help: "Its name.") var name: String

    func run() throws { try common.run { app in try app.remove(try app.die(named: name)) } }
}

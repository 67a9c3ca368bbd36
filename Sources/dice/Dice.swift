// SPDX-License-Identifier: Apache-2.0
// The sample app: adds dice, lists them, shows their rolls, renames and removes them. It is written against Apple's
// interfaces alone, AccessorySetupKit for the session and CoreBluetooth for the dice, and would be the same on a Mac.

import AccessorySetupKit

private let usage = """
    usage: dice [play] [--rolls N] [--add] [--remove]   sets up a die if there is none, and prints its rolls
           dice add [--rename]                          adds a die, and lets the person name it
           dice list                                    lists the dice
           dice kinds                                   lists the kinds that the app supports
           dice rolls NAME [--count N]                  prints the rolls of a die
           dice rename NAME | remove NAME               asks the person to rename it | removes it
    options: --timeout SECONDS (120)  for the entire run
             --discovery-timeout SECONDS  for the picker's search
    Exit status: 0 success, 1 failure, 64 wrong arguments.
    """

@main
@MainActor
struct Dice {
    private let arguments: Arguments
    private let session = DiceSession()

    static func main() async {
        guard let arguments = Arguments(CommandLine.arguments.dropFirst()) else {
            complain(usage)
            exit(64)
        }
        if arguments.command == .help {
            say(usage)
            exit(0)
        }
        if arguments.command == .kinds {
            for kind in DiceSession.kinds { say("\(kind.name)  \(kind.service)") }
            exit(0)
        }
        DispatchQueue.main.asyncAfter(deadline: .now() + arguments.timeout) { end("no answer in time") }
        do {
            try await Dice(arguments: arguments).run()
            exit(0)
        } catch let error as ASError {
            end("\(error.code): \(error.localizedDescription)")
        } catch {
            end("\(error)")
        }
    }

    private init(arguments: Arguments) {
        self.arguments = arguments
    }

    private func run() async throws {
        try await session.activate()
        switch arguments.command {
        case .play: try await play()
        case .add: _ = try await session.add(letsRename: arguments.letsRename, searchFor: arguments.discoveryTimeout)
        case .list: for die in session.dice { say("\(die.shownName)  \(die.bluetoothIdentifier?.uuidString ?? "")  \(die.state)") }
        case .rolls(let name): try await printRolls(of: session.die(named: name), count: arguments.count)
        case .rename(let name): try await session.rename(session.die(named: name))
        case .remove(let name): try await session.remove(session.die(named: name))
        case .kinds, .help: break
        }
    }

    private func play() async throws {
        let die: ASAccessory
        if let existing = session.dice.first, !arguments.addsAnother {
            say("\(existing.shownName) is already set up")
            die = existing
        } else {
            die = try await session.add(letsRename: false, searchFor: arguments.discoveryTimeout)
        }
        try await printRolls(of: die, count: arguments.count)
        if arguments.removesAtEnd { try await session.remove(die) }
    }

    private func printRolls(of die: ASAccessory, count: Int) async throws {
        guard let identifier = die.bluetoothIdentifier else { throw Failure("\(die.shownName) has no Bluetooth") }
        let reader = DieReader(identifier, named: die.shownName, count: count)
        do {
            try await reader.read { say("\(die.shownName) rolled \($0)") }
        } catch let error as CBError where error.code == .unknownDevice {
            // It is not the app's any more; the session says so.
            await session.wait(untilGone: die)
            throw Failure("\(die.shownName) may no longer be used")
        }
    }

    private static func end(_ reason: String) -> Never {
        complain("dice: \(reason)")
        exit(1)
    }
}

/// Prints a line at once, also into a pipe.
func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

private func complain(_ line: String) { FileHandle.standardError.write(Data((line + "\n").utf8)) }

/// A failure, for people.
struct Failure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// The command line.
struct Arguments {
    enum Command: Equatable {
        case play, add, list, kinds, help
        case rolls(String)
        case rename(String)
        case remove(String)
    }

    private(set) var command = Command.play
    private(set) var count = 3
    private(set) var timeout = 120.0
    private(set) var discoveryTimeout: Double?
    private(set) var letsRename = false
    private(set) var addsAnother = false
    private(set) var removesAtEnd = false

    /// Nil for wrong arguments.
    init?(_ arguments: some Sequence<String>) {
        var words: [String] = []
        var rest = Array(arguments)[...]
        while let word = rest.popFirst() {
            switch word {
            case "--rename": letsRename = true
            case "--add": addsAnother = true
            case "--remove": removesAtEnd = true
            case "--help", "-h": words = ["help"]
            case "--rolls", "--count":
                guard let number = rest.popFirst().flatMap({ Int($0) }), number > 0 else { return nil }
                count = number
            case "--timeout", "--discovery-timeout":
                guard let seconds = rest.popFirst().flatMap({ Double($0) }), seconds > 0 else { return nil }
                if word == "--timeout" { timeout = seconds } else { discoveryTimeout = seconds }
            default:
                guard !word.hasPrefix("--") else { return nil }
                words.append(word)
            }
        }
        switch (words.first, words.count) {
        case (nil, _), ("play", 1): command = .play
        case ("add", 1): command = .add
        case ("list", 1): command = .list
        case ("kinds", 1): command = .kinds
        case ("help", 1): command = .help
        case ("rolls", 2): command = .rolls(words[1])
        case ("rename", 2): command = .rename(words[1])
        case ("remove", 2): command = .remove(words[1])
        default: return nil
        }
    }
}

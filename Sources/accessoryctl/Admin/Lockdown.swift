// SPDX-License-Identifier: Apache-2.0
// Switches the lock-down of org.bluez, and says whether it is on; what it is stands in `BusConfiguration`.

internal import AdminFiles
internal import ArgumentParser
internal import DBusKit
internal import JSONText
internal import ProgramSupport
internal import SystemFiles

struct Lockdown: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Whether programs may talk to BlueZ past the scoped view.",
        discussion: """
            With the lock-down on, only root and accessorysetupd may talk to org.bluez; apps that were granted accessories use \
            /run/accessory-setup/bus. Desktops: their Bluetooth settings and the audio of a user's session stop working too.
            """, subcommands: [On.self, Off.self, Status.self], defaultSubcommand: Status.self)

    struct Files: ParsableArguments {
        @Option(help: "The bus' own configuration file, read last.", completion: .file())
        var file = BusConfiguration.standardPath

        @Option(help: "The policy that is included there.", completion: .file())
        var policy = BusConfiguration.standardPolicy
    }

    struct On: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Switches it on, and has the bus read its configuration.")
        @OptionGroup var options: BusOptions
        @OptionGroup var files: Files

        func run() throws {
            try Ending.guarding {
                guard SystemFile.exists(files.policy) else {
                    throw Problem("\(files.policy) is not there: is accessorysetupd installed?")
                }
                SystemFile.removeDraft(of: files.file)
                let old = try BusConfiguration(files.file)
                guard !old.isLocked else {
                    try reload(options)
                    return StandardOutput.line("the lock-down is on already")
                }
                try old.locked(including: files.policy).write(to: files.file)
                do {
                    try reload(options)
                } catch {
                    // A lock-down that the bus does not know is none, and must not look like one.
                    try old.write(to: files.file)
                    throw Problem("the bus did not take \(files.file), which is as it was before: \(error)")
                }
                StandardOutput.line("the lock-down is on: only root and accessorysetupd may talk to org.bluez")
            }
        }
    }

    struct Off: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Switches it off, and has the bus read its configuration.")
        @OptionGroup var options: BusOptions
        @OptionGroup var files: Files

        func run() throws {
            try Ending.guarding {
                SystemFile.removeDraft(of: files.file)
                let old = try BusConfiguration(files.file)
                if old.isLocked {
                    try old.unlocked().write(to: files.file)
                    StandardOutput.line("the lock-down is off: who may talk to org.bluez is what BlueZ' own policy says")
                } else {
                    StandardOutput.line("the lock-down is off already")
                }
                try reload(options)
            }
        }
    }

    struct Status: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Says whether it is on.", discussion: "Exit status: 0 when it is on, 1 when it is off.")
        @OptionGroup var files: Files
        @OptionGroup var output: JSONOption

        func run() throws {
            try Ending.guarding {
                let state = try BusConfiguration(files.file).lockdown(by: files.policy)
                if output.json { Output.json(["lockdown": JSON(state == .on ? "on" : state == .off ? "off" : "broken")]) }
                switch state {
                case .on: if !output.json { StandardOutput.line("on") }
                case .off:
                    if !output.json { StandardOutput.line("off") }
                    throw Ending.failed
                case .broken:
                    throw Problem("switched on in \(files.file), but \(files.policy) is not there: nothing is locked")
                }
            }
        }
    }

    private static func reload(_ options: BusOptions) throws {
        let connection = try Connection(Connection.Address(options.bus), loop: MainLoop())
        _ = try connection.callAndWait(Bus.name, Bus.path, Bus.name, "ReloadConfig")
    }

    struct Problem: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }
}

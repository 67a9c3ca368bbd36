// SPDX-License-Identifier: Apache-2.0
// `accessory-sim run`: an app against simulated accessories, by one command.

internal import ArgumentParser
internal import Glibc
internal import Logging
internal import ProgramSupport
internal import RadioSimulator

struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Runs an app against simulated accessories, with a daemon and a bus of its own.",
        discussion: """
            Shows the app's pickers in this terminal, or answers them with --pick. Everything ends with PROGRAM.

            Exit status: PROGRAM's, or 128 and the number of the signal that ended it; 1 when a part cannot run or ends before PROGRAM, \
            64 for wrong arguments.
            """)

    @Option(
        help: ArgumentHelp("The app's manifest. Repeatable: the first one is PROGRAM's.", valueName: "manifest"),
        completion: .file(extensions: ["conf"]))
    var app: [String]

    @Option(
        help: ArgumentHelp("The scenario (Docs/Scenarios.md).", valueName: "file"), completion: .file(extensions: ["json"]))
    var scenario = "/usr/share/accessory-setup/scenarios/dice.json"

    @Option(help: ArgumentHelp("Choose the first offer with this name in each picker, without asking.", valueName: "name"))
    var pick: String?

    @Argument(parsing: .postTerminator, help: ArgumentHelp("The program and its arguments.", valueName: "program"))
    var command: [String]

    func validate() throws {
        if command.isEmpty { throw ValidationError("the program is missing: -- PROGRAM [ARGUMENTS]") }
        if pick == nil, isatty(0) != 1 || isatty(1) != 1 {
            throw ValidationError("--pick is missing: without a terminal there is no person to ask")
        }
    }

    func run() throws {
        LoggingSystem.bootstrap { LogOutput(label: $0, level: .error) }
        let status: Int32
        do {
            let scenario = try Scenario(file: scenario)
            let app = try AppRun(command)
            defer { app.end() }
            status = try app.run(scenario, manifests: self.app, pick: pick)
        } catch {
            StandardOutput.errorLine("accessory-sim: \(error)")
            throw ExitCode.failure
        }
        throw ExitCode(status)
    }
}

// SPDX-License-Identifier: Apache-2.0
// `accessory-sim serve`: a scenario file in, org.bluez and Wi-Fi services on a private bus out.

internal import ArgumentParser
internal import DBusKit
internal import Glibc
internal import Logging
internal import ProgramSupport
internal import RadioSimulator

struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Serves the accessories of a scenario on a bus. Its name may be left out.",
        discussion: """
            Prints "ready" once all services of the scenario are on the bus. Exit status: 0 after SIGTERM or SIGINT, 1 when the bus or the scenario \
            cannot be used, 64 for wrong arguments.
            """)

    @Option(help: "The bus to serve: session, or an address. The system bus is refused: real programs live there.")
    var bus = "session"

    @Flag(help: "Check the scenario and exit.")
    var check = false

    @Flag(help: "Send adverts as fast as the bus accepts them, ignoring the scenario's intervals: for load tests.")
    var flood = false

    @Option(help: "The directory for simulated input devices, as in /sys/class/input.", completion: .directory)
    var inputDirectory: String?

    @Option(help: "trace, debug, info, notice, warning, error or critical.")
    var logLevel = Logger.Level.notice

    @Argument(help: "The scenario (Docs/Scenarios.md).", completion: .file(extensions: ["json"]))
    var scenario: String

    func validate() throws {
        if bus == "system" { throw ValidationError("--bus: system: a simulated org.bluez does not belong on the system bus") }
    }

    func run() throws {
        let level = logLevel
        LoggingSystem.bootstrap { LogOutput(label: $0, level: level) }
        let log = Logger(label: "accessory-sim")
        do {
            let scenario = try Scenario(file: scenario)
            if check {
                return print(
                    """
                    \(self.scenario): \(scenario.accessories.count) accessories, \(scenario.accessPoints.count) access points, \
                    \(scenario.events.count) events
                    """)
            }
            try serve(scenario, log)
        } catch {
            log.critical("\(error)")
            throw ExitCode.failure
        }
    }

    private func serve(_ scenario: Scenario, _ log: Logger) throws {
        let loop = MainLoop()
        #if DEBUG
            loop.letTimePass { StandardOutput.line("test clock: \($0) s") }
        #endif
        let simulator = try Simulator(scenario, bus: Connection.Address(bus), inputDirectory: inputDirectory, loop: loop, log: log)
        simulator.onDisconnect = { loop.quit() }
        for signal in [SIGTERM, SIGINT] {
            loop.onSignal(signal) {
                loop.quit()
                return false
            }
        }
        if flood { simulator.flood() }
        StandardOutput.line("ready")
        loop.run()
        withExtendedLifetime(simulator) {}
    }
}

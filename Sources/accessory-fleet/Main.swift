// SPDX-License-Identifier: Apache-2.0
// The agent's entry: arguments, log, signals, exit status.

internal import AccessoryModel
internal import DBusKit
internal import FleetAgent
internal import Glibc
internal import KeyFiles
internal import Logging
internal import ProgramSupport

@main
enum Main {
    /// The command line.
    private struct Options {
        var configuration = FleetSettings.standardPath
        var bus = "system"
        var directory = getenv("STATE_DIRECTORY").map { String(cString: $0) } ?? "/var/lib/accessory-fleet"
        var logLevel = Logger.Level.info
    }

    private static let all = [
        ProgramOption("config", value: "FILE", help: "The configuration file (default: /etc/accessory-setup/fleet.conf)"),
        ProgramOption("bus", value: "BUS", help: "The daemon's bus: system, session, or an address (default: system)"),
        ProgramOption(
            "state-directory", value: "DIRECTORY",
            help: "The directory of the agent's state (default: $STATE_DIRECTORY, else /var/lib/accessory-fleet)"),
        ProgramOption(
            "log-level", value: "LEVEL", help: "trace, debug, info, notice, warning, error or critical (default: info)"),
    ]

    private static let summary = "Reports this gateway's accessories to a fleet, and follows its operator's documents and commands."
    private static let exitStatus = """
        Exit status: 0 after SIGTERM or SIGINT, 1 if the bus or the state cannot be used now, 64 for wrong arguments, 78 for a \
        mistake in the configuration.
        """

    static func main() {
        var options = Options()
        ProgramOptions.parseOrExit("accessory-fleet", all, summary: summary, closing: exitStatus) {
            index, value throws(ProgramOptions.Problem) in
            switch index {
            case 0: options.configuration = value
            case 1: options.bus = value
            case 2: options.directory = value
            default: options.logLevel = try ProgramOptions.logLevel(value)
            }
        }
        exit(run(options))
    }

    /// Runs the agent to its end.
    ///
    /// - Returns: the exit status.
    private static func run(_ options: Options) -> Int32 {
        let level = options.logLevel
        LoggingSystem.bootstrap { LogOutput(label: $0, level: level) }
        let log = Logger(label: "accessory-fleet")
        // The daemon reads the documents' files.
        umask(0o022)
        let settings: FleetSettings
        do throws(KeyFileProblem) {
            settings = try FleetSettings(path: options.configuration, version: Version.current)
        } catch {
            log.critical("cannot run: \(error)")
            return EX_CONFIG
        }
        let loop = MainLoop()
        for signal in [SIGTERM, SIGINT] {
            loop.onSignal(signal) {
                loop.quit()
                return false
            }
        }
        // The library writes to connections that the broker has closed.
        signal(SIGPIPE, SIG_IGN)
        var status = EXIT_SUCCESS
        do {
            let bus = try Connection(.init(options.bus), loop: loop)
            // The bus has ended: systemd starts the agent again with it.
            bus.onDisconnect = {
                log.critical("the bus has closed the connection")
                status = EXIT_FAILURE
                loop.quit()
            }
            let agent = try AgentRunner(settings, bus: bus, directory: options.directory, loop: loop, log: log)
            agent.start()
            ServiceManager.notify("READY=1")
            ServiceManager.keepAlive(on: loop)
            loop.run()
            agent.end()
        } catch {
            log.critical("cannot run: \(error)")
            return EXIT_FAILURE
        }
        log.notice("stopped")
        return status
    }
}

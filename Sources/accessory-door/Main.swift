// SPDX-License-Identifier: Apache-2.0
// The door's entry: arguments, log, signals, exit status.

internal import AccessoryDoor
internal import AccessoryModel
internal import DBusKit
internal import Glibc
internal import KeyFiles
internal import Logging
internal import NoiseProtocol
internal import ProgramSupport
internal import SystemFiles

@main
enum Main {
    /// The command line.
    private struct Options {
        var configuration: String?
        var sockets = "/run/accessory-setup/app"
        var bus = "system"
        var newKey: String?
        var logLevel = Logger.Level.info
    }

    private static let all = [
        ProgramOption(
            "config", value: "FILE", help: "The configuration file (default: /etc/accessory-setup/door.conf, which may be absent)"),
        ProgramOption(
            "app-sockets", value: "DIRECTORY",
            help: "The directory of apps' own sockets, as ID/bus (default: /run/accessory-setup/app)"),
        ProgramOption("bus", value: "BUS", help: "The bus of Avahi: system, session, or an address (default: system)"),
        ProgramOption("new-key", value: "FILE", help: "Write a new key to a file that does not exist, print it, and end"),
        ProgramOption(
            "log-level", value: "LEVEL", help: "trace, debug, info, notice, warning, error or critical (default: info)"),
    ]

    private static let summary = "Lets apps elsewhere use the accessories that are granted to them, by ESPHome's native API."
    private static let exitStatus = """
        Exit status: 0 after SIGTERM or SIGINT, 1 if an address cannot be used now, 64 for wrong arguments, 78 for a mistake \
        in the configuration.
        """

    static func main() {
        var options = Options()
        ProgramOptions.parseOrExit("accessory-door", all, summary: summary, closing: exitStatus) {
            index, value throws(ProgramOptions.Problem) in
            switch index {
            case 0: options.configuration = value
            case 1: options.sockets = value
            case 2: options.bus = value
            case 3: options.newKey = value
            default: options.logLevel = try ProgramOptions.logLevel(value)
            }
        }
        if let file = options.newKey { exit(makeKey(file)) }
        exit(run(options))
    }

    /// Writes a new key for the owner and the group of the file's directory.
    private static func makeKey(_ file: String) -> Int32 {
        let key = PreSharedKey.random()
        guard !SystemFile.exists(file) else {
            StandardOutput.errorLine("accessory-door: \(file): exists already; a key that is in use must not be lost")
            return EX_CANTCREAT
        }
        do throws(SystemFileError) {
            umask(0o027)
            try SystemFile.replace(file, with: Array((key.base64 + "\n").utf8), mode: 0o640)
        } catch {
            StandardOutput.errorLine("accessory-door: \(error)")
            return EX_CANTCREAT
        }
        giveToGroupOfDirectory(file)
        StandardOutput.line(key.base64)
        return EXIT_SUCCESS
    }

    /// The package's directory of keys belongs to the door's group.
    private static func giveToGroupOfDirectory(_ file: String) {
        let directory = file.lastIndex(of: "/").map { String(file[..<$0]) } ?? "."
        var status = stat()
        guard stat(directory.isEmpty ? "/" : directory, &status) == 0 else { return }
        // Without the right the file stays with the present group; the door says so when it cannot read the key.
        _ = chown(file, uid_t.max, status.st_gid)
    }

    /// Runs the door to its end.
    ///
    /// - Returns: the exit status.
    private static func run(_ options: Options) -> Int32 {
        let level = options.logLevel
        LoggingSystem.bootstrap { LogOutput(label: $0, level: level) }
        let log = Logger(label: "accessory-door")
        umask(0o077)
        let settings: DoorSettings
        do throws(KeyFileProblem) {
            let path = options.configuration ?? DoorSettings.standardPath
            let isGiven = options.configuration != nil || SystemFile.exists(path)
            settings = isGiven ? try DoorSettings(path: path) : DoorSettings()
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
        let server = DoorServer(settings, sockets: options.sockets, loop: loop, log: log)
        do throws(DoorError) {
            try server.start(settings)
        } catch {
            log.critical("\(error)")
            return error.isTemporary ? EXIT_FAILURE : EX_CONFIG
        }
        let announcement = announce(settings, options, loop, log)
        ServiceManager.notify("READY=1")
        ServiceManager.keepAlive(on: loop)
        withExtendedLifetime(announcement) { loop.run() }
        server.end()
        log.notice("stopped")
        return EXIT_SUCCESS
    }

    /// Nil where nothing is announced. Without a bus the door works, and clients are given its address by hand.
    private static func announce(_ settings: DoorSettings, _ options: Options, _ loop: MainLoop, _ log: Logger) -> Announcement? {
        guard settings.isAnnounced else { return nil }
        do throws(BusError) {
            return Announcement(settings, on: try Connection(.init(options.bus), loop: loop), log: log)
        } catch {
            log.warning("no bus for Avahi", metadata: ["reason": "\(error.message)"])
            return nil
        }
    }
}

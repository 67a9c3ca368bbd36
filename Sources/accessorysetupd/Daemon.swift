// SPDX-License-Identifier: Apache-2.0
// The daemon's entry: arguments, log, exit status.

internal import Glibc
internal import GrantStore
internal import KeyFiles
internal import Logging
internal import ProgramSupport

@main
enum Daemon {
    static func main() { exit(run(Options.ofProcess())) }

    /// Runs the daemon to its end.
    ///
    /// - Returns: the exit status.
    private static func run(_ options: Options) -> Int32 {
        let level = options.logLevel
        LoggingSystem.bootstrap { LogOutput(label: $0, level: level) }
        let log = Logger(label: "accessorysetupd")
        do {
            umask(0o077)
            raiseDescriptorLimit(log)
            try Assembly(options, log).run()
            log.notice("stopped")
            return EXIT_SUCCESS
        } catch let error as any RequiresAdministrator where error.requiresAdministrator {
            log.critical("cannot run: \(error)")
            return EX_CONFIG
        } catch let error as Assembly.Disconnected {
            log.critical("\(error)")
            return EXIT_FAILURE
        } catch {
            log.critical("cannot run: \(error)")
            return EXIT_FAILURE
        }
    }

    /// Raises the soft limit of descriptors, which defaults to 1,024 for programs that use select(2), to the number
    /// that the view's limits may need.
    private static func raiseDescriptorLimit(_ log: Logger) {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < descriptors else { return }
        limit.rlim_cur = min(descriptors, limit.rlim_max)
        if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur == descriptors { return }
        log.notice("there may not be enough file descriptors for all apps", metadata: ["limit": "\(limit.rlim_cur)"])
    }

    /// As in the unit (systemd/accessorysetupd.service).
    private static let descriptors: rlim_t = 16_384
}

/// An error that a restart cannot fix: the unit does not try again.
private protocol RequiresAdministrator: Error {
    var requiresAdministrator: Bool { get }
}

extension KeyFileProblem: RequiresAdministrator {
    fileprivate var requiresAdministrator: Bool { true }
}

extension GrantStoreError: RequiresAdministrator {
    fileprivate var requiresAdministrator: Bool { if case .newer = self { true } else { false } }
}

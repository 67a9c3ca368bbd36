// SPDX-License-Identifier: Apache-2.0
// The daemon's command line.

internal import AccessoryModel
internal import AccessoryService
internal import AdminFiles
internal import DBusKit
internal import Glibc
internal import Logging
internal import ProgramSupport
internal import SystemFiles

/// The options of the command line.
struct Options {
    /// The bus to serve: `system`, `session`, or an address.
    var bus = "system"
    /// The bus of org.bluez and the Wi-Fi services; nil for the same.
    var bluezBus: String?
    /// The directory of the store; nil for the default one.
    private var stateDirectory: String?
    /// The files of admins and vendors.
    var files = Files()
    var inputDirectory = "/sys/class/input"
    // Process 1's: the daemon may have no network of its own.
    var routeDirectory = "/proc/1/net"
    /// The socket of the scoped view; nil for the default one.
    var viewPath: String?
    /// The directory of apps' own sockets; nil for the default one.
    private var appSockets: String?
    var logLevel = Logger.Level.info

    struct Files {
        /// Later directories override earlier ones.
        var manifests: [String] { given.isEmpty ? ManifestStore.standardDirectories : given }
        fileprivate var given: [String] = []
        /// Earlier directories override later ones.
        var socketUnits: [String] { givenUnits.isEmpty ? SocketUnit.standardDirectories : givenUnits }
        fileprivate var givenUnits: [String] = []
        /// All add up.
        var policies: [String] { givenPolicies.isEmpty ? PolicyStore.standardDirectories : givenPolicies }
        fileprivate var givenPolicies: [String] = []
        var lockdown = AccessoryService.LockdownFiles()
        /// Nil for the default one, which may be absent.
        fileprivate var configuration: String?
    }

    private init() {}

    /// - Throws: the first mistake, with file, line and key.
    func configuration() throws -> Configuration {
        if let path = files.configuration { return try Configuration(path: path) }
        return SystemFile.exists(Configuration.standardPath) ? try Configuration(path: Configuration.standardPath) : Configuration()
    }

    var storeDirectory: String {
        // systemd sets a list if several are configured.
        let given = getenv("STATE_DIRECTORY").map { String(cString: $0) }?.split(separator: ":").first.map(String.init)
        return stateDirectory ?? given ?? "/var/lib/accessory-setup"
    }

    /// The directory of apps' own sockets; nil if there is none.
    var appSocketDirectory: String? {
        if let appSockets { return appSockets }
        guard Connection.Address(bus) == .system, access(AppSockets.standardDirectory, W_OK) == 0 else { return nil }
        return AppSockets.standardDirectory
    }

    // MARK: Parsing

    typealias Problem = ProgramOptions.Problem

    private static let summary = "Lets apps set up exactly the Bluetooth and Wi-Fi accessories that they declare."
    private static let exitStatus = """
        Exit status: 0 after SIGTERM or SIGINT, 1 if the bus or the store cannot be used now, 64 for wrong arguments, 78
        for errors that a restart cannot fix: a mistake in the configuration, or a store of a newer daemon.
        """

    private struct Option: Sendable {
        let name: StaticString
        /// The placeholder of the value in the help.
        let value: StaticString
        let help: StaticString
        let set: @Sendable (inout Options, String) throws(Problem) -> Void
    }

    private static let all: [Option] = [
        Option(name: "bus", value: "BUS", help: "The bus to serve: system, session, or an address (default: system)") {
            options, value in options.bus = value
        },
        Option(
            name: "bluez-bus", value: "BUS", help: "The bus of org.bluez and the Wi-Fi services, if different"
        ) { options, value in options.bluezBus = value },
        Option(
            name: "state-directory", value: "DIRECTORY",
            help: "The directory of the store (default: $STATE_DIRECTORY, else /var/lib/accessory-setup)"
        ) { options, value in options.stateDirectory = value },
        Option(
            name: "apps", value: "DIRECTORY",
            help:
                """
                A directory of app manifests; repeatable, later ones override (default: /usr/share/accessory-setup/apps, \
                /var/lib/accessory-fleet/apps and /etc/accessory-setup/apps)
                """
        ) { options, value in options.files.given.append(value) },
        Option(
            name: "policy", value: "DIRECTORY",
            help: """
                A directory of policy files; repeatable, all count (default: /var/lib/accessory-fleet/policy.d and \
                /etc/accessory-setup/policy.d)
                """
        ) { options, value in options.files.givenPolicies.append(value) },
        Option(
            name: "lockdown-file", value: "FILE",
            help:
                "The configuration file of the bus that enables the lock-down (default: /etc/dbus-1/system-local.conf)"
        ) { options, value in options.files.lockdown.configuration = value },
        Option(
            name: "lockdown-policy", value: "FILE",
            help: "The policy that it includes (default: /usr/share/accessory-setup/org.bluez.lockdown.conf)"
        ) { options, value in options.files.lockdown.policy = value },
        Option(
            name: "lockdown-units", value: "DIRECTORY",
            help: "The directory of units for the drop-ins of the lock-down (default: /etc/systemd/system)"
        ) { options, value in options.files.lockdown.units = value },
        Option(
            name: "socket-units", value: "DIRECTORY",
            help: """
                A directory of socket units that manifests name; repeatable, earlier ones override (default: the system units' in \
                /etc, /run, /usr/local/lib and /usr/lib)
                """
        ) { options, value in options.files.givenUnits.append(value) },
        Option(
            name: "config", value: "FILE",
            help: "The configuration file (default: /etc/accessory-setup/accessorysetupd.conf, which may be absent)"
        ) {
            options, value in options.files.configuration = value
        },
        Option(
            name: "input-directory", value: "DIRECTORY", help: "The kernel's directory of input devices (default: /sys/class/input)"
        ) { options, value in options.inputDirectory = value },
        Option(
            name: "route-directory", value: "DIRECTORY", help: "The directory of the kernel's routing tables (default: /proc/1/net)"
        ) { options, value in options.routeDirectory = value },
        Option(
            name: "view", value: "SOCKET",
            help: """
                The socket of the scoped view of org.bluez (default: the socket from systemd, else /run/accessory-setup/bus if --bus \
                is system)
                """
        ) { options, value in options.viewPath = value },
        Option(
            name: "app-sockets", value: "DIRECTORY",
            help:
                "The directory of sockets of apps with Socket=yes, as ID/bus (default: /run/accessory-setup/app if --bus is system)"
        ) { options, value in options.appSockets = value },
        Option(
            name: "log-level", value: "LEVEL",
            help: "trace, debug, info, notice, warning, error or critical; addresses appear at debug only (default: info)"
        ) { options, value throws(Problem) in
            options.logLevel = try ProgramOptions.logLevel(value)
        },
    ]

    /// Those of this process, which ends where they cannot be used, or the help is asked for.
    static func ofProcess() -> Self {
        var options = Self()
        ProgramOptions.parseOrExit(
            "accessorysetupd", all.map { ProgramOption($0.name, value: $0.value, help: $0.help) },
            summary: summary, closing: exitStatus
        ) { index, value throws(Problem) in try all[index].set(&options, value) }
        return options
    }
}

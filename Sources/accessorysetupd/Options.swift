// SPDX-License-Identifier: Apache-2.0
// The daemon's command line, read by GLib: swift-argument-parser, which the tools use, brings more code than the whole
// daemon has (Docs/Decisions/0017-without-foundation.md).

internal import AccessoryModel
internal import AccessoryService
internal import AdminFiles
internal import CGLib
internal import Glibc
internal import Logging

/// What the command line says.
struct Options {
    /// The bus to serve: `system`, `session`, or an address.
    var bus = "system"
    /// The bus that carries org.bluez and the Wi-Fi services; nil for the same.
    var bluezBus: String?
    /// Where the store is; nil for the usual place.
    var stateDirectory: String?
    /// Directories of manifests, later ones override; empty for the usual ones.
    var appDirectories: [String] = []
    var policyDirectory = PolicyStore.standardDirectory
    var lockdown = AccessoryService.LockdownFiles()
    /// The configuration file; nil for the usual one, which may be absent.
    var config: String?
    var inputDirectory = "/sys/class/input"
    // Process 1's: the daemon may have no network of its own.
    var routeDirectory = "/proc/1/net"
    /// The socket of the scoped view; nil for the usual place.
    var viewPath: String?
    /// The directory of apps' own sockets; nil for the usual place.
    var appSockets: String?
    var logLevel = Logger.Level.info
    /// What only is to be printed, when the help or the version is asked for.
    var answer: String?

    private init() {}

    /// Why the command line makes no sense.
    struct Problem: Error, CustomStringConvertible {
        let description: String
    }

    private static let summary = "Lets apps set up exactly the Bluetooth and Wi-Fi accessories that they declare."
    private static let exitStatus = """
        Exit status: 0 after SIGTERM or SIGINT, 1 when the bus or the store cannot be used now, 64 for wrong arguments,
        78 for what no further try mends: a mistake in the configuration, a store of a newer daemon.
        """

    /// An option, with what is done with its value.
    private struct Option: Sendable {
        let name: StaticString
        var letter: Character = "\0"
        /// What stands for the value in the help; nil for an option without one.
        let value: StaticString?
        let help: StaticString
        let set: @Sendable (inout Options, String) throws(Problem) -> Void
    }

    private static let all: [Option] = [
        Option(name: "bus", value: "BUS", help: "The bus to serve: system, session, or an address (default: system)") {
            options, value in options.bus = value
        },
        Option(
            name: "bluez-bus", value: "BUS", help: "The bus that carries org.bluez and the Wi-Fi services, when it is another one"
        ) { options, value in options.bluezBus = value },
        Option(
            name: "state-directory", value: "DIRECTORY",
            help: "Where the store is (default: $STATE_DIRECTORY, else /var/lib/accessory-setup)"
        ) { options, value in options.stateDirectory = value },
        Option(
            name: "apps", value: "DIRECTORY",
            help:
                "A directory of app manifests; may be given again, later ones override (default: /usr/share and /etc/accessory-setup/apps)"
        ) { options, value in options.appDirectories.append(value) },
        Option(
            name: "policy", value: "DIRECTORY", help: "The directory of policy files (default: /etc/accessory-setup/policy.d)"
        ) { options, value in options.policyDirectory = value },
        Option(
            name: "lockdown-file", value: "FILE",
            help:
                "The bus' configuration file in which the lock-down is switched on (default: /etc/dbus-1/system-local.conf)"
        ) { options, value in options.lockdown.configuration = value },
        Option(
            name: "lockdown-policy", value: "FILE",
            help: "The policy that is included there (default: /usr/share/accessory-setup/org.bluez.lockdown.conf)"
        ) { options, value in options.lockdown.policy = value },
        Option(
            name: "lockdown-units", value: "DIRECTORY",
            help: "The directory of units in which the lock-down has its drop-ins (default: /etc/systemd/system)"
        ) { options, value in options.lockdown.units = value },
        Option(name: "config", value: "FILE", help: "The configuration file; the default one may be absent") {
            options, value in options.config = value
        },
        Option(
            name: "input-directory", value: "DIRECTORY", help: "Where the kernel lists input devices (default: /sys/class/input)"
        ) { options, value in options.inputDirectory = value },
        Option(
            name: "route-directory", value: "DIRECTORY", help: "Where the kernel's routing tables are (default: /proc/1/net)"
        ) { options, value in options.routeDirectory = value },
        Option(
            name: "view", value: "SOCKET",
            help: """
                Where apps find the scoped view of org.bluez: a socket's path (default: the socket that systemd hands over, else \
                /run/accessory-setup/bus when --bus is system)
                """
        ) { options, value in options.viewPath = value },
        Option(
            name: "app-sockets", value: "DIRECTORY",
            help: "Where apps with Socket=yes find theirs, as ID/bus (default: /run/accessory-setup/app when --bus is system)"
        ) { options, value in options.appSockets = value },
        Option(
            name: "log-level", value: "LEVEL",
            help: "trace, debug, info, notice, warning, error or critical; addresses appear at debug only (default: info)"
        ) { options, value throws(Problem) in
            guard let level = Logger.Level(rawValue: value) else {
                throw Problem(description: "--log-level \(value): must be trace, debug, info, notice, warning, error or critical")
            }
            options.logLevel = level
        },
        Option(name: "version", value: nil, help: "Show the version") { options, _ in options.answer = Version.current },
        Option(name: "help", letter: "h", value: nil, help: "Show this help") { options, _ in options.answer = "" },
    ]

    /// What GLib's callback works on.
    private final class Reading {
        var options = Options()
        var problem: Problem?
    }

    /// - Throws: what is wrong with it.
    init(arguments: [String]) throws(Problem) {
        let reading = Reading()
        let take:
            @convention(c) (
                UnsafePointer<gchar>?, UnsafePointer<gchar>?, gpointer?, UnsafeMutablePointer<UnsafeMutablePointer<GError>?>?
            ) -> gboolean = { name, value, reading, failure in
                guard let name, let reading else { return 0 }
                let known = Unmanaged<Reading>.fromOpaque(reading).takeUnretainedValue()
                let given = String(cString: name)
                guard let option = Options.all.first(where: { "--\($0.name)" == given || "-\($0.letter)" == given }) else {
                    return 0
                }
                do throws(Problem) {
                    try option.set(&known.options, value.map { String(cString: $0) } ?? "")
                    return 1
                } catch {
                    known.problem = error
                    g_set_error_literal(failure, g_option_error_quark(), gint(G_OPTION_ERROR_BAD_VALUE.rawValue), "bad value")
                    return 0
                }
            }
        var entries = Self.all.map { option in
            var entry = GOptionEntry()
            entry.long_name = Self.text(option.name)
            entry.short_name = gchar(option.letter.asciiValue ?? 0)
            entry.flags = option.value == nil ? gint(G_OPTION_FLAG_NO_ARG.rawValue) : 0
            entry.arg = G_OPTION_ARG_CALLBACK
            entry.arg_data = unsafeBitCast(take, to: gpointer.self)
            entry.description = Self.text(option.help)
            entry.arg_description = option.value.map(Self.text)
            return entry
        }
        entries.append(GOptionEntry())
        let group = g_option_group_new("daemon", "", "", Unmanaged.passUnretained(reading).toOpaque(), nil)
        g_option_group_add_entries(group, &entries)
        let context = g_option_context_new(nil)
        defer { g_option_context_free(context) }
        // GLib's own help goes through the locale's encoding.
        g_option_context_set_help_enabled(context, 0)
        g_option_context_set_summary(context, Self.summary)
        g_option_context_set_description(context, Self.exitStatus)
        g_option_context_set_main_group(context, group)
        var vector: UnsafeMutablePointer<UnsafeMutablePointer<gchar>?>? = Self.vector(arguments)
        defer { g_strfreev(vector) }
        var failure: UnsafeMutablePointer<GError>?
        defer { g_clear_error(&failure) }
        guard g_option_context_parse_strv(context, &vector, &failure) != 0 else {
            throw reading.problem ?? Problem(description: failure.map { String(cString: $0.pointee.message) } ?? "wrong arguments")
        }
        if let vector, vector[0] != nil, let rest = vector[1] {
            throw Problem(description: "unexpected argument \(String(cString: rest))")
        }
        self = reading.options
        if answer == "", let help = g_option_context_get_help(context, 1, nil) {
            answer = String(cString: help)
            g_free(help)
        }
        withExtendedLifetime(reading) {}
    }

    /// Literals live as long as the process.
    private static func text(_ literal: StaticString) -> UnsafePointer<gchar> {
        UnsafeRawPointer(literal.utf8Start).assumingMemoryBound(to: gchar.self)
    }

    /// A copy that GLib may change and free.
    private static func vector(_ arguments: [String]) -> UnsafeMutablePointer<UnsafeMutablePointer<gchar>?>? {
        let size = gsize((arguments.count + 1) * MemoryLayout<UnsafeMutablePointer<gchar>?>.stride)
        let vector = g_malloc0(size)?.assumingMemoryBound(to: UnsafeMutablePointer<gchar>?.self)
        for (index, argument) in arguments.enumerated() { vector?[index] = g_strdup(argument) }
        return vector
    }
}

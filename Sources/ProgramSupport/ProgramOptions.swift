// SPDX-License-Identifier: Apache-2.0
// The command line of the daemons, parsed by GLib: the tools' swift-argument-parser is larger than a whole daemon
// (Docs/Decisions/0017-without-foundation.md).

internal import AccessoryModel
internal import CGLib
internal import Glibc
public import Logging

/// An option of a program's command line.
public struct ProgramOption: Sendable {
    let name: StaticString
    let letter: Character
    let value: StaticString?
    let help: StaticString

    /// - Parameter value: the placeholder of the value in the help; nil for an option without one.
    public init(_ name: StaticString, value: StaticString?, help: StaticString) {
        self.init(name, letter: "\0", value: value, help: help)
    }

    fileprivate init(_ name: StaticString, letter: Character, value: StaticString?, help: StaticString) {
        self.name = name
        self.letter = letter
        self.value = value
        self.help = help
    }
}

/// Parses a command line.
public enum ProgramOptions {
    /// A mistake in the command line.
    public struct Problem: Error, CustomStringConvertible {
        public let description: String

        /// - Parameter description: names option and value.
        public init(description: String) { self.description = description }
    }

    private static let common = [
        ProgramOption("version", value: nil, help: "Show the version"),
        ProgramOption("help", letter: "h", value: nil, help: "Show this help"),
    ]

    /// Parses the command line of this process. Prints the version or the help where it is asked for, and the first
    /// mistake, and ends then.
    ///
    /// - Parameter program: its name, for the mistake.
    public static func parseOrExit(
        _ program: String, _ options: [ProgramOption], summary: String, closing: String,
        set: (Int, String) throws(Problem) -> Void
    ) {
        do throws(Problem) {
            guard let text = try parse(CommandLine.arguments, options, summary: summary, closing: closing, set: set) else { return }
            StandardOutput.line(text)
            exit(EXIT_SUCCESS)
        } catch {
            StandardOutput.errorLine("\(program): \(error)\nTry \(program) --help.")
            exit(EX_USAGE)
        }
    }

    /// The state of GLib's callback.
    private final class Reading {
        var given: [(name: String, value: String)] = []
    }

    /// The value of `--log-level`.
    ///
    /// - Throws: for another word than a level.
    public static func logLevel(_ value: String) throws(Problem) -> Logger.Level {
        guard let level = Logger.Level(rawValue: value) else {
            throw Problem(description: "--log-level \(value): must be trace, debug, info, notice, warning, error or critical")
        }
        return level
    }

    /// Reads the arguments, of which the first is the program's name. `--version` and `--help` are added.
    ///
    /// - Parameters:
    ///   - closing: the help's last paragraph.
    ///   - set: gets each option that was given, by its position in `options`, with its value.
    /// - Returns: the version or the help, where it was asked for.
    /// - Throws: the first mistake.
    private static func parse(
        _ arguments: [String], _ options: [ProgramOption], summary: String, closing: String,
        set: (Int, String) throws(Problem) -> Void
    ) throws(Problem) -> String? {
        let reading = Reading()
        let callback:
            @convention(c) (
                UnsafePointer<gchar>?, UnsafePointer<gchar>?, gpointer?, UnsafeMutablePointer<UnsafeMutablePointer<GError>?>?
            ) -> gboolean = { name, value, reading, _ in
                guard let name, let reading else { return 0 }
                let current = Unmanaged<Reading>.fromOpaque(reading).takeUnretainedValue()
                current.given.append((String(cString: name), value.map { String(cString: $0) } ?? ""))
                return 1
            }
        let all = options + common
        var entries = all.map { option in
            var entry = GOptionEntry()
            entry.long_name = Self.text(option.name)
            entry.short_name = gchar(option.letter.asciiValue ?? 0)
            entry.flags = option.value == nil ? gint(G_OPTION_FLAG_NO_ARG.rawValue) : 0
            entry.arg = G_OPTION_ARG_CALLBACK
            entry.arg_data = unsafeBitCast(callback, to: gpointer.self)
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
        g_option_context_set_summary(context, summary)
        g_option_context_set_description(context, closing)
        g_option_context_set_main_group(context, group)
        var vector: UnsafeMutablePointer<UnsafeMutablePointer<gchar>?>? = Self.vector(arguments)
        defer { g_strfreev(vector) }
        var failure: UnsafeMutablePointer<GError>?
        defer { g_clear_error(&failure) }
        guard g_option_context_parse_strv(context, &vector, &failure) != 0 else {
            throw Problem(description: failure.map { String(cString: $0.pointee.message) } ?? "wrong arguments")
        }
        var wish: StaticString?
        for (name, value) in withExtendedLifetime(reading, { reading.given }) {
            guard let index = all.firstIndex(where: { "--\($0.name)" == name || "-\($0.letter)" == name }) else { continue }
            if index < options.count { try set(index, value) } else { wish = all[index].name }
        }
        if let vector, vector[0] != nil, let rest = vector[1] {
            throw Problem(description: "unexpected argument \(String(cString: rest))")
        }
        guard let wish else { return nil }
        guard "\(wish)" == "help", let help = g_option_context_get_help(context, 1, nil) else { return Version.current }
        defer { g_free(help) }
        return String(cString: help)
    }

    private static func text(_ literal: StaticString) -> UnsafePointer<gchar> {
        UnsafeRawPointer(literal.utf8Start).assumingMemoryBound(to: gchar.self)
    }

    /// A copy that GLib changes and the caller frees.
    private static func vector(_ arguments: [String]) -> UnsafeMutablePointer<UnsafeMutablePointer<gchar>?>? {
        let size = gsize((arguments.count + 1) * MemoryLayout<UnsafeMutablePointer<gchar>?>.stride)
        let vector = g_malloc0(size)?.assumingMemoryBound(to: UnsafeMutablePointer<gchar>?.self)
        for (index, argument) in arguments.enumerated() { vector?[index] = g_strdup(argument) }
        return vector
    }
}

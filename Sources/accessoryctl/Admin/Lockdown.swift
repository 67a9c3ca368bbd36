// SPDX-License-Identifier: Apache-2.0
// Switches the lock-down of org.bluez: one line in the bus' last configuration file, which belongs to the admin, so it
// is added with care and taken back to the byte.

internal import ArgumentParser
internal import DBusKit
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
        var file = "/etc/dbus-1/system-local.conf"

        @Option(help: "The policy that is included there.", completion: .file())
        var policy = "/usr/share/accessory-setup/org.bluez.lockdown.conf"
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

        func run() throws {
            try Ending.guarding {
                guard try BusConfiguration(files.file).isLocked else {
                    StandardOutput.line("off")
                    throw Ending.failed
                }
                guard SystemFile.exists(files.policy) else {
                    throw Problem("switched on in \(files.file), but \(files.policy) is not there: nothing is locked")
                }
                StandardOutput.line("on")
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

/// The admin's configuration file of the bus; without one, as if it were there and said nothing.
struct BusConfiguration {
    private static let begin = "  <!-- accessorysetupd: lock-down of org.bluez, by accessoryctl lockdown; do not edit -->\n"
    private static let end = "  <!-- accessorysetupd: end -->\n"
    /// A file that is all ours: it goes when the lock-down does.
    private static let opening = """
        <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
         "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
        <busconfig>

        """
    private static let closing = "</busconfig>"

    /// Nil: there is no file.
    private let text: String?

    /// - Throws: when the file is there and cannot be read.
    init(_ path: String) throws {
        guard SystemFile.exists(path) else {
            text = nil
            return
        }
        text = String(validating: try SystemFile.contents(path), as: UTF8.self)
        guard text != nil else { throw Lockdown.Problem("\(path): is not UTF-8, so it cannot be changed with care") }
    }

    private init(text: String?) {
        self.text = text
    }

    var isLocked: Bool {
        text.map { !Self.places(of: Self.begin, in: $0[...]).isEmpty && !Self.places(of: Self.end, in: $0[...]).isEmpty } ?? false
    }

    /// - Throws: when the file is no configuration of a bus.
    func locked(including policy: String) throws -> BusConfiguration {
        // A bus does not start when a file is missing that it must include: the line may outlive the package.
        let block = Self.begin + "  <include ignore_missing=\"yes\">\(policy)</include>\n" + Self.end
        guard let text else { return BusConfiguration(text: Self.opening + block + Self.closing + "\n") }
        // Before the last closing tag: what is read last counts.
        guard let close = Self.places(of: Self.closing, in: text[...]).last else {
            throw Lockdown.Problem("the bus' configuration has no \(Self.closing): mend it first")
        }
        return BusConfiguration(text: text[..<close] + block + text[close...])
    }

    private static func places(of words: String, in text: Substring) -> [String.Index] {
        text.indices.filter { text[$0...].hasPrefix(words) }
    }

    /// As it was before `locked`.
    func unlocked() -> BusConfiguration {
        guard let text, let begin = Self.places(of: Self.begin, in: text[...]).first,
            let end = Self.places(of: Self.end, in: text[begin...]).first
        else { return self }
        let rest = String(text[..<begin] + text[end...].dropFirst(Self.end.count))
        return BusConfiguration(text: rest == Self.opening + Self.closing + "\n" ? nil : rest)
    }

    /// All of it or nothing: the bus may read it at any time.
    func write(to path: String) throws {
        guard let text else { return try SystemFile.remove(path) }
        let draft = path + ".accessoryctl-new"
        try SystemFile.write(text.utf8, to: draft)
        try SystemFile.setMode(draft, SystemFile.mode(path) ?? 0o644)
        try SystemFile.move(draft, to: path)
    }
}

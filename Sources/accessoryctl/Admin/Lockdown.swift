// SPDX-License-Identifier: Apache-2.0
// Switches the lock-down of Bluetooth, and reports its state; `BusConfiguration` defines it for D-Bus, and
// `SocketLockdown` for the kernel's sockets.

internal import AdminFiles
internal import ArgumentParser
internal import CallerIdentity
internal import DBusKit
internal import Glibc
internal import JSONText
internal import ProgramSupport
internal import SystemFiles

struct Lockdown: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Restricts access to accessories to the scoped view.",
        discussion: """
            With the lock-down on, only root and accessorysetupd may talk to org.bluez, and no service except BlueZ's own, no \
            session and no user's program can open a Bluetooth socket; apps with a grant use /run/accessory-setup/bus. The \
            Bluetooth settings of desktops, and the audio of a user's session, stop working too. accessory-setup-policy(5) lists \
            the side effects for services.
            """, subcommands: [On.self, Off.self, Status.self], defaultSubcommand: Status.self)

    struct Files: ParsableArguments {
        @Option(help: "The bus configuration file that is read last.", completion: .file())
        var file = BusConfiguration.standardPath

        @Option(help: "The policy that this file includes.", completion: .file())
        var policy = BusConfiguration.standardPolicy

        @Option(help: "The administrator's directory of systemd units.", completion: .directory)
        var units = SocketLockdown.standardUnits

        @Option(help: "The file that records the start of the lock-down until the next boot.", completion: .file())
        var since = "/run/accessory-setup/lockdown-since"

        /// Both halves.
        func read() throws -> State { State(bus: try BusConfiguration(file), sockets: try SocketLockdown(units)) }

        func removeDrafts() throws {
            SystemFile.removeDraft(of: file)
            try SocketLockdown.removeDrafts(in: units)
        }

        /// Sockets first: a person looks at the bus' configuration.
        func write(_ new: State, over old: State) throws {
            try new.sockets.write(over: old.sockets)
            if new.bus.isLocked != old.bus.isLocked { try new.bus.write(to: file) }
        }

        /// Clock ticks since the machine began; 0 for before that, nil where it is not known.
        var sinceTicks: UInt64? { (try? SystemFile.text(since, limit: 64)).map { UInt64($0.filter(\.isNumber)) } ?? 0 }

        func writeSince(_ ticks: UInt64?) throws {
            if let slash = since.lastIndex(of: "/"), slash > since.startIndex {
                try SystemFile.makeDirectory(String(since[..<slash]), mode: 0o755)
            }
            try SystemFile.write((ticks.map { "\($0)\n" } ?? "\n").utf8, to: since, mode: 0o644)
        }

        func removeSince() throws { if SystemFile.exists(since) { try SystemFile.remove(since) } }
    }

    struct State {
        let bus: BusConfiguration
        let sockets: SocketLockdown
    }

    struct On: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Turns the lock-down on; the bus and systemd reload their configuration.",
            discussion: """
                Processes that start from now on cannot open Bluetooth sockets. Running processes can, until a reboot or the \
                restarts that accessoryctl lockdown status lists. Without --except, existing exceptions stay.
                """)
        @OptionGroup var options: BusOptions
        @OptionGroup var files: Files

        @Option(help: "A service that keeps Bluetooth sockets, with its child processes; repeatable.")
        var except: [String] = []

        func run() throws {
            try Ending.guarding {
                guard SystemFile.exists(files.policy) else {
                    throw Problem("\(files.policy) does not exist: is accessorysetupd installed?")
                }
                try files.removeDrafts()
                let old = try files.read()
                let sockets = try old.sockets.switchedOn(except: except.isEmpty ? nil : except)
                let new = State(bus: old.bus.isLocked ? old.bus : try old.bus.locked(including: files.policy), sockets: sockets)
                let isSame = old.bus.isLocked && sockets.isAs(old.sockets)
                if !isSame { try files.writeSince(nil) }
                do {
                    try files.write(new, over: old)
                    let isRead = try reload(options)
                    if !isSame, isRead { try files.writeSince(RunningProcess.now) }
                } catch {
                    // A lock-down that the bus does not know is none, and must not look like one.
                    try files.write(old, over: new)
                    if old.sockets.isOff { try files.removeSince() }
                    _ = try? reload(options)
                    throw Problem("the change was reverted, because the bus or systemd did not accept it: \(error)")
                }
                guard !isSame else { return StandardOutput.line("the lock-down is already on") }
                StandardOutput.line("the lock-down is on: only root and accessorysetupd may talk to org.bluez,")
                StandardOutput.line("and only \(sockets.exceptions.joined(separator: ", ")) can open Bluetooth sockets,")
                StandardOutput.line("after a reboot. Until then: accessoryctl lockdown status")
            }
        }
    }

    struct Off: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Turns the lock-down off; the bus and systemd reload their configuration.")
        @OptionGroup var options: BusOptions
        @OptionGroup var files: Files

        func run() throws {
            try Ending.guarding {
                try files.removeDrafts()
                let old = try files.read()
                let new = State(bus: old.bus.unlocked(), sockets: old.sockets.switchedOff())
                if old.bus.isLocked || !new.sockets.isAs(old.sockets) {
                    try files.write(new, over: old)
                    StandardOutput.line("the lock-down is off: BlueZ's own policy decides who may talk to org.bluez;")
                    StandardOutput.line("programs that started in the meantime need a restart to open Bluetooth sockets")
                } else {
                    StandardOutput.line("the lock-down is already off")
                }
                try files.removeSince()
                _ = try reload(options)
                guard new.sockets.isOff else {
                    throw Problem("not removed, because it was modified: \(new.sockets.changed.joined(separator: ", "))")
                }
            }
        }
    }

    struct Status: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows whether the lock-down is on, and the processes that it does not restrict yet.",
            discussion: """
                Exit status: 0 if it is on, 4 if processes that began before it are running, 1 if it is off.
                """)
        @OptionGroup var files: Files
        @OptionGroup var table: TableOptions

        func run() throws {
            try Ending.guarding {
                let state = try files.read()
                let lockdown = state.bus.lockdown(by: files.policy, state.sockets)
                guard lockdown == .on else { return try sayNotOn(lockdown, state) }
                let unlocked = UnlockedProcesses(
                    among: try RunningProcess.all(), since: files.sinceTicks, exceptions: state.sockets.exceptions
                ).found
                try table.paged { try say(unlocked, exceptions: state.sockets.exceptions) }
                if !unlocked.isEmpty { throw Ending.unlocked }
            }
        }

        private func sayNotOn(_ lockdown: BusConfiguration.Lockdown, _ state: State) throws {
            if table.json { Output.json(["lockdown": JSON(lockdown.rawValue)]) }
            guard lockdown == .broken else {
                if !table.json { StandardOutput.line("off") }
                throw Ending.failed
            }
            guard state.sockets.changed.isEmpty else {
                throw Problem(
                    "\(state.sockets.changed.joined(separator: ", ")) was modified: move it away, then run accessoryctl lockdown on"
                )
            }
            guard state.bus.isLocked, !SystemFile.exists(files.policy) else {
                throw Problem("only \(state.bus.isLocked ? "D-Bus is" : "sockets are") closed: run accessoryctl lockdown on or off")
            }
            throw Problem("switched on in \(files.file), but \(files.policy) does not exist: D-Bus is open")
        }

        private func say(_ unlocked: [(process: RunningProcess, filter: UnlockedProcesses.Filter)], exceptions: [String]) throws {
            if table.json {
                let processes = unlocked.map { process, filter in
                    JSON.object([
                        "pid": JSON(Int(process.pid)), "uid": JSON(Int(process.uid)), "program": JSON(process.name),
                        "unit": process.unit.map { JSON($0) } ?? .null, "filter": JSON(filter.rawValue),
                    ])
                }
                return Output.json(["lockdown": "on", "exceptions": JSON(exceptions), "processes": .array(processes)])
            }
            StandardOutput.line("on")
            guard !unlocked.isEmpty else { return }
            StandardOutput.line(
                "These processes can, or possibly can, still open Bluetooth sockets (except \(exceptions.joined(separator: ", "))), until"
            )
            StandardOutput.line("their unit restarts, their session ends, or the machine reboots:")
            let rows = unlocked.map { process, filter in
                [
                    "\(process.pid)", getpwuid(process.uid).map { String(cString: $0.pointee.pw_name) } ?? "\(process.uid)",
                    process.name, process.unit ?? "-", filter.rawValue,
                ]
            }
            try Table(["PID", "USER", "PROGRAM", "UNIT", "FILTER"], rows, table).write()
        }
    }

    /// Whether systemd has read its configuration: it may be on no bus, as in a container.
    private static func reload(_ options: BusOptions) throws -> Bool {
        let systemd = "org.freedesktop.systemd1"
        let connection = try Connection(Connection.Address(options.bus), loop: MainLoop())
        _ = try connection.callAndWait(Bus.name, Bus.path, Bus.name, "ReloadConfig")
        guard try connection.callAndWait(Bus.name, Bus.path, Bus.name, "NameHasOwner", [.string(systemd)]) == [.boolean(true)]
        else { return false }
        _ = try connection.callAndWait(
            systemd, "/org/freedesktop/systemd1", "\(systemd).Manager", "Reload", timeout: .seconds(120))
        return true
    }

    struct Problem: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Commands about apps: which there are, whether a manifest is right, and how the daemon sees a program. The last two
// look at files and processes themselves, with the daemon's own code, so they work before anything is installed.

internal import AccessoryBus
internal import AccessoryModel
internal import ArgumentParser
internal import AdminFiles
internal import CallerIdentity
internal import DBusKit
internal import Glibc
internal import JSONText
internal import Logging
internal import ProgramSupport

struct Apps: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lists the apps that have a manifest, and the errors in refused manifests.")
    @OptionGroup var options: BusOptions
    @OptionGroup var output: TableOptions

    func run() throws {
        try Ending.guarding {
            let inventory = try Inventory(options)
            let apps = inventory.apps
            let muted = try inventory.manager().mutedApps
            if output.json {
                return Output.json(
                    .array(
                        apps.map { app in
                            [
                                "id": JSON(app.id), "name": JSON(app.name), "source": JSON(app.source),
                                "socket": JSON(app.socket), "problems": JSON(app.problems),
                                "muted": JSON(muted.contains { $0.app == app.id }),
                            ]
                        }))
            }
            let table = try Table(
                ["ID", "NAME", "STATE", "SOURCE"],
                apps.map { [$0.id, $0.name, $0.problems.isEmpty ? "good" : "refused", $0.source] }, output)
            output.paged {
                table.write()
                for problem in apps.flatMap(\.problems) { StandardOutput.line(StandardOutput.printable(problem)) }
                for app in muted {
                    StandardOutput.line(
                        StandardOutput.printable("\(app.app): muted since \(Output.time(app.since)) by \(app.who)"))
                }
            }
        }
    }
}

struct Unmute: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lets an app ask again that a person has muted.",
        discussion: "For administrators and members of accessory-picker. accessoryctl status lists the muted apps.")
    @OptionGroup var options: BusOptions
    @Argument(help: "The app's identifier.", completion: Completions.apps) var app: String

    func run() throws {
        try Ending.guarding {
            do throws(BusError) {
                try unmute(over: Inventory.reach(options))
            } catch {
                // For administrators by polkit, who are none before they call an administrator's object.
                guard error.isStandard("UnknownMethod") else { throw error }
                try unmute(over: Inventory.connect(options))
            }
            StandardOutput.line("unmuted: \(StandardOutput.printable(app)) may ask again")
        }
    }

    private func unmute(over connection: Connection) throws(BusError) {
        _ = try connection.callAndWait(
            AccessoryBus.name, AccessoryBus.root, AccessoryBus.manager, "UnmuteApp", [.string(app)])
    }
}

struct App: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Shows details of an app.", subcommands: [Socket.self])

    struct Socket: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows the path of an app's own socket, and how to pass it to a container.",
            discussion: """
                The manifest requests the socket with Socket=yes, see accessory-setup-manifest(5). Exit status: 0 if the app has a socket, 1 otherwise.
                """)
        @OptionGroup var options: BusOptions
        @OptionGroup var output: JSONOption
        @Argument(help: "The app's identifier.", completion: Completions.apps) var app: String

        func run() throws {
            try Ending.guarding {
                guard let found = try Inventory(options).apps.first(where: { $0.id == app }) else {
                    throw BusError.failed("\(app): no such app; accessoryctl apps lists the known apps")
                }
                guard !found.socket.isEmpty else {
                    throw BusError.failed("\(app) has no socket: \(found.source) needs Socket=yes in [Application]")
                }
                if output.json { return Output.json(["app": JSON(found.id), "socket": JSON(found.socket)]) }
                let directory = found.socket.split(separator: "/").dropLast().map { "/\($0)" }.joined()
                StandardOutput.line("socket       \(StandardOutput.printable(found.socket))")
                StandardOutput.line("mount        \(StandardOutput.printable(directory)):/run/accessory-setup:ro")
                StandardOutput.line("environment  DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/accessory-setup/bus")
            }
        }
    }
}

struct Manifest: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Checks manifests.", subcommands: [Check.self])

    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Reports errors in manifests.", discussion: "Exit status: 0 if there are none, 1 otherwise.")
        @OptionGroup var output: JSONOption
        @Argument(help: "The files.", completion: .file(extensions: ["conf"])) var files: [String]

        func run() throws {
            let found = files.map { ($0, ManifestReader.read(path: $0)) }
            if output.json { Output.json(.array(found.map(Self.json))) }
            var isGood = true
            for (file, result) in found {
                switch result {
                case .success(let app): if !output.json { StandardOutput.line("\(file): good: \(app.id)") }
                case .failure(let problems):
                    isGood = false
                    for problem in problems.list where !output.json { StandardOutput.line(StandardOutput.printable("\(problem)")) }
                }
            }
            if !isGood { throw Ending.failed }
        }

        private static func json(_ file: String, _ result: Result<AppManifest, ManifestProblems>) -> JSON {
            switch result {
            case .success(let app): ["source": JSON(file), "id": JSON(app.id.rawValue), "problems": .array([])]
            case .failure(let problems): ["source": JSON(file), "id": .null, "problems": JSON(problems.list.map { "\($0)" })]
            }
        }
    }
}

struct WhoAmI: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "whoami",
        abstract: "Shows how the daemon identifies a program, and the manifest that matches.",
        discussion: """
            Inspects a process as the daemon does; without --pid, the one that called this command, such as your shell. Exit \
            status: 0 if exactly one manifest matches, 1 otherwise.
            """)

    @Option(help: "The process.")
    var pid: Int32?

    @Option(
        name: .customLong("apps"), help: "A directory of manifests, as for the daemon's option of this name; repeatable.",
        completion: .directory)
    var directories: [String] = []

    @OptionGroup var output: JSONOption

    func run() throws {
        try Ending.guarding {
            let caller = try ProcessFacts.caller(pid: pid ?? getppid())
            if output.json { return try writeJSON(of: caller) }
            StandardOutput.line("process \(caller.pid): \(StandardOutput.printable(caller.summary))")
            let match = try AppMatching.match(caller, in: manifests)
            StandardOutput.line("identified as \(match.app.id) by its \(match.basis.rawValue), according to \(match.app.source)")
            if [.executable, .flatpak].contains(match.basis) {
                // This command runs with its caller's rights; the daemon has fewer, unless the admin gave it more.
                let more = match.basis == .flatpak ? " and identify-by-flatpak.conf" : ""
                StandardOutput.line(
                    "the daemon sees this only if it may inspect the process: identify-by-executable.conf\(more), "
                        + "accessory-setup-manifest(5)"
                )
            }
        }
    }
    private var manifests: ManifestStore {
        ManifestStore(
            directories: directories.isEmpty ? ManifestStore.standardDirectories : directories, loop: MainLoop(),
            log: Logger(label: "whoami") { _ in SwiftLogNoOpLogHandler() })
    }

    private func writeJSON(of caller: Caller) throws {
        var json: [String: JSON] = [
            "pid": JSON(Int(caller.pid)), "uid": JSON(Int(caller.uid)), "executable": caller.executable.map { JSON($0) } ?? .null,
            "unit": caller.unit.map { JSON($0) } ?? .null, "app": .null, "basis": .null, "source": .null, "reason": .null,
        ]
        do throws(IdentityFailure) {
            let match = try AppMatching.match(caller, in: manifests)
            json["app"] = JSON(match.app.id.rawValue)
            json["basis"] = JSON(match.basis.rawValue)
            json["source"] = JSON(match.app.source)
            Output.json(.object(json))
        } catch {
            json["reason"] = JSON("\(error)")
            Output.json(.object(json))
            throw Ending.failed
        }
    }
}

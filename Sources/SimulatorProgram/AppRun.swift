// SPDX-License-Identifier: Apache-2.0
// An app on a machine of its own: a bus, the simulator, the daemon and a picker, in a private directory. The simulator
// is this process; the others are its children.

internal import AccessoryBus
internal import AccessoryModel
internal import AdminFiles
internal import CSystem
internal import DBusKit
internal import Glibc
internal import KeyFiles
internal import Logging
internal import ProgramSupport
internal import RadioSimulator
internal import SystemFiles

final class AppRun {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// A part that must not end before the app.
    private final class Service {
        let name: String
        let process: ChildProcess
        let output: LastLines

        init(_ name: String, _ process: ChildProcess, _ output: LastLines) {
            (self.name, self.process, self.output) = (name, process, output)
        }
    }

    /// The app's program, and its arguments.
    private struct Command {
        let path: String
        let arguments: [String]
    }

    /// The app's output while the picker has the terminal.
    private struct HeldOutput {
        private(set) var parts: [(Int32, ArraySlice<UInt8>)] = []
        private var count = 0
        /// So many bytes, and the app waits: it must not fill the memory while a person thinks.
        private static let most = 4 << 20

        var isFull: Bool { count > Self.most }

        mutating func add(_ number: Int32, _ bytes: ArraySlice<UInt8>) {
            parts.append((number, bytes))
            count += bytes.count
        }
    }

    private let command: Command
    private let loop = MainLoop()
    private let directory: String
    private var services: [Service] = []
    private var simulator: Simulator?
    private var app: ChildProcess?
    /// The picker in the terminal.
    private var picker: ChildProcess?
    private var manager = ManagerProperties()
    private var subscriptions: [Subscription] = []
    private var connection: Connection?
    /// Nil when the app's output is passed on at once.
    private var held: HeldOutput?
    /// Why the run ends before the app.
    private var failure: Failure?

    /// - Throws: if the program does not exist, or no private directory can be made.
    init(_ command: [String]) throws {
        self.command = Command(path: try Self.find(command[0]), arguments: Array(command.dropFirst()))
        directory = try Self.makeDirectory()
        csystem_adopt_orphans()
        loop.onSignal(SIGCHLD) { [unowned self] in reap() }
        for number in [SIGINT, SIGTERM, SIGHUP] {
            loop.onSignal(number) { [unowned self] in stop(number) }
        }
    }

    // MARK: From the bus to the app

    /// - Returns: the app's exit status.
    /// - Throws: if a part cannot run, or ends before the app.
    func run(_ scenario: Scenario, manifests: [String], pick: String?) throws -> Int32 {
        for each in ["apps", "app", "input", "routes"] { try SystemFile.makeDirectory("\(directory)/\(each)") }
        let apps = try manifests.map(declare)
        // The manager of this process expects nothing from the daemon.
        unsetenv("NOTIFY_SOCKET")
        let bus = try startBus()
        let simulator = try Simulator(
            scenario, bus: .server(bus), inputDirectory: "\(directory)/input", loop: loop, log: Logger(label: "accessory-sim"))
        self.simulator = simulator
        let connection = try Connection(.server(bus), loop: loop)
        self.connection = connection
        follow(connection)
        let daemon = try start(
            "accessorysetupd",
            [
                "--bus", bus, "--state-directory", "\(directory)/state", "--apps", "\(directory)/apps", "--policy",
                "\(directory)/policy", "--config", "/dev/null", "--input-directory", "\(directory)/input", "--route-directory",
                "\(directory)/routes", "--view", "\(directory)/view", "--app-sockets", "\(directory)/app",
            ])
        try wait { !manager.version.isEmpty }
        // The path of a socket is short; an identifier may be long.
        let socket = "\(directory)/app-bus"
        guard symlink("app/\(apps[0])/bus", socket) == 0, SystemFile.exists(socket) else {
            throw Failure(description: "no socket for \(apps[0]):\n\(daemon.output)")
        }
        if let pick {
            let arguments = ["picker", "--bus", bus, "--stay", "--pick", pick, "--accept-passkey"]
            try start("accessoryctl", arguments) { StandardOutput.errorLine("picker: \($0)") }
        } else {
            standBy(connection)
        }
        // An app may ask at once.
        try wait { manager.isPickerAvailable }

        setenv("DBUS_SYSTEM_BUS_ADDRESS", Self.address(of: socket), 1)
        // The view of another daemon, for the Swift modules.
        unsetenv("ACCESSORY_SETUP_BUS")
        let app = try ChildProcess(
            command.path, command.arguments, isApart: false, last: SIGKILL, on: loop,
            take: pick == nil ? { [unowned self] in pass($0, $1) } : nil)
        self.app = app
        try wait {
            if pick == nil, app.status == nil { try showPicker(bus) }
            return app.status != nil
        }
        return app.status ?? 0
    }

    /// Runs the loop.
    ///
    /// - Throws: if a service ends before, or the run has failed.
    private func wait(until happens: () throws -> Bool) throws {
        while try !happens() {
            if let ended = services.first(where: { $0.process.status != nil }), let status = ended.process.status {
                throw Failure(description: "\(ended.name) has ended with status \(status):\n\(ended.output)")
            }
            if let failure { throw failure }
            loop.iterate()
        }
    }

    /// - Returns: its address.
    private func startBus() throws -> String {
        let address = Self.address(of: "\(directory)/bus")
        let configuration = """
            <busconfig>
              <type>session</type>
              <listen>\(address)</listen>
              <auth>EXTERNAL</auth>
              <policy context="default">
                <allow send_destination="*" eavesdrop="true"/>
                <allow eavesdrop="true"/>
                <allow own="*"/>
              </policy>
            </busconfig>
            """
        try SystemFile.write(configuration.utf8, to: "\(directory)/bus.conf")
        var isListening = false
        try start("dbus-daemon", ["--config-file=\(directory)/bus.conf", "--nofork", "--print-address=1"]) {
            if $0.hasPrefix("unix:") { isListening = true }
        }
        try wait { isListening }
        return address
    }

    @discardableResult
    private func start(_ name: String, _ arguments: [String], line: @escaping (String) -> Void = { _ in }) throws -> Service {
        let output = LastLines(line)
        let process = try ChildProcess(Self.findPart(name), arguments, isApart: true, last: SIGKILL, on: loop) { output.add($1) }
        let service = Service(name, process, output)
        services.append(service)
        return service
    }

    /// Follows the daemon's state from its start on.
    private func follow(_ connection: Connection) {
        let watch = connection.watchName(AccessoryBus.name) { [unowned self] owner in
            guard let owner else { return }
            subscriptions.append(
                connection.subscribe(
                    sender: owner, path: AccessoryBus.root, interface: Bus.properties, member: "PropertiesChanged",
                    argument0: AccessoryBus.manager
                ) { [unowned self] in manager.update(wire: $0.changedProperties?.values ?? [:]) })
            refresh()
        }
        subscriptions.append(watch)
    }

    private func refresh(then: @escaping () -> Void = {}) {
        let arguments: [DBusValue] = [.string(AccessoryBus.manager)]
        connection?.call(AccessoryBus.name, AccessoryBus.root, Bus.properties, "GetAll", arguments) { [unowned self] in
            manager.update(wire: (try? $0.get())?.first?.vardictValue ?? [:])
            then()
        }
    }

    // MARK: The terminal

    /// Takes pickers until the terminal's program runs, which the daemon then hands them to. That program runs only
    /// while a picker is open, so that the terminal is the app's in between.
    private func standBy(_ connection: Connection) {
        var capabilities = PickerCapabilities()
        capabilities.isStandby = true
        connection.call(AccessoryBus.name, AccessoryBus.root, AccessoryBus.manager, "RegisterPicker", [capabilities.wire]) {
            [unowned self] in
            if let error = $0.error { failure = Failure(description: "no picker: \(error.message)") }
        }
    }

    /// Starts the picker once one is open, and gives the terminal back once it has ended.
    private func showPicker(_ bus: String) throws {
        if picker == nil, manager.pickers.contains(where: \.isShowing) {
            held = HeldOutput()
            picker = try ChildProcess(
                Self.findPart("accessoryctl"), ["picker", "--bus", bus], isApart: false, last: SIGTERM, on: loop)
        }
        guard held != nil, let status = picker?.status else { return }
        guard (0...2).contains(status) else { throw Failure(description: "accessoryctl has ended with status \(status)") }
        passOn()
        // The picker may have ended before its signal arrived here.
        refresh { [unowned self] in picker = nil }
    }

    private func pass(_ number: Int32, _ bytes: ArraySlice<UInt8>) {
        guard held == nil else {
            held?.add(number, bytes)
            if held?.isFull == true { app?.pause() }
            return
        }
        StandardOutput.put(bytes, number)
    }

    private func passOn() {
        let all = held?.parts ?? []
        held = nil
        app?.resume()
        for (number, bytes) in all { pass(number, bytes) }
    }

    // MARK: The end

    private func reap() -> Bool {
        var status: Int32 = 0
        while case let pid = waitpid(-1, &status, WNOHANG), pid > 0 {
            (services.map(\.process) + [app, picker].compactMap { $0 }).first { $0.pid == pid }?.ended(status)
        }
        return true
    }

    /// Passes a signal on to the app, which has five seconds to end.
    private func stop(_ number: Int32) -> Bool {
        guard let app else {
            failure = Failure(description: "ended by signal \(number)")
            return true
        }
        // The terminal sends Ctrl-C to the app, too, which may continue.
        if number == SIGINT, (0...2).contains(where: { tcgetpgrp($0) == getpgrp() }) { return true }
        app.signal(number)
        loop.after(.seconds(5)) { app.signal(SIGKILL) }
        return true
    }

    /// Ends all processes, and removes the directory.
    func end() {
        if let picker {
            // It restores the terminal.
            picker.signal(SIGTERM)
            _ = loop.run(until: { picker.status != nil }, timeout: .seconds(5))
            passOn()
        }
        simulator = nil
        // Also processes that the app has left.
        let list = "/proc/self/task/\(getpid())/children"
        while case let children = (try? SystemFile.text(list))?.split(separator: " ").compactMap({ pid_t($0) }) ?? [],
            !children.filter({ kill($0, SIGKILL) == 0 && waitpid($0, nil, 0) == $0 }).isEmpty
        {}
        Self.removeTree(directory)
    }

    private static func removeTree(_ path: String) {
        guard remove(path) != 0 else { return }
        for name in (try? SystemFile.names(in: path)) ?? [] { removeTree("\(path)/\(name)") }
        _ = remove(path)
    }

    // MARK: Files

    /// A directory for this user alone.
    private static func makeDirectory() throws -> String {
        let given = ["XDG_RUNTIME_DIR", "TMPDIR"].compactMap { (name: String) in getenv(name).map { String(cString: $0) } }
        for parent in given + ["/tmp"] where parent.hasPrefix("/") {
            var path = Array("\(parent)/accessory-sim.XXXXXX".utf8CString)
            // The result points into the array, which need not stay after a call with `&path`.
            let made = path.withUnsafeMutableBufferPointer { $0.baseAddress.flatMap(mkdtemp).map { String(cString: $0) } }
            if let made { return made }
        }
        throw SystemFileError("/tmp")
    }

    /// Copies a manifest, and adds the app's socket, by which PROGRAM is the app wherever it lies: every program that
    /// connects there is.
    ///
    /// - Returns: the app's identifier.
    private func declare(_ path: String) throws -> AppID {
        let parts = path.split(separator: "/")
        let (name, folder) = (parts.last.map(String.init) ?? path, path.hasPrefix("/") ? "/" : "")
        var text = try SystemFile.text(path)
        text += "\n[Application]\nSocket=yes\nSocketUser=\(getuid())\nSocketGroup=\(getgid())\nSocketMode=600\n"
        if let plist = try KeyFile(contents: text, path: path).string("AccessorySetup", "InfoPlist"), !SystemFile.exists(plist),
            let file = plist.split(separator: "/").last,
            let beside = realpath(folder + (parts.dropLast() + [file]).joined(separator: "/"), nil)
        {
            // Not installed yet.
            text += "[AccessorySetup]\nInfoPlist=\(String(cString: beside))\n"
            free(beside)
        }
        let copy = "\(directory)/apps/\(name.hasSuffix(".conf") ? name : name + ".conf")"
        guard !SystemFile.exists(copy) else { throw Failure(description: "\(path): another manifest has this name") }
        try SystemFile.write(text.utf8, to: copy)
        switch ManifestReader.read(path: copy) {
        case .success(let manifest): return manifest.id
        case .failure(let problems):
            let list = problems.list.map { KeyFileProblem(file: path, line: $0.line, key: $0.key, reason: $0.reason).description }
            throw Failure(description: list.joined(separator: "\n"))
        }
    }

    /// A path as an address of D-Bus.
    private static func address(of socket: String) -> String {
        let plain = Set("-_/.*0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)
        return socket.utf8.reduce(into: "unix:path=") { result, byte in
            let digits = String(byte, radix: 16)
            result += plain.contains(byte) ? String(UnicodeScalar(byte)) : "%" + (digits.utf8.count == 1 ? "0" : "") + digits
        }
    }

    /// A program of this project beside this one, where that was called by a path; or one in PATH.
    private static func findPart(_ name: String) throws -> String {
        let own = CommandLine.arguments[0]
        if let slash = own.lastIndex(of: "/"), case let beside = own[...slash] + name, access(String(beside), X_OK) == 0 {
            return String(beside)
        }
        do {
            return try find(name)
        } catch {
            throw Failure(description: name == "dbus-daemon" ? "\(error) (Debian's package dbus-daemon has it)" : "\(error)")
        }
    }

    /// - Throws: if there is no such program, at the path or in PATH.
    private static func find(_ name: String) throws -> String {
        if name.utf8.contains(UInt8(ascii: "/")) {
            guard access(name, X_OK) == 0 else { throw SystemFileError(name) }
            return name
        }
        let directories = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        for directory in directories.split(separator: ":") {
            if access("\(directory)/\(name)", X_OK) == 0 { return "\(directory)/\(name)" }
        }
        throw Failure(description: "\(name): no such program in PATH")
    }
}

/// The lines of a program's output: each one as it comes, and the last ones afterwards.
private final class LastLines: CustomStringConvertible {
    private let take: (String) -> Void
    private var lines: [String] = []
    private var unfinished: [UInt8] = []

    init(_ take: @escaping (String) -> Void) { self.take = take }

    func add(_ bytes: ArraySlice<UInt8>) {
        var parts = (unfinished + bytes).split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        unfinished = Array(parts.removeLast())
        for part in parts {
            let line = String(decoding: part, as: UTF8.self)
            take(line)
            lines = lines.suffix(19) + [line]
        }
    }

    var description: String { lines.map(StandardOutput.printable).joined(separator: "\n") }
}

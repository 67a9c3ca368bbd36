// SPDX-License-Identifier: Apache-2.0
// `accessoryctl picker`: which view, which answers, which exit status.

internal import AccessoryModel
internal import ArgumentParser
internal import DBusKit
internal import Glibc
internal import ProgramSupport

struct Picker: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows pickers in this terminal, and lets you choose.",
        discussion: """
            Waits for an app to ask for a picker and shows it. With a terminal: arrow keys, Return to choose, Esc to cancel. On a \
            dumb terminal, or through a pipe: a numbered list, answered by lines. With --pick, no person is asked.

            Exit status: 0 an accessory was set up, 1 the run ended without one, 2 the person cancelled, 3 the daemon cannot be \
            reached or went away, 64 wrong arguments.
            """)

    @OptionGroup var options: BusOptions

    @Option(help: "Choose the first offer with this name (the app's or the advertised one), without asking.")
    var pick: String?

    @Option(
        help: ArgumentHelp("With --pick: wait at most this many seconds, 0.1 to 86400, then exit with 1.", valueName: "seconds"))
    var timeout: Double?

    @Flag(help: "With --pick: accept numeric comparisons and other questions.")
    var acceptPasskey = false

    @Option(help: "With --pick: the passkey that the accessory shows, 0–999999.")
    var passkey: UInt32?

    @Option(help: "With --pick: the accessory's PIN.")
    var pin: String?

    @Option(help: "With --pick: the accessory's name if the app asks for one; without it the name is kept.")
    var rename: String?

    @Flag(help: "Wait for the next picker instead of exiting after the first.")
    var stay = false

    @Flag(help: "Use the numbered list on every terminal.")
    var plain = false

    func validate() throws {
        if pick == nil, acceptPasskey || passkey != nil || pin != nil || rename != nil || timeout != nil {
            throw ValidationError("--accept-passkey, --passkey, --pin, --rename and --timeout need --pick")
        }
        if let timeout, !Limits.discoveryTimeout.contains(timeout) {
            throw ValidationError("--timeout: \(timeout): must be 0.1 to 86400 seconds")
        }
        if let passkey, !Limits.passkey.contains(passkey) { throw ValidationError("--passkey: \(passkey): must be 0 to 999999") }
    }

    func run() throws {
        try Ending.guarding {
            let loop = MainLoop()
            var client: PickerClient?
            let answers = UnattendedView.Answers(
                name: pick ?? "", accepts: acceptPasskey, passkey: passkey, pin: pin, rename: rename)
            let capable =
                isatty(0) == 1 && isatty(1) == 1 && !plain && getenv("TERM").map { String(cString: $0) } ?? "dumb" != "dumb"
            let view: any PickerView
            if pick != nil {
                view = UnattendedView(answers) { client }
            } else if capable {
                view = ScreenView(loop) { client }
            } else {
                view = LineView(loop) { client }
            }
            var status = ExitCode.success
            let picker = try PickerClient(Connection.Address(options.bus), loop: loop, view: view)
            client = picker
            picker.onEnd = { added, cancelled in
                status = added ? .success : cancelled && pick == nil ? Ending.cancelled : Ending.failed
                if !stay { loop.quit() }
            }
            picker.onDaemonGone = {
                StandardOutput.errorLine("accessoryctl: accessorysetupd went away")
                status = Ending.unreachable
                loop.quit()
            }
            for signal in [SIGTERM, SIGINT, SIGHUP] {
                loop.onSignal(signal) {
                    status = Ending.cancelled
                    loop.quit()
                    return false
                }
            }
            if let timeout {
                loop.after(.seconds(timeout)) {
                    StandardOutput.errorLine("accessoryctl: nothing was set up within \(timeout) s")
                    status = Ending.failed
                    loop.quit()
                }
            }
            try picker.start()
            loop.run()
            (view as? ScreenView)?.restore()
            if status != .success { throw status }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// Long tables on a terminal go through a pager, as those of systemctl do: less scrolls sideways through wide lines, and
// ends at once where everything fits on the screen.

internal import Glibc

/// Standard output through `$PAGER`, or less, until `close`.
struct Pager {
    private let pipe: UnsafeMutablePointer<FILE>
    private let output: Int32

    /// Writes through a pager while `body` runs, if standard output is a terminal.
    static func around(_ body: () throws -> Void) rethrows {
        let pager = Pager()
        defer { pager?.close() }
        try body()
    }

    private init?() {
        guard isatty(1) == 1 else { return nil }
        // Ends on one screen, leaves colours alone, chops lines, keeps the screen, ends at ^C.
        setenv("LESS", "FRSXK", 0)
        setenv("LESSCHARSET", "utf-8", 0)
        // An administrator's pager must not start shells and editors with the rights of sudo.
        setenv("LESSSECURE", "1", 1)
        // A gateway may have no less.
        let command = #"set -- ${PAGER-less}; command -v "$1" > /dev/null || set -- cat; exec "$@""#
        guard let pipe = popen(command, "we") else { return nil }
        self.pipe = pipe
        output = fcntl(1, F_DUPFD_CLOEXEC, 3)
        dup2(fileno(pipe), 1)
        // ^C is for the pager, and one that has read enough is no failure.
        signal(SIGINT, SIG_IGN)
        signal(SIGPIPE, SIG_IGN)
    }

    /// Waits until the person has read.
    private func close() {
        dup2(output, 1)
        Glibc.close(output)
        pclose(pipe)
    }
}

// SPDX-License-Identifier: Apache-2.0
// The daemon's list of calls, printed: as JSON for Tests/Answers, which plays every answer to each, or with --markdown
// as Docs/Calls.md.

import CallsOut
import DBusKit

func seconds(_ timeout: Duration) -> Int { Int(timeout.components.seconds) }

func quoted(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
        if scalar == "\"" || scalar == "\\" { result += "\\" }
        result.unicodeScalars.append(scalar)
    }
    return result + "\""
}

func list(_ texts: [String]) -> String { "[" + texts.map(quoted).joined(separator: ", ") + "]" }

func json(_ name: String, _ method: RemoteMethod, errors: [String]) -> String {
    """
    {"name": \(quoted(name)), "service": \(quoted(method.service)), "interface": \(quoted(method.interface)), \
    "member": \(quoted(method.member)), "about": \(list(method.about)), "takes": \(quoted(method.takes)), \
    "returns": \(quoted(method.returns)), "timeout": \(seconds(method.timeout)), "errors": \(list(errors))}
    """
}

func row(_ call: CallOut) -> String {
    let method = call.method
    let about = method.about.isEmpty ? "" : " of `\(method.about.joined(separator: "."))`"
    let member = method.member == "Ping" ? "`Ping`" : "`\(method.interface).\(method.member)`"
    let errors = call.errors.map { "`\($0.split(separator: ".").last ?? "")`" }.joined(separator: ", ")
    return
        "| \(call.rawValue) | \(member)\(about) | \(seconds(method.timeout)) s | \(errors) | \(call.distinctErrors) | \(call.unanswered) |"
}

if CommandLine.arguments.dropFirst().first == "--markdown" {
    print(
        """
        # Calls

        All calls that the daemon makes to other services, made by `make calls` from the list in the code (`Sources/CallsOut`);
        a call that is not in it does not compile, or does not pass `make lint`. An answer of other types than agreed, or one
        that is too large, counts as none. `Tests/Answers` plays to each: every error of this table, no answer, an answer after
        the time-out, two answers, an answer after its object or its service was removed, one of a wrong type, and one of 16
        MiB; `make answers` plays the whole list, `make test` a part.

        A person or an app that waits gets the outcome within 30 s of the call, unless a person is waited for: polkit asks
        for a password, and an accessory's prompt is answered by a person at the picker or at the accessory. A call that the
        view passes on is the app's own, which the app may cancel.

        | call | method | time-out | documented errors | errors with a meaning of their own | without an answer |
        | --- | --- | --- | --- | --- | --- |
        """)
    for call in CallOut.allCases { print(row(call)) }
    print(
        """

        A connection asks the bus itself for these, each for 25 s:
        \(BusCall.allCases.map { "`\($0.method.member)`" }.joined(separator: ", ")).
        A name's owner is asked for again after a second when that fails. systemd is notified over its socket
        (`sd_notify`), without a call.
        """)
} else {
    let calls =
        CallOut.allCases.map { json($0.rawValue, $0.method, errors: $0.errors) }
        + BusCall.allCases.map { json("bus." + $0.rawValue, $0.method, errors: []) }
    print("[\n" + calls.joined(separator: ",\n") + "\n]")
}

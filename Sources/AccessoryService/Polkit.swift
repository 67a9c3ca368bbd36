// SPDX-License-Identifier: Apache-2.0
// polkit, where it runs: an administrator who is not root may become an admin of ours, for the life of the connection,
// by proving it. A question without a waiting caller is withdrawn from the person's screen.

internal import CallsOut
internal import DBusKit
internal import Logging

final class Polkit {
    private static let path: ObjectPath = "/org/freedesktop/PolicyKit1/Authority"
    static let manage = "org.accessorysetup1.manage"

    private let connection: Connection
    private let log: Logger
    private var asked = 0

    init(on connection: Connection, log: Logger) {
        self.connection = connection
        self.log = log
    }

    /// A question to polkit, which may ask a person.
    final class Question {
        private let polkit: Polkit
        /// By which polkit knows it: of a connection's questions no two may have the same.
        private let id: String
        fileprivate var call: PendingCall?

        fileprivate init(_ id: String, to polkit: Polkit) {
            self.id = id
            self.polkit = polkit
        }

        /// The caller no longer waits: the answer, when it arrives, has no effect.
        func withdraw() {
            guard let call, call.isPending else { return }
            call.cancel()
            end()
        }

        /// Has polkit forget it.
        fileprivate func end() { polkit.end(id) }
    }

    /// Asks whether a client may do `action`; the person behind it may be asked for a password. Without polkit: no.
    func check(_ client: String, _ action: String, completion: @escaping (Bool) -> Void) -> Question {
        asked += 1
        let id = String(asked)
        let question = Question(id, to: self)
        question.call = connection.call(
            .authorization, at: Self.path,
            [
                .structure([.string("system-bus-name"), .vardict(["name": .string(client)])]), .string(action),
                .dictionary(key: "s", value: "s", []),
                // AllowUserInteraction.
                .uint32(1), .string(id),
            ]
        ) { result in
            // Our own time is over, and the person's dialog is still there.
            if case .failure(let error) = result, error.isStandard("NoReply") { question.end() }
            completion((try? result.get())?.first?.structureValue?.first?.booleanValue == true)
        }
        return question
    }

    private func end(_ id: String) {
        connection.call(.authorizationEnd, at: Self.path, [.string(id)]) { [log] result in
            // polkit may have answered just before, and does not know it then.
            if case .failure(let error) = result {
                log.debug("could not cancel the polkit request", metadata: ["error": "\(error)"])
            }
        }
    }
}

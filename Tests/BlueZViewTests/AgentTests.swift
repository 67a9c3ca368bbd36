// SPDX-License-Identifier: Apache-2.0
// The agent that a client of the view registers: the answers are bluetoothd's.

import DBusKit
import Testing

@testable import BlueZView

struct AgentTests {
    private static let agent = DBusValue.objectPath("/agent")
    private static let other = DBusValue.objectPath("/other")

    private func play(_ calls: [(String, [DBusValue])]) -> [String] {
        var agent = Agent()
        return calls.map { member, arguments in
            do throws(BusError) {
                try agent.handle(member, arguments)
                return "taken"
            } catch {
                return String(error.name.split(separator: ".").last ?? "")
            }
        }
    }

    @Test func oneForEachClient() {
        let answers = play([
            ("RequestDefaultAgent", [Self.agent]), ("RegisterAgent", [Self.agent, .string("")]),
            ("RegisterAgent", [Self.agent, .string("NoInputNoOutput")]), ("RequestDefaultAgent", [Self.other]),
            ("RequestDefaultAgent", [Self.agent]), ("UnregisterAgent", [Self.other]), ("UnregisterAgent", [Self.agent]),
            ("UnregisterAgent", [Self.agent]), ("RegisterAgent", [Self.other, .string("KeyboardDisplay")]),
        ])
        #expect(
            answers == [
                "DoesNotExist", "taken", "AlreadyExists", "DoesNotExist", "taken", "DoesNotExist", "taken", "DoesNotExist", "taken",
            ])
    }

    @Test func wrongArgumentsChangeNothing() {
        let answers = play([
            ("RegisterAgent", []), ("RegisterAgent", [Self.agent]), ("RegisterAgent", [Self.agent, .string("Telepathy")]),
            ("RegisterAgent", [.string("/agent"), .string("")]), ("RegisterAgent", [Self.agent, .string(""), .string("")]),
            ("UnregisterAgent", [Self.agent, .string("")]), ("Explode", [Self.agent]), ("UnregisterAgent", [Self.agent]),
        ])
        #expect(answers.dropLast().allSatisfy { $0 == "InvalidArguments" } && answers.last == "DoesNotExist")
    }
}

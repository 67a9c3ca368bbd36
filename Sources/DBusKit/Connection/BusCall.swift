// SPDX-License-Identifier: Apache-2.0
// What a connection asks of the bus itself: to be let in, to have a name, who has one, and which signals it wants.

/// A call to the bus that a connection makes by itself.
public enum BusCall: String, CaseIterable, Sendable {
    case hello, match, matchEnd, nameOwner, nameRequest

    /// What is called.
    public var method: RemoteMethod {
        let call = { (member: String, takes: String, returns: String) in
            RemoteMethod(Bus.name, Bus.name, member, takes: takes, returns: returns, timeout: .seconds(25))
        }
        return switch self {
        case .hello: call("Hello", "", "s")
        case .match: call("AddMatch", "s", "")
        case .matchEnd: call("RemoveMatch", "s", "")
        case .nameOwner: call("GetNameOwner", "s", "s")
        case .nameRequest: call("RequestName", "su", "u")
        }
    }
}

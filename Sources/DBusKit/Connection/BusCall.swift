// SPDX-License-Identifier: Apache-2.0
// Calls to the bus itself: to be admitted, to own a name, to find an owner, and to get signals.

/// A call to the bus that a connection makes by itself.
public enum BusCall: String, CaseIterable, Sendable {
    case hello, match, matchEnd, nameOwner, nameRequest

    /// The method that is called.
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

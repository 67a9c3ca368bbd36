// SPDX-License-Identifier: Apache-2.0
// The programs that have registered to show pickers; the first of them shows the next one.

internal import AccessoryModel

/// A program that shows pickers.
public struct PickerProgram: Hashable, Sendable {
    /// Its connection.
    public let client: ClientID
    /// What it calls itself for people; empty when it gave none.
    public internal(set) var label: String
    /// Its user's account name, or the number of one without a name, as it was when the program registered.
    public let user: String
    /// When it registered, seconds since 1970.
    public let since: Int64
}

struct PickerPrograms {
    private(set) var all: [PickerProgram] = []

    var first: ClientID? { all.first?.client }

    /// - Parameters:
    ///   - label: what the program calls itself; nil leaves what it has said before.
    ///   - user: asked for of a program that is new.
    ///   - now: seconds since 1970.
    /// - Returns: whether it is new.
    /// - Throws: `InvalidRequest` past `Limits.pickers`.
    mutating func register(
        _ client: ClientID, label: String?, user: @autoclosure () -> String, now: Int64
    ) throws(SetupError) -> Bool {
        if let index = index(of: client) {
            if let label { all[index].label = label }
            return false
        }
        guard all.count < Limits.pickers else {
            throw .invalid("RegisterPicker", client, "\(Limits.pickers) pickers are registered already")
        }
        all.append(PickerProgram(client: client, label: label ?? "", user: user(), since: now))
        return true
    }

    /// - Returns: whether it was registered.
    mutating func unregister(_ client: ClientID) -> Bool {
        guard let index = index(of: client) else { return false }
        all.remove(at: index)
        return true
    }

    private func index(of client: ClientID) -> Int? { all.firstIndex { $0.client == client } }
}

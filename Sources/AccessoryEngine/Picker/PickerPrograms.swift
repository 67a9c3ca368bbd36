// SPDX-License-Identifier: Apache-2.0
// The programs that have registered to show pickers; the first of them shows the next one.

internal import AccessoryModel

struct PickerPrograms {
    private(set) var all: [ClientID] = []

    var first: ClientID? { all.first }

    /// - Returns: whether it is new.
    /// - Throws: `InvalidRequest` past `Limits.pickers`.
    mutating func register(_ client: ClientID) throws(SetupError) -> Bool {
        guard !all.contains(client) else { return false }
        guard all.count < Limits.pickers else {
            throw .invalid("RegisterPicker", client, "\(Limits.pickers) pickers are registered already")
        }
        all.append(client)
        return true
    }

    /// - Returns: whether it was registered.
    mutating func unregister(_ client: ClientID) -> Bool {
        guard let index = all.firstIndex(of: client) else { return false }
        all.remove(at: index)
        return true
    }
}
